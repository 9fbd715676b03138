//! Changes between one ADD and the next, or while one waits: pools, reservations, the pod, writes of others.

use std::pin::pin;
use std::task::{Context, Waker};

use crate::api_server::Deed;
use crate::scene::{Owner, Scene, addresses, ippools};
use ipam_spiderpool::Policy;
use ipam_spiderpool::ipam::{AddRequest, DelOutcome};
use kube_machinery::api::ObjectKey;
use serde_json::json;

const ONE: &str = r#"[{"interface":"eth0","ipv4":["p4"]}]"#;

/// A pod `db-0` of the StatefulSet, whose predecessor `u1` had addresses of these pools.
fn predecessor(pools: &str) -> Scene {
    let scene = Scene::new(Policy::hardened());
    scene.pod("db-0", "u1", Owner::StatefulSet, pools);
    scene.add("db-0", "u1", "eth0").unwrap();
    scene.pod("db-0", "u2", Owner::StatefulSet, pools);
    scene
}

#[test]
fn a_pod_that_was_read_before_it_was_replaced_takes_nothing_from_its_successor() {
    let mut scene = predecessor(&ippools(&[("eth0", &["p4"], &[])]));
    let key = ObjectKey::namespaced("ns", "db-0");
    scene.change("SpiderEndpoint", "db-0", |endpoint| endpoint["status"]["current"]["uid"] = json!("u3"));
    scene.forget_record("p4", "10.0.0.1");
    scene.record("p4", "10.0.0.1", "ns/db-0", "u3");
    let caches = scene.world.frozen();
    caches.vanish("Pod", &key);
    scene.restart_long_ago(&caches);
    scene.world.script(move |name, world| {
        if name == "get SpiderEndpoint" {
            world.change("Pod", &key, |pod| pod["metadata"]["uid"] = json!("u3"));
        }
        Deed::Serve
    });
    let error = scene.add("db-0", "u2", "eth0").unwrap_err();
    assert_eq!((error.class(), scene.of("u3")), ("replaced-pod", vec!["10.0.0.1".to_owned()]));
}

#[test]
fn a_pod_that_is_gone_does_not_finish_the_release_of_its_successor() {
    let mut scene = predecessor(&ippools(&[("eth0", &["p4"], &[])]));
    scene.change("SpiderEndpoint", "db-0", |endpoint| {
        endpoint["status"]["current"]["uid"] = json!("u3");
        endpoint["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    scene.forget_record("p4", "10.0.0.1");
    scene.record("p4", "10.0.0.1", "ns/db-0", "u3");
    let caches = scene.world.frozen();
    scene.restart_long_ago(&caches);
    scene.change("Pod", "db-0", |pod| pod["metadata"]["uid"] = json!("u3"));
    let error = scene.add("db-0", "u2", "eth0").unwrap_err();
    assert_eq!((error.class(), scene.of("u3")), ("replaced-pod", vec!["10.0.0.1".to_owned()]));
}

#[test]
fn a_pool_that_somebody_else_wrote_is_asked_again_before_the_next() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    let mut others = 0;
    scene.world.script(move |name, world| {
        others += i32::from(name == "update SpiderIPPool/status");
        if name == "update SpiderIPPool/status" && others < 5 {
            world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["status"]["totalIPCount"] = json!(others));
        }
        Deed::Serve
    });
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.0.1"]);
}

#[test]
fn a_pool_that_vanishes_before_it_is_written_holds_no_record_any_more() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, ONE);
    scene.add("a", "u", "eth0").unwrap();
    scene.terminate("a");
    scene.world.script(|name, world| {
        if name == "update SpiderIPPool/status" {
            world.vanish("SpiderIPPool", &ObjectKey::cluster("p4"));
        }
        Deed::Serve
    });
    assert_eq!(scene.del("a", "u", "eth0"), Ok(DelOutcome::Released));
}

