//! A stage for testing one claim: each event around Spiderpool takes one line.

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

/// The claim under test, and the simulated cluster that it sees.
pub(super) struct Stage {
    rt: Rt,
    claims: Claims,
    claim: &'static str,
    now: SimTime,
    pub(super) revision: u64,
    registry: Registry,
    objects: BTreeMap<(&'static str, ObjectKey), Obj>,
    /// The caches of an agent at its last request.
    caches: Option<Arc<Known>>,
    /// `agent-0`, which claims regard as an agent from the beginning.
    pub(super) agent: ProcessId,
    /// An agent of another node.
    pub(super) other_agent: ProcessId,
    /// A process that is not part of the cluster by its name, so that it writes by hand.
    pub(super) person: ProcessId,
    /// A part of the cluster that is not an agent.
    pub(super) kubelet: ProcessId,
    /// Two replicas of the controller.
    pub(super) replicas: [ProcessId; 2],
}

/// Runs `test` with the claim called `claim`.
pub(super) fn on_stage(claim: &'static str, test: impl FnOnce(&mut Stage)) {
    on_stage_with(claim, |_| (), test);
}

/// Runs `test` under other settings of reclaim. Two replicas are in the plan.
pub(super) fn on_stage_with(claim: &'static str, set: impl FnOnce(&mut ReclaimSettings), test: impl FnOnce(&mut Stage)) {
    on_stage_under(claim, |terms| set(&mut terms.settings), test);
}

/// Runs `test` under other terms.
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
        // A process that sends an agent's note is an agent.
        for agent in [agent, other_agent] {
            stage.say(agent, IpamNote::Unqueued { ticket: 0 });
        }
        test(&mut stage);
    });
}

