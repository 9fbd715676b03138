//! A timeout for requests that have none, like `Timeout` of client-go's `rest.Config` (K §4.4).
//!
//! If a connection is lost silently, a request waits for its answer until the connection is given up, which over HTTP/1 may never happen.
//! Items behind it in a work queue wait as long.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{ApiError, Object, Reply, Request, WatchOptions};
use crate::client::Client;

/// A client with a timeout for its requests. A request that has its own timeout keeps the shorter one. Opening a watch is not limited:
/// informers have their own timeout for it.
///
/// A write that timed out is ambiguous: it may have been done, and may be done later (K114).
#[derive(Clone, Debug)]
pub struct TimeLimited<C> {
    client: C,
    limit: Option<Duration>,
}

impl<C: Client> TimeLimited<C> {
    /// Wraps `client` with this timeout for requests; `None` = no timeout.
    pub fn new(client: C, limit: Option<Duration>) -> Self {
        Self { client, limit }
    }
}

impl<C: Client> Client for TimeLimited<C> {
    type Watch<K: Object> = C::Watch<K>;

    fn send<K: Object>(&self, mut request: Request<K>) -> impl Future<Output = Result<Reply<K>, ApiError>> + Send {
        request.timeout = request.timeout.into_iter().chain(self.limit).min();
        self.client.send(request)
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
    use std::sync::Mutex;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::api::{Call, ObjectKey};
    use crate::testing::{Answer, TestClient, TestEnv};

    #[test]
    fn a_request_has_the_shorter_of_its_own_limit_and_its_clients() {
        let (env, seen) = (TestEnv::new(), Arc::<Mutex<Vec<Option<u64>>>>::default());
        let client = TestClient::without_watch(&env, {
            let seen = seen.clone();
            move |request: Request<ConfigMap>| {
                seen.lock().unwrap().push(request.timeout.map(|limit| limit.as_secs()));
                Answer::object(ConfigMap::default())
            }
        });
        for limit in [None, Some(5)] {
            let client = TimeLimited::new(client.clone(), limit.map(Duration::from_secs));
            for own in [None, Some(3), Some(7)] {
                let request = Request { call: Call::get(&ObjectKey::namespaced("ns", "a")), timeout: own.map(Duration::from_secs) };
                env.block_on(client.send::<ConfigMap>(request)).unwrap();
            }
        }
        assert_eq!(*seen.lock().unwrap(), [None, Some(3), Some(7), Some(5), Some(3), Some(5)]);
    }
}
