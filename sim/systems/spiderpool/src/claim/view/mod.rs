//! The shared state of the claims about Spiderpool. Each event is evaluated once and handed on to all of them.
//!
//! ```text
//!  commits ──► pools, reservations, endpoints, pods, places, changes by hand     ┐
//!  notes of kubelets ──► sandboxes: the truth                                    ├─► Seen ──► claims
//!  notes of agents, requests, deliveries ──► agents, ledger                      │
//!  notes of replicas, requests, the state of nodes, faults ──► replicas, health   ┘
//! ```
//!
//! A commit is taken in before the claims see it, as it carries the previous state. A note is taken in afterwards, so the view shows the
//! moment before it. An *agent* is a process that ever sent an [`IpamNote`]. Other processes that change records or endpoints and are not
//! part of the cluster by their name act by hand, and agents are not blamed for the consequences. A *replica* is one of Spiderpool's
//! controller: it sent a [`ReclaimNote`] or has the name of one.

mod agents;
mod applications;
mod basis;
mod beginning;
mod changes;
mod endpoints;
mod entitlement;
mod health;
mod kubelets;
mod ledger;
mod nodes;
mod outliving;
mod overlaps;
mod places;
mod pod_state;
mod pods;
mod pools;
mod replica_notes;
mod replicas;
mod reservations;
mod sandboxes;
mod seen;
mod story;
mod subnets;
mod terms;
mod wishes;

use std::sync::Arc;

use ipam_spiderpool::{SpiderEndpoint, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod as PodObject};
use kube_machinery::FxHashMap;
use kube_machinery::ObjectKey;
use kube_machinery::api::{Reason, Verb};
use kube_machinery::kubevirt::{VirtualMachine, VirtualMachineInstance};
use kube_sim::kinds::{KindId, Registry};
use kube_sim::object::{Obj, typed, typed_ref};
use kube_sim::rt::{ProcessId, Rt};
use kube_sim::trace::{Event, EventKind, Interest, Outcome, ProcessChange, WatchKind};
use kubelets::Kubelets;
use ledger::Basis;
use sim_config::time::SimTime;
use sim_harness::workload::OutOfReach;

use crate::oracle::{Opinion, opinion};
use crate::workload::{IpamNote, ReclaimNote};

pub(super) use agents::{Agents, Asked, Shown, ShownUpTo, Tried};
pub(super) use applications::{Application, Applications, label};
use beginning::Beginning;
pub(super) use changes::Changes;
pub(super) use endpoints::{EndpointChange, Endpoints, Written, addresses_of, is_held_by_others, uid_of};
pub(crate) use entitlement::{EMPTY_POD_IPS, FORCE_DELETE, UNREACHABLE_NODE};
pub(super) use entitlement::{Reclaimed, is_of_set, sim_time, wall};
pub(super) use health::Health;
pub(super) use ledger::{Answer, Last, Ledger, Release};
pub(super) use nodes::Nodes;
pub(super) use places::Places;
pub(super) use pod_state::{grace, has_ended, has_ips, has_stopped, of_containers};
pub(super) use pods::{Place, Pod, Pods};
pub(super) use pools::{Holder, Pool, PoolChange, Pools, listed, records_of, total};
pub(super) use replicas::{Announced, Replicas};
pub(super) use reservations::Reservations;
pub(super) use sandboxes::{Sandbox, Sandboxes};
pub(crate) use seen::{EventMask, Seen};
pub(super) use subnets::{Subnet, SubnetChange, Subnets, entries_of};
pub(crate) use terms::Terms;
pub(super) use terms::{AFTERMATH, Reach};

/// A process and the time of what it said or wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    /// The process that said or wrote it; meaningless at moment 0, which is before the run.
    pub(super) by: ProcessId,
    /// The time of the event that made it known.
    pub(super) at: SimTime,
    /// The number of events seen by then, which orders events of the same time.
    pub(super) moment: u64,
}

/// The lease of Spiderpool's controller.
const LEASE: &str = "kube-system/spiderpool-controller-leader";

