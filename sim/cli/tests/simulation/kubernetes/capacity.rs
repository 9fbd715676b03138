//! K204: a server with limited capacity. Requests wait for one another, those of many clients in turn, and excess requests are refused
//! without having been executed (K113).

use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{ListOptions, WatchOptions};
use kube_machinery::{ApiError, Client, ClientExt};
use kube_sim::cluster::capacity::{Capacity, Discipline};
use kube_sim::cluster::server::{Failure, InjectedFault, ServerDelays};
use kube_sim::cluster::{ClusterConfig, SimClient};
use kube_sim::net::{Delay, LinkDelays};
use kube_sim::testbed::{Testbed, config_map, key};
use sim_config::time::Span;

use super::expect::trouble;

const fn always(micros: u64) -> Delay {
    Delay::Constant(Span::micros(micros))
}

/// A server that takes 10 ms for a read, 20 ms for a write and 5 ms more for a conflict, behind a network and an etcd without delay.
fn slow(width: u32) -> Capacity {
    Capacity { width, read: always(10_000), write: always(20_000), conflict: always(5_000), object: Span::millis(1), ..Capacity::default() }
}

fn cluster(capacity: Option<Capacity>) -> ClusterConfig {
    let none = always(0);
    let delays =
        ServerDelays { processing: none, commit: none, quorum_read: none, cache_lag: none, watch_lag: none, ..ServerDelays::default() };
    ClusterConfig { seed: 1, links: LinkDelays { healthy: none, degraded: none }, delays, capacity, ..ClusterConfig::default() }
}

/// The duration of each of `count` reads that are sent at once, each by a different client, in milliseconds.
fn reads_at_once(capacity: Option<Capacity>, count: usize) -> Vec<u128> {
    Testbed::run_with(cluster(capacity), 1, async |bed| {
        bed.client("one").create(config_map("a", "v", "1")).await.unwrap();
        let read = async |number: usize| {
            let began = bed.rt.now();
            bed.client(&format!("client-{number}")).get::<ConfigMap>(&key("a")).await.unwrap();
            (bed.rt.now() - began).as_millis()
        };
        join_all((0..count).map(read)).await
    })
}

#[test]
fn k204_requests_wait_for_the_processors_of_their_server() {
    assert_eq!(reads_at_once(Some(slow(1)), 4), [10, 20, 30, 40]);
    assert_eq!(reads_at_once(Some(slow(2)), 4), [10, 10, 20, 20]);
    assert_eq!(reads_at_once(Some(slow(4)), 4), [10; 4]);
    assert_eq!(reads_at_once(None, 4), [0; 4], "without a capacity nobody waits");
}

/// Like `slow`, with processors that share their time.
fn shared(width: u32) -> Capacity {
    Capacity { discipline: Discipline::ProcessorSharing, ..slow(width) }
}

#[test]
fn k204_requests_that_share_processors_are_done_together() {
    assert_eq!(reads_at_once(Some(shared(1)), 4), [40; 4]);
    assert_eq!(reads_at_once(Some(shared(2)), 4), [20; 4]);
    assert_eq!(reads_at_once(Some(shared(4)), 4), [10; 4], "none works on one request with two");
    assert_eq!(reads_at_once(Some(Capacity { side_by_side: Some(2), ..shared(1) }), 4), [20, 20, 40, 40], "two at a time");
    assert_eq!(reads_at_once(Some(Capacity { background: 3, ..shared(1) }), 1), [40], "three others take their share");
}

#[test]
fn clients_on_the_machine_of_the_server_take_answers_in_with_its_processors() {
    // 10 ms for the read, then 5 ms for the client: both share the processor with the reads of the others.
    let own = |width| Capacity { client: always(5_000), ..shared(width) };
    assert_eq!(reads_at_once(Some(own(1)), 1), [15]);
    assert_eq!(reads_at_once(Some(own(1)), 4), [60; 4]);
    assert_eq!(reads_at_once(Some(Capacity { client: always(5_000), ..slow(1) }), 2), [25, 30], "in turn: read, read, client, client");
}

/// The durations of a read and a write, in milliseconds, if they are stretched to 40 and 100 ms.
fn stretched(capacity: Option<Capacity>, count: usize) -> Vec<(u128, u128)> {
    let plain = cluster(capacity);
    let delays = ServerDelays { read_at_least: Span::millis(40), write_at_least: Span::millis(100), ..plain.delays };
    let links = LinkDelays { healthy: always(1_000), degraded: always(1_000) };
    Testbed::run_with(ClusterConfig { delays, links, ..plain }, 1, async |bed| {
        let both = async |number: usize| {
            let client = bed.client(&format!("client-{number}"));
            let began = bed.rt.now();
            client.create(config_map(&format!("a-{number}"), "v", "1")).await.unwrap();
            let written = bed.rt.now();
            client.get::<ConfigMap>(&key("a-0")).await.unwrap();
            ((written - began).as_millis(), (bed.rt.now() - written).as_millis())
        };
        join_all((0..count).map(both)).await
    })
}

