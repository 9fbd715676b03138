//! The garbage collector (K105, K106, K156) with Pods and the workloads that own them.

use futures_util::future::join_all;
use ipam_byom::{FINALIZER, PeerPod};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_machinery::api::{DeleteOptions, ListOptions, Patch, Propagation};
use kube_machinery::{ClientExt, Object};
use kube_sim::actor::garbage_collector;
use kube_sim::actor::garbage_collector::Collected;
use kube_sim::fault::{ApiServerFreeze, FaultKind, Partition};
use kube_sim::kinds::Stored;
use kube_sim::rt::ProcessId;
use kube_sim::testbed::{Testbed, from_json, grace, key, pod};
use serde_json::json;

use super::{SECOND, fault, schedule, target};

/// Starts the collector and gives it time for its first pass.
async fn install(bed: &Testbed) -> ProcessId {
    let types = [
        Collected::of::<Pod>(),
        Collected::of::<PeerPod>(),
        Collected::of::<StatefulSet>(),
        Collected::of::<ReplicaSet>(),
        Collected::of::<Deployment>(),
    ];
    let process = garbage_collector::install(&bed.cluster, bed.seed, types);
    bed.wait(5 * SECOND).await;
    process
}

/// An object of a workload type, in the given namespace.
fn workload<K: Object>(namespace: &str, name: &str) -> K {
    let spec = json!({"selector": {}, "serviceName": "", "template": {}});
    from_json(json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec}))
}

/// `object` with these owners.
fn owned<K: Object>(mut object: K, owners: &[OwnerReference]) -> K {
    object.meta_mut().owner_references = Some(owners.to_vec());
    object
}

fn reference<K: Stored>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap(),
        uid: owner.meta().uid.clone().unwrap(),
        ..OwnerReference::default()
    }
}

/// The names of all Pods.
async fn pods(client: &impl ClientExt) -> Vec<String> {
    let list = client.list::<Pod>(None, ListOptions::default()).await.unwrap();
    list.items.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
}

#[test]
fn k106_pods_go_when_their_stateful_set_is_deleted() {
    for seed in 0..10 {
        Testbed::run(seed, async |bed| {
            let client = bed.client("user");
            install(&bed).await;
            let web = client.create(workload::<StatefulSet>("default", "web")).await.unwrap();
            let db = client.create(workload::<StatefulSet>("default", "db")).await.unwrap();
            for (name, set) in [("web-0", &web), ("web-1", &web), ("db-0", &db)] {
                client.create(owned(pod(name, ""), &[reference(&**set)])).await.unwrap();
            }
            client.create(pod("alone", "")).await.unwrap();
            bed.wait(60 * SECOND).await;
            assert_eq!(pods(&client).await, ["alone", "db-0", "web-0", "web-1"]);
            client.delete::<StatefulSet>(&key("web"), DeleteOptions::default()).await.unwrap();
            bed.wait(10 * SECOND).await;
            assert_eq!(pods(&client).await, ["alone", "db-0"], "seed {seed}");
        });
    }
}

#[test]
fn a_pod_on_a_node_is_left_to_its_kubelet() {
    Testbed::run(1, async |bed| {
        let client = bed.client("user");
        install(&bed).await;
        let web = client.create(workload::<StatefulSet>("default", "web")).await.unwrap();
        client.create(owned(pod("web-0", "n1"), &[reference(&*web)])).await.unwrap();
        client.delete::<StatefulSet>(&key("web"), DeleteOptions::default()).await.unwrap();
        bed.wait(10 * SECOND).await;
        let pod = client.get::<Pod>(&key("web-0")).await.unwrap();
        assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(30));
    });
}

#[test]
fn k106_a_successor_of_the_same_name_does_not_keep_the_pods_of_its_predecessor() {
    Testbed::run(1, async |bed| {
        let client = bed.client("user");
        install(&bed).await;
        let first = client.create(workload::<StatefulSet>("default", "web")).await.unwrap();
        client.create(owned(pod("web-0", ""), &[reference(&*first)])).await.unwrap();
        client.delete::<StatefulSet>(&key("web"), DeleteOptions::default()).await.unwrap();
        let second = client.create(workload::<StatefulSet>("default", "web")).await.unwrap();
        client.create(owned(pod("web-1", ""), &[reference(&*second)])).await.unwrap();
        // Too late for one of them, which is garbage from the start.
        client.create(owned(pod("web-2", ""), &[reference(&*first)])).await.unwrap();
        bed.wait(10 * SECOND).await;
        assert_eq!(pods(&client).await, ["web-1"]);
    });
}