#[test]
fn a_nic_that_inherits_its_address_does_not_mind_that_its_pool_is_full() {
    let scene = predecessor(&ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
    for last in 2..=6 {
        scene.record("p4", &format!("10.0.0.{last}"), "ns/b", "b");
    }
    scene.change("SpiderIPPool", "q4", |pool| pool["spec"]["excludeIPs"] = json!(["10.0.1.1"]));
    assert_eq!(addresses(&scene.add("db-0", "u2", "eth0").unwrap()), ["10.0.0.1", "10.0.1.2"]);
    assert_eq!((scene.of("u1"), scene.of("u2").len()), (vec![], 2));
}

#[test]
fn an_address_that_an_endpoint_names_for_two_nics_is_kept_by_one_of_them() {
    for uid in ["u1", "u2"] {
        let scene = Scene::new(Policy::hardened());
        let pools = ippools(&[("eth0", &["p4"], &[]), ("net1", &["p4"], &[])]);
        scene.pod("db-0", "u1", Owner::StatefulSet, &pools);
        scene.add("db-0", "u1", "eth0").unwrap();
        // An older version gave both NICs the record of one.
        scene.change("SpiderEndpoint", "db-0", |endpoint| {
            let ips = endpoint["status"]["current"]["ips"].as_array_mut().unwrap();
            ips[1]["ipv4"] = ips[0]["ipv4"].clone();
        });
        scene.forget_record("p4", "10.0.0.2");
        if uid == "u2" {
            scene.pod("db-0", "u2", Owner::StatefulSet, &pools);
        }
        assert_eq!(addresses(&scene.add("db-0", uid, "eth0").unwrap()), ["10.0.0.1", "10.0.0.2"], "{uid}");
        assert_eq!(addresses(&scene.add("db-0", uid, "net1").unwrap()), ["10.0.0.1", "10.0.0.2"], "{uid}");
        assert_eq!(scene.of(uid).len(), 2, "{uid}");
    }
}

#[test]
fn the_pool_that_may_hold_a_record_is_asked_first() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    let before = scene.world.frozen();
    let exclude = |text: &'static str| move |pool: &mut serde_json::Value| pool["spec"]["excludeIPs"] = json!([text]);
    before.change("SpiderIPPool", &ObjectKey::cluster("p4"), exclude("10.0.0.1-10.0.0.6"));
    scene.restart_long_ago(&before);
    // A record is made in `q4` without an answer, and the pool can no longer be read.
    scene.world.keep_unknown("update SpiderIPPool/status", "get SpiderIPPool");
    scene.add("a", "u", "eth0").unwrap_err();
    scene.world.serve_all();
    before.change("SpiderIPPool", &ObjectKey::cluster("p4"), exclude("10.0.0.6"));
    scene.world.log();
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.1.1"]);
    assert!(scene.world.log().iter().all(|line| line != "update SpiderIPPool/status"), "it is recorded already");
}

/// A request for the first NIC that waits without a deadline.
fn patient(scene: &Scene, name: &str, uid: &str) -> AddRequest {
    AddRequest { deadline: None, ..scene.add_request(name, uid, "eth0") }
}

#[test]
fn a_pod_that_ends_while_its_turn_comes_draws_nothing() {
    let mut scene = Scene::new(Policy::hardened());
    // The clock of the tests ends every wait immediately.
    scene.config.settings.operation_timeout = None;
    scene.restart_long_ago(&scene.world.clone());
    scene.pod("first", "f", Owner::Nobody, ONE);
    scene.pod("a", "u", Owner::Nobody, ONE);
    scene.world.script(|name, _| if name == "update SpiderIPPool/status" { Deed::Hang } else { Deed::Serve });
    let (one, other) = (patient(&scene, "first", "f"), patient(&scene, "a", "u"));
    let mut context = Context::from_waker(Waker::noop());
    let mut second = pin!(scene.agent.add(&other));
    {
        let mut first = pin!(scene.agent.add(&one));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending(), "the pool is the first one's");
        scene.terminate("a");
        scene.world.serve_all();
    }
    let std::task::Poll::Ready(result) = second.as_mut().poll(&mut context) else { panic!("its turn has come") };
    assert_eq!((result.unwrap_err().class(), scene.of("u")), ("dead-pod", vec![]));
}

