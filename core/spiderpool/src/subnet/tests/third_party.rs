//! Workloads of a kind that Spiderpool does not know: agents make their pools, and the controller deletes them (A §8.6, §8.7).

use std::time::Duration;

use k8s_openapi::api::core::v1::ReplicationController;
use serde_json::json;

use super::model::{application, demand};
use super::scene::{Scene, key};
use super::server::Server;
use crate::ranges::IpSet;
use crate::subnet::{Application, Live, Want};
use crate::{Policy, SpiderIPPool};
use kube_machinery::api::ObjectKey;

/// Access to ReplicationControllers, which Spiderpool does not know (A §6.1).
fn known(scene: &Scene) -> Live<Server, ReplicationController> {
    Live::new(scene.server.clone(), None)
}

/// Creates the workload `web`.
fn created(scene: &Scene) -> Application {
    scene.server.create::<ReplicationController>(json!({"metadata": {"name": "web", "namespace": "default"}}));
    let object = scene.server.find::<ReplicationController>(&key("web")).unwrap();
    let mut application = application("web", 0);
    (application.name.api_version, application.name.kind) = ("v1".to_owned(), "ReplicationController".to_owned());
    application.uid = object.metadata.uid.clone().unwrap();
    application
}

/// An agent makes the pool of a workload. Returns the pool's name.
fn make_pool(scene: &Scene, application: &Application) -> String {
    let want = Want { application, demand: &demand(3) };
    let auto_pools = scene.auto_pools(Policy::hardened());
    scene.env.block_on(auto_pools.reconcile(want, &IpSet::default())).unwrap();
    scene.set_aside().last().unwrap().0.clone()
}

/// An agent crashes between its two writes.
fn set_aside_only(scene: &Scene, application: &Application) {
    scene.server.refuse("create SpiderIPPool");
    let want = Want { application, demand: &demand(3) };
    scene.env.block_on(scene.auto_pools(Policy::hardened()).reconcile(want, &IpSet::default())).unwrap_err();
}

#[test]
fn what_is_set_aside_for_a_pool_that_is_gone_comes_back() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let scene = Scene::with_subnet(policy);
        let name = make_pool(&scene, &created(&scene));
        scene.start_with(policy, known(&scene));
        scene.server.delete::<ReplicationController>(&key("web"));
        scene.server.delete::<SpiderIPPool>(&ObjectKey::cluster(&name));
        scene.pass(30);
        assert_eq!((scene.sizes().len(), scene.set_aside().len()), (0, 0));
    }
}

#[test]
fn a_pool_goes_with_its_workload_though_pods_have_its_addresses() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let scene = Scene::with_subnet(policy);
        scene.start_with(policy, known(&scene));
        let name = make_pool(&scene, &created(&scene));
        let ips = scene.set_aside().remove(0).1;
        let ip = crate::ranges::parse_range(&ips[0], 4, &policy).unwrap().first();
        scene.record(&name, json!({ip.to_string(): {"pod": "default/web-1", "podUid": "u"}}));
        scene.pass(5);
        scene.server.delete::<ReplicationController>(&key("web"));
        scene.pass(5);
        let pool = scene.server.find::<SpiderIPPool>(&ObjectKey::cluster(&name)).unwrap();
        assert!(pool.metadata.deletion_timestamp.is_some(), "nobody is to get an address of it any more");
        scene.record(&name, json!({}));
        scene.pass(20);
        assert_eq!((scene.sizes().len(), scene.set_aside().len()), (0, 0));
    }
}

#[test]
fn a_workload_that_ends_while_its_watch_begins_takes_its_pool_with_it() {
    let policy = Policy::hardened();
    for delay in 0..40 {
        let scene = Scene::with_subnet(policy);
        scene.start_with(policy, known(&scene));
        make_pool(&scene, &created(&scene));
        scene.env.advance(Duration::from_micros(delay * 250));
        scene.server.delete::<ReplicationController>(&key("web"));
        scene.pass(20);
        assert_eq!((scene.sizes().len(), scene.set_aside().len()), (0, 0), "{delay}");
    }
}

