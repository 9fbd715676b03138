//! Pods in VMs: the whole life of an address, from the pod that needs it to the VM that is clean again.
//!
//! ```text
//!   people ─► pods (API) ─► kubelet-N ── shim calls ──► adaptor-N ──► the pool's ConfigMap (API)
//!                │                                         ├────────► peerpods (API) ◄── peerpod-ctrl ─► the pool, vms
//!                └── owner ── controller-manager ──────────┼──────────────┘
//!                                                          └────────► vms: probe, user data, reboot
//! ```
//! The production logic is that of `ipam_byom`; this module provides its environment and its callers.

mod adaptor;
mod controller;
mod edit;
mod kubelet;
pub(super) mod machines;
mod operator;
mod place;
mod plan;
mod shrink;
mod site;
mod trace_observer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipam_byom::PeerPod;
use k8s_openapi::api::core::v1::Pod;
use kube_sim::actor::garbage_collector::{self, Collected};
use kube_sim::cluster::Cluster;
use kube_sim::fault::FaultTargets;
use kube_sim::rt::ProcessId;
use machines::{Machines, VMS};
use parking_lot::Mutex;
use sim_config::{Problems, Source};
use sim_harness::operation::{Op, OpKind};
use sim_harness::workload::{InvalidValue, RunContext, Smaller, Work, live, preload_namespace};
use site::{Node, Site};

use super::policy_of;
use crate::Operation;

pub use edit::Edit;
pub use machines::{Breakage, VmDelays};
pub use place::PoolPlace;
pub use plan::{BreakVm, DeletePod, EditState, NameNodes, NodeNameSource, OPERATOR, PodsDraft, PodsPlan, RollOut, RunPod, SetPool};

impl Work for PodsPlan {
    fn actor_names(&self) -> Vec<String> {
        vec![OPERATOR.to_owned()]
    }

    fn process_names(&self) -> Vec<String> {
        let of_node = |node| plan::adaptor_names(node).into_iter().chain([plan::kubelet_name(node)]);
        let controllers = (0..self.controllers).map(plan::controller_name);
        plan::shared_processes().into_iter().chain((0..self.nodes).flat_map(of_node)).chain(controllers).collect()
    }

    fn host_names(&self) -> Vec<String> {
        (0..self.nodes).map(plan::node_name).collect()
    }

    fn takes(&self, op: &OpKind) -> Result<(), InvalidValue> {
        let right = "one of `run-pod`, `delete-pod`, `set-pool`, `name-nodes`, `roll-out`, `break-vm`, `delete-state`, `edit-state`";
        match op.get().ok_or_else(|| InvalidValue::of(op, right))? {
            Operation::RunPod(run) => self.check_pod(&run.namespace, &run.pod).and(plan::check_node(run.node, self.nodes)),
            Operation::DeletePod(delete) => self.check_pod(&delete.namespace, &delete.pod),
            Operation::SetPool(set) => plan::check_pool(&set.pool, self.max_range),
            Operation::BreakVm(broken) => plan::check_address(&broken.address),
            Operation::NameNodes(_) | Operation::RollOut(_) | Operation::DeleteState | Operation::EditState(_) => Ok(()),
            Operation::Allocate(_) => Err(InvalidValue::of(op, right)),
        }
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        self.value_problems(source)
    }

    fn fault_targets(&self, ops: &[Op]) -> FaultTargets {
        // The second adaptor of a node exists only after the first one was replaced.
        let replaced = ops.iter().any(|op| matches!(op.kind.own(), Operation::RollOut(_)));
        let adaptors = (0..self.nodes).flat_map(|node| {
            let [first, second] = plan::adaptor_names(node);
            [Some(first), replaced.then_some(second)].into_iter().flatten()
        });
        let kubelets = (0..self.nodes).map(plan::kubelet_name);
        let controllers = (0..self.controllers).map(plan::controller_name);
        let [_, vms, garbage_collector] = plan::shared_processes();
        let of_pods = self.namespaces.iter().flat_map(|name| ["peerpods", "pods"].map(|plural| format!("{plural}/{name}/*")));
        FaultTargets {
            processes: adaptors.chain(kubelets).chain(controllers).chain([garbage_collector]).collect(),
            hosts: self.host_names(),
            peers: vec![vms],
            resources: ["configmaps", "peerpods", "pods", "leases"].map(str::to_owned).to_vec(),
            objects: [format!("configmaps/{}", self.place.documented())].into_iter().chain(of_pods).collect(),
            ..FaultTargets::default()
        }
    }

