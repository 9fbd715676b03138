//! The garbage collector: deletes objects whose owners are all gone (K §1.2 ownerReferences, K §2.10, K106, K156).
//!
//! ```text
//!   informer per type ──► Graph ──► queue ──► worker: read the object and its owners, all live
//!                        (who owns whom)        ├─ no owner is left      ─► DELETE with its UID and version
//!                                               ├─ some owners are left  ─► PATCH the others away
//!                                               └─ an owner that no informer has reported ─► look again later
//! ```
//! The informers only give reasons to look: every decision rests on quorum reads, so a stale informer deletes nothing. An owner is
//! identified by its UID: a successor of the same name does not own the objects of its predecessor.
//!
//! An owner that is deleted in the foreground stays until its blocking dependents are gone; one that is deleted with orphaning stays until
//! its dependents have lost it as an owner (K105). Both apply only to dependents that informers have reported, as in Kubernetes: a
//! dependent not yet reported becomes an orphan that is collected. An owner of a type that the collector does not know counts as existing.

mod graph;
mod types;

use std::sync::Arc;

use graph::{Graph, Item, Policy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_machinery::api::Propagation;
use kube_machinery::transparent::{self, Transparent};
use kube_machinery::workqueue::WorkQueue;
use kube_machinery::{ApiError, Env};
use parking_lot::Mutex;

use super::ApiClient;
use super::informers::Informers;
use crate::cluster::{Cluster, SimClient};
use crate::env::SimEnv;
use crate::rt::ProcessId;

pub use types::Collected;

/// The name of the host and of the process.
pub const NAME: &str = "controller-manager";
/// The number of objects that are processed at the same time.
const WORKERS: usize = 5;

/// Adds the collector, as a process on its own host, and starts it. `types` are the types whose objects it deletes, and in which it can
/// find owners; the cluster has to serve them.
pub fn install(cluster: &Arc<Cluster>, seed: u64, types: impl IntoIterator<Item = Collected>) -> ProcessId {
    let rt = &cluster.rt;
    let process = rt.add_process(rt.add_host(NAME), NAME);
    let types: Arc<[Collected]> = types.into_iter().collect();
    let shared = Arc::downgrade(cluster);
    rt.set_main(process, move |_| {
        let (cluster, types) = (shared.upgrade(), types.clone());
        async move {
            if let Some(cluster) = cluster {
                run_alone(&cluster, process, seed, types).await;
            }
        }
    });
    cluster.start(process);
    process
}

/// The result of looking up an owner reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The owner exists, and the collector will be notified when that changes, or can never know.
    There,
    /// The owner exists, but no informer has reported it.
    Unobserved,
    /// The owner exists, and waits for its dependents to go.
    Waits,
    /// There is no such object, or only another one of this name.
    Absent,
}

/// The collector as a part of a process.
pub(super) struct Collector {
    types: Arc<[Collected]>,
    client: ApiClient,
    env: SimEnv,
    graph: Mutex<Graph>,
    queue: WorkQueue<Item, SimEnv>,
}

/// The life of a process that runs only the collector.
async fn run_alone(cluster: &Arc<Cluster>, process: ProcessId, seed: u64, types: Arc<[Collected]>) {
    let env = SimEnv::new(&cluster.rt, seed, process);
    let client = Transparent::new(SimClient::new(cluster, process), env.clone(), transparent::Policy::ClientGo);
    let mut informers = Informers::default();
    let collector = Collector::new(client.clone(), env.clone(), types, &mut informers);
    let mut informers = informers.start(&client, &env);
    informers.synced().await;
    collector.run().await;
}

async fn work(collector: Arc<Collector>) {
    while let Some(item) = collector.queue.next().await {
        match collector.look_at(&item).await {
            Ok(true) => collector.queue.forget(&item),
            Ok(false) | Err(_) => collector.queue.add_rate_limited(item.clone()),
        }
    }
}

impl Collector {
    /// A collector of objects of these types, which listens to `informers`.
    pub(super) fn new(client: ApiClient, env: SimEnv, types: Arc<[Collected]>, informers: &mut Informers) -> Arc<Self> {
        let queue = WorkQueue::new(env.clone());
        let collector = Arc::new(Self { types, client, env, graph: Mutex::default(), queue });
        for (number, def) in collector.types.iter().enumerate() {
            (def.listen)(informers, &collector, number);
        }
        collector
    }

    /// Works until the process ends. To be called when the informers have their first lists.
    pub(super) async fn run(self: Arc<Self>) {
        for _ in 1..WORKERS {
            drop(self.env.spawn(work(self.clone())));
        }
        work(self).await;
    }

