//! One replica, a few pools, and other clients that change objects.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::api_server::{Deed, World};
use crate::leadership::Leadership;
use crate::reclaim::{self, Event, PodEntry, Reclaim, ReclaimConfig, ScanCause, ScanCounts};
use crate::{Policy, SpiderEndpoint, SpiderIPPool};
use kube_machinery::api::{ApiError, ObjectKey};
use kube_machinery::env::Env;
use kube_machinery::testing::TestEnv;

/// Caches whose kinds may each be of a different time.
#[derive(Clone, Debug)]
pub(super) struct Views {
    pub(super) pods: World,
    pub(super) nodes: World,
    pub(super) endpoints: World,
    pub(super) pools: World,
    /// Whether endpoints can be neither listed nor read.
    pub(super) broken: bool,
}

impl reclaim::Caches for Views {
    fn pod(&self, key: &str) -> Result<Option<Arc<Pod>>, ApiError> {
        reclaim::Caches::pod(&self.pods, key)
    }

    fn pod_of_vm(&self, uid: &str) -> Result<Option<Arc<Pod>>, ApiError> {
        reclaim::Caches::pod_of_vm(&self.pods, uid)
    }

    fn node(&self, name: &str) -> Result<Option<Arc<Node>>, ApiError> {
        reclaim::Caches::node(&self.nodes, name)
    }

    fn endpoint(&self, key: &str) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        if self.broken {
            return Err(kube_machinery::api::TransportError::Refused.into());
        }
        reclaim::Caches::endpoint(&self.endpoints, key)
    }

    fn endpoints(&self) -> Result<Vec<Arc<SpiderEndpoint>>, ApiError> {
        if self.broken {
            return Err(kube_machinery::api::TransportError::Refused.into());
        }
        reclaim::Caches::endpoints(&self.endpoints)
    }

    fn pools(&self) -> Result<Vec<Arc<SpiderIPPool>>, ApiError> {
        reclaim::Caches::pools(&self.pools)
    }

    fn runs_until(&self, _: &str) -> Option<Timestamp> {
        None
    }
}

/// The owner of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Nobody,
    /// The StatefulSet `db`, see [`Scene::stateful_set`].
    StatefulSet,
    /// The VM instance of this name.
    Vm(&'static str),
}

pub(super) struct Scene {
    pub(super) env: TestEnv,
    pub(super) world: World,
    pub(super) views: Views,
    pub(super) config: ReclaimConfig,
    pub(super) reclaim: Arc<Reclaim<World, TestEnv, Views>>,
    pub(super) leadership: Leadership,
}

/// The start of the wall clock, in seconds.
const BEGAN: u64 = 10_000;

