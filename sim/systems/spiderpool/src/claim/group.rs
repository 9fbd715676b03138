//! The claims about Spiderpool that a run checks, and the view that they share.

use std::any::Any;

use kube_sim::kinds::KindId;
use kube_sim::object::{Obj, key_of};
use kube_sim::trace::{Event, Interest};
use sim_config::time::SimTime;
use sim_harness::claim::{Findings, Group, GroupDef};

use super::{EventMask, IpamClaim, Terms, View};

/// The claims about Spiderpool.
pub(crate) static GROUP: GroupDef = GroupDef {
    name: "spiderpool",
    make: |context| {
        let view = View::new(context.rt, context.registry, context.out_of_reach.clone(), Terms::of(context.plan));
        Box::new(IpamGroup::new(view))
    },
};

/// Boxes a claim as [`IpamGroup::add`] expects it.
pub(crate) fn boxed(claim: impl IpamClaim + 'static) -> Box<dyn Any + Send> {
    let claim: Box<dyn IpamClaim> = Box::new(claim);
    Box::new(claim)
}

/// The claims of a run and their view.
pub(super) struct IpamGroup {
    view: View,
    claims: Vec<(usize, Box<dyn IpamClaim>)>,
    /// The claims that look at each kind of event. Most events mean nothing to most claims.
    asked: [Vec<usize>; EventMask::KINDS],
}

impl IpamGroup {
    pub(super) fn new(view: View) -> Self {
        Self { view, claims: Vec::new(), asked: Default::default() }
    }
}

impl Group for IpamGroup {
    fn interest(&self) -> Interest {
        View::INTEREST
    }

    fn add(&mut self, number: usize, claim: Box<dyn Any + Send>) {
        let claim: Box<Box<dyn IpamClaim>> = claim.downcast().unwrap_or_else(|_| panic!("claim {number} is not one about Spiderpool"));
        let event_mask = claim.event_mask();
        let looks = |(kind, asked)| event_mask.has(kind).then_some(asked);
        for asked in self.asked.iter_mut().enumerate().filter_map(looks) {
            let asked: &mut Vec<usize> = asked;
            asked.push(self.claims.len());
        }
        self.claims.push((number, *claim));
    }

    fn wants_beginning(&self) -> bool {
        true
    }

    fn begin(&mut self, kind: KindId, object: &Obj) {
        self.view.begin(kind, &key_of(object), object);
    }

    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings) {
        let Some(seen) = self.view.see(event) else { return };
        for &place in &self.asked[seen.kind()] {
            let (number, claim) = &mut self.claims[place];
            findings.asks(*number);
            claim.observe(&seen, &self.view, findings);
        }
        self.view.settle(&seen);
    }

    fn tick(&mut self, now: SimTime) {
        self.view.tick(now);
    }

    fn overdue(&mut self, number: usize, at: SimTime, findings: &mut Findings) {
        let claim = self.claims.iter_mut().find(|(of, _)| *of == number);
        claim.into_iter().for_each(|(_, claim)| claim.overdue(at, &self.view, findings));
    }

    fn pending(&self, number: usize) -> Option<String> {
        self.claims.iter().find(|(of, _)| *of == number)?.1.pending(&self.view)
    }

    fn awaits(&self, number: usize) -> bool {
        self.claims.iter().find(|(of, _)| *of == number).is_some_and(|(_, claim)| claim.awaits(&self.view))
    }
}
