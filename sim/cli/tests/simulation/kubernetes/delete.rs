//! K §10.7: delete.

use std::collections::BTreeSet;

use ipam_spiderpool::SpiderIPPool;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_machinery::api::{DeleteOptions, Dry, Patch, Preconditions, Verb};
use kube_machinery::{ApiError, ClientExt, Object, ObjectKey};
use kube_sim::cluster::SimClient;
use kube_sim::cluster::admission::FailurePolicy;
use kube_sim::net::{Effect, Rule, Side};
use kube_sim::testbed::{Testbed, config_map, from_json, grace, key, pod};
use kube_sim::trace::WatchKind;
use serde_json::json;

use super::expect::*;

/// The wall clock of the API servers.
fn wall(bed: &Testbed) -> Timestamp {
    bed.cluster.wall(bed.cluster.server_process(0))
}

fn deadline<K: Object>(object: &K) -> Timestamp {
    object.meta().deletion_timestamp.as_ref().map(|Time(at)| *at).expect("the object is terminating")
}

fn grace_of<K: Object>(object: &K) -> Option<i64> {
    object.meta().deletion_grace_period_seconds
}

/// A pod of `client` with a status of `phase`.
async fn create_in_phase(client: &SimClient, name: &str, phase: &str) {
    let created = client.create(pod(name, "n1")).await.unwrap();
    client.update_status(in_phase(&created, phase)).await.unwrap();
}

#[test]
fn k093_a_delete_of_a_missing_object_is_404() {
    Testbed::run(1, async |bed| {
        let client = bed.client("remover");
        for options in [DeleteOptions::default(), grace(0), if_uid("x")] {
            let reply = silently::<ConfigMap, _>(&bed, client.delete::<ConfigMap>(&key("a"), options.clone())).await;
            assert_eq!(refused(reply), not_found("configmaps", "a"));
            let reply = silently::<Pod, _>(&bed, client.delete::<Pod>(&key("a"), options.clone())).await;
            assert_eq!(refused(reply), not_found("pods", "a"));
            let reply = silently::<SpiderIPPool, _>(&bed, client.delete::<SpiderIPPool>(&ObjectKey::cluster("p"), options)).await;
            assert_eq!(refused(reply), not_found(POOLS, "p"));
        }
    });
}

#[test]
fn k094_a_delete_whose_precondition_fails_is_a_silent_conflict() {
    async fn check<K: Object>(bed: &Testbed, body: K, resource: &str) {
        let client = bed.client("remover");
        let old = client.create(body).await.unwrap();
        let object_key = ObjectKey::of(&*old);
        let new = client.update(labelled(&*old, "a", "b")).await.unwrap();
        let (uid, old_rv, new_rv) = (uid(&*new), rv(&*old).to_string(), rv(&*new).to_string());
        let only = |uid: Option<&str>, version: Option<&str>| DeleteOptions {
            grace_period_seconds: Some(0),
            preconditions: Preconditions { uid: uid.map(str::to_owned), resource_version: version.map(str::to_owned) },
            ..DeleteOptions::default()
        };
        let other_uid = format!(
            "the UID in the precondition (x) does not match the UID in record ({uid}). The object might \
             have been deleted and then recreated"
        );
        let other_rv = format!(
            "the ResourceVersion in the precondition ({old_rv}) does not match the ResourceVersion in record ({new_rv}). The object might \
             have been modified"
        );
        for (options, why) in [
            (only(Some("x"), None), &other_uid),
            (only(Some("x"), Some(&new_rv)), &other_uid),
            (only(Some("x"), Some(&old_rv)), &other_uid),
            (only(None, Some(&old_rv)), &other_rv),
            (only(Some(&uid), Some(&old_rv)), &other_rv),
        ] {
            let error = silently::<K, _>(bed, client.delete::<K>(&object_key, options)).await.unwrap_err();
            assert!(error.is_conflict());
            assert_eq!(body_of(&error), conflict(resource, object_key.name(), why));
        }
        client.delete::<K>(&object_key, only(Some(&uid), Some(&new_rv))).await.unwrap();
        assert!(!exists::<K>(&client, &object_key).await);
    }
    Testbed::run(1, async |bed| {
        // This conflict names the Kind, not the resource.
        check(&bed, config_map("a", "v", "1"), "ConfigMap").await;
        check(&bed, pod("a", "n1"), "Pod").await;
        check(&bed, pool("p"), "SpiderIPPool.spiderpool.spidernet.io").await;
    });
}

