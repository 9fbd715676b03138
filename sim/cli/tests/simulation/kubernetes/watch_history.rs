//! K §10.3: a WATCH from a revision that is older than the history in its server's cache.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{Reason, WatchEvent};
use kube_machinery::{Client, ClientExt};
use kube_sim::cluster::Knobs;
use kube_sim::testbed::{Testbed, config_map};

use super::support::*;

fn check_expired(heard: &Heard<ConfigMap>, from: u64) {
    let [WatchEvent::Error(status)] = &heard.events[..] else { panic!("a single ERROR expected: {:?}", heard.all()) };
    assert_eq!((status.code, status.reason), (410, Reason::Expired));
    assert!(status.message().starts_with(&format!("too old resource version: {from} (")), "{status}");
    assert!(heard.ended_cleanly(), "{:?}", heard.end);
}

#[test]
fn k043_a_watch_from_before_the_history_gets_one_error_and_ends() {
    for seed in SEEDS {
        Testbed::run_with(config(seed, Knobs { history_events: 10, ..Knobs::default() }), 2, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            let start = bed.revision();
            writer.create(config_map("a", "v", "0")).await.unwrap();
            for round in 1..30 {
                set(&writer, "a", round).await;
            }
            let all = truth::<ConfigMap>(&bed, start, |_| true);
            bed.wait(secs(60)).await;
            // Events younger than 75 s are kept, however many there are.
            assert_eq!(hear(&bed, &mut watch::<ConfigMap>(&reader, after(start)).await, secs(5)).await.lines(), all);
            bed.wait(secs(20)).await;
            for (index, (.., revision)) in all.iter().enumerate() {
                let mut stream = watch::<ConfigMap>(&reader, with_bookmarks(after(*revision))).await;
                let heard = hear(&bed, &mut stream, secs(5)).await;
                if index < 19 {
                    check_expired(&heard, *revision);
                } else {
                    // The last events of a quiet type are kept for as long as necessary.
                    assert_eq!(heard.lines(), all[index + 1..]);
                }
            }
            check_expired(&hear(&bed, &mut watch::<ConfigMap>(&reader, after(start)).await, secs(5)).await, start);
            check_expired(&hear(&bed, &mut watch::<ConfigMap>(&reader, on("a=b", after(start))).await, secs(5)).await, start);
        });
    }
}

#[test]
fn k043_a_compaction_does_not_bring_an_old_start_back() {
    Testbed::run_with(config(1, Knobs { history_events: 10, ..Knobs::default() }), 2, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        let start = bed.revision();
        writer.create(config_map("a", "v", "0")).await.unwrap();
        for round in 1..30 {
            set(&writer, "a", round).await;
        }
        let all = truth::<ConfigMap>(&bed, start, |_| true);
        bed.wait(secs(80)).await;
        bed.cluster.compact(bed.revision());
        for (index, (.., revision)) in all.iter().enumerate() {
            let heard = hear(&bed, &mut watch::<ConfigMap>(&reader, after(*revision)).await, secs(5)).await;
            if index < 19 { check_expired(&heard, *revision) } else { assert_eq!(heard.lines(), all[index + 1..]) }
        }
        check_expired(&hear(&bed, &mut watch::<ConfigMap>(&reader, after(start)).await, secs(5)).await, start);
    });
}

#[test]
fn k043_a_cache_that_begins_again_ends_its_watches_and_has_no_history() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            let start = bed.revision();
            let mut maps = watch::<ConfigMap>(&reader, after(start)).await;
            let mut pods = watch::<Pod>(&reader, after(start)).await;
            for round in 0..5 {
                set(&writer, "a", round).await;
            }
            let middle = bed.revision();
            bed.cluster.forget_history(1, Some(bed.kind::<ConfigMap>()));
            let heard = hear(&bed, &mut maps, secs(5)).await;
            let all = truth::<ConfigMap>(&bed, start, |_| true);
            assert!(heard.ended_cleanly() && all.starts_with(&heard.lines()), "{:?}", heard.all());
            assert!(hear(&bed, &mut pods, secs(5)).await.is_open(), "other types go on");
            check_expired(&hear(&bed, &mut watch::<ConfigMap>(&reader, after(start)).await, secs(5)).await, start);
            check_expired(&hear(&bed, &mut watch::<ConfigMap>(&reader, after(middle - 1)).await, secs(5)).await, middle - 1);
            let mut resumed = watch::<ConfigMap>(&reader, after(middle)).await;
            let next = set(&writer, "a", "next").await;
            assert_eq!(hear(&bed, &mut resumed, secs(5)).await.lines(), [("MODIFIED", "default/a".to_owned(), next)]);
        });
    }
}

#[test]
fn k044_a_restarted_server_has_no_history_before_its_initial_list() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let writer = bed.client_on("writer", 0);
            writer.create(config_map("a", "v", "0")).await.unwrap();
            let start = bed.revision();
            set(&writer, "a", 1).await;
            bed.cluster.crash_server(1);
            set(&writer, "a", 2).await;
            bed.wait(secs(5)).await;
            bed.cluster.restart_server(1, secs(10));
            let reader = bed.client_on("reader", 1);
            let status = refused(reader.watch::<ConfigMap>(None, after(start)).await.map(drop));
            assert_eq!((status.code, status.reason), (429, Reason::TooManyRequests), "not ready");
            assert!(status.retry_after_header().is_some());
            let before_list = set(&writer, "a", 3).await;
            bed.wait(secs(11)).await;
            let expected = truth::<ConfigMap>(&bed, start, |_| true);
            for old in [start, start + 1, before_list - 1] {
                check_expired(&hear(&bed, &mut watch::<ConfigMap>(&reader, after(old)).await, secs(5)).await, old);
            }
            let elsewhere = bed.client_on("elsewhere", 0);
            assert_eq!(hear(&bed, &mut watch::<ConfigMap>(&elsewhere, after(start)).await, secs(5)).await.lines(), expected);
            let mut resumed = watch::<ConfigMap>(&reader, after(before_list)).await;
            let next = set(&writer, "a", "next").await;
            assert_eq!(hear(&bed, &mut resumed, secs(5)).await.lines(), [("MODIFIED", "default/a".to_owned(), next)]);
        });
    }
}

#[test]
fn k044_a_restart_that_was_overtaken_by_another_crash_does_nothing() {
    Testbed::run(1, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        writer.create(config_map("a", "v", "0")).await.unwrap();
        bed.cluster.crash_server(1);
        bed.cluster.restart_server(1, secs(60));
        bed.cluster.crash_server(1);
        bed.cluster.restart_server(1, secs(10));
        bed.wait(secs(20)).await;
        let start = bed.revision();
        let mut stream = watch::<ConfigMap>(&reader, after(start)).await;
        bed.cluster.set_frozen(1, None, true);
        set(&writer, "a", 1).await;
        bed.wait(secs(60)).await;
        bed.cluster.set_frozen(1, None, false);
        set(&writer, "a", 2).await;
        let all = truth::<ConfigMap>(&bed, start, |_| true);
        assert_eq!(hear(&bed, &mut stream, secs(5)).await.lines(), all);
        assert_eq!(hear(&bed, &mut watch::<ConfigMap>(&reader, after(start)).await, secs(5)).await.lines(), all);
    });
}