impl Scene {
    pub(super) fn new(policy: Policy) -> Self {
        let env = TestEnv::new();
        env.advance(Duration::from_secs(BEGAN));
        let world = World::default();
        for (pool, version, subnet) in [("p4", 4, "10.0.0.0/24"), ("p6", 6, "fd00::/64")] {
            world.put(json!({
                "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": pool},
                "spec": {"ipVersion": version, "subnet": subnet}, "status": {},
            }));
        }
        world.put(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }));
        let all = || world.clone();
        let views = Views { pods: all(), nodes: all(), endpoints: all(), pools: all(), broken: false };
        let config = ReclaimConfig::new(policy);
        let reclaim = Arc::new(Reclaim::new(world.clone(), env.clone(), views.clone(), (), config.clone()));
        Self { env, world, views, config, reclaim, leadership: Leadership::always() }
    }

    /// Restarts the replica: a process with empty memory, with the settings and caches as they are by now.
    pub(super) fn restart(&mut self) {
        self.reclaim = Arc::new(Reclaim::new(self.world.clone(), self.env.clone(), self.views.clone(), (), self.config.clone()));
    }

    /// The time `seconds` seconds from now.
    pub(super) fn time(&self, seconds: i64) -> String {
        (self.env.wall() + jiff::SignedDuration::from_secs(seconds)).to_string()
    }

    /// Puts a StatefulSet `db` with this number of replicas.
    pub(super) fn stateful_set(&self, replicas: i64) {
        self.world.put(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "ns", "uid": "db"},
            "spec": {"replicas": replicas, "selector": {}, "serviceName": "db", "template": {}},
        }));
    }

    /// Puts a VM instance of this name, without a status.
    pub(super) fn vm(&self, name: &str) {
        let meta = json!({"name": name, "namespace": "ns", "uid": name});
        self.world.put(json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": meta, "spec": {}}));
    }

    /// Puts a pod that runs on node `n`, in place of the one that had the name.
    pub(super) fn pod(&self, name: &str, uid: &str, owner: Owner) {
        let owner = match owner {
            Owner::Nobody => json!([]),
            Owner::StatefulSet => json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db", "controller": true}]),
            Owner::Vm(vm) => {
                json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": vm, "uid": vm, "controller": true}])
            }
        };
        self.gone(name);
        self.world.put(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "ns", "uid": uid, "ownerReferences": owner},
            "spec": {"nodeName": "n", "containers": [], "terminationGracePeriodSeconds": 30},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.99.0.1"}]},
        }));
    }

    /// Removes a pod's object.
    pub(super) fn gone(&self, name: &str) {
        self.world.vanish("Pod", &ObjectKey::namespaced("ns", name));
    }

    pub(super) fn change(&self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let cluster = ["SpiderIPPool", "Node"].contains(&kind);
        let key = if cluster { ObjectKey::cluster(name) } else { ObjectKey::namespaced("ns", name) };
        assert!(self.world.change(kind, &key, change), "{kind} {name}");
    }

    /// Marks a pod as terminating, with this grace period from `ago` seconds ago.
    pub(super) fn terminate(&self, name: &str, ago: i64, grace: i64) {
        let at = self.time(grace - ago);
        self.change("Pod", name, |pod| {
            (pod["metadata"]["deletionTimestamp"], pod["metadata"]["deletionGracePeriodSeconds"]) = (json!(at), json!(grace));
        });
    }

    /// Puts the endpoint of a pod with these addresses (pool and address), and a record of each.
    pub(super) fn endpoint(&self, name: &str, uid: &str, owner: Owner, ips: &[(&str, &str)]) {
        let mut detail = json!({"interface": "eth0"});
        for (pool, ip) in ips {
            let version = if ip.contains(':') { "ipv6" } else { "ipv4" };
            detail[version] = json!(format!("{ip}/24"));
            detail[format!("{version}Pool")] = json!(pool);
            self.record(pool, ip, &format!("ns/{name}"), uid);
        }
        let (kind, owners) = match owner {
            Owner::Nobody => ("Pod", json!([{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}])),
            Owner::StatefulSet => ("StatefulSet", json!([])),
            Owner::Vm(_) => ("VirtualMachineInstance", json!([])),
        };
        self.world.put(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
            "metadata": {
                "name": name, "namespace": "ns", "uid": format!("endpoint of {name}"), "ownerReferences": owners,
                "finalizers": ["spiderpool.spidernet.io"],
            },
            "status": {
                "current": {"uid": uid, "node": "n", "ips": [detail]}, "ownerControllerType": kind, "ownerControllerName": "db",
            },
        }));
    }

    /// Puts a pod with its endpoint and one address of `p4`.
    pub(super) fn whole_pod(&self, name: &str, uid: &str, owner: Owner, ip: &str) {
        self.pod(name, uid, owner);
        self.endpoint(name, uid, owner, &[("p4", ip)]);
    }

    pub(super) fn record(&self, pool: &str, ip: &str, pod: &str, uid: &str) {
        record(&self.world, pool, ip, pod, uid);
    }

    /// The UIDs of the records, by pool and address.
    pub(super) fn records(&self) -> Vec<String> {
        let mut records = Vec::new();
        for pool in self.world.all::<SpiderIPPool>() {
            let status = pool.status.unwrap_or_default();
            let parsed = status.allocated_ips.parse().unwrap();
            assert_eq!(status.allocated_ip_count.unwrap_or(0), i64::try_from(parsed.len()).unwrap(), "GS7");
            records.extend(parsed.iter().map(|(_, record)| record.pod_uid.clone()));
        }
        records
    }

    pub(super) fn endpoint_of(&self, name: &str) -> Option<Arc<SpiderEndpoint>> {
        self.world.find(&ObjectKey::namespaced("ns", name))
    }

    /// Whether a pod has its own endpoint, unmarked and with its finalizer.
    pub(super) fn is_served(&self, name: &str, uid: &str) -> bool {
        self.endpoint_of(name).is_some_and(|endpoint| {
            let meta = &endpoint.metadata;
            let held = meta.finalizers.iter().flatten().any(|name| name == "spiderpool.spidernet.io");
            held && meta.deletion_timestamp.is_none() && endpoint.status.as_ref().is_some_and(|status| status.current.uid == uid)
        })
    }

    pub(super) fn scan(&self) -> ScanCounts {
        self.env.block_on(self.reclaim.scan(&self.leadership, ScanCause::Asked))
    }

    /// Runs a scan that may hang, and then ends with its process.
    pub(super) fn scan_and_die(&self) {
        let (reclaim, leadership) = (self.reclaim.clone(), self.leadership.clone());
        let task = self.env.spawn(async move { _ = reclaim.scan(&leadership, ScanCause::Asked).await });
        self.env.advance(Duration::from_secs(1));
        kube_machinery::env::Task::abort(&task);
    }

    /// Judges an event of a pod.
    pub(super) fn event(&self, event: &Event<'_>) -> Result<(), reclaim::Row> {
        self.env.block_on(self.reclaim.take_event(&self.leadership, event))
    }

    /// Reports the current pod as added.
    pub(super) fn added(&self, name: &str) -> Result<(), reclaim::Row> {
        let pod = self.find_pod(name);
        self.event(&Event::Added(&pod))
    }

    /// Deletes the pod, and reports the deletion.
    pub(super) fn deleted(&self, name: &str) -> Result<(), reclaim::Row> {
        let pod = self.find_pod(name);
        self.gone(name);
        self.event(&Event::Deleted(&pod))
    }

    pub(super) fn find_pod(&self, name: &str) -> Arc<Pod> {
        self.world.find(&ObjectKey::namespaced("ns", name)).expect("there is such a pod")
    }

    /// Runs one pass of the trace worker, and all executors after it.
    pub(super) fn fire(&self) {
        self.env.block_on(self.pass());
    }

    async fn pass(&self) {
        let (sender, mut receiver) = mpsc::channel(100);
        self.reclaim.trace(&self.leadership, &sender).await;
        while let Ok(fired) = receiver.try_recv() {
            self.reclaim.see_to(&self.leadership, &fired).await;
        }
    }

    /// Runs one pass some time later.
    pub(super) fn fire_after(&self, seconds: u64) {
        self.env.advance(Duration::from_secs(seconds));
        self.fire();
    }

    pub(super) fn traced(&self) -> Vec<PodEntry> {
        self.reclaim.traced()
    }

    /// Calls `happens` just before the first request of this name is carried out.
    pub(super) fn before_first(&self, request: &'static str, happens: impl FnOnce(&World) + Send + 'static) {
        let happens = Mutex::new(Some(happens));
        self.world.script(move |name, world| {
            if name == request
                && let Some(happens) = happens.lock().unwrap().take()
            {
                happens(world);
            }
            Deed::Serve
        });
    }

    /// Refuses the first `times` requests of this name.
    pub(super) fn refuse(&self, request: &'static str, times: usize) {
        let mut left = times;
        self.world.script(move |name, _| {
            if name == request && left > 0 {
                left -= 1;
                return Deed::Refuse;
            }
            Deed::Serve
        });
    }
}

