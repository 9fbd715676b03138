//! Leader election on a Lease: client-go's algorithm (K §4.6).
//!
//! Candidates write their name and the time of their last renewal into one Lease. A candidate takes over when it has
//! seen the record *unchanged for the whole lease duration by its own monotonic clock*. Times written in the record
//! are for people; they are never compared with a clock. So it does not matter whether clocks agree, but it does
//! matter whether they run at the same rate: beyond lease duration / renew deadline (1.5 by default) two may lead.
//! A healthy leader gives up one retry period and one renew deadline after the *answer* to its last renewal: by default
//! 3 s before others take over, so an answer that is slower than that uses the margin up, as in client-go.
//!
//! **There is no fencing.** That this process leads is a belief that may be out of date: a paused process resumes
//! with its work in hand, a write sent before the lease was lost may commit after it (up to 34 s later, K §2.13),
//! and work that was told to stop may take its time. What a leader writes must be guarded by resourceVersion or
//! precondition, as if there were no leader election (K143).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use thiserror::Error;

use crate::api::{ApiError, Call, Dry, ObjectKey, Reply, Request};
use crate::client::Client;
use crate::env::Env;
use crate::latest;
use crate::race::{Either, race};
use crate::retry::jittered;

/// A try to acquire is followed by a sleep of the retry period and up to this many times more.
const JITTER: f64 = 1.2;

/// How a leader renews.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Renewal {
    /// Write over the version it remembers, and read only if that fails (newer client-go).
    #[default]
    WriteFirst,
    /// Read, then write (older client-go).
    ReadFirst,
}

/// Who takes part in which election, and how fast.
#[derive(Clone, Debug, PartialEq)]
pub struct ElectionConfig {
    /// The Lease.
    pub lease: ObjectKey,
    /// The candidate. No two processes may ever share it, not even one after the other.
    pub identity: String,
    /// How long others wait after the last renewal they saw; written in whole seconds. Default 15 s.
    pub lease_duration: Duration,
    /// How long a leader keeps trying to renew before it gives up. Default 10 s.
    pub renew_deadline: Duration,
    /// The time between tries. Default 2 s.
    pub retry_period: Duration,
    /// How long to wait for one answer of the API server, so that one lost answer costs no leadership. Default 5 s,
    /// half the renew deadline, as in controller-runtime.
    pub request_timeout: Option<Duration>,
    /// Whether to hand the lease back at the end, for a quick successor. Only right if all guarded work has ended
    /// before [`Election::cancel`] is called. Default no.
    pub release_on_cancel: bool,
    /// Default [`Renewal::WriteFirst`].
    pub renewal: Renewal,
}

/// What is wrong with an [`ElectionConfig`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ElectionConfigError {
    /// An empty holder means that nobody leads.
    #[error("the identity of a candidate must not be empty")]
    NoIdentity,
    /// The record holds whole seconds, and the API server takes no zero.
    #[error("lease duration {0:?} must be at least one second")]
    LeaseTooShort(Duration),
    /// A leader has to give up before others take over.
    #[error("lease duration {lease_duration:?} must be longer than renew deadline {renew_deadline:?}")]
    LeaseNotLongerThanDeadline {
        /// As configured.
        lease_duration: Duration,
        /// As configured.
        renew_deadline: Duration,
    },
    /// A leader has to get a second try.
    #[error("renew deadline {renew_deadline:?} must be longer than 1.2 times retry period {retry_period:?}")]
    DeadlineNotLongerThanRetry {
        /// As configured.
        renew_deadline: Duration,
        /// As configured.
        retry_period: Duration,
    },
    /// Zero would be a busy loop.
    #[error("the retry period must not be zero")]
    NoRetryPeriod,
}

impl ElectionConfig {
    /// The defaults that kube-controller-manager, the scheduler and controller-runtime share.
    pub fn new(lease: ObjectKey, identity: impl Into<String>) -> Self {
        Self {
            lease,
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            request_timeout: Some(Duration::from_secs(5)),
            release_on_cancel: false,
            renewal: Renewal::WriteFirst,
        }
    }

    /// Checks what the algorithm relies on.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ElectionConfigError> {
        let &Self { lease_duration, renew_deadline, retry_period, .. } = self;
        if self.identity.is_empty() {
            return Err(ElectionConfigError::NoIdentity);
        }
        if retry_period.is_zero() {
            return Err(ElectionConfigError::NoRetryPeriod);
        }
        if lease_duration <= renew_deadline {
            return Err(ElectionConfigError::LeaseNotLongerThanDeadline { lease_duration, renew_deadline });
        }
        if renew_deadline <= retry_period.mul_f64(JITTER) {
            return Err(ElectionConfigError::DeadlineNotLongerThanRetry { renew_deadline, retry_period });
        }
        if lease_duration < Duration::from_secs(1) {
            return Err(ElectionConfigError::LeaseTooShort(lease_duration));
        }
        Ok(())
    }
}

