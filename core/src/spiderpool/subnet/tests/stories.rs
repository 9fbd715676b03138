//! The controller and agents at work.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use serde_json::{Value, json};

use super::model::{application, demand};
use super::server::Server;
use crate::Env;
use crate::api::ObjectKey;
use crate::spiderpool::controller::{ControllerSettings, PoolController};
use crate::spiderpool::ranges::IpSet;
use crate::spiderpool::select::Settings;
use crate::spiderpool::subnet::{AutoPools, Reconciled, SpiderSubnet, SubnetController, Want};
use crate::spiderpool::{Policy, SpiderIPPool};
use crate::testing::TestEnv;

struct Scene {
    env: TestEnv,
    server: Server,
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn template(annotations: Value) -> Value {
    json!({"metadata": {"annotations": annotations}, "spec": {"containers": []}})
}

fn wants(number: &str) -> Value {
    json!({"ipam.spidernet.io/subnet": r#"{"ipv4":["s"]}"#, "ipam.spidernet.io/ippool-ip-number": number})
}

fn deployment(name: &str, replicas: i32, number: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {}, "template": template(wants(number))}})
}

fn with(switch: &str) -> Policy {
    let mut policy = Policy::hardened();
    *policy.switch(switch).unwrap() = true;
    policy
}

impl Scene {
    fn new(policy: Policy) -> Self {
        let env = TestEnv::new();
        let server = Server::new(&env, policy);
        Self { env, server }
    }

    fn with_subnet(policy: Policy) -> Self {
        let scene = Self::new(policy);
        scene.make_subnet();
        scene
    }

    fn make_subnet(&self) {
        self.server.create::<SpiderSubnet>(json!({"metadata": {"name": "s"},
            "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.20"]}}));
    }

    /// Starts both controllers.
    fn start(&self, policy: Policy) {
        let (env, server) = (self.env.clone(), self.server.clone());
        let settings = ControllerSettings::new(policy);
        let subnets = SubnetController::new(server.clone(), env.clone(), (), (), settings.clone(), Settings::default());
        self.env.spawn(async move { drop(subnets.run().await) });
        let pools = PoolController::new(server, env, settings);
        self.env.spawn(async move { drop(pools.run().await) });
        self.pass(1);
    }

    fn pass(&self, seconds: u64) {
        self.env.advance(Duration::from_secs(seconds));
    }

    /// How many addresses each pool has.
    fn sizes(&self) -> BTreeMap<String, u128> {
        let size = |pool: &SpiderIPPool| {
            let texts: Vec<_> = pool
                .spec
                .ips
                .iter()
                .flatten()
                .map(|text| crate::spiderpool::ranges::parse_range(text, 4, &Policy::hardened()).unwrap())
                .collect();
            texts.into_iter().collect::<IpSet>().count()
        };
        self.server.all::<SpiderIPPool>().iter().map(|pool| (pool.metadata.name.clone().unwrap(), size(pool))).collect()
    }

    fn only_size(&self) -> Option<u128> {
        let sizes = self.sizes();
        assert!(sizes.len() < 2, "{sizes:?}");
        sizes.into_values().next()
    }

    /// What the subnet sets aside for whom.
    fn set_aside(&self) -> Vec<(String, Vec<String>)> {
        let subnet = self.server.find::<SpiderSubnet>(&ObjectKey::cluster("s")).unwrap();
        let Some(status) = &subnet.status else { return Vec::new() };
        status.controlled_ippools.parse().unwrap().iter().map(|(name, entry)| (name.clone(), entry.ips.clone())).collect()
    }

    fn record(&self, pool: &str, records: Value) {
        let status = if records == json!({}) { json!({"allocatedIPCount": 0}) } else { json!({"allocatedIPs": records.to_string()}) };
        self.server.change::<SpiderIPPool>(&ObjectKey::cluster(pool), |value| value["status"] = status);
    }

    fn scale(&self, replicas: i32) {
        self.server.change::<Deployment>(&key("web"), |value| value["spec"]["replicas"] = json!(replicas));
    }

    fn auto_pools(&self, policy: Policy) -> AutoPools<Server, TestEnv> {
        AutoPools { client: self.server.clone(), env: self.env.clone(), observer: (), policy, lowest_first: false }
    }
}

