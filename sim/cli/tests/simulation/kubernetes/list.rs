//! K §10.2: LIST.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{ListOptions, Reason, VersionMatch};
use kube_machinery::{ClientExt, Env, ObjectKey};
use kube_sim::cluster::{ClusterConfig, Knobs, SimClient};
use kube_sim::testbed::{Testbed, config_map, from_json, key};
use parking_lot::Mutex;
use serde_json::json;

use super::support::*;

fn exactly(revision: u64) -> ListOptions {
    ListOptions { resource_version_match: Some(VersionMatch::Exact), ..at(&revision.to_string()) }
}

fn not_older_than(version: &str) -> ListOptions {
    ListOptions { resource_version_match: Some(VersionMatch::NotOlderThan), ..at(version) }
}

/// The known history of objects that are created once and deleted once.
#[derive(Default)]
struct Known {
    created: BTreeSet<String>,
    doomed: BTreeSet<String>,
    removed: BTreeSet<String>,
}

async fn create_and_delete(client: SimClient, known: Arc<Mutex<Known>>) {
    for round in 0..15 {
        let own = format!("{}-{round}", client.process().0);
        client.create(config_map(&own, "v", "0")).await.unwrap();
        known.lock().created.insert(own.clone());
        if round % 3 != 0 {
            known.lock().doomed.insert(own.clone());
            client.delete::<ConfigMap>(&key(&own), Default::default()).await.unwrap();
            known.lock().removed.insert(own);
        }
    }
}

#[test]
fn k024_a_consistent_list_is_as_old_as_its_request_where_the_cache_lags() {
    for (from_cache, oldest) in [(true, 5..), (false, 0..)] {
        let knobs = Knobs { consistent_list_from_cache: from_cache, ..Knobs::default() };
        let mut ages = Vec::new();
        Testbed::run_with(ClusterConfig { seed: 1, knobs, ..ClusterConfig::default() }, 1, async |bed| {
            bed.cluster.set_extra_lag(0, None, millis(100));
            let (writer, reader) = (bed.client("writer"), bed.client("reader"));
            let _writes = spawn(&bed, &writer.clone(), async move {
                for number in 0..200 {
                    writer.create(config_map(&format!("m-{number}"), "v", "0")).await.unwrap();
                }
            });
            for _ in 0..10 {
                let sent = bed.revision();
                let list = reader.list::<ConfigMap>(Some("default"), ListOptions::default()).await.unwrap();
                let listed: u64 = list.resource_version.parse().unwrap();
                assert!(sent <= listed && listed <= bed.revision(), "{sent} {listed}");
                ages.push(bed.revision() - listed);
            }
        });
        // A create takes about 4 ms: this many were committed within the lag of the cache.
        let typical = ages[ages.len() / 2];
        assert!(oldest.contains(&typical) && (from_cache || typical < 5), "{ages:?}");
    }
}

#[test]
fn k024_a_list_without_rv_has_what_was_acknowledged_before_it_was_sent() {
    for seed in SEEDS {
        let knobs = Knobs { consistent_list_from_cache: seed % 2 == 0, ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 3, async |bed| {
            bed.cluster.set_frozen(1, None, true);
            bed.cluster.set_extra_lag(2, None, millis(30));
            let known = Arc::new(Mutex::new(Known::default()));
            let mut tasks = Vec::new();
            for number in 0..3 {
                let client = bed.client_on("writer", number);
                tasks.push(spawn(&bed, &client, create_and_delete(client.clone(), known.clone())));
                let client = bed.client_on("reader", number);
                let (reader, known) = (client.clone(), known.clone());
                tasks.push(spawn(&bed, &client, async move {
                    for _ in 0..10 {
                        let (created, removed) = {
                            let known = known.lock();
                            (known.created.clone(), known.removed.clone())
                        };
                        let list = reader.list::<ConfigMap>(Some("default"), ListOptions::default()).await.unwrap();
                        let listed: BTreeSet<String> = list.items.iter().map(|map| name(&**map)).collect();
                        let doomed = known.lock().doomed.clone();
                        for own in created.difference(&doomed) {
                            assert!(listed.contains(own), "{own} was created and is missing");
                        }
                        assert_eq!(
                            listed.intersection(&removed).collect::<Vec<_>>(),
                            Vec::<&String>::new(),
                            "removed before, listed after"
                        );
                    }
                }));
            }
            for task in tasks {
                task.await;
            }
        });
    }
}

