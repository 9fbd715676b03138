//! K §10.6: patch.

use std::collections::BTreeMap;

use ipam_spiderpool::SpiderIPPool;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::ClientExt;
use kube_machinery::api::{DeleteOptions, Patch, PatchKind};
use kube_machinery::{Object, ObjectKey};
use kube_sim::cluster::admission::FailurePolicy;
use kube_sim::testbed::{Testbed, config_map, key, pod};
use kube_sim::trace::WatchKind;
use serde_json::{Value, json};

use super::expect::*;

fn data(map: &ConfigMap) -> BTreeMap<&str, &str> {
    map.data.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// 422 for a JSON patch that does not fit the object.
fn does_not_apply() -> Value {
    status(422, "Invalid", "the server rejected our request due to an error in our request", json!(null))
}

#[test]
fn k085_a_merge_patch_deletes_with_null_merges_maps_and_replaces_lists() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let stored = client.create(config_map("a", "keep", "1")).await.unwrap();
        let patch = Patch::merge(json!({"data": {"new": "2"}, "metadata": {"labels": {"l": "1"}}}));
        let (answer, events) = effects::<ConfigMap, _>(&bed, client.patch(&key("a"), patch)).await;
        let patched = answer.unwrap();
        assert_eq!(kinds(&events), [WatchKind::Modified]);
        assert_eq!(data(&patched), [("keep", "1"), ("new", "2")].into());
        assert_eq!((rv(&*patched), uid(&*patched)), (bed.revision(), uid(&*stored)));
        let patch = Patch::merge(json!({"data": {"keep": null, "absent": null}, "metadata": {"labels": null}}));
        let patched = client.patch::<ConfigMap>(&key("a"), patch).await.unwrap();
        assert_eq!((data(&patched), &patched.metadata.labels), ([("new", "2")].into(), &None));
        assert_eq!(client.get::<ConfigMap>(&key("a")).await.unwrap(), patched);

        client.create(pool("p")).await.unwrap();
        let name = ObjectKey::cluster("p");
        let patch = Patch::merge(json!({"spec": {"ips": ["10.0.0.7"]}}));
        let patched = client.patch::<SpiderIPPool>(&name, patch).await.unwrap();
        assert_eq!(patched.spec.ips, Some(vec!["10.0.0.7".to_owned()]), "the list is replaced, and no version is needed");
        assert_eq!((patched.spec.subnet.as_str(), patched.metadata.generation), ("10.0.0.0/24", Some(2)));
        let patch = Patch::json(json!([{"op": "add", "path": "/spec/ips/-", "value": "10.0.0.8"}]));
        let patched = client.patch::<SpiderIPPool>(&name, patch).await.unwrap();
        assert_eq!(patched.spec.ips, Some(vec!["10.0.0.7".to_owned(), "10.0.0.8".to_owned()]));
    });
}

#[test]
fn k085_a_patch_without_effect_is_a_silent_success() {
    async fn check<K: Object>(bed: &Testbed, body: K, patches: &[Patch]) {
        let client = bed.client("writer");
        let stored = client.create(body).await.unwrap();
        for patch in patches {
            let answer = silently::<K, _>(bed, client.patch::<K>(&ObjectKey::of(&*stored), patch.clone())).await;
            assert_eq!(answer.unwrap(), stored, "{patch:?}");
        }
    }
    Testbed::run(1, async |bed| {
        let nothing = [
            Patch::merge(json!({})),
            Patch::merge(json!({"metadata": {"labels": {}, "annotations": {"absent": null}}})),
            Patch::merge(json!({"metadata": {"generation": 9, "creationTimestamp": null}})),
            Patch::json(json!([])),
            Patch::json(json!([{"op": "test", "path": "/kind", "value": "Pod"}])),
        ];
        check(&bed, config_map("a", "v", "1"), &nothing[..4]).await;
        check(&bed, config_map("b", "v", "1"), &[Patch::merge(json!({"data": {"v": "1"}}))]).await;
        check(&bed, pod("a", "n1"), &nothing).await;
        // The status belongs to the other URL.
        check(&bed, pod("b", "n1"), &[Patch::merge(json!({"status": {"phase": "Running"}}))]).await;
        check(&bed, pool("p"), &nothing[..4]).await;
    });
}

