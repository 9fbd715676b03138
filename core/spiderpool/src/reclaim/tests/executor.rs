//! The rows of the trace worker and of the executors, the sweep of upstream, and the output of `explain`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::api_server::{Fault, World};
use super::scene::{Owner, Scene, Views};
use crate::Policy;
use crate::leadership::Leadership;
use crate::reclaim::{Action, Dropped, Observer, Owners, Reclaim, ReclaimConfig, Releaser, ScanCause, Step, explain};
use kube_machinery::api::{ObjectKey, Reason};
use kube_machinery::env::Env;
use kube_machinery::kubevirt::{PodsOf, VirtualMachine, VirtualMachineInstance};
use kube_machinery::testing::TestEnv;

/// The rows that were reported.
#[derive(Clone, Default)]
struct Rows(Arc<Mutex<Vec<String>>>);

impl Observer for Rows {
    fn observe(&self, step: Step<'_>) {
        let text = match step {
            Step::EntryFired { row, .. } | Step::EntryHeld { row, .. } | Step::Executed { row, .. } => row.code().to_owned(),
            Step::EntryDropped { why: Dropped::GivenUp, .. } => "given up".to_owned(),
            Step::ReleaseBegun { by: Releaser::Sweep, row, .. } => row.code().to_owned(),
            _ => return,
        };
        self.0.lock().unwrap().push(text);
    }
}

/// A scene whose reclaim reports its rows.
struct Told {
    scene: Scene,
    rows: Rows,
    reclaim: Reclaim<World, TestEnv, Views, Rows>,
}

impl Told {
    fn new(policy: Policy, set: impl FnOnce(&mut ReclaimConfig)) -> Self {
        let (scene, rows) = (Scene::new(policy), Rows::default());
        let mut config = ReclaimConfig::new(policy);
        set(&mut config);
        let reclaim = Reclaim::new(scene.world.clone(), scene.env.clone(), scene.views.clone(), rows.clone(), config);
        Self { scene, rows, reclaim }
    }

    fn upstream() -> Self {
        Self::new(Policy::upstream(), |_| {})
    }

    /// Traces a pod that has been terminating for `ago` seconds, with a grace period of 30 s.
    fn traces(self, name: &str, owner: Owner, ago: i64) -> Self {
        self.scene.whole_pod(name, "u1", owner, "10.0.0.1");
        self.scene.terminate(name, ago, 30);
        self.enter(name);
        self
    }

    fn enter(&self, name: &str) {
        let pod = self.scene.find_pod(name);
        let event = crate::reclaim::Event::Added(&pod);
        self.scene.env.block_on(self.reclaim.take_event(&Leadership::always(), &event)).unwrap();
    }

    /// Runs one pass of the trace worker and the executors, and returns the rows.
    fn fire(&self) -> Vec<String> {
        self.rows.0.lock().unwrap().clear();
        self.scene.env.block_on(async {
            let (sender, mut receiver) = tokio::sync::mpsc::channel(100);
            self.reclaim.trace(&Leadership::always(), &sender).await;
            while let Ok(fired) = receiver.try_recv() {
                self.reclaim.see_to(&Leadership::always(), &fired).await;
            }
        });
        self.rows.0.lock().unwrap().clone()
    }

    fn cache_fails(&self, kind: &str) {
        let fault = Fault { op: "get".into(), cached: true, kind: kind.into(), name: "*".into(), reason: Reason::InternalError };
        self.scene.world.fail(vec![fault]);
    }
}