#[test]
fn k156_a_pod_that_got_another_owner_in_time_stays() {
    let mut adopted = 0;
    for seed in 0..100 {
        Testbed::run(seed, async |bed| {
            let client = bed.client("user");
            install(&bed).await;
            let first = client.create(workload::<StatefulSet>("default", "first")).await.unwrap();
            let second = client.create(workload::<StatefulSet>("default", "second")).await.unwrap();
            client.create(owned(pod("web-0", ""), &[reference(&*first)])).await.unwrap();
            client.delete::<StatefulSet>(&key("first"), DeleteOptions::default()).await.unwrap();
            // The collector is notified of the deletion, reads the pod and deletes it within some milliseconds.
            bed.wait(SECOND / 8_000 * u32::try_from(seed).unwrap()).await;
            let owners = json!({"metadata": {"ownerReferences": [reference(&*second)]}});
            if client.patch::<Pod>(&key("web-0"), Patch::merge(owners)).await.is_ok() {
                adopted += 1;
                bed.wait(10 * SECOND).await;
                assert_eq!(pods(&client).await, ["web-0"], "seed {seed}");
            }
        });
    }
    assert!((20..80).contains(&adopted), "{adopted} of 100 pods were adopted in time");
}

#[test]
fn k156_changes_of_other_fields_do_not_keep_garbage() {
    Testbed::run(1, async |bed| {
        let client = bed.client("user");
        install(&bed).await;
        let web = client.create(workload::<StatefulSet>("default", "web")).await.unwrap();
        client.create(owned(pod("web-0", ""), &[reference(&*web)])).await.unwrap();
        client.delete::<StatefulSet>(&key("web"), DeleteOptions::default()).await.unwrap();
        // Enough writers that hardly a millisecond passes without a new version.
        let writers = (0..16).map(async |writer| {
            let (client, mut changes) = (bed.client(&format!("writer-{writer}")), 0);
            while client
                .patch::<Pod>(&key("web-0"), Patch::merge(json!({"metadata": {"labels": {"n": format!("{writer}-{changes}")}}})))
                .await
                .is_ok()
            {
                changes += 1;
                assert!(changes < 40, "the pod outlives its set");
            }
        });
        join_all(writers).await;
    });
}

#[test]
fn an_object_goes_with_its_last_owner_only() {
    Testbed::run(1, async |bed| {
        let client = bed.client("user");
        install(&bed).await;
        let a = client.create(workload::<StatefulSet>("default", "a")).await.unwrap();
        let b = client.create(workload::<ReplicaSet>("default", "b")).await.unwrap();
        client.create(owned(pod("shared", ""), &[reference(&*a), reference(&*b)])).await.unwrap();
        client.delete::<StatefulSet>(&key("a"), DeleteOptions::default()).await.unwrap();
        bed.wait(10 * SECOND).await;
        let left = client.get::<Pod>(&key("shared")).await.unwrap();
        assert_eq!(left.metadata.owner_references, Some(vec![reference(&*b)]));
        client.delete::<ReplicaSet>(&key("b"), DeleteOptions::default()).await.unwrap();
        bed.wait(10 * SECOND).await;
        assert_eq!(pods(&client).await, [""; 0]);
    });
}

#[test]
fn deletion_goes_down_the_generations_and_not_across_namespaces() {
    Testbed::run(1, async |bed| {
        let client = bed.client("user");
        install(&bed).await;
        let deployment = client.create(workload::<Deployment>("default", "web")).await.unwrap();
        let set = owned(workload::<ReplicaSet>("default", "web-1"), &[reference(&*deployment)]);
        let set = client.create(set).await.unwrap();
        client.create(owned(pod("web-1-x", ""), &[reference(&*set)])).await.unwrap();
        let elsewhere = client.create(workload::<StatefulSet>("other", "web")).await.unwrap();
        client.create(owned(pod("stray", ""), &[reference(&*elsewhere)])).await.unwrap();
        bed.wait(10 * SECOND).await;
        assert_eq!(pods(&client).await, ["web-1-x"], "an owner in another namespace counts as absent");
        client.delete::<Deployment>(&key("web"), DeleteOptions::default()).await.unwrap();
        bed.wait(10 * SECOND).await;
        assert_eq!(pods(&client).await, [""; 0]);
        client.get::<ReplicaSet>(&key("web-1")).await.unwrap_err();
    });
}

