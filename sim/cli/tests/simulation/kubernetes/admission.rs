//! K §10.9: admission.

use std::sync::Arc;

use ipam_spiderpool::SpiderIPPool;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::ClientExt;
use kube_machinery::ObjectKey;
use kube_machinery::api::{DeleteOptions, ListOptions, Patch, Reason, Verb};
use kube_sim::cluster::SimClient;
use kube_sim::cluster::admission::{Denial, FailurePolicy, Review, Verdict};
use kube_sim::cluster::server::InjectedFault;
use kube_sim::net::{Effect, Rule, Side};
use kube_sim::object::Obj;
use kube_sim::testbed::{Testbed, config_map, from_json, grace, key, pod};
use kube_sim::trace::WatchKind;
use serde_json::json;

use super::expect::*;

/// Allows every request without a change.
async fn pass() -> Verdict {
    Ok(None)
}

/// A ConfigMap with one more label, as a mutating webhook returns it.
fn with_label(review: &Review, label: &str, value: &str) -> Verdict {
    Ok(review.object.is_some().then(|| Arc::new(labelled(&object_of::<ConfigMap>(review), label, value)) as Obj))
}

fn label(map: &ConfigMap, label: &str) -> String {
    map.metadata.labels.iter().flatten().find(|(key, _)| *key == label).map(|(_, value)| value.clone()).unwrap_or_default()
}

/// Cuts the connection between the API servers and a process.
fn cut_off(bed: &Testbed, process: kube_sim::rt::ProcessId) {
    bed.cluster.network(|net| net.add(Rule { from: Side::Any, to: Side::Only(vec![process]), effect: Effect::Cut }));
}

#[test]
fn k119_a_mutating_webhook_is_called_for_a_put_that_then_conflicts() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let old = client.create(config_map("a", "v", "1")).await.unwrap();
        let new = client.update(labelled(&*old, "by", "another")).await.unwrap();
        let mutating = hook::<ConfigMap, _>(&bed, "mutating.example.com", true, FailurePolicy::Fail, |_, _| pass());
        let validating = hook::<ConfigMap, _>(&bed, "validating.example.com", false, FailurePolicy::Fail, |_, _| pass());
        let body = refused(silently::<ConfigMap, _>(&bed, client.update(labelled(&*old, "by", "me"))).await);
        assert_eq!(body, modified("configmaps", "a"));
        assert_eq!((mutating.calls(), validating.calls()), (1, 0), "the conflict is found between the two");
        {
            let asked = mutating.asked.lock();
            assert_eq!((asked[0].verb, asked[0].key.clone(), asked[0].dry), (Verb::Update, Some(key("a")), false));
            assert_eq!(label(&object_of(&asked[0]), "by"), "me");
            assert_eq!(
                kube_sim::object::resource_version(&**asked[0].old.as_ref().unwrap()),
                new.metadata.resource_version.as_deref().unwrap()
            );
        }
        // Existence, UID, and the preconditions of a delete are checked before any webhook.
        refused(client.update(config_map("missing", "v", "1")).await);
        refused(client.update(changed(&*new, |map| map.metadata.uid = Some("x".to_owned()))).await);
        refused(client.delete::<ConfigMap>(&key("a"), if_uid("x")).await);
        refused(client.patch::<ConfigMap>(&key("missing"), Patch::merge(json!({}))).await);
        assert_eq!(mutating.calls(), 1);
        // Validation is between the two as well, the check for an existing name is after both.
        refused(client.update(changed(&*new, |map| map.data = config_map("a", "v", &"x".repeat(2 << 20)).data)).await);
        assert_eq!((mutating.calls(), validating.calls()), (2, 0));
        assert_eq!(refused(client.create(config_map("a", "v", "2")).await), already_exists("configmaps", "a"));
        assert_eq!((mutating.calls(), validating.calls()), (3, 1));
        // A PUT that changes nothing is admitted like any other.
        silently::<ConfigMap, _>(&bed, client.update::<ConfigMap>(new)).await.unwrap();
        assert_eq!((mutating.calls(), validating.calls()), (4, 2));
    });
}