/// The IDs of the types that the view tracks.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    pools: KindId,
    subnets: KindId,
    reserved_ips: KindId,
    endpoints: KindId,
    pods: KindId,
    sets: KindId,
    instances: KindId,
    machines: KindId,
    namespaces: KindId,
    nodes: KindId,
    leases: KindId,
}

impl Kinds {
    /// Whether objects of a type are owners that keep addresses for their pods.
    fn is_owner(&self, kind: KindId) -> bool {
        [self.sets, self.instances, self.machines].contains(&kind)
    }
}

/// Everything that claims may know.
#[derive(Debug)]
pub(crate) struct View {
    rt: Rt,
    kinds: Kinds,
    /// The number of events seen.
    moment: u64,
    /// The time of the last event, or a later time up to which there was none.
    pub(super) at: SimTime,
    /// The pools as commits leave them, and the holder of each address.
    pub(super) pools: Pools,
    /// The subnets, and the addresses that are set aside in them for each pool.
    pub(super) subnets: Subnets,
    /// The workloads that pools are made for.
    pub(super) applications: Applications,
    /// The reserved addresses, now and at earlier revisions.
    pub(super) reservations: Reservations,
    /// The endpoints, and since when each has belonged to its pod.
    pub(super) endpoints: Endpoints,
    /// The pods by UID, including those that are gone.
    pub(super) pods: Pods,
    /// The places of StatefulSets and VMs.
    pub(super) places: Places,
    /// The sandboxes and the addresses that they answer on, as kubelets report.
    pub(super) sandboxes: Sandboxes,
    /// The revisions that each process was shown, and the open requests of agents.
    pub(super) agents: Agents,
    /// The answers and releases of each pod.
    pub(super) ledger: Ledger,
    /// Edits by hand, and the last changes of namespaces and nodes that matter to selection.
    pub(super) changes: Changes,
    /// For each write of a pool by an agent, the revision up to which it had been shown the reservations when it read the pool.
    pub(super) reservations_shown: Option<u64>,
    /// The nodes and pods that claims do not wait for.
    pub(super) out_of_reach: OutOfReach,
    /// The plan's settings and faults that matter to reclaim.
    pub(super) terms: Terms,
    /// The states that each node was in, by revision.
    pub(super) nodes: Nodes,
    /// The kubelets: whether they run, and when they were told that a pod is to end.
    pub(super) kubelets: Kubelets,
    /// The replicas of the controller.
    pub(super) replicas: Replicas,
    /// The addresses that replicas took from each pod, by UID.
    pub(super) reclaimed: FxHashMap<Arc<str>, Vec<Reclaimed>>,
    beginning: Beginning,
    /// The faults that can hinder reclaim: when they lasted, and how long their aftermath may take.
    pub(super) health: Health,
}

impl View {
    /// The events that the view has to see.
    pub(crate) const INTEREST: Interest = Interest::COMMIT
        .and(Interest::NOTE)
        .and(Interest::REQUEST)
        .and(Interest::ANSWER)
        .and(Interest::DELIVER)
        .and(Interest::PROCESS)
        .and(Interest::LOST)
        .and(Interest::FAULT);

    pub(crate) fn new(rt: &Rt, registry: &Registry, out_of_reach: OutOfReach, terms: Terms) -> Self {
        let kinds = Kinds {
            pools: registry.id::<SpiderIPPool>(),
            subnets: registry.id::<SpiderSubnet>(),
            reserved_ips: registry.id::<SpiderReservedIP>(),
            endpoints: registry.id::<SpiderEndpoint>(),
            pods: registry.id::<PodObject>(),
            sets: registry.id::<StatefulSet>(),
            instances: registry.id::<VirtualMachineInstance>(),
            machines: registry.id::<VirtualMachine>(),
            namespaces: registry.id::<Namespace>(),
            nodes: registry.id::<Node>(),
            leases: registry.id::<Lease>(),
        };
        Self {
            rt: rt.clone(),
            kinds,
            moment: 0,
            at: SimTime::ZERO,
            pools: Pools::default(),
            subnets: Subnets::default(),
            applications: Applications::new(registry),
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
            health: Health::new(terms.heal_at, terms.faults.clone()),
            terms,
            nodes: Nodes::default(),
            kubelets: Kubelets::default(),
            replicas: Replicas::default(),
            reclaimed: FxHashMap::default(),
            beginning: Beginning::default(),
        }
    }