#[test]
fn k025_a_list_with_rv_zero_is_one_state_of_the_past() {
    let mut stale = 0;
    for seed in SEEDS {
        Testbed::run_with(ClusterConfig { seed, ..ClusterConfig::default() }, 3, async |bed| {
            bed.cluster.set_extra_lag(1, None, millis(40));
            let mut writers = Vec::new();
            for number in 0..3 {
                let client = bed.client_on("writer", number);
                writers.push(spawn(&bed, &client, churn(bed.clone(), client.clone(), 40)));
            }
            let readers: Vec<SimClient> = (0..3).map(|number| bed.client_on("reader", number)).collect();
            for round in 0..60 {
                if round == 30 {
                    bed.cluster.set_frozen(2, None, true);
                }
                let reader = &readers[round % 3];
                for namespace in [None, Some("other")] {
                    let list = reader.list::<ConfigMap>(namespace, at("0")).await.unwrap();
                    let revision = list.resource_version.parse().unwrap();
                    stale += usize::from(revision < bed.revision());
                    let mut expected = state_at::<ConfigMap>(&bed, revision);
                    expected.retain(|key, _| namespace.is_none_or(|namespace| key.starts_with(&format!("{namespace}/"))));
                    assert_eq!(state_of(&list.items), expected, "as of {revision} on server {}", round % 3);
                }
            }
            for writer in writers {
                writer.await;
            }
        });
    }
    assert!(stale > 100, "the lists were stale {stale} times");
}

#[test]
fn k026_a_list_with_rv_zero_ignores_the_limit() {
    Testbed::run(1, async |bed| {
        fill(&bed, 10).await;
        bed.wait(secs(5)).await;
        let client = bed.client("reader");
        for options in [at("0"), not_older_than("0")] {
            let list = client.list::<ConfigMap>(None, ListOptions { limit: 3, ..options }).await.unwrap();
            assert_eq!((list.items.len(), list.continue_token, list.remaining), (20, None, None));
        }
        let list = client.list::<ConfigMap>(None, ListOptions { limit: 3, ..ListOptions::default() }).await.unwrap();
        assert_eq!((list.items.len(), list.remaining), (3, Some(17)));
    });
}

#[test]
fn k027_items_are_ordered_by_namespace_then_name() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            fill(&bed, 8).await;
            bed.wait(secs(5)).await;
            let client = bed.client("reader");
            let latest = bed.revision();
            for options in [ListOptions::default(), at("0"), at(&latest.to_string()), exactly(latest), exactly(latest - 3)] {
                let list = client.list::<ConfigMap>(None, options).await.unwrap();
                let keys: Vec<(String, String)> =
                    list.items.iter().map(|map| (map.metadata.namespace.clone().unwrap(), name(&**map))).collect();
                assert!(keys.len() > 12 && keys.is_sorted(), "{keys:?}");
            }
        });
    }
}