#[test]
fn k120_one_write_calls_a_webhook_again_when_another_write_comes_between() {
    for seed in SEEDS {
        // The requests of the slow writer: an unconditional PUT, a patch, a PUT with a version.
        for form in 0..3 {
            Testbed::run(seed, async |bed| {
                let (slow, quick) = (bed.client_on("slow", 0), bed.client_on("quick", 1));
                let stored = slow.create(config_map("a", "v", "0")).await.unwrap();
                let rt = bed.rt.clone();
                let hooked = hook::<ConfigMap, _>(&bed, "slow.example.com", seed % 2 == 0, FailurePolicy::Fail, move |call, _| {
                    let rt = rt.clone();
                    async move {
                        if call == 1 {
                            rt.sleep(secs(2)).await;
                        }
                        Ok(None)
                    }
                });
                let sender = slow.clone();
                let running = start(&bed, &slow, async move {
                    match form {
                        0 => sender.update(labelled(&unversioned(&*stored), "by", "slow")).await,
                        1 => sender.patch(&key("a"), Patch::merge(json!({"metadata": {"labels": {"by": "slow"}}}))).await,
                        _ => sender.update(labelled(&*stored, "by", "slow")).await,
                    }
                });
                bed.wait(secs(1)).await;
                let between = quick.patch::<ConfigMap>(&key("a"), Patch::merge(json!({"data": {"v": "1"}}))).await.unwrap();
                let outcome = running.await.unwrap();
                let of_slow: Vec<bool> = hooked.asked.lock().iter().map(|review| label(&object_of(review), "by") == "slow").collect();
                let left = quick.get::<ConfigMap>(&key("a")).await.unwrap();
                match form {
                    // The PUT replaces everything, the patch is applied to the intermediate state; neither gets a conflict.
                    0 => assert_eq!((entry(&left, "v").as_str(), label(&left, "by").as_str()), ("0", "slow")),
                    1 => assert_eq!((entry(&left, "v").as_str(), label(&left, "by").as_str()), ("1", "slow")),
                    _ => assert_eq!(left, between),
                }
                if form == 2 {
                    assert_eq!(refused(outcome), modified("configmaps", "a"));
                    // Only a mutating webhook is called in the second pass, which ends in the conflict.
                    assert_eq!(of_slow, if seed % 2 == 0 { vec![true, false, true] } else { vec![true, false] });
                } else {
                    outcome.unwrap();
                    assert_eq!(of_slow, [true, false, true]);
                }
            });
        }
    }
}

#[test]
fn k120_a_delete_calls_its_webhooks_again_when_another_write_comes_between() {
    for mutating in [true, false] {
        // With a version it is refused once it encounters the other write.
        for named in [false, true] {
            Testbed::run(1, async |bed| {
                let (slow, quick) = (bed.client_on("slow", 0), bed.client_on("quick", 1));
                let stored = slow.create(config_map("a", "v", "0")).await.unwrap();
                let rt = bed.rt.clone();
                let hooked = hook::<ConfigMap, _>(&bed, "slow.example.com", mutating, FailurePolicy::Fail, move |call, _| {
                    let rt = rt.clone();
                    async move {
                        if call == 1 {
                            rt.sleep(secs(2)).await;
                        }
                        Ok(None)
                    }
                });
                let mut options = DeleteOptions::default();
                options.preconditions.resource_version = named.then(|| stored.metadata.resource_version.clone().unwrap());
                let sender = slow.clone();
                let running = start(&bed, &slow, async move { sender.delete::<ConfigMap>(&key("a"), options).await });
                bed.wait(secs(1)).await;
                quick.patch::<ConfigMap>(&key("a"), Patch::merge(json!({"data": {"v": "1"}}))).await.unwrap();
                let outcome = running.await.unwrap();
                let old_value = |review: &Review| entry(&from_json::<ConfigMap>(review.old.as_ref().unwrap().to_value()), "v");
                let seen: Vec<(Verb, String)> = hooked.asked.lock().iter().map(|review| (review.verb, old_value(review))).collect();
                let (first, patch, second) = ((Verb::Delete, "0"), (Verb::Update, "0"), (Verb::Delete, "1"));
                let expected = if named { vec![first, patch] } else { vec![first, patch, second] };
                assert_eq!(seen, expected.into_iter().map(|(verb, value)| (verb, value.to_owned())).collect::<Vec<_>>());
                match named {
                    true => assert!(outcome.unwrap_err().is_conflict()),
                    false => assert!(outcome.unwrap().is_none()),
                }
                assert_eq!(exists::<ConfigMap>(&quick, &key("a")).await, named);
            });
        }
    }
}

