//! The hardened agent under uncertainty: whether its write was carried out, and whether the pod is still the one it began with.

use std::time::Duration;

use crate::api_server::Deed;
use crate::faults::agrees;
use crate::scene::{Owner, Scene, addresses, ippools};
use ipam_spiderpool::{Policy, SpiderIPPool};
use kube_machinery::api::ObjectKey;
use serde_json::{Value, json};

const ONE: &str = r#"[{"interface":"eth0","ipv4":["p4"]}]"#;
const TERMINATING: &str = "2026-01-01T00:00:00Z";

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ns", name)
}

/// A cluster with the pod `a`, which draws from `p4`.
fn one_pod() -> Scene {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, ONE);
    scene
}

#[test]
fn an_add_for_a_pod_that_was_replaced_gives_its_successor_nothing() {
    let scene = one_pod();
    assert_eq!(scene.add("a", "of another day", "eth0").unwrap_err().class(), "replaced-pod");
    assert_eq!((scene.records(), scene.endpoint("a")), (vec![], None));
}

#[test]
fn a_pod_that_ends_is_not_even_told_what_it_has() {
    let scene = one_pod();
    scene.add("a", "u", "eth0").unwrap();
    scene.terminate("a");
    assert_eq!(scene.add("a", "u", "eth0").unwrap_err().class(), "dead-pod");
}

#[test]
fn a_pod_that_ended_since_the_endpoint_was_looked_at_is_asked_for_again() {
    let mut scene = one_pod();
    let before = scene.world.frozen();
    // The endpoint of another pod of the name, which the caches do not show. When the pod's own is to be created, the pod ends.
    scene.pod("a", "namesake", Owner::Nobody, ONE);
    scene.add("a", "namesake", "eth0").unwrap();
    let kept = scene.stored("a");
    scene.pod("a", "u", Owner::Nobody, ONE);
    scene.restart_long_ago(&before);
    scene.world.script(|name, world| {
        if name == "create SpiderEndpoint" {
            world.change("Pod", &key("a"), |pod| pod["metadata"]["deletionTimestamp"] = json!(TERMINATING));
        }
        Deed::Serve
    });
    assert_eq!(scene.add("a", "u", "eth0").unwrap_err().class(), "dead-pod");
    assert_eq!((scene.of("u"), scene.stored("a")), (vec![], kept));
}

#[test]
fn what_an_endpoint_may_name_stays_recorded_when_nobody_says_whether_it_was_written() {
    let scene = one_pod();
    scene.world.script(|name, _| if name == "create SpiderEndpoint" { Deed::Later } else { Deed::Serve });
    scene.add("a", "u", "eth0").unwrap_err();
    scene.world.serve_all();
    scene.world.deliver();
    assert_eq!((scene.stored("a"), scene.of("u")), (vec!["10.0.0.1".to_owned()], vec!["10.0.0.1".to_owned()]));
}

#[test]
fn what_an_endpoint_may_name_stays_recorded_when_it_cannot_be_read_again() {
    let scene = one_pod();
    scene.world.keep_unknown("create SpiderEndpoint", "get SpiderEndpoint");
    scene.add("a", "u", "eth0").unwrap_err();
    assert_eq!((scene.stored("a"), scene.of("u")), (vec!["10.0.0.1".to_owned()], vec!["10.0.0.1".to_owned()]));
}

#[test]
fn what_was_recorded_goes_back_although_the_caller_gave_up_meanwhile() {
    let scene = one_pod();
    let env = scene.env.clone();
    scene.world.script(move |name, _| {
        if name == "create SpiderEndpoint" {
            env.pass(Duration::from_secs(200));
            return Deed::Refuse;
        }
        Deed::Serve
    });
    scene.add("a", "u", "eth0").unwrap_err();
    assert_eq!((scene.records(), scene.agent.remembered().len()), (vec![], 0));
}

