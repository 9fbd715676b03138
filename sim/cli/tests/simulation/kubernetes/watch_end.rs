//! K §10.3 and K §2.5: the ways in which a WATCH ends, and the events lost with it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{Reason, TransportError, Verb, WatchOptions};
use kube_machinery::{ApiError, Client, ClientExt};
use kube_sim::cluster::server::{ApiFault, InjectedFault};
use kube_sim::cluster::{EtcdOutage, SimClient};
use kube_sim::net::{Effect, Rule, Side};
use kube_sim::testbed::{Testbed, config_map};

use super::support::*;

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
            // 0 is sent by a client that requests no time-out.
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
fn k059_nothing_is_lost_when_a_server_crashes_and_its_watches_resume_elsewhere() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            bed.cluster.set_extra_lag(1, None, millis(50 * (seed % 5)));
            let writer = bed.client_on("writer", 0);
            let start = bed.revision();
            let mut doomed = Vec::new();
            for _ in 0..3 {
                let client = bed.client_on("reader", 1);
                doomed.push((watch::<ConfigMap>(&client, after(start)).await, client));
            }
            let mut other_type = watch::<Pod>(&doomed[0].1.clone(), after(start)).await;
            let writing = spawn(&bed, &writer, churn(bed.clone(), writer.clone(), 60));
            bed.wait(millis(20 + 10 * seed)).await;
            bed.cluster.crash_server(1);
            let heard = hear(&bed, &mut other_type, secs(5)).await;
            assert_eq!(heard.end, Some(Err(ApiError::Transport(TransportError::Reset))));
            writing.await;
            for (mut stream, client) in doomed {
                let heard = hear(&bed, &mut stream, secs(60)).await;
                assert_eq!(heard.end, Some(Err(ApiError::Transport(TransportError::Reset))));
                let mut lines = heard.lines();
                client.connect_to(0);
                let resume = lines.last().map_or(start, |&(.., revision)| revision);
                lines.extend(hear(&bed, &mut watch::<ConfigMap>(&client, after(resume)).await, secs(5)).await.lines());
                assert_eq!(lines, truth::<ConfigMap>(&bed, start, |_| true));
                let list = client.list::<ConfigMap>(None, Default::default()).await.unwrap();
                assert_eq!(state_of(&list.items), state_at::<ConfigMap>(&bed, bed.revision()));
            }
        });
    }
}

#[test]
fn k059_a_crashed_server_sends_nothing_that_it_had_not_seen() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.wait(secs(5)).await;
            bed.cluster.set_extra_lag(1, None, secs(10));
            let mut stream = watch::<ConfigMap>(&reader, after(bed.revision())).await;
            set(&writer, "a", 1).await;
            let crashed = bed.rt.now();
            if seed % 2 == 0 {
                bed.cluster.crash_server(1)
            } else {
                bed.cluster.forget_history(1, None)
            }
            let heard = hear(&bed, &mut stream, secs(60)).await;
            assert!(heard.lines().is_empty() && heard.end.is_some(), "{:?}", heard.all());
            assert!(bed.rt.now().since(crashed) < secs(1), "the end is noticed at once");
        });
    }
}

#[test]
fn k059_a_crash_does_not_reach_watches_on_other_servers() {
    Testbed::run(1, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 0));
        let mut stream = watch::<ConfigMap>(&reader, after(bed.revision())).await;
        bed.cluster.crash_server(1);
        let map = writer.create(config_map("a", "v", "0")).await.unwrap();
        let heard = hear(&bed, &mut stream, secs(60)).await;
        assert_eq!((heard.lines(), heard.is_open()), (vec![("ADDED", "default/a".to_owned(), rv(&*map))], true));
    });
}

// ------------------------------------------------------------------------------------- K §2.5: the other ways to end

/// Cuts the link between a client and a server in one or both directions.
fn cut(bed: &Testbed, from: &SimClient, number: usize, to_server: bool, to_client: bool) {
    let (client, server) = (Side::Only(vec![from.process()]), Side::Only(vec![bed.cluster.server_process(number)]));
    bed.cluster.network(|net| {
        if to_server {
            net.add(Rule { from: client.clone(), to: server.clone(), effect: Effect::Cut });
        }
        if to_client {
            net.add(Rule { from: server, to: client, effect: Effect::Cut });
        }
    });
}

