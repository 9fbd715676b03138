//! The fate of the address of a static pod whose pool is being deleted (A §6.3, §8.6).

use crate::changes::two_nics_of;
use crate::scene::{Owner, Scene, addresses, ippools};
use ipam_spiderpool::Policy;
use ipam_spiderpool::SpiderIPPool;
use ipam_spiderpool::ipam::How;
use kube_machinery::api::ObjectKey;
use serde_json::json;

const ONE: &str = r#"[{"interface":"eth0","ipv4":["p4"]}]"#;

/// The pod `db-0` had an address of `p4`, has a successor with UID `u2`, and somebody deletes the pool.
fn restarted_while_its_pool_goes(policy: Policy) -> Scene {
    let scene = Scene::new(policy);
    scene.pod("db-0", "u1", Owner::StatefulSet, ONE);
    scene.add("db-0", "u1", "eth0").unwrap();
    scene.terminate("db-0");
    scene.del("db-0", "u1", "eth0").unwrap();
    scene.pod("db-0", "u2", Owner::StatefulSet, ONE);
    going(&scene);
    scene
}

fn going(scene: &Scene) {
    scene.change("SpiderIPPool", "p4", |pool| pool["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
}

/// The pool is removed, and a user creates it again.
fn recreate(scene: &Scene) {
    let key = ObjectKey::cluster("p4");
    let mut pool = serde_json::to_value(&*scene.world.find::<SpiderIPPool>(&key).unwrap()).unwrap();
    scene.world.vanish("SpiderIPPool", &key);
    pool["metadata"] = json!({"name": "p4", "finalizers": ["spiderpool.spidernet.io"]});
    (pool["apiVersion"], pool["kind"]) = (json!("spiderpool.spidernet.io/v2beta1"), json!("SpiderIPPool"));
    pool["status"] = json!({"allocatedIPCount": 0});
    scene.world.put(pool);
}

#[test]
fn a_pool_that_goes_is_not_kept_by_a_pod_that_waits_for_it() {
    let scene = restarted_while_its_pool_goes(Policy::hardened());
    let before = scene.stored("db-0");
    assert!(scene.add("db-0", "u2", "eth0").is_err());
    assert_eq!((scene.records(), scene.stored("db-0")), (vec![], before.clone()));

    recreate(&scene);
    let answer = scene.add("db-0", "u2", "eth0").unwrap();
    assert_eq!((addresses(&answer), answer.how), (before.clone(), How::Reowned));
    assert_eq!(scene.of("u2"), before);
}

#[test]
fn an_address_that_somebody_has_by_then_is_replaced() {
    let scene = restarted_while_its_pool_goes(Policy::hardened());
    assert!(scene.add("db-0", "u2", "eth0").is_err());
    recreate(&scene);
    scene.pod("other", "o", Owner::Nobody, ONE);
    let taken = scene.add("other", "o", "eth0").unwrap();
    let answer = scene.add("db-0", "u2", "eth0").unwrap();
    assert_ne!(addresses(&answer), addresses(&taken));
    assert_eq!((scene.of("u2"), scene.of("o")), (addresses(&answer), addresses(&taken)));
}

#[test]
fn another_pool_serves_at_once() {
    let scene = restarted_while_its_pool_goes(Policy::hardened());
    scene.pod("db-0", "u2", Owner::StatefulSet, &ippools(&[("eth0", &["p4", "q4"], &[])]));
    let answer = scene.add("db-0", "u2", "eth0").unwrap();
    assert_eq!((&*answer.ips[0].pool, scene.records().len()), ("q4", 1));
}

#[test]
fn a_pool_that_is_disabled_keeps_the_address_for_the_pod() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("db-0", "u1", Owner::StatefulSet, ONE);
    let first = scene.add("db-0", "u1", "eth0").unwrap();
    scene.pod("db-0", "u2", Owner::StatefulSet, ONE);
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(true));
    assert!(scene.add("db-0", "u2", "eth0").is_err());
    assert_eq!(scene.of("u1"), addresses(&first));
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(false));
    assert_eq!(addresses(&scene.add("db-0", "u2", "eth0").unwrap()), addresses(&first));
}

#[test]
fn records_of_a_pod_between_the_two_go_as_well() {
    let scene = restarted_while_its_pool_goes(Policy::hardened());
    let address = scene.stored("db-0").remove(0);
    scene.record("p4", &address, "ns/db-0", "between");
    scene.record("p4", "10.0.0.6", "ns/db-1", "other");
    assert!(scene.add("db-0", "u2", "eth0").is_err());
    assert_eq!(scene.records(), [("p4".to_owned(), "10.0.0.6".to_owned(), "other".to_owned())]);
}

