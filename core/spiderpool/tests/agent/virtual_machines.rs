//! The pods of a VM, of which two run during a live migration: an address on which one of them answers stays the VM's.

use crate::api_server::{Deed, World};
use crate::scene::{Owner, Scene, addresses, ippools};
use ipam_spiderpool::Policy;
use kube_machinery::api::ObjectKey;
use serde_json::json;

const ONE: &str = r#"[{"interface":"eth0","ipv4":["p4"]}]"#;
const PAIR: &str = r#"[{"interface":"eth0","ipv4":["p4"],"ipv6":["p6"]}]"#;

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ns", name)
}

#[test]
fn a_vm_that_moves_keeps_the_address_that_its_other_pod_answers_on() {
    let scene = Scene::new(Policy::hardened());
    let pools = ippools(&[("eth0", &["p4", "q4"], &[])]);
    scene.vm_pod("virt-1", "u1", "vm");
    let first = scene.add("virt-1", "u1", "eth0").unwrap();
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["excludeIPs"] = json!(["10.0.0.1"]));
    scene.world.put(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm", "namespace": "ns", "uid": "vm"},
        "spec": {}, "status": {"activePods": {"u1": "n", "u2": "m"}},
    }));
    scene.vm_pod("virt-2", "u2", "vm");
    scene.change("Pod", "virt-2", |pod| pod["metadata"]["annotations"]["ipam.spidernet.io/ippools"] = json!(pools));
    let second = scene.add("virt-2", "u2", "eth0").unwrap();
    assert_eq!(addresses(&second), addresses(&first));
}

#[test]
fn a_vm_keeps_the_address_that_its_other_pod_answers_on_though_its_instance_does_not_count_that_one_yet() {
    for (other, keeps) in [("is listed", true), ("is being deleted", true), ("is named", true), ("has ended", false), ("is gone", false)] {
        let scene = Scene::new(Policy::hardened());
        scene.vm_pod("virt-1", "u1", "vm");
        scene.vm_pod("virt-2", "u2", "vm");
        let first = scene.add("virt-2", "u2", "eth0").unwrap();
        scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["excludeIPs"] = json!(["10.0.0.1"]));
        let target = if other == "is named" { json!("virt-2") } else { json!(null) };
        scene.world.put(json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm", "namespace": "ns", "uid": "vm"},
            "spec": {}, "status": {"activePods": {"u1": "n"}, "migrationState": {"sourcePod": "virt-1", "targetPod": target}},
        }));
        the_other_pod(&scene, other);
        let again = scene.add("virt-1", "u1", "eth0").unwrap();
        assert_eq!((addresses(&again) == addresses(&first), scene.of("u1")), (keeps, addresses(&again)), "the other one {other}");
        assert_eq!(scene.of("u2").len(), 0, "the other one {other}");
    }
}

/// The instance of `vm`, which lists `u1` as active.
fn instance(scene: &Scene) {
    scene.world.put(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm", "namespace": "ns", "uid": "vm"},
        "spec": {}, "status": {"activePods": {"u1": "n"}},
    }));
}

