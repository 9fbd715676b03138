//! K §2.9: server-side apply, and the managers of fields.

use std::collections::BTreeMap;

use ipam_spiderpool::SpiderIPPool;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{Patch, PatchKind, Verb};
use kube_machinery::{ApiError, ClientExt, Object, ObjectKey};
use kube_sim::cluster::admission::FailurePolicy;
use kube_sim::cluster::server::{ApiFault, InjectedFault};
use kube_sim::cluster::{ClusterConfig, Knobs, SimClient};
use kube_sim::net::Side;
use kube_sim::testbed::{Testbed, config_map, key, pod};
use kube_sim::trace::WatchKind;
use serde_json::{Value, json};

use super::expect::*;

/// A ConfigMap `a` with this data, applied by `manager`.
fn wants(manager: &str, data: Value) -> Patch {
    Patch::apply(manager, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}))
}

/// A patch of the Pod `p`, applied by `manager`.
fn of_pod(manager: &str, rest: Value) -> Patch {
    let mut body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    Patch::apply(manager, body)
}

async fn apply(client: &SimClient, patch: Patch) -> Result<ConfigMap, ApiError> {
    client.patch::<ConfigMap>(&key("a"), patch).await.map(|map| (*map).clone())
}

fn data(map: &ConfigMap) -> BTreeMap<&str, &str> {
    map.data.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// The managers of an object: manager, operation, subresource, fields.
fn managers<K: Object>(object: &K) -> Vec<(String, String, String, Value)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let entries = object.meta().managed_fields.iter().flatten();
    entries
        .map(|entry| {
            (
                text(&entry.manager),
                text(&entry.operation),
                text(&entry.subresource),
                entry.fields_v1.clone().map_or(Value::Null, |fields| fields.0),
            )
        })
        .collect()
}

fn entry(manager: &str, operation: &str, fields: Value) -> (String, String, String, Value) {
    (manager.to_owned(), operation.to_owned(), String::new(), fields)
}

/// The configuration of a cluster in which all objects record the managers of their fields.
fn tracking(seed: u64) -> ClusterConfig {
    ClusterConfig { seed, knobs: Knobs { managed_fields: true, ..Knobs::default() }, ..ClusterConfig::default() }
}

#[test]
fn k164_an_object_that_nobody_has_applied_says_nothing_of_managers() {
    Testbed::run(1, async |bed| {
        let client = bed.client("maker");
        client.create(config_map("a", "k", "1")).await.unwrap();
        let map = client.patch::<ConfigMap>(&key("a"), Patch::merge(json!({"data": {"l": "1"}}))).await.unwrap();
        assert_eq!(managers(&*map), []);
        // If the object exists at the first apply, it came from another writer.
        let map = apply(&client, wants("one", json!({"j": "1"}))).await.unwrap();
        let before = json!({"f:data": {".": {}, "f:k": {}, "f:l": {}}});
        let expected = [entry("one", "Apply", json!({"f:data": {"f:j": {}}})), entry("before-first-apply", "Update", before.clone())];
        assert_eq!(managers(&map), expected);
        // From then on every writer is recorded, by the name of its program.
        let map = client.patch::<ConfigMap>(&key("a"), Patch::merge(json!({"data": {"l": "2"}}))).await.unwrap();
        let expected = [
            expected[0].clone(),
            entry("before-first-apply", "Update", json!({"f:data": {".": {}, "f:k": {}}})),
            entry("maker", "Update", json!({"f:data": {"f:l": {}}})),
        ];
        assert_eq!(managers(&*map), expected);
    });
}

