//! The hardened agent's behaviour for pods, step by step.

use crate::scene::{Owner, Scene, addresses, ippools};
use ipam_spiderpool::Policy;
use ipam_spiderpool::ipam::{DelOutcome, How};
use kube_machinery::api::ObjectKey;
use serde_json::json;

const ONE: &str = r#"[{"interface":"eth0","ipv4":["p4"]}]"#;

fn instance(scene: &Scene, terminating: bool) {
    scene.world.vanish("VirtualMachineInstance", &ObjectKey::namespaced("ns", "vm"));
    let mut instance = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"namespace": "ns", "name": "vm", "finalizers": ["x"], "ownerReferences": [
            {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "vm", "uid": "v", "controller": true},
        ]},
        "spec": {},
    });
    if terminating {
        instance["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    scene.world.put(instance);
}

fn launcher(scene: &Scene, name: &str, uid: &str) {
    scene.pod(name, uid, Owner::Nobody, ONE);
    scene.change("Pod", name, |pod| {
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm", "uid": "i", "controller": true}]);
    });
}

#[test]
fn a_vm_keeps_its_address_for_as_long_as_it_is_there() {
    let scene = Scene::new(Policy::hardened());
    scene.world.put(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"namespace": "ns", "name": "vm"}, "spec": {},
    }));
    instance(&scene, false);
    launcher(&scene, "launcher-1", "u1");
    let first = scene.add("launcher-1", "u1", "eth0").unwrap();
    assert!(scene.endpoint("vm").unwrap().metadata.owner_references.is_none());

    scene.terminate("launcher-1");
    assert_eq!(scene.del("launcher-1", "u1", "eth0"), Ok(DelOutcome::StillValid));
    // A late DEL finds no pod and does not know the instance.
    scene.world.vanish("Pod", &ObjectKey::namespaced("ns", "launcher-1"));
    assert_eq!(scene.del("launcher-1", "u1", "eth0"), Ok(DelOutcome::NoEndpoint));
    assert_eq!(scene.of("u1").len(), 1);

    launcher(&scene, "launcher-2", "u2");
    let second = scene.add("launcher-2", "u2", "eth0").unwrap();
    assert_eq!((addresses(&first), second.how), (addresses(&second), How::Reowned));

    // The VM is going down, but may be started again.
    instance(&scene, true);
    scene.terminate("launcher-2");
    assert_eq!(scene.del("launcher-2", "u2", "eth0"), Ok(DelOutcome::StillValid));
    scene.world.vanish("VirtualMachine", &ObjectKey::namespaced("ns", "vm"));
    assert_eq!(scene.del("launcher-2", "u2", "eth0"), Ok(DelOutcome::Released));
    assert_eq!((scene.records(), scene.endpoint("vm")), (vec![], None));
}

#[test]
fn a_pod_that_lives_keeps_its_addresses_and_an_unknown_one_is_left_to_reclaim() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, ONE);
    scene.add("a", "u", "eth0").unwrap();
    for uid in ["u", ""] {
        assert_eq!(scene.del("a", uid, "eth0"), Ok(DelOutcome::Alive));
    }
    scene.world.vanish("Pod", &ObjectKey::namespaced("ns", "a"));
    assert_eq!(scene.del("a", "", "eth0"), Ok(DelOutcome::NoUid));
    assert_eq!(scene.of("u").len(), 1);
    assert_eq!(scene.del("a", "u", "eth0"), Ok(DelOutcome::Released));
    assert_eq!(scene.del("a", "u", "eth0"), Ok(DelOutcome::Released));
    assert_eq!(scene.records(), []);
}

#[test]
fn the_endpoint_of_a_namesake_is_taken_over_and_its_records_are_left_to_reclaim() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u1", Owner::Nobody, ONE);
    scene.add("a", "u1", "eth0").unwrap();
    let before = scene.endpoint("a").unwrap();
    scene.pod("a", "u2", Owner::Nobody, ONE);
    scene.add("a", "u2", "eth0").unwrap();
    let after = scene.endpoint("a").unwrap();
    assert_eq!(before.metadata.uid, after.metadata.uid, "the endpoint never vanished");
    assert_eq!(after.metadata.owner_references.as_ref().unwrap()[0].uid, "u2");
    assert_eq!((scene.of("u1").len(), scene.of("u2").len()), (1, 1));
    // A late DEL proves that the sandbox of the first pod is gone.
    assert_eq!(scene.del("a", "u1", "eth0"), Ok(DelOutcome::NotOurs));
    assert_eq!((scene.of("u1").len(), scene.of("u2").len()), (0, 1));
}

