//! What an agent knows without asking: the state that its watches show, behind by an unbounded lag (A §0).

use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::SpiderEndpoint;
use crate::select::Cluster;
use kube_machinery::api::ObjectKey;

/// The cached reads of an agent: what selection looks at, pods and endpoints. Each kind may lag on its own.
pub trait Caches: Cluster + Clone + Send + Sync + 'static {
    /// Completes when pods and endpoints have been read once. An ADD waits for it where the agent serves before that
    /// (`first-add-fills-caches`).
    fn filled(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
    /// The pod of this name; `None` = the cache shows none, yet there may be one.
    fn pod(&self, key: &ObjectKey) -> Option<Arc<Pod>>;
    /// The endpoint of this name; `None` = the cache shows none, yet there may be one.
    fn endpoint(&self, key: &ObjectKey) -> Option<Arc<SpiderEndpoint>>;
}
