//! K §10.9: the webhooks called for a request, their order, and the calls of a dry run (K190 to K196).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::core::{Expression, Selector};
use kube_machinery::ClientExt;
use kube_machinery::ObjectKey;
use kube_machinery::api::{Call, DeleteOptions, Dry, Patch, Subresource, Verb};
use kube_sim::cluster::SimClient;
use kube_sim::cluster::admission::{
    Denial, FailurePolicy, MatchCondition, Part, ReinvocationPolicy, Review, Rule, SideEffects, Verdict, Webhook,
};
use kube_sim::object::Obj;
use kube_sim::testbed::{Testbed, config_map, from_json, key, pod};
use serde_json::json;

use super::expect::*;

use ReinvocationPolicy::IfNeeded;

/// Allows every request without a change.
async fn pass(_: usize, _: Review) -> Verdict {
    Ok(None)
}

/// Adds one to the number in a label.
async fn counts(review: Review, name: &'static str) -> Verdict {
    let map = object_of::<ConfigMap>(&review);
    let count = label(&map, name).parse::<u32>().unwrap_or(0) + 1;
    Ok(Some(Arc::new(labelled(&map, name, &count.to_string())) as Obj))
}

/// Sets a label if it is missing.
async fn marks(review: Review, name: &'static str) -> Verdict {
    let map = object_of::<ConfigMap>(&review);
    Ok(Some(if label(&map, name).is_empty() { Arc::new(labelled(&map, name, "1")) as Obj } else { Arc::new(map) }))
}

fn label(map: &ConfigMap, label: &str) -> String {
    map.metadata.labels.iter().flatten().find(|(key, _)| *key == label).map(|(_, value)| value.clone()).unwrap_or_default()
}

fn where_label(name: &str, value: &str) -> Selector {
    Expression::Equal(name.to_owned(), value.to_owned()).into()
}

fn in_namespace(namespace: &str, name: &str) -> ConfigMap {
    from_json(json!({"metadata": {"name": name, "namespace": namespace}, "data": {"v": "1"}}))
}

#[test]
fn k190_a_rule_is_about_operations_types_and_the_part_of_the_object_that_it_names() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let rules = |rule: Rule| move |webhook: Webhook| Webhook { rules: vec![rule], ..webhook };
        let about = |part, operations: &[Verb]| Rule { operations: operations.to_vec(), kinds: vec![bed.kind::<Pod>()], part };
        let hook = |name, rule| hook_with::<Pod, _>(&bed, name, false, FailurePolicy::Fail, rules(rule), pass);
        let main = hook("main", about(Part::Main, &[]));
        let status = hook("status", about(Part::Of(Subresource::Status), &[]));
        let binding = hook("binding", about(Part::Of(Subresource::Binding), &[Verb::Create]));
        let any = hook("any", about(Part::Any, &[]));
        let updates = hook("updates", about(Part::Any, &[Verb::Update]));
        let all = hook("all", Rule { operations: vec![Verb::Delete], kinds: vec![], part: Part::Main });
        let asked = || [&main, &status, &binding, &any, &updates, &all].map(|hook| std::mem::take(&mut *hook.asked.lock()).len());
        let unbound: Pod = changed(&pod("a", "n"), |pod| pod.spec.as_mut().unwrap().node_name = None);
        let created = client.create(unbound).await.unwrap();
        assert_eq!(asked(), [1, 0, 0, 1, 0, 0]);
        client.update_status(in_phase(&created, "Running")).await.unwrap();
        assert_eq!(asked(), [0, 1, 0, 1, 1, 0]);
        // A binding is a create of the subresource.
        let bound = changed(&unversioned(&*created), |pod| pod.spec.as_mut().unwrap().node_name = Some("n".to_owned()));
        let bind = Call::Update { key: key("a"), body: Arc::new(bound), subresource: Some(Subresource::Binding), dry: Dry::No };
        kube_machinery::Client::send(&client, bind.into()).await.unwrap();
        let review = binding.asked.lock()[0].clone();
        assert_eq!((review.verb, review.subresource), (Verb::Create, Some(Subresource::Binding)));
        assert_eq!(asked(), [0, 0, 1, 1, 0, 0]);
        client.patch::<Pod>(&key("a"), Patch::merge(json!({"metadata": {"labels": {"x": "y"}}}))).await.unwrap();
        assert_eq!(asked(), [1, 0, 0, 1, 1, 0]);
        client.delete::<Pod>(&key("a"), kube_sim::testbed::grace(0)).await.unwrap();
        client.create(config_map("b", "v", "1")).await.unwrap();
        client.delete::<ConfigMap>(&key("b"), DeleteOptions::default()).await.unwrap();
        assert_eq!(asked(), [1, 0, 0, 1, 0, 2], "a rule without types is about all");
    });
}

