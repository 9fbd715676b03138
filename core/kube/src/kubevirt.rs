//! The types of KubeVirt as far as they concern address management: VMs whose pods keep their addresses (A §6).
//!
//! ```text
//!   VirtualMachine ── owns ──► VirtualMachineInstance ── owns ──► Pod virt-launcher-NAME-xxxxx, two during a live migration
//!   VirtualMachineInstanceMigration ── spec.vmiName ──┘
//! ```
//! Group `kubevirt.io`, version `v1`. Fields that nothing here reads are kept as they came, so that what `kubectl get -o yaml` prints
//! survives a round trip.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Pod, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::{ListOptions, ObjectKey};
use crate::owner::controller_of;

/// The API group and version of all three types, in the form of an owner reference.
pub const API_VERSION: &str = "kubevirt.io/v1";

/// On a pod: the migration of which it is the target (A §6.2).
pub const MIGRATION_ANNOTATION: &str = "kubevirt.io/migrationJobName";

/// On a pod: the name of its instance.
pub const DOMAIN_ANNOTATION: &str = "kubevirt.io/domain";

/// On a pod: the UID of its instance.
pub const CREATED_BY_LABEL: &str = "kubevirt.io/created-by";

/// On a pod: the kind of pod; [`LAUNCHER`].
pub const APP_LABEL: &str = "kubevirt.io";

/// The value for a pod that runs an instance.
pub const LAUNCHER: &str = "virt-launcher";

/// The finalizer that keeps an instance until its pods are gone.
pub const INSTANCE_FINALIZER: &str = "foregroundDeleteVirtualMachine";

/// Fields without a counterpart in these types.
pub type Unread = BTreeMap<String, Value>;

/// The desired state of a [`VirtualMachine`].
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "VirtualMachine",
    plural = "virtualmachines",
    singular = "virtualmachine",
    shortname = "vm",
    namespaced,
    schema = "disabled",
    status = "VirtualMachineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A VM that may be off; status as a subresource."
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineSpec {
    /// Whether it should run; the older form of `runStrategy`, and never together with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<bool>,
    /// The run strategy: `Always`, `RerunOnFailure`, `Once`, `Manual` or `Halted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_strategy: Option<String>,
    /// The template of its instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<InstanceTemplate>,
    /// The fields of `spec` without a counterpart here, kept unchanged.
    #[serde(flatten)]
    pub rest: Unread,
}

/// The template of an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceTemplate {
    /// Labels and annotations of the instance, which its pods inherit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectMeta>,
    /// The desired state of the instance.
    #[serde(default)]
    pub spec: VirtualMachineInstanceSpec,
    /// The fields of `spec.template` without a counterpart here, kept unchanged.
    #[serde(flatten)]
    pub rest: Unread,
}

/// The conditions under which a VM should have an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStrategy {
    /// Always: an instance that ended, however it did, is replaced.
    Always,
    /// Until it succeeds: an instance that failed is replaced.
    RerunOnFailure,
    /// Once: an instance that ended is not replaced.
    Once,
    /// On request through the API: nothing is started or replaced automatically.
    Manual,
    /// Never: an instance is deleted.
    Halted,
}

impl VirtualMachineSpec {
    /// The run strategy. An unknown one counts as [`RunStrategy::Halted`], because a VM with neither field is off.
    pub fn strategy(&self) -> RunStrategy {
        match (self.run_strategy.as_deref(), self.running) {
            (Some("Always"), _) | (None, Some(true)) => RunStrategy::Always,
            (Some("RerunOnFailure"), _) => RunStrategy::RerunOnFailure,
            (Some("Once"), _) => RunStrategy::Once,
            (Some("Manual"), _) => RunStrategy::Manual,
            (Some(_), _) | (None, _) => RunStrategy::Halted,
        }
    }
}

/// The observed state of a [`VirtualMachine`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineStatus {
    /// Whether it has an instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<bool>,
    /// Whether its instance runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The fields of `status` without a counterpart here, kept unchanged.
    #[serde(flatten)]
    pub rest: Unread,
}

/// The desired state of a [`VirtualMachineInstance`].
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "VirtualMachineInstance",
    plural = "virtualmachineinstances",
    singular = "virtualmachineinstance",
    shortname = "vmi",
    namespaced,
    schema = "disabled",
    status = "VirtualMachineInstanceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A VM that is on, from its start to its end; status as a subresource. Its name is that of the VM that owns it, if one does."
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceSpec {
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// The affinity of its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// The taints that its pods tolerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// The time in seconds that the guest has to shut down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// The fields of `spec` without a counterpart here, such as `domain`; kept unchanged.
    #[serde(flatten)]
    pub rest: Unread,
}

impl VirtualMachineInstance {
    /// The options that list its pods, including those that have ended.
    pub fn select_pods(&self) -> ListOptions {
        let uid = self.metadata.uid.as_deref().unwrap_or_default();
        ListOptions { label_selector: Some(format!("{CREATED_BY_LABEL}={uid}")), ..ListOptions::default() }
    }
}

/// The pods of a VM, including those that have ended.
///
/// A pod can outlive its instance, although a finalizer keeps the instance until its pods are gone: a controller that was partitioned may
/// have created the pod by a delayed request. Without an instance its pods are recognised by the controller in their owner references.
#[derive(Clone, Copy, Debug)]
pub struct PodsOf<'a> {
    key: &'a ObjectKey,
    instance: Option<&'a VirtualMachineInstance>,
}

impl<'a> PodsOf<'a> {
    /// The pods of an instance; without one, those of any instance that had the name.
    pub fn new(key: &'a ObjectKey, instance: Option<&'a VirtualMachineInstance>) -> Self {
        Self { key, instance }
    }