#[test]
fn k086_concurrent_patches_of_different_keys_all_succeed_and_all_last() {
    let mut repeated = false;
    for seed in SEEDS {
        repeated |= Testbed::run(seed, async |bed| {
            // The webhook takes a moment, so that the patches overtake each other between their reads and writes.
            let hooked = hook::<ConfigMap, _>(&bed, "slow.example.com", false, FailurePolicy::Fail, |_, _| async { Ok(None) });
            let admin = bed.client("admin");
            admin.create(config_map("a", "v", "0")).await.unwrap();
            let created = admin.create(pool("p")).await.unwrap();
            let mut maps = Vec::new();
            let mut pools = Vec::new();
            for number in 0..6 {
                let client = bed.client_on("patcher", number % 2);
                let patch = match number % 3 {
                    0 => Patch::json(json!([{"op": "add", "path": format!("/data/k{number}"), "value": "1"}])),
                    _ => Patch::merge(json!({"data": {format!("k{number}"): "1"}})),
                };
                let other = client.clone();
                maps.push(start(&bed, &client, async move { other.patch::<ConfigMap>(&key("a"), patch).await }));
                let patch = Patch::merge(json!({"metadata": {"labels": {format!("k{number}"): "1"}}}));
                let other = client.clone();
                pools.push(start(&bed, &client, async move { other.patch::<SpiderIPPool>(&ObjectKey::cluster("p"), patch).await }));
            }
            for outcome in maps {
                outcome.await.unwrap().unwrap();
            }
            for outcome in pools {
                outcome.await.unwrap().unwrap();
            }
            let map = admin.get::<ConfigMap>(&key("a")).await.unwrap();
            assert_eq!(data(&map).len(), 7, "{map:?}");
            let pool = admin.get::<SpiderIPPool>(&ObjectKey::cluster("p")).await.unwrap();
            assert_eq!(pool.metadata.labels.as_ref().unwrap().len(), 6);
            assert_ne!(pool.metadata.resource_version, created.metadata.resource_version);
            assert_eq!(bed.cluster.recorder(|recorder| recorder.counts.conflicts), 0);
            hooked.calls() > 7
        });
    }
    assert!(repeated, "no patch was ever applied again: the race did not happen");
}

#[test]
fn k086_the_last_of_concurrent_patches_of_one_key_wins_without_a_conflict() {
    // A patch gives no mutual exclusion: both callers believe that they have set the key.
    Testbed::run(1, async |bed| {
        let (one, two) = (bed.client_on("one", 0), bed.client_on("two", 1));
        one.create(config_map("a", "v", "0")).await.unwrap();
        let (first, second) = (one.clone(), two.clone());
        let set = |value: &str| Patch::merge(json!({"data": {"v": value}}));
        let (first_patch, second_patch) = (set("one"), set("two"));
        let first = start(&bed, &one, async move { first.patch::<ConfigMap>(&key("a"), first_patch).await });
        let second = start(&bed, &two, async move { second.patch::<ConfigMap>(&key("a"), second_patch).await });
        let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
        assert_eq!((entry(&first, "v").as_str(), entry(&second, "v").as_str()), ("one", "two"));
        let last = if rv(&*first) > rv(&*second) { first } else { second };
        assert_eq!(one.get::<ConfigMap>(&key("a")).await.unwrap(), last);
    });
}

