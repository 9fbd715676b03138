//! StatefulSets (K §7.1, K141).

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::ClientExt;
use kube_machinery::api::{DeleteOptions, Propagation};
use kube_sim::actor::controller_manager::Controller;
use serde_json::json;

use super::support::{Cluster, Fate, What, run, template, workload};

const ONLY: &[Controller] = &[Controller::StatefulSet];

fn set(replicas: u32, spec: serde_json::Value) -> StatefulSet {
    workload(replicas, spec)
}

fn of(what: What, name: &str) -> (What, String) {
    (what, name.to_owned())
}

async fn images(cluster: &Cluster) -> Vec<String> {
    cluster.pods().await.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()).collect()
}

#[test]
fn k141_ordered_ready_creates_in_order_and_waits_for_each() {
    for seed in 0..5 {
        run(seed, ONLY, async |cluster| {
            cluster.create(set(3, json!({}))).await;
            cluster.wait(20).await;
            use What::{Created, Ready};
            let story: Vec<_> = ["web-0", "web-1", "web-2"].iter().flat_map(|name| [of(Created, name), of(Ready, name)]).collect();
            assert_eq!(cluster.story("web"), story, "seed {seed}");
        });
    }
}

#[test]
fn k141_a_replacement_appears_only_after_the_old_object_was_gone_and_has_another_uid() {
    for seed in 0..5 {
        run(seed, ONLY, async |cluster| {
            cluster.create(set(2, json!({"podManagementPolicy": "Parallel"}))).await;
            cluster.wait(10).await;
            cluster.delete::<Pod>("web-0").await;
            cluster.wait(10).await;
            use What::{Created, Gone, Ready, Terminating};
            let seen = cluster.seen("web-0");
            let story: Vec<What> = seen.iter().map(|seen| seen.what).collect();
            assert_eq!(story, [Created, Ready, Terminating, Gone, Created, Ready], "seed {seed}");
            assert_ne!(seen[0].uid, seen[5].uid);
            assert_eq!(cluster.ready().await, ["web-0", "web-1"]);
        });
    }
}

#[test]
fn a_pod_that_is_not_ready_holds_up_those_after_it() {
    run(1, ONLY, async |cluster| {
        cluster.fate("web-1", Fate::Unready);
        cluster.create(set(3, json!({}))).await;
        cluster.wait(60).await;
        assert_eq!(cluster.names().await, ["web-0", "web-1"]);
    });
}

#[test]
fn parallel_creates_all_at_once_and_ordinals_may_start_anywhere() {
    run(1, ONLY, async |cluster| {
        cluster.fate("web-5", Fate::Stuck);
        cluster.create(set(3, json!({"podManagementPolicy": "Parallel", "ordinals": {"start": 5}}))).await;
        cluster.wait(10).await;
        assert_eq!(cluster.names().await, ["web-5", "web-6", "web-7"]);
        assert_eq!(cluster.ready().await, ["web-6", "web-7"]);
    });
}

#[test]
fn a_pod_says_who_and_of_what_it_is() {
    run(1, ONLY, async |cluster| {
        let set = cluster.create(set(1, json!({"serviceName": "svc"}))).await;
        cluster.wait(10).await;
        let pod = cluster.get::<Pod>("web-0").await;
        let labels = pod.metadata.labels.as_ref().unwrap();
        assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-0");
        assert_eq!(labels["apps.kubernetes.io/pod-index"], "0");
        assert_eq!(labels["app"], "web");
        assert!(labels["controller-revision-hash"].starts_with("web-"));
        assert!(pod.metadata.annotations.as_ref().unwrap().contains_key("ipam.spidernet.io/ippool"));
        let owner = &pod.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            (owner.kind.as_str(), owner.api_version.as_str(), Some(&owner.uid)),
            ("StatefulSet", "apps/v1", set.metadata.uid.as_ref())
        );
        assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("web-0"), Some("svc")));
    });
}

#[test]
fn pods_that_failed_or_succeeded_are_replaced_under_their_names() {
    run(1, ONLY, async |cluster| {
        cluster.fate("web-0", Fate::Fails);
        cluster.fate("web-1", Fate::Succeeds);
        cluster.create(set(2, json!({"podManagementPolicy": "Parallel"}))).await;
        cluster.wait(6).await;
        cluster.fate("web-0", Fate::Ready);
        cluster.fate("web-1", Fate::Ready);
        cluster.wait(20).await;
        assert_eq!(cluster.ready().await, ["web-0", "web-1"]);
        for name in ["web-0", "web-1"] {
            assert_eq!(cluster.story(name).iter().filter(|(what, _)| *what == What::Created).count(), 2, "{name}");
        }
    });
}

