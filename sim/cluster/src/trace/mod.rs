//! The events of a run, small and typed, and the digest over all of them.
//!
//! Events carry ids and references, never text. Claims see them as they pass; the digest folds a few words of each; a recording copies
//! them. Text is made only from a recording.

pub mod budget;
pub mod coverage;
pub mod entity;
mod note;
pub mod record;
pub mod recorder;
pub mod step;

use std::fmt;

use kube_machinery::api::{Reason, TransportError, Verb};
use kube_machinery::word_hash::rest_of;
use kube_machinery::{ApiError, ObjectKey};
use sim_config::time::SimTime;

use crate::kinds::KindId;
use crate::object::Obj;
use crate::rt::ProcessId;

pub use note::{Counted, Note, ToShared, Unhashed};
pub use step::Step;

/// A change in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProcessChange {
    /// It began to run.
    Started,
    /// It lost its memory.
    Crashed,
    /// It is paused, and keeps its memory.
    Paused,
    /// It resumes where it was paused.
    Resumed,
    /// It crashed because of a panic in its own code.
    Panicked,
}

/// A change in the life of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FaultChange {
    /// It takes hold, at its time or at the change or request that it waited for.
    Began,
    /// It is over, and its effects are reverted; there is no such event for an instantaneous fault.
    Ended,
    /// It affected something: a message, a request, a process.
    Fired,
}

/// The kind of a watch element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WatchKind {
    /// An object exists, or begins to match the selector: [`kube_machinery::api::WatchEvent::Added`].
    Added,
    /// An object that matches the selector, as it did before, has changed: [`kube_machinery::api::WatchEvent::Modified`].
    Modified,
    /// An object is gone, or ceases to match the selector: [`kube_machinery::api::WatchEvent::Deleted`].
    Deleted,
    /// All events up to a revision have been sent: [`kube_machinery::api::WatchEvent::Bookmark`].
    Bookmark,
    /// The stream ends with a Status, such as 410 Expired: [`kube_machinery::api::WatchEvent::Error`].
    Error,
    /// The bookmark after the initial state: objects that were not in it do not exist any more (K056).
    InitialEventsEnd,
}

/// The type of the event on the wire.
impl fmt::Display for WatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WatchKind::Added => "ADDED",
            WatchKind::Modified => "MODIFIED",
            WatchKind::Deleted => "DELETED",
            WatchKind::Bookmark => "BOOKMARK",
            WatchKind::Error => "ERROR",
            WatchKind::InitialEventsEnd => "initial-events-end BOOKMARK",
        })
    }
}

/// The outcome of a call for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server answered with a 2xx code.
    Ok,
    /// The server answered with an error: its HTTP code, and the reason of its Status or `Unknown`.
    Http(u16, Reason),
    /// There was no answer: whether the request was executed may be open.
    Transport(TransportError),
}

impl Outcome {
    /// The outcome of `result`.
    pub fn of<T>(result: &Result<T, ApiError>) -> Self {
        match result {
            Ok(_) => Outcome::Ok,
            Err(ApiError::Transport(error)) => Outcome::Transport(*error),
            Err(error) => Outcome::Http(error.code().unwrap_or(0), error.reason().unwrap_or(Reason::Unknown)),
        }
    }

    fn word(self) -> u64 {
        match self {
            Outcome::Ok => 0,
            Outcome::Http(code, reason) => u64::from(code) << 8 | reason as u64,
            Outcome::Transport(error) => 1 << 32 | error as u64,
        }
    }
}

