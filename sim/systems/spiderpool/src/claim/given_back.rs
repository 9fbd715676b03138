//! The addresses that plugins have given back because a host outside the cluster answers on them (A §7.3), as endpoints report.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::SpiderEndpoint;
use kube_machinery::{FxHashMap, FxHashSet};

use super::view::{Answer, EndpointChange, View, addresses_of, is_migration, uid_of};
use crate::workload::Cause;

/// The annotation that the agent writes into an endpoint in the same write in which it removes an address that a plugin has given back.
pub(super) const CONFLICTING: &str = "ipam.spidernet.io/conflicting-ips";

/// The addresses that plugins have given back and no endpoint of the pod has named since. The endpoint that reports an address may be
/// deleted before the record is.
#[derive(Default)]
pub(super) struct GivenBack {
    by_uid: FxHashMap<Arc<str>, FxHashSet<IpAddr>>,
}

impl GivenBack {
    /// Takes in a write of an endpoint: the addresses that it removes and reports as conflicting, and those that it names again.
    pub(super) fn observe(&mut self, change: &EndpointChange) {
        let Some(after) = &change.after else { return };
        let uid = uid_of(after);
        let is_named = |address: &IpAddr| addresses_of(after).any(|(.., named)| named == *address);
        if let Some(given_back) = self.by_uid.get_mut(uid) {
            given_back.retain(|address| !is_named(address));
        }
        let told = conflicting(after);
        let is_told_anew = |before: &SpiderEndpoint| uid_of(before) == uid && told.is_some() && told != conflicting(before);
        let Some(before) = change.before.as_deref().filter(|before| is_told_anew(before)) else { return };
        let gone = addresses_of(before).map(|(.., address)| address).filter(|address| !is_named(address));
        self.by_uid.entry(uid.into()).or_default().extend(gone);
    }

    /// Whether the pod with this UID has given back this address.
    pub(super) fn contains(&self, uid: &str, address: IpAddr) -> bool {
        self.by_uid.get(uid).is_some_and(|given_back| given_back.contains(&address))
    }
}

/// Whether the DEL of another pod of the same VM has released the answered address, so that it is no longer recorded for this pod: the last
/// sandbox of a VM that is gone releases the addresses of all its pods.
pub(super) fn by_another_of_its_vm(view: &View, uid: &str, answer: &Answer) -> bool {
    let Answer { given, said, .. } = answer;
    let is_recorded = view.pools.holder(&given.pool, given.address).is_some_and(|holder| holder.record.pod_uid == uid);
    let mut releases = view.ledger.releases_of(&given.pool, given.address);
    let later = |other: &str, cause| cause == Cause::Del && other != uid && is_migration(view, uid, other);
    !is_recorded && releases.any(|(other, release)| release.said.moment > said.moment && later(other, release.cause))
}

fn conflicting(endpoint: &SpiderEndpoint) -> Option<&String> {
    endpoint.metadata.annotations.as_ref()?.get(CONFLICTING)
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;
    use crate::workload::Cause;

    const WHAT: &[(&str, &str)] = &[("p", "10.0.0.1")];

    #[test]
    fn a_roll_back_may_take_what_the_del_of_the_vms_other_pod_has_given_up() {
        for (by, is_recorded, excuses) in [("b", false, vec![]), ("b", true, vec![None]), ("other", false, vec![None])] {
            on_stage("records-leave-only-for-their-own-uid", |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.vm_pod("ns/virt-1", "a", "vm");
                stage.vm_pod("ns/virt-2", "b", "vm");
                stage.vm_pod("ns/virt-3", "other", "other");
                stage.add("ns/virt-1", "a", &[("eth0", "p", "10.0.0.1")]);
                stage.terminate("ns/virt-2");
                stage.terminate("ns/virt-3");
                stage.release_for("ns/vm", by, by, Cause::Del, WHAT);
                if !is_recorded {
                    stage.unrecord(stage.agent, "p", "10.0.0.1");
                }
                let before = stage.excuses();
                stage.release_for("ns/vm", "a", "a", Cause::RollBack, WHAT);
                assert_eq!(stage.excuses()[before.len()..], excuses, "by {by}, recorded {is_recorded}");
            });
        }
    }
}
