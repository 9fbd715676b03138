//! The hardened agent under faults: wherever a process crashes or an answer is lost, no address is given twice and none leaks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::api_server::{Deed, World};
use crate::changes::two_nics_of;
use crate::scene::{Owner, Scene, addresses, ippools};
use ipam_spiderpool::ipam::{IpamError, PoolError};
use ipam_spiderpool::select::SelectError;
use ipam_spiderpool::{Policy, SpiderIPPool};
use kube_machinery::Env;
use kube_machinery::api::ObjectKey;
use serde_json::json;

/// The fault of one request.
const FAULTS: [Deed; 6] = [Deed::Refuse, Deed::LoseReply, Deed::ServeTwice, Deed::Later, Deed::Hang, Deed::ServeAndHang];

/// Applies `fault` to the request with this number.
fn strike(world: &World, at: usize, fault: Deed) {
    let mut number = 0;
    world.script(move |name, _| {
        number += 1;
        let writes = !name.starts_with("get ");
        match fault {
            _ if number != at => Deed::Serve,
            Deed::LoseReply | Deed::Later | Deed::ServeAndHang if !writes => Deed::Refuse,
            fault => fault,
        }
    });
}

fn two_nics() -> String {
    ippools(&[("eth0", &["p4", "q4"], &["p6"]), ("net1", &["p4", "q4"], &["q6"])])
}

/// Asserts that the records of a pod are the addresses of its endpoint, each once.
pub(crate) fn agrees(scene: &Scene, name: &str, uid: &str) {
    let (mut recorded, mut stored) = (scene.of(uid), scene.stored(name));
    recorded.sort();
    stored.sort();
    assert_eq!(recorded, stored);
    let keys: BTreeSet<_> = scene.records().into_iter().map(|(pool, ip, _)| (pool, ip)).collect();
    assert_eq!(keys.len(), scene.records().len());
}

/// The number of requests that an operation makes.
fn requests(scene: &Scene, operation: impl FnOnce(&Scene)) -> usize {
    scene.world.log();
    operation(scene);
    scene.world.log().len()
}

/// Runs `operation` with each fault at each of its requests; `after` gets whether the process crashed.
fn at_every_request(begin: impl Fn() -> Scene, operation: impl Fn(&Scene) -> bool, after: impl Fn(&mut Scene, bool)) {
    let count = requests(&begin(), |scene| assert!(operation(scene)));
    assert!(count > 3, "{count} requests");
    for at in 1..=count {
        for fault in FAULTS {
            for late in [false, true] {
                let mut scene = begin();
                strike(&scene.world, at, fault);
                let died = !operation(&scene);
                scene.world.serve_all();
                if !late {
                    scene.world.deliver();
                }
                println!("request {at} of {count}: {fault:?}, late {late}, died {died}");
                if died {
                    let caches = scene.world.clone();
                    scene.restart(&caches);
                }
                after(&mut scene, died);
            }
        }
    }
}

#[test]
fn an_add_that_was_struck_is_made_good_by_the_next() {
    let begin = || {
        let scene = Scene::new(Policy::hardened());
        scene.pod("a", "u", Owner::Nobody, &two_nics());
        scene
    };
    at_every_request(
        begin,
        |scene| scene.try_add("a", "u", "eth0").is_some(),
        |scene, _| {
            let answer = scene.add("a", "u", "eth0").unwrap();
            scene.world.deliver();
            let of = scene.of("u");
            assert!(addresses(&answer).iter().all(|ip| of.contains(ip)), "{answer:?} of {of:?}");
            assert_eq!(addresses(&answer).into_iter().collect::<BTreeSet<_>>().len(), 4);
            agrees(scene, "a", "u");
            let again = scene.add("a", "u", "net1").unwrap();
            assert_eq!(addresses(&again), addresses(&answer));
            scene.terminate("a");
            scene.del("a", "u", "net1").unwrap();
            scene.del("a", "u", "eth0").unwrap();
            assert_eq!(scene.records(), []);
        },
    );
}

#[test]
fn an_add_that_was_struck_and_never_repeated_leaves_nothing_after_del() {
    let begin = || {
        let scene = Scene::new(Policy::hardened());
        scene.pod("a", "u", Owner::Nobody, &two_nics());
        scene
    };
    at_every_request(
        begin,
        |scene| scene.try_add("a", "u", "eth0").is_some(),
        |scene, _| {
            scene.world.deliver();
            scene.terminate("a");
            scene.del("a", "u", "net1").unwrap();
            scene.del("a", "u", "eth0").unwrap();
            assert_eq!(scene.records(), []);
        },
    );
}