#[test]
fn k031_an_exact_list_is_that_state_or_expired() {
    for (seed, snapshots) in SEEDS.flat_map(|seed| [(seed, false), (seed, true)]) {
        let knobs = Knobs { list_from_cache_snapshot: snapshots, ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 2, async |bed| {
            // The answers of etcd do not depend on the cache.
            bed.cluster.set_frozen((seed % 2) as usize, None, !snapshots);
            let first = bed.revision();
            let client = bed.client("client");
            churn(bed.clone(), client.clone(), 40).await;
            let last = bed.revision();
            let middle = first + (last - first) / 2;
            for revision in first..=last {
                let list = client.list::<ConfigMap>(None, exactly(revision)).await.unwrap();
                assert_eq!(list.resource_version, revision.to_string());
                assert_eq!(state_of(&list.items), state_at::<ConfigMap>(&bed, revision), "as of {revision}");
                // The legacy rule: with a limit, the version is exact.
                let legacy = client.list::<ConfigMap>(None, ListOptions { limit: 500, ..at(&revision.to_string()) }).await.unwrap();
                assert_eq!((legacy.resource_version, legacy.items), (list.resource_version, list.items));
            }
            let asked = bed.rt.now();
            let status = refused(client.list::<ConfigMap>(None, exactly(last + 1)).await);
            assert_eq!((status.code, status.reason), (504, Reason::Timeout));
            assert_eq!(bed.rt.now().since(asked) >= secs(3), snapshots, "a cache may still come so far");
            assert!(status.message().starts_with(&format!("Timeout: Too large resource version: {}", last + 1)), "{status}");
            let kept: Vec<StateOf> = (middle..=last).map(|revision| state_at::<ConfigMap>(&bed, revision)).collect();
            bed.cluster.compact(middle);
            for revision in first..middle {
                let status = refused(client.list::<ConfigMap>(None, exactly(revision)).await);
                assert_eq!((status.code, status.reason), (410, Reason::Expired));
                assert!(status.message().contains("too old"), "{status}");
            }
            for (revision, expected) in (middle..=last).zip(kept) {
                let list = client.list::<ConfigMap>(None, exactly(revision)).await.unwrap();
                assert_eq!(state_of(&list.items), expected);
            }
        });
    }
}

#[test]
fn k035_selectors_give_the_matching_part_of_the_same_state() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client("client");
            let random = bed.env(&client);
            for number in 0..12 {
                let body: Pod = from_json(json!({
                    "metadata": {"name": format!("p{number}"), "namespace": if number % 4 == 0 { "other" } else { "default" },
                                 "labels": {"app": format!("app-{}", random.random() % 3)}},
                    "spec": {"nodeName": format!("n{}", random.random() % 2),
                             "containers": [{"name": "main", "image": "registry.example/app:1"}]},
                }));
                let key = ObjectKey::of(&body);
                client.create(body).await.unwrap();
                let phase = if random.random() % 2 == 0 { "Running" } else { "Failed" };
                let patch = kube_machinery::api::Patch::merge(json!({"status": {"phase": phase}}));
                client.patch_status::<Pod>(&key, patch).await.unwrap();
            }
            bed.wait(secs(5)).await;
            let label = |pod: &Pod| pod.metadata.labels.as_ref().unwrap()["app"].clone();
            let node = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.clone().unwrap();
            let failed = |pod: &Pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Failed");
            type Wanted<'a> = Box<dyn Fn(&Pod) -> bool + 'a>;
            let cases: Vec<(Option<&str>, Option<&str>, Wanted<'_>)> = vec![
                (Some("app=app-1"), None, Box::new(|pod| label(pod) == "app-1")),
                (Some("app!=app-1"), None, Box::new(|pod| label(pod) != "app-1")),
                (Some("app in (app-0,app-2)"), None, Box::new(|pod| label(pod) != "app-1")),
                (Some("nothing"), None, Box::new(|_| false)),
                (None, Some("spec.nodeName=n1"), Box::new(|pod| node(pod) == "n1")),
                (None, Some("status.phase!=Failed"), Box::new(|pod| !failed(pod))),
                (None, Some("metadata.namespace=other"), Box::new(|pod| pod.metadata.namespace.as_deref() == Some("other"))),
                (None, Some("metadata.name=p3"), Box::new(|pod| name(pod) == "p3")),
                (
                    Some("app=app-0"),
                    Some("spec.nodeName=n0,status.phase=Failed"),
                    Box::new(|pod| label(pod) == "app-0" && node(pod) == "n0" && failed(pod)),
                ),
            ];
            let revision = bed.revision();
            for options in [ListOptions::default(), at("0"), exactly(revision), exactly(revision - 5)] {
                let whole = client.list::<Pod>(None, options.clone()).await.unwrap();
                for (labels, fields, wanted) in &cases {
                    let label_selector = labels.map(str::to_owned);
                    let options = ListOptions { label_selector, field_selector: fields.map(str::to_owned), ..options.clone() };
                    let list = client.list::<Pod>(None, options.clone()).await.unwrap();
                    let expected: Vec<Arc<Pod>> = whole.items.iter().filter(|pod| wanted(pod)).cloned().collect();
                    assert_eq!((list.resource_version, list.items), (whole.resource_version.clone(), expected), "{options:?}");
                }
            }
            for fields in ["spec.nodeNames=n1", "metadata.uid=x", "status.phases=Failed", "spec"] {
                let options = ListOptions { field_selector: Some(fields.to_owned()), ..ListOptions::default() };
                assert_eq!(refused(client.list::<Pod>(None, options.clone()).await).code, 400, "{fields}");
                assert_eq!(refused(client.list::<ConfigMap>(None, options).await).code, 400, "{fields}");
            }
            let options = ListOptions { field_selector: Some("spec.nodeName=n1".to_owned()), ..ListOptions::default() };
            let status = refused(client.list::<ConfigMap>(None, options).await);
            assert_eq!((status.code, status.reason), (400, Reason::BadRequest));
        });
    }
}

