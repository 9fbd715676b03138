//! K §10.3: bookmarks.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::ClientExt;
use kube_machinery::api::WatchOptions;
use kube_sim::testbed::{Testbed, config_map};

use super::support::*;

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
            // This is the purpose of resuming a watch from a bookmark: its start is no longer in the history.
            bed.cluster.compact(bed.revision());
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
fn k049_no_bookmark_comes_before_the_timeout_if_nothing_happened_since_the_watch_began() {
    for changes in [false, true] {
        Testbed::run(1, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.wait(secs(5)).await;
            let options = WatchOptions { timeout_seconds: Some(6), ..after(bed.revision()) };
            let mut stream = watch::<ConfigMap>(&reader, with_bookmarks(options)).await;
            if changes {
                set(&writer, "a", 1).await;
            }
            let heard = hear_for(&bed, &mut stream, secs(10)).await;
            assert!(heard.ended_cleanly());
            assert_eq!(heard.bookmarks().is_empty(), !changes);
        });
    }
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
            bed.cluster.set_extra_lag(1, None, secs(seed % 4 * 10));
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
            bed.cluster.set_extra_lag(1, None, secs(20));
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
