//! The records that the hardened agent removes, for which sandbox, and those that it leaves.

use crate::api_server::{Deed, World};
use crate::scene::{Owner, Scene, addresses, ippools};
use ipam_spiderpool::Policy;
use ipam_spiderpool::ipam::{DelOutcome, IpamError, PoolError};
use ipam_spiderpool::names::ANNOTATION_REPLACED_SANDBOXES;
use kube_machinery::Env;
use kube_machinery::api::ObjectKey;
use serde_json::json;

const ONE: &str = r#"[{"interface":"eth0","ipv4":["p4"]}]"#;
const TERMINATING: &str = "2026-01-01T00:00:00Z";

/// A cluster whose pod `db-0` is answered in sandbox `c`.
fn served(owner: Owner) -> Scene {
    let scene = Scene::new(Policy::hardened());
    scene.pod("db-0", "u", owner, ONE);
    scene.add("db-0", "u", "eth0").unwrap();
    scene
}

#[test]
fn a_sandbox_that_is_torn_down_does_not_keep_the_next_del_from_releasing() {
    let scene = served(Owner::Nobody);
    assert_eq!(scene.del("db-0", "u", "eth0"), Ok(DelOutcome::Alive));
    scene.terminate("db-0");
    // The pod ends before the ADD of its next sandbox gets that far.
    assert_eq!(scene.in_sandbox("next").del("db-0", "u", "eth0"), Ok(DelOutcome::Released));
    assert_eq!(scene.records(), []);
}

#[test]
fn a_late_del_of_an_older_sandbox_does_not_make_the_endpoint_forget_the_newer_one() {
    let scene = served(Owner::Nobody);
    scene.in_sandbox("next").add("db-0", "u", "eth0").unwrap();
    assert_eq!(scene.in_sandbox("c").del("db-0", "u", "eth0"), Ok(DelOutcome::Alive));
    scene.terminate("db-0");
    assert_eq!(scene.del("db-0", "u", "eth0"), Ok(DelOutcome::NotOurs));
    assert_eq!(scene.of("u").len(), 1);
    assert_eq!(scene.in_sandbox("next").del("db-0", "u", "eth0"), Ok(DelOutcome::Released));
}

/// A cluster whose pod `a` has two NICs, which are answered in the sandboxes `first` and `second`: the kubelet has given the first up, and
/// its DEL is still to come.
fn in_two_sandboxes() -> Scene {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
    for sandbox in ["first", "second"] {
        for nic in ["eth0", "net1"] {
            scene.in_sandbox(sandbox).add("a", "u", nic).unwrap();
        }
    }
    scene
}

#[test]
fn the_addresses_of_a_pod_go_with_the_last_of_its_sandboxes() {
    for [one, other] in [["first", "second"], ["second", "first"]] {
        for late_add in [false, true] {
            let scene = in_two_sandboxes();
            if late_add {
                // The ADD that the kubelet has given up arrives after that of the next sandbox.
                scene.in_sandbox("first").add("a", "u", "net1").unwrap();
            }
            scene.terminate("a");
            scene.in_sandbox(one);
            for nic in ["net1", "eth0"] {
                assert_eq!(scene.del("a", "u", nic), Ok(DelOutcome::Shared), "{nic} of {one}");
            }
            assert_eq!(scene.del("a", "u", "eth0"), Ok(DelOutcome::NotOurs), "once more");
            assert_eq!(scene.of("u").len(), 2);
            scene.in_sandbox(other);
            assert_eq!(scene.del("a", "u", "net1"), Ok(DelOutcome::ReleasedNic));
            assert_eq!(scene.del("a", "u", "eth0"), Ok(DelOutcome::Released));
            assert_eq!((scene.records(), scene.endpoint("a").unwrap().metadata.finalizers.clone()), (vec![], None));
        }
    }
}