#[test]
fn an_inheritance_that_was_struck_is_made_good_by_the_next_add() {
    let begin = || {
        let scene = Scene::new(Policy::hardened());
        scene.pod("db-0", "u1", Owner::StatefulSet, &two_nics());
        scene.add("db-0", "u1", "eth0").unwrap();
        // An address of the second NIC is no longer available.
        scene.change("SpiderIPPool", "q6", |pool| pool["spec"]["excludeIPs"] = json!(["fd01::1"]));
        scene.pod("db-0", "u2", Owner::StatefulSet, &two_nics());
        scene
    };
    at_every_request(
        begin,
        |scene| scene.try_add("db-0", "u2", "net1").is_some(),
        |scene, _| {
            let answer = scene.add("db-0", "u2", "net1").unwrap();
            scene.world.deliver();
            let of = scene.of("u2");
            assert!(addresses(&answer).iter().all(|ip| of.contains(ip)), "{answer:?} of {of:?}");
            for kept in ["10.0.0.1", "10.0.0.2", "fd00::1"] {
                assert!(addresses(&answer).contains(&kept.to_owned()), "{answer:?}");
            }
            agrees(scene, "db-0", "u2");
        },
    );
}

#[test]
fn what_is_taken_over_of_a_nic_that_the_successor_lacks_goes_whatever_strikes() {
    let pools = r#"{"ipv4":["p4"],"ipv6":["p6"]}"#;
    let begin = || {
        let scene = Scene::new(Policy::hardened());
        two_nics_of(&scene, "u1", pools);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.add("db-0", "u1", "net1").unwrap();
        // One address of the second NIC is no longer available, and the successor does not have the NIC.
        scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["excludeIPs"] = json!(["fd00::2"]));
        two_nics_of(&scene, "u2", pools);
        scene.change("Pod", "db-0", |pod| pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!(""));
        scene
    };
    at_every_request(
        begin,
        |scene| scene.try_add("db-0", "u2", "eth0").is_some(),
        |scene, _| {
            let answer = scene.add("db-0", "u2", "eth0").unwrap();
            scene.world.deliver();
            assert_eq!(addresses(&answer), ["10.0.0.1", "fd00::1"]);
            agrees(scene, "db-0", "u2");
        },
    );
}

#[test]
fn a_del_that_was_struck_is_made_good_by_the_next() {
    for owner in [Owner::Nobody, Owner::StatefulSet] {
        let begin = || {
            let scene = Scene::new(Policy::hardened());
            scene.pod("db-2", "u", owner, &two_nics());
            scene.add("db-2", "u", "eth0").unwrap();
            scene.pod("other", "x", Owner::Nobody, &two_nics());
            scene.add("other", "x", "eth0").unwrap();
            scene.change("StatefulSet", "db", |set| set["spec"]["replicas"] = json!(1));
            scene.terminate("db-2");
            scene
        };
        at_every_request(
            begin,
            |scene| scene.try_del("db-2", "u", "eth0").is_some(),
            |scene, _| {
                scene.del("db-2", "u", "net1").unwrap();
                scene.del("db-2", "u", "eth0").unwrap();
                scene.world.deliver();
                assert_eq!((scene.of("u").len(), scene.of("x").len()), (0, 4));
                let endpoint = scene.endpoint("db-2");
                assert!(endpoint.is_none_or(|endpoint| endpoint.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)));
            },
        );
    }
}

#[test]
fn a_batch_release_that_was_struck_is_made_good_and_never_gives_the_address_again() {
    let begin = || {
        let scene = Scene::new(Policy::hardened());
        scene.pod("a", "u", Owner::Nobody, &two_nics());
        scene.add("a", "u", "eth0").unwrap();
        scene
    };
    let release = |scene: &Scene| {
        let (pod, conflicting) = (ObjectKey::namespaced("ns", "a"), ["10.0.0.1".parse().unwrap()].into());
        let request = ipam_spiderpool::ipam::BatchRequest { pod, pod_uid: "u".into(), conflict: true, conflicting, deadline: None };
        crate::api_server::run(scene.agent.release_ips(&request))
    };
    at_every_request(
        begin,
        |scene| release(scene).is_some(),
        |scene, _| {
            let _ = release(scene).unwrap();
            let answer = scene.add("a", "u", "eth0").unwrap();
            scene.world.deliver();
            let of = scene.of("u");
            assert!(!addresses(&answer).contains(&"10.0.0.1".to_owned()));
            assert!(addresses(&answer).iter().all(|ip| of.contains(ip)), "{answer:?} of {of:?}");
        },
    );
}

