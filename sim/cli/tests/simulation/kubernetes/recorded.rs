//! Details of the statements that only a real server could tell: K010, K026, K033, K062, K066, K071, K087, K090, K096, K111, K126.

use ipam_spiderpool::SpiderIPPool;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube_machinery::api::{Call, DeleteOptions, ListOptions, Patch, Subresource};
use kube_machinery::{ApiError, Client, ClientExt, Object, ObjectKey};
use kube_sim::cluster::SimClient;
use kube_sim::testbed::{Testbed, config_map, from_json, key, pod};
use serde_json::{Value, json};

use super::expect::*;

fn versioned<K: Object>(object: &K, version: &str) -> K {
    changed(object, |object| object.meta_mut().resource_version = Some(version.to_owned()))
}

/// An error 500 without a reason.
fn raw(message: &str) -> Value {
    status(500, "", message, json!(null))
}

#[test]
fn k009_a_status_takes_no_other_grace_and_passes_over_another_time() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let live = client.create(pod("a", "n1")).await.unwrap();
        let time = || Some(part(json!("2001-01-01T00:00:00Z")));
        let timed = changed(&*live, |pod| pod.metadata.deletion_timestamp = time());
        assert_eq!(silently::<Pod, _>(&bed, put_status(&client, timed)).await.unwrap(), live);
        let graced = changed(&*live, |pod| pod.metadata.deletion_grace_period_seconds = Some(1));
        let message = "Invalid value: 1: field is immutable";
        let field = "metadata.deletionGracePeriodSeconds";
        assert_eq!(refused(put_status(&client, graced).await), invalid("Pod", "a", "FieldValueInvalid", field, message));
    });
}

#[test]
fn k010_a_type_without_a_generation_keeps_the_one_it_was_created_with() {
    async fn check<K: Object>(client: &SimClient, body: K) {
        let with = |body: &K, generation| changed(body, |object| object.meta_mut().generation = generation);
        let made = client.create(with(&body, Some(7))).await.unwrap();
        assert_eq!(made.meta().generation, Some(7));
        let updated = client.update(labelled(&with(&made, Some(9)), "l", "1")).await.unwrap();
        assert_eq!(updated.meta().generation, Some(7));
    }
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        check(&client, config_map("a", "v", "1")).await;
        check(&client, lease("a", "me")).await;
        check(&client, from_json::<Node>(json!({"metadata": {"name": "a"}}))).await;
        let absent = client.create(config_map("b", "v", "1")).await.unwrap();
        assert_eq!(absent.metadata.generation, None);
    });
}

#[test]
fn k033_a_continue_token_with_version_zero_gives_all_the_rest() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        for name in ["a", "b", "c"] {
            client.create(config_map(name, "v", "1")).await.unwrap();
        }
        let first = client.list::<ConfigMap>(None, ListOptions { limit: 1, ..ListOptions::default() }).await.unwrap();
        let options = ListOptions {
            limit: 1,
            continue_token: first.continue_token.clone(),
            resource_version: Some("0".to_owned()),
            ..ListOptions::default()
        };
        let rest = client.list::<ConfigMap>(None, options).await.unwrap();
        assert_eq!(rest.items.iter().map(|map| map.metadata.name.as_deref().unwrap()).collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(rest.continue_token, None);
    });
}

#[test]
fn k062_only_a_number_counts_as_the_version_of_a_new_object() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        for (number, version) in ["", "0", "abc", "-1", "18446744073709551616"].into_iter().enumerate() {
            client.create(versioned(&config_map(&format!("m-{number}"), "v", "1"), version)).await.unwrap();
        }
        let told = raw("resourceVersion should not be set on objects to be created");
        assert_eq!(refused(client.create(versioned(&config_map("b", "v", "1"), "5")).await), told);
    });
}

