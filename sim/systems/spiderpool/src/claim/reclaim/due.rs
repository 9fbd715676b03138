//! Things that must have happened by a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_machinery::FxHashMap;
use sim_config::time::SimTime;

use super::super::Findings;

/// What a claim waits for, by name or UID, and by when.
#[derive(Default)]
pub(super) struct Due {
    by_time: BTreeMap<SimTime, Vec<Arc<str>>>,
    /// The next time at which each is looked at.
    next: FxHashMap<Arc<str>, SimTime>,
}

impl Due {
    /// Something must have happened by then. Being told so again costs little; an earlier time counts.
    pub(super) fn expect(&mut self, what: &Arc<str>, by: SimTime, findings: &mut Findings) {
        if by == SimTime::NEVER || self.next.get(what).is_some_and(|next| *next <= by) {
            return;
        }
        self.next.insert(what.clone(), by);
        self.by_time.entry(by).or_default().push(what.clone());
        findings.expect_by(by);
    }

    /// What has to be looked at by now.
    pub(super) fn take(&mut self, now: SimTime) -> Vec<Arc<str>> {
        let later = self.by_time.split_off(&SimTime::from_micros(now.as_micros() + 1));
        let taken: Vec<_> = std::mem::replace(&mut self.by_time, later).into_values().flatten().collect();
        for what in &taken {
            self.next.remove(what);
        }
        taken
    }
}