#[test]
fn k191_a_namespace_selector_is_about_what_is_in_a_namespace_and_about_namespaces_themselves() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let select = |selector: Selector| move |webhook| Webhook { namespace_selector: selector, ..webhook };
        let by_name = select(where_label("kubernetes.io/metadata.name", "other"));
        let named = hook_with::<ConfigMap, _>(&bed, "named", true, FailurePolicy::Fail, by_name, pass);
        let by_label = || select(where_label("ipam", "on"));
        let chosen = hook_with::<ConfigMap, _>(&bed, "chosen", false, FailurePolicy::Fail, by_label(), pass);
        let spaces = hook_with::<Namespace, _>(&bed, "spaces", false, FailurePolicy::Fail, by_label(), pass);
        let cluster = hook_with::<ipam_spiderpool::SpiderIPPool, _>(&bed, "cluster", false, FailurePolicy::Fail, by_label(), pass);
        client.create(config_map("a", "v", "1")).await.unwrap();
        client.create(in_namespace("other", "a")).await.unwrap();
        assert_eq!((named.calls(), chosen.calls()), (1, 0));
        // Updates of a Namespace are matched by its new labels, deletions by its current ones.
        let other = client.get::<Namespace>(&ObjectKey::cluster("other")).await.unwrap();
        let on = client.update(labelled(&*other, "ipam", "on")).await.unwrap();
        assert_eq!(spaces.calls(), 1);
        client.delete::<ConfigMap>(&ObjectKey::namespaced("other", "a"), DeleteOptions::default()).await.unwrap();
        assert_eq!((named.calls(), chosen.calls()), (2, 1));
        client.update(labelled(&*on, "ipam", "off")).await.unwrap();
        assert_eq!(spaces.calls(), 1);
        client.create(in_namespace("other", "b")).await.unwrap();
        assert_eq!((named.calls(), chosen.calls()), (3, 1));
        client.delete::<Namespace>(&ObjectKey::cluster("other"), DeleteOptions::default()).await.unwrap();
        assert_eq!(spaces.calls(), 1);
        client.create(pool("p")).await.unwrap();
        assert_eq!(cluster.calls(), 1, "what is in no namespace is never exempt");
    });
}

#[test]
fn k192_an_object_selector_looks_at_the_object_before_and_after_and_at_what_others_made_of_it() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let select = |webhook| Webhook { object_selector: where_label("ipam", "1"), ..webhook };
        let validating = hook_with::<ConfigMap, _>(&bed, "validating", false, FailurePolicy::Fail, select, pass);
        let plain = client.create(config_map("a", "v", "1")).await.unwrap();
        assert_eq!(validating.calls(), 0);
        let with = client.update(labelled(&*plain, "ipam", "1")).await.unwrap();
        assert_eq!(validating.calls(), 1, "the new object");
        client.update(changed(&*with, |map| map.metadata.labels = None)).await.unwrap();
        assert_eq!(validating.calls(), 2, "the old object");
        client.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap();
        assert_eq!(validating.calls(), 2);
        client.create(labelled(&config_map("b", "v", "1"), "ipam", "1")).await.unwrap();
        client.delete::<ConfigMap>(&key("b"), DeleteOptions::default()).await.unwrap();
        assert_eq!(validating.calls(), 4, "a deletion by what goes");
        // A webhook that is called earlier can set the label.
        let later = hook_with::<ConfigMap, _>(&bed, "later", true, FailurePolicy::Fail, select, pass);
        hook::<ConfigMap, _>(&bed, "before", true, FailurePolicy::Fail, |_, review| marks(review, "ipam"));
        client.create(config_map("c", "v", "1")).await.unwrap();
        assert_eq!((later.calls(), validating.calls()), (1, 5));
    });
}

