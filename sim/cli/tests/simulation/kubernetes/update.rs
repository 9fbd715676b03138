//! K §10.5: update.

use std::collections::BTreeSet;

use ipam_spiderpool::{SpiderEndpoint, SpiderIPPool};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube_machinery::api::{DeleteOptions, Reply, Subresource};
use kube_machinery::{ClientExt, Object, ObjectKey};
use kube_sim::cluster::{ClusterConfig, Knobs};
use kube_sim::testbed::{Testbed, config_map, from_json, grace, key, pod};
use kube_sim::trace::WatchKind;
use serde_json::json;

use super::expect::*;

/// The message of a uid precondition that fails.
fn uid_mismatch(resource: &str, name: &str, sent: &str, stored: &str) -> serde_json::Value {
    // Custom resources are stored by group, others by plural alone.
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let place = if group.contains("spidernet") { format!("{group}/{plural}/{name}") } else { format!("{plural}/default/{name}") };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{place}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID \
         in precondition: {sent}, UID in object meta: {stored}"
    );
    conflict(resource, name, &why)
}

const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

#[test]
fn k069_a_put_with_a_stale_rv_is_a_silent_conflict() {
    async fn check<K: Object>(bed: &Testbed, body: K, resource: &str) {
        let client = bed.client("writer");
        let old = client.create(body).await.unwrap();
        let new = client.update(labelled(&*old, "by", "another")).await.unwrap();
        let error = silently::<K, _>(bed, client.update(labelled(&*old, "by", "me"))).await.unwrap_err();
        assert!(error.is_conflict() && !error.is_already_exists());
        let name = old.meta().name.as_deref().unwrap();
        assert_eq!(body_of(&error), modified(resource, name));
        // A version from the future is refused as well, even if the body equals the stored state.
        let future = changed(&*new, |object| object.meta_mut().resource_version = Some("999999".to_owned()));
        assert_eq!(refused(silently::<K, _>(bed, client.update(future)).await), modified(resource, name));
        let same = changed(&*new, |object| object.meta_mut().resource_version.clone_from(&old.meta().resource_version));
        assert_eq!(refused(silently::<K, _>(bed, client.update(same)).await), modified(resource, name));
        assert_eq!(client.get::<K>(&ObjectKey::of(&*old)).await.unwrap(), new);
    }
    Testbed::run(1, async |bed| {
        check(&bed, config_map("a", "v", "1"), "configmaps").await;
        check(&bed, pod("a", "n1"), "pods").await;
        check(&bed, lease("a", "x"), LEASES).await;
        check(&bed, pool("p"), POOLS).await;
    });
}

#[test]
fn k070_of_concurrent_puts_with_one_rv_exactly_one_succeeds() {
    let mut winners = BTreeSet::new();
    for seed in SEEDS {
        winners.insert(Testbed::run(seed, async |bed| {
            let map = bed.client("admin").create(config_map("a", "v", "none")).await.unwrap();
            let mut running = Vec::new();
            for number in 0..8 {
                let client = bed.client_on("writer", number % 2);
                let body = changed(&*map, |map| map.data = config_map("a", "v", &number.to_string()).data);
                running.push(start(&bed, &client.clone(), async move { client.update(body).await }));
            }
            let mut winner = None;
            for (number, outcome) in running.into_iter().enumerate() {
                match outcome.await.unwrap() {
                    Ok(_) => assert!(winner.replace(number).is_none(), "two PUTs succeeded"),
                    Err(error) => assert_eq!(body_of(&error), modified("configmaps", "a")),
                }
            }
            let stored = bed.client("reader").get::<ConfigMap>(&key("a")).await.unwrap();
            assert_eq!(entry(&stored, "v"), winner.expect("one PUT succeeds").to_string());
            winner
        }));
    }
    assert!(winners.len() > 1, "the race has one outcome only: {winners:?}");
}

