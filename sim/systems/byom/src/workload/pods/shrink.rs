//! Simpler variants of a workload of pods, for shrinking failures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ipam_byom::{MAX_RANGE_IPS, Mapped, PoolIps};
use sim_config::time::Span;
use sim_harness::operation::Op;
use sim_harness::workload::{Smaller, closed_ranks};

use super::plan::{PodsPlan, RunPod, adaptor_names, kubelet_name, node_name};
use crate::Operation;

/// See [`Work::smaller`](sim_harness::workload::Work::smaller): fewer nodes, controllers and addresses, default settings, simpler
/// operations.
pub(super) fn smaller(plan: &PodsPlan, ops: &[Op]) -> Vec<Smaller> {
    let mut all = fewer_nodes(plan, ops);
    let mut same_ops = |smaller: PodsPlan| {
        if smaller != *plan {
            all.push(Smaller::same_ops(smaller, ops));
        }
    };
    for controllers in 1..plan.controllers {
        same_ops(PodsPlan { controllers, ..plan.clone() });
    }
    for pool in fewer_addresses(plan, ops) {
        same_ops(PodsPlan { pool, ..plan.clone() });
    }
    let shipped = PodsPlan { throttled: false, ..plan.clone() };
    let shipped_vm = PodsPlan { vm: Default::default(), ..plan.clone() };
    for simpler in [shipped, shipped_vm, PodsPlan { max_range: MAX_RANGE_IPS, ..plan.clone() }] {
        same_ops(simpler);
    }
    // Longer deadlines pass less often: a failure that remains with them does not need them as its explanation.
    same_ops(PodsPlan { start_deadline: Span::secs(600).max(plan.start_deadline), ..plan.clone() });
    same_ops(PodsPlan { stop_deadline: Span::secs(60).max(plan.stop_deadline), ..plan.clone() });
    all.extend(simpler_ops(plan, ops));
    all
}

/// Variants without the nodes that have no pods, all of them or single ones; and one with the pods of the last node moved to the first.
///
/// Fewer nodes change the draws, even for those that stay: which of several smaller clusters still fails is a matter of luck.
fn fewer_nodes(plan: &PodsPlan, ops: &[Op]) -> Vec<Smaller> {
    let used: BTreeSet<u32> = ops.iter().filter_map(run_pod).map(|run| run.node).collect();
    let idle: Vec<u32> = (0..plan.nodes).filter(|number| !used.contains(number)).collect();
    // Any number of idle nodes can stay, the first ones.
    let some = (0..idle.len()).map(|kept| idle[kept..].to_vec());
    let single = idle.iter().map(|&number| vec![number]);
    let mut all: Vec<Smaller> = some.chain(single).filter_map(|gone| without_nodes(plan, ops, &gone)).collect();
    if let Some(last) = plan.nodes.checked_sub(1).filter(|&last| last > 0) {
        let renamed = names(last).zip(names(0)).collect();
        let ops = on_nodes(ops, |node| if node == last { 0 } else { node });
        all.push(Smaller { workload: PodsPlan { nodes: last, ..plan.clone() }.into(), ops, renamed });
    }
    all
}

/// The workload without these nodes, which have no pods; the others are renumbered. `None` if there are no fewer nodes.
fn without_nodes(plan: &PodsPlan, ops: &[Op], gone: &[u32]) -> Option<Smaller> {
    let (nodes, moved) = closed_ranks(plan.nodes, |number| !gone.contains(&number));
    let renamed = moved.iter().flat_map(|(&from, &to)| names(from).zip(names(to))).collect();
    let ops = on_nodes(ops, |node| moved.get(&node).copied().unwrap_or(node));
    (nodes < plan.nodes).then(|| Smaller { workload: PodsPlan { nodes, ..plan.clone() }.into(), ops, renamed })
}

/// The names of a node's processes, and its own.
fn names(node: u32) -> impl Iterator<Item = String> {
    adaptor_names(node).into_iter().chain([kubelet_name(node), node_name(node)])
}

/// The same operations with pods on other nodes.
fn on_nodes(ops: &[Op], node: impl Fn(u32) -> u32) -> Vec<Op> {
    let moved = ops.iter().cloned().map(|mut op| {
        op.kind = op.kind.changed(|op| {
            if let Operation::RunPod(run) = op {
                run.node = node(run.node);
            }
        });
        op
    });
    moved.collect()
}

