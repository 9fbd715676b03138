//! K §10.4: create.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipam_spiderpool::{PoolIPAllocation, PoolIPAllocations, SpiderIPPool};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube_machinery::api::{Call, DeleteOptions, Dry, Patch, Verb};
use kube_machinery::{ApiError, Client, ClientExt, ObjectKey, TextForm};
use kube_sim::cluster::server::InjectedFault;
use kube_sim::cluster::{ClusterConfig, Knobs};
use kube_sim::net::{Effect, Rule, Side};
use kube_sim::testbed::{Testbed, config_map, from_json, grace, key, pod};
use kube_sim::trace::WatchKind;
use serde_json::json;

use super::expect::*;

#[test]
fn k060_a_create_of_an_existing_name_is_a_silent_already_exists() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let map = client.create(config_map("a", "v", "1")).await.unwrap();
        let error = silently::<ConfigMap, _>(&bed, client.create(config_map("a", "v", "2"))).await.unwrap_err();
        assert!(error.is_already_exists() && !error.is_conflict());
        assert_eq!(body_of(&error), already_exists("configmaps", "a"));
        assert_eq!(client.get::<ConfigMap>(&key("a")).await.unwrap(), map);

        client.create(pool("p")).await.unwrap();
        let body = refused(silently::<SpiderIPPool, _>(&bed, client.create(pool("p"))).await);
        assert_eq!(body, already_exists(POOLS, "p"));

        let dry = Call::Create { namespace: Some("default".into()), body: Arc::new(config_map("a", "v", "2")), dry: Dry::Run };
        let reply = silently::<ConfigMap, _>(&bed, client.send(dry.into())).await;
        assert_eq!(refused(reply), already_exists("configmaps", "a"));
        // An object in another namespace has another key.
        let elsewhere: ConfigMap = from_json(json!({"metadata": {"name": "a", "namespace": "other"}}));
        client.create(elsewhere).await.unwrap();
    });
}

#[test]
fn k061_a_create_over_a_terminating_object_says_that_it_is_being_deleted() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        client.create(held_map("a", &["example.com/hold"])).await.unwrap();
        client.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap();
        let body = refused(silently::<ConfigMap, _>(&bed, client.create(config_map("a", "v", "2"))).await);
        let message = "object is being deleted: configmaps \"a\" already exists";
        assert_eq!(body, status(409, "AlreadyExists", message, about("configmaps", "a")));

        client.create(pod("web-0", "n1")).await.unwrap();
        client.delete::<Pod>(&key("web-0"), DeleteOptions::default()).await.unwrap();
        let error = silently::<Pod, _>(&bed, client.create(pod("web-0", "n2"))).await.unwrap_err();
        assert_eq!(error.to_string(), "object is being deleted: pods \"web-0\" already exists");
        assert!(error.is_already_exists());
        // Once the object is gone the name is free.
        client.delete::<Pod>(&key("web-0"), grace(0)).await.unwrap();
        client.create(pod("web-0", "n2")).await.unwrap();
    });
}

#[test]
fn k062_a_create_with_a_resource_version_fails_without_a_reason() {
    let expected = status(500, "", "resourceVersion should not be set on objects to be created", json!(null));
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let map = client.create(config_map("a", "v", "1")).await.unwrap();
        let pool = client.create(pool("p")).await.unwrap();
        // The name is taken as well: the version is checked first.
        assert_eq!(refused(silently::<ConfigMap, _>(&bed, client.create::<ConfigMap>(map.clone())).await), expected);
        client.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap();
        client.delete::<SpiderIPPool>(&ObjectKey::cluster("p"), DeleteOptions::default()).await.unwrap();
        // The usual way to get there: an object that was read before is created again.
        assert_eq!(refused(silently::<ConfigMap, _>(&bed, client.create::<ConfigMap>(map.clone())).await), expected);
        assert_eq!(refused(silently::<SpiderIPPool, _>(&bed, client.create::<SpiderIPPool>(pool)).await), expected);
        assert!(!exists::<ConfigMap>(&client, &key("a")).await);
        client.create(unversioned(&*map)).await.unwrap();
    });
}

