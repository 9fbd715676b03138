//! K §3.1 and K §4.4: one connection, TCP below it, and the effect of a cut on its requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{Call, Request, TransportError};
use kube_machinery::{ApiError, Client, WatchStream};
use kube_sim::cluster::SimClient;
use kube_sim::cluster::server::{Failure, InjectedFault};
use kube_sim::net::{Effect, Rule, Side};
use kube_sim::testbed::{Testbed, config_map, key};
use sim_config::draw::{Concern, Draw};

use super::expect::*;
use super::support::after;

/// The time at which TCP retransmits: 0.2, 0.6, 1.4, ... s after the first transmission.
fn sent_again(first: Duration, cut: Duration) -> Duration {
    (1..).map(|n| first * ((1 << n) - 1)).find(|at| *at >= cut).unwrap()
}

/// Cuts a client off for this long.
pub(super) async fn cut(bed: &Testbed, client: &SimClient, lasts: Duration) {
    let process = || Side::Only(vec![client.process()]);
    cut_from(bed, process(), lasts);
    cut_between(bed, Side::Any, process(), lasts);
}

/// Stops the messages from one side for this long.
pub(super) fn cut_from(bed: &Testbed, from: Side, lasts: Duration) {
    cut_between(bed, from, Side::Any, lasts);
}

fn cut_between(bed: &Testbed, from: Side, to: Side, lasts: Duration) {
    let id = bed.cluster.network(|net| net.add(Rule { from, to, effect: Effect::Cut }));
    let cluster = bed.cluster.clone();
    bed.rt.at(bed.rt.now() + lasts, move || cluster.network(|net| net.remove(id)));
}

pub(super) fn is_stored(bed: &Testbed, name: &str) -> bool {
    let kind = bed.kind::<ConfigMap>();
    bed.cluster.store(|store| store.table(kind).get(&key(name)).is_some())
}

pub(super) async fn create(client: &SimClient, name: &str, timeout: Option<Duration>) -> Result<(), ApiError> {
    let call = Call::Create { namespace: Some("default".into()), body: Arc::new(config_map(name, "v", "1")), dry: Default::default() };
    client.send(Request { call, timeout }).await.map(drop)
}

#[test]
fn k158_what_is_sent_into_a_cut_arrives_when_it_is_sent_again_after_its_end() {
    for seed in 0..40 {
        let lasts = Draw::new(seed, Concern::Workload, 1).between(millis(100), secs(25));
        Testbed::run(seed, async |bed| {
            let client = bed.client_on("client", 0);
            cut(&bed, &client, lasts).await;
            let start = bed.rt.now();
            assert_eq!(create(&client, "a", None).await, Ok(()));
            let (took, expected) = (bed.rt.now().since(start), sent_again(millis(200), lasts));
            assert!(took >= expected && took < expected + secs(1), "{took:?} after a cut of {lasts:?}");
        });
    }
}

#[test]
fn k158_an_answer_waits_for_the_end_of_a_cut_like_a_request() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client_on("client", 0);
            let from = Side::Only(vec![bed.cluster.server_process(0)]);
            let id = bed.cluster.network(|net| net.add(Rule { from, to: Side::Any, effect: Effect::Cut }));
            let cluster = bed.cluster.clone();
            bed.rt.at(bed.rt.now() + secs(20), move || cluster.network(|net| net.remove(id)));
            assert_eq!(create(&client, "a", Some(secs(2))).await, Err(TransportError::Deadline.into()));
            assert!(is_stored(&bed, "a"), "only the answer was stopped");
            let start = bed.rt.now();
            assert_eq!(create(&client, "b", None).await, Ok(()));
            let took = bed.rt.now().since(start);
            assert!(took >= secs(18) && took < secs(27), "{took:?}");
        });
    }
}