#[test]
fn a_del_asks_the_pool_of_which_nobody_knows_whether_it_holds_a_record() {
    let mut scene = one_pod();
    let before = scene.world.frozen();
    scene.restart_long_ago(&before);
    // The record is made without an answer, and the pool can no longer be read.
    scene.world.keep_unknown("update SpiderIPPool/status", "get SpiderIPPool");
    scene.add("a", "u", "eth0").unwrap_err();
    scene.world.serve_all();
    assert_eq!((scene.of("u").len(), scene.endpoint("a")), (1, None));
    scene.terminate("a");
    scene.del("a", "u", "eth0").unwrap();
    assert_eq!(scene.records(), []);
}

#[test]
fn the_endpoint_of_a_pod_that_is_no_static_one_is_inherited_by_none() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("db-0", "u1", Owner::ThirdParty, ONE);
    let first = scene.add("db-0", "u1", "eth0").unwrap();
    scene.pod("db-0", "u2", Owner::StatefulSet, ONE);
    let second = scene.add("db-0", "u2", "eth0").unwrap();
    assert_eq!((scene.of("u1"), scene.of("u2")), (addresses(&first), addresses(&second)));
    assert_eq!(scene.endpoint("db-0").unwrap().metadata.owner_references, None);
}

/// Transfers the endpoint of this name to the pod `u2` just before this request.
fn passes_on_before(scene: &Scene, request: &'static str, name: &'static str) {
    let mut passed = false;
    scene.world.script(move |asked, world| {
        if asked == request && !std::mem::replace(&mut passed, true) {
            world.change("SpiderEndpoint", &key(name), |endpoint| endpoint["status"]["current"]["uid"] = json!("u2"));
        }
        Deed::Serve
    });
}

#[test]
fn a_del_does_not_mark_what_is_the_successors_endpoint_by_now() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("db-0", "u1", Owner::StatefulSet, ONE);
    scene.add("db-0", "u1", "eth0").unwrap();
    scene.world.vanish("StatefulSet", &key("db"));
    scene.terminate("db-0");
    passes_on_before(&scene, "delete SpiderEndpoint", "db-0");
    scene.del("db-0", "u1", "eth0").unwrap_err();
    assert_eq!(scene.endpoint("db-0").unwrap().metadata.deletion_timestamp, None);
    assert_eq!(scene.records().len(), 1);
}

#[test]
fn a_del_leaves_the_finalizer_of_what_is_the_successors_endpoint_by_now() {
    let scene = one_pod();
    scene.add("a", "u", "eth0").unwrap();
    scene.terminate("a");
    passes_on_before(&scene, "patch SpiderEndpoint", "a");
    scene.del("a", "u", "eth0").unwrap();
    assert!(scene.endpoint("a").unwrap().metadata.finalizers.is_some());
}

#[test]
fn no_address_that_was_ever_found_in_use_comes_back_to_the_pod() {
    let scene = one_pod();
    for expected in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
        assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), [expected]);
        scene.release("a", "u").unwrap();
    }
}

#[test]
fn a_read_settles_nothing_while_the_late_write_can_still_be_carried_out() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    let before = scene.world.frozen();
    scene.restart_long_ago(&before);
    // The pool is read at its old version; further writes have no effect, and the first one is carried out in the end.
    let mut first = true;
    scene.world.script(move |name, _| match name {
        "update SpiderIPPool/status" if std::mem::replace(&mut first, false) => Deed::Later,
        "update SpiderIPPool/status" => Deed::Refuse,
        _ => Deed::Serve,
    });
    scene.add("a", "u", "eth0").unwrap_err();
    scene.world.serve_all();
    scene.world.deliver();
    assert_eq!(scene.of("u"), ["10.0.0.1"]);
    scene.terminate("a");
    scene.del("a", "u", "eth0").unwrap();
    assert_eq!(scene.records(), []);
}

