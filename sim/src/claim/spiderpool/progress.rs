//! A L1: pods get addresses.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipam_core::FxHashSet;

use super::view::{Pod, Seen, View};
use super::{Findings, IpamClaim, told};
use crate::workload::spiderpool::Refusal;

/// In the end every pod that is alive, bound and not on the network of its node has a live sandbox with an address. Pods of nodes
/// that are down or cut off for good are not waited for, nor are those that nothing could serve: whose last request found no pool by
/// the rules, or tried only pools without a free address.
///
/// Broken by `foreign-record-blocks`, `partial-pool-change-recreates`, `conflict-returns-same-address`, `wildcard-duplicates-fail`,
/// `multus-always-resolved` and `late-endpoint-create-fails`. It does not see why a pool is full: leaked records are the business of
/// `records-equal-endpoints`.
pub(in super::super) struct PodsGetAddresses;

impl IpamClaim for PodsGetAddresses {
    fn observe(&mut self, _: &Seen<'_>, _: &View, _: &mut Findings) {}

    fn pending(&self, view: &View) -> Option<String> {
        let served: FxHashSet<&Arc<str>> =
            view.sandboxes.iter().filter(|(_, sandbox)| !sandbox.nics.is_empty()).map(|(_, sandbox)| &sandbox.uid).collect();
        let waits = |(uid, pod): &(&Arc<str>, &Pod)| {
            pod.is_alive() && !pod.is_on_host_network() && is_in_reach(view, pod) && !served.contains(uid) && can_be_served(view, uid)
        };
        let waiting = view.pods.present().filter(waits).map(|(uid, pod)| {
            let last = view.ledger.last(uid);
            let last = last.map_or("nobody answered a request for it".to_owned(), |last| match last.refusal {
                Some(refusal) => format!("last refused {}: {refusal}", view.by(last.said)),
                None => format!("last answered {}", view.by(last.said)),
            });
            format!("{} ({last})", pod.key)
        });
        told("pods have no address", waiting.collect())
    }
}

fn is_in_reach(view: &View, pod: &Pod) -> bool {
    let lost: &BTreeSet<String> = &view.out_of_reach.names;
    pod.node().is_some_and(|node| !lost.contains(node)) && !view.out_of_reach.pods.contains(&*pod.key)
}

fn can_be_served(view: &View, uid: &str) -> bool {
    let Some(last) = view.ledger.last(uid) else { return true };
    match last.refusal {
        // The rules themselves leave it without a pool, as it was a moment ago.
        Some(Refusal::NoPool | Refusal::WrongInput) => !last.agreed,
        Some(Refusal::UsedOut) if !last.tried.is_empty() => {
            let reserved = view.reservations.now();
            let has_free = |pool: &str| view.pools.get(pool).is_some_and(|pool| pool.has_free(&reserved));
            last.tried.iter().any(|tried| has_free(&tried.pool))
        }
        _ => true,
    }
}
