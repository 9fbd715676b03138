//! The cached state of a replica, with an unbounded lag (G §7).

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use rustc_hash::FxBuildHasher;

use super::entry::end_of_grace;
use super::event::ended;
use super::node::NodeState;
use super::question::{keeper_of, key_of};
use super::settings::ReclaimSettings;
use crate::ipam::{is_terminating, uid_of};
use crate::validity::Kept;
use crate::{Keeper, Policy, SpiderEndpoint, SpiderIPPool};
use kube_machinery::api::{ApiError, Object};
use kube_machinery::client::Client;
use kube_machinery::controller_of;
use kube_machinery::env::Env;
use kube_machinery::informer::{Digest, Index, Informer, InformerOptions, Notification, StoreReader};

/// The cached reads of reclaim. Each kind may lag independently. Keys are `namespace/name`, or `name` for cluster-scoped objects.
pub trait Caches: Clone + Send + Sync + 'static {
    /// A pod.
    ///
    /// # Errors
    /// The cache does not answer.
    fn pod(&self, key: &str) -> Result<Option<Arc<Pod>>, ApiError>;
    /// The pod of a VM, by its UID: its records are under the name of the VM.
    ///
    /// # Errors
    /// The cache does not answer.
    fn pod_of_vm(&self, uid: &str) -> Result<Option<Arc<Pod>>, ApiError>;
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
    /// Whether one quick check shows that a record stays: the pod of this name has this UID, is alive and has addresses, and so has its
    /// endpoint, which is not terminating. `false` means nothing.
    fn is_plain(&self, key: &str, uid: &str) -> bool {
        let _ = (key, uid);
        false
    }
    /// The number of endpoints, and the number of terminating ones; `None` = they have to be counted.
    fn endpoint_census(&self) -> Option<(usize, usize)> {
        None
    }
    /// The time until which the containers of a pod with this UID may run, if it was seen to vanish before its grace period was over (G
    /// R9).
    fn runs_until(&self, uid: &str) -> Option<Timestamp>;
}

/// The state of a node in a cache.
pub(super) fn cached_node(caches: &impl Caches, name: &str) -> NodeState {
    match caches.node(name) {
        Ok(Some(node)) => NodeState::of(&node),
        Ok(None) => NodeState::Gone,
        Err(_) => NodeState::Unreadable,
    }
}

/// The pod that a record belongs to: the one that has the name, unless a VM's pod has the UID.
pub(super) fn cached_pod(
    caches: &impl Caches,
    key: &str,
    uid: &str,
    settings: &ReclaimSettings,
    policy: &Policy,
) -> Result<Option<Arc<Pod>>, ApiError> {
    let named = caches.pod(key)?;
    let has_uid = |pod: &Arc<Pod>| pod.metadata.uid.as_deref() == Some(uid);
    if policy.reclaim.vm_pod_sought_by_record || !settings.kept().vms || named.as_ref().is_some_and(has_uid) {
        return Ok(named);
    }
    Ok(caches.pod_of_vm(uid)?.filter(|pod| key_of(pod, keeper_of(pod, settings.kept())).as_str() == key).or(named))
}

/// One informer for each kind, as in a process. Clones share them.
pub struct InformerCaches<V: Env>(Arc<Informers<V>>);

struct Informers<V: Env> {
    pods: Running<Pod, V>,
    nodes: Running<Node, V>,
    endpoints: Running<SpiderEndpoint, V>,
    pools: Running<SpiderIPPool, V>,
    graves: Arc<Mutex<BTreeMap<String, Timestamp>>>,
}

/// The index of endpoints that are terminating.
const MARKED: &str = "marked";

fn marked(endpoint: &SpiderEndpoint, value: &mut dyn FnMut(&str)) {
    if is_terminating(endpoint) {
        value(MARKED);
    }
}

/// The index of the pods of VMs, by UID.
const OF_VM: &str = "of-vm";

fn of_vm(pod: &Pod, value: &mut dyn FnMut(&str)) {
    let owner = controller_of(&pod.metadata);
    if owner.is_some_and(|owner| Keeper::of_kind(&owner.api_version, &owner.kind, Kept { stateful_sets: false, vms: true }) == Keeper::Vm) {
        value(pod.metadata.uid.as_deref().unwrap_or_default());
    }
}