/// Makes a record from outside.
pub(super) fn record(world: &World, pool: &str, ip: &str, pod: &str, uid: &str) {
    let changed = world.change("SpiderIPPool", &ObjectKey::cluster(pool), |pool| {
        let text = pool["status"]["allocatedIPs"].as_str().unwrap_or("{}").to_owned();
        let mut records: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
        records.insert(ip.to_owned(), json!({"pod": pod, "podUid": uid}));
        pool["status"]["allocatedIPs"] = json!(serde_json::to_string(&records).unwrap());
        pool["status"]["allocatedIPCount"] = json!(records.len());
    });
    assert!(changed, "{pool}");
}

/// Does what the agent does for the next pod of a StatefulSet: re-owns the record if there is one, and the endpoint (G A7, A8).
pub(super) fn inherit(world: &World, name: &str, uid: &str) {
    world.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| {
        let text = pool["status"]["allocatedIPs"].as_str().unwrap_or("{}").to_owned();
        let mut records: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
        for record in records.values_mut().filter(|record| record["pod"] == json!(format!("ns/{name}"))) {
            record["podUid"] = json!(uid);
        }
        if !records.is_empty() {
            pool["status"]["allocatedIPs"] = json!(serde_json::to_string(&records).unwrap());
        }
    });
    world.change("SpiderEndpoint", &ObjectKey::namespaced("ns", name), |endpoint| endpoint["status"]["current"]["uid"] = json!(uid));
}