#[test]
fn k164_writes_take_fields_from_their_managers_and_each_subresource_is_its_own() {
    Testbed::run_with(tracking(1), 2, async |bed| {
        let (maker, kubelet) = (bed.client("maker"), bed.client("kubelet"));
        let stored = maker.create(pod("p", "n1")).await.unwrap();
        let spec = json!({"f:spec": {
            "f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}, "f:name": {}}},
            "f:nodeName": {},
        }});
        assert_eq!(managers(&*stored), [entry("maker", "Update", spec.clone())]);
        let running = put_status(&kubelet, in_phase(&stored, "Running")).await.unwrap();
        let mut phase = entry("kubelet", "Update", json!({"f:status": {"f:phase": {}}}));
        phase.2 = "status".to_owned();
        assert_eq!(managers(&*running), [phase.clone(), entry("maker", "Update", spec)]);
        // A field that another writer sets no longer belongs to its creator; a field that is removed belongs to none.
        let other = bed.client("other");
        let image = json!({"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}});
        let changed = other.patch::<Pod>(&key("p"), Patch::of(PatchKind::Strategic, image)).await.unwrap();
        let of = |name: &str| managers(&*changed).into_iter().find(|manager| manager.0 == name).unwrap().3;
        assert_eq!(of("other"), json!({"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {"f:image": {}}}}}));
        assert_eq!(of("maker")["f:spec"]["f:containers"]["k:{\"name\":\"main\"}"], json!({".": {}, "f:name": {}}));
    });
}

#[test]
fn k164_a_put_without_managers_keeps_them_and_an_empty_list_ends_them() {
    Testbed::run_with(tracking(1), 2, async |bed| {
        let client = bed.client("one");
        let stored = client.create(config_map("a", "k", "1")).await.unwrap();
        let bare = changed(&unversioned(&*stored), |map: &mut ConfigMap| map.metadata.managed_fields = None);
        let kept = silently::<ConfigMap, _>(&bed, client.update(bare)).await.unwrap();
        assert_eq!(
            (managers(&*kept), kept.metadata.resource_version.clone()),
            (managers(&*stored), stored.metadata.resource_version.clone())
        );
        let emptied = changed(&*stored, |map: &mut ConfigMap| map.metadata.managed_fields = Some(Vec::new()));
        let forgotten = client.update(emptied).await.unwrap();
        assert_eq!(forgotten.metadata.managed_fields, None);
        let still = client.update(changed(&*forgotten, |map: &mut ConfigMap| drop(map.data.take()))).await.unwrap();
        assert_eq!(still.metadata.managed_fields, None, "nobody tracks it until it is applied");
    });
}

#[test]
fn k164_of_more_than_ten_updaters_the_oldest_are_one() {
    Testbed::run_with(tracking(1), 2, async |bed| {
        bed.client("m0").create(config_map("a", "k0", "1")).await.unwrap();
        for number in 1..=11 {
            bed.wait(secs(2)).await;
            let client = bed.client(&format!("m{number}"));
            client.patch::<ConfigMap>(&key("a"), Patch::merge(json!({"data": {format!("k{number}"): "1"}}))).await.unwrap();
        }
        let map = bed.client("reader").get::<ConfigMap>(&key("a")).await.unwrap();
        let all = managers(&*map);
        let names: Vec<&str> = all.iter().map(|manager| manager.0.as_str()).collect();
        assert_eq!(names, ["ancient-changes", "m3", "m4", "m5", "m6", "m7", "m8", "m9", "m10", "m11"]);
        assert_eq!(all[0].3, json!({"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}}}));
    });
}

#[test]
fn k164_managers_count_in_the_size_of_an_object_and_go_if_it_is_too_large() {
    Testbed::run_with(tracking(1), 2, async |bed| {
        let client = bed.client("maker");
        // Twenty thousand names of 40 bytes: once as fields, once in managedFields.
        let entries: BTreeMap<String, String> = (0..20_000).map(|number| (format!("{number:040}"), "x".repeat(40))).collect();
        let large = changed(&config_map("a", "k", "1"), |map| map.data = Some(entries.clone()));
        let stored = client.create(large).await.unwrap();
        assert_eq!(stored.metadata.managed_fields, None, "with managers it is more than 1.5 MiB");
        let half = changed(&config_map("b", "k", "1"), |map| map.data = Some(entries.into_iter().take(5_000).collect()));
        assert!(client.create(half).await.unwrap().metadata.managed_fields.is_some());
    });
}

#[test]
fn k165_lists_of_pods_are_managed_by_the_keys_of_their_items() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        let container = json!({"name": "main", "image": "i", "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]});
        let one = of_pod("one", json!({"spec": {"containers": [container], "tolerations": [{"key": "x"}]}}));
        client.patch::<Pod>(&key("p"), one).await.unwrap();
        let meta = json!({"name": "p", "finalizers": ["example.com/a"], "annotations": {"x": "1"}});
        let two = client.patch::<Pod>(&key("p"), of_pod("two", json!({"metadata": meta}))).await.unwrap();
        let expected = json!({"f:spec": {
            "f:containers": {"k:{\"name\":\"main\"}": {
                ".": {}, "f:name": {}, "f:image": {},
                "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}},
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
            }},
            "f:tolerations": {},
        }});
        let of_two = json!({"f:metadata": {"f:annotations": {"f:x": {}}, "f:finalizers": {"v:\"example.com/a\"": {}}}});
        assert_eq!(managers(&*two), [entry("one", "Apply", expected), entry("two", "Apply", of_two)]);
        // A set may have members of several managers, an atomic list has one.
        let meta = json!({"name": "p", "finalizers": ["example.com/b"]});
        let shared = client.patch::<Pod>(&key("p"), of_pod("three", json!({"metadata": meta}))).await.unwrap();
        assert_eq!(shared.metadata.finalizers, Some(vec!["example.com/a".to_owned(), "example.com/b".to_owned()]));
        let error = client.patch::<Pod>(&key("p"), of_pod("three", json!({"spec": {"tolerations": [{"key": "y"}]}}))).await.unwrap_err();
        assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"one\": .spec.tolerations");
    });
}

#[test]
fn k165_lists_of_a_custom_resource_are_managed_as_wholes_and_maps_by_their_entries() {
    Testbed::run(1, async |bed| {
        let (client, name) = (bed.client("client"), ObjectKey::cluster("p"));
        let of = |manager: &str, spec: Value| {
            let body =
                json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "p"}, "spec": spec});
            Patch::apply(manager, body)
        };
        client.patch::<SpiderIPPool>(&name, of("one", json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1"]}))).await.unwrap();
        let pool = client.patch::<SpiderIPPool>(&name, of("two", json!({"subnet": "10.0.0.0/24", "gateway": "10.0.0.254"}))).await.unwrap();
        assert_eq!((pool.spec.ips.as_deref(), pool.spec.gateway.as_deref()), (Some(&["10.0.0.1".to_owned()][..]), Some("10.0.0.254")));
        let error = client.patch::<SpiderIPPool>(&name, of("two", json!({"ips": ["10.0.0.2"]}))).await.unwrap_err();
        assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"one\": .spec.ips");
    });
}

#[test]
fn k166_an_apply_creates_sets_what_it_names_and_drops_what_it_names_no_more() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        let (answer, events) = effects::<ConfigMap, _>(&bed, apply(&client, wants("one", json!({"k": "1", "x": "1"})))).await;
        assert_eq!((data(&answer.unwrap()), kinds(&events)), ([("k", "1"), ("x", "1")].into(), vec![WatchKind::Added]));
        // Two managers share a value that both apply.
        let (answer, events) = effects::<ConfigMap, _>(&bed, apply(&client, wants("two", json!({"k": "1", "y": "1"})))).await;
        assert_eq!((data(&answer.unwrap()).len(), kinds(&events)), (3, vec![WatchKind::Modified]));
        let map = apply(&client, wants("one", json!({"x": "1"}))).await.unwrap();
        assert_eq!(data(&map), [("k", "1"), ("x", "1"), ("y", "1")].into(), "the other one has it still");
        let map = apply(&client, wants("two", json!({"y": "1"}))).await.unwrap();
        assert_eq!(data(&map), [("x", "1"), ("y", "1")].into(), "its last manager dropped it");
        // Repeating the apply changes nothing, and causes no event.
        let again = silently::<ConfigMap, _>(&bed, apply(&client, wants("two", json!({"y": "1"})))).await.unwrap();
        assert_eq!(again, map);
        // Another manager of the same values is a change.
        let (answer, events) = effects::<ConfigMap, _>(&bed, apply(&client, wants("three", json!({"y": "1"})))).await;
        assert_eq!((data(&answer.unwrap()).len(), kinds(&events)), (2, vec![WatchKind::Modified]));
    });
}

#[test]
fn k166_a_version_is_a_precondition_and_a_status_needs_its_object() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        let versioned = |version: &str| {
            let meta = json!({"name": "a", "resourceVersion": version});
            Patch::apply("one", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": version}}))
        };
        let first = apply(&client, versioned("5")).await.unwrap();
        let second = apply(&client, wants("one", json!({"k": "2"}))).await.unwrap();
        let stale = versioned(first.metadata.resource_version.as_deref().unwrap());
        assert_eq!(refused(silently::<ConfigMap, _>(&bed, apply(&client, stale)).await), modified("configmaps", "a"));
        apply(&client, versioned(second.metadata.resource_version.as_deref().unwrap())).await.unwrap();
        let status = of_pod("one", json!({"status": {"phase": "Running"}}));
        assert_eq!(refused(client.patch_status::<Pod>(&key("p"), status).await), not_found("pods", "p"));
    });
}