#[test]
fn what_is_reserved_now_counts_and_not_what_was() {
    let scene = Scene::new(Policy::hardened());
    let reserve = |ip: &str| {
        scene.world.put(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderReservedIP", "metadata": {"name": "r"},
            "spec": {"ips": [ip], "ipVersion": 4},
        }));
    };
    for (uid, reserved, expected) in [("a", None, "10.0.0.1"), ("b", Some("10.0.0.2"), "10.0.0.3"), ("c", Some("10.0.0.4"), "10.0.0.2")] {
        reserved.into_iter().for_each(reserve);
        scene.pod(uid, uid, Owner::Nobody, ONE);
        assert_eq!(addresses(&scene.add(uid, uid, "eth0").unwrap()), [expected]);
    }
    scene.pod("d", "d", Owner::Nobody, ONE);
    assert_eq!(addresses(&scene.add("d", "d", "eth0").unwrap()), ["10.0.0.5"]);
}

#[test]
fn agents_that_make_one_auto_pool_at_the_same_time_wait_for_each_other() {
    let scene = Scene::new(Policy::hardened());
    scene.world.put(json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet", "metadata": {"name": "s4", "uid": "s4"},
        "spec": {"subnet": "10.9.0.0/24", "ips": ["10.9.0.1-10.9.0.9"], "ipVersion": 4},
    }));
    scene.pod("a", "u", Owner::ThirdParty, ONE);
    let asks = json!({"ipam.spidernet.io/subnet": r#"{"ipv4":["s4"]}"#, "ipam.spidernet.io/ippool-ip-number": "3"});
    scene.change("Pod", "a", |pod| pod["metadata"]["annotations"] = asks);
    let mut others = 0;
    scene.world.script(move |name, world| {
        if name == "update SpiderSubnet/status" && others < 1 {
            others += 1;
            world.change("SpiderSubnet", &ObjectKey::cluster("s4"), |subnet| subnet["metadata"]["labels"] = json!({"by": "somebody"}));
        }
        Deed::Serve
    });
    assert!(addresses(&scene.add("a", "u", "eth0").unwrap())[0].starts_with("10.9.0."));
}

#[test]
fn the_routes_of_an_address_go_with_it() {
    let pools = ippools(&[("eth0", &["p4", "q4"], &["p6"])]);
    let scene = Scene::new(Policy::hardened());
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["routes"] = json!([{"dst": "172.16.0.0/12", "gw": "10.0.0.254"}]));
    scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["routes"] = json!([{"dst": "fd99::/64", "gw": "fd00::fe"}]));
    scene.pod("db-0", "u1", Owner::StatefulSet, &pools);
    assert_eq!(scene.add("db-0", "u1", "eth0").unwrap().routes.len(), 2);
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(true));
    scene.pod("db-0", "u2", Owner::StatefulSet, &pools);
    let answer = scene.add("db-0", "u2", "eth0").unwrap();
    assert_eq!(addresses(&answer), ["10.0.1.1", "fd00::1"]);
    assert_eq!(answer.routes.iter().map(|of| &*of.route.gw).collect::<Vec<_>>(), ["fd00::fe"]);
}

#[test]
fn a_pool_gives_what_it_has_now() {
    let scene = Scene::new(Policy::hardened());
    for (uid, ips, expected) in [("a", "10.0.0.1-10.0.0.3", "10.0.0.1"), ("b", "10.0.0.5-10.0.0.6", "10.0.0.5")] {
        scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["ips"] = json!([ips]));
        scene.pod(uid, uid, Owner::Nobody, ONE);
        assert_eq!(addresses(&scene.add(uid, uid, "eth0").unwrap()), [expected]);
    }
}