#[test]
fn k159_a_request_given_up_in_a_cut_may_be_carried_out_after_it_and_never_before() {
    let mut truths: BTreeMap<&str, BTreeSet<bool>> = BTreeMap::new();
    for seed in 0..60 {
        for case in ["free again", "busy server", "host down", "server down"] {
            Testbed::run(seed, async |bed| {
                let client = bed.client_on("client", 0);
                cut(&bed, &client, secs(5)).await;
                assert_eq!(create(&client, "a", Some(secs(2))).await, Err(TransportError::Deadline.into()));
                assert!(!is_stored(&bed, "a"));
                match case {
                    "host down" => drop(bed.cluster.crash(client.process())),
                    "server down" => bed.cluster.crash_server(0),
                    // The request takes longer than the notice that its caller has given up.
                    "busy server" => bed.cluster.set_server_degraded(0, true),
                    _ => {}
                }
                bed.wait(secs(2)).await;
                assert!(!is_stored(&bed, "a"), "the link is still cut");
                bed.wait(secs(60)).await;
                truths.entry(case).or_default().insert(is_stored(&bed, "a"));
            });
        }
    }
    assert_eq!(truths["free again"], [true].into());
    assert_eq!(truths["busy server"], [false, true].into());
    assert_eq!(truths["host down"], [false].into());
    assert_eq!(truths["server down"], [false].into());
}

#[test]
fn k159_a_request_whose_connection_was_found_dead_is_carried_out_if_the_way_is_free_for_its_last_try() {
    for (lasts, expected) in [(50, true), (52, false)] {
        let mut stored = BTreeSet::new();
        for seed in 0..20 {
            Testbed::run(seed, async |bed| {
                let client = bed.client_on("client", 0);
                cut(&bed, &client, secs(lasts)).await;
                assert_eq!(create(&client, "a", None).await, Err(TransportError::ConnectionLost.into()));
                assert!(!is_stored(&bed, "a"));
                assert_eq!(create(&client, "never-sent", Some(secs(2))).await, Err(TransportError::Deadline.into()));
                bed.wait(secs(180)).await;
                stored.insert(is_stored(&bed, "a"));
                assert!(!is_stored(&bed, "never-sent"));
            });
        }
        assert_eq!(stored, [expected].into(), "a cut of {lasts} s");
    }
}

#[test]
fn k160_a_connection_that_is_found_dead_ends_all_that_is_on_it_45_seconds_after_it_fell_silent() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client_on("client", 0);
            let mut watch = client.watch::<ConfigMap>(None, after(bed.revision())).await.unwrap();
            cut(&bed, &client, secs(50)).await;
            let start = bed.rt.now();
            let (first, second) = (create(&client, "a", None), async {
                bed.wait(secs(30)).await;
                create(&client, "b", None).await
            });
            let took = || bed.rt.now().since(start);
            let ended = futures_util::join!(async { (first.await, took()) }, async { (second.await, took()) }, async {
                (watch.next().await.expect("an error").map(drop), took())
            });
            for (end, took) in [ended.0, ended.1, ended.2] {
                assert_eq!(end, Err(TransportError::ConnectionLost.into()));
                assert!(took >= secs(45) && took < secs(46), "{took:?}");
            }
        });
    }
}

/// After a GOAWAY the requests on the old connection wait for its server, which is cut off permanently meanwhile.
#[test]
fn k160_what_is_left_on_the_connection_before_ends_when_that_one_is_found_dead() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client_on("client", 0);
            trouble(&bed, &client, &[], InjectedFault::Slow { by: secs(20) });
            let slow = {
                let client = client.clone();
                start(&bed, &client.clone(), async move { create(&client, "slow", None).await })
            };
            bed.wait(secs(1)).await;
            calm(&bed);
            bed.cluster.move_connection(client.process(), 1);
            let began = bed.rt.now();
            cut_between(&bed, Side::Any, Side::Only(vec![bed.cluster.server_process(0)]), Duration::MAX);
            cut_from(&bed, Side::Only(vec![bed.cluster.server_process(0)]), Duration::MAX);
            assert_eq!(create(&client, "a", None).await, Ok(()), "the connection after it is not concerned");
            assert_eq!(slow.await.unwrap(), Err(TransportError::ConnectionLost.into()));
            let took = bed.rt.now().since(began);
            assert!(took >= secs(45) && took < secs(46), "{took:?}");
            assert_eq!(create(&client, "b", None).await, Ok(()));
        });
    }
}

