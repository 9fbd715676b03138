//! Nodes that are drained: cordons, evictions, and the budgets that refuse them (K §6.5, K110).

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_machinery::api::{DeleteOptions, Dry, Patch, Preconditions, Reason};
use kube_machinery::{ApiError, ClientExt, ObjectKey};
use kube_sim::actor::controller_manager::{Controller, Set};
use kube_sim::cluster::server::Failure;
use kube_sim::fault::{FaultKind, LostReply};
use kube_sim::testbed::{from_json, key};
use serde_json::{Value, json};
use sim_config::Probability;
use sim_config::time::Span;

use super::{Stage, everybody, target};

fn with_budgets() -> Set {
    let mut set = everybody();
    set.controllers.insert(Controller::Disruption);
    set
}

fn stage<T>(nodes: usize, test: impl AsyncFnOnce(Stage) -> T) -> T {
    Stage::run_with(1, nodes, with_budgets(), |_| (), test)
}

async fn cordon(stage: &Stage, node: &str, cordoned: bool) {
    let patch = Patch::merge(json!({"spec": {"unschedulable": cordoned}}));
    stage.user.patch::<Node>(&ObjectKey::cluster(node), patch).await.unwrap();
}

async fn evict(stage: &Stage, pod: &str) -> Result<(), ApiError> {
    stage.user.evict(&key(pod), DeleteOptions::default()).await
}

fn node_of(stage: &Stage, pod: &str) -> String {
    stage.pod(pod).and_then(|pod| pod.spec.as_ref()?.node_name.clone()).unwrap_or_default()
}

fn is_ready(stage: &Stage, pod: &str) -> bool {
    stage.condition(pod, "Ready") == "True"
}

/// A workload called `web` with this spec.
fn workload(mut spec: Value) -> Value {
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    spec["template"] = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
    json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
}

async fn stateful_set(stage: &Stage, replicas: u32) {
    let set = workload(json!({"replicas": replicas, "serviceName": "web"}));
    stage.user.create(from_json::<StatefulSet>(set)).await.unwrap();
    let all = || (0..replicas).all(|number| is_ready(stage, &format!("web-{number}")));
    stage.until("all of its pods are ready", 120, all).await;
}

async fn budget(stage: &Stage, stay: u32) {
    budget_of(stage, json!({"minAvailable": stay})).await;
}

async fn budget_of(stage: &Stage, mut spec: Value) {
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let budget = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec});
    stage.user.create(from_json::<PodDisruptionBudget>(budget)).await.unwrap();
    stage.until("somebody has counted", 10, || allowed(stage).is_some()).await;
}

fn allowed(stage: &Stage) -> Option<i32> {
    stage.stored::<PodDisruptionBudget>(&key("web"))?.status?.disruptions_allowed
}

#[test]
fn an_evicted_pod_comes_back_on_a_node_that_is_not_cordoned() {
    stage(2, async |stage| {
        stateful_set(&stage, 1).await;
        let (before, node) = (stage.pod("web-0").unwrap(), node_of(&stage, "web-0"));
        cordon(&stage, &node, true).await;
        evict(&stage, "web-0").await.unwrap();
        assert!(stage.is_terminating("web-0") && stage.condition("web-0", "DisruptionTarget") == "True");
        let is_new = || stage.pod("web-0").is_some_and(|pod| pod.metadata.uid != before.metadata.uid);
        stage.until("its successor is there", 60, || is_new() && is_ready(&stage, "web-0")).await;
        assert_ne!(node_of(&stage, "web-0"), node);
    });
}

#[test]
fn what_finds_no_node_but_a_cordoned_one_waits_until_it_is_uncordoned() {
    stage(1, async |stage| {
        cordon(&stage, "node-0", true).await;
        stage.create("web", "", json!({})).await;
        stage.wait(60).await;
        assert_eq!(node_of(&stage, "web"), "");
        cordon(&stage, "node-0", false).await;
        stage.until("it runs", 20, || stage.phase("web") == "Running").await;
    });
}

#[test]
fn a_pod_of_a_daemon_set_comes_to_a_cordoned_node() {
    stage(1, async |stage| {
        cordon(&stage, "node-0", true).await;
        stage.user.create(from_json::<DaemonSet>(workload(json!({})))).await.unwrap();
        let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        stage.until("it runs there", 30, || stage.pods().iter().any(runs)).await;
    });
}

#[test]
fn k110_a_budget_lets_one_pod_go_at_a_time() {
    stage(3, async |stage| {
        stateful_set(&stage, 2).await;
        budget(&stage, 1).await;
        assert_eq!(allowed(&stage), Some(1));
        evict(&stage, "web-1").await.unwrap();
        let refused = evict(&stage, "web-0").await.unwrap_err();
        assert_eq!((refused.reason(), refused.retry_after()), (Some(Reason::TooManyRequests), None));
        let causes = &refused.status().unwrap().details.causes;
        assert_eq!(causes[0].reason, "DisruptionBudget");
        assert!(!stage.is_terminating("web-0"), "it stays as it is");
        stage.until("the first is back", 90, || allowed(&stage) == Some(1)).await;
        assert!(is_ready(&stage, "web-1"));
        evict(&stage, "web-0").await.unwrap();
    });
}