#[test]
fn what_an_add_recorded_is_found_again_though_the_cache_shows_the_pool_as_used_up() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    let before = scene.world.frozen();
    scene.restart_long_ago(&before);
    for last in 2..=6 {
        scene.record("p4", &format!("10.0.0.{last}"), "ns/b", "b");
    }
    // At first the endpoint cannot be written. Meanwhile the cache shows the pool as it was when another pod had its last address.
    let full: serde_json::Map<_, _> = (1..=6).map(|last| (format!("10.0.0.{last}"), json!({"pod": "ns/b", "podUid": "b"}))).collect();
    let (full, mut first) = (serde_json::Value::Object(full).to_string(), true);
    scene.world.script(move |name, _| {
        if name != "create SpiderEndpoint" || !std::mem::replace(&mut first, false) {
            return Deed::Serve;
        }
        before.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["status"]["allocatedIPs"] = json!(full));
        Deed::Refuse
    });
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.0.1"]);
    assert_eq!(scene.of("u"), ["10.0.0.1"]);
}

#[test]
fn whoever_needs_several_pools_waits_for_all_of_them() {
    let mut scene = Scene::new(Policy::hardened());
    scene.config.settings.operation_timeout = None;
    scene.restart_long_ago(&scene.world.clone());
    scene.pod("a", "a", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
    scene.pod("b", "b", Owner::Nobody, &ippools(&[("eth0", &["q4"], &[])]));
    scene.world.script(|name, _| if name == "update SpiderIPPool/status" { Deed::Hang } else { Deed::Serve });
    let [one, other] = ["a", "b"].map(|name| patient(&scene, name, name));
    let mut context = Context::from_waker(Waker::noop());
    let mut second = pin!(scene.agent.add(&other));
    {
        let mut first = pin!(scene.agent.add(&one));
        assert!(first.as_mut().poll(&mut context).is_pending());
        scene.world.serve_all();
        assert!(second.as_mut().poll(&mut context).is_pending(), "the first one has both pools");
    }
    assert!(second.as_mut().poll(&mut context).is_ready());
}

#[test]
fn a_record_that_comes_while_its_turn_is_waited_for_is_found_before_another_pool_is_tried() {
    let mut scene = Scene::new(Policy::hardened());
    scene.config.settings.operation_timeout = None;
    scene.restart_long_ago(&scene.world.clone());
    for name in ["first", "a"] {
        scene.pod(name, name, Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    }
    scene.world.script(|name, _| if name == "update SpiderIPPool/status" { Deed::Hang } else { Deed::Serve });
    let [one, other] = ["first", "a"].map(|name| patient(&scene, name, name));
    let mut context = Context::from_waker(Waker::noop());
    let mut second = pin!(scene.agent.add(&other));
    {
        let mut first = pin!(scene.agent.add(&one));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending(), "the pools are the first one's");
        // A write that an earlier run of the agent had sent is carried out.
        scene.record("q4", "10.0.1.1", "ns/a", "a");
        scene.world.serve_all();
    }
    let std::task::Poll::Ready(result) = second.as_mut().poll(&mut context) else { panic!("its turn has come") };
    assert_eq!((addresses(&result.unwrap()), scene.of("a")), (vec!["10.0.1.1".to_owned()], vec!["10.0.1.1".to_owned()]));
}

#[test]
fn an_answer_that_a_pod_had_once_stays_whatever_becomes_of_the_pool() {
    let pools = ippools(&[("eth0", &["p4", "q4"], &[])]);
    for owner in [Owner::Nobody, Owner::StatefulSet] {
        let scene = Scene::new(Policy::hardened());
        scene.pod("db-0", "u", owner, &pools);
        let first = scene.add("db-0", "u", "eth0").unwrap();
        scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(true));
        assert_eq!(addresses(&scene.in_sandbox("next").add("db-0", "u", "eth0").unwrap()), addresses(&first), "{owner:?}");
    }
}

