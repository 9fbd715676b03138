//! K §10.1: metadata and revisions.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipam_spiderpool::SpiderIPPool;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_machinery::api::{Call, DeleteOptions, Dry, Patch, Reason};
use kube_machinery::{Client, ClientExt, Object, ObjectKey};
use kube_sim::cluster::{ClusterConfig, Knobs};
use kube_sim::testbed::{Testbed, config_map, from_json, grace, key, pod};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::support::*;

fn lease(name: &str) -> Lease {
    from_json(json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"holderIdentity": "nobody"}}))
}

fn pool(name: &str) -> SpiderIPPool {
    from_json(json!({"metadata": {"name": name}, "spec": {"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]}}))
}

/// A ConfigMap with finalizers, which keep it when it is deleted.
fn held_map(name: &str, finalizers: &[&str]) -> ConfigMap {
    from_json(json!({"metadata": {"name": name, "namespace": "default", "finalizers": finalizers}, "data": {"v": "1"}}))
}

fn hour_later(time: &Option<Time>) -> Option<Time> {
    time.as_ref().map(|Time(at)| Time(*at + SignedDuration::from_hours(1)))
}

#[test]
fn k001_a_created_object_has_uid_version_and_a_timestamp_in_whole_seconds() {
    async fn check<K: Object>(bed: &Testbed, body: K) {
        for number in 0..2 {
            let client = bed.client_on("creator", number);
            let body = changed(&body, |body| body.meta_mut().name = Some(format!("{}-{number}", name(body))));
            let before = bed.cluster.wall(client.process());
            let created = client.create(body).await.unwrap();
            let meta = created.meta();
            let uid = meta.uid.as_deref().unwrap();
            assert_eq!((uid.len(), uid.chars().filter(|c| *c == '-').count(), uid.as_bytes()[14]), (36, 4, b'4'), "{uid}");
            let version = meta.resource_version.as_deref().unwrap();
            assert!(version.chars().all(|c| c.is_ascii_digit()) && !version.starts_with('0') && !version.is_empty(), "{version}");
            assert_eq!(version, bed.revision().to_string());
            let Time(at) = meta.creation_timestamp.clone().unwrap();
            assert_eq!(at.subsec_nanosecond(), 0);
            assert!(at.as_second() >= before.as_second() && at <= bed.cluster.wall(client.process()), "{at} is not now");
        }
    }
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            bed.wait(millis(437 * seed)).await;
            check(&bed, config_map("a", "v", "1")).await;
            check(&bed, pod("a", "")).await;
            check(&bed, lease("a")).await;
            check(&bed, pool("a")).await;
        });
    }
}

#[test]
fn k002_what_the_server_owns_is_discarded_from_a_create_body() {
    async fn check<K: Object>(client: &impl Client, body: K) {
        let long_ago: Timestamp = "2001-02-03T04:05:06Z".parse().unwrap();
        let body = changed(&body, |body| {
            let meta = body.meta_mut();
            meta.uid = Some("00000000-0000-4000-8000-000000000000".to_owned());
            meta.creation_timestamp = Some(Time(long_ago));
            meta.deletion_timestamp = Some(Time(long_ago));
            meta.deletion_grace_period_seconds = Some(17);
        });
        let created = client.create(body).await.unwrap();
        let meta = created.meta();
        assert_ne!(meta.uid.as_deref(), Some("00000000-0000-4000-8000-000000000000"));
        assert!(!uid(&*created).is_empty());
        assert_ne!(meta.creation_timestamp, Some(Time(long_ago)));
        assert!(meta.creation_timestamp.is_some());
        assert_eq!((&meta.deletion_timestamp, meta.deletion_grace_period_seconds), (&None, None));
        assert_eq!(client.get::<K>(&ObjectKey::of(&*created)).await.unwrap(), created, "what is stored is what was answered");
    }
    Testbed::run(1, async |bed| {
        let client = bed.client("creator");
        check(&client, config_map("a", "v", "1")).await;
        check(&client, pod("a", "n1")).await;
        check(&client, pool("a")).await;
    });
}

#[test]
fn k003_every_incarnation_of_a_name_has_a_uid_of_its_own() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let clients = [bed.client_on("zero", 0), bed.client_on("one", 1)];
            let mut seen = BTreeSet::new();
            for round in 0..10 {
                let (creator, remover) = (&clients[round % 2], &clients[(round / 2) % 2]);
                assert!(seen.insert(uid(&*creator.create(config_map("a", "v", "1")).await.unwrap())));
                remover.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap();
                assert!(seen.insert(uid(&*creator.create(pod("a", "n1")).await.unwrap())));
                remover.delete::<Pod>(&key("a"), grace(0)).await.unwrap();
            }
        });
    }
}