#[test]
fn k071_a_put_without_rv_overwrites_built_in_types_and_is_invalid_for_custom_resources_and_leases() {
    async fn overwrites<K: Object>(bed: &Testbed, body: K) {
        let client = bed.client("writer");
        let old = client.create(body).await.unwrap();
        for none in [None, Some(String::new()), Some("0".to_owned())] {
            client.update(labelled(&unversioned(&*old), "by", "another")).await.unwrap();
            let mine = changed(&labelled(&*old, "by", "me"), |object| object.meta_mut().resource_version = none);
            let (outcome, events) = effects::<K, _>(bed, client.update(mine)).await;
            assert_eq!(outcome.unwrap().meta().labels.as_ref().unwrap()["by"], "me");
            assert_eq!(kinds(&events), [WatchKind::Modified]);
        }
    }
    async fn is_invalid<K: Object>(bed: &Testbed, body: K, resource: &str) {
        let client = bed.client("writer");
        let old = client.create(body).await.unwrap();
        let name = old.meta().name.as_deref().unwrap();
        for none in [None, Some(String::new()), Some("0".to_owned())] {
            let mine = changed(&labelled(&*old, "by", "me"), |object| object.meta_mut().resource_version = none);
            let body = refused(silently::<K, _>(bed, client.update(mine)).await);
            let message = "Invalid value: 0: must be specified for an update";
            assert_eq!(body, invalid(resource, name, "FieldValueInvalid", "metadata.resourceVersion", message));
        }
    }
    Testbed::run(1, async |bed| {
        overwrites(&bed, pod("a", "n1")).await;
        overwrites(&bed, config_map("a", "v", "1")).await;
        overwrites(&bed, from_json::<Node>(json!({"metadata": {"name": "n1"}}))).await;
        is_invalid(&bed, pool("p"), POOLS).await;
        is_invalid(&bed, lease("a", "x"), LEASES).await;
        let endpoint: SpiderEndpoint = from_json(json!({"metadata": {"name": "web-0", "namespace": "default"}}));
        is_invalid(&bed, endpoint, "spiderendpoints.spiderpool.spidernet.io").await;
    });
}

#[test]
fn k072_a_put_with_another_uid_is_a_silent_conflict_although_the_rv_is_right() {
    async fn check<K: Object>(bed: &Testbed, body: K, resource: &str) {
        let client = bed.client("writer");
        let old = client.create(body).await.unwrap();
        let name = old.meta().name.as_deref().unwrap();
        let mine = changed(&labelled(&*old, "by", "me"), |object| object.meta_mut().uid = Some(NOBODY.to_owned()));
        assert_eq!(refused(silently::<K, _>(bed, client.update(mine)).await), uid_mismatch(resource, name, NOBODY, &uid(&*old)));
        // A missing uid is no precondition.
        let mine = changed(&labelled(&*old, "by", "me"), |object| object.meta_mut().uid = None);
        assert_eq!(uid(&*client.update(mine).await.unwrap()), uid(&*old));
    }
    Testbed::run(1, async |bed| {
        check(&bed, config_map("a", "v", "1"), "configmaps").await;
        check(&bed, pod("a", "n1"), "pods").await;
        check(&bed, pool("p"), POOLS).await;
    });
}

#[test]
fn k073_a_put_of_a_missing_object_is_404_or_on_old_servers_with_a_uid_409() {
    for old_server in [false, true] {
        let knobs = Knobs { missing_put_with_uid_conflicts: old_server, ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed: 1, knobs, ..ClusterConfig::default() }, 2, async |bed| {
            let client = bed.client("writer");
            let with_uid = changed(&config_map("a", "v", "1"), |map| map.metadata.uid = Some(NOBODY.to_owned()));
            let body = refused(silently::<ConfigMap, _>(&bed, client.update(config_map("a", "v", "1"))).await);
            assert_eq!(body, not_found("configmaps", "a"));
            let body = refused(silently::<ConfigMap, _>(&bed, client.update(with_uid)).await);
            let expected = if old_server { uid_mismatch("configmaps", "a", NOBODY, "") } else { not_found("configmaps", "a") };
            assert_eq!(body, expected);
            let body = refused(silently::<SpiderIPPool, _>(&bed, client.update_status(pool("p"))).await);
            assert_eq!(body, not_found(POOLS, "p"));
        });
    }
}

