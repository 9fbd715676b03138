//! ReplicaSets and Deployments (K §7.2, K142).

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::ClientExt;
use kube_machinery::api::ListOptions;
use kube_sim::actor::controller_manager::Controller;
use serde_json::json;

use super::support::{Cluster, Fate, SECOND, Seen, What, is_ready, run, template, workload};

const ONLY: &[Controller] = &[Controller::ReplicaSet];
const BOTH: &[Controller] = &[Controller::ReplicaSet, Controller::Deployment];

/// The maximum number of pods that existed at one moment, and the minimum number of ready pods that were not terminating, from the moment
/// at which all first were ready.
fn extremes(seen: &[Seen], all: usize) -> (usize, usize) {
    let (mut there, mut ready) = (BTreeSet::new(), BTreeSet::new());
    let (mut most, mut fewest) = (0, usize::MAX);
    for event in seen {
        match event.what {
            What::Created => drop(there.insert(&event.pod)),
            What::Ready => drop(ready.insert(&event.pod)),
            What::Terminating => {
                ready.remove(&event.pod);
                // It no longer counts as a replica (K142).
                there.remove(&event.pod);
            }
            What::Gone => {
                there.remove(&event.pod);
                ready.remove(&event.pod);
            }
        }
        most = most.max(there.len());
        if ready.len() >= all || fewest != usize::MAX {
            fewest = fewest.min(ready.len());
        }
    }
    (most, fewest)
}

async fn sets(cluster: &Cluster) -> Vec<(i32, String)> {
    let list = cluster.client.list::<ReplicaSet>(None, ListOptions::default()).await.unwrap();
    let image = |set: &ReplicaSet| set.spec.template.as_ref().unwrap().spec.as_ref().unwrap().containers[0].image.clone().unwrap();
    let mut sets: Vec<_> = list.items.iter().map(|set| (set.spec.replicas.unwrap(), image(set))).collect();
    sets.sort();
    sets
}

#[test]
fn k142_the_replacement_is_created_while_the_old_pod_is_still_terminating() {
    for seed in 0..5 {
        run(seed, ONLY, async |cluster| {
            cluster.create(workload::<ReplicaSet>(2, json!({}))).await;
            cluster.wait(10).await;
            let victim = cluster.names().await[0].clone();
            cluster.fate(&victim, Fate::Lingers);
            cluster.delete::<Pod>(&victim).await;
            cluster.wait(10).await;
            assert_eq!(cluster.pods().await.len(), 3, "seed {seed}");
            assert_eq!(cluster.ready().await.len(), 2, "seed {seed}");
            let seen = cluster.seen("web-");
            let terminating = seen.iter().position(|event| event.what == What::Terminating).unwrap();
            let next = seen[terminating..].iter().find(|event| event.what == What::Created).unwrap();
            assert!(next.at - seen[terminating].at < SECOND, "at once, not after the grace period");
            assert!(!seen[..terminating].iter().any(|event| event.pod == next.pod), "names are not used again");
        });
    }
}

#[test]
fn a_pod_that_ended_is_no_replica_and_stays_as_it_is() {
    run(1, ONLY, async |cluster| {
        cluster.fate("web", Fate::Fails);
        cluster.create(workload::<ReplicaSet>(1, json!({}))).await;
        cluster.wait(6).await;
        cluster.fate("web", Fate::Ready);
        cluster.wait(10).await;
        assert_eq!((cluster.pods().await.len(), cluster.ready().await.len()), (2, 1));
    });
}

#[test]
fn no_pod_is_made_twice_however_late_the_informer_is() {
    for seed in 0..5 {
        run(seed, ONLY, async |cluster| {
            for server in 0..2 {
                cluster.bed.cluster.set_extra_lag(server, Some(cluster.bed.kind::<Pod>()), SECOND * 3);
            }
            cluster.create(workload::<ReplicaSet>(20, json!({}))).await;
            cluster.wait(60).await;
            let created = cluster.seen("web").iter().filter(|event| event.what == What::Created).count();
            assert_eq!((created, cluster.ready().await.len()), (20, 20), "seed {seed}");
        });
    }
}

#[test]
fn scaling_down_takes_pods_that_are_not_ready_first() {
    run(1, ONLY, async |cluster| {
        cluster.create(workload::<ReplicaSet>(3, json!({}))).await;
        cluster.wait(10).await;
        let old = cluster.ready().await;
        cluster.fate("web", Fate::Unready);
        cluster.patch::<ReplicaSet>("web", json!({"spec": {"replicas": 6}})).await;
        cluster.wait(10).await;
        cluster.patch::<ReplicaSet>("web", json!({"spec": {"replicas": 3}})).await;
        cluster.wait(10).await;
        assert_eq!(cluster.names().await, old);
        let status = cluster.get::<ReplicaSet>("web").await.status.clone().unwrap();
        assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (3, Some(3), Some(3)));
    });
}