    fn smaller(&self, ops: &[Op]) -> Vec<Smaller> {
        shrink::smaller(self, ops)
    }

    fn sensible(&self, ops: &[Op]) -> bool {
        shrink::sensible(ops)
    }

    fn pods_on(&self, ops: &[Op], names: &BTreeSet<String>) -> BTreeSet<String> {
        let lost = |node: u32| {
            let gone = |name: &String| names.contains(name);
            gone(&plan::node_name(node)) || gone(&plan::kubelet_name(node)) || plan::adaptor_names(node).iter().any(gone)
        };
        let mut nodes: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
        for op in ops {
            if let Operation::RunPod(run) = op.kind.own() {
                nodes.entry((&run.namespace, &run.pod)).or_default().push(run.node);
            }
        }
        // A pod that cannot be stopped on one node cannot be started on another one under the same name.
        let pods = nodes.into_iter().filter(|(_, nodes)| nodes.iter().any(|&node| lost(node)));
        pods.map(|((namespace, pod), _)| format!("{namespace}/{pod}")).collect()
    }

    fn preload(&self, cluster: &Arc<Cluster>) {
        preload_namespace(cluster, self.place.documented().namespace().unwrap_or_default());
        self.namespaces.iter().for_each(|namespace| preload_namespace(cluster, namespace));
    }

    fn install(&self, cluster: &Arc<Cluster>, run: &RunContext<'_>) {
        let rt = &cluster.rt;
        let alone = |name: &str| rt.add_process(rt.add_host(name), name);
        let policy = policy_of(run.deviations);
        let vms = alone(VMS);
        let machines = Machines::new(cluster, run.seed, vms, self.vm, policy.unfenced_vms);
        garbage_collector::install(cluster, run.seed, [Collected::of::<Pod>(), Collected::of::<PeerPod>()]);
        let nodes = (0..self.nodes).map(|number| {
            let name = plan::node_name(number);
            let host = rt.add_host(&name);
            let adaptors = plan::adaptor_names(number).map(|name| rt.add_process(host, &name));
            let kubelet = rt.add_process(host, &plan::kubelet_name(number));
            Node::new(name.into(), adaptors, kubelet)
        });
        let nodes = nodes.collect();
        let controllers: Vec<ProcessId> = (0..self.controllers).map(|number| alone(&plan::controller_name(number))).collect();
        let adaptors = (0..self.nodes).flat_map(plan::adaptor_names);
        let versions = adaptors.chain((0..self.controllers).map(plan::controller_name)).map(|name| {
            let version = run.version_of(&name).map(|deviations| policy_of(deviations));
            (name, version)
        });
        let site = Arc::new(Site {
            cluster: Arc::downgrade(cluster),
            seed: run.seed,
            plan: self.clone(),
            versions: versions.collect(),
            machines,
            nodes,
            controllers,
            setting: Mutex::new(self.pool.as_str().into()),
            named: Mutex::new(Some(NodeNameSource::default())),
            rolling: tokio::sync::Mutex::default(),
        });
        for (number, node) in site.nodes.iter().enumerate() {
            for (slot, &process) in node.adaptors.iter().enumerate() {
                live(&site, cluster, process, move |site, cluster| adaptor::run(site, cluster, number, slot, process));
            }
            let process = node.kubelet;
            live(&site, cluster, process, move |site, cluster| kubelet::run(site, cluster, number, process));
            cluster.start(node.adaptors[0]);
            cluster.start(node.kubelet);
        }
        for (number, &process) in site.controllers.iter().enumerate() {
            live(&site, cluster, process, move |site, cluster| controller::run(site, cluster, number, process));
            cluster.start(process);
        }
        let (ops, done) = (Arc::new(run.ops.to_vec()), Arc::default());
        run.start_alone(cluster, OPERATOR, &site, move |site, life| {
            operator::run(site, life.cluster, life.process, Arc::clone(&ops), Arc::clone(&done))
        });
    }
}
