//! K §10.3: WATCH.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipam_core::api::{Call, Dry, Patch, Reason, Verb, VersionMatch, WatchEvent, WatchOptions};
use ipam_core::{Client, ClientExt, WatchStream};
use ipam_sim::cluster::server::{ApiFault, Failure, Mishap};
use ipam_sim::cluster::{Knobs, SimWatch};
use ipam_sim::net::Side;
use ipam_sim::testbed::{Testbed, config_map, grace, key, pod};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use parking_lot::Mutex;
use serde_json::json;

use super::support::*;

fn label(map: &ConfigMap, key: &str) -> String {
    map.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
}

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
                // Some start in the past, some while changes are on their way.
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
            bed.fabric.set_extra_lag(1, None, millis(20));
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
            bed.fabric.set_extra_lag(1, None, millis(100 * seed));
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
                Call::Delete { key: key("a"), options: ipam_core::api::DeleteOptions { dry: Dry::Run, ..Default::default() } },
            ];
            for call in dry {
                client.send(call.into()).await.unwrap();
            }
            assert_eq!(client.get::<ConfigMap>(&key("a")).await.unwrap(), map);
            assert!(client.get::<ConfigMap>(&key("b")).await.unwrap_err().is_not_found());
        })
        .await;
        silent::<Pod, _>(&bed, async || {
            let options = ipam_core::api::DeleteOptions { dry: Dry::Run, ..grace(0) };
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
            bed.fabric.burn_revisions(seed);
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

            // A pod, which is marked first.
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
fn k042_a_watch_from_zero_starts_with_the_cached_state_however_stale() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let writer = bed.client_on("writer", 0);
            churn(bed.clone(), writer.clone(), 20).await;
            bed.wait(secs(5)).await;
            let frozen_at = bed.revision();
            bed.fabric.set_frozen(1, None, true);
            churn(bed.clone(), writer.clone(), 20).await;
            bed.wait(secs(5)).await;
            let fresh_at = bed.revision();
            let mut streams = Vec::new();
            for (number, revision) in [(0, fresh_at), (1, frozen_at)] {
                for version in [None, Some("0")] {
                    let client = bed.client_on("reader", number);
                    let options = WatchOptions { resource_version: version.map(str::to_owned), ..WatchOptions::default() };
                    let mut stream = watch::<ConfigMap>(&client, options).await;
                    let initial = hear(&bed, &mut stream, secs(5)).await;
                    let mut expected: Vec<Line> =
                        state_at::<ConfigMap>(&bed, revision).into_iter().map(|(key, revision)| ("ADDED", key, revision)).collect();
                    let mut lines = initial.lines();
                    expected.sort();
                    lines.sort();
                    assert_eq!(lines, expected, "server {number}");
                    streams.push((revision, stream));
                }
            }
            churn(bed.clone(), writer.clone(), 20).await;
            bed.fabric.set_frozen(1, None, false);
            for (revision, mut stream) in streams {
                assert_eq!(hear(&bed, &mut stream, secs(5)).await.lines(), truth::<ConfigMap>(&bed, revision, |_| true));
            }
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
            // A server that lags is asked for what another one has shown.
            bed.fabric.set_frozen(1, None, true);
            for round in 1..=10 {
                set(&writer, "a", round).await;
            }
            let shown = bed.revision();
            let mut lagging = watch::<ConfigMap>(&bed.client_on("reader", 1), with_bookmarks(after(shown))).await;
            set(&writer, "a", "last").await;
            bed.wait(secs(5)).await;
            bed.fabric.set_frozen(1, None, false);
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
fn k046_an_object_that_begins_to_match_is_added_with_its_new_content() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            let created = writer.create(pod("p", "n1")).await.unwrap();
            bed.wait(secs(3_600)).await;
            let mut maps = watch::<ConfigMap>(&reader, on("switch=on", after(bed.revision()))).await;
            let fields = Some("status.phase=Failed".to_owned());
            let mut pods = watch::<Pod>(&reader, WatchOptions { field_selector: fields, ..after(bed.revision()) }).await;
            set(&writer, "a", 1).await;
            let patch = Patch::merge(json!({"metadata": {"labels": {"switch": "on"}}, "data": {"v": "2"}}));
            let matching = writer.patch::<ConfigMap>(&key("a"), patch).await.unwrap();
            let failed = Patch::merge(json!({"status": {"phase": "Failed"}}));
            let failed = writer.patch_status::<Pod>(&key("p"), failed).await.unwrap();
            let heard = hear(&bed, &mut maps, secs(5)).await;
            let [WatchEvent::Added(map)] = &heard.events[..] else { panic!("{:?}", heard.all()) };
            assert_eq!(map, &matching);
            let heard = hear(&bed, &mut pods, secs(5)).await;
            let [WatchEvent::Added(pod)] = &heard.events[..] else { panic!("{:?}", heard.all()) };
            assert_eq!((pod, uid(&**pod)), (&failed, uid(&*created)));
            // While it matches, changes are changes.
            let patch = Patch::merge(json!({"data": {"v": "3"}}));
            let modified = writer.patch::<ConfigMap>(&key("a"), patch).await.unwrap();
            let heard = hear(&bed, &mut maps, secs(5)).await;
            assert_eq!(heard.lines(), [("MODIFIED", "default/a".to_owned(), rv(&*modified))]);
        });
    }
}

