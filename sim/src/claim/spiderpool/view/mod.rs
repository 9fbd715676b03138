//! What the claims about Spiderpool have in common. Each event is worked out once, and handed on to all of them.
//!
//! ```text
//!  commits ──► pools, reservations, endpoints, pods, places, what people changed ┐
//!  notes of kubelets ──► sandboxes: the truth                                    ├─► Seen ──► claims
//!  notes of agents, requests, deliveries ──► agents, ledger                      ┘
//! ```
//!
//! A commit is taken in before the claims see it: it carries what was there. A note is taken in after: the view is that of
//! the moment before it. An *agent* is a process that ever said [`IpamNote`]; whoever else changes records or endpoints, and
//! is no part of the cluster by its name, is a person, and what follows from it is not held against the agents.

mod agents;
mod changes;
mod endpoints;
mod ledger;
mod places;
mod pods;
mod pools;
mod reservations;
mod sandboxes;
mod story;

use std::sync::Arc;

use ipam_core::ObjectKey;
use ipam_core::api::Verb;
use ipam_core::kubevirt::{VirtualMachine, VirtualMachineInstance};
use ipam_core::spiderpool::{SpiderEndpoint, SpiderIPPool, SpiderReservedIP};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod as PodObject};

use crate::kinds::{KindId, Registry};
use crate::object::{Obj, typed, typed_ref};
use crate::rt::{ProcessId, Rt};
use crate::time::SimTime;
use crate::trace::{Event, EventKind, Interest, Outcome, ProcessChange};
use crate::workload::spiderpool::{IpamNote, Opinion};
use crate::workload::{Note, OutOfReach, PodNote};

pub(super) use agents::{Agents, Shown, Tried};
pub(super) use changes::Changes;
pub(super) use endpoints::{EndpointChange, Endpoints, addresses_of, uid_of};
pub(super) use ledger::{Answer, Ledger};
use ledger::{Basis, Last, Release};
pub(super) use places::Places;
pub(super) use pods::{Place, Pod, Pods};
pub(super) use pools::{PoolChange, Pools, records_of, total};
pub(super) use reservations::Reservations;
pub(super) use sandboxes::{Sandbox, Sandboxes};

/// Somebody, at some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    /// Who.
    pub(super) by: ProcessId,
    /// When.
    pub(super) at: SimTime,
    /// An order for things that happen at one time: how many events were seen.
    pub(super) moment: u64,
}

/// What an event means for Spiderpool.
#[derive(Debug)]
pub(in super::super) enum Seen<'a> {
    /// A write of a pool took effect.
    Pool(Box<PoolChange>),
    /// A write of an endpoint took effect.
    Endpoint(Box<EndpointChange>),
    /// An agent learned how its write of a pool ended.
    Wrote(Outcome),
    /// An agent says something.
    Ipam(ProcessId, &'a IpamNote),
    /// A node says something.
    Pod(ProcessId, &'a PodNote),
}

/// The numbers of the types that matter.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    pools: KindId,
    reserved_ips: KindId,
    endpoints: KindId,
    pods: KindId,
    sets: KindId,
    instances: KindId,
    machines: KindId,
    namespaces: KindId,
    nodes: KindId,
}

/// All that claims may know.
#[derive(Debug)]
pub(in super::super) struct View {
    rt: Rt,
    kinds: Kinds,
    /// How many events were seen.
    moment: u64,
    /// Now.
    pub(super) at: SimTime,
    /// The pools.
    pub(super) pools: Pools,
    /// The reserved addresses.
    pub(super) reservations: Reservations,
    /// The endpoints.
    pub(super) endpoints: Endpoints,
    /// The pods.
    pub(super) pods: Pods,
    /// The places of StatefulSets and VMs.
    pub(super) places: Places,
    /// The sandboxes.
    pub(super) sandboxes: Sandboxes,
    /// The agents.
    pub(super) agents: Agents,
    /// Who was given what.
    pub(super) ledger: Ledger,
    /// What people did.
    pub(super) changes: Changes,
    /// For each write of a pool by an agent: up to which revision it had been shown the reservations when it read the pool.
    pub(super) reservations_shown: Option<u64>,
    /// What is not waited for.
    pub(super) out_of_reach: OutOfReach,
}

