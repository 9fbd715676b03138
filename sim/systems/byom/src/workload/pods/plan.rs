//! The cluster and the operations of a workload of pods, as data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ipam_byom::{Address, Mapped, PoolIps};
use k8s_openapi::api::core::v1::Pod;
use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::draw::Draw;
use sim_config::time::{SimTime, Span};
use sim_config::{Choice, Open, Probability, Problems, Source, With, advice};
use sim_harness::operation::{Op, Turn};
use sim_harness::plan::{CLIENTS_MAX, OPS_MAX};
use sim_harness::workload::misnamed::Known;
use sim_harness::workload::{Draft, InvalidValue, Misnamed, at_least_one, at_most};

use super::edit::Edit;
use super::machines::{Breakage, VMS, VmDelays};
use super::place::{PoolPlace, is_label, least_range_limit, problems_of_settings, told};
use crate::Operation;

/// The process of the operators who run pods and configure the cluster.
pub const OPERATOR: &str = "operator";

/// The maximum number of addresses in a pool: a /16.
const ADDRESSES_MAX: u64 = 1 << 16;

/// The maximum number of namespaces of pods.
const NAMESPACES_MAX: u64 = 100;

/// Nodes with adaptors and kubelets, a PeerPod controller, VMs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PodsPlan {
    /// The number of nodes, each with one adaptor (two while it is replaced) and one kubelet.
    pub nodes: u32,
    /// The namespaces of pods besides `default`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub namespaces: BTreeSet<String>,
    /// The number of replicas of the PeerPod controller; several elect a leader.
    pub controllers: u32,
    /// `VM_POOL_IPS` at the beginning.
    pub pool: String,
    /// The sources of the place of the pool's ConfigMap; none = the default place (B §1.1).
    #[serde(default, skip_serializing_if = "PoolPlace::is_usual")]
    pub place: PoolPlace,
    /// `MAX_RANGE_IPS`: the number of addresses that a range of `VM_POOL_IPS` may have; a plan with a longer one is refused.
    pub max_range: u32,
    /// Whether each process has client-go's token bucket: 5 requests a second, burst 10 (B §1.6).
    pub throttled: bool,
    /// Whether VMs are probed before they are handed out.
    pub probes: bool,
    /// The shim's deadline of StartVM: at least 60 s, 600 s as shipped (B §2.1).
    pub start_deadline: Span,
    /// The shim's deadline of StopVM: 1 s with the Rust runtime (B W26).
    pub stop_deadline: Span,
    /// The time that an adaptor waits for the agent in a VM.
    pub agent_timeout: Span,
    /// The time that a record must be without an owner before it is released.
    pub leak_grace: Span,
    /// The interval at which the PeerPod controller compares records with owners.
    pub reclaim_every: Span,
    /// The durations of a VM's steps.
    pub vm: VmDelays,
}