#[test]
fn a_pool_lives_with_its_deployment() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let scene = Scene::with_subnet(policy);
        scene.start(policy);
        scene.server.create::<Deployment>(deployment("web", 3, "+1"));
        scene.pass(5);
        assert_eq!(scene.only_size(), Some(4));
        let pool = scene.server.all::<SpiderIPPool>()[0].clone();
        let name = pool.metadata.name.clone().unwrap();
        assert!(name.starts_with("auto4-web-eth0-"), "{name}");
        assert_eq!(scene.set_aside(), [(name.clone(), pool.spec.ips.clone().unwrap())]);
        scene.scale(6);
        scene.pass(5);
        assert_eq!(scene.only_size(), Some(7));
        scene.scale(2);
        scene.pass(5);
        assert_eq!(scene.only_size(), Some(3));
        let pool = scene.server.all::<SpiderIPPool>()[0].clone();
        assert_eq!(scene.set_aside(), [(name.clone(), pool.spec.ips.clone().unwrap())]);
        // The pool waits for its records, and the addresses for the pool.
        let ip = crate::spiderpool::ranges::parse_range(&pool.spec.ips.as_ref().unwrap()[0], 4, &policy).unwrap().first();
        scene.record(&name, json!({ip.to_string(): {"pod": "default/web-1", "podUid": "u"}}));
        scene.server.delete::<Deployment>(&key("web"));
        scene.pass(20);
        assert_eq!((scene.only_size(), scene.set_aside().len()), (Some(3), 1));
        scene.record(&name, json!({}));
        scene.pass(400);
        assert_eq!((scene.sizes().len(), scene.set_aside().len()), (0, 0));
    }
}

#[test]
fn each_kind_of_workload_gets_the_size_that_it_asks_for() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start(policy);
    let meta = |name: &str| json!({"name": name, "namespace": "default"});
    scene.server.create::<Job>(json!({"metadata": meta("job"), "spec": {"completions": 4, "template": template(wants("+0"))}}));
    scene.server.create::<CronJob>(json!({"metadata": meta("cron"),
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"parallelism": 2, "template": template(wants("+1"))}}}}));
    scene
        .server
        .create::<ReplicaSet>(json!({"metadata": meta("rs"), "spec": {"replicas": 1, "selector": {}, "template": template(wants("2"))}}));
    // These ask for nothing: the network of the host, a part of a Deployment, no annotation.
    let mut host = template(wants("2"));
    host["spec"]["hostNetwork"] = json!(true);
    scene.server.create::<Deployment>(json!({"metadata": meta("host"), "spec": {"replicas": 1, "selector": {}, "template": host}}));
    let mut part = meta("part");
    part["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d", "controller": true}]);
    scene.server.create::<ReplicaSet>(json!({"metadata": part, "spec": {"replicas": 1, "selector": {}, "template": template(wants("2"))}}));
    scene
        .server
        .create::<Deployment>(json!({"metadata": meta("plain"), "spec": {"replicas": 1, "selector": {}, "template": template(json!({}))}}));
    scene.pass(10);
    let sizes: BTreeMap<_, _> = scene.sizes().into_iter().map(|(name, size)| (name.split('-').nth(1).unwrap().to_owned(), size)).collect();
    assert_eq!(sizes, [("cron", 3), ("job", 4), ("rs", 2)].map(|(name, size)| (name.to_owned(), size)).into());
}

#[test]
fn a_pool_shrinks_when_pods_give_their_addresses_back() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start(policy);
    scene.server.create::<Deployment>(deployment("web", 3, "+0"));
    scene.pass(5);
    let pool = scene.server.all::<SpiderIPPool>()[0].clone();
    let name = pool.metadata.name.clone().unwrap();
    let ranges = pool.spec.ips.iter().flatten().map(|text| crate::spiderpool::ranges::parse_range(text, 4, &policy).unwrap());
    let ips: Vec<_> = ranges.flat_map(|range| range.iter()).collect();
    let records: serde_json::Map<String, Value> =
        ips.iter().map(|ip| (ip.to_string(), json!({"pod": "default/p", "podUid": "u"}))).collect();
    scene.record(&name, json!(records));
    scene.scale(1);
    scene.pass(20);
    assert_eq!(scene.only_size(), Some(3));
    scene.record(&name, json!({ips[1].to_string(): {"pod": "default/p", "podUid": "u"}}));
    scene.pass(20);
    let pool = scene.server.all::<SpiderIPPool>()[0].clone();
    assert_eq!(pool.spec.ips, Some(vec![ips[1].to_string()]));
    assert_eq!(scene.set_aside(), [(name, vec![ips[1].to_string()])]);
}

#[test]
fn a_subnet_that_comes_late_serves_those_who_waited_unless_they_were_given_up() {
    for (policy, served) in [(Policy::hardened(), true), (with("application-given-up"), false)] {
        let scene = Scene::new(policy);
        scene.start(policy);
        scene.server.create::<Deployment>(deployment("web", 3, "+0"));
        // 500 tries, 5 s apart.
        scene.pass(3000);
        scene.make_subnet();
        scene.pass(1200);
        assert_eq!(scene.only_size(), served.then_some(3));
    }
}

#[test]
fn a_pool_goes_when_its_annotation_does_and_no_pod_needs_it() {
    for (policy, stays) in [(Policy::hardened(), false), (with("removed-annotation-keeps-pool"), true)] {
        let scene = Scene::with_subnet(policy);
        scene.start(policy);
        scene.server.create::<Deployment>(deployment("web", 3, "+0"));
        scene.pass(5);
        scene.server.change::<Deployment>(&key("web"), |value| value["spec"]["template"] = template(json!({})));
        scene.pass(700);
        assert_eq!(!scene.sizes().is_empty(), stays);
        assert_eq!(!scene.set_aside().is_empty(), stays);
    }
}