#[test]
fn a_request_that_is_late_knows_which_pool_it_left_in_doubt() {
    let mut scene = one_pod();
    let before = scene.world.frozen();
    scene.restart_long_ago(&before);
    let (env, mut written) = (scene.env.clone(), false);
    scene.world.script(move |name, _| match name {
        "update SpiderIPPool/status" => {
            written = true;
            Deed::Later
        }
        "get SpiderIPPool" if written => {
            env.pass(Duration::from_secs(200));
            Deed::Serve
        }
        _ => Deed::Serve,
    });
    scene.add("a", "u", "eth0").unwrap_err();
    scene.world.serve_all();
    scene.world.deliver();
    scene.terminate("a");
    scene.del("a", "u", "eth0").unwrap();
    assert_eq!(scene.records(), []);
}

#[test]
fn a_pool_that_changed_since_a_lost_write_is_left_for_the_next() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["ips"] = json!(["10.0.0.1"]));
    let mut first = true;
    scene.world.script(move |name, world| {
        if name != "update SpiderIPPool/status" || !std::mem::replace(&mut first, false) {
            return Deed::Serve;
        }
        // Another pod has the last address: the lost write cannot take effect any more.
        world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| {
            pool["status"]["allocatedIPs"] = json!(r#"{"10.0.0.1":{"pod":"ns/b","podUid":"b"}}"#);
        });
        Deed::Later
    });
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.1.1"]);
    scene.world.deliver();
    assert_eq!(scene.of("u"), ["10.0.1.1"]);
}

#[test]
fn a_conflict_with_ones_own_late_write_leads_to_no_other_pool() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    let mut writes = 0;
    scene.world.script(move |name, world| {
        writes += u32::from(name == "update SpiderIPPool/status");
        match (name, writes) {
            // Another client is always faster.
            ("update SpiderIPPool/status", 1..=4) => {
                let total = json!(writes);
                world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["status"]["totalIPCount"] = total);
                Deed::Serve
            }
            ("update SpiderIPPool/status", 5) => Deed::Later,
            // Here it is the write before.
            ("update SpiderIPPool/status", 6) => {
                world.deliver();
                Deed::Serve
            }
            _ => Deed::Serve,
        }
    });
    let _ = scene.add("a", "u", "eth0");
    scene.world.serve_all();
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.0.1"]);
    assert_eq!(scene.records().len(), 1);
}

#[test]
fn nothing_is_sent_for_a_caller_who_gave_up() {
    let scene = one_pod();
    let env = scene.env.clone();
    scene.world.script(move |name, _| {
        if name == "update SpiderIPPool/status" {
            env.pass(Duration::from_secs(99));
        }
        env.pass(Duration::from_secs(1));
        Deed::Serve
    });
    scene.add("a", "u", "eth0").unwrap_err();
    let created = scene.world.log().into_iter().filter(|line| line == "create SpiderEndpoint").count();
    assert_eq!((created, scene.records()), (0, vec![]));
}

#[test]
fn the_pool_that_holds_the_record_of_a_dead_agent_is_asked_first() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["excludeIPs"] = json!(["10.0.0.1-10.0.0.6"]));
    scene.world.script(|name, _| if name.starts_with("update SpiderIPPool") { Deed::ServeAndHang } else { Deed::Serve });
    assert!(scene.try_add("a", "u", "eth0").is_none());
    scene.world.serve_all();
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["excludeIPs"] = json!([]));
    let caches = scene.world.clone();
    scene.restart_long_ago(&caches);
    scene.world.log();
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.1.1"]);
    assert!(scene.world.log().iter().all(|line| line != "update SpiderIPPool/status"), "it is recorded already");
}

#[test]
fn an_add_that_fails_takes_back_only_what_it_recorded_itself() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
    let before = scene.world.frozen();
    scene.add("a", "u", "eth0").unwrap();
    scene.restart_long_ago(&before);
    scene.change("SpiderIPPool", "q4", |pool| pool["status"]["allocatedIPs"] = json!("broken"));
    scene.add("a", "u", "eth0").unwrap_err();
    scene.change("SpiderIPPool", "q4", |pool| pool["status"] = json!({}));
    assert_eq!((scene.of("u"), scene.stored("a")[0].as_str()), (vec!["10.0.0.1".to_owned()], "10.0.0.1"));
}

