//! Properties of all controllers of a manager together.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::ClientExt;
use kube_machinery::api::{DeleteOptions, Verb};
use kube_machinery::kubevirt::VirtualMachine;
use kube_sim::actor::controller_manager;
use kube_sim::actor::controller_manager::{Controller, Set};
use kube_sim::cluster::server::{ApiFault, Failure, InjectedFault};
use kube_sim::net::Side;
use kube_sim::testbed::{from_json, key};
use serde_json::json;

use super::support::{Cluster, SECOND, run, run_with, template, workload};

/// A day of the cluster in a minute.
async fn live(cluster: &Cluster) {
    cluster.create(workload::<StatefulSet>(3, json!({}))).await;
    let mut deployment = workload::<Deployment>(4, json!({}));
    deployment.metadata.name = Some("api".to_owned());
    cluster.create(deployment).await;
    cluster
        .create(from_json::<VirtualMachine>(json!({"metadata": {"name": "vm", "namespace": "default"}, "spec": {"running": true}})))
        .await;
    cluster.wait(20).await;
    cluster.patch::<Deployment>("api", json!({"spec": {"template": template("web:2")}})).await;
    cluster.patch::<StatefulSet>("web", json!({"spec": {"replicas": 1}})).await;
    let victim = cluster.names().await[0].clone();
    cluster.delete::<Pod>(&victim).await;
    cluster.wait(40).await;
}

#[test]
fn the_same_run_twice_gives_the_same_digest() {
    let digest = |seed| {
        run(seed, &Controller::ALL, async |cluster| {
            live(&cluster).await;
            cluster.bed.cluster.crash(cluster.manager);
            cluster.bed.cluster.start(cluster.manager);
            cluster.wait(10).await;
            cluster.digest()
        })
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn a_cluster_at_rest_costs_no_request() {
    run(1, &Controller::ALL, async |cluster| {
        live(&cluster).await;
        cluster.wait(400).await;
        let writes = cluster.writes();
        let requests = cluster.bed.cluster.recorder(|recorder| recorder.counts.requests);
        cluster.wait(3_600).await;
        assert_eq!(cluster.writes(), writes);
        assert_eq!(cluster.bed.cluster.recorder(|recorder| recorder.counts.requests), requests);
    });
}

#[test]
fn writes_whose_answers_are_lost_leave_neither_too_many_pods_nor_too_few() {
    for seed in 0..5 {
        run(seed, &Controller::ALL, async |cluster| {
            let fault = ApiFault {
                fault: 7,
                clients: Side::Only(vec![cluster.manager]),
                servers: Side::Any,
                verbs: vec![Verb::Create, Verb::Update, Verb::Delete],
                kinds: Vec::new(),
                chance: 0.3,
                injected: InjectedFault::LoseReply { error: Failure::Timeout, after: SECOND },
            };
            cluster.bed.cluster.add_api_fault(fault);
            live(&cluster).await;
            cluster.bed.cluster.remove_api_faults(7);
            cluster.wait(120).await;
            let ready = cluster.ready().await;
            let of = |prefix: &str| ready.iter().filter(|name| name.starts_with(prefix)).count();
            assert_eq!((of("web-"), of("api-"), of("virt-launcher-vm-")), (1, 4, 1), "seed {seed}: {ready:?}");
            assert_eq!(cluster.pods().await.len(), 6, "seed {seed}");
        });
    }
}

#[test]
fn a_pod_costs_few_writes_of_its_controllers() {
    let cost = |spec: serde_json::Value| {
        run_with(1, Set::of(Controller::ALL), async |cluster| {
            cluster.create(workload::<StatefulSet>(50, spec)).await;
            cluster.wait(300).await;
            assert_eq!(cluster.ready().await.len(), 50);
            cluster.client.delete::<StatefulSet>(&key("web"), DeleteOptions::default()).await.unwrap();
            cluster.wait(60).await;
            assert_eq!(cluster.pods().await.len(), 0);
            f64::from(cluster.writes()) / 50.0
        })
    };
    // One create by the controller and one delete by the collector; the rest are status updates, whose rate is limited.
    let (parallel, ordered) = (cost(json!({"podManagementPolicy": "Parallel"})), cost(json!({})));
    assert!(parallel < 2.5, "{parallel} writes for a pod");
    assert!(ordered < 4.5, "{ordered} writes for a pod");
}

#[test]
fn the_manager_is_one_process_of_a_known_name() {
    run(1, &[], async |cluster| {
        assert_eq!(&*cluster.bed.rt.process_name(cluster.manager), controller_manager::NAME);
        cluster.bed.wait(Duration::from_secs(1) + SECOND).await;
        assert_eq!(cluster.writes(), 0);
    });
}
