//! Rules for addresses that outlive their pod, and for how long (A §6.1, §6.4), and for pods that may still answer on theirs.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;

use crate::select::TopController;
use crate::{Policy, SpiderEndpoint};
use kube_machinery::api::ObjectKey;
use kube_machinery::controller_of;
use kube_machinery::kubevirt::{self, VirtualMachineInstance};

/// The kinds of pods whose addresses outlive them, by the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// `enableStatefulSet`: pods of StatefulSets keep their addresses.
    pub(super) stateful_sets: bool,
    /// `enableKubevirtStaticIP`: pods of KubeVirt VMs keep their addresses.
    pub(super) vms: bool,
}

/// The kind of owner that keeps a pod's addresses for its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keeper {
    /// No owner: the addresses are released with the pod.
    Nobody,
    /// A StatefulSet, for the next pod of the same name.
    StatefulSet,
    /// A KubeVirt VM; the endpoint has the name of the VMI.
    Vm,
}

const VMI: &str = "VirtualMachineInstance";
const STATEFUL_SET: &str = "StatefulSet";

impl Keeper {
    /// The keeper of the addresses of a pod with this controller.
    pub(super) fn of(controller: &TopController, kept: Kept) -> Self {
        Self::of_kind(&controller.api_version, &controller.kind, kept)
    }

    /// The keeper of the addresses of a pod whose controller has this API version and kind.
    pub(super) fn of_kind(api_version: &str, kind: &str, kept: Kept) -> Self {
        match (api_version, kind) {
            ("apps/v1", STATEFUL_SET) if kept.stateful_sets => Self::StatefulSet,
            (kubevirt::API_VERSION, VMI) if kept.vms => Self::Vm,
            _ => Self::Nobody,
        }
    }

    /// The keeper of an endpoint's addresses. The endpoint holds only the kind of its owner, not the API version (A §6.1).
    pub(super) fn of_endpoint(endpoint: &SpiderEndpoint, kept: Kept) -> Self {
        endpoint.status.as_ref().map_or(Self::Nobody, |status| Self::of_kind_alone(&status.owner_controller_type, kept))
    }

    /// The keeper for a controller of this kind, whatever its API version.
    pub(super) fn of_kind_alone(kind: &str, kept: Kept) -> Self {
        match kind {
            STATEFUL_SET if kept.stateful_sets => Self::StatefulSet,
            VMI if kept.vms => Self::Vm,
            _ => Self::Nobody,
        }
    }

    /// The key of a pod's endpoint: named like the pod, or like its VMI.
    pub fn endpoint_of(self, pod: &ObjectKey, controller: &TopController) -> ObjectKey {
        match (self, pod.namespace()) {
            (Self::Vm, Some(namespace)) => ObjectKey::namespaced(namespace, &controller.name),
            _ => pod.clone(),
        }
    }
}

/// The StatefulSet and the ordinal in a pod's name: the text before the last dash and the number after it.
pub(super) fn parent_and_ordinal(pod: &str) -> Option<(&str, i32)> {
    let (parent, ordinal) = pod.rsplit_once('-')?;
    let digits = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    if digits { Some((parent, ordinal.parse().ok()?)) } else { None }
}

/// Whether a StatefulSet should have a pod with this ordinal (A §6.4).
pub(super) fn is_wanted(set: &StatefulSet, ordinal: i32, policy: &Policy) -> bool {
    let start = set.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).filter(|_| !policy.ordinals_from_zero).unwrap_or(0);
    let replicas = set.spec.replicas.unwrap_or(1);
    i64::from(ordinal) >= i64::from(start) && i64::from(ordinal) < i64::from(start) + i64::from(replicas)
}

/// Whether a VM instance keeps its addresses (A §6.5); `None` = the VM of its name decides.
pub(super) fn vm_keeps(instance: Option<&VirtualMachineInstance>) -> Option<bool> {
    let meta = &instance?.metadata;
    let controller = controller_of(meta);
    let of_vm = controller.is_some_and(|owner| owner.kind == "VirtualMachine" && owner.api_version == kubevirt::API_VERSION);
    match (meta.deletion_timestamp.is_some(), of_vm) {
        (false, _) => Some(true),
        (true, false) => Some(false),
        (true, true) => None,
    }
}

/// Whether the containers of a pod may run, by its last known state.
///
/// Since Kubernetes 1.27 the kubelet reports the end of all containers before it releases the object. If that was not seen, somebody else
/// deleted the object, by force or because its node was gone, and the containers may have their whole grace period (G R9).
pub(super) fn may_run(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let is_final = matches!(status.and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"));
    let mut containers = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let have_ended = containers.all(|container| container.state.as_ref().is_some_and(|state| state.terminated.is_some()));
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    !(is_final && have_ended) && node.is_some_and(|node| !node.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_number_of_a_name_is_the_ordinal() {
        for (name, expected) in [
            ("db-0", Some(("db", 0))),
            ("a-1-12", Some(("a-1", 12))),
            ("-3", Some(("", 3))),
            ("db", None),
            ("db-", None),
            ("db-+1", None),
            ("db-99999999999", None),
        ] {
            assert_eq!(parent_and_ordinal(name), expected, "{name}");
        }
    }

    #[test]
    fn ordinals_count_from_the_start() {
        let set = |spec| serde_json::from_value::<StatefulSet>(json!({"metadata": {}, "spec": spec})).unwrap();
        let of =
            |spec: serde_json::Value, policy| (0..6).filter(|ordinal| is_wanted(&set(spec.clone()), *ordinal, &policy)).collect::<Vec<_>>();
        let wanted = |spec| of(spec, Policy::hardened());
        let from_zero = Policy { ordinals_from_zero: true, ..Policy::hardened() };
        assert_eq!(of(json!({"selector": {}, "serviceName": "", "replicas": 2, "ordinals": {"start": 3}}), from_zero), [0, 1]);
        assert_eq!(wanted(json!({"selector": {}, "serviceName": "", "replicas": 2})), [0, 1]);
        assert_eq!(wanted(json!({"selector": {}, "serviceName": "", "replicas": 2, "ordinals": {"start": 3}})), [3, 4]);
        assert_eq!(wanted(json!({"selector": {}, "serviceName": ""})), [0]);
        assert_eq!(wanted(json!({"selector": {}, "serviceName": "", "replicas": 0})), [0; 0]);
    }
}
