//! K §10.9: the connections of API servers to webhook servers (K197 to K200).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::ClientExt;
use kube_machinery::api::Verb;
use kube_sim::cluster::SimClient;
use kube_sim::cluster::admission::{FailurePolicy, Part, Review, Rule, Service, Verdict, Webhook};
use kube_sim::net::{Effect, Rule as NetRule, Side};
use kube_sim::rt::{ProcessId, Rt};
use kube_sim::testbed::{Testbed, config_map};
use parking_lot::Mutex;

use super::expect::*;

/// A webhook for new ConfigMaps behind a Service of several processes, and the processes that were called, in order.
struct Served {
    processes: Vec<ProcessId>,
    service: Arc<Service>,
    asked: Arc<Mutex<Vec<ProcessId>>>,
}

impl Served {
    fn new(bed: &Testbed, processes: usize) -> Self {
        let service = Service::new("hooks");
        let processes: Vec<ProcessId> = (0..processes).map(|number| bed.process(&format!("hook-{number}"))).collect();
        let served = Self { processes, service, asked: Arc::default() };
        served.processes.iter().for_each(|&process| served.serve(bed, process));
        served
    }

    /// Lets `process` listen. Calls about objects whose names begin with `slow` take two seconds.
    fn serve(&self, bed: &Testbed, process: ProcessId) {
        let (asked, rt) = (self.asked.clone(), bed.rt.clone());
        let handler = move |review: Review| {
            let (asked, rt) = (asked.clone(), rt.clone());
            Box::pin(async move {
                asked.lock().push(process);
                answer(rt, review).await
            }) as _
        };
        self.service.serve(process, Arc::new(handler), bed.rt.now());
    }

    fn register(&self, bed: &Testbed, name: &str, failure_policy: FailurePolicy) {
        self.register_for(bed, name, failure_policy, secs(10));
    }

    fn register_for(&self, bed: &Testbed, name: &str, failure_policy: FailurePolicy, timeout: Duration) {
        bed.cluster.add_webhook(Webhook {
            rules: vec![Rule { operations: vec![Verb::Create], kinds: vec![bed.kind::<ConfigMap>()], part: Part::Main }],
            failure_policy,
            timeout,
            ..Webhook::new(name, false, self.service.clone())
        });
    }

    /// The processes called since the last time.
    fn asked(&self) -> Vec<ProcessId> {
        std::mem::take(&mut *self.asked.lock())
    }

    /// The processes of the Service except this one, in order.
    fn but(&self, process: ProcessId) -> Vec<ProcessId> {
        self.processes.iter().copied().filter(|other| *other != process).collect()
    }
}

async fn answer(rt: Rt, review: Review) -> Verdict {
    if review.key.is_some_and(|key| key.name().starts_with("slow")) {
        rt.sleep(secs(2)).await;
    }
    Ok(None)
}

/// The result of a create with the message of its error, and its duration.
async fn create(bed: &Testbed, client: &SimClient, name: &str) -> (Result<(), String>, Duration) {
    let sent = bed.rt.now();
    let created = client.create(config_map(name, "v", "1")).await;
    (created.map(drop).map_err(|error| error.to_string()), bed.rt.now() - sent)
}

async fn creates(bed: &Testbed, client: &SimClient, names: impl IntoIterator<Item = String>) {
    for name in names {
        create(bed, client, &name).await.0.unwrap();
    }
}

/// Cuts a process off from all others.
fn cut_off(bed: &Testbed, process: ProcessId) {
    let only = || Side::Only(vec![process]);
    for (from, to) in [(Side::Any, only()), (only(), Side::Any)] {
        bed.cluster.network(|net| net.add(NetRule { from, to, effect: Effect::Cut }));
    }
}

fn failed(why: &str, seconds: u32) -> String {
    let post = format!("Post \"https://hooks.default.svc:443/validate-ipam?timeout={seconds}s\": {why}");
    format!("Internal error occurred: failed calling webhook \"ipam\": failed to call webhook: {post}")
}

