//! The plan of a cluster, as data.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipam_spiderpool::controller::ControllerSettings;
use ipam_spiderpool::ipam::AgentSettings;
use ipam_spiderpool::ranges::CheckedRanges;
use ipam_spiderpool::reclaim::ReclaimSettings;
use ipam_spiderpool::{IPPoolSpec, Policy};
use kube_sim::actor::kubelet::KubeletDelays;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::time::Span;
use sim_config::{Problem, Problems, Source, advice};
use sim_harness::plan::CLIENTS_MAX;
use sim_harness::workload::{BackoffPlan, InvalidValue, at_least_one, at_most};

use super::closed_loop::ClosedLoop;
use super::lifecycle::NodeLifecycle;
use super::ops::{AppKind, EditRecord, PoolPlan, Reserve};
use super::spelling::check_name;
use super::subnets::ops::{SubnetPlan, check_subnet};

/// The process of the operators who run applications and edit pools.
pub const OPERATOR: &str = "operator";

/// The plan of a cluster: nodes with agents and kubelets, the controllers of Kubernetes and of Spiderpool, pools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpiderPlan {
    /// The number of nodes, each with one agent and one kubelet.
    pub nodes: u32,
    /// The names of the first nodes; the others are called `node-N`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_names: Vec<String>,
    /// Whether the agent and the kubelet of a node run only while it has pods, as a cluster of thousands of nodes needs. Caches are then
    /// never older than the node's oldest pod.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_demand: bool,
    /// The detection of nodes that fall silent; unset = there is none, and kubelets send no heartbeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_lifecycle: Option<NodeLifecycle>,
    /// The number of replicas of Spiderpool's controller; they elect a leader.
    pub controllers: u32,
    /// Whether the controller reclaims addresses of pods that are gone without a DEL (G).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reclaim: bool,
    /// Whether the replicas of the controller serve the webhooks of A §9, which every write of a pool, a subnet or a reservation then has
    /// to pass; otherwise objects are created as their webhooks would have left them. With subnets the webhooks are always served.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admission: bool,
    /// Whether agents have upstream's token buckets: 50 reads and 50 writes of each type a second, burst 100 (A §10).
    pub throttled: bool,
    /// The time that the plugin listens for another host on an address, with `enableIPConflictDetection` (A P6): upstream asks a few times,
    /// a second apart.
    #[serde(default, skip_serializing_if = "Span::is_zero")]
    pub probe: Span,
    /// Settings that differ from the defaults, by their names in A §10.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// The backoff with which agents retry a write of a pool after a conflict; upstream's is fixed in its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffPlan>,
    /// `default_ipv4_ippool` of the CNI configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cni_ipv4: Vec<String>,
    /// `default_ipv6_ippool` of the CNI configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cni_ipv6: Vec<String>,
    /// The addresses of the physical function behind the NICs of each node, the first node first. If there are any, the CNI configuration
    /// has `match_master_subnet` (A §3, rule 11).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masters: Vec<Vec<IpAddr>>,
    /// The durations of steps on a node.
    #[serde(default)]
    pub kubelet: KubeletDelays,
    /// The nodes whose container runtime does not tell the plugin the UID of a pod, as before 2021 (K §5.1).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub runtimes_without_uid: BTreeSet<u32>,
    /// A closed loop, in which the pods of each node ask one after the other, and nodes have no kubelets. Unset = kubelets ask for the pods
    /// of applications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_loop: Option<ClosedLoop>,
    /// The namespaces that exist at the beginning, and their annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// The pools that exist at the beginning.
    #[serde(default, rename = "pool", skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolPlan>,
    /// The subnets that exist at the beginning.
    #[serde(default, rename = "subnet", skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<SubnetPlan>,
    /// The addresses that are reserved at the beginning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<Reserve>,
    /// The kinds of applications that may exist: only their controllers run.
    pub kinds: BTreeSet<AppKind>,
    /// The applications of the user's own cluster, so that operators know their kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brought: Vec<BroughtApp>,
}

