//! What a replica knows without asking, behind by an unbounded lag (G §7).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::entry::end_of_grace;
use super::settings::ReclaimSettings;
use crate::api::{ApiError, Object};
use crate::client::Client;
use crate::env::Env;
use crate::informer::{Informer, InformerOptions, Notification, StoreReader};
use crate::spiderpool::{Policy, SpiderEndpoint, SpiderIPPool};

/// The cached reads of reclaim. Each kind may lag on its own. Keys are `namespace/name`, or `name` of what is in no namespace.
pub trait Caches: Clone + Send + Sync + 'static {
    /// A pod.
    ///
    /// # Errors
    /// The cache does not answer.
    fn pod(&self, key: &str) -> Result<Option<Arc<Pod>>, ApiError>;
    /// A node.
    ///
    /// # Errors
    /// The cache does not answer.
    fn node(&self, name: &str) -> Result<Option<Arc<Node>>, ApiError>;
    /// An endpoint.
    ///
    /// # Errors
    /// The cache does not answer.
    fn endpoint(&self, key: &str) -> Result<Option<Arc<SpiderEndpoint>>, ApiError>;
    /// All endpoints, by key.
    ///
    /// # Errors
    /// The cache does not answer.
    fn endpoints(&self) -> Result<Vec<Arc<SpiderEndpoint>>, ApiError>;
    /// All pools, by name.
    ///
    /// # Errors
    /// The cache does not answer.
    fn pools(&self) -> Result<Vec<Arc<SpiderIPPool>>, ApiError>;
    /// Until when the containers of a pod with this UID may run that was seen to vanish before its grace was over (R9).
    fn runs_until(&self, uid: &str) -> Option<Timestamp>;
}

/// One informer for each kind, as a process has them. Clones are the same process.
pub struct InformerCaches<V: Env>(Arc<Informers<V>>);

struct Informers<V: Env> {
    pods: Running<Pod, V>,
    nodes: Running<Node, V>,
    endpoints: Running<SpiderEndpoint, V>,
    pools: Running<SpiderIPPool, V>,
    graves: Arc<Mutex<BTreeMap<String, Timestamp>>>,
}

struct Running<K: Object, V: Env> {
    informer: Informer<K, V>,
    store: StoreReader<K>,
}

impl<K: Object, V: Env> Running<K, V> {
    fn start<C: Client>(client: &C, env: &V) -> Self {
        let informer = Informer::start(client.clone(), env.clone(), InformerOptions::default());
        Self { store: informer.store(), informer }
    }
}

impl<V: Env> Clone for InformerCaches<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V: Env> std::fmt::Debug for InformerCaches<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InformerCaches").finish_non_exhaustive()
    }
}

impl<V: Env> InformerCaches<V> {
    /// Starts to watch.
    pub fn start<C: Client>(client: C, env: V, settings: &ReclaimSettings, policy: &Policy) -> Self {
        let pods = Running::<Pod, V>::start(&client, &env);
        let (nodes, endpoints, pools) = (Running::start(&client, &env), Running::start(&client, &env), Running::start(&client, &env));
        let graves: Arc<Mutex<BTreeMap<String, Timestamp>>> = Arc::default();
        if !policy.reclaim.force_delete_frees_at_once {
            let (graves, settings, policy) = (graves.clone(), settings.clone(), *policy);
            pods.informer.add_handler(move |notification: Notification<Pod>| {
                let (Notification::Deleted { object } | Notification::DeletedFinalStateUnknown { object, .. }) = &notification else {
                    return;
                };
                let now = env.wall();
                let Some(term) = end_of_grace(object, now, &settings, &policy) else { return };
                let mut graves = graves.lock().unwrap();
                graves.retain(|_, until| *until >= now);
                graves.insert(object.metadata.uid.clone().unwrap_or_default(), term.stop);
            });
        }
        Self(Arc::new(Informers { pods, nodes, endpoints, pools, graves }))
    }

    /// Completes when everything has its first list. Reclaim decides nothing before that.
    pub async fn synced(&self) {
        self.0.pods.informer.synced().await;
        self.0.nodes.informer.synced().await;
        self.0.endpoints.informer.synced().await;
        self.0.pools.informer.synced().await;
    }
}

impl<V: Env> Caches for InformerCaches<V> {
    fn pod(&self, key: &str) -> Result<Option<Arc<Pod>>, ApiError> {
        Ok(self.0.pods.store.find(key))
    }

    fn node(&self, name: &str) -> Result<Option<Arc<Node>>, ApiError> {
        Ok(self.0.nodes.store.find(name))
    }

    fn endpoint(&self, key: &str) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        Ok(self.0.endpoints.store.find(key))
    }

    fn endpoints(&self) -> Result<Vec<Arc<SpiderEndpoint>>, ApiError> {
        Ok(self.0.endpoints.store.list())
    }

    fn pools(&self) -> Result<Vec<Arc<SpiderIPPool>>, ApiError> {
        Ok(self.0.pools.store.list())
    }

    fn runs_until(&self, uid: &str) -> Option<Timestamp> {
        self.0.graves.lock().unwrap().get(uid).copied()
    }
}