#[test]
fn k121_a_webhook_that_cannot_be_reached_fails_the_request_or_is_ignored() {
    for mutating in [true, false] {
        for unreachable in 0..3 {
            Testbed::run(1, async |bed| {
                let client = bed.client("writer");
                let stored = client.create(config_map("a", "v", "1")).await.unwrap();
                let label_it = |_, review: Review| async move { with_label(&review, "hooked", "yes") };
                let hooked = hook::<ConfigMap, _>(&bed, "ipam.example.com", mutating, FailurePolicy::Fail, label_it);
                match unreachable {
                    0 => drop(bed.cluster.crash(hooked.process)),
                    1 => drop(bed.cluster.pause(hooked.process)),
                    _ => cut_off(&bed, hooked.process),
                }
                let check = |error: kube_machinery::ApiError| {
                    let body = body_of(&error);
                    let message = body["message"].as_str().unwrap();
                    let start = "Internal error occurred: failed calling webhook \"ipam.example.com\": failed to call webhook: ";
                    let why = message.strip_prefix(start).unwrap_or_else(|| panic!("{message}"));
                    assert!(
                        why.ends_with(if unreachable == 0 { "connect: connection refused" } else { ": context deadline exceeded" }),
                        "{why}"
                    );
                    assert_eq!((&body["code"], &body["reason"]), (&json!(500), &json!("InternalError")));
                };
                check(silently::<ConfigMap, _>(&bed, client.create(config_map("b", "v", "1"))).await.unwrap_err());
                check(silently::<ConfigMap, _>(&bed, client.update(labelled(&*stored, "l", "1"))).await.unwrap_err());
                let patch = Patch::merge(json!({"data": {"v": "2"}}));
                check(silently::<ConfigMap, _>(&bed, client.patch::<ConfigMap>(&key("a"), patch)).await.unwrap_err());
                let options = DeleteOptions::default();
                check(silently::<ConfigMap, _>(&bed, client.delete::<ConfigMap>(&key("a"), options)).await.unwrap_err());
                assert_eq!(client.get::<ConfigMap>(&key("a")).await.unwrap(), stored, "reads and other types go on");
                client.create(pod("a", "n1")).await.unwrap();
                bed.wait(secs(120)).await;
                assert!(!exists::<ConfigMap>(&client, &key("b")).await);
            });
            Testbed::run(1, async |bed| {
                let client = bed.client("writer");
                let label_it = |_, review: Review| async move { with_label(&review, "hooked", "yes") };
                let hooked = hook::<ConfigMap, _>(&bed, "ipam.example.com", mutating, FailurePolicy::Ignore, label_it);
                let created = client.create(config_map("a", "v", "1")).await.unwrap();
                assert_eq!(label(&created, "hooked"), if mutating { "yes" } else { "" });
                match unreachable {
                    0 => drop(bed.cluster.crash(hooked.process)),
                    1 => drop(bed.cluster.pause(hooked.process)),
                    _ => cut_off(&bed, hooked.process),
                }
                let (outcome, events) = effects::<ConfigMap, _>(&bed, client.create(config_map("b", "v", "1"))).await;
                assert_eq!(outcome.unwrap().metadata.labels, None, "as if the webhook did not exist");
                assert_eq!(kinds(&events), [WatchKind::Added]);
            });
        }
    }
}

#[test]
fn k121_a_crash_while_the_webhook_answers_is_a_failure_too() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let rt = bed.rt.clone();
        let hooked = hook::<ConfigMap, _>(&bed, "ipam.example.com", false, FailurePolicy::Fail, move |_, _| {
            let rt = rt.clone();
            async move {
                rt.sleep(secs(3)).await;
                Ok(None)
            }
        });
        let creator = client.clone();
        let running = start(&bed, &client, async move { creator.create(config_map("a", "v", "1")).await });
        bed.wait(secs(1)).await;
        bed.cluster.crash(hooked.process);
        assert_eq!(refused(running.await.unwrap())["reason"], "InternalError");
        assert!(!exists::<ConfigMap>(&client, &key("a")).await);
    });
}

