//! Client-side rate limit: a token bucket from which each attempt takes a token, waiting for it in order (K §4.4).
//!
//! Put it *inside* [`Transparent`](crate::transparent::Transparent), so that each resend takes its own token:
//! `Transparent::new(RateLimited::new(client, env, CLIENT_GO), …)`.

use std::any::TypeId;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::api::{ApiError, Object, Reply, Request, Verb, WatchOptions};
use crate::client::Client;
use crate::env::Env;

/// The rate limit of a client's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// The long-term rate in requests per second; more than 0.
    pub qps: f64,
    /// The number of requests at once after a quiet time; at least 1.
    pub burst: u32,
}

/// client-go's default, for a controller that sets nothing. Under mass pod churn it adds seconds of queueing.
pub const CLIENT_GO: RateLimit = RateLimit { qps: 5.0, burst: 10 };

/// The limit of controller-runtime since v0.16.
pub const CONTROLLER_RUNTIME: RateLimit = RateLimit { qps: 20.0, burst: 30 };

/// A token bucket with the arithmetic of Go's `rate.Limiter`: a token may be taken before it is available, and the caller waits until it
/// is. So callers are served in the order in which they came.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    limit: RateLimit,
    /// The number of tokens; negative while callers wait.
    tokens: f64,
    counted_at: Duration,
    last_due: Duration,
}

impl TokenBucket {
    /// A bucket that holds `limit.burst` tokens at monotonic time 0.
    pub fn new(limit: RateLimit) -> Self {
        Self { limit, tokens: f64::from(limit.burst), counted_at: Duration::ZERO, last_due: Duration::ZERO }
    }

    fn count(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.counted_at);
        self.tokens = (self.tokens + passed.as_secs_f64() * self.limit.qps).min(f64::from(self.limit.burst));
        self.counted_at = self.counted_at.max(now);
    }

    /// Takes a token at monotonic time `now` and returns the time at which it is available, `now` or later.
    pub fn take(&mut self, now: Duration) -> Duration {
        self.count(now);
        self.tokens -= 1.0;
        let wait = if self.tokens < 0.0 { Duration::from_secs_f64(-self.tokens / self.limit.qps) } else { Duration::ZERO };
        self.last_due = now + wait;
        self.last_due
    }

    /// Gives back, at `now`, an unused token that was due at `due`. If others queued behind it, less than a token is returned: they keep
    /// their places, as in Go.
    pub fn give_back(&mut self, now: Duration, due: Duration) {
        let queued_behind = self.last_due.saturating_sub(due).as_secs_f64() * self.limit.qps;
        if due <= now || queued_behind >= 1.0 {
            return;
        }
        self.count(now);
        self.tokens = (self.tokens + 1.0 - queued_behind).min(f64::from(self.limit.burst));
        if due == self.last_due {
            let one = Duration::from_secs_f64(1.0 / self.limit.qps);
            self.last_due = self.last_due.saturating_sub(one).max(now);
        }
    }
}

/// The requests that share one bucket: of a type, its reads (`false`) or its writes (`true`). `None` = all of the client's requests.
type Share = Option<(TypeId, bool)>;

/// The buckets of a client.
#[derive(Debug)]
struct Buckets {
    limit: RateLimit,
    per_type: bool,
    buckets: Mutex<FxHashMap<Share, TokenBucket>>,
}

impl Buckets {
    fn share<K: Object>(&self, verb: Verb) -> Share {
        self.per_type.then(|| (TypeId::of::<K>(), verb.is_write()))
    }

    fn with<T>(&self, share: Share, then: impl FnOnce(&mut TokenBucket) -> T) -> T {
        then(self.buckets.lock().unwrap().entry(share).or_insert_with(|| TokenBucket::new(self.limit)))
    }
}

/// A client that waits for a token before each request. Opening a watch is not limited.
///
/// The wait does not count against the request's own timeout, which starts when the request is sent (as in
/// client-go). Clones share their buckets.
#[derive(Clone, Debug)]
pub struct RateLimited<C, V> {
    client: C,
    env: V,
    buckets: Option<Arc<Buckets>>,
}

impl<C: Client, V: Env> RateLimited<C, V> {
    /// Wraps `client` with the limit of a clientset of client-go: all requests share one bucket.
    pub fn new(client: C, env: V, limit: RateLimit) -> Self {
        Self::with(client, env, limit, false)
    }

    /// Wraps `client` with the limits of controller-runtime's clients: they make a REST client for each type, and the reader that bypasses
    /// the cache has its own, so that the reads and the writes of a type have a bucket each (A §10).
    pub fn per_type(client: C, env: V, limit: RateLimit) -> Self {
        Self::with(client, env, limit, true)
    }

    fn with(client: C, env: V, limit: RateLimit, per_type: bool) -> Self {
        Self { client, env, buckets: Some(Arc::new(Buckets { limit, per_type, buckets: Mutex::default() })) }
    }

    /// Wraps `client` without a limit.
    pub fn unlimited(client: C, env: V) -> Self {
        Self { client, env, buckets: None }
    }
}

/// A token that may not be available yet. Given back if dropped before it is due.
struct Place<'a, V: Env> {
    buckets: &'a Buckets,
    share: Share,
    env: &'a V,
    due: Duration,
}

impl<V: Env> Drop for Place<'_, V> {
    fn drop(&mut self) {
        let now = self.env.monotonic();
        self.buckets.with(self.share, |bucket| bucket.give_back(now, self.due));
    }
}

async fn wait_for_token<V: Env>(buckets: &Buckets, share: Share, env: &V) {
    let now = env.monotonic();
    let due = buckets.with(share, |bucket| bucket.take(now));
    if due > now {
        let _place = Place { buckets, share, env, due };
        env.sleep(due - now).await;
    }
}