#[test]
fn k047_an_object_that_ceases_to_match_is_deleted_with_its_old_content_and_still_exists() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            let body = changed(&config_map("a", "v", "0"), |map| map.metadata.labels = Some([("switch".into(), "on".into())].into()));
            let old = writer.create(body).await.unwrap();
            let mut live = watch::<ConfigMap>(&reader, on("switch=on", after(bed.revision()))).await;
            let start = bed.revision();
            let patch = Patch::merge(json!({"metadata": {"labels": {"switch": "off"}}, "data": {"v": "1"}}));
            let new = writer.patch::<ConfigMap>(&key("a"), patch).await.unwrap();
            bed.wait(secs(5)).await;
            // The same for a watch that replays the past.
            let mut replayed = watch::<ConfigMap>(&bed.client_on("later", 1), on("switch=on", after(start))).await;
            for stream in [&mut live, &mut replayed] {
                let heard = hear(&bed, stream, secs(5)).await;
                let [WatchEvent::Deleted(map)] = &heard.events[..] else { panic!("{:?}", heard.all()) };
                assert_eq!(**map, changed(&*old, |map| map.metadata.resource_version = new.metadata.resource_version.clone()));
            }
            assert_eq!(reader.get::<ConfigMap>(&key("a")).await.unwrap(), new);
            assert_eq!(reader.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap(), new);
            // The real deletion is none of this watch's business any more.
            writer.delete::<ConfigMap>(&key("a"), Default::default()).await.unwrap();
            assert_eq!(hear(&bed, &mut live, secs(5)).await.all(), []);
        });
    }
}

#[test]
fn k048_bookmarks_advance_on_a_stream_without_events() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            let start = bed.revision();
            let mut stream = watch::<ConfigMap>(&reader, with_bookmarks(on("never=matches", after(start)))).await;
            let mut marks = vec![start];
            for round in 0..6 {
                set(&writer, "a", round).await;
                let heard = hear_for(&bed, &mut stream, secs(120)).await;
                assert!(heard.lines().is_empty() && heard.is_open());
                marks.extend(heard.bookmarks());
                assert_eq!(marks.last(), Some(&bed.revision()), "the bookmark has caught up");
                reader.list::<ConfigMap>(None, at("0")).await.unwrap();
            }
            assert!(marks.is_sorted(), "{marks:?}");
            // What a watch is resumed from a bookmark for: the history has passed its start.
            bed.fabric.compact(bed.revision());
            let mut resumed = watch::<ConfigMap>(&reader, after(*marks.last().unwrap())).await;
            let next = set(&writer, "a", "next").await;
            assert_eq!(hear(&bed, &mut resumed, secs(5)).await.lines(), [("MODIFIED", "default/a".to_owned(), next)]);
        });
    }
}