/// Lets another client write p4 before each write of a pool.
pub(crate) fn others_write_first(scene: &Scene) {
    let mut others = 0;
    scene.world.script(move |name, world| {
        if name == "update SpiderIPPool/status" {
            others += 1;
            world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["status"]["totalIPCount"] = json!(others));
        }
        Deed::Serve
    });
}

#[test]
fn a_storm_of_conflicts_ends_with_the_next_pool_or_an_error() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    others_write_first(&scene);
    let answer = scene.add("a", "u", "eth0").unwrap();
    assert_eq!((addresses(&answer), scene.of("u").len()), (vec!["10.0.1.1".to_owned()], 1));
}

#[test]
fn a_pod_of_the_same_name_is_never_robbed_by_a_stale_add() {
    for owner in [Owner::Nobody, Owner::StatefulSet] {
        let mut scene = Scene::new(Policy::hardened());
        scene.pod("db-0", "u1", owner, &two_nics());
        let old = scene.world.frozen();
        scene.pod("db-0", "u2", owner, &two_nics());
        let answer = scene.add("db-0", "u2", "eth0").unwrap();
        scene.restart_long_ago(&old);
        assert_eq!(scene.add("db-0", "u1", "eth0").unwrap_err().class(), "replaced-pod");
        let of = scene.of("u2");
        assert!(addresses(&answer).iter().all(|ip| of.contains(ip)) && scene.of("u1").is_empty());
        agrees(&scene, "db-0", "u2");
    }
}

#[test]
fn an_agent_that_just_started_leaves_what_an_endpoint_names_that_its_cache_does_not_show() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &two_nics());
    let old = scene.world.frozen();
    scene.restart(&old);
    let first = scene.add("a", "u", "eth0").unwrap();
    scene.world.log();
    let second = scene.add("a", "u", "net1").unwrap();
    assert_eq!(addresses(&second), addresses(&first));
    agrees(&scene, "a", "u");
    let writes: Vec<_> = scene.world.log().into_iter().filter(|line| !line.starts_with("get ")).collect();
    assert_eq!(writes, [""; 0], "nothing was to be written");
}

#[test]
fn what_an_earlier_life_recorded_in_a_pool_that_is_disabled_since_goes_before_another_address_is_drawn() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    scene.world.script(|name, _| if name == "create SpiderEndpoint" { Deed::Hang } else { Deed::Serve });
    assert!(scene.try_add("a", "u", "eth0").is_none());
    let caches = scene.world.clone();
    scene.restart_long_ago(&caches);
    assert_eq!(scene.of("u"), ["10.0.0.1"]);
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(true));
    let records = |world: &World| {
        let pools = world.all::<SpiderIPPool>().into_iter();
        let texts = pools.map(|pool| serde_json::to_string(&pool.status).unwrap());
        texts.map(|text| text.matches("podUid").count()).sum::<usize>()
    };
    scene.world.script(move |_, world| {
        assert!(records(world) <= 1, "two records of one NIC and family");
        Deed::Serve
    });
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.1.1"]);
    assert_eq!(scene.of("u"), ["10.0.1.1"]);
}

#[test]
fn a_record_without_a_nic_stays_that_of_the_nic_in_the_endpoint() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[])]));
    scene.add("a", "u", "eth0").unwrap();
    // The record as upstream writes it.
    scene.record("p4", "10.0.0.1", "ns/a", "u");
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["p4"], &[])]));
    let old = scene.world.frozen();
    old.vanish("SpiderEndpoint", &ObjectKey::namespaced("ns", "a"));
    scene.restart_long_ago(&old);
    let answer = scene.add("a", "u", "net1").unwrap();
    assert_eq!(addresses(&answer), ["10.0.0.1", "10.0.0.2"]);
    agrees(&scene, "a", "u");
}

