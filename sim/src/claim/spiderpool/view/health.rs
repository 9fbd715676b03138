//! When the cluster was free of faults: only then does a bound count.

use std::time::Duration;

use crate::time::SimTime;
use crate::trace::FaultChange;

/// How long what a fault left behind may take: a lease runs out, watches begin anew, nodes are heard of again.
const AFTERMATH: Duration = Duration::from_secs(60);

/// One fault of the plan.
#[derive(Clone, Copy, Debug)]
struct Fault {
    index: u32,
    began: SimTime,
    ended: SimTime,
}

/// The faults so far.
#[derive(Debug, Default)]
pub(in super::super) struct Health {
    faults: Vec<Fault>,
    /// When all faults are over but those for good.
    pub(in super::super) heal_at: SimTime,
}

impl Health {
    /// Whether no fault has left a mark on the time from `since` until now. Those that stay for good count until the heal.
    pub(in super::super) fn undisturbed_since(&self, since: SimTime) -> bool {
        let marks = |fault: &Fault| fault.ended.min(self.heal_at.max(fault.began)) + AFTERMATH >= since;
        !self.faults.iter().any(marks)
    }

    pub(super) fn new(heal_at: SimTime) -> Self {
        Self { faults: Vec::new(), heal_at }
    }

    pub(super) fn see(&mut self, index: u32, change: FaultChange, at: SimTime) {
        match change {
            FaultChange::Began => self.faults.push(Fault { index, began: at, ended: SimTime::NEVER }),
            FaultChange::Ended => {
                let open = self.faults.iter_mut().find(|fault| fault.index == index && fault.ended == SimTime::NEVER);
                if let Some(fault) = open {
                    fault.ended = at;
                }
            }
            FaultChange::Fired => {}
        }
    }
}