#[test]
fn k066_a_pod_in_a_terminating_namespace_is_not_bound() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let namespace: Namespace = from_json(json!({"metadata": {"name": "doomed"}}));
        client.create(namespace).await.unwrap();
        let waiting: Pod = from_json(
            json!({"metadata": {"name": "a", "namespace": "doomed"}, "spec": {"containers": [{"name": "main", "image": "app"}]}}),
        );
        client.create(waiting.clone()).await.unwrap();
        client.delete::<Namespace>(&ObjectKey::cluster("doomed"), DeleteOptions::default()).await.unwrap();
        let error = bind(&client, changed(&waiting, |pod| pod.spec.as_mut().unwrap().node_name = Some("n1".to_owned()))).await.unwrap_err();
        let body = body_of(&error);
        let message = "pods \"a\" is forbidden: unable to create new content in namespace doomed because it is being terminated";
        assert_eq!((&body["code"], &body["message"]), (&json!(403), &json!(message)));
        assert_eq!(body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    });
}

async fn bind(client: &SimClient, body: Pod) -> Result<(), ApiError> {
    let call = Call::Update {
        key: ObjectKey::of(&body),
        body: std::sync::Arc::new(body),
        subresource: Some(Subresource::Binding),
        dry: Default::default(),
    };
    client.send(call.into()).await.map(drop)
}

#[test]
fn k071_k087_k111_a_version_that_is_no_number_is_an_error_without_a_reason() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let map = client.create(config_map("a", "v", "1")).await.unwrap();
        let pool = client.create(pool("p")).await.unwrap();
        for version in ["abc", "-5"] {
            let told = raw(&format!("strconv.ParseUint: parsing \"{version}\": invalid syntax"));
            assert_eq!(refused(silently::<ConfigMap, _>(&bed, client.update(versioned(&*map, version))).await), told);
            assert_eq!(refused(silently::<SpiderIPPool, _>(&bed, client.update(versioned(&*pool, version))).await), told);
            let patch = Patch::merge(json!({"metadata": {"resourceVersion": version}}));
            assert_eq!(refused(client.patch::<ConfigMap>(&key("a"), patch).await), told);
            let told =
                raw(&format!("resourceVersion: Invalid value: \"{version}\": strconv.ParseUint: parsing \"{version}\": invalid syntax"));
            assert_eq!(refused(client.get_cached::<ConfigMap>(&key("a"), version).await), told);
        }
        for version in ["", "0"] {
            let patch = Patch::merge(json!({"metadata": {"resourceVersion": version}, "data": {"v": version}}));
            client.patch::<ConfigMap>(&key("a"), patch).await.unwrap();
            let patch = Patch::merge(json!({"metadata": {"resourceVersion": version}}));
            assert_eq!(refused(client.patch::<SpiderIPPool>(&ObjectKey::cluster("p"), patch).await)["code"], 422);
        }
    });
}

#[test]
fn k096_a_terminating_namespace_has_no_grace() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let namespace: Namespace = from_json(json!({"metadata": {"name": "doomed"}}));
        client.create(namespace).await.unwrap();
        let marked = client.delete::<Namespace>(&ObjectKey::cluster("doomed"), DeleteOptions::default()).await.unwrap().unwrap();
        assert_eq!((marked.metadata.deletion_timestamp.is_some(), marked.metadata.deletion_grace_period_seconds), (true, None));
        assert_eq!(marked.status.as_ref().unwrap().phase.as_deref(), Some("Terminating"));
    });
}

#[test]
fn k126_uid_and_version_of_a_binding_are_preconditions() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let made = client.create(pod("a", "")).await.unwrap();
        let bound = changed(&unversioned(&*made), |pod| pod.spec.as_mut().unwrap().node_name = Some("n1".to_owned()));
        let storage = |text: String| {
            let key = "/registry/pods/default/a";
            let text = format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {text}"
            );
            conflict("pods", "a", &text)
        };
        let other = changed(&bound, |pod| pod.metadata.uid = Some("another".to_owned()));
        let told = storage(format!("UID in precondition: another, UID in object meta: {}", uid(&*made)));
        assert_eq!(refused(silently::<Pod, _>(&bed, bind(&client, other)).await), told);
        let told = storage(format!("ResourceVersion in precondition: 1, ResourceVersion in object meta: {}", rv(&*made)));
        assert_eq!(refused(silently::<Pod, _>(&bed, bind(&client, versioned(&bound, "1"))).await), told);
        bind(&client, bound).await.unwrap();
        assert_eq!(client.get::<Pod>(&key("a")).await.unwrap().metadata.generation, made.metadata.generation);
    });
}
