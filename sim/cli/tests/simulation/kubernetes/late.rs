//! K108, K114: writes that take effect after their caller has given up.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{Call, DeleteOptions, Patch, Request, TransportError, Verb};
use kube_machinery::{ApiError, Client, ClientExt};
use kube_sim::cluster::SimClient;
use kube_sim::cluster::admission::FailurePolicy;
use kube_sim::cluster::server::{Failure, InjectedFault};
use kube_sim::net::{Effect, Rule, Side};
use kube_sim::testbed::{Testbed, config_map, grace, key, pod};
use serde_json::json;

use super::expect::*;

/// The writes whose outcome depends on the state of the object.
const VERBS: [Verb; 4] = [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];

/// The change of the object before a late write takes effect.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    Nothing,
    Changed,
    Recreated,
}

/// A write of the ConfigMap `a` that names no version.
fn write(verb: Verb) -> Call<ConfigMap> {
    let body = || Arc::new(config_map("a", "v", "late"));
    match verb {
        Verb::Create => Call::Create { namespace: Some("default".into()), body: body(), dry: Default::default() },
        Verb::Update => Call::Update { key: key("a"), body: body(), subresource: None, dry: Default::default() },
        Verb::Patch => {
            let patch = Patch::merge(json!({"data": {"v": "late"}}));
            Call::Patch { key: key("a"), patch, subresource: None, dry: Default::default() }
        }
        _ => Call::Delete { key: key("a"), options: DeleteOptions::default() },
    }
}

/// The value of the ConfigMap `a`, if it exists.
async fn value(client: &SimClient) -> Option<String> {
    match client.get::<ConfigMap>(&key("a")).await {
        Ok(map) => Some(entry(&map, "v")),
        Err(error) => {
            assert!(error.is_not_found(), "{error}");
            None
        }
    }
}

/// The value of the object after the late write, if it takes effect.
fn effect(verb: Verb) -> Option<String> {
    (verb != Verb::Delete).then(|| "late".to_owned())
}

async fn prepare(other: &SimClient, verb: Verb) {
    if verb != Verb::Create {
        other.create(config_map("a", "v", "first")).await.unwrap();
    }
}

async fn happen(other: &SimClient, verb: Verb, meanwhile: Meanwhile) {
    match (meanwhile, verb) {
        (Meanwhile::Nothing, _) => {}
        (_, Verb::Create) => drop(other.create(config_map("a", "v", "other")).await.unwrap()),
        (Meanwhile::Changed, _) => drop(other.update(config_map("a", "v", "other")).await.unwrap()),
        (Meanwhile::Recreated, _) => {
            other.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap();
            other.create(config_map("a", "v", "other")).await.unwrap();
        }
    }
}

#[test]
fn k114_what_etcd_commits_after_the_error_is_what_was_sent_and_only_if_nothing_changed() {
    for (number, failure) in FAILURES.into_iter().enumerate() {
        for verb in VERBS {
            for meanwhile in [Meanwhile::Nothing, Meanwhile::Changed, Meanwhile::Recreated] {
                Testbed::run(number as u64, async |bed| {
                    let (client, other) = (bed.client_on("writer", 0), bed.client_on("other", 1));
                    prepare(&other, verb).await;
                    trouble(&bed, &client, &[], InjectedFault::CommitLate { error: failure, after: secs(10) });
                    let error = client.send(write(verb).into()).await.unwrap_err();
                    assert!(error.is_ambiguous(), "{error}");
                    calm(&bed);
                    let before = (verb != Verb::Create).then(|| "first".to_owned());
                    assert_eq!(value(&other).await, before, "it has not happened yet");
                    happen(&other, verb, meanwhile).await;
                    bed.wait(secs(12)).await;
                    let expected = if meanwhile == Meanwhile::Nothing { effect(verb) } else { Some("other".to_owned()) };
                    assert_eq!(value(&other).await, expected, "{verb:?} {meanwhile:?} {failure:?}");
                });
            }
        }
    }
}

#[test]
fn k114_of_a_deletion_without_grace_only_the_first_phase_commits_after_the_error() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        client.create(pod("a", "n1")).await.unwrap();
        trouble(&bed, &client, &[], InjectedFault::CommitLate { error: Failure::EtcdTimeout, after: secs(1) });
        client.delete::<Pod>(&key("a"), grace(0)).await.unwrap_err();
        calm(&bed);
        bed.wait(secs(5)).await;
        assert_eq!(client.get::<Pod>(&key("a")).await.unwrap().metadata.deletion_grace_period_seconds, Some(0));
        // As after a crash between the two phases, the next delete removes it (K102).
        client.delete::<Pod>(&key("a"), DeleteOptions::default()).await.unwrap();
        assert!(!exists::<Pod>(&client, &key("a")).await);
    });
}