#[test]
fn scaling_down_goes_from_the_highest_and_one_at_a_time() {
    run(1, ONLY, async |cluster| {
        cluster.create(set(4, json!({}))).await;
        cluster.wait(30).await;
        let before = cluster.seen("web").len();
        cluster.patch::<StatefulSet>("web", json!({"spec": {"replicas": 1}})).await;
        cluster.wait(30).await;
        use What::{Gone, Terminating};
        let story: Vec<_> = ["web-3", "web-2", "web-1"].iter().flat_map(|name| [of(Terminating, name), of(Gone, name)]).collect();
        assert_eq!(cluster.story("web")[before..], story);
        let status = cluster.get::<StatefulSet>("web").await.status.clone().unwrap();
        assert_eq!((status.replicas, status.ready_replicas, status.current_replicas), (1, Some(1), Some(1)));
    });
}

#[test]
fn a_roll_out_goes_from_the_highest_and_waits_for_each() {
    run(1, ONLY, async |cluster| {
        cluster.create(set(3, json!({}))).await;
        cluster.wait(30).await;
        let before = cluster.seen("web").len();
        cluster.patch::<StatefulSet>("web", json!({"spec": {"template": template("web:2")}})).await;
        cluster.wait(60).await;
        use What::{Created, Gone, Ready, Terminating};
        let each = |name: &&str| [Terminating, Gone, Created, Ready].map(|what| of(what, name));
        let story: Vec<_> = ["web-2", "web-1", "web-0"].iter().flat_map(each).collect();
        assert_eq!(cluster.story("web")[before..], story);
        assert_eq!(images(&cluster).await, ["web:2"; 3]);
        let status = cluster.get::<StatefulSet>("web").await.status.clone().unwrap();
        assert_eq!(status.current_revision, status.update_revision);
        assert_eq!((status.updated_replicas, status.ready_replicas), (Some(3), Some(3)));
    });
}

#[test]
fn pods_below_the_partition_keep_the_old_template_even_when_they_are_replaced() {
    run(1, ONLY, async |cluster| {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
        cluster.create(set(3, json!({"updateStrategy": strategy}))).await;
        cluster.wait(30).await;
        cluster.patch::<StatefulSet>("web", json!({"spec": {"template": template("web:2")}})).await;
        cluster.wait(30).await;
        assert_eq!(images(&cluster).await, ["web:1", "web:1", "web:2"]);
        cluster.bed.cluster.crash(cluster.manager);
        cluster.delete::<Pod>("web-1").await;
        cluster.bed.cluster.start(cluster.manager);
        cluster.wait(30).await;
        assert_eq!(cluster.ready().await.len(), 3);
        assert_eq!(images(&cluster).await, ["web:1", "web:1", "web:2"]);
    });
}

#[test]
fn outdated_pods_stay_on_delete_until_somebody_deletes_them() {
    run(1, ONLY, async |cluster| {
        cluster.create(set(3, json!({"updateStrategy": {"type": "OnDelete"}}))).await;
        cluster.wait(30).await;
        cluster.patch::<StatefulSet>("web", json!({"spec": {"template": template("web:2")}})).await;
        cluster.wait(30).await;
        assert_eq!(images(&cluster).await, ["web:1"; 3]);
        cluster.delete::<Pod>("web-1").await;
        cluster.wait(30).await;
        assert_eq!(images(&cluster).await, ["web:1", "web:2", "web:1"]);
    });
}

#[test]
fn ordinals_that_move_replace_the_lowest_pods_by_higher_ones() {
    run(1, ONLY, async |cluster| {
        cluster.create(set(3, json!({}))).await;
        cluster.wait(30).await;
        let before = cluster.pods().await;
        cluster.patch::<StatefulSet>("web", json!({"spec": {"ordinals": {"start": 2}}})).await;
        cluster.wait(60).await;
        assert_eq!(cluster.ready().await, ["web-2", "web-3", "web-4"]);
        assert_eq!(cluster.pods().await[0].metadata.uid, before[2].metadata.uid, "web-2 is the one that it was");
    });
}

/// The names of all pods, their UIDs, and those of their owners.
async fn owners(cluster: &Cluster) -> Vec<[Option<String>; 3]> {
    let owner = |pod: &Pod| pod.metadata.owner_references.iter().flatten().next().map(|owner| owner.uid.clone());
    cluster.pods().await.iter().map(|pod| [pod.metadata.name.clone(), pod.metadata.uid.clone(), owner(pod)]).collect()
}