#[test]
fn what_an_earlier_life_took_over_and_is_reserved_since_makes_way_for_another_address() {
    for (reserved, expected) in [("10.0.0.5", "10.0.0.1"), ("10.0.0.1", "10.0.0.2")] {
        let mut scene = Scene::new(Policy::hardened());
        let pools = ippools(&[("eth0", &["p4"], &[])]);
        scene.pod("db-0", "u1", Owner::StatefulSet, &pools);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.pod("db-0", "u2", Owner::StatefulSet, &pools);
        scene.world.script(|name, _| if name.starts_with("update SpiderIPPool") { Deed::ServeAndHang } else { Deed::Serve });
        assert!(scene.try_add("db-0", "u2", "eth0").is_none());
        scene.world.serve_all();
        assert_eq!(scene.of("u2"), ["10.0.0.1"]);
        scene.world.put(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderReservedIP", "metadata": {"name": "r"},
            "spec": {"ips": [reserved], "ipVersion": 4},
        }));
        let caches = scene.world.clone();
        scene.restart_long_ago(&caches);
        assert_eq!(addresses(&scene.add("db-0", "u2", "eth0").unwrap()), [expected]);
        agrees(&scene, "db-0", "u2");
    }
}

#[test]
fn what_a_crashed_agent_recorded_in_a_pool_that_was_closed_since_is_taken_back() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    scene.world.script(|name, _| if name.starts_with("update SpiderIPPool") { Deed::ServeAndHang } else { Deed::Serve });
    assert!(scene.try_add("a", "u", "eth0").is_none());
    scene.world.serve_all();
    assert_eq!(scene.of("u"), ["10.0.0.1"]);
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(true));
    let caches = scene.world.clone();
    scene.restart(&caches);
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.1.1"]);
    agrees(&scene, "a", "u");
}

/// `db-0`, whose NICs all draw from these pools.
fn drawing_from(scene: &Scene, uid: &str, pools: &str) {
    scene.pod("db-0", uid, Owner::StatefulSet, "");
    scene.change("Pod", "db-0", |pod| {
        let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove("ipam.spidernet.io/ippools");
        annotations.insert("ipam.spidernet.io/ippool".to_owned(), json!(pools));
    });
}

#[test]
fn an_add_leaves_what_is_recorded_for_a_nic_whose_own_add_is_still_to_come() {
    let scene = Scene::new(Policy::hardened());
    let pools = r#"{"ipv4":["p4"],"ipv6":["p6"]}"#;
    drawing_from(&scene, "u1", pools);
    scene.add("db-0", "u1", "eth0").unwrap();
    scene.add("db-0", "u1", "net1").unwrap();
    scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["excludeIPs"] = json!(["fd00::2"]));
    drawing_from(&scene, "u2", pools);
    scene.add("db-0", "u2", "eth0").unwrap();
    let answer = scene.add("db-0", "u2", "net1").unwrap();
    assert_eq!(addresses(&answer), ["10.0.0.1", "fd00::1", "10.0.0.2", "fd00::3"]);
    agrees(&scene, "db-0", "u2");
}

#[test]
fn what_a_nic_had_outlives_a_pod_that_ends_before_that_nics_add() {
    let mut scene = Scene::new(Policy::hardened());
    let pools = r#"{"ipv4":["p4"],"ipv6":["p6"]}"#;
    drawing_from(&scene, "u1", pools);
    scene.add("db-0", "u1", "eth0").unwrap();
    let first = scene.add("db-0", "u1", "net1").unwrap();
    assert_eq!(addresses(&first), ["10.0.0.1", "fd00::1", "10.0.0.2", "fd00::2"]);
    scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["excludeIPs"] = json!(["fd00::2"]));
    drawing_from(&scene, "u2", pools);
    let answer = scene.add("db-0", "u2", "eth0").unwrap();
    assert_eq!(addresses(&answer), ["10.0.0.1", "fd00::1"], "the other NIC has not all that it is to have");
    agrees(&scene, "db-0", "u2");
    // The agent's memory is lost; the next pod of the place belongs to another agent.
    drawing_from(&scene, "u3", pools);
    let caches = scene.world.clone();
    scene.restart_long_ago(&caches);
    let answer = scene.add("db-0", "u3", "eth0").unwrap();
    assert_eq!(addresses(&answer), ["10.0.0.1", "fd00::1"]);
    let answer = scene.add("db-0", "u3", "net1").unwrap();
    assert_eq!(addresses(&answer), ["10.0.0.1", "fd00::1", "10.0.0.2", "fd00::3"]);
    assert_eq!(addresses(&scene.add("db-0", "u3", "eth0").unwrap()), addresses(&answer));
    agrees(&scene, "db-0", "u3");
    assert_eq!(scene.records().len(), 4);
    let annotations = scene.endpoint("db-0").unwrap().metadata.annotations.clone().unwrap_or_default();
    assert!(!annotations.contains_key("ipam.spidernet.io/unfinished-nics"), "{annotations:?}");
}