#[test]
fn a_marked_endpoint_of_a_namesake_is_waited_for_until_its_records_are_gone() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u1", Owner::Nobody, ONE);
    scene.add("a", "u1", "eth0").unwrap();
    // Kubernetes' garbage collector: the first pod is gone, possibly not its sandbox.
    scene.change("SpiderEndpoint", "a", |endpoint| endpoint["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    scene.pod("a", "u2", Owner::Nobody, ONE);
    assert_eq!(scene.add("a", "u2", "eth0").unwrap_err().class(), "terminating-endpoint");
    assert_eq!((scene.of("u1").len(), scene.of("u2").len()), (1, 0));
    scene.del("a", "u1", "eth0").unwrap();
    assert_eq!(scene.of("u1").len(), 0);
    let answer = scene.add("a", "u2", "eth0").unwrap();
    assert_eq!((addresses(&answer), scene.stored("a")), (scene.of("u2"), scene.of("u2")));
}

#[test]
fn the_mark_of_ones_own_endpoint_changes_no_address() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &["p6"]), ("net1", &["p4"], &[])]));
    let first = scene.add("a", "u", "eth0").unwrap();
    scene.change("SpiderEndpoint", "a", |endpoint| endpoint["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let second = scene.add("a", "u", "net1").unwrap();
    assert_eq!(addresses(&first), addresses(&second));
    assert!(scene.endpoint("a").unwrap().metadata.deletion_timestamp.is_none());
}

#[test]
fn an_endpoint_that_was_cleared_answers_nothing_though_the_cache_shows_it() {
    for (owner, next) in [(Owner::Nobody, "u"), (Owner::StatefulSet, "u2")] {
        let mut scene = Scene::new(Policy::hardened());
        scene.pod("db-0", "u", owner, ONE);
        scene.add("db-0", "u", "eth0").unwrap();
        let old = scene.world.frozen();
        scene.change("SpiderEndpoint", "db-0", |endpoint| endpoint["status"]["current"]["ips"] = json!([]));
        scene.forget_record("p4", "10.0.0.1");
        scene.pod("db-0", next, owner, &ippools(&[("eth0", &["q4"], &[])]));
        let pod = scene.world.find::<k8s_openapi::api::core::v1::Pod>(&ObjectKey::namespaced("ns", "db-0")).unwrap();
        let mut pod = serde_json::to_value(&*pod).unwrap();
        pod["kind"] = json!("Pod");
        old.put(pod);
        scene.restart_long_ago(&old);
        let answer = scene.add("db-0", next, "eth0").unwrap();
        assert_eq!((addresses(&answer), scene.records().len()), (vec!["10.0.1.1".to_owned()], 1), "{owner:?}");
        assert_eq!(scene.stored("db-0"), ["10.0.1.1"]);
    }
}

#[test]
fn nics_without_a_name_get_theirs_one_by_one() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("", &["p4"], &[]), ("", &["q4"], &[]), ("", &["p4"], &[])]));
    for (nic, address) in [("eth0", "10.0.0.1"), ("net1", "10.0.1.1"), ("net2", "10.0.0.2")] {
        let answer = scene.add("a", "u", nic).unwrap();
        let own: Vec<_> = answer.ips.iter().filter(|ip| ip.nic == nic).map(|ip| ip.address.addr().to_string()).collect();
        assert_eq!(own, [address]);
    }
}