#[test]
fn a_stretched_round_trip_holds_the_network_and_the_work_and_grows_only_with_what_does_not_fit() {
    assert_eq!(stretched(None, 2), [(100, 40); 2]);
    assert_eq!(stretched(Some(slow(1)), 1), [(100, 40)], "work fits into what is left after half of it");
    // Four writes of 20 ms, one after the other, starting at 51 ms, and a millisecond back. The reads of 10 ms arrive 21 ms after that: the
    // first two wait until the last write is done.
    assert_eq!(stretched(Some(slow(1)), 4), [(100, 42), (100, 52), (112, 50), (132, 40)]);
}

#[test]
fn k204_a_conflict_takes_longer_than_a_success_and_a_list_as_long_as_it_is() {
    Testbed::run_with(cluster(Some(slow(1))), 1, async |bed| {
        let client = bed.client("one");
        let old = client.create(config_map("a", "v", "1")).await.unwrap();
        let timed = async |number: u32| {
            let began = bed.rt.now();
            match number {
                0 => drop(client.update(ConfigMap::clone(&old)).await.unwrap()),
                1 => assert!(client.update(ConfigMap::clone(&old)).await.unwrap_err().is_conflict()),
                _ => drop(client.list::<ConfigMap>(Some("default"), ListOptions::default()).await.unwrap()),
            }
            (bed.rt.now() - began).as_millis()
        };
        let mut changed = ConfigMap::clone(&old);
        changed.data.get_or_insert_default().insert("v".to_owned(), "2".to_owned());
        client.update(changed).await.unwrap();
        assert_eq!(timed(1).await, 25, "20 ms to find it, 5 ms to say it");
        for number in 0..9 {
            client.create(config_map(&format!("b-{number}"), "v", "1")).await.unwrap();
        }
        assert_eq!(timed(2).await, 20, "10 ms, and 1 ms for each of ten objects");
        assert!(bed.cluster.server_work().waited.is_zero(), "one client never waits for another");
    });
}

#[test]
fn k204_the_size_of_an_object_counts_where_it_is_written_answered_watched_and_taken_in() {
    let per_kib = Span::millis(1);
    let took = |capacity: Capacity, watched: bool| {
        Testbed::run_with(cluster(Some(capacity)), 1, async |bed| {
            let client = bed.client("one");
            let mut watches = Vec::new();
            if watched {
                watches.push(bed.client("other").watch::<ConfigMap>(None, WatchOptions::default()).await.unwrap());
            }
            let began = bed.rt.now();
            client.create(config_map("a", "v", &"x".repeat(10 * 1024))).await.unwrap();
            let written = bed.rt.now();
            client.get::<ConfigMap>(&key("a")).await.unwrap();
            ((written - began).as_millis(), (bed.rt.now() - written).as_millis())
        })
    };
    assert_eq!(took(slow(1), true), (20, 10));
    assert_eq!(took(Capacity { per_kib, ..slow(1) }, false), (40, 20), "10 ms for each body, to be read or to be written");
    assert_eq!(took(Capacity { per_kib, ..slow(1) }, true), (50, 20), "10 ms more for the watcher, before the answer");
    assert_eq!(took(Capacity { per_kib, client: always(1_000), ..slow(1) }, false), (51, 31), "10 ms more for the client");
}

#[test]
fn k204_without_a_seat_the_clients_wait_in_turn_and_those_with_too_many_requests_are_refused() {
    let capacity = Capacity { seats: 1, queue: 2, ..slow(1) };
    Testbed::run_with(cluster(Some(capacity)), 1, async |bed| {
        bed.client("one").create(config_map("a", "v", "1")).await.unwrap();
        let (greedy, modest) = (bed.client("greedy"), bed.client("modest"));
        let read = async |number: usize| {
            let began = bed.rt.now();
            let client = if number < 4 { &greedy } else { &modest };
            let result = client.get::<ConfigMap>(&key("a")).await;
            (result.map(drop), (bed.rt.now() - began).as_millis())
        };
        let answers = join_all((0..5).map(read)).await;
        let took: Vec<u128> = answers.iter().map(|(_, took)| *took).collect();
        assert_eq!(took, [10, 20, 40, 0, 30], "the modest client comes before the third request of the greedy one");
        let refused = answers[3].0.as_ref().unwrap_err();
        assert!(matches!(refused, ApiError::Plain { code: 429, retry_after: Some(1), .. }), "{refused:?}");
        assert!(answers.iter().filter(|(result, _)| result.is_err()).count() == 1);
        assert_eq!(bed.cluster.server_work().refused, 1);
    });
}