#[test]
fn a_share_that_may_be_missing_is_of_the_pods_that_the_deployment_of_a_replica_set_asks_for() {
    stage(3, async |stage| {
        stage.user.create(from_json::<Deployment>(workload(json!({"replicas": 3})))).await.unwrap();
        budget_of(&stage, json!({"maxUnavailable": "34%"})).await;
        stage.until("a third of three, rounded up, may go", 120, || allowed(&stage) == Some(2)).await;
        let status = stage.stored::<PodDisruptionBudget>(&key("web")).unwrap().status.unwrap();
        assert_eq!((status.expected_pods, status.desired_healthy), (Some(3), Some(1)));
    });
}

#[test]
fn nobody_goes_while_one_of_the_pods_has_a_controller_that_says_no_number() {
    stage(2, async |stage| {
        stage.user.create(from_json::<DaemonSet>(workload(json!({})))).await.unwrap();
        let ready = || stage.pods().iter().filter(|pod| is_ready(&stage, pod.metadata.name.as_ref().unwrap())).count();
        stage.until("both run", 60, || ready() == 2).await;
        budget_of(&stage, json!({"maxUnavailable": 1})).await;
        stage.wait(10).await;
        let pod = stage.pods()[0].metadata.name.clone().unwrap();
        let refused = evict(&stage, &pod).await.unwrap_err();
        assert_eq!((allowed(&stage), refused.reason()), (Some(0), Some(Reason::TooManyRequests)));
    });
}

#[test]
fn k110_a_budget_that_nobody_has_looked_at_refuses_with_a_delay() {
    Stage::run(1, 1, async |stage| {
        stateful_set(&stage, 1).await;
        let budget = json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        });
        stage.user.create(from_json::<PodDisruptionBudget>(budget)).await.unwrap();
        let refused = evict(&stage, "web-0").await.unwrap_err();
        assert_eq!((refused.reason(), refused.retry_after()), (Some(Reason::TooManyRequests), Some(10)));
    });
}

#[test]
fn an_eviction_on_a_dry_run_or_of_another_uid_takes_nothing_away() {
    stage(2, async |stage| {
        stateful_set(&stage, 2).await;
        budget(&stage, 1).await;
        stage.user.evict(&key("web-0"), DeleteOptions { dry: Dry::Run, ..DeleteOptions::default() }).await.unwrap();
        assert!(!stage.is_terminating("web-0") && allowed(&stage) == Some(1));
        let preconditions = Preconditions { uid: Some("another".to_owned()), ..Preconditions::default() };
        let refused = stage.user.evict(&key("web-0"), DeleteOptions { preconditions, ..DeleteOptions::default() }).await.unwrap_err();
        assert!(refused.is_conflict() && !stage.is_terminating("web-0"));
        assert!(evict(&stage, "nobody").await.unwrap_err().is_not_found());
    });
}

#[test]
fn a_disruption_that_was_taken_for_nothing_is_given_back_in_two_minutes() {
    stage(2, async |stage| {
        stateful_set(&stage, 2).await;
        budget(&stage, 1).await;
        let preconditions = Preconditions { uid: Some("another".to_owned()), ..Preconditions::default() };
        let refused = stage.user.evict(&key("web-0"), DeleteOptions { preconditions, ..DeleteOptions::default() }).await;
        assert!(refused.is_err() && allowed(&stage) == Some(0));
        let took = stage.until("it is counted again", 180, || allowed(&stage) == Some(1)).await;
        assert!((100..=125).contains(&took), "{took} s");
    });
}

#[test]
fn k066_nothing_is_evicted_from_a_namespace_that_is_being_emptied() {
    stage(1, async |stage| {
        stage.user.create(from_json::<Namespace>(json!({"metadata": {"name": "shop"}}))).await.unwrap();
        let held = json!({
            "metadata": {"name": "web", "namespace": "shop", "finalizers": ["example.com/hold"]},
            "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        });
        stage.user.create(from_json::<Pod>(held)).await.unwrap();
        stage.user.delete::<Namespace>(&ObjectKey::cluster("shop"), DeleteOptions::default()).await.unwrap();
        let refused = stage.user.evict(&ObjectKey::namespaced("shop", "web"), DeleteOptions::default()).await.unwrap_err();
        assert_eq!(refused.code(), Some(403));
        assert_eq!(refused.status().unwrap().details.causes[0].reason, "NamespaceTerminating");
    });
}

#[test]
fn an_eviction_whose_answer_is_lost_is_carried_out_all_the_same() {
    stage(1, async |stage| {
        stateful_set(&stage, 1).await;
        let lost = LostReply {
            server: target("apiserver-*"),
            client: target("user"),
            chance: Probability::ALWAYS,
            error: Failure::Reset,
            after: Span::millis(100),
        };
        stage.strike([(10, FaultKind::LostReply(lost))]).await;
        assert!(evict(&stage, "web-0").await.is_err());
        assert!(stage.is_terminating("web-0"));
    });
}
