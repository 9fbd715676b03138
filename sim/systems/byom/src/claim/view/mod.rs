//! The shared view of the claims about a pool: its document, the ledger of its sandboxes, its processes and VMs. Each event is processed
//! once, and passed on to all claims.
//!
//! A *process of the pool* is one that noted [`PoolNote::Configured`]. All others are outside writers: the pool is not held responsible for
//! what they remove or damage ([`Ledger::hand`]). A document that was deleted, made unreadable or stripped of its map of records is another
//! matter: the pool must rebuild it without losing any address that a sandbox was told.

mod document;
mod ledger;
mod owners;
mod processes;
mod story;
mod vms;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipam_byom::{Address, AddressKey, IpAllocation, PoolConfigMap, PoolDocument};
use kube_machinery::ObjectKey;
use kube_machinery::api::{Reason, Verb};
use kube_sim::cluster::EPOCH;
use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use kube_sim::rt::{ProcessId, Rt};
use kube_sim::trace::{Event, EventKind, FaultChange, Interest, Outcome, ProcessChange};
use ledger::{Hand, Recorded, Release, Said};
use processes::{Asked, Configuration, Read, Recovery, Sight};
use sim_config::time::SimTime;
use sim_harness::check::OLDER_VERSION;
use sim_harness::workload::OutOfReach;

use super::{BY_HAND, UNLISTED};
use crate::workload::PoolNote;
use crate::workload::pods::PoolPlace;

pub(super) use document::{Beside, Change, Missing, RecordEdit, State, places};
pub(super) use ledger::{Grant, Ledger, Sandbox};
pub(super) use owners::Owners;
pub(super) use processes::Processes;
pub(super) use vms::Vms;

