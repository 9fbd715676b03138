//! The PeerPods that still have their finalizer: they stand for VMs that will be released (B S1, P2).

use std::sync::Arc;

use ipam_byom::{AddressKey, FINALIZER, IpAllocation, PeerPod};
use kube_machinery::{FxHashMap, ObjectKey};
use kube_sim::object::Obj;

/// What a PeerPod stands for.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    /// The allocation that it names.
    Allocation(Arc<str>),
    /// Upstream it names only the VM.
    Vm(AddressKey),
}

/// All of them.
#[derive(Debug, Default)]
pub(in super::super) struct Owners(FxHashMap<ObjectKey, Owner>);

impl Owners {
    /// Whether one of them stands for a record. Linear.
    pub(in super::super) fn cover(&self, record: &IpAllocation) -> bool {
        self.0.values().any(|owner| match owner {
            Owner::Allocation(id) => *id == record.allocation_id,
            Owner::Vm(address) => address == record.ip.key(),
        })
    }

    pub(super) fn see(&mut self, key: &ObjectKey, before: Option<&Obj>, after: Option<&Obj>) {
        if let Some(peer_pod) = held(after) {
            if let Some(owner) = owner(peer_pod) {
                self.0.insert(key.clone(), owner);
            }
        } else if held(before).is_some() {
            self.0.remove(key);
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