#[test]
fn k074_a_stale_rv_is_found_after_a_wrong_uid_and_before_invalid_content() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let old = client.create(pod("a", "n1")).await.unwrap();
        let new = client.update(labelled(&*old, "by", "another")).await.unwrap();
        let wrong_uid = changed(&*old, |pod| pod.metadata.uid = Some(NOBODY.to_owned()));
        assert_eq!(refused(silently::<Pod, _>(&bed, client.update(wrong_uid)).await), uid_mismatch("pods", "a", NOBODY, &uid(&*old)));
        let moved = |pod: &Pod| changed(pod, |pod| pod.spec.as_mut().unwrap().node_name = Some("n2".to_owned()));
        assert_eq!(refused(silently::<Pod, _>(&bed, client.update(moved(&old))).await), modified("pods", "a"));
        assert_eq!(refused(silently::<Pod, _>(&bed, client.update(moved(&new))).await)["code"], 422);

        let old = client.create(config_map("a", "v", "1")).await.unwrap();
        let new = client.update(labelled(&*old, "by", "another")).await.unwrap();
        let huge = |map: &ConfigMap| changed(map, |map| map.data = config_map("a", "v", &"x".repeat(2 << 20)).data);
        assert_eq!(refused(silently::<ConfigMap, _>(&bed, client.update(huge(&old))).await), modified("configmaps", "a"));
        assert_eq!(refused(silently::<ConfigMap, _>(&bed, client.update(huge(&new))).await)["code"], 422);
    });
}

#[test]
fn k075_a_put_of_what_is_stored_is_a_silent_success() {
    async fn check<K: Object>(bed: &Testbed, body: K) {
        let client = bed.client_on("writer", 1);
        let stored = client.create(body).await.unwrap();
        let answer = silently::<K, _>(bed, client.update(stored.clone())).await.unwrap();
        assert_eq!(answer, stored);
        // Fields that the server owns, or that are equal on the wire, are no change either.
        let noise = changed(&*stored, |object| {
            let meta = object.meta_mut();
            meta.creation_timestamp = None;
            meta.generation = meta.generation.map(|generation| generation + 7);
            meta.self_link = Some("/somewhere".to_owned());
            meta.uid = None;
            meta.annotations.get_or_insert_default();
            meta.finalizers.get_or_insert_default();
            meta.owner_references.get_or_insert_default();
        });
        assert_eq!(silently::<K, _>(bed, client.update(noise)).await.unwrap(), stored);
        assert_eq!(client.get::<K>(&ObjectKey::of(&*stored)).await.unwrap(), stored);
    }
    Testbed::run(1, async |bed| {
        check(&bed, config_map("a", "v", "1")).await;
        check(&bed, pod("a", "n1")).await;
        check(&bed, lease("a", "x")).await;
        check(&bed, pool("p")).await;
        let client = bed.client("writer");
        let stored = client.get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(silently::<ConfigMap, _>(&bed, client.update(config_map("a", "v", "1"))).await.unwrap(), stored);
        let reply = silently::<ConfigMap, _>(&bed, dry_update(&client, config_map("a", "v", "2"), None)).await.unwrap();
        assert!(matches!(reply, Reply::Object(map) if entry(&map, "v") == "2"), "a dry run answers with what would be stored");
        assert_eq!(client.get::<ConfigMap>(&key("a")).await.unwrap(), stored);
    });
}

