//! The PeerPod object, which says that a VM may be in use for a pod (B S1).

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::allocation::IpAllocation;
use crate::decide::PodName;
use crate::seconds::Seconds;

/// The finalizer that keeps a PeerPod until its VM was released.
pub const FINALIZER: &str = "peer.pod/finalizer";

/// The infix between the pod's name and the random end of a PeerPod's name.
const INFIX: &str = "-resource-";

/// The alphabet of random names in Kubernetes: no vowels, no digits that look like them.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

const SUFFIX: usize = 5;

/// The maximum length of an object's name.
const NAME_MAX: usize = 253;

/// The data needed to release a VM, and to rebuild its record.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "confidentialcontainers.org",
    version = "v1alpha1",
    kind = "PeerPod",
    plural = "peerpods",
    singular = "peerpod",
    namespaced,
    status = "PeerPodStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A VM that may be in use for a pod, which owns this object; status as a subresource."
)]
#[serde(rename_all = "camelCase")]
pub struct PeerPodSpec {
    /// The cloud provider that made the VM: `byom`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cloud_provider: String,
    /// The address of the VM.
    #[serde(rename = "instanceID", default, skip_serializing_if = "String::is_empty")]
    pub instance_id: String,
    /// The allocation under which the VM was handed out: the fence of its release. Not upstream.
    #[serde(rename = "allocationID", default, skip_serializing_if = "Option::is_none")]
    pub allocation_id: Option<String>,
    /// The node of the adaptor. Not upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The pod. Not upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// The time at which the record was made, by the clock of the adaptor's node. Not upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kube_machinery::schema::Time>")]
    pub allocated_at: Option<Time>,
}

/// The status, which this provider never writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerPodStatus {
    /// Whether the resources of the pod were cleaned up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleaned: Option<bool>,
}

impl PeerPod {
    /// This PeerPod in upstream's form: it names only the VM.
    #[must_use]
    pub(super) fn into_upstreams(mut self) -> Self {
        let PeerPodSpec { cloud_provider, instance_id, .. } = self.spec;
        self.spec = PeerPodSpec { cloud_provider, instance_id, ..PeerPodSpec::default() };
        self
    }

    /// The PeerPod of an allocation, owned by the Pod with this name and UID. `random` draws the end of its name.
    pub(super) fn of_allocation(record: &IpAllocation, pod: &PodName, pod_uid: &str, random: impl FnMut() -> u64) -> Self {
        let spec = PeerPodSpec {
            cloud_provider: "byom".to_owned(),
            instance_id: record.ip.text().to_owned(),
            allocation_id: Some(record.allocation_id.to_string()),
            node_name: Some(record.node_name.to_string()),
            pod_name: Some(record.pod_name.to_string()),
            allocated_at: record.allocated_at.timestamp().map(Time),
        };
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.name.to_string(),
            uid: pod_uid.to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        let metadata = ObjectMeta {
            name: Some(random_name(&pod.name, random)),
            namespace: Some(pod.namespace.to_string()),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        };
        Self { metadata, spec, status: None }
    }

    /// The allocation that it stands for; `None` = it names no allocation.
    pub fn allocation_id(&self) -> Option<&str> {
        self.spec.allocation_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The VM that it names.
    pub fn vm(&self) -> Option<Address> {
        Address::new(self.spec.instance_id.as_str()).canonical()
    }

    /// The record of its allocation; `None` = it names no allocation or no address.
    pub fn allocation(&self) -> Option<IpAllocation> {
        let (id, ip) = (self.allocation_id()?, self.vm()?);
        let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or(""));
        Some(IpAllocation {
            allocation_id: id.into(),
            ip,
            node_name: text(&self.spec.node_name),
            pod_name: text(&self.spec.pod_name),
            pod_namespace: self.metadata.namespace.as_deref().map(Arc::from),
            allocated_at: self.spec.allocated_at.as_ref().map_or(Seconds::ZERO, |time| Seconds::new(time.0)),
        })
    }