#[test]
fn k193_match_conditions_all_have_to_hold_and_one_that_cannot_be_told_follows_the_failure_policy() {
    let condition = |name: &str, told: Result<bool, &'static str>| MatchCondition {
        name: name.into(),
        matches: Arc::new(move |_| told.map_err(str::to_owned)),
    };
    let (yes, no, broken) = (condition("yes", Ok(true)), condition("no", Ok(false)), condition("broken", Err("no such key: labels")));
    for mutating in [true, false] {
        for policy in [FailurePolicy::Fail, FailurePolicy::Ignore] {
            for (conditions, outcome) in [
                (vec![], Ok(1)),
                (vec![yes.clone(), yes.clone()], Ok(1)),
                (vec![yes.clone(), no.clone()], Ok(0)),
                (vec![broken.clone(), no.clone()], Ok(0)),
                (vec![broken.clone(), yes.clone()], Err("no such key: labels")),
                (vec![broken.clone(), broken.clone()], Err("[no such key: labels, no such key: labels]")),
            ] {
                Testbed::run(1, async |bed| {
                    let client = bed.client("writer");
                    let with = |webhook| Webhook { match_conditions: conditions, ..webhook };
                    let hooked = hook_with::<ConfigMap, _>(&bed, "ipam.example.com", mutating, policy, with, pass);
                    let created = client.create(config_map("a", "v", "1")).await;
                    match (outcome, policy) {
                        (Err(why), FailurePolicy::Fail) => {
                            let body = refused(created);
                            let message = format!("configmaps \"a\" is forbidden: {why}");
                            assert_eq!((&body["code"], &body["message"]), (&json!(403), &json!(message)));
                            assert_eq!(hooked.calls(), 0);
                        }
                        (outcome, _) => {
                            created.unwrap();
                            assert_eq!(hooked.calls(), outcome.unwrap_or(0));
                        }
                    }
                });
            }
        }
    }
}

/// The webhooks called, in order, and the resulting object. `hooks`: the name, the policy, and whether each call changes the object.
fn order_of_calls(hooks: &'static [(&str, ReinvocationPolicy, bool)], selector: Option<(&str, Selector)>) -> (Vec<String>, ConfigMap) {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
        for &(name, reinvocation_policy, always) in hooks {
            let order = order.clone();
            let object_selector = selector.clone().filter(|(of, _)| *of == name).map(|(_, selector)| selector).unwrap_or_default();
            let with = |webhook| Webhook { configuration: "all".into(), reinvocation_policy, object_selector, ..webhook };
            hook_with::<ConfigMap, _>(&bed, name, true, FailurePolicy::Fail, with, move |_, review| {
                order.lock().push(name.to_owned());
                async move { if always { counts(review, name).await } else { marks(review, name).await } }
            });
        }
        let created = client.create(config_map("x", "v", "1")).await.unwrap();
        (std::mem::take(&mut *order.lock()), (*created).clone())
    })
}

#[test]
fn k194_who_wants_to_is_asked_once_more_after_another_changed_the_object() {
    use ReinvocationPolicy::Never;
    // As observed: the second call of the first one changes the object for the last one.
    let (order, map) = order_of_calls(&[("a", IfNeeded, true), ("b", Never, false), ("c", IfNeeded, true)], None);
    assert_eq!(order, ["a", "b", "c", "a", "c"]);
    assert_eq!(["a", "b", "c"].map(|name| label(&map, name)), ["2", "1", "2"]);
    // A webhook is not called again because of its own change, nor if nothing changed after it.
    assert_eq!(order_of_calls(&[("a", IfNeeded, true)], None).0, ["a"]);
    assert_eq!(order_of_calls(&[("b", Never, false), ("a", IfNeeded, true)], None).0, ["b", "a"]);
    assert_eq!(order_of_calls(&[("a", Never, true), ("b", Never, true)], None).0, ["a", "b"]);
    assert_eq!(order_of_calls(&[("a", IfNeeded, false), ("b", Never, false), ("c", IfNeeded, false)], None).0, ["a", "b", "c", "a"]);
    // A webhook that did not match at first is not called in the second round, although it would match by then.
    let late = ("a", where_label("b", "1"));
    assert_eq!(order_of_calls(&[("a", IfNeeded, true), ("b", Never, false)], Some(late)).0, ["b"]);
}

#[test]
fn k194_mutating_webhooks_come_by_the_name_of_their_configuration_and_within_it_in_its_order() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        for (configuration, name) in [("two", "b"), ("one", "z"), ("two", "a"), ("one", "y")] {
            let with = |webhook| Webhook { configuration: configuration.into(), ..webhook };
            hook_with::<ConfigMap, _>(&bed, name, true, FailurePolicy::Fail, with, move |_, review| async move {
                let map = object_of::<ConfigMap>(&review);
                let seen = format!("{}{name}", label(&map, "seen"));
                Ok(Some(Arc::new(labelled(&map, "seen", &seen)) as Obj))
            });
        }
        let created = client.create(config_map("a", "v", "1")).await.unwrap();
        assert_eq!(label(&created, "seen"), "zyba");
    });
}