#[test]
fn what_was_handed_down_to_a_nic_is_found_though_the_cache_shows_its_pool_as_used_up_by_others() {
    let mut scene = Scene::new(Policy::hardened());
    let pools = r#"{"ipv4":["p4","q4"],"ipv6":["p6"]}"#;
    drawing_from(&scene, "u1", pools);
    scene.add("db-0", "u1", "eth0").unwrap();
    scene.add("db-0", "u1", "net1").unwrap();
    for last in 3..=6 {
        scene.record("p4", &format!("10.0.0.{last}"), "ns/b", "b");
    }
    // The second NIC needs another address besides the one that the first NIC's ADD takes over for it.
    scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["excludeIPs"] = json!(["fd00::2"]));
    drawing_from(&scene, "u2", pools);
    let before = scene.world.frozen();
    scene.restart_long_ago(&before);
    scene.add("db-0", "u2", "eth0").unwrap();
    let answer = scene.add("db-0", "u2", "net1").unwrap();
    assert_eq!(addresses(&answer), ["10.0.0.1", "fd00::1", "10.0.0.2", "fd00::3"]);
    agrees(&scene, "db-0", "u2");
}

/// `p4` without a free address. One is `a`'s, from an earlier run of the agent whose ADD may have sent more, and others have the rest.
fn used_up(scene: &mut Scene) {
    for last in 1..=6 {
        let (pod, uid) = if last == 3 { ("ns/a", "u") } else { ("ns/b", "b") };
        scene.record("p4", &format!("10.0.0.{last}"), pod, uid);
    }
    let caches = scene.world.frozen();
    scene.restart(&caches);
}

#[test]
fn a_record_that_may_be_withdrawn_makes_way_though_nothing_else_is_free() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    used_up(&mut scene);
    let answer = scene.add("a", "u", "eth0").unwrap();
    assert_eq!((addresses(&answer), scene.of("u")), (vec!["10.0.0.3".to_owned()], vec!["10.0.0.3".to_owned()]));
}

#[test]
fn an_add_whose_records_come_back_each_time_they_made_way_says_so() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[])]));
    used_up(&mut scene);
    // Another client undoes each write of the pool.
    let full = scene.world.find::<SpiderIPPool>(&ObjectKey::cluster("p4")).unwrap();
    let records = serde_json::to_value(&*full).unwrap()["status"].clone();
    scene.world.script(move |name, world| {
        if name == "get SpiderIPPool" {
            world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["status"] = records.clone());
        }
        Deed::Serve
    });
    let IpamError::NotAllocated(failures) = scene.add("a", "u", "eth0").unwrap_err() else { panic!("it is about the pool") };
    assert_eq!(failures.0[0].pools, [("p4".to_owned(), PoolError::OwnRecordsMadeWay)]);
}

#[test]
fn whoever_waits_for_an_auto_pool_stops_when_the_pod_ends() {
    for (policy, waits) in [(Policy::hardened(), false), (Policy::upstream(), true)] {
        let scene = Scene::new(policy);
        scene.pod("a", "u", Owner::ThirdParty, "[]");
        let asks = json!({"ipam.spidernet.io/subnet": r#"{"ipv4":["s"]}"#, "ipam.spidernet.io/ippool-ip-number": "1"});
        scene.change("Pod", "a", |pod| pod["metadata"]["annotations"] = asks);
        scene.world.put(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet",
            "metadata": {"name": "s", "finalizers": ["spiderpool.spidernet.io"]},
            "spec": {"subnet": "10.0.2.0/24", "ips": [], "ipVersion": 4},
        }));
        // It is deleted while its agent finds the subnet exhausted.
        scene.world.script(|name, world| {
            if name == "get SpiderSubnet" {
                let ends = |pod: &mut serde_json::Value| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                world.change("Pod", &ObjectKey::namespaced("ns", "a"), ends);
            }
            Deed::Serve
        });
        let began = scene.env.monotonic();
        let error = scene.add("a", "u", "eth0").unwrap_err();
        let waited = scene.env.monotonic() - began;
        assert_eq!(waited > Duration::from_secs(10), waits, "{waited:?}, {error}");
        assert_eq!(matches!(error, IpamError::Select(SelectError::DeadPod)), !waits, "{error}");
    }
}