/// An application whose agent has pre-allocated addresses for a pool that it has not made.
fn with_an_entry_without_a_pool() -> (Scene, Application) {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start_with(policy, known(&scene));
    let application = created(&scene);
    set_aside_only(&scene, &application);
    scene.pass(20);
    assert_eq!((scene.sizes().len(), scene.set_aside().len()), (0, 1), "it may come");
    (scene, application)
}

#[test]
fn what_is_set_aside_for_a_pool_that_was_never_made_goes_with_the_workload() {
    let (scene, _) = with_an_entry_without_a_pool();
    scene.server.delete::<ReplicationController>(&key("web"));
    scene.pass(20);
    assert_eq!(scene.set_aside().len(), 0);
}

#[test]
fn what_is_set_aside_for_a_pool_that_nobody_makes_comes_back() {
    let (scene, application) = with_an_entry_without_a_pool();
    scene.pass(30);
    assert_eq!((scene.sizes().len(), scene.set_aside().len()), (0, 0));
    scene.server.serve("create SpiderIPPool");
    make_pool(&scene, &application);
    scene.pass(60);
    assert_eq!((scene.sizes().len(), scene.set_aside().len()), (1, 1), "it was made after all");
}

#[test]
fn a_namesake_does_not_keep_what_was_set_aside_for_the_one_before() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start_with(policy, known(&scene));
    let name = make_pool(&scene, &created(&scene));
    scene.server.delete::<ReplicationController>(&key("web"));
    created(&scene);
    scene.pass(20);
    assert_eq!((scene.sizes().len(), scene.set_aside().len()), (0, 0), "{name} is of the one before");
}

#[test]
fn what_an_agent_has_set_aside_and_never_given_to_the_pool_comes_back() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start_with(policy, known(&scene));
    let application = created(&scene);
    let name = make_pool(&scene, &application);
    // An agent pre-allocates two more, and crashes before it writes the pool.
    scene.server.refuse("update SpiderIPPool");
    let want = Want { application: &application, demand: &demand(5) };
    scene.env.block_on(scene.auto_pools(policy).reconcile(want, &IpSet::default())).unwrap_err();
    let count = || crate::ranges::parse_ranges(&scene.set_aside()[0].1, 4, &policy).unwrap().into_iter().collect::<IpSet>().count();
    scene.pass(20);
    assert_eq!((scene.only_size(), count()), (Some(3), 5), "it may be about to");
    scene.server.serve("update SpiderIPPool");
    let before = scene.server.find::<SpiderIPPool>(&ObjectKey::cluster(&name)).unwrap();
    scene.pass(30);
    assert_eq!((scene.only_size(), count()), (Some(3), 3));
    let after = scene.server.find::<SpiderIPPool>(&ObjectKey::cluster(&name)).unwrap();
    assert_ne!(before.metadata.resource_version, after.metadata.resource_version, "whoever decided before is too late");
}

#[test]
fn pools_of_kinds_that_nobody_knows_stay_and_what_is_set_aside_without_a_pool_does_not() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start(policy);
    let name = make_pool(&scene, &created(&scene));
    scene.server.delete::<ReplicationController>(&key("web"));
    scene.pass(700);
    assert_eq!((scene.sizes().len(), scene.set_aside().len()), (1, 1));
    scene.server.delete::<SpiderIPPool>(&ObjectKey::cluster(&name));
    scene.pass(700);
    assert_eq!((scene.sizes().len(), scene.set_aside().len()), (0, 0), "an agent that wants it sets it aside anew");
}

#[test]
fn an_agent_that_wants_too_much_leaves_what_another_is_making_a_pool_of() {
    let scene = Scene::with_subnet(Policy::hardened());
    let too_much = |application: &Application| {
        let want = Want { application, demand: &demand(1_000) };
        scene.env.block_on(scene.auto_pools(Policy::hardened()).reconcile(want, &IpSet::default())).unwrap_err();
    };
    let third_party = created(&scene);
    set_aside_only(&scene, &third_party);
    too_much(&third_party);
    assert_eq!(scene.set_aside().len(), 1, "its pool may be on its way");
    let built_in = application("other", 0);
    set_aside_only(&scene, &built_in);
    assert_eq!(scene.set_aside().len(), 2);
    too_much(&built_in);
    assert_eq!(scene.set_aside().len(), 1, "the leader alone makes that of a built-in kind");
}