#[test]
fn a_pod_that_was_replaced_itself_takes_nothing_back() {
    let mut scene = restarted_while_its_pool_goes(Policy::hardened());
    let address = scene.stored("db-0").remove(0);
    let old = scene.world.frozen();
    scene.restart_long_ago(&old);
    // The successor of the successor was faster.
    scene.pod("db-0", "u3", Owner::StatefulSet, ONE);
    scene.record("p4", &address, "ns/db-0", "u3");
    assert!(scene.add("db-0", "u2", "eth0").is_err());
    assert_eq!(scene.of("u3"), [address]);
}

#[test]
fn an_address_of_a_pool_that_is_there_again_is_not_taken_back_for_what_the_cache_shows() {
    let mut scene = restarted_while_its_pool_goes(Policy::hardened());
    let address = scene.stored("db-0").remove(0);
    let old = scene.world.frozen();
    scene.restart_long_ago(&old);
    recreate(&scene);
    scene.record("p4", &address, "ns/db-0", "u1");
    assert!(scene.add("db-0", "u2", "eth0").is_err());
    assert_eq!(scene.of("u1"), [address]);
}

#[test]
fn a_pod_that_cannot_have_all_takes_nothing_over_yet() {
    let both = ippools(&[("eth0", &["p4"], &["p6"])]);
    let scene = Scene::new(Policy::hardened());
    scene.pod("db-0", "u1", Owner::StatefulSet, &both);
    let first = scene.add("db-0", "u1", "eth0").unwrap();
    scene.pod("db-0", "u2", Owner::StatefulSet, &both);
    going(&scene);
    assert!(scene.add("db-0", "u2", "eth0").is_err());
    assert_eq!((scene.of("u1"), scene.of("u2")), (vec!["fd00::1".to_owned()], vec![]));

    recreate(&scene);
    assert_eq!(addresses(&scene.add("db-0", "u2", "eth0").unwrap()), addresses(&first));
    assert_eq!((scene.of("u1").len(), scene.of("u2").len()), (0, 2));
}

#[test]
fn what_somebody_else_has_by_the_time_it_is_taken_over_is_replaced_as_well() {
    let both = ippools(&[("eth0", &["p4", "q4"], &["p6", "q6"])]);
    let scene = Scene::new(Policy::hardened());
    scene.pod("db-0", "u1", Owner::StatefulSet, &both);
    scene.add("db-0", "u1", "eth0").unwrap();
    scene.pod("db-0", "u2", Owner::StatefulSet, &both);
    going(&scene);
    scene.record("p6", "fd00::1", "ns/other", "o");
    let answer = scene.add("db-0", "u2", "eth0").unwrap();
    assert_eq!(addresses(&answer), ["10.0.1.1", "fd00::2"]);
    assert_eq!((scene.of("u2").len(), scene.stored("db-0")), (2, addresses(&answer)));
    assert_eq!((scene.of("u1"), scene.of("o")), (vec![], vec!["fd00::1".to_owned()]));
}

#[test]
fn what_no_add_was_answered_with_yet_is_replaced_if_its_pool_goes() {
    let pools = r#"{"ipv4":["p4","q4"],"ipv6":["p6"]}"#;
    for in_next_sandbox in [false, true] {
        let scene = Scene::new(Policy::hardened());
        two_nics_of(&scene, "u1", pools);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.add("db-0", "u1", "net1").unwrap();
        // The second NIC needs another address besides the one that the first NIC's ADD takes over for it.
        scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["excludeIPs"] = json!(["fd00::2"]));
        two_nics_of(&scene, "u2", pools);
        let first = scene.add("db-0", "u2", "eth0").unwrap();
        assert_eq!(scene.stored("db-0"), ["10.0.0.1", "fd00::1", "10.0.0.2"]);
        going(&scene);
        if in_next_sandbox {
            // The earlier answer to the pod stays.
            assert_eq!(addresses(&scene.in_sandbox("next").add("db-0", "u2", "eth0").unwrap()), addresses(&first));
            assert_eq!((scene.records().len(), scene.stored("db-0")), (2, addresses(&first)));
        }
        let answer = scene.add("db-0", "u2", "net1").unwrap();
        assert_eq!(addresses(&answer), ["10.0.0.1", "fd00::1", "10.0.1.1", "fd00::3"]);
        assert_eq!((scene.of("u2").len(), scene.records().len(), scene.stored("db-0")), (4, 4, addresses(&answer)));
    }
}

