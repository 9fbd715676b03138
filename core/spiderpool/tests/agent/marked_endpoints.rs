//! A marked endpoint of a VM that its next pod replaces: it outlives what is recorded for it, and stays while that pod cannot be served.

use crate::api_server::{Deed, World};
use crate::faults::agrees;
use crate::scene::{Scene, addresses, ippools};
use ipam_spiderpool::{Policy, SpiderIPPool};
use kube_machinery::api::ObjectKey;
use serde_json::json;

const MARK: &str = "2026-01-01T00:00:00Z";
const CHANGES: [&str; 4] = ["other pools", "another pool", "an excluded address", "a pool in deletion"];

/// Makes a pod of the VM that takes its addresses from these pools.
fn vm_pod(scene: &Scene, name: &str, uid: &str, ipv4: &[&str], ipv6: &[&str]) {
    scene.vm_pod(name, uid, "vm");
    let pools = ippools(&[("eth0", ipv4, ipv6)]);
    scene.change("Pod", name, |pod| pod["metadata"]["annotations"]["ipam.spidernet.io/ippools"] = json!(pools));
}

fn mark(scene: &Scene) {
    scene.change("SpiderEndpoint", "vm", |endpoint| endpoint["metadata"]["deletionTimestamp"] = json!(MARK));
}

/// The VM's next pod `u2`, after `u1` has left 10.0.0.1 and fd00::1, their records and the marked endpoint.
fn made_again(ipv4: &[&str], ipv6: &[&str]) -> Scene {
    let scene = Scene::new(Policy::hardened());
    vm_pod(&scene, "virt-1", "u1", &["p4"], &["p6"]);
    scene.add("virt-1", "u1", "eth0").unwrap();
    scene.world.vanish("Pod", &ObjectKey::namespaced("ns", "virt-1"));
    mark(&scene);
    vm_pod(&scene, "virt-2", "u2", ipv4, ipv6);
    scene
}

/// The same if that pod has to give up addresses because of this change.
fn gives_up(change: &str) -> Scene {
    match change {
        "other pools" => made_again(&["q4"], &["q6"]),
        "another pool" => made_again(&["p4"], &["q6"]),
        "an excluded address" => {
            let scene = made_again(&["p4"], &["p6"]);
            scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["excludeIPs"] = json!(["fd00::1"]));
            scene
        }
        _ => {
            let scene = made_again(&["p4", "q4"], &["p6"]);
            scene.change("SpiderIPPool", "p4", |pool| pool["metadata"]["deletionTimestamp"] = json!(MARK));
            scene
        }
    }
}

/// The answer to that pod.
fn served(change: &str) -> [&'static str; 2] {
    match change {
        "other pools" => ["10.0.1.1", "fd01::1"],
        "another pool" => ["10.0.0.1", "fd01::1"],
        "an excluded address" => ["10.0.0.1", "fd00::2"],
        _ => ["10.0.1.1", "fd00::1"],
    }
}

/// Checks, before a finalizer is removed, that nothing is recorded for `u1`.
fn check_patch(name: &str, world: &World) {
    if name == "patch SpiderEndpoint" {
        for pool in world.all::<SpiderIPPool>() {
            let records = pool.status.unwrap_or_default().allocated_ips;
            assert_eq!(records.parse().unwrap().of_pod_uid("u1").count(), 0, "a record outlives its endpoint");
        }
    }
}

#[test]
fn a_marked_endpoint_outlives_the_records_that_the_next_pod_of_the_vm_gives_up() {
    for change in CHANGES {
        let scene = gives_up(change);
        scene.world.log();
        scene.world.script(|name, world| {
            check_patch(name, world);
            Deed::Serve
        });
        assert_eq!(addresses(&scene.add("virt-2", "u2", "eth0").unwrap()), served(change), "{change}");
        assert_eq!(scene.of("u1").len(), 0, "{change}");
        agrees(&scene, "vm", "u2");
        assert!(scene.world.log().contains(&"patch SpiderEndpoint".to_owned()), "{change}");
    }
}