#[test]
fn k204_whoever_waits_for_a_seat_for_15_seconds_is_refused_and_nothing_of_it_is_carried_out() {
    let capacity = Capacity { seats: 1, write: always(20_000_000), ..slow(1) };
    Testbed::run_with(cluster(Some(capacity)), 1, async |bed| {
        let write = async |name: &'static str| {
            let began = bed.rt.now();
            let result = bed.client(name).create(config_map(name, "v", "1")).await;
            (result.map(drop), (bed.rt.now() - began).as_millis())
        };
        let answers = join_all([write("a"), write("b")]).await;
        assert!(answers[0].0.is_ok() && answers[0].1 == 20_000, "{:?}", answers[0]);
        assert!(matches!(answers[1].0, Err(ApiError::Plain { code: 429, .. })) && answers[1].1 == 15_000, "{:?}", answers[1]);
        bed.rt.sleep(Duration::from_secs(60)).await;
        assert!(bed.client("c").get::<ConfigMap>(&key("b")).await.unwrap_err().is_not_found());
    });
}

/// Both the request that is being executed and the one that waits for its seat are cancelled: neither delays the next one.
#[test]
fn k204_who_hangs_up_leaves_its_seat_and_the_line_before_it() {
    let capacity = Capacity { seats: 1, queue: 1, ..slow(1) };
    Testbed::run_with(cluster(Some(capacity)), 1, async |bed| {
        bed.client("one").create(config_map("a", "v", "1")).await.unwrap();
        let began = bed.rt.now();
        let (slow, waits, next) = (bed.client("slow"), bed.client("waits"), bed.client("next"));
        trouble(&bed, &slow, &[], InjectedFault::LoseReply { error: Failure::Timeout, after: Duration::from_secs(30) });
        let hung_up = |client: SimClient, after: u64| {
            let rt = bed.rt.clone();
            async move {
                let name = key("a");
                let mut read = std::pin::pin!(client.get::<ConfigMap>(&name));
                let mut patience = std::pin::pin!(rt.sleep(Duration::from_secs(after)));
                std::future::poll_fn(|cx| {
                    assert!(read.as_mut().poll(cx).is_pending());
                    patience.as_mut().poll(cx)
                })
                .await;
            }
        };
        let other = async {
            bed.rt.sleep(Duration::from_secs(2)).await;
            hung_up(waits.clone(), 1).await;
            // The queue is free for the next request of this client, which is served once the seat is free.
            waits.get::<ConfigMap>(&key("a")).await.map(drop).unwrap();
            assert_eq!(bed.rt.now().since(began).as_millis(), 5_010);
        };
        futures_util::future::join(hung_up(slow, 5), other).await;
        next.get::<ConfigMap>(&key("a")).await.map(drop).unwrap();
        assert_eq!(bed.cluster.server_work().refused, 0);
    });
}

#[test]
fn k204_a_crash_takes_all_that_waits_with_it_and_the_server_comes_back_idle() {
    Testbed::run_with(cluster(Some(slow(1))), 1, async |bed| {
        bed.client("one").create(config_map("a", "v", "1")).await.unwrap();
        let read = async |number: usize| bed.client(&format!("client-{number}")).get::<ConfigMap>(&key("a")).await.map(drop);
        let crash = async {
            bed.rt.sleep(Duration::from_millis(15)).await;
            bed.cluster.crash_server(0);
            bed.rt.sleep(Duration::from_secs(1)).await;
            bed.cluster.restart_server(0, Duration::ZERO);
        };
        let (answers, ()) = futures_util::future::join(join_all((0..3).map(read)), crash).await;
        assert!(answers[0].is_ok(), "it was answered before");
        assert!(answers[1..].iter().all(|answer| matches!(answer, Err(ApiError::Transport(_)))), "{answers:?}");
        assert_eq!(bed.cluster.open_exchanges(), 0);
        let began = bed.rt.now();
        read(9).await.unwrap();
        assert_eq!((bed.rt.now() - began).as_millis(), 10, "nothing is left of what it had to do");
    });
}

#[test]
fn a_crash_takes_what_is_worked_on_side_by_side_with_it() {
    Testbed::run_with(cluster(Some(Capacity { side_by_side: Some(2), ..shared(1) })), 1, async |bed| {
        bed.client("one").create(config_map("a", "v", "1")).await.unwrap();
        let read = async |number: usize| bed.client(&format!("client-{number}")).get::<ConfigMap>(&key("a")).await.map(drop);
        let crash = async {
            bed.rt.sleep(Duration::from_millis(15)).await;
            bed.cluster.crash_server(0);
            bed.rt.sleep(Duration::from_secs(1)).await;
            bed.cluster.restart_server(0, Duration::ZERO);
        };
        let (answers, ()) = futures_util::future::join(join_all((0..4).map(read)), crash).await;
        assert!(answers.iter().all(|answer| matches!(answer, Err(ApiError::Transport(_)))), "{answers:?}");
        assert_eq!(bed.cluster.open_exchanges(), 0);
        let began = bed.rt.now();
        read(9).await.unwrap();
        assert_eq!((bed.rt.now() - began).as_millis(), 10, "nothing is left of what it had to do");
    });
}