#[test]
fn k049_no_bookmarks_are_sent_to_whoever_did_not_ask() {
    Testbed::run(1, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        writer.create(config_map("a", "v", "0")).await.unwrap();
        let mut stream = watch::<ConfigMap>(&reader, after(bed.revision())).await;
        for round in 0..10 {
            set(&writer, "a", round).await;
            assert!(hear_for(&bed, &mut stream, secs(90)).await.bookmarks().is_empty());
        }
    });
}

#[test]
fn k049_a_bookmark_promises_exactly_what_was_sent_before_it() {
    let mut bookmarks = 0;
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.wait(secs(5)).await;
            let start = bed.revision();
            // Changes are always on their way to the cache when a bookmark is due, and some of them are not selected.
            bed.fabric.set_extra_lag(1, None, secs(seed % 4 * 10));
            let everything = seed % 2 == 0;
            let options = with_bookmarks(after(start));
            let mut stream = watch::<ConfigMap>(&reader, if everything { options } else { on("switch=on", options) }).await;
            let writing = spawn(&bed, &writer, {
                let (bed, writer) = (bed.clone(), writer.clone());
                async move {
                    for round in 0..200 {
                        let labels = Some([("switch".into(), if round % 5 == 0 { "off" } else { "on" }.into())].into());
                        let map = changed(&config_map("a", "v", &round.to_string()), |map| map.metadata.labels = labels);
                        writer.update(map).await.unwrap();
                        bed.rt.sleep(millis(2_900)).await;
                    }
                }
            });
            let heard = hear_for(&bed, &mut stream, secs(620)).await;
            writing.await;
            let wanted = |map: &ConfigMap| everything || label(map, "switch") == "on";
            assert!(heard.is_open());
            assert_eq!(heard.lines(), truth::<ConfigMap>(&bed, start, wanted));
            let all = heard.all();
            for (index, (what, _, revision)) in all.iter().enumerate() {
                assert!(index == 0 || all[index - 1].2 <= *revision, "the stream goes back at {:?}", &all[index - 1..=index]);
                if *what == "BOOKMARK" {
                    bookmarks += 1;
                    let rest: Vec<Line> = all[index + 1..].iter().filter(|(what, ..)| *what != "BOOKMARK").cloned().collect();
                    assert_eq!(rest, truth::<ConfigMap>(&bed, *revision, wanted), "resuming from {revision} misses or repeats");
                }
            }
            let marks = heard.bookmarks().len();
            assert!((8..=12).contains(&marks), "{marks} bookmarks in ten minutes");
        });
    }
    assert!(bookmarks > 100);
}

#[test]
fn k049_a_bookmark_does_not_run_ahead_of_the_cache() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.fabric.set_extra_lag(1, None, secs(20));
            let mut stream = watch::<ConfigMap>(&reader, with_bookmarks(on("never=matches", after(bed.revision())))).await;
            for round in 0..100 {
                set(&writer, "a", round).await;
                for bookmark in hear_for(&bed, &mut stream, millis(3_000 + 77 * seed)).await.bookmarks() {
                    let list = reader.list::<ConfigMap>(None, at("0")).await.unwrap();
                    let cached: u64 = list.resource_version.parse().unwrap();
                    assert!(cached >= bookmark, "bookmark {bookmark}, but the cache has {cached}");
                }
            }
        });
    }
}

#[test]
fn k050_a_watch_ends_cleanly_at_its_timeout() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            for timeout in [1, 30, 61, 300, 600] {
                let start = bed.revision();
                let opened = bed.rt.now();
                let options = with_bookmarks(WatchOptions { timeout_seconds: Some(timeout), ..after(start) });
                let mut stream = watch::<ConfigMap>(&reader, options).await;
                let mut marks = Vec::new();
                let mut lines = Vec::new();
                let end = loop {
                    let heard = hear_for(&bed, &mut stream, secs(1)).await;
                    lines.extend(heard.lines());
                    marks.extend(heard.bookmarks().iter().map(|_| bed.rt.now().since(opened)));
                    if heard.end.is_some() {
                        break heard.end;
                    }
                    set(&writer, "a", bed.revision()).await;
                };
                assert_eq!(end, Some(Ok(())));
                let took = bed.rt.now().since(opened);
                assert!(took >= secs(u64::from(timeout)) && took < secs(u64::from(timeout) + 2), "{took:?} for {timeout} s");
                assert!(truth::<ConfigMap>(&bed, start, |_| true).starts_with(&lines));
                if timeout >= 30 {
                    let last = took - *marks.last().expect("a bookmark shortly before the end");
                    assert!(last > millis(500) && last < secs(4), "the last bookmark came {last:?} before the end");
                }
            }
        });
    }
}