/// What to do next in a round of the election.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Read the lease (a quorum read) and [`Candidate::decide`].
    Read,
    /// Create it. An error ends the round.
    Create(Box<Lease>),
    /// Write it, guarded by its version. An error ends the round, unless this was the first step: then read.
    Update(Box<Lease>),
    /// Somebody else holds it: the round has failed.
    Wait,
}

/// The moment at which a round began. All its decisions are made as of then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// On the candidate's monotonic clock.
    pub now: Duration,
    /// On its wall clock; only ever written down.
    pub wall: Timestamp,
}

/// What a candidate remembers: the pure part of the election.
///
/// A round is [`begin`](Self::begin), then [`decide`](Self::decide) on what was read, then
/// [`written`](Self::written) if a write succeeded.
#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    lease_seconds: i32,
    renewal: Renewal,
    key: ObjectKey,
    /// The record as last read or written, and when that was by the own monotonic clock.
    observed: LeaseSpec,
    observed_at: Duration,
    /// The record as last *read*: only a difference from this makes `observed_at` younger.
    read: Option<LeaseSpec>,
    /// The object as last read or written: the version to write over.
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

    /// Who leads as far as this candidate knows; empty = nobody.
    pub fn leader(&self) -> &str {
        self.observed.holder_identity.as_deref().unwrap_or("")
    }

    /// Whether the last record it knows names itself.
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

    /// The next step of a `round` after the lease was read; `now` is the time at which it was.
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

    /// Takes note of a write that succeeded, at `now`; `lease` is the API server's answer.
    pub fn written(&mut self, lease: Arc<Lease>, now: Duration) {
        self.observed = lease.spec.clone().unwrap_or_default();
        self.observed_at = now;
        self.lease = Some(lease);
    }

    /// What to write to hand the lease back; `None` if it is not this candidate's.
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

/// As it will be read back: the wire format has microseconds.
fn micro_time(wall: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(wall.as_microsecond()).expect("less precision is in range"))
}

/// How far an election has come, for one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Trying to become leader.
    Following,
    /// Leader, as far as this process knows.
    Leading,
    /// Was leader and could not renew in time. Final: the owner should exit, as nobody knows what its work holds.
    Lost,
    /// Cancelled. Final.
    Cancelled,
}

impl Phase {
    fn is_final(self) -> bool {
        matches!(self, Phase::Lost | Phase::Cancelled)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    phase: Phase,
    leader: Arc<str>,
}

/// One candidate taking part in an election. Dropping it cancels.
///
/// ```text
///   Following ──► Leading ──► Lost
///       └────────────┴──────► Cancelled
/// ```
#[derive(Debug)]
pub struct Election {
    view: latest::Receiver<View>,
    cancel: latest::Sender<bool>,
}

impl Election {
    /// Starts to run for leader in the background.
    ///
    /// # Errors
    /// The configuration breaks a rule that the algorithm relies on.
    pub fn start<C: Client, V: Env>(client: C, env: V, config: ElectionConfig) -> Result<Self, ElectionConfigError> {
        config.validate()?;
        let (view_sender, view) = latest::channel(View { phase: Phase::Following, leader: "".into() });
        let (cancel, cancelled) = latest::channel(false);
        let candidate = Candidate::new(&config);
        let runner = Runner { client, env: env.clone(), config, candidate, view: view_sender };
        env.spawn(runner.run(cancelled));
        Ok(Self { view, cancel })
    }

    /// How far it has come.
    pub fn phase(&self) -> Phase {
        self.view.get().phase
    }

    /// Whether this process believes that it leads. See the module about what that is worth.
    pub fn is_leading(&self) -> bool {
        self.phase() == Phase::Leading
    }

    /// Who leads, as last seen; empty = nobody, or nothing seen yet.
    pub fn leader(&self) -> Arc<str> {
        self.view.get().leader.clone()
    }

    /// Completes when this candidate leads, or never will: then `false`.
    pub fn acquired(&self) -> impl Future<Output = bool> + Send + use<> {
        let mut view = self.view.clone();
        async move { view.wait_for(|view| view.phase != Phase::Following).await.is_ok_and(|view| view.phase == Phase::Leading) }
    }

    /// Completes when the election is over for this candidate, and tells how.
    pub fn ended(&self) -> impl Future<Output = Phase> + Send + use<> {
        let mut view = self.view.clone();
        async move { view.wait_for(|view| view.phase.is_final()).await.map_or(Phase::Cancelled, |view| view.phase) }
    }

