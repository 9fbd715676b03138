//! PeerPods as the owners of allocations.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::peer_pod::PeerPod;
use super::peer_pods::PeerPods;
use super::sandbox::Sandbox;
use super::sandboxes::{Sandboxes, Written};
use crate::address::AddressKey;
use crate::allocation::IpAllocation;
use crate::driver::PoolSettings;
use crate::error::{NotOwned, OwnersUnknown};
use crate::observer::{Observer, Step};
use crate::outcome::Context;
use crate::owners::{Named, Owners};
use crate::policy::Policy;
use kube_machinery::api::{ApiError, ObjectKey};
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// PeerPods as the owners of allocations. Every PeerPod that names an allocation and an address counts, even one that is being deleted: its
/// VM may still run. Of several that name one VM the one that was created last counts, and of those of one Pod the one that was allocated
/// last. One without a finalizer counts, too: the finalizer of a live PeerPod may have been removed by mistake (B W11).
///
/// Clones are the same process: they share the memory of its sandboxes.
#[derive(Clone)]
pub struct PeerPodOwners<C, V, B = ()> {
    pub(super) peer_pods: PeerPods<C, V>,
    observer: B,
    policy: Policy,
    /// The time limit for writing one PeerPod if the caller sets no deadline.
    limit: Duration,
    sandboxes: Arc<Mutex<Sandboxes>>,
}

impl<C, V, B> fmt::Debug for PeerPodOwners<C, V, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PeerPodOwners").field(&self.sandboxes.lock().unwrap()).finish()
    }
}

impl<C: Client, V: Env, B: Observer> PeerPodOwners<C, V, B> {
    /// The owners as seen by a process without sandboxes.
    pub fn new(client: C, env: V, observer: B, settings: &PoolSettings) -> Self {
        let peer_pods = PeerPods::new(client, env, settings);
        Self { peer_pods, observer, policy: settings.policy, limit: settings.operation_timeout, sandboxes: Arc::default() }
    }