#[test]
fn k166_a_status_that_is_applied_to_the_object_is_passed_over_each_time() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        let spec = json!({"containers": [{"name": "main", "image": "i"}]});
        let whole = || of_pod("one", json!({"spec": spec, "status": {"phase": "Failed"}}));
        let first = client.patch::<Pod>(&key("p"), whole()).await.unwrap();
        assert_eq!(first.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Pending"));
        bed.wait(secs(2)).await;
        let again = silently::<Pod, _>(&bed, client.patch::<Pod>(&key("p"), whole())).await.unwrap();
        assert_eq!(again, first, "a later time of its manager alone is no write");
    });
}

#[test]
fn k166_webhooks_see_an_apply_of_what_is_not_there_as_a_create() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        let hooked = hook::<ConfigMap, _>(&bed, "hook", false, FailurePolicy::Fail, |_, _| async { Ok(None) });
        apply(&client, wants("one", json!({"k": "1"}))).await.unwrap();
        apply(&client, wants("one", json!({"k": "2"}))).await.unwrap();
        let asked: Vec<_> = hooked.asked.lock().iter().map(|review| (review.verb == Verb::Create, review.old.is_some())).collect();
        assert_eq!(asked, [(true, false), (false, true)]);
    });
}

#[test]
fn k092_an_apply_names_its_manager_and_what_the_type_has() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        let body = |rest: Value| {
            let mut body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
            body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            body
        };
        let told = async |patch: Patch| silently::<ConfigMap, _>(&bed, apply(&client, patch)).await.unwrap_err();
        let error = told(Patch::of(PatchKind::Apply, body(json!({})))).await;
        assert_eq!(
            error.to_string(),
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
        );
        let error = told(Patch::merge(json!({})).forced()).await;
        assert_eq!(
            error.to_string(),
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
        );
        let unfit = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): ";
        for (rest, code, text) in [
            (json!({"frob": 1}), 500, format!("{unfit}.frob: field not declared in schema")),
            (json!({"data": {"k": 7}}), 500, format!("{unfit}.data.k: expected string, got &value.valueUnstructured{{Value:7}}")),
            (json!({"data": "x"}), 500, format!("{unfit}.data: expected map, got &{{x}}")),
            (json!({"kind": "Pod"}), 400, "invalid object type: /v1, Kind=Pod".to_owned()),
            (json!({"metadata": {"name": "a", "managedFields": []}}), 400, "metadata.managedFields must be nil".to_owned()),
            (json!({"metadata": {"name": "b"}}), 400, "the name of the object (b) does not match the name on the URL (a)".to_owned()),
        ] {
            let error = told(Patch::apply("one", body(rest))).await;
            assert_eq!((error.code(), error.to_string()), (Some(code), text));
        }
    });
}