/// `db-0` with two NICs, which both draw from these pools.
pub(crate) fn two_nics_of(scene: &Scene, uid: &str, pools: &str) {
    scene.pod("db-0", uid, Owner::StatefulSet, "");
    scene.change("Pod", "db-0", |pod| {
        pod["metadata"]["annotations"] = json!({"ipam.spidernet.io/ippool": pools, "k8s.v1.cni.cncf.io/networks": "net"});
    });
}

#[test]
fn the_first_nic_asks_for_all_whether_their_pools_are_still_named() {
    let scene = Scene::new(Policy::hardened());
    two_nics_of(&scene, "u1", r#"{"ipv4":["p4"]}"#);
    scene.add("db-0", "u1", "eth0").unwrap();
    scene.add("db-0", "u1", "net1").unwrap();
    two_nics_of(&scene, "u2", r#"{"ipv4":["q4"]}"#);
    scene.add("db-0", "u2", "eth0").unwrap();
    let answer = scene.add("db-0", "u2", "net1").unwrap();
    assert_eq!(addresses(&answer), ["10.0.1.1", "10.0.1.2"]);
    assert_eq!(scene.records().len(), 2);
}

#[test]
fn a_nic_that_lacks_an_address_is_not_answered_by_the_add_of_another() {
    let scene = Scene::new(Policy::hardened());
    let pools = r#"{"ipv4":["p4"],"ipv6":["p6"]}"#;
    two_nics_of(&scene, "u1", pools);
    scene.add("db-0", "u1", "eth0").unwrap();
    scene.add("db-0", "u1", "net1").unwrap();
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["excludeIPs"] = json!(["10.0.0.1"]));
    scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["excludeIPs"] = json!(["fd00::2"]));
    two_nics_of(&scene, "u2", pools);
    assert_eq!(addresses(&scene.add("db-0", "u2", "eth0").unwrap()), ["10.0.0.3", "fd00::1"]);
    let answer = scene.add("db-0", "u2", "net1").unwrap();
    assert_eq!(addresses(&answer), ["10.0.0.3", "fd00::1", "10.0.0.2", "fd00::3"]);
    assert_eq!(scene.records().len(), 4);
}

#[test]
fn what_is_left_of_a_nic_that_the_successor_does_not_have_goes_when_another_nic_draws() {
    let scene = Scene::new(Policy::hardened());
    let pools = r#"{"ipv4":["p4"],"ipv6":["p6"]}"#;
    two_nics_of(&scene, "u1", pools);
    scene.add("db-0", "u1", "eth0").unwrap();
    scene.add("db-0", "u1", "net1").unwrap();
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["excludeIPs"] = json!(["10.0.0.1"]));
    scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["excludeIPs"] = json!(["fd00::2"]));
    two_nics_of(&scene, "u2", pools);
    scene.change("Pod", "db-0", |pod| pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!(""));
    assert_eq!(addresses(&scene.add("db-0", "u2", "eth0").unwrap()), ["10.0.0.3", "fd00::1"]);
    assert_eq!((scene.records().len(), scene.stored("db-0")), (2, vec!["10.0.0.3".to_owned(), "fd00::1".to_owned()]));
}