#[test]
fn k095_a_delete_without_finalizers_is_one_revision_and_one_event() {
    async fn check<K: Object>(bed: &Testbed, body: K) {
        let client = bed.client("remover");
        let created = client.create(body).await.unwrap();
        let object_key = ObjectKey::of(&*created);
        let checked = DeleteOptions { dry: Dry::Run, ..DeleteOptions::default() };
        assert_eq!(silently::<K, _>(bed, delete_reply::<K>(&client, &object_key, checked)).await, Err(uid(&*created)));
        let before = bed.revision();
        // Grace has no effect on these types.
        let (reply, events) = effects::<K, _>(bed, delete_reply::<K>(&client, &object_key, grace(30))).await;
        assert_eq!(reply, Err(uid(&*created)), "the answer is a Status with the UID");
        let [(WatchKind::Deleted, gone)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((bed.revision(), rv(&**gone)), (before + 1, before + 1));
        let last = changed(&**gone, |object| object.meta_mut().resource_version.clone_from(&created.meta().resource_version));
        assert_eq!(last, *created);
        assert!(!exists::<K>(&client, &object_key).await);
    }
    Testbed::run(1, async |bed| {
        check(&bed, config_map("a", "v", "1")).await;
        check(&bed, lease("a", "x")).await;
        check(&bed, pool("p")).await;
        check(&bed, from_json::<Node>(json!({"metadata": {"name": "n1"}}))).await;
    });
}

#[test]
fn k096_a_delete_with_finalizers_only_marks_the_object() {
    async fn check<K: Object>(bed: &Testbed, body: K) {
        let client = bed.client("remover");
        let created = client.create(changed(&body, |object| object.meta_mut().finalizers = Some(vec!["example.com/f".to_owned()])));
        let created = created.await.unwrap();
        let object_key = ObjectKey::of(&*created);
        let (reply, events) = effects::<K, _>(bed, delete_reply::<K>(&client, &object_key, DeleteOptions::default())).await;
        let marked = reply.expect("the answer is the object");
        let [(WatchKind::Modified, seen)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(*seen, marked);
        assert!(deadline(&*marked) <= wall(bed) && deadline(&*marked).subsec_nanosecond() == 0);
        assert_eq!((grace_of(&*marked), rv(&*marked)), (Some(0), bed.revision()));
        assert_eq!(marked.meta().generation, created.meta().generation.map(|generation| generation + 1));
        bed.wait(secs(3_600)).await;
        assert_eq!(client.get::<K>(&object_key).await.unwrap(), marked);
        for options in [DeleteOptions::default(), grace(0), if_uid(&uid(&*created))] {
            let reply = silently::<K, _>(bed, delete_reply::<K>(&client, &object_key, options)).await;
            assert_eq!(reply, Ok(marked.clone()));
        }
    }
    Testbed::run(1, async |bed| {
        check(&bed, config_map("a", "v", "1")).await;
        check(&bed, pool("p")).await;
        check(&bed, lease("a", "x")).await;
    });
}

#[test]
fn k097_a_delete_of_a_running_pod_sets_a_deadline_that_nobody_watches() {
    Testbed::run(1, async |bed| {
        let client = bed.client("remover");
        let own = changed(&pod("own", "n1"), |pod| pod.spec.as_mut().unwrap().termination_grace_period_seconds = Some(7));
        client.create(own).await.unwrap();
        for (name, options, expected) in [
            ("running", DeleteOptions::default(), 30),
            ("own", DeleteOptions::default(), 7),
            ("asked", grace(100), 100),
            ("negative", grace(-5), 1),
        ] {
            if name != "own" {
                create_in_phase(&client, name, "Running").await;
            }
            let generation = client.get::<Pod>(&key(name)).await.unwrap().metadata.generation.unwrap();
            let before = wall(&bed);
            let (reply, events) = effects::<Pod, _>(&bed, async {
                let reply = delete_reply::<Pod>(&client, &key(name), options).await;
                (reply, wall(&bed))
            })
            .await;
            let (reply, after) = reply;
            let marked = reply.expect("the answer is the object");
            let [(WatchKind::Modified, seen)] = events.as_slice() else { panic!("{events:?}") };
            assert_eq!(*seen, marked);
            let asked_at = deadline(&*marked) - SignedDuration::from_secs(expected);
            assert!(asked_at.as_second() >= before.as_second() && asked_at <= after, "{name}: {asked_at} {before} {after}");
            assert_eq!((grace_of(&*marked), marked.metadata.generation), (Some(expected), Some(generation + 1)));
            bed.wait(secs(24 * 3_600)).await;
            assert_eq!(client.get::<Pod>(&key(name)).await.unwrap(), marked, "no timer removes a pod");
        }
    });
}

#[test]
fn k098_a_second_delete_counts_only_if_it_asks_for_less() {
    Testbed::run(1, async |bed| {
        let client = bed.client("remover");
        create_in_phase(&client, "a", "Running").await;
        let marked = delete_reply::<Pod>(&client, &key("a"), grace(100)).await.unwrap();
        bed.wait(secs(10)).await;
        for options in [DeleteOptions::default(), grace(100), grace(101), if_uid(&uid(&*marked))] {
            let reply = silently::<Pod, _>(&bed, delete_reply::<Pod>(&client, &key("a"), options)).await;
            assert_eq!(reply, Ok(marked.clone()));
        }
        // The new deadline counts from the first request.
        let (reply, events) = effects::<Pod, _>(&bed, delete_reply::<Pod>(&client, &key("a"), grace(60))).await;
        let sooner = reply.unwrap();
        assert_eq!(kinds(&events), [WatchKind::Modified]);
        assert_eq!((grace_of(&*sooner), deadline(&*sooner)), (Some(60), deadline(&*marked) - SignedDuration::from_secs(40)));
        assert_eq!(sooner.metadata.generation, marked.metadata.generation, "only the beginning of a deletion counts");
        // The deadline is not in the past: the pod has one last second.
        bed.wait(secs(30)).await;
        let before = wall(&bed);
        let last = delete_reply::<Pod>(&client, &key("a"), grace(5)).await.unwrap();
        assert!(deadline(&*last) >= before - SignedDuration::from_secs(1) && deadline(&*last) <= wall(&bed), "{before} {last:?}");
        assert_eq!(grace_of(&*last), Some(1));
        // A phase that would have made the first delete immediate has no effect now.
        client.update_status(in_phase(&last, "Succeeded")).await.unwrap();
        let reply = silently::<Pod, _>(&bed, delete_reply::<Pod>(&client, &key("a"), DeleteOptions::default())).await;
        assert_eq!(grace_of(&*reply.unwrap()), Some(1));
        let (reply, events) = effects::<Pod, _>(&bed, delete_reply::<Pod>(&client, &key("a"), grace(0))).await;
        assert_eq!(reply, Err(uid(&*marked)));
        assert_eq!(kinds(&events), [WatchKind::Modified, WatchKind::Deleted]);
    });
}

/// Deletes a pod, which must be deleted in two phases.
async fn goes_in_two_phases(bed: &Testbed, client: &SimClient, name: &str, options: DeleteOptions) {
    let created = client.get::<Pod>(&key(name)).await.unwrap();
    let before = bed.revision();
    let (reply, events) = effects::<Pod, _>(bed, delete_reply::<Pod>(client, &key(name), options)).await;
    assert_eq!(reply, Err(uid(&*created)));
    let [(WatchKind::Modified, marked), (WatchKind::Deleted, gone)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((rv(&**marked), rv(&**gone), bed.revision()), (before + 1, before + 2, before + 2));
    for state in [marked, gone] {
        assert_eq!(grace_of(&**state), Some(0));
        assert!(deadline(&**state) <= wall(bed));
    }
    assert_eq!(refused(client.get::<Pod>(&key(name)).await), not_found("pods", name));
}

#[test]
fn k097_a_grace_beyond_the_calendar_ends_with_it() {
    Testbed::run(1, async |bed| {
        let client = bed.client("a");
        create_in_phase(&client, "p", "Running").await;
        client.delete::<Pod>(&key("p"), grace(i64::MAX)).await.unwrap();
        let pod = client.get::<Pod>(&key("p")).await.unwrap();
        assert_eq!((deadline(&*pod).as_second(), grace_of(&*pod)), (Timestamp::MAX.as_second(), Some(i64::MAX)));
        client.delete::<Pod>(&key("p"), grace(5)).await.unwrap();
        assert!(deadline(&*client.get::<Pod>(&key("p")).await.unwrap()) <= wall(&bed), "counted from a request long ago");
    });
}

#[test]
fn k099_a_delete_of_a_pod_without_grace_is_two_revisions_and_two_events() {
    Testbed::run(1, async |bed| {
        let client = bed.client("remover");
        create_in_phase(&client, "a", "Running").await;
        let checked = DeleteOptions { dry: Dry::Run, ..grace(0) };
        assert!(silently::<Pod, _>(&bed, delete_reply::<Pod>(&client, &key("a"), checked)).await.is_err());
        goes_in_two_phases(&bed, &client, "a", grace(0)).await;
        create_in_phase(&client, "a", "Running").await;
        let uid = uid(&*client.get::<Pod>(&key("a")).await.unwrap());
        goes_in_two_phases(&bed, &client, "a", DeleteOptions { grace_period_seconds: Some(0), ..if_uid(&uid) }).await;
    });
}

#[test]
fn k100_an_unscheduled_or_finished_pod_has_no_grace_whatever_was_asked() {
    Testbed::run(1, async |bed| {
        let client = bed.client("remover");
        for options in [DeleteOptions::default(), grace(60), grace(-1), grace(0)] {
            client.create(pod("unscheduled", "")).await.unwrap();
            goes_in_two_phases(&bed, &client, "unscheduled", options.clone()).await;
            for phase in ["Succeeded", "Failed"] {
                create_in_phase(&client, "finished", phase).await;
                goes_in_two_phases(&bed, &client, "finished", options.clone()).await;
            }
        }
        for phase in ["Pending", "Running", "Unknown"] {
            create_in_phase(&client, phase.to_lowercase().as_str(), phase).await;
            let reply = delete_reply::<Pod>(&client, &key(&phase.to_lowercase()), DeleteOptions::default()).await;
            assert_eq!(grace_of(&*reply.unwrap()), Some(30));
        }
    });
}

#[test]
fn k101_a_pod_with_finalizers_outlives_a_delete_without_grace() {
    Testbed::run(1, async |bed| {
        let client = bed.client("remover");
        for (node, options) in [("n1", grace(0)), ("", DeleteOptions::default())] {
            let body = changed(&pod("a", node), |pod| pod.metadata.finalizers = Some(vec!["example.com/f".to_owned()]));
            client.create(body).await.unwrap();
            let (reply, events) = effects::<Pod, _>(&bed, delete_reply::<Pod>(&client, &key("a"), options)).await;
            let marked = reply.expect("the pod stays");
            assert_eq!(kinds(&events), [WatchKind::Modified]);
            assert_eq!(grace_of(&*marked), Some(0));
            assert!(deadline(&*marked) <= wall(&bed));
            for options in [grace(0), DeleteOptions::default(), grace(30)] {
                let reply = silently::<Pod, _>(&bed, delete_reply::<Pod>(&client, &key("a"), options)).await;
                assert_eq!(reply, Ok(marked.clone()));
            }
            let free = Patch::merge(json!({"metadata": {"finalizers": []}}));
            let (answer, events) = effects::<Pod, _>(&bed, client.patch::<Pod>(&key("a"), free)).await;
            answer.unwrap();
            assert_eq!(kinds(&events), [WatchKind::Deleted]);
            assert!(!exists::<Pod>(&client, &key("a")).await);
        }
        // The grace of a scheduled pod ends first, then the finalizer is removed: the result is the same.
        let body = changed(&pod("a", "n1"), |pod| pod.metadata.finalizers = Some(vec!["example.com/f".to_owned()]));
        client.create(body).await.unwrap();
        delete_reply::<Pod>(&client, &key("a"), DeleteOptions::default()).await.unwrap();
        delete_reply::<Pod>(&client, &key("a"), grace(0)).await.expect("the finalizer holds it");
        client.patch::<Pod>(&key("a"), Patch::merge(json!({"metadata": {"finalizers": []}}))).await.unwrap();
        assert!(!exists::<Pod>(&client, &key("a")).await);
    });
}

#[test]
fn k102_a_crash_between_the_phases_leaves_a_pod_that_a_later_delete_removes() {
    for seed in SEEDS {
        // With a webhook, a task of the server executes the delete, instead of immediate execution.
        let hooked = seed % 2 == 0;
        Testbed::run(seed, async |bed| {
            let (client, other) = (bed.client_on("remover", 0), bed.client_on("other", 1));
            if hooked {
                hook::<Pod, _>(&bed, "slow.example.com", false, FailurePolicy::Fail, |_, _| async { Ok(None) });
            }
            create_in_phase(&client, "a", "Running").await;
            let before = bed.revision();
            let mut watched = Watched::<Pod>::open(&bed).await;
            drop(watched.events().await);
            bed.cluster.crash_in_next_delete(0);
            let error = client.delete::<Pod>(&key("a"), grace(0)).await.unwrap_err();
            assert!(matches!(error, ApiError::Transport(_)) && error.is_ambiguous(), "the server died before it could answer: {error}");
            assert_eq!(bed.revision(), before + 1, "the second phase did not happen");
            bed.wait(secs(3_600)).await;
            let left = other.get::<Pod>(&key("a")).await.unwrap();
            assert_eq!((grace_of(&*left), rv(&*left)), (Some(0), before + 1));
            bed.cluster.restart_server(0, secs(1));
            bed.wait(secs(5)).await;
            // Whatever is requested now: there is no grace left.
            let options = if seed % 3 == 0 { grace(30) } else { DeleteOptions::default() };
            let (reply, events) = effects::<Pod, _>(&bed, delete_reply::<Pod>(&other, &key("a"), options)).await;
            assert_eq!(reply, Err(uid(&*left)));
            assert_eq!((kinds(&events), bed.revision()), (vec![WatchKind::Deleted], before + 2));
            assert!(!exists::<Pod>(&other, &key("a")).await);
        });
    }
}

#[test]
fn k103_a_delete_without_preconditions_never_conflicts() {
    let mut outcomes = BTreeSet::new();
    let mut repeated = false;
    for seed in 1..25 {
        let (gone, calls) = Testbed::run(seed, async |bed| {
            // The webhook takes a moment, so that updates occur between the read and the removal.
            let hooked = hook::<ConfigMap, _>(&bed, "slow.example.com", false, FailurePolicy::Fail, |_, review| async move {
                drop(review);
                Ok(None)
            });
            bed.client("admin").create(config_map("a", "v", "0")).await.unwrap();
            for number in 0..2 {
                let client = bed.client_on("updater", number);
                let updater = client.clone();
                drop(start(&bed, &client, async move {
                    for round in 0..20 {
                        let patch = Patch::merge(json!({"data": {"v": format!("{number}-{round}")}}));
                        if updater.patch::<ConfigMap>(&key("a"), patch).await.is_err() {
                            break;
                        }
                    }
                }));
            }
            bed.wait(millis(20)).await;
            let deletes: Vec<_> = (0..2)
                .map(|number| {
                    let client = bed.client_on("remover", number);
                    let remover = client.clone();
                    start(&bed, &client, async move { remover.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await })
                })
                .collect();
            let mut gone = 0;
            for outcome in deletes {
                match outcome.await.unwrap() {
                    Ok(left) => assert_eq!(left, None),
                    Err(error) => {
                        assert_eq!(body_of(&error), not_found("configmaps", "a"));
                        gone += 1;
                    }
                }
            }
            assert!(!exists::<ConfigMap>(&bed.client("reader"), &key("a")).await);
            let deletes = hooked.asked.lock().iter().filter(|review| review.verb == Verb::Delete).count();
            (gone, deletes)
        });
        assert!(gone <= 1, "one of two concurrent deletes removes the object");
        outcomes.insert(gone);
        repeated |= calls > 2;
    }
    assert!(outcomes.contains(&1), "the later delete finds nothing: {outcomes:?}");
    assert!(repeated, "no delete ever began again: the race did not happen");
    // Terminating objects: both deletes succeed.
    Testbed::run(1, async |bed| {
        let client = bed.client("remover");
        client.create(held_map("a", &["example.com/f"])).await.unwrap();
        for _ in 0..2 {
            assert!(client.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap().is_some());
        }
    });
}

#[test]
fn k104_a_delete_by_name_removes_whoever_has_the_name() {
    async fn check<K: Object>(bed: &Testbed, body: K, resource: &str) {
        let (client, stale) = (bed.client_on("remover", 0), bed.client_on("stale", 1));
        let old = client.create(body.clone()).await.unwrap();
        let object_key = ObjectKey::of(&*old);
        bed.wait(secs(5)).await;
        bed.cluster.set_frozen(1, None, true);
        client.delete::<K>(&object_key, grace(0)).await.unwrap();
        let new = client.create(body).await.unwrap();
        assert_eq!(stale.get_cached::<K>(&object_key, "0").await.unwrap(), old, "the remover believes in the old one");
        let why = format!(
            "the UID in the precondition ({}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            uid(&*old),
            uid(&*new)
        );
        let options = DeleteOptions { grace_period_seconds: Some(0), ..if_uid(&uid(&*old)) };
        let reply = silently::<K, _>(bed, stale.delete::<K>(&object_key, options)).await;
        assert_eq!(refused(reply), conflict(resource, object_key.name(), &why));
        assert_eq!(client.get::<K>(&object_key).await.unwrap(), new);
        let reply = delete_reply::<K>(&stale, &object_key, grace(0)).await;
        assert_eq!(reply, Err(uid(&*new)), "the new one is gone");
        assert!(!exists::<K>(&client, &object_key).await);
        bed.cluster.set_frozen(1, None, false);
    }
    Testbed::run(1, async |bed| {
        // This conflict names the Kind, not the resource.
        check(&bed, config_map("a", "v", "1"), "ConfigMap").await;
        check(&bed, pod("a", "n1"), "Pod").await;
        check(&bed, pool("p"), "SpiderIPPool.spiderpool.spidernet.io").await;
    });
}

#[test]
fn k108_a_delete_that_was_sent_twice_hits_the_recreated_object() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (client, other) = (bed.client_on("remover", 0), bed.client_on("other", 1));
            client.create(config_map("a", "v", "1")).await.unwrap();
            let copy = Rule {
                from: Side::Only(vec![client.process()]),
                to: Side::Any,
                effect: Effect::Duplicate { chance: 1.0, gap: secs(10 + seed) },
            };
            let copy = bed.cluster.network(|net| net.add(copy));
            client.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap();
            bed.cluster.network(|net| net.remove(copy));
            other.create(config_map("a", "v", "2")).await.unwrap();
            bed.wait(secs(9 + seed)).await;
            assert!(exists::<ConfigMap>(&other, &key("a")).await);
            bed.wait(secs(2)).await;
            assert!(!exists::<ConfigMap>(&other, &key("a")).await, "the copy removed what it was not meant for");
        });
    }
}