#[test]
fn k004_every_write_has_a_version_above_all_that_were_answered_before() {
    for seed in SEEDS {
        let knobs = Knobs { burned_revisions: (seed % 3) as u32 * 5, ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 3, async |bed| {
            let highest = Arc::new(Mutex::new(0));
            let mut tasks = Vec::new();
            for number in 0..6usize {
                let client = bed.client_on("writer", number % 3);
                let (writer, highest) = (client.clone(), highest.clone());
                tasks.push(spawn(&bed, &client, async move {
                    let above = |answered: u64, before: u64| {
                        assert!(answered > before, "{answered} came after {before}");
                        let mut highest = highest.lock();
                        *highest = answered.max(*highest);
                    };
                    for round in 0..8 {
                        let own = format!("w{number}-{round}");
                        let before = *highest.lock();
                        let map = writer.create(config_map(&own, "v", "1")).await.unwrap();
                        above(rv(&*map), before);
                        let before = *highest.lock();
                        let patch = Patch::merge(json!({"data": {"v": "2"}}));
                        above(rv(&*writer.patch::<ConfigMap>(&key(&own), patch).await.unwrap()), before);
                        let before = *highest.lock();
                        let created = writer.create(pool(&own)).await.unwrap();
                        above(rv(&*created), before);
                        let before = *highest.lock();
                        let body = changed(&*created, |pool| pool.status.get_or_insert_default().total_ip_count = Some(9));
                        above(rv(&*writer.update_status(body).await.unwrap()), before);
                        let before = *highest.lock();
                        above(rv(&*writer.create(pod(&own, "n1")).await.unwrap()), before);
                        let before = *highest.lock();
                        let terminating = writer.delete::<Pod>(&key(&own), grace(30)).await.unwrap().expect("it is terminating");
                        above(rv(&*terminating), before);
                    }
                }));
            }
            for task in tasks {
                task.await;
            }
            assert_eq!(*highest.lock(), bed.revision());
        });
    }
}

#[test]
fn k005_a_write_moves_no_other_object_but_their_next_versions_are_higher() {
    Testbed::run(1, async |bed| {
        let (zero, one) = (bed.client_on("zero", 0), bed.client_on("one", 1));
        let y = zero.create(pod("y", "n1")).await.unwrap();
        let x = one.create(config_map("x", "v", "1")).await.unwrap();
        let x = one.update(changed(&*x, |x| x.metadata.labels = Some([("a".into(), "b".into())].into()))).await.unwrap();
        for client in [&zero, &one] {
            assert_eq!(client.get::<Pod>(&key("y")).await.unwrap(), y);
        }
        let patch = Patch::merge(json!({"metadata": {"labels": {"a": "b"}}}));
        let y = zero.patch::<Pod>(&key("y"), patch).await.unwrap();
        assert!(rv(&*y) > rv(&*x));
    });
}

