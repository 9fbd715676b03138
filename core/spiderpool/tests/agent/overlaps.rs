//! Pools that overlap although admission never permits it: which of them serve, and when that is checked (A W18).

use crate::api_server::Deed;
use crate::scene::{Owner, Scene, addresses};
use ipam_spiderpool::Policy;
use kube_machinery::api::ObjectKey;
use serde_json::{Value, json};

const P4: &str = r#"[{"interface":"eth0","ipv4":["p4"]}]"#;
const O4: &str = r#"[{"interface":"eth0","ipv4":["o4"]}]"#;

fn pool(scene: &Scene, name: &str, ips: &str, exclude: &[&str]) {
    scene.world.put(json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:10:00Z", "generation": 1},
        "spec": {"subnet": "10.0.0.0/24", "ips": [ips], "excludeIPs": exclude, "ipVersion": 4},
    }));
}

/// A cluster in which `o4`, which shares nothing with `p4`, has served already.
fn both_serve() -> Scene {
    let scene = Scene::new(Policy::hardened());
    scene.change("SpiderIPPool", "p4", |pool| {
        pool["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        pool["metadata"]["generation"] = json!(1);
    });
    pool(&scene, "o4", "10.0.0.4-10.0.0.9", &["10.0.0.4-10.0.0.6"]);
    scene.pod("a", "a", Owner::Nobody, O4);
    assert_eq!(addresses(&scene.add("a", "a", "eth0").unwrap()), ["10.0.0.7"]);
    scene.pod("b", "b", Owner::Nobody, O4);
    scene
}

fn grown(pool: &mut Value) {
    pool["spec"]["excludeIPs"] = json!([]);
    pool["metadata"]["generation"] = json!(2);
}

#[test]
fn a_pool_that_excludes_less_is_compared_again() {
    let scene = both_serve();
    scene.change("SpiderIPPool", "o4", grown);
    scene.add("b", "b", "eth0").unwrap_err();
    assert_eq!(scene.of("b").len(), 0);
}

#[test]
fn a_pool_that_grew_since_the_cache_saw_it_is_compared_before_it_serves() {
    let scene = both_serve();
    let mut grows = true;
    scene.world.script(move |name, world| {
        if name == "get SpiderIPPool" && std::mem::replace(&mut grows, false) {
            world.change("SpiderIPPool", &ObjectKey::cluster("o4"), grown);
        }
        Deed::Serve
    });
    scene.add("b", "b", "eth0").unwrap_err();
    assert_eq!(scene.of("b").len(), 0);
}

#[test]
fn a_pool_that_was_made_anew_is_compared_again() {
    let scene = both_serve();
    scene.world.vanish("SpiderIPPool", &ObjectKey::cluster("o4"));
    pool(&scene, "twin", "10.0.0.8-10.0.0.9", &[]);
    pool(&scene, "o4", "10.0.0.4-10.0.0.9", &["10.0.0.4-10.0.0.6"]);
    scene.change("SpiderIPPool", "o4", |pool| pool["metadata"]["uid"] = json!("another"));
    scene.add("b", "b", "eth0").unwrap_err();
    assert_eq!(scene.of("b").len(), 0);
}

#[test]
fn a_record_that_was_lost_is_not_made_anew_in_a_pool_that_overlaps() {
    for overlaps in [false, true] {
        let mut scene = Scene::new(Policy::hardened());
        scene.pod("db-0", "u1", Owner::StatefulSet, P4);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.forget_record("p4", "10.0.0.1");
        if overlaps {
            pool(&scene, "o4", "10.0.0.1-10.0.0.3", &[]);
        }
        scene.restart_long_ago(&scene.world.clone());
        scene.pod("db-0", "u2", Owner::StatefulSet, P4);
        assert_eq!(scene.add("db-0", "u2", "eth0").is_ok(), !overlaps);
        assert_eq!(scene.of("u2").len(), usize::from(!overlaps));
    }
}
