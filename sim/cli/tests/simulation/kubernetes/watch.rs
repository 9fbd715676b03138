//! K §10.3: the events of a WATCH.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{Call, Dry, Patch, WatchEvent, WatchOptions};
use kube_machinery::{Client, ClientExt};
use kube_sim::cluster::{Knobs, SimWatch};
use kube_sim::testbed::{Testbed, config_map, grace, key, pod};
use serde_json::json;

use super::support::*;

#[test]
fn k037_a_watch_delivers_exactly_the_events_after_its_start_in_order() {
    for seed in SEEDS {
        let knobs = Knobs { burned_revisions: (seed % 2) as u32 * 7, ..Knobs::default() };
        Testbed::run_with(config(seed, knobs), 3, async |bed| {
            churn(bed.clone(), bed.client("before"), 20).await;
            let mut writers = Vec::new();
            let start = bed.revision();
            for number in 0..3 {
                let client = bed.client_on("writer", number);
                writers.push(spawn(&bed, &client, churn(bed.clone(), client.clone(), 25)));
            }
            let mut streams = Vec::new();
            for round in 0..24usize {
                // Some start in the past, some while changes are in flight.
                let from = if round % 3 == 0 { 1 + (start - 1) * round as u64 / 24 } else { bed.revision() };
                let client = bed.client_on("reader", round % 3);
                let namespace = [None, Some("default"), Some("other")][round / 3 % 3];
                let selector = (round % 2 == 1).then(|| "switch=on".to_owned());
                let options = WatchOptions { label_selector: selector.clone(), ..after(from) };
                let stream: SimWatch<ConfigMap> = client.watch(namespace.map(Arc::from), options).await.unwrap();
                streams.push((from, namespace, selector, stream));
                bed.wait(millis(3)).await;
            }
            for writer in writers {
                writer.await;
            }
            for (from, namespace, selector, mut stream) in streams {
                let heard = hear(&bed, &mut stream, secs(10)).await;
                let expected = truth::<ConfigMap>(&bed, from, |map| {
                    namespace.is_none_or(|namespace| map.metadata.namespace.as_deref() == Some(namespace))
                        && selector.as_ref().is_none_or(|_| label(map, "switch") == "on")
                });
                assert!(heard.is_open());
                assert_eq!(heard.lines(), expected, "from {from}, namespace {namespace:?}, selector {selector:?}");
            }
        });
    }
}

#[test]
fn k038_a_list_and_the_watch_after_it_pass_through_states_that_existed() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            bed.cluster.set_extra_lag(1, None, millis(20));
            let writer = bed.client_on("writer", 0);
            let writing = spawn(&bed, &writer, churn(bed.clone(), writer.clone(), 60));
            let mut readers = Vec::new();
            for number in 0..4 {
                bed.wait(millis(40)).await;
                let client = bed.client_on("reader", number % 2);
                let list = client.list::<ConfigMap>(None, if number < 2 { at("0") } else { Default::default() }).await.unwrap();
                let revision: u64 = list.resource_version.parse().unwrap();
                let stream = watch::<ConfigMap>(&client, after(revision)).await;
                readers.push((revision, state_of(&list.items), stream));
            }
            writing.await;
            for (revision, mut state, mut stream) in readers {
                assert_eq!(state, state_at::<ConfigMap>(&bed, revision));
                for (what, key, revision) in hear(&bed, &mut stream, secs(10)).await.lines() {
                    let before = if what == "DELETED" { state.remove(&key) } else { state.insert(key, revision) };
                    assert_eq!(before.is_some(), what != "ADDED");
                    assert_eq!(state, state_at::<ConfigMap>(&bed, revision), "as of {revision}");
                }
                assert_eq!(state, state_at::<ConfigMap>(&bed, bed.revision()));
            }
        });
    }
}