#[test]
fn k063_of_concurrent_creates_of_a_name_exactly_one_succeeds() {
    let mut winners = BTreeSet::new();
    for seed in SEEDS {
        let winner = Testbed::run(seed, async |bed| {
            let mut running = Vec::new();
            for number in 0..6 {
                let client = bed.client_on("creator", number % 2);
                let body = config_map("a", "v", &number.to_string());
                running.push(start(&bed, &client.clone(), async move { client.create(body).await }));
            }
            let mut winner = None;
            for (number, outcome) in running.into_iter().enumerate() {
                match outcome.await.unwrap() {
                    Ok(created) => assert!(winner.replace((number, created)).is_none(), "two creates succeeded"),
                    Err(error) => assert_eq!(body_of(&error), already_exists("configmaps", "a")),
                }
            }
            let (number, created) = winner.expect("one create succeeds");
            let stored = bed.client("reader").get::<ConfigMap>(&key("a")).await.unwrap();
            assert_eq!((entry(&stored, "v"), uid(&*stored)), (number.to_string(), uid(&*created)));
            number
        });
        winners.insert(winner);
    }
    assert!(winners.len() > 1, "the race has one outcome only: {winners:?}");
}

#[test]
fn k064_a_generated_name_is_the_cut_prefix_and_five_characters_of_the_alphabet() {
    let long = "a".repeat(70);
    let mut drawn = BTreeSet::new();
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client("creator");
            for prefix in ["web-", long.as_str(), "web-"] {
                let body: Pod = from_json(json!({
                    "metadata": {"generateName": prefix, "namespace": "default"},
                    "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
                }));
                let created = client.create(body).await.unwrap();
                let name = created.metadata.name.clone().unwrap();
                let base = &prefix[..prefix.len().min(58)];
                let suffix = name.strip_prefix(base).unwrap();
                assert_eq!(suffix.len(), 5, "{name}");
                assert!(name.len() <= 63 && suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{name}");
                assert_eq!(created.metadata.generate_name.as_deref(), Some(prefix));
                assert_eq!(client.get::<Pod>(&key(&name)).await.unwrap(), created);
                drawn.extend(suffix.chars());
            }
            // A name that is given is used, whatever generateName says.
            let body: Pod = from_json(json!({"metadata": {"name": "web-0", "generateName": "web-", "namespace": "default"},
                                              "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]}}));
            assert_eq!(client.create(body).await.unwrap().metadata.name.as_deref(), Some("web-0"));
            let nameless: Pod =
                from_json(json!({"metadata": {"namespace": "default"}, "spec": {"containers": [{"name": "main", "image": "app"}]}}));
            let body = refused(silently::<Pod, _>(&bed, client.create(nameless)).await);
            let message = "Required value: name or generateName is required";
            assert_eq!(body, invalid("Pod", "", "FieldValueRequired", "metadata.name", message));
        });
    }
    assert!(drawn.len() > 20, "the suffixes are not random: {drawn:?}");
}

#[test]
fn k065_a_generated_name_that_is_taken_is_tried_again_up_to_eight_times() {
    // The same run is repeated, with the names that it generated before taken.
    let generate = |taken: &[String], retries: bool| {
        let knobs = Knobs { generate_name_retries: retries, ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed: 3, knobs, ..ClusterConfig::default() }, 2, async |bed| {
            let client = bed.client("creator");
            for number in 0..8 {
                let filler = format!("filler-{number}");
                client.create(config_map(taken.get(number).unwrap_or(&filler), "v", "1")).await.unwrap();
            }
            let body: ConfigMap = from_json(json!({"metadata": {"generateName": "web-", "namespace": "default"}}));
            client.create(body).await.map(|created| created.metadata.name.clone().unwrap())
        })
    };
    let exhausted = |error: ApiError, name: &str| {
        let message = format!("configmaps \"{name}\" already exists, the server was not able to generate a unique name for the object");
        let details = json!({"name": name, "kind": "configmaps", "retryAfterSeconds": 1});
        assert_eq!(body_of(&error), status(409, "AlreadyExists", &message, details));
    };
    let mut taken = Vec::new();
    while taken.len() < 8 {
        let name = generate(&taken, true).unwrap();
        assert!(!taken.contains(&name));
        taken.push(name);
    }
    exhausted(generate(&taken, true).unwrap_err(), &taken[7]);
    exhausted(generate(&taken[..1], false).unwrap_err(), &taken[0]);
}