/// Another client deletes the endpoint of `vm`, which its finalizer keeps.
fn mark(scene: &Scene) {
    scene.change("SpiderEndpoint", "vm", |endpoint| endpoint["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
}

#[test]
fn a_vm_that_moves_again_keeps_its_address_though_the_endpoint_is_of_a_target_that_failed() {
    let scene = Scene::new(Policy::hardened());
    scene.vm_pod("virt-1", "u1", "vm");
    scene.vm_pod("virt-2", "u2", "vm");
    instance(&scene);
    let first = scene.add("virt-1", "u1", "eth0").unwrap();
    assert_eq!(addresses(&scene.add("virt-2", "u2", "eth0").unwrap()), addresses(&first));
    scene.world.vanish("Pod", &key("virt-2"));
    scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["excludeIPs"] = json!(["10.0.0.1"]));
    scene.vm_pod("virt-3", "u3", "vm");
    assert_eq!(addresses(&scene.add("virt-3", "u3", "eth0").unwrap()), addresses(&first));
}

#[test]
fn a_vm_that_moves_keeps_its_address_though_somebody_has_marked_its_endpoint() {
    let scene = Scene::new(Policy::hardened());
    // A new allocation gets an address that is free by then, and comes before that of the VM.
    scene.pod("a", "u", Owner::Nobody, ONE);
    scene.add("a", "u", "eth0").unwrap();
    scene.vm_pod("virt-1", "u1", "vm");
    instance(&scene);
    let first = scene.add("virt-1", "u1", "eth0").unwrap();
    scene.terminate("a");
    scene.del("a", "u", "eth0").unwrap();
    mark(&scene);
    scene.vm_pod("virt-2", "u2", "vm");
    let second = scene.add("virt-2", "u2", "eth0").unwrap();
    assert_eq!((addresses(&second), scene.of("u2"), scene.of("u1")), (addresses(&first), addresses(&first), vec![]));
    let endpoint = scene.endpoint("vm").expect("there is another one");
    assert_eq!((endpoint.metadata.deletion_timestamp.as_ref(), scene.stored("vm")), (None, addresses(&first)));
}

#[test]
fn a_vm_that_starts_again_keeps_its_address_though_somebody_has_marked_its_endpoint() {
    let scene = Scene::new(Policy::hardened());
    scene.vm_pod("virt-1", "u1", "vm");
    instance(&scene);
    let first = scene.add("virt-1", "u1", "eth0").unwrap();
    mark(&scene);
    scene.terminate("virt-1");
    scene.del("virt-1", "u1", "eth0").unwrap();
    assert_eq!(scene.of("u1"), addresses(&first));
    scene.world.vanish("Pod", &key("virt-1"));
    scene.vm_pod("virt-2", "u2", "vm");
    assert_eq!(addresses(&scene.add("virt-2", "u2", "eth0").unwrap()), addresses(&first));
}

#[test]
fn the_del_of_a_target_that_failed_releases_no_record_that_it_was_handed_over_while_the_source_runs() {
    for (source, stays) in [("is listed", true), ("is being deleted", true), ("is gone", false)] {
        let scene = Scene::new(Policy::hardened());
        scene.vm_pod("virt-1", "u1", "vm");
        scene.vm_pod("virt-2", "u2", "vm");
        let first = scene.add("virt-1", "u1", "eth0").unwrap();
        // The ADD of the target handed over this record, drew another address, and failed: the endpoint is still the source's.
        for ip in ["10.0.0.1", "10.0.0.5"] {
            scene.record("p4", ip, "ns/vm", "u2");
        }
        assert_eq!((scene.of("u1").len(), scene.of("u2").len()), (0, 2));
        the_source(&scene, source);
        scene.terminate("virt-2");
        scene.del("virt-2", "u2", "eth0").unwrap();
        assert_eq!(scene.of("u2"), if stays { addresses(&first) } else { vec![] }, "the source {source}");
    }
}

/// A VM whose endpoint was marked for deletion while it migrates, after `failures` attempts of an ADD of the target for which the server
/// accepts no new endpoint. Returns the addresses of the source.
fn a_target_that_gets_no_endpoint(scene: &Scene, failures: usize) -> Vec<String> {
    scene.vm_pod("virt-1", "u1", "vm");
    instance(scene);
    let first = scene.add("virt-1", "u1", "eth0").unwrap();
    mark(scene);
    scene.vm_pod("virt-2", "u2", "vm");
    refuse_endpoints(scene);
    for _ in 0..failures {
        scene.add("virt-2", "u2", "eth0").unwrap_err();
    }
    scene.world.serve_all();
    addresses(&first)
}

/// The server accepts no new endpoint from now on.
fn refuse_endpoints(scene: &Scene) {
    scene.world.script(|name, _| if name == "create SpiderEndpoint" { Deed::Refuse } else { Deed::Serve });
}

#[test]
fn an_add_that_fails_after_it_ended_a_marked_endpoint_leaves_the_vm_its_address() {
    for failures in 1..4 {
        let scene = Scene::new(Policy::hardened());
        let first = a_target_that_gets_no_endpoint(&scene, failures);
        assert_eq!((scene.endpoint("vm"), scene.of("u2")), (None, first.clone()));
        assert_eq!(addresses(&scene.add("virt-2", "u2", "eth0").unwrap()), first);
    }
}

#[test]
fn an_add_that_fails_after_it_ended_a_marked_endpoint_withholds_nothing_that_no_other_pod_of_the_vm_has() {
    let scene = Scene::new(Policy::hardened());
    scene.vm_pod("virt-1", "u1", "vm");
    instance(&scene);
    scene.add("virt-1", "u1", "eth0").unwrap();
    mark(&scene);
    scene.world.vanish("VirtualMachineInstance", &key("vm"));
    the_source(&scene, "is gone");
    scene.vm_pod("virt-2", "u2", "vm");
    refuse_endpoints(&scene);
    scene.add("virt-2", "u2", "eth0").unwrap_err();
    assert_eq!((scene.endpoint("vm"), scene.of("u1"), scene.of("u2")), (None, vec![], vec![]));
}

#[test]
fn a_vm_that_moves_to_other_pools_keeps_its_address_though_the_endpoint_that_replaces_a_marked_one_needs_a_second_try() {
    let scene = Scene::new(Policy::hardened());
    scene.vm_pod("virt-1", "u1", "vm");
    instance(&scene);
    let first = scene.add("virt-1", "u1", "eth0").unwrap();
    mark(&scene);
    scene.vm_pod("virt-2", "u2", "vm");
    let pools = ippools(&[("eth0", &["q4"], &[])]);
    scene.change("Pod", "virt-2", |pod| pod["metadata"]["annotations"]["ipam.spidernet.io/ippools"] = json!(pools));
    let mut refused = false;
    scene.world.script(move |name, _| match name {
        "create SpiderEndpoint" if !std::mem::replace(&mut refused, true) => Deed::Refuse,
        _ => Deed::Serve,
    });
    let second = scene.add("virt-2", "u2", "eth0").unwrap();
    assert_eq!((addresses(&second), scene.of("u2"), scene.stored("vm")), (addresses(&first), addresses(&first), addresses(&first)));
}

#[test]
fn a_vm_takes_over_the_records_of_a_marked_endpoint_also_if_some_of_its_addresses_have_to_be_replaced() {
    for others in [false, true] {
        let scene = Scene::new(Policy::hardened());
        scene.vm_pod("virt-1", "u1", "vm");
        scene.change("Pod", "virt-1", |pod| pod["metadata"]["annotations"]["ipam.spidernet.io/ippools"] = json!(PAIR));
        scene.add("virt-1", "u1", "eth0").unwrap();
        scene.world.vanish("Pod", &key("virt-1"));
        mark(&scene);
        if others {
            scene.record("p4", "10.0.0.1", "ns/other", "other");
        }
        scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["excludeIPs"] = json!(["fd00::1"]));
        scene.vm_pod("virt-2", "u2", "vm");
        scene.change("Pod", "virt-2", |pod| pod["metadata"]["annotations"]["ipam.spidernet.io/ippools"] = json!(PAIR));
        let second = scene.add("virt-2", "u2", "eth0").unwrap();
        assert_eq!(addresses(&second), [if others { "10.0.0.2" } else { "10.0.0.1" }, "fd00::2"]);
        assert_eq!((scene.of("u1").len(), scene.of("u2"), scene.stored("vm")), (0, addresses(&second), addresses(&second)));
    }
}

