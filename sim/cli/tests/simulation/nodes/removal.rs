//! Pods that only the garbage collection of pods removes, and Nodes that are removed and added.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::ClientExt;
use kube_machinery::api::{DeleteOptions, Patch};
use kube_sim::actor::controller_manager::Set;
use kube_sim::fault::{FaultKind, NodeDeleted, NodeOutOfService, Partition};
use kube_sim::testbed::{from_json, key};
use serde_json::json;
use sim_config::time::Span;

use super::{Stage, everybody, target};

fn deleted(node: &str) -> FaultKind {
    FaultKind::NodeDeleted(NodeDeleted { node: target(node) })
}

fn cut(who: &str) -> FaultKind {
    FaultKind::Partition(Partition { from: target(who), to: target("apiserver-*") })
}

#[test]
fn k138_pods_of_a_node_that_is_deleted_are_collected_after_the_quarantine_without_a_del() {
    Stage::run(1, 2, async |stage| {
        stage.running("web", "node-0", json!({})).await;
        stage.strike([(600, cut("kubelet-0")), (600, deleted("node-0"))]).await;
        stage.until("the Node is gone", 5, || stage.node("node-0").is_none()).await;
        let took = stage.until("the pod is gone", 90, || stage.pod("web").is_none()).await;
        assert!((40..=61).contains(&took), "{took} s: up to 20 s to the next round, and 40 s");
        assert_eq!(stage.machines[0].plugin.story(), ["ADD eth0 #0"]);
        assert!(stage.lives(0, "web"), "K137: its sandbox answers on");
    });
}

#[test]
fn k139_on_return_sandboxes_of_pods_that_are_gone_are_stopped_without_any_event() {
    Stage::run(1, 2, async |stage| {
        stage.running("web", "node-0", json!({})).await;
        stage.strike([(300, cut("kubelet-0")), (300, deleted("node-0"))]).await;
        stage.until("the pod is gone", 100, || stage.pod("web").is_none()).await;
        assert!(stage.lives(0, "web"));
        stage.until("the kubelet hears of it", 300, || !stage.lives(0, "web")).await;
        assert_eq!(stage.machines[0].plugin.story(), ["ADD eth0 #0", "DEL eth0 #0"]);
        stage.until("its Node is registered again", 30, || stage.ready("node-0") == "True").await;
    });
}

#[test]
fn k145_a_node_that_is_back_before_the_end_of_the_quarantine_keeps_its_pods_under_another_uid() {
    Stage::run(1, 2, async |stage| {
        let pod = stage.running("web", "node-0", json!({})).await;
        let before = stage.node("node-0").unwrap();
        stage.strike([(20, deleted("node-0"))]).await;
        stage.until("the Node is gone", 5, || stage.node("node-0").is_none()).await;
        stage.until("it is registered again", 40, || stage.ready("node-0") == "True").await;
        assert_ne!(stage.node("node-0").unwrap().metadata.uid, before.metadata.uid);
        stage.wait(120).await;
        let after = stage.pod("web").unwrap();
        assert_eq!((pod.metadata.uid.as_ref(), after.metadata.deletion_timestamp.as_ref()), (after.metadata.uid.as_ref(), None));
        assert!(stage.lives(0, "web"), "bound by the name of the node");
    });
}

#[test]
fn a_node_that_is_deleted_for_good_stays_away_though_its_kubelet_runs() {
    Stage::run(1, 2, async |stage| {
        stage.strike([(6_000, deleted("node-0"))]).await;
        stage.until("the Node is gone", 5, || stage.node("node-0").is_none()).await;
        stage.wait(120).await;
        assert!(stage.node("node-0").is_none());
        let kubelet = stage.machines[0].runtime.kubelet();
        stage.bed.cluster.crash(kubelet);
        stage.bed.cluster.start(kubelet);
        stage.wait(30).await;
        assert!(stage.node("node-0").is_none(), "the fault is stronger");
    });
}

#[test]
fn a_kubelet_that_starts_registers_its_node_if_somebody_has_deleted_it() {
    Stage::run(1, 2, async |stage| {
        let node = kube_machinery::ObjectKey::cluster("node-0");
        stage.user.delete::<k8s_openapi::api::core::v1::Node>(&node, DeleteOptions::default()).await.unwrap();
        stage.wait(60).await;
        assert!(stage.node("node-0").is_none(), "one that runs does not");
        let kubelet = stage.machines[0].runtime.kubelet();
        stage.bed.cluster.crash(kubelet);
        stage.bed.cluster.start(kubelet);
        stage.until("it is there", 5, || stage.ready("node-0") == "True").await;
    });
}

#[test]
fn pods_of_a_machine_that_is_out_of_service_go_at_once_and_a_stateful_set_goes_on_elsewhere() {
    Stage::run(1, 2, async |stage| {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
        let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        stage
            .user
            .create(from_json::<StatefulSet>(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec})))
            .await
            .unwrap();
        stage.until("it runs", 60, || stage.phase("web-0") == "Running").await;
        let first = stage.pod("web-0").unwrap();
        let node = first.spec.as_ref().unwrap().node_name.clone().unwrap();
        let fault = FaultKind::NodeOutOfService(NodeOutOfService { node: target(&node), after: Span::secs(70) });
        stage.strike([(400, fault)]).await;
        stage.wait(69).await;
        assert_eq!((stage.ready(&node).as_str(), stage.is_terminating("web-0")), ("Unknown", false));
        // The pod does not tolerate that taint: it is evicted at once, and collected in the next round.
        let is_new = || stage.pod("web-0").is_some_and(|pod| pod.metadata.uid != first.metadata.uid);
        let took = stage.until("there is another one", 30, is_new).await;
        stage.until("it runs elsewhere", 30, || stage.phase("web-0") == "Running").await;
        assert_ne!(stage.pod("web-0").unwrap().spec.as_ref().unwrap().node_name.as_ref(), Some(&node), "after {took} s");
        stage.until("the machine is back and in service", 400, || stage.ready(&node) == "True" && stage.taints(&node).is_empty()).await;
    });
}

#[test]
fn pods_that_are_over_are_collected_above_the_threshold_oldest_first() {
    let set = Set { terminated_pods: 2, ..everybody() };
    Stage::run_with(
        1,
        1,
        set,
        |_| (),
        async |stage| {
            for name in ["d", "c", "b", "a"] {
                stage.create(name, "node-0", json!({})).await;
                stage.wait(5).await;
                let patch = Patch::merge(json!({"status": {"phase": "Succeeded"}}));
                stage.user.patch_status::<Pod>(&key(name), patch).await.unwrap();
            }
            stage.wait(25).await;
            let names: Vec<String> = stage.pods().into_iter().map(|pod| pod.metadata.name.unwrap()).collect();
            assert_eq!(names, ["a", "b"]);
        },
    );
}

#[test]
fn a_terminating_pod_without_a_node_is_collected_and_marked_failed_first() {
    Stage::run(1, 1, async |stage| {
        stage.create("held", "", json!({"metadata": {"finalizers": ["example.com/hold"]}, "spec": {"schedulerName": "nobody"}})).await;
        stage.delete("held", DeleteOptions::default()).await;
        assert!(stage.is_terminating("held"));
        stage.until("it is marked", 25, || stage.phase("held") == "Failed").await;
        stage.wait(30).await;
        assert!(stage.pod("held").is_some(), "a finalizer is stronger");
    });
}
