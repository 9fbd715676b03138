//! Bindings and deletes by name, which apply to whichever object has the name at that time.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube_machinery::api::{DeleteOptions, Verb};
use kube_machinery::{ClientExt, ObjectKey};
use kube_sim::actor::kubelet;
use kube_sim::cluster::server::{ApiFault, InjectedFault};
use kube_sim::fault::{FaultKind, HostDown, NodeDeleted, Partition};
use kube_sim::net::Side;
use kube_sim::rt::ProcessId;
use kube_sim::testbed::grace;
use serde_json::json;

use super::super::kubelet::plugin::Plugin;
use super::{SECOND, Stage, config, target};

/// The delay of a process's deletes, in seconds.
const LATE: u32 = 20;

/// From now on deletes of pods by `process` take [`LATE`] seconds longer to arrive.
fn delete_late(stage: &Stage, process: ProcessId) {
    stage.bed.cluster.add_api_fault(ApiFault {
        fault: 0,
        servers: Side::Any,
        clients: Side::Only(vec![process]),
        verbs: vec![Verb::Delete],
        kinds: vec![stage.bed.kind::<Pod>()],
        chance: 1.0,
        injected: InjectedFault::Slow { by: SECOND * LATE },
    });
}

/// Deletes the pod `web` by force and creates it again on `node-1`. Returns its UID.
async fn recreate(stage: &Stage) -> Option<String> {
    let old = stage.pod("web").expect("the pod is there").metadata.uid.clone();
    stage.delete("web", grace(0)).await;
    let new = stage.create("web", "node-1", json!({})).await.metadata.uid.clone();
    assert_ne!(old, new);
    new
}

#[test]
fn k144_an_eviction_hits_whoever_has_the_name_by_then() {
    Stage::run(1, 2, async |stage| {
        stage.running("web", "node-0", json!({})).await;
        delete_late(&stage, stage.manager);
        stage.strike([(1_000, FaultKind::HostDown(HostDown { host: target("node-0") }))]).await;
        stage.until("it is about to be evicted", 380, || stage.condition("web", "DisruptionTarget") == "True").await;
        assert!(!stage.is_terminating("web"));
        let successor = recreate(&stage).await;
        stage.until("the successor goes in its place", LATE + 5, || stage.is_terminating("web")).await;
        assert_eq!(stage.pod("web").unwrap().metadata.uid, successor);
    });
}

#[test]
fn k144_pod_gc_hits_whoever_has_the_name_by_then() {
    Stage::run(1, 2, async |stage| {
        stage.running("web", "node-0", json!({})).await;
        delete_late(&stage, stage.manager);
        let cut = FaultKind::Partition(Partition { from: target("kubelet-0"), to: target("apiserver-*") });
        stage.strike([(600, cut), (600, FaultKind::NodeDeleted(NodeDeleted { node: target("node-0") }))]).await;
        stage.until("it is about to be collected", 90, || stage.phase("web") == "Failed").await;
        let successor = recreate(&stage).await;
        stage.until("the successor runs", 10, || stage.phase("web") == "Running").await;
        assert_eq!(stage.pod("web").unwrap().metadata.uid, successor);
        stage.until("it goes, without grace", LATE, || stage.pod("web").is_none()).await;
    });
}

#[test]
fn k144_the_last_delete_of_a_kubelet_spares_the_successor() {
    Stage::run(1, 2, async |stage| {
        stage.running("web", "node-0", json!({})).await;
        delete_late(&stage, stage.machines[0].runtime.kubelet());
        stage.delete("web", DeleteOptions::default()).await;
        stage.until("its sandbox is gone", 40, || stage.phase("web") == "Succeeded").await;
        // The kubelet sends its delete half a second after that.
        stage.wait(2).await;
        let successor = recreate(&stage).await;
        stage.wait(LATE + 10).await;
        let pod = stage.pod("web").unwrap();
        assert_eq!((&pod.metadata.uid, &pod.metadata.deletion_timestamp), (&successor, &None));
        assert_eq!(stage.phase("web"), "Running");
    });
}

#[test]
fn k145_pods_bound_to_a_node_get_an_add_of_the_next_kubelet_of_its_name() {
    Stage::run(1, 2, async |stage| {
        let pod = stage.running("web", "node-0", json!({})).await;
        stage.strike([(36_000, FaultKind::HostDown(HostDown { host: target("node-0") }))]).await;
        let before = stage.node("node-0").unwrap();
        stage.user.delete::<Node>(&ObjectKey::cluster("node-0"), DeleteOptions::default()).await.unwrap();
        // Another machine with the name of the one that is gone.
        let plugin = Plugin::new(&stage.bed.rt);
        let host = stage.bed.rt.add_host("replacement");
        let next = stage.bed.rt.add_process(host, "kubelet-replacement");
        let runtime = kubelet::install(&stage.bed.cluster, next, plugin.clone(), config(&stage.bed, 0));
        stage.bed.cluster.start(next);
        stage.until("the Node is made again", 30, || stage.ready("node-0") == "True").await;
        stage.until("the pod has a sandbox there", 30, || !runtime.sandboxes().is_empty()).await;
        stage.wait(120).await;
        assert_ne!(stage.node("node-0").unwrap().metadata.uid, before.metadata.uid);
        let after = stage.pod("web").unwrap();
        assert_eq!((&after.metadata.uid, &after.metadata.deletion_timestamp), (&pod.metadata.uid, &None));
        assert_eq!((plugin.story(), stage.phase("web").as_str()), (vec!["ADD eth0 #0".to_owned()], "Running"));
        assert_eq!(stage.machines[0].plugin.story(), ["ADD eth0 #0"], "nobody called DEL on the machine that is gone");
    });
}