fn run_pod(op: &Op) -> Option<&RunPod> {
    if let Operation::RunPod(run) = op.kind.own() { Some(run) } else { None }
}

/// Shorter prefixes of the pool: at least as many addresses as there are pods, because an exhausted pool would be another failure.
fn fewer_addresses(plan: &PodsPlan, ops: &[Op]) -> Vec<String> {
    let configured = ops.iter().any(|op| matches!(op.kind.own(), Operation::SetPool(_)));
    let addresses = PoolIps::parse(&plan.pool, plan.max_range, Mapped::AsIpv4).addresses;
    let named = |op: &Op| match op.kind.own() {
        Operation::BreakVm(broken) => addresses.iter().position(|address| address.to_string() == broken.address).map(|at| at + 1),
        _ => None,
    };
    // A broken VM provides no address.
    let broken = ops.iter().filter(|op| matches!(op.kind.own(), Operation::BreakVm(_))).count();
    let floor = ops.iter().filter_map(named).max().unwrap_or(0).max(ops.iter().filter_map(run_pod).count() + broken).max(1);
    if configured || addresses.len() <= floor {
        return Vec::new();
    }
    let first = |count: usize| addresses[..count].iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut counts = vec![floor, floor + (addresses.len() - floor) / 2, addresses.len() - 1];
    counts.dedup();
    counts.into_iter().map(first).collect()
}

/// One operation in a simpler form.
fn simpler_ops(plan: &PodsPlan, ops: &[Op]) -> Vec<Smaller> {
    let mut all = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        let shorter = |span: Span| Span::secs((span.0.as_secs() / 2).max(1)).min(span);
        let kind = op.kind.changed(|op| match op {
            Operation::DeletePod(delete) => delete.force = false,
            Operation::RollOut(roll_out) => roll_out.overlap = false,
            Operation::BreakVm(broken) => broken.lasts = shorter(broken.lasts),
            _ => {}
        });
        if kind != op.kind {
            let mut ops = ops.to_vec();
            ops[index].kind = kind;
            all.push(Smaller { workload: plan.clone().into(), ops, renamed: BTreeMap::new() });
        }
    }
    all
}

/// The minimum lifetime of a pod: operations are separate requests, and a delete that overtakes its create finds nothing.
const LIFE_MIN: Duration = Duration::from_secs(1);

