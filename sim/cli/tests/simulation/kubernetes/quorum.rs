//! K §10.8: etcd without a quorum, and requests that are acknowledged nevertheless.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{Call, DeleteOptions, ListOptions, Request, TransportError, Verb, VersionMatch, WatchOptions};
use kube_machinery::{Client, ClientExt};
use kube_sim::cluster::EtcdOutage;
use kube_sim::cluster::server::InjectedFault;
use kube_sim::net::{Effect, Rule, Side};
use kube_sim::testbed::{Testbed, config_map, key};
use parking_lot::Mutex;
use serde_json::json;
use sim_config::draw::{Concern, Draw};

use super::expect::*;

#[test]
fn k115_without_quorum_only_caches_answer() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let admin = bed.client("admin");
            let map = admin.create(config_map("a", "v", "1")).await.unwrap();
            bed.wait(secs(5)).await;
            let mut watched = Watched::<ConfigMap>::open(&bed).await;
            let quiet = bed.revision();
            bed.cluster.set_etcd_outage(Some(EtcdOutage::NoQuorum));
            let since = bed.rt.now();
            let mut running = Vec::new();
            for number in 0..2 {
                for request in 0..5 {
                    let client = bed.client_on("client", number);
                    let (asker, map, rt) = (client.clone(), map.clone(), bed.rt.clone());
                    running.push(start(&bed, &client, async move {
                        let name = key("a");
                        let error = match request {
                            0 => asker.get::<ConfigMap>(&name).await.map(drop),
                            1 => asker.list::<ConfigMap>(None, ListOptions::default()).await.map(drop),
                            2 => asker.create(config_map("b", "v", "1")).await.map(drop),
                            3 => asker.update(labelled(&*map, "l", "1")).await.map(drop),
                            _ => asker.delete::<ConfigMap>(&name, DeleteOptions::default()).await.map(drop),
                        };
                        (refused(error), rt.now() - since)
                    }));
                }
            }
            for outcome in running {
                let (body, took) = outcome.await.unwrap();
                assert_eq!(body, status(500, "", "etcdserver: request timed out", json!(null)));
                assert!(took >= secs(7) && took < secs(8), "etcd's own time-out: {took:?}");
            }
            // Caches that are only asked for what they have continue for half a minute, and the watch is silent.
            for number in 0..2 {
                let client = bed.client_on("client", number);
                assert_eq!(client.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap(), map);
                assert_eq!(client.get_cached::<ConfigMap>(&key("a"), &rv(&*map).to_string()).await.unwrap(), map);
                let any = ListOptions { resource_version: Some("0".to_owned()), ..ListOptions::default() };
                assert_eq!(client.list::<ConfigMap>(None, any).await.unwrap().items, std::slice::from_ref(&map));
                // An impatient client gets its own time-out.
                let call = Call::<ConfigMap>::Get { key: key("a"), resource_version: None };
                let error = client.send(Request { call, timeout: Some(secs(3)) }).await.unwrap_err();
                assert_eq!(error, TransportError::Deadline.into());
            }
            assert!(watched.events().await.is_empty());
            assert_eq!(bed.revision(), quiet);
            assert!(bed.rt.now() - since < secs(30));
            bed.cluster.set_etcd_outage(None);
            admin.create(config_map("c", "v", "1")).await.unwrap();
            let events = watched.events().await;
            assert!(events.iter().any(|(_, map)| map.metadata.name.as_deref() == Some("c")), "it is still the same watch");
        });
    }
}

