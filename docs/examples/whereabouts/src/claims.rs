//! What must be true of every run.

use std::collections::BTreeMap;

use sim_harness::prelude::*;

use crate::Whereabouts;
use crate::note::Said;
use crate::objects::address;
use crate::workload::Operation;

/// The invariants, in the order in which they are listed.
pub const CLAIMS: &[ClaimDef] = &[
    ClaimDef::always("no-address-is-given-twice", "no pod is given an address that another live pod has", given_twice),
    ClaimDef::always(
        "only-the-owner-releases",
        "as long as a pod is wanted, nobody but its node takes its address out of the pool",
        only_owner,
    ),
    ClaimDef::eventually("every-pod-gets-an-address", "every pod that asks for an address gets one", every_pod),
];

/// No pod is given an address that another live pod has.
fn given_twice(context: &Context<'_>) -> Box<dyn Claim> {
    let (rt, mut holders) = (context.rt.clone(), BTreeMap::new());
    observing(Interest::NOTE, move |event, findings| match event.note_of() {
        Some((process, Said::Given { pod, offset })) => {
            findings.exercised();
            let holder = holders.insert(*offset, pod.clone());
            if let Some(holder) = holder.filter(|holder| holder != pod) {
                let who = rt.process_name(process);
                findings.violated(|| vec![format!("{who} gave {} to {pod}, but {holder} has it", address(*offset))]);
            }
        }
        Some((_, Said::Ends { pod })) => holders.retain(|_, holder| holder != pod),
        _ => {}
    })
}

/// Nobody but its node takes the address of a pod that is wanted out of the pool.
fn only_owner(context: &Context<'_>) -> Box<dyn Claim> {
    // Whose each pod is, from the request for its address to its end.
    let (rt, mut wanted) = (context.rt.clone(), BTreeMap::new());
    observing(Interest::NOTE.and(Interest::COMMIT), move |event, findings| {
        match event.note_of() {
            Some((process, Said::Asks { pod })) => drop(wanted.insert(pod.clone(), process)),
            Some((_, Said::Ends { pod })) => drop(wanted.remove(pod)),
            _ => {}
        }
        let EventKind::Commit { client, before: Some(before), after, .. } = event.kind else { return };
        let new = after.and_then(|after| Whereabouts.records(after)).unwrap_or_default();
        for (address, pod) in Whereabouts.records(before).iter().flatten().filter(|(address, pod)| new.get(address) != Some(*pod)) {
            findings.exercised();
            if wanted.get(pod).is_some_and(|owner| *owner != client) {
                let who = rt.process_name(client);
                findings.violated(|| vec![format!("{who} took {address} from {pod}, which is still there")]);
            }
        }
    })
}

/// Every pod that asks for an address gets one.
fn every_pod(context: &Context<'_>) -> Box<dyn Claim> {
    // Nobody waits for nodes that stay down or cut off.
    let asked = context.awaited_ops().filter_map(|op| match op {
        Operation::Add(which) => Some(which.pod.clone()),
        _ => None,
    });
    awaiting("pods have no address", asked.collect(), Interest::NOTE, |event, missing| {
        if let Some((_, Said::Given { pod, .. })) = event.note_of() {
            missing.remove(pod);
        }
    })
}
