//! Pods leave nodes that are lost, as far as they can.

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::ClientExt;
use kube_sim::fault::{FaultKind, HostDown, Partition};
use kube_sim::testbed::from_json;
use serde_json::{Value, json};

use super::{Stage, target};

fn host_down(host: &str) -> FaultKind {
    FaultKind::HostDown(HostDown { host: target(host) })
}

fn cut(who: &str) -> FaultKind {
    FaultKind::Partition(Partition { from: target(who), to: target("apiserver-*") })
}

/// A workload called `web`.
fn workload(replicas: Option<u32>) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}},
    });
    if let Some(replicas) = replicas {
        spec["replicas"] = replicas.into();
    }
    json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
}

fn node_of(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
}

fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

#[test]
fn k136_a_pod_of_a_lost_node_is_deleted_after_its_toleration_and_stays_until_the_node_returns() {
    Stage::run(1, 2, async |stage| {
        stage.running("web", "node-0", json!({"spec": {"terminationGracePeriodSeconds": 20}})).await;
        stage.strike([(1_000, host_down("node-0"))]).await;
        let took = stage.until("it is terminating", 380, || stage.is_terminating("web")).await;
        assert!((340..=375).contains(&took), "{took} s after the crash: 40 to 55 s, up to 15 s, 300 s");
        let pod = stage.pod("web").unwrap();
        assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(20), "its own grace");
        assert_eq!((stage.condition("web", "DisruptionTarget").as_str(), stage.phase("web").as_str()), ("True", "Running"));
        stage.wait(500).await;
        assert!(stage.is_terminating("web"), "nobody is there to finish it");
        stage.until("the node is back and finishes it", 160, || stage.pod("web").is_none()).await;
        assert_eq!(stage.machines[0].plugin.story().last().map(String::as_str), Some("DEL eth0 #0 without netns"));
    });
}

#[test]
fn a_return_in_time_cancels_the_eviction() {
    Stage::run(1, 2, async |stage| {
        stage.running("web", "node-0", json!({})).await;
        stage.strike([(250, cut("kubelet-0"))]).await;
        stage.until("it is tainted", 80, || stage.taints("node-0").len() == 2).await;
        stage.wait(600).await;
        assert!(stage.taints("node-0").is_empty() && !stage.is_terminating("web") && stage.lives(0, "web"));
    });
}

#[test]
fn a_toleration_of_its_own_takes_the_place_of_the_default() {
    Stage::run(1, 2, async |stage| {
        let toleration = |seconds: Option<i64>| {
            let one =
                json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
            json!({"spec": {"tolerations": [one]}})
        };
        stage.running("soon", "node-0", toleration(Some(10))).await;
        stage.running("never", "node-0", toleration(None)).await;
        stage.strike([(1_000, host_down("node-0"))]).await;
        stage.until("it is tainted", 80, || stage.taints("node-0").len() == 2).await;
        let took = stage.until("the first one leaves", 20, || stage.is_terminating("soon")).await;
        assert!((9..=11).contains(&took), "{took} s");
        stage.wait(600).await;
        assert!(!stage.is_terminating("never"));
    });
}

#[test]
fn k136_pods_of_daemon_sets_bear_a_lost_node_for_ever() {
    Stage::run(1, 2, async |stage| {
        stage.user.create(from_json::<DaemonSet>(workload(None))).await.unwrap();
        stage
            .until("both run", 60, || {
                stage.pods().iter().filter(|pod| stage.phase(pod.metadata.name.as_ref().unwrap()) == "Running").count() == 2
            })
            .await;
        stage.strike([(1_000, host_down("node-0"))]).await;
        stage.wait(700).await;
        assert!(stage.pods().len() == 2 && !stage.pods().iter().any(is_leaving));
    });
}

#[test]
fn k142_a_replica_set_replaces_a_pod_while_it_is_still_terminating() {
    Stage::run(1, 2, async |stage| {
        stage.user.create(from_json::<ReplicaSet>(workload(Some(2)))).await.unwrap();
        let on = |node: &str| stage.pods().into_iter().filter(|pod| node_of(pod) == node).collect::<Vec<_>>();
        stage.until("each node has one", 60, || on("node-0").len() == 1 && on("node-1").len() == 1).await;
        stage.strike([(900, cut("kubelet-0"))]).await;
        stage.until("it has left", 400, || on("node-0").iter().any(is_leaving)).await;
        stage.until("its successor is elsewhere", 20, || on("node-1").len() == 2).await;
        assert_eq!(on("node-0").len(), 1, "the object is still there");
        let name = on("node-0")[0].metadata.name.clone().unwrap();
        assert!(stage.lives(0, &name), "and its sandbox");
        stage.until("the node returns and ends it", 600, || on("node-0").is_empty()).await;
        assert!(!stage.lives(0, &name));
    });
}

#[test]
fn k141_a_stateful_set_replaces_a_pod_only_after_the_object_is_gone() {
    Stage::run(1, 2, async |stage| {
        stage.user.create(from_json::<StatefulSet>(workload(Some(1)))).await.unwrap();
        stage.until("it runs", 60, || stage.phase("web-0") == "Running").await;
        let first = stage.pod("web-0").unwrap();
        let node = node_of(&first);
        let kubelet = node.replace("node", "kubelet");
        stage.strike([(900, cut(&kubelet))]).await;
        stage.until("it has left", 400, || stage.is_terminating("web-0")).await;
        stage.wait(400).await;
        assert_eq!(stage.pod("web-0").unwrap().metadata.uid, first.metadata.uid, "its place is taken until it is gone");
        let is_new = || stage.pod("web-0").is_some_and(|pod| pod.metadata.uid != first.metadata.uid);
        stage.until("the node returns and ends it", 400, is_new).await;
    });
}