#[test]
fn k006_the_version_of_a_list_is_not_below_any_item_and_never_zero() {
    async fn check<K: Object>(bed: &Testbed, number: usize, some: bool) {
        let client = bed.client_on("reader", number);
        for options in [Default::default(), at("0"), at("1")] {
            let list = client.list::<K>(None, options.clone()).await.unwrap();
            assert_eq!(!list.items.is_empty(), some, "{options:?}");
            let version: u64 = list.resource_version.parse().unwrap();
            assert!(version > 0 && list.items.iter().all(|item| rv(&**item) <= version), "{version}");
            assert!(!list.resource_version.starts_with('0'));
        }
    }
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            for number in 0..2 {
                check::<ConfigMap>(&bed, number, false).await;
                check::<SpiderIPPool>(&bed, number, false).await;
            }
            let writer = bed.client("writer");
            for step in 0..4 {
                writer.create(config_map(&format!("a{step}"), "v", "1")).await.unwrap();
                writer.create(pool(&format!("a{step}"))).await.unwrap();
            }
            bed.wait(millis(1_000)).await;
            for number in 0..2 {
                check::<ConfigMap>(&bed, number, true).await;
                check::<SpiderIPPool>(&bed, number, true).await;
                check::<Pod>(&bed, number, false).await;
            }
        });
    }
}

#[test]
fn k007_an_unchanged_object_reads_back_the_same_from_every_server() {
    for seed in SEEDS {
        Testbed::run_with(ClusterConfig { seed, ..ClusterConfig::default() }, 3, async |bed| {
            let writer = bed.client("writer");
            writer.create(config_map("a", "v", "1")).await.unwrap();
            let written = writer.update(config_map("a", "v", "2")).await.unwrap();
            writer.create(config_map("b", "v", "1")).await.unwrap();
            bed.wait(secs(5)).await;
            for number in 0..3 {
                let reader = bed.client_on("reader", number);
                assert_eq!(reader.get::<ConfigMap>(&key("a")).await.unwrap(), written);
                assert_eq!(reader.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap(), written);
                assert!(reader.list::<ConfigMap>(None, at("0")).await.unwrap().items.contains(&written));
            }
        });
    }
}

#[test]
fn k008_a_put_leaves_the_creation_timestamp_alone() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let map = client.create(config_map("a", "v", "1")).await.unwrap();
        bed.wait(secs(100)).await;
        for timestamp in [hour_later(&map.metadata.creation_timestamp), None] {
            let only = changed(&*map, |map| map.metadata.creation_timestamp = timestamp.clone());
            let after = silent::<ConfigMap, _>(&bed, async || client.update(only).await.unwrap()).await;
            assert_eq!(after, map);
        }
        let more = changed(&*map, |map| {
            map.metadata.creation_timestamp = hour_later(&map.metadata.creation_timestamp);
            map.data = None;
        });
        let after = client.update(more).await.unwrap();
        assert_eq!((&after.metadata.creation_timestamp, &after.data), (&map.metadata.creation_timestamp, &None));
        let created = client.create(pool("a")).await.unwrap();
        let body = changed(&*created, |pool| pool.metadata.creation_timestamp = None);
        assert_eq!(client.update(body).await.unwrap(), created);
    });
}