#[test]
fn a_sandbox_that_is_torn_down_while_its_pod_lives_keeps_nothing_from_being_released() {
    for conflicts in [0, 3] {
        let scene = in_two_sandboxes();
        let mut left = conflicts;
        scene.world.script(move |name, world| {
            if name == "update SpiderEndpoint" && left > 0 {
                left -= 1;
                world.change("SpiderEndpoint", &ObjectKey::namespaced("ns", "a"), |endpoint| {
                    endpoint["metadata"]["generation"] = json!(left)
                });
            }
            Deed::Serve
        });
        for nic in ["net1", "eth0"] {
            assert_eq!(scene.in_sandbox("first").del("a", "u", nic), Ok(DelOutcome::Alive));
        }
        scene.terminate("a");
        assert_eq!(scene.in_sandbox("second").del("a", "u", "net1"), Ok(DelOutcome::ReleasedNic));
        assert_eq!(scene.del("a", "u", "eth0"), Ok(DelOutcome::Released), "{conflicts} conflicts");
    }
}

#[test]
fn what_an_older_sandbox_of_the_pod_may_answer_on_is_nobody_elses() {
    let scene = in_two_sandboxes();
    let before = scene.records();
    // Both kinds of requests: the plugin of this project passes the address, that of upstream does not.
    for released in [scene.conflict("a", "u", "10.0.0.1"), scene.release("a", "u")] {
        assert!(released.is_err_and(|error| error.class() == "in-another-sandbox"));
    }
    assert_eq!(scene.records(), before);
    // The kubelet makes another sandbox for each that fails: the answer is the same until the oldest is torn down.
    for nic in ["net1", "eth0"] {
        assert_eq!(scene.in_sandbox("second").del("a", "u", nic), Ok(DelOutcome::Alive));
    }
    assert!(scene.in_sandbox("third").add("a", "u", "eth0").is_ok());
    assert!(scene.conflict("a", "u", "10.0.0.1").is_err());
    for nic in ["net1", "eth0"] {
        assert_eq!(scene.in_sandbox("first").del("a", "u", nic), Ok(DelOutcome::Alive));
    }
    assert_eq!(scene.conflict("a", "u", "10.0.0.1"), Ok(()));
    assert!(scene.records().iter().all(|(_, address, _)| address != "10.0.0.1"));
}

#[test]
fn a_sandbox_whose_first_nic_is_of_another_plugin_is_torn_down_with_the_first_that_is_ours() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("net1", &["p4"], &[]), ("net2", &["q4"], &[])]));
    for sandbox in ["first", "second"] {
        for nic in ["net1", "net2"] {
            scene.in_sandbox(sandbox).add("a", "u", nic).unwrap();
        }
    }
    assert_eq!(scene.in_sandbox("first").del("a", "u", "net2"), Ok(DelOutcome::Alive));
    assert_eq!(replaced(&scene, "a").as_deref(), Some("first"));
    assert_eq!(scene.del("a", "u", "net1"), Ok(DelOutcome::Alive));
    assert_eq!(replaced(&scene, "a"), None);
}

/// The replaced sandboxes that an endpoint names.
fn replaced(scene: &Scene, pod: &str) -> Option<String> {
    scene.endpoint(pod)?.metadata.annotations.as_ref()?.get(ANNOTATION_REPLACED_SANDBOXES).cloned()
}

#[test]
fn the_endpoint_knows_the_newest_sandboxes_of_its_own_pod_only() {
    let scene = served(Owner::StatefulSet);
    for sandbox in 0..20 {
        scene.in_sandbox(&format!("s{sandbox}")).add("db-0", "u", "eth0").unwrap();
    }
    let newest: Vec<String> = (3..19).rev().map(|sandbox| format!("s{sandbox}")).collect();
    assert_eq!(replaced(&scene, "db-0"), Some(newest.join(",")));
    scene.pod("db-0", "u2", Owner::StatefulSet, ONE);
    scene.in_sandbox("next").add("db-0", "u2", "eth0").unwrap();
    assert_eq!(replaced(&scene, "db-0"), None);
}

