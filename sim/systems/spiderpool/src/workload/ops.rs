//! The operations of operators on a cluster with Spiderpool, as data.

use std::collections::BTreeMap;

use ipam_spiderpool::IPPoolSpec;
use kube_machinery::api::Propagation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::Open;
use sim_config::time::Span;

use super::pod_count::PodCount;

/// The default namespace of operations.
pub(super) const NAMESPACE: &str = "default";

fn default_namespace() -> String {
    NAMESPACE.to_owned()
}

fn one() -> u32 {
    1
}

fn drain_timeout() -> Span {
    Span::secs(120)
}

/// A UID that no pod has.
fn no_uid() -> String {
    "00000000-0000-0000-0000-000000000000".to_owned()
}

fn is_no_uid(uid: &String) -> bool {
    *uid == no_uid()
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The kind of workload of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AppKind {
    /// One bare pod under the name of the application.
    #[default]
    Pod,
    /// A StatefulSet, whose pods have ordinals and by default keep the addresses of their predecessors (A S10).
    StatefulSet,
    /// A Deployment, which replaces its pods through a new ReplicaSet when its template changes.
    Deployment,
    /// A ReplicaSet without a Deployment.
    ReplicaSet,
    /// A DaemonSet: one pod on each node, whatever `replicas` says.
    DaemonSet,
    /// A Job whose pods complete.
    Job,
    /// A KubeVirt VirtualMachine: one pod, or two while it is moved to another node.
    VirtualMachine,
    /// A CronJob that starts Jobs whose pods complete.
    CronJob,
    /// An OpenKruise CloneSet: a kind that Spiderpool does not know.
    CloneSet,
    /// One pod of a workload of a kind that the cluster lacks: a CloneSet of another API group, or another kind of OpenKruise's.
    CustomResource,
}

impl Open for AppKind {}

/// An operator creates an application; waits for one of the same name to be gone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyApp {
    /// Name of the workload, or of the bare pod: lower-case letters, digits, hyphens and dots, at most 253.
    pub app: String,
    /// Namespace of the workload and its pods; until it exists, the operator retries.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The kind of workload that creates its pods, or `pod` for a bare one.
    #[serde(rename = "type")]
    pub kind: AppKind,
    /// The number of pods, or of completions of a Job. A DaemonSet has one pod a node, a bare pod and a VM are one.
    #[serde(default = "one")]
    pub replicas: u32,
    /// The annotations of its pods: the pools that they ask for, and the networks that they join.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Additional labels of its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether its pods use the host network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host_network: bool,
    /// Whether a StatefulSet starts and stops all its pods at once instead of one after the other, and whether a CronJob starts a Job while
    /// another one runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parallel: bool,
    /// The first ordinal of a StatefulSet (`ordinals.start`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub start: u32,
    /// The number of a StatefulSet's pods, the lowest first, that keep the old template when it changes (`partition`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub partition: u32,
    /// Whether a pod of a StatefulSet stays when the template changes, until an operator deletes it (`OnDelete`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_delete: bool,
    /// The number of the node that a bare pod names itself; otherwise the scheduler chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Whether no node fits: the pod stays pending.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unschedulable: bool,
    /// The interval at which a CronJob starts a Job, in whole seconds; every minute if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// The time after which the containers of its pods end by themselves; a Job's always do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completes: Option<Span>,
    /// Whether they end with an error; needs `completes`, or a Job. A Job retries for a while.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fails: bool,
    /// The grace period of its pods, in whole seconds; Kubernetes' 30 s if absent. For a VM it is the guest's, and its pods have 30 s more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<u32>,
    /// The number of its pods that evictions always leave ready: `minAvailable` of a PodDisruptionBudget of its name, which outlives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<PodCount>,
    /// The number of its pods that may be missing when one is evicted: `maxUnavailable` of that budget, which has only one of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<PodCount>,
    /// The end of its UID, which the API server draws. The name of an auto pool contains five digits of it (A §8.2); among 1,200 workloads
    /// of one name, two are as likely as not to share them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid_end: Option<String>,
}

