//! When the cluster was free of faults that can hinder reclaim: only then does a bound count as it is.

use std::time::Duration;

use kube_sim::trace::FaultChange;
use sim_config::time::SimTime;

use super::terms::Reach;

/// How long what a fault left behind may take: a lease runs out, watches begin anew after a pause, nodes are heard of again.
pub(in super::super) const AFTERMATH: Duration = Duration::from_secs(60);

/// One fault of the plan.
#[derive(Clone, Copy, Debug)]
struct Fault {
    index: u32,
    began: SimTime,
    /// [`SimTime::NEVER`] while it lasts.
    ended: SimTime,
}

/// The faults so far.
#[derive(Debug)]
pub(in super::super) struct Health {
    faults: Vec<Fault>,
    /// Of each fault of the plan: whom it can hinder, and whether it is over as soon as it began.
    reaches: Vec<(Reach, bool)>,
    /// When all faults are over but those for good.
    pub(in super::super) heal_at: SimTime,
}

impl Health {
    pub(super) fn new(heal_at: SimTime, reaches: Vec<(Reach, bool)>) -> Self {
        Self { faults: Vec::new(), reaches, heal_at }
    }

    /// Until when faults have lasted that `matter`; `None` = there was none. One that lasts counts until the heal: for good is nobody
    /// waited for.
    pub(in super::super) fn troubled_until(&self, matters: impl Fn(&Reach) -> bool) -> Option<SimTime> {
        let of = |fault: &&Fault| self.reaches.get(fault.index as usize).is_none_or(|(reach, _)| matters(reach));
        let end = |fault: &Fault| if fault.ended == SimTime::NEVER { self.heal_at.max(fault.began) } else { fault.ended };
        self.faults.iter().filter(of).map(end).max()
    }

    /// Whether no fault that `matters` has left a mark on the time from `since` until now.
    pub(in super::super) fn is_calm_since(&self, since: SimTime, matters: impl Fn(&Reach) -> bool) -> bool {
        self.troubled_until(matters).is_none_or(|until| until + AFTERMATH < since)
    }

    pub(super) fn see(&mut self, index: u32, change: FaultChange, at: SimTime) {
        match change {
            FaultChange::Began => {
                let is_over = self.reaches.get(index as usize).is_some_and(|(_, is_over)| *is_over);
                self.faults.push(Fault { index, began: at, ended: if is_over { at } else { SimTime::NEVER } });
            }
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