#[test]
fn k009_the_deletion_timestamp_of_a_terminating_object_stays_as_it_is() {
    async fn check<K: Object>(bed: &Testbed, client: &impl Client, terminating: &Arc<K>) {
        let key = ObjectKey::of(&**terminating);
        assert!(terminating.meta().deletion_timestamp.is_some());
        let body = changed(&**terminating, |object| object.meta_mut().deletion_timestamp = None);
        let after = silent::<K, _>(bed, async || client.update(body).await.unwrap()).await;
        assert_eq!(&after, terminating);
        for patch in [
            Patch::merge(json!({"metadata": {"deletionTimestamp": null}})),
            Patch::json(json!([{"op": "remove", "path": "/metadata/deletionTimestamp"}])),
        ] {
            let after = silent::<K, _>(bed, async || client.patch::<K>(&key, patch).await.unwrap()).await;
            assert_eq!(&after, terminating);
        }
        // A request for another deadline is a write, although it has no effect.
        let mut last = rv(&**terminating);
        let mut is_a_write = |after: &K| {
            assert!(rv(after) > last);
            last = rv(after);
            let as_before = changed(after, |object| object.meta_mut().resource_version.clone_from(&terminating.meta().resource_version));
            assert_eq!(as_before, **terminating);
        };
        let later = hour_later(&terminating.meta().deletion_timestamp);
        let body = changed(&**terminating, |object| object.meta_mut().deletion_timestamp.clone_from(&later));
        is_a_write(&client.update(body).await.unwrap());
        for patch in [
            Patch::merge(json!({"metadata": {"deletionTimestamp": later}})),
            Patch::json(json!([{"op": "replace", "path": "/metadata/deletionTimestamp", "value": later}])),
        ] {
            is_a_write(&client.patch::<K>(&key, patch).await.unwrap());
        }
        let terminating = &client.get::<K>(&key).await.unwrap();
        // With another change the write takes effect, and the deletion remains.
        let body = changed(&**terminating, |object| {
            object.meta_mut().deletion_timestamp = None;
            object.meta_mut().labels = Some([("touched".to_owned(), "yes".to_owned())].into());
        });
        let after = client.update(body).await.unwrap();
        assert!(rv(&*after) > rv(&**terminating));
        assert_eq!(after.meta().deletion_timestamp, terminating.meta().deletion_timestamp);
        assert_eq!(after.meta().deletion_grace_period_seconds, terminating.meta().deletion_grace_period_seconds);
    }
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        client.create(pod("p", "n1")).await.unwrap();
        let terminating = client.delete::<Pod>(&key("p"), grace(300)).await.unwrap().unwrap();
        check(&bed, &client, &terminating).await;
        client.create(held_map("m", &["example.com/hold"])).await.unwrap();
        let terminating = client.delete::<ConfigMap>(&key("m"), DeleteOptions::default()).await.unwrap().unwrap();
        check(&bed, &client, &terminating).await;
    });
}

#[test]
fn k009_a_deletion_timestamp_on_a_live_object_and_another_grace_are_refused() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let live = client.create(pod("live", "n1")).await.unwrap();
        client.create(pod("p", "n1")).await.unwrap();
        let terminating = client.delete::<Pod>(&key("p"), grace(300)).await.unwrap().unwrap();
        let now = json!("2026-01-01T01:00:00Z");
        let (stamp, seconds) = ("metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds");
        for (object, meta, fields) in [
            (&live, json!({"deletionTimestamp": now}), vec![stamp]),
            (&live, json!({"deletionGracePeriodSeconds": 30}), vec![seconds]),
            (&live, json!({"deletionTimestamp": now, "deletionGracePeriodSeconds": 30}), vec![stamp, seconds]),
            (&terminating, json!({"deletionGracePeriodSeconds": 5}), vec![seconds]),
            (&terminating, json!({"deletionGracePeriodSeconds": 0}), vec![seconds]),
        ] {
            let mut value = serde_json::to_value(&**object).unwrap();
            json_patch::merge(&mut value, &json!({"metadata": meta}));
            silent::<Pod, _>(&bed, async || {
                let by_put = refused(client.update(from_json::<Pod>(value)).await);
                let by_patch = refused(client.patch::<Pod>(&ObjectKey::of(&**object), Patch::merge(json!({"metadata": meta}))).await);
                for status in [by_put, by_patch] {
                    assert_eq!((status.code, status.reason), (422, Reason::Invalid));
                    assert_eq!(status.details.causes.iter().map(|cause| &*cause.field).collect::<Vec<_>>(), fields, "{meta}");
                    assert!(status.message().contains("field is immutable"), "{status}");
                }
            })
            .await;
        }
    });
}

