//! Bindings and the scheduler that makes them (K §5.1, K126).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube_machinery::ClientExt;
use kube_machinery::api::DeleteOptions;
use kube_sim::actor::scheduler;
use kube_sim::fault::{FaultKind, Pause, Target};
use kube_sim::testbed::{Testbed, from_json, grace, key, pod};
use serde_json::{Value, json};

use super::{SECOND, Stage, merge};

/// A ready node whose label is its name.
fn node(name: &str) -> Node {
    from_json(json!({
        "metadata": {"name": name, "labels": {"host": name}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }))
}

fn unassigned(name: &str, extra: Value) -> Pod {
    let mut value = serde_json::to_value(pod(name, "")).unwrap();
    merge(&mut value, &extra);
    from_json(value)
}

/// The nodes of all pods that have one.
fn assigned(bed: &Testbed) -> BTreeMap<String, String> {
    let pods: Vec<Pod> = bed.cluster.store(|store| {
        let table = store.table(bed.kind::<Pod>());
        table.range(std::ops::Bound::Unbounded).map(|(_, pod)| serde_json::from_value(pod.to_value()).unwrap()).collect()
    });
    let of = |pod: Pod| Some((pod.metadata.name?, pod.spec?.node_name?));
    pods.into_iter().filter_map(of).collect()
}

#[test]
fn k126_a_binding_sets_the_node_once_and_never_of_a_terminating_pod() {
    Testbed::run(1, async |bed| {
        let user = bed.client("user");
        let web = user.create(pod("web", "")).await.unwrap();
        let bound = user.bind(&key("web"), web.metadata.uid.clone(), "node-1").await.unwrap();
        assert_eq!(bound.spec.as_ref().unwrap().node_name.as_deref(), Some("node-1"));
        let condition = &bound.status.as_ref().unwrap().conditions.as_ref().unwrap()[0];
        assert_eq!((condition.type_.as_str(), condition.status.as_str()), ("PodScheduled", "True"), "in the same commit");
        assert_eq!(bound.metadata.uid, web.metadata.uid);

        let again = user.bind(&key("web"), None, "node-2").await.unwrap_err();
        assert!(again.is_conflict(), "{again}");
        let text = "Operation cannot be fulfilled on pods/binding \"web\": pod web is already assigned to node \"node-1\"";
        assert_eq!(again.to_string(), text);

        let mut held = pod("held", "");
        held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
        user.create(held).await.unwrap();
        user.delete::<Pod>(&key("held"), DeleteOptions::default()).await.unwrap();
        let terminating = user.bind(&key("held"), None, "node-1").await.unwrap_err();
        assert!(terminating.is_conflict() && terminating.to_string().ends_with("pod held is being deleted, cannot be assigned to a host"));

        user.create(pod("other", "")).await.unwrap();
        assert!(user.bind(&key("other"), web.metadata.uid.clone(), "node-1").await.unwrap_err().is_conflict(), "another UID");
        assert!(user.bind(&key("nobody"), None, "node-1").await.unwrap_err().is_not_found());
    });
}

#[test]
fn pods_are_spread_over_the_nodes_that_fit() {
    Testbed::run(1, async |bed| {
        let user = bed.client("user");
        for name in ["node-0", "node-1", "node-2"] {
            user.create(node(name)).await.unwrap();
        }
        scheduler::install(&bed.cluster, bed.seed);
        for number in 0..9 {
            user.create(pod(&format!("web-{number}"), "")).await.unwrap();
        }
        bed.wait(5 * SECOND).await;
        let mut loads: BTreeMap<String, u32> = BTreeMap::new();
        assigned(&bed).into_values().for_each(|node| *loads.entry(node).or_default() += 1);
        assert_eq!(loads.into_values().collect::<Vec<_>>(), [3, 3, 3]);

        user.create(unassigned("here", json!({"spec": {"nodeSelector": {"host": "node-1"}}}))).await.unwrap();
        user.create(unassigned("nowhere", json!({"spec": {"nodeSelector": {"host": "node-9"}}}))).await.unwrap();
        user.create(pod("by-hand", "node-7")).await.unwrap();
        bed.wait(5 * SECOND).await;
        let places = assigned(&bed);
        assert_eq!((places["here"].as_str(), places["by-hand"].as_str(), places.get("nowhere")), ("node-1", "node-7", None));
        user.create(node("node-9")).await.unwrap();
        bed.wait(5 * SECOND).await;
        assert_eq!(assigned(&bed)["nowhere"], "node-9", "it waited for its node");
    });
}

#[test]
fn a_scheduler_that_stood_still_binds_what_is_left_and_nothing_twice() {
    Stage::run(1, async |stage| {
        stage.user.create(node("node-0")).await.unwrap();
        scheduler::install(&stage.bed.cluster, stage.bed.seed);
        stage.bed.wait(SECOND).await;
        stage.strike(20 * SECOND, FaultKind::Pause(Pause { process: Target::from_text(scheduler::NAME) }));
        for name in ["a", "b", "c"] {
            stage.user.create(pod(name, "")).await.unwrap();
        }
        stage.delete("b", grace(0)).await;
        let second = stage.user.create(pod("b", "")).await.unwrap();
        stage.user.bind(&key("c"), None, "node-5").await.unwrap();
        stage.until("both run", 40, || stage.phase("a") == "Running" && stage.phase("b") == "Running").await;
        assert_eq!(stage.stored("b").unwrap().metadata.uid, second.metadata.uid);
        assert_eq!(assigned(&stage.bed)["c"], "node-5");
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0", "ADD eth0 #1"]);
    });
}

#[test]
fn an_answer_that_is_lost_binds_a_pod_all_the_same() {
    use kube_sim::cluster::server::Failure;
    use kube_sim::fault::LostReply;
    use sim_config::Probability;
    use sim_config::time::Span;
    Stage::run(1, async |stage| {
        stage.user.create(node("node-0")).await.unwrap();
        scheduler::install(&stage.bed.cluster, stage.bed.seed);
        stage.bed.wait(SECOND).await;
        stage.strike(
            10 * SECOND,
            FaultKind::LostReply(LostReply {
                server: Target::from_text("apiserver-*"),
                client: Target::from_text(scheduler::NAME),
                chance: Probability::ALWAYS,
                error: Failure::Reset,
                after: Span::millis(100),
            }),
        );
        stage.user.create(pod("web", "")).await.unwrap();
        stage.until("it runs", 10, || stage.phase("web") == "Running").await;
        stage.bed.wait(60 * SECOND).await;
        assert_eq!(stage.plugin.story(), ["ADD eth0 #0"]);
    });
}