/// A [`PodsPlan`] with values that may be open, and the actions of operators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PodsDraft {
    /// The number of nodes, each with one adaptor (two while it is replaced) and one kubelet.
    pub nodes: Choice<u32>,
    /// The number of namespaces in which pods run, the first of which is `default`. Each name is used in all of them, on the same node.
    pub namespaces: Choice<u32>,
    /// The number of replicas of the PeerPod controller; several elect a leader.
    pub controllers: Choice<u32>,
    /// The number of VMs in the pool.
    pub addresses: Choice<u32>,
    /// Whether `VM_POOL_IPS` names all but the first as a range, or all one by one.
    pub range: Choice<bool>,
    /// Whether each process has client-go's token bucket: 5 requests a second, burst 10 (B §1.6).
    pub throttled: Choice<bool>,
    /// Whether VMs are probed before they are handed out.
    pub probes: Choice<bool>,
    /// The shim's deadline of StartVM: at least 60 s, 600 s as shipped (B §2.1).
    pub start_deadline: Choice<Span>,
    /// The shim's deadline of StopVM: 1 s with the Rust runtime (B W26).
    pub stop_deadline: Choice<Span>,
    /// The time that an adaptor waits for the agent in a VM.
    pub agent_timeout: Choice<Span>,
    /// The time that a record must be without an owner before it is released.
    pub leak_grace: Choice<Span>,
    /// The interval at which the PeerPod controller compares records with owners.
    pub reclaim_every: Choice<Span>,
    /// The durations of a VM's steps.
    pub vm: VmDelays,
    /// Environment variables of all processes of the pool: `POOL_CONFIGMAP_NAME`, `POOL_NAMESPACE` and `POD_NAMESPACE` name the place of
    /// its ConfigMap, as does the file of the service account under `service-account`; and `MAX_RANGE_IPS`. An empty one is absent.
    pub settings: BTreeMap<String, Choice<String>>,
    /// The number of pods, spread over the nodes.
    pub pods: Choice<u32>,
    /// The time at which each pod is created.
    pub arrival: Choice<Span>,
    /// The share of the pods that are deleted again.
    pub deleted: Probability,
    /// The share of the deleted pods that are created again under the same name, like those of a StatefulSet; on any node.
    pub replaced: Probability,
    /// The share of deletions that are forced: the object is deleted before the kubelet has stopped the pod.
    pub forced: Probability,
    /// The lifetime of a pod before it is deleted.
    pub life: Choice<Span>,
    /// The number of changes of the configured pool, each followed by a rolling update.
    pub changes: Choice<u32>,
    /// Whether a rolling update starts the new adaptor of a node before the old one ends.
    pub overlap: Choice<bool>,
    /// The number of VMs that break for a while.
    pub broken: Choice<u32>,
    /// The way in which each of those VMs is broken.
    pub breakage: Choice<Breakage>,
    /// The time for which each VM stays broken; afterwards it is as before.
    pub broken_for: Choice<Span>,
    /// The number of times that adaptors lose the name of their node for a while, each with a rolling update before and after.
    pub unnamed: Choice<u32>,
    /// The source that names the node again each time.
    pub named_by: Choice<NodeNameSource>,
    /// The number of times that an operator deletes the ConfigMap of the pool.
    pub deletions: Choice<u32>,
    /// The number of manual edits of the ConfigMap by an operator.
    pub edits: Choice<u32>,
    /// The change that each edit makes to the ConfigMap.
    pub edit: Choice<Edit>,
    /// The times of these events: changes, broken VMs, deletions, edits.
    pub events: Choice<Span>,
}

impl Default for PodsDraft {
    fn default() -> Self {
        let (is, secs) = (Choice::Is::<u32>, Span::secs);
        Self {
            nodes: Choice::Between(2, 3),
            namespaces: is(1),
            controllers: is(1),
            addresses: Choice::Between(4, 8),
            range: Choice::Is(false),
            throttled: Choice::OneOf(vec![false, true]),
            probes: Choice::Is(true),
            start_deadline: Choice::OneOf(vec![secs(60), secs(600)]),
            stop_deadline: Choice::OneOf(vec![secs(1), secs(60)]),
            agent_timeout: Choice::Is(secs(300)),
            leak_grace: Choice::Is(secs(1200)),
            reclaim_every: Choice::Is(secs(300)),
            vm: VmDelays::default(),
            settings: BTreeMap::new(),
            pods: Choice::Between(2, 6),
            arrival: Choice::Between(Span::secs(0), secs(60)),
            deleted: probability(0.5),
            replaced: probability(0.5),
            forced: probability(0.1),
            life: Choice::Between(secs(20), secs(200)),
            changes: is(0),
            overlap: Choice::OneOf(vec![false, true]),
            broken: is(0),
            breakage: Choice::Is(Breakage::Dead),
            broken_for: Choice::Between(secs(30), secs(300)),
            unnamed: is(0),
            named_by: Choice::Is(NodeNameSource::NodeName),
            deletions: is(0),
            edits: is(0),
            edit: Choice::Is(Edit::Touch),
            events: Choice::Between(secs(10), secs(200)),
        }
    }
}

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap_or_else(|| unreachable!("{value} is a probability"))
}

/// The namespace that always exists.
const DEFAULT: &str = "default";

fn default_namespace() -> String {
    DEFAULT.to_owned()
}

fn is_default_namespace(namespace: &str) -> bool {
    namespace == DEFAULT
}

/// The name of the namespace of pods with this number.
fn namespace_name(number: u32) -> String {
    if number == 0 { default_namespace() } else { format!("namespace-{number}") }
}

/// An operator creates a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunPod {
    /// Its name. If there is a pod of that name, the creation waits until that is gone.
    pub pod: String,
    /// Its namespace: `default`, or one of the workload's.
    #[serde(default = "default_namespace", skip_serializing_if = "is_default_namespace")]
    pub namespace: String,
    /// Number of its node, from 0: the node is called `node-N`.
    pub node: u32,
}