    /// The namespace of all the pods.
    pub fn namespace(&self) -> Option<&'a str> {
        self.key.namespace()
    }

    /// The options that list the pods. Without an instance other pods are listed, too: check [`PodsOf::has`].
    pub fn select(&self) -> ListOptions {
        self.instance.map_or_else(
            || ListOptions { label_selector: Some(format!("{APP_LABEL}={LAUNCHER}")), ..ListOptions::default() },
            VirtualMachineInstance::select_pods,
        )
    }

    /// Whether a pod of the namespace is one of them.
    pub fn has(&self, pod: &Pod) -> bool {
        let Some(instance) = self.instance else {
            let controller = controller_of(&pod.metadata);
            return controller.is_some_and(|owner| {
                owner.kind == "VirtualMachineInstance" && owner.api_version == API_VERSION && owner.name == self.key.name()
            });
        };
        let creator = pod.metadata.labels.as_ref().and_then(|labels| labels.get(CREATED_BY_LABEL));
        creator.is_some_and(|creator| !creator.is_empty() && instance.metadata.uid.as_ref() == Some(creator))
    }
}

/// The observed state of a [`VirtualMachineInstance`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceStatus {
    /// `Pending`, `Scheduling`, `Scheduled`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The node it runs on: that of the source until a migration has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The nodes of its live pods by the pods' UIDs: two during a migration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub active_pods: BTreeMap<String, String>,
    /// The latest migration, whether it goes on or is over; `None` until the first one has its target pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration_state: Option<MigrationState>,
    /// The fields of `status` without a counterpart here, kept unchanged.
    #[serde(flatten)]
    pub rest: Unread,
}

impl VirtualMachineInstanceStatus {
    /// Whether it has ended, successfully or not.
    pub fn is_final(&self) -> bool {
        matches!(self.phase.as_deref(), Some("Succeeded" | "Failed"))
    }
}

/// The source and the target of a migration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationState {
    /// The UID of the migration object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration_uid: Option<String>,
    /// The node that the instance leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_node: Option<String>,
    /// The name of the source pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_pod: Option<String>,
    /// The node that the instance goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_node: Option<String>,
    /// The name of the target pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_pod: Option<String>,
    /// Whether the migration is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// Whether the migration ended without moving the instance; set together with `completed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
    /// The fields of `migrationState` without a counterpart here, kept unchanged.
    #[serde(flatten)]
    pub rest: Unread,
}

impl MigrationState {
    /// The names of both pods, as far as they are known.
    pub fn pods(&self) -> impl Iterator<Item = &str> {
        [&self.source_pod, &self.target_pod].into_iter().flatten().map(String::as_str)
    }
}

/// The desired state of a [`VirtualMachineInstanceMigration`].
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "VirtualMachineInstanceMigration",
    plural = "virtualmachineinstancemigrations",
    singular = "virtualmachineinstancemigration",
    shortname = "vmim",
    namespaced,
    schema = "disabled",
    status = "VirtualMachineInstanceMigrationStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The wish to move an instance to another node while it runs; status as a subresource."
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceMigrationSpec {
    /// The instance, in the same namespace.
    #[serde(default)]
    pub vmi_name: String,
    /// The fields of `spec` without a counterpart here, kept unchanged.
    #[serde(flatten)]
    pub rest: Unread,
}

/// The observed state of a [`VirtualMachineInstanceMigration`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceMigrationStatus {
    /// `Pending`, `Scheduling`, `Scheduled`, `PreparingTarget`, `TargetReady`, `Running`, `Succeeded` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The fields of `status` without a counterpart here, kept unchanged.
    #[serde(flatten)]
    pub rest: Unread,
}

impl VirtualMachineInstanceMigrationStatus {
    /// Whether it is over, successfully or not.
    pub fn is_final(&self) -> bool {
        matches!(self.phase.as_deref(), Some("Succeeded" | "Failed"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nothing_reads_survives_a_round_trip() {
        let vm = json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": "vm", "namespace": "default"},
            "spec": {
                "running": true,
                "dataVolumeTemplates": [{"metadata": {"name": "disk"}}],
                "template": {
                    "metadata": {"labels": {"app": "vm"}},
                    "spec": {"domain": {"cpu": {"cores": 2}}, "networks": [{"name": "default", "pod": {}}]},
                },
            },
            "status": {"created": true, "printableStatus": "Running"},
        });
        let typed: VirtualMachine = serde_json::from_value(vm.clone()).unwrap();
        assert_eq!(typed.spec.strategy(), RunStrategy::Always);
        assert_eq!(serde_json::to_value(&typed).unwrap(), vm);
        let vmi = json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"name": "vm", "namespace": "default"},
            "spec": {"domain": {}, "evictionStrategy": "LiveMigrate"},
            "status": {"phase": "Running", "nodeName": "n1", "activePods": {"u1": "n1"}, "qosClass": "Burstable",
                       "migrationState": {"migrationUid": "m", "targetNode": "n2", "mode": "PreCopy"}},
        });
        let typed: VirtualMachineInstance = serde_json::from_value(vmi.clone()).unwrap();
        assert!(!typed.status.as_ref().unwrap().is_final());
        assert_eq!(serde_json::to_value(&typed).unwrap(), vmi);
    }

    #[test]
    fn a_vm_without_a_strategy_that_is_known_is_off() {
        let strategy = |spec| serde_json::from_value::<VirtualMachineSpec>(spec).unwrap().strategy();
        assert_eq!(strategy(json!({})), RunStrategy::Halted);
        assert_eq!(strategy(json!({"running": false})), RunStrategy::Halted);
        assert_eq!(strategy(json!({"runStrategy": "RerunOnFailure"})), RunStrategy::RerunOnFailure);
        assert_eq!(strategy(json!({"runStrategy": "Sometimes"})), RunStrategy::Halted);
    }
}
