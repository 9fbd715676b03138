//! What happens in a run, as small typed events, and the digest over all of them.
//!
//! Events carry ids and references, never text. Claims look at them as they pass; the digest folds a few words of
//! each; a recording copies them. Text is made only from a recording.

pub mod budget;
pub mod coverage;
pub mod entity;
mod note;
pub mod record;
pub mod recorder;
pub mod step;

use kube_machinery::api::{Reason, TransportError, Verb};
use kube_machinery::{ApiError, ObjectKey};
use sim_config::time::SimTime;

use crate::kinds::KindId;
use crate::object::Obj;
use crate::rt::ProcessId;

pub use note::{Counted, Note, ToShared};
pub use step::Step;

/// A change in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProcessChange {
    /// It began to run.
    Started,
    /// It lost its memory.
    Crashed,
    /// It stands still.
    Paused,
    /// It goes on.
    Resumed,
    /// It crashed by its own doing: a panic.
    Panicked,
}

/// A change in the life of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FaultChange {
    /// It takes hold.
    Began,
    /// It is over.
    Ended,
    /// It touched something: a message, a request, a process.
    Fired,
}

/// What an element of a watch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WatchKind {
    /// See [`kube_machinery::api::WatchEvent::Added`].
    Added,
    /// See [`kube_machinery::api::WatchEvent::Modified`].
    Modified,
    /// See [`kube_machinery::api::WatchEvent::Deleted`].
    Deleted,
    /// See [`kube_machinery::api::WatchEvent::Bookmark`].
    Bookmark,
    /// See [`kube_machinery::api::WatchEvent::Error`].
    Error,
}

/// How a call ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A 2xx answer.
    Ok,
    /// An HTTP error.
    Http(u16, Reason),
    /// No answer.
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

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub enum EventKind<'a> {
    /// A process changed its state.
    Process {
        /// Which.
        process: ProcessId,
        /// How.
        change: ProcessChange,
    },
    /// A client sent a request.
    Request {
        /// Who.
        client: ProcessId,
        /// To whom.
        server: ProcessId,
        /// What.
        verb: Verb,
        /// On which type.
        kind: KindId,
        /// On which object; unset for lists and watches.
        key: Option<&'a ObjectKey>,
    },
    /// A write took its revision.
    Commit {
        /// Whose write.
        client: ProcessId,
        /// The API server that carried it out.
        server: ProcessId,
        /// What was asked.
        verb: Verb,
        /// The type.
        kind: KindId,
        /// The object.
        key: &'a ObjectKey,
        /// The revision.
        revision: u64,
        /// The state before; unset = the object is new.
        before: Option<&'a Obj>,
        /// The state after; unset = the object is gone.
        after: Option<&'a Obj>,
        /// Tells the content of the state after from others; see [`Stored::content`](crate::kinds::Stored::content).
        content: u64,
    },
    /// A client learned how its request ended.
    Answer {
        /// Who.
        client: ProcessId,
        /// What it had asked.
        verb: Verb,
        /// On which type.
        kind: KindId,
        /// On which object; unset for lists and watches.
        key: Option<&'a ObjectKey>,
        /// How it ended.
        outcome: Outcome,
    },
    /// A watch handed an element to its client. A client that does not listen for it is told when it looks, or right before its next
    /// request, answer or note: of all that it has been told by then, nothing has yet to arrive.
    Deliver {
        /// Who.
        client: ProcessId,
        /// Which type is watched.
        kind: KindId,
        /// What the element says.
        what: WatchKind,
        /// Its revision.
        revision: u64,
        /// Its object.
        object: Option<&'a Obj>,
    },
    /// A watch cache that had lost changes began again from a list.
    Relisted {
        /// The API server whose watch cache it is.
        server: ProcessId,
        /// The type of which it has all objects again.
        kind: KindId,
    },
    /// A watch cache lost a change: it goes on without (K182).
    Lost {
        /// The API server whose watch cache it is.
        server: ProcessId,
        /// The type of the object that changed.
        kind: KindId,
        /// The object of which the cache shows what was before.
        key: &'a ObjectKey,
        /// The revision that the change took in the store.
        revision: u64,
    },
    /// A fault began, fired or ended.
    Fault {
        /// Its position in the plan.
        index: u32,
        /// What it did.
        change: FaultChange,
    },
    /// An actor says what it did: the vocabulary of its workload.
    Note {
        /// Who.
        process: ProcessId,
        /// What.
        note: &'a dyn Note,
    },
}

/// An event and when it happened.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// When.
    pub at: SimTime,
    /// What.
    pub kind: EventKind<'a>,
}

impl<'a> Event<'a> {
    /// The note that this event is, with its actor, if it is one of the vocabulary `N`.
    pub fn note_of<N: Note>(&self) -> Option<(ProcessId, &'a N)> {
        match self.kind {
            EventKind::Note { process, note } => Some((process, note.downcast_ref()?)),
            _ => None,
        }
    }
}

/// Which kinds of events somebody wants to see, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest(pub u8);

impl Interest {
    /// [`EventKind::Process`].
    pub const PROCESS: Interest = Interest(1);
    /// [`EventKind::Request`].
    pub const REQUEST: Interest = Interest(1 << 1);
    /// [`EventKind::Commit`].
    pub const COMMIT: Interest = Interest(1 << 2);
    /// [`EventKind::Answer`].
    pub const ANSWER: Interest = Interest(1 << 3);
    /// [`EventKind::Deliver`].
    pub const DELIVER: Interest = Interest(1 << 4);
    /// [`EventKind::Fault`].
    pub const FAULT: Interest = Interest(1 << 5);
    /// [`EventKind::Note`].
    pub const NOTE: Interest = Interest(1 << 6);
    /// [`EventKind::Lost`] and [`EventKind::Relisted`].
    pub const LOST: Interest = Interest(1 << 7);

    /// Both sets together.
    pub const fn and(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// Whether the sets meet.
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

    /// What of the event enters the digest, besides its time.
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
    key.as_str().as_bytes().chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    })
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
    /// Folds one event.
    pub fn fold(&mut self, event: &Event<'_>) {
        let (first, second) = event.kind.words();
        for word in [event.at.as_micros(), first, second] {
            self.a = (self.a.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
            self.b = (self.b ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
        self.events += 1;
    }

    /// How many events were folded.
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