#[test]
fn k050_a_watch_without_timeout_lives_30_to_60_minutes() {
    let mut lives = BTreeSet::new();
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let reader = bed.client("reader");
            let opened = bed.rt.now();
            // 0 is what a client sends that asks for none.
            let timeout_seconds = (seed % 2 == 0).then_some(0);
            let options = WatchOptions { timeout_seconds, ..after(bed.revision()) };
            let mut stream = watch::<ConfigMap>(&reader, options).await;
            let heard = hear(&bed, &mut stream, secs(4_000)).await;
            assert!(heard.ended_cleanly() && heard.events.is_empty());
            let life = bed.rt.now().since(opened);
            assert!(life >= secs(1_800) && life < secs(3_602), "{life:?}");
            lives.insert(life.as_secs() / 300);
        });
    }
    assert!(lives.len() >= 4, "the ends are spread: {lives:?}");
}

#[test]
fn k050_a_reader_that_comes_late_finds_nothing_from_after_the_timeout() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            let start = bed.revision();
            let options = WatchOptions { timeout_seconds: Some(10), ..after(start) };
            let mut stream = watch::<ConfigMap>(&reader, options).await;
            set(&writer, "a", 1).await;
            bed.wait(secs(20)).await;
            set(&writer, "a", 2).await;
            bed.wait(secs(20)).await;
            let heard = hear(&bed, &mut stream, secs(5)).await;
            assert_eq!((heard.lines().len(), heard.ended_cleanly()), (1, true), "{:?}", heard.all());
        });
    }
}

#[test]
fn k051_events_of_two_types_may_be_swapped_but_never_of_one() {
    let mut swapped = 0;
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            let arrivals: Arc<Mutex<Vec<(&str, u64)>>> = Arc::default();
            let mut maps = watch::<ConfigMap>(&reader, after(bed.revision())).await;
            let mut pods = watch::<Pod>(&reader, after(bed.revision())).await;
            let (of_maps, of_pods) = (arrivals.clone(), arrivals.clone());
            bed.rt.spawn(reader.process(), async move {
                while let Some(Ok(event)) = maps.next().await {
                    of_maps.lock().push(("maps", line(&event).2));
                }
            });
            bed.rt.spawn(reader.process(), async move {
                while let Some(Ok(event)) = pods.next().await {
                    of_pods.lock().push(("pods", line(&event).2));
                }
            });
            for round in 0..20 {
                writer.create(config_map(&format!("m{round}"), "v", "0")).await.unwrap();
                writer.create(pod(&format!("p{round}"), "n1")).await.unwrap();
            }
            bed.wait(secs(5)).await;
            let arrivals = arrivals.lock().clone();
            assert_eq!(arrivals.len(), 40);
            swapped += arrivals.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
            for of in ["maps", "pods"] {
                let own: Vec<u64> = arrivals.iter().filter(|(kind, _)| *kind == of).map(|&(_, revision)| revision).collect();
                assert!(own.is_sorted() && own.len() == 20, "{own:?}");
            }
        });
    }
    assert!(swapped > 10, "only {swapped} events overtook one of the other type");
}

