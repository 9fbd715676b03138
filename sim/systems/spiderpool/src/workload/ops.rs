//! What people do to a cluster with Spiderpool, as data.

use std::collections::BTreeMap;

use ipam_spiderpool::IPPoolSpec;
use kube_machinery::api::Propagation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::Open;
use sim_config::time::Span;

use super::pod_count::PodCount;

/// The namespace of whatever names none.
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

/// What kind of workload an application is.
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

/// An operator creates an application; if there is one of that name, once that is gone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyApp {
    /// Name of the workload, or of the bare pod: lower-case letters, digits, hyphens and dots, at most 253.
    pub app: String,
    /// Namespace of the workload and its pods; while there is none of this name, the operator tries again.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Which kind of workload makes its pods, or `pod` for a bare one.
    #[serde(rename = "type")]
    pub kind: AppKind,
    /// How many pods; of a Job, how many completions. A DaemonSet has one a node, a bare pod and a VM are one.
    #[serde(default = "one")]
    pub replicas: u32,
    /// The annotations of its pods: which pools they want, which networks they join.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// More labels of its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether its pods use the network of their node.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host_network: bool,
    /// Whether a StatefulSet starts and stops all its pods at once instead of one after the other, and whether a CronJob starts a Job while
    /// another one runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parallel: bool,
    /// The first ordinal of a StatefulSet (`ordinals.start`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub start: u32,
    /// How many of a StatefulSet's pods, the lowest first, keep the template that they have when it changes (`partition`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub partition: u32,
    /// Whether a pod of a StatefulSet stays as it is when the template changes, until an operator deletes it (`OnDelete`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_delete: bool,
    /// The number of the node that a bare pod names itself; else the scheduler chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Whether no node will do: the pod stays pending.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unschedulable: bool,
    /// How often a CronJob starts a Job, in whole seconds; every minute if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// After this time the containers of its pods end by themselves; a Job's always do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completes: Option<Span>,
    /// Whether they end with an error; that says something only together with `completes`, or of a Job. A Job tries again for a while.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fails: bool,
    /// How long its pods may take to stop, in whole seconds; Kubernetes' 30 s if absent. Of a VM it is the guest's, and its pods have 30 s
    /// more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<u32>,
    /// How many of its pods evictions leave ready in any case: `minAvailable` of a PodDisruptionBudget of its name, which outlives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<PodCount>,
    /// How many of its pods may be missing when one is evicted: `maxUnavailable` of that budget, which has only one of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<PodCount>,
    /// How its UID ends, which the API server draws. The name of an auto pool has five digits of it (A §8.2), which are those of a
    /// namesake, too, as likely as not among 1,200 workloads of one name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid_end: Option<String>,
}

/// An operator changes how many pods a StatefulSet, a Deployment, a ReplicaSet or a CloneSet has. Nothing happens to others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleApp {
    /// Name of the application; nothing happens if there is none of this name by then.
    pub app: String,
    /// Namespace of the application whose number of pods changes.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// How many pods there shall be.
    pub replicas: u32,
}

/// An operator edits a StatefulSet, apart from its template and the number of its pods. Nothing happens to an application of another kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditStatefulSet {
    /// Name of the StatefulSet; nothing happens if there is none of this name by then.
    pub app: String,
    /// The namespace that it is in.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Its first ordinal from now on: pods below it go, and as many come at the other end (`ordinals.start`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u32>,
    /// How many of its pods, the lowest first, keep the template that they have (`partition`). The others are replaced if they are
    /// outdated, whatever `on_delete` said before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// Whether outdated pods stay until an operator deletes them (`OnDelete`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<bool>,
}

/// An operator has all pods of an application replaced: its template changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollOutApp {
    /// Name of the application; nothing happens if there is none by then, or to a bare pod, a Job, a CronJob or a VM.
    pub app: String,
    /// Namespace of the application whose pods are replaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Annotations of the pods from now on, besides those that they have; an empty text takes one away.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels of the pods from now on, besides those that they have; an empty text takes one away.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether the pods use the network of their node from now on, and so none of Spiderpool's addresses.
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
    /// What becomes of its pods, as `kubectl delete --cascade` says it. Bare pods have none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cascade: Cascade,
}