#[test]
fn k115_without_quorum_nobody_can_tell_what_a_consistent_read_has_to_wait_for() {
    Testbed::run(1, async |bed| {
        let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
        // The cache will receive the write soon, and does not need etcd for it.
        bed.cluster.set_extra_lag(1, None, secs(1));
        writer.create(config_map("a", "v", "1")).await.unwrap();
        bed.cluster.set_etcd_outage(Some(EtcdOutage::NoQuorum));
        let since = bed.rt.now();
        let body = refused(reader.list::<ConfigMap>(None, ListOptions::default()).await);
        assert_eq!(body, status(500, "", "etcdserver: request timed out", json!(null)));
        assert!(bed.rt.now() - since >= secs(7));
        let options =
            WatchOptions { send_initial_events: true, resource_version_match: Some(VersionMatch::NotOlderThan), ..WatchOptions::default() };
        let error = reader.watch::<ConfigMap>(None, options).await.err().expect("a watch list without a version needs etcd");
        assert_eq!(error.code(), Some(500), "{error}");
    });
}

#[test]
fn k115_one_server_without_etcd_fails_alone() {
    Testbed::run(1, async |bed| {
        let (cut, fine) = (bed.client_on("cut", 0), bed.client_on("fine", 1));
        let old = fine.create(config_map("a", "v", "1")).await.unwrap();
        bed.wait(secs(5)).await;
        bed.cluster.set_etcd_cut(0, true);
        let new = fine.update(labelled(&*old, "l", "1")).await.unwrap();
        assert_eq!(refused(cut.get::<ConfigMap>(&key("a")).await)["message"], "etcdserver: request timed out");
        assert_eq!(refused(cut.update::<ConfigMap>(new.clone()).await)["message"], "etcdserver: request timed out");
        assert_eq!(cut.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap(), old, "frozen");
        assert_eq!(fine.get::<ConfigMap>(&key("a")).await.unwrap(), new);
        bed.cluster.set_etcd_cut(0, false);
        assert_eq!(cut.get::<ConfigMap>(&key("a")).await.unwrap(), new);
    });
}

#[test]
fn k116_after_quorum_returns_acknowledged_writes_are_there_and_the_others_are_there_or_not_for_everybody() {
    let mut unacknowledged = BTreeSet::new();
    for seed in 1..25 {
        Testbed::run(seed, async |bed| {
            let trouble = if seed % 3 == 0 { EtcdOutage::Electing } else { EtcdOutage::NoQuorum };
            let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
            let failed = Arc::new(Mutex::new(BTreeSet::new()));
            let mut running = Vec::new();
            for number in 0..4 {
                let client = bed.client_on("writer", number % 2);
                let (writer, rt) = (client.clone(), bed.rt.clone());
                let (acknowledged, failed) = (acknowledged.clone(), failed.clone());
                running.push(start(&bed, &client, async move {
                    for round in 0..30 {
                        let name = format!("w{number}-{round}");
                        match writer.create(config_map(&name, "v", "1")).await {
                            Ok(_) => acknowledged.lock().insert(name),
                            Err(error) => {
                                assert!(error.is_ambiguous(), "{error}");
                                failed.lock().insert(name)
                            }
                        };
                        rt.sleep(millis(200)).await;
                    }
                }));
            }
            for _ in 0..2 {
                bed.wait(millis(1_500)).await;
                bed.cluster.set_etcd_outage(Some(trouble));
                bed.wait(if trouble == EtcdOutage::Electing { secs(2) } else { secs(15) }).await;
                bed.cluster.set_etcd_outage(None);
            }
            for task in running {
                task.await.unwrap();
            }
            bed.wait(secs(60)).await;
            let mut views = Vec::new();
            for number in 0..2 {
                let reader = bed.client_on("reader", number);
                for version in [None, Some("0".to_owned())] {
                    let options = ListOptions { resource_version: version, ..ListOptions::default() };
                    let list = reader.list::<ConfigMap>(None, options).await.unwrap();
                    views.push(list.items.iter().map(|map| map.metadata.name.clone().unwrap()).collect::<BTreeSet<_>>());
                }
            }
            assert!(views.iter().all(|view| *view == views[0]), "readers differ");
            assert!(acknowledged.lock().is_subset(&views[0]), "an acknowledged write is missing");
            unacknowledged.extend(failed.lock().iter().map(|name| (trouble == EtcdOutage::NoQuorum, views[0].contains(name))));
        });
    }
    assert_eq!(unacknowledged.len(), 4, "both truths occur in both kinds of trouble: {unacknowledged:?}");
}

