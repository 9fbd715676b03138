//! K §10.3: a WATCH that begins with the current state.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{Reason, VersionMatch, WatchEvent, WatchOptions};
use kube_machinery::{Client, ClientExt};
use kube_sim::testbed::{Testbed, config_map, pod};

use super::support::*;

#[test]
fn k042_a_watch_from_zero_starts_with_the_cached_state_however_stale() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let writer = bed.client_on("writer", 0);
            churn(bed.clone(), writer.clone(), 20).await;
            bed.wait(secs(5)).await;
            let frozen_at = bed.revision();
            bed.cluster.set_frozen(1, None, true);
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
            bed.cluster.set_frozen(1, None, false);
            for (revision, mut stream) in streams {
                assert_eq!(hear(&bed, &mut stream, secs(5)).await.lines(), truth::<ConfigMap>(&bed, revision, |_| true));
            }
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

/// Splits the received elements at the bookmark that ends the initial state; also returns the bookmark's revision.
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
fn k056_a_server_that_ends_a_stream_sends_no_more_of_its_initial_state() {
    let mut cut_short = 0;
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            churn(bed.clone(), writer, 20).await;
            bed.wait(secs(5)).await;
            let mut stream = watch::<ConfigMap>(&reader, initial_events(None)).await;
            bed.cluster.close_watches(1, None, None);
            let heard = hear(&bed, &mut stream, secs(5)).await;
            assert!(heard.ended_cleanly());
            let is_end = |event: &WatchEvent<ConfigMap>| matches!(event, WatchEvent::Bookmark { initial_events_end: true, .. });
            cut_short += u32::from(!heard.events.iter().any(is_end));
        });
    }
    assert!(cut_short > 0, "every stream brought all of its state");
}

#[test]
fn k057_initial_events_without_rv_are_not_older_than_the_request() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            bed.cluster.set_extra_lag(1, None, millis(100 * seed));
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
