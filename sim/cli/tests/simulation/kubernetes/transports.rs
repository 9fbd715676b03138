//! K §4.4 and K §4.7: clients over HTTP/1.1, with a separate connection for each request and watch, and the ways in which a dead connection
//! is detected.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{TransportError, WatchOptions};
use kube_machinery::{ApiError, WatchStream};
use kube_sim::cluster::server::{Failure, InjectedFault};
use kube_sim::cluster::{ClusterConfig, Knobs, Reconnect, SimClient, Transport};
use kube_sim::net::Side;
use kube_sim::testbed::Testbed;
use sim_config::Probability;

use super::connection::{create, cut, cut_from, is_stored};
use super::expect::*;
use super::support::{after, watch};

const OVER_HTTP1: [Transport; 2] = [Transport::Http1, Transport::KubeRs];

/// A client that stays with the first server.
fn client(bed: &Testbed, transport: Transport) -> SimClient {
    let client = SimClient::with(&bed.cluster, bed.process("client"), transport, Reconnect::Sticky);
    client.connect_to(0);
    client
}

/// The end of a watch, and its time after `start`.
async fn end_of(bed: &Testbed, mut watch: impl WatchStream<ConfigMap>) -> (Option<Result<(), ApiError>>, Duration) {
    let start = bed.rt.now();
    let end = watch.next().await.map(|element| element.map(drop));
    (end, bed.rt.now().since(start))
}

#[test]
fn k180_what_befalls_one_request_over_http1_leaves_everything_else_alone() {
    for (seed, transport) in SEEDS.flat_map(|seed| OVER_HTTP1.map(|transport| (seed, transport))) {
        Testbed::run(seed, async |bed| {
            let client = client(&bed, transport);
            let mut events = watch::<ConfigMap>(&client, after(bed.revision())).await;
            trouble(&bed, &client, &[], InjectedFault::Slow { by: secs(10) });
            let slow = {
                let client = client.clone();
                start(&bed, &client.clone(), async move { create(&client, "slow", None).await })
            };
            bed.wait(secs(1)).await;
            calm(&bed);
            trouble(&bed, &client, &[], InjectedFault::LoseReply { error: Failure::Reset, after: Duration::ZERO });
            assert_eq!(create(&client, "reset", None).await, Err(TransportError::Reset.into()));
            calm(&bed);
            assert_eq!(slow.await.unwrap(), Ok(()));
            assert!(events.next().await.unwrap().is_ok());
        });
    }
}

#[test]
fn k180_a_request_over_http1_that_nobody_acknowledges_lasts_a_quarter_of_an_hour() {
    for (seed, transport) in SEEDS.flat_map(|seed| OVER_HTTP1.map(|transport| (seed, transport))) {
        Testbed::run(seed, async |bed| {
            let client = client(&bed, transport);
            cut(&bed, &client, secs(1_000)).await;
            let start = bed.rt.now();
            assert_eq!(create(&client, "a", None).await, Err(TransportError::Deadline.into()));
            let took = bed.rt.now().since(start);
            assert!(took >= secs(924) && took < secs(926), "{took:?}");
            let start = bed.rt.now();
            assert_eq!(create(&client, "b", None).await, Err(TransportError::Refused.into()), "the next one has to dial");
            let took = bed.rt.now().since(start);
            assert!(took >= secs(30) && took < secs(31), "{took:?}");
        });
        // A cut that ends before that loses nothing, however long it was.
        Testbed::run(seed, async |bed| {
            let client = client(&bed, transport);
            cut(&bed, &client, secs(600)).await;
            assert_eq!(create(&client, "a", None).await, Ok(()));
            assert!(is_stored(&bed, "a"));
        });
    }
}