#[test]
fn k052_an_event_can_come_before_the_reply_to_its_writer() {
    let mut before = 0;
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            let arrivals: Arc<Mutex<Vec<u64>>> = Arc::default();
            let mut maps = watch::<ConfigMap>(&reader, after(bed.revision())).await;
            let of_maps = arrivals.clone();
            bed.rt.spawn(reader.process(), async move {
                while let Some(Ok(event)) = maps.next().await {
                    of_maps.lock().push(line(&event).2);
                }
            });
            writer.create(config_map("a", "v", "0")).await.unwrap();
            for round in 0..100 {
                let revision = set(&writer, "a", round).await;
                before += usize::from(arrivals.lock().contains(&revision));
            }
        });
    }
    assert!(before > 5, "{before} of {} events came before the reply", SEEDS.end * 100);
}

#[test]
fn k052_an_event_comes_although_its_writer_got_an_error() {
    for (seed, error) in SEEDS
        .zip([Failure::EtcdTimeout, Failure::LeaderChanged, Failure::Timeout, Failure::ServerTimeout, Failure::Reset].into_iter().cycle())
    {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            let mut stream = watch::<ConfigMap>(&reader, after(bed.revision())).await;
            let late = seed % 2 == 1;
            let after = secs(20);
            let mishap = if late { Mishap::CommitLate { error, after } } else { Mishap::LoseReply { error, after } };
            let (servers, clients) = (Side::Any, Side::Only(vec![writer.process()]));
            bed.fabric.add_api_fault(ApiFault {
                fault: 0,
                servers,
                clients,
                verbs: vec![Verb::Create],
                kinds: vec![],
                chance: 1.0,
                mishap,
            });
            let answer = spawn(&bed, &writer, {
                let writer = writer.clone();
                async move { writer.create(config_map("a", "v", "0")).await }
            });
            let mut answer = Box::pin(answer);
            // The event comes 20 s before the error, or 20 s after it.
            if late {
                let error = within(&bed, secs(5), answer.as_mut()).await.expect("the error comes at once").unwrap_err();
                assert!(error.is_ambiguous(), "{error:?}");
                assert!(hear_for(&bed, &mut stream, secs(10)).await.lines().is_empty());
            }
            let heard = hear_for(&bed, &mut stream, secs(15)).await;
            assert_eq!(heard.lines(), [("ADDED", "default/a".to_owned(), bed.revision())]);
            if !late {
                let error = answer.await.unwrap_err();
                assert!(error.is_ambiguous(), "{error:?}");
            }
        });
    }
}

#[test]
fn k053_a_frozen_cache_delivers_nothing_and_then_everything() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let writer = bed.client_on("writer", 0);
            writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.fabric.set_extra_lag(1, None, millis(200 * (seed % 3)));
            let start = bed.revision();
            let mut frozen = watch::<ConfigMap>(&bed.client_on("frozen", 1), with_bookmarks(after(start))).await;
            let mut fresh = watch::<ConfigMap>(&bed.client_on("fresh", 0), after(start)).await;
            let mut other_type = watch::<Pod>(&bed.client_on("other", 1), after(start)).await;
            for round in 0..20 {
                set(&writer, "a", round).await;
            }
            bed.fabric.set_frozen(1, Some(bed.kind::<ConfigMap>()), true);
            // What the cache had is still on its way to the client.
            let mut lines = hear_for(&bed, &mut frozen, secs(2)).await.lines();
            for round in 20..60 {
                set(&writer, "a", round).await;
            }
            writer.create(pod("p", "n1")).await.unwrap();
            let heard = hear_for(&bed, &mut frozen, secs(1_500)).await;
            assert!(heard.all().is_empty() && heard.is_open(), "{:?}", heard.all());
            let all = truth::<ConfigMap>(&bed, start, |_| true);
            assert_eq!(hear(&bed, &mut fresh, secs(5)).await.lines(), all);
            assert_eq!(hear(&bed, &mut other_type, secs(5)).await.lines().len(), 1);
            bed.fabric.set_frozen(1, Some(bed.kind::<ConfigMap>()), false);
            let heard = hear(&bed, &mut frozen, secs(5)).await;
            assert!(heard.is_open());
            lines.extend(heard.lines());
            assert_eq!(lines, all);
        });
    }
}