/// An event, with numbers of processes and types and references to objects; the variants are distinguished by [`Interest`].
#[derive(Clone, Copy, Debug)]
pub enum EventKind<'a> {
    /// A process changed its state.
    Process {
        /// The process whose state changed.
        process: ProcessId,
        /// The change of its state.
        change: ProcessChange,
    },
    /// A client sent a request.
    Request {
        /// The process that sends the request.
        client: ProcessId,
        /// The process of the API server that its connection leads to.
        server: ProcessId,
        /// The verb of the request; `Watch` for one that opens a watch.
        verb: Verb,
        /// The type that the request is about.
        kind: KindId,
        /// The object of the request; unset for lists and watches.
        key: Option<&'a ObjectKey>,
    },
    /// A write took its revision.
    Commit {
        /// The process that sent the request of the write.
        client: ProcessId,
        /// The API server that carried it out.
        server: ProcessId,
        /// The verb of the request, which may differ from the effect on the object: an update can remove it (K080).
        verb: Verb,
        /// The type of the object that was written.
        kind: KindId,
        /// The namespace and name of the object that was written.
        key: &'a ObjectKey,
        /// The revision that the write took, by which etcd orders it among those of all types.
        revision: u64,
        /// The state before; unset = the object is new.
        before: Option<&'a Obj>,
        /// The state after; unset = the object is gone.
        after: Option<&'a Obj>,
        /// A number that distinguishes the content of the state after from others; see [`Stored::content`](crate::kinds::Stored::content).
        content: u64,
    },
    /// A client got the outcome of its request.
    Answer {
        /// The process that sent the request.
        client: ProcessId,
        /// The verb of the request.
        verb: Verb,
        /// The type that the request was about.
        kind: KindId,
        /// The object of the request; unset for lists and watches.
        key: Option<&'a ObjectKey>,
        /// The outcome for the caller: the effect on the server may be another one.
        outcome: Outcome,
    },
    /// A watch handed an element to its client. For a client that does not listen, this happens when it reads, or right before its next
    /// request, answer or note: every element handed over by then has arrived.
    Deliver {
        /// The process that watches.
        client: ProcessId,
        /// The type that is watched.
        kind: KindId,
        /// The kind of the element.
        what: WatchKind,
        /// The revision of the change or the bookmark; for initial events that of the object, and 0 for an error.
        revision: u64,
        /// The object as the client gets it; unset for bookmarks and errors.
        object: Option<&'a Obj>,
    },
    /// A watch cache that had lost changes started again from a list.
    Relisted {
        /// The API server whose watch cache it is.
        server: ProcessId,
        /// The type whose objects are complete again.
        kind: KindId,
    },
    /// A watch cache lost a change: it goes on without it (K182).
    Lost {
        /// The API server whose watch cache it is.
        server: ProcessId,
        /// The type of the object that changed.
        kind: KindId,
        /// The object whose previous state the cache still shows.
        key: &'a ObjectKey,
        /// The revision that the change took in the store.
        revision: u64,
    },
    /// A fault began, fired or ended.
    Fault {
        /// The index of the fault in the plan.
        index: u32,
        /// The change: the fault began, ended, or affected something.
        change: FaultChange,
    },
    /// A note of an actor on its actions, from the vocabulary of its workload.
    Note {
        /// The process that makes the note.
        process: ProcessId,
        /// The note, of the vocabulary of its workload or of [`PodNote`](crate::node::PodNote).
        note: &'a dyn Note,
    },
}

/// An event with its time.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The time of the event, in model time since the beginning of the run.
    pub at: SimTime,
    /// The event itself, with its subjects.
    pub kind: EventKind<'a>,
}

impl<'a> Event<'a> {
    /// The note in this event, with its actor, if it is one of the vocabulary `N`.
    pub fn note_of<N: Note>(&self) -> Option<(ProcessId, &'a N)> {
        match self.kind {
            EventKind::Note { process, note } => Some((process, note.downcast_ref()?)),
            _ => None,
        }
    }
}

/// The kinds of events that a listener wants to see, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest(pub u8);

impl Interest {
    /// Starts, crashes, pauses and panics of processes: [`EventKind::Process`].
    pub const PROCESS: Interest = Interest(1);
    /// Requests when they are sent: [`EventKind::Request`].
    pub const REQUEST: Interest = Interest(1 << 1);
    /// Writes when they take their revision: [`EventKind::Commit`].
    pub const COMMIT: Interest = Interest(1 << 2);
    /// Outcomes of requests when their clients get them: [`EventKind::Answer`].
    pub const ANSWER: Interest = Interest(1 << 3);
    /// Elements of watches as their clients get them: [`EventKind::Deliver`].
    pub const DELIVER: Interest = Interest(1 << 4);
    /// Faults that begin, fire or end: [`EventKind::Fault`].
    pub const FAULT: Interest = Interest(1 << 5);
    /// Notes of actors on their actions: [`EventKind::Note`].
    pub const NOTE: Interest = Interest(1 << 6);
    /// Changes that watch caches lose, and their recovery: [`EventKind::Lost`] and [`EventKind::Relisted`].
    pub const LOST: Interest = Interest(1 << 7);

