//! A Lease as a lock: its holder does a piece of work, the others retry.
//!
//! ```text
//!  GET Lease ── free ──► PUT my name ──► … the work … ──► PUT nobody
//!      ▲          │ held, or 409: sleep, full jitter
//!      └──────────┘
//! ```
//! Each attempt is a round of the [election](crate::leader) that ends when the work does. As there, nothing is fenced: a holder whose lock
//! has expired may go on, so writes under the lock must stay guarded by their version. A holder that dies keeps the lock until the others
//! have seen it unchanged for the lease duration.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use crate::api::ObjectKey;
use crate::client::{Client, ClientExt};
use crate::env::Env;
use crate::leader::{Candidate, ElectionConfig, Round, Step};
use crate::retry::{Backoff, Jitter};
use crate::time_limit::TimeLimited;

/// The backoff between requests for a lock that is held.
const ASKS: Backoff =
    Backoff { steps: u32::MAX, base: Duration::from_millis(20), factor: 2.0, cap: Duration::from_millis(100), jitter: Jitter::Full };

/// The lock, as seen by one process. It does not exclude two calls of the same process from each other.
#[derive(Clone)]
pub struct LeaseLock<C, V> {
    client: TimeLimited<C>,
    env: V,
    election: Arc<ElectionConfig>,
}

/// The requests to the API server for a lock, over all attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockRequests {
    /// Reads of the Lease.
    pub reads: u32,
    /// Writes of the Lease, whether or not they succeeded.
    pub writes: u32,
    /// Writes that failed with a Conflict.
    pub conflicts: u32,
    /// Writes that failed with AlreadyExists, because the Lease had been created before.
    pub create_races: u32,
}

/// A lock that is held until it is released or expires.
#[derive(Debug)]
#[must_use = "a lock that is not given back keeps the others out until it expires"]
pub struct Held(Candidate);

impl<C: Client, V: Env> LeaseLock<C, V> {
    /// The lock of this Lease for the process called `me`; it expires after 15 s.
    pub fn new(client: C, env: V, lease: ObjectKey, me: impl Into<String>) -> Self {
        let election = ElectionConfig::new(lease, me);
        Self { client: TimeLimited::new(client, election.request_timeout), env, election: Arc::new(election) }
    }

    /// The same lock with another time after which it expires if its holder is gone. It is written in whole seconds, at least 1.
    #[must_use]
    pub fn expiring_after(mut self, lease_duration: Duration) -> Self {
        self.election = Arc::new(ElectionConfig { lease_duration, ..ElectionConfig::clone(&self.election) });
        self
    }

