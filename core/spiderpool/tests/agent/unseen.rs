//! Records that an agent has and does not know of: from writes that a proxy sent twice, and from an earlier run.

use crate::api_server::{Deed, World};
use crate::scene::{Owner, Scene, addresses, ippools};
use ipam_spiderpool::{Policy, SpiderIPPool};
use kube_machinery::api::ObjectKey;
use serde_json::json;

/// The number of pools in which a pod has a record.
fn pools_with(world: &World, uid: &str) -> usize {
    let has =
        |pool: &SpiderIPPool| pool.status.as_ref().is_some_and(|status| status.allocated_ips.parse().unwrap().of_pod_uid(uid).count() > 0);
    world.all::<SpiderIPPool>().iter().filter(|pool| has(pool)).count()
}

#[test]
fn a_write_that_was_sent_twice_is_seen_in_the_pool_also_after_the_last_conflict() {
    for twice in 1..=5 {
        let scene = Scene::new(Policy::hardened());
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
        let mut writes = 0;
        scene.world.script(move |name, world| {
            assert!(pools_with(world, "u") <= 1, "a second record where write {twice} was sent twice");
            writes += u32::from(name == "update SpiderIPPool/status");
            if name == "update SpiderIPPool/status" && writes < twice {
                world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["status"]["totalIPCount"] = json!(writes));
            }
            if name == "update SpiderIPPool/status" && writes == twice { Deed::ServeTwice } else { Deed::Serve }
        });
        let answer = scene.add("a", "u", "eth0").unwrap();
        assert_eq!((addresses(&answer), scene.of("u")), (vec!["10.0.0.1".to_owned()], vec!["10.0.0.1".to_owned()]));
    }
}

#[test]
fn a_pool_that_cannot_be_read_after_a_conflict_may_have_the_record_of_a_write_that_was_sent_twice() {
    for (twice, refused) in (1..=5).flat_map(|twice| (1..=10).map(move |refused| (twice, refused))) {
        let scene = Scene::new(Policy::hardened());
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
        let (mut writes, mut reads) = (0, 0);
        scene.world.script(move |name, world| {
            assert!(pools_with(world, "u") <= 1, "a second record where write {twice} was sent twice and {refused} reads failed");
            writes += u32::from(name == "update SpiderIPPool/status");
            reads += u32::from(name == "get SpiderIPPool" && writes == twice);
            match name {
                "update SpiderIPPool/status" if writes == twice => return Deed::ServeTwice,
                "update SpiderIPPool/status" if writes < twice => {
                    world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["status"]["totalIPCount"] = json!(writes));
                }
                "get SpiderIPPool" if writes == twice && reads <= refused => return Deed::Refuse,
                _ => {}
            }
            Deed::Serve
        });
        let answer = scene.add("a", "u", "eth0").unwrap();
        assert_eq!((addresses(&answer), scene.of("u")), (vec!["10.0.0.1".to_owned()], vec!["10.0.0.1".to_owned()]));
    }
}

#[test]
fn an_agent_that_just_started_goes_on_with_the_pool_in_which_a_write_that_was_sent_twice_is_seen() {
    for at_last in [false, true] {
        let mut scene = Scene::new(Policy::hardened());
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
        let old = scene.world.frozen();
        scene.restart(&old);
        let mut writes = 0;
        scene.world.script(move |name, world| {
            assert!(pools_with(world, "u") <= 1, "a second record");
            if name != "update SpiderIPPool/status" {
                return Deed::Serve;
            }
            writes += 1;
            // Others are faster in p4, and in q4 up to the last attempt.
            let (pool, twice) = if writes <= 5 { ("p4", 0) } else { ("q4", if at_last { 10 } else { 6 }) };
            if writes == twice {
                return Deed::ServeTwice;
            }
            if writes <= twice.max(5) {
                world.change("SpiderIPPool", &ObjectKey::cluster(pool), |pool| pool["status"]["totalIPCount"] = json!(writes));
            }
            Deed::Serve
        });
        let answer = scene.add("a", "u", "eth0").unwrap();
        assert_eq!(addresses(&answer), scene.of("u"), "at the last attempt: {at_last}");
        assert!(addresses(&answer)[0].starts_with("10.0.1."), "{answer:?}");
    }
}

#[test]
fn what_a_write_without_an_answer_recorded_makes_way_for_what_the_predecessor_had() {
    let mut scene = Scene::new(Policy::hardened());
    let pools = ippools(&[("eth0", &["p4", "q4"], &[])]);
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(true));
    scene.pod("db-0", "u1", Owner::StatefulSet, &pools);
    let old = scene.world.frozen();
    scene.add("db-0", "u1", "eth0").unwrap();
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(false));
    old.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["spec"]["disable"] = json!(false));
    scene.pod("db-0", "u2", Owner::StatefulSet, &pools);
    scene.restart_long_ago(&old);
    let mut writes = 0;
    scene.world.script(move |name, world| {
        assert!(pools_with(world, "u2") <= 1, "a second record");
        writes += u32::from(name == "update SpiderIPPool/status");
        if name == "update SpiderIPPool/status" && writes == 1 { Deed::LoseReply } else { Deed::Serve }
    });
    let answer = scene.add("db-0", "u2", "eth0").unwrap();
    assert_eq!((addresses(&answer), scene.of("u2")), (vec!["10.0.1.1".to_owned()], vec!["10.0.1.1".to_owned()]));
}

#[test]
fn what_an_earlier_life_recorded_for_another_pod_is_known_once_all_pools_were_read() {
    let mut scene = Scene::new(Policy::hardened());
    for (name, uid) in [("a", "u1"), ("b", "u2")] {
        scene.pod(name, uid, Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    }
    let old = scene.world.frozen();
    // The process crashes when it has recorded the address of the second pod, and its first reads after the restart are older than that.
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(true));
    scene.world.script(|name, _| if name == "create SpiderEndpoint" { Deed::Hang } else { Deed::Serve });
    assert!(scene.try_add("b", "u2", "eth0").is_none());
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(false));
    scene.restart(&old);
    scene.world.script(|_, world| {
        assert!(pools_with(world, "u2") <= 1, "a second record");
        Deed::Serve
    });
    scene.add("a", "u1", "eth0").unwrap();
    let answer = scene.add("b", "u2", "eth0").unwrap();
    assert_eq!(addresses(&answer), scene.of("u2"));
    assert!(addresses(&answer)[0].starts_with("10.0.1."), "{answer:?}");
}