/// An operator changes the number of pods of a StatefulSet, a Deployment, a ReplicaSet or a CloneSet. Nothing happens to others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleApp {
    /// Name of the application; nothing happens if there is none of this name by then.
    pub app: String,
    /// Namespace of the application whose number of pods changes.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The new number of pods.
    pub replicas: u32,
}

/// An operator edits a StatefulSet, apart from its template and the number of its pods. Nothing happens to an application of another kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditStatefulSet {
    /// Name of the StatefulSet; nothing happens if there is none of this name by then.
    pub app: String,
    /// Namespace of the StatefulSet that is edited.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Its new first ordinal: pods below it go, and as many come at the other end (`ordinals.start`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u32>,
    /// The number of its pods, the lowest first, that keep their template (`partition`). The others are replaced if they are outdated,
    /// whatever `on_delete` was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// Whether outdated pods stay until an operator deletes them (`OnDelete`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<bool>,
}

/// An operator replaces all pods of an application by a change of its template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollOutApp {
    /// Name of the application; nothing happens if there is none by then, or to a bare pod, a Job, a CronJob or a VM.
    pub app: String,
    /// Namespace of the application whose pods are replaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Annotations that the pods get in addition to their own; an empty string removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels that the pods get in addition to their own; an empty string removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether the pods use the host network from now on, and so none of Spiderpool's addresses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host_network: bool,
}

/// An operator deletes an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteApp {
    /// Name of the application; nothing happens if there is none of this name by then.
    pub app: String,
    /// Namespace of the application that is deleted.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Whether the API forgets a bare pod at once, before its kubelet has stopped it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: bool,
    /// The treatment of its pods, as in `kubectl delete --cascade`. Bare pods have none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cascade: Cascade,
}

/// The treatment of the pods of an application that is deleted (K105).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cascade {
    /// The garbage collector deletes them once the application is gone.
    #[default]
    Background,
    /// They go first, and the application with the last of them.
    Foreground,
    /// They stay, without an owner.
    Orphan,
}

impl From<Cascade> for Propagation {
    fn from(cascade: Cascade) -> Self {
        match cascade {
            Cascade::Background => Propagation::Background,
            Cascade::Foreground => Propagation::Foreground,
            Cascade::Orphan => Propagation::Orphan,
        }
    }
}

/// An operator deletes a pod of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeletePodOf {
    /// Name of the application; nothing happens if it has no pod by then. Its pods are those with its label `app`.
    pub app: String,
    /// Namespace of the application, and so of the pod.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The index of the pod among those of the application, ordered by name, modulo their number.
    pub number: u32,
    /// Whether the API forgets the pod at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: bool,
}

/// An operator moves a VM to another node while it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MigrateVm {
    /// Name of the VirtualMachine, and so of its VirtualMachineInstance, which the migration names (`vmiName`).
    pub app: String,
    /// Namespace of the VirtualMachine, in which its migration is created.
    #[serde(default = "default_namespace")]
    pub namespace: String,
}

/// A pool of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolPlan {
    /// Name of the SpiderIPPool, unique in the cluster; annotations and operations use it.
    pub name: String,
    /// The spec of the SpiderIPPool, with the field names of its manifest.
    pub spec: IPPoolSpec,
}

/// An operator creates a pool; waits for one of the same name to be gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// The pool as operators write it: its name, and the spec of its manifest.
    pub pool: Box<PoolPlan>,
}

/// An operator deletes a pool. Its finalizer holds it while it has records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeletePool {
    /// Name of the SpiderIPPool; nothing happens if there is none of this name by then.
    pub pool: String,
    /// Whether the finalizer is removed by hand, so that the pool is gone at once with its records.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: bool,
}

/// An operator changes settings of Spiderpool, and restarts its agents, which read them when they start: all at once, while replicas of the
/// controller read them when they start next, or by a roll-out of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSettings {
    /// The settings that change, by their names in A §10.
    pub settings: BTreeMap<String, String>,
    /// The time between two restarts. Agents and replicas of the controller are restarted one after the other, in parallel roll-outs of a
    /// DaemonSet and a Deployment. Until its turn each uses the settings that it read when it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
}

