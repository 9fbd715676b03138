//! The hardened agent when its pod's endpoint is deleted, or its cache does not show it, during an ADD.

use crate::api_server::Deed;
use crate::faults::{agrees, others_write_first};
use crate::scene::{Owner, Scene, addresses, ippools};
use std::sync::{Arc, Mutex};

use ipam_spiderpool::{Policy, SpiderIPPool};
use kube_machinery::api::ObjectKey;
use serde_json::json;

#[test]
fn a_further_sandbox_finds_the_endpoint_of_the_first_though_the_cache_does_not_show_it() {
    for upstream in [false, true] {
        let mut policy = Policy::hardened();
        policy.further_nic_draws_again = upstream;
        let mut scene = Scene::new(policy);
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
        let old = scene.world.frozen();
        scene.restart_long_ago(&old);
        // This time, agents of other nodes are faster at the first pool.
        others_write_first(&scene);
        let first = scene.in_sandbox("first").add("a", "u", "eth0").unwrap();
        scene.world.serve_all();
        assert_eq!(addresses(&first), ["10.0.1.1"]);
        scene.del("a", "u", "eth0").unwrap();
        scene.world.log();
        let second = scene.in_sandbox("second").add("a", "u", "eth0").unwrap();
        assert_eq!(addresses(&second), addresses(&first));
        agrees(&scene, "a", "u");
        let draws = scene.world.log().iter().any(|request| request.starts_with("update SpiderIPPool/status"));
        assert_eq!(draws, upstream);
    }
}

#[test]
fn a_further_sandbox_finds_what_a_nic_has_though_the_cache_shows_the_endpoint_without_it() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, "");
    scene.change("Pod", "a", |pod| {
        pod["metadata"]["annotations"] = json!({"ipam.spidernet.io/ippool": r#"{"ipv4": ["p4", "q4"]}"#});
    });
    scene.in_sandbox("first").add("a", "u", "eth0").unwrap();
    let old = scene.world.frozen();
    scene.restart_long_ago(&old);
    // This time, agents of other nodes are faster at the first pool.
    others_write_first(&scene);
    let first = scene.add("a", "u", "net1").unwrap();
    scene.world.serve_all();
    assert_eq!(addresses(&first), ["10.0.0.1", "10.0.1.1"]);
    scene.in_sandbox("second").add("a", "u", "eth0").unwrap();
    scene.world.log();
    let second = scene.add("a", "u", "net1").unwrap();
    assert_eq!(addresses(&second), addresses(&first));
    agrees(&scene, "a", "u");
    assert!(!scene.world.log().iter().any(|request| request.starts_with("update SpiderIPPool/status")));
}

#[test]
fn an_endpoint_that_goes_while_its_missing_records_are_made_is_made_again() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &["p6"])]));
    let first = scene.in_sandbox("s").add("a", "u", "eth0").unwrap();
    // Somebody removes the pod's data: a record, and when the next ADD has read the pools, the other one and the endpoint.
    scene.change("SpiderIPPool", "p4", |pool| pool["status"]["allocatedIPs"] = json!("{}"));
    let mut taken = false;
    scene.world.script(move |name, world| {
        if name == "update SpiderIPPool/status" && !std::mem::replace(&mut taken, true) {
            world.change("SpiderIPPool", &ObjectKey::cluster("p6"), |pool| pool["status"]["allocatedIPs"] = json!("{}"));
            world.vanish("SpiderEndpoint", &ObjectKey::namespaced("ns", "a"));
        }
        Deed::Serve
    });
    let again = scene.in_sandbox("s").add("a", "u", "eth0").unwrap();
    assert_eq!((addresses(&again), scene.of("u").len()), (addresses(&first), 2));
    agrees(&scene, "a", "u");
}

#[test]
fn a_marked_endpoint_that_somebody_else_ends_with_its_records_is_made_again_with_them() {
    // The client that marked it removes the records after the ADD has checked them, and then the endpoint, unless the ADD is faster there.
    for (takes_records, takes_endpoint) in [(false, false), (true, false), (true, true)] {
        let scene = Scene::new(Policy::hardened());
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &["p6"])]));
        let first = scene.in_sandbox("s").add("a", "u", "eth0").unwrap();
        scene.change("SpiderEndpoint", "a", |endpoint| endpoint["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
        let mut taken = false;
        scene.world.script(move |name, world| {
            if takes_records && name == "patch SpiderEndpoint" && !std::mem::replace(&mut taken, true) {
                for pool in ["p4", "p6"] {
                    world.change("SpiderIPPool", &ObjectKey::cluster(pool), |pool| pool["status"]["allocatedIPs"] = json!("{}"));
                }
                if takes_endpoint {
                    world.vanish("SpiderEndpoint", &ObjectKey::namespaced("ns", "a"));
                }
            }
            Deed::Serve
        });
        let again = scene.in_sandbox("t").add("a", "u", "eth0").unwrap();
        let told = format!("records taken: {takes_records}, endpoint taken: {takes_endpoint}");
        assert_eq!((addresses(&again), scene.of("u").len()), (addresses(&first), 2), "{told}");
        agrees(&scene, "a", "u");
    }
}