#[test]
fn k122_a_denial_carries_the_webhooks_code_and_name() {
    for mutating in [true, false] {
        Testbed::run(1, async |bed| {
            let client = bed.client("writer");
            let stored = client.create(config_map("a", "v", "1")).await.unwrap();
            let deny = |_, review: Review| async move {
                let Some(object) = &review.object else {
                    return Err(Denial { code: 403, reason: Some(Reason::Forbidden), message: "stays".to_owned() });
                };
                let code =
                    object.meta().labels.iter().flatten().find(|(key, _)| *key == "code").map_or(0, |(_, code)| code.parse().unwrap());
                Err(Denial { code, reason: None, message: if code == 418 { String::new() } else { "no room".to_owned() } })
            };
            let hooked = hook::<ConfigMap, _>(&bed, "ipam.example.com", mutating, FailurePolicy::Ignore, deny);
            // A code outside those of HTTP is passed through as well, and none of them comes with a reason.
            for (sent, code) in [(0, 400), (200, 400), (399, 400), (400, 400), (403, 403), (409, 409), (422, 422), (500, 500), (600, 600)] {
                let expected = status(code, "", "admission webhook \"ipam.example.com\" denied the request: no room", json!(null));
                let sent = sent.to_string();
                let create = client.create(labelled(&config_map("b", "v", "1"), "code", &sent));
                assert_eq!(refused(silently::<ConfigMap, _>(&bed, create).await), expected);
                let update = client.update(labelled(&*stored, "code", &sent));
                assert_eq!(refused(silently::<ConfigMap, _>(&bed, update).await), expected);
            }
            let update = client.update(labelled(&*stored, "code", "418"));
            let message = "admission webhook \"ipam.example.com\" denied the request without explanation";
            assert_eq!(refused(silently::<ConfigMap, _>(&bed, update).await), status(418, "", message, json!(null)));
            let name = key("a");
            let delete = client.delete::<ConfigMap>(&name, DeleteOptions::default());
            let message = "admission webhook \"ipam.example.com\" denied the request: stays";
            assert_eq!(refused(silently::<ConfigMap, _>(&bed, delete).await), status(403, "Forbidden", message, json!(null)));
            assert_eq!(hooked.calls(), 20);
            assert_eq!(client.get::<ConfigMap>(&key("a")).await.unwrap(), stored);
        });
    }
}

#[test]
fn k123_a_mutating_webhook_sees_neither_uid_nor_generated_name_and_a_validating_one_sees_both() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let mutating = hook::<Pod, _>(&bed, "mutating.example.com", true, FailurePolicy::Fail, |_, _| pass());
        let validating = hook::<Pod, _>(&bed, "validating.example.com", false, FailurePolicy::Fail, |_, _| pass());
        let unnamed: Pod = from_json(json!({
            "metadata": {"generateName": "web-", "namespace": "default"},
            "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
        }));
        let created = client.create(unnamed).await.unwrap();
        let named: Pod = from_json(json!({
            "metadata": {
                "name": "db-0", "namespace": "default", "uid": "x", "creationTimestamp": "2001-02-03T04:05:06Z",
                "deletionTimestamp": "2001-02-03T04:05:06Z",
            },
            "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
        }));
        let named = client.create(named).await.unwrap();
        {
            let asked = mutating.asked.lock();
            assert_eq!((asked[0].verb, &asked[0].key), (Verb::Create, &None));
            for review in asked.iter() {
                let meta = object_of::<Pod>(review).metadata;
                assert_eq!((meta.uid, meta.creation_timestamp, meta.deletion_timestamp), (None, None, None));
            }
            assert_eq!(object_of::<Pod>(&asked[0]).metadata.name, None);
            assert_eq!(asked[1].key, Some(key("db-0")));
            assert!(asked.iter().all(|review| review.old.is_none()));
        }
        let asked = validating.asked.lock();
        for (review, created) in asked.iter().zip([&created, &named]) {
            let object = object_of::<Pod>(review);
            assert_eq!((&object.metadata.uid, &object.metadata.name), (&created.metadata.uid, &created.metadata.name));
            assert_eq!(review.key, Some(ObjectKey::of(&**created)));
        }
        assert_eq!((mutating.calls(), asked.len()), (2, 2));
    });
}

