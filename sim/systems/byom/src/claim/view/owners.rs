//! The PeerPods that still have their finalizer: they stand for VMs that will be released (B S1, P2).

use std::sync::Arc;

use ipam_byom::{AddressKey, FINALIZER, IpAllocation, PeerPod};
use kube_machinery::{FxHashMap, FxHashSet, ObjectKey};
use kube_sim::cluster::CACHE_COMPARED_AFTER;
use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use kube_sim::rt::ProcessId;
use sim_config::time::SimTime;

/// The subject of a PeerPod.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    /// The allocation that it names.
    Allocation(Arc<str>),
    /// The VM, for upstream's PeerPods, which name nothing else.
    Vm(AddressKey),
}

/// A PeerPod whose last change is missing in a watch cache.
#[derive(Debug)]
struct Missed {
    server: ProcessId,
    key: ObjectKey,
    /// The time at which exact lists show it again: it has changed, its cache was refilled, or at the latest its server asks etcd instead.
    until: SimTime,
}

/// All PeerPods that have their finalizer, and those of them that some watch cache does not show correctly.
#[derive(Debug, Default)]
pub(in super::super) struct Owners {
    owners: FxHashMap<ObjectKey, Owner>,
    /// The PeerPods that are being deleted.
    deleted: FxHashSet<ObjectKey>,
    /// Whether exact lists come from snapshots of watch caches; otherwise they ask etcd, and lack nothing.
    snapshots: bool,
    /// The type of PeerPods, once there was one.
    kind: Option<KindId>,
    missed: Vec<Missed>,
}

impl Owners {
    /// An empty set. `snapshots`: whether exact lists come from snapshots of watch caches.
    pub(super) fn new(snapshots: bool) -> Self {
        Self { snapshots, ..Self::default() }
    }

    /// Whether a PeerPod covers a record. One that is being deleted does only with `deleted`. Linear.
    pub(in super::super) fn cover(&self, record: &IpAllocation, deleted: bool) -> bool {
        self.owners.iter().filter(|(key, _)| deleted || !self.deleted.contains(*key)).any(|(_, owner)| match owner {
            Owner::Allocation(id) => *id == record.allocation_id,
            Owner::Vm(address) => address == record.ip.key(),
        })
    }

    /// The allocations whose PeerPods may be missing in a list requested since `since`, because a watch cache has lost their last change
    /// (K182).
    pub(super) fn unlisted(&self, since: SimTime) -> impl Iterator<Item = &Arc<str>> {
        let at_the_time = self.missed.iter().filter(move |missed| since <= missed.until);
        at_the_time.filter_map(|missed| match self.owners.get(&missed.key)? {
            Owner::Allocation(id) => Some(id),
            Owner::Vm(_) => None,
        })
    }

    pub(super) fn see(&mut self, kind: KindId, key: &ObjectKey, before: Option<&Obj>, after: Option<&Obj>, at: SimTime) {
        if let Some(peer_pod) = held(after) {
            self.kind = Some(kind);
            if let Some(owner) = owner(peer_pod) {
                self.owners.insert(key.clone(), owner);
            }
            if peer_pod.metadata.deletion_timestamp.is_some() {
                self.deleted.insert(key.clone());
            }
        } else if held(before).is_some() {
            self.owners.remove(key);
            self.deleted.remove(key);
        }
        if self.kind == Some(kind) {
            self.not_missed_since(at, |missed| missed.key == *key);
        }
    }

    /// Notes that a watch cache has lost the last change of an object.
    pub(super) fn lost(&mut self, server: ProcessId, kind: KindId, key: &ObjectKey, at: SimTime) {
        if self.snapshots && self.kind == Some(kind) {
            self.missed.push(Missed { server, key: key.clone(), until: at + CACHE_COMPARED_AFTER });
        }
    }

    /// Notes that a watch cache is complete again.
    pub(super) fn relisted(&mut self, server: ProcessId, kind: KindId, at: SimTime) {
        if self.kind == Some(kind) {
            self.not_missed_since(at, |missed| missed.server == server);
        }
    }

    fn not_missed_since(&mut self, at: SimTime, which: impl Fn(&Missed) -> bool) {
        for missed in self.missed.iter_mut().filter(|missed| which(missed)) {
            missed.until = missed.until.min(at);
        }
    }
}

/// The object, if it is a PeerPod with its finalizer.
fn held(object: Option<&Obj>) -> Option<&PeerPod> {
    let peer_pod = object?.as_any().downcast_ref::<PeerPod>()?;
    peer_pod.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER).then_some(peer_pod)
}

fn owner(peer_pod: &PeerPod) -> Option<Owner> {
    let vm = Some(&peer_pod.spec.instance_id).filter(|address| !address.is_empty());
    let allocation = peer_pod.allocation_id().map(|id| Owner::Allocation(id.into()));
    allocation.or_else(|| vm.map(|address| Owner::Vm(AddressKey::of(address))))
}

#[cfg(test)]
mod tests {
    use ipam_byom::PeerPodSpec;

    use super::*;

    #[test]
    fn a_peer_pod_stands_for_the_allocation_that_it_names_or_else_for_its_vm() {
        let named = |instance: &str, allocation: Option<&str>| {
            let spec = PeerPodSpec { instance_id: instance.into(), allocation_id: allocation.map(Into::into), ..PeerPodSpec::default() };
            owner(&PeerPod { spec, ..PeerPod::default() })
        };
        assert_eq!(named("10.0.0.1", Some("web-0-a")), Some(Owner::Allocation("web-0-a".into())));
        assert_eq!(named("10.0.0.1", None), Some(Owner::Vm(AddressKey::of("10.0.0.1"))));
        assert_eq!(named("", None), None);
    }
}