#[test]
fn what_nics_without_a_name_have_goes_if_those_of_the_successor_have_names() {
    let nameless = ippools(&[("", &["p4"], &[]), ("", &["q4"], &[]), ("", &["q4"], &[])]);
    for (pools, expected) in [(r#"{"ipv4":["p4"]}"#, ["10.0.0.1", "10.0.0.2"]), (r#"{"ipv4":["q4"]}"#, ["10.0.1.3", "10.0.1.1"])] {
        let scene = Scene::new(Policy::hardened());
        scene.pod("db-0", "u1", Owner::StatefulSet, &nameless);
        assert_eq!(addresses(&scene.add("db-0", "u1", "eth0").unwrap()), ["10.0.0.1", "10.0.1.1", "10.0.1.2"]);
        two_nics_of(&scene, "u2", pools);
        assert_eq!(addresses(&scene.add("db-0", "u2", "eth0").unwrap()), expected[..1]);
        let answer = scene.add("db-0", "u2", "net1").unwrap();
        assert_eq!(answer.ips.iter().map(|ip| &*ip.nic).collect::<Vec<_>>(), ["eth0", "net1"]);
        assert_eq!((addresses(&answer), scene.records().len()), (expected.map(str::to_owned).to_vec(), 2));
    }
}

/// The addresses with which `eth0` and `net1` of `db-0` are answered.
fn answered_by_nic(scene: &Scene, uid: &str) -> [Vec<String>; 2] {
    ["eth0", "net1"].map(|nic| {
        let answer = scene.add("db-0", uid, nic).unwrap();
        answer.ips.iter().filter(|ip| ip.nic == nic).map(|ip| ip.address.addr().to_string()).collect()
    })
}

#[test]
fn nics_that_have_no_names_any_more_keep_the_entries_of_their_names() {
    let named = |eth0: &str| ippools(&[("eth0", &[eth0], &[]), ("net1", &["q4"], &[])]);
    for (pools, eth0, net1) in [
        (["p4", "p4"], "10.0.0.1", "10.0.0.2"),
        (["q4", "p4"], "10.0.0.1", "10.0.1.2"),
        (["q4", "q4"], "10.0.1.1", "10.0.1.2"),
        (["p4", "q4"], "10.0.0.2", "10.0.1.1"),
    ] {
        // The first NIC gets another pool, so the endpoint names it last.
        let scene = predecessor(&named("q4"));
        scene.pod("db-0", "u2", Owner::StatefulSet, &named("p4"));
        assert_eq!(answered_by_nic(&scene, "u2"), [["10.0.0.1"], ["10.0.1.2"]]);
        assert_eq!(scene.stored("db-0"), ["10.0.1.2", "10.0.0.1"]);
        scene.pod("db-0", "u3", Owner::StatefulSet, &ippools(&[("", &pools[..1], &[]), ("", &pools[1..], &[])]));
        for _ in 0..2 {
            assert_eq!(answered_by_nic(&scene, "u3"), [[eth0], [net1]], "{pools:?}");
        }
        assert_eq!(scene.records().len(), 2, "{pools:?}");
        // The pod keeps what it answers on if it lacks the rest later.
        scene.change("SpiderEndpoint", "db-0", |endpoint| {
            endpoint["metadata"]["annotations"]["ipam.spidernet.io/conflicting-ips"] = json!(net1);
        });
        let [first, second] = answered_by_nic(&scene, "u3");
        assert_eq!((first, second.len(), second.contains(&net1.to_owned())), (vec![eth0.to_owned()], 1, false), "{pools:?}");
        assert_eq!(scene.records().len(), 2, "{pools:?}");
    }
}

#[test]
fn a_nic_of_a_pod_that_names_its_nics_by_now_takes_no_entry_without_a_name() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("", &["p4"], &[]), ("", &["q4"], &[])]));
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.0.1", "10.0.1.1"]);
    scene.change("Pod", "a", |pod| {
        pod["metadata"]["annotations"] = json!({"ipam.spidernet.io/ippool": r#"{"ipv4":["p4"]}"#, "k8s.v1.cni.cncf.io/networks": "net"});
    });
    let answer = scene.add("a", "u", "net1").unwrap();
    assert_eq!((addresses(&answer), &*answer.ips[2].nic), (["10.0.0.1", "10.0.1.1", "10.0.0.2"].map(str::to_owned).to_vec(), "net1"));
}

#[test]
fn a_pool_that_goes_keeps_the_record_of_the_other_pod_of_a_vm() {
    let scene = Scene::new(Policy::hardened());
    scene.vm_pod("virt-1", "u1", "vm");
    scene.add("virt-1", "u1", "eth0").unwrap();
    scene.world.vanish("Pod", &ObjectKey::namespaced("ns", "virt-1"));
    scene.record("p4", "10.0.0.1", "ns/vm", "another");
    scene.change("SpiderIPPool", "p4", |pool| pool["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    scene.vm_pod("virt-2", "u2", "vm");
    scene.add("virt-2", "u2", "eth0").unwrap_err();
    assert_eq!(scene.of("another"), ["10.0.0.1"]);
}

#[test]
fn an_address_on_which_somebody_else_answers_is_not_used_again() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, ONE);
    scene.add("a", "u", "eth0").unwrap();
    scene.change("SpiderEndpoint", "a", |endpoint| {
        endpoint["metadata"]["annotations"]["ipam.spidernet.io/conflicting-ips"] = json!("10.0.0.1");
    });
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.0.2"]);
    assert_eq!(scene.of("u"), ["10.0.0.2"]);
}

#[test]
fn the_first_add_gets_what_any_nic_lacks_if_the_annotation_is_for_all() {
    let scene = predecessor(&ippools(&[("eth0", &["p4"], &["p6"]), ("net1", &["q4"], &["q6"])]));
    scene.change("SpiderIPPool", "q6", |pool| pool["spec"]["excludeIPs"] = json!(["fd01::1"]));
    assert_eq!(addresses(&scene.add("db-0", "u2", "eth0").unwrap()), ["10.0.0.1", "fd00::1", "10.0.1.1", "fd01::2"]);
}

#[test]
fn a_pod_that_only_the_cache_shows_alive_inherits_nothing() {
    let mut scene = predecessor(ONE);
    let before = scene.world.frozen();
    scene.restart_long_ago(&before);
    scene.terminate("db-0");
    assert_eq!(scene.add("db-0", "u2", "eth0").unwrap_err().class(), "dead-pod");
    assert_eq!((scene.of("u1").len(), scene.of("u2").len()), (1, 0));
}

#[test]
fn an_address_of_a_pool_that_is_gone_is_nobodys_any_more() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    scene.add("a", "u", "eth0").unwrap();
    let before = scene.world.frozen();
    scene.restart_long_ago(&before);
    scene.world.vanish("SpiderIPPool", &ObjectKey::cluster("p4"));
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.1.1"]);
    assert_eq!((scene.of("u"), scene.stored("a")), (vec!["10.0.1.1".to_owned()], vec!["10.0.1.1".to_owned()]));
}