#[test]
fn k053_a_change_on_its_way_into_a_cache_that_freezes_is_held_too() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.wait(secs(5)).await;
            bed.fabric.set_extra_lag(1, None, secs(5));
            let start = bed.revision();
            let mut early = watch::<ConfigMap>(&reader, with_bookmarks(after(start))).await;
            for round in 0..5 {
                set(&writer, "a", round).await;
            }
            let mut middle = watch::<ConfigMap>(&reader, after(start)).await;
            bed.wait(millis(100 * seed)).await;
            bed.fabric.set_frozen(1, None, true);
            let mut late = watch::<ConfigMap>(&reader, after(start)).await;
            for stream in [&mut early, &mut middle, &mut late] {
                let heard = hear_for(&bed, stream, secs(120)).await;
                assert!(heard.lines().is_empty() && heard.is_open(), "{:?}", heard.all());
            }
            bed.fabric.set_frozen(1, None, false);
            for stream in [&mut early, &mut middle, &mut late] {
                assert_eq!(hear(&bed, stream, secs(10)).await.lines(), truth::<ConfigMap>(&bed, start, |_| true));
            }
        });
    }
}

#[test]
fn k054_a_slow_readers_stream_is_closed_and_can_be_resumed() {
    for seed in SEEDS {
        Testbed::run_with(config(seed, Knobs { watch_buffer: 10, ..Knobs::default() }), 2, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            let start = bed.revision();
            let mut slow = watch::<ConfigMap>(&reader, after(start)).await;
            let mut prompt = watch::<ConfigMap>(&bed.client_on("prompt", 1), after(start)).await;
            let mut promptly = Vec::new();
            for round in 1..=50 {
                set(&writer, "a", round).await;
                promptly.extend(hear(&bed, &mut prompt, secs(1)).await.lines());
            }
            let all = truth::<ConfigMap>(&bed, start, |_| true);
            assert_eq!(promptly, all, "the prompt reader is not disturbed");
            let heard = hear(&bed, &mut slow, secs(100)).await;
            assert!(heard.ended_cleanly(), "{:?}", heard.end);
            let lines = heard.lines();
            assert_eq!((all.len(), &lines[..]), (50, &all[..10]), "what was in the buffer still arrives");
            let last = lines.last().unwrap().2;
            let mut resumed = watch::<ConfigMap>(&reader, after(last)).await;
            assert_eq!(hear(&bed, &mut resumed, secs(5)).await.lines(), all[lines.len()..]);
        });
    }
}

#[test]
fn k054_a_bookmark_does_not_make_a_full_buffer_overflow() {
    Testbed::run_with(config(1, Knobs { watch_buffer: 10, ..Knobs::default() }), 2, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        writer.create(config_map("a", "v", "0")).await.unwrap();
        let start = bed.revision();
        let mut stream = watch::<ConfigMap>(&reader, with_bookmarks(after(start))).await;
        for round in 1..=10 {
            set(&writer, "a", round).await;
        }
        bed.wait(secs(90)).await;
        let heard = hear_for(&bed, &mut stream, secs(200)).await;
        assert!(heard.is_open() && !heard.bookmarks().is_empty());
        assert_eq!(heard.lines(), truth::<ConfigMap>(&bed, start, |_| true));
    });
}

#[test]
fn k055_a_watch_hears_of_its_namespace_and_name_only() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client("client");
            let start = bed.revision();
            let mut streams = Vec::new();
            for (namespace, fields) in [
                (Some("default"), None),
                (Some("other"), None),
                (None, Some("churn-1")),
                (Some("other"), Some("churn-2")),
                (Some("empty"), None),
            ] {
                let field_selector = fields.map(|name| format!("metadata.name={name}"));
                let options = WatchOptions { field_selector, ..after(start) };
                let stream: SimWatch<ConfigMap> = client.watch(namespace.map(Arc::from), options).await.unwrap();
                streams.push((namespace, fields, stream));
            }
            churn(bed.clone(), client.clone(), 60).await;
            let mut seen = 0;
            for (namespace, fields, mut stream) in streams {
                let heard = hear(&bed, &mut stream, secs(5)).await;
                let expected = truth::<ConfigMap>(&bed, start, |map| {
                    namespace.is_none_or(|namespace| map.metadata.namespace.as_deref() == Some(namespace))
                        && fields.is_none_or(|own| name(map) == own)
                });
                assert_eq!(heard.lines(), expected);
                assert!(namespace != Some("empty") || expected.is_empty());
                seen += expected.len();
            }
            assert!(seen > 10);
        });
    }
}