#[test]
fn k076_a_put_of_the_object_leaves_its_status_alone() {
    async fn check<K: Object>(bed: &Testbed, body: K, with_status: impl Fn(&K) -> K) {
        let client = bed.client("writer");
        let stored = client.create(body).await.unwrap();
        assert_ne!(with_status(&*stored), *stored);
        assert_eq!(silently::<K, _>(bed, client.update(with_status(&*stored))).await.unwrap(), stored);
        let (answer, events) = effects::<K, _>(bed, client.update(labelled(&with_status(&*stored), "a", "b"))).await;
        let answer = answer.unwrap();
        let expected = changed(&labelled(&*stored, "a", "b"), |object| {
            object.meta_mut().resource_version.clone_from(&answer.meta().resource_version);
        });
        assert_eq!(*answer, expected);
        assert_eq!(kinds(&events), [WatchKind::Modified]);
    }
    Testbed::run(1, async |bed| {
        check(&bed, pod("a", "n1"), |pod| in_phase(pod, "Running")).await;
        let node: Node = from_json(json!({"metadata": {"name": "n1"}}));
        check(&bed, node, |node| changed(node, |node| node.status = part(json!({"phase": "Running"})))).await;
        check(&bed, pool("p"), |pool| changed(pool, |pool| pool.status = part(json!({"totalIPCount": 9})))).await;
    });
    // Without a status subresource the status is an ordinary field.
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let endpoint: SpiderEndpoint = from_json(json!({"metadata": {"name": "web-0", "namespace": "default"}}));
        let stored = client.create(endpoint).await.unwrap();
        let body = changed(&*stored, |endpoint| endpoint.status = Some(Default::default()));
        assert_eq!(client.update(body).await.unwrap().status, Some(Default::default()));
    });
}

#[test]
fn k077_a_put_of_the_status_changes_the_status_only_and_shares_the_rv() {
    async fn check<K: Object>(bed: &Testbed, resource: &str, body: K, with_status: impl Fn(&K) -> K, with_spec: impl Fn(&K) -> K) {
        let client = bed.client("writer");
        let stored = client.create(body).await.unwrap();
        let name = stored.meta().name.as_deref().unwrap();
        let (answer, events) = effects::<K, _>(bed, client.update_status(with_spec(&with_status(&*stored)))).await;
        let answer = answer.unwrap();
        assert_ne!(with_spec(&*stored), *stored);
        let expected = changed(&with_status(&*stored), |object| {
            object.meta_mut().resource_version.clone_from(&answer.meta().resource_version);
        });
        assert_eq!(*answer, expected);
        assert_eq!(kinds(&events), [WatchKind::Modified]);
        assert_eq!((rv(&*answer), answer.meta().generation), (bed.revision(), stored.meta().generation));
        // Only the spec differs: no event.
        assert_eq!(silently::<K, _>(bed, client.update_status(with_spec(&*answer))).await.unwrap(), answer);
        // Both share one version.
        assert_eq!(refused(silently::<K, _>(bed, client.update_status(with_status(&*stored))).await), modified(resource, name));
        assert_eq!(refused(silently::<K, _>(bed, client.update(labelled(&*stored, "a", "b"))).await), modified(resource, name));
        client.update(labelled(&*answer, "a", "b")).await.unwrap();
        assert_eq!(refused(silently::<K, _>(bed, client.update_status::<K>(stored.clone())).await), modified(resource, name));
        let reply = silently::<K, _>(bed, dry_update(&client, unversioned(&*answer), Some(Subresource::Status))).await;
        assert_eq!(reply.is_ok(), resource == "pods", "an unversioned status write is as conditional as the type");
    }
    Testbed::run(1, async |bed| {
        let with_node = |pod: &Pod| changed(pod, |pod| pod.spec.as_mut().unwrap().node_name = Some("n2".to_owned()));
        check(&bed, "pods", pod("a", "n1"), |pod| in_phase(pod, "Running"), with_node).await;
        let with_status = |pool: &SpiderIPPool| changed(pool, |pool| pool.status = part(json!({"totalIPCount": 9})));
        check(&bed, POOLS, pool("p"), with_status, |pool| changed(pool, |pool| pool.spec.disable = true)).await;
    });
}

