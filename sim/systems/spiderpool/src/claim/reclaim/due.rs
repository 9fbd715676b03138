//! Events that must have happened by a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_machinery::FxHashMap;
use sim_config::time::SimTime;

use super::super::Findings;

/// The events that a claim waits for, by name or UID, with their deadlines.
#[derive(Default)]
pub(super) struct Due {
    by_time: BTreeMap<SimTime, Vec<Arc<str>>>,
    /// The next time at which each of them is checked.
    next: FxHashMap<Arc<str>, SimTime>,
}

impl Due {
    /// Expects an event by a time. Repeated calls are cheap; the earliest time counts.
    pub(super) fn expect(&mut self, what: &Arc<str>, by: SimTime, findings: &mut Findings) {
        if by == SimTime::NEVER || self.next.get(what).is_some_and(|next| *next <= by) {
            return;
        }
        self.next.insert(what.clone(), by);
        self.by_time.entry(by).or_default().push(what.clone());
        findings.expect_by(by);
    }

    /// Removes and returns what has to be checked by now.
    pub(super) fn take(&mut self, now: SimTime) -> Vec<Arc<str>> {
        let later = self.by_time.split_off(&SimTime::from_micros(now.as_micros() + 1));
        let taken: Vec<_> = std::mem::replace(&mut self.by_time, later).into_values().flatten().collect();
        for what in &taken {
            self.next.remove(what);
        }
        taken
    }
}