#[test]
fn k167_a_field_of_another_manager_is_a_conflict_unless_it_is_forced() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        apply(&client, wants("one", json!({"k": "1", "l": "1"}))).await.unwrap();
        let cause = |field: &str| json!({"field": field, "message": "conflict with \"one\"", "reason": "FieldManagerConflict"});
        let message = "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.k\n- .data.l";
        let expected = status(409, "Conflict", message, json!({"causes": [cause(".data.k"), cause(".data.l")]}));
        let wanted = || wants("two", json!({"k": "2", "l": "2"}));
        assert_eq!(refused(silently::<ConfigMap, _>(&bed, apply(&client, wanted())).await), expected);
        let map = apply(&client, wanted().forced()).await.unwrap();
        assert_eq!(data(&map), [("k", "2"), ("l", "2")].into());
        assert_eq!(managers(&map), [entry("two", "Apply", json!({"f:data": {"f:k": {}, "f:l": {}}}))]);
        // An update makes its client a manager of fields, too.
        client.patch::<ConfigMap>(&key("a"), Patch::merge(json!({"data": {"k": "3"}}))).await.unwrap();
        let error = apply(&client, wanted()).await.unwrap_err();
        assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"client\" using v1: .data.k");
    });
}

/// A fault of an apply; the apply may be executed nevertheless.
fn injected_of(seed: u64) -> InjectedFault {
    let error = FAILURES[(seed % 5) as usize];
    match seed % 4 {
        0 => InjectedFault::LoseReply { error, after: millis(300) },
        1 => InjectedFault::CommitLate { error, after: millis(700) },
        2 => InjectedFault::Twice { gap: millis(300) },
        _ => InjectedFault::FailBeforeCommit,
    }
}