#[test]
fn k114_what_was_sent_to_an_etcd_without_quorum_commits_as_it_was_sent_or_never() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let verb = VERBS[seed as usize % 4];
        for changes in [false, true] {
            Testbed::run(seed, async |bed| {
                let (client, other) = (bed.client_on("writer", 0), bed.client_on("other", 1));
                prepare(&other, verb).await;
                // Only the writer's server is cut off, so that others can write meanwhile.
                bed.cluster.set_etcd_cut(0, true);
                let error = client.send(write(verb).into()).await.unwrap_err();
                assert!(error.is_ambiguous(), "{error}");
                happen(&other, verb, if changes { Meanwhile::Changed } else { Meanwhile::Nothing }).await;
                bed.cluster.set_etcd_cut(0, false);
                bed.wait(secs(5)).await;
                let found = value(&other).await;
                if changes {
                    assert_eq!(found.as_deref(), Some("other"), "{verb:?}");
                } else {
                    outcomes.insert(found == effect(verb));
                }
            });
        }
    }
    assert_eq!(outcomes, [false, true].into(), "both happen");
}

/// Sends a write whose caller waits for `timeout`.
async fn give_up(client: &SimClient, call: Call<ConfigMap>, timeout: Duration) {
    let error = client.send(Request { call, timeout: Some(timeout) }).await.unwrap_err();
    assert_eq!(error, ApiError::from(TransportError::Deadline));
}

#[test]
fn k108_a_write_that_arrives_late_meets_what_is_there_by_then_unless_it_names_the_uid() {
    for verb in [Verb::Update, Verb::Patch, Verb::Delete] {
        for with_uid in [false, true] {
            Testbed::run(1, async |bed| {
                let (client, other) = (bed.client_on("writer", 0), bed.client_on("other", 1));
                let old = other.create(config_map("a", "v", "first")).await.unwrap();
                let call = match (write(verb), with_uid) {
                    (call, false) => call,
                    (Call::Update { key, dry, .. }, true) => {
                        let body = Arc::new(changed(&config_map("a", "v", "late"), |map| map.metadata.uid = Some(uid(&*old))));
                        Call::Update { key, body, subresource: None, dry }
                    }
                    (Call::Patch { key, dry, .. }, true) => {
                        let patch = Patch::merge(json!({"metadata": {"uid": uid(&*old)}, "data": {"v": "late"}}));
                        Call::Patch { key, patch, subresource: None, dry }
                    }
                    (_, true) => Call::Delete { key: key("a"), options: if_uid(&uid(&*old)) },
                };
                let slower = Rule { from: Side::Only(vec![client.process()]), to: Side::Any, effect: Effect::Slower(secs(20)) };
                let slower = bed.cluster.network(|net| net.add(slower));
                give_up(&client, call, secs(1)).await;
                bed.cluster.network(|net| net.remove(slower));
                happen(&other, verb, Meanwhile::Recreated).await;
                bed.wait(secs(25)).await;
                let expected = if with_uid { Some("other".to_owned()) } else { effect(verb) };
                assert_eq!(value(&other).await, expected, "{verb:?}");
            });
        }
    }
}

#[test]
fn k108_what_waits_in_admission_is_never_committed_once_its_caller_has_hung_up() {
    for verb in VERBS {
        // A server that is not notified continues.
        for hears in [true, false] {
            Testbed::run(1, async |bed| {
                let (client, other) = (bed.client_on("writer", 0), bed.client_on("other", 1));
                prepare(&other, verb).await;
                let rt = bed.rt.clone();
                hook::<ConfigMap, _>(&bed, "slow", false, FailurePolicy::Fail, move |_, _| {
                    let rt = rt.clone();
                    async move {
                        rt.sleep(secs(5)).await;
                        Ok(None)
                    }
                });
                let before = value(&other).await;
                let running = start(&bed, &client, {
                    let client = client.clone();
                    async move { give_up(&client, write(verb), secs(1)).await }
                });
                bed.wait(millis(500)).await;
                if !hears {
                    let cut = Rule { from: Side::Only(vec![client.process()]), to: Side::Any, effect: Effect::Cut };
                    bed.cluster.network(|net| net.add(cut));
                }
                running.await.unwrap();
                bed.wait(secs(40)).await;
                assert_eq!(value(&other).await, if hears { before } else { effect(verb) }, "{verb:?}");
            });
        }
    }
}

#[test]
fn k108_a_request_whose_time_is_over_is_never_committed() {
    for verb in VERBS {
        Testbed::run(1, async |bed| {
            let (client, other) = (bed.client_on("writer", 0), bed.client_on("other", 1));
            prepare(&other, verb).await;
            let before = value(&other).await;
            trouble(&bed, &client, &[], InjectedFault::Slow { by: secs(39) });
            let sent = bed.rt.now();
            let error = client.send(write(verb).into()).await.unwrap_err();
            assert_eq!((body_of(&error)["code"].clone(), bed.rt.now() - sent < secs(35)), (json!(504), true));
            calm(&bed);
            bed.wait(secs(40)).await;
            assert_eq!(value(&other).await, before, "{verb:?}");
        });
    }
}
