//! What happens on the nodes, in a scenario and in a plan.

use std::collections::VecDeque;
use std::sync::Arc;

use kube_sim::cluster::Fabric;
use kube_sim::fault::FaultTargets;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::draw::Draw;
use sim_config::time::{SimTime, Span};
use sim_config::{Choice, Problems, Source, With, kinds};
use sim_harness::only_workload;
use sim_harness::operation::{Op, OpKind, Turn};
use sim_harness::plan::{CLIENTS_MAX, OPS_MAX};
use sim_harness::workload::{Draft, Misfit, RunContext, Smaller, Work, at_least_one, at_most, live, without_idle};

use crate::allocator::Allocator;
use crate::objects::{IPPool, empty_pool, pool_key};

/// A pod, as `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// The name of the pod that asks for an address.
    pub pod: String,
}

kinds! {
    /// What happens on a node.
    pub enum Operation {
        /// A pod is started and gets an address.
        "add" => Add(Which),
        /// A pod ends and gives its address back.
        "del" => Del(Which),
        /// A pod ends, and nobody sees its DEL.
        "vanish" => Vanish(Which),
    }
}

only_workload! {
    /// Nodes on which pods come and go.
    "whereabouts" => NodesDraft, Nodes, Operation
}

/// The nodes of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// How many allocators, each on a node of its own.
    pub nodes: u32,
}

/// The nodes of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NodesDraft {
    /// How many allocators, each on a node of its own.
    pub nodes: Choice<u32>,
    /// How many pods come to each.
    pub pods: Choice<u32>,
    /// Between two things that happen on a node.
    pub think: Choice<Span>,
}

impl Default for NodesDraft {
    fn default() -> Self {
        Self { nodes: Choice::Between(2, 4), pods: Choice::Between(2, 5), think: Choice::Between(Span::millis(10), Span::secs(4)) }
    }
}

/// The process that frees the addresses of pods that are gone.
const RECONCILER: &str = "reconciler";

fn node(number: u32) -> String {
    format!("node-{number}")
}

impl Draft for NodesDraft {
    type Plan = Nodes;

    fn bounds(&self) -> [Nodes; 2] {
        let (fewest, most) = self.nodes.bounds();
        [Nodes { nodes: (*fewest).max(1) }, Nodes { nodes: *most }]
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        let nodes = *self.nodes.bounds().1;
        let ops = 2 * u64::from(nodes) * u64::from(*self.pods.bounds().1);
        let mut problems = at_most(source, "workload.nodes", "`workload.nodes`", nodes.into(), CLIENTS_MAX.into());
        problems.append(at_least_one(source, "workload.nodes", "`workload.nodes`", *self.nodes.bounds().0));
        problems.append(at_most(source, "workload.pods", "the number of operations of all nodes", ops, OPS_MAX));
        problems
    }

    fn draw(&self, draw: &mut Draw) -> (Nodes, Vec<Op>) {
        let nodes = self.nodes.draw(draw);
        let mut ops = Vec::new();
        for number in 0..nodes {
            let mut at = SimTime::ZERO;
            for pod in 0..self.pods.draw(draw) {
                let which = Which { pod: format!("default/pod-{number}-{pod}") };
                let end = if draw.chance(0.3) { Operation::Vanish(which.clone()) } else { Operation::Del(which.clone()) };
                // One in four stays.
                let stays = draw.chance(0.25);
                for operation in [Some(Operation::Add(which)), (!stays).then_some(end)].into_iter().flatten() {
                    at += self.think.draw(draw).0;
                    ops.push(With { common: Turn { at, actor: node(number) }, kind: operation.into() });
                }
            }
        }
        (Nodes { nodes }, ops)
    }
}

impl Work for Nodes {
    fn actor_names(&self) -> Vec<String> {
        (0..self.nodes).map(node).collect()
    }

    fn process_names(&self) -> Vec<String> {
        (0..self.nodes).map(node).chain([RECONCILER.to_owned()]).collect()
    }

    fn takes(&self, op: &OpKind) -> Result<(), Misfit> {
        op.get::<Operation>().map(|_| ()).ok_or_else(|| Misfit::of(op, "one of `add`, `del` and `vanish`"))
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        at_most(source, "workload.nodes", "`workload.nodes`", self.nodes.into(), CLIENTS_MAX.into())
    }

    fn fault_targets(&self, _: &[Op]) -> FaultTargets {
        FaultTargets {
            processes: self.process_names(),
            hosts: self.process_names(),
            resources: ["ippools", "leases", "pods"].map(str::to_owned).into(),
            ..FaultTargets::default()
        }
    }

    fn smaller(&self, ops: &[Op]) -> Vec<Smaller> {
        without_idle(self.nodes, ops, node, |nodes| Nodes { nodes }.into())
    }

    fn preload(&self, fabric: &Arc<Fabric>) {
        if !fabric.holds::<IPPool>(&pool_key()) {
            fabric.preload_typed(empty_pool());
        }
    }

    fn install(&self, fabric: &Arc<Fabric>, run: &RunContext<'_>) {
        for name in self.process_names() {
            let process = fabric.rt.add_process(fabric.rt.add_host(&name), &name);
            // What is left to do survives a crash: the kubelet asks again.
            let turns: Mutex<VecDeque<Op>> = Mutex::new(run.ops.iter().filter(|op| op.common.actor == name).cloned().collect());
            let site = Arc::new((turns, run.seed, run.deviations.to_vec(), name));
            live(&site, fabric, process, move |site, fabric| async move {
                let (turns, seed, deviations, name) = &*site;
                let mut allocator = Allocator::new(&fabric, process, *seed, deviations);
                if name == RECONCILER {
                    allocator.reconcile().await;
                }
                loop {
                    let Some(op) = turns.lock().front().cloned() else { return };
                    fabric.rt.sleep_until(op.common.at).await;
                    match op.kind.own() {
                        Operation::Add(which) => allocator.add(&which.pod).await,
                        Operation::Del(which) => allocator.end(&which.pod, true).await,
                        Operation::Vanish(which) => allocator.end(&which.pod, false).await,
                    }
                    turns.lock().pop_front();
                }
            });
            fabric.start(process);
        }
    }
}
