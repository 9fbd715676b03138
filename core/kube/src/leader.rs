//! Leader election on a Lease: client-go's algorithm (K §4.6).
//!
//! Candidates write their name and the time of their last renewal into one Lease. A candidate takes over when it has seen the record
//! *unchanged for the whole lease duration by its own monotonic clock*. Times written in the record are for humans; they are never compared
//! with a clock. So clocks need not agree, but they must run at the same rate: if the rates differ by more than lease duration / renew
//! deadline (1.5 by default), two candidates may lead. A healthy leader gives up one retry period and one renew deadline after the *answer*
//! to its last renewal: by default 3 s before others take over, so a slower answer than that uses up the margin, as in client-go.
//!
//! **There is no fencing.** A process that believes that it leads may be wrong: a paused process resumes its work, a write sent before the
//! lease was lost may commit after it (up to 34 s later, K §2.13), and cancelled work may take a while to stop. A leader's writes must be
//! guarded by resourceVersion or precondition, as if there were no leader election (K143).

mod candidate;
mod config;

use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;

use self::config::JITTER;
use crate::api::{ApiError, Call, Dry, Reply, Request};
use crate::client::Client;
use crate::env::Env;
use crate::latest;
use crate::race::{Either, race};
use crate::retry::jittered;

pub use candidate::{Candidate, Round, Step};
pub use config::{ElectionConfig, ElectionConfigError, Renewal};

/// The phase of an election, for one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Trying to become leader.
    Following,
    /// Leader, as far as this process knows.
    Leading,
    /// Was leader and could not renew in time. Final: the owner should exit, because the state of its work is unknown.
    Lost,
    /// [`Election::cancel`] was called, or the [`Election`] dropped, before leadership was lost. Final.
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
    /// Starts the candidacy in the background.
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

    /// The current phase of the election.
    pub fn phase(&self) -> Phase {
        self.view.get().phase
    }

    /// Whether this process believes that it leads. See the module documentation for the limits of that belief.
    pub fn is_leading(&self) -> bool {
        self.phase() == Phase::Leading
    }

    /// The leader, as last seen; empty = none, or nothing seen yet.
    pub fn leader(&self) -> Arc<str> {
        self.view.get().leader.clone()
    }

    /// Completes with `true` when this candidate leads, or with `false` when it never will.
    pub fn acquired(&self) -> impl Future<Output = bool> + Send + use<> {
        let mut view = self.view.clone();
        async move { view.wait_for(|view| view.phase != Phase::Following).await.is_ok_and(|view| view.phase == Phase::Leading) }
    }

    /// Completes with the final phase when the election is over for this candidate.
    pub fn ended(&self) -> impl Future<Output = Phase> + Send + use<> {
        let mut view = self.view.clone();
        async move { view.wait_for(|view| view.phase.is_final()).await.map_or(Phase::Cancelled, |view| view.phase) }
    }

    /// Runs `work` from the moment this candidate leads. If leadership ends first, `work` is dropped at its next suspension point; requests
    /// it has sent may still be carried out.
    ///
    /// # Errors
    /// The final phase, if leadership ended before `work` did.
    pub async fn lead<T>(&self, work: impl Future<Output = T>) -> Result<T, Phase> {
        if !self.acquired().await {
            return Err(self.ended().await);
        }
        match race(self.ended(), work).await {
            Either::Left(phase) => Err(phase),
            Either::Right(output) => Ok(output),
        }
    }

    /// Ends the candidacy or the leadership. All guarded work must have ended before.
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
        // The owner is notified before another candidate can take over.
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

    /// Acquires and holds leadership; ends when it was lost.
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

    /// Tries to renew until it succeeds or the deadline has passed: immediately, and then on each tick of the retry period.
    async fn renew(&mut self) -> bool {
        let (env, period) = (self.env.clone(), self.config.retry_period);
        let deadline = env.sleep(self.config.renew_deadline);
        let attempts = async {
            if self.attempt().await {
                return;
            }
            let first = env.monotonic();
            loop {
                // Ticks that passed during an attempt are skipped.
                let passed = env.monotonic().saturating_sub(first);
                let ticks = passed.as_nanos() / period.as_nanos() + 1;
                let next = period * u32::try_from(ticks).unwrap_or(u32::MAX);
                env.sleep(next - passed).await;
                if self.attempt().await {
                    return;
                }
            }
        };
        // If both are ready the deadline wins: a process that was paused beyond it gives up whatever the answer was.
        race(deadline, attempts).await == Either::Right(())
    }

    /// Makes one round; true if this candidate leads after it.
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