/// The pod asks a subnet for a pool that nobody has made.
fn asks_a_subnet(scene: &Scene) {
    scene.change("Pod", "db-0", |pod| pod["metadata"]["annotations"] = json!({"ipam.spidernet.io/subnet": r#"{"ipv4":["s"]}"#}));
}

/// Makes the pool of the subnet for the StatefulSet.
fn make_auto_pool(scene: &Scene) {
    let owner = |key: &str| format!("ipam.spidernet.io/owner-application-{key}");
    let app = |key: &str| format!("ipam.spidernet.io/app-{key}");
    scene.world.put(json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
        "metadata": {
            "name": "auto4-db-eth0-db", "finalizers": ["spiderpool.spidernet.io"],
            "labels": {
                "ipam.spidernet.io/owner-spider-subnet": "s", "ipam.spidernet.io/interface": "eth0", "ipam.spidernet.io/ip-version": "IPv4",
                owner("gv"): "apps_v1", owner("kind"): "StatefulSet", owner("namespace"): "ns", owner("name"): "db", owner("uid"): "db",
            },
        },
        "spec": {
            "subnet": "10.0.2.0/24", "ips": ["10.0.2.1-10.0.2.3"], "ipVersion": 4,
            "podAffinity": {"matchLabels": {
                app("api-group"): "apps", app("api-version"): "v1", app("kind"): "StatefulSet", app("namespace"): "ns", app("name"): "db",
            }},
        },
        "status": {"allocatedIPCount": 0},
    }));
}

#[test]
fn a_pod_whose_auto_pool_is_not_there_leaves_pools_that_go_and_no_others() {
    let scene = restarted_while_its_pool_goes(Policy::hardened());
    asks_a_subnet(&scene);
    assert!(scene.add("db-0", "u2", "eth0").is_err());
    assert_eq!(scene.records(), []);
    make_auto_pool(&scene);
    let answer = scene.add("db-0", "u2", "eth0").unwrap();
    assert_eq!((addresses(&answer), scene.stored("db-0"), scene.records().len()), (vec!["10.0.2.1".to_owned()], addresses(&answer), 1));

    let scene = Scene::new(Policy::hardened());
    scene.pod("db-0", "u1", Owner::StatefulSet, ONE);
    let first = scene.add("db-0", "u1", "eth0").unwrap();
    scene.pod("db-0", "u2", Owner::StatefulSet, ONE);
    asks_a_subnet(&scene);
    assert!(scene.add("db-0", "u2", "eth0").is_err());
    assert_eq!(scene.of("u1"), addresses(&first));
}

#[test]
fn what_is_left_of_a_nic_that_the_successor_does_not_have_goes() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("db-0", "u1", Owner::StatefulSet, &ippools(&[("eth0", &["p4"], &["p6"]), ("net1", &["q4"], &["q6"])]));
    scene.add("db-0", "u1", "eth0").unwrap();
    assert_eq!(scene.of("u1").len(), 4);
    for has_nic in [true, false] {
        let uid = if has_nic { "u2" } else { "u3" };
        scene.pod("db-0", uid, Owner::StatefulSet, "[]");
        scene.change("Pod", "db-0", |pod| {
            let pools = json!({"ipv4": ["p4", "q4"], "ipv6": ["p6", "q6"]}).to_string();
            let networks = if has_nic { "net" } else { "" };
            pod["metadata"]["annotations"] = json!({"ipam.spidernet.io/ippool": pools, "k8s.v1.cni.cncf.io/networks": networks});
        });
        scene.change("SpiderIPPool", "q4", |pool| pool["spec"]["disable"] = json!(!has_nic));
        let answer = scene.add("db-0", uid, "eth0").unwrap();
        assert_eq!(answer.how, How::Reowned);
        assert_eq!((scene.of(uid), scene.records().len()), (scene.stored("db-0"), if has_nic { 4 } else { 2 }));
    }
}

#[test]
fn a_nic_for_which_nothing_is_named_keeps_its_address_only_in_a_pool_that_serves() {
    for (pool, kept) in [
        (json!({}), &["10.0.0.2", "10.0.2.1"][..]),
        (json!({"spec": {"disable": true}}), &["10.0.2.1"]),
        (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), &["10.0.2.1"]),
    ] {
        let scene = Scene::new(Policy::hardened());
        let annotate = |uid: &str, key: &str, value: &str| {
            scene.pod("db-0", uid, Owner::StatefulSet, ONE);
            scene.change("Pod", "db-0", |pod| {
                pod["metadata"]["annotations"] = json!({key: value, "k8s.v1.cni.cncf.io/networks": "net"});
            });
        };
        annotate("u1", "ipam.spidernet.io/ippool", r#"{"ipv4":["p4"]}"#);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.add("db-0", "u1", "net1").unwrap();
        // The successor asks a subnet for its first NIC alone.
        annotate("u2", "ipam.spidernet.io/subnets", r#"[{"interface":"eth0","ipv4":["s"]}]"#);
        make_auto_pool(&scene);
        scene.change("SpiderIPPool", "p4", |into| {
            for (part, fields) in pool.as_object().unwrap() {
                fields.as_object().unwrap().iter().for_each(|(field, value)| into[part][field] = value.clone());
            }
        });
        scene.add("db-0", "u2", "eth0").unwrap();
        let mut stored = scene.stored("db-0");
        stored.sort();
        assert_eq!((stored, scene.records().len()), (kept.iter().map(|ip| (*ip).to_owned()).collect(), kept.len()), "{pool}");
    }
}