#[test]
fn k194_a_write_with_a_version_that_is_stale_by_then_asks_both_rounds_twice_and_conflicts() {
    Testbed::run(1, async |bed| {
        let (slow, quick) = (bed.client_on("slow", 0), bed.client_on("quick", 1));
        let stored = slow.create(config_map("a", "v", "0")).await.unwrap();
        let again = |webhook| Webhook { reinvocation_policy: IfNeeded, ..webhook };
        let first = hook_with::<ConfigMap, _>(&bed, "1", true, FailurePolicy::Fail, again, pass);
        let rt = bed.rt.clone();
        let second = hook::<ConfigMap, _>(&bed, "2", true, FailurePolicy::Fail, move |call, review| {
            let rt = rt.clone();
            async move {
                if call == 1 {
                    rt.sleep(secs(2)).await;
                }
                marks(review, "two").await
            }
        });
        let sender = slow.clone();
        let running = start(&bed, &slow, async move { sender.update(labelled(&*stored, "by", "slow")).await });
        bed.wait(secs(1)).await;
        let by_now = quick.patch::<ConfigMap>(&key("a"), Patch::merge(json!({"data": {"v": "1"}}))).await.unwrap();
        assert_eq!(refused(running.await.unwrap()), modified("configmaps", "a"));
        let of_slow = |hooked: &Hooked| hooked.asked.lock().iter().filter(|review| label(&object_of(review), "by") == "slow").count();
        assert_eq!((of_slow(&first), of_slow(&second)), (4, 2), "two passes of the write, two rounds in each");
        let versions: Vec<u64> = first.asked.lock().iter().map(|review| rv(&object_of::<ConfigMap>(review))).collect();
        assert!(versions[versions.len() - 1] < rv(&*by_now), "the last one sees a version that is stale by then");
    });
}

#[test]
fn k195_a_dry_run_is_refused_by_webhooks_with_side_effects_whatever_their_failure_policy() {
    for mutating in [true, false] {
        for (side_effects, passes) in
            [(SideEffects::None, true), (SideEffects::NoneOnDryRun, true), (SideEffects::Some, false), (SideEffects::Unknown, false)]
        {
            Testbed::run(1, async |bed| {
                let client = bed.client("writer");
                let with = |webhook| Webhook { side_effects, object_selector: where_label("ipam", "1"), ..webhook };
                let hooked = hook_with::<ConfigMap, _>(&bed, "ipam.example.com", mutating, FailurePolicy::Ignore, with, pass);
                let dry = async |client: &SimClient, body: ConfigMap| dry_update(client, body, None).await;
                let stored = client.create(labelled(&config_map("a", "v", "1"), "ipam", "1")).await.unwrap();
                let other = client.create(config_map("b", "v", "1")).await.unwrap();
                assert_eq!(hooked.calls(), 1);
                let outcome = silently::<ConfigMap, _>(&bed, dry(&client, (*stored).clone())).await;
                if passes {
                    outcome.unwrap();
                    assert!(hooked.calls() == 2 && hooked.asked.lock()[1].dry);
                } else {
                    let message = "admission webhook \"ipam.example.com\" does not support dry run";
                    assert_eq!(refused(outcome), status(400, "BadRequest", message, json!(null)));
                    assert_eq!(hooked.calls(), 1);
                }
                dry(&client, (*other).clone()).await.unwrap();
            });
        }
    }
}

#[test]
fn k196_validating_webhooks_run_side_by_side_and_the_first_to_refuse_is_told() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        for (name, seconds) in [("a", 3), ("b", 1), ("c", 2)] {
            let rt = bed.rt.clone();
            hook::<ConfigMap, _>(&bed, name, false, FailurePolicy::Fail, move |_, _| {
                let rt = rt.clone();
                async move {
                    rt.sleep(secs(seconds)).await;
                    Err(Denial { code: 403, reason: None, message: format!("after {seconds} s") })
                }
            });
        }
        let sent = bed.rt.now();
        let body = refused(client.create(config_map("x", "v", "1")).await);
        assert_eq!(body["message"], "admission webhook \"b\" denied the request: after 1 s");
        let took = bed.rt.now() - sent;
        assert!(took >= secs(3) && took < secs(4), "all of them are waited for: {took:?}");
    });
}