#[test]
fn a_subnet_takes_its_pools_down_with_it() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start(policy);
    scene.server.create::<Deployment>(deployment("web", 3, "+0"));
    scene.server.create::<SpiderIPPool>(json!({"metadata": {"name": "mine"}, "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.9"]}}));
    scene.pass(5);
    assert_eq!(scene.set_aside().len(), 2);
    scene.record("mine", json!({"10.0.0.9": {"pod": "default/p", "podUid": "u"}}));
    scene.server.delete::<SpiderSubnet>(&ObjectKey::cluster("s"));
    scene.pass(20);
    assert_eq!(scene.sizes(), [("mine".to_owned(), 1)].into());
    assert!(scene.server.find::<SpiderSubnet>(&ObjectKey::cluster("s")).is_some(), "it waits for its last pool");
    scene.record("mine", json!({}));
    scene.pass(400);
    assert!(scene.sizes().is_empty());
    assert!(scene.server.find::<SpiderSubnet>(&ObjectKey::cluster("s")).is_none());
}

#[test]
fn what_admission_refuses_gives_back_what_was_set_aside() {
    for (policy, kept) in [(Policy::hardened(), false), (with("refused-pool-keeps-addresses"), true)] {
        let scene = Scene::with_subnet(Policy { manual_pool_ignores_preallocation: true, ..policy });
        // A pool without the label of its CIDR: it is not listed with the others, and admission sees it nevertheless.
        scene.server.put::<SpiderIPPool>(json!({"metadata": {"name": "old"},
            "spec": {"subnet": "10.0.0.0/24", "ipVersion": 4, "ips": ["10.0.0.1-10.0.0.20"]}}));
        let auto_pools = scene.auto_pools(Policy { manual_pool_ignores_preallocation: true, ..policy });
        let (application, demand) = (application("web", 1), demand(3));
        let want = Want { application: &application, demand: &demand };
        let refused = scene.env.block_on(auto_pools.reconcile(want, &IpSet::default()));
        assert!(matches!(refused, Err(super::super::ReconcileError::NotAdmitted(_))), "{refused:?}");
        assert_eq!(!scene.set_aside().is_empty(), kept);
    }
}

#[test]
fn a_stale_cache_of_workloads_takes_no_pool_away() {
    for (policy, stays) in [(Policy::hardened(), true), (with("auto-pool-reclaim-trusts-cache"), false)] {
        let scene = Scene::with_subnet(policy);
        // The cache does not show the new workload yet, but its pool, which another replica made.
        scene.server.hold::<Deployment>();
        scene.server.create::<Deployment>(deployment("web", 3, "+0"));
        let web = scene.server.find::<Deployment>(&key("web")).unwrap();
        let mut application = application("web", 1);
        application.uid = web.metadata.uid.clone().unwrap();
        let demand = demand(3);
        let made =
            scene.env.block_on(scene.auto_pools(policy).reconcile(Want { application: &application, demand: &demand }, &IpSet::default()));
        assert_eq!(made.unwrap(), Reconciled::Settled);
        scene.start(policy);
        scene.pass(30);
        assert_eq!(!scene.sizes().is_empty(), stays);
    }
}

/// Third-party controllers: agents make the pool, all at once.
#[test]
fn agents_that_make_one_pool_at_once_make_one_pool() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let scene = Scene::with_subnet(policy);
        for number in 0..8 {
            let auto_pools = AutoPools { lowest_first: number % 2 == 0, ..scene.auto_pools(policy) };
            let env = scene.env.clone();
            scene.env.spawn(async move {
                let (mut application, demand) = (application("web", 1), demand(3 + number % 2));
                application.name.kind = "CloneSet".to_owned();
                let want = Want { application: &application, demand: &demand };
                while auto_pools.reconcile(want, &IpSet::default()).await.is_err() {
                    env.sleep(Duration::from_secs(2)).await;
                }
            });
        }
        scene.pass(60);
        let sizes = scene.sizes();
        assert_eq!(sizes.len(), 1);
        let entries = scene.set_aside();
        assert_eq!(entries.len(), 1);
        let pool = scene.server.all::<SpiderIPPool>()[0].clone();
        assert_eq!(Some(&entries[0].1), pool.spec.ips.as_ref());
    }
}

#[test]
fn nothing_is_written_when_all_is_well() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    scene.start(policy);
    scene.server.create::<Deployment>(deployment("web", 3, "+0"));
    scene.pass(10);
    assert!(!scene.server.writes().is_empty());
    scene.pass(2000);
    assert_eq!(scene.server.writes(), [""; 0]);
    scene.server.refuse("update SpiderSubnet");
    scene.scale(4);
    scene.pass(10);
    assert_eq!(scene.only_size(), Some(3), "the subnet comes first");
}