/// Deletes the StatefulSet `web`, and keeps its pods.
async fn orphan(cluster: &Cluster) {
    let options = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
    cluster.client.delete::<StatefulSet>(&kube_sim::testbed::key("web"), options).await.unwrap();
    cluster.wait(10).await;
}

#[test]
fn k154_pods_that_nobody_controls_become_those_of_the_next_set_that_selects_them() {
    for seed in 0..5 {
        run(seed, ONLY, async |cluster| {
            cluster.create(set(3, json!({}))).await;
            cluster.wait(30).await;
            let before = owners(&cluster).await;
            orphan(&cluster).await;
            let left: Vec<_> = before.iter().map(|[name, uid, _]| [name.clone(), uid.clone(), None]).collect();
            assert_eq!(owners(&cluster).await, left, "seed {seed}");
            let next = cluster.create(set(2, json!({}))).await;
            cluster.wait(20).await;
            // The third pod is adopted, too, and then deleted because it is one too many.
            let adopted: Vec<_> = before[..2].iter().map(|[name, uid, _]| [name.clone(), uid.clone(), next.metadata.uid.clone()]).collect();
            assert_eq!(owners(&cluster).await, adopted, "seed {seed}");
            let status = cluster.get::<StatefulSet>("web").await.status.clone().unwrap();
            assert_eq!((status.replicas, status.updated_replicas), (2, Some(2)), "the template is the one that they have");
        });
    }
}

#[test]
fn k154_a_pod_that_comes_to_be_nobodys_is_adopted_by_a_set_that_is_there_already() {
    run(1, ONLY, async |cluster| {
        let set = cluster.create(set(2, json!({}))).await;
        cluster.wait(30).await;
        let before = owners(&cluster).await;
        cluster.patch::<Pod>("web-1", json!({"metadata": {"ownerReferences": null}})).await;
        cluster.wait(5).await;
        assert_eq!(owners(&cluster).await, before, "of {:?}", set.metadata.uid);
        cluster.patch::<Pod>("web-1", json!({"metadata": {"ownerReferences": null, "labels": {"app": "other"}}})).await;
        cluster.wait(5).await;
        assert_eq!(owners(&cluster).await[1][2], None);
        cluster.patch::<Pod>("web-1", json!({"metadata": {"labels": {"app": "web"}}})).await;
        cluster.wait(5).await;
        assert_eq!(owners(&cluster).await, before);
    });
}

#[test]
fn k154_a_pod_that_ends_or_has_other_labels_is_not_adopted() {
    run(1, ONLY, async |cluster| {
        cluster.create(set(2, json!({}))).await;
        cluster.wait(30).await;
        orphan(&cluster).await;
        cluster.patch::<Pod>("web-0", json!({"metadata": {"labels": {"app": "other"}}})).await;
        cluster.fate("web-1", Fate::Lingers);
        cluster.delete::<Pod>("web-1").await;
        cluster.wait(5).await;
        cluster.create(set(2, json!({"podManagementPolicy": "Parallel"}))).await;
        cluster.wait(30).await;
        assert!(owners(&cluster).await.iter().all(|[_, _, owner]| owner.is_none()), "their names are taken");
    });
}

#[test]
fn a_manager_that_crashes_in_a_roll_out_and_in_scaling_goes_on() {
    for seed in 0..5 {
        run(seed, ONLY, async |cluster| {
            cluster.create(set(4, json!({}))).await;
            for crash in 0..12u32 {
                cluster.bed.wait(super::support::SECOND * 3 + std::time::Duration::from_millis(u64::from(crash) * 137)).await;
                cluster.bed.cluster.crash(cluster.manager);
                match crash {
                    4 => drop(cluster.patch::<StatefulSet>("web", json!({"spec": {"template": template("web:2")}})).await),
                    8 => drop(cluster.patch::<StatefulSet>("web", json!({"spec": {"replicas": 2}})).await),
                    _ => {}
                }
                cluster.bed.wait(super::support::SECOND).await;
                cluster.bed.cluster.start(cluster.manager);
            }
            cluster.wait(60).await;
            assert_eq!(cluster.ready().await, ["web-0", "web-1"], "seed {seed}");
            assert_eq!(images(&cluster).await, ["web:2"; 2], "seed {seed}");
        });
    }
}
