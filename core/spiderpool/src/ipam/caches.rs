//! The cached state of an agent: what its watches show, with an unbounded lag (A §0).

use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::SpiderEndpoint;
use crate::select::Cluster;
use kube_machinery::api::ObjectKey;

/// The cached reads of an agent: the state that selection reads, pods and endpoints. Each kind may lag independently.
pub trait Caches: Cluster + Clone + Send + Sync + 'static {
    /// Completes when pods and endpoints have been listed once. An ADD waits for this if the agent serves before that
    /// (`first-add-fills-caches`).
    fn filled(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
    /// The pod of this name; `None` = the cache shows none, although there may be one.
    fn pod(&self, key: &ObjectKey) -> Option<Arc<Pod>>;
    /// The endpoint of this name; `None` = the cache shows none, although there may be one.
    fn endpoint(&self, key: &ObjectKey) -> Option<Arc<SpiderEndpoint>>;
}
