//! A stage for one claim: events of a pool, each made in one line.

use std::sync::Arc;
use std::time::Duration;

use ipam_byom::{
    Address, DEFAULT_CONFIG_MAP, DEFAULT_NAMESPACE, Effort, FINALIZER, IpAllocation, PeerPod, PeerPodSpec, Policy, PoolConfig,
    PoolConfigMap, PoolDocument, Recovered,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_machinery::ObjectKey;
use kube_machinery::api::{Reason, Verb};
use kube_machinery::{InvalidText, JsonText, TextForm};
use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use kube_sim::rt::{ProcessId, Rt};
use kube_sim::trace::{Event, EventKind, FaultChange, Outcome, ProcessChange, Unhashed};
use sim_config::time::SimTime;
use sim_harness::claim::{Claims, find};
use sim_harness::workload::OutOfReach;

use super::View;
use super::group::PoolGroup;
use crate::workload::{Failure, PoolNote, Releaser, VmChange};

/// The claim under test, and the pool that it sees.
pub(super) struct Stage {
    rt: Rt,
    claims: Claims,
    claim: &'static str,
    now: SimTime,
    revision: u64,
    object: Option<Obj>,
    /// The process that keeps sandboxes and VMs.
    keeper: ProcessId,
    config: PoolConfig,
}

/// Runs `test` with the claim called `claim`, with exact lists served from snapshots of watch caches.
pub(super) fn on_stage(claim: &'static str, test: impl FnOnce(&mut Stage)) {
    on_stage_with(claim, true, test);
}

/// The same with exact lists from snapshots if `snapshots`, and otherwise from etcd.
pub(super) fn on_stage_with(claim: &'static str, snapshots: bool, test: impl FnOnce(&mut Stage)) {
    stage(claim, snapshots, &[], test);
}

/// The same with some processes of an older version until the given times.
pub(super) fn on_stage_under_upgrade(claim: &'static str, replaced: &[(&str, SimTime)], test: impl FnOnce(&mut Stage)) {
    stage(claim, true, replaced, test);
}

fn stage(claim: &'static str, snapshots: bool, replaced: &[(&str, SimTime)], test: impl FnOnce(&mut Stage)) {
    let replaced = replaced.iter().map(|(name, at)| ((*name).to_owned(), (SimTime::ZERO, *at))).collect();
    kube_sim::rt::run(1, async |rt| {
        let keeper = rt.add_process(rt.add_host("keeper"), "keeper");
        let claims = Claims::of_group(find(claim).expect("the claim is in the catalogue"), || {
            Box::new(PoolGroup::new(View::new(&rt, OutOfReach::default(), snapshots).with_upgrade(replaced)))
        });
        let config = PoolConfig::default();
        let mut stage = Stage { rt, claims, claim, now: SimTime::ZERO, revision: 1, object: None, keeper, config };
        test(&mut stage);
    });
}

/// A record as the pool writes it.
pub(super) fn record(id: &str, address: &str) -> IpAllocation {
    IpAllocation {
        allocation_id: id.into(),
        ip: Address::new(address),
        node_name: "node".into(),
        pod_name: "pod".into(),
        ..IpAllocation::default()
    }
}

/// Moves an address from the list to a record.
pub(super) fn take(document: &mut PoolDocument, id: &str, address: &str) {
    let index = document.available.positions(Address::new(address).key()).next();
    if let Some(index) = index {
        document.available.remove(index);
    }
    document.allocated.insert(id.into(), record(id, address));
}

/// Moves the address of a record to the list.
pub(super) fn give_back(document: &mut PoolDocument, id: &str) {
    let record = document.allocated.remove(id).expect("there is a record to remove");
    document.available.push(record.ip.clone());
}

fn key() -> ObjectKey {
    ObjectKey::namespaced(DEFAULT_NAMESPACE, DEFAULT_CONFIG_MAP)
}

impl Stage {
    fn event(&mut self, kind: EventKind<'_>) {
        self.now += Duration::from_millis(1);
        self.claims.observe(&Event { at: self.now, kind });
    }

    /// Advances the clock of the stage without an event: claims see it with the next one.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Adds a process on its own host; it belongs to the pool only once it notes its configuration.
    pub(super) fn process(&mut self, name: &str) -> ProcessId {
        self.rt.add_process(self.rt.add_host(name), name)
    }

    /// Adds a process of the pool.
    pub(super) fn adaptor(&mut self, name: &str, setting: &str) -> ProcessId {
        let process = self.process(name);
        let config = PoolConfig::read(setting, 100, &Policy::hardened()).expect("the test's setting is right");
        if self.config.pool().is_empty() {
            self.config = config.clone();
        }
        self.note(process, PoolNote::Configured { setting: setting.into(), config: Unhashed(config) });
        process
    }

    /// Notes a process's configuration.
    pub(super) fn configured(&mut self, process: ProcessId, setting: &str, addresses: &[&str]) {
        let config = PoolConfig::new(addresses.iter().copied().map(Address::new));
        self.note(process, PoolNote::Configured { setting: setting.into(), config: Unhashed(config) });
    }

    /// Adds a note by a process.
    pub(super) fn note(&mut self, process: ProcessId, note: PoolNote) {
        self.event(EventKind::Note { process, note: &note });
    }

    pub(super) fn change(&mut self, process: ProcessId, change: ProcessChange) {
        self.event(EventKind::Process { process, change });
    }

    pub(super) fn crash(&mut self, process: ProcessId) {
        self.change(process, ProcessChange::Crashed);
    }

    pub(super) fn ask(&mut self, process: ProcessId, id: &str) {
        self.note(process, PoolNote::Asked { id: id.into() });
    }

    pub(super) fn allocated(&mut self, process: ProcessId, id: &str, address: &str) {
        self.allocated_with(process, id, address, Effort { reads: 1, writes: 1, ..Effort::default() });
    }

    pub(super) fn allocated_with(&mut self, process: ProcessId, id: &str, address: &str, effort: Effort) {
        let took = Duration::from_millis(20);
        self.note(process, PoolNote::Allocated { id: id.into(), address: Address::new(address), effort, took });
    }

    /// A regular allocation: the call, the commit of its record, the answer with the address.
    pub(super) fn allocate(&mut self, process: ProcessId, id: &str, address: &str) {
        self.ask(process, id);
        self.edit(process, |document| take(document, id, address));
        self.allocated(process, id, address);
    }

    pub(super) fn refused(&mut self, process: ProcessId, id: &str) {
        let (effort, took) = (Effort::default(), Duration::from_millis(20));
        self.note(process, PoolNote::Refused { id: id.into(), why: Failure::Writing, effort, took });
    }

    pub(super) fn told(&mut self, process: ProcessId, id: &str, address: &str) {
        self.note(process, PoolNote::Told { id: id.into(), address: Address::new(address) });
    }

    pub(super) fn ended(&mut self, id: &str) {
        self.ended_pod(id, "ns/pod");
    }

    pub(super) fn ended_pod(&mut self, id: &str, pod: &str) {
        self.note(self.keeper, PoolNote::Ended { id: id.into(), pod: pod.into() });
    }

    pub(super) fn release(&mut self, process: ProcessId, id: &str) {
        self.note(process, PoolNote::ReleaseBegun { id: id.into(), by: Releaser::Stop });
    }

    fn release_ended(&mut self, process: ProcessId, id: &str, failure: Option<Failure>) {
        let (effort, took) = (Effort::default(), Duration::from_millis(20));
        self.note(process, PoolNote::ReleaseEnded { id: id.into(), by: Releaser::Stop, failure, effort, took });
    }

    pub(super) fn released(&mut self, process: ProcessId, id: &str) {
        self.release_ended(process, id, None);
    }

    pub(super) fn release_fails(&mut self, process: ProcessId, id: &str, failure: Failure) {
        self.release_ended(process, id, Some(failure));
    }

    pub(super) fn recover(&mut self, process: ProcessId) {
        self.note(process, PoolNote::RecoverBegun);
    }

    pub(super) fn recovered(&mut self, process: ProcessId) {
        self.note(process, PoolNote::RecoverEnded { result: Ok(Recovered::default()), effort: Effort::default(), of_call: false });
    }

    pub(super) fn vm(&mut self, address: &str, change: VmChange) {
        self.note(self.keeper, PoolNote::Vm { address: Address::new(address), change });
    }

    /// A read of the pool that succeeds.
    pub(super) fn read(&mut self, client: ProcessId) {
        self.asks(client);
        self.is_told(client);
    }

    /// A read of the pool that is sent.
    pub(super) fn asks(&mut self, client: ProcessId) {
        self.event(EventKind::Request { client, server: self.keeper, verb: Verb::Get, kind: KindId(3), key: Some(&key()) });
    }

    /// The answer to a read of the pool.
    pub(super) fn is_told(&mut self, client: ProcessId) {
        self.event(EventKind::Answer { client, verb: Verb::Get, kind: KindId(3), key: Some(&key()), outcome: Outcome::Ok });
    }

    /// A write of the pool that fails.
    pub(super) fn wrote(&mut self, client: ProcessId, reason: Reason) {
        self.read(client);
        let outcome = Outcome::Http(409, reason);
        let verb = if reason == Reason::AlreadyExists { Verb::Create } else { Verb::Update };
        let key = (verb == Verb::Update).then(key);
        self.event(EventKind::Answer { client, verb, kind: KindId(3), key: key.as_ref(), outcome });
    }

    fn commit(&mut self, client: ProcessId, key: &ObjectKey, before: Option<&Obj>, after: Option<&Obj>) {
        self.revision += 1;
        let verb = match (before, after) {
            (None, _) => Verb::Create,
            (_, None) => Verb::Delete,
            _ => Verb::Update,
        };
        let revision = self.revision;
        self.event(EventKind::Commit { client, server: self.keeper, verb, kind: KindId(3), key, revision, before, after, content: 0 });
    }

    fn put(&mut self, client: ProcessId, document: Option<JsonText<PoolDocument>>) {
        let after: Option<Obj> = document.map(|document| Arc::new(PoolConfigMap::new(&key(), document)) as Obj);
        let before = std::mem::replace(&mut self.object, after.clone());
        self.commit(client, &key(), before.as_ref(), after.as_ref());
    }

    /// The current document; if it is not readable, that of a new pool with the first adaptor's configuration.
    pub(super) fn document(&self) -> PoolDocument {
        let stored = self.object.as_ref().map(|object| kube_sim::object::typed_ref::<PoolConfigMap>(&**object));
        let document = stored.and_then(PoolConfigMap::document).and_then(|document| document.parse().ok().cloned());
        document.unwrap_or_else(|| PoolDocument { available: self.config.pool().clone(), version: 1, ..PoolDocument::default() })
    }

    /// Commits a change of the document by `client`, with the next version.
    pub(super) fn edit(&mut self, client: ProcessId, edit: impl FnOnce(&mut PoolDocument)) {
        let mut document = self.document();
        document.version += 1;
        edit(&mut document);
        self.put(client, Some(document.into()));
    }

    /// Commits a change of any part of the object by `client`.
    pub(super) fn object(&mut self, client: ProcessId, change: impl FnOnce(&mut PoolConfigMap)) {
        let before = self.object.clone().expect("there is a ConfigMap");
        let mut object = kube_sim::object::typed_ref::<PoolConfigMap>(&*before).clone();
        change(&mut object);
        let after: Obj = Arc::new(object);
        self.object = Some(after.clone());
        self.commit(client, &key(), Some(&before), Some(&after));
    }

    /// Commits a write of the object by `client` that leaves the text of the document unchanged.
    pub(super) fn touch(&mut self, client: ProcessId) {
        let text = self.document().to_text();
        self.put(client, Some(JsonText::verbatim(text)));
    }

    /// Deletes the ConfigMap of the pool.
    pub(super) fn delete(&mut self, client: ProcessId) {
        self.put(client, None);
    }

    /// Begins a fault of the plan, which may set clocks.
    pub(super) fn fault_begins(&mut self) {
        self.event(EventKind::Fault { index: 0, change: FaultChange::Began });
    }

    /// Commits the document in another place.
    pub(super) fn misplace(&mut self, client: ProcessId, namespace: &str, name: &str) {
        let key = ObjectKey::namespaced(namespace, name);
        let after: Obj = Arc::new(PoolConfigMap::new(&key, self.document().into()));
        self.commit(client, &key, None, Some(&after));
    }

    /// Notes that the pod of a sandbox runs.
    pub(super) fn runs(&mut self, id: &str, pod: &str) {
        self.note(self.keeper, PoolNote::Running { id: id.into(), pod: pod.into(), uid: pod.into() });
    }

    /// Commits a text that is not a document.
    pub(super) fn scribble(&mut self, client: ProcessId) {
        let text = "{\"allocatedIPs\":";
        let refused: Result<PoolDocument, InvalidText> = PoolDocument::from_text(text);
        assert!(refused.is_err());
        self.put(client, Some(JsonText::verbatim(text)));
    }

    /// Adds or removes the PeerPod of an allocation.
    pub(super) fn peer_pod(&mut self, id: &str, is_there: bool) {
        let object = peer_pod(id, None);
        let (before, after) = if is_there { (None, Some(&object)) } else { (Some(&object), None) };
        self.commit(self.keeper, &ObjectKey::namespaced("ns", id), before, after);
    }

    /// Marks the PeerPod of an allocation for deletion; it keeps its finalizer.
    pub(super) fn delete_peer_pod(&mut self, id: &str) {
        let (before, after) = (peer_pod(id, None), peer_pod(id, Some(Time(Default::default()))));
        self.commit(self.keeper, &ObjectKey::namespaced("ns", id), Some(&before), Some(&after));
    }

    /// Makes a watch cache lose the last change of the PeerPod of an allocation.
    pub(super) fn lost_peer_pod(&mut self, server: ProcessId, id: &str) {
        let revision = self.revision;
        self.event(EventKind::Lost { server, kind: KindId(3), key: &ObjectKey::namespaced("ns", id), revision });
    }

    /// Makes a server refill its watch cache of PeerPods, so that it lacks nothing any more.
    pub(super) fn relisted_peer_pods(&mut self, server: ProcessId) {
        self.event(EventKind::Relisted { server, kind: KindId(3) });
    }

    /// The excuse of each violation.
    pub(super) fn excuses(&self) -> Vec<Option<&'static str>> {
        self.claims.findings.excuses()
    }

    /// Whether the claim has judged something.
    pub(super) fn exercised(&self) -> bool {
        self.claims.exercised().iter().any(|(_, judged)| *judged)
    }

    /// The details of the last violation.
    pub(super) fn detail(&self) -> Vec<String> {
        self.claims.findings.last_detail()
    }

    /// Whether a claim of the kind `sometimes` has held.
    pub(super) fn held(&self) -> bool {
        self.claims.verdict(&[]).1 == [self.claim]
    }

    /// The missing part of a claim of the kind `eventually`.
    pub(super) fn pending(&self) -> Option<String> {
        self.claims.pending().into_iter().next()
    }
}

/// A PeerPod of an allocation with its finalizer.
fn peer_pod(id: &str, deletion_timestamp: Option<Time>) -> Obj {
    let metadata = ObjectMeta { finalizers: Some(vec![FINALIZER.to_owned()]), deletion_timestamp, ..ObjectMeta::default() };
    let spec = PeerPodSpec { allocation_id: Some(id.to_owned()), ..PeerPodSpec::default() };
    Arc::new(PeerPod { metadata, spec, status: None })
}