#[test]
fn k010_generation_counts_changes_of_the_spec_only() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let label = || Patch::merge(json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "generation": 77}}));

        let created = client.create(pod("p", "n1")).await.unwrap();
        assert_eq!(created.metadata.generation, Some(1));
        let after = client.patch::<Pod>(&key("p"), label()).await.unwrap();
        assert!(rv(&*after) > rv(&*created));
        assert_eq!(after.metadata.generation, Some(1));
        let after = client.patch_status::<Pod>(&key("p"), Patch::merge(json!({"status": {"phase": "Running"}}))).await.unwrap();
        assert_eq!((after.metadata.generation, after.status.as_ref().unwrap().phase.as_deref()), (Some(1), Some("Running")));
        let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "registry.example/app:2"}]);
        assert_eq!(client.patch::<Pod>(&key("p"), Patch::json(image)).await.unwrap().metadata.generation, Some(2));

        let by_name = ObjectKey::cluster("pool");
        let created = client.create(changed(&pool("pool"), |pool| pool.metadata.generation = Some(42))).await.unwrap();
        assert_eq!(created.metadata.generation, Some(1));
        assert_eq!(client.patch::<SpiderIPPool>(&by_name, label()).await.unwrap().metadata.generation, Some(1));
        let status = Patch::merge(json!({"status": {"totalIPCount": 9}}));
        assert_eq!(client.patch_status::<SpiderIPPool>(&by_name, status).await.unwrap().metadata.generation, Some(1));
        for (value, generation) in [("10.0.0.1-10.0.0.5", 2), ("10.0.0.1-10.0.0.6", 3)] {
            let latest = client.get::<SpiderIPPool>(&by_name).await.unwrap();
            let body = changed(&*latest, |pool| pool.spec.ips = Some(vec![value.to_owned()]));
            assert_eq!(client.update(body).await.unwrap().metadata.generation, Some(generation));
        }

        client.create(changed(&config_map("m", "v", "1"), |map| map.metadata.generation = Some(3))).await.unwrap();
        let map = client.update(config_map("m", "v", "2")).await.unwrap();
        let held = client.create(changed(&lease("l"), |lease| lease.metadata.generation = Some(3))).await.unwrap();
        let renewed = changed(&*held, |lease| lease.spec.as_mut().unwrap().holder_identity = Some("me".to_owned()));
        // These types do not maintain a generation, but keep the one that they were created with.
        assert_eq!((map.metadata.generation, held.metadata.generation), (Some(3), Some(3)));
        assert_eq!(client.update(renewed).await.unwrap().metadata.generation, Some(3));
    });
}

#[test]
fn k011_the_start_of_a_deletion_counts_as_one_generation() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        client.create(pod("p", "n1")).await.unwrap();
        let first = client.delete::<Pod>(&key("p"), grace(30)).await.unwrap().unwrap();
        assert_eq!(first.metadata.generation, Some(2));
        let again = silent::<Pod, _>(&bed, async || client.delete::<Pod>(&key("p"), grace(30)).await.unwrap().unwrap()).await;
        assert_eq!(again, first);
        let shorter = client.delete::<Pod>(&key("p"), grace(10)).await.unwrap().unwrap();
        assert_eq!(shorter.metadata.generation, Some(2));
        assert!(rv(&*shorter) > rv(&*first));

        let by_name = ObjectKey::cluster("pool");
        client.create(changed(&pool("pool"), |pool| pool.metadata.finalizers = Some(vec!["example.com/hold".into()]))).await.unwrap();
        let first = client.delete::<SpiderIPPool>(&by_name, DeleteOptions::default()).await.unwrap().unwrap();
        assert_eq!(first.metadata.generation, Some(2));
        silent::<SpiderIPPool, _>(&bed, async || {
            let again = client.delete::<SpiderIPPool>(&by_name, DeleteOptions::default()).await.unwrap().unwrap();
            assert_eq!(again, first);
        })
        .await;

        client.create(held_map("m", &["example.com/hold"])).await.unwrap();
        let map = client.delete::<ConfigMap>(&key("m"), DeleteOptions::default()).await.unwrap().unwrap();
        assert_eq!(map.metadata.generation, None);
    });
}