/// The meaning of an event for a pool.
#[derive(Debug)]
pub(crate) enum Seen<'a> {
    /// A write of its ConfigMap took effect.
    Commit(Box<Change>),
    /// A process of the pool has written a ConfigMap in another place.
    Misplaced(ProcessId, &'a ObjectKey),
    /// A process of the pool requests its ConfigMap.
    Asks(ProcessId),
    /// A process of the pool got the outcome of its write of the ConfigMap.
    Wrote(Outcome),
    /// A note about the pool.
    Note(ProcessId, &'a PoolNote),
}

/// The state known to claims, as of the event that they handle.
#[derive(Debug)]
pub(crate) struct View {
    rt: Rt,
    key: ObjectKey,
    /// The type of its object, once a process of the pool has read it.
    kind: Option<KindId>,
    /// The content of the ConfigMap.
    pub(super) state: State,
    /// The revision of the last commit; 0 = none in this run.
    pub(super) revision: u64,
    /// The number of commits, by any writer.
    pub(super) commits: u64,
    /// The number of commits that changed the document from outside.
    pub(super) meddled: u64,
    /// The number of notes and changes of processes so far: an order for events at the same time.
    pub(super) moment: u64,
    /// The time of the last event of any kind.
    pub(super) at: SimTime,
    /// The processes that recover.
    recovering: Vec<ProcessId>,
    /// The processes of other pools.
    elsewhere: BTreeSet<ProcessId>,
    /// The ledger of sandboxes.
    pub(super) ledger: Ledger,
    /// All known processes; those with a configuration belong to the pool.
    pub(super) processes: Processes,
    /// The tenant of each VM, and whether it answers.
    pub(super) vms: Vms,
    /// The PeerPods that still have their finalizer.
    pub(super) owners: Owners,
    /// The UIDs of the desired pods, by `NAMESPACE/NAME`.
    pub(super) wanted: BTreeMap<Arc<str>, Arc<str>>,
    /// Whether pods were ever desired.
    pub(super) has_pods: bool,
    /// The nodes and pods that are not waited for.
    pub(super) out_of_reach: OutOfReach,
    /// The time at which a fault that may have set a clock last began or ended.
    fault_changed: Option<SimTime>,
    /// The time spans in which processes are of an older version, by name.
    older: BTreeMap<String, (SimTime, SimTime)>,
}

impl View {
    /// The events that the view needs.
    pub(crate) const INTEREST: Interest = Interest::COMMIT
        .and(Interest::NOTE)
        .and(Interest::REQUEST)
        .and(Interest::ANSWER)
        .and(Interest::PROCESS)
        .and(Interest::LOST)
        .and(Interest::FAULT);

    /// `snapshots`: whether exact lists come from snapshots of watch caches.
    pub(crate) fn new(rt: &Rt, out_of_reach: OutOfReach, snapshots: bool) -> Self {
        Self {
            rt: rt.clone(),
            key: PoolPlace::default().documented(),
            kind: None,
            state: State::default(),
            revision: 0,
            commits: 0,
            meddled: 0,
            moment: 0,
            at: SimTime::ZERO,
            recovering: Vec::new(),
            elsewhere: BTreeSet::new(),
            ledger: Ledger::default(),
            processes: Processes::default(),
            vms: Vms::default(),
            owners: Owners::new(snapshots),
            wanted: BTreeMap::new(),
            has_pods: false,
            out_of_reach,
            fault_changed: None,
            older: BTreeMap::new(),
        }
    }

    /// The same for a pool in another place.
    pub(crate) fn with_place(self, key: ObjectKey) -> Self {
        Self { key, ..self }
    }

    /// The same for a run in which these processes are of an older version from one time until another.
    pub(crate) fn with_upgrade(self, older: BTreeMap<String, (SimTime, SimTime)>) -> Self {
        Self { older, ..self }
    }

    /// Processes an event; `None` = it is not about a pool.
    pub(crate) fn see<'a>(&mut self, event: &Event<'a>) -> Option<Seen<'a>> {
        self.at = event.at;
        match event.kind {
            EventKind::Commit { client, kind, key, revision, before, after, .. } => {
                let is_config_map = |object: &Obj| object.as_any().is::<PoolConfigMap>();
                if *key == self.key && before.or(after).is_some_and(is_config_map) {
                    if self.commits == 0 {
                        self.state = State::of(before);
                    }
                    let mut change = self.commit(client, revision, State::of(after));
                    change.reads_differently = document::reads_differently(before, after);
                    change.beside = document::beside(before, after);
                    return Some(Seen::Commit(Box::new(change)));
                }
                if after.is_some_and(is_config_map) && self.processes.is_of_pool(client) {
                    return Some(Seen::Misplaced(client, key));
                }
                self.owners.see(kind, key, before, after, event.at);
                None
            }
            EventKind::Lost { server, kind, key, .. } => {
                self.owners.lost(server, kind, key, event.at);
                None
            }
            EventKind::Relisted { server, kind } => {
                self.owners.relisted(server, kind, event.at);
                None
            }
            EventKind::Request { client, verb: Verb::Get, key: Some(key), .. } if *key == self.key => {
                let (sight, asked) = (self.sight(), Asked { at: self.at, clock: self.clock(client) });
                let process = self.processes.of(client);
                process.reading.push((sight, asked));
                process.asked.get_or_insert(asked);
                process.insistence.asks(sight.at);
                process.configuration.is_some().then_some(Seen::Asks(client))
            }
            EventKind::Answer { client, verb, kind, key, outcome } => self.answer(client, verb, kind, key, outcome),
            EventKind::Note { process, note } => {
                let note = note.downcast_ref()?;
                if self.elsewhere.contains(&process) {
                    return None;
                }
                self.moment += 1;
                self.note(process, note);
                Some(Seen::Note(process, note))
            }
            EventKind::Fault { change: FaultChange::Began | FaultChange::Ended, .. } => {
                self.fault_changed = Some(event.at);
                None
            }
            EventKind::Process { process, change } => {
                self.moment += 1;
                self.process(process, change);
                None
            }
            _ => None,
        }
    }

    /// The place of the pool.
    pub(super) fn place(&self) -> &ObjectKey {
        &self.key
    }

    /// The name of a process's host, which is that of its node.
    pub(super) fn host(&self, process: ProcessId) -> Arc<str> {
        self.rt.host_name(self.rt.host_of(process))
    }

    /// The wall clock of a process, in whole seconds since 1970.
    pub(super) fn clock(&self, process: ProcessId) -> i64 {
        let ahead = self.rt.clock_of(process).wall_ahead(self.at);
        EPOCH.as_second() + ahead.saturating_add_unsigned(self.at.as_micros()).div_euclid(1_000_000)
    }

    /// Whether a clock may have been set since `time`: a fault began or ended.
    pub(super) fn clock_may_be_set_since(&self, time: SimTime) -> bool {
        self.fault_changed.is_some_and(|changed| changed >= time)
    }

    fn sight(&self) -> Sight {
        Sight { at: self.at, revision: self.revision, version: self.state.version() }
    }

    fn answer(&mut self, client: ProcessId, verb: Verb, kind: KindId, key: Option<&ObjectKey>, outcome: Outcome) -> Option<Seen<'static>> {
        // A create does not name its object, but the pool creates nothing else of this type.
        let is_pool = key.is_some_and(|key| *key == self.key) || verb == Verb::Create && self.kind == Some(kind);
        if !is_pool {
            return None;
        }
        let to = self.sight();
        let process = self.processes.of(client);
        let missing = matches!(outcome, Outcome::Http(_, Reason::NotFound));
        let raced = matches!(outcome, Outcome::Http(_, Reason::Conflict | Reason::AlreadyExists)) || missing;
        if outcome != Outcome::Ok && !missing {
            process.insistence.refused(to.at, outcome);
        }
        if outcome != Outcome::Ok && !raced {
            process.failed = Some(to.at);
        } else if raced && !missing {
            process.raced = Some(to.at);
        }
        if verb == Verb::Get {
            self.kind = Some(kind);
            let from = process.reading.first().map(|(sight, _)| *sight);
            process.reading.pop();
            if let Some(from) = from.filter(|_| missing || outcome == Outcome::Ok) {
                process.read.rotate_right(1);
                process.read[0] = Some(Read { from, to });
            }
            return None;
        }
        let wrote = matches!(verb, Verb::Update | Verb::Create) && process.configuration.is_some();
        wrote.then_some(Seen::Wrote(outcome))
    }

    fn commit(&mut self, by: ProcessId, revision: u64, after: State) -> Change {
        let mut change = Change {
            by,
            by_pool: self.processes.is_of_pool(by),
            at: self.at,
            revision,
            before_revision: std::mem::replace(&mut self.revision, revision),
            before: std::mem::replace(&mut self.state, after.clone()),
            after,
            anew: false,
            reads_differently: false,
            beside: Beside::default(),
            missing: Vec::new(),
            records: Vec::new(),
            lost: Vec::new(),
            gained: Vec::new(),
            altered: Vec::new(),
            asked: self.processes.get(by).and_then(|process| process.asked),
            read: self.processes.get(by).map(|process| process.read).unwrap_or_default(),
        };
        change.work_out();
        self.commits += 1;
        for process in self.processes.0.values_mut() {
            // Requests under way may return the new version; those already answered did not.
            process.asked = process.reading.first().map(|(_, asked)| *asked);
        }
        for recovering in &self.recovering {
            if let Some(recovery) = &mut self.processes.of(*recovering).recovery {
                // A recovery writes only the list, unless it rebuilds the document.
                recovery.disturbed |= by != *recovering || !(change.anew || change.records.is_empty());
            }
        }
        if change.by_pool {
            self.take_records(&mut change);
        } else {
            self.take_meddling(&change);
        }
        change
    }

    /// The acknowledged allocations that a document rebuilt by `change` lacks. The pool is not responsible for those that no list of owners
    /// may have shown, until they are recorded again: the VM still serves its old allocation.
    fn take_missing(&mut self, change: &Change, document: &PoolDocument) -> Vec<Missing> {
        let said = Said { by: change.by, at: change.at };
        let missing = self.ledger.missing_from(document);
        let not_shown = |id: &&Arc<str>| document.allocated.get(id).is_none() && !self.knows_by_itself(change.by, id);
        let unlisted: BTreeSet<Arc<str>> = self.owners.unlisted(change.asked_for_owners()).filter(not_shown).cloned().collect();
        for id in &unlisted {
            self.ledger.hands.entry(id.clone()).or_insert(Hand { excuse: UNLISTED, said, revision: change.revision });
        }
        let excuse = |id: &Arc<str>| unlisted.contains(id).then_some(UNLISTED);
        missing.into_iter().map(|id| Missing { excuse: excuse(&id), id }).collect()
    }

    /// Whether a process acknowledged an allocation itself, and has not restarted since.
    fn knows_by_itself(&self, process: ProcessId, id: &str) -> bool {
        let grant = self.ledger.get(id).and_then(Sandbox::acknowledged).filter(|grant| grant.said.by == process);
        grant.is_some_and(|grant| self.processes.get(process).is_none_or(|process| process.started <= Some(grant.said.at)))
    }

    fn take_records(&mut self, change: &mut Change) {
        let said = Said { by: change.by, at: change.at };
        if let (true, Some(document)) = (change.anew, change.after.document()) {
            self.ledger.made_anew(document);
            change.missing = self.take_missing(change, document);
        }
        let by_older = self.is_by_older(change);
        let mut altered = Vec::new();
        for edit in &change.records {
            let Some(sandbox) = self.ledger.sandboxes.get_mut(&edit.id) else { continue };
            let recorded = |record: &Arc<IpAllocation>| Recorded {
                address: record.ip.clone(),
                record: record.clone(),
                said,
                revision: change.revision,
                version: change.after.version(),
            };
            if let Some(record) = edit.added() {
                let is_ours = !self.ledger.hands.contains_key(&edit.id);
                if change.anew && is_ours && sandbox.recorded.as_ref().is_some_and(|known| !known.says_the_same_as(record)) {
                    altered.push(edit.id.clone());
                }
                if self.ledger.hands.get(&edit.id).is_some_and(|hand| [UNLISTED, OLDER_VERSION.name].contains(&hand.excuse)) {
                    self.ledger.hands.remove(&edit.id);
                }
                sandbox.recorded = Some(recorded(record));
                sandbox.times_recorded += 1;
                sandbox.removed = None;
                sandbox.lost_on_the_way = false;
            } else if let Some(record) = edit.removed() {
                sandbox.removed = Some(recorded(record));
                // The sandbox continues without a record. The pool is not responsible for it until it is over, whatever is requested
                // meanwhile.
                if by_older && sandbox.acknowledged().is_some() {
                    let hand = Hand { excuse: OLDER_VERSION.name, said, revision: change.revision };
                    self.ledger.hands.entry(edit.id.clone()).or_insert(hand);
                }
            }
        }
        change.altered = altered;
    }

    /// Whether the writer of a change was of an older version then.
    pub(super) fn is_by_older(&self, change: &Change) -> bool {
        let is_older = |(from, until): &(SimTime, SimTime)| *from <= change.at && change.at < *until;
        !self.older.is_empty() && self.older.get(&*self.rt.process_name(change.by)).is_some_and(is_older)
    }

    fn take_meddling(&mut self, change: &Change) {
        let same_list = change.lost.is_empty() && change.gained.is_empty();
        if change.before.document().is_some() == change.after.document().is_some() && change.records.is_empty() && same_list {
            return;
        }
        self.meddled += 1;
        let Some(after) = change.after.whole() else { return };
        let mut ids: Vec<Arc<str>> = if change.anew { self.ledger.not_in(after) } else { Vec::new() };
        let restored = |edit: &RecordEdit| {
            let given = self.ledger.get(&edit.id).and_then(Sandbox::acknowledged);
            edit.after.as_ref().zip(given).is_some_and(|(record, grant)| record.ip.key() == grant.address.key())
        };
        // Another spelling of an address is the same address.
        let touched = |edit: &&RecordEdit| edit.lost_address().is_some() || edit.added().is_some();
        ids.extend(change.records.iter().filter(touched).filter(|edit| !restored(edit)).map(|edit| edit.id.clone()));
        let hand = Hand { excuse: BY_HAND, said: Said { by: change.by, at: change.at }, revision: change.revision };
        for id in ids {
            self.ledger.hands.insert(id, hand.clone());
        }
    }

    fn note(&mut self, process: ProcessId, note: &PoolNote) {
        let said = Said { by: process, at: self.at };
        if note.is_of_operation() {
            self.processes.of(process).insistence.begins_or_ends();
        }
        let grant = |address: &Address| Grant { address: address.clone(), said };
        match note {
            PoolNote::Configured { setting, config } => {
                let process = self.processes.of(process);
                process.configuration = Some(Configuration { setting: setting.clone(), config: config.0.clone() });
                process.runs = true;
            }
            PoolNote::OfOtherPool { .. } => drop(self.elsewhere.insert(process)),
            PoolNote::Wanted { pod, uid } => {
                self.has_pods = true;
                self.wanted.insert(pod.clone(), uid.clone());
            }
            PoolNote::Unwanted { pod } => drop(self.wanted.remove(pod)),
            PoolNote::Asked { id } => self.ledger.asked(id, said, self.meddled),
            PoolNote::Locked { .. } => {}
            PoolNote::Allocated { id, address, .. } => {
                self.ledger.answered(id, process, Some(grant(address)));
                self.disown(id, address.key(), said);
            }
            PoolNote::Refused { id, .. } => self.ledger.answered(id, process, None),
            PoolNote::Told { id, address } => self.ledger.told(id, grant(address)),
            PoolNote::Running { id, pod, uid } => {
                let sandbox = self.ledger.of(id);
                sandbox.pod = Some(pod.clone());
                sandbox.runs = sandbox.ended.is_none().then(|| uid.clone());
            }
            PoolNote::Ended { id, pod } => self.ledger.ended(id, pod, self.at),
            PoolNote::ReleaseBegun { id, by } => self.ledger.release_begun(id, Release { way: *by, said }),
            PoolNote::ReleaseEnded { id, failure, .. } => {
                let sandbox = self.ledger.of(id);
                sandbox.released = sandbox.released.or(failure.is_none().then_some(said.at));
            }
            PoolNote::RecoverBegun => {
                let began = self.moment;
                self.recovering.push(process);
                let process = self.processes.of(process);
                process.recovery = Some(Recovery { disturbed: false, began, at: said.at });
                process.recovers = true;
            }
            PoolNote::RecoverEnded { .. } => {
                self.recovering.retain(|other| *other != process);
                self.processes.of(process).recovers = false;
            }
            PoolNote::Vm { address, change } => self.vms.see(address.key(), change, said.at),
        }
    }

    /// Ends the pool's responsibility for a record that an outside writer removed before its call was answered.
    fn disown(&mut self, id: &Arc<str>, address: &AddressKey, said: Said) {
        let untouched = |sandbox: &Sandbox| sandbox.removed.is_none() && !sandbox.lost_on_the_way;
        let meddled = self.ledger.get(id).is_some_and(|sandbox| self.meddled > sandbox.meddled_at_ask && untouched(sandbox));
        // Nothing to do while the document is lost: whether it is rebuilt without the record is judged then.
        let Some(document) = self.state.whole() else { return };
        if meddled && document.allocated.get(id).is_none_or(|record| record.ip.key() != address) {
            self.ledger.hands.insert(id.clone(), Hand { excuse: BY_HAND, said, revision: self.revision });
        }
    }

    fn process(&mut self, process: ProcessId, change: ProcessChange) {
        match change {
            ProcessChange::Crashed | ProcessChange::Panicked => {
                self.ledger.lost(process);
                self.recovering.retain(|other| *other != process);
                let moment = self.moment;
                if let Some(process) = self.processes.0.get_mut(&process) {
                    process.runs = false;
                    process.recovers = false;
                    process.paused = false;
                    process.ended = moment;
                    process.reading.clear();
                }
            }
            ProcessChange::Resumed => {
                let process = self.processes.of(process);
                process.paused = false;
                process.resumed = Some(self.at);
            }
            ProcessChange::Started => self.processes.of(process).started = Some(self.at),
            ProcessChange::Paused => self.processes.of(process).paused = true,
        }
    }
}
