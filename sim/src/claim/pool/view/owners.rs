//! The PeerPods that still have their finalizer: they stand for VMs that will be released (B S1, P2).

use std::sync::Arc;

use ipam_core::byom::{AddressKey, IpAllocation};
use ipam_core::{FxHashMap, ObjectKey};
use serde_json::Value;

use crate::object::Obj;

/// What only PeerPods have.
const FINALIZER: &str = "peer.pod/finalizer";

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
        let held =
            |object: Option<&Obj>| object.is_some_and(|object| object.meta().finalizers.iter().flatten().any(|name| name == FINALIZER));
        if held(after) {
            if let Some(owner) = after.and_then(|object| owner(&object.to_value())) {
                self.0.insert(key.clone(), owner);
            }
        } else if held(before) {
            self.0.remove(key);
        }
    }
}

fn owner(object: &Value) -> Option<Owner> {
    let spec = object.get("spec")?;
    let text = |field: &str| spec.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let allocation = text("allocationID").map(|id| Owner::Allocation(id.into()));
    allocation.or_else(|| text("instanceID").map(|address| Owner::Vm(AddressKey::of(address))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_peer_pod_stands_for_the_allocation_that_it_names_or_else_for_its_vm() {
        let named = owner(&json!({"spec": {"instanceID": "10.0.0.1", "allocationID": "web-0-a"}}));
        assert_eq!(named, Some(Owner::Allocation("web-0-a".into())));
        assert_eq!(owner(&json!({"spec": {"instanceID": "10.0.0.1"}})), Some(Owner::Vm(AddressKey::of("10.0.0.1"))));
        assert_eq!(owner(&json!({"spec": {"instanceID": ""}})), None);
    }
}