#[test]
fn k197_a_call_that_fails_names_its_url_its_time_and_the_error_of_the_connection() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("writer", 0);
        let served = Served::new(&bed, 1);
        served.register(&bed, "ipam", FailurePolicy::Fail);
        let [process] = served.processes[..] else { panic!() };
        let refused = failed("dial tcp hooks.default.svc:443: connect: connection refused", 10);
        let running = {
            let (bed, writer) = (bed.clone(), client.clone());
            start(&bed.clone(), &client, async move { create(&bed, &writer, "slow").await.0 })
        };
        bed.wait(secs(1)).await;
        bed.cluster.crash(process);
        assert_eq!(running.await.unwrap(), Err(failed("EOF", 10)));
        assert_eq!(create(&bed, &client, "a").await.0, Err(refused.clone()));
        bed.wait(secs(11)).await;
        assert_eq!(create(&bed, &client, "a").await.0, Err(refused), "the Service has no endpoint any more");
        bed.cluster.start(process);
        served.serve(&bed, process);
        bed.wait(secs(20)).await;
        create(&bed, &client, "a").await.0.unwrap();
        bed.cluster.pause(process);
        let (error, took) = create(&bed, &client, "b").await;
        assert_eq!(error, Err(failed("context deadline exceeded", 10)));
        assert!(took >= secs(10) && took < secs(11), "{took:?}");
    });
}

#[test]
fn k199_calls_share_connections_that_last_until_they_were_idle_for_90_s() {
    let (mut changed, mut of_two) = (0, 0);
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client_on("writer", 0);
            let served = Served::new(&bed, 2);
            served.register(&bed, "ipam", FailurePolicy::Fail);
            creates(&bed, &client, (0..10).map(|number| format!("a-{number}"))).await;
            let first = served.asked();
            assert_eq!(first, vec![first[0]; 10], "one after the other they all take the same connection");
            bed.wait(secs(85)).await;
            creates(&bed, &client, ["b".to_owned()]).await;
            bed.wait(secs(85)).await;
            creates(&bed, &client, ["c".to_owned()]).await;
            assert_eq!(served.asked(), vec![first[0]; 2]);
            // Concurrent calls need separate connections, and the one that was used last is taken first.
            let running: Vec<_> = (0..6)
                .map(|number| {
                    let (bed, client) = (bed.clone(), bed.client_on("writers", 0));
                    start(&bed.clone(), &client.clone(), async move { create(&bed, &client, &format!("slow-{number}")).await.0 })
                })
                .collect();
            for created in running {
                created.await.unwrap().unwrap();
            }
            let six = served.asked();
            of_two += usize::from(six.iter().any(|process| *process != six[0]));
            creates(&bed, &client, (0..5).map(|number| format!("d-{number}"))).await;
            let five = served.asked();
            assert_eq!(five, vec![five[0]; 5]);
            // Another API server, and a webhook with another URL, have separate connections.
            let before = five[0];
            let mut others = Vec::new();
            for (number, client) in (0..8).map(|number| (number, bed.client_on("other", 1))) {
                creates(&bed, &client, [format!("e-{number}")]).await;
                others.extend(served.asked());
                bed.wait(secs(91)).await;
            }
            changed += usize::from(others.iter().any(|process| *process != before));
            assert!(others.iter().any(|process| *process != others[0]), "an idle connection is not kept for ever");
        });
    }
    assert!(changed > 0 && of_two > 0);
}