    pub(super) fn sandboxes(&self) -> MutexGuard<'_, Sandboxes> {
        self.sandboxes.lock().unwrap()
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        Some(self.peer_pods.env().monotonic() + self.limit)
    }

    /// All PeerPods. A list may lack objects that its API server has lost; those that this process has written are added from memory.
    async fn all(&self) -> Result<Vec<Arc<PeerPod>>, OwnersUnknown> {
        let mut list = self.peer_pods.list(self.deadline()).await.map_err(|error| OwnersUnknown(error.to_string()))?;
        list.extend(self.sandboxes().written());
        Ok(list)
    }

    fn wrote(&self, id: &Arc<str>, pod_uid: &Arc<str>, key: &ObjectKey, result: &Result<Arc<PeerPod>, ApiError>) {
        self.observer.observe(Step::PeerPodWritten { id, peer_pod: key, error: result.as_ref().err() });
        let Ok(peer_pod) = result else { return };
        let mut sandboxes = self.sandboxes();
        sandboxes.peer_pods.insert(pod_uid.clone(), peer_pod.clone());
        if let Some(entry) = sandboxes.of_allocation(id) {
            entry.peer_pod = Some(Written::Seen(peer_pod.clone()));
        }
    }

    /// The UID of the Pod that is to own the PeerPods of a sandbox.
    async fn pod_uid(&self, sandbox: &Sandbox, deadline: Option<Duration>) -> Result<Option<Arc<str>>, ApiError> {
        if self.policy.owner_by_pod_name { self.peer_pods.pod_uid(&sandbox.pod, deadline).await } else { Ok(Some(sandbox.pod_uid.clone())) }
    }

    /// Writes the PeerPod of a sandbox like upstream: one attempt, after the VM is in use (B S1).
    pub(super) async fn own_late(&self, sandbox: &Sandbox, record: &IpAllocation, context: Context) {
        // An error is only logged.
        let Ok(Some(pod_uid)) = self.pod_uid(sandbox, context.deadline).await else { return };
        let made = self.peer_pods.made(record, &sandbox.pod, &pod_uid);
        let peer_pod = if self.policy.release_by_address { made.into_upstreams() } else { made };
        let key = ObjectKey::of(&peer_pod);
        let result = self.peer_pods.create(peer_pod, context.deadline).await;
        self.wrote(&record.allocation_id, &pod_uid, &key, &result);
    }

    /// ReleasePeerPod (B X4). `released` says whether the VM was given back; if not, the PeerPod is left to the controller.
    pub(super) async fn release_peer_pod(&self, sandbox: &Sandbox, released: bool, context: Context) {
        if self.policy.finalizer_by_pod_name {
            if released {
                self.release_by_pod_name(sandbox, context).await;
            }
            return;
        }
        let id = sandbox.allocation_id();
        let own = self.sandboxes().get(&sandbox.id).is_some_and(|entry| entry.peer_pod.is_some());
        if own || !self.policy.empty_id_counts_as_deleted {
            return self.disown(&id, released).await;
        }
        let of_pod = self.sandboxes().peer_pods.get(&sandbox.pod_uid).cloned();
        if let Some(peer_pod) = of_pod.filter(|_| released) {
            self.end(&id, peer_pod, true).await;
        }
    }

    /// Releases the PeerPod that this process last wrote for the Pod that has the name now, whichever Pod that is (B W11).
    async fn release_by_pod_name(&self, sandbox: &Sandbox, context: Context) {
        let Ok(Some(pod_uid)) = self.peer_pods.pod_uid(&sandbox.pod, context.deadline).await else { return };
        let Some(peer_pod) = self.sandboxes().peer_pods.get(&pod_uid).cloned() else { return };
        let key = ObjectKey::of(&*peer_pod);
        if self.peer_pods.patch_finalizers_away(&key, context.deadline).await.is_ok() {
            self.sandboxes().peer_pods.remove(&pod_uid);
            self.released(&peer_pod, &key);
        }
    }

    pub(super) fn released(&self, peer_pod: &PeerPod, key: &ObjectKey) {
        self.observer.observe(Step::PeerPodReleased { id: peer_pod.allocation_id(), peer_pod: key });
    }

    /// Marks a PeerPod for deletion, and removes its finalizer if its VM was given back. Failures are left to the controller.
    async fn end(&self, id: &Arc<str>, peer_pod: Arc<PeerPod>, released: bool) {
        let deadline = self.deadline();
        let key = ObjectKey::of(&*peer_pod);
        // The mark comes first: if anything fails after it, the controller finishes the deletion.
        match self.peer_pods.mark(peer_pod.clone(), deadline).await {
            Ok(Some(marked)) if released => {
                if self.peer_pods.finish(marked, deadline).await.is_err() {
                    return;
                }
            }
            Ok(Some(_)) => return self.observer.observe(Step::PeerPodMarked { id: Some(id), peer_pod: &key }),
            Ok(None) => {}
            Err(_) => return,
        }
        self.sandboxes().forget_peer_pod(&peer_pod);
        self.released(&peer_pod, &key);
    }
}

impl<C: Client, V: Env, B: Observer> Owners for PeerPodOwners<C, V, B> {
    async fn live(&self) -> Result<Vec<IpAllocation>, OwnersUnknown> {
        let list = self.all().await?;
        // A released VM may have its next owner before the PeerPod of the previous one is gone. The VM booted in between, so their creation
        // times are seconds apart, by the clocks of the API servers. For one Pod the later allocation counts, as a PeerPod may be written
        // late: a Pod never moves, so both allocation times are by one clock.
        let mut of_vm: BTreeMap<AddressKey, (&PeerPod, IpAllocation)> = BTreeMap::new();
        for (peer_pod, allocation) in list.iter().filter_map(|peer_pod| Some((&**peer_pod, peer_pod.allocation()?))) {
            let created = |of: &PeerPod| of.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
            let later = |(known, of_known): &(&PeerPod, IpAllocation)| {
                let of_one_pod = known.owner_uid().is_some() && known.owner_uid() == peer_pod.owner_uid();
                let by_object = if of_one_pod { Ordering::Equal } else { created(known).cmp(&created(peer_pod)) };
                by_object.then_with(|| of_known.allocated_at.cmp(&allocation.allocated_at)).is_lt()
            };
            match of_vm.entry(allocation.ip.key().clone()) {
                Entry::Vacant(vacant) => drop(vacant.insert((peer_pod, allocation))),
                Entry::Occupied(mut known) if later(known.get()) => drop(known.insert((peer_pod, allocation))),
                Entry::Occupied(_) => {}
            }
        }
        Ok(of_vm.into_values().map(|(_, allocation)| allocation).collect())
    }