impl<C: Client, V: Env> Client for RateLimited<C, V> {
    type Watch<K: Object> = C::Watch<K>;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        if let Some(buckets) = &self.buckets {
            wait_for_token(buckets, buckets.share::<K>(request.call.verb()), &self.env).await;
        }
        self.client.send(request).await
    }

    fn watch<K: Object>(
        &self,
        namespace: Option<Arc<str>>,
        options: WatchOptions,
    ) -> impl Future<Output = Result<Self::Watch<K>, ApiError>> + Send {
        self.client.watch(namespace, options)
    }

    fn streams_lists(&self) -> bool {
        self.client.streams_lists()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;
    use crate::api::ObjectKey;
    use crate::client::ClientExt;
    use crate::race::race;
    use crate::testing::{Answer, TestClient, TestEnv};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_burst_passes_at_once_and_the_rest_queues_at_the_rate() {
        let mut bucket = TokenBucket::new(CLIENT_GO);
        let due: Vec<u128> = (0..14).map(|_| bucket.take(Duration::ZERO).as_millis()).collect();
        assert_eq!(due, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200, 400, 600, 800]);
    }

    #[test]
    fn tokens_come_back_at_the_rate_up_to_the_burst() {
        let mut bucket = TokenBucket::new(CONTROLLER_RUNTIME);
        for _ in 0..30 {
            assert_eq!(bucket.take(Duration::ZERO), Duration::ZERO);
        }
        assert_eq!(bucket.take(50 * MS), 50 * MS);
        let later = Duration::from_secs(60);
        let at_once = (0..40).filter(|_| bucket.take(later) == later).count();
        assert_eq!(at_once, 30);
    }

    #[test]
    fn a_token_given_back_by_the_last_in_the_queue_is_there_for_the_next() {
        let mut bucket = TokenBucket::new(RateLimit { qps: 5.0, burst: 1 });
        bucket.take(Duration::ZERO);
        let second = bucket.take(Duration::ZERO);
        bucket.give_back(100 * MS, second);
        assert_eq!(bucket.take(100 * MS), second);
        let behind = bucket.take(100 * MS);
        bucket.give_back(150 * MS, second);
        assert_eq!(bucket.take(150 * MS), behind + 200 * MS, "the one behind keeps its place, so nothing is gained");
    }

    proptest! {
        /// Over any window the bucket hands out at most `burst` plus what the rate allows.
        #[test]
        fn no_window_exceeds_burst_plus_rate(gaps in prop::collection::vec(0u64..400, 1..80), qps in 1.0..50.0f64, burst in 1u32..20) {
            let mut bucket = TokenBucket::new(RateLimit { qps, burst });
            let mut now = Duration::ZERO;
            let mut due: Vec<Duration> = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                let at = bucket.take(now);
                prop_assert!(at >= now);
                prop_assert!(due.last().is_none_or(|previous| *previous <= at), "served out of order");
                due.push(at);
            }
            for first in 0..due.len() {
                for last in first..due.len() {
                    let allowed = f64::from(burst) + (due[last] - due[first]).as_secs_f64() * qps;
                    prop_assert!((last - first + 1) as f64 <= allowed + 1e-3);
                }
            }
        }
    }

    fn counting(env: &TestEnv) -> TestClient<ConfigMap> {
        TestClient::without_watch(env, |_| Answer::object(ConfigMap::default()))
    }

    #[test]
    fn requests_beyond_the_burst_wait_and_an_unlimited_client_never_does() {
        let env = TestEnv::new();
        let key = ObjectKey::namespaced("ns", "a");
        let limited = RateLimited::new(counting(&env), env.clone(), CLIENT_GO);
        env.block_on(async {
            for _ in 0..15 {
                limited.get::<ConfigMap>(&key).await.unwrap();
            }
        });
        assert_eq!(env.monotonic().as_millis(), 1000);
        let unlimited = RateLimited::unlimited(counting(&env), env.clone());
        env.block_on(async {
            for _ in 0..100 {
                unlimited.get::<ConfigMap>(&key).await.unwrap();
            }
        });
        assert_eq!(env.monotonic().as_millis(), 1000);
    }

    #[test]
    fn reads_and_writes_of_each_type_wait_for_themselves_where_each_has_its_bucket() {
        let env = TestEnv::new();
        let key = ObjectKey::namespaced("ns", "a");
        let took = |limited: RateLimited<TestClient<ConfigMap>, TestEnv>| {
            let began = env.monotonic();
            env.block_on(async {
                for _ in 0..10 {
                    limited.get::<ConfigMap>(&key).await.unwrap();
                    limited.update(ConfigMap::default()).await.unwrap();
                }
            });
            (env.monotonic() - began).as_millis()
        };
        assert_eq!(took(RateLimited::new(counting(&env), env.clone(), CLIENT_GO)), 2000);
        assert_eq!(took(RateLimited::per_type(counting(&env), env.clone(), CLIENT_GO)), 0);
    }

    #[test]
    fn a_request_abandoned_in_the_queue_gives_its_token_back() {
        let env = TestEnv::new();
        let key = ObjectKey::namespaced("ns", "a");
        let limited = RateLimited::new(counting(&env), env.clone(), RateLimit { qps: 1.0, burst: 1 });
        env.block_on(async {
            limited.get::<ConfigMap>(&key).await.unwrap();
            race(limited.get::<ConfigMap>(&key), env.sleep(500 * MS)).await;
            limited.get::<ConfigMap>(&key).await.unwrap();
        });
        assert_eq!(env.monotonic().as_millis(), 1000);
    }
}