#[test]
fn k066_a_create_needs_a_namespace_that_is_there_to_stay() {
    Testbed::run(1, async |bed| {
        let client = bed.client("creator");
        let nowhere: ConfigMap = from_json(json!({"metadata": {"name": "a", "namespace": "nowhere"}}));
        assert_eq!(refused(silently::<ConfigMap, _>(&bed, client.create(nowhere)).await), not_found("namespaces", "nowhere"));
        let nowhere: Lease = from_json(json!({"metadata": {"name": "a", "namespace": "nowhere"}}));
        assert_eq!(refused(silently::<Lease, _>(&bed, client.update(nowhere)).await), not_found("namespaces", "nowhere"));

        let old: ConfigMap = from_json(json!({"metadata": {"name": "old", "namespace": "other"}}));
        let old = client.create(old).await.unwrap();
        client.delete::<Namespace>(&ObjectKey::cluster("other"), DeleteOptions::default()).await.unwrap();
        let late: Pod = from_json(json!({"metadata": {"name": "late", "namespace": "other"}}));
        let body = refused(silently::<Pod, _>(&bed, client.create(late)).await);
        let message = "pods \"late\" is forbidden: unable to create new content in namespace other because it is being terminated";
        let mut details = about("pods", "late");
        details["causes"] = json!([{
            "reason": "NamespaceTerminating", "message": "namespace other is being terminated", "field": "metadata.namespace",
        }]);
        assert_eq!(body, status(403, "Forbidden", message, details));
        let late: Lease = from_json(json!({"metadata": {"name": "late", "namespace": "other"}}));
        assert_eq!(refused(silently::<Lease, _>(&bed, client.update(late)).await)["reason"], "Forbidden");
        // Existing objects can be changed and deleted.
        client.update(labelled(&*old, "a", "b")).await.unwrap();
        client.delete::<ConfigMap>(&ObjectKey::of(&*old), DeleteOptions::default()).await.unwrap();
    });
}

#[test]
fn the_name_of_a_namespace_is_a_label_and_other_names_are_subdomains() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let namespace = |name: &str| from_json::<Namespace>(json!({"metadata": {"name": name}}));
        for wrong in ["a.b", "A", "-a", "a-", &"a".repeat(64)] {
            let error = silently::<Namespace, _>(&bed, client.create(namespace(wrong))).await.unwrap_err();
            assert_eq!(error.code(), Some(422), "{wrong}: {error}");
        }
        client.create(namespace(&"a".repeat(63))).await.unwrap();
        client.create(config_map("a.b", "v", "1")).await.unwrap();
    });
}

