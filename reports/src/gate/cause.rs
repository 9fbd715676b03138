//! Failing cases grouped by cause: a cause is reported once, however many cases show it.

use std::collections::BTreeMap;

use super::{GateCase, GateReport};
use crate::Verdict;
use crate::shrink::cause_class;

/// A failing case with a new cause, and the cases that show no other cause.
#[derive(Clone, Debug)]
pub struct Told<'a> {
    /// The first case that shows this cause, whose failures are reported at length.
    pub case: &'a GateCase,
    /// The verdict of that case: violated, not eventually, or another that fails a gate.
    pub verdict: Verdict,
    /// Further cases, each of whose causes was reported before, the first of them here.
    pub same: Vec<(&'a GateCase, Verdict)>,
}

impl GateReport {
    /// The failing cases, grouped by cause. A case without a known cause is reported alone.
    pub fn failures_by_cause(&self) -> Vec<Told<'_>> {
        let mut told: Vec<Told<'_>> = Vec::new();
        let mut by_cause: BTreeMap<String, usize> = BTreeMap::new();
        for (case, verdict) in self.failures() {
            let violated = matches!(verdict, Verdict::Violated | Verdict::NotEventually);
            let findings = if violated { case.result.sorted_findings() } else { Vec::new() };
            let causes: Vec<Option<String>> = findings.into_iter().map(|finding| finding.cause.as_deref().map(cause_class)).collect();
            let known = |cause: &Option<String>| by_cause.get(cause.as_ref()?).copied();
            match causes.first().and_then(known) {
                Some(first) if causes.iter().all(|cause| known(cause).is_some()) => told[first].same.push((case, verdict)),
                _ => {
                    for cause in causes.into_iter().flatten() {
                        by_cause.entry(cause).or_insert(told.len());
                    }
                    told.push(Told { case, verdict, same: Vec::new() });
                }
            }
        }
        told
    }
}

/// Names the cases: `smoke counter-calm, chaos counter-swarm and 3 more`
pub(super) fn named(cases: &[(&GateCase, Verdict)]) -> String {
    /// The largest number of cases that a sentence names.
    const NAMED_MAX: usize = 20;
    let names: Vec<String> = cases.iter().take(NAMED_MAX).map(|(case, _)| format!("{} {}", case.part, case.name)).collect();
    let more = cases.len() - names.len();
    if more > 0 { format!("{} and {more} more", names.join(", ")) } else { names.join(", ") }
}