/// Applies one field with the values 1 to 10, each until an answer confirms it, and in between tries to take the other manager's field.
/// Returns the number of errors.
async fn ten_rounds(bed: Testbed, client: SimClient, own: &'static str, other: &'static str) -> u32 {
    let mut errors = 0;
    for round in 1..=10 {
        let wanted = wants(own, json!({own: round.to_string(), "both": "1"}));
        while let Err(error) = client.patch::<ConfigMap>(&key("a"), wanted.clone()).await {
            assert!(error.is_ambiguous(), "{own} has nothing in common with {other} but what both want alike: {error}");
            errors += 1;
            bed.wait(millis(200)).await;
        }
        let theft = wants(own, json!({own: round.to_string(), "both": "1", other: "taken"}));
        let error = client.patch::<ConfigMap>(&key("a"), theft).await.unwrap_err();
        assert!(error.is_ambiguous() || error.is_conflict(), "{error}");
        bed.wait(millis(300)).await;
    }
    errors
}

#[test]
fn k166_appliers_of_one_object_lose_no_field_to_lost_answers_and_repeated_applies() {
    for seed in SEEDS.start..SEEDS.end + 8 {
        Testbed::run_with(tracking(seed), 2, async |bed| {
            let clients = ["left", "right"].map(|name| bed.client(name));
            for (client, name) in clients.iter().zip(["left", "right"]) {
                apply(client, wants(name, json!({name: "0", "both": "1"}))).await.unwrap();
            }
            bed.cluster.add_api_fault(ApiFault {
                fault: 0,
                servers: Side::Any,
                clients: Side::Only(clients.iter().map(SimClient::process).collect()),
                verbs: vec![Verb::Patch],
                kinds: Vec::new(),
                chance: 0.4,
                injected: injected_of(seed),
            });
            let mut heard = Watched::<ConfigMap>::open(&bed).await;
            let [left, right] = &clients;
            let appliers = [
                start(&bed, left, ten_rounds(bed.clone(), left.clone(), "left", "right")),
                start(&bed, right, ten_rounds(bed.clone(), right.clone(), "right", "left")),
            ];
            let mut lost = 0;
            for applier in appliers {
                lost += within(&bed, secs(600), applier).await.unwrap().unwrap();
            }
            calm(&bed);
            bed.wait(secs(5)).await;
            assert!(lost > 0 || matches!(injected_of(seed), InjectedFault::Twice { .. }), "nothing befell anybody (seed {seed})");
            let mut last: BTreeMap<&str, u32> = BTreeMap::new();
            for (kind, map) in heard.events().await {
                assert_ne!(kind, WatchKind::Deleted);
                for name in ["left", "right"] {
                    let value =
                        map.data.as_ref().and_then(|data| data.get(name)).map_or(0, |value| value.parse::<u32>().unwrap_or(u32::MAX));
                    let before = last.insert(name, value).unwrap_or(0);
                    assert!(value >= before && value < u32::MAX, "{name} went from {before} to {value} (seed {seed})");
                }
            }
            assert_eq!(last, [("left", 10), ("right", 10)].into());
        });
    }
}