/// Changes all metadata that clients may set.
fn with_metadata<K: Object>(object: &K) -> K {
    changed(object, |object| {
        let meta = object.meta_mut();
        meta.labels = Some([("l".to_owned(), "1".to_owned())].into());
        meta.annotations = Some([("a".to_owned(), "1".to_owned())].into());
        meta.finalizers = Some(vec!["example.com/f".to_owned()]);
        meta.owner_references = part(json!([{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": NOBODY}]));
    })
}

#[test]
fn k078_a_put_of_the_status_keeps_the_metadata_of_pods_and_drops_that_of_custom_resources() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let stored = client.create(pod("a", "n1")).await.unwrap();
        let sent = with_metadata(&in_phase(&stored, "Running"));
        let answer = client.update_status(sent.clone()).await.unwrap();
        assert_eq!(answer.metadata.labels, sent.metadata.labels);
        assert_eq!(answer.metadata.annotations, sent.metadata.annotations);
        assert_eq!(answer.metadata.finalizers, sent.metadata.finalizers);
        assert_eq!((&answer.metadata.owner_references, &answer.spec, &answer.status), (&None, &stored.spec, &sent.status));
        // Kept fields can also be removed: the pod's finalizer is removed through its status.
        let bare = changed(&*answer, |pod| pod.metadata.finalizers = None);
        assert_eq!(client.update_status(bare).await.unwrap().metadata.finalizers, None);

        let stored = client.create(pool("p")).await.unwrap();
        let sent = changed(&with_metadata(&*stored), |pool| pool.status = part(json!({"totalIPCount": 9})));
        let answer = client.update_status(sent.clone()).await.unwrap();
        let expected = changed(&*stored, |pool| {
            pool.status.clone_from(&sent.status);
            pool.metadata.resource_version.clone_from(&answer.metadata.resource_version);
        });
        assert_eq!(*answer, expected);
        assert_eq!(silently::<SpiderIPPool, _>(&bed, client.update_status(with_metadata(&*answer))).await.unwrap(), answer);
    });
}

#[test]
fn k078_a_type_without_a_status_subresource_has_no_such_url() {
    let expected = status(404, "NotFound", "the server could not find the requested resource", json!(null));
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let endpoint: SpiderEndpoint = from_json(json!({"metadata": {"name": "web-0", "namespace": "default"}}));
        let stored = client.create(endpoint).await.unwrap();
        let body = changed(&*stored, |endpoint| endpoint.status = Some(Default::default()));
        assert_eq!(refused(silently::<SpiderEndpoint, _>(&bed, put_status(&client, body)).await), expected);
        client.create(config_map("a", "v", "1")).await.unwrap();
        assert_eq!(refused(silently::<ConfigMap, _>(&bed, put_status(&client, config_map("a", "v", "2"))).await), expected);
        // A type for which PUT creates objects does not create one here either.
        assert_eq!(refused(silently::<Lease, _>(&bed, put_status(&client, lease("a", "x"))).await), expected);
    });
}

#[test]
fn k079_a_pods_spec_is_nearly_immutable_and_its_labels_and_annotations_never_are() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let stored = client.create(pod("a", "n1")).await.unwrap();
        let spec = |change: &dyn Fn(&mut k8s_openapi::api::core::v1::PodSpec)| changed(&*stored, |pod| change(pod.spec.as_mut().unwrap()));
        for body in [
            spec(&|spec| spec.node_name = Some("n2".to_owned())),
            spec(&|spec| spec.node_name = None),
            spec(&|spec| spec.restart_policy = Some("Never".to_owned())),
            spec(&|spec| spec.host_network = Some(true)),
            spec(&|spec| spec.containers[0].name = "other".to_owned()),
        ] {
            let body = refused(silently::<Pod, _>(&bed, client.update(body)).await);
            let cause = &body["details"]["causes"][0];
            assert_eq!((&body["code"], &body["reason"], &body["details"]["kind"]), (&json!(422), &json!("Invalid"), &json!("Pod")));
            assert_eq!((&cause["reason"], &cause["field"]), (&json!("FieldValueForbidden"), &json!("spec")));
            let message = body["message"].as_str().unwrap();
            assert!(
                message.starts_with("Pod \"a\" is invalid: spec: Forbidden: pod updates may not change fields other than"),
                "{message}"
            );
        }
        let longer = spec(&|spec| {
            let another = spec.containers[0].clone();
            spec.containers.push(k8s_openapi::api::core::v1::Container { name: "another".to_owned(), ..another });
        });
        let body = refused(silently::<Pod, _>(&bed, client.update(longer)).await);
        let message = "Forbidden: pod updates may not add or remove containers";
        assert_eq!(body, invalid("Pod", "a", "FieldValueForbidden", "spec.containers", message));
        client.update(spec(&|spec| spec.containers[0].image = Some("registry.example/app:2".to_owned()))).await.unwrap();
        let change = |pod: &Pod, value: &str| {
            changed(&labelled(pod, "l", value), |pod| pod.metadata.annotations = Some([("a".to_owned(), value.to_owned())].into()))
        };
        let live = client.get::<Pod>(&key("a")).await.unwrap();
        let live = client.update(change(&live, "1")).await.unwrap();
        assert_eq!(live.metadata.generation, Some(2), "the image counted, labels and annotations do not");
        client.delete::<Pod>(&key("a"), DeleteOptions::default()).await.unwrap();
        let terminating = client.get::<Pod>(&key("a")).await.unwrap();
        let (answer, events) = effects::<Pod, _>(&bed, client.update(change(&terminating, "2"))).await;
        assert_eq!(answer.unwrap().metadata.labels.as_ref().unwrap()["l"], "2");
        assert_eq!(kinds(&events), [WatchKind::Modified]);
    });
}

