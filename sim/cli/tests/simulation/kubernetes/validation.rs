//! Metadata that every API server refuses (K203), in every kind of write.

use ipam_spiderpool::SpiderIPPool;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_machinery::api::Patch;
use kube_machinery::{ClientExt, ObjectKey};
use kube_sim::testbed::{Testbed, config_map, from_json, key};
use serde_json::{Value, json};

use super::expect::{body_of, changed, labelled, pool, refused};

/// The fields and messages of the causes.
fn causes(body: &Value) -> Vec<(&str, &str)> {
    body["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| (cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap()))
        .collect()
}

#[test]
fn k203_a_label_of_64_bytes_is_refused_in_every_write_of_every_type() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let long = "x".repeat(64);
        let told = format!("Invalid value: \"{long}\": must be no more than 63 bytes");
        let made = client.create(config_map("a", "v", "1")).await.unwrap();
        let made_pool = client.create(pool("p")).await.unwrap();
        let before = bed.revision();
        let patch = || Patch::merge(json!({"metadata": {"labels": {"k": long}}}));
        for (name, body) in [
            ("b", refused(client.create(labelled(&config_map("b", "v", "1"), "k", &long)).await)),
            ("a", refused(client.update(labelled(&*made, "k", &long)).await)),
            ("a", refused(client.patch::<ConfigMap>(&key("a"), patch()).await)),
        ] {
            assert_eq!(body["message"], json!(format!("ConfigMap \"{name}\" is invalid: metadata.labels: {told}")));
            assert_eq!((&body["code"], causes(&body)), (&json!(422), vec![("metadata.labels", &*told)]));
        }
        for (name, body) in [
            ("q", refused(client.create(labelled(&pool("q"), "k", &long)).await)),
            ("p", refused(client.update(labelled(&*made_pool, "k", &long)).await)),
            ("p", refused(client.patch::<SpiderIPPool>(&ObjectKey::cluster("p"), patch()).await)),
        ] {
            assert_eq!(
                body["message"],
                json!(format!("SpiderIPPool.spiderpool.spidernet.io \"{name}\" is invalid: metadata.labels: {told}"))
            );
        }
        // The status of a custom resource accepts no labels, so that none can be wrong.
        client.update_status(labelled(&*made_pool, "k", &long)).await.unwrap();
        assert_eq!(bed.revision(), before);
    });
}

#[test]
fn k012_what_an_update_of_a_custom_resource_must_not_change_is_told_twice_as_a_cause_and_once_in_the_message() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let held = |name: &str| changed(&pool(name), |pool| pool.metadata.finalizers = Some(vec!["plain".to_owned(), "plain".to_owned()]));
        let held = client.create(held("p")).await.unwrap();
        assert_eq!(held.metadata.finalizers.as_ref().unwrap().len(), 2, "duplicates are kept, and a domain is not asked for");
        client.delete::<SpiderIPPool>(&ObjectKey::cluster("p"), Default::default()).await.unwrap();
        let patch = Patch::merge(json!({"metadata": {"finalizers": ["plain", "a.b/c"]}}));
        let body = refused(client.patch::<SpiderIPPool>(&ObjectKey::cluster("p"), patch).await);
        let told = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a.b/c\"}";
        assert_eq!(causes(&body), [("metadata.finalizers", told); 2]);
        let message = format!("SpiderIPPool.spiderpool.spidernet.io \"p\" is invalid: metadata.finalizers: {told}");
        assert_eq!(body["message"], json!(message));
    });
}

#[test]
fn k203_a_finalizer_of_a_built_in_type_has_a_domain() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let map = changed(&config_map("a", "v", "1"), |map| map.metadata.finalizers = Some(vec!["plain".to_owned()]));
        let told = "Invalid value: \"plain\": name is neither a standard finalizer name nor is it fully qualified";
        assert_eq!(causes(&refused(client.create(map).await)), [("metadata.finalizers[0]", told)]);
    });
}

#[test]
fn k203_an_owner_has_a_version_a_kind_a_name_and_a_uid() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let whole = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"});
        for field in ["apiVersion", "kind", "name", "uid"] {
            let mut owner = whole.clone();
            owner[field] = json!("");
            let map: ConfigMap = from_json(json!({"metadata": {"name": "a", "namespace": "default", "ownerReferences": [owner]}}));
            let body = refused(client.create(map).await);
            assert_eq!((&body["code"], causes(&body)[0].0), (&json!(422), &*format!("metadata.ownerReferences.{field}")));
        }
        let map: ConfigMap = from_json(json!({"metadata": {"name": "a", "namespace": "default", "ownerReferences": [whole]}}));
        client.create(map).await.unwrap();
    });
}

#[test]
fn k015_a_put_without_a_name_or_with_another_namespace_is_told_so() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        client.create(config_map("a", "v", "1")).await.unwrap();
        let patch = |meta: Value| Patch::merge(json!({ "metadata": meta }));
        for (meta, told) in [
            (json!({"name": null}), "the name of the object (a based on URL) was undeterminable: name must be provided"),
            (json!({"name": "b"}), "the name of the object (b) does not match the name on the URL (a)"),
            (json!({"namespace": "other"}), "the namespace of the provided object does not match the namespace sent on the request"),
        ] {
            let error = client.patch::<ConfigMap>(&key("a"), patch(meta)).await.unwrap_err();
            assert_eq!((&body_of(&error)["code"], &body_of(&error)["message"]), (&json!(400), &json!(told)));
        }
    });
}

#[test]
fn k064_an_invalid_base_of_a_generated_name_is_told_beside_the_name() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let map: ConfigMap = from_json(json!({"metadata": {"generateName": "Bad_", "namespace": "default"}}));
        let body = refused(client.create(map).await);
        assert_eq!(causes(&body).iter().map(|(field, _)| *field).collect::<Vec<_>>(), ["metadata.generateName", "metadata.name"]);
        let dotted: Namespace = from_json(json!({"metadata": {"name": "a.b"}}));
        let body = refused(client.create(dotted).await);
        assert_eq!(body["message"], json!("Namespace \"a.b\" is invalid: metadata.name: Invalid value: \"a.b\": must not contain dots"));
    });
}