#[test]
fn k157_a_namespace_has_its_name_as_a_label_whatever_its_writers_say() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let namespace = |labels| from_json::<Namespace>(json!({"metadata": {"name": "shop", "labels": labels}}));
        let labels = |namespace: &Namespace| serde_json::to_value(&namespace.metadata.labels).unwrap();
        let created = client.create(namespace(json!({"team": "a"}))).await.unwrap();
        assert_eq!(labels(&created), json!({"kubernetes.io/metadata.name": "shop", "team": "a"}));
        for sent in [json!({}), json!({"kubernetes.io/metadata.name": "other"})] {
            let updated = client.update(namespace(sent)).await.unwrap();
            assert_eq!(labels(&updated), json!({"kubernetes.io/metadata.name": "shop"}));
        }
        let patch = Patch::merge(json!({"metadata": {"labels": {"kubernetes.io/metadata.name": null}}}));
        let patched = client.patch::<Namespace>(&ObjectKey::cluster("shop"), patch).await.unwrap();
        assert_eq!(labels(&patched), json!({"kubernetes.io/metadata.name": "shop"}));
        let there = client.get::<Namespace>(&ObjectKey::cluster("default")).await.unwrap();
        assert_eq!(labels(&there), json!({"kubernetes.io/metadata.name": "default"}));
    });
}

#[test]
fn a_namespace_that_is_there_from_the_beginning_is_active_and_can_be_changed() {
    Testbed::run(1, async |bed| {
        let (client, key) = (bed.client("writer"), ObjectKey::cluster("default"));
        let there = client.get::<Namespace>(&key).await.unwrap();
        assert_eq!(there.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Active"));
        let patched = client.patch::<Namespace>(&key, Patch::merge(json!({"metadata": {"annotations": {"team": "a"}}}))).await.unwrap();
        assert_eq!(serde_json::to_value(&patched.metadata.annotations).unwrap(), json!({"team": "a"}));
    });
}

#[test]
fn k206_a_write_that_does_not_say_for_how_many_pods_is_for_one() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}});
        let set = |replicas| {
            let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template});
            from_json::<Deployment>(json!({"metadata": {"name": "a", "namespace": "default"}, "spec": spec}))
        };
        let stored = |set: &Deployment| set.spec.replicas;
        assert_eq!(stored(&client.create(set(json!(null))).await.unwrap()), Some(1));
        assert_eq!(stored(&client.update(set(json!(0))).await.unwrap()), Some(0));
        assert_eq!(stored(&client.update(set(json!(null))).await.unwrap()), Some(1), "whatever was stored before");
        for (sent, parallelism, completions) in
            [(json!({}), Some(1), Some(1)), (json!({"completions": 3}), Some(1), Some(3)), (json!({"parallelism": 2}), Some(2), None)]
        {
            let mut spec = json!({"template": template});
            spec.as_object_mut().unwrap().extend(sent.as_object().unwrap().clone());
            let job = from_json::<Job>(json!({"metadata": {"generateName": "j-", "namespace": "default"}, "spec": spec}));
            let spec = client.create(job).await.unwrap().spec.clone().unwrap();
            assert_eq!((spec.parallelism, spec.completions), (parallelism, completions), "{sent}");
        }
    });
}

#[test]
fn k067_a_new_pod_is_pending_whatever_status_was_sent() {
    Testbed::run(1, async |bed| {
        let client = bed.client("creator");
        let running = |pod: Pod| {
            changed(&pod, |pod| {
                pod.status = part(json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}));
            })
        };
        for (name, node) in [("unscheduled", ""), ("scheduled", "n1")] {
            let created = client.create(running(pod(name, node))).await.unwrap();
            assert_eq!(serde_json::to_value(&created.status).unwrap(), json!({"phase": "Pending"}));
            assert_eq!(created.spec.as_ref().unwrap().node_name.as_deref().unwrap_or(""), node);
            assert_eq!(client.get::<Pod>(&key(name)).await.unwrap(), created);
        }
        // A custom resource loses its status, a node keeps it.
        let pool = changed(&pool("p"), |pool| pool.status = part(json!({"totalIPCount": 9})));
        assert_eq!(client.create(pool).await.unwrap().status, None);
        let node: Node = from_json(json!({"metadata": {"name": "n1"}, "status": {"phase": "Running"}}));
        assert_eq!(client.create(node.clone()).await.unwrap().status, node.status);
    });
}