#[test]
fn k012_a_terminating_object_takes_no_new_finalizer_but_lets_go_of_old_ones() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        client.create(held_map("m", &["example.com/a", "example.com/b"])).await.unwrap();
        let terminating = client.delete::<ConfigMap>(&key("m"), DeleteOptions::default()).await.unwrap().unwrap();
        let finalizers = |list: &[&str]| Some(list.iter().map(|&finalizer| finalizer.to_owned()).collect::<Vec<_>>());
        silent::<ConfigMap, _>(&bed, async || {
            let all = ["example.com/a", "example.com/b", "example.com/new"];
            let body = changed(&*terminating, |map| map.metadata.finalizers = finalizers(&all));
            let patch = Patch::merge(json!({"metadata": {"finalizers": all}}));
            for status in [refused(client.update(body).await), refused(client.patch::<ConfigMap>(&key("m"), patch).await)] {
                assert_eq!((status.code, status.reason), (422, Reason::Invalid));
                let [cause] = &status.details.causes[..] else { panic!("one cause expected: {status:?}") };
                assert_eq!((&*cause.reason, &*cause.field), ("FieldValueForbidden", "metadata.finalizers"));
                assert!(cause.message.contains("no new finalizers can be added if the object is being deleted"), "{}", cause.message);
                assert!(cause.message.contains("example.com/new") && !cause.message.contains("example.com/a"), "{}", cause.message);
                assert!(status.message().starts_with("ConfigMap \"m\" is invalid: metadata.finalizers: Forbidden: "), "{status}");
            }
        })
        .await;
        let kept = client.update(changed(&*terminating, |map| map.data = None)).await.unwrap();
        assert_eq!(kept.metadata.finalizers, finalizers(&["example.com/a", "example.com/b"]));
        let fewer = client.update(changed(&*kept, |map| map.metadata.finalizers = finalizers(&["example.com/b"]))).await.unwrap();
        assert_eq!(fewer.metadata.finalizers, finalizers(&["example.com/b"]));
        client.update(changed(&*fewer, |map| map.metadata.finalizers = None)).await.unwrap();
        assert!(client.get::<ConfigMap>(&key("m")).await.unwrap_err().is_not_found());
    });
}

#[test]
fn k013_swapping_a_finalizer_of_a_terminating_object_changes_nothing() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        client.create(held_map("m", &["example.com/a"])).await.unwrap();
        let terminating = client.delete::<ConfigMap>(&key("m"), DeleteOptions::default()).await.unwrap().unwrap();
        silent::<ConfigMap, _>(&bed, async || {
            let body = changed(&*terminating, |map| map.metadata.finalizers = Some(vec!["example.com/b".to_owned()]));
            let status = refused(client.update(body).await);
            assert_eq!((status.code, status.reason), (422, Reason::Invalid));
            assert_eq!(client.get::<ConfigMap>(&key("m")).await.unwrap(), terminating);
        })
        .await;
    });
}

#[test]
fn k014_two_controlling_owners_are_refused() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let owner =
            |name: &str, controller: Value| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": controller});
        let with = |name: &str, owners: Vec<Value>| -> ConfigMap {
            from_json(json!({"metadata": {"name": name, "namespace": "default", "ownerReferences": owners}}))
        };
        let two = vec![owner("x", json!(true)), owner("y", json!(true))];
        let one = vec![owner("x", json!(true)), owner("y", json!(false)), owner("z", json!(null))];
        client.create(with("one", one)).await.unwrap();
        silent::<ConfigMap, _>(&bed, async || {
            for status in [refused(client.create(with("two", two.clone())).await), refused(client.update(with("one", two)).await)] {
                assert_eq!((status.code, status.reason), (422, Reason::Invalid));
                assert_eq!(status.details.causes[0].field, "metadata.ownerReferences");
            }
        })
        .await;
    });
}