#[test]
fn k080_the_put_that_removes_the_last_finalizer_removes_the_object() {
    async fn check<K: Object>(bed: &Testbed, body: K, options: DeleteOptions) {
        let client = bed.client("writer");
        let held = ["example.com/one".to_owned(), "example.com/two".to_owned()];
        let created = client.create(changed(&body, |object| object.meta_mut().finalizers = Some(held.to_vec()))).await.unwrap();
        let object_key = ObjectKey::of(&*created);
        let terminating = client.delete::<K>(&object_key, options).await.unwrap().unwrap();
        let (one_left, events) =
            effects::<K, _>(bed, client.update(changed(&*terminating, |object| object.meta_mut().finalizers = Some(held[1..].to_vec()))))
                .await;
        let one_left = one_left.unwrap();
        assert_eq!(kinds(&events), [WatchKind::Modified]);
        let last = changed(&labelled(&*one_left, "seen", "never"), |object| object.meta_mut().finalizers = None);
        let before = bed.revision();
        let (answer, events) = effects::<K, _>(bed, client.update(last.clone())).await;
        assert_eq!(*answer.unwrap(), last, "the answer is the object as sent");
        let [(WatchKind::Deleted, gone)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((bed.revision(), rv(&**gone)), (before + 1, before + 1));
        let previous = changed(&**gone, |object| object.meta_mut().resource_version.clone_from(&one_left.meta().resource_version));
        assert_eq!(previous, *one_left, "the event shows the state stored before, finalizer and all");
        assert!(!exists::<K>(&client, &object_key).await);
    }
    Testbed::run(1, async |bed| {
        check(&bed, config_map("a", "v", "1"), DeleteOptions::default()).await;
        check(&bed, lease("a", "x"), DeleteOptions::default()).await;
        check(&bed, pool("p"), DeleteOptions::default()).await;
        check(&bed, pod("a", "n1"), grace(0)).await;
        check(&bed, pod("a", ""), DeleteOptions::default()).await;
    });
}

#[test]
fn k081_a_pod_with_grace_outlives_its_last_finalizer() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let body = changed(&pod("a", "n1"), |pod| pod.metadata.finalizers = Some(vec!["example.com/f".to_owned()]));
        client.create(body).await.unwrap();
        let terminating = client.delete::<Pod>(&key("a"), DeleteOptions::default()).await.unwrap().unwrap();
        let body = changed(&*terminating, |pod| pod.metadata.finalizers = None);
        let (answer, events) = effects::<Pod, _>(&bed, client.update(body)).await;
        assert_eq!(answer.unwrap().metadata.finalizers, None);
        assert_eq!(kinds(&events), [WatchKind::Modified]);
        bed.wait(secs(3_600)).await;
        let left = client.get::<Pod>(&key("a")).await.unwrap();
        assert_eq!((left.metadata.deletion_grace_period_seconds, &left.metadata.finalizers), (Some(30), &None));
    });
}