/// An application of the user's own cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BroughtApp {
    /// Name of the workload, or of the bare pod, in the user's manifests.
    pub app: String,
    /// Namespace of the workload; operations identify an application by both.
    pub namespace: String,
    /// Kind of its object: requests that scale, roll out or delete it go to this type.
    #[serde(rename = "type")]
    pub kind: AppKind,
}

/// The name of the kubelet of a node.
pub(super) fn kubelet_name(node: u32) -> String {
    format!("kubelet-{node}")
}

/// The name of the agent of a node.
pub(super) fn agent_name(node: u32) -> String {
    format!("agent-{node}")
}

/// The name of a replica of Spiderpool's controller.
pub(super) fn controller_name(number: u32) -> String {
    format!("spiderpool-controller-{number}")
}

impl SpiderPlan {
    /// The name of a node, which is that of its host.
    pub(super) fn node_name(&self, number: u32) -> String {
        self.node_names.get(number as usize).cloned().unwrap_or_else(|| format!("node-{number}"))
    }

    /// The names of the nodes whose container runtimes pass no UIDs of pods.
    pub(crate) fn nodes_without_uid(&self) -> impl Iterator<Item = String> {
        self.runtimes_without_uid.iter().map(|&node| self.node_name(node))
    }

    /// The settings of an agent at the start of the run.
    ///
    /// # Errors
    /// A setting that does not exist, or a value that it cannot have.
    pub(crate) fn agent_settings(&self, policy: &Policy) -> Result<AgentSettings, InvalidValue> {
        self.agent_settings_of(&self.settings, policy)
    }

    /// The settings of an agent that reads `stated`.
    ///
    /// # Errors
    /// A setting that does not exist, or a value that it cannot have.
    pub(super) fn agent_settings_of(&self, stated: &BTreeMap<String, String>, policy: &Policy) -> Result<AgentSettings, InvalidValue> {
        let mut settings = settings_of(stated, policy)?;
        settings.retry = self.backoff.map_or(settings.retry, |backoff| backoff.backoff());
        Ok(settings)
    }

    /// The settings of reclaim.
    ///
    /// # Errors
    /// A value that its setting cannot have.
    pub(crate) fn reclaim_settings(&self, policy: &Policy) -> Result<ReclaimSettings, InvalidValue> {
        reclaim_settings_of(&self.settings, policy)
    }

    /// Whether pools in use may not be deleted (`enableValidatingResourcesDeletedWebhook`).
    pub(crate) fn guards_deletion(&self) -> bool {
        self.has_webhooks() && self.settings.get(DELETE_CHECK).is_some_and(|value| value == "true")
    }

    /// The names of the replicas of Spiderpool's controller.
    pub(crate) fn controller_names(&self) -> impl Iterator<Item = String> {
        (0..self.controllers).map(controller_name)
    }

    /// Whether pools are created for applications, and subnets are managed (`enableSpiderSubnet`).
    ///
    /// This is off unless the plan turns it on. Agents look at the annotation by default, as upstream's do, but a controller that watches
    /// six kinds of workloads for an unused feature would cost every run time.
    pub(crate) fn serves_subnets(&self) -> bool {
        self.settings.get(SUBNETS).is_some_and(|value| value == "true")
    }

    /// Whether the webhooks of A §9 are registered: if the plan says so, and always with subnets, because only admission keeps some of
    /// their pools apart.
    pub(crate) fn has_webhooks(&self) -> bool {
        self.admission || self.serves_subnets()
    }