/// A reference whose owner waits for the dependent in a foreground deletion.
fn awaited<K: Stored>(owner: &K) -> OwnerReference {
    OwnerReference { block_owner_deletion: Some(true), controller: Some(true), ..reference(owner) }
}

fn propagating(policy: Propagation) -> DeleteOptions {
    DeleteOptions { propagation: Some(policy), ..DeleteOptions::default() }
}

#[test]
fn k105_orphans_stay_and_belong_to_nobody() {
    for seed in 0..10 {
        Testbed::run(seed, async |bed| {
            let client = bed.client("user");
            install(&bed).await;
            let web = client.create(workload::<StatefulSet>("default", "web")).await.unwrap();
            for name in ["web-0", "web-1"] {
                client.create(owned(pod(name, ""), &[awaited(&*web)])).await.unwrap();
            }
            bed.wait(10 * SECOND).await;
            let left = client.delete::<StatefulSet>(&key("web"), propagating(Propagation::Orphan)).await.unwrap().unwrap();
            assert_eq!(left.metadata.finalizers.as_deref(), Some(["orphan".to_owned()].as_slice()));
            bed.wait(10 * SECOND).await;
            assert!(client.get::<StatefulSet>(&key("web")).await.unwrap_err().is_not_found());
            // A successor of the same name has nothing to do with them either.
            client.create(workload::<StatefulSet>("default", "web")).await.unwrap();
            bed.wait(60 * SECOND).await;
            assert_eq!(pods(&client).await, ["web-0", "web-1"], "seed {seed}");
            assert_eq!(client.get::<Pod>(&key("web-0")).await.unwrap().metadata.owner_references, None);
        });
    }
}

#[test]
fn k105_what_goes_in_the_foreground_waits_for_those_that_block_it() {
    for seed in 0..10 {
        Testbed::run(seed, async |bed| {
            let client = bed.client("user");
            install(&bed).await;
            let web = client.create(workload::<Deployment>("default", "web")).await.unwrap();
            let set = client.create(owned(workload::<ReplicaSet>("default", "web-1"), &[awaited(&*web)])).await.unwrap();
            // This pod is never terminated: there is no kubelet.
            client.create(owned(pod("stays", "n1"), &[awaited(&*set)])).await.unwrap();
            client.create(owned(pod("goes", ""), &[awaited(&*set)])).await.unwrap();
            bed.wait(10 * SECOND).await;
            client.delete::<Deployment>(&key("web"), propagating(Propagation::Foreground)).await.unwrap().unwrap();
            bed.wait(60 * SECOND).await;
            assert_eq!(pods(&client).await, ["stays"], "seed {seed}");
            let waiting = ["foregroundDeletion".to_owned()];
            let web = client.get::<Deployment>(&key("web")).await.unwrap();
            let set = client.get::<ReplicaSet>(&key("web-1")).await.unwrap();
            assert_eq!(web.metadata.finalizers.as_deref(), Some(waiting.as_slice()));
            assert_eq!(set.metadata.finalizers.as_deref(), Some(waiting.as_slice()));
            client.delete::<Pod>(&key("stays"), grace(0)).await.unwrap();
            bed.wait(10 * SECOND).await;
            assert!(client.get::<ReplicaSet>(&key("web-1")).await.unwrap_err().is_not_found());
            assert!(client.get::<Deployment>(&key("web")).await.unwrap_err().is_not_found());
        });
    }
}

#[test]
fn k105_who_does_not_block_is_deleted_but_not_waited_for() {
    Testbed::run(1, async |bed| {
        let client = bed.client("user");
        install(&bed).await;
        let web = client.create(workload::<StatefulSet>("default", "web")).await.unwrap();
        client.create(owned(pod("web-0", "n1"), &[reference(&*web)])).await.unwrap();
        bed.wait(10 * SECOND).await;
        client.delete::<StatefulSet>(&key("web"), propagating(Propagation::Foreground)).await.unwrap().unwrap();
        bed.wait(10 * SECOND).await;
        assert!(client.get::<StatefulSet>(&key("web")).await.unwrap_err().is_not_found());
        assert!(client.get::<Pod>(&key("web-0")).await.unwrap().metadata.deletion_timestamp.is_some());
    });
}

