//! A candidate's state and its next steps: the part of an election without time and requests.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::config::{ElectionConfig, Renewal};
use crate::api::ObjectKey;

/// The next step in a round of the election.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Read the lease (a quorum read) and [`Candidate::decide`].
    Read,
    /// Create it. An error ends the round.
    Create(Box<Lease>),
    /// Write it, guarded by its version. An error ends the round, unless this was the first step: then continue with a read.
    Update(Box<Lease>),
    /// Another candidate holds it: the round has failed.
    Wait,
}

/// The moment at which a round began. All its decisions are made as of then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// The time on the candidate's monotonic clock.
    pub now: Duration,
    /// The time on its wall clock; only written to the record.
    pub wall: Timestamp,
}

/// The state of a candidate: the pure part of the election.
///
/// A round is [`begin`](Self::begin), then [`decide`](Self::decide) on what was read, then [`written`](Self::written) if a write succeeded.
#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    lease_seconds: i32,
    pub(super) renewal: Renewal,
    key: ObjectKey,
    /// The record as last read or written; `observed_at` is the monotonic time of that.
    observed: LeaseSpec,
    observed_at: Duration,
    /// The record as last *read*: only a difference from this updates `observed_at`.
    read: Option<LeaseSpec>,
    /// The object as last read or written, whose version guards the next write.
    lease: Option<Arc<Lease>>,
}

impl Candidate {
    /// A candidate that has seen nothing yet.
    pub fn new(config: &ElectionConfig) -> Self {
        Self {
            identity: config.identity.clone(),
            lease_seconds: i32::try_from(config.lease_duration.as_secs()).unwrap_or(i32::MAX),
            renewal: config.renewal,
            key: config.lease.clone(),
            observed: LeaseSpec::default(),
            observed_at: Duration::ZERO,
            read: None,
            lease: None,
        }
    }

    /// The leader as far as this candidate knows; empty = none.
    pub fn leader(&self) -> &str {
        self.observed.holder_identity.as_deref().unwrap_or("")
    }

    /// Whether the last record it knows names this candidate.
    pub fn leads(&self) -> bool {
        self.leader() == self.identity
    }

    fn is_valid(&self, now: Duration) -> bool {
        let seconds = u64::try_from(self.observed.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        self.observed_at + Duration::from_secs(seconds) > now
    }

    fn record(&self, round: Round) -> LeaseSpec {
        let now = micro_time(round.wall);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.lease_seconds),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        }
    }

    /// The record to write over `old`.
    fn successor(&self, old: &LeaseSpec, round: Round) -> LeaseSpec {
        let transitions = old.lease_transitions.unwrap_or(0);
        let record = self.record(round);
        if self.leads() {
            LeaseSpec { acquire_time: old.acquire_time.clone(), lease_transitions: Some(transitions), ..record }
        } else {
            LeaseSpec { lease_transitions: Some(transitions.saturating_add(1)), ..record }
        }
    }

    /// The first step of a round.
    pub fn begin(&self, round: Round) -> Step {
        match &self.lease {
            Some(lease) if self.renewal == Renewal::WriteFirst && self.leads() && self.is_valid(round.now) => {
                Step::Update(with_spec(lease, self.successor(&self.observed, round)))
            }
            _ => Step::Read,
        }
    }

    /// The next step of a `round` after the lease was read at the time `now`.
    pub fn decide(&mut self, lease: Option<Arc<Lease>>, round: Round, now: Duration) -> Step {
        let Some(lease) = lease else {
            return Step::Create(Box::new(Lease { metadata: self.key.metadata(), spec: Some(self.record(round)) }));
        };
        let record = lease.spec.clone().unwrap_or_default();
        if self.read.as_ref() != Some(&record) {
            self.observed = record.clone();
            self.observed_at = now;
            self.read = Some(record);
        }
        self.lease = Some(lease.clone());
        let found = lease.spec.as_ref();
        let held = found.and_then(|spec| spec.holder_identity.as_deref()).is_some_and(|holder| !holder.is_empty());
        if held && self.is_valid(round.now) && !self.leads() {
            return Step::Wait;
        }
        Step::Update(with_spec(&lease, self.successor(found.unwrap_or(&LeaseSpec::default()), round)))
    }

    /// Records a successful write at the time `now`; `lease` is the API server's answer.
    pub fn written(&mut self, lease: Arc<Lease>, now: Duration) {
        self.observed = lease.spec.clone().unwrap_or_default();
        self.observed_at = now;
        self.lease = Some(lease);
    }

    /// The lease to write to release it; `None` if it is not this candidate's.
    pub fn release(&self, wall: Timestamp) -> Option<Lease> {
        let lease = self.lease.as_ref().filter(|_| self.leads())?;
        let now = micro_time(wall);
        let record = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: self.observed.lease_transitions,
            ..LeaseSpec::default()
        };
        Some(*with_spec(lease, record))
    }
}

fn with_spec(lease: &Lease, spec: LeaseSpec) -> Box<Lease> {
    Box::new(Lease { metadata: lease.metadata.clone(), spec: Some(spec) })
}

/// The time as it will be read back: the wire format has microseconds.
fn micro_time(wall: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(wall.as_microsecond()).expect("less precision is in range"))
}
