//! A recording: every event of a run, kept as typed data.

use std::sync::Arc;

use kube_machinery::ObjectKey;
use kube_machinery::api::Verb;
use sim_config::time::SimTime;

use super::{Event, EventKind, FaultChange, Note, Outcome, ProcessChange, WatchKind};
use crate::kinds::KindId;
use crate::object::Obj;
use crate::rt::ProcessId;

/// The call that an event is part of. Neither claims nor the digest see it: it only connects the events of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part<'a> {
    /// The number of the call: a request, its commits, and its answer have the same one.
    pub call: Option<u64>,
    /// The object in the answer.
    pub object: Option<&'a Obj>,
}

impl Part<'_> {
    /// A part of this call.
    pub fn of(call: u64) -> Self {
        Self { call: Some(call), object: None }
    }
}

/// An event that owns its data.
#[derive(Clone, Debug)]
pub struct Record {
    /// The time of the event, in model time since the beginning of the run.
    pub at: SimTime,
    /// The call that it is part of; see [`Part`].
    pub call: Option<u64>,
    /// The object in an answer, if there is one.
    pub object: Option<Obj>,
    /// The event itself, with its keys, objects and notes.
    pub what: What,
}

/// The kind and data of an event; see [`EventKind`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the event kinds that each variant is named after")]
pub enum What {
    Process {
        process: ProcessId,
        change: ProcessChange,
    },
    Request {
        client: ProcessId,
        server: ProcessId,
        verb: Verb,
        kind: KindId,
        key: Option<ObjectKey>,
    },
    Commit {
        client: ProcessId,
        server: ProcessId,
        verb: Verb,
        kind: KindId,
        key: ObjectKey,
        revision: u64,
        before: Option<Obj>,
        after: Option<Obj>,
    },
    Answer {
        client: ProcessId,
        verb: Verb,
        kind: KindId,
        key: Option<ObjectKey>,
        outcome: Outcome,
    },
    Deliver {
        client: ProcessId,
        kind: KindId,
        what: WatchKind,
        revision: u64,
        object: Option<Obj>,
    },
    Relisted {
        server: ProcessId,
        kind: KindId,
    },
    Lost {
        server: ProcessId,
        kind: KindId,
        key: ObjectKey,
        revision: u64,
    },
    Fault {
        index: u32,
        change: FaultChange,
    },
    Note {
        process: ProcessId,
        note: Arc<dyn Note>,
    },
}

impl Record {
    /// A copy of an event.
    pub fn of(event: &Event<'_>, part: Part<'_>) -> Self {
        let what = match event.kind {
            EventKind::Process { process, change } => What::Process { process, change },
            EventKind::Request { client, server, verb, kind, key } => What::Request { client, server, verb, kind, key: key.cloned() },
            EventKind::Commit { client, server, verb, kind, key, revision, before, after, .. } => {
                let (key, before, after) = (key.clone(), before.cloned(), after.cloned());
                What::Commit { client, server, verb, kind, key, revision, before, after }
            }
            EventKind::Answer { client, verb, kind, key, outcome } => What::Answer { client, verb, kind, key: key.cloned(), outcome },
            EventKind::Deliver { client, kind, what, revision, object } => {
                What::Deliver { client, kind, what, revision, object: object.cloned() }
            }
            EventKind::Relisted { server, kind } => What::Relisted { server, kind },
            EventKind::Lost { server, kind, key, revision } => What::Lost { server, kind, key: key.clone(), revision },
            EventKind::Fault { index, change } => What::Fault { index, change },
            EventKind::Note { process, note } => What::Note { process, note: note.to_shared() },
        };
        Self { at: event.at, call: part.call, object: part.object.cloned(), what }
    }
}
