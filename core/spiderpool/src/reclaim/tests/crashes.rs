//! A replica that crashes after any of its requests leaves nothing that the next one does not finish (G §4.4, R1).

use super::api_server::Deed;
use super::scene::{Owner, Scene};
use crate::Policy;

/// The requests that write.
const WRITES: [&str; 3] = ["delete SpiderEndpoint", "update SpiderIPPool/status", "patch SpiderEndpoint"];

/// A dual-stack pod is gone, and its StatefulSet no longer wants it.
fn scaled_down(policy: Policy) -> Scene {
    let scene = Scene::new(policy);
    scene.stateful_set(0);
    scene.endpoint("db-0", "u1", Owner::StatefulSet, &[("p4", "10.0.0.1"), ("p6", "fd00::1")]);
    scene
}

/// The replica crashes at its write number `at`, before or after the write was carried out.
fn die_at(scene: &Scene, at: usize, deed: Deed) {
    let mut writes = 0;
    scene.world.script(move |name, _| {
        if WRITES.contains(&name) {
            writes += 1;
            if writes == at {
                return deed;
            }
        }
        Deed::Serve
    });
    scene.scan_and_die();
    scene.world.serve_all();
}

/// An endpoint that is not marked has a record: otherwise the next pod of the name would inherit an address that nobody holds.
fn nothing_to_inherit_unrecorded(scene: &Scene) -> bool {
    !scene.is_served("db-0", "u1") || scene.records().len() == 2
}

#[test]
fn whoever_comes_next_finishes_what_a_crash_left() {
    for deed in [Deed::Hang, Deed::ServeAndHang] {
        for at in 1..=4 {
            let mut scene = scaled_down(Policy::hardened());
            die_at(&scene, at, deed);
            assert!(nothing_to_inherit_unrecorded(&scene), "{deed:?} at write {at}");
            let untouched = at == 1 && deed == Deed::Hang;
            assert_eq!(scene.is_served("db-0", "u1"), untouched, "the mark comes first: {deed:?} at write {at}");
            // Once it is marked, the release is finished even if the StatefulSet wants the pod by now.
            if !untouched {
                scene.stateful_set(1);
            }
            scene.restart();
            scene.scan();
            assert!(scene.records().is_empty() && scene.endpoint_of("db-0").is_none(), "{deed:?} at write {at}");
        }
    }
}

#[test]
fn records_before_the_endpoint_leave_an_endpoint_that_speaks_of_nobodys_addresses() {
    let broken = |at| {
        let scene = scaled_down(Policy {
            reclaim: super::super::ReclaimPolicy { records_before_endpoint: true, ..Default::default() },
            ..Policy::hardened()
        });
        die_at(&scene, at, Deed::Hang);
        !nothing_to_inherit_unrecorded(&scene)
    };
    assert!((1..=4).any(broken));
}

#[test]
fn two_replicas_that_do_the_same_release_have_the_effect_of_one() {
    let scene = scaled_down(Policy::hardened());
    let mut second = Some(scaled_twice(&scene));
    // The second replica does the whole release between two requests of the first.
    scene.world.script(move |name, _| {
        if name == "update SpiderIPPool/status"
            && let Some(second) = second.take()
        {
            second();
        }
        Deed::Serve
    });
    scene.scan();
    assert!(scene.records().is_empty() && scene.endpoint_of("db-0").is_none());
}

/// A scan of another replica, which runs to its end immediately.
fn scaled_twice(scene: &Scene) -> impl FnOnce() + Send + 'static + use<> {
    use super::api_server::run;
    use crate::leadership::Leadership;
    use crate::reclaim::{Reclaim, ScanCause};
    let reclaim = Reclaim::new(scene.world.clone(), scene.env.clone(), scene.views.clone(), (), scene.config.clone());
    move || {
        run(reclaim.scan(&Leadership::always(), ScanCause::Asked)).expect("the server answers");
    }
}

#[test]
fn a_mark_is_not_finished_while_its_pod_lives() {
    let scene = Scene::new(Policy::hardened());
    scene.stateful_set(1);
    scene.whole_pod("db-0", "u1", Owner::StatefulSet, "10.0.0.1");
    let now = scene.time(0);
    scene.change("SpiderEndpoint", "db-0", |endpoint| endpoint["metadata"]["deletionTimestamp"] = serde_json::json!(now));
    scene.scan();
    assert_eq!(scene.records(), ["u1"]);
    assert!(scene.endpoint_of("db-0").is_some());
}

#[test]
fn a_reply_that_is_lost_is_made_good_by_the_next_scan() {
    for request in WRITES {
        let scene = scaled_down(Policy::hardened());
        let mut lost = false;
        scene.world.script(move |name, _| {
            if name == request && !lost {
                lost = true;
                return Deed::LoseReply;
            }
            Deed::Serve
        });
        scene.scan();
        scene.scan();
        assert!(scene.records().is_empty() && scene.endpoint_of("db-0").is_none(), "{request}");
    }
}
