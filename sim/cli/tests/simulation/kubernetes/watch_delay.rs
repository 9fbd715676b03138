//! K §10.3: the timing of events: relative to those of another type, before the reply to their writer, late, and to a slow reader.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::Verb;
use kube_machinery::{ClientExt, WatchStream};
use kube_sim::cluster::Knobs;
use kube_sim::cluster::server::{ApiFault, Failure, InjectedFault};
use kube_sim::net::Side;
use kube_sim::testbed::{Testbed, config_map, pod};
use parking_lot::Mutex;

use super::support::*;

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
            let injected = if late { InjectedFault::CommitLate { error, after } } else { InjectedFault::LoseReply { error, after } };
            let (servers, clients) = (Side::Any, Side::Only(vec![writer.process()]));
            bed.cluster.add_api_fault(ApiFault {
                fault: 0,
                servers,
                clients,
                verbs: vec![Verb::Create],
                kinds: vec![],
                chance: 1.0,
                injected,
            });
            let answer = spawn(&bed, &writer, {
                let writer = writer.clone();
                async move { writer.create(config_map("a", "v", "0")).await }
            });
            let mut answer = Box::pin(answer);
            // The event arrives 20 s before the error, or 20 s after it.
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
            bed.cluster.set_extra_lag(1, None, millis(200 * (seed % 3)));
            let start = bed.revision();
            let mut frozen = watch::<ConfigMap>(&bed.client_on("frozen", 1), with_bookmarks(after(start))).await;
            let mut fresh = watch::<ConfigMap>(&bed.client_on("fresh", 0), after(start)).await;
            let mut other_type = watch::<Pod>(&bed.client_on("other", 1), after(start)).await;
            for round in 0..20 {
                set(&writer, "a", round).await;
            }
            bed.cluster.set_frozen(1, Some(bed.kind::<ConfigMap>()), true);
            // Events that the cache had are still on their way to the client.
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
            bed.cluster.set_frozen(1, Some(bed.kind::<ConfigMap>()), false);
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
            bed.cluster.set_extra_lag(1, None, secs(5));
            let start = bed.revision();
            let mut early = watch::<ConfigMap>(&reader, with_bookmarks(after(start))).await;
            for round in 0..5 {
                set(&writer, "a", round).await;
            }
            let mut middle = watch::<ConfigMap>(&reader, after(start)).await;
            bed.wait(millis(100 * seed)).await;
            bed.cluster.set_frozen(1, None, true);
            let mut late = watch::<ConfigMap>(&reader, after(start)).await;
            for stream in [&mut early, &mut middle, &mut late] {
                let heard = hear_for(&bed, stream, secs(120)).await;
                assert!(heard.lines().is_empty() && heard.is_open(), "{:?}", heard.all());
            }
            bed.cluster.set_frozen(1, None, false);
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