#[test]
fn an_answer_is_safe_from_a_roll_back_that_is_still_under_way() {
    let scene = one_pod();
    // The endpoint cannot be written, and the outcome of removing the record is unknown.
    let mut recorded = false;
    scene.world.script(move |name, _| match name {
        "update SpiderIPPool/status" if !std::mem::replace(&mut recorded, true) => Deed::Serve,
        "update SpiderIPPool/status" => Deed::Later,
        "create SpiderEndpoint" => Deed::Refuse,
        _ => Deed::Serve,
    });
    scene.add("a", "u", "eth0").unwrap_err();
    scene.world.serve_all();
    let answer = scene.add("a", "u", "eth0").unwrap();
    scene.world.deliver();
    assert_eq!(scene.of("u"), addresses(&answer));
}

#[test]
fn what_could_not_be_taken_back_is_found_before_another_pool_is_tried_though_the_cache_does_not_show_it() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    let before = scene.world.frozen();
    scene.restart_long_ago(&before);
    scene.change("SpiderIPPool", "p4", |pool| pool["status"]["allocatedIPs"] = json!("broken"));
    // The endpoint cannot be written, and then nothing can be removed.
    let mut fails = false;
    scene.world.script(move |name, _| {
        fails |= name == "create SpiderEndpoint";
        if fails { Deed::Refuse } else { Deed::Serve }
    });
    scene.add("a", "u", "eth0").unwrap_err();
    scene.change("SpiderIPPool", "p4", |pool| pool["status"] = json!({}));
    assert_eq!(scene.of("u"), ["10.0.1.1"]);
    with_one_record_at_a_time(&scene);
    let answer = scene.add("a", "u", "eth0").unwrap();
    assert_eq!((scene.of("u"), scene.stored("a")), (addresses(&answer), addresses(&answer)));
}

/// From now on there may be one record, in any pool.
fn with_one_record_at_a_time(scene: &Scene) {
    scene.world.script(|_, world| {
        let records = |pool: &SpiderIPPool| pool.status.as_ref().map_or(0, |status| status.allocated_ips.parse().unwrap().len());
        assert!(world.all::<SpiderIPPool>().iter().map(records).sum::<usize>() <= 1, "a second record of the NIC");
        Deed::Serve
    });
}

/// An agent whose cache does not show what an earlier run of it recorded for a pod in `p4`, which is disabled by now, or comes after `q4`.
fn behind_an_earlier_life(closed: bool) -> Scene {
    let mut scene = Scene::new(Policy::hardened());
    let pools = |first: &str, second: &str| ippools(&[("eth0", &[first, second], &[])]);
    scene.pod("a", "u", Owner::Nobody, &pools("p4", "q4"));
    let before = scene.world.frozen();
    scene.world.script(|name, _| if name == "create SpiderEndpoint" { Deed::Hang } else { Deed::Serve });
    assert!(scene.try_add("a", "u", "eth0").is_none());
    assert_eq!(scene.of("u"), ["10.0.0.1"]);
    if closed {
        before.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["spec"]["disable"] = json!(true));
    } else {
        let pools = pools("q4", "p4");
        before.change("Pod", &key("a"), |pod| pod["metadata"]["annotations"]["ipam.spidernet.io/ippools"] = json!(pools));
    }
    scene.restart_long_ago(&before);
    scene
}

#[test]
fn what_an_earlier_life_recorded_is_found_before_another_pool_is_tried_though_the_cache_does_not_show_it() {
    for (closed, expected) in [(true, "10.0.1.1"), (false, "10.0.0.1")] {
        let scene = behind_an_earlier_life(closed);
        with_one_record_at_a_time(&scene);
        assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), [expected]);
        agrees(&scene, "a", "u");
    }
}