/// An operator deletes a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeletePod {
    /// Name of the pod in its namespace; nothing happens if there is no such pod by then.
    pub pod: String,
    /// Its namespace: `default`, or one of the workload's.
    #[serde(default = "default_namespace", skip_serializing_if = "is_default_namespace")]
    pub namespace: String,
    /// Whether the object is deleted at once.
    #[serde(default)]
    pub force: bool,
}

/// An operator changes the configured pool; processes read it when they start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPool {
    /// `VM_POOL_IPS` from now on.
    pub pool: String,
}

/// The source of a node's name for its adaptor (B §4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeNameSource {
    /// The environment variable `NODE_NAME`.
    #[default]
    NodeName,
    /// The file `/etc/podinfo/nodename` of the downward API.
    Podinfo,
    /// The file `/etc/hostname`: adaptors use the host network, and have the name of their host.
    Hostname,
}

impl Open for NodeNameSource {}

impl NodeNameSource {
    /// Whether it is the default, which plans leave out.
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// An operator changes the source of the node's name for adaptors (B §4.1); they read it when they start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameNodes {
    /// Whether there is a source: `NODE_NAME`, the file of the downward API or the name of the host.
    pub named: bool,
    /// The source, if there is one: ignored unless `named`.
    #[serde(default, skip_serializing_if = "NodeNameSource::is_usual")]
    pub by: NodeNameSource,
}

/// Every adaptor is replaced, node by node, and then the PeerPod controllers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollOut {
    /// Whether the new adaptor of a node starts before the old one ends.
    pub overlap: bool,
    /// The time for which both run, or until the new one starts; also the time between two nodes.
    pub pause: Span,
}

/// A VM breaks for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakVm {
    /// The IP address of the VM, whether or not it is in the pool.
    pub address: String,
    /// The behaviour that connecting clients see meanwhile.
    pub how: Breakage,
    /// The time for which it is broken; overlapping times end with the last of them.
    pub lasts: Span,
}

/// An operator edits the ConfigMap of the pool by hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditState {
    /// The change to the ConfigMap: to the document in it, or beside it.
    pub edit: Edit,
}

/// The name of the node with this number, which is that of its host.
pub(super) fn node_name(number: u32) -> String {
    format!("node-{number}")
}

/// The names of a node's two adaptors: the second one runs during and after the replacement of the first.
pub(super) fn adaptor_names(node: u32) -> [String; 2] {
    [format!("adaptor-{node}"), format!("adaptor-{node}-b")]
}

/// The name of the kubelet of a node.
pub(super) fn kubelet_name(node: u32) -> String {
    format!("kubelet-{node}")
}

/// The name of a replica of the PeerPod controller.
pub(super) fn controller_name(number: u32) -> String {
    format!("peerpod-ctrl-{number}")
}

/// The address of the VM with this number in a generated pool.
fn address(number: u32) -> String {
    format!("10.9.{}.{}", number / 250, 1 + number % 250)
}

/// `VM_POOL_IPS` for the VMs with these numbers: one by one, or the first one and then the others as a range if they form one.
fn pool_text(numbers: &[u32], range: bool) -> String {
    match numbers {
        [first, second, .., last] if range && last - second + 2 == numbers.len() as u32 => {
            format!("{},{}-{}", address(*first), address(*second), address(*last))
        }
        _ => numbers.iter().map(|number| address(*number)).collect::<Vec<_>>().join(","),
    }
}

/// Checks that a pod's name is a DNS label.
fn check_pod(name: &str) -> Result<(), InvalidValue> {
    if is_label(name) {
        return Ok(());
    }
    Err(InvalidValue::value(name, format!("no pod can be called `{name}`"), "lower-case letters, digits and hyphens"))
}

/// Checks that a node exists.
pub(super) fn check_node(node: u32, nodes: u32) -> Result<(), InvalidValue> {
    if node < nodes {
        Ok(())
    } else {
        Err(InvalidValue::value(&node.to_string(), format!("there is no node {node}"), format!("0 to {}", nodes - 1)))
    }
}

