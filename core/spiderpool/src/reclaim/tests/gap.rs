//! What the caches know of a pod that was replaced while nobody watched.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::Policy;
use crate::reclaim::{Caches, InformerCaches, ReclaimSettings};
use kube_machinery::api::{ApiError, Call, List, Object, Reason, Reply, Request, Status, WatchEvent, WatchOptions};
use kube_machinery::client::{Client, WatchStream};
use kube_machinery::testing::TestEnv;

/// A server with one pod, which another of its name replaces after the first list; no watch bridges the two.
#[derive(Clone)]
struct Replaced {
    pods: [Arc<Pod>; 2],
    is_over: Arc<AtomicBool>,
}

/// A watch that has expired, or one without events.
struct Watch {
    expired: bool,
}

impl Client for Replaced {
    type Watch<K: Object> = Watch;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        let Call::List { .. } = request.call else { return Err(Status::new(Reason::NotFound, "").into()) };
        let is_over = self.is_over.load(Ordering::Relaxed);
        let pod: &dyn Any = &self.pods[usize::from(is_over)];
        let items = pod.downcast_ref::<Arc<K>>().cloned().into_iter().collect();
        let resource_version = if is_over { "9" } else { "1" }.to_owned();
        Ok(Reply::List(List { resource_version, items, continue_token: None, remaining: None }))
    }

    async fn watch<K: Object>(&self, _: Option<Arc<str>>, _: WatchOptions) -> Result<Watch, ApiError> {
        let of_pods = <dyn Any>::is::<Arc<K>>(&self.pods[0]);
        Ok(Watch { expired: of_pods && !self.is_over.swap(true, Ordering::Relaxed) })
    }
}

impl<K: Object> WatchStream<K> for Watch {
    async fn next(&mut self) -> Option<Result<WatchEvent<K>, ApiError>> {
        if self.expired { Some(Err(Status::new(Reason::Expired, "").into())) } else { std::future::pending().await }
    }
}

fn pod(uid: &str, grace: i64) -> Arc<Pod> {
    let container = json!([{"name": "c", "image": "i"}]);
    let pod = json!({
        "metadata": {"name": "a", "namespace": "ns", "uid": uid},
        "spec": {"nodeName": "n", "containers": container, "terminationGracePeriodSeconds": grace},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// G R9, K148: a list shows another pod under the name, and no event said that the first one is gone.
#[test]
fn a_pod_that_was_replaced_while_nobody_watched_may_run_until_its_grace_is_over() {
    for known in [true, false] {
        let mut policy = Policy::hardened();
        policy.reclaim.force_delete_frees_at_once = !known;
        let (env, server) = (TestEnv::new(), Replaced { pods: [pod("u1", 10), pod("u2", 10)], is_over: Arc::default() });
        let caches = InformerCaches::start(server, env.clone(), &ReclaimSettings::new(&policy), &policy);
        env.block_on(caches.synced());
        env.advance(Duration::from_secs(60));
        let uid = caches.pod("ns/a").unwrap().and_then(|pod| pod.metadata.uid.clone());
        assert_eq!(uid.as_deref(), Some("u2"));
        assert_eq!((caches.runs_until("u1").is_some(), caches.runs_until("u2")), (known, None));
    }
}