#[test]
fn a_pool_goes_first_no_longer_once_the_record_in_it_is_taken_back() {
    for (reply_lost, other_nic) in [(false, false), (true, false), (false, true)] {
        let scene = behind_an_earlier_life(false);
        if other_nic {
            let record = json!({"interface": "net1", "pod": "ns/a", "podUid": "u"});
            scene.edit_records("p4", |records| drop(records.insert("10.0.0.9".to_owned(), record)));
        }
        // The record is found, and then the endpoint cannot be read until the ADD removes the records.
        let mut takes_back = false;
        scene.world.script(move |name, _| {
            takes_back |= name == "get SpiderIPPool";
            match name {
                "get SpiderEndpoint" if !takes_back => Deed::Refuse,
                "update SpiderIPPool/status" if reply_lost => Deed::LoseReply,
                _ => Deed::Serve,
            }
        });
        scene.add("a", "u", "eth0").unwrap_err();
        assert_eq!(scene.of("u"), if other_nic { vec!["10.0.0.9"] } else { Vec::new() });
        scene.world.serve_all();
        assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.1.1"], "a record of another NIC: {other_nic}");
        scene.forget_record("p4", "10.0.0.9");
        agrees(&scene, "a", "u");
    }
}

#[test]
fn a_pool_goes_first_no_longer_once_the_record_in_it_has_made_way() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["q4", "p4"], &[])]));
    for last in 1..=6 {
        let (pod, uid) = if last == 3 { ("ns/a", "u") } else { ("ns/b", "b") };
        scene.record("p4", &format!("10.0.0.{last}"), pod, uid);
        scene.record("q4", &format!("10.0.1.{last}"), "ns/b", "b");
    }
    let caches = scene.world.clone();
    scene.restart(&caches);
    // Another client undoes each write of the pool but the last.
    let full = scene.world.find::<SpiderIPPool>(&ObjectKey::cluster("p4")).unwrap();
    let records = serde_json::to_value(&*full).unwrap()["status"].clone();
    let mut undone = 0;
    scene.world.script(move |name, world| {
        if name == "get SpiderIPPool" && undone < 5 {
            undone += 1;
            world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["status"] = records.clone());
        }
        Deed::Serve
    });
    scene.add("a", "u", "eth0").unwrap_err();
    assert_eq!(scene.of("u"), Vec::<String>::new());
    scene.forget_record("q4", "10.0.1.5");
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.1.5"], "the first pool has one again");
}

#[test]
fn what_an_add_was_answered_with_stays_recorded_when_the_endpoint_is_gone_and_another_add_fails() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
    for nic in ["eth0", "net1"] {
        scene.add("a", "u", nic).unwrap();
    }
    scene.world.vanish("SpiderEndpoint", &key("a"));
    scene.world.script(|name, _| if name == "create SpiderEndpoint" { Deed::Refuse } else { Deed::Serve });
    for nic in ["net1", "eth0"] {
        scene.add("a", "u", nic).unwrap_err();
        assert_eq!(scene.of("u"), ["10.0.0.1", "10.0.1.1"], "the ADD of {nic}");
    }
}

#[test]
fn what_an_add_records_for_one_family_does_not_set_the_other_back() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &["p6"])]));
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["ips"] = json!(["10.0.0.1"]));
    scene.world.script(|name, world| match name {
        // Another pod has the last address of the first pool by then.
        "get SpiderIPPool" => {
            world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| {
                pool["status"]["allocatedIPs"] = json!(r#"{"10.0.0.1":{"pod":"ns/b","podUid":"b"}}"#);
            });
            Deed::Serve
        }
        // With other ranges the pool of the other family is compared with all others, including the one that is written here.
        "update SpiderIPPool/status" => {
            let exclude = |pool: &mut Value| pool["spec"]["excludeIPs"] = json!(["fd00::6"]);
            world.change("SpiderIPPool", &ObjectKey::cluster("p6"), exclude);
            Deed::Serve
        }
        // Nor is there a second round.
        "get SpiderEndpoint" => Deed::Refuse,
        _ => Deed::Serve,
    });
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.1.1", "fd00::1"]);
    agrees(&scene, "a", "u");
}