#[test]
fn k124_concurrent_creates_both_pass_a_webhook_that_checks_uniqueness_by_reading() {
    // Each object claims the address "10.0.0.7"; the webhook lists the existing objects and refuses a second owner.
    let claim = |name: &str| config_map(name, "address", "10.0.0.7");
    async fn is_free(client: SimClient) -> Verdict {
        let list = client.list::<ConfigMap>(Some("default"), ListOptions::default()).await.unwrap();
        let taken = list.items.iter().any(|map| entry(map, "address") == "10.0.0.7");
        if taken { Err(Denial { code: 409, reason: None, message: "10.0.0.7 is taken".to_owned() }) } else { Ok(None) }
    }
    let mut doubles = 0;
    for seed in 0..200 {
        doubles += Testbed::run(seed, async |bed| {
            let reader = bed.client("reader");
            hook::<ConfigMap, _>(&bed, "unique.example.com", false, FailurePolicy::Fail, move |_, _| is_free(reader.clone()));
            let running: Vec<_> = (0..2)
                .map(|number| {
                    let client = bed.client_on("creator", number);
                    let (creator, body) = (client.clone(), claim(&format!("owner-{number}")));
                    start(&bed, &client, async move { creator.create(body).await })
                })
                .collect();
            let mut owners = 0;
            for outcome in running {
                match outcome.await.unwrap() {
                    Ok(_) => owners += 1,
                    Err(error) => assert!(error.to_string().contains("is taken"), "{error}"),
                }
            }
            // When they come one after the other, the check works.
            assert_eq!(refused(bed.client("late").create(claim("late")).await)["code"], 409);
            assert!(owners >= 1);
            usize::from(owners == 2)
        });
    }
    assert!(doubles > 0, "admission never let two owners of one address through");
}

#[test]
fn k125_a_webhook_has_no_longer_than_its_timeout_and_the_request() {
    // Ten webhooks that never answer in time, 10 s each: the request is over after 34 s.
    for mutating in [true, false] {
        Testbed::run(1, async |bed| {
            let client = bed.client("writer");
            let mut hooks = Vec::new();
            for number in 0..10 {
                let rt = bed.rt.clone();
                hooks.push(hook::<ConfigMap, _>(
                    &bed,
                    &format!("slow-{number}.example.com"),
                    mutating,
                    FailurePolicy::Ignore,
                    move |_, _| {
                        let rt = rt.clone();
                        async move {
                            rt.sleep(secs(60)).await;
                            Ok(None)
                        }
                    },
                ));
            }
            let sent = bed.rt.now();
            let (outcome, events) = effects::<ConfigMap, _>(&bed, async {
                let outcome = client.create(config_map("a", "v", "1")).await;
                let took = bed.rt.now() - sent;
                bed.wait(secs(300)).await;
                (outcome, took)
            })
            .await;
            let (outcome, took) = outcome;
            if mutating {
                // The webhooks are called one after the other.
                let message = "Timeout: request did not complete within requested timeout - context deadline exceeded";
                assert_eq!(refused(outcome), status(504, "Timeout", message, json!(null)));
                assert!(took >= secs(34) && took < secs(35), "{took:?}");
                assert!(events.is_empty() && !exists::<ConfigMap>(&client, &key("a")).await);
                assert_eq!(hooks.iter().map(Hooked::calls).sum::<usize>(), 4);
            } else {
                outcome.unwrap();
                assert!(took >= secs(10) && took < secs(11), "{took:?}");
                assert_eq!(hooks.iter().map(Hooked::calls).sum::<usize>(), 10);
            }
        });
    }
}

#[test]
fn webhooks_run_in_the_order_of_their_names_and_see_what_the_one_before_made() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        for name in ["c", "a", "b"] {
            hook::<ConfigMap, _>(&bed, name, true, FailurePolicy::Fail, move |_, review| async move {
                let before = label(&object_of(&review), "seen");
                with_label(&review, "seen", &format!("{before}{name}"))
            });
        }
        let last = hook::<ConfigMap, _>(&bed, "0-validating", false, FailurePolicy::Fail, |_, _| pass());
        let created = client.create(config_map("a", "v", "1")).await.unwrap();
        assert_eq!(label(&created, "seen"), "abc");
        assert_eq!(object_of::<ConfigMap>(&last.asked.lock()[0]).metadata.labels, created.metadata.labels);
    });
}

