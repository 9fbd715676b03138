//! The result of `shrink`: the failure block of the smaller plan, and its origin.

use ipam_reports::ShrinkReport;
use ipam_reports::command::replay_command;

use super::Paint;
use super::failure::Block;

/// The failure block of the smaller plan, its reduction in size, and a note if it may become smaller still or did not become smaller.
pub fn shrink(report: &ShrinkReport, paint: Paint) -> String {
    let (shrunk, needs) = (&report.shrunk, report.needs.as_ref().map(ToString::to_string));
    let block = Block {
        word: "FAIL",
        claim: &report.claim,
        kind: report.kind,
        seed: report.seed,
        at: report.at,
        detail: &report.detail,
        needs: needs.as_deref(),
        digest: Some(shrunk.digest),
        plan: shrunk.plan.as_deref(),
        shrunk: None,
        replay: Some(replay_command(shrunk.plan.as_deref(), &report.plan, report.seed)),
    };
    let mut lines = block.lines(paint);
    let headline = if shrunk.cut_off.is_some() { paint.warn("Shrunk") } else { paint.good("Shrunk") };
    lines.push(format!("{headline}: {shrunk}."));
    if shrunk.cut_off.is_some() {
        let more = "something smaller may fail, too; run it again on the smaller plan, or with a larger --budget or --runs";
        lines.push(format!("note  {more}"));
    }
    if shrunk.size == shrunk.from && shrunk.cut_off.is_none() {
        lines.push("note  nothing can be left out".to_owned());
    }
    lines.join("\n") + "\n"
}
