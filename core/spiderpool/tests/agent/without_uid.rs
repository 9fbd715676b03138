//! Requests of container runtimes that pass no UID: which pod they concern, and which sandbox (K §5.1, §5.6).

use crate::scene::{Owner, Scene, addresses, ippools};
use ipam_spiderpool::Policy;
use ipam_spiderpool::ipam::DelOutcome;
use kube_machinery::api::ObjectKey;
use serde_json::json;

const ONE: &str = r#"[{"interface":"eth0","ipv4":["p4"]}]"#;

/// A cluster whose pod `db-0` is answered in sandbox `c`, without a UID.
fn served(owner: Owner) -> Scene {
    let scene = Scene::new(Policy::hardened());
    scene.pod("db-0", "u", owner, ONE);
    scene.add("db-0", "", "eth0").unwrap();
    assert_eq!(scene.of("u"), ["10.0.0.1"]);
    scene
}

#[test]
fn a_pod_that_is_not_bound_to_this_node_is_not_the_one_that_is_asked_for() {
    for node in [json!("other"), json!(null)] {
        let scene = served(Owner::StatefulSet);
        let before = scene.records();
        scene.pod("db-0", "next", Owner::StatefulSet, ONE);
        scene.change("Pod", "db-0", |pod| pod["spec"]["nodeName"] = node.clone());
        assert!(scene.add("db-0", "", "eth0").is_err_and(|error| error.class() == "pod-elsewhere"), "{node}");
        assert_eq!(scene.records(), before, "{node}");
        // With its UID the pod is identified, wherever it is.
        assert!(scene.add("db-0", "next", "eth0").is_ok(), "{node}");
    }
}

#[test]
fn an_add_is_about_the_pod_that_is_there_whatever_the_cache_shows() {
    for owner in [Owner::Nobody, Owner::StatefulSet] {
        let mut scene = served(owner);
        let old = scene.world.frozen();
        scene.restart(&old);
        scene.pod("db-0", "next", owner, ONE);
        let answer = scene.in_sandbox("next").add("db-0", "", "eth0").unwrap();
        assert_eq!(scene.of("next"), addresses(&answer), "{owner:?}");
    }
}

#[test]
fn what_a_pod_has_goes_with_the_sandbox_that_its_endpoint_names() {
    for owner in [Owner::Nobody, Owner::StatefulSet] {
        let scene = served(owner);
        scene.change("StatefulSet", "db", |set| set["spec"]["replicas"] = json!(0));
        assert_eq!(scene.in_sandbox("c").del("db-0", "", "eth0"), Ok(DelOutcome::Alive));
        scene.add("db-0", "", "eth0").unwrap();
        scene.terminate("db-0");
        assert_eq!(scene.in_sandbox("former").del("db-0", "", "eth0"), Ok(DelOutcome::NoUid));
        assert_eq!(scene.of("u").len(), 1);
        assert_eq!(scene.in_sandbox("c").del("db-0", "", "eth0"), Ok(DelOutcome::Released));
        assert_eq!(scene.records(), [], "{owner:?}");
    }
}

#[test]
fn each_nic_of_a_pod_goes_with_its_own_del() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &["p6"]), ("net1", &["q4"], &[])]));
    for nic in ["eth0", "net1"] {
        scene.add("a", "", nic).unwrap();
    }
    scene.terminate("a");
    assert_eq!(scene.del("a", "", "net1"), Ok(DelOutcome::ReleasedNic));
    assert_eq!(scene.of("u").len(), 2);
    assert_eq!(scene.del("a", "", "eth0"), Ok(DelOutcome::Released));
    assert_eq!(scene.records(), []);
}

#[test]
fn what_no_endpoint_of_the_pod_names_the_sandbox_for_is_left_to_reclaim() {
    // Another agent may be setting up the sandbox of the pod: its records exist before its endpoint does.
    let scene = served(Owner::Nobody);
    scene.world.vanish("SpiderEndpoint", &ObjectKey::namespaced("ns", "db-0"));
    scene.terminate("db-0");
    for sandbox in ["former", "c"] {
        assert_eq!(scene.in_sandbox(sandbox).del("db-0", "", "eth0"), Ok(DelOutcome::NoUid));
    }
    assert_eq!(scene.of("u").len(), 1);
    assert_eq!(scene.del("db-0", "u", "eth0"), Ok(DelOutcome::NoEndpoint));
    assert_eq!(scene.records(), []);
}

#[test]
fn the_endpoint_of_a_predecessor_names_no_sandbox_of_the_pod_that_is_there() {
    let scene = served(Owner::StatefulSet);
    scene.pod("db-0", "next", Owner::StatefulSet, ONE);
    scene.record("p4", "10.0.0.5", "ns/db-0", "next");
    scene.terminate("db-0");
    assert_eq!(scene.del("db-0", "", "eth0"), Ok(DelOutcome::NoUid));
    assert_eq!((scene.of("u"), scene.of("next")), (vec!["10.0.0.1".to_owned()], vec!["10.0.0.5".to_owned()]));
}

#[test]
fn a_conflict_of_the_pod_before_costs_the_next_one_nothing() {
    // For a pod whose NICs have no names everything is released.
    let nameless = r#"[{"ipv4":["p4"]}]"#;
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u", Owner::Nobody, nameless);
    let given = addresses(&scene.add("a", "", "eth0").unwrap());
    assert_eq!(scene.conflict("a", "", "10.0.0.6"), Ok(()));
    assert_eq!(scene.of("u"), given, "it does not have that one");
    scene.change("Pod", "a", |pod| pod["spec"]["nodeName"] = json!("other"));
    assert_eq!(scene.conflict("a", "", &given[0]), Ok(()));
    assert_eq!(scene.of("u"), given, "it is on another node");
    scene.change("Pod", "a", |pod| pod["spec"]["nodeName"] = json!("n"));
    assert_eq!(scene.conflict("a", "", &given[0]), Ok(()));
    assert_eq!(scene.records(), []);
}
