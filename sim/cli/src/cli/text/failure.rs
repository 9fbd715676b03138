//! The failure block: claim, seed and time; holders of the address and since when; the faults and mutations needed; digest and plan; the
//! command that replays it.

use ipam_reports::finding::{Kind, Violation};
use ipam_reports::shrink::Shrunk;
use ipam_reports::{Digest, Seconds};

use super::Paint;

/// A failure block, made from a listed failure of a sweep or from a violation of a replay.
pub(super) struct Block<'a> {
    /// The word with which the block begins, at most five letters.
    pub(super) word: &'a str,
    pub(super) claim: &'a str,
    pub(super) kind: Kind,
    pub(super) seed: u64,
    pub(super) at: Seconds,
    pub(super) detail: &'a [String],
    pub(super) needs: Option<&'a str>,
    pub(super) digest: Option<Digest>,
    pub(super) plan: Option<&'a str>,
    /// The shrunk plan.
    pub(super) shrunk: Option<&'a Shrunk>,
    /// The command that replays the failure.
    pub(super) replay: Option<String>,
}

impl<'a> Block<'a> {
    /// The block of a violation in a replay; its digest and plan are printed elsewhere.
    pub(super) fn of(violation: &'a Violation, seed: u64) -> Self {
        Self {
            word: "FAIL",
            claim: &violation.claim,
            kind: violation.kind,
            seed,
            at: violation.at,
            detail: &violation.detail,
            needs: violation.needs.as_deref(),
            digest: None,
            plan: None,
            shrunk: None,
            replay: None,
        }
    }

    pub(super) fn lines(&self, paint: Paint) -> Vec<String> {
        let word = format!("{:<5}", self.word);
        let word = if self.word == "FAIL" { paint.bad(&word) } else { paint.good(&word) };
        let at = if self.kind == Kind::Eventually { "still false at" } else { "at" };
        let mut lines = vec![format!("{word} {}    seed {}  {at} {}", paint.bold(self.claim), self.seed, self.at)];
        lines.extend(self.detail.iter().flat_map(|detail| detail.lines()).map(|line| format!("      {line}")));
        lines.extend(self.needs.map(|needs| format!("      needs  {needs}")));
        lines.extend(origin(self.digest, self.plan, paint));
        if let Some(shrunk) = self.shrunk {
            lines.push(format!("      shrunk {shrunk}"));
            lines.extend(origin(Some(shrunk.digest), shrunk.plan.as_deref(), paint));
        }
        lines.extend(self.replay.as_ref().map(|replay| format!("replay  {}", paint.bold(replay))));
        lines
    }
}

/// The location of a plan and the digest of its run.
fn origin(digest: Option<Digest>, plan: Option<&str>, paint: Paint) -> Option<String> {
    let digest = digest.map(|digest| format!("digest {digest}"));
    let plan = plan.map(|plan| format!("plan {plan}"));
    let origin: Vec<_> = digest.into_iter().chain(plan).collect();
    (!origin.is_empty()).then(|| paint.dim(&format!("      {}", origin.join("   "))))
}