#[test]
fn a_deleted_vm_keeps_its_address_while_a_pod_of_it_runs_that_its_instance_does_not_count_yet() {
    for (other, keeps) in [("is listed", true), ("is named", true), ("has ended", false), ("is gone", false)] {
        let scene = Scene::new(Policy::hardened());
        scene.vm("vm");
        scene.pod("virt-1", "u1", Owner::Vm("vm"));
        scene.pod("virt-2", "u2", Owner::Vm("vm"));
        scene.endpoint("vm", "u1", Owner::Vm("vm"), &[("p4", "10.0.0.1")]);
        let (now, target) = (scene.time(0), if other == "is named" { json!("virt-2") } else { json!(null) });
        scene.change("VirtualMachineInstance", "vm", |vm| {
            vm["metadata"]["finalizers"] = json!(["foregroundDeleteVirtualMachine"]);
            vm["metadata"]["deletionTimestamp"] = json!(now);
            vm["status"] = json!({"activePods": {"u1": "n"}, "migrationState": {"sourcePod": "virt-1", "targetPod": target}});
        });
        match other {
            "is listed" => scene.change("Pod", "virt-2", |pod| pod["metadata"]["labels"] = json!({"kubevirt.io/created-by": "vm"})),
            "has ended" => scene.change("Pod", "virt-2", |pod| {
                pod["metadata"]["labels"] = json!({"kubevirt.io/created-by": "vm"});
                pod["status"]["phase"] = json!("Failed");
            }),
            "is gone" => scene.gone("virt-2"),
            _ => {}
        }
        scene.terminate("virt-1", 100, 30);
        scene.scan();
        assert_eq!(!scene.records().is_empty(), keeps, "the other one {other}");
    }
}