    /// Takes in an object's state from an informer; `None` = it is gone.
    fn observe(&self, item: Item, meta: Option<&ObjectMeta>) {
        let doubtful = {
            let mut graph = self.graph.lock();
            match meta {
                Some(meta) => graph.put(item, meta),
                None => graph.remove(&item),
            }
        };
        for item in doubtful {
            self.queue.add(item);
        }
    }

    /// Takes in a change of an object from an informer that leaves its owners as they were.
    fn observe_change(&self, item: Item) {
        // The owners' own changes report whether they exist; this change is only another reason to look again.
        if !self.graph.lock().is_owned(&item) {
            self.queue.add(item);
        }
    }

    /// Deletes an object if it is garbage. Returns whether there is nothing more to do for now.
    async fn look_at(&self, item: &Item) -> Result<bool, ApiError> {
        if self.graph.lock().is_owned(item) {
            return Ok(true);
        }
        let def = &self.types[item.number];
        let Some(object) = (def.read)(&self.client, &item.key).await? else { return Ok(true) };
        let meta = object.meta();
        if let Some(policy) = Policy::of(meta) {
            return self.deal_with_dependents(item, meta, policy).await;
        }
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        if owners.is_empty() || meta.deletion_timestamp.is_some() {
            return Ok(true);
        }
        let (mut left, mut observed, mut awaited) = (Vec::new(), true, false);
        for owner in owners {
            let found = self.find(owner, item).await?;
            observed &= found != Owner::Unobserved;
            awaited |= found == Owner::Waits;
            if !matches!(found, Owner::Absent | Owner::Waits) {
                left.push(owner);
            }
        }
        if left.is_empty() {
            // If an owner waits for this object, its own dependents are deleted with it.
            let has_dependents = meta.uid.as_deref().is_some_and(|uid| !self.graph.lock().dependents(uid).is_empty());
            let policy = match Policy::asked_for(meta) {
                _ if awaited && has_dependents => Propagation::Foreground,
                Some(Policy::Foreground) => Propagation::Foreground,
                Some(Policy::Orphan) => Propagation::Orphan,
                None => Propagation::Background,
            };
            (def.delete)(&self.client, &item.key, meta, policy).await?;
        } else if left.len() < owners.len() {
            (def.disown)(&self.client, &item.key, meta, &left).await?;
        }
        Ok(observed)
    }

    /// Handles the dependents of a terminating object as its finalizer requests, and removes the finalizer when that is done. Returns
    /// whether there is nothing more to do for now.
    async fn deal_with_dependents(&self, item: &Item, meta: &ObjectMeta, policy: Policy) -> Result<bool, ApiError> {
        let uid = meta.uid.as_deref().unwrap_or_default();
        let dependents = self.graph.lock().dependents(uid);
        match policy {
            Policy::Foreground => {
                let waits = dependents.iter().any(|(_, waits)| *waits);
                for (dependent, _) in dependents {
                    self.queue.add(dependent);
                }
                if waits {
                    // The end of a blocking dependent queues this object again.
                    return Ok(true);
                }
            }
            Policy::Orphan => {
                for (dependent, _) in dependents {
                    self.orphan(&dependent, uid).await?;
                }
            }
        }
        let left = meta.finalizers.iter().flatten().filter(|finalizer| *finalizer != policy.finalizer());
        (self.types[item.number].release)(&self.client, &item.key, meta, left.cloned().collect()).await?;
        Ok(true)
    }

    /// Removes an owner from a dependent.
    async fn orphan(&self, item: &Item, owner: &str) -> Result<(), ApiError> {
        let def = &self.types[item.number];
        let Some(object) = (def.read)(&self.client, &item.key).await? else { return Ok(()) };
        let meta = object.meta();
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        let left: Vec<&OwnerReference> = owners.iter().filter(|other| other.uid != owner).collect();
        if left.len() < owners.len() { (def.disown)(&self.client, &item.key, meta, &left).await } else { Ok(()) }
    }

    /// Reads an owner of `item`.
    async fn find(&self, owner: &OwnerReference, item: &Item) -> Result<Owner, ApiError> {
        let of_type = |def: &&Collected| def.kind == owner.kind && def.api_version == owner.api_version;
        let Some(def) = self.types.iter().find(of_type) else { return Ok(Owner::There) };
        // The namespace of an owner is that of its dependent; a cluster-scoped object cannot have an owner in a namespace.
        let Some(key) = def.key(item.key.namespace(), &owner.name) else { return Ok(Owner::There) };
        let found = (def.read)(&self.client, &key).await?;
        Ok(match found {
            Some(object) if object.meta().uid.as_deref() != Some(&owner.uid) => Owner::Absent,
            None => Owner::Absent,
            Some(object) if Policy::of(object.meta()) == Some(Policy::Foreground) => Owner::Waits,
            Some(_) if self.graph.lock().knows(&owner.uid) => Owner::There,
            Some(_) => Owner::Unobserved,
        })
    }
}