#[test]
fn what_an_allocation_reads_does_not_grow_with_the_pool() {
    let requests = |ips: &str, taken: u32| {
        let scene = Scene::new(Policy::hardened());
        scene.change("SpiderIPPool", "p4", |pool| {
            pool["spec"]["subnet"] = json!("10.128.0.0/9");
            pool["spec"]["ips"] = json!([ips]);
        });
        if taken > 0 {
            let record = |at: u32| (std::net::Ipv4Addr::from(0x0a80_0001 + at).to_string(), json!({"pod": "ns/x", "podUid": "x"}));
            let records: serde_json::Map<_, _> = (0..taken).map(record).collect();
            scene.change("SpiderIPPool", "p4", |pool| {
                pool["status"]["allocatedIPs"] = json!(serde_json::Value::Object(records).to_string());
            });
        }
        scene.pod("a", "u", Owner::Nobody, ONE);
        scene.world.log();
        let answer = scene.add("a", "u", "eth0").unwrap();
        let first = scene.world.log().len();
        scene.pod("b", "v", Owner::Nobody, ONE);
        scene.add("b", "v", "eth0").unwrap();
        (addresses(&answer), first, scene.world.log().len())
    };
    // The first one compares the pool with all others.
    assert_eq!(requests("10.128.0.1-10.128.0.254", 0), (vec!["10.128.0.1".to_owned()], 5, 4));
    assert_eq!(requests("10.128.0.1-10.129.0.254", 4000), (vec!["10.128.15.161".to_owned()], 5, 4));
}

#[test]
fn of_two_pools_that_overlap_only_the_older_one_serves() {
    let mut scene = Scene::new(Policy::hardened());
    scene.change("SpiderIPPool", "p4", |pool| {
        pool["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        pool["metadata"]["generation"] = json!(1);
    });
    scene.world.put(json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
        "metadata": {"name": "o4", "creationTimestamp": "2026-01-01T00:10:00Z", "generation": 1},
        "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.4-10.0.0.9"], "ipVersion": 4},
    }));
    for (name, pool, served) in [("a", "o4", false), ("b", "p4", true), ("c", "o4", false)] {
        scene.pod(name, name, Owner::Nobody, &ippools(&[("eth0", &[pool], &[])]));
        assert_eq!(scene.add(name, name, "eth0").is_ok(), served, "{name}");
    }
    // Another process sees the same, and the younger pool serves once it shares nothing any more.
    scene.restart(&scene.world.clone());
    assert!(scene.add("c", "c", "eth0").is_err());
    scene.change("SpiderIPPool", "o4", |pool| pool["spec"]["ips"] = json!(["10.0.0.7-10.0.0.9"]));
    assert_eq!(addresses(&scene.add("c", "c", "eth0").unwrap()), ["10.0.0.7"]);
}

#[test]
fn an_agent_makes_the_pool_of_a_third_party_controller() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let scene = Scene::new(policy);
        scene.world.put(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet", "metadata": {"name": "s4", "uid": "s4"},
            "spec": {"subnet": "10.9.0.0/24", "ips": ["10.9.0.1-10.9.0.9"], "ipVersion": 4},
        }));
        let subnet = |number: &str| json!({"ipam.spidernet.io/subnet": r#"{"ipv4":["s4"]}"#, "ipam.spidernet.io/ippool-ip-number": number});
        scene.pod("a", "u", Owner::ThirdParty, ONE);
        scene.change("Pod", "a", |pod| pod["metadata"]["annotations"] = subnet("3"));
        let answer = scene.add("a", "u", "eth0").unwrap();
        assert!(addresses(&answer)[0].starts_with("10.9.0."));
        let pool = |ips: usize| {
            let pools = scene.world.all::<ipam_spiderpool::SpiderIPPool>();
            let [pool] = &pools.iter().filter(|pool| pool.spec.subnet == "10.9.0.0/24").collect::<Vec<_>>()[..] else { panic!("one pool") };
            let set = ipam_spiderpool::address_set::AddressSet::of_pool(&pool.spec, &policy);
            assert_eq!(set.0.count(), ips as u128);
            pool.metadata.name.clone().unwrap()
        };
        let name = pool(3);
        assert_eq!(&*answer.ips[0].pool, name);
        // The next pod asks for another size, and the pool follows.
        scene.pod("b", "v", Owner::ThirdParty, ONE);
        scene.change("Pod", "b", |pod| pod["metadata"]["annotations"] = subnet("+5"));
        assert_eq!(&*scene.add("b", "v", "eth0").unwrap().ips[0].pool, name);
        assert_eq!(pool(5), name);
        // A request for more than there is fails, and ends in time.
        scene.pod("c", "w", Owner::ThirdParty, ONE);
        scene.change("Pod", "c", |pod| pod["metadata"]["annotations"] = subnet("50"));
        assert_eq!(scene.add("c", "w", "eth0").unwrap_err().class(), "subnet-reconcile-failed");
    }
}

