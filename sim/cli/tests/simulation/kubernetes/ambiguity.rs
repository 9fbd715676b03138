//! K §10.8: the possible effects of a failed write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{Call, DeleteOptions, Request, TransportError, Verb};
use kube_machinery::{Client, ClientExt};
use kube_sim::cluster::server::InjectedFault;
use kube_sim::net::{Effect, Rule, Side};
use kube_sim::testbed::{Testbed, config_map, key};
use sim_config::draw::{Concern, Draw};

use super::expect::*;

/// The actual outcome of a failed create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Truth {
    Never,
    Before,
    /// It was executed after the error was received.
    Later,
}

/// The outcome of a create of `name` that has just failed, and the time from the error to its execution.
async fn truth(bed: &Testbed, name: &str) -> (Truth, Duration) {
    let reader = |number| bed.client_on("reader", number);
    let stored = |bed: &Testbed| {
        let kind = bed.kind::<ConfigMap>();
        bed.cluster.store(|store| store.table(kind).get(&key(name)).is_some())
    };
    if stored(bed) {
        return (Truth::Before, Duration::ZERO);
    }
    let error_at = bed.rt.now();
    for _ in 0..700 {
        bed.wait(millis(100)).await;
        if stored(bed) {
            let late = bed.rt.now() - error_at;
            for number in 0..2 {
                assert!(exists::<ConfigMap>(&reader(number), &key(name)).await);
            }
            return (Truth::Later, late);
        }
    }
    (Truth::Never, Duration::ZERO)
}

#[test]
fn k114_an_ambiguous_failure_of_the_server_has_every_truth() {
    let mut truths: BTreeMap<String, BTreeSet<Truth>> = BTreeMap::new();
    let mut latest = Duration::ZERO;
    for seed in 0..150 {
        let mut draw = Draw::new(seed, Concern::Workload, 1);
        let failure = FAILURES[draw.below(5) as usize];
        let after = draw.between(Duration::ZERO, secs(34));
        let injected = *draw.pick(&[
            InjectedFault::LoseReply { error: failure, after },
            InjectedFault::CommitLate { error: failure, after },
            InjectedFault::Slow { by: secs(34) + after },
        ]);
        Testbed::run(seed, async |bed| {
            let client = bed.client("writer");
            trouble(&bed, &client, &[Verb::Create], injected);
            let error = client.create(config_map("a", "v", "1")).await.unwrap_err();
            assert!(error.is_ambiguous(), "{error}");
            calm(&bed);
            // A client that continues gets correct answers, whatever late writes are still to come.
            for _ in 0..5 {
                assert_eq!(refused(client.get::<Pod>(&key("nobody")).await), not_found("pods", "nobody"));
            }
            let (truth, late) = truth(&bed, "a").await;
            latest = latest.max(late);
            truths.entry(error.to_string()).or_default().insert(truth);
        });
        Testbed::run(seed, async |bed| {
            let client = bed.client("writer");
            trouble(&bed, &client, &[Verb::Create], InjectedFault::FailBeforeCommit);
            let error = client.create(config_map("a", "v", "1")).await.unwrap_err();
            assert!(error.is_ambiguous(), "{error}");
            truths.entry(error.to_string()).or_default().insert(truth(&bed, "a").await.0);
        });
    }
    assert_eq!(truths["etcdserver: request timed out"], [Truth::Never, Truth::Before, Truth::Later].into());
    let deadline = "Timeout: request did not complete within requested timeout - context deadline exceeded";
    // A request that was not sent to etcd within its time is not sent any more.
    assert_eq!(truths[deadline], [Truth::Never, Truth::Before, Truth::Later].into());
    for message in ["etcdserver: leader changed", "connection reset by peer"] {
        assert_eq!(truths[message], [Truth::Before, Truth::Later].into(), "{message}");
    }
    assert_eq!(truths.len(), 5, "{truths:?}");
    assert!(latest > secs(25) && latest <= secs(35), "{latest:?}");
}

#[test]
fn k114_a_broken_connection_or_a_client_that_gave_up_has_every_truth() {
    let mut truths: BTreeMap<(&str, String), BTreeSet<Truth>> = BTreeMap::new();
    for seed in 0..150 {
        let mut draw = Draw::new(seed, Concern::Workload, 2);
        let moment = draw.between(millis(1), millis(9));
        let first = draw.chance(0.5);
        for cause in ["crash", "cut", "give up"] {
            Testbed::run(seed, async |bed| {
                let client = bed.client_on("writer", 0);
                let writer = client.clone();
                let timeout = (cause == "give up").then_some(moment);
                let cut = |bed: &Testbed| {
                    let process = || Side::Only(vec![client.process()]);
                    bed.cluster.network(|net| {
                        net.add(Rule { from: process(), to: Side::Any, effect: Effect::Cut });
                        net.add(Rule { from: Side::Any, to: process(), effect: Effect::Cut });
                    });
                };
                if cause == "cut" && first {
                    cut(&bed);
                }
                let running = start(&bed, &client, async move {
                    let body = Arc::new(config_map("a", "v", "1"));
                    let call = Call::Create { namespace: Some("default".into()), body, dry: Default::default() };
                    writer.send(Request { call, timeout }).await
                });
                if cause == "crash" {
                    bed.wait(moment).await;
                    bed.cluster.crash_server(0);
                }
                if cause == "cut" && !first {
                    bed.wait(moment).await;
                    cut(&bed);
                }
                let Err(error) = running.await.unwrap() else { return };
                if error == TransportError::Refused.into() {
                    assert!(!error.is_ambiguous());
                    assert_eq!(truth(&bed, "a").await.0, Truth::Never);
                    return;
                }
                assert!(error.is_ambiguous());
                truths.entry((cause, error.to_string())).or_default().insert(truth(&bed, "a").await.0);
            });
        }
    }
    let of = |cause, error: TransportError| truths.get(&(cause, error.to_string())).cloned().unwrap_or_default();
    assert_eq!(of("crash", TransportError::Reset), [Truth::Never, Truth::Before].into(), "{truths:?}");
    assert_eq!(of("cut", TransportError::ConnectionLost), [Truth::Never, Truth::Before].into(), "{truths:?}");
    let gave_up = of("give up", TransportError::Deadline);
    assert!(gave_up.is_superset(&[Truth::Before, Truth::Later].into()), "{truths:?}");
}

#[test]
fn k114_a_request_can_be_executed_twice_and_the_second_answer_hides_the_first() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client("writer");
            trouble(&bed, &client, &[], InjectedFault::Twice { gap: secs(seed) });
            assert_eq!(refused(client.create(config_map("a", "v", "1")).await), already_exists("configmaps", "a"));
            calm(&bed);
            let map = client.get::<ConfigMap>(&key("a")).await.unwrap();
            trouble(&bed, &client, &[], InjectedFault::Twice { gap: secs(seed) });
            assert_eq!(refused(client.update(labelled(&*map, "l", "1")).await), modified("configmaps", "a"));
            assert_eq!(refused(client.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await), not_found("configmaps", "a"));
            calm(&bed);
            assert!(!exists::<ConfigMap>(&client, &key("a")).await);
        });
    }
}