#[test]
fn k082_a_put_replaces_what_it_does_not_mention() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let stored = client.create(with_metadata(&config_map("a", "v", "1"))).await.unwrap();
        let bare = changed(&config_map("a", "w", "2"), |map| map.metadata.resource_version.clone_from(&stored.metadata.resource_version));
        let answer = client.update(bare).await.unwrap();
        let meta = &answer.metadata;
        assert_eq!((&meta.labels, &meta.annotations, &meta.finalizers, &meta.owner_references), (&None, &None, &None, &None));
        assert_eq!((entry(&answer, "v"), entry(&answer, "w")), (String::new(), "2".to_owned()));
        assert_eq!((&meta.uid, &meta.creation_timestamp), (&stored.metadata.uid, &stored.metadata.creation_timestamp));
        assert_eq!(client.get::<ConfigMap>(&key("a")).await.unwrap(), answer);
    });
}

#[test]
fn k083_a_put_of_an_absent_lease_creates_it_unless_it_has_a_uid() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let with_uid = changed(&lease("a", "x"), |lease| lease.metadata.uid = Some(NOBODY.to_owned()));
        assert_eq!(refused(silently::<Lease, _>(&bed, client.update(with_uid)).await), uid_mismatch(LEASES, "a", NOBODY, ""));
        let (created, events) = effects::<Lease, _>(&bed, client.update(lease("a", "x"))).await;
        let created = created.unwrap();
        assert_eq!(kinds(&events), [WatchKind::Added]);
        assert!(created.metadata.creation_timestamp.is_some() && !uid(&*created).is_empty());
        assert_eq!(rv(&*created), bed.revision());
        client.delete::<Lease>(&key("a"), DeleteOptions::default()).await.unwrap();
        // A holder that renews from memory recreates the Lease, with a version that no longer means anything.
        let remembered = changed(&*created, |lease| lease.metadata.uid = None);
        let again = client.update(remembered).await.unwrap();
        assert_ne!(uid(&*again), uid(&*created));
        assert_eq!(again.spec, created.spec);
        // Types that do not create on update return 404.
        assert_eq!(refused(silently::<Pod, _>(&bed, client.update(pod("a", "n1"))).await), not_found("pods", "a"));
    });
}

#[test]
fn k084_a_stale_cache_never_refuses_a_put_with_the_current_rv() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (fresh, stale) = (bed.client_on("fresh", 0), bed.client_on("stale", 1));
            let first = fresh.create(config_map("a", "v", "1")).await.unwrap();
            bed.wait(secs(5)).await;
            bed.cluster.set_frozen(1, None, true);
            let second = fresh.update(labelled(&*first, "by", "fresh")).await.unwrap();
            let cached = stale.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap();
            assert_eq!(cached, first, "the server's cache is behind");
            let body = refused(silently::<ConfigMap, _>(&bed, stale.update(labelled(&*cached, "by", "stale"))).await);
            assert_eq!(body, modified("configmaps", "a"));
            let third = stale.update(labelled(&*second, "by", "stale")).await.unwrap();
            assert_eq!(fresh.get::<ConfigMap>(&key("a")).await.unwrap(), third);
            // The same for an object that is missing in the cache, and for one of another incarnation.
            let new = fresh.create(config_map("new", "v", "1")).await.unwrap();
            stale.update(labelled(&*new, "by", "stale")).await.unwrap();
            fresh.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap();
            let reborn = fresh.create(config_map("a", "v", "2")).await.unwrap();
            stale.update(labelled(&*reborn, "by", "stale")).await.unwrap();
            stale.delete::<ConfigMap>(&key("a"), if_uid(&uid(&*reborn))).await.unwrap();
        });
    }
}

#[test]
fn k010_nodes_and_namespaces_have_no_generation() {
    Testbed::run(1, async |bed| {
        let node: Node = from_json(json!({"metadata": {"name": "n1"}}));
        let created = bed.client("writer").create(node).await.unwrap();
        assert_eq!(created.metadata.generation, None);
    });
}
