//! The reports of claims.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use sim_config::time::SimTime;

use crate::check::OLDER_VERSION;

/// The number of violations of one claim that a run keeps; later ones are mostly consequences of the first. Violations with an excuse are
/// counted separately: they must not keep one without excuse from being found.
const KEPT_PER_CLAIM: usize = 3;

/// Collects the reports of claims.
#[derive(Default)]
pub struct Findings {
    pub(crate) at: SimTime,
    /// The number of times that claims were asked so far.
    pub event: u64,
    /// The number, in the trace of the run, of the event that claims are asked about; `None` = a deadline passed.
    pub number: Option<u64>,
    /// The claim that is asked.
    pub current: usize,
    /// The violations, each with the number of the violated claim.
    pub violations: Vec<(usize, Found)>,
    /// Whether each claim has held; only those of kind `sometimes` and `reachable` report it.
    pub held: Vec<bool>,
    /// The number of times that each claim judged something that could have been false.
    pub judged: Vec<u32>,
    /// The number of kept violations of each claim: without and with an excuse.
    pub kept: Vec<[usize; 2]>,
    /// The time in which every violation is attributed to an older version of the system under test, or to what it left behind.
    pub(crate) unsettled: Range<SimTime>,
    /// The deadlines by which something must have happened, each with the number of its claim; the next one on top.
    pub due: BinaryHeap<Reverse<(SimTime, usize)>>,
}

/// One violation of a claim: its time, its event, and the detail that the claim reports.
pub struct Found {
    pub(crate) at: SimTime,
    /// The number of times that claims were asked until then.
    pub event: u64,
    /// The number of the event that broke the claim; `None` = a deadline passed.
    pub number: Option<u64>,
    pub(crate) excuse: Option<&'static str>,
    pub(crate) detail: Vec<String>,
}

impl Findings {
    /// Makes the claim with this number the one that reports from now on.
    pub fn asks(&mut self, number: usize) {
        self.current = number;
    }

    /// Reports that the current claim is false. `detail`: who holds what since when, a sentence a line.
    pub fn violated(&mut self, detail: impl FnOnce() -> Vec<String>) {
        self.found(None, detail);
    }

    /// Reports that the current claim is false in the documented case `excuse`, which counts only in runs that admit it.
    pub fn violated_with(&mut self, excuse: &'static str, detail: impl FnOnce() -> Vec<String>) {
        self.found(Some(excuse), detail);
    }

    /// Reports that the current claim judges something that could break it. An `always` claim that never reports this in a sweep has shown
    /// nothing by holding.
    pub fn exercised(&mut self) {
        // The behaviour of an older version shows nothing about this one.
        if !self.unsettled.contains(&self.at) {
            let judged = &mut self.judged[self.current];
            *judged = judged.saturating_add(1);
        }
    }

    /// Sets a deadline for what the current claim waits for: its `overdue` is called before the first event later than `at`, or at the end
    /// of the run, unless the run ends before `at`.
    pub fn expect_by(&mut self, at: SimTime) {
        self.due.push(Reverse((at, self.current)));
    }

    /// Takes the next claim with a deadline before `now`, or, at the end of the run, at `now`.
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

    /// Findings for the test of one claim.
    pub fn of_one_claim() -> Self {
        Self { kept: vec![[0; 2]], held: vec![false], judged: vec![0], ..Self::default() }
    }

    /// The detail of the last violation.
    pub fn last_detail(&self) -> Vec<String> {
        self.violations.last().map(|(_, found)| found.detail.clone()).unwrap_or_default()
    }

    /// The excuse of each violation so far.
    pub fn excuses(&self) -> Vec<Option<&'static str>> {
        self.violations.iter().map(|(_, found)| found.excuse).collect()
    }

    /// Reports that the current claim holds now: only for `sometimes` and `reachable`.
    pub fn held(&mut self) {
        self.held[self.current] = true;
    }
}

/// A line with long hexadecimal numbers, such as the IDs of sandboxes, cut after their first digits.
fn readable(line: &str) -> String {
    /// The digits that are kept; more say nothing to a reader.
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