#[test]
fn a_roll_out_stays_within_surge_and_unavailable_and_ends_with_the_new_template() {
    for (seed, replicas) in [(1, 1), (2, 4), (3, 10)] {
        run(seed, BOTH, async |cluster| {
            cluster.create(workload::<Deployment>(replicas, json!({}))).await;
            cluster.wait(20).await;
            assert_eq!(cluster.ready().await.len(), replicas as usize);
            cluster.patch::<Deployment>("web", json!({"spec": {"template": template("web:2")}})).await;
            cluster.wait(120).await;
            let (surge, unavailable) = (replicas.div_ceil(4), replicas / 4);
            let (most, fewest) = extremes(&cluster.seen("web"), replicas as usize);
            assert!(most <= (replicas + surge) as usize, "{most} pods");
            assert!(fewest >= (replicas - unavailable) as usize, "{fewest} ready");
            assert_eq!(sets(&cluster).await, [(0, "web:1".to_owned()), (replicas as i32, "web:2".to_owned())]);
            assert_eq!(cluster.pods().await.len(), replicas as usize);
            let status = cluster.get::<Deployment>("web").await.status.clone().unwrap();
            let count = Some(replicas as i32);
            assert_eq!((status.replicas, status.updated_replicas, status.available_replicas), (count, count, count));
            assert_eq!(status.unavailable_replicas, None);
        });
    }
}

#[test]
fn a_roll_out_to_pods_that_never_get_ready_leaves_enough_old_ones() {
    run(1, BOTH, async |cluster| {
        cluster.create(workload::<Deployment>(4, json!({}))).await;
        cluster.wait(20).await;
        cluster.fate("web", Fate::Unready);
        cluster.patch::<Deployment>("web", json!({"spec": {"template": template("web:2")}})).await;
        cluster.wait(60).await;
        let ready = cluster.pods().await.iter().filter(|pod| is_ready(pod)).count();
        assert_eq!((ready, cluster.pods().await.len()), (3, 5));
        // Back to the old template: its ReplicaSet is used again.
        cluster.fate("web", Fate::Ready);
        cluster.patch::<Deployment>("web", json!({"spec": {"template": template("web:1")}})).await;
        cluster.wait(60).await;
        assert_eq!(sets(&cluster).await, [(0, "web:2".to_owned()), (4, "web:1".to_owned())]);
        assert_eq!(cluster.ready().await.len(), 4);
    });
}

#[test]
fn recreate_makes_no_new_pod_before_the_last_old_one_is_gone() {
    run(1, BOTH, async |cluster| {
        cluster.create(workload::<Deployment>(3, json!({"strategy": {"type": "Recreate"}}))).await;
        cluster.wait(20).await;
        let before = cluster.seen("web").len();
        cluster.patch::<Deployment>("web", json!({"spec": {"template": template("web:2")}})).await;
        cluster.wait(30).await;
        let story = &cluster.seen("web")[before..];
        let last_gone = story.iter().rposition(|event| event.what == What::Gone).unwrap();
        let first_new = story.iter().position(|event| event.what == What::Created).unwrap();
        assert!(last_gone < first_new, "{story:?}");
        assert_eq!(cluster.ready().await.len(), 3);
    });
}

#[test]
fn the_hash_in_a_name_is_that_of_the_template_whatever_the_seed() {
    let name = |seed| {
        run(seed, BOTH, async |cluster| {
            cluster.create(workload::<Deployment>(1, json!({}))).await;
            cluster.wait(10).await;
            let sets = cluster.client.list::<ReplicaSet>(None, ListOptions::default()).await.unwrap().items;
            let labels = sets[0].spec.selector.match_labels.clone().unwrap();
            let name = sets[0].metadata.name.clone().unwrap();
            assert_eq!(name, format!("web-{}", labels["pod-template-hash"]));
            assert!(cluster.names().await[0].starts_with(&format!("{name}-")));
            name
        })
    };
    assert_eq!(name(1), name(2));
}

#[test]
fn pods_go_with_their_deployment() {
    run(1, BOTH, async |cluster| {
        cluster.create(workload::<Deployment>(3, json!({}))).await;
        cluster.wait(20).await;
        cluster.delete::<Deployment>("web").await;
        cluster.wait(20).await;
        assert_eq!((cluster.pods().await.len(), sets(&cluster).await.len()), (0, 0));
    });
}

#[test]
fn a_manager_that_crashes_in_a_roll_out_goes_on() {
    for seed in 0..5 {
        run(seed, BOTH, async |cluster| {
            cluster.create(workload::<Deployment>(6, json!({}))).await;
            for crash in 0..10u32 {
                cluster.bed.wait(SECOND + std::time::Duration::from_millis(u64::from(crash) * 211)).await;
                cluster.bed.cluster.crash(cluster.manager);
                if crash == 3 {
                    cluster.patch::<Deployment>("web", json!({"spec": {"template": template("web:2")}})).await;
                }
                cluster.bed.wait(SECOND / 2).await;
                cluster.bed.cluster.start(cluster.manager);
            }
            cluster.wait(120).await;
            assert_eq!((cluster.ready().await.len(), cluster.pods().await.len()), (6, 6), "seed {seed}");
            assert_eq!(sets(&cluster).await, [(0, "web:1".to_owned()), (6, "web:2".to_owned())], "seed {seed}");
        });
    }
}