fn initial_events(version: Option<u64>) -> WatchOptions {
    WatchOptions {
        resource_version: version.map(|version| version.to_string()),
        resource_version_match: Some(VersionMatch::NotOlderThan),
        send_initial_events: true,
        allow_bookmarks: true,
        ..WatchOptions::default()
    }
}

/// Splits what was heard at the bookmark that ends the initial state; returns it with the bookmark's revision.
fn initial_state(heard: &Heard<ConfigMap>) -> (StateOf, u64, Vec<Line>) {
    let mut marks = heard.events.iter().enumerate().filter_map(|(index, event)| match event {
        WatchEvent::Bookmark { resource_version, initial_events_end: true } => Some((index, resource_version.parse().unwrap())),
        _ => None,
    });
    let (index, revision) = marks.next().expect("the end of the initial state is marked");
    assert!(marks.next().is_none(), "marked once");
    let lines = heard.all();
    assert!(lines[..index].iter().all(|(what, ..)| *what == "ADDED"));
    (lines[..index].iter().map(|(_, key, revision)| (key.clone(), *revision)).collect(), revision, lines[index + 1..].to_vec())
}

#[test]
fn k056_initial_events_are_the_state_a_marked_bookmark_and_what_follows() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            churn(bed.clone(), writer.clone(), 20).await;
            for version in [None, Some(0), Some(1), Some(bed.revision())] {
                let mut stream = watch::<ConfigMap>(&reader, initial_events(version)).await;
                churn(bed.clone(), writer.clone(), 10).await;
                let heard = hear(&bed, &mut stream, secs(5)).await;
                let (state, revision, live) = initial_state(&heard);
                assert_eq!(state, state_at::<ConfigMap>(&bed, revision));
                assert!(revision >= version.unwrap_or(0));
                assert_eq!(live, truth::<ConfigMap>(&bed, revision, |_| true));
            }
            for (options, field) in [
                (WatchOptions { resource_version_match: None, ..initial_events(None) }, "resourceVersionMatch"),
                (WatchOptions { resource_version_match: Some(VersionMatch::Exact), ..initial_events(Some(1)) }, "resourceVersionMatch"),
                (WatchOptions { send_initial_events: false, ..initial_events(Some(1)) }, "resourceVersionMatch"),
            ] {
                let status = refused(reader.watch::<ConfigMap>(None, options).await.map(drop));
                assert_eq!((status.code, status.reason), (422, Reason::Invalid));
                assert_eq!(status.details.causes[0].field, field);
                assert!(status.message().contains(&format!("{field}: Forbidden: ")), "{status}");
            }
        });
    }
}

#[test]
fn k057_initial_events_without_rv_are_not_older_than_the_request() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            bed.fabric.set_extra_lag(1, None, millis(100 * seed));
            for round in 0..5 {
                writer.create(config_map(&format!("m{round}"), "v", "0")).await.unwrap();
                if round % 2 == 0 {
                    writer.create(pod(&format!("p{round}"), "n1")).await.unwrap();
                }
                let asked = bed.revision();
                let mut stream = watch::<ConfigMap>(&reader, initial_events(None)).await;
                let (state, revision, _) = initial_state(&hear(&bed, &mut stream, secs(5)).await);
                assert!(revision >= asked, "{revision} is older than {asked}");
                assert_eq!(state, state_at::<ConfigMap>(&bed, asked));
            }
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
                bed.fabric.set_frozen(1, None, true);
            }
            let mut uids = Vec::new();
            for _ in 0..10 {
                uids.push(uid(&*writer.create(labelled.clone()).await.unwrap()));
                writer.delete::<ConfigMap>(&key("a"), Default::default()).await.unwrap();
            }
            bed.wait(secs(5)).await;
            bed.fabric.set_frozen(1, None, false);
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