#[test]
fn an_add_that_fails_after_a_restart_releases_nothing_without_an_endpoint_while_another_pod_of_the_vm_runs() {
    for (source, stays) in [("is listed", true), ("is being deleted", true), ("cannot be read", true), ("is gone", false)] {
        let mut scene = Scene::new(Policy::hardened());
        let first = a_target_that_gets_no_endpoint(&scene, 1);
        scene.world.vanish("VirtualMachineInstance", &key("vm"));
        the_source(&scene, source);
        let caches = scene.world.clone();
        scene.restart_long_ago(&caches);
        scene.world.script(move |name, _| match name {
            "create SpiderEndpoint" => Deed::Refuse,
            "list Pod" if source == "cannot be read" => Deed::Refuse,
            _ => Deed::Serve,
        });
        scene.add("virt-2", "u2", "eth0").unwrap_err();
        assert_eq!(scene.of("u2"), if stays { first } else { vec![] }, "the source {source}");
    }
}

#[test]
fn what_the_add_of_a_target_drew_and_could_not_release_goes_with_the_next_request_and_what_it_took_over_stays() {
    for next in ["ADD", "DEL without the pod"] {
        let mut scene = Scene::new(Policy::hardened());
        let first = a_target_that_gets_no_endpoint(&scene, 1);
        let caches = scene.world.clone();
        scene.restart_long_ago(&caches);
        // The next ADD also draws an address of the other family.
        scene.change("Pod", "virt-2", |pod| pod["metadata"]["annotations"]["ipam.spidernet.io/ippools"] = json!(PAIR));
        let mut draws = true;
        scene.world.script(move |name, _| match name {
            "create SpiderEndpoint" => Deed::Refuse,
            "update SpiderIPPool/status" if !std::mem::replace(&mut draws, false) => Deed::Refuse,
            _ => Deed::Serve,
        });
        scene.add("virt-2", "u2", "eth0").unwrap_err();
        assert_eq!(scene.of("u2"), ["10.0.0.1", "fd00::1"]);
        if next == "ADD" {
            scene.change("SpiderIPPool", "p6", |pool| pool["spec"]["disable"] = json!(true));
            refuse_endpoints(&scene);
            scene.add("virt-2", "u2", "eth0").unwrap_err();
        } else {
            scene.world.serve_all();
            scene.world.vanish("Pod", &key("virt-2"));
            scene.del("virt-2", "u2", "eth0").unwrap();
        }
        assert_eq!(scene.of("u2"), first, "{next}");
    }
}