#[test]
fn a_webhook_sees_no_status_writes_and_is_told_of_dry_runs() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let hooked = hook::<SpiderIPPool, _>(&bed, "ipam.example.com", true, FailurePolicy::Fail, |_, _| pass());
        let created = client.create(pool("p")).await.unwrap();
        let with_status = changed(&*created, |pool| pool.status = part(json!({"totalIPCount": 9})));
        let stored = client.update_status(with_status).await.unwrap();
        let patch = Patch::merge(json!({"status": {"totalIPCount": 10}}));
        client.patch_status::<SpiderIPPool>(&ObjectKey::cluster("p"), patch).await.unwrap();
        assert_eq!(hooked.calls(), 1);
        let body = changed(&unversioned(&*stored), |pool| pool.spec.disable = true);
        let current = client.get::<SpiderIPPool>(&ObjectKey::cluster("p")).await.unwrap();
        let body = changed(&body, |pool| pool.metadata.resource_version.clone_from(&current.metadata.resource_version));
        silently::<SpiderIPPool, _>(&bed, dry_update(&client, body, None)).await.unwrap();
        let asked = hooked.asked.lock();
        assert_eq!((asked.len(), asked[0].dry, asked[1].dry), (2, false, true));
    });
}

#[test]
fn a_webhook_has_run_for_a_write_that_etcd_then_refuses() {
    // K §3.4: what a webhook reserved stays reserved although the object was never stored.
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let hooked = hook::<ConfigMap, _>(&bed, "ipam.example.com", true, FailurePolicy::Fail, |_, _| pass());
        trouble(&bed, &client, &[Verb::Create], InjectedFault::FailBeforeCommit);
        let body = refused(silently::<ConfigMap, _>(&bed, client.create(config_map("a", "v", "1"))).await);
        assert_eq!(body, status(500, "", "etcdserver: request timed out", json!(null)));
        assert_eq!(hooked.calls(), 1);
        calm(&bed);
        bed.cluster.set_etcd_outage(Some(kube_sim::cluster::EtcdOutage::NoQuorum));
        let error = client.create(config_map("a", "v", "1")).await.unwrap_err();
        assert_eq!(error.to_string(), "etcdserver: request timed out");
        assert_eq!(hooked.calls(), 2);
    });
}

#[test]
fn a_webhook_may_name_what_had_no_name_but_not_rename_what_has_one() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        hook::<ConfigMap, _>(&bed, "names.example.com", true, FailurePolicy::Fail, |call, review| async move {
            let object = changed(&object_of::<ConfigMap>(&review), |map| map.metadata.name = Some(format!("named-{call}")));
            Ok(Some(Arc::new(object) as Obj))
        });
        let nameless: ConfigMap = from_json(json!({"metadata": {"namespace": "default"}}));
        let created = client.create(nameless).await.unwrap();
        assert_eq!(created.metadata.name.as_deref(), Some("named-1"));
        let body = refused(silently::<ConfigMap, _>(&bed, client.update::<ConfigMap>(created)).await);
        let message = "Invalid value: \"named-2\": field is immutable";
        assert_eq!(body, invalid("ConfigMap", "named-1", "FieldValueInvalid", "metadata.name", message));
    });
}

#[test]
fn a_webhook_is_asked_about_the_object_that_is_deleted() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let created = client.create(pod("a", "n1")).await.unwrap();
        let hooked = hook::<Pod, _>(&bed, "ipam.example.com", false, FailurePolicy::Fail, |_, _| pass());
        client.delete::<Pod>(&key("a"), grace(0)).await.unwrap();
        let asked = hooked.asked.lock();
        assert_eq!((asked[0].verb, &asked[0].key, asked[0].object.is_none()), (Verb::Delete, &Some(key("a")), true));
        assert_eq!(kube_sim::object::typed_ref::<Pod>(&**asked[0].old.as_ref().unwrap()), &*created);
    });
}