#[test]
fn another_sandbox_of_a_pod_that_only_the_cache_shows_is_not_answered() {
    for (gone, class) in [(true, Some("missing-pod")), (false, None)] {
        let mut scene = Scene::new(Policy::hardened());
        scene.pod("db-0", "u", Owner::StatefulSet, ONE);
        scene.add("db-0", "u", "eth0").unwrap();
        let old = scene.world.frozen();
        if gone {
            scene.world.vanish("Pod", &ObjectKey::namespaced("ns", "db-0"));
        }
        scene.restart_long_ago(&old);
        let answer = scene.in_sandbox("next").add("db-0", "u", "eth0");
        assert_eq!((answer.err().map(|error| error.class()), scene.of("u").len()), (class, 1));
    }
}

#[test]
fn what_a_del_has_released_is_not_given_again_to_a_pod_that_only_the_cache_shows() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, ONE);
    scene.add("a", "u", "eth0").unwrap();
    let old = scene.world.frozen();
    scene.world.vanish("Pod", &ObjectKey::namespaced("ns", "a"));
    assert_eq!(scene.del("a", "u", "eth0"), Ok(DelOutcome::Released));
    assert!(scene.endpoint("a").is_some(), "nobody has collected it yet");
    scene.restart_long_ago(&old);
    let error = scene.in_sandbox("next").add("a", "u", "eth0").unwrap_err();
    assert_eq!((error.class(), scene.records()), ("missing-pod", vec![]));
}

#[test]
fn an_endpoint_without_its_finalizer_is_given_it_back() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, ONE);
    let first = scene.add("a", "u", "eth0").unwrap();
    let before = scene.endpoint("a").unwrap().metadata.finalizers.clone();
    scene.change("SpiderEndpoint", "a", |endpoint| drop(endpoint["metadata"].as_object_mut().unwrap().remove("finalizers")));
    assert_eq!(addresses(&scene.add("a", "u", "eth0").unwrap()), addresses(&first));
    assert_eq!(scene.endpoint("a").unwrap().metadata.finalizers, before);
    assert!(before.is_some());
}

#[test]
fn the_marked_endpoint_of_a_pod_that_is_gone_stays_until_its_records_are_taken_back() {
    let mut scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, ONE);
    let first = scene.add("a", "u", "eth0").unwrap();
    let old = scene.world.frozen();
    scene.world.vanish("Pod", &ObjectKey::namespaced("ns", "a"));
    scene.change("SpiderEndpoint", "a", |endpoint| endpoint["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    scene.restart_long_ago(&old);
    assert_eq!(scene.in_sandbox("next").add("a", "u", "eth0").unwrap_err().class(), "missing-pod");
    assert_eq!((scene.of("u"), scene.stored("a")), (addresses(&first), addresses(&first)));
    assert_eq!(scene.in_sandbox("c").del("a", "u", "eth0"), Ok(DelOutcome::Released));
    assert_eq!((scene.records(), scene.endpoint("a")), (vec![], None));
}

#[test]
fn a_namesake_of_the_owner_is_not_the_owner_but_upstream_takes_it() {
    for (policy, served) in [(Policy::hardened(), false), (Policy::upstream(), true)] {
        let scene = Scene::new(policy);
        scene.change("StatefulSet", "db", |set| set["metadata"]["uid"] = json!("of another day"));
        scene.pod("db-0", "u", Owner::StatefulSet, r#"[{"interface":"eth0","ipv4":["p4"]}]"#);
        assert_eq!(scene.add("db-0", "u", "eth0").is_ok(), served);
        scene.change("StatefulSet", "db", |set| set["metadata"]["uid"] = json!("db"));
        assert!(scene.add("db-0", "u", "eth0").is_ok());
    }
}
