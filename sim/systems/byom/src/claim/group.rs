//! The claims about the pool that a run checks, and the view that they share.

use std::any::Any;

use kube_sim::trace::{Event, Interest};
use sim_config::time::SimTime;
use sim_harness::claim::{Findings, Group, GroupDef};
use sim_harness::upgrade::Upgrade;

use super::{PoolClaim, View};
use crate::Plans;
use crate::workload::pods::PoolPlace;

/// The claims about the pool.
pub(crate) static GROUP: GroupDef = GroupDef {
    name: "byom",
    make: |context| {
        let snapshots = context.plan.cluster.knobs.list_from_cache_snapshot;
        let of = |upgrade: &Upgrade| {
            // What commits while a process is down was sent by the version before.
            let begins = |at: SimTime| if at == SimTime::ZERO { at } else { at + upgrade.down.0 };
            let older = |name: &String| upgrade.older(name).map(|(from, until)| (name.clone(), (begins(from), begins(until))));
            upgrade.replaced.keys().filter_map(older).collect()
        };
        let older = context.plan.upgrade.as_ref().map(of).unwrap_or_default();
        let place = match context.plan.workload.get() {
            Some(Plans::Pods(pods)) => pods.place.clone(),
            _ => PoolPlace::default(),
        };
        let view = View::new(context.rt, context.out_of_reach.clone(), snapshots);
        Box::new(PoolGroup::new(view.with_place(place.documented()).with_upgrade(older)))
    },
};

/// A claim in the form that [`PoolGroup::add`] takes.
pub(crate) fn boxed(claim: impl PoolClaim + 'static) -> Box<dyn Any + Send> {
    let claim: Box<dyn PoolClaim> = Box::new(claim);
    Box::new(claim)
}

/// The claims of a run and their view.
pub(super) struct PoolGroup {
    view: View,
    claims: Vec<(usize, Box<dyn PoolClaim>)>,
}

impl PoolGroup {
    pub(super) fn new(view: View) -> Self {
        Self { view, claims: Vec::new() }
    }
}

impl Group for PoolGroup {
    fn interest(&self) -> Interest {
        View::INTEREST
    }

    fn add(&mut self, number: usize, claim: Box<dyn Any + Send>) {
        let claim = claim.downcast().unwrap_or_else(|_| panic!("claim {number} is not one about the pool"));
        self.claims.push((number, *claim));
    }

    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings) {
        let Some(seen) = self.view.see(event) else { return };
        for (number, claim) in &mut self.claims {
            findings.asks(*number);
            claim.observe(&seen, &self.view, findings);
        }
    }

    fn overdue(&mut self, number: usize, at: SimTime, findings: &mut Findings) {
        let claim = self.claims.iter_mut().find(|(of, _)| *of == number);
        claim.into_iter().for_each(|(_, claim)| claim.overdue(at, &self.view, findings));
    }

    fn pending(&self, number: usize) -> Option<String> {
        self.claims.iter().find(|(of, _)| *of == number)?.1.pending(&self.view)
    }
}