/// Whether each pod is run only once until it is deleted, not at once, and no pod is deleted that was never run.
pub(super) fn sensible(ops: &[Op]) -> bool {
    let mut in_order: Vec<&Op> = ops.iter().collect();
    in_order.sort_by_key(|op| op.common.at);
    let mut running = BTreeMap::new();
    in_order.into_iter().all(|op| match op.kind.own() {
        Operation::RunPod(run) => running.insert((run.namespace.as_str(), run.pod.as_str()), op.common.at).is_none(),
        Operation::DeletePod(delete) => {
            running.remove(&(delete.namespace.as_str(), delete.pod.as_str())).is_some_and(|since| op.common.at >= since + LIFE_MIN)
        }
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::machines::Breakage;
    use super::super::plan::{BreakVm, DeletePod, OPERATOR, PodsDraft};
    use super::*;
    use crate::Plans;
    use sim_config::With;
    use sim_config::draw::{Concern, Draw};
    use sim_config::time::SimTime;
    use sim_harness::operation::Turn;
    use sim_harness::workload::{Draft, Work};

    fn op(at: u64, kind: Operation) -> Op {
        With { common: Turn { at: SimTime::from_secs(at), actor: OPERATOR.to_owned() }, kind: kind.into() }
    }

    fn run(at: u64, pod: &str, node: u32) -> Op {
        op(at, Operation::RunPod(RunPod { pod: pod.to_owned(), namespace: "default".to_owned(), node }))
    }

    fn delete(at: u64, pod: &str) -> Op {
        op(at, Operation::DeletePod(DeletePod { pod: pod.to_owned(), namespace: "default".to_owned(), force: true }))
    }

    fn plan(nodes: u32) -> PodsPlan {
        let (plan, _) = PodsDraft::default().draw(&mut Draw::new(1, Concern::Workload, 0));
        PodsPlan { nodes, pool: "10.0.0.1-10.0.0.8".to_owned(), ..plan }
    }

    #[test]
    fn idle_nodes_go_and_what_they_are_called_moves_up() {
        let smaller = smaller(&plan(4), &[run(1, "a", 1), run(2, "b", 3)]);
        let Some(Plans::Pods(pods)) = smaller[0].workload.get() else { panic!("another workload") };
        assert_eq!(pods.nodes, 2);
        assert_eq!(smaller[0].ops, [run(1, "a", 0), run(2, "b", 1)]);
        for (from, to) in [("adaptor-3", "adaptor-1"), ("adaptor-1-b", "adaptor-0-b"), ("kubelet-1", "kubelet-0"), ("node-3", "node-1")] {
            assert_eq!(smaller[0].renamed[from], to);
        }
    }

    #[test]
    fn a_pool_keeps_an_address_for_each_pod_and_the_vms_that_break() {
        let broken = BreakVm { address: "10.0.0.5".to_owned(), how: Breakage::Dead, lasts: Span::secs(8) };
        let pools = |ops: &[Op]| fewer_addresses(&plan(1), ops);
        assert_eq!(pools(&[run(1, "a", 0), run(2, "b", 0)])[0], "10.0.0.1,10.0.0.2");
        assert_eq!(pools(&[run(1, "a", 0), op(2, Operation::BreakVm(broken))])[0].split(',').count(), 5);
    }

    #[test]
    fn every_variant_is_valid_and_none_leads_back() {
        let mut steps = 0;
        let (mut plan, mut ops) = (plan(4), vec![run(1, "a", 3), delete(9, "a"), run(10, "a", 1), run(2, "b", 2)]);
        while let Some(next) = plan.smaller(&ops).pop() {
            let Some(Plans::Pods(pods)) = next.workload.get().cloned() else { panic!("another workload") };
            assert!((&*pods, &next.ops) != (&plan, &ops));
            (plan, ops) = (*pods, next.ops);
            assert!(plan.value_problems(sim_config::Source::new("", "")).is_empty());
            assert!(ops.iter().all(|op| plan.takes(&op.kind).is_ok()));
            steps += 1;
            assert!(steps < 100, "no end: {plan:?}");
        }
        assert_eq!((plan.nodes, plan.controllers), (1, 1));
    }

    #[test]
    fn pods_of_one_name_in_several_namespaces_share_a_node_and_are_different_pods() {
        let draft = PodsDraft { namespaces: sim_config::Choice::Is(2), pods: sim_config::Choice::Is(6), ..PodsDraft::default() };
        let (plan, ops) = draft.draw(&mut Draw::new(1, Concern::Workload, 0));
        let first_node = |namespace: &str, pod: &str| {
            ops.iter().filter_map(run_pod).find(|run| (&*run.namespace, &*run.pod) == (namespace, pod)).map(|run| run.node)
        };
        for pod in ["pod-0", "pod-1", "pod-2"] {
            assert!(first_node("default", pod).is_some());
            assert_eq!(first_node("default", pod), first_node("namespace-1", pod));
        }
        assert!(sensible(&ops) && ops.iter().all(|op| plan.takes(&op.kind).is_ok()));
        let stranger = RunPod { pod: "pod-0".to_owned(), namespace: "namespace-2".to_owned(), node: 0 };
        let refused = plan.takes(&Operation::RunPod(stranger).into()).unwrap_err();
        assert_eq!((&*refused.wrong, &*refused.right), ("there is no namespace `namespace-2`", "did you mean `namespace-1`?"));
    }

    #[test]
    fn a_pod_is_not_run_twice_and_not_deleted_before_it_is_run() {
        assert!(sensible(&[run(1, "a", 0), delete(2, "a"), run(3, "a", 1), run(3, "b", 1)]));
        assert!(!sensible(&[run(1, "a", 0), delete(1, "a")]));
        assert!(!sensible(&[run(1, "a", 0), run(3, "a", 1)]));
        assert!(!sensible(&[delete(2, "a"), run(3, "a", 1)]));
    }
}
