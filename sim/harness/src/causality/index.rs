//! The relations between the events of a recording: the parts of a call, the reads before a write, the active faults.

use std::collections::{BTreeMap, BTreeSet};

use ipam_reports::timeline::Because;
use kube_machinery::api::{Reason, Verb};
use kube_machinery::{FxHashMap, ObjectKey};
use kube_sim::kinds::KindId;
use kube_sim::object::{Obj, key_of, resource_version};
use kube_sim::rt::ProcessId;
use kube_sim::trace::entity::{About, Entity, Stage, Touch};
use kube_sim::trace::record::{Record, What};
use kube_sim::trace::{FaultChange, Outcome, ProcessChange};

use super::objects::touches;
use crate::causality::Narrator;

/// The number of reads before a write that are named: a write that was decided on an older read than the last is the usual culprit.
const READS_TOLD: usize = 3;

/// One call of a client, by the positions of its events.
#[derive(Clone, Debug)]
pub struct Call {
    /// The process that sent the request.
    pub client: ProcessId,
    /// The API server that got it.
    pub server: ProcessId,
    /// The type of the object.
    pub kind: KindId,
    /// The object; for a create, the object of its commit.
    pub key: Option<ObjectKey>,
    /// The position of its request.
    pub request: usize,
    /// The positions of its commits.
    pub commits: Vec<usize>,
    /// The position of its answer.
    pub answer: Option<usize>,
    /// The positions at which faults hit it.
    pub fired: Vec<usize>,
}

/// An interval in which a fault was active.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultSpan {
    /// The position of the fault in the plan.
    pub(super) fault: u32,
    pub(super) began: usize,
    pub(super) ended: Option<usize>,
}

/// An operation of an actor, from the note that begins it to the one that ends it, or to the actor's crash.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) process: ProcessId,
    pub(super) entities: Vec<Entity>,
    pub(super) began: usize,
    pub(super) ended: Option<usize>,
}

/// One observation of an object by a process.
#[derive(Clone, Copy, Debug)]
struct Sight {
    event: usize,
    /// The revision observed; `None` = the object was not there, or was part of a list.
    revision: Option<u64>,
    listed: bool,
}

/// A recording and the relations between its events.
pub struct Index<'a> {
    pub(super) records: &'a [Record],
    pub(super) narrator: &'a Narrator,
    /// The calls, in the order of their requests.
    pub calls: BTreeMap<u64, Call>,
    pub(super) faults: Vec<FaultSpan>,
    pub(super) operations: Vec<Operation>,
    /// The changes and notes of each event, by entity.
    pub(super) touches: Vec<Vec<Touch>>,
    /// The causes of each event.
    pub causes: Vec<Vec<Because>>,
    sights: FxHashMap<(ProcessId, KindId, ObjectKey), Vec<Sight>>,
    lists: FxHashMap<(ProcessId, KindId), usize>,
    commits: BTreeMap<u64, usize>,
    mentions: BTreeMap<Entity, usize>,
    /// The event since which each stopped process is down or paused.
    stopped: BTreeMap<ProcessId, usize>,
    /// The last event in which each process learned or noted something.
    latest: BTreeMap<ProcessId, usize>,
}

fn because(event: usize, how: impl Into<String>) -> Because {
    Because { event: event as u64, how: how.into() }
}

fn revision(object: &Obj) -> Option<u64> {
    resource_version(&**object).parse().ok()
}

impl<'a> Index<'a> {
    /// Reads a recording once, from its beginning to its end.
    pub fn new(records: &'a [Record], narrator: &'a Narrator) -> Self {
        let mut index = Self {
            records,
            narrator,
            calls: BTreeMap::new(),
            faults: Vec::new(),
            operations: Vec::new(),
            touches: Vec::with_capacity(records.len()),
            causes: Vec::with_capacity(records.len()),
            sights: FxHashMap::default(),
            lists: FxHashMap::default(),
            commits: BTreeMap::new(),
            mentions: BTreeMap::new(),
            stopped: BTreeMap::new(),
            latest: BTreeMap::new(),
        };
        for (event, record) in records.iter().enumerate() {
            index.take(event, record);
        }
        index
    }