#[test]
fn a_del_ends_before_the_grace_of_its_pod_does() {
    for (grace, took) in [(30, 25), (3, 5)] {
        let scene = served(Owner::Nobody);
        scene.terminate("db-0");
        scene.change("Pod", "db-0", |pod| pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace));
        // The outcome of the write is unknown, and it cannot be looked up.
        let mut written = false;
        scene.world.script(move |name, _| {
            written |= name == "update SpiderIPPool/status";
            if written { Deed::Later } else { Deed::Serve }
        });
        let began = scene.env.monotonic();
        scene.del("db-0", "u", "eth0").unwrap_err();
        assert_eq!((scene.env.monotonic() - began).as_secs(), took, "grace {grace}");
    }
}

#[test]
fn a_release_that_was_begun_is_finished_though_the_pods_place_is_there_again() {
    let scene = served(Owner::StatefulSet);
    scene.terminate("db-0");
    scene.change("SpiderEndpoint", "db-0", |endpoint| endpoint["metadata"]["deletionTimestamp"] = json!(TERMINATING));
    assert_eq!(scene.del("db-0", "u", "eth0"), Ok(DelOutcome::Released));
    assert_eq!((scene.records(), scene.endpoint("db-0")), (vec![], None));
}

#[test]
fn a_place_that_cannot_be_looked_up_counts_as_kept() {
    let scene = served(Owner::StatefulSet);
    scene.terminate("db-0");
    scene.world.script(|name, _| if name == "get StatefulSet" { Deed::Refuse } else { Deed::Serve });
    scene.del("db-0", "u", "eth0").unwrap_err();
    assert_eq!(scene.of("u").len(), 1);
    assert_eq!(scene.endpoint("db-0").unwrap().metadata.deletion_timestamp, None);
}

#[test]
fn a_del_takes_what_no_endpoint_names_with_what_it_does() {
    let scene = served(Owner::Nobody);
    scene.record("q4", "10.0.1.5", "ns/db-0", "u");
    scene.terminate("db-0");
    assert_eq!(scene.del("db-0", "u", "eth0"), Ok(DelOutcome::Released));
    assert_eq!(scene.records(), []);
}

#[test]
fn what_a_static_pod_took_over_without_getting_further_stays_for_the_next() {
    let mut scene = served(Owner::StatefulSet);
    scene.pod("db-0", "u2", Owner::StatefulSet, ONE);
    scene.world.script(|name, _| if name == "update SpiderEndpoint" { Deed::Hang } else { Deed::Serve });
    assert!(scene.try_add("db-0", "u2", "eth0").is_none());
    scene.world.serve_all();
    let caches = scene.world.clone();
    scene.restart_long_ago(&caches);
    assert_eq!(scene.of("u2"), ["10.0.0.1"]);
    scene.terminate("db-0");
    assert_eq!(scene.del("db-0", "u2", "eth0"), Ok(DelOutcome::NotOurs));
    assert_eq!(scene.of("u2"), ["10.0.0.1"]);
    scene.pod("db-0", "u3", Owner::StatefulSet, ONE);
    assert_eq!(addresses(&scene.add("db-0", "u3", "eth0").unwrap()), ["10.0.0.1"]);
    assert_eq!(scene.records().len(), 1);
}

#[test]
fn an_endpoint_keeps_its_finalizer_until_its_records_are_gone() {
    let scene = served(Owner::Nobody);
    scene.terminate("db-0");
    scene.world.script(|name, _| if name == "update SpiderIPPool/status" { Deed::Refuse } else { Deed::Serve });
    scene.del("db-0", "u", "eth0").unwrap_err();
    assert_eq!(scene.of("u").len(), 1);
    assert!(scene.endpoint("db-0").unwrap().metadata.finalizers.is_some());
}