impl View {
    /// Which events it has to see.
    pub(in super::super) const INTEREST: Interest =
        Interest::COMMIT.and(Interest::NOTE).and(Interest::REQUEST).and(Interest::ANSWER).and(Interest::DELIVER).and(Interest::PROCESS);

    pub(in super::super) fn new(rt: &Rt, registry: &Registry, out_of_reach: OutOfReach) -> Self {
        let kinds = Kinds {
            pools: registry.id::<SpiderIPPool>(),
            reserved_ips: registry.id::<SpiderReservedIP>(),
            endpoints: registry.id::<SpiderEndpoint>(),
            pods: registry.id::<PodObject>(),
            sets: registry.id::<StatefulSet>(),
            instances: registry.id::<VirtualMachineInstance>(),
            machines: registry.id::<VirtualMachine>(),
            namespaces: registry.id::<Namespace>(),
            nodes: registry.id::<Node>(),
        };
        Self {
            rt: rt.clone(),
            kinds,
            moment: 0,
            at: SimTime::ZERO,
            pools: Pools::default(),
            reservations: Reservations::default(),
            endpoints: Endpoints::default(),
            pods: Pods::default(),
            places: Places::default(),
            sandboxes: Sandboxes::default(),
            agents: Agents::default(),
            ledger: Ledger::default(),
            changes: Changes::default(),
            reservations_shown: None,
            out_of_reach,
        }
    }

    /// Takes in an object that is there when the run begins.
    pub(in super::super) fn begin(&mut self, kind: KindId, key: &ObjectKey, object: &Obj) {
        let name = key.as_str();
        let said = Said { by: ProcessId(0), at: SimTime::ZERO, moment: 0 };
        match kind {
            kind if kind == self.kinds.pools => self.pools.begin(name, typed(object.clone())),
            kind if kind == self.kinds.endpoints => drop(self.endpoints.see(name, said, Some(typed(object.clone())))),
            kind => self.take(kind, key, 0, None, Some(object)),
        }
    }