#[test]
fn k039_every_update_is_an_event_of_its_own() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            let mut stream = watch::<ConfigMap>(&reader, after(bed.revision())).await;
            bed.cluster.set_extra_lag(1, None, millis(100 * seed));
            let mut expected = Vec::new();
            for round in 1..=30 {
                expected.push(("MODIFIED", "default/a".to_owned(), set(&writer, "a", round).await));
            }
            let heard = hear(&bed, &mut stream, secs(10)).await;
            assert_eq!(heard.lines(), expected);
            let values = heard.events.iter().map(|event| match event {
                WatchEvent::Modified(map) => map.data.as_ref().unwrap()["v"].parse().unwrap(),
                other => panic!("{other:?}"),
            });
            assert_eq!(values.collect::<Vec<u32>>(), (1..=30).collect::<Vec<_>>(), "each event carries its own state");
        });
    }
}

#[test]
fn k040_what_changes_nothing_is_not_heard_of() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let old = client.create(config_map("a", "v", "1")).await.unwrap();
        let map = client.update(config_map("a", "v", "2")).await.unwrap();
        client.create(pod("p", "n1")).await.unwrap();
        silent::<ConfigMap, _>(&bed, async || {
            assert_eq!(client.update(map.clone()).await.unwrap(), map, "a PUT of the same");
            assert_eq!(client.update(config_map("a", "v", "2")).await.unwrap(), map, "an unconditional PUT of the same");
            assert_eq!(client.patch::<ConfigMap>(&key("a"), Patch::merge(json!({"data": {"v": "2"}}))).await.unwrap(), map);
            assert_eq!(client.patch::<ConfigMap>(&key("a"), Patch::json(json!([]))).await.unwrap(), map);
            assert_eq!(refused(client.update::<ConfigMap>(old).await).code, 409);
            assert_eq!(refused(client.create(config_map("a", "v", "1")).await).code, 409);
            let invalid = changed(&*map, |map| map.metadata.annotations = Some([("a".into(), "x".repeat(300_000))].into()));
            assert_eq!(refused(client.update(invalid).await).code, 422);
            let other = Arc::new(config_map("a", "v", "3"));
            let new = Arc::new(config_map("b", "v", "3"));
            let dry: [Call<ConfigMap>; 4] = [
                Call::Update { key: key("a"), body: other, subresource: None, dry: Dry::Run },
                Call::Create { namespace: Some("default".into()), body: new, dry: Dry::Run },
                Call::Patch { key: key("a"), patch: Patch::merge(json!({"data": null})), subresource: None, dry: Dry::Run },
                Call::Delete { key: key("a"), options: kube_machinery::api::DeleteOptions { dry: Dry::Run, ..Default::default() } },
            ];
            for call in dry {
                client.send(call.into()).await.unwrap();
            }
            assert_eq!(client.get::<ConfigMap>(&key("a")).await.unwrap(), map);
            assert!(client.get::<ConfigMap>(&key("b")).await.unwrap_err().is_not_found());
        })
        .await;
        silent::<Pod, _>(&bed, async || {
            let options = kube_machinery::api::DeleteOptions { dry: Dry::Run, ..grace(0) };
            client.delete::<Pod>(&key("p"), options).await.unwrap();
            client.get::<Pod>(&key("p")).await.unwrap();
        })
        .await;
    });
}

#[test]
fn k041_a_deleted_event_has_the_last_state_and_the_revision_of_the_deletion() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            let mut maps = watch::<ConfigMap>(&reader, after(bed.revision())).await;
            let mut pods = watch::<Pod>(&reader, after(bed.revision())).await;

            writer.create(config_map("a", "v", "1")).await.unwrap();
            let last = writer.update(config_map("a", "v", "2")).await.unwrap();
            bed.cluster.burn_revisions(seed);
            writer.delete::<ConfigMap>(&key("a"), Default::default()).await.unwrap();
            let revision = bed.revision();
            assert!(revision > rv(&*last));
            let heard = hear(&bed, &mut maps, secs(5)).await;
            let Some(WatchEvent::Deleted(map)) = heard.events.last() else { panic!("{:?}", heard.all()) };
            assert_eq!(**map, changed(&*last, |map| map.metadata.resource_version = Some(revision.to_string())));

            // A removal by the update that drops the last finalizer.
            let held = changed(&config_map("b", "v", "1"), |map| map.metadata.finalizers = Some(vec!["example.com/hold".into()]));
            writer.create(held).await.unwrap();
            let last = writer.delete::<ConfigMap>(&key("b"), Default::default()).await.unwrap().unwrap();
            writer.update(changed(&*last, |map| map.metadata.finalizers = None)).await.unwrap();
            let revision = bed.revision();
            let heard = hear(&bed, &mut maps, secs(5)).await;
            let [WatchEvent::Added(_), WatchEvent::Modified(modified), WatchEvent::Deleted(map)] = &heard.events[..] else {
                panic!("{:?}", heard.all())
            };
            assert_eq!((modified, rv(&**map)), (&last, revision));
            assert_eq!((uid(&**map), &map.metadata.deletion_timestamp), (uid(&*last), &last.metadata.deletion_timestamp));

            // A pod, which is first marked as terminating.
            let created = writer.create(pod("p", "n1")).await.unwrap();
            writer.delete::<Pod>(&key("p"), grace(0)).await.unwrap();
            let heard = hear(&bed, &mut pods, secs(5)).await;
            let [WatchEvent::Added(_), WatchEvent::Modified(marked), WatchEvent::Deleted(gone)] = &heard.events[..] else {
                panic!("{:?}", heard.all())
            };
            assert!(marked.metadata.deletion_timestamp.is_some() && rv(&**marked) > rv(&*created));
            assert_eq!(**gone, changed(&**marked, |pod| pod.metadata.resource_version = Some(bed.revision().to_string())));
            assert!(rv(&**gone) > rv(&**marked));
        });
    }
}