#[test]
fn a_vm_that_is_being_deleted_keeps_nothing() {
    let scene = Scene::new(Policy::hardened());
    scene.vm_pod("virt-1", "u", "vm");
    scene.add("virt-1", "u", "eth0").unwrap();
    for (terminating, outcome) in [(false, DelOutcome::StillValid), (true, DelOutcome::Released)] {
        let mut vm = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"namespace": "ns", "name": "vm", "finalizers": ["x"]},
            "spec": {},
        });
        if terminating {
            vm["metadata"]["deletionTimestamp"] = json!(TERMINATING);
        }
        scene.world.put(vm);
        scene.terminate("virt-1");
        assert_eq!(scene.del("virt-1", "u", "eth0"), Ok(outcome));
    }
}

#[test]
fn an_endpoint_says_where_its_pod_is_now() {
    for owner in [Owner::Nobody, Owner::StatefulSet] {
        let scene = served(owner);
        scene.pod("db-0", "u2", owner, ONE);
        scene.change("Pod", "db-0", |pod| pod["spec"]["nodeName"] = json!("m"));
        scene.add("db-0", "u2", "eth0").unwrap();
        let endpoint = scene.endpoint("db-0").unwrap();
        let current = &endpoint.status.as_ref().unwrap().current;
        assert_eq!((&*current.uid, &*current.node), ("u2", "m"), "{owner:?}");
    }
}

/// Another client changes the endpoint of `db-0` just before this request.
fn touched_before(scene: &Scene, request: &'static str) {
    let mut touched = false;
    scene.world.script(move |asked, world| {
        if asked == request && !std::mem::replace(&mut touched, true) {
            let touch = |endpoint: &mut serde_json::Value| endpoint["metadata"]["labels"] = json!({"by": "somebody"});
            world.change("SpiderEndpoint", &ObjectKey::namespaced("ns", "db-0"), touch);
        }
        Deed::Serve
    });
}

#[test]
fn an_endpoint_that_somebody_else_changed_is_marked_as_it_is_then() {
    let scene = served(Owner::StatefulSet);
    scene.world.vanish("StatefulSet", &ObjectKey::namespaced("ns", "db"));
    scene.terminate("db-0");
    touched_before(&scene, "delete SpiderEndpoint");
    assert_eq!(scene.del("db-0", "u", "eth0"), Ok(DelOutcome::Released));
    assert_eq!((scene.records(), scene.endpoint("db-0")), (vec![], None));
}

#[test]
fn a_pod_whose_first_nic_has_nothing_is_released_with_any() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, r#"[{"interface":"net1","ipv4":["p4"]}]"#);
    scene.add("a", "u", "net1").unwrap();
    scene.terminate("a");
    scene.del("a", "u", "net1").unwrap();
    assert_eq!((scene.records(), scene.endpoint("a").unwrap().metadata.finalizers.clone()), (vec![], None));
}

#[test]
fn what_was_drawn_for_a_nic_that_the_pod_does_not_have_goes_with_the_others() {
    let scene = Scene::new(Policy::hardened());
    let both = r#"[{"interface":"eth0","ipv4":["p4"]},{"interface":"net7","ipv4":["q4"]}]"#;
    scene.pod("a", "u", Owner::Nobody, both);
    scene.add("a", "u", "eth0").unwrap();
    assert_eq!(scene.of("u").len(), 2);
    scene.terminate("a");
    assert_eq!(scene.del("a", "u", "eth0"), Ok(DelOutcome::Released));
    assert_eq!(scene.records(), []);
}

/// A pod whose two NICs draw from one pool, and an agent whose cache shows each address under the other NIC, as an earlier run recorded
/// them.
fn served_otherwise_than_cached() -> Scene {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, r#"[{"interface":"eth0","ipv4":["p4"]},{"interface":"net1","ipv4":["p4"]}]"#);
    scene.add("a", "u", "eth0").unwrap();
    scene.add("a", "u", "net1").unwrap();
    let old = scene.world.frozen();
    old.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| {
        let records = pool["status"]["allocatedIPs"].as_str().unwrap();
        let swapped = records.replace("eth0", "other").replace("net1", "eth0").replace("other", "net1");
        assert_ne!(swapped, records);
        pool["status"]["allocatedIPs"] = json!(swapped);
    });
    scene.restart_long_ago(&old);
    scene
}