    /// Takes an event in; `None` = claims have nothing to look at.
    pub(in super::super) fn see<'a>(&mut self, event: &Event<'a>) -> Option<Seen<'a>> {
        self.at = event.at;
        self.moment += 1;
        match event.kind {
            EventKind::Commit { client, kind, key, revision, before, after, .. } => self.commit(client, kind, key, revision, before, after),
            EventKind::Request { client, verb: Verb::Get, kind, key: Some(key), .. } if kind == self.kinds.pools => {
                self.agents.gets(client, key);
                None
            }
            EventKind::Answer { client, verb, kind, key, outcome } => self.answer(client, verb, kind, key, outcome),
            EventKind::Deliver { client, kind, revision, .. } => {
                if let Some(what) = self.shown(kind) {
                    self.agents.show(client, what, revision);
                }
                None
            }
            EventKind::Note { process, note: Note::Ipam(note) } => {
                self.agents.speaks(process);
                Some(Seen::Ipam(process, note))
            }
            EventKind::Note { process, note: Note::Pod(note) } => Some(Seen::Pod(process, note)),
            EventKind::Process { process, change: ProcessChange::Crashed | ProcessChange::Panicked } => {
                self.agents.lost(process);
                None
            }
            _ => None,
        }
    }

    /// Takes in what the claims have seen.
    pub(in super::super) fn settle(&mut self, seen: &Seen<'_>) {
        match seen {
            Seen::Ipam(process, note) => self.ipam_note(self.said(*process), note),
            Seen::Pod(process, note) => self.sandboxes.note(note, self.said(*process)),
            Seen::Pool(_) | Seen::Endpoint(_) | Seen::Wrote(_) => {}
        }
    }

    /// Time has passed without events.
    pub(in super::super) fn tick(&mut self, now: SimTime) {
        self.at = now;
    }

    pub(super) fn said(&self, by: ProcessId) -> Said {
        Said { by, at: self.at, moment: self.moment }
    }

    /// Whether a process is a person or one of a fault, neither an agent nor a part of the cluster.
    fn is_hand(&self, process: ProcessId) -> bool {
        !self.agents.is_agent(process) && !changes::is_system(&self.rt.process_name(process))
    }

    fn shown(&self, kind: KindId) -> Option<Shown> {
        match kind {
            kind if kind == self.kinds.pods => Some(Shown::Pods),
            kind if kind == self.kinds.pools => Some(Shown::Pools),
            kind if kind == self.kinds.reserved_ips => Some(Shown::Reservations),
            kind if kind == self.kinds.namespaces => Some(Shown::Namespaces),
            kind if kind == self.kinds.nodes => Some(Shown::Nodes),
            _ => None,
        }
    }

    fn commit<'a>(
        &mut self,
        client: ProcessId,
        kind: KindId,
        key: &ObjectKey,
        revision: u64,
        before: Option<&Obj>,
        after: Option<&Obj>,
    ) -> Option<Seen<'a>> {
        let said = self.said(client);
        if kind == self.kinds.pools {
            let version = self.pools.revision(key.as_str());
            self.reservations_shown = self.agents.reservations_behind(client, key, version);
            let mut change = self.pools.commit(key.as_str(), said, revision, after.map(|object| typed(object.clone())));
            change.by_agent = self.agents.is_agent(client);
            change.by_hand = !change.by_agent && self.is_hand(client);
            self.changes.see_pool(&change);
            return Some(Seen::Pool(Box::new(change)));
        }
        if kind == self.kinds.endpoints {
            let mut change = self.endpoints.see(key.as_str(), said, after.map(|object| typed(object.clone())));
            change.by_hand = self.is_hand(client);
            self.changes.see_endpoint(&change);
            return Some(Seen::Endpoint(Box::new(change)));
        }
        self.take(kind, key, revision, before, after);
        None
    }

    /// Takes in a version of an object that is neither pool nor endpoint.
    fn take(&mut self, kind: KindId, key: &ObjectKey, revision: u64, before: Option<&Obj>, after: Option<&Obj>) {
        let (name, moment) = (key.as_str(), self.moment);
        macro_rules! as_type {
            ($type:ty, $object:expr) => {
                $object.map(|object| typed_ref::<$type>(&**object))
            };
        }
        match kind {
            kind if kind == self.kinds.pods => {
                self.pods.see(key, revision, as_type!(PodObject, before), after.map(|object| typed(object.clone())));
            }
            kind if kind == self.kinds.reserved_ips => {
                self.reservations.see(name, revision, as_type!(SpiderReservedIP, after));
            }
            kind if kind == self.kinds.sets => self.places.see_set(name, moment, as_type!(StatefulSet, after)),
            kind if kind == self.kinds.instances => self.places.see_instance(name, moment, as_type!(VirtualMachineInstance, after)),
            kind if kind == self.kinds.machines => self.places.see_machine(name, moment, as_type!(VirtualMachine, after)),
            kind if kind == self.kinds.namespaces => {
                self.changes.see_namespace(name, revision, as_type!(Namespace, before), as_type!(Namespace, after));
            }
            kind if kind == self.kinds.nodes => self.changes.see_node(name, revision, as_type!(Node, before), as_type!(Node, after)),
            _ => {}
        }
    }

    fn answer(&mut self, client: ProcessId, verb: Verb, kind: KindId, key: Option<&ObjectKey>, outcome: Outcome) -> Option<Seen<'static>> {
        if verb == Verb::List && outcome == Outcome::Ok {
            if let Some(what) = self.shown(kind) {
                self.agents.listed(client, what);
            }
            return None;
        }
        if kind != self.kinds.pools {
            return None;
        }
        if let (Verb::Get, Some(key)) = (verb, key) {
            let version = self.pools.revision(key.as_str());
            self.agents.got(client, key, version);
            return None;
        }
        let writes = matches!(verb, Verb::Update | Verb::Patch) && self.agents.is_agent(client);
        writes.then_some(Seen::Wrote(outcome))
    }

    fn ipam_note(&mut self, said: Said, note: &IpamNote) {
        match note {
            IpamNote::AddBegun { container, nic, uid, .. } => self.agents.add_begun(container, nic, uid, said),
            IpamNote::Selected { uid, nic, opinion, order } => {
                self.agents.selected(said, uid, nic, *opinion == Opinion::Agrees, order);
            }
            IpamNote::Tried { uid, nic, pool, outcome } => {
                self.agents.tried(said.by, uid, &Tried { nic: nic.clone(), pool: pool.clone(), outcome: *outcome });
            }
            IpamNote::AddEnded { uid, container, nic, result, .. } => {
                let shown = self.agents.all_shown_before_add(said.by, uid);
                let asked = self.agents.add_ended(said.by, container, nic);
                if let Ok(given) = result {
                    let basis = Basis { began: asked.as_ref().map_or(said.moment, |asked| asked.began.moment), shown };
                    self.ledger.answered(uid, self.pods.get(uid), given, said, basis);
                }
                let refusal = result.as_ref().err().copied();
                let (agreed, tried) = asked.map_or((false, Vec::new()), |asked| (asked.agreed, asked.tried));
                self.ledger.ended(uid, Last { refusal, agreed, tried, said });
            }
            IpamNote::ReleaseBegun { uid, cause, what, .. } => {
                self.ledger.release_begun(uid, Release { said, cause: *cause, what: what.clone(), ended: None });
            }
            IpamNote::ReleaseEnded { uid, cause, .. } => self.ledger.release_ended(uid, *cause, said),
            IpamNote::Queued { ticket } => self.agents.queued(said.by, *ticket, said.at),
            IpamNote::Unqueued { ticket } => self.agents.unqueued(said.by, *ticket),
            IpamNote::Compared { .. } | IpamNote::DelBegun { .. } | IpamNote::DelEnded { .. } => {}
        }
    }

    /// The endpoint of a pod, by whichever of its names there is one.
    pub(super) fn endpoint_of(&self, pod: &Pod) -> Option<(&Arc<SpiderEndpoint>, bool)> {
        let found = pod.names().find_map(|name| Some((name, self.endpoints.get(name)?)));
        found.map(|(name, endpoint)| (endpoint, self.changes.touched_endpoint(name)))
    }

    /// Whether what the pods of a place may have can have changed since an answer to one of them was decided, as far as the agent
    /// had surely been shown it: its pool, reservations, its namespace, its node, its wishes. Then another address for `pod` may
    /// be right.
    pub(super) fn may_have_changed(&self, answer: &Answer, pod: &Pod) -> bool {
        let shown = |what: Shown| answer.basis.shown[what as usize];
        let Some(pool) = self.pools.get(&answer.given.pool) else { return true };
        let Some(predecessor) = self.pods.get(&answer.uid) else { return true };
        let namespace = pod.key.split_once('/').map_or("", |(namespace, _)| namespace);
        let other_node = pool.looks_at_nodes() && predecessor.node() != pod.node();
        pool.changed > shown(Shown::Pools)
            || self.reservations.changed > shown(Shown::Reservations)
            || self.changes.of_namespace(namespace) > shown(Shown::Namespaces)
            || pod.node().is_some_and(|node| self.changes.of_node(node) > shown(Shown::Nodes))
            || other_node
            || !pod.wants_the_same_as(predecessor)
    }
}
