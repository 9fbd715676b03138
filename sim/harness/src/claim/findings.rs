//! What claims report.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use sim_config::time::SimTime;

use crate::check::OLDER_VERSION;

/// How many violations of one claim a run keeps; later ones are mostly the echo of the first. Violations for which
/// there is an excuse are counted apart: they must not keep one without excuse from being found.
const KEPT_PER_CLAIM: usize = 3;

/// Where claims report to.
#[derive(Default)]
pub struct Findings {
    pub(crate) at: SimTime,
    /// Counts what claims are asked about.
    pub event: u64,
    /// The number of the event that they are asked about, in the trace of the run; `None` = a time has passed.
    pub number: Option<u64>,
    /// The claim that observes.
    pub current: usize,
    /// With the claim that is violated.
    pub violations: Vec<(usize, Found)>,
    /// For each claim: whether it has held; only those of kind `sometimes` and `reachable` say so.
    pub held: Vec<bool>,
    /// For each claim: how often it looked at something that could have been false.
    pub judged: Vec<u32>,
    /// For each claim: without and with an excuse.
    pub kept: Vec<[usize; 2]>,
    /// When an older version of the system under test, or what it left behind, is the reason of whatever is wrong.
    pub(crate) unsettled: Range<SimTime>,
    /// By when something must have happened, and which claim says so; the next one on top.
    pub due: BinaryHeap<Reverse<(SimTime, usize)>>,
}

/// One violation of a claim: when it was found, at which event, and what the claim tells.
pub struct Found {
    pub(crate) at: SimTime,
    /// Counts what claims were asked about until then.
    pub event: u64,
    /// The number of the event that broke the claim; `None` = a time passed.
    pub number: Option<u64>,
    pub(crate) excuse: Option<&'static str>,
    pub(crate) detail: Vec<String>,
}

impl Findings {
    /// What is reported from now on is reported by the claim with this number.
    pub fn asks(&mut self, number: usize) {
        self.current = number;
    }

    /// The claim that observes is false. `detail`: who holds what since when, a sentence a line.
    pub fn violated(&mut self, detail: impl FnOnce() -> Vec<String>) {
        self.found(None, detail);
    }

    /// The claim is false in the documented case `excuse`, which counts only in runs that admit it.
    pub fn violated_with(&mut self, excuse: &'static str, detail: impl FnOnce() -> Vec<String>) {
        self.found(Some(excuse), detail);
    }

    /// The claim that observes looks at something that could break it. An `always` claim that never says this in a sweep has shown
    /// nothing by holding.
    pub fn exercised(&mut self) {
        // What an older version does shows nothing of this one.
        if !self.unsettled.contains(&self.at) {
            let judged = &mut self.judged[self.current];
            *judged = judged.saturating_add(1);
        }
    }

    /// What the claim that observes waits for must have happened by `at`: its `overdue` is asked before the first event later than that, or
    /// when the run ends, unless it ends before.
    pub fn expect_by(&mut self, at: SimTime) {
        self.due.push(Reverse((at, self.current)));
    }

    /// The next claim that waits for something that must have happened before `now`, or, at the end of the run, by then.
    pub fn next_due(&mut self, now: SimTime, at_the_end: bool) -> Option<(SimTime, usize)> {
        let Reverse((at, claim)) = *self.due.peek()?;
        (at < now || (at_the_end && at == now)).then(|| {
            self.due.pop();
            (at, claim)
        })
    }

    fn found(&mut self, excuse: Option<&'static str>, detail: impl FnOnce() -> Vec<String>) {
        self.exercised();
        let excuse = excuse.or_else(|| self.unsettled.contains(&self.at).then_some(OLDER_VERSION.name));
        let kept = &mut self.kept[self.current][usize::from(excuse.is_some())];
        if *kept < KEPT_PER_CLAIM {
            *kept += 1;
            let detail = detail().iter().map(|line| readable(line)).collect();
            self.violations.push((self.current, Found { at: self.at, event: self.event, number: self.number, excuse, detail }));
        }
    }

    /// For the test of one claim.
    pub fn of_one_claim() -> Self {
        Self { kept: vec![[0; 2]], held: vec![false], judged: vec![0], ..Self::default() }
    }

    /// What the last violation tells.
    pub fn last_detail(&self) -> Vec<String> {
        self.violations.last().map(|(_, found)| found.detail.clone()).unwrap_or_default()
    }

    /// The excuse of each violation so far.
    pub fn excuses(&self) -> Vec<Option<&'static str>> {
        self.violations.iter().map(|(_, found)| found.excuse).collect()
    }

    /// The claim that observes holds now: only for `sometimes` and `reachable`.
    pub fn held(&mut self) {
        self.held[self.current] = true;
    }
}

/// A line in which long hexadecimal numbers, such as the IDs of sandboxes, are cut after their first digits.
fn readable(line: &str) -> String {
    /// More digits say nothing to a person.
    const DIGITS: usize = 8;
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        let run = rest[start..].find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len() - start);
        let kept = if run > 4 * DIGITS { DIGITS } else { run };
        text.push_str(&rest[..start + kept]);
        if kept < run {
            text.push('…');
        }
        rest = &rest[start + run..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_numbers_are_cut() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(readable(&format!("web-{id} at 10.0.0.1, deadbeef")), "web-01234567… at 10.0.0.1, deadbeef");
        assert_eq!(readable(&id), "01234567…");
    }

    #[test]
    fn what_is_due_comes_in_order_after_its_time_and_at_the_end_by_then() {
        let mut findings = Findings::of_one_claim();
        let time = SimTime::from_secs;
        findings.expect_by(time(5));
        findings.expect_by(time(3));
        assert_eq!(findings.next_due(time(3), false), None);
        assert_eq!(findings.next_due(time(9), false), Some((time(3), 0)));
        assert_eq!(findings.next_due(time(5), false), None);
        assert_eq!(findings.next_due(time(4), true), None);
        assert_eq!(findings.next_due(time(5), true), Some((time(5), 0)));
        assert_eq!(findings.next_due(time(9), true), None);
    }

    #[test]
    fn excused_violations_do_not_hide_one_without_excuse() {
        let mut findings = Findings::of_one_claim();
        for _ in 0..10 {
            findings.violated_with("documented", Vec::new);
        }
        findings.violated(Vec::new);
        assert!(findings.excuses().contains(&None));
        assert_eq!(findings.excuses().len(), KEPT_PER_CLAIM + 1);
    }
}
