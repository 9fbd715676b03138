//! A stage for one claim: what happens around Spiderpool, made in a line each.

mod answers;
mod choice;
mod subnets;
mod watch_caches;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::admission::{AdmissionSettings, Denial, Listed};
use ipam_spiderpool::ipam::DelOutcome;
use ipam_spiderpool::reclaim::{ReclaimSettings, Releaser, Row, Target};
use ipam_spiderpool::{PoolIPAllocation, SpiderEndpoint, SpiderIPPool, SpiderReservedIP};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_machinery::Object;
use kube_machinery::ObjectKey;
use kube_machinery::api::{Reason, Verb};
use kube_machinery::kubevirt::VirtualMachineInstance;
use kube_sim::kinds::Registry;
use kube_sim::node::PodNote;
use kube_sim::object::{Obj, typed_ref};
use kube_sim::rt::{ProcessId, Rt};
use kube_sim::trace::{Event, EventKind, FaultChange, Outcome, ProcessChange, WatchKind};
use serde_json::{Value, json};
use sim_config::time::SimTime;
use sim_harness::claim::{Claims, find};
use sim_harness::workload::OutOfReach;

use super::group::IpamGroup;
use super::{Terms, View};
use crate::workload::{Cause, Given, HookAnswer, HookNote, How, IpamNote, Known, ReclaimNote, Refusal};

/// The claim under test, and the cluster that it sees.
pub(super) struct Stage {
    rt: Rt,
    claims: Claims,
    claim: &'static str,
    now: SimTime,
    pub(super) revision: u64,
    registry: Registry,
    objects: BTreeMap<(&'static str, ObjectKey), Obj>,
    /// What an agent knew when it asked last.
    caches: Option<Arc<Known>>,
    /// `agent-0`, which claims take for an agent from the beginning.
    pub(super) agent: ProcessId,
    /// An agent of another node.
    pub(super) other_agent: ProcessId,
    /// A process of another name than the parts of the cluster have: what it writes is by hand.
    pub(super) person: ProcessId,
    /// A part of the cluster that is no agent.
    pub(super) kubelet: ProcessId,
    /// Two replicas of the controller.
    pub(super) replicas: [ProcessId; 2],
}

/// Runs `test` with the claim called `claim`.
pub(super) fn on_stage(claim: &'static str, test: impl FnOnce(&mut Stage)) {
    on_stage_with(claim, |_| (), test);
}

/// The same under other settings of reclaim. Two replicas are in the plan.
pub(super) fn on_stage_with(claim: &'static str, set: impl FnOnce(&mut ReclaimSettings), test: impl FnOnce(&mut Stage)) {
    on_stage_under(claim, |terms| set(&mut terms.settings), test);
}

/// The same under other terms.
pub(super) fn on_stage_under(claim: &'static str, set: impl FnOnce(&mut Terms), test: impl FnOnce(&mut Stage)) {
    let mut terms = Terms::default();
    set(&mut terms);
    terms.replicas = ["spiderpool-controller-0", "spiderpool-controller-1"].map(str::to_owned).to_vec();
    kube_sim::rt::run(1, async |rt| {
        let process = |name: &str| rt.add_process(rt.add_host(name), name);
        let (agent, other_agent, person, kubelet) = (process("agent-0"), process("agent-1"), process("operator"), process("kubelet-0"));
        let replicas = [process("spiderpool-controller-0"), process("spiderpool-controller-1")];
        let registry = sim_harness::served::registry();
        let view = View::new(&rt, &registry, OutOfReach::default(), terms);
        let claims = Claims::of_group(find(claim).expect("the claim is in the catalogue"), || Box::new(IpamGroup::new(view)));
        let (now, revision, objects) = (SimTime::ZERO, 1, BTreeMap::new());
        let caches = None;
        let mut stage =
            Stage { rt, claims, claim, now, revision, registry, objects, caches, agent, other_agent, person, kubelet, replicas };
        // Whoever says what agents say is one.
        for agent in [agent, other_agent] {
            stage.say(agent, IpamNote::Unqueued { ticket: 0 });
        }
        test(&mut stage);
    });
}

/// The address that a literal spells; panics if it is none.
pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().expect("the test's address is one")
}