#[test]
fn k068_a_create_whose_reply_was_lost_is_found_by_its_retry() {
    for seed in SEEDS {
        for failure in FAILURES {
            Testbed::run(seed, async |bed| {
                let client = bed.client("creator");
                trouble(&bed, &client, &[Verb::Create], InjectedFault::LoseReply { error: failure, after: millis(70) });
                let (first, events) = effects::<ConfigMap, _>(&bed, client.create(config_map("a", "v", "first"))).await;
                let error = first.unwrap_err();
                assert!(error.is_ambiguous(), "{error}");
                assert_eq!(kinds(&events), [WatchKind::Added], "the event is delivered as usual");
                calm(&bed);
                check_retry(&client, "a").await;
            });
        }
        Testbed::run(seed, async |bed| {
            let client = bed.client("creator");
            let servers = (0..2).map(|number| bed.cluster.server_process(number)).collect();
            let cut = Rule { from: Side::Only(servers), to: Side::Only(vec![client.process()]), effect: Effect::Cut };
            let cut = bed.cluster.network(|net| net.add(cut));
            let error = client.create(config_map("a", "v", "first")).await.unwrap_err();
            assert!(matches!(error, ApiError::Transport(_)) && error.is_ambiguous(), "{error}");
            bed.cluster.network(|net| net.remove(cut));
            check_retry(&client, "a").await;
        });
    }
    async fn check_retry(client: &kube_sim::cluster::SimClient, name: &str) {
        let body = refused(client.create(config_map(name, "v", "second")).await);
        assert_eq!(body, already_exists("configmaps", name));
        assert_eq!(entry(&client.get::<ConfigMap>(&key(name)).await.unwrap(), "v"), "first");
    }
}

#[test]
fn k205_an_object_is_too_large_for_the_request_before_it_is_too_large_for_etcd() {
    // 3 MiB of body give 413, 1.5 MiB of object give etcd's own 500; a ConfigMap reaches its own limit first.
    Testbed::run(1, async |bed| {
        let client = bed.client("creator");
        let of_size = |bytes: usize| changed(&pool("p"), |pool| pool.spec.ips = Some(vec!["x".repeat(bytes)]));
        let too_large = status(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", json!(null));
        let etcd = status(500, "", "etcdserver: request is too large", json!(null));
        assert_eq!(refused(silently::<SpiderIPPool, _>(&bed, client.create(of_size((3 << 20) + 1))).await), too_large);
        let message = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2200003 vs. 2097152)";
        let exhausted = status(500, "", message, json!(null));
        assert_eq!(refused(silently::<SpiderIPPool, _>(&bed, client.create(of_size(2_200_000))).await), exhausted);
        assert_eq!(refused(silently::<SpiderIPPool, _>(&bed, client.create(of_size(1_600_000))).await), etcd);
        let fits = client.create(of_size(1 << 20)).await.unwrap();
        let larger = changed(&*fits, |pool| pool.spec.exclude_ips = Some(vec!["x".repeat(1 << 19)]));
        assert_eq!(refused(silently::<SpiderIPPool, _>(&bed, client.update(larger)).await), etcd);
        let annotated = changed(&config_map("a", "v", "1"), |map| {
            map.metadata.annotations = Some([("a".to_owned(), "x".repeat(3 << 20))].into());
        });
        assert_eq!(refused(silently::<ConfigMap, _>(&bed, client.create(annotated)).await), too_large);
    });
}