#[test]
fn what_was_drawn_before_the_predecessors_endpoint_was_seen_makes_way_first() {
    let mut scene = Scene::new(Policy::hardened());
    let one = ippools(&[("eth0", &["p4"], &[])]);
    // The agent's caches have the pod but not the endpoint.
    scene.pod("db-0", "u2", Owner::StatefulSet, &one);
    let before = scene.world.frozen();
    scene.pod("db-0", "u1", Owner::StatefulSet, &one);
    let first = scene.add("db-0", "u1", "eth0").unwrap();
    scene.pod("db-0", "u2", Owner::StatefulSet, &one);
    scene.restart_long_ago(&before);
    let key = ObjectKey::cluster("p4");
    scene.world.script(move |_, world| {
        let pool = world.find::<SpiderIPPool>(&key).unwrap();
        let text = serde_json::to_string(&pool.status).unwrap();
        assert!(text.matches("u2").count() <= 1, "{text}");
        Deed::Serve
    });
    let answer = scene.add("db-0", "u2", "eth0").unwrap();
    scene.world.serve_all();
    assert_eq!((addresses(&answer), scene.of("u2"), scene.records().len()), (addresses(&first), addresses(&first), 1));
}

/// A pod that may have either pool, whose first NIC the agent recorded in `p4` before it crashed.
fn recorded_in_an_earlier_life() -> Scene {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    strike(&scene.world, requests_up_to_the_endpoint(&scene), Deed::Hang);
    assert!(scene.try_add("a", "u", "eth0").is_none());
    scene.world.serve_all();
    assert_eq!(scene.of("u"), ["10.0.0.1"]);
    let caches = scene.world.clone();
    scene.restart(&caches);
    scene
}

/// The number of the request by which an ADD of such a pod creates its endpoint.
fn requests_up_to_the_endpoint(scene: &Scene) -> usize {
    let twin = Scene::new(Policy::hardened());
    twin.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    twin.add("a", "u", "eth0").unwrap();
    scene.world.log();
    1 + twin.world.log().iter().position(|request| request.starts_with("create SpiderEndpoint")).expect("it has an endpoint")
}

#[test]
fn the_next_pool_gives_nothing_while_it_is_not_known_what_the_pool_of_an_earlier_life_holds() {
    for unreadable in ["get SpiderIPPool", "list SpiderIPPool"] {
        for times in 1..12 {
            let scene = recorded_in_an_earlier_life();
            let most = Arc::new(AtomicUsize::new(0));
            let (seen, mut left) = (most.clone(), times);
            scene.world.script(move |name, world| {
                let records = world.all::<SpiderIPPool>().iter().map(|pool| records_of(pool, "u")).sum();
                seen.fetch_max(records, Ordering::Relaxed);
                if name != unreadable || left == 0 {
                    return Deed::Serve;
                }
                left -= 1;
                Deed::Refuse
            });
            let _ = scene.add("a", "u", "eth0");
            scene.world.serve_all();
            assert_eq!(most.load(Ordering::Relaxed), 1, "{unreadable} fails {times} times");
            let answer = scene.add("a", "u", "eth0").unwrap();
            assert_eq!(addresses(&answer), scene.of("u"), "{unreadable} fails {times} times");
            agrees(&scene, "a", "u");
        }
    }
}

/// The number of addresses that a pool has recorded for a UID.
fn records_of(pool: &SpiderIPPool, uid: &str) -> usize {
    let status = pool.status.clone().unwrap_or_default();
    status.allocated_ips.parse().unwrap().iter().filter(|(_, record)| record.pod_uid == uid).count()
}

#[test]
fn the_next_pool_serves_if_the_pool_of_an_earlier_life_is_gone() {
    let scene = recorded_in_an_earlier_life();
    let mut there = true;
    scene.world.script(move |name, world| {
        if name.starts_with("get SpiderIPPool") && std::mem::replace(&mut there, false) {
            world.vanish("SpiderIPPool", &ObjectKey::cluster("p4"));
        }
        Deed::Serve
    });
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.1.1"]);
}
