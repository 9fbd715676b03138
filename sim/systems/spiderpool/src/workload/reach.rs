//! The pods and hosts that claims must not wait for when some of a cluster's processes and hosts never come back.

use std::collections::{BTreeMap, BTreeSet};

use sim_harness::operation::Op;

use super::ops::AppKind;
use super::plan::{self, SpiderPlan};
use crate::Operation;

/// The bare pods that name a node which cannot run them, as `NAMESPACE/NAME`.
///
/// The nodes that the scheduler chooses for the pods of controllers are not known in advance: claims see them in the pods' objects. A pod
/// that cannot be stopped on its node keeps its name, so of several pods of one name the last one counts.
pub(super) fn pods_on(plan: &SpiderPlan, ops: &[Op], names: &BTreeSet<String>) -> BTreeSet<String> {
    let mut nodes: BTreeMap<(&str, &str), Option<u32>> = BTreeMap::new();
    for op in ops {
        if let Operation::ApplyApp(apply) = op.kind.own()
            && apply.kind == AppKind::Pod
        {
            nodes.insert((&apply.namespace, &apply.app), apply.node);
        }
    }
    let lost = |node: &Option<u32>| node.is_some_and(|node| names.contains(&plan.node_name(node)));
    nodes.into_iter().filter(|(_, node)| lost(node)).map(|((namespace, pod), _)| format!("{namespace}/{pod}")).collect()
}

/// The processes and hosts that are useless without these: a host takes its agent and its kubelet along, and a node without one of them
/// runs no pod.
pub(super) fn lost_with(plan: &SpiderPlan, names: &BTreeSet<String>) -> BTreeSet<String> {
    let mut more = BTreeSet::new();
    for number in 0..plan.nodes {
        let [node, agent, kubelet] = [plan.node_name(number), plan::agent_name(number), plan::kubelet_name(number)];
        if names.contains(&node) {
            more.extend([agent, kubelet]);
        } else if names.contains(&agent) || names.contains(&kubelet) {
            more.insert(node);
        }
    }
    more
}

#[cfg(test)]
mod tests {
    use super::super::SpiderDraft;
    use super::super::ops::{ApplyApp, NAMESPACE};
    use super::*;
    use sim_config::With;
    use sim_config::time::SimTime;
    use sim_harness::operation::Turn;
    use sim_harness::workload::{Draft, OutOfReach};

    fn plan() -> SpiderPlan {
        let [_, most] = SpiderDraft::default().bounds();
        most
    }

    fn apply(app: &str, kind: AppKind, node: Option<u32>) -> Op {
        let app = ApplyApp { app: app.to_owned(), namespace: NAMESPACE.to_owned(), kind, node, ..ApplyApp::default() };
        With { common: Turn { at: SimTime::ZERO, actor: plan::OPERATOR.to_owned() }, kind: Operation::ApplyApp(app).into() }
    }

    fn reach(ops: &[Op], lost: &[&str]) -> OutOfReach {
        OutOfReach::of(&plan(), ops, lost.iter().copied().map(str::to_owned).collect())
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn a_node_is_lost_with_its_agent_or_its_kubelet_and_they_with_their_host() {
        let host = plan().node_name(1);
        for lost in ["agent-1", "kubelet-1"] {
            assert_eq!(reach(&[], &[lost]).names, names(&[lost, &host]));
        }
        assert_eq!(reach(&[], &[&host]).names, names(&[&host, "agent-1", "kubelet-1"]));
        assert_eq!(reach(&[], &["apiserver-0"]).names, names(&["apiserver-0"]));
        assert_eq!(reach(&[], &[]), OutOfReach::default());
    }

    #[test]
    fn bare_pods_go_with_the_node_that_they_name_last() {
        let ops = [
            apply("stays", AppKind::Pod, Some(0)),
            apply("goes", AppKind::Pod, Some(1)),
            apply("moves", AppKind::Pod, Some(1)),
            apply("moves", AppKind::Pod, Some(0)),
            apply("anywhere", AppKind::Pod, None),
            apply("set", AppKind::StatefulSet, Some(1)),
        ];
        assert_eq!(reach(&ops, &["kubelet-1"]).pods, names(&["default/goes"]));
        assert_eq!(reach(&ops, &["kubelet-1", "agent-0"]).pods, names(&["default/goes", "default/moves", "default/stays"]));
        assert_eq!(reach(&ops, &["scheduler"]).pods, names(&[]));
    }
}