/// Addresses of NICs: the NIC, the pool, the address.
pub(super) type Addresses<'a> = &'a [(&'a str, &'a str, &'a str)];

fn given(addresses: Addresses<'_>) -> Arc<[Given]> {
    addresses
        .iter()
        .map(|(nic, pool, address)| Given { nic: (*nic).into(), pool: (*pool).into(), address: ip(address), gateway: None })
        .collect()
}

impl Stage {
    fn event(&mut self, kind: EventKind<'_>) {
        self.now += Duration::from_millis(1);
        self.claims.observe(&Event { at: self.now, kind });
    }

    /// Moves the clock on without an event, and judges the bounds that are over by then.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.claims.judge_bounds(self.now);
    }

    /// A process changes its state.
    pub(super) fn process_changes(&mut self, process: ProcessId, change: ProcessChange) {
        self.event(EventKind::Process { process, change });
    }

    /// A replica of the controller says something.
    pub(super) fn reclaims(&mut self, replica: ProcessId, note: ReclaimNote) {
        self.event(EventKind::Note { process: replica, note: &note });
    }

    /// A replica of the controller has judged an update of a pool.
    pub(super) fn judges(&mut self, old: &SpiderIPPool, new: SpiderIPPool, denied: Option<&str>) {
        let denied = denied.map(|why| Denial::Forbidden(why.to_owned()));
        self.judges_beside(Some(old.clone()), Some(new), Listed::default(), denied);
    }

    /// A replica of the controller has judged a pool beside what it had listed.
    pub(super) fn judges_beside(&mut self, old: Option<SpiderIPPool>, new: Option<SpiderIPPool>, listed: Listed, denied: Option<Denial>) {
        let answer = HookAnswer::Judged { listed: Arc::new(listed), denied: denied.map(Arc::new) };
        self.answers(old, new, answer);
    }

    /// A webhook of a replica of the controller answers a request about a pool.
    pub(super) fn answers(&mut self, old: Option<SpiderIPPool>, new: Option<SpiderIPPool>, answer: HookAnswer) {
        let (kind, key) = (self.registry.id::<SpiderIPPool>(), new.as_ref().or(old.as_ref()).map(ObjectKey::of));
        let object = |pool: Option<SpiderIPPool>| pool.map(|pool| Arc::new(pool) as Obj);
        let note = HookNote { kind, key, old: object(old), new: object(new), settings: AdmissionSettings::default(), answer };
        self.event(EventKind::Note { process: self.replicas[0], note: &note });
    }

    /// A fault begins or ends.
    pub(super) fn fault(&mut self, change: FaultChange) {
        self.event(EventKind::Fault { index: 0, change });
    }

    /// The clock of a process is ahead of the true time by so much.
    pub(super) fn clock_ahead(&mut self, process: ProcessId, by: Duration) {
        let host = self.rt.host_of(process);
        self.rt.adjust_clock(host, |clock, _| clock.step_wall(by.as_micros() as i64));
    }

    /// A list of all objects of a type is answered.
    pub(super) fn lists<K: Object>(&mut self, client: ProcessId) {
        let kind = self.registry.id::<K>();
        self.event(EventKind::Answer { client, verb: Verb::List, kind, key: None, outcome: Outcome::Ok });
    }

    /// Somebody begins a watch of pods with all that there are.
    pub(super) fn streams_pods(&mut self, client: ProcessId) {
        let kind = self.registry.id::<Pod>();
        self.event(EventKind::Request { client, server: self.kubelet, verb: Verb::Watch, kind, key: None });
        let of_type = |((name, _), object): (&(&str, ObjectKey), &Obj)| (*name == std::any::type_name::<Pod>()).then(|| object.clone());
        let pods: Vec<Obj> = self.objects.iter().filter_map(of_type).collect();
        for pod in &pods {
            self.event(EventKind::Deliver { client, kind, what: WatchKind::Added, revision: 1, object: Some(pod) });
        }
        let revision = self.revision;
        self.event(EventKind::Deliver { client, kind, what: WatchKind::InitialEventsEnd, revision, object: None });
    }

    /// Somebody asks for an object.
    pub(super) fn asks<K: Object>(&mut self, client: ProcessId, key: &ObjectKey) {
        let kind = self.registry.id::<K>();
        self.event(EventKind::Request { client, server: self.kubelet, verb: Verb::Get, kind, key: Some(key) });
    }

    /// A replica announces that it releases records of a pod: pool and address; and the endpoint, too.
    pub(super) fn announce(&mut self, replica: ProcessId, key: &str, uid: &str, what: &[(&str, &str)]) {
        let target = |(pool, address): &(&str, &str)| Target { pool: (*pool).into(), ip: ip(address), uid: uid.into() };
        let what = what.iter().map(target).collect();
        let (by, key, endpoint, row) = (Releaser::Scan, key.into(), true, Row::NoPod);
        self.reclaims(replica, ReclaimNote::ReleaseBegun { by, key, what, endpoint, row });
    }

    /// A replica reclaims one address of a pod: says so, marks the endpoint if there is one, removes the record.
    pub(super) fn reclaim(&mut self, replica: ProcessId, key: &str, uid: &str, pool: &str, address: &str) {
        self.announce(replica, key, uid, &[(pool, address)]);
        self.mark(replica, key);
        self.unrecord(replica, pool, address);
    }

    /// Somebody marks an endpoint, if there is one: it is terminating then.
    pub(super) fn mark(&mut self, by: ProcessId, key: &str) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        let key = ObjectKey::namespaced(namespace, name);
        if !self.objects.contains_key(&(std::any::type_name::<SpiderEndpoint>(), key.clone())) {
            return;
        }
        self.change::<SpiderEndpoint>(by, &key, |endpoint| {
            endpoint.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-05T09:00:00Z")).expect("that is a time");
        });
    }

    /// Somebody removes the finalizer of an endpoint.
    pub(super) fn let_go(&mut self, by: ProcessId, key: &str) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        self.change::<SpiderEndpoint>(by, &ObjectKey::namespaced(namespace, name), |endpoint| endpoint.metadata.finalizers = None);
    }

    /// A node is ready or not.
    pub(super) fn node_is(&mut self, name: &str, ready: bool) {
        let status = if ready { "True" } else { "Unknown" };
        let value = json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": status}]}});
        self.write::<Node>(self.kubelet, value);
    }

    /// A node becomes ready, and the replicas are shown it.
    pub(super) fn node_returns(&mut self, name: &str) {
        let since = kube_sim::cluster::later(kube_sim::cluster::EPOCH, jiff::SignedDuration::from_micros(self.now.as_micros() as i64));
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": since.to_string()});
        self.write::<Node>(self.kubelet, json!({"metadata": {"name": name}, "status": {"conditions": [ready]}}));
        for replica in self.replicas {
            self.deliver::<Node>(replica);
        }
    }

    /// The same, and the replicas are shown it.
    pub(super) fn node_is_shown(&mut self, name: &str, ready: bool) {
        self.node_is(name, ready);
        for replica in self.replicas {
            self.deliver::<Node>(replica);
        }
    }

    /// Adds a process on a host of its own; what claims take it for follows from its name and from what it says.
    pub(super) fn process(&mut self, name: &str) -> ProcessId {
        self.rt.add_process(self.rt.add_host(name), name)
    }

    /// An agent says something.
    pub(super) fn say(&mut self, process: ProcessId, note: IpamNote) {
        self.event(EventKind::Note { process, note: &note });
    }

    /// A node says something.
    pub(super) fn node(&mut self, note: PodNote) {
        self.event(EventKind::Note { process: self.kubelet, note: &note });
    }

    /// Somebody writes an object, `None` = it is gone.
    pub(super) fn put<K: Object>(&mut self, by: ProcessId, key: &ObjectKey, object: Option<K>) {
        self.revision += 1;
        let after = object.map(|object| Arc::new(object) as Obj);
        let id = (std::any::type_name::<K>(), key.clone());
        let before = match &after {
            Some(after) => self.objects.insert(id, after.clone()),
            None => self.objects.remove(&id),
        };
        let (kind, revision) = (self.registry.id::<K>(), self.revision);
        let verb = if before.is_none() { Verb::Create } else { Verb::Update };
        let (before, after) = (before.as_ref(), after.as_ref());
        self.event(EventKind::Commit { client: by, server: self.kubelet, verb, kind, key, revision, before, after, content: 0 });
    }

    /// Somebody writes an object as JSON.
    pub(super) fn write<K: Object>(&mut self, by: ProcessId, value: Value) {
        let object: K = serde_json::from_value(value).expect("the test's object fits its type");
        self.put(by, &ObjectKey::of(&object), Some(object));
    }

    /// Somebody changes an object.
    pub(super) fn change<K: Object>(&mut self, by: ProcessId, key: &ObjectKey, change: impl FnOnce(&mut K)) {
        let object = &self.objects[&(std::any::type_name::<K>(), key.clone())];
        let mut object = typed_ref::<K>(&**object).clone();
        change(&mut object);
        self.put(by, key, Some(object));
    }

    /// A watch tells a process everything of a type up to now.
    pub(super) fn deliver<K: Object>(&mut self, client: ProcessId) {
        let (kind, revision) = (self.registry.id::<K>(), self.revision);
        self.event(EventKind::Deliver { client, kind, what: WatchKind::Bookmark, revision, object: None });
    }

    /// An agent reads a pool.
    pub(super) fn read(&mut self, client: ProcessId, pool: &str) {
        let (kind, key) = (self.registry.id::<SpiderIPPool>(), ObjectKey::cluster(pool));
        self.event(EventKind::Request { client, server: self.kubelet, verb: Verb::Get, kind, key: Some(&key) });
        self.event(EventKind::Answer { client, verb: Verb::Get, kind, key: Some(&key), outcome: Outcome::Ok });
    }

    /// An agent sends a write of a pool.
    pub(super) fn sends_write(&mut self, client: ProcessId, pool: &str) {
        let (kind, key) = (self.registry.id::<SpiderIPPool>(), ObjectKey::cluster(pool));
        self.event(EventKind::Request { client, server: self.kubelet, verb: Verb::Update, kind, key: Some(&key) });
    }

    /// The write of a pool is refused.
    pub(super) fn refused_write(&mut self, client: ProcessId, reason: Reason) {
        let (kind, key) = (self.registry.id::<SpiderIPPool>(), ObjectKey::cluster("p"));
        let outcome = Outcome::Http(409, reason);
        self.event(EventKind::Answer { client, verb: Verb::Update, kind, key: Some(&key), outcome });
    }

    /// A person makes a pool of these ranges.
    pub(super) fn pool(&mut self, name: &str, ips: &[&str]) {
        let v6 = ips.iter().any(|range| range.contains(':'));
        let (version, subnet) = if v6 { (6, "fd00::/64") } else { (4, "10.0.0.0/24") };
        let spec = json!({"ipVersion": version, "subnet": subnet, "ips": ips});
        let metadata = json!({"name": name, "finalizers": ["spiderpool.spidernet.io"]});
        self.write::<SpiderIPPool>(self.person, json!({"metadata": metadata, "spec": spec, "status": {}}));
    }

    /// Somebody changes a pool.
    pub(super) fn change_pool(&mut self, by: ProcessId, name: &str, change: impl FnOnce(&mut SpiderIPPool)) {
        self.change(by, &ObjectKey::cluster(name), change);
    }

    /// Somebody records an address.
    pub(super) fn record(&mut self, by: ProcessId, pool: &str, address: &str, pod: &str, uid: &str) {
        self.change_pool(by, pool, |pool| {
            let status = pool.status.get_or_insert_default();
            let records = status.allocated_ips.make_mut().expect("the records can be read");
            records.insert(ip(address), PoolIPAllocation { interface: None, pod: pod.to_owned(), pod_uid: uid.to_owned() });
            status.allocated_ip_count = Some(records.len() as i64);
        });
    }

    /// Somebody records an address for a NIC of a pod that is called as its UID.
    pub(super) fn record_for(&mut self, by: ProcessId, pool: &str, address: &str, uid: &str, nic: &str) {
        self.change_pool(by, pool, |pool| {
            let status = pool.status.get_or_insert_default();
            let records = status.allocated_ips.make_mut().expect("the records can be read");
            let record = PoolIPAllocation { interface: Some(nic.to_owned()), pod: format!("ns/{uid}"), pod_uid: uid.to_owned() };
            records.insert(ip(address), record);
            status.allocated_ip_count = Some(records.len() as i64);
        });
    }

    /// Somebody removes a record.
    pub(super) fn unrecord(&mut self, by: ProcessId, pool: &str, address: &str) {
        self.change_pool(by, pool, |pool| {
            let status = pool.status.get_or_insert_default();
            let records = status.allocated_ips.make_mut().expect("the records can be read");
            records.remove(ip(address));
            status.allocated_ip_count = Some(records.len() as i64);
        });
    }

    /// A person reserves ranges.
    pub(super) fn reserve(&mut self, name: &str, ips: &[&str]) {
        let spec = json!({"ipVersion": 4, "ips": ips});
        self.write::<SpiderReservedIP>(self.person, json!({"metadata": {"name": name}, "spec": spec}));
    }

    /// Somebody writes the endpoint of a pod.
    pub(super) fn endpoint(&mut self, by: ProcessId, key: &str, uid: &str, addresses: Addresses<'_>) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        let entry = |(nic, pool, address): &(&str, &str, &str)| {
            if address.contains(':') {
                json!({"interface": nic, "ipv6": format!("{address}/64"), "ipv6Pool": pool})
            } else {
                json!({"interface": nic, "ipv4": format!("{address}/24"), "ipv4Pool": pool})
            }
        };
        let current = json!({"uid": uid, "node": "node-0", "ips": addresses.iter().map(entry).collect::<Vec<_>>()});
        let status = json!({"current": current, "ownerControllerType": "Pod", "ownerControllerName": name});
        let metadata = json!({"name": name, "namespace": namespace, "finalizers": ["spiderpool.spidernet.io"]});
        self.write::<SpiderEndpoint>(by, json!({"metadata": metadata, "status": status}));
    }

    /// The endpoint of a pod is gone.
    pub(super) fn endpoint_gone(&mut self, by: ProcessId, key: &str) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        self.put::<SpiderEndpoint>(by, &ObjectKey::namespaced(namespace, name), None);
    }

    fn pod_object(&mut self, key: &str, uid: &str, owner: Option<Value>) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        let metadata = json!({"name": name, "namespace": namespace, "uid": uid, "ownerReferences": owner.into_iter().collect::<Vec<_>>()});
        let spec = json!({"nodeName": "node-0", "containers": []});
        self.write::<Pod>(self.kubelet, json!({"metadata": metadata, "spec": spec}));
    }

    /// A pod is there, bound to a node.
    pub(super) fn pod(&mut self, key: &str, uid: &str) {
        self.pod_object(key, uid, None);
    }

    /// The same, of the StatefulSet whose name is that of the pod without its ordinal.
    pub(super) fn static_pod(&mut self, key: &str, uid: &str) {
        self.static_pod_of(key, uid, "set");
    }

    /// The same, of the StatefulSet with this UID.
    pub(super) fn static_pod_of(&mut self, key: &str, uid: &str, set: &str) {
        let name = key.rsplit_once('/').and_then(|(_, name)| name.rsplit_once('-')).expect("the pod has an ordinal").0;
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": set, "controller": true});
        self.pod_object(key, uid, Some(owner));
    }

    /// A pod of a StatefulSet is that of the set with this UID from now on, or nobody's.
    pub(super) fn is_of(&mut self, key: &str, set: Option<&str>) {
        let (namespace, pod) = key.split_once('/').expect("the test's pods have a namespace");
        let name = pod.rsplit_once('-').expect("the pod has an ordinal").0;
        let owner = |uid| json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": uid, "controller": true}]);
        let owners = set.map(|uid| serde_json::from_value(owner(uid)).expect("that is a list of owners"));
        self.change::<Pod>(self.kubelet, &ObjectKey::namespaced(namespace, pod), |pod| pod.metadata.owner_references = owners);
    }

    /// The same, of a VM.
    pub(super) fn vm_pod(&mut self, key: &str, uid: &str, vmi: &str) {
        let kind = "VirtualMachineInstance";
        self.pod_object(key, uid, Some(json!({"apiVersion": "kubevirt.io/v1", "kind": kind, "name": vmi, "uid": "v", "controller": true})));
    }

    /// The instance of a VM says that these pods are active.
    pub(super) fn vm_instance(&mut self, key: &str, active: &[&str]) {
        let (namespace, name) = key.split_once('/').expect("the test's objects have a namespace");
        let active: std::collections::BTreeMap<&str, &str> = active.iter().map(|uid| (*uid, "n")).collect();
        let instance = json!({"metadata": {"name": name, "namespace": namespace}, "spec": {}, "status": {"activePods": active}});
        self.write::<VirtualMachineInstance>(self.person, instance);
    }

    /// A StatefulSet has so many pods.
    pub(super) fn stateful_set(&mut self, key: &str, replicas: i32) {
        let (namespace, name) = key.split_once('/').expect("the test's objects have a namespace");
        let spec = json!({"replicas": replicas, "serviceName": "s", "selector": {}, "template": {}});
        self.write::<StatefulSet>(self.person, json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec}));
    }

    /// A pod is being deleted.
    pub(super) fn terminate(&mut self, key: &str) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        self.change::<Pod>(self.person, &ObjectKey::namespaced(namespace, name), |pod| {
            pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-05T09:00:00Z")).expect("that is a time");
        });
    }

    /// A pod is being deleted, with this grace in seconds from now on, and its kubelet is told.
    pub(super) fn terminate_with(&mut self, key: &str, grace: i64) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        let key = ObjectKey::namespaced(namespace, name);
        let since = jiff::SignedDuration::from_secs(self.now.as_micros() as i64 / 1_000_000 + grace);
        let at = kube_sim::cluster::later(kube_sim::cluster::EPOCH, since);
        self.change::<Pod>(self.person, &key, |pod| {
            pod.metadata.deletion_timestamp = Some(Time(at));
            pod.metadata.deletion_grace_period_seconds = Some(grace);
        });
        self.shows(self.kubelet, &key);
    }

    fn shows(&mut self, client: ProcessId, key: &ObjectKey) {
        let object = self.objects[&(std::any::type_name::<Pod>(), key.clone())].clone();
        let (kind, what, revision) = (self.registry.id::<Pod>(), WatchKind::Modified, self.revision);
        self.event(EventKind::Deliver { client, kind, what, revision, object: Some(&object) });
    }

    /// A watch shows a pod to the replicas.
    pub(super) fn pod_is_shown(&mut self, key: &str) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        for replica in self.replicas {
            self.shows(replica, &ObjectKey::namespaced(namespace, name));
        }
    }

    /// The status of a pod: its phase and its address, if it has one.
    pub(super) fn pod_is(&mut self, key: &str, phase: &str, address: Option<&str>) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        let ips: Vec<Value> = address.into_iter().map(|ip| json!({"ip": ip})).collect();
        self.change::<Pod>(self.kubelet, &ObjectKey::namespaced(namespace, name), |pod| {
            pod.status = serde_json::from_value(json!({"phase": phase, "podIPs": ips})).expect("that is a status");
        });
    }

    /// A pod's object is gone.
    pub(super) fn pod_gone(&mut self, key: &str) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        self.put::<Pod>(self.person, &ObjectKey::namespaced(namespace, name), None);
    }

    /// A request for a NIC of a pod begins; the sandbox is called as the UID.
    pub(super) fn ask(&mut self, pod: &str, uid: &str, nic: &str) {
        let (pod, uid, container, nic) = (pod.into(), uid.into(), uid.into(), nic.into());
        self.say(self.agent, IpamNote::AddBegun { pod, uid, container, nic });
    }

    /// A DEL of `eth0` is taken on; the sandbox is called as the UID.
    pub(super) fn del_asked(&mut self, pod: &str, uid: &str) {
        let (pod, uid, container, nic) = (pod.into(), uid.into(), uid.into(), "eth0".into());
        self.say(self.agent, IpamNote::DelBegun { pod, uid, container, nic });
    }

    /// A DEL of `eth0`, well or not; the sandbox is called as the UID.
    pub(super) fn del(&mut self, pod: &str, uid: &str, ok: bool) {
        let (pod, uid, container, nic): (Arc<str>, Arc<str>, Arc<str>, Arc<str>) = (pod.into(), uid.into(), uid.into(), "eth0".into());
        self.del_asked(&pod, &uid);
        self.say(
            self.agent,
            IpamNote::DelEnded {
                pod,
                uid,
                container: container.clone(),
                nic: nic.clone(),
                outcome: ok.then_some(DelOutcome::Released),
                conflicts: 0,
                exhausted: false,
            },
        );
        self.node(PodNote::DelDone { sandbox: container, nic, failed: !ok });
    }

    /// The request is refused.
    pub(super) fn refuse(&mut self, pod: &str, uid: &str, nic: &str, why: Refusal) {
        self.end(pod, uid, nic, Err(why), How::Fresh);
    }

    /// A whole ADD that records, writes the endpoint and answers.
    pub(super) fn add(&mut self, pod: &str, uid: &str, addresses: Addresses<'_>) {
        let nic = addresses.first().map_or("eth0", |(nic, ..)| nic);
        self.ask(pod, uid, nic);
        for (_, pool, address) in addresses {
            self.record(self.agent, pool, address, pod, uid);
        }
        self.endpoint(self.agent, pod, uid, addresses);
        self.answer(pod, uid, nic, addresses);
    }

    /// A pool is tried for `eth0`.
    pub(super) fn try_pool(&mut self, uid: &str, pool: &str, outcome: Result<&str, Refusal>) {
        let (uid, nic, pool) = (uid.into(), "eth0".into(), pool.into());
        self.say(self.agent, IpamNote::Tried { uid, nic, pool, outcome: outcome.map(ip) });
    }

    /// A release begins that was asked for in the name of `asked`.
    pub(super) fn release_for(&mut self, pod: &str, uid: &str, asked: &str, cause: Cause, what: &[(&str, &str)]) {
        let what = what.iter().map(|(pool, address)| (Arc::from(*pool), ip(address))).collect();
        self.say(self.agent, IpamNote::ReleaseBegun { pod: pod.into(), uid: uid.into(), asked: asked.into(), cause, what });
    }

    /// The agent announces a release that was asked for in the name of `uid` itself.
    pub(super) fn release(&mut self, pod: &str, uid: &str, cause: Cause, what: &[(&str, &str)]) {
        self.release_for(pod, uid, uid, cause, what);
    }

    /// The agent says that a release is over; `ok`: whether it succeeded.
    pub(super) fn released(&mut self, pod: &str, uid: &str, cause: Cause, ok: bool) {
        self.say(self.agent, IpamNote::ReleaseEnded { pod: pod.into(), uid: uid.into(), cause, ok });
    }

    /// A sandbox is made; it is called as the UID of its pod unless `id` says otherwise.
    pub(super) fn sandbox(&mut self, id: &str, pod: &str, uid: &str) {
        let (namespace, name) = pod.split_once('/').expect("the test's pods have a namespace");
        self.node(PodNote::SandboxStarted { sandbox: id.into(), pod: ObjectKey::namespaced(namespace, name), uid: uid.into() });
    }

    /// A NIC of a sandbox answers.
    pub(super) fn attach(&mut self, id: &str, nic: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| ip(address)).collect();
        self.node(PodNote::Attached { sandbox: id.into(), nic: nic.into(), addresses });
    }

    /// The excuse of each violation.
    pub(super) fn excuses(&self) -> Vec<Option<&'static str>> {
        self.claims.findings.excuses()
    }

    /// What the last violation tells.
    pub(super) fn detail(&self) -> Vec<String> {
        self.claims.findings.last_detail()
    }

    /// Whether the claim has looked at something that could have been false.
    pub(super) fn exercised(&self) -> bool {
        self.claims.exercised().iter().any(|(_, judged)| *judged)
    }

    /// Whether a claim of the kind `sometimes` has held.
    pub(super) fn held(&self) -> bool {
        self.claims.verdict(&[]).1 == [self.claim]
    }

    /// What a claim of the kind `eventually` still misses.
    pub(super) fn pending(&self) -> Option<String> {
        self.claims.pending().into_iter().next()
    }
}