#[test]
fn the_del_of_a_pod_of_a_vm_without_an_endpoint_leaves_what_another_pod_answers_on() {
    for (source, stays) in [("is listed", true), ("is being deleted", true), ("is gone", false)] {
        let scene = Scene::new(Policy::hardened());
        let first = a_target_that_gets_no_endpoint(&scene, 1);
        scene.world.vanish("VirtualMachineInstance", &key("vm"));
        the_source(&scene, source);
        scene.terminate("virt-2");
        scene.del("virt-2", "u2", "eth0").unwrap();
        assert_eq!(scene.of("u2"), if stays { first } else { vec![] }, "the source {source}");
    }
}

#[test]
fn a_pod_that_has_the_name_of_a_vm_hides_neither_the_vm_nor_its_other_pod_from_a_del() {
    for (vm, source, stays) in [(true, "is gone", true), (false, "is listed", true), (false, "is gone", false)] {
        let scene = Scene::new(Policy::hardened());
        scene.vm_pod("virt-1", "u1", "vm");
        scene.vm_pod("virt-2", "u2", "vm");
        instance(&scene);
        scene.add("virt-1", "u1", "eth0").unwrap();
        let first = scene.add("virt-2", "u2", "eth0").unwrap();
        scene.pod("vm", "u", Owner::Nobody, ONE);
        let of_namesake = scene.add("vm", "u", "eth0").unwrap();
        assert_eq!((scene.of("u2"), scene.stored("vm")), (addresses(&first), addresses(&of_namesake)));
        if !vm {
            scene.world.vanish("VirtualMachineInstance", &key("vm"));
        }
        the_source(&scene, source);
        scene.terminate("virt-2");
        scene.del("virt-2", "u2", "eth0").unwrap();
        assert_eq!(scene.of("u2"), if stays { addresses(&first) } else { vec![] }, "VM: {vm}, the source {source}");
        assert_eq!(scene.of("u"), addresses(&of_namesake));
    }
}