    /// Takes in an object that exists when the run begins.
    pub(crate) fn begin(&mut self, kind: KindId, key: &ObjectKey, object: &Obj) {
        let name = key.as_str();
        let said = Said { by: ProcessId(0), at: SimTime::ZERO, moment: 0 };
        match kind {
            kind if kind == self.kinds.pools => {
                self.pools.begin(name, typed(object.clone()));
                self.applications.see_pool(&name.into(), None, Some(typed_ref(&**object)));
            }
            kind if kind == self.kinds.subnets => self.subnets.begin(name, typed(object.clone())),
            kind if kind == self.kinds.endpoints => drop(self.endpoints.see(name, said, Some(typed(object.clone())), 0)),
            kind => drop(self.take(kind, key, 0, None, Some(object))),
        }
    }

    /// Takes in an event; `None` = it does not concern the claims.
    pub(crate) fn see<'a>(&mut self, event: &Event<'a>) -> Option<Seen<'a>> {
        self.at = event.at;
        if self.moment == 0 {
            self.beginning = Beginning::of(self);
        }
        self.moment += 1;
        match event.kind {
            EventKind::Commit { client, kind, key, revision, before, after, .. } => self.commit(client, kind, key, revision, before, after),
            EventKind::Request { client, verb: Verb::Get, kind, key: Some(key), .. } if kind == self.kinds.pools => {
                self.agents.gets(client, key);
                None
            }
            EventKind::Request { client, verb: Verb::Update, kind, key: Some(key), .. } if kind == self.kinds.pools => {
                if self.agents.is_agent(client) {
                    let said = self.said(client);
                    self.agents.writes(said, key);
                }
                None
            }
            EventKind::Request { client, verb: Verb::Get, kind, key: Some(key), .. } if self.kinds.is_owner(kind) => {
                if self.is_replica(client) {
                    self.replicas.asks(self.said(client), key.as_str());
                }
                None
            }
            EventKind::Request { client, verb: Verb::Get, kind, key: Some(key), .. } if kind == self.kinds.pods => {
                if self.is_replica(client) {
                    self.replicas.asks_for_pod(self.said(client), key.as_str());
                }
                None
            }
            EventKind::Request { client, verb: Verb::Get, kind, key: Some(key), .. } if kind == self.kinds.nodes => {
                if self.is_replica(client) {
                    let (revision, shown) = (self.nodes.revision(key.as_str()), self.agents.shown(client, Shown::Nodes));
                    self.replicas.asks_for_node(self.said(client), key.as_str(), revision, shown);
                }
                None
            }
            EventKind::Answer { client, verb, kind, key, outcome } => self.answer(client, verb, kind, key, outcome),
            EventKind::Lost { server, kind, revision, .. } => {
                if let Some(what) = self.shown(kind) {
                    self.agents.cache_loses(server, what, revision);
                }
                None
            }
            EventKind::Relisted { server, kind } => {
                if let Some(what) = self.shown(kind) {
                    self.agents.cache_has_all(server, what);
                }
                None
            }
            EventKind::Request { client, verb: Verb::Watch, kind, .. } if kind == self.kinds.pods => {
                self.replicas.watches(client);
                None
            }
            EventKind::Deliver { client, kind, what, revision, object } => {
                self.hear_of_pod(client, kind, what, object);
                if let Some(what) = self.shown(kind) {
                    self.agents.show(client, what, revision);
                }
                if what == WatchKind::InitialEventsEnd {
                    self.relisted(client, kind, |replicas, _| replicas.streamed(client))
                } else {
                    None
                }
            }
            EventKind::Note { process, note } => {
                if let Some(note) = note.downcast_ref() {
                    self.agents.speaks(process);
                    Some(match note {
                        IpamNote::Selected { uid, nic, question, selection, order } => {
                            let opinion = question.ask(|cluster, request, controller| opinion(cluster, request, controller, selection));
                            Seen::Selected { by: process, uid, nic, order, opinion }
                        }
                        _ => Seen::Ipam(process, note),
                    })
                } else if let Some(note) = note.downcast_ref() {
                    self.kubelets.speaks(process);
                    Some(Seen::Pod(process, note))
                } else if let Some(note) = note.downcast_ref() {
                    // A change of the leader counts from now on.
                    if let ReclaimNote::Leads(leads) = note {
                        self.replicas.leads_now(self.said(process), *leads);
                    }
                    Some(Seen::Reclaim(process, note))
                } else {
                    note.downcast_ref().map(|note| Seen::Hook(process, note))
                }
            }
            EventKind::Process { process, change } => {
                if matches!(change, ProcessChange::Crashed | ProcessChange::Panicked) {
                    self.agents.lost(self.said(process));
                }
                self.kubelets.changes(process, change, event.at);
                self.replicas.changes(process, change, event.at);
                self.replicas.is_one(process).then_some(Seen::Process(process, change))
            }
            EventKind::Fault { index, change } => {
                self.health.see(index, change, event.at);
                None
            }
            _ => None,
        }
    }

    /// Takes in an event that the claims have seen.
    pub(crate) fn settle(&mut self, seen: &Seen<'_>) {
        match seen {
            Seen::Ipam(process, note) => self.ipam_note(self.said(*process), note),
            Seen::Selected { by, uid, nic, order, opinion } => {
                self.agents.selected(self.said(*by), uid, nic, *opinion == Opinion::Agrees, order);
            }
            Seen::Pod(process, note) => self.sandboxes.note(note, self.said(*process)),
            Seen::Reclaim(process, note) => self.reclaim_note(self.said(*process), note),
            Seen::Pool(_)
            | Seen::Subnet(_)
            | Seen::Endpoint(_)
            | Seen::Wrote(_)
            | Seen::PoolRefused
            | Seen::Hook(..)
            | Seen::Life(_)
            | Seen::Places
            | Seen::Node
            | Seen::Lease(_)
            | Seen::Process(..)
            | Seen::Relisted(..) => {}
        }
    }

    /// Takes note that time has passed without events.
    pub(crate) fn tick(&mut self, now: SimTime) {
        self.at = now;
    }

    pub(super) fn said(&self, by: ProcessId) -> Said {
        Said { by, at: self.at, moment: self.moment }
    }

    /// Whether a process acts by hand or for a fault, being neither an agent nor a part of the cluster.
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
            change.sent = self.agents.sent(client, key);
            change.left_behind = self.agents.left_behind(client, key);
            change.by_replica = !change.by_agent && self.is_replica(client);
            change.by_hand = !change.by_agent && !change.by_replica && self.is_hand(client);
            if change.by_replica {
                self.note_reclaimed(&change);
            }
            self.changes.see_pool(&change);
            if change.by_agent {
                self.forget_hands(&change);
                let beside = |uid: &str| may_have_run_beside(&self.pods, &self.places, &self.agents, client, uid);
                self.ledger.see_pool(&change, |uid| self.agents.all_shown_before_add(client, uid), beside);
            }
            self.applications.see_pool(&change.pool, change.before.as_deref(), change.after.as_deref());
            return Some(Seen::Pool(Box::new(change)));
        }
        if kind == self.kinds.subnets {
            let by_hand = !self.agents.is_agent(client) && !self.is_replica(client) && self.is_hand(client);
            let change = self.subnets.commit(key.as_str(), said, revision, after.map(|object| typed(object.clone())), by_hand);
            return Some(Seen::Subnet(Box::new(change)));
        }
        if kind == self.kinds.endpoints {
            let shown = |object: &Obj| self.agents.shown_before_add(client, uid_of(typed_ref::<SpiderEndpoint>(&**object)), Shown::Pods);
            let mut change = self.endpoints.see(key.as_str(), said, after.map(|object| typed(object.clone())), after.map_or(0, shown));
            change.by_replica = self.is_replica(client);
            change.by_hand = !change.by_replica && self.is_hand(client);
            self.changes.see_endpoint(&change);
            return Some(Seen::Endpoint(Box::new(change)));
        }
        if kind == self.kinds.leases {
            let holder =
                |object: Option<&Obj>| object.and_then(|object| typed_ref::<Lease>(&**object).spec.as_ref()?.holder_identity.clone());
            let takes = key.as_str() == LEASE && holder(before) != holder(after) && holder(after).as_deref() == Some(&*self.name(client));
            if takes {
                self.replicas.speaks(client);
            }
            return takes.then_some(Seen::Lease(client));
        }
        self.take(kind, key, revision, before, after)
    }

    /// Takes in a version of an object that is neither a pool nor an endpoint.
    fn take<'a>(&mut self, kind: KindId, key: &ObjectKey, revision: u64, before: Option<&Obj>, after: Option<&Obj>) -> Option<Seen<'a>> {
        let (name, when) = (key.as_str(), (self.moment, self.at));
        self.applications.see(kind, name, self.at, after);
        macro_rules! as_type {
            ($type:ty, $object:expr) => {
                $object.map(|object| typed_ref::<$type>(&**object))
            };
        }
        match kind {
            kind if kind == self.kinds.pods => {
                let after = after.map(|object| typed(object.clone()));
                return self.pods.see(key, (revision, self.at), as_type!(PodObject, before), after).map(Seen::Life);
            }
            kind if kind == self.kinds.reserved_ips => {
                self.reservations.see(name, revision, as_type!(SpiderReservedIP, after));
            }
            kind if kind == self.kinds.sets => {
                return self.places.see_set(name, when, as_type!(StatefulSet, after)).then_some(Seen::Places);
            }
            kind if kind == self.kinds.instances => {
                return self.places.see_instance(name, when, as_type!(VirtualMachineInstance, after)).then_some(Seen::Places);
            }
            kind if kind == self.kinds.machines => {
                return self.places.see_machine(name, when, as_type!(VirtualMachine, after)).then_some(Seen::Places);
            }
            kind if kind == self.kinds.namespaces => {
                self.changes.see_namespace(name, revision, as_type!(Namespace, before), as_type!(Namespace, after));
            }
            kind if kind == self.kinds.nodes => {
                self.changes.see_node(name, revision, as_type!(Node, before), as_type!(Node, after));
                return self.nodes.see(name, revision, self.at, as_type!(Node, after)).then_some(Seen::Node);
            }
            _ => {}
        }
        None
    }

    fn answer(&mut self, client: ProcessId, verb: Verb, kind: KindId, key: Option<&ObjectKey>, outcome: Outcome) -> Option<Seen<'static>> {
        if verb == Verb::List && outcome == Outcome::Ok {
            // What a list does not show yet, its watch will.
            let relisted = self.relisted(client, kind, |replicas, pods| {
                replicas.listed(client, pods.present().map(|(uid, pod)| (uid.clone(), has_stopped(&pod.object))))
            });
            if let Some(what) = self.shown(kind) {
                self.agents.listed(client, what);
            }
            return relisted;
        }
        if kind != self.kinds.pools {
            return None;
        }
        if let (Verb::Get, Some(key)) = (verb, key) {
            let version = self.pools.revision(key.as_str());
            self.agents.got(client, key, version);
            return None;
        }
        if let (Verb::Update, Some(key), Outcome::Ok | Outcome::Http(400..500, _)) = (verb, key, outcome) {
            self.agents.wrote(client, key);
        }
        if matches!(verb, Verb::Create | Verb::Update | Verb::Patch)
            && matches!(outcome, Outcome::Http(_, Reason::Invalid | Reason::Forbidden))
        {
            return Some(Seen::PoolRefused);
        }
        let writes = matches!(verb, Verb::Update | Verb::Patch) && self.agents.is_agent(client);
        writes.then_some(Seen::Wrote(outcome))
    }

    fn ipam_note(&mut self, said: Said, note: &IpamNote) {
        match note {
            IpamNote::AddBegun { container, nic, uid, .. } => self.agents.add_begun(container, nic, uid, said),
            IpamNote::Tried { uid, nic, pool, outcome } => {
                self.agents.tried(said.by, uid, &Tried { nic: nic.clone(), pool: pool.clone(), outcome: *outcome });
            }
            IpamNote::AddEnded { uid, container, nic, result, .. } => {
                let shown = self.agents.all_shown_before_add(said.by, uid);
                let beside = self.may_have_run_beside(said.by, uid);
                let asked = self.agents.add_ended(said.by, container, nic);
                if let Ok(given) = result {
                    let began = asked.as_ref().map_or(said.moment, |asked| asked.began.moment);
                    let basis = Basis { began, beside, shown, endpoint: self.endpoint_written(uid) };
                    self.ledger.answered(uid, self.pods.get(uid), given, said, basis);
                }
                let refusal = result.as_ref().err().copied();
                let began = asked.as_ref().map_or(said.at, |asked| asked.began.at);
                let (agreed, order, tried) =
                    asked.map_or_else(|| (false, [].into(), Vec::new()), |asked| (asked.agreed, asked.last_order(), asked.tried));
                self.ledger.ended(uid, Last { nic: nic.clone(), refusal, agreed, order, tried, doubts: Vec::new(), began, said });
            }
            IpamNote::ReleaseBegun { uid, cause, what, .. } => {
                self.ledger.release_begun(uid, Release { said, cause: *cause, what: what.clone(), ended: None, ok: false });
            }
            IpamNote::ReleaseEnded { uid, cause, ok, .. } => self.ledger.release_ended(uid, *cause, *ok, said),
            IpamNote::Queued { ticket } => self.agents.queued(said.by, *ticket, said.at),
            IpamNote::Unqueued { ticket } => self.agents.unqueued(said.by, *ticket),
            IpamNote::Selected { .. } | IpamNote::Compared { .. } | IpamNote::DelBegun { .. } | IpamNote::DelEnded { .. } => {}
        }
    }

    /// Whether another pod of a pod's VM may have run at some time of the ADDs for this one that are open at an agent: it exists, did so
    /// when the first of them began, or is active by the VM's instance. Then the pod gets what the VM has, whatever the rules say (A W28).
    /// If none is open, the write of an earlier one may be carried out now: then any other pod of the VM counts.
    pub(super) fn may_have_run_beside(&self, agent: ProcessId, uid: &str) -> bool {
        may_have_run_beside(&self.pods, &self.places, &self.agents, agent, uid)
    }

    /// Whether a replica certainly runs with reclaim switched off.
    pub(super) fn is_switched_off(&self, replica: ProcessId) -> bool {
        self.terms.is_switched_off(self.replicas.started(replica))
    }

    /// Whether replicas run, and all of them certainly with reclaim switched off.
    pub(super) fn reclaim_is_switched_off(&self) -> bool {
        let mut running = self.replicas.running().peekable();
        running.peek().is_some() && running.all(|replica| self.is_switched_off(replica))
    }

    /// Whether a write of a replica that runs with reclaim switched off can originate in an earlier life in which it reclaimed, because it
    /// was not announced in this one.
    pub(super) fn may_be_of_a_former_life(&self, replica: ProcessId, announced: Option<&Announced>) -> bool {
        let started = self.replicas.started(replica);
        !self.terms.was_never_on(started) && announced.is_none_or(|announced| announced.said.at < started)
    }

    fn is_replica(&mut self, process: ProcessId) -> bool {
        let rt = &self.rt;
        self.replicas.knows(process, || rt.process_name(process))
    }
}

/// [`View::may_have_run_beside`], while other parts of the view change.
fn may_have_run_beside(pods: &Pods, places: &Places, agents: &Agents, agent: ProcessId, uid: &str) -> bool {
    let Some(pod) = pods.get(uid) else { return false };
    let Some(Place::Vm(vm)) = &pod.place else { return false };
    let began = agents.asked(agent, uid).map(|asked| asked.began.at).min().unwrap_or(SimTime::ZERO);
    let was_there = |(other, pod): (&Arc<str>, &Pod)| **other != *uid && pod.since.gone.is_none_or(|gone| gone >= began);
    places.had_other_active_pod(vm, uid, began) || pods.of_same_name(pod).any(was_there)
}

/// Whether two pods, given by UID, belong to the same VM, so that one may be the migration target of the other.
pub(super) fn is_migration(view: &View, one: &str, other: &str) -> bool {
    let vm = |uid: &str| view.pods.get(uid).and_then(|pod| pod.place.as_ref()).filter(|place| matches!(place, Place::Vm(_)));
    vm(one).is_some_and(|place| vm(other) == Some(place))
}