#[test]
fn k117_an_acknowledged_write_is_never_lost() {
    let mut failures = 0;
    for seed in 1..17 {
        failures += Testbed::run(seed, async |bed| {
            let admin = bed.client("admin");
            admin.create(config_map("table", "v", "1")).await.unwrap();
            let mut running = Vec::new();
            for number in 0..4 {
                let client = bed.client("writer");
                let (writer, rt) = (client.clone(), bed.rt.clone());
                running.push(start(&bed, &client, async move {
                    let (mut acknowledged, mut failed) = (BTreeSet::new(), 0);
                    for round in 0..40 {
                        // Read, add one entry, write back with the version: as an allocator does.
                        let entry = format!("w{number}-{round}");
                        let outcome = match writer.get::<ConfigMap>(&key("table")).await {
                            Ok(map) => {
                                let add = |map: &mut ConfigMap| drop(map.data.get_or_insert_default().insert(entry.clone(), String::new()));
                                writer.update(changed(&*map, add)).await
                            }
                            Err(error) => Err(error),
                        };
                        match outcome {
                            Ok(_) => drop(acknowledged.insert(entry)),
                            Err(error) if error.is_conflict() => {}
                            Err(_) => failed += 1,
                        }
                        rt.sleep(millis(300)).await;
                    }
                    (acknowledged, failed)
                }));
            }
            let mut draw = Draw::new(seed, Concern::Faults, 0);
            bed.cluster.network(|net| net.add(Rule { from: Side::Any, to: Side::Any, effect: Effect::Loss(0.01) }));
            for _ in 0..6 {
                bed.wait(draw.between(millis(100), secs(3))).await;
                match draw.below(4) {
                    0 => {
                        let server = draw.below(2) as usize;
                        bed.cluster.crash_server(server);
                        bed.wait(secs(1)).await;
                        bed.cluster.restart_server(server, millis(500));
                    }
                    1 => {
                        bed.cluster.set_etcd_outage(Some(EtcdOutage::Electing));
                        bed.wait(secs(2)).await;
                        bed.cluster.set_etcd_outage(None);
                    }
                    2 => {
                        bed.cluster.set_etcd_outage(Some(EtcdOutage::NoQuorum));
                        bed.wait(secs(9)).await;
                        bed.cluster.set_etcd_outage(None);
                    }
                    _ => {
                        let error = *draw.pick(&FAILURES);
                        let injected = *draw.pick(&[
                            InjectedFault::CommitLate { error, after: secs(1) },
                            InjectedFault::LoseReply { error, after: secs(1) },
                            InjectedFault::Twice { gap: secs(1) },
                        ]);
                        bed.cluster.add_api_fault(kube_sim::cluster::server::ApiFault {
                            fault: 0,
                            servers: Side::Any,
                            clients: Side::Any,
                            verbs: vec![Verb::Update],
                            kinds: Vec::new(),
                            chance: 0.5,
                            injected,
                        });
                        bed.wait(secs(2)).await;
                        calm(&bed);
                    }
                }
            }
            let mut failures = 0;
            let mut expected = BTreeSet::new();
            for task in running {
                let (acknowledged, failed) = task.await.unwrap();
                assert!(!acknowledged.is_empty());
                expected.extend(acknowledged);
                failures += failed;
            }
            bed.cluster.network(|net| net.heal());
            bed.wait(secs(60)).await;
            for number in 0..2 {
                let table = bed.client_on("reader", number).get::<ConfigMap>(&key("table")).await.unwrap();
                let entries: BTreeSet<String> = table.data.iter().flatten().map(|(entry, _)| entry.clone()).collect();
                let missing: Vec<_> = expected.difference(&entries).collect();
                assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
            }
            failures
        });
    }
    assert!(failures > 100, "there was hardly any trouble: {failures}");
}