    async fn named(&self) -> Result<Named, OwnersUnknown> {
        let mut named = Named::default();
        for peer_pod in self.all().await? {
            match peer_pod.allocation() {
                Some(allocation) => named.allocations.push(allocation),
                None => named.vms.extend(peer_pod.vm().map(|vm| AddressKey::clone(vm.key()))),
            }
        }
        Ok(named)
    }

    /// The namespace of the PeerPods of Pods of this name that name the record's VM. Upstream's PeerPods name no allocation; if they are in
    /// several namespaces, the right one is unknown.
    async fn namespace_of(&self, record: &IpAllocation) -> Option<Arc<str>> {
        let list = self.peer_pods.list(self.deadline()).await.ok()?;
        let mut namespaces: Vec<&str> =
            list.iter().filter(|peer_pod| peer_pod.is_of(record)).filter_map(|of| of.metadata.namespace.as_deref()).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        <[&str; 1]>::try_from(namespaces).ok().map(|[only]| only.into())
    }

    async fn own(&self, record: &IpAllocation, context: Context) -> Result<(), NotOwned> {
        let id = &record.allocation_id;
        let wanted = {
            let mut sandboxes = self.sandboxes();
            match sandboxes.of_allocation(id) {
                None => return Err(NotOwned::Unwanted),
                Some(entry) if entry.stopped.get() && !self.policy.stop_overlooks_start => return Err(NotOwned::Unwanted),
                Some(entry) if matches!(entry.peer_pod, Some(Written::Seen(_))) => return Ok(()),
                Some(entry) => entry.sandbox.clone(),
            }
        };
        let pod_uid = match self.pod_uid(&wanted, context.deadline).await {
            Ok(Some(pod_uid)) => pod_uid,
            Ok(None) => return Err(NotOwned::Unwanted),
            Err(error) => return Err(NotOwned::Api(error)),
        };
        let peer_pod = self.peer_pods.made(record, &wanted.pod, &pod_uid);
        let key = ObjectKey::of(&peer_pod);
        if let Some(entry) = self.sandboxes().of_allocation(id) {
            entry.peer_pod = Some(Written::Perhaps(key.clone()));
        }
        let result = self.peer_pods.create_surely(&peer_pod, context.deadline).await;
        self.wrote(id, &pod_uid, &key, &result);
        result.map(drop).map_err(NotOwned::Api)
    }

    fn wants(&self, id: &Arc<str>) -> bool {
        self.policy.stop_overlooks_start || self.sandboxes().of_allocation(id).is_none_or(|entry| !entry.stopped.get())
    }

    async fn disown(&self, id: &Arc<str>, released: bool) {
        let written = match self.sandboxes().of_allocation(id) {
            Some(entry) if released => entry.peer_pod.take(),
            Some(entry) => entry.peer_pod.clone(),
            None => None,
        };
        let peer_pod = match written {
            None => return,
            Some(Written::Seen(peer_pod)) => peer_pod,
            Some(Written::Perhaps(key)) => match self.peer_pods.get::<PeerPod>(&key, self.deadline()).await {
                Ok(Some(found)) if found.allocation_id() == Some(id) => found,
                _ => return,
            },
        };
        self.end(id, peer_pod, released).await;
    }

    fn observe(&self, step: Step<'_>) {
        self.observer.observe(step);
    }
}