    /// Whether it may stand for this allocation: it names the VM, is owned by a Pod of the same name, and names no other allocation.
    pub(super) fn is_of(&self, record: &IpAllocation) -> bool {
        let named = Address::new(self.spec.instance_id.as_str()).canonical();
        let owners = self.metadata.owner_references.as_deref().unwrap_or_default();
        named.is_some_and(|address| address.key() == record.ip.key())
            && owners.iter().any(|owner| owner.controller == Some(true) && *owner.name == *record.pod_name)
            && self.allocation_id().is_none_or(|id| *id == *record.allocation_id)
    }

    /// The UID of the Pod that owns it.
    pub fn owner_uid(&self) -> Option<&str> {
        let owners = self.metadata.owner_references.as_deref().unwrap_or_default();
        owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| &*owner.uid)
    }

    /// Whether it has the finalizer, that is, its VM has not been released yet.
    pub fn has_finalizer(&self) -> bool {
        self.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
    }

    /// Whether it is marked for deletion.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// A copy without the finalizer, for an update.
    #[must_use]
    pub(super) fn without_finalizer(&self) -> Self {
        let mut without = self.clone();
        let finalizers = without.metadata.finalizers.take().unwrap_or_default();
        let others: Vec<String> = finalizers.into_iter().filter(|finalizer| finalizer != FINALIZER).collect();
        without.metadata.finalizers = Some(others).filter(|others| !others.is_empty());
        without
    }
}

/// Returns `<pod>-resource-<5 random characters>`; a pod name that is too long is cut.
fn random_name(pod: &str, mut random: impl FnMut() -> u64) -> String {
    let room = NAME_MAX - INFIX.len() - SUFFIX;
    let mut name = pod[..pod.len().min(room)].to_owned();
    name.push_str(INFIX);
    name.extend((0..SUFFIX).map(|_| char::from(ALPHABET[(random() % ALPHABET.len() as u64) as usize])));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> IpAllocation {
        IpAllocation {
            allocation_id: "web-1".into(),
            ip: Address::new("10.0.0.1"),
            node_name: "node-a".into(),
            pod_name: "web".into(),
            pod_namespace: Some("shop".into()),
            allocated_at: Seconds::new("2026-01-02T03:04:05Z".parse().unwrap()),
        }
    }

    fn peer_pod() -> PeerPod {
        let pod = PodName { name: "web".into(), namespace: "shop".into() };
        let mut drawn = 0;
        PeerPod::of_allocation(&record(), &pod, "uid-1", move || {
            drawn += 1;
            drawn
        })
    }

    #[test]
    fn it_is_written_with_the_names_of_upstream_and_all_that_a_record_needs() {
        let expected = serde_json::json!({
            "apiVersion": "confidentialcontainers.org/v1alpha1",
            "kind": "PeerPod",
            "metadata": {
                "name": "web-resource-cdfgh",
                "namespace": "shop",
                "finalizers": ["peer.pod/finalizer"],
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-1", "controller": true, "blockOwnerDeletion": true
                }]
            },
            "spec": {
                "cloudProvider": "byom",
                "instanceID": "10.0.0.1",
                "allocationID": "web-1",
                "nodeName": "node-a",
                "podName": "web",
                "allocatedAt": "2026-01-02T03:04:05Z"
            }
        });
        assert_eq!(serde_json::to_value(peer_pod()).unwrap(), expected);
        let read: PeerPod = serde_json::from_value(expected).unwrap();
        assert_eq!((read.allocation(), read.owner_uid(), read.has_finalizer()), (Some(record()), Some("uid-1"), true));
    }

    #[test]
    fn one_of_upstream_has_no_allocation() {
        let text = r#"{"metadata":{"name":"x"},"spec":{"cloudProvider":"byom","instanceID":"10.0.0.1"}}"#;
        let read: PeerPod = serde_json::from_str(text).unwrap();
        assert_eq!((read.allocation_id(), read.allocation(), read.owner_uid()), (None, None, None));
    }

    #[test]
    fn only_its_own_finalizer_goes() {
        let mut both = peer_pod();
        both.metadata.finalizers = Some(vec!["other".to_owned(), FINALIZER.to_owned()]);
        assert_eq!(both.without_finalizer().metadata.finalizers, Some(vec!["other".to_owned()]));
        assert_eq!(peer_pod().without_finalizer().metadata.finalizers, None);
    }

    #[test]
    fn a_name_never_grows_too_long() {
        assert_eq!(random_name(&"p".repeat(253), || 0).len(), 253);
    }
}