#[test]
fn k160_a_reset_ends_all_that_is_on_the_connection_and_nothing_on_those_of_others() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (client, other) = (bed.client_on("client", 0), bed.client_on("other", 0));
            let mut watch = client.watch::<ConfigMap>(None, after(bed.revision())).await.unwrap();
            let mut of_other = other.watch::<ConfigMap>(None, after(bed.revision())).await.unwrap();
            trouble(&bed, &client, &[], InjectedFault::Slow { by: secs(10) });
            let slow = {
                let client = client.clone();
                start(&bed, &client.clone(), async move { create(&client, "slow", None).await })
            };
            bed.wait(secs(1)).await;
            calm(&bed);
            trouble(&bed, &client, &[], InjectedFault::LoseReply { error: Failure::Reset, after: Duration::ZERO });
            let reset = Err(TransportError::Reset.into());
            assert_eq!(create(&client, "reset", None).await, reset);
            calm(&bed);
            assert_eq!(slow.await.unwrap(), reset);
            assert_eq!(watch.next().await.unwrap().map(drop), Err(TransportError::Reset.into()));
            create(&other, "c", None).await.unwrap();
            assert!(of_other.next().await.unwrap().is_ok());
        });
    }
}

#[test]
fn k160_who_finds_the_server_down_is_refused_and_what_was_on_its_way_is_in_doubt() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client_on("client", 0);
            // The answer is stopped, so that the caller does not learn of the crash.
            let from = Side::Only(vec![bed.cluster.server_process(0)]);
            bed.cluster.network(|net| net.add(Rule { from, to: Side::Any, effect: Effect::Cut }));
            let before = {
                let client = client.clone();
                start(&bed, &client.clone(), async move { create(&client, "a", None).await })
            };
            bed.wait(secs(1)).await;
            assert!(is_stored(&bed, "a"));
            bed.cluster.crash_server(0);
            assert_eq!(create(&client, "b", None).await, Err(TransportError::Refused.into()));
            assert_eq!(before.await.unwrap(), Err(TransportError::Reset.into()));
        });
    }
}

#[test]
fn k161_a_connection_that_cannot_be_made_is_refused_after_30_seconds_and_nothing_was_sent() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client_on("client", 0);
            cut(&bed, &client, secs(100)).await;
            assert_eq!(create(&client, "a", None).await, Err(TransportError::ConnectionLost.into()));
            let start = bed.rt.now();
            assert_eq!(create(&client, "b", None).await, Err(TransportError::Refused.into()));
            let took = bed.rt.now().since(start);
            assert!(took >= secs(30) && took < secs(31), "{took:?}");
            bed.wait(secs(300)).await;
            assert!(!is_stored(&bed, "b"));
        });
    }
}

#[test]
fn k161_a_connection_is_there_when_its_first_packet_is_sent_again_after_the_cut_and_costs_two_round_trips() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client_on("client", 0);
            cut(&bed, &client, secs(50)).await;
            assert_eq!(create(&client, "a", None).await, Err(TransportError::ConnectionLost.into()));
            let start = bed.rt.now();
            assert_eq!(create(&client, "b", None).await, Ok(()));
            let (took, expected) = (bed.rt.now().since(start), sent_again(secs(1), secs(5)));
            assert!(took >= expected && took < expected + secs(1), "{took:?}");
        });
    }
    // The cost of a new connection compared with an existing one.
    let mut sums = [Duration::ZERO; 2];
    for seed in 0..300 {
        for (sum, new) in sums.iter_mut().zip([false, true]) {
            Testbed::run(seed, async |bed| {
                let client = bed.client_on("client", 0);
                if new {
                    bed.cluster.move_connection(client.process(), 0);
                }
                let start = bed.rt.now();
                create(&client, "a", None).await.unwrap();
                *sum += bed.rt.now().since(start);
            });
        }
    }
    let one_way = Duration::from_micros(300) * 300;
    let shakes = sums[1] - sums[0];
    assert!(shakes > one_way * 4 && shakes < one_way * 8, "{shakes:?} for 300 connections of four messages of 0.3 ms and more");
}