#[test]
fn a_target_that_lacks_a_nic_of_the_source_leaves_it_the_rest_of_the_addresses_of_that_nic() {
    for (source, stays) in [("is listed", true), ("is being deleted", true), ("is gone", false)] {
        let scene = Scene::new(Policy::hardened());
        let pools = ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &["q6"])]);
        scene.vm_pod("virt-1", "u1", "vm");
        scene.change("Pod", "virt-1", |pod| pod["metadata"]["annotations"]["ipam.spidernet.io/ippools"] = json!(pools));
        for nic in ["eth0", "net1"] {
            scene.add("virt-1", "u1", nic).unwrap();
        }
        // A record was lost, and another pod has the address by now.
        scene.record("q4", "10.0.1.1", "ns/other", "other");
        the_source(&scene, source);
        scene.vm_pod("virt-2", "u2", "vm");
        let pools = json!({"ipv4": ["p4", "q4"], "ipv6": ["q6"]}).to_string();
        scene.change("Pod", "virt-2", |pod| {
            pod["metadata"]["annotations"] = json!({"ipam.spidernet.io/ippool": pools, "k8s.v1.cni.cncf.io/networks": ""});
        });
        for sandbox in ["c", "d"] {
            assert_eq!(addresses(&scene.in_sandbox(sandbox).add("virt-2", "u2", "eth0").unwrap()), ["10.0.0.1"], "the source {source}");
            let all: &[&str] = if stays { &["10.0.0.1", "fd01::1"] } else { &["10.0.0.1"] };
            assert_eq!((&*scene.of("u2"), &*scene.stored("vm")), (&*owned(all), &*owned(all)), "the source {source}, sandbox {sandbox}");
            assert_eq!((scene.of("u1").len(), scene.of("other").len()), (0, 1));
        }
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_target_whose_agent_crashed_without_an_endpoint_leaves_the_source_its_address_and_gets_it_later() {
    for (source, stays) in [("is listed", true), ("is being deleted", true), ("is gone", false)] {
        let mut scene = Scene::new(Policy::hardened());
        scene.vm_pod("virt-1", "u1", "vm");
        let first = scene.add("virt-1", "u1", "eth0").unwrap();
        mark(&scene);
        scene.vm_pod("virt-2", "u2", "vm");
        scene.world.script(|name, _| if name == "create SpiderEndpoint" { Deed::Hang } else { Deed::Serve });
        assert!(scene.try_add("virt-2", "u2", "eth0").is_none());
        scene.world.serve_all();
        the_source(&scene, source);
        let caches = scene.world.clone();
        scene.restart(&caches);
        // A write of the process before may still remove the record.
        let early = scene.add("virt-2", "u2", "eth0");
        assert_eq!(early.is_err(), stays, "the source {source}");
        if stays {
            assert_eq!(scene.of("u2"), addresses(&first), "the source {source}");
            scene.env.pass(scene.config.settings.late_commit);
            assert_eq!(addresses(&scene.add("virt-2", "u2", "eth0").unwrap()), addresses(&first), "the source {source}");
        }
    }
}

#[test]
fn a_target_with_other_pools_releases_nothing_without_an_endpoint_while_the_source_runs() {
    let scene = Scene::new(Policy::hardened());
    let first = a_target_that_gets_no_endpoint(&scene, 1);
    let pools = ippools(&[("eth0", &["q4"], &[])]);
    scene.change("Pod", "virt-2", |pod| pod["metadata"]["annotations"]["ipam.spidernet.io/ippools"] = json!(pools));
    scene.add("virt-2", "u2", "eth0").unwrap_err();
    assert_eq!(scene.of("u2"), first);
    scene.world.vanish("VirtualMachineInstance", &key("vm"));
    scene.world.vanish("Pod", &key("virt-1"));
    assert_eq!(addresses(&scene.add("virt-2", "u2", "eth0").unwrap()), ["10.0.1.1"]);
    assert_eq!(scene.of("u2"), ["10.0.1.1"]);
}

