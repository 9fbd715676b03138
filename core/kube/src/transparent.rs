//! Resending that is invisible to the caller, as done by HTTP clients of Kubernetes below the API (K §4.4, §4.7).
//!
//! It hides outcomes. If a create that committed was answered with an error, it is sent again, and the caller sees AlreadyExists for its
//! own object; a delete becomes NotFound; a guarded update becomes a Conflict with itself.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{ApiError, Object, Reply, Request, TransportError, WatchOptions};
use crate::client::Client;
use crate::env::Env;

/// The client library whose resends are imitated (K153).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// client-go: any verb on 429 or at least 500 if there is a `Retry-After`, after that many seconds; a connection that
    /// broke or was found dead only for reads and opening a watch, after one second; at most 10 times.
    ClientGo,
    /// kube-rs: any verb on 429, 503 and 504, after 5 ms doubling up to 1000 s or `Retry-After` if that is longer; at most 15 times. 500
    /// and broken connections are left to the caller.
    KubeRs,
}

impl Policy {
    /// The wait before sending again after `error`, given the `resends` made so far; `None` = return the error to the caller. `reads` says
    /// whether the request is a get, a list or the opening of a watch.
    pub fn wait(self, error: &ApiError, resends: u32, reads: bool) -> Option<Duration> {
        let hint = error.retry_after().map(|seconds| Duration::from_secs(u64::from(seconds)));
        match self {
            Policy::ClientGo if resends >= 10 => None,
            Policy::ClientGo => match error {
                ApiError::Transport(TransportError::Reset | TransportError::ConnectionLost) => reads.then_some(Duration::from_secs(1)),
                _ => error.code().filter(|code| *code == 429 || *code >= 500).and(hint),
            },
            Policy::KubeRs if resends >= 15 => None,
            Policy::KubeRs => {
                error.code().filter(|code| matches!(code, 429 | 503 | 504))?;
                // The cap of 1000 s is out of reach within 15 doublings.
                let growing = Duration::from_millis(5) * (1 << resends);
                Some(hint.map_or(growing, |hint| hint.max(growing)))
            }
        }
    }
}

/// A client that resends according to a [`Policy`].
///
/// A request's timeout covers all its attempts and the waits between them.
#[derive(Clone, Debug)]
pub struct Transparent<C, V> {
    client: C,
    env: V,
    policy: Policy,
}

impl<C: Client, V: Env> Transparent<C, V> {
    /// Wraps `client` with resends according to `policy`.
    pub fn new(client: C, env: V, policy: Policy) -> Self {
        Self { client, env, policy }
    }
}

impl<C: Client, V: Env> Client for Transparent<C, V> {
    type Watch<K: Object> = C::Watch<K>;

    async fn send<K: Object>(&self, mut request: Request<K>) -> Result<Reply<K>, ApiError> {
        let reads = !request.call.verb().is_write();
        let deadline = request.timeout.map(|timeout| self.env.monotonic() + timeout);
        let mut resends = 0;
        loop {
            let error = match self.client.send(request.clone()).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let Some(wait) = self.policy.wait(&error, resends, reads) else { return Err(error) };
            if let Some(deadline) = deadline {
                let left = deadline.saturating_sub(self.env.monotonic());
                if left <= wait {
                    self.env.sleep(left).await;
                    return Err(TransportError::Deadline.into());
                }
                request.timeout = Some(left - wait);
            }
            self.env.sleep(wait).await;
            resends += 1;
        }
    }

    async fn watch<K: Object>(&self, namespace: Option<Arc<str>>, options: WatchOptions) -> Result<Self::Watch<K>, ApiError> {
        let mut resends = 0;
        loop {
            let error = match self.client.watch(namespace.clone(), options.clone()).await {
                Ok(watch) => return Ok(watch),
                Err(error) => error,
            };
            let Some(wait) = self.policy.wait(&error, resends, true) else { return Err(error) };
            self.env.sleep(wait).await;
            resends += 1;
        }
    }

