//! The faults that can hinder reclaim: its bounds apply unchanged only in times without them.

use kube_sim::trace::FaultChange;
use sim_config::time::SimTime;

use super::terms::{AFTERMATH, Lasts, PlannedFault, Reach};

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
    /// The time at which all faults are over except permanent ones.
    pub(in super::super) heal_at: SimTime,
}

impl Health {
    pub(super) fn new(heal_at: SimTime, planned: Vec<PlannedFault>) -> Self {
        Self { faults: Vec::new(), planned, heal_at }
    }

    /// The time until which faults that `matter` have lasted; `None` = there was none. A fault that has not ended counts until the heal:
    /// claims do not wait for a replica that is lost permanently. A permanent fault that can hinder everybody counts forever: a client that
    /// loses its connection picks a server at random, so it may pick the lost one any number of times.
    pub(in super::super) fn troubled_until(&self, matters: impl Fn(&Reach) -> bool) -> Option<SimTime> {
        self.ends(matters).map(|(end, _)| end).max()
    }

    /// For each fault that `matters`, the time until which it has lasted, and its description in the plan.
    fn ends(&self, matters: impl Fn(&Reach) -> bool) -> impl Iterator<Item = (SimTime, Option<&PlannedFault>)> {
        let planned = |fault: &Fault| self.planned.get(fault.index as usize);
        let hinders_for_ever = |planned: &PlannedFault| planned.reach == Reach::All && planned.lasts == Lasts::ForGood;
        let end = move |fault: &Fault, planned: Option<&PlannedFault>| match fault.ended {
            SimTime::NEVER if planned.is_some_and(hinders_for_ever) => SimTime::NEVER,
            SimTime::NEVER => self.heal_at.max(fault.began),
            ended => ended,
        };
        let all = self.faults.iter().map(move |fault| (fault, planned(fault)));
        let of = all.filter(move |(_, planned)| planned.is_none_or(|planned| matters(&planned.reach)));
        of.map(move |(fault, planned)| (end(fault, planned), planned))
    }

    /// Whether no fault that `matters` affects the time from `since` until now.
    pub(in super::super) fn is_calm_since(&self, since: SimTime, matters: impl Fn(&Reach) -> bool) -> bool {
        self.ends(matters).all(|(until, planned)| until + planned.map_or(AFTERMATH, |planned| planned.aftermath) < since)
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
            // A fault that waits for its request has neither a beginning nor an end.
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_fault_that_fires_leaves_its_mark_whether_or_not_it_is_known_to_have_begun() {
        let mut health = Health::new(SimTime::ZERO, vec![PlannedFault { reach: Reach::All, lasts: Lasts::AWhile, aftermath: AFTERMATH }]);
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
    fn the_mark_of_a_fault_is_as_long_as_that_fault_leaves_it() {
        let fault = |aftermath| PlannedFault { reach: Reach::All, lasts: Lasts::AnInstant, aftermath };
        let mut health = Health::new(SimTime::ZERO, vec![fault(2 * AFTERMATH), fault(AFTERMATH)]);
        let at = |seconds: u64| SimTime::from_micros(seconds * 1_000_000);
        health.see(0, FaultChange::Began, at(10));
        health.see(1, FaultChange::Began, at(20));
        assert_eq!([81, 130, 131].map(|since| health.is_calm_since(at(since), |_| true)), [false, false, true]);
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
            let mut health = Health::new(heal_at, vec![PlannedFault { reach: reach.clone(), lasts, aftermath: AFTERMATH }]);
            health.see(0, FaultChange::Began, SimTime::from_micros(1));
            assert_eq!(health.is_calm_since(later, |_| true), calm, "{reach:?} {lasts:?}");
            assert!(!health.is_calm_since(heal_at, |_| true), "{reach:?} {lasts:?}");
        }
    }
}