#[test]
fn an_endpoint_changes_hands_only_with_its_records() {
    let scene = predecessor(ONE);
    scene.world.script(|name, _| if name == "update SpiderIPPool/status" { Deed::Refuse } else { Deed::Serve });
    scene.add("db-0", "u2", "eth0").unwrap_err();
    let endpoint = scene.endpoint("db-0").unwrap();
    assert_eq!((endpoint.status.as_ref().unwrap().current.uid.as_str(), scene.of("u1").len()), ("u1", 1));
}

#[test]
fn a_pod_that_was_replaced_takes_over_no_record_of_a_third() {
    let scene = predecessor(ONE);
    // The endpoint is still the first pod's; the record is that of a third pod, which exists by the time the pool is read.
    scene.record("p4", "10.0.0.1", "ns/db-0", "u3");
    scene.world.script(|name, world| {
        if name == "get SpiderIPPool" {
            world.change("Pod", &ObjectKey::namespaced("ns", "db-0"), |pod| pod["metadata"]["uid"] = json!("u3"));
        }
        Deed::Serve
    });
    scene.add("db-0", "u2", "eth0").unwrap_err();
    assert_eq!(scene.of("u3"), ["10.0.0.1"]);
}

#[test]
fn an_address_that_is_given_up_and_drawn_again_stays_recorded() {
    let mut scene = predecessor(ONE);
    scene.forget_record("p4", "10.0.0.1");
    // The cache shows an exclusion that no longer exists.
    let before = scene.world.frozen();
    before.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["spec"]["excludeIPs"] = json!(["10.0.0.1"]));
    scene.restart_long_ago(&before);
    let answer = scene.add("db-0", "u2", "eth0").unwrap();
    assert_eq!((addresses(&answer), scene.of("u2")), (vec!["10.0.0.1".to_owned()], vec!["10.0.0.1".to_owned()]));
}