    fn streams_lists(&self) -> bool {
        self.client.streams_lists()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::api::{Call, DeleteOptions, Dry, ObjectKey, Reason, Status, Verb};
    use crate::testing::{Answer, TestClient, TestEnv};

    fn call(verb: Verb) -> Call<ConfigMap> {
        let key = ObjectKey::namespaced("ns", "a");
        let body = Arc::new(ConfigMap::default());
        match verb {
            Verb::Get => Call::Get { key, resource_version: None },
            Verb::List => Call::List { namespace: None, options: Default::default() },
            Verb::Create => Call::Create { namespace: None, body, dry: Dry::No },
            Verb::Update => Call::Update { key, body, subresource: None, dry: Dry::No },
            Verb::Delete => Call::Delete { key, options: DeleteOptions::default() },
            Verb::Patch | Verb::Watch => unreachable!(),
        }
    }

    /// The number of times a request was sent to a server that always fails, the total time, and the error that the caller got.
    fn sent(policy: Policy, request: Request<ConfigMap>, error: ApiError) -> (u32, Duration, ApiError) {
        let env = TestEnv::new();
        let sent = Arc::new(AtomicU32::new(0));
        let server = {
            let sent = sent.clone();
            TestClient::<ConfigMap>::without_watch(&env, move |_| {
                sent.fetch_add(1, Ordering::Relaxed);
                Answer::error(error.clone())
            })
        };
        let client = Transparent::new(server, env.clone(), policy);
        let seen = env.block_on(async { client.send(request).await.unwrap_err() });
        (sent.load(Ordering::Relaxed), env.monotonic(), seen)
    }

    const VERBS: [Verb; 5] = [Verb::Get, Verb::List, Verb::Create, Verb::Update, Verb::Delete];

    fn status(reason: Reason, retry_after: u32) -> ApiError {
        Status::new(reason, "x").retry_after(retry_after).into()
    }

    #[test]
    fn k153_client_go_resends_any_verb_ten_times_when_told_how_long_to_wait() {
        for verb in VERBS {
            for reason in [Reason::TooManyRequests, Reason::ServerTimeout, Reason::Timeout, Reason::ServiceUnavailable] {
                let (sent, elapsed, seen) = sent(Policy::ClientGo, call(verb).into(), status(reason, 2));
                assert_eq!((sent, elapsed.as_secs(), seen.reason()), (11, 20, Some(reason)), "{verb} {reason:?}");
            }
        }
        let plain = ApiError::Plain { code: 429, text: "Too many requests, please try again later.", retry_after: Some(1) };
        assert_eq!(sent(Policy::ClientGo, call(Verb::Create).into(), plain).0, 11);
    }

    #[test]
    fn k153_client_go_gives_an_error_without_retry_after_to_the_caller() {
        for reason in [Reason::TooManyRequests, Reason::Unknown, Reason::InternalError, Reason::Timeout, Reason::ServiceUnavailable] {
            assert_eq!(sent(Policy::ClientGo, call(Verb::Update).into(), status(reason, 0)).0, 1, "{reason:?}");
        }
        for reason in [Reason::Conflict, Reason::NotFound, Reason::Expired] {
            assert_eq!(sent(Policy::ClientGo, call(Verb::Update).into(), status(reason, 5)).0, 1, "{reason:?}");
        }
    }

    #[test]
    fn client_go_resends_only_reads_over_a_broken_connection() {
        for verb in VERBS {
            let expected = if verb.is_write() { (1, 0) } else { (11, 10) };
            for error in [TransportError::Reset, TransportError::ConnectionLost] {
                let (sent, elapsed, _) = sent(Policy::ClientGo, call(verb).into(), error.into());
                assert_eq!((sent, elapsed.as_secs()), expected, "{verb}");
            }
        }
        for error in [TransportError::Refused, TransportError::Deadline] {
            assert_eq!(sent(Policy::ClientGo, call(Verb::Get).into(), error.into()).0, 1, "{error}");
        }
    }

    #[test]
    fn k153_kube_rs_resends_any_verb_fifteen_times_with_doubling_waits() {
        for verb in VERBS {
            for reason in [Reason::TooManyRequests, Reason::Timeout, Reason::ServiceUnavailable] {
                let (sent, elapsed, _) = sent(Policy::KubeRs, call(verb).into(), status(reason, 0));
                assert_eq!((sent, elapsed.as_millis()), (16, 5 * ((1 << 15) - 1)), "{verb} {reason:?}");
            }
            for error in [status(Reason::ServerTimeout, 2), status(Reason::Unknown, 0), TransportError::Reset.into()] {
                assert_eq!(sent(Policy::KubeRs, call(verb).into(), error).0, 1, "{verb}");
            }
        }
    }

    #[test]
    fn k153_kube_rs_takes_the_larger_of_its_own_wait_and_the_hint() {
        let error = status(Reason::TooManyRequests, 2);
        assert_eq!(Policy::KubeRs.wait(&error, 0, false), Some(Duration::from_secs(2)));
        assert_eq!(Policy::KubeRs.wait(&error, 8, false), Some(Duration::from_secs(2)));
        assert_eq!(Policy::KubeRs.wait(&error, 9, false), Some(Duration::from_millis(2560)));
        assert_eq!(Policy::KubeRs.wait(&error, 15, false), None);
    }

    #[test]
    fn the_timeout_covers_all_attempts() {
        let request = Request { call: call(Verb::Create), timeout: Some(Duration::from_secs(5)) };
        let (sent, elapsed, seen) = sent(Policy::ClientGo, request, status(Reason::TooManyRequests, 2));
        assert_eq!((sent, elapsed.as_secs()), (3, 5));
        assert_eq!(seen, TransportError::Deadline.into());
    }

    #[test]
    fn opening_a_watch_is_resent_like_a_read() {
        let env = TestEnv::new();
        let opened = Arc::new(AtomicU32::new(0));
        let count = opened.clone();
        let server = TestClient::<ConfigMap>::new(
            &env,
            |_| unreachable!(),
            move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                Err(TransportError::Reset.into())
            },
        );
        let client = Transparent::new(server, env.clone(), Policy::ClientGo);
        let result = env.block_on(async { client.watch::<ConfigMap>(None, WatchOptions::default()).await.err() });
        assert_eq!((opened.load(Ordering::Relaxed), result), (11, Some(TransportError::Reset.into())));
    }
}