#[test]
fn k015_a_body_that_contradicts_the_url_is_a_bad_request() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        client.create(config_map("a", "v", "1")).await.unwrap();
        silent::<ConfigMap, _>(&bed, async || {
            let body = Arc::new(config_map("a", "v", "2"));
            let create = Call::Create { namespace: Some("other".into()), body: body.clone(), dry: Dry::No };
            let by_name = Call::Update { key: key("b"), body: body.clone(), subresource: None, dry: Dry::No };
            let elsewhere = ObjectKey::namespaced("other", "a");
            let by_namespace = Call::Update { key: elsewhere, body: body.clone(), subresource: None, dry: Dry::No };
            let renamed = Patch::merge(json!({"metadata": {"name": "b"}}));
            let rename = Call::Patch { key: key("a"), patch: renamed, subresource: None, dry: Dry::No };
            let moved = Patch::merge(json!({"metadata": {"namespace": "other"}}));
            let relocate = Call::Patch { key: key("a"), patch: moved, subresource: None, dry: Dry::No };
            for call in [create, by_name, by_namespace, rename, relocate] {
                let text = format!("{call:?}");
                let status = refused(client.send::<ConfigMap>(call.into()).await);
                assert_eq!((status.code, status.reason), (400, Reason::BadRequest), "{text}");
                assert!(!status.message().is_empty());
            }
        })
        .await;
    });
}

#[test]
fn k016_annotations_may_have_256_kib_in_total() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let with = |name: &str, bytes: usize| {
            let half = bytes / 2;
            let annotations = [("a".to_owned(), "x".repeat(half - 1)), ("b".to_owned(), "y".repeat(bytes - half - 1))];
            changed(&config_map(name, "v", "1"), |map| map.metadata.annotations = Some(annotations.into()))
        };
        client.create(with("most", 256 << 10)).await.unwrap();
        silent::<ConfigMap, _>(&bed, async || {
            for status in
                [refused(client.create(with("more", (256 << 10) + 1)).await), refused(client.update(with("most", (256 << 10) + 1)).await)]
            {
                assert_eq!((status.code, status.reason), (422, Reason::Invalid));
                assert_eq!(status.details.causes[0].field, "metadata.annotations");
            }
        })
        .await;
    });
}

#[test]
fn k017_a_config_map_holds_1_mib_and_a_body_3_mib() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let with = |name: &str, bytes: usize| config_map(name, "v", &"x".repeat(bytes));
        client.create(with("most", 1 << 20)).await.unwrap();
        silent::<ConfigMap, _>(&bed, async || {
            for bytes in [(1 << 20) + 1, 2 << 20, (3 << 20) - 4096] {
                for status in [refused(client.create(with("more", bytes)).await), refused(client.update(with("most", bytes)).await)] {
                    assert_eq!((status.code, status.reason), (422, Reason::Invalid), "{bytes}");
                    assert!(status.message().starts_with("ConfigMap \""), "{status}");
                }
            }
            let binary: ConfigMap =
                from_json(json!({"metadata": {"name": "b", "namespace": "default"}, "data": {"v": "x".repeat(1 << 19)},
                "binaryData": {"w": "eHh4".repeat((1 << 19) / 3 + 1)}}));
            assert_eq!(refused(client.create(binary).await).code, 422);
            for status in
                [refused(client.create(with("more", (3 << 20) + 1)).await), refused(client.update(with("most", (3 << 20) + 1)).await)]
            {
                assert_eq!((status.code, status.reason), (413, Reason::RequestEntityTooLarge));
            }
        })
        .await;
    });
}

#[test]
fn k018_an_immutable_config_map_keeps_its_data_and_can_be_deleted() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let map = client.create(changed(&config_map("a", "v", "1"), |map| map.immutable = Some(true))).await.unwrap();
        silent::<ConfigMap, _>(&bed, async || {
            for body in [
                changed(&*map, |map| map.data = Some([("v".into(), "2".into())].into())),
                changed(&*map, |map| map.data = None),
                changed(&*map, |map| map.binary_data = Some([("w".into(), Default::default())].into())),
                changed(&*map, |map| map.immutable = None),
                changed(&*map, |map| map.immutable = Some(false)),
            ] {
                let status = refused(client.update(body).await);
                assert_eq!((status.code, status.reason), (422, Reason::Invalid));
            }
        })
        .await;
        client.patch::<ConfigMap>(&key("a"), Patch::merge(json!({"metadata": {"labels": {"a": "b"}}}))).await.unwrap();
        assert!(client.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap().is_none());
    });
}