/// The digest of an object that is not plain. No UID has it.
const NOT_PLAIN: u64 = 0;

fn digest_of_uid(uid: &str) -> u64 {
    FxBuildHasher.hash_one(uid).max(1)
}

/// The digest of a pod's UID, if the pod is alive and has addresses, or has not started.
fn digest_of_pod(pod: &Pod) -> u64 {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let has_ips = status.and_then(|status| status.pod_ips.as_ref()).is_some_and(|ips| !ips.is_empty());
    let lives = pod.metadata.deletion_timestamp.is_none() && ended(pod).is_none() && (has_ips || phase == Some("Pending"));
    match &pod.metadata.uid {
        Some(uid) if lives => digest_of_uid(uid),
        _ => NOT_PLAIN,
    }
}

/// The digest of the UID of an endpoint's pod, if the endpoint is not terminating.
fn digest_of_endpoint(endpoint: &SpiderEndpoint) -> u64 {
    if is_terminating(endpoint) { NOT_PLAIN } else { digest_of_uid(uid_of(endpoint)) }
}

struct Running<K: Object, V: Env> {
    informer: Informer<K, V>,
    store: StoreReader<K>,
}

impl<K: Object, V: Env> Running<K, V> {
    fn start<C: Client>(client: &C, env: &V, options: InformerOptions<K>) -> Self {
        let informer = Informer::start(client.clone(), env.clone(), options);
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
    /// Starts the four informers, pods, nodes, endpoints and pools, which list before they watch.
    pub fn start<C: Client>(client: C, env: V, settings: &ReclaimSettings, policy: &Policy) -> Self {
        let patience = settings.list_timeout;
        let (digest, indexes) = (Some(Digest::new(digest_of_pod)), vec![Index::new(OF_VM, of_vm)]);
        let pods = Running::start(&client, &env, InformerOptions { digest, indexes, patience, ..InformerOptions::default() });
        let nodes = Running::start(&client, &env, InformerOptions { patience, ..InformerOptions::default() });
        let (digest, indexes) = (Some(Digest::new(digest_of_endpoint)), vec![Index::new(MARKED, marked)]);
        let endpoints = Running::start(&client, &env, InformerOptions { digest, indexes, patience, ..InformerOptions::default() });
        let pools = Running::start(&client, &env, InformerOptions { patience, ..InformerOptions::default() });
        let graves: Arc<Mutex<BTreeMap<String, Timestamp>>> = Arc::default();
        if !policy.reclaim.force_delete_frees_at_once {
            let (graves, settings, policy) = (graves.clone(), settings.clone(), *policy);
            pods.informer.add_handler(move |notification: Notification<Pod>| {
                let object = match &notification {
                    Notification::Deleted { object } | Notification::DeletedFinalStateUnknown { object, .. } => object,
                    // After a gap the two may be different pods of one name (K148): then the first is gone.
                    Notification::Updated { old, new } if old.metadata.uid != new.metadata.uid => old,
                    Notification::Added { .. } | Notification::Updated { .. } => return,
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

    /// Completes when every informer has its first list. Reclaim decides nothing before that.
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

    fn pod_of_vm(&self, uid: &str) -> Result<Option<Arc<Pod>>, ApiError> {
        let mut found = None;
        self.0.pods.store.by_index(OF_VM, uid, |pod| found = Some(pod.clone()));
        Ok(found)
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

    fn is_plain(&self, key: &str, uid: &str) -> bool {
        let (key, uid) = (Digest::<Pod>::hash_of(key), digest_of_uid(uid));
        self.0.pods.store.digest(key) == Some(uid) && self.0.endpoints.store.digest(key) == Some(uid)
    }

    fn endpoint_census(&self) -> Option<(usize, usize)> {
        let mut terminating = 0;
        self.0.endpoints.store.by_index(MARKED, MARKED, |_| terminating += 1);
        Some((self.0.endpoints.store.len(), terminating))
    }

    fn runs_until(&self, uid: &str) -> Option<Timestamp> {
        self.0.graves.lock().unwrap().get(uid).copied()
    }
}