#[test]
fn k200_a_process_that_crashes_resets_its_connections_and_one_without_a_word_costs_each_a_time_out() {
    for seed in SEEDS {
        // The number of connections, and the state of the process at the other end: cut off, stopped, or its host is down.
        for (connections, form) in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 2), (30, 0)] {
            Testbed::run(seed, async |bed| {
                let client = bed.client_on("writer", 0);
                let served = Served::new(&bed, 1);
                served.register_for(&bed, "ipam", FailurePolicy::Fail, secs(3));
                let running: Vec<_> = (0..connections)
                    .map(|number| {
                        let (bed, client) = (bed.clone(), bed.client_on("writers", 0));
                        start(&bed.clone(), &client.clone(), async move { create(&bed, &client, &format!("slow-{number}")).await.0 })
                    })
                    .collect();
                for created in running {
                    created.await.unwrap().unwrap();
                }
                // Only then is there another process.
                let dead = served.processes[0];
                let alive = bed.process("hook-9");
                served.serve(&bed, alive);
                served.asked();
                let host = bed.rt.host_of(dead);
                match form {
                    0 => cut_off(&bed, dead),
                    1 => drop(bed.cluster.pause(dead)),
                    _ => {
                        bed.cluster.darken(host);
                        bed.cluster.crash(dead);
                    }
                }
                if form == 0 {
                    served.service.stop(dead, bed.rt.now());
                }
                // The probe notices, or the Node is given up, and the Service sends no more calls there; existing connections remain.
                bed.wait(secs(if form == 2 { 51 } else { 11 })).await;
                // At most 25 connections are kept.
                for number in 0..connections.min(25) {
                    let (error, took) = create(&bed, &client, &format!("never-{number}")).await;
                    assert_eq!(error, Err(failed("context deadline exceeded", 3)), "connection {number}");
                    assert!(took >= secs(3) && took < secs(4), "{took:?}");
                }
                let (created, took) = create(&bed, &client, "then").await;
                created.unwrap();
                assert!(took < secs(2) && served.asked() == [alive], "{took:?}");
            });
        }
        // A crash is noticed immediately: no call waits, and only a call that dials before the probe has noticed may be refused.
        Testbed::run(seed, async |bed| {
            let client = bed.client_on("writer", 0);
            let served = Served::new(&bed, 2);
            served.register(&bed, "ipam", FailurePolicy::Fail);
            creates(&bed, &client, ["a".to_owned()]).await;
            let [dead] = served.asked()[..] else { panic!() };
            bed.cluster.crash(dead);
            bed.wait(secs(11)).await;
            let (created, took) = create(&bed, &client, "b").await;
            created.unwrap();
            assert!(took < secs(1) && served.asked() == served.but(dead), "{took:?}");
        });
    }
}

#[test]
fn k200_a_host_that_comes_back_knows_nothing_of_its_connections_and_one_that_is_down_answers_no_dial() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("writer", 0);
        let served = Served::new(&bed, 1);
        served.register(&bed, "ipam", FailurePolicy::Fail);
        creates(&bed, &client, ["a".to_owned()]).await;
        let process = served.processes[0];
        let host = bed.rt.host_of(process);
        bed.cluster.darken(host);
        bed.cluster.crash(process);
        bed.wait(secs(1)).await;
        bed.cluster.start(process);
        served.serve(&bed, process);
        bed.cluster.lighten(host);
        let (error, took) = create(&bed, &client, "b").await;
        assert_eq!(error, Err(failed("read tcp hooks.default.svc:443: read: connection reset by peer", 10)));
        assert!(took < secs(1), "{took:?}");
        creates(&bed, &client, ["c".to_owned()]).await;
        // Without a connection the first packet is retransmitted, and arrives when the host is back in time.
        bed.wait(secs(91)).await;
        bed.cluster.darken(host);
        let (error, took) = create(&bed, &client, "d").await;
        assert!(error == Err(failed("context deadline exceeded", 10)) && took >= secs(10), "{error:?} after {took:?}");
        let cluster = bed.cluster.clone();
        bed.rt.at(bed.rt.now() + secs(2), move || cluster.lighten(host));
        let (created, took) = create(&bed, &client, "e").await;
        created.unwrap();
        assert!(took >= secs(2) && took < secs(5), "{took:?}");
    });
}