#[test]
fn a_replacement_that_was_struck_is_made_good_by_the_next_add() {
    for change in CHANGES {
        let scene = gives_up(change);
        scene.world.log();
        scene.add("virt-2", "u2", "eth0").unwrap();
        let count = scene.world.log().len();
        for at in 1..=count {
            for fault in [Deed::Refuse, Deed::LoseReply, Deed::Later, Deed::Hang, Deed::ServeAndHang] {
                let mut scene = gives_up(change);
                let mut number = 0;
                scene.world.script(move |name, world| {
                    number += 1;
                    check_patch(name, world);
                    let reads = name.starts_with("get ") || name.starts_with("list ");
                    match fault {
                        _ if number != at => Deed::Serve,
                        Deed::LoseReply | Deed::Later | Deed::ServeAndHang if reads => Deed::Refuse,
                        fault => fault,
                    }
                });
                let died = scene.try_add("virt-2", "u2", "eth0").is_none();
                scene.world.script(|name, world| {
                    check_patch(name, world);
                    Deed::Serve
                });
                scene.world.deliver();
                println!("{change}, request {at} of {count}: {fault:?}, died {died}");
                if died {
                    let caches = scene.world.clone();
                    scene.restart_long_ago(&caches);
                }
                let answer = scene.add("virt-2", "u2", "eth0").unwrap();
                assert_eq!((addresses(&answer).len(), scene.of("u1").len()), (2, 0));
                agrees(&scene, "vm", "u2");
            }
        }
    }
}

#[test]
fn a_vm_whose_next_pod_finds_no_pool_at_first_keeps_the_rest_of_its_addresses_by_the_marked_endpoint() {
    let scene = made_again(&["p4"], &["p6", "q6"]);
    scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["excludeIPs"] = json!(["fd00::1-fd00::6"]));
    scene.change("SpiderIPPool", "q6", |pool| pool["spec"]["disable"] = json!(true));
    scene.add("virt-2", "u2", "eth0").unwrap_err();
    assert_eq!((scene.stored("vm"), scene.of("u1")), (["10.0.0.1", "fd00::1"].map(str::to_owned).to_vec(), scene.stored("vm")));
    // This pod also ends, and the VM's next one finds a pool.
    scene.world.vanish("Pod", &ObjectKey::namespaced("ns", "virt-2"));
    scene.change("SpiderIPPool", "q6", |pool| pool["spec"]["disable"] = json!(false));
    vm_pod(&scene, "virt-3", "u3", &["p4"], &["p6", "q6"]);
    assert_eq!(addresses(&scene.add("virt-3", "u3", "eth0").unwrap()), ["10.0.0.1", "fd01::1"]);
    agrees(&scene, "vm", "u3");
}

#[test]
fn a_pod_that_finds_no_pool_for_a_further_nic_keeps_its_own_marked_endpoint() {
    let scene = Scene::new(Policy::hardened());
    scene.vm_pod("virt-1", "u1", "vm");
    let pools = |pool: &str| json!({"ipam.spidernet.io/ippool": json!({"ipv4": [pool]}).to_string(), "k8s.v1.cni.cncf.io/networks": "net"});
    scene.change("Pod", "virt-1", |pod| pod["metadata"]["annotations"] = pools("p4"));
    let first = addresses(&scene.add("virt-1", "u1", "eth0").unwrap());
    mark(&scene);
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(true));
    scene.add("virt-1", "u1", "net1").unwrap_err();
    assert_eq!((scene.stored("vm"), scene.of("u1")), (first.clone(), first.clone()));
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(false));
    assert_eq!(addresses(&scene.add("virt-1", "u1", "net1").unwrap()), ["10.0.0.1", "10.0.0.2"]);
    agrees(&scene, "vm", "u1");
}