    /// Waits for the lock without a limit, does `work`, and releases the lock.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> T {
        let held = self.take(Duration::MAX, &mut LockRequests::default()).await;
        let output = work.await;
        if let Some(held) = held {
            self.give_back(held).await;
        }
        output
    }

    /// Waits for the lock up to `patience`; `None` = timed out. Every error is retried. Adds its requests to `requests`.
    pub async fn take(&self, patience: Duration, requests: &mut LockRequests) -> Option<Held> {
        let end = self.env.monotonic().saturating_add(patience);
        let mut candidate = Candidate::new(&self.election);
        for tries in 1.. {
            if self.attempt(&mut candidate, requests).await {
                return Some(Held(candidate));
            }
            let sleep = ASKS.sleep(tries, || self.env.random_unit())?;
            if self.env.monotonic() + sleep >= end {
                return None;
            }
            self.env.sleep(sleep).await;
        }
        None
    }

    /// Reads the Lease and writes it if it is free. Returns whether the lock is held then.
    async fn attempt(&self, candidate: &mut Candidate, requests: &mut LockRequests) -> bool {
        let round = Round { now: self.env.monotonic(), wall: self.env.wall() };
        requests.reads += 1;
        let lease = match self.client.get::<Lease>(&self.election.lease).await {
            Ok(lease) => Some(lease),
            Err(error) if error.is_not_found() => None,
            Err(_) => return false,
        };
        let written = match candidate.decide(lease, round, self.env.monotonic()) {
            Step::Create(lease) => self.client.create(*lease).await,
            Step::Update(lease) => self.client.update(*lease).await,
            Step::Read | Step::Wait => return false,
        };
        requests.writes += 1;
        match written {
            Ok(lease) => {
                candidate.written(lease, self.env.monotonic());
                true
            }
            Err(error) => {
                requests.conflicts += u32::from(error.is_conflict());
                requests.create_races += u32::from(error.is_already_exists());
                false
            }
        }
    }

    /// Releases the lock. If that fails, it expires.
    pub async fn give_back(&self, held: Held) {
        if let Some(lease) = held.0.release(self.env.wall()) {
            drop(self.client.update(lease).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::api::{Call, Reason, Status};
    use crate::testing::{Answer, TestClient, TestEnv};

    const SECOND: Duration = Duration::from_secs(1);

    /// A Lease under optimistic locking, and its locks.
    struct Bench {
        env: TestEnv,
        client: TestClient<Lease>,
        stored: Arc<Mutex<Option<Lease>>>,
        /// The result of the next read instead of the stored Lease.
        stale: Arc<Mutex<Option<Option<Lease>>>>,
    }

    impl Bench {
        fn new() -> Self {
            let (env, stored, stale) =
                (TestEnv::new(), Arc::<Mutex<Option<Lease>>>::default(), Arc::<Mutex<Option<Option<Lease>>>>::default());
            let (of_server, stale_read, mut version) = (stored.clone(), stale.clone(), 0);
            let refused = |reason| Answer::error(Status::new(reason, ""));
            let client = TestClient::without_watch(&env, move |request| {
                let mut stored = of_server.lock().unwrap();
                let body = match request.call {
                    Call::Get { .. } => {
                        let found = stale_read.lock().unwrap().take().unwrap_or_else(|| stored.clone());
                        return found.map_or_else(|| refused(Reason::NotFound), Answer::object);
                    }
                    Call::Create { .. } if stored.is_some() => return refused(Reason::AlreadyExists),
                    Call::Create { body, .. } => body,
                    Call::Update { body, .. } => {
                        let known = stored.as_ref().and_then(|lease| lease.metadata.resource_version.as_deref());
                        if known != body.metadata.resource_version.as_deref() {
                            return refused(Reason::Conflict);
                        }
                        body
                    }
                    other => panic!("a lock does not ask for {other:?}"),
                };
                version += 1;
                let mut lease = Lease::clone(&body);
                lease.metadata.resource_version = Some(version.to_string());
                *stored = Some(lease.clone());
                Answer::object(lease)
            });
            Self { env, client, stored, stale }
        }

        fn lock(&self, me: &str) -> LeaseLock<TestClient<Lease>, TestEnv> {
            LeaseLock::new(self.client.clone(), self.env.clone(), ObjectKey::namespaced("kube-system", "pool"), me)
        }

        fn holder(&self) -> String {
            let spec = self.stored.lock().unwrap().clone().and_then(|lease| lease.spec);
            spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
        }
    }

    #[test]
    fn a_lock_is_created_held_during_the_work_and_given_back() {
        let bench = Bench::new();
        let seen = bench.env.block_on(bench.lock("a").guard(async { bench.holder() }));
        assert_eq!((&*seen, &*bench.holder()), ("a", ""));
    }

    #[test]
    fn others_wait_until_it_is_given_back() {
        let bench = Bench::new();
        let (a, b) = (bench.lock("a"), bench.lock("b"));
        bench.env.block_on(async {
            let held = a.take(SECOND, &mut LockRequests::default()).await.unwrap();
            let mut requests = LockRequests::default();
            assert!(b.take(SECOND, &mut requests).await.is_none(), "two hold one lock");
            assert!(requests.reads > 5 && requests.writes == 0, "{requests:?}");
            a.give_back(held).await;
            assert!(b.take(SECOND, &mut LockRequests::default()).await.is_some());
        });
        assert_eq!(bench.holder(), "b");
    }

    #[test]
    fn a_lock_that_is_not_given_back_expires() {
        let bench = Bench::new();
        let (a, b) = (bench.lock("a").expiring_after(2 * SECOND), bench.lock("b"));
        bench.env.block_on(async {
            drop(a.take(SECOND, &mut LockRequests::default()).await.unwrap());
            let since = bench.env.monotonic();
            b.guard(async {}).await;
            let waited = bench.env.monotonic() - since;
            assert!(waited >= 2 * SECOND && waited < 3 * SECOND, "{waited:?}");
        });
    }

    #[test]
    fn writes_that_met_another_one_are_counted_and_tried_again() {
        let bench = Bench::new();
        bench.env.block_on(bench.lock("a").guard(async {}));
        let free = bench.stored.lock().unwrap().clone();
        bench.env.block_on(bench.lock("b").guard(async {}));
        for (stale, conflicts, create_races) in [(None, 0, 1), (free, 1, 0)] {
            *bench.stale.lock().unwrap() = Some(stale);
            let mut requests = LockRequests::default();
            let held = bench.env.block_on(bench.lock("a").take(SECOND, &mut requests)).unwrap();
            assert_eq!(requests, LockRequests { reads: 2, writes: 2, conflicts, create_races });
            bench.env.block_on(bench.lock("a").give_back(held));
        }
    }
}