#[test]
fn k045_a_watch_from_the_future_skips_silently_up_to_its_start() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let writer = bed.client_on("writer", 0);
            writer.create(config_map("a", "v", "0")).await.unwrap();
            let future = bed.revision() + 5;
            let mut streams = Vec::new();
            for number in 0..2 {
                let reader = bed.client_on("reader", number);
                streams.push(watch::<ConfigMap>(&reader, with_bookmarks(after(future))).await);
            }
            // A server that lags is asked for a version that another one has shown.
            bed.cluster.set_frozen(1, None, true);
            for round in 1..=10 {
                set(&writer, "a", round).await;
            }
            let shown = bed.revision();
            let mut lagging = watch::<ConfigMap>(&bed.client_on("reader", 1), with_bookmarks(after(shown))).await;
            set(&writer, "a", "last").await;
            bed.wait(secs(5)).await;
            bed.cluster.set_frozen(1, None, false);
            bed.wait(secs(200)).await;
            for stream in &mut streams {
                let heard = hear(&bed, stream, secs(5)).await;
                assert_eq!(heard.lines(), truth::<ConfigMap>(&bed, future, |_| true));
                assert_eq!(heard.lines().len(), 6);
                assert!(heard.bookmarks().iter().all(|&revision| revision > future));
            }
            assert_eq!(hear(&bed, &mut lagging, secs(5)).await.lines(), truth::<ConfigMap>(&bed, shown, |_| true));
        });
    }
}

#[test]
fn k058_a_name_that_is_used_again_is_deleted_and_added() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            let labelled = changed(&config_map("a", "v", "0"), |map| map.metadata.labels = Some([("switch".into(), "on".into())].into()));
            let start = bed.revision();
            let mut streams =
                [watch::<ConfigMap>(&reader, after(start)).await, watch::<ConfigMap>(&reader, on("switch=on", after(start))).await];
            if seed % 2 == 0 {
                bed.cluster.set_frozen(1, None, true);
            }
            let mut uids = Vec::new();
            for _ in 0..10 {
                uids.push(uid(&*writer.create(labelled.clone()).await.unwrap()));
                writer.delete::<ConfigMap>(&key("a"), Default::default()).await.unwrap();
            }
            bed.wait(secs(5)).await;
            bed.cluster.set_frozen(1, None, false);
            for stream in &mut streams {
                let heard = hear(&bed, stream, secs(5)).await;
                let seen = heard.events.iter().map(|event| match event {
                    WatchEvent::Added(map) => ("ADDED", uid(&**map)),
                    WatchEvent::Deleted(map) => ("DELETED", uid(&**map)),
                    other => panic!("{other:?}"),
                });
                let expected: Vec<_> = uids.iter().flat_map(|uid| [("ADDED", uid.clone()), ("DELETED", uid.clone())]).collect();
                assert_eq!(seen.collect::<Vec<_>>(), expected);
            }
        });
    }
}
