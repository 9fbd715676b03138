//! What must be true of every run.

use std::collections::{BTreeMap, BTreeSet};

use ipam_reports::finding::Kind;
use kube_sim::rt::{ProcessId, Rt};
use kube_sim::trace::{Event, EventKind, Interest};
use sim_harness::claim::{Claim, ClaimDef, Context, Findings, Make};

use crate::note::Said;
use crate::objects::{address, allocations};
use crate::workload::Operation;

/// The invariants, in the order in which they are listed.
pub const CLAIMS: &[ClaimDef] = &[
    ClaimDef {
        name: "no-address-is-given-twice",
        kind: Kind::Always,
        about: "no pod is given an address that another live pod has",
        reference: None,
        make: Make::Events(|context| Box::new(GivenTwice { rt: context.rt.clone(), holders: BTreeMap::new() })),
    },
    ClaimDef {
        name: "only-the-owner-releases",
        kind: Kind::Always,
        about: "as long as a pod is wanted, nobody but its node takes its address out of the pool",
        reference: None,
        make: Make::Events(|context| Box::new(OnlyOwner { rt: context.rt.clone(), wanted: BTreeMap::new() })),
    },
    ClaimDef {
        name: "every-pod-gets-an-address",
        kind: Kind::Eventually,
        about: "every pod that asks for an address gets one",
        reference: None,
        make: Make::Events(|context| Box::new(EveryPod::new(context))),
    },
];

/// No pod is given an address that another live pod has.
struct GivenTwice {
    rt: Rt,
    holders: BTreeMap<u32, String>,
}

impl Claim for GivenTwice {
    fn interest(&self) -> Interest {
        Interest::NOTE
    }

    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings) {
        let EventKind::Note { process, note } = event.kind else { return };
        match note.downcast_ref() {
            Some(Said::Given { pod, offset }) => {
                findings.exercised();
                let holder = self.holders.insert(*offset, pod.clone());
                if let Some(holder) = holder.filter(|holder| holder != pod) {
                    let who = self.rt.process_name(process);
                    findings.violated(|| vec![format!("{who} gave {} to {pod}, but {holder} has it", address(*offset))]);
                }
            }
            Some(Said::Ends { pod }) => self.holders.retain(|_, holder| holder != pod),
            _ => {}
        }
    }
}

/// Nobody but its node takes the address of a pod that is wanted out of the pool.
struct OnlyOwner {
    rt: Rt,
    /// Whose each pod is, from the request for its address to its end.
    wanted: BTreeMap<String, ProcessId>,
}

impl Claim for OnlyOwner {
    fn interest(&self) -> Interest {
        Interest::NOTE.and(Interest::COMMIT)
    }

    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings) {
        match event.kind {
            EventKind::Note { process, note } => match note.downcast_ref() {
                Some(Said::Asks { pod }) => drop(self.wanted.insert(pod.clone(), process)),
                Some(Said::Ends { pod }) => drop(self.wanted.remove(pod)),
                _ => {}
            },
            EventKind::Commit { client, before, after, .. } => {
                let Some(old) = allocations(before) else { return };
                let none = BTreeMap::new();
                let new = allocations(after).unwrap_or(&none);
                for (offset, pod) in old.iter().filter(|(offset, pod)| new.get(offset) != Some(*pod)) {
                    findings.exercised();
                    if self.wanted.get(pod).is_some_and(|owner| *owner != client) {
                        let who = self.rt.process_name(client);
                        findings.violated(|| vec![format!("{who} took {} from {pod}, which is still there", address(*offset))]);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Every pod that asks for an address gets one.
struct EveryPod {
    missing: BTreeSet<String>,
}

impl EveryPod {
    fn new(context: &Context<'_>) -> Self {
        // Nobody waits for nodes that stay down or cut off.
        let reachable = context.plan.op.iter().filter(|op| !context.out_of_reach.names.contains(&op.common.actor));
        let asked = reachable.filter_map(|op| match op.kind.get() {
            Some(Operation::Add(which)) => Some(which.pod.clone()),
            _ => None,
        });
        Self { missing: asked.collect() }
    }
}

impl Claim for EveryPod {
    fn interest(&self) -> Interest {
        Interest::NOTE
    }

    fn observe(&mut self, event: &Event<'_>, _: &mut Findings) {
        if let EventKind::Note { note, .. } = event.kind
            && let Some(Said::Given { pod, .. }) = note.downcast_ref()
        {
            self.missing.remove(pod);
        }
    }

    fn pending(&self) -> Option<String> {
        let first = self.missing.first()?;
        Some(format!("{} pods have no address, the first is {first}", self.missing.len()))
    }
}