/// Parses an address; panics if the text is invalid.
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

    /// Advances the clock without an event, and judges the bounds that have passed by then.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.claims.judge_bounds(self.now);
    }

    /// Changes the state of a process.
    pub(super) fn process_changes(&mut self, process: ProcessId, change: ProcessChange) {
        self.event(EventKind::Process { process, change });
    }

    /// Sends a note of a replica of the controller.
    pub(super) fn reclaims(&mut self, replica: ProcessId, note: ReclaimNote) {
        self.event(EventKind::Note { process: replica, note: &note });
    }

    /// Sends the verdict of a replica of the controller on an update of a pool.
    pub(super) fn judges(&mut self, old: &SpiderIPPool, new: SpiderIPPool, denied: Option<&str>) {
        let denied = denied.map(|why| Denial::Forbidden(why.to_owned()));
        self.judges_beside(Some(old.clone()), Some(new), Listed::default(), denied);
    }

    /// Sends the verdict of a replica of the controller on a pool, with the objects that it had listed.
    pub(super) fn judges_beside(&mut self, old: Option<SpiderIPPool>, new: Option<SpiderIPPool>, listed: Listed, denied: Option<Denial>) {
        let answer = HookAnswer::Judged { listed: Arc::new(listed), denied: denied.map(Arc::new) };
        self.answers(old, new, answer);
    }

    /// Sends the answer of a webhook of a replica of the controller to a request about a pool.
    pub(super) fn answers(&mut self, old: Option<SpiderIPPool>, new: Option<SpiderIPPool>, answer: HookAnswer) {
        let (kind, key) = (self.registry.id::<SpiderIPPool>(), new.as_ref().or(old.as_ref()).map(ObjectKey::of));
        let object = |pool: Option<SpiderIPPool>| pool.map(|pool| Arc::new(pool) as Obj);
        let note = HookNote { kind, key, old: object(old), new: object(new), settings: AdmissionSettings::default(), answer };
        self.event(EventKind::Note { process: self.replicas[0], note: &note });
    }

    /// Begins or ends a fault.
    pub(super) fn fault(&mut self, change: FaultChange) {
        self.event(EventKind::Fault { index: 0, change });
    }

    /// Sets the clock of a process ahead of the true time.
    pub(super) fn clock_ahead(&mut self, process: ProcessId, by: Duration) {
        let host = self.rt.host_of(process);
        self.rt.adjust_clock(host, |clock, _| clock.step_wall(by.as_micros() as i64));
    }

    /// Answers a list of all objects of a type.
    pub(super) fn lists<K: Object>(&mut self, client: ProcessId) {
        let kind = self.registry.id::<K>();
        self.event(EventKind::Answer { client, verb: Verb::List, kind, key: None, outcome: Outcome::Ok });
    }

    /// Begins a watch of pods that streams all existing ones first.
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

    /// Sends a request for an object.
    pub(super) fn asks<K: Object>(&mut self, client: ProcessId, key: &ObjectKey) {
        let kind = self.registry.id::<K>();
        self.event(EventKind::Request { client, server: self.kubelet, verb: Verb::Get, kind, key: Some(key) });
    }

    /// Announces a replica's release of records of a pod, each by pool and address, and of the endpoint.
    pub(super) fn announce(&mut self, replica: ProcessId, key: &str, uid: &str, what: &[(&str, &str)]) {
        let target = |(pool, address): &(&str, &str)| Target { pool: (*pool).into(), ip: ip(address), uid: uid.into() };
        let what = what.iter().map(target).collect();
        let (by, key, endpoint, row) = (Releaser::Scan, key.into(), true, Row::NoPod);
        self.reclaims(replica, ReclaimNote::ReleaseBegun { by, key, what, endpoint, row });
    }

    /// Makes a replica reclaim one address of a pod: it announces the release, marks the endpoint if there is one, and removes the record.
    pub(super) fn reclaim(&mut self, replica: ProcessId, key: &str, uid: &str, pool: &str, address: &str) {
        self.announce(replica, key, uid, &[(pool, address)]);
        self.mark(replica, key);
        self.unrecord(replica, pool, address);
    }

    /// Marks an endpoint, if there is one, as terminating.
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

    /// Removes the finalizer of an endpoint.
    pub(super) fn let_go(&mut self, by: ProcessId, key: &str) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        self.change::<SpiderEndpoint>(by, &ObjectKey::namespaced(namespace, name), |endpoint| endpoint.metadata.finalizers = None);
    }

    /// Makes a node ready or not ready.
    pub(super) fn node_is(&mut self, name: &str, ready: bool) {
        let status = if ready { "True" } else { "Unknown" };
        let value = json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": status}]}});
        self.write::<Node>(self.kubelet, value);
    }

    /// Makes a node ready, and shows that to the replicas.
    pub(super) fn node_returns(&mut self, name: &str) {
        let since = kube_sim::cluster::later(kube_sim::cluster::EPOCH, jiff::SignedDuration::from_micros(self.now.as_micros() as i64));
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": since.to_string()});
        self.write::<Node>(self.kubelet, json!({"metadata": {"name": name}, "status": {"conditions": [ready]}}));
        for replica in self.replicas {
            self.deliver::<Node>(replica);
        }
    }

    /// Makes a node ready or not ready, and shows that to the replicas.
    pub(super) fn node_is_shown(&mut self, name: &str, ready: bool) {
        self.node_is(name, ready);
        for replica in self.replicas {
            self.deliver::<Node>(replica);
        }
    }

    /// Adds a process on its own host; claims infer its role from its name and its notes.
    pub(super) fn process(&mut self, name: &str) -> ProcessId {
        self.rt.add_process(self.rt.add_host(name), name)
    }

    /// Sends a note of an agent.
    pub(super) fn say(&mut self, process: ProcessId, note: IpamNote) {
        self.event(EventKind::Note { process, note: &note });
    }

    /// Sends a note of a node.
    pub(super) fn node(&mut self, note: PodNote) {
        self.event(EventKind::Note { process: self.kubelet, note: &note });
    }

    /// Writes an object; `None` = it is deleted.
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

    /// Writes an object given as JSON.
    pub(super) fn write<K: Object>(&mut self, by: ProcessId, value: Value) {
        let object: K = serde_json::from_value(value).expect("the test's object fits its type");
        self.put(by, &ObjectKey::of(&object), Some(object));
    }

    /// Changes an object in the store.
    pub(super) fn change<K: Object>(&mut self, by: ProcessId, key: &ObjectKey, change: impl FnOnce(&mut K)) {
        let object = &self.objects[&(std::any::type_name::<K>(), key.clone())];
        let mut object = typed_ref::<K>(&**object).clone();
        change(&mut object);
        self.put(by, key, Some(object));
    }

    /// Delivers everything of a type up to now to the watch of a process.
    pub(super) fn deliver<K: Object>(&mut self, client: ProcessId) {
        let (kind, revision) = (self.registry.id::<K>(), self.revision);
        self.event(EventKind::Deliver { client, kind, what: WatchKind::Bookmark, revision, object: None });
    }

    /// Makes an agent read a pool.
    pub(super) fn read(&mut self, client: ProcessId, pool: &str) {
        let (kind, key) = (self.registry.id::<SpiderIPPool>(), ObjectKey::cluster(pool));
        self.event(EventKind::Request { client, server: self.kubelet, verb: Verb::Get, kind, key: Some(&key) });
        self.event(EventKind::Answer { client, verb: Verb::Get, kind, key: Some(&key), outcome: Outcome::Ok });
    }

    /// Makes an agent send a write of a pool.
    pub(super) fn sends_write(&mut self, client: ProcessId, pool: &str) {
        let (kind, key) = (self.registry.id::<SpiderIPPool>(), ObjectKey::cluster(pool));
        self.event(EventKind::Request { client, server: self.kubelet, verb: Verb::Update, kind, key: Some(&key) });
    }

    /// Refuses the write of a pool.
    pub(super) fn refused_write(&mut self, client: ProcessId, reason: Reason) {
        let (kind, key) = (self.registry.id::<SpiderIPPool>(), ObjectKey::cluster("p"));
        let outcome = Outcome::Http(409, reason);
        self.event(EventKind::Answer { client, verb: Verb::Update, kind, key: Some(&key), outcome });
    }

    /// Makes a pool of these ranges by hand.
    pub(super) fn pool(&mut self, name: &str, ips: &[&str]) {
        let v6 = ips.iter().any(|range| range.contains(':'));
        let (version, subnet) = if v6 { (6, "fd00::/64") } else { (4, "10.0.0.0/24") };
        let spec = json!({"ipVersion": version, "subnet": subnet, "ips": ips});
        let metadata = json!({"name": name, "finalizers": ["spiderpool.spidernet.io"]});
        self.write::<SpiderIPPool>(self.person, json!({"metadata": metadata, "spec": spec, "status": {}}));
    }

    /// Changes the object of a pool.
    pub(super) fn change_pool(&mut self, by: ProcessId, name: &str, change: impl FnOnce(&mut SpiderIPPool)) {
        self.change(by, &ObjectKey::cluster(name), change);
    }

    /// Records an address for a pod.
    pub(super) fn record(&mut self, by: ProcessId, pool: &str, address: &str, pod: &str, uid: &str) {
        self.change_pool(by, pool, |pool| {
            let status = pool.status.get_or_insert_default();
            let records = status.allocated_ips.make_mut().expect("the records can be read");
            records.insert(ip(address), PoolIPAllocation { interface: None, pod: pod.to_owned(), pod_uid: uid.to_owned() });
            status.allocated_ip_count = Some(records.len() as i64);
        });
    }

    /// Records an address for a NIC of a pod whose name is its UID.
    pub(super) fn record_for(&mut self, by: ProcessId, pool: &str, address: &str, uid: &str, nic: &str) {
        self.change_pool(by, pool, |pool| {
            let status = pool.status.get_or_insert_default();
            let records = status.allocated_ips.make_mut().expect("the records can be read");
            let record = PoolIPAllocation { interface: Some(nic.to_owned()), pod: format!("ns/{uid}"), pod_uid: uid.to_owned() };
            records.insert(ip(address), record);
            status.allocated_ip_count = Some(records.len() as i64);
        });
    }

    /// Removes the record of an address.
    pub(super) fn unrecord(&mut self, by: ProcessId, pool: &str, address: &str) {
        self.change_pool(by, pool, |pool| {
            let status = pool.status.get_or_insert_default();
            let records = status.allocated_ips.make_mut().expect("the records can be read");
            records.remove(ip(address));
            status.allocated_ip_count = Some(records.len() as i64);
        });
    }

    /// Reserves ranges by hand.
    pub(super) fn reserve(&mut self, name: &str, ips: &[&str]) {
        let spec = json!({"ipVersion": 4, "ips": ips});
        self.write::<SpiderReservedIP>(self.person, json!({"metadata": {"name": name}, "spec": spec}));
    }

    /// Writes the endpoint of a pod.
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

    /// Deletes the endpoint of a pod.
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

    /// Creates a pod that is bound to a node.
    pub(super) fn pod(&mut self, key: &str, uid: &str) {
        self.pod_object(key, uid, None);
    }

    /// Creates a pod of the StatefulSet whose name is that of the pod without its ordinal.
    pub(super) fn static_pod(&mut self, key: &str, uid: &str) {
        self.static_pod_of(key, uid, "set");
    }

    /// Creates a pod of the StatefulSet with this UID.
    pub(super) fn static_pod_of(&mut self, key: &str, uid: &str, set: &str) {
        let name = key.rsplit_once('/').and_then(|(_, name)| name.rsplit_once('-')).expect("the pod has an ordinal").0;
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": set, "controller": true});
        self.pod_object(key, uid, Some(owner));
    }

    /// Makes the set with this UID, or none, the controller of a pod of a StatefulSet.
    pub(super) fn is_of(&mut self, key: &str, set: Option<&str>) {
        let (namespace, pod) = key.split_once('/').expect("the test's pods have a namespace");
        let name = pod.rsplit_once('-').expect("the pod has an ordinal").0;
        let owner = |uid| json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": uid, "controller": true}]);
        let owners = set.map(|uid| serde_json::from_value(owner(uid)).expect("that is a list of owners"));
        self.change::<Pod>(self.kubelet, &ObjectKey::namespaced(namespace, pod), |pod| pod.metadata.owner_references = owners);
    }

    /// Creates a pod of a VM.
    pub(super) fn vm_pod(&mut self, key: &str, uid: &str, vmi: &str) {
        let kind = "VirtualMachineInstance";
        self.pod_object(key, uid, Some(json!({"apiVersion": "kubevirt.io/v1", "kind": kind, "name": vmi, "uid": "v", "controller": true})));
    }

    /// Writes the instance of a VM with these active pods.
    pub(super) fn vm_instance(&mut self, key: &str, active: &[&str]) {
        let (namespace, name) = key.split_once('/').expect("the test's objects have a namespace");
        let active: std::collections::BTreeMap<&str, &str> = active.iter().map(|uid| (*uid, "n")).collect();
        let instance = json!({"metadata": {"name": name, "namespace": namespace}, "spec": {}, "status": {"activePods": active}});
        self.write::<VirtualMachineInstance>(self.person, instance);
    }

    /// Writes a StatefulSet with a number of replicas.
    pub(super) fn stateful_set(&mut self, key: &str, replicas: i32) {
        let (namespace, name) = key.split_once('/').expect("the test's objects have a namespace");
        let spec = json!({"replicas": replicas, "serviceName": "s", "selector": {}, "template": {}});
        self.write::<StatefulSet>(self.person, json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec}));
    }

    /// Marks a pod for deletion.
    pub(super) fn terminate(&mut self, key: &str) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        self.change::<Pod>(self.person, &ObjectKey::namespaced(namespace, name), |pod| {
            pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-05T09:00:00Z")).expect("that is a time");
        });
    }

    /// Marks a pod for deletion with a grace period in seconds, and tells its kubelet.
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

    /// Shows a pod to the replicas by a watch.
    pub(super) fn pod_is_shown(&mut self, key: &str) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        for replica in self.replicas {
            self.shows(replica, &ObjectKey::namespaced(namespace, name));
        }
    }

    /// Sets the status of a pod: its phase, and its address if it has one.
    pub(super) fn pod_is(&mut self, key: &str, phase: &str, address: Option<&str>) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        let ips: Vec<Value> = address.into_iter().map(|ip| json!({"ip": ip})).collect();
        self.change::<Pod>(self.kubelet, &ObjectKey::namespaced(namespace, name), |pod| {
            pod.status = serde_json::from_value(json!({"phase": phase, "podIPs": ips})).expect("that is a status");
        });
    }

    /// Deletes the object of a pod.
    pub(super) fn pod_gone(&mut self, key: &str) {
        let (namespace, name) = key.split_once('/').expect("the test's pods have a namespace");
        self.put::<Pod>(self.person, &ObjectKey::namespaced(namespace, name), None);
    }

    /// Begins a request for a NIC of a pod; the ID of the sandbox is the UID.
    pub(super) fn ask(&mut self, pod: &str, uid: &str, nic: &str) {
        let (pod, uid, container, nic) = (pod.into(), uid.into(), uid.into(), nic.into());
        self.say(self.agent, IpamNote::AddBegun { pod, uid, container, nic });
    }

    /// Begins a DEL of `eth0`; the ID of the sandbox is the UID.
    pub(super) fn del_asked(&mut self, pod: &str, uid: &str) {
        let (pod, uid, container, nic) = (pod.into(), uid.into(), uid.into(), "eth0".into());
        self.say(self.agent, IpamNote::DelBegun { pod, uid, container, nic });
    }

    /// Carries out a DEL of `eth0` with success or failure; the ID of the sandbox is the UID.
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

    /// Refuses the request of a pod.
    pub(super) fn refuse(&mut self, pod: &str, uid: &str, nic: &str, why: Refusal) {
        self.end(pod, uid, nic, Err(why), How::Fresh);
    }

    /// Carries out a whole ADD that records, writes the endpoint and answers.
    pub(super) fn add(&mut self, pod: &str, uid: &str, addresses: Addresses<'_>) {
        let nic = addresses.first().map_or("eth0", |(nic, ..)| nic);
        self.ask(pod, uid, nic);
        for (_, pool, address) in addresses {
            self.record(self.agent, pool, address, pod, uid);
        }
        self.endpoint(self.agent, pod, uid, addresses);
        self.answer(pod, uid, nic, addresses);
    }

    /// Tries a pool for `eth0`.
    pub(super) fn try_pool(&mut self, uid: &str, pool: &str, outcome: Result<&str, Refusal>) {
        let (uid, nic, pool) = (uid.into(), "eth0".into(), pool.into());
        self.say(self.agent, IpamNote::Tried { uid, nic, pool, outcome: outcome.map(ip) });
    }

    /// Begins a release that was requested for the pod `asked`.
    pub(super) fn release_for(&mut self, pod: &str, uid: &str, asked: &str, cause: Cause, what: &[(&str, &str)]) {
        let what = what.iter().map(|(pool, address)| (Arc::from(*pool), ip(address))).collect();
        self.say(self.agent, IpamNote::ReleaseBegun { pod: pod.into(), uid: uid.into(), asked: asked.into(), cause, what });
    }

    /// Begins a release that was requested for the pod `uid` itself.
    pub(super) fn release(&mut self, pod: &str, uid: &str, cause: Cause, what: &[(&str, &str)]) {
        self.release_for(pod, uid, uid, cause, what);
    }

    /// Ends a release; `ok`: whether it succeeded.
    pub(super) fn released(&mut self, pod: &str, uid: &str, cause: Cause, ok: bool) {
        self.say(self.agent, IpamNote::ReleaseEnded { pod: pod.into(), uid: uid.into(), cause, ok });
    }

    /// Makes a sandbox; the ID is usually the UID of its pod.
    pub(super) fn sandbox(&mut self, id: &str, pod: &str, uid: &str) {
        let (namespace, name) = pod.split_once('/').expect("the test's pods have a namespace");
        self.node(PodNote::SandboxStarted { sandbox: id.into(), pod: ObjectKey::namespaced(namespace, name), uid: uid.into() });
    }

    /// Makes a NIC of a sandbox answer.
    pub(super) fn attach(&mut self, id: &str, nic: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| ip(address)).collect();
        self.node(PodNote::Attached { sandbox: id.into(), nic: nic.into(), addresses });
    }

    /// The excuse of each violation.
    pub(super) fn excuses(&self) -> Vec<Option<&'static str>> {
        self.claims.findings.excuses()
    }

    /// The detail of the last violation.
    pub(super) fn detail(&self) -> Vec<String> {
        self.claims.findings.last_detail()
    }

    /// Whether the claim has been exercised: it has judged something that could have been false.
    pub(super) fn exercised(&self) -> bool {
        self.claims.exercised().iter().any(|(_, judged)| *judged)
    }

    /// Whether a claim of the kind `sometimes` has held.
    pub(super) fn held(&self) -> bool {
        self.claims.verdict(&[]).1 == [self.claim]
    }

    /// The detail of what a claim of the kind `eventually` still misses.
    pub(super) fn pending(&self) -> Option<String> {
        self.claims.pending().into_iter().next()
    }
}