    fn take(&mut self, event: usize, record: &Record) {
        let mut touched = Vec::new();
        let causes = match &record.what {
            What::Request { client, server, kind, key, .. } => {
                if let Some(call) = record.call {
                    let (client, server, kind, key) = (*client, *server, *kind, key.clone());
                    let new = Call { client, server, kind, key, request: event, commits: Vec::new(), answer: None, fired: Vec::new() };
                    self.calls.insert(call, new);
                }
                Vec::new()
            }
            What::Commit { client, kind, key, revision, before, after, .. } => {
                touched = touches(before.as_ref(), after.as_ref());
                self.commits.insert(*revision, event);
                let call = record.call.and_then(|call| self.calls.get_mut(&call));
                let known = call.map(|call| {
                    call.commits.push(event);
                    call.key.get_or_insert_with(|| key.clone());
                    call.clone()
                });
                self.causes_of_commit(known.as_ref(), event, (*client, *kind, key.clone()))
            }
            What::Answer { client, verb, kind, key, outcome } => {
                self.learn(event, record, *client, *verb, *kind, key.as_ref(), *outcome);
                self.causes_of_answer(record, event, *outcome)
            }
            What::Deliver { client, kind, revision: at, object, .. } => {
                if let Some(object) = object {
                    let sight = Sight { event, revision: revision(object), listed: false };
                    self.sights.entry((*client, *kind, key_of(object))).or_default().push(sight);
                }
                self.commits.get(at).filter(|_| object.is_some()).map(|&commit| because(commit, "committed in")).into_iter().collect()
            }
            What::Lost { revision: at, .. } => self.commits.get(at).map(|&commit| because(commit, "committed in")).into_iter().collect(),
            What::Relisted { .. } => Vec::new(),
            What::Fault { index, change } => self.fault(event, record, *index, *change),
            What::Process { process, change } => self.process(event, *process, *change),
            What::Note { process, note } => {
                let about = note.about();
                let causes = self.causes_of_note(event, *process, &about);
                if !about.entities.is_empty() {
                    touched = vec![Touch { entities: about.entities, says: String::new() }];
                }
                causes
            }
        };
        if let What::Answer { client: process, .. } | What::Deliver { client: process, .. } | What::Note { process, .. } = &record.what {
            self.latest.insert(*process, event);
        }
        for thing in touched.iter().flat_map(|touch| &touch.entities) {
            self.mentions.insert(thing.clone(), event);
        }
        self.touches.push(touched);
        self.causes.push(causes);
    }

    /// Records what a process learns about an object from an answer.
    #[expect(clippy::too_many_arguments, reason = "the fields of an answer")]
    fn learn(
        &mut self,
        event: usize,
        record: &Record,
        client: ProcessId,
        verb: Verb,
        kind: KindId,
        key: Option<&ObjectKey>,
        outcome: Outcome,
    ) {
        let seen = match (&record.object, key, outcome) {
            (Some(object), _, Outcome::Ok) => Some((key_of(object), revision(object))),
            (None, Some(key), Outcome::Http(_, Reason::NotFound)) => Some((key.clone(), None)),
            _ => None,
        };
        if let Some((key, revision)) = seen {
            self.sights.entry((client, kind, key)).or_default().push(Sight { event, revision, listed: false });
        }
        if verb == Verb::List && outcome == Outcome::Ok {
            self.lists.insert((client, kind), event);
        }
        if let Some(call) = record.call.and_then(|call| self.calls.get_mut(&call)) {
            call.answer = Some(event);
        }
    }

    /// Whether a fault can affect a process.
    pub(super) fn concerns(&self, fault: u32, process: ProcessId) -> bool {
        let Some(fault) = self.narrator.faults().get(fault as usize) else { return false };
        let targets = fault.kind.targets();
        let named = || targets.iter().filter(|target| !target.is_any());
        named().next().is_none() || named().any(|target| self.narrator.is_meant(target, process))
    }

    /// The faults that were active at some time between a call's request and `to`, and may have hit messages between client and server.
    fn on_the_way(&self, call: &Call, to: usize, only_new: bool) -> Vec<Because> {
        let open = self.faults.iter().filter(|span| span.began < to && span.ended.is_none_or(|ended| ended > call.request));
        let open = open.filter(|span| !only_new || span.began > call.request);
        open.filter(|span| self.concerns(span.fault, call.client) || self.concerns(span.fault, call.server))
            .map(|span| because(span.began, format!("while {} since", self.narrator.fault(span.fault))))
            .collect()
    }

    fn fired(&self, call: &Call) -> Vec<Because> {
        call.fired
            .iter()
            .map(|&event| {
                let name = match &self.records[event].what {
                    What::Fault { index, .. } => self.narrator.fault(*index),
                    _ => "a fault",
                };
                because(event, format!("hit by {name} in"))
            })
            .collect()
    }

    fn causes_of_commit(&self, call: Option<&Call>, event: usize, object: (ProcessId, KindId, ObjectKey)) -> Vec<Because> {
        let mut causes = Vec::new();
        let asked = call.map_or(event, |call| call.request);
        if let Some(call) = call {
            causes.push(because(call.request, "asked for in"));
        }
        let listed = self.lists.get(&(object.0, object.1)).filter(|&&list| list < asked).copied();
        let sights = self.sights.get(&object).map(Vec::as_slice).unwrap_or_default();
        let mut sights: Vec<Sight> = sights.iter().rev().filter(|sight| sight.event < asked).take(READS_TOLD).copied().collect();
        if let Some(list) = listed.filter(|&list| sights.iter().all(|sight| sight.event < list)) {
            sights.insert(0, Sight { event: list, revision: None, listed: true });
            sights.truncate(READS_TOLD);
        }
        for (position, sight) in sights.iter().enumerate() {
            let what = match sight.revision {
                Some(revision) => format!("revision {revision}"),
                None if sight.listed => "a list".to_owned(),
                None => "nothing".to_owned(),
            };
            let when = if position == 0 { "last read" } else { "before that" };
            causes.push(because(sight.event, format!("{when} {what} in")));
        }
        if let Some(call) = call {
            causes.extend(call.answer.map(|answer| because(answer, "although answered before in")));
            causes.extend(self.fired(call));
            causes.extend(self.on_the_way(call, event, true));
        }
        causes
    }