#[test]
fn k087_a_patch_that_names_a_version_is_conditional() {
    async fn check<K: Object>(bed: &Testbed, body: K, resource: &str) {
        let client = bed.client("writer");
        let old = client.create(body).await.unwrap();
        let object_key = ObjectKey::of(&*old);
        let new = client.update(labelled(&*old, "by", "another")).await.unwrap();
        let merge = |version: &str| Patch::merge(json!({"metadata": {"resourceVersion": version, "labels": {"by": version}}}));
        let operations = |version: &str| {
            Patch::json(json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
                {"op": "add", "path": "/metadata/labels/by", "value": version},
            ]))
        };
        let version = |object: &K| object.meta().resource_version.clone().unwrap();
        for patch in [merge(&version(&old)), operations(&version(&old))] {
            let body = refused(silently::<K, _>(bed, client.patch::<K>(&object_key, patch)).await);
            assert_eq!(body, modified(resource, object_key.name()));
        }
        let patched = client.patch::<K>(&object_key, merge(&version(&new))).await.unwrap();
        client.patch::<K>(&object_key, operations(&version(&patched))).await.unwrap();
        // The version is compared before the rest of the result is checked.
        let patch = Patch::merge(json!({"metadata": {"resourceVersion": version(&old), "uid": "another"}}));
        assert_eq!(refused(silently::<K, _>(bed, client.patch::<K>(&object_key, patch)).await), modified(resource, object_key.name()));
    }
    Testbed::run(1, async |bed| {
        check(&bed, config_map("a", "v", "1"), "configmaps").await;
        check(&bed, pod("a", "n1"), "pods").await;
        check(&bed, lease("a", "x"), LEASES).await;
        check(&bed, pool("p"), POOLS).await;
        // On the status the version counts as well; a `test` operation on it gives a different error: 422.
        let client = bed.client("writer");
        let patch = Patch::merge(json!({"metadata": {"resourceVersion": "2"}, "status": {"phase": "Running"}}));
        assert_eq!(refused(silently::<Pod, _>(&bed, client.patch_status::<Pod>(&key("a"), patch)).await), modified("pods", "a"));
        let patch = Patch::json(json!([{"op": "test", "path": "/metadata/resourceVersion", "value": "2"}]));
        assert_eq!(refused(silently::<Pod, _>(&bed, client.patch::<Pod>(&key("a"), patch)).await), does_not_apply());
    });
}

#[test]
fn k088_a_patch_that_changes_the_uid_is_invalid() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let message = "Invalid value: \"another\": field is immutable";
        let stored = client.create(pod("a", "n1")).await.unwrap();
        let expected = invalid("Pod", "a", "FieldValueInvalid", "metadata.uid", message);
        let patch = Patch::merge(json!({"metadata": {"uid": "another", "labels": {"l": "1"}}}));
        assert_eq!(refused(silently::<Pod, _>(&bed, client.patch::<Pod>(&key("a"), patch)).await), expected);
        let patch = Patch::json(json!([{"op": "replace", "path": "/metadata/uid", "value": "another"}]));
        assert_eq!(refused(silently::<Pod, _>(&bed, client.patch::<Pod>(&key("a"), patch)).await), expected);
        // The precondition that controllers use for lack of a better one: a status patch with the UID that was read.
        let status_of = |uid: &str| Patch::merge(json!({"metadata": {"uid": uid}, "status": {"phase": "Failed"}}));
        assert_eq!(refused(silently::<Pod, _>(&bed, client.patch_status::<Pod>(&key("a"), status_of("another"))).await), expected);
        let patched = client.patch_status::<Pod>(&key("a"), status_of(&uid(&*stored))).await.unwrap();
        assert_eq!(patched.status.as_ref().unwrap().phase.as_deref(), Some("Failed"));
        // A patch without the UID is no change.
        let patch = Patch::merge(json!({"metadata": {"uid": null}}));
        assert_eq!(silently::<Pod, _>(&bed, client.patch::<Pod>(&key("a"), patch)).await.unwrap(), patched);

        client.create(pool("p")).await.unwrap();
        let patch = Patch::merge(json!({"metadata": {"uid": "another"}}));
        let body = refused(silently::<SpiderIPPool, _>(&bed, client.patch::<SpiderIPPool>(&ObjectKey::cluster("p"), patch)).await);
        let kind = "SpiderIPPool.spiderpool.spidernet.io";
        let mut told = invalid(kind, "p", "FieldValueInvalid", "metadata.uid", message);
        // The rules of a custom resource check it again.
        let causes = told["details"]["causes"].as_array_mut().unwrap();
        causes.push(causes[0].clone());
        assert_eq!(body, told);
    });
}

