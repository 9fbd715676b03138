//! DaemonSets (K §7.3).

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube_machinery::ClientExt;
use kube_machinery::ObjectKey;
use kube_machinery::api::DeleteOptions;
use kube_sim::actor::controller_manager::Controller;
use kube_sim::testbed::from_json;
use serde_json::{Value, json};

use super::support::{Cluster, Fate, What, run};

const ONLY: &[Controller] = &[Controller::DaemonSet];

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

fn set(spec: Value) -> DaemonSet {
    let mut all = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template("web:1")});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    from_json(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": all}))
}

async fn add_node(cluster: &Cluster, name: &str, spec: Value) {
    cluster.create(from_json::<Node>(json!({"metadata": {"name": name, "labels": {"name": name}}, "spec": spec}))).await;
}

/// The target nodes of pods and their images, by node.
async fn targets(cluster: &Cluster) -> Vec<(String, String)> {
    let of = |pod: &Pod| {
        let spec = pod.spec.as_ref().unwrap();
        let affinity = spec.affinity.as_ref().unwrap().node_affinity.as_ref().unwrap();
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref().unwrap();
        let field = &required.node_selector_terms[0].match_fields.as_ref().unwrap()[0];
        assert_eq!((field.key.as_str(), field.operator.as_str()), ("metadata.name", "In"));
        (field.values.as_ref().unwrap()[0].clone(), spec.containers[0].image.clone().unwrap())
    };
    let mut targets: Vec<_> = cluster.pods().await.iter().map(|pod| of(pod)).collect();
    targets.sort();
    targets
}

fn on(nodes: &[&str], image: &str) -> Vec<(String, String)> {
    nodes.iter().map(|node| ((*node).to_owned(), image.to_owned())).collect()
}

#[test]
fn each_node_gets_one_pod_and_a_new_node_too() {
    run(1, ONLY, async |cluster| {
        add_node(&cluster, "n1", json!({})).await;
        add_node(&cluster, "n2", json!({})).await;
        cluster.create(set(json!({}))).await;
        cluster.wait(10).await;
        assert_eq!(targets(&cluster).await, on(&["n1", "n2"], "web:1"));
        add_node(&cluster, "n3", json!({})).await;
        cluster.wait(10).await;
        assert_eq!(targets(&cluster).await, on(&["n1", "n2", "n3"], "web:1"));
        let status = cluster.get::<DaemonSet>("web").await.status.clone().unwrap();
        assert_eq!((status.desired_number_scheduled, status.current_number_scheduled, status.number_ready), (3, 3, 3));
    });
}

#[test]
fn nodes_that_repel_or_do_not_match_get_none() {
    run(1, ONLY, async |cluster| {
        let tainted = |key: &str, effect: &str| json!({"taints": [{"key": key, "effect": effect}]});
        add_node(&cluster, "n1", tainted("node.kubernetes.io/not-ready", "NoExecute")).await;
        add_node(&cluster, "n2", tainted("dedicated", "NoSchedule")).await;
        add_node(&cluster, "n3", json!({})).await;
        cluster.create(set(json!({}))).await;
        cluster.wait(10).await;
        assert_eq!(targets(&cluster).await, on(&["n1", "n3"], "web:1"));
        // A taint that evicts.
        let taint = json!({"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}});
        cluster.client.patch::<Node>(&ObjectKey::cluster("n3"), kube_machinery::api::Patch::merge(taint)).await.unwrap();
        cluster.wait(10).await;
        assert_eq!(targets(&cluster).await, on(&["n1"], "web:1"));
        let mut selective = template("web:1");
        selective["spec"]["nodeSelector"] = json!({"name": "n2"});
        selective["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        cluster.patch::<DaemonSet>("web", json!({"spec": {"template": selective}})).await;
        cluster.wait(10).await;
        assert_eq!(targets(&cluster).await, on(&["n2"], "web:1"));
    });
}

#[test]
fn a_pod_that_failed_or_was_deleted_is_replaced_when_it_is_gone() {
    run(1, ONLY, async |cluster| {
        add_node(&cluster, "n1", json!({})).await;
        cluster.fate("web", Fate::Fails);
        cluster.create(set(json!({}))).await;
        cluster.wait(6).await;
        cluster.fate("web", Fate::Ready);
        cluster.wait(10).await;
        assert_eq!(cluster.ready().await.len(), 1);
        cluster.client.delete::<Pod>(&kube_sim::testbed::key(&cluster.names().await[0]), DeleteOptions::default()).await.unwrap();
        cluster.wait(10).await;
        assert_eq!(cluster.ready().await.len(), 1);
        let story: Vec<What> =
            cluster.seen("web").iter().map(|event| event.what).filter(|what| matches!(what, What::Created | What::Gone)).collect();
        use What::{Created, Gone};
        assert_eq!(story, [Created, Gone, Created, Gone, Created]);
    });
}

#[test]
fn a_roll_out_deletes_one_pod_at_a_time_and_then_creates() {
    for seed in 0..3 {
        run(seed, ONLY, async |cluster| {
            for name in ["n1", "n2", "n3"] {
                add_node(&cluster, name, json!({})).await;
            }
            cluster.create(set(json!({}))).await;
            cluster.wait(10).await;
            let before = cluster.seen("web").len();
            cluster.patch::<DaemonSet>("web", json!({"spec": {"template": template("web:2")}})).await;
            cluster.wait(3).await;
            cluster.bed.cluster.crash(cluster.manager);
            cluster.wait(2).await;
            cluster.bed.cluster.start(cluster.manager);
            cluster.wait(40).await;
            let mut there = 3i32;
            for event in &cluster.seen("web")[before..] {
                there += match event.what {
                    What::Created => 1,
                    What::Gone => -1,
                    What::Ready | What::Terminating => 0,
                };
                assert!((2..=3).contains(&there), "seed {seed}: {there} pods");
            }
            assert_eq!(targets(&cluster).await, on(&["n1", "n2", "n3"], "web:2"), "seed {seed}");
            assert_eq!(cluster.get::<DaemonSet>("web").await.status.as_ref().unwrap().updated_number_scheduled, Some(3));
        });
    }
}
