//! Who listens to a run: the digest, the counters, the claims, the meters, and a recording if one is wanted.

use std::collections::BTreeSet;

use ipam_reports::{Digest as DigestText, Seconds};
use kube_machinery::Reason;
use kube_machinery::api::Verb;

use crate::claim::Claims;
use crate::meter::{AddressMeter, AgentsMeter, PoolMeter, ReclaimMeter};
use crate::plan::Checkpoint;
use crate::record::{Part, Record};
use crate::time::SimTime;
use crate::trace::{Digest, Event, EventKind, FaultChange, Outcome};
use crate::workload::Note;
use crate::workload::spiderpool::{IpamNote, Refusal};

/// How often each thing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiCounts {
    /// Requests sent.
    pub requests: u64,
    /// Writes that took a revision.
    pub writes: u64,
    /// Answers with reason Conflict.
    pub conflicts: u64,
    /// Operations that gave up because their last retry failed, too.
    pub retries_exhausted: u64,
    /// Requests of Spiderpool's agents for addresses that were answered with addresses.
    pub adds: u64,
    /// Those that were answered with an error.
    pub failed_adds: u64,
}

impl ApiCounts {
    fn note(&mut self, note: &Note) {
        match note {
            Note::RetriesExhausted => self.retries_exhausted += 1,
            Note::Ipam(IpamNote::Tried { outcome: Err(Refusal::RetriesExhausted), .. }) => self.retries_exhausted += 1,
            Note::Ipam(IpamNote::AddEnded { result: Ok(_), .. }) => self.adds += 1,
            Note::Ipam(IpamNote::AddEnded { result: Err(_), .. }) => self.failed_adds += 1,
            _ => {}
        }
    }
}

/// How many checkpoints a run keeps; their distance doubles when there are more.
const CHECKPOINTS_MAX: usize = 64;

/// Listens to a run.
pub struct Recorder {
    /// The digest so far.
    pub digest: Digest,
    /// Counters so far.
    pub counts: ApiCounts,
    /// The claims of the run.
    pub claims: Claims,
    /// Takes figures of the run's BYOM pool, if it has one.
    pub pool: Option<PoolMeter>,
    /// Takes figures of what is reclaimed, if anything is.
    pub reclaim: Option<ReclaimMeter>,
    /// Takes the figures that planners want of Spiderpool, if they are wanted.
    pub planner: Option<Box<(AgentsMeter, AddressMeter)>>,
    /// The faults of the plan that took hold of something, by their position.
    pub fired: BTreeSet<u32>,
    checkpoints: Vec<Checkpoint>,
    checkpoint_every: u64,
    recording: Option<Vec<Record>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            digest: Digest::default(),
            counts: ApiCounts::default(),
            claims: Claims::default(),
            pool: None,
            reclaim: None,
            planner: None,
            fired: BTreeSet::new(),
            checkpoints: Vec::new(),
            checkpoint_every: 64,
            recording: None,
        }
    }
}

impl Recorder {
    /// A recorder that judges `claims` and, if `recording`, keeps every event.
    pub fn new(claims: Claims, recording: bool) -> Self {
        Self { claims, recording: recording.then(Vec::new), ..Self::default() }
    }

    /// Takes note of an event.
    pub fn observe(&mut self, at: SimTime, kind: EventKind<'_>) {
        self.observe_of(Part::default(), at, kind);
    }

    /// Takes note of an event that is part of a call. Only recordings keep of which one.
    pub fn observe_of(&mut self, part: Part<'_>, at: SimTime, kind: EventKind<'_>) {
        let event = Event { at, kind };
        self.digest.fold(&event);
        match event.kind {
            EventKind::Request { verb, .. } => self.counts.requests += u64::from(verb != Verb::Watch),
            EventKind::Commit { .. } => self.counts.writes += 1,
            EventKind::Answer { outcome: Outcome::Http(_, Reason::Conflict), .. } => self.counts.conflicts += 1,
            EventKind::Fault { index, change: FaultChange::Fired } => drop(self.fired.insert(index)),
            EventKind::Note { note, .. } => self.counts.note(note),
            _ => {}
        }
        self.claims.observe(&event);
        if let Some(pool) = &mut self.pool
            && PoolMeter::INTEREST.meets(event.kind.interest())
        {
            pool.observe(&event);
        }
        if let Some(reclaim) = &mut self.reclaim
            && ReclaimMeter::INTEREST.meets(event.kind.interest())
        {
            reclaim.observe(&event);
        }
        if let Some(planner) = &mut self.planner
            && AgentsMeter::INTEREST.meets(event.kind.interest())
        {
            planner.0.observe(&event);
            planner.1.observe(&event);
        }
        // A power of two.
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
        let digest = DigestText(self.digest.value());
        self.checkpoints.push(Checkpoint { events: self.digest.events(), at: Seconds::from_micros(at.as_micros()), digest });
    }

    /// Digests on the way.
    pub fn take_checkpoints(&mut self) -> Vec<Checkpoint> {
        std::mem::take(&mut self.checkpoints)
    }

    /// Every event, if they were kept.
    pub fn take_recording(&mut self) -> Option<Vec<Record>> {
        self.recording.take()
    }
}