#[test]
fn k089_a_json_patch_that_fails_a_test_or_misses_its_path_is_invalid_as_a_whole() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let stored = client.create(config_map("a", "v", "1")).await.unwrap();
        let set = json!({"op": "replace", "path": "/data/v", "value": "2"});
        for operation in [
            json!({"op": "test", "path": "/data/v", "value": "3"}),
            json!({"op": "test", "path": "/data/absent", "value": "3"}),
            json!({"op": "remove", "path": "/data/absent"}),
            json!({"op": "replace", "path": "/absent/v", "value": "3"}),
            json!({"op": "add", "path": "/metadata/annotations/a", "value": "3"}),
            json!({"op": "move", "from": "/data/absent", "path": "/data/v"}),
        ] {
            for operations in [json!([operation, set]), json!([set, operation])] {
                let body = refused(silently::<ConfigMap, _>(&bed, client.patch::<ConfigMap>(&key("a"), Patch::json(operations))).await);
                assert_eq!(body, does_not_apply());
            }
        }
        assert_eq!(client.get::<ConfigMap>(&key("a")).await.unwrap(), stored);
        let compare_and_set = json!([{"op": "test", "path": "/data/v", "value": "1"}, set]);
        let patched = client.patch::<ConfigMap>(&key("a"), Patch::json(compare_and_set)).await.unwrap();
        assert_eq!(entry(&patched, "v"), "2");
    });
}

#[test]
fn k090_a_patch_needs_an_object_and_a_form() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        for patch in [Patch::merge(json!({"data": {"v": "1"}})), Patch::json(json!([]))] {
            let body = refused(silently::<ConfigMap, _>(&bed, client.patch::<ConfigMap>(&key("a"), patch.clone())).await);
            assert_eq!(body, not_found("configmaps", "a"));
            // This also holds where a PUT would create.
            let body =
                refused(silently::<ConfigMap, _>(&bed, client.patch::<k8s_openapi::api::coordination::v1::Lease>(&key("a"), patch)).await);
            assert_eq!(body, not_found(LEASES, "a"));
        }
        client.create(config_map("a", "v", "1")).await.unwrap();
        for malformed in [
            Patch::merge(json!("text")),
            Patch::merge(json!([{"op": "remove", "path": "/data/v"}])),
            Patch::json(json!({"data": {"v": "1"}})),
        ] {
            let body = refused(silently::<ConfigMap, _>(&bed, client.patch::<ConfigMap>(&key("a"), malformed)).await);
            assert_eq!((&body["code"], &body["reason"]), (&json!(400), &json!("BadRequest")), "{body}");
        }
        for unknown in [json!([{"op": "frobnicate", "path": "/data/v"}]), json!([{"op": "add", "value": "1"}])] {
            let body = refused(silently::<ConfigMap, _>(&bed, client.patch::<ConfigMap>(&key("a"), Patch::json(unknown))).await);
            assert_eq!(body, does_not_apply());
        }
        // Renaming gives the same error as with a PUT: body and URL differ.
        let patch = Patch::merge(json!({"metadata": {"name": "b"}}));
        let body = refused(silently::<ConfigMap, _>(&bed, client.patch::<ConfigMap>(&key("a"), patch)).await);
        let message = "the name of the object (b) does not match the name on the URL (a)";
        assert_eq!(body, status(400, "BadRequest", message, json!(null)));
        // Well-formed patches whose result is not an object of the type.
        let patch = Patch::merge(json!({"data": "text"}));
        let body = refused(silently::<ConfigMap, _>(&bed, client.patch::<ConfigMap>(&key("a"), patch)).await);
        assert_eq!((&body["code"], &body["details"]["causes"][0]["field"]), (&json!(422), &json!("patch")), "{body}");
        // Limits.
        let operations = vec![json!({"op": "test", "path": "/data/v", "value": "1"}); 10_001];
        let body = refused(silently::<ConfigMap, _>(&bed, client.patch::<ConfigMap>(&key("a"), Patch::json(json!(operations)))).await);
        let message = "The allowed maximum operations in a JSON patch is 10000, got 10001";
        assert_eq!(body, status(413, "RequestEntityTooLarge", message, json!(null)));
        let patch = Patch::merge(json!({"metadata": {"annotations": {"a": "x".repeat(3 << 20)}}}));
        let body = refused(silently::<ConfigMap, _>(&bed, client.patch::<ConfigMap>(&key("a"), patch)).await);
        assert_eq!(body, status(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", json!(null)));
    });
}

