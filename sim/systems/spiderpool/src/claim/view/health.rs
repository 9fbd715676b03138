//! When the cluster was free of faults that can hinder reclaim: only then does a bound count as it is.

use std::time::Duration;

use kube_sim::trace::FaultChange;
use sim_config::time::SimTime;

use super::terms::{Lasts, PlannedFault, Reach};

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
    /// The faults of the plan.
    planned: Vec<PlannedFault>,
    /// When all faults are over but those for good.
    pub(in super::super) heal_at: SimTime,
}

impl Health {
    pub(super) fn new(heal_at: SimTime, planned: Vec<PlannedFault>) -> Self {
        Self { faults: Vec::new(), planned, heal_at }
    }

    /// Until when faults have lasted that `matter`; `None` = there was none. One that lasts counts until the heal: nobody waits for a
    /// replica that is lost for good. One that lasts for good and can hinder everybody counts for ever: a client that loses its connection
    /// picks a server at random, and so the one that is lost again as often as chance will have it.
    pub(in super::super) fn troubled_until(&self, matters: impl Fn(&Reach) -> bool) -> Option<SimTime> {
        let planned = |fault: &Fault| self.planned.get(fault.index as usize);
        let of = |fault: &&Fault| planned(fault).is_none_or(|planned| matters(&planned.reach));
        let hinders_for_ever =
            |fault: &Fault| planned(fault).is_some_and(|planned| planned.reach == Reach::All && planned.lasts == Lasts::ForGood);
        let end = |fault: &Fault| match fault.ended {
            SimTime::NEVER if hinders_for_ever(fault) => SimTime::NEVER,
            SimTime::NEVER => self.heal_at.max(fault.began),
            ended => ended,
        };
        self.faults.iter().filter(of).map(end).max()
    }

    /// Whether no fault that `matters` has left a mark on the time from `since` until now.
    pub(in super::super) fn is_calm_since(&self, since: SimTime, matters: impl Fn(&Reach) -> bool) -> bool {
        self.troubled_until(matters).is_none_or(|until| until + AFTERMATH < since)
    }

    pub(super) fn see(&mut self, index: u32, change: FaultChange, at: SimTime) {
        match change {
            FaultChange::Began => {
                let is_over = self.planned.get(index as usize).is_some_and(|planned| planned.lasts == Lasts::AnInstant);
                self.faults.push(Fault { index, began: at, ended: if is_over { at } else { SimTime::NEVER } });
            }
            FaultChange::Ended => {
                let open = self.faults.iter_mut().find(|fault| fault.index == index && fault.ended == SimTime::NEVER);
                if let Some(fault) = open {
                    fault.ended = at;
                }
            }
            // One that waits for its request has no beginning and no end of its own.
            FaultChange::Fired => match self.faults.iter_mut().rev().find(|fault| fault.index == index) {
                Some(fault) if fault.ended != SimTime::NEVER => fault.ended = at,
                Some(_) => {}
                None => self.faults.push(Fault { index, began: at, ended: at }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_fires_leaves_its_mark_whether_or_not_it_is_known_to_have_begun() {
        let mut health = Health::new(SimTime::ZERO, vec![PlannedFault { reach: Reach::All, lasts: Lasts::AWhile }]);
        let at = |seconds: u64| SimTime::from_micros(seconds * 1_000_000);
        health.see(0, FaultChange::Fired, at(10));
        assert_eq!([20, 71].map(|since| health.is_calm_since(at(since), |_| true)), [false, true]);
        health.see(0, FaultChange::Fired, at(90));
        assert_eq!([149, 151].map(|since| health.is_calm_since(at(since), |_| true)), [false, true]);
        health.see(0, FaultChange::Began, at(200));
        health.see(0, FaultChange::Fired, at(210));
        health.see(0, FaultChange::Ended, at(300));
        assert_eq!([359, 361].map(|since| health.is_calm_since(at(since), |_| true)), [false, true]);
    }

    #[test]
    fn a_server_that_is_lost_for_good_leaves_no_time_calm_and_a_lost_replica_does() {
        let heal_at = SimTime::from_micros(120_000_000);
        let later = heal_at + AFTERMATH + Duration::from_secs(1);
        for (reach, lasts, calm) in [
            (Reach::All, Lasts::AWhile, true),
            (Reach::All, Lasts::ForGood, false),
            (Reach::Replicas(vec!["spiderpool-controller-0".to_owned()]), Lasts::ForGood, true),
            (Reach::Nodes, Lasts::ForGood, true),
        ] {
            let mut health = Health::new(heal_at, vec![PlannedFault { reach: reach.clone(), lasts }]);
            health.see(0, FaultChange::Began, SimTime::from_micros(1));
            assert_eq!(health.is_calm_since(later, |_| true), calm, "{reach:?} {lasts:?}");
            assert!(!health.is_calm_since(heal_at, |_| true), "{reach:?} {lasts:?}");
        }
    }
}
