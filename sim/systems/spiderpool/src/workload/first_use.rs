//! Caches of a replica that start with the first use of a type, as those of controller-runtime do (G §7).
//!
//! The first read of a type asks the API server whether the type exists, and fails if there is no answer. Later reads succeed. The watches
//! themselves start with the process: informers determine the duration of the first list.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use ipam_spiderpool::reclaim::Caches;
use ipam_spiderpool::{SpiderEndpoint, SpiderIPPool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube_machinery::Object;
use kube_machinery::api::{ApiError, Reason, Status};
use kube_sim::cluster::Cluster;
use kube_sim::kinds::KindId;
use kube_sim::rt::ProcessId;

/// The caches of one life of a replica. Clones share them.
#[derive(Clone)]
pub(super) struct FirstUse<K> {
    caches: K,
    types: Arc<Types>,
}

struct Types {
    cluster: Weak<Cluster>,
    process: ProcessId,
    pods: Type,
    nodes: Type,
    endpoints: Type,
    pools: Type,
}

/// A type, and whether the process has looked it up.
struct Type {
    kind: KindId,
    is_known: AtomicBool,
}

impl<K> FirstUse<K> {
    /// The caches of a process that has just started.
    pub(super) fn new(caches: K, cluster: &Arc<Cluster>, process: ProcessId) -> Self {
        fn of<S: Object>(cluster: &Cluster) -> Type {
            Type { kind: cluster.registry.id::<S>(), is_known: AtomicBool::new(false) }
        }
        let types = Types {
            cluster: Arc::downgrade(cluster),
            process,
            pods: of::<Pod>(cluster),
            nodes: of::<Node>(cluster),
            endpoints: of::<SpiderEndpoint>(cluster),
            pools: of::<SpiderIPPool>(cluster),
        };
        Self { caches, types: Arc::new(types) }
    }
}

impl Types {
    /// Whether a type can be read.
    fn serve(&self, of: &Type) -> bool {
        // A process runs on one thread.
        if of.is_known.load(Ordering::Relaxed) {
            return true;
        }
        let is_known = self.cluster.upgrade().is_none_or(|cluster| cluster.discovers(self.process, of.kind));
        of.is_known.store(is_known, Ordering::Relaxed);
        is_known
    }

    fn check(&self, of: &Type) -> Result<(), ApiError> {
        if self.serve(of) {
            Ok(())
        } else {
            Err(Status::new(Reason::ServiceUnavailable, "the server is currently unable to handle the request").into())
        }
    }
}

impl<K: Caches> Caches for FirstUse<K> {
    fn pod(&self, key: &str) -> Result<Option<Arc<Pod>>, ApiError> {
        self.types.check(&self.types.pods)?;
        self.caches.pod(key)
    }

    fn pod_of_vm(&self, uid: &str) -> Result<Option<Arc<Pod>>, ApiError> {
        self.types.check(&self.types.pods)?;
        self.caches.pod_of_vm(uid)
    }

    fn node(&self, name: &str) -> Result<Option<Arc<Node>>, ApiError> {
        self.types.check(&self.types.nodes)?;
        self.caches.node(name)
    }

    fn endpoint(&self, key: &str) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        self.types.check(&self.types.endpoints)?;
        self.caches.endpoint(key)
    }

    fn endpoints(&self) -> Result<Vec<Arc<SpiderEndpoint>>, ApiError> {
        self.types.check(&self.types.endpoints)?;
        self.caches.endpoints()
    }

    fn pools(&self) -> Result<Vec<Arc<SpiderIPPool>>, ApiError> {
        self.types.check(&self.types.pools)?;
        self.caches.pools()
    }

    fn is_plain(&self, key: &str, uid: &str) -> bool {
        self.types.serve(&self.types.pods) && self.types.serve(&self.types.endpoints) && self.caches.is_plain(key, uid)
    }

    fn endpoint_census(&self) -> Option<(usize, usize)> {
        if self.types.serve(&self.types.endpoints) { self.caches.endpoint_census() } else { None }
    }

    fn runs_until(&self, uid: &str) -> Option<Timestamp> {
        self.caches.runs_until(uid)
    }
}