#[test]
fn k036_a_server_that_initialises_says_so_instead_of_listing_nothing() {
    for seed in SEEDS {
        let knobs = Knobs { consistent_list_from_cache: seed % 2 == 0, ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 2, async |bed| {
            fill(&bed, 3).await;
            bed.cluster.crash_server(1);
            bed.wait(secs(10)).await;
            bed.cluster.restart_server(1, secs(20));
            let client = bed.client_on("reader", 1);
            let revision = bed.revision().to_string();
            for options in [ListOptions::default(), at("0"), at(&revision), not_older_than("0"), exactly(bed.revision())] {
                let from_cache = options.resource_version.is_some() && options.resource_version_match != Some(VersionMatch::Exact);
                match client.list::<ConfigMap>(None, options.clone()).await {
                    Ok(list) => assert!(!from_cache && list.items.len() == 6, "{options:?}: {} items", list.items.len()),
                    Err(error) => {
                        assert_eq!((error.code(), error.reason()), (Some(429), Some(Reason::TooManyRequests)), "{options:?}");
                        assert!(error.retry_after().is_some_and(|seconds| (1..=30).contains(&seconds)));
                    }
                }
            }
            // A GET falls through to etcd.
            client.get_cached::<ConfigMap>(&key("m-01"), "0").await.unwrap();
            bed.wait(secs(20)).await;
            assert_eq!(client.list::<ConfigMap>(None, at("0")).await.unwrap().items.len(), 6);
        });
    }
}

#[test]
fn k036_a_server_that_comes_back_without_etcd_has_nothing_to_list() {
    Testbed::run(1, async |bed| {
        fill(&bed, 3).await;
        let client = bed.client_on("reader", 1);
        bed.cluster.crash_server(1);
        bed.cluster.set_etcd_cut(1, true);
        bed.cluster.restart_server(1, secs(5));
        bed.wait(secs(60)).await;
        let status = refused(client.list::<ConfigMap>(None, at("0")).await);
        assert_eq!((status.code, status.reason), (429, Reason::TooManyRequests));
        bed.cluster.set_etcd_cut(1, false);
        bed.wait(secs(5)).await;
        assert_eq!(client.list::<ConfigMap>(None, at("0")).await.unwrap().items.len(), 6);

        // A cache that has to restart has nothing to list either.
        bed.cluster.set_etcd_cut(1, true);
        bed.client_on("writer", 0).create(config_map("new", "v", "0")).await.unwrap();
        bed.cluster.forget_history(1, Some(bed.kind::<ConfigMap>()));
        bed.wait(secs(60)).await;
        assert_eq!(refused(client.list::<ConfigMap>(None, at("0")).await).code, 429);
        client.list::<Pod>(None, at("0")).await.unwrap();
        bed.cluster.set_etcd_cut(1, false);
        bed.wait(secs(5)).await;
        assert_eq!(client.list::<ConfigMap>(None, at("0")).await.unwrap().items.len(), 7);
    });
}