    /// Runs `work` from the moment this candidate leads. When leadership ends first, `work` is dropped at its next
    /// suspension point; requests it has sent may still be carried out.
    ///
    /// # Errors
    /// How leadership ended, if `work` did not end before.
    pub async fn lead<T>(&self, work: impl Future<Output = T>) -> Result<T, Phase> {
        if !self.acquired().await {
            return Err(self.ended().await);
        }
        match race(self.ended(), work).await {
            Either::Left(phase) => Err(phase),
            Either::Right(output) => Ok(output),
        }
    }

    /// Stops running for leader, or leading. All guarded work must have ended before.
    pub fn cancel(&self) {
        self.cancel.send_replace(true);
    }
}

struct Runner<C, V> {
    client: C,
    env: V,
    config: ElectionConfig,
    candidate: Candidate,
    view: latest::Sender<View>,
}

impl<C: Client, V: Env> Runner<C, V> {
    async fn run(mut self, mut cancelled: latest::Receiver<bool>) {
        // A dropped sender cancels, too.
        let cancelled = async move {
            let _ = cancelled.wait_for(|cancelled| *cancelled).await;
        };
        let end = match race(cancelled, self.acquire_and_hold()).await {
            Either::Left(()) => Phase::Cancelled,
            Either::Right(()) => Phase::Lost,
        };
        // The owner learns of it before anybody else can take over.
        self.report(end);
        if self.config.release_on_cancel {
            self.release().await;
            self.report(end);
        }
    }

    fn report(&self, phase: Phase) {
        let leader = self.candidate.leader();
        self.view.set(View { phase, leader: leader.into() });
    }

    /// Ends when leadership was lost.
    async fn acquire_and_hold(&mut self) {
        while !self.attempt().await {
            self.report(Phase::Following);
            let sleep = jittered(self.config.retry_period, JITTER, || self.env.random_unit());
            self.env.sleep(sleep).await;
        }
        self.report(Phase::Leading);
        // client-go renews right after acquiring, and then a retry period after each success.
        while self.renew().await {
            self.report(Phase::Leading);
            self.env.sleep(self.config.retry_period).await;
        }
    }

    /// Tries until it succeeds or the deadline has passed, once at first and then on each tick of the retry period.
    async fn renew(&mut self) -> bool {
        let (env, period) = (self.env.clone(), self.config.retry_period);
        let deadline = env.sleep(self.config.renew_deadline);
        let attempts = async {
            if self.attempt().await {
                return;
            }
            let first = env.monotonic();
            loop {
                // Ticks that passed during an attempt are not made up for.
                let passed = env.monotonic().saturating_sub(first);
                let ticks = passed.as_nanos() / period.as_nanos() + 1;
                let next = period * u32::try_from(ticks).unwrap_or(u32::MAX);
                env.sleep(next - passed).await;
                if self.attempt().await {
                    return;
                }
            }
        };
        // When both are ready the deadline wins: a process that was paused over it gives up whatever the answer was.
        race(deadline, attempts).await == Either::Right(())
    }

    /// One round; true if this candidate leads after it.
    async fn attempt(&mut self) -> bool {
        let round = Round { now: self.env.monotonic(), wall: self.env.wall() };
        if let Step::Update(lease) = self.candidate.begin(round)
            && self.write(self.update(*lease)).await
        {
            return true;
        }
        let get = Call::Get { key: self.config.lease.clone(), resource_version: None };
        let lease = match self.send(get).await {
            Ok(lease) => Some(lease),
            Err(error) if error.is_not_found() => None,
            Err(_) => return false,
        };
        match self.candidate.decide(lease, round, self.env.monotonic()) {
            Step::Create(lease) => {
                let namespace = self.config.lease.namespace().map(Arc::from);
                self.write(Call::Create { namespace, body: lease.into(), dry: Dry::No }).await
            }
            Step::Update(lease) => self.write(self.update(*lease)).await,
            Step::Wait | Step::Read => false,
        }
    }

    async fn release(&mut self) {
        let Some(lease) = self.candidate.release(self.env.wall()) else { return };
        let deadline = self.env.sleep(self.config.renew_deadline);
        race(self.write(self.update(lease)), deadline).await;
    }

    fn update(&self, lease: Lease) -> Call<Lease> {
        Call::Update { key: self.config.lease.clone(), body: Arc::new(lease), subresource: None, dry: Dry::No }
    }

    async fn write(&mut self, call: Call<Lease>) -> bool {
        let Ok(lease) = self.send(call).await else { return false };
        self.candidate.written(lease, self.env.monotonic());
        true
    }

    async fn send(&self, call: Call<Lease>) -> Result<Arc<Lease>, ApiError> {
        match self.client.send(Request { call, timeout: self.config.request_timeout }).await? {
            Reply::Object(lease) => Ok(lease),
            Reply::List(_) | Reply::Deleted { .. } => unreachable!("an API server answers these verbs with an object"),
        }
    }
}

#[cfg(test)]
mod tests;