#[test]
fn k059_a_silent_connection_is_found_dead_in_45_s_even_without_events() {
    for (to_server, to_client) in [(true, true), (true, false), (false, true)] {
        for events in [false, true] {
            Testbed::run(1, async |bed| {
                let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
                writer.create(config_map("a", "v", "0")).await.unwrap();
                bed.wait(secs(5)).await;
                let mut stream = watch::<ConfigMap>(&reader, after(bed.revision())).await;
                hear(&bed, &mut stream, secs(5)).await;
                cut(&bed, &reader, 1, to_server, to_client);
                let since = bed.rt.now();
                if events {
                    bed.wait(secs(10)).await;
                    set(&writer, "a", 1).await;
                }
                let heard = hear(&bed, &mut stream, secs(300)).await;
                assert_eq!(heard.end, Some(Err(ApiError::Transport(TransportError::ConnectionLost))));
                assert_eq!(heard.lines().len(), usize::from(events && !to_client));
                let took = bed.rt.now().since(since);
                assert!(took >= secs(44) && took <= secs(46), "{took:?}");
            });
        }
    }
}

#[test]
fn k059_a_connection_that_comes_back_in_time_has_lost_nothing() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.wait(secs(5)).await;
            let start = bed.revision();
            let mut stream = watch::<ConfigMap>(&reader, after(start)).await;
            // What a longer cut stops is retransmitted after 51 s, and the client does not wait for that.
            let lasts = secs(seed * 2).min(secs(25));
            for round in 0..5 {
                cut(&bed, &reader, 1, seed % 2 == 0, true);
                for step in 0..4 {
                    set(&writer, "a", round * 10 + step).await;
                }
                bed.wait(lasts).await;
                bed.cluster.network(|net| net.heal());
                set(&writer, "a", round * 10 + 9).await;
                // By then everything that waited has been retransmitted.
                bed.wait(lasts + secs(1)).await;
            }
            let heard = hear(&bed, &mut stream, secs(300)).await;
            assert!(heard.is_open());
            assert_eq!(heard.lines(), truth::<ConfigMap>(&bed, start, |_| true));
            // Too late: the connection is gone, although the link is back and the reader reads only now.
            cut(&bed, &reader, 1, true, true);
            bed.wait(secs(60)).await;
            bed.cluster.network(|net| net.heal());
            set(&writer, "a", "after").await;
            let heard = hear(&bed, &mut stream, secs(300)).await;
            assert_eq!((heard.lines(), heard.end), (vec![], Some(Err(ApiError::Transport(TransportError::ConnectionLost)))));
        });
    }
}

#[test]
fn k059_what_an_earlier_cut_stopped_does_not_count_in_the_next() {
    Testbed::run(1, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        writer.create(config_map("a", "v", "0")).await.unwrap();
        bed.wait(secs(5)).await;
        let mut stream = watch::<ConfigMap>(&reader, after(bed.revision())).await;
        cut(&bed, &reader, 1, true, true);
        set(&writer, "a", 1).await;
        bed.wait(secs(5)).await;
        bed.cluster.network(|net| net.heal());
        assert_eq!(hear(&bed, &mut stream, secs(200)).await.lines().len(), 1);
        // Nothing is in flight when the link is cut again for a moment.
        cut(&bed, &reader, 1, true, true);
        bed.wait(secs(1)).await;
        bed.cluster.network(|net| net.heal());
        assert!(hear(&bed, &mut stream, secs(300)).await.is_open());
    });
}

