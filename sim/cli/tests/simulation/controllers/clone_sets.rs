//! CloneSets: workloads of a kind that is not part of Kubernetes.

use k8s_openapi::api::core::v1::Pod;
use kube_sim::actor::controller_manager::Controller;
use kube_sim::kinds::kruise::CloneSet;
use serde_json::json;

use super::support::{Cluster, Fate, run, template, workload};

const ONLY: &[Controller] = &[Controller::CloneSet];

/// The counts in the status: replicas, ready ones, and those of the current template.
async fn counts(cluster: &Cluster) -> (i32, i32, i32) {
    let status = cluster.get::<CloneSet>("web").await.status.clone().unwrap_or_default();
    (status.replicas, status.ready_replicas, status.updated_replicas)
}

#[test]
fn a_clone_set_owns_its_pods_itself_and_follows_its_size() {
    for seed in 0..5 {
        run(seed, ONLY, async |cluster| {
            cluster.create(workload::<CloneSet>(3, json!({}))).await;
            cluster.wait(10).await;
            let pods = cluster.pods().await;
            assert_eq!((pods.len(), counts(&cluster).await), (3, (3, 3, 3)), "seed {seed}");
            for pod in &pods {
                let owner = &pod.metadata.owner_references.as_ref().unwrap()[0];
                assert_eq!((&*owner.api_version, &*owner.kind, owner.controller), ("apps.kruise.io/v1alpha1", "CloneSet", Some(true)));
            }
            cluster.patch::<CloneSet>("web", json!({"spec": {"replicas": 1}})).await;
            cluster.wait(10).await;
            assert_eq!((cluster.pods().await.len(), counts(&cluster).await), (1, (1, 1, 1)), "seed {seed}");
            let victim = cluster.names().await[0].clone();
            cluster.delete::<Pod>(&victim).await;
            cluster.wait(10).await;
            assert!(cluster.ready().await.len() == 1 && !cluster.names().await.contains(&victim), "seed {seed}");
            cluster.delete::<CloneSet>("web").await;
            cluster.wait(60).await;
            assert!(cluster.pods().await.is_empty(), "its pods are garbage, seed {seed}");
        });
    }
}

#[test]
fn a_roll_out_replaces_one_pod_after_the_other_and_stops_at_one_that_does_not_become_ready() {
    run(1, ONLY, async |cluster| {
        cluster.create(workload::<CloneSet>(4, json!({}))).await;
        cluster.wait(10).await;
        cluster.patch::<CloneSet>("web", json!({"spec": {"template": template("web:2")}})).await;
        cluster.wait(3).await;
        assert_eq!(cluster.ready().await.len(), 3);
        cluster.wait(60).await;
        assert_eq!(counts(&cluster).await, (4, 4, 4));
        cluster.fate("web", Fate::Unready);
        cluster.patch::<CloneSet>("web", json!({"spec": {"template": template("web:3")}})).await;
        cluster.wait(60).await;
        assert_eq!(counts(&cluster).await, (4, 3, 1));
    });
}