    fn causes_of_answer(&self, record: &Record, event: usize, outcome: Outcome) -> Vec<Because> {
        let Some(call) = record.call.and_then(|call| self.calls.get(&call)) else { return Vec::new() };
        let mut causes = vec![because(call.request, "answers")];
        causes.extend(call.commits.iter().map(|&commit| because(commit, "committed in")));
        causes.extend(self.fired(call));
        causes.extend(self.on_the_way(call, event, !matches!(outcome, Outcome::Transport(_))));
        causes
    }

    fn causes_of_note(&mut self, event: usize, process: ProcessId, about: &About) -> Vec<Because> {
        // An allocation says more about the causes than an address, which it shares with earlier allocations. A note about two allocations
        // follows from the last event of each.
        let last = |want: fn(&Entity) -> bool| {
            let last: BTreeSet<usize> =
                about.entities.iter().filter(|thing| want(thing)).filter_map(|thing| self.mentions.get(thing).copied()).collect();
            last
        };
        let mut before = last(|thing| matches!(thing, Entity::Allocation(_)));
        if before.is_empty() {
            before.extend(last(|_| true).pop_last());
        }
        let mut causes: Vec<Because> = before.into_iter().rev().map(|last| because(last, "after")).collect();
        match about.stage {
            Stage::Begins => self.operations.push(Operation { process, entities: about.entities.clone(), began: event, ended: None }),
            Stage::Ends => {
                let same = |operation: &&mut Operation| {
                    operation.process == process
                        && operation.ended.is_none()
                        && (about.entities.is_empty() && operation.entities.is_empty()
                            || operation.entities.iter().any(|thing| about.entities.contains(thing)))
                };
                if let Some(operation) = self.operations.iter_mut().rev().find(same) {
                    operation.ended = Some(event);
                    let began = operation.began as u64;
                    if causes.iter().all(|cause| cause.event != began) {
                        causes.push(because(operation.began, "begun in"));
                    }
                }
            }
            Stage::Passes => {}
        }
        causes
    }

    fn fault(&mut self, event: usize, record: &Record, fault: u32, change: FaultChange) -> Vec<Because> {
        let began = match change {
            FaultChange::Began => {
                self.faults.push(FaultSpan { fault, began: event, ended: None });
                None
            }
            FaultChange::Ended => {
                let span = self.faults.iter_mut().find(|span| span.fault == fault && span.ended.is_none());
                span.map(|span| {
                    span.ended = Some(event);
                    span.began
                })
            }
            FaultChange::Fired => {
                if let Some(call) = record.call.and_then(|call| self.calls.get_mut(&call)) {
                    call.fired.push(event);
                }
                self.faults.iter().rev().find(|span| span.fault == fault).map(|span| span.began)
            }
        };
        let hit = record.call.and_then(|call| self.calls.get(&call)).map(|call| because(call.request, "hits the call of"));
        began.map(|began| because(began, "begun in")).into_iter().chain(hit).collect()
    }

    fn process(&mut self, event: usize, process: ProcessId, change: ProcessChange) -> Vec<Because> {
        match change {
            ProcessChange::Crashed | ProcessChange::Paused | ProcessChange::Panicked => {
                self.stopped.insert(process, event);
                if change != ProcessChange::Paused {
                    for operation in self.operations.iter_mut().filter(|operation| operation.process == process) {
                        operation.ended.get_or_insert(event);
                    }
                }
                let now = self.records[event].at;
                let cause = self.faults.iter().rev().take_while(|span| self.records[span.began].at == now);
                let cause = cause.filter(|span| self.concerns(span.fault, process)).last();
                let mut causes: Vec<Because> =
                    cause.map(|span| because(span.began, format!("by {} in", self.narrator.fault(span.fault)))).into_iter().collect();
                if change == ProcessChange::Panicked {
                    causes.extend(self.latest.get(&process).map(|&latest| because(latest, "after")));
                }
                causes
            }
            ProcessChange::Started | ProcessChange::Resumed => {
                self.stopped.remove(&process).map(|stopped| because(stopped, "down since")).into_iter().collect()
            }
        }
    }

    /// The events of a call: its request, its commits, its answer, and the faults that hit it.
    pub fn parts(call: &Call) -> impl Iterator<Item = usize> + '_ {
        [call.request].into_iter().chain(call.commits.iter().copied()).chain(call.answer).chain(call.fired.iter().copied())
    }
}