    /// The problems of the plan's own values.
    pub(super) fn value_problems(&self, source: Source<'_>) -> Problems {
        let mut problems = at_most(source, "workload.nodes", "`workload.nodes`", u64::from(self.nodes), u64::from(CLIENTS_MAX));
        problems.append(at_most(source, "workload.controllers", "`workload.controllers`", u64::from(self.controllers), 10));
        problems.append(at_least_one(source, "workload.nodes", "`workload.nodes`", self.nodes));
        if self.on_demand && self.node_lifecycle.is_some() {
            problems.push(both(source));
        }
        if let Some(rounds) = self.closed_loop {
            let others = [("workload.on_demand", self.on_demand), ("workload.node_lifecycle", self.node_lifecycle.is_some())];
            problems.append(rounds.problems(source, self.nodes, &others));
        }
        if self.has_webhooks() && self.controllers == 0 {
            problems.push(nobody_serves(source));
        }
        problems.append(self.backoff.map_or_else(Problems::new, |backoff| backoff.problems(source, "workload.backoff")));
        problems.append(problems_of_settings(self.settings.iter().map(|(name, value)| (&**name, &**value)), source));
        for pool in &self.pools {
            if let Err(invalid) = check_pool(pool) {
                problems.push(source.problem_of_text(&invalid.found, invalid.wrong, invalid.right));
            }
        }
        for subnet in &self.subnets {
            if let Err(invalid) = check_subnet(subnet) {
                problems.push(source.problem_of_text(&invalid.found, invalid.wrong, invalid.right));
            }
        }
        if !self.subnets.is_empty() && !self.serves_subnets() {
            let wrong = format!("there are subnets, but `{SUBNETS}` is not \"true\" in `workload.settings`");
            problems.push(source.problem("workload.subnet", wrong, "true, or no subnet"));
        }
        for &node in &self.runtimes_without_uid {
            if let Err(invalid) = check_node(node, self.nodes) {
                problems.push(source.problem_of_value(&["workload", "runtimes_without_uid"], invalid.wrong, invalid.right));
            }
        }
        for (number, name) in self.node_names.iter().enumerate() {
            if self.node_names[..number].contains(name) {
                problems.push(source.problem_of_text(name, format!("two nodes are called `{name}`"), "a name of its own"));
            }
        }
        problems
    }
}

/// The problem that a machine which is off, because it has no pods, would count as lost.
pub(super) fn both(source: Source<'_>) -> Problem {
    let wrong = "`workload.node_lifecycle` and `workload.on_demand` do not go together: a machine that is off counts as lost";
    source.problem("workload.on_demand", wrong, "one of them")
}

/// The problem that without a replica no pool could ever be written.
pub(super) fn nobody_serves(source: Source<'_>) -> Problem {
    source.problem(
        "workload.controllers",
        "webhooks, which `workload.admission` and subnets bring with them, need a replica of the controller that serves them",
        "`controllers` from 1 on",
    )
}

/// The settings of an agent; those that are not stated have their defaults.
///
/// # Errors
/// A setting that does not exist, or a value that it cannot have.
pub(crate) fn settings_of(stated: &BTreeMap<String, String>, policy: &Policy) -> Result<AgentSettings, InvalidValue> {
    let mut settings = AgentSettings::new(policy);
    for (name, value) in stated {
        let known = settings.set(name, value).map_err(|bad| wrong_value(name, value, bad.wanted))?;
        if !known && !ReclaimSettings::NAMES.contains(&name.as_str()) {
            let names: BTreeSet<&str> = AgentSettings::NAMES.iter().chain(&ReclaimSettings::NAMES).copied().collect();
            let names: Vec<&str> = names.into_iter().collect();
            return Err(InvalidValue::value(name, format!("there is no setting `{name}`"), advice(name, &names, "setting")));
        }
    }
    Ok(settings)
}

/// The settings of reclaim; those that are not stated have their defaults, and those of other components are ignored.
///
/// # Errors
/// A value that its setting cannot have.
pub(crate) fn reclaim_settings_of(stated: &BTreeMap<String, String>, policy: &Policy) -> Result<ReclaimSettings, InvalidValue> {
    let mut settings = ReclaimSettings::new(policy);
    for (name, value) in stated {
        settings.set(name, value).map_err(|bad| wrong_value(name, value, bad.wanted))?;
    }
    Ok(settings)
}

