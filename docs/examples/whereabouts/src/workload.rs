//! What happens on the nodes, in a scenario and in a plan.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_harness::prelude::*;

use crate::allocator::Allocator;
use crate::objects::{IPPool, IPPoolSpec, pool_key};

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

workloads! {
    /// Nodes on which pods come and go.
    "whereabouts" => Nodes(NodesDraft, Nodes),
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
        [fewest, most].map(|nodes| Nodes { nodes: *nodes })
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        let ops = 2 * u64::from(*self.nodes.bounds().1) * u64::from(*self.pods.bounds().1);
        at_most(source, "workload.pods", "the number of operations of all nodes", ops, OPS_MAX)
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

    fn takes(&self, op: &OpKind) -> Result<(), InvalidValue> {
        op.get::<Operation>().map(|_| ()).ok_or_else(|| InvalidValue::of(op, "one of `add`, `del` and `vanish`"))
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        from_one_to(source, "workload.nodes", self.nodes, CLIENTS_MAX)
    }

    fn fault_targets(&self, _: &[Op]) -> FaultTargets {
        FaultTargets::alone(self.process_names(), &["ippools", "leases", "pods"])
    }

    fn smaller(&self, ops: &[Op]) -> Vec<Smaller> {
        without_idle(self.nodes, ops, node, |nodes| Nodes { nodes }.into())
    }

    fn preload(&self, cluster: &Arc<Cluster>) {
        cluster.preload_unless_held(IPPool { metadata: pool_key().metadata(), spec: IPPoolSpec::default() });
    }

    fn install(&self, cluster: &Arc<Cluster>, run: &RunContext<'_>) {
        for name in self.actor_names() {
            // What is left to do survives a crash: the kubelet asks again.
            run.start_alone(cluster, &name, &Arc::new(run.turns_of(&name)), |turns, life| async move {
                let rt = life.cluster.rt.clone();
                let allocator = Allocator::new(life);
                while let Some(op) = turns.next(&rt).await {
                    match op.own() {
                        Operation::Add(which) => allocator.add(&which.pod).await,
                        Operation::Del(which) => allocator.end(&which.pod, true).await,
                        Operation::Vanish(which) => allocator.end(&which.pod, false).await,
                    }
                    turns.end();
                }
            });
        }
        run.start_alone(cluster, RECONCILER, &Arc::new(()), |_, life| async move { Allocator::new(life).reconcile().await });
    }
}