#[test]
fn the_del_of_a_nic_leaves_what_another_has_though_the_cache_shows_it_under_this_one() {
    let scene = served_otherwise_than_cached();
    scene.terminate("a");
    assert_eq!(scene.del("a", "u", "eth0"), Ok(DelOutcome::ReleasedNic));
    assert_eq!(scene.of("u"), ["10.0.0.2"]);
    assert_eq!(scene.del("a", "u", "net1"), Ok(DelOutcome::Released));
    assert_eq!(scene.records(), []);
}

#[test]
fn the_del_of_a_nic_leaves_what_another_has_also_where_no_endpoint_is_of_the_pod() {
    for (succeeded, ends) in [(true, DelOutcome::NotOurs), (false, DelOutcome::NoEndpoint)] {
        let scene = Scene::new(Policy::hardened());
        let two = r#"[{"interface":"eth0","ipv4":["p4"]},{"interface":"net1","ipv4":["p4"]}]"#;
        scene.pod("a", "u", Owner::Nobody, two);
        scene.in_sandbox("first").add("a", "u", "eth0").unwrap();
        scene.add("a", "u", "net1").unwrap();
        // A pod that was deleted by force has containers that stop one after the other.
        if succeeded {
            scene.pod("a", "later", Owner::Nobody, two);
            scene.in_sandbox("second").add("a", "later", "eth0").unwrap();
        } else {
            scene.world.vanish("Pod", &ObjectKey::namespaced("ns", "a"));
            scene.world.vanish("SpiderEndpoint", &ObjectKey::namespaced("ns", "a"));
        }
        scene.in_sandbox("first");
        assert_eq!(scene.del("a", "u", "net1"), Ok(DelOutcome::ReleasedNic), "succeeded: {succeeded}");
        assert_eq!(scene.of("u"), ["10.0.0.1"], "eth0 answers still");
        assert_eq!(scene.del("a", "u", "eth0"), Ok(ends));
        assert_eq!((scene.of("u"), scene.of("later").is_empty()), (vec![], !succeeded));
    }
}

#[test]
fn what_nics_without_a_name_have_goes_with_the_first_of_them_where_no_endpoint_tells_whose_it_is() {
    let two = ippools(&[("", &["p4"], &[]), ("", &["p4"], &[])]);
    for (pools, nics, left) in [(two, &["eth0", "net1"][..], 2), (ippools(&[("", &["p4"], &[])]), &["net1"][..], 0)] {
        let scene = Scene::new(Policy::hardened());
        scene.pod("a", "u", Owner::Nobody, &pools);
        for nic in nics {
            scene.in_sandbox("first").add("a", "u", nic).unwrap();
        }
        scene.pod("a", "later", Owner::Nobody, &pools);
        scene.in_sandbox("second").add("a", "later", nics[0]).unwrap();
        scene.in_sandbox("first").del("a", "u", "net1").unwrap();
        assert_eq!(scene.of("u").len(), left, "{nics:?}: the others answer still");
        scene.del("a", "u", "eth0").unwrap();
        assert_eq!(scene.of("u"), [""; 0], "{nics:?}");
    }
}