#[test]
fn k090_a_terminating_object_can_be_patched_but_gets_no_new_finalizer() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        client.create(held_map("a", &["example.com/f"])).await.unwrap();
        let terminating = client.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap().unwrap();
        let patch = Patch::merge(json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"], "deletionTimestamp": null}}));
        let body = refused(silently::<ConfigMap, _>(&bed, client.patch::<ConfigMap>(&key("a"), patch)).await);
        assert_eq!((&body["code"], &body["details"]["causes"][0]["field"]), (&json!(422), &json!("metadata.finalizers")), "{body}");
        let patch = Patch::merge(json!({"metadata": {"annotations": {"a": "1"}, "deletionTimestamp": null}}));
        let patched = client.patch::<ConfigMap>(&key("a"), patch).await.unwrap();
        assert_eq!(patched.metadata.deletion_timestamp, terminating.metadata.deletion_timestamp);
        let (answer, events) =
            effects::<ConfigMap, _>(&bed, client.patch::<ConfigMap>(&key("a"), Patch::merge(json!({"metadata": {"finalizers": null}}))))
                .await;
        assert!(answer.is_ok());
        assert_eq!(kinds(&events), [WatchKind::Deleted]);
    });
}

#[test]
fn k091_a_strategic_merge_patch_of_a_custom_resource_is_an_unsupported_media_type() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let of_kind = |kind| Patch::of(kind, json!({"metadata": {"labels": {"a": "b"}}}));
        let message = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
                       application/merge-patch+json, application/apply-patch+yaml";
        let expected = status(415, "UnsupportedMediaType", message, json!(null));
        let name = ObjectKey::cluster("p");
        // The media type is checked first: the pool need not exist.
        for _ in 0..2 {
            let body = refused(silently::<SpiderIPPool, _>(&bed, client.patch::<SpiderIPPool>(&name, of_kind(PatchKind::Strategic))).await);
            assert_eq!(body, expected);
            let _ = client.create(pool("p")).await;
        }
    });
}

#[test]
fn k090_a_strategic_merge_patch_of_a_built_in_type_merges_lists_by_their_keys() {
    Testbed::run(1, async |bed| {
        let client = bed.client("kubelet");
        let stored = client.create(pod("a", "n1")).await.unwrap();
        let strategic = |body| Patch::of(PatchKind::Strategic, body);
        let ready = |status: &str| strategic(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}}));
        client.patch_status::<Pod>(&key("a"), ready("False")).await.unwrap();
        let more = strategic(json!({"status": {"conditions": [{"type": "Initialized", "status": "True"}]}}));
        client.patch_status::<Pod>(&key("a"), more).await.unwrap();
        let patched = client.patch_status::<Pod>(&key("a"), ready("True")).await.unwrap();
        let conditions = patched.status.as_ref().unwrap().conditions.as_ref().unwrap();
        let told: Vec<_> = conditions.iter().map(|condition| (condition.type_.as_str(), condition.status.as_str())).collect();
        assert_eq!(told, [("Initialized", "True"), ("Ready", "True")]);
        // With the UID it is a patch of this pod only, as the kubelet sends it (K088).
        let of = |uid: &str| strategic(json!({"metadata": {"uid": uid}, "status": {"phase": "Running"}}));
        let body = refused(silently::<Pod, _>(&bed, client.patch_status::<Pod>(&key("a"), of("another"))).await);
        assert_eq!((&body["code"], &body["details"]["causes"][0]["field"]), (&json!(422), &json!("metadata.uid")));
        client.patch_status::<Pod>(&key("a"), of(stored.metadata.uid.as_deref().unwrap())).await.unwrap();
    });
}
