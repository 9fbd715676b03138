//! Who listens to a run: the digest, the counters, the claims, and a recording if one is wanted.

use crate::time::SimTime;
use crate::trace::{Digest, Event, EventKind, Outcome};
use ipam_core::Reason;
use ipam_core::api::Verb;

/// How often each thing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiCounts {
    /// Requests sent.
    pub requests: u64,
    /// Writes that took a revision.
    pub writes: u64,
    /// Answers with reason Conflict.
    pub conflicts: u64,
}

/// Somebody who looks at every event as it happens.
pub trait Observer: Send {
    /// Something happened.
    fn event(&mut self, event: &Event<'_>);
}

/// Listens to a run.
#[derive(Default)]
pub struct Recorder {
    /// The digest so far.
    pub digest: Digest,
    /// Counters so far.
    pub counts: ApiCounts,
    observer: Option<Box<dyn Observer>>,
}

impl Recorder {
    /// A recorder that also tells `observer`.
    pub fn with(observer: Box<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..Self::default() }
    }

    /// Takes note of an event.
    pub fn observe(&mut self, at: SimTime, kind: EventKind<'_>) {
        let event = Event { at, kind };
        self.digest.fold(&event);
        match event.kind {
            EventKind::Request { verb, .. } => self.counts.requests += u64::from(verb != Verb::Watch),
            EventKind::Commit { .. } => self.counts.writes += 1,
            EventKind::Answer { outcome: Outcome::Http(_, Reason::Conflict), .. } => self.counts.conflicts += 1,
            _ => {}
        }
        if let Some(observer) = &mut self.observer {
            observer.event(&event);
        }
    }

    /// Hands the observer back.
    pub fn take_observer(&mut self) -> Option<Box<dyn Observer>> {
        self.observer.take()
    }
}
