//! Spiderpool at work: agents give addresses to the pods of their nodes and take them back.
//!
//! ```text
//!   people ─► workloads, pods, pools (API)        controller-manager, scheduler: pods, bound to nodes
//!                                                        │
//!   node-N:  kubelet-N ── container runtime ── plugin ──► agent-N ──► pools, endpoints (API)
//!                              └── sandboxes: data plane             spiderpool-controller-N ──► counts, finalizers
//! ```
//! The production logic is that of `ipam_spiderpool`; this module has its environment and its callers.

mod adopt;
mod agent;
mod apps;
mod budget;
mod closed_loop;
mod controller;
mod draft;
mod drain;
mod first_use;
mod hook_note;
mod hooks;
mod lifecycle;
mod machines;
mod manifests;
mod network;
mod note;
mod operator;
mod ops;
mod plan;
mod pod_count;
mod preload;
mod question;
mod reach;
mod reclaim_note;
mod reclaim_trace_observer;
mod rounds;
mod script;
mod shrink;
mod site;
mod spelling;
mod subnets;
pub mod trace;
mod trace_observer;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::ranges::CheckedRanges;
use ipam_spiderpool::reclaim::ReclaimSettings;
use ipam_spiderpool::select::IpamConfig;
use ipam_spiderpool::{Policy, SpiderEndpoint, SpiderIPPool, SpiderSubnet};
use k8s_openapi::api::core::v1::Pod;
use kube_sim::actor::controller_manager::{self, Controller, Set};
use kube_sim::actor::kubelet::{self, Behaviour, KubeletConfig};
use kube_sim::actor::scheduler;
use kube_sim::cluster::Cluster;
use kube_sim::fault::FaultTargets;
use sim_config::{Problems, Source};
use sim_harness::deviation::DeviationName;
use sim_harness::operation::{Op, OpKind};
use sim_harness::workload::{InvalidValue, RunContext, Smaller, Work, live};
use site::{Node, Site};
use subnets::ops::{check_edit, check_subnet};

use crate::Operation;

pub use adopt::Adopted;
pub use closed_loop::ClosedLoop;
pub use draft::{Families, ManifestFlaw, PoolChange, PoolRule, PoolWish, SpiderDraft, WishMistake};
pub use hook_note::{HookAnswer, HookNote};
pub use ipam_spiderpool::ipam::{Cause, How};
pub use lifecycle::NodeLifecycle;
pub use manifests::{ApplyManifest, Manifest, ReservationPlan};
pub use note::{Given, InOrder, IpamNote, Refusal};
pub(crate) use operator::DOWN;
pub use ops::{
    AnnotateNamespace, AppKind, ApplyApp, CreateNamespace, CreatePool, DeleteApp, DeleteNamespace, DeletePodOf, DeletePool, DrainNode,
    EditPool, EditRecord, EditStatefulSet, GarbleRecords, LabelNamespace, LabelNode, MigrateVm, PoolPlan, Reserve, RollOutApp, ScaleApp,
    SetSettings, UncordonNode, Unreserve,
};
pub use plan::{BroughtApp, OPERATOR, SpiderPlan};
pub(crate) use plan::{reclaim_settings_of, settings_of};
pub use pod_count::PodCount;
#[cfg(test)]
pub(crate) use question::Known;
pub use question::Question;
pub use reclaim_note::ReclaimNote;
pub use subnets::drawn::{IpNumber, SubnetChange};
pub use subnets::ops::{CreateSubnet, DeleteSubnet, EditSubnet, StatusEdit, SubnetPlan};
pub use trace::{Arrivals, TraceRows, TraceSize};

/// The hardened policy with these mutations. Mutations of other systems are ignored.
pub fn policy_of(deviations: &[DeviationName]) -> Policy {
    let mut policy = Policy::hardened();
    for deviation in deviations {
        if let Some(switch) = policy.switch(deviation.as_str()) {
            *switch = true;
        }
    }
    policy
}

impl SpiderPlan {
    fn agents(&self) -> impl Iterator<Item = String> {
        (0..self.nodes).map(plan::agent_name)
    }

    fn kubelets(&self) -> impl Iterator<Item = String> {
        (0..self.nodes).map(plan::kubelet_name)
    }