/// An operator edits a pool. Addresses in use stay in it, as admission requires (A §9.1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditPool {
    /// Name of the SpiderIPPool; nothing happens if there is none by then, or if it is terminating, unless `held` is false.
    pub pool: String,
    /// Whether the pool is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable: Option<bool>,
    /// Whether the pool serves pods that name no pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// The new ranges of the pool; the addresses in use are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ips: Option<Vec<String>>,
    /// The new excluded ranges, without the addresses in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// The nodes whose pods may use the pool; empty = all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
    /// The namespaces whose pods may use the pool; empty = all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Whether another client holds the pool with its own finalizer, as backup tools do. It can be removed even while the pool is being
    /// deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// Whether the whole spec is written by server-side apply, which takes over the fields that others manage (K §2.9), and not by an
    /// update of the pool that was read. Finalizers are always updated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub applied: bool,
}

/// An operator types a stray character into the records of a pool, so that they cannot be parsed, or removes it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GarbleRecords {
    /// Name of the SpiderIPPool; nothing happens if there is none of this name by then, or if it has no records.
    pub pool: String,
    /// Whether the character is removed again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mended: bool,
}

/// An operator changes by hand the holder of an address in a pool, or removes its record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditRecord {
    /// Name of the SpiderIPPool; nothing happens if there is none of this name by then, or if its records cannot be parsed.
    pub pool: String,
    /// The address; a key that is no address holds nothing, and stays.
    pub ip: String,
    /// The pod that the record names from now on, as `NAMESPACE/NAME`, whether it exists or not. Without it the record is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The UID in the record.
    #[serde(default = "no_uid", skip_serializing_if = "is_no_uid")]
    pub uid: String,
    /// Whether the count beside the records stays unchanged: the operator does not know of it, or counts wrongly.
    #[serde(default, skip_serializing_if = "is_default")]
    pub miscounted: bool,
    /// Whether a SpiderEndpoint of that name exists afterwards, too: if there was none, one with this address and the UID.
    #[serde(default, skip_serializing_if = "is_default")]
    pub endpoint: bool,
    /// Whether nothing happens if the address is recorded already.
    #[serde(default, skip_serializing_if = "is_default")]
    pub if_free: bool,
}

/// An operator reserves addresses, whether they are in use or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    /// Name of the SpiderReservedIP; if one of this name exists, the operator waits for it to be gone.
    pub name: String,
    /// Addresses, and ranges `FIRST-LAST`, that are not to be given to pods; the first determines the family.
    pub ips: Vec<String>,
}

/// An operator releases reserved addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unreserve {
    /// Name of the SpiderReservedIP; nothing happens if there is none of this name by then.
    pub name: String,
}

/// An operator creates a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateNamespace {
    /// Name of the namespace; if one of this name exists, the operator waits for it to be gone.
    pub namespace: String,
}

/// An operator deletes a namespace with everything in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteNamespace {
    /// Name of the namespace; nothing happens if there is none of this name by then.
    pub namespace: String,
}

/// An operator changes the labels of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelNode {
    /// The name of the node.
    pub node: String,
    /// The labels; an empty string removes one.
    pub labels: BTreeMap<String, String>,
}

/// An operator drains a node, as `kubectl drain --ignore-daemonsets --force` does: it takes no new pods, and its own are evicted except
/// those of DaemonSets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainNode {
    /// The name of the node that is drained.
    pub node: String,
    /// The time after which the operator gives up, and the remaining pods stay (`--timeout`).
    #[serde(default = "drain_timeout")]
    pub timeout: Span,
}

/// An operator lets a node take new pods again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UncordonNode {
    /// The name of the node that is uncordoned.
    pub node: String,
}

/// An operator changes the labels of a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelNamespace {
    /// The name of the namespace that is labelled.
    pub namespace: String,
    /// The labels; an empty string removes one.
    pub labels: BTreeMap<String, String>,
}

/// An operator changes the annotations of a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnnotateNamespace {
    /// Name of the namespace; nothing happens if there is none of this name by then.
    pub namespace: String,
    /// The annotations; an empty string removes one.
    pub annotations: BTreeMap<String, String>,
}