/// Checks that every entry of `VM_POOL_IPS` can be read, and that there is one.
pub(super) fn check_pool(pool: &str, max_range: u32) -> Result<(), InvalidValue> {
    let ips = PoolIps::parse(pool, max_range, Mapped::AsIpv4);
    let wrong = match (ips.bad.first(), ips.cut.first()) {
        (Some(bad), _) => bad.to_string(),
        (None, Some(cut)) => cut.to_string(),
        (None, None) if ips.addresses.is_empty() => "it names no address".to_owned(),
        (None, None) => return Ok(()),
    };
    Err(InvalidValue::value(pool, wrong, "addresses and ranges FIRST-LAST, separated by commas"))
}

/// Checks that a text is an address.
pub(super) fn check_address(address: &str) -> Result<(), InvalidValue> {
    if Address::new(address).key().is_address() {
        Ok(())
    } else {
        Err(InvalidValue::value(address, format!("`{address}` is no address"), "an IP address"))
    }
}

impl PodsPlan {
    /// Checks that a pod can have this namespace and name.
    pub(super) fn check_pod(&self, namespace: &str, name: &str) -> Result<(), InvalidValue> {
        check_pod(name)?;
        if is_default_namespace(namespace) || self.namespaces.contains(namespace) {
            return Ok(());
        }
        let there: Vec<&str> = [DEFAULT].into_iter().chain(self.namespaces.iter().map(String::as_str)).collect();
        Err(InvalidValue::value(namespace, format!("there is no namespace `{namespace}`"), advice(namespace, &there, "namespace")))
    }

    /// The problems of the plan's own values.
    pub(super) fn value_problems(&self, source: Source<'_>) -> Problems {
        let mut problems = at_most(source, "workload.nodes", "`workload.nodes`", u64::from(self.nodes), u64::from(CLIENTS_MAX));
        problems.append(at_most(source, "workload.controllers", "`workload.controllers`", u64::from(self.controllers), 10));
        problems.append(at_least_one(source, "workload.nodes", "`workload.nodes`", self.nodes));
        if let Err(invalid) = check_pool(&self.pool, self.max_range) {
            problems.push(source.problem("workload.pool", format!("`workload.pool`: {}", invalid.wrong), invalid.right));
        }
        if self.reclaim_every.0 == Duration::ZERO {
            problems.push(source.problem("workload.reclaim_every", "`workload.reclaim_every` is 0", "a time between two comparisons"));
        }
        problems
    }
}

impl Draft for PodsDraft {
    type Plan = PodsPlan;

    fn bounds(&self) -> [PodsPlan; 2] {
        let mut draw = Draw::new(0, sim_config::draw::Concern::Workload, 0);
        let (fewest, most) = self.nodes.bounds();
        let (fewest, most) = ((*fewest).max(1), *most);
        let controllers = self.controllers.bounds();
        let (fewest_controllers, most_controllers) = (*controllers.0, *controllers.1);
        let (plan, _) = self.draw(&mut draw);
        [
            PodsPlan { nodes: fewest, controllers: fewest_controllers, ..plan.clone() },
            PodsPlan { nodes: most, controllers: most_controllers, ..plan },
        ]
    }

