//! Nodes that are drained by operations of a script.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube_machinery::Object;
use sim_config::time::SimTime;
use sim_harness::system::RunOptions;
use sim_harness::world::{Outcome, Stage, run};

use super::scenario;

/// Two of three nodes are drained at the same time; they have two of the three pods of a StatefulSet.
fn drained(budget: &str) -> String {
    format!(
        r#"
        name = "drained"
        why = "Does a drain move what it may?"
        phases = {{ safety = "5m", liveness = "3m" }}
        op = [
            {{ at = "5s", actor = "operator", kind = "apply-app", app = "web", type = "stateful-set", replicas = 3, {budget} }},
            {{ at = "5s", actor = "operator", kind = "apply-app", app = "each", type = "daemon-set" }},
            {{ at = "60s", actor = "operator", kind = "drain-node", node = "node-0", timeout = "100s" }},
            {{ at = "60s", actor = "operator", kind = "drain-node", node = "node-1", timeout = "100s" }},
            {{ at = "200s", actor = "operator", kind = "uncordon-node", node = "node-0" }},
            {{ at = "200s", actor = "operator", kind = "uncordon-node", node = "node-1" }},
        ]
        [workload]
        kind = "spiderpool"
        nodes = 3
        apps = 0
        kinds = ["stateful-set", "daemon-set"]
        [check]
        always = ["no-address-has-two-live-sandboxes", "static-pods-keep-their-addresses"]
        eventually = [{{ claim = "pods-get-addresses", within = "2m" }}]
        "#
    )
}

fn after(budget: &str, seconds: u64) -> Outcome {
    let plan = scenario("drained", &drained(budget)).draw(1);
    let until = Some(SimTime::from_secs(seconds));
    let outcome = run(&plan, &Stage::new(Vec::new()), RunOptions { dump: true, until, ..RunOptions::default() });
    assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    outcome
}

fn all<K: Object>(outcome: &Outcome) -> Vec<&K> {
    outcome.objects.iter().filter_map(|(_, object)| object.as_any().downcast_ref()).collect()
}

/// A budget that allows one unavailable pod.
const ONE_GOES: &str = "max_unavailable = \"1%\"";

/// The UIDs and the nodes of the pods whose names begin with `prefix`.
fn pods(outcome: &Outcome, prefix: &str) -> BTreeSet<(String, String)> {
    let of = all::<Pod>(outcome).into_iter().filter(|pod| pod.metadata.name.as_ref().is_some_and(|name| name.starts_with(prefix)));
    of.filter_map(|pod| Some((pod.metadata.uid.clone()?, pod.spec.as_ref()?.node_name.clone()?))).collect()
}

fn nodes(of: &BTreeSet<(String, String)>) -> BTreeSet<&str> {
    of.iter().map(|(_, node)| node.as_str()).collect()
}

fn cordoned(outcome: &Outcome) -> usize {
    all::<Node>(outcome).into_iter().filter(|node| node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)).count()
}

#[test]
fn a_drain_asks_again_until_the_budget_has_let_every_pod_go_and_leaves_daemon_sets_alone() {
    let (before, drained, after) = (after(ONE_GOES, 59), after(ONE_GOES, 190), after(ONE_GOES, 220));
    assert_eq!(nodes(&pods(&before, "web-")).len(), 3);
    assert_eq!(nodes(&pods(&drained, "web-")), ["node-2"].into());
    assert_eq!(pods(&drained, "web-").intersection(&pods(&before, "web-")).count(), 1, "whoever was there already stays as it was");
    assert_eq!(pods(&drained, "each-"), pods(&before, "each-"));
    assert_eq!((cordoned(&before), cordoned(&drained), cordoned(&after)), (0, 2, 0));
}

#[test]
fn a_drain_that_no_budget_allows_is_given_up_and_takes_nothing_away() {
    for budget in ["min_available = 3", "min_available = \"100%\"", "max_unavailable = 0"] {
        let (before, drained) = (after(budget, 59), after(budget, 190));
        assert_eq!(pods(&drained, "web-"), pods(&before, "web-"), "{budget}");
        assert_eq!(cordoned(&drained), 2);
    }
}