/// What becomes of the pods of an application that is deleted (K105).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cascade {
    /// The garbage collector deletes them when the application is gone.
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
    /// Which of its pods by name, modulo how many there are.
    pub number: u32,
    /// Whether the API forgets it at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: bool,
}

/// A VM is moved to another node while it runs.
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
    /// Name of the SpiderIPPool, unique in the cluster: annotations and operations name it so.
    pub name: String,
    /// What a SpiderIPPool says, with the names of its manifest.
    pub spec: IPPoolSpec,
}

/// An operator creates a pool; if there is one of that name, once that is gone.
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
    /// Whether the finalizer is taken away by hand, so that the pool is gone at once with its records.
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
    /// Agents and replicas of the controller are restarted one after the other, as roll-outs of a DaemonSet and of a Deployment do it side
    /// by side: so long after one of them the next. Until its turn each goes by what it read when it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
}

/// An operator edits a pool. Addresses that are in use stay in it, as admission asks for (A §9.1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditPool {
    /// Name of the SpiderIPPool; nothing happens if there is none by then, or if it is terminating, unless `held` is false.
    pub pool: String,
    /// Whether it is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable: Option<bool>,
    /// Whether it serves pods that name no pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// Its ranges from now on, and the addresses in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ips: Option<Vec<String>>,
    /// The ranges that are excluded from now on, without the addresses in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// The nodes whose pods may use it; empty = all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
    /// The namespaces whose pods may use it; empty = all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Whether another client holds it with its own finalizer, as backup tools do. It can let go even while the pool is being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// Whether the whole spec is written by server-side apply, which takes the fields that others manage (K §2.9), and not by an update of
    /// what was read. Finalizers are updated in any case.
    #[serde(default, skip_serializing_if = "is_default")]
    pub applied: bool,
}

/// An operator types a stray character into the records of a pool, so that they cannot be parsed, or removes it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GarbleRecords {
    /// Name of the SpiderIPPool; nothing happens if there is none of this name by then, or if it has no records.
    pub pool: String,
    /// Whether it is taken out again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mended: bool,
}

/// An operator writes into a pool by hand which pod holds an address, or that none does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditRecord {
    /// Name of the SpiderIPPool; nothing happens if there is none of this name by then, or if its records cannot be parsed.
    pub pool: String,
    /// Which address; what is none is a key that holds nothing, and stays.
    pub ip: String,
    /// Whom the record names from now on, as `NAMESPACE/NAME`, whether there is such a pod or not. Without it there is no record any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The UID in the record.
    #[serde(default = "no_uid", skip_serializing_if = "is_no_uid")]
    pub uid: String,
    /// Whether the count beside the records stays as it is: the operator does not know of it, or counts wrongly.
    #[serde(default, skip_serializing_if = "is_default")]
    pub miscounted: bool,
    /// Whether there is a SpiderEndpoint of that name afterwards, too: if there was none, one that names this address and the UID.
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
    /// Name of the SpiderReservedIP; if there is one of this name, it is created once that is gone.
    pub name: String,
    /// Addresses, and ranges `FIRST-LAST`, that are not to be given to pods; the first says of which family all are.
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
    /// Name of the namespace; if there is one of this name, it is created once that is gone.
    pub namespace: String,
}

/// An operator deletes a namespace with all that is in it.
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
    /// The node that a person labels, by its name.
    pub node: String,
    /// The labels; an empty text takes one away.
    pub labels: BTreeMap<String, String>,
}

/// An operator drains a node, as `kubectl drain --ignore-daemonsets --force` does: it takes no new pods, and those that it has are
/// evicted but for those of DaemonSets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainNode {
    /// The node that is drained, by its name.
    pub node: String,
    /// After this time the operator gives up, and the pods that are left there stay (`--timeout`).
    #[serde(default = "drain_timeout")]
    pub timeout: Span,
}

/// An operator lets a node take new pods again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UncordonNode {
    /// The node that is uncordoned, by its name.
    pub node: String,
}

/// An operator changes the labels of a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelNamespace {
    /// The namespace that a person labels, by its name.
    pub namespace: String,
    /// The labels; an empty text takes one away.
    pub labels: BTreeMap<String, String>,
}

/// An operator changes the annotations of a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnnotateNamespace {
    /// Name of the namespace; nothing happens if there is none of this name by then.
    pub namespace: String,
    /// The annotations; an empty text takes one away.
    pub annotations: BTreeMap<String, String>,
}