#[test]
fn k180_who_waits_for_an_answer_or_an_event_over_http1_notices_a_cut_after_165_seconds() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = client(&bed, Transport::Http1);
            let events = watch::<ConfigMap>(&client, after(bed.revision())).await;
            cut_from(&bed, Side::Only(vec![bed.cluster.server_process(0)]), secs(200));
            let start = bed.rt.now();
            let asked = async {
                let result = create(&client, "a", None).await;
                (result, bed.rt.now().since(start))
            };
            let ((result, took), (end, ended)) = futures_util::join!(asked, end_of(&bed, events));
            assert!(is_stored(&bed, "a"), "only its answer was stopped");
            assert_eq!((result, end), (Err(TransportError::Deadline.into()), Some(Err(TransportError::Deadline.into()))));
            for took in [took, ended] {
                assert!(took >= secs(165) && took < secs(166), "{took:?}");
            }
        });
    }
}

#[test]
fn k180_a_server_that_stands_still_answers_the_probes_of_tcp_and_no_pings() {
    let ends = |seed, transport| {
        Testbed::run(seed, async |bed| {
            let client = client(&bed, transport);
            let events = watch::<ConfigMap>(&client, after(bed.revision())).await;
            let server = bed.cluster.server_process(0);
            bed.cluster.pause(server);
            let cluster = bed.cluster.clone();
            bed.rt.at(bed.rt.now() + secs(300), move || assert!(cluster.resume(server)));
            let other = bed.client_on("other", 1);
            create(&other, "a", None).await.unwrap();
            end_of(&bed, events).await
        })
    };
    for seed in SEEDS {
        let (end, took) = ends(seed, Transport::Http2);
        assert_eq!(end, Some(Err(TransportError::ConnectionLost.into())));
        assert!(took < secs(46), "{took:?}");
        for transport in OVER_HTTP1 {
            let (end, took) = ends(seed, transport);
            assert_eq!(end, Some(Ok(())), "it goes on with the server");
            assert!(took > secs(299), "{took:?}");
        }
    }
}

#[test]
fn k181_kube_rs_waits_for_an_answer_as_long_as_the_cut_lasts_and_for_events_5_seconds_beyond_the_time_out() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = client(&bed, Transport::KubeRs);
            let options = |seconds| WatchOptions { timeout_seconds: Some(seconds), ..after(bed.revision()) };
            let short = watch::<ConfigMap>(&client, options(290)).await;
            let long = watch::<ConfigMap>(&client, options(900)).await;
            cut_from(&bed, Side::Only(vec![bed.cluster.server_process(0)]), secs(600));
            let start = bed.rt.now();
            let asked = async {
                let result = create(&client, "a", None).await;
                (result, bed.rt.now().since(start))
            };
            let ((result, took), short, long) = futures_util::join!(asked, end_of(&bed, short), end_of(&bed, long));
            assert_eq!(result, Ok(()));
            assert!(took > secs(599) && took < secs(720), "{took:?}");
            assert_eq!(short.0, Some(Err(TransportError::Deadline.into())));
            assert!(short.1 > secs(294) && short.1 < secs(296), "{:?}", short.1);
            assert_eq!(long.0, Some(Ok(())), "what was sent into the cut arrives after it");
        });
    }
}

#[test]
fn k180_programs_have_the_client_that_the_run_has_drawn_and_kubernetes_has_client_go() {
    let drawn = |http1: f64, kube_rs: f64| {
        let share = |value| Probability::new(value).unwrap();
        let knobs = Knobs { http1_clients: share(http1), kube_rs_clients: share(kube_rs), ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed: 3, knobs, ..ClusterConfig::default() }, 2, async |bed| {
            let of = |name: String| SimClient::of_program(&bed.cluster, bed.process(&name)).transport();
            let transports: Vec<_> = (0..40).map(|number| of(format!("program-{number}"))).collect();
            assert_eq!(bed.client("kubelet").transport(), Transport::Http2);
            [Transport::Http2, Transport::Http1, Transport::KubeRs]
                .map(|transport| transports.iter().filter(|drawn| **drawn == transport).count())
        })
    };
    assert_eq!(drawn(0.0, 0.0), [40, 0, 0]);
    assert_eq!(drawn(1.0, 0.0), [0, 40, 0]);
    assert_eq!(drawn(1.0, 1.0), [0, 0, 40]);
    let [http2, http1, kube_rs] = drawn(0.5, 0.5);
    assert!(http2 > 3 && http1 > 3 && kube_rs > 10, "{http2} {http1} {kube_rs}");
}