#[test]
fn a_target_without_an_endpoint_is_served_at_once_although_it_could_not_release_an_address() {
    let scene = Scene::new(Policy::hardened());
    scene.vm_pod("virt-1", "u1", "vm");
    scene.vm_pod("virt-2", "u2", "vm");
    let mut draws = true;
    scene.world.script(move |name, _| match name {
        "create SpiderEndpoint" => Deed::Refuse,
        "update SpiderIPPool/status" if !std::mem::replace(&mut draws, false) => Deed::Refuse,
        _ => Deed::Serve,
    });
    scene.add("virt-2", "u2", "eth0").unwrap_err();
    scene.world.serve_all();
    assert_eq!(scene.of("u2").len(), 1);
    assert_eq!(addresses(&scene.add("virt-2", "u2", "eth0").unwrap()), scene.of("u2"));
}

#[test]
fn a_target_drops_a_record_that_the_endpoint_does_not_name_while_the_source_runs() {
    let scene = Scene::new(Policy::hardened());
    scene.vm_pod("virt-1", "u1", "vm");
    scene.vm_pod("virt-2", "u2", "vm");
    scene.change("Pod", "virt-2", |pod| {
        pod["metadata"]["annotations"] = json!({"ipam.spidernet.io/ippool": r#"{"ipv4":["p4"]}"#, "k8s.v1.cni.cncf.io/networks": "net"});
    });
    scene.add("virt-1", "u1", "eth0").unwrap();
    scene.add("virt-2", "u2", "eth0").unwrap();
    let stray = json!({"interface": "net1", "pod": "ns/vm", "podUid": "u2"});
    scene.edit_records("q4", |records| drop(records.insert("10.0.1.3".to_owned(), stray)));
    scene.add("virt-2", "u2", "net1").unwrap();
    assert_eq!(scene.of("u2"), ["10.0.0.1", "10.0.0.2"]);
}

#[test]
fn a_target_whose_endpoint_the_cache_does_not_show_is_answered_from_it_while_the_source_runs() {
    let mut scene = Scene::new(Policy::hardened());
    scene.vm_pod("virt-1", "u1", "vm");
    scene.vm_pod("virt-2", "u2", "vm");
    let first = scene.add("virt-2", "u2", "eth0").unwrap();
    let caches = scene.world.frozen();
    caches.vanish("SpiderEndpoint", &key("vm"));
    scene.restart(&caches);
    assert_eq!(addresses(&scene.add("virt-2", "u2", "eth0").unwrap()), addresses(&first));
}

/// Whether the record stays after the DEL of one of two pods of a VM, if the other pod is in state `other` and `then` happens to their VM.
fn stays_recorded_after_a_del(other: &str, then: impl FnOnce(&World)) -> bool {
    let scene = Scene::new(Policy::hardened());
    scene.vm_pod("virt-1", "u1", "vm");
    scene.vm_pod("virt-2", "u2", "vm");
    let first = scene.add("virt-1", "u1", "eth0").unwrap();
    assert_eq!(addresses(&scene.add("virt-2", "u2", "eth0").unwrap()), addresses(&first));
    then(&scene.world);
    the_other_pod(&scene, other);
    // The endpoint and the record are the source's again.
    the_source_takes_the_record(&scene.world);
    scene.change("SpiderEndpoint", "vm", |endpoint| endpoint["status"]["current"]["uid"] = json!("u1"));
    scene.terminate("virt-1");
    scene.del("virt-1", "u1", "eth0").unwrap();
    !scene.records().is_empty()
}

#[test]
fn a_del_leaves_what_another_pod_of_a_deleted_vm_answers_on_though_its_instance_does_not_count_that_one_yet() {
    for (other, keeps) in [("is listed", true), ("is being deleted", true), ("is named", true), ("has ended", false), ("is gone", false)] {
        let target = if other == "is named" { json!("virt-2") } else { json!(null) };
        let deleted = |world: &World| {
            world.put(json!({
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
                "metadata": {
                    "name": "vm", "namespace": "ns", "uid": "vm", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"],
                },
                "spec": {}, "status": {"activePods": {"u1": "n"}, "migrationState": {"sourcePod": "virt-1", "targetPod": target}},
            }));
        };
        assert_eq!(stays_recorded_after_a_del(other, deleted), keeps, "the other one {other}");
    }
}

#[test]
fn a_del_leaves_what_another_pod_of_a_vm_answers_on_though_its_instance_is_gone() {
    let others = [("is listed", true), ("is being deleted", true), ("has ended", false), ("is another's", false), ("is gone", false)];
    for (other, keeps) in others {
        assert_eq!(stays_recorded_after_a_del(other, |_| ()), keeps, "the other one {other}");
    }
}

/// Puts the source of a migration into this state.
fn the_source(scene: &Scene, is: &str) {
    match is {
        "is being deleted" => scene.terminate("virt-1"),
        "is gone" => scene.world.vanish("Pod", &key("virt-1")),
        _ => {}
    }
}

/// Puts the other pod of a VM into this state.
fn the_other_pod(scene: &Scene, is: &str) {
    match is {
        "is being deleted" => scene.terminate("virt-2"),
        // The state in which a list does not show it (K182).
        "is named" => scene.change("Pod", "virt-2", |pod| pod["metadata"]["labels"] = json!({})),
        "has ended" => scene.change("Pod", "virt-2", |pod| pod["status"] = json!({"phase": "Failed"})),
        "is another's" => scene.change("Pod", "virt-2", |pod| pod["metadata"]["ownerReferences"][0]["name"] = json!("other")),
        "is gone" => scene.world.vanish("Pod", &key("virt-2")),
        _ => {}
    }
}

/// Transfers the record in `p4` to `u1`, whoever has it.
fn the_source_takes_the_record(world: &World) {
    world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| {
        let records = pool["status"]["allocatedIPs"].as_str().unwrap().replace("\"u2\"", "\"u1\"");
        pool["status"]["allocatedIPs"] = json!(records);
    });
}

#[test]
fn when_both_pods_of_a_migration_ask_endpoint_and_records_are_left_to_the_same_one() {
    // The source takes over the endpoint while the target takes back the record, and vice versa.
    for (request, of_endpoint) in [("update SpiderIPPool/status", true), ("update SpiderEndpoint", false)] {
        let scene = Scene::new(Policy::hardened());
        scene.vm_pod("virt-1", "u1", "vm");
        scene.add("virt-1", "u1", "eth0").unwrap();
        scene.vm_pod("virt-2", "u2", "vm");
        if of_endpoint {
            scene.add("virt-2", "u2", "eth0").unwrap();
            the_source_takes_the_record(&scene.world);
        }
        let mut asked = false;
        scene.world.script(move |name, world| {
            if name == request && !std::mem::replace(&mut asked, true) {
                if of_endpoint {
                    world.change("SpiderEndpoint", &key("vm"), |endpoint| endpoint["status"]["current"]["uid"] = json!("u1"));
                } else {
                    the_source_takes_the_record(world);
                }
            }
            Deed::Serve
        });
        scene.add("virt-2", "u2", "eth0").unwrap();
        let endpoint = scene.endpoint("vm").and_then(|endpoint| Some(endpoint.status.as_ref()?.current.uid.clone()));
        assert_eq!((endpoint.as_deref(), scene.of("u1").len(), scene.of("u2").len()), (Some("u2"), 0, 1), "at {request}");
    }
}