#[test]
fn a_vm_that_is_gone_keeps_its_address_while_a_pod_of_it_runs() {
    let pods = [("runs", true), ("has ended", false), ("is another VM's", false), ("is gone", false)];
    // The endpoint is the pod's, or still its predecessor's.
    for (uid, (pod, keeps)) in ["u1", "u0"].into_iter().flat_map(|uid| pods.map(|pod| (uid, pod))) {
        let scene = Scene::new(Policy::hardened());
        let (of, holder) = if pod == "is another VM's" { ("other", "u0") } else { ("vm", uid) };
        scene.pod("virt-1", "u1", Owner::Vm(of));
        scene.change("Pod", "virt-1", |pod| {
            pod["metadata"]["labels"] = json!({"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "earlier"});
        });
        scene.endpoint("vm", holder, Owner::Vm("vm"), &[("p4", "10.0.0.1")]);
        match pod {
            "has ended" => scene.change("Pod", "virt-1", |pod| pod["status"]["phase"] = json!("Failed")),
            "is gone" => scene.gone("virt-1"),
            _ => {}
        }
        scene.scan();
        let left = (!scene.records().is_empty(), scene.endpoint_of("vm").is_some());
        assert_eq!(left, (keeps, keeps), "the pod {pod}, the endpoint is of {holder}");
    }
}

#[test]
fn an_entry_waits_for_its_deadline_and_a_cache_that_fails() {
    // "TD-1": an entry that is not due is not reported.
    let told = Told::upstream().traces("a", Owner::Nobody, 60);
    assert_eq!(told.fire(), [""; 0]);
    told.scene.env.advance(Duration::from_secs(1));
    told.cache_fails("Pod");
    assert_eq!(told.fire(), ["TD-2"]);
    told.scene.world.fail(vec![]);
    assert_eq!(told.fire(), ["TD-3", "XD-4"]);
    assert!(told.scene.records().is_empty());
    assert_eq!(told.fire(), [""; 0], "it is done");
}

#[test]
fn upstream_leaves_the_endpoint_of_a_stateless_pod_to_kubernetes() {
    let told = Told::upstream().traces("a", Owner::Nobody, 61);
    told.fire();
    let endpoint = told.scene.endpoint_of("a").unwrap();
    assert_eq!((endpoint.metadata.finalizers.clone(), endpoint.metadata.deletion_timestamp.is_some()), (None, false));
    let told = Told::upstream().traces("db-0", Owner::StatefulSet, 61);
    told.fire();
    assert!(told.scene.endpoint_of("db-0").is_none());
}

#[test]
fn a_pod_without_ips_is_forgotten_before_it_is_released() {
    let told = Told::upstream().traces("a", Owner::Nobody, 61);
    told.scene.change("Pod", "a", |pod| pod["status"]["podIPs"] = json!([]));
    assert_eq!(told.fire(), ["TD-4", "XD-4"]);
    assert!(told.reclaim.traced().is_empty());
}

#[test]
fn the_node_is_asked_when_the_deadline_has_passed() {
    let told = Told::new(Policy::hardened(), |config| config.settings.on_ready_node = false).traces("a", Owner::Nobody, 61);
    assert_eq!(told.fire(), ["TD-5"]);
    assert_eq!((told.scene.records().len(), told.reclaim.traced().len()), (1, 1));
}

#[test]
fn what_the_next_pod_of_a_name_has_waits_for_the_cache_to_show_its_end_though_the_endpoint_there_is_the_last_ones() {
    for recorded in [true, false] {
        let mut scene = Scene::new(Policy::hardened());
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.views.endpoints = scene.world.frozen();
        if !recorded {
            scene.change("SpiderIPPool", "p4", |pool| pool["status"] = json!({}));
        }
        scene.whole_pod("a", "u2", Owner::Nobody, "10.0.0.2");
        scene.views.pods = scene.world.frozen();
        // It is deleted by force, and its containers run on.
        scene.gone("a");
        scene.restart();
        scene.scan();
        let kept = (scene.records().contains(&"u2".to_owned()), scene.is_served("a", "u2"));
        assert_eq!(kept, (true, true), "the last one's record is there: {recorded}");
        scene.views.pods = scene.world.clone();
        scene.restart();
        scene.scan();
        assert_eq!((scene.records(), scene.endpoint_of("a").is_some()), (vec![], false));
    }
}

#[test]
fn a_pod_whose_end_was_seen_is_not_held_back_by_a_cache_that_shows_it_running() {
    for (ended, waits) in [(true, false), (false, true)] {
        let mut scene = Scene::new(Policy::hardened());
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        // The watch of the cache is lost from now on.
        scene.views.pods = scene.world.frozen();
        scene.restart();
        if ended {
            scene.change("Pod", "a", |pod| pod["status"] = json!({"phase": "Failed"}));
        }
        scene.deleted("a").unwrap();
        // A process that did not see its end does not learn of it by looking again.
        scene.scan();
        assert_eq!(scene.records(), ["u1"]);
        scene.fire_after(1);
        assert_eq!(scene.records().is_empty(), !waits);
        scene.fire_after(58);
        assert_eq!(scene.records().is_empty(), !waits);
        scene.fire_after(2);
        assert!(scene.records().is_empty(), "twice the grace is over");
    }
}

#[test]
fn without_an_endpoint_of_its_own_upstream_leaves_the_pod_to_a_scan() {
    let told = Told::upstream().traces("a", Owner::Nobody, 61);
    told.scene.change("SpiderEndpoint", "a", |endpoint| endpoint["status"]["current"]["uid"] = json!("u2"));
    assert_eq!(told.fire(), ["TD-3", "XD-3"]);
    let told = Told::upstream().traces("a", Owner::Nobody, 61);
    told.scene.world.vanish("SpiderEndpoint", &ObjectKey::namespaced("ns", "a"));
    assert_eq!(told.fire(), ["TD-3", "XD-1"]);
    assert_eq!((told.scene.records().len(), told.reclaim.traced().len()), (1, 0));
}

#[test]
fn a_release_that_fails_comes_back_five_times() {
    let told = Told::upstream().traces("a", Owner::Nobody, 61);
    told.cache_fails("SpiderEndpoint");
    // "XD-2": the cached endpoint cannot be read.
    for requeues in 1..=5 {
        assert_eq!(told.fire(), ["TD-3"]);
        assert_eq!(told.reclaim.traced()[0].requeues, requeues);
    }
    assert_eq!(told.fire(), ["TD-3", "given up"]);
    assert!(told.reclaim.traced().is_empty() && told.scene.records().len() == 1);
}

#[test]
fn the_pod_of_a_vm_is_traced_to_the_endpoint_of_the_vm_and_upstream_finds_none() {
    let story = |told: Told| {
        told.scene.pod("virt-launcher-vm-x", "u1", Owner::Vm("vm"));
        told.scene.endpoint("vm", "u1", Owner::Vm("vm"), &[("p4", "10.0.0.1")]);
        told.scene.terminate("virt-launcher-vm-x", 61, 30);
        told.enter("virt-launcher-vm-x");
        let rows = told.fire();
        (rows, told.scene.records().len())
    };
    assert_eq!(story(Told::upstream()), (vec!["TD-3".to_owned(), "XD-1".to_owned()], 1));
    assert_eq!(story(Told::new(Policy::hardened(), |_| {})), (vec!["TD-3".to_owned(), "G-over".to_owned()], 0));
}

#[test]
fn upstreams_sweep_looks_at_records_only() {
    let told = Told::new(Policy::upstream(), |config| config.settings.clean_outdated_endpoints = true);
    told.scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
    told.scene.whole_pod("b", "u2", Owner::Nobody, "10.0.0.2");
    told.scene.change("SpiderIPPool", "p4", |pool| {
        pool["status"] = json!({"allocatedIPs": r#"{"10.0.0.1":{"pod":"ns/a","podUid":"u1"}}"#, "allocatedIPCount": 1});
    });
    told.scene.env.block_on(told.reclaim.scan(&Leadership::always(), ScanCause::Asked));
    assert_eq!(*told.rows.0.lock().unwrap(), ["C8"]);
    assert!(told.scene.endpoint_of("a").is_some() && told.scene.endpoint_of("b").is_none(), "though its pod lives");
}

/// A cluster without any owner.
struct Nobody;

impl Owners for Nobody {
    fn stateful_set(&self, _: &ObjectKey) -> Option<Arc<StatefulSet>> {
        None
    }

    fn instance(&self, _: &ObjectKey) -> Option<Arc<VirtualMachineInstance>> {
        None
    }

    fn pods(&self, _: PodsOf<'_>) -> Vec<Arc<Pod>> {
        Vec::new()
    }

    fn machine(&self, _: &ObjectKey) -> Option<Arc<VirtualMachine>> {
        None
    }
}

#[test]
fn explain_tells_what_a_scan_would_do_and_when() {
    let scene = Scene::new(Policy::hardened());
    scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
    scene.whole_pod("b", "u2", Owner::Nobody, "10.0.0.2");
    scene.terminate("b", 0, 30);
    scene.record("p4", "10.0.0.3", "ns/c", "u3");
    scene.endpoint("db-0", "u4", Owner::StatefulSet, &[]);
    let told = explain(&scene.views, &Nobody, scene.env.wall(), &scene.config.settings, &scene.config.policy);
    let shown: Vec<_> = told.iter().map(|one| (one.key.as_str(), one.action, one.endpoint, one.row.code())).collect();
    assert_eq!(
        shown,
        [
            ("ns/a", Action::Keep, false, "P-6"),
            ("ns/b", Action::Track, false, "G-trace"),
            ("ns/c", Action::Release, false, "S-3"),
            ("ns/db-0", Action::Release, true, "S-4i"),
        ]
    );
    assert_eq!(told[1].at.unwrap().to_string(), scene.time(60));
    assert_eq!(told[3].pool, None);
    assert_eq!(scene.records().len(), 3, "nothing was done");
}

#[test]
fn a_record_under_a_key_that_is_no_address_is_told_to_stay_and_stays() {
    let told = Told::new(Policy::hardened(), |_| {});
    told.scene.record("p4", "10.0.0.1", "ns/gone", "u1");
    told.scene.record("p4", "zz", "ns/gone", "u1");
    told.scene.record("p4", "10.0.0.2", "/slash", "u2");
    let (views, now) = (&told.scene.views, told.scene.env.wall());
    let explained = explain(views, &Nobody, now, &told.scene.config.settings, &told.scene.config.policy);
    let mut shown: Vec<_> = explained.iter().map(|one| (one.ip.as_deref().unwrap(), one.action, one.row.code())).collect();
    shown.sort();
    assert_eq!(shown, [("10.0.0.1", Action::Release, "S-3"), ("10.0.0.2", Action::Release, "S-3"), ("zz", Action::Keep, "S-0a")]);
    told.scene.env.block_on(told.reclaim.scan(&Leadership::always(), ScanCause::Asked));
    assert_eq!(told.scene.records(), ["u1"], "that of `zz`");
}