#[test]
fn what_happens_while_the_collector_is_down_is_made_up_for() {
    Testbed::run(1, async |bed| {
        let client = bed.client("user");
        let collector = install(&bed).await;
        let web = client.create(workload::<StatefulSet>("default", "web")).await.unwrap();
        client.create(owned(pod("web-0", ""), &[reference(&*web)])).await.unwrap();
        bed.wait(10 * SECOND).await;
        bed.cluster.crash(collector);
        client.delete::<StatefulSet>(&key("web"), DeleteOptions::default()).await.unwrap();
        bed.wait(60 * SECOND).await;
        assert_eq!(pods(&client).await, ["web-0"]);
        bed.cluster.start(collector);
        bed.wait(10 * SECOND).await;
        assert_eq!(pods(&client).await, [""; 0]);
    });
}

#[test]
fn a_collector_that_has_not_heard_of_an_owner_deletes_nothing_before_it_is_gone() {
    Testbed::run(1, async |bed| {
        let client = bed.client("user");
        install(&bed).await;
        let freeze = ApiServerFreeze { server: target("*"), resource: "statefulsets".into() };
        schedule(&bed, &[fault(&bed, 0, 3_000 * SECOND, FaultKind::ApiServerFreeze(freeze))]);
        bed.wait(SECOND).await;
        let web = client.create(workload::<StatefulSet>("default", "web")).await.unwrap();
        client.create(owned(pod("web-0", ""), &[reference(&*web)])).await.unwrap();
        bed.wait(300 * SECOND).await;
        assert_eq!(pods(&client).await, ["web-0"]);
        client.delete::<StatefulSet>(&key("web"), DeleteOptions::default()).await.unwrap();
        bed.wait(600 * SECOND).await;
        assert_eq!(pods(&client).await, [""; 0], "it has gone on to look");
    });
}

#[test]
fn a_collector_that_is_cut_off_goes_on_when_it_can() {
    Testbed::run(1, async |bed| {
        let client = bed.client("user");
        install(&bed).await;
        let web = client.create(workload::<StatefulSet>("default", "web")).await.unwrap();
        client.create(owned(pod("web-0", ""), &[reference(&*web)])).await.unwrap();
        bed.wait(10 * SECOND).await;
        let partition = Partition { from: target(garbage_collector::NAME), to: target("*") };
        schedule(&bed, &[fault(&bed, 0, 120 * SECOND, FaultKind::Partition(partition))]);
        bed.wait(SECOND).await;
        client.delete::<StatefulSet>(&key("web"), DeleteOptions::default()).await.unwrap();
        bed.wait(100 * SECOND).await;
        assert_eq!(pods(&client).await, ["web-0"]);
        bed.wait(200 * SECOND).await;
        assert_eq!(pods(&client).await, [""; 0]);
    });
}

#[test]
fn a_peer_pod_outlives_its_pod_until_its_finalizer_goes() {
    Testbed::run(1, async |bed| {
        let client = bed.client("user");
        install(&bed).await;
        let web = client.create(pod("web", "")).await.unwrap();
        let meta = json!({"name": "web-resource-x", "namespace": "default", "finalizers": [FINALIZER]});
        let peer_pod = from_json::<PeerPod>(json!({"metadata": meta, "spec": {"cloudProvider": "byom", "instanceID": "10.0.0.1"}}));
        client.create(owned(peer_pod, &[reference(&*web)])).await.unwrap();
        bed.wait(10 * SECOND).await;
        assert!(!client.get::<PeerPod>(&key("web-resource-x")).await.unwrap().is_terminating());
        client.delete::<Pod>(&key("web"), DeleteOptions::default()).await.unwrap();
        bed.wait(10 * SECOND).await;
        assert!(client.get::<PeerPod>(&key("web-resource-x")).await.unwrap().is_terminating());
        client.patch::<PeerPod>(&key("web-resource-x"), Patch::merge(json!({"metadata": {"finalizers": null}}))).await.unwrap();
        client.get::<PeerPod>(&key("web-resource-x")).await.unwrap_err();
    });
}