#[test]
fn the_del_of_a_nic_does_not_take_records_that_nobody_can_read_for_none() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, r#"[{"interface":"eth0","ipv4":["p4"]},{"interface":"net1","ipv4":["p4"]}]"#);
    scene.add("a", "u", "eth0").unwrap();
    scene.add("a", "u", "net1").unwrap();
    scene.terminate("a");
    let typed = |stray: &str, world: &World| {
        world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| {
            let records = pool["status"]["allocatedIPs"].as_str().unwrap().trim_start_matches('~').to_owned();
            pool["status"]["allocatedIPs"] = json!(format!("{stray}{records}"));
        });
    };
    typed("~", &scene.world);
    // Somebody repairs the pool between two reads of it.
    let mut looks = 0;
    scene.world.script(move |name, world| {
        looks += u32::from(name == "get SpiderIPPool");
        if looks == 2 {
            typed("", world);
        }
        Deed::Serve
    });
    let error = scene.del("a", "u", "net1").unwrap_err();
    assert!(matches!(error, IpamError::Pool { error: PoolError::BadRecords(_), .. }), "{error}");
    scene.world.serve_all();
    typed("", &scene.world);
    assert_eq!(scene.of("u"), ["10.0.0.1", "10.0.0.2"], "the other NIC answers still");
    assert_eq!(scene.del("a", "u", "net1"), Ok(DelOutcome::ReleasedNic));
}

#[test]
fn a_repeated_add_leaves_what_another_nic_has_though_the_cache_shows_it_under_this_one() {
    let scene = served_otherwise_than_cached();
    scene.world.log();
    scene.add("a", "u", "eth0").unwrap();
    assert_eq!(scene.of("u"), ["10.0.0.1", "10.0.0.2"]);
    // It was not released and recorded again either.
    let writes: Vec<_> = scene.world.log().into_iter().filter(|request| request.starts_with("update SpiderIPPool")).collect();
    assert_eq!(writes, [""; 0]);
}

#[test]
fn a_del_that_failed_leaves_what_is_remembered_to_the_next() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, ONE);
    let before = scene.world.frozen();
    scene.restart_long_ago(&before);
    // An address is recorded and cannot be removed. The caches do not show it.
    let mut recorded = false;
    scene.world.script(move |name, _| match name {
        "update SpiderIPPool/status" if !std::mem::replace(&mut recorded, true) => Deed::Serve,
        "update SpiderIPPool/status" | "create SpiderEndpoint" => Deed::Refuse,
        _ => Deed::Serve,
    });
    scene.add("a", "u", "eth0").unwrap_err();
    scene.terminate("a");
    scene.del("a", "u", "eth0").unwrap_err();
    assert_eq!(scene.of("u").len(), 1);
    scene.world.serve_all();
    scene.del("a", "u", "eth0").unwrap();
    assert_eq!((scene.records(), scene.agent.remembered().len()), (vec![], 0));
}

#[test]
fn a_batch_release_leaves_the_endpoint_of_another_pod() {
    let scene = served(Owner::Nobody);
    let error = scene.release("db-0", "of another day").unwrap_err();
    assert_eq!((error.class(), scene.stored("db-0"), scene.of("u").len()), ("uid-mismatch", vec!["10.0.0.1".to_owned()], 1));
}

#[test]
fn a_batch_release_clears_an_endpoint_that_somebody_else_changed() {
    let scene = served(Owner::Nobody);
    touched_before(&scene, "update SpiderEndpoint");
    scene.release("db-0", "u").unwrap();
    assert_eq!((scene.records(), scene.stored("db-0")), (vec![], Vec::<String>::new()));
}

#[test]
fn a_batch_release_takes_no_record_that_an_endpoint_still_names() {
    let scene = served(Owner::Nobody);
    scene.world.script(|name, _| if name == "update SpiderEndpoint" { Deed::Refuse } else { Deed::Serve });
    scene.release("db-0", "u").unwrap_err();
    assert_eq!((scene.of("u"), scene.stored("db-0")), (vec!["10.0.0.1".to_owned()], vec!["10.0.0.1".to_owned()]));
}

#[test]
fn no_static_pod_is_released_for_a_conflict() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("db-0", "u1", Owner::StatefulSet, ONE);
    scene.vm_pod("virt-1", "u2", "vm");
    for (name, uid) in [("db-0", "u1"), ("virt-1", "u2")] {
        scene.add(name, uid, "eth0").unwrap();
        assert_eq!(scene.release(name, uid).unwrap_err().class(), "forbid-stateful");
        assert_eq!(scene.of(uid).len(), 1);
    }
}
