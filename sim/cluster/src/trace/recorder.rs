//! The listeners of a run: the digest, the counters, a [`Listener`] of the harness, and a recording if one is wanted.

use std::any::Any;
use std::collections::BTreeSet;
use std::task::Context;

use kube_machinery::Reason;
use kube_machinery::api::Verb;
use sim_config::time::SimTime;

use super::budget::{EventBudget, Spin};
use super::coverage::Coverage;
use super::record::{Part, Record};
use super::{Counted, Digest, Event, EventKind, FaultChange, Outcome};

/// Counts of requests, writes and outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiCounts {
    /// Requests that were sent, without those that open a watch.
    pub requests: u64,
    /// Writes that took a revision.
    pub writes: u64,
    /// Answers with reason Conflict.
    pub conflicts: u64,
    /// Operations that gave up because their last retry failed, too.
    pub retries_exhausted: u64,
    /// Requests for the resource that the system under test allocates that were answered with one.
    pub succeeded: u64,
    /// Such requests that were answered with an error.
    pub failed: u64,
}

impl ApiCounts {
    fn count(&mut self, counted: Counted) {
        match counted {
            Counted::RetriesExhausted => self.retries_exhausted += 1,
            Counted::Succeeded => self.succeeded += 1,
            Counted::Failed => self.failed += 1,
        }
    }
}

/// Sees every event of a run at the moment at which it happens, without influence on the run.
pub trait Listener: Any + Send {
    /// Takes in an event: called once for each, in their order, after the digest and the counters have it.
    fn observe(&mut self, event: &Event<'_>);
}

/// The digest after some events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The number of these events.
    pub events: u64,
    /// The time of the last of these events, in model time.
    pub at: SimTime,
    /// The digest over these events, as [`Digest::value`] gives it.
    pub digest: u128,
}

/// The number of checkpoints that a run keeps; their distance doubles when there are more.
const CHECKPOINTS_MAX: usize = 64;

/// Records the events of a run.
pub struct Recorder {
    /// The digest so far.
    pub digest: Digest,
    /// The number of requests, writes, conflicts and so on so far.
    pub counts: ApiCounts,
    /// The faults of the plan that affected something, by their index.
    pub fired: BTreeSet<u32>,
    /// The points that the run reached.
    pub coverage: Coverage,
    listener: Option<Box<dyn Listener>>,
    budget: EventBudget,
    checkpoints: Vec<Checkpoint>,
    checkpoint_every: u64,
    recording: Option<Vec<Record>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            digest: Digest::default(),
            counts: ApiCounts::default(),
            fired: BTreeSet::new(),
            coverage: Coverage::default(),
            listener: None,
            budget: EventBudget::new(u64::MAX),
            checkpoints: Vec::new(),
            checkpoint_every: 64,
            recording: None,
        }
    }
}

impl Recorder {
    /// A recorder that shows every event to `listener` and, if `recording`, keeps it.
    pub fn new(listener: impl Listener, recording: bool) -> Self {
        Self { listener: Some(Box::new(listener)), ..Self::keeping(recording) }
    }

    /// A recorder without a listener that, if `recording`, keeps every event.
    pub fn keeping(recording: bool) -> Self {
        Self { recording: recording.then(Vec::new), ..Self::default() }
    }

    /// Limits the recorder to `max` events; see [`poll_spent`](Self::poll_spent).
    #[must_use]
    pub fn within(self, max: u64) -> Self {
        Self { budget: EventBudget::new(max), ..self }
    }

    /// Whether the run has spent its events, and the spinning processes are known; the task of `context` is woken then.
    pub fn poll_spent(&mut self, context: &Context<'_>) -> bool {
        self.budget.poll(context)
    }

    /// The spinning processes, if the run has spent its events.
    pub fn spent(&self) -> Option<Spin> {
        self.budget.spent()
    }

    /// The listener. Panics if it is not of type `T`: the caller has made the recorder.
    pub fn listener<T: Listener>(&mut self) -> &mut T {
        let listener = self.listener.as_deref_mut().map(|listener| listener as &mut dyn Any);
        listener.and_then(<dyn Any>::downcast_mut).unwrap_or_else(|| panic!("the recorder has no {}", std::any::type_name::<T>()))
    }

    /// Records an event of the run.
    pub fn observe(&mut self, at: SimTime, kind: EventKind<'_>) {
        self.observe_of(Part::default(), at, kind);
    }

    /// Records an event that is part of a call. Only recordings keep the call.
    pub fn observe_of(&mut self, part: Part<'_>, at: SimTime, kind: EventKind<'_>) {
        let event = Event { at, kind };
        self.digest.fold(&event);
        match event.kind {
            EventKind::Request { verb, .. } => self.counts.requests += u64::from(verb != Verb::Watch),
            EventKind::Commit { .. } => self.counts.writes += 1,
            EventKind::Answer { outcome: Outcome::Http(_, Reason::Conflict), .. } => self.counts.conflicts += 1,
            EventKind::Fault { index, change: FaultChange::Fired } => drop(self.fired.insert(index)),
            EventKind::Note { note, .. } => note.counts_as().into_iter().for_each(|counted| self.counts.count(counted)),
            _ => {}
        }
        if let Some(listener) = &mut self.listener {
            listener.observe(&event);
        }
        if self.budget.wants(self.digest.events()) {
            self.budget.look(&event);
        }
        // The distance is a power of two.
        if self.digest.events() & (self.checkpoint_every - 1) == 0 {
            self.checkpoint(at);
        }
        if let Some(recording) = &mut self.recording {
            recording.push(Record::of(&event, part));
        }
    }

    fn checkpoint(&mut self, at: SimTime) {
        if self.checkpoints.len() == CHECKPOINTS_MAX {
            self.checkpoint_every *= 2;
            let every = self.checkpoint_every;
            self.checkpoints.retain(|checkpoint| checkpoint.events.is_multiple_of(every));
            if !self.digest.events().is_multiple_of(every) {
                return;
            }
        }
        self.checkpoints.push(Checkpoint { events: self.digest.events(), at, digest: self.digest.value() });
    }

    /// Takes the digests of the checkpoints.
    pub fn take_checkpoints(&mut self) -> Vec<Checkpoint> {
        std::mem::take(&mut self.checkpoints)
    }

    /// Takes all events, if they were recorded.
    pub fn take_recording(&mut self) -> Option<Vec<Record>> {
        self.recording.take()
    }
}