    fn misnamed(&self, ops: &[Op], objects: &[(KindId, Obj)]) -> Vec<Misnamed> {
        let run = ops.iter().filter_map(|op| match op.kind.own() {
            Operation::RunPod(run) => Some((run.namespace.as_str(), run.pod.as_str())),
            _ => None,
        });
        let there = objects.iter().map(|(_, object)| object).filter(|object| object.as_any().is::<Pod>());
        let there =
            there.filter_map(|object| Some((object.meta().namespace.as_deref().unwrap_or(DEFAULT), object.meta().name.as_deref()?)));
        let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (namespace, name) in run.chain(there) {
            names.entry(namespace).or_default().push(name);
        }
        let none = Known::new("pod", []);
        let pods: BTreeMap<&str, Known<'_>> = names.into_iter().map(|(namespace, names)| (namespace, Known::new("pod", names))).collect();
        let deleted = ops.iter().enumerate().filter_map(|(at, op)| match op.kind.own() {
            Operation::DeletePod(DeletePod { pod, namespace, .. }) => {
                let of = if is_default_namespace(namespace) { String::new() } else { format!(" in namespace `{namespace}`") };
                pods.get(namespace.as_str()).unwrap_or(&none).judge(at, "pod", pod, &of)
            }
            _ => None,
        });
        deleted.take(Problems::MAX).collect()
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        let most = |choice: &Choice<u32>| u64::from(*choice.bounds().1);
        let mut problems = Problems::new();
        let changes = 2 * most(&self.changes) + 4 * most(&self.unnamed);
        let operations = 2 * most(&self.pods) + changes + most(&self.broken) + most(&self.deletions) + most(&self.edits);
        for (key, what, value, limit) in [
            ("workload.nodes", "`workload.nodes`", most(&self.nodes), u64::from(CLIENTS_MAX)),
            ("workload.namespaces", "`workload.namespaces`", most(&self.namespaces), NAMESPACES_MAX),
            ("workload.controllers", "`workload.controllers`", most(&self.controllers), 10),
            ("workload.addresses", "`workload.addresses`", most(&self.addresses), ADDRESSES_MAX),
            ("workload.pods", "the number of operations", operations, OPS_MAX),
        ] {
            problems.append(at_most(source, key, what, value, limit));
        }
        problems.append(at_least_one(source, "workload.nodes", "`workload.nodes`", *self.nodes.bounds().0));
        if *self.addresses.bounds().0 == 0 {
            problems.push(source.problem("workload.addresses", "`workload.addresses` may be 0", "at least 1"));
        }
        problems.append(problems_of_settings(&self.settings, source));
        let range_limit = least_range_limit(&self.settings);
        let ranges = *self.range.bounds().1 && most(&self.addresses) > u64::from(range_limit);
        if ranges {
            let wrong = format!("a range may have {} addresses", most(&self.addresses));
            problems.push(source.problem("workload.range", wrong, format!("at most {range_limit} addresses, or `range = false`")));
        }
        problems
    }

    fn draw(&self, draw: &mut Draw) -> (PodsPlan, Vec<Op>) {
        let nodes = self.nodes.draw(draw).max(1);
        let namespaces = if *self.namespaces.bounds().1 > 1 { self.namespaces.draw(draw).max(1) } else { 1 };
        let mut numbers: Vec<u32> = (0..self.addresses.draw(draw).max(1)).collect();
        let mut next = numbers.len() as u32;
        let range = self.range.draw(draw);
        let (place, max_range) = told(&self.settings, draw);
        let plan = PodsPlan {
            nodes,
            namespaces: (1..namespaces).map(namespace_name).collect(),
            controllers: self.controllers.draw(draw),
            pool: pool_text(&numbers, range),
            place,
            max_range,
            throttled: self.throttled.draw(draw),
            probes: self.probes.draw(draw),
            start_deadline: self.start_deadline.draw(draw),
            stop_deadline: self.stop_deadline.draw(draw),
            agent_timeout: self.agent_timeout.draw(draw),
            leak_grace: self.leak_grace.draw(draw),
            reclaim_every: self.reclaim_every.draw(draw),
            vm: self.vm,
        };
        let mut ops = Vec::new();
        let mut add = |at: Duration, kind: Operation| {
            ops.push(With { common: Turn { at: SimTime::ZERO + at, actor: OPERATOR.to_owned() }, kind: kind.into() })
        };
        for number in 0..self.pods.draw(draw) {
            let (number, namespace) = (number / namespaces, namespace_name(number % namespaces));
            let pod = format!("pod-{number}");
            let arrival = self.arrival.draw(draw).0;
            add(arrival, Operation::RunPod(RunPod { pod: pod.clone(), namespace: namespace.clone(), node: number % nodes }));
            if !draw.chance(self.deleted.get()) {
                continue;
            }
            let force = draw.chance(self.forced.get());
            let deleted = arrival + self.life.draw(draw).0;
            add(deleted, Operation::DeletePod(DeletePod { pod: pod.clone(), namespace: namespace.clone(), force }));
            if draw.chance(self.replaced.get()) {
                let node = draw.below(u64::from(nodes)) as u32;
                add(deleted + Duration::from_millis(1), Operation::RunPod(RunPod { pod, namespace, node }));
            }
        }
        for _ in 0..self.changes.draw(draw) {
            let at = self.events.draw(draw).0;
            // One VM leaves the pool and another one joins it.
            let gone = draw.below(numbers.len() as u64) as usize;
            numbers.remove(gone);
            numbers.push(next);
            next += 1;
            add(at, Operation::SetPool(SetPool { pool: pool_text(&numbers, range) }));
            let pause = Span(draw.between(Duration::from_secs(1), Duration::from_secs(20)));
            add(at + Duration::from_secs(1), Operation::RollOut(RollOut { overlap: self.overlap.draw(draw), pause }));
        }
        if *self.unnamed.bounds().1 > 0 {
            for _ in 0..self.unnamed.draw(draw) {
                let (lost, lasts) = (self.events.draw(draw).0, draw.between(Duration::from_secs(20), Duration::from_secs(90)));
                // Drawn only on request, so that the other draws stay the same.
                let by = if let Choice::Is(by) = self.named_by { by } else { self.named_by.draw(draw) };
                for (at, named, by) in [(lost, false, NodeNameSource::default()), (lost + lasts, true, by)] {
                    add(at, Operation::NameNodes(NameNodes { named, by }));
                    let pause = Span(draw.between(Duration::from_secs(1), Duration::from_secs(10)));
                    add(at + Duration::from_secs(1), Operation::RollOut(RollOut { overlap: self.overlap.draw(draw), pause }));
                }
            }
        }
        for _ in 0..self.broken.draw(draw) {
            let broken = address(numbers[draw.below(numbers.len() as u64) as usize]);
            let breakage = BreakVm { address: broken, how: self.breakage.draw(draw), lasts: self.broken_for.draw(draw) };
            add(self.events.draw(draw).0, Operation::BreakVm(breakage));
        }
        for _ in 0..self.deletions.draw(draw) {
            add(self.events.draw(draw).0, Operation::DeleteState);
        }
        for _ in 0..self.edits.draw(draw) {
            let (at, edit) = (self.events.draw(draw).0, self.edit.draw(draw));
            add(at, Operation::EditState(EditState { edit }));
            if edit.leaves_nothing_to_read() {
                // Only an operator can repair that: after a while the ConfigMap is deleted, so that the pool is rebuilt.
                add(at + draw.between(Duration::from_secs(30), Duration::from_secs(120)), Operation::DeleteState);
            }
        }
        ops.sort_by_key(|op| op.common.at);
        (plan, ops)
    }