#[test]
fn k205_a_text_of_a_custom_resource_counts_with_its_escapes() {
    // The stored form is JSON: quotes and backslashes take two bytes, `<`, `>` and `&` six.
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        for (number, (text, count, fits)) in [
            ("\"", 700_000, true),
            ("\"", 900_000, false),
            ("<", 200_000, true),
            ("<", 300_000, false),
            ("é", 700_000, true),
            ("é", 900_000, false),
        ]
        .into_iter()
        .enumerate()
        {
            client.create(pool(&format!("p-{number}"))).await.unwrap();
            let patch = Patch::merge(json!({"status": {"allocatedIPs": text.repeat(count)}}));
            let result = client.patch_status::<SpiderIPPool>(&ObjectKey::cluster(&format!("p-{number}")), patch).await;
            match fits {
                true => drop(result.unwrap()),
                false => assert_eq!(refused(result), status(500, "", "etcdserver: request is too large", json!(null)), "{text} {count}"),
            }
        }
    });
}

/// The records of pods of a Deployment, on the addresses from 10.0.0.1 on. Upstream's records have no NIC.
fn records(count: u32, nic: Option<&str>) -> PoolIPAllocations {
    let record = |number: u32| PoolIPAllocation {
        interface: nic.map(str::to_owned),
        pod: format!("default/web-7c5ddbdf5-x{:04}", number % 10_000),
        pod_uid: format!("0123abcd-4567-89ab-cdef-{number:012x}"),
    };
    let mut all = PoolIPAllocations::default();
    (1..=count).for_each(|number| drop(all.insert(IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number)), record(number))));
    all
}

#[test]
fn k205_a_pool_takes_14388_records_within_a_percent_and_not_15837_as_their_escapes_count() {
    /// The maximum size of an object in etcd, 1.5 MiB of stored JSON (K205).
    const MAX: usize = 3 << 19;
    let too_large = || status(500, "", "etcdserver: request is too large", json!(null));
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        // Upstream's records, and those of the hardened form, which also name the NIC.
        for (name, nic, expected, quotes) in [("upstream", None, 14_388, 10), ("hardened", Some("eth0"), 11_884, 14)] {
            let made = client.create(pool(name)).await.unwrap();
            let with = |count| changed(&*made, |pool| pool.status.get_or_insert_default().allocated_ips = records(count, nic).into());
            let mut rest = made.clone();
            let (mut fits, mut too_many): (u32, u32) = (10_000, 20_000);
            while too_many - fits > 1 {
                let middle = fits.midpoint(too_many);
                let sent = changed(&with(middle), |pool| pool.metadata.resource_version.clone_from(&rest.metadata.resource_version));
                match client.update_status(sent).await {
                    Ok(stored) => (fits, rest) = (middle, stored),
                    Err(error) => {
                        assert_eq!(body_of(&error), too_large());
                        too_many = middle;
                    }
                }
            }
            assert!(fits.abs_diff(expected) * 100 <= expected, "{name}: {fits} records");
            let text = records(fits, nic).text_len();
            let stored = text + quotes * fits as usize;
            assert!(text < MAX * 92 / 100 && stored <= MAX && stored + 200 > MAX, "{name}: {text} bytes, {stored} of them stored");
        }
    });
}

#[test]
fn k203_keys_of_a_config_map_are_checked() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let syntax = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or \
                      'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        let x254 = "x".repeat(254);
        for (key, fault) in [
            ("..a", "must not start with '..'"),
            ("..", "must not be '..'"),
            (".", "must not be '.'"),
            ("a/b", syntax),
            ("", syntax),
            (&x254, "must be no more than 253 characters"),
        ] {
            let body = refused(client.create(config_map("a", key, "1")).await);
            assert_eq!(body["message"], json!(format!("ConfigMap \"a\" is invalid: data[{key}]: Invalid value: {key:?}: {fault}")));
        }
        let both = changed(&config_map("a", "k", "1"), |map| {
            map.binary_data = Some([("k".to_owned(), k8s_openapi::ByteString(vec![0]))].into());
        });
        let body = refused(client.create(both).await);
        assert_eq!(
            body["message"],
            json!("ConfigMap \"a\" is invalid: data[k]: Invalid value: \"k\": duplicate of key present in binaryData")
        );
        client.create(config_map("a", "a.b_c-D", "1")).await.unwrap();
    });
}