    /// The controllers of Kubernetes that its applications need.
    fn controllers_of_kubernetes(&self) -> Vec<Controller> {
        let of = |kind: &AppKind| match kind {
            AppKind::Pod | AppKind::CustomResource => vec![],
            AppKind::StatefulSet => vec![Controller::StatefulSet],
            AppKind::Deployment => vec![Controller::ReplicaSet, Controller::Deployment],
            AppKind::ReplicaSet => vec![Controller::ReplicaSet],
            AppKind::DaemonSet => vec![Controller::DaemonSet],
            AppKind::Job => vec![Controller::Job],
            AppKind::VirtualMachine => vec![Controller::KubeVirt],
            AppKind::CronJob => vec![Controller::Job, Controller::CronJob],
            AppKind::CloneSet => vec![Controller::CloneSet],
        };
        self.kinds.iter().flat_map(of).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl SpiderPlan {
    /// The settings with which Spiderpool's controller reclaims addresses; `None` = it does not.
    pub fn reclaims(&self) -> Option<ReclaimSettings> {
        // A plan with settings that cannot be read has been refused before.
        let settings = self.reclaim_settings(&Policy::hardened()).ok()?;
        (self.reclaim && settings.enabled).then_some(settings)
    }

    /// The number of addresses of the pools at the beginning.
    pub fn addresses(&self) -> u64 {
        let total = |pool: &PoolPlan| {
            let (ips, exclude) = (pool.spec.ips.as_deref().unwrap_or_default(), pool.spec.exclude_ips.as_deref().unwrap_or_default());
            // A plan with ranges that cannot be read has been refused before.
            CheckedRanges::parse(&pool.spec.subnet, ips, exclude, &Policy::hardened()).map_or(0, |ranges| ranges.total())
        };
        u64::try_from(self.pools.iter().map(total).sum::<u128>()).unwrap_or(u64::MAX)
    }
}

impl Work for SpiderPlan {
    fn actor_names(&self) -> Vec<String> {
        vec![OPERATOR.to_owned()]
    }

    fn process_names(&self) -> Vec<String> {
        let shared = [OPERATOR, controller_manager::NAME, scheduler::NAME].map(str::to_owned);
        let controllers = self.controller_names();
        let machines = self.on_demand.then(|| machines::NAME.to_owned());
        shared.into_iter().chain(machines).chain(self.agents()).chain(self.kubelets()).chain(controllers).collect()
    }

    fn host_names(&self) -> Vec<String> {
        (0..self.nodes).map(|number| self.node_name(number)).collect()
    }

    fn takes(&self, op: &OpKind) -> Result<(), InvalidValue> {
        let invalid = || {
            InvalidValue::of(
                op,
                "one of `apply-app`, `scale-app`, `roll-out-app`, `edit-stateful-set`, `delete-app`, `delete-pod-of`, `migrate-vm`, \
                 `create-pool`, `edit-pool`, `delete-pool`, `create-subnet`, `edit-subnet`, `delete-subnet`, `edit-record`, \
                 `garble-records`, `reserve`, `unreserve`, `apply-manifest`, `create-namespace`, `annotate-namespace`, `delete-namespace`, \
                 `set-settings`, `label-node`, `label-namespace`, `drain-node`, `uncordon-node`",
            )
        };
        match op.get().ok_or_else(invalid)? {
            Operation::ApplyApp(op) => {
                if self.closed_loop.is_some() {
                    return Err(closed_loop::no_applications(&op.app));
                }
                spelling::check_name(&op.app)?;
                budget::check(op)?;
                op.node.map_or(Ok(()), |node| plan::check_node(node, self.nodes))
            }
            Operation::CreatePool(op) => plan::check_pool(&op.pool),
            Operation::EditPool(op) => op.ips.iter().chain(&op.exclude).flatten().try_for_each(|range| spelling::check_range(range)),
            Operation::CreateSubnet(op) => check_subnet(&op.subnet),
            Operation::EditSubnet(op) => check_edit(op),
            Operation::Reserve(op) => op.ips.iter().try_for_each(|range| spelling::check_range(range)),
            Operation::EditRecord(op) => plan::check_record(op),
            Operation::ApplyManifest(op) => manifests::check_manifest(op),
            Operation::GarbleRecords(_) => Ok(()),
            Operation::SetSettings(op) => {
                op.settings.iter().try_for_each(|(name, value)| plan::check_setting(name, value, &Policy::hardened()))
            }
            Operation::ScaleApp(_)
            | Operation::RollOutApp(_)
            | Operation::EditStatefulSet(_)
            | Operation::DeleteApp(_)
            | Operation::DeletePodOf(_)
            | Operation::MigrateVm(_)
            | Operation::DeletePool(_)
            | Operation::DeleteSubnet(_)
            | Operation::Unreserve(_)
            | Operation::CreateNamespace(_)
            | Operation::AnnotateNamespace(_)
            | Operation::LabelNode(_)
            | Operation::DrainNode(_)
            | Operation::UncordonNode(_)
            | Operation::LabelNamespace(_)
            | Operation::DeleteNamespace(_) => Ok(()),
        }
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        self.value_problems(source)
    }

    fn fault_targets(&self, ops: &[Op]) -> FaultTargets {
        let controllers = self.controller_names();
        let shared = [controller_manager::NAME, scheduler::NAME].map(str::to_owned);
        let looked_after = self.node_lifecycle.is_some();
        let resources =
            ["pods", "spiderippools", "spiderendpoints", "spiderreservedips", "namespaces", "nodes", "statefulsets", "replicasets"];
        let addresses = self.pools.iter().map(|pool| &pool.spec.ips).chain(self.subnets.iter().map(|subnet| &subnet.spec.ips));
        let pools = self.pools.iter().map(|pool| format!("spiderippools/{}", pool.name));
        let subnets = self.subnets.iter().map(|subnet| format!("spidersubnets/{}", subnet.name));
        let reserved = self.reserved.iter().map(|reserved| format!("spiderreservedips/{}", reserved.name));
        let leases = if self.controllers > 1 { vec![format!("leases/{}", controller::lease())] } else { Vec::new() };
        let created = ops.iter().filter_map(|op| match op.kind.own() {
            Operation::CreateNamespace(op) => Some(&op.namespace),
            _ => None,
        });
        let namespaces: BTreeSet<&str> = self.namespaces.keys().chain(created).map(String::as_str).chain([ops::NAMESPACE]).collect();
        let of_pods = namespaces.into_iter().flat_map(|name| ["spiderendpoints", "pods"].map(|plural| format!("{plural}/{name}/*")));
        let with_subnets = self.serves_subnets().then_some(["spidersubnets", "deployments", "daemonsets", "jobs"]);
        FaultTargets {
            processes: self.agents().chain(self.kubelets()).chain(controllers).chain(shared).collect(),
            hosts: self.host_names(),
            peers: Vec::new(),
            resources: resources
                .into_iter()
                .chain(with_subnets.into_iter().flatten())
                .chain(self.reclaim.then_some("leases"))
                .map(str::to_owned)
                .collect(),
            objects: pools.chain(subnets).chain(reserved).chain(of_pods).chain(leases.iter().cloned()).collect(),
            // Without kubelets, faults of kubelets have no effect.
            kubelets: if self.closed_loop.is_some() { Vec::new() } else { self.kubelets().collect() },
            addresses: addresses.filter_map(|ips| first_address(ips.as_ref())).collect(),
            nodes: if looked_after { self.host_names() } else { Vec::new() },
            webhooks: if self.has_webhooks() { self.controller_names().collect() } else { Vec::new() },
            leases,
        }
    }

    fn smaller(&self, ops: &[Op]) -> Vec<Smaller> {
        shrink::smaller(self, ops)
    }

    fn has_controllers(&self) -> bool {
        self.controllers > 0
    }

    fn sensible(&self, ops: &[Op]) -> bool {
        shrink::sensible(self, ops)
    }

    fn pods_on(&self, ops: &[Op], names: &BTreeSet<String>) -> BTreeSet<String> {
        reach::pods_on(self, ops, names)
    }

    fn lost_with(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        reach::lost_with(self, names)
    }

    fn preload(&self, cluster: &Arc<Cluster>) {
        preload::preload(self, cluster);
    }

    fn install(&self, cluster: &Arc<Cluster>, run: &RunContext<'_>) {
        let rt = &cluster.rt;
        let policy = policy_of(run.deviations);
        let nodes = (0..self.nodes).map(|number| {
            let name = self.node_name(number);
            let host = rt.add_host(&name);
            let agent = rt.add_process(host, &plan::agent_name(number));
            let kubelet = rt.add_process(host, &plan::kubelet_name(number));
            Node::new(name, kubelet, agent)
        });
        let versions = self.agents().chain(self.controller_names()).map(|name| {
            let version = run.version_of(&name).map(|deviations| policy_of(deviations));
            (name, version)
        });
        let names = |names: &[String]| names.to_vec();
        let cni = IpamConfig {
            default_ipv4_ippool: names(&self.cni_ipv4),
            default_ipv6_ippool: names(&self.cni_ipv6),
            match_master_subnet: !self.masters.is_empty(),
            ..IpamConfig::default()
        };
        let site = Arc::new(Site {
            cluster: Arc::downgrade(cluster),
            seed: run.seed,
            plan: self.clone(),
            versions: versions.collect(),
            hooks: self.has_webhooks().then(|| hooks::register(cluster, &policy)),
            settings: self.settings.clone().into(),
            cni: Arc::new(cni),
            nodes: nodes.collect(),
            sandbox_uids: site::SandboxUids::default(),
        });
        let mut controllers = self.controllers_of_kubernetes();
        if run.ops.iter().any(|op| matches!(op.kind.own(), Operation::DeleteNamespace(_))) {
            controllers.push(Controller::Namespace);
        }
        if run.ops.iter().any(|op| matches!(op.kind.own(), Operation::ApplyApp(apply) if apply.has_budget())) {
            controllers.push(Controller::Disruption);
        }
        let mut set = Set::of(controllers).collecting::<SpiderEndpoint>();
        if self.serves_subnets() {
            set = set.collecting::<SpiderIPPool>().collecting::<SpiderSubnet>();
        }
        let set = self.node_lifecycle.map_or(set.clone(), |lifecycle| lifecycle.look_after(set));
        controller_manager::install(cluster, run.seed, set);
        scheduler::install(cluster, run.seed);
        for (number, node) in site.nodes.iter().enumerate() {
            let process = node.agent;
            live(&site, cluster, process, move |site, cluster| agent::run(site, cluster, number, process));
            if let Some(rounds) = self.closed_loop {
                cluster.start(process);
                rounds::install(&site, cluster, number, rounds);
                continue;
            }
            let cni = Arc::new(site.plugin(cluster, number));
            kubelet::install(cluster, node.kubelet, cni, self.kubelet_config(&node.name, run.seed));
            if !self.on_demand {
                cluster.start(process);
                cluster.start(node.kubelet);
            }
        }
        if self.on_demand {
            run.start_alone(cluster, machines::NAME, &site, |site, life| machines::run(site, life.cluster, life.process));
        }
        for number in 0..self.controllers {
            run.start_alone(cluster, &plan::controller_name(number), &site, |site, life| controller::run(site, life.cluster, life.process));
        }
        let (ops, done) = (Arc::new(run.ops.to_vec()), Arc::default());
        run.start_alone(cluster, OPERATOR, &site, move |site, life| {
            operator::run(site, life.cluster, life.process, Arc::clone(&ops), Arc::clone(&done))
        });
    }
}

impl SpiderPlan {
    fn kubelet_config(&self, node: &Arc<str>, seed: u64) -> KubeletConfig {
        let behave = Arc::new(behaviour);
        let heartbeats = self.node_lifecycle.is_some();
        KubeletConfig { delays: self.kubelet, behave, max_pods: u32::MAX, heartbeats, ..KubeletConfig::new(node.clone(), seed) }
    }
}

/// The first address of a pool or a subnet.
fn first_address(ips: Option<&Vec<String>>) -> Option<String> {
    let first = ips?.first()?;
    Some(first.split_once('-').map_or(first.as_str(), |(first, _)| first).to_owned())
}

/// The behaviour of a pod's containers: annotations say whether they end by themselves, and how.
fn behaviour(pod: &Pod) -> Behaviour {
    let after = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(apps::COMPLETES));
    let runs_for = after.and_then(|micros| micros.parse().ok()).map(Duration::from_micros);
    let fails = pod.metadata.annotations.iter().flatten().any(|(key, _)| key == apps::FAILS);
    Behaviour { runs_for, fails, ..Behaviour::default() }
}