#[test]
fn k059_a_server_that_stands_still_is_silent_and_then_found_dead() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            bed.wait(secs(5)).await;
            let start = bed.revision();
            let mut stream = watch::<ConfigMap>(&reader, with_bookmarks(after(start))).await;
            let server = bed.cluster.server_process(1);
            bed.cluster.pause(server);
            let paused = bed.rt.now();
            for round in 0..5 {
                set(&writer, "a", round).await;
            }
            let heard = hear_for(&bed, &mut stream, secs(30)).await;
            assert!(heard.all().is_empty() && heard.is_open());
            if seed % 2 == 0 {
                bed.cluster.resume(server);
                let heard = hear(&bed, &mut stream, secs(10)).await;
                assert!(heard.is_open());
                assert_eq!(heard.lines(), truth::<ConfigMap>(&bed, start, |_| true));
            } else {
                let heard = hear(&bed, &mut stream, secs(300)).await;
                assert_eq!((heard.all(), heard.end), (vec![], Some(Err(ApiError::Transport(TransportError::ConnectionLost)))));
                let took = bed.rt.now().since(paused);
                assert!(took >= secs(44) && took <= secs(46), "{took:?}");
                // It does not open new ones either.
                reader.connect_to(1);
                assert!(within(&bed, secs(30), reader.watch::<ConfigMap>(None, after(start))).await.is_none());
                let opening = within(&bed, secs(60), reader.watch::<ConfigMap>(None, after(start))).await.expect("the client gives up");
                assert!(matches!(opening, Err(ApiError::Transport(TransportError::ConnectionLost))));
            }
        });
    }
}

#[test]
fn k059_overload_and_lack_of_permission_refuse_a_watch() {
    Testbed::run(1, async |bed| {
        let reader = bed.client_on("reader", 1);
        let clients = Side::Only(vec![reader.process()]);
        let rule = |verbs| kube_sim::cluster::admission::Forbidden { fault: None, clients: clients.clone(), verbs, kinds: vec![] };
        bed.cluster.forbid(rule(vec![Verb::List]));
        watch::<ConfigMap>(&reader, after(1)).await;
        bed.cluster.forbid(rule(vec![Verb::Watch]));
        let status = refused(reader.watch::<ConfigMap>(None, after(1)).await.map(drop));
        assert_eq!((status.code, status.reason), (403, Reason::Forbidden));
        assert!(status.message().starts_with("configmaps is forbidden: User \"reader\" cannot watch "), "{status}");
        bed.cluster.permit(None);
        let fault = |verbs| {
            let injected = InjectedFault::TooManyRequests { retry_after: 1 };
            ApiFault { fault: 7, servers: Side::Any, clients: clients.clone(), verbs, kinds: vec![], chance: 1.0, injected }
        };
        bed.cluster.add_api_fault(fault(vec![]));
        watch::<ConfigMap>(&reader, after(1)).await;
        bed.cluster.add_api_fault(fault(vec![Verb::Watch]));
        let error = reader.watch::<ConfigMap>(None, after(1)).await.map(drop).unwrap_err();
        assert_eq!((error.code(), error.retry_after()), (Some(429), Some(1)));
        bed.cluster.remove_api_faults(7);
        watch::<ConfigMap>(&reader, after(1)).await;
    });
}

#[test]
fn k059_watches_end_when_etcd_has_no_leader_for_long() {
    Testbed::run(1, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        writer.create(config_map("a", "v", "0")).await.unwrap();
        bed.wait(secs(5)).await;
        let start = bed.revision();
        // A short loss has no effect.
        let mut stream = watch::<ConfigMap>(&reader, after(start)).await;
        bed.cluster.set_etcd_outage(Some(EtcdOutage::NoQuorum));
        bed.wait(secs(20)).await;
        bed.cluster.set_etcd_outage(None);
        bed.wait(secs(5)).await;
        bed.cluster.set_etcd_outage(Some(EtcdOutage::NoQuorum));
        assert!(hear(&bed, &mut stream, secs(25)).await.is_open());
        let heard = hear(&bed, &mut stream, secs(60)).await;
        assert!(heard.ended_cleanly() && heard.events.is_empty());
        let status = refused(reader.watch::<ConfigMap>(None, after(start)).await.map(drop));
        assert_eq!((status.code, status.reason), (429, Reason::TooManyRequests));
        bed.cluster.set_etcd_outage(None);
        bed.wait(secs(5)).await;
        let next = set(&writer, "a", 1).await;
        let heard = hear(&bed, &mut watch::<ConfigMap>(&reader, after(start)).await, secs(5)).await;
        assert_eq!(heard.lines(), [("MODIFIED", "default/a".to_owned(), next)]);
    });
}