    /// Varies a pod: it comes at another time, lives longer or shorter, or is deleted in the other way. Operations on the pool stay.
    fn vary(&self, ops: &[Op], draw: &mut Draw) -> Option<Vec<Op>> {
        let pod_of = |op: &Op| match op.kind.own() {
            Operation::RunPod(run) => Some((run.namespace.clone(), run.pod.clone())),
            Operation::DeletePod(delete) => Some((delete.namespace.clone(), delete.pod.clone())),
            _ => None,
        };
        let mut pods: Vec<(String, String)> = ops.iter().filter_map(pod_of).collect();
        pods.sort_unstable();
        pods.dedup();
        let pod = pods.get(draw.below(pods.len().max(1) as u64) as usize)?.clone();
        let mut varied = ops.to_vec();
        // The first operation of the pod is its arrival; all others come later, in the order in which they were drawn.
        let mut own: Vec<&mut Op> = varied.iter_mut().filter(|op| pod_of(op).as_ref() == Some(&pod)).collect();
        let (arrival, life, forced) = (self.arrival.draw(draw).0, self.life.draw(draw).0, self.forced.get());
        let arrived = own.first()?.common.at;
        match draw.below(3) {
            0 => own.iter_mut().for_each(|op| op.common.at = SimTime::ZERO + arrival + op.common.at.since(arrived)),
            1 if own.len() > 1 => {
                let (deleted, now) = (own[1].common.at, arrived + life);
                own[1..].iter_mut().for_each(|op| op.common.at = now + op.common.at.since(deleted));
            }
            _ if own.len() > 1 && forced > 0.0 && forced < 1.0 => match own[1].kind.own() {
                Operation::DeletePod(delete) => {
                    own[1].kind = Operation::DeletePod(DeletePod { force: !delete.force, ..delete.clone() }).into();
                }
                _ => return None,
            },
            _ => return None,
        }
        varied.sort_by_key(|op| op.common.at);
        (varied != ops).then_some(varied)
    }
}

/// The names of the plan's processes that are not on a node of their own name.
pub(super) fn shared_processes() -> [String; 3] {
    [OPERATOR.to_owned(), VMS.to_owned(), "controller-manager".to_owned()]
}
