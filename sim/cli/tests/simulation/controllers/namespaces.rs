//! Deletion of namespaces (K §1.3).

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_machinery::api::{DeleteOptions, ListOptions};
use kube_machinery::{ClientExt, Object, ObjectKey};
use kube_sim::actor::controller_manager::Controller;
use kube_sim::testbed::{config_map, from_json};
use serde_json::json;

use super::support::{Fate, run, workload};

/// The namespace that the tests delete.
fn shop() -> Namespace {
    from_json(json!({"metadata": {"name": "shop"}}))
}

fn in_shop<K: Object>(mut object: K) -> K {
    object.meta_mut().namespace = Some("shop".to_owned());
    object
}

#[test]
fn a_namespace_is_emptied_and_then_gone() {
    for seed in 0..3 {
        run(seed, &Controller::ALL, async |cluster| {
            cluster.create(shop()).await;
            cluster.create(in_shop(workload::<StatefulSet>(2, json!({})))).await;
            cluster.create(in_shop(workload::<Deployment>(2, json!({})))).await;
            cluster.create(in_shop(config_map("data", "a", "b"))).await;
            cluster.wait(20).await;
            assert_eq!(cluster.pods().await.len(), 4);
            cluster.client.delete::<Namespace>(&ObjectKey::cluster("shop"), DeleteOptions::default()).await.unwrap();
            cluster.wait(60).await;
            assert_eq!(cluster.pods().await.len(), 0, "seed {seed}");
            assert!(cluster.client.list::<ReplicaSet>(None, ListOptions::default()).await.unwrap().items.is_empty());
            assert!(cluster.client.list::<ConfigMap>(Some("shop"), ListOptions::default()).await.unwrap().items.is_empty());
            let gone = cluster.client.get::<Namespace>(&ObjectKey::cluster("shop")).await;
            assert!(gone.unwrap_err().is_not_found(), "seed {seed}");
        });
    }
}

#[test]
fn a_namespace_stays_while_a_pod_in_it_does() {
    run(1, &Controller::ALL, async |cluster| {
        cluster.fate("web", Fate::Lingers);
        cluster.create(shop()).await;
        cluster.create(in_shop(workload::<StatefulSet>(1, json!({})))).await;
        cluster.wait(10).await;
        cluster.client.delete::<Namespace>(&ObjectKey::cluster("shop"), DeleteOptions::default()).await.unwrap();
        cluster.wait(300).await;
        let namespace = cluster.client.get::<Namespace>(&ObjectKey::cluster("shop")).await.unwrap();
        assert_eq!(namespace.status.as_ref().unwrap().phase.as_deref(), Some("Terminating"));
        assert_eq!(cluster.names().await, ["web-0"]);
    });
}