/// The settings of a replica of Spiderpool's controller, without an election; those that are not stated have their defaults, and those of
/// other components are ignored.
///
/// # Errors
/// A value that its setting cannot have.
pub(super) fn controller_settings_of(stated: &BTreeMap<String, String>, policy: Policy) -> Result<ControllerSettings, InvalidValue> {
    let mut settings = ControllerSettings::new(policy);
    for (name, value) in stated {
        settings.set(name, value).map_err(|bad| wrong_value(name, value, bad.wanted))?;
    }
    Ok(settings)
}

/// Checks a setting for all of its readers: agents, reclaim, the replicas of the controller.
///
/// # Errors
/// There is no such setting, or it cannot have this value.
pub(super) fn check_setting(name: &str, value: &str, policy: &Policy) -> Result<(), InvalidValue> {
    let stated = [(name.to_owned(), value.to_owned())].into();
    settings_of(&stated, policy)?;
    reclaim_settings_of(&stated, policy)?;
    controller_settings_of(&stated, *policy).map(drop)
}

/// The problems of the settings of a draft or a plan, each with its place.
pub(super) fn problems_of_settings<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>, source: Source<'_>) -> Problems {
    let policy = Policy::hardened();
    let mut problems = Problems::new();
    for (name, value) in settings {
        if let Err(InvalidValue { found, wrong, right }) = check_setting(name, value, &policy) {
            let (path, wrong) = (["workload", "settings", name], format!("`workload.settings`: {wrong}"));
            let unknown = found == name;
            problems.push(if unknown { source.problem_of_key(&path, wrong, right) } else { source.problem_of_value(&path, wrong, right) });
        }
    }
    problems
}

fn wrong_value(name: &str, value: &str, wanted: impl Into<String>) -> InvalidValue {
    InvalidValue::value(value, format!("`{value}` is no value of the setting `{name}`"), wanted)
}

/// The setting that turns the subnet feature on.
pub(super) const SUBNETS: &str = "enableSpiderSubnet";

/// The setting that protects pools and subnets in use from deletion.
const DELETE_CHECK: &str = "enableValidatingResourcesDeletedWebhook";

/// Checks that a pool can exist: its name, its subnet and its ranges are valid.
pub(super) fn check_pool(pool: &PoolPlan) -> Result<(), InvalidValue> {
    check_name(&pool.name)?;
    let IPPoolSpec { subnet, ips, exclude_ips, .. } = &pool.spec;
    let (ips, exclude) = (ips.as_deref().unwrap_or_default(), exclude_ips.as_deref().unwrap_or_default());
    CheckedRanges::parse(subnet, ips, exclude, &Policy::hardened()).map(drop).map_err(|error| {
        InvalidValue::value(
            &pool.name,
            format!("pool {}: {error}", pool.name),
            "a CIDR, and ranges FIRST-LAST inside it that do not overlap",
        )
    })
}

/// Checks the key of a record, and the namespace and name of its pod. A key that is no address is valid; only manual edits create one.
pub(super) fn check_record(EditRecord { ip, pod, .. }: &EditRecord) -> Result<(), InvalidValue> {
    if ip.is_empty() {
        return Err(InvalidValue::value(ip, "no address is named".to_owned(), "one address"));
    }
    let Some(pod) = pod else { return Ok(()) };
    // A damaged record has more than one slash, which no pod's key has (G S-0).
    match pod.split_once('/') {
        Some((namespace, name)) => [namespace].into_iter().chain(name.split('/')).try_for_each(check_name),
        None => Err(InvalidValue::value(pod, format!("`{pod}` names no namespace"), "NAMESPACE/NAME")),
    }
}

/// Checks that a node exists.
pub(super) fn check_node(node: u32, nodes: u32) -> Result<(), InvalidValue> {
    if node < nodes {
        return Ok(());
    }
    Err(InvalidValue::value(&node.to_string(), format!("there is no node {node}"), format!("0 to {}", nodes - 1)))
}