#[test]
fn what_a_late_endpoint_names_stays_recorded_though_the_add_fails() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[])]));
    let mut reads = 0;
    scene.world.script(move |name, world| match name {
        "create SpiderEndpoint" => Deed::Later,
        "get SpiderEndpoint" => {
            reads += 1;
            if reads == 1 {
                // The endpoint does not exist yet, and no pool serves the pod any more.
                world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["spec"]["disable"] = json!(true));
            } else {
                world.deliver();
            }
            Deed::Serve
        }
        _ => Deed::Serve,
    });
    scene.add("a", "u", "eth0").unwrap_err();
    scene.world.serve_all();
    agrees(&scene, "a", "u");
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.0.1"]);
    agrees(&scene, "a", "u");
}

#[test]
fn what_was_drawn_makes_way_for_what_the_pods_own_late_endpoint_names() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[])]));
    // An agent records an address, sends the endpoint, and crashes.
    scene.world.script(|name, _| match name {
        "create SpiderEndpoint" => Deed::Later,
        "get SpiderEndpoint" => Deed::Hang,
        _ => Deed::Serve,
    });
    assert!(scene.try_add("a", "u", "eth0").is_none());
    // The next agent's cache shows nothing from now on. The record may be withdrawn, so it allocates another address.
    let caches = scene.world.frozen();
    scene.restart(&caches);
    let most = Arc::new(Mutex::new(0));
    let count = most.clone();
    scene.world.script(move |name, world| {
        let records = |pool: &SpiderIPPool| pool.status.as_ref().map_or(0, |status| status.allocated_ips.parse().unwrap().len());
        let mut most = count.lock().unwrap();
        *most = world.all::<SpiderIPPool>().iter().map(records).sum::<usize>().max(*most);
        drop(most);
        if name == "create SpiderEndpoint" {
            world.deliver();
        }
        Deed::Serve
    });
    let answer = scene.add("a", "u", "eth0").unwrap();
    assert_eq!((addresses(&answer), scene.of("u")), (vec!["10.0.0.1".to_owned()], vec!["10.0.0.1".to_owned()]));
    assert_eq!(*most.lock().unwrap(), 1, "records of the NIC at a time");
}

#[test]
fn an_endpoint_that_came_late_does_not_name_for_good_what_others_have_by_then() {
    for others_have_all in [false, true] {
        let mut scene = Scene::new(Policy::hardened());
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &["p6"])]));
        // An agent records addresses, sends the endpoint, and crashes.
        scene.world.script(|name, _| match name {
            "create SpiderEndpoint" => Deed::Later,
            "get SpiderEndpoint" => Deed::Hang,
            _ => Deed::Serve,
        });
        assert!(scene.try_add("a", "u", "eth0").is_none());
        scene.world.serve_all();
        // The next agent releases them, because a pool serves nobody; then the endpoint arrives.
        let caches = scene.world.clone();
        scene.restart(&caches);
        scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["disable"] = json!(true));
        scene.add("a", "u", "eth0").unwrap_err();
        scene.world.deliver();
        assert_eq!((scene.of("u").len(), scene.stored("a").len()), (0, 2));
        scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["disable"] = json!(false));
        for last in 1..=6 {
            scene.record("p4", &format!("10.0.0.{last}"), "ns/b", "b");
            if others_have_all {
                scene.record("p6", &format!("fd00::{last}"), "ns/b", "b");
            }
        }
        scene.add("a", "u", "eth0").unwrap_err();
        agrees(&scene, "a", "u");
        let left: &[&str] = if others_have_all { &[] } else { &["fd00::1"] };
        assert_eq!(scene.stored("a"), left);
        // It gets the missing address as soon as one is free.
        scene.forget_record("p4", "10.0.0.5");
        scene.forget_record("p6", "fd00::5");
        let answer = scene.add("a", "u", "eth0").unwrap();
        assert_eq!(addresses(&answer), ["10.0.0.5", if others_have_all { "fd00::5" } else { "fd00::1" }]);
        agrees(&scene, "a", "u");
    }
}

#[test]
fn the_endpoint_of_nics_without_names_goes_on_naming_all_that_they_had_or_nothing() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("", &["p4"], &[]), ("", &["p4"], &[])]));
    let first = scene.add("a", "u", "eth0").unwrap();
    assert_eq!(addresses(&first), ["10.0.0.1", "10.0.0.2"]);
    for last in [1, 3, 4, 5, 6] {
        scene.record("p4", &format!("10.0.0.{last}"), "ns/b", "b");
    }
    scene.add("a", "u", "eth0").unwrap_err();
    // Without the first entry it would be unknown whose the second is.
    assert_eq!((scene.of("u"), scene.stored("a")), (vec!["10.0.0.2".to_owned()], addresses(&first)));
    scene.record("p4", "10.0.0.2", "ns/b", "b");
    scene.add("a", "u", "eth0").unwrap_err();
    assert_eq!(scene.stored("a"), [""; 0]);
    scene.forget_record("p4", "10.0.0.3");
    scene.forget_record("p4", "10.0.0.4");
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), ["10.0.0.3", "10.0.0.4"]);
    agrees(&scene, "a", "u");
}

#[test]
fn an_endpoint_goes_on_naming_what_nobody_has_and_the_pool_may_not_give_now() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[])]));
    let first = scene.add("a", "u", "eth0").unwrap();
    scene.forget_record("p4", "10.0.0.1");
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["excludeIPs"] = json!(["10.0.0.1"]));
    for last in 2..=6 {
        scene.record("p4", &format!("10.0.0.{last}"), "ns/b", "b");
    }
    scene.add("a", "u", "eth0").unwrap_err();
    assert_eq!(scene.stored("a"), addresses(&first));
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["excludeIPs"] = json!([]));
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), addresses(&first));
}