    /// The kinds of events that are in either of the two sets.
    pub const fn and(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// Whether the sets overlap.
    pub const fn meets(self, other: Interest) -> bool {
        self.0 & other.0 != 0
    }
}

impl EventKind<'_> {
    /// The kind of this event.
    pub fn interest(&self) -> Interest {
        match self {
            EventKind::Process { .. } => Interest::PROCESS,
            EventKind::Request { .. } => Interest::REQUEST,
            EventKind::Commit { .. } => Interest::COMMIT,
            EventKind::Answer { .. } => Interest::ANSWER,
            EventKind::Deliver { .. } => Interest::DELIVER,
            EventKind::Lost { .. } | EventKind::Relisted { .. } => Interest::LOST,
            EventKind::Fault { .. } => Interest::FAULT,
            EventKind::Note { .. } => Interest::NOTE,
        }
    }

    /// The part of the event that enters the digest, besides its time.
    fn words(&self) -> (u64, u64) {
        let pack = |tag: u64, a: u32, b: u64, c: u64| tag << 60 ^ u64::from(a) << 32 ^ b << 16 ^ c;
        match *self {
            EventKind::Process { process, change } => (pack(1, process.0, 0, change as u64), 0),
            EventKind::Request { client, server, verb, kind, key } => {
                (pack(2, client.0, verb as u64, u64::from(kind.0)), u64::from(server.0) ^ key.map_or(0, hash_key))
            }
            EventKind::Commit { client, server, verb, kind, key, revision, before, after, content } => (
                pack(3, client.0, (verb as u64) << 8 ^ u64::from(server.0), u64::from(kind.0)),
                content ^ revision << 2 ^ u64::from(before.is_some()) << 1 ^ u64::from(after.is_some()) ^ hash_key(key).rotate_left(32),
            ),
            EventKind::Answer { client, verb, kind, outcome, .. } => (pack(4, client.0, verb as u64, u64::from(kind.0)), outcome.word()),
            EventKind::Deliver { client, kind, what, revision, .. } => (pack(5, client.0, what as u64, u64::from(kind.0)), revision),
            EventKind::Fault { index, change } => (pack(6, index, 0, change as u64), 0),
            EventKind::Note { process, note } => (pack(7, process.0, 0, 0), note.word()),
            EventKind::Relisted { server, kind } => (pack(9, server.0, 0, u64::from(kind.0)), 0),
            EventKind::Lost { server, kind, key, revision } => (pack(8, server.0, 0, u64::from(kind.0)), revision ^ hash_key(key)),
        }
    }
}

fn hash_key(key: &ObjectKey) -> u64 {
    // FNV-1a over words: short keys, no platform dependence.
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    let bytes = key.as_str().as_bytes();
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    if rest.is_empty() { hash } else { mix(hash, rest_of(bytes)) }
}

/// A rolling 128-bit digest over the events of a run. Equal digests mean equal runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    a: u64,
    b: u64,
    events: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self { a: 0x243f_6a88_85a3_08d3, b: 0x1319_8a2e_0370_7344, events: 0 }
    }
}

impl Digest {
    /// Takes in the next event of the run: its time, and the words of its kind.
    pub fn fold(&mut self, event: &Event<'_>) {
        let (first, second) = event.kind.words();
        for word in [event.at.as_micros(), first, second] {
            self.a = (self.a.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
            self.b = (self.b ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
        self.events += 1;
    }

    /// The number of events folded so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The digest as a number.
    pub fn value(&self) -> u128 {
        let mix = |mut x: u64| {
            x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ x >> 31
        };
        u128::from(mix(self.a ^ self.events)) << 64 | u128::from(mix(self.b ^ self.a))
    }
}
