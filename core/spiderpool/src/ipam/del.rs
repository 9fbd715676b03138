//! DEL (A §7.1).
//!
//! ```text
//!   pod alive? ── UID ── endpoint ── still valid? ── mark (static) ── records ── finalizer
//! ```
//!
//! In the hardened form the UID comes before anything that depends on the endpoint (A §14.27). The records of the pod's UID are released
//! wherever they are known to be: those that the endpoint names, those that the cache shows and no endpoint may name (A W1 to A W3), and
//! those in pools whose write had an unknown outcome. Reading the cache costs no request; records that it does not show are left to
//! reclaim. The UID fences every removal, so none of this can touch another pod's record.
//!
//! Each DEL concerns one NIC and releases that NIC's addresses; the last DEL releases the rest, and the finalizer. Whether other NICs still
//! have records is read from their pools: the runtime may have lost a DEL, or repeat an early one after the last.
//!
//! A container runtime may pass no UID (K §5.1). Then the pod that has the name may be the next one, and only the sandbox distinguishes the
//! two: if the pod's endpoint does not name the sandbox, the release is left to reclaim.
//!
//! A pod may have several sandboxes: the kubelet creates another while the runtime is still busy with one that took too long (K §5.1). They
//! answer on the same addresses, so that the DELs of the last one release them. If a DEL of another was lost, the release is left to
//! reclaim.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;

use super::agent::Agent;
use super::allocated_ip::stored;
use super::answer::DelOutcome;
use super::caches::Caches;
use super::endpoints::{
    entries, entries_of, goes_with_pod, is_last_to_go, is_terminating, is_unfinished, sandboxes_of, uid_of, without_sandbox,
};
use super::error::{IpamError, may_pass};
use super::observer::{Cause, Observer, Step};
use super::op::{Op, distinct, recorded};
use super::request::DelRequest;
use crate::select::{FIRST_NIC, TopController, is_alive, nics};
use crate::validity::{Keeper, is_wanted, parent_and_ordinal, vm_keeps};
use crate::{IPAllocationDetail, SpiderEndpoint, SpiderIPPool};
use kube_machinery::api::{ApiError, Object, ObjectKey};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::kubevirt::{VirtualMachine, VirtualMachineInstance};

/// The maximum number of attempts to remove a sandbox from an endpoint that others write to at the same time.
const LEAVE_TRIES: u32 = 5;

impl<C: Client, V: Env, K: Caches, O: Observer> Agent<C, V, K, O> {
    /// Releases the addresses of a pod, unless they are kept for a successor (A §7.1).
    ///
    /// # Errors
    /// Some records may be left, for a further DEL or for reclaim. Upstream's plugin reports success to the runtime.
    pub async fn del(&self, request: &DelRequest) -> Result<DelOutcome, IpamError> {
        let began = self.env.monotonic();
        self.observer.observe(Step::DelBegun { request });
        let mut op = Op::new(self, &request.pod_uid, self.end(request.deadline));
        let result = match op.turn(&request.pod).await {
            Ok(_turn) => op.del(request).await,
            Err(error) => Err(error),
        };
        let took = self.env.monotonic().saturating_sub(began);
        self.observer.observe(Step::DelEnded { request, result: result.as_ref().copied(), effort: &op.effort(), took });
        result
    }
}

impl<C: Client, V: Env, K: Caches, O: Observer> Op<'_, C, V, K, O> {
    /// Runs a DEL once it has its turn at the pod.
    pub(super) async fn del(&mut self, request: &DelRequest) -> Result<DelOutcome, IpamError> {
        // A D1.
        let pod = self.live_pod(&request.pod).await?;
        let pod_uid = pod.as_ref().and_then(|pod| pod.metadata.uid.as_deref()).unwrap_or_default();
        let names_pod = *request.pod_uid == *pod_uid;
        let found = pod.as_ref().filter(|_| names_pod || request.pod_uid.is_empty() || self.policy().del_adopts_current_uid);
        // A D2.
        if let Some(pod) = found.filter(|pod| is_alive(pod)) {
            self.leave_sandbox_of(request, pod).await;
            return Ok(DelOutcome::Alive);
        }
        // A D3.
        let uid: Arc<str> = if found.is_none() || names_pod { request.pod_uid.clone() } else { pod_uid.into() };
        if let Some(pod) = found {
            let grace = pod.metadata.deletion_grace_period_seconds.map_or(5, |grace| grace.saturating_sub(5).max(5));
            let end = self.agent.env.monotonic() + Duration::from_secs(grace.unsigned_abs());
            self.deadline = Some(self.deadline.map_or(end, |deadline| deadline.min(end)));
        }
        if uid.is_empty() {
            return Ok(DelOutcome::NoUid);
        }
        let result = self.release_pod(request, &uid, pod.as_deref()).await;
        // Hardened, records that may still exist stay remembered for the next DEL.
        let is_over = |outcome: &DelOutcome| !matches!(outcome, DelOutcome::ReleasedNic | DelOutcome::Shared);
        if self.policy().finalizer_left_behind || result.as_ref().is_ok_and(is_over) {
            self.agent.failures.forget_pod(&uid);
        }
        result
    }

    /// The name of a pod's endpoint, and the keeper of its addresses, as far as the pod is known.
    fn endpoint_key(&self, request: &DelRequest, pod: Option<&Pod>) -> (ObjectKey, Option<Keeper>) {
        let controller = pod.and_then(|pod| TopController::of(&self.agent.caches, pod).ok());
        let keeper = controller.as_ref().map(|controller| Keeper::of(controller, self.agent.config.settings.kept()));
        match (&controller, keeper) {
            (Some(controller), Some(keeper)) => (keeper.endpoint_of(&request.pod, controller), Some(keeper)),
            _ => (request.pod.clone(), keeper),
        }
    }

    /// Handles the DEL of a live pod: its sandbox is not the last one.
    async fn leave_sandbox_of(&self, request: &DelRequest, pod: &Pod) {
        if self.policy().sandbox_not_asked {
            return;
        }
        let (key, _) = self.endpoint_key(request, Some(pod));
        // Reading the cache costs no request.
        let known = self.agent.caches.endpoint(&key);
        if *request.nic == *FIRST_NIC || known.is_some_and(|endpoint| is_last_to_go(&endpoint, &request.nic)) {
            // If this fails, reclaim releases the pod's addresses, not the last DEL.
            let _ = self.leave_sandbox(&key, &request.container_id).await;
        }
    }

    /// Removes a torn-down sandbox from the endpoint; others may still be up.
    async fn leave_sandbox(&self, key: &ObjectKey, sandbox: &str) -> Result<(), ApiError> {
        let mut tries = 0;
        loop {
            let endpoint = self.get::<SpiderEndpoint>(key).await?;
            let Some(without) = endpoint.and_then(|endpoint| without_sandbox(&endpoint, sandbox)) else { return Ok(()) };
            match self.update(without).await {
                Err(error) if error.is_conflict() && tries < LEAVE_TRIES && !self.is_late() => {
                    tries += 1;
                    self.pause(tries).await;
                }
                result => return result.map(drop),
            }
        }
    }

    async fn release_pod(&self, request: &DelRequest, uid: &Arc<str>, pod: Option<&Pod>) -> Result<DelOutcome, IpamError> {
        // A D4.
        let (key, by_pod) = self.endpoint_key(request, pod);
        let failed = |error| IpamError::Endpoint { endpoint: key.clone(), error };
        let endpoint = self.get::<SpiderEndpoint>(&key).await.map_err(failed)?;
        if self.is_unknown(request, uid, endpoint.as_deref()) {
            return Ok(DelOutcome::NoUid);
        }
        let Some(mut endpoint) = endpoint else {
            let is_over = self.release_leftovers(&key, uid, by_pod.unwrap_or(Keeper::Nobody), None, &request.nic).await?;
            return Ok(if is_over { DelOutcome::NoEndpoint } else { DelOutcome::ReleasedNic });
        };
        let keeper = self.keeper_of(&endpoint);
        let is_ours = uid_of(&endpoint) == &**uid;
        if is_ours && let Some(outcome) = self.of_shared(request, &key, &endpoint).await? {
            return Ok(outcome);
        }
        if self.policy().mark_before_uid_check {
            return self.release_marked_first(request, &key, uid, keeper, endpoint).await;
        }
        // A D7 before A D5: whatever another pod's endpoint says, this DEL does not concern it.
        if !is_ours {
            // A pod that has the name of the VM may have its own endpoint in the place of the VM's.
            let is_of_vm = by_pod == Some(Keeper::Vm);
            let theirs = Some(&*endpoint).filter(|_| !is_of_vm || keeper == Keeper::Vm);
            let keeper = if is_of_vm { Keeper::Vm } else { keeper };
            let is_over = self.release_leftovers(&key, uid, keeper, theirs, &request.nic).await?;
            return Ok(if is_over { DelOutcome::NotOurs } else { DelOutcome::ReleasedNic });
        }
        // A D5 and D6.
        if keeper != Keeper::Nobody {
            // The mark is the point of no return (D §1.3.1), except for a VM, whose next pod continues with the addresses of a marked
            // endpoint.
            if (!is_terminating(&endpoint) || keeper == Keeper::Vm) && self.keeps(keeper, &key).await? {
                return Ok(DelOutcome::StillValid);
            }
            if self.migrates(keeper, &key, uid).await? {
                return Ok(DelOutcome::StillValid);
            }
            if !is_terminating(&endpoint) {
                match self.mark_surely(&endpoint).await.map_err(failed)? {
                    Some(marked) => endpoint = marked,
                    None => {
                        let what = distinct(self.all_of(&endpoint, &key, uid).await?);
                        let is_over = self.take_back_for(&request.nic, &key, uid, what).await?;
                        return Ok(if is_over { DelOutcome::Released } else { DelOutcome::ReleasedNic });
                    }
                }
            }
        }
        self.release_endpoint(request, &key, uid, pod, endpoint).await
    }

    /// Whether nothing ties a DEL to this pod: it has no UID, and the pod's endpoint does not name its sandbox.
    fn is_unknown(&self, request: &DelRequest, uid: &str, endpoint: Option<&SpiderEndpoint>) -> bool {
        let policy = self.policy();
        if !request.pod_uid.is_empty() || policy.del_without_uid_adopts_pod || policy.del_adopts_current_uid || policy.sandbox_not_asked {
            return false;
        }
        let own = endpoint.filter(|endpoint| uid_of(endpoint) == uid);
        !own.is_some_and(|endpoint| sandboxes_of(endpoint).any(|named| *named == *request.container_id))
    }

    /// The keeper of an endpoint's addresses. An endpoint that is deleted with its pod keeps nothing for another, whatever the kind of its
    /// owner.
    fn keeper_of(&self, endpoint: &SpiderEndpoint) -> Keeper {
        if goes_with_pod(endpoint) && !self.policy().static_by_kind_only {
            return Keeper::Nobody;
        }
        Keeper::of_endpoint(endpoint, self.agent.config.settings.kept())
    }

    /// Ends a DEL while the pod has other sandboxes, if it has any: they have the same addresses, which are released with the last of them
    /// (K §5.1, §5.4).
    async fn of_shared(&self, request: &DelRequest, key: &ObjectKey, endpoint: &SpiderEndpoint) -> Result<Option<DelOutcome>, IpamError> {
        let sandbox = &*request.container_id;
        if self.policy().sandbox_not_asked || sandboxes_of(endpoint).all(|other| other == sandbox) {
            return Ok(None);
        }
        if sandboxes_of(endpoint).all(|named| named != sandbox) {
            return Ok(Some(DelOutcome::NotOurs));
        }
        if is_last_to_go(endpoint, &request.nic) {
            let left = self.leave_sandbox(key, sandbox).await;
            left.map_err(|error| IpamError::Endpoint { endpoint: key.clone(), error })?;
        }
        Ok(Some(DelOutcome::Shared))
    }

    /// A D9 and A D10: releases the records of this NIC and, if no other NIC has any, of the pod; then removes the finalizer of its
    /// endpoint.
    pub(super) async fn release_endpoint(
        &self,
        request: &DelRequest,
        key: &ObjectKey,
        uid: &Arc<str>,
        pod: Option<&Pod>,
        endpoint: Arc<SpiderEndpoint>,
    ) -> Result<DelOutcome, IpamError> {
        if !self.policy().first_del_releases_all {
            let others = of_other_nics(&endpoint, &request.nic, pod.and_then(nics));
            if !others.is_empty() && self.is_any_recorded(uid, &others).await? {
                let mut own = of_nic(&endpoint, &request.nic);
                // The cache can show an address under this NIC that another NIC has by now.
                let strays = self.strays(key, uid, |nic| nic == Some(&*request.nic)).await?;
                own.extend(strays.into_iter().filter(|stray| !others.contains(stray)));
                self.take_back(key, uid, Cause::Del, &distinct(own)).await?;
                return Ok(DelOutcome::ReleasedNic);
            }
        }
        let what = self.all_of(&endpoint, key, uid).await?;
        self.take_back(key, uid, Cause::Del, &what).await?;
        let failed = |error| IpamError::Endpoint { endpoint: key.clone(), error };
        self.finish(endpoint).await.map_err(failed)?;
        Ok(DelOutcome::Released)
    }

    /// Whether another pod of the same VM exists. Records left when the last of them is gone are for reclaim: its DEL does not know this
    /// pod's UID.
    pub(super) async fn migrates(&self, keeper: Keeper, key: &ObjectKey, uid: &str) -> Result<bool, IpamError> {
        Ok(keeper == Keeper::Vm && !self.policy().migration_ends_with_one_del && self.has_pod_of_vm(key, |other| other != uid).await?)
    }

    /// Marks an endpoint for deletion; if it was changed meanwhile and still is that pod's, its new version is marked.
    pub(super) async fn mark_surely(&self, endpoint: &Arc<SpiderEndpoint>) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        let (mut current, mut tries) = (endpoint.clone(), 0);
        loop {
            let error = match self.mark(&current).await {
                Ok(marked) => return Ok(marked),
                Err(error) => error,
            };
            if self.policy().mark_before_uid_check || self.is_late() || !(error.is_conflict() || may_pass(&error)) || tries > 20 {
                return Err(error);
            }
            tries += 1;
            self.pause(tries).await;
            match self.get::<SpiderEndpoint>(&ObjectKey::of(&*current)).await? {
                Some(found) if found.metadata.uid == current.metadata.uid && uid_of(&found) == uid_of(&current) => {
                    if is_terminating(&found) {
                        return Ok(Some(found));
                    }
                    current = found;
                }
                // It is another pod's by now, which will handle it.
                Some(_) => return Err(error),
                None => return Ok(None),
            }
        }
    }

    /// The addresses that an endpoint names, and all others recorded for its pod.
    async fn all_of(&self, endpoint: &SpiderEndpoint, key: &ObjectKey, uid: &Arc<str>) -> Result<Vec<(Arc<str>, IpAddr)>, IpamError> {
        let mut what = entries_of(endpoint);
        if self.policy().partial_failure_keeps_records {
            return Ok(what);
        }
        what.extend(self.leftovers(key, uid).await?);
        Ok(distinct(what))
    }

    /// The known records of a pod that its endpoint may not name. Those of a VM are under the name of its instance, and stay if that is not
    /// known any more: it may still be valid.
    async fn leftovers(&self, key: &ObjectKey, uid: &Arc<str>) -> Result<Vec<(Arc<str>, IpAddr)>, IpamError> {
        self.strays(key, uid, |_| true).await
    }

    /// The known records of the NICs for which `of` holds; `None` = the record names no NIC.
    pub(super) async fn strays(
        &self,
        key: &ObjectKey,
        uid: &Arc<str>,
        of: impl Fn(Option<&str>) -> bool + Sync,
    ) -> Result<Vec<(Arc<str>, IpAddr)>, IpamError> {
        let mut what = Vec::new();
        self.agent.caches.for_each_pool(&mut |pool| {
            for (ip, _) in recorded(pool, Some(key), uid).filter(|(_, record)| of(record.interface.as_deref())) {
                what.push((Arc::from(pool.metadata.name.as_deref().unwrap_or_default()), ip));
            }
        });
        let allocated = self.agent.failures.of(uid).into_iter().filter(|allocated| of(Some(&allocated.nic)));
        what.extend(allocated.map(|allocated| (allocated.pool.clone(), allocated.address.addr())));
        let holders: BTreeSet<_> = self.agent.failures.holders(uid).into_iter().map(|holder| holder.pool).collect();
        for pool in holders {
            let Some(found) = self.pool(&pool).await? else { continue };
            let found = recorded(&found, Some(key), uid).filter(|(_, record)| of(record.interface.as_deref()));
            what.extend(found.map(|(ip, _)| (pool.clone(), ip)));
        }
        Ok(what)
    }

    /// Releases the records of a pod without an endpoint of its own, unless the pod's place is kept: then the next pod of the name will
    /// have them. Returns whether nothing is left to the DELs of other NICs.
    ///
    /// `theirs` is the endpoint under the pod's name, if there is one, which belongs to another pod. In the migration of a VM, an ADD of
    /// this pod may have taken over records of the other pod before it failed (A W28): the other pod still answers on their addresses, so
    /// that they stay until both are gone and reclaim finds them. Without an endpoint, each record may be one of those.
    async fn release_leftovers(
        &self,
        key: &ObjectKey,
        uid: &Arc<str>,
        keeper: Keeper,
        theirs: Option<&SpiderEndpoint>,
        nic: &str,
    ) -> Result<bool, IpamError> {
        if self.policy().partial_failure_keeps_records {
            return Ok(true);
        }
        let mut what = distinct(self.leftovers(key, uid).await?);
        if what.is_empty() || (keeper != Keeper::Nobody && self.keeps(keeper, key).await?) {
            return Ok(true);
        }
        let named = theirs.map(entries_of);
        let may_be_theirs = |at: &(Arc<str>, IpAddr)| named.as_ref().is_none_or(|named| named.contains(at));
        if what.iter().any(may_be_theirs) && self.migrates(keeper, key, uid).await? {
            what.retain(|at| !may_be_theirs(at));
            if what.is_empty() {
                return Ok(true);
            }
        }
        self.take_back_for(nic, key, uid, what).await
    }

    /// Releases records that no endpoint of the pod names, but not those on which another of its NICs answers (K §5.3): only the records
    /// show that. Returns whether nothing is left to the DELs of other NICs.
    async fn take_back_for(
        &self,
        nic: &str,
        key: &ObjectKey,
        uid: &Arc<str>,
        mut what: Vec<(Arc<str>, IpAddr)>,
    ) -> Result<bool, IpamError> {
        let held = if self.policy().first_del_releases_all { Vec::new() } else { self.held_by_others(nic, key, uid).await? };
        what.retain(|at| !held.contains(at));
        self.take_back(key, uid, Cause::Del, &what).await?;
        Ok(held.is_empty())
    }

    /// The records of other NICs of a pod, in the pools where the cache shows some, except those that no ADD was answered with. A number is
    /// no NIC's name (A §2.4): if there are several, only the endpoint held the assignment, and without it all are released with the first
    /// NIC, whose DEL comes last (K §5.3).
    async fn held_by_others(&self, nic: &str, key: &ObjectKey, uid: &Arc<str>) -> Result<Vec<(Arc<str>, IpAddr)>, IpamError> {
        let (failed, suspects) = (self.agent.failures.of(uid), self.agent.failures.suspects(uid));
        let is_number = |of: &str| of.bytes().all(|byte| byte.is_ascii_digit());
        let mut numbers = BTreeSet::new();
        self.agent.caches.for_each_pool(&mut |pool| {
            let of = recorded(pool, Some(key), uid).filter_map(|(_, record)| record.interface.as_deref());
            numbers.extend(of.filter(|of| is_number(of)).map(str::to_owned));
        });
        let waits_for_first = *nic != *FIRST_NIC && numbers.len() > 1;
        let held = |pool: &SpiderIPPool| -> Vec<(Arc<str>, IpAddr)> {
            let name: Arc<str> = pool.metadata.name.as_deref().unwrap_or_default().into();
            let is_held = |ip: IpAddr, of: Option<&str>| {
                let is_answered = |of: &str| {
                    !failed.iter().any(|allocated| allocated.pool == name && allocated.address.addr() == ip)
                        && !suspects.iter().any(|suspect| suspect.pool == name && *suspect.nic == *of)
                };
                of.is_some_and(|of| if is_number(of) { waits_for_first } else { of != nic } && is_answered(of))
            };
            let all = recorded(pool, Some(key), uid).filter(|(ip, record)| is_held(*ip, record.interface.as_deref()));
            all.map(|(ip, _)| (name.clone(), ip)).collect()
        };
        // The cache may not show records that a pool was seen to hold.
        let mut pools: BTreeSet<_> = self.agent.failures.holders(uid).into_iter().map(|holder| holder.pool).collect();
        self.agent.caches.for_each_pool(&mut |pool| pools.extend(held(pool).into_iter().map(|(name, _)| name)));
        let mut all = Vec::new();
        for pool in pools {
            if let Some(found) = self.readable_pool(&pool).await? {
                all.extend(held(&found));
            }
        }
        Ok(all)
    }

    /// Whether the addresses of an endpoint are kept for the next pod of its name, by the API server's state (A D5).
    pub(super) async fn keeps(&self, keeper: Keeper, key: &ObjectKey) -> Result<bool, IpamError> {
        match keeper {
            Keeper::Nobody => Ok(false),
            Keeper::StatefulSet => {
                let Some((parent, ordinal)) = parent_and_ordinal(key.name()) else { return Ok(false) };
                let set: Option<Arc<StatefulSet>> = self.owner("StatefulSet", key, parent).await?;
                Ok(set.is_some_and(|set| is_wanted(&set, ordinal, self.policy())))
            }
            Keeper::Vm => {
                let instance: Option<Arc<VirtualMachineInstance>> = self.owner("VirtualMachineInstance", key, key.name()).await?;
                if let Some(kept) = vm_keeps(instance.as_deref()) {
                    return Ok(kept);
                }
                let vm: Option<Arc<VirtualMachine>> = self.owner("VirtualMachine", key, key.name()).await?;
                Ok(vm.is_some_and(|vm| vm.metadata.deletion_timestamp.is_none()))
            }
        }
    }

    async fn owner<T: Object>(&self, what: &'static str, key: &ObjectKey, name: &str) -> Result<Option<Arc<T>>, IpamError> {
        let key = ObjectKey::namespaced(key.namespace().unwrap_or_default(), name);
        self.get(&key).await.map_err(|error| IpamError::Reading { what, error })
    }
}

/// The addresses that the DEL of a NIC releases in any case: those of its own ADD's answer.
fn of_nic(endpoint: &SpiderEndpoint, nic: &str) -> Vec<(Arc<str>, IpAddr)> {
    let own = entries(endpoint).iter().filter(|entry| entry.interface == nic);
    own.flat_map(stored).map(|at| (Arc::from(at.pool), at.address.addr())).collect()
}

/// The addresses left to the DELs of the other NICs, or to reclaim if one is lost: a DEL concerns one interface of one container (K §5.3),
/// and the other NICs may answer until theirs. An address that no ADD was answered with is held by nobody; nor is one of a NIC that the pod
/// does not have, if its NICs are known.
fn of_other_nics(endpoint: &SpiderEndpoint, nic: &str, nics: Option<Vec<String>>) -> Vec<(Arc<str>, IpAddr)> {
    let exists = |nic: &str| nics.as_ref().is_none_or(|nics| nics.iter().any(|has| has == nic));
    let is_held = |entry: &&IPAllocationDetail| {
        let of = &*entry.interface;
        !of.is_empty() && of != nic && exists(of) && !is_unfinished(endpoint, of)
    };
    let others = entries(endpoint).iter().filter(is_held);
    others.flat_map(stored).map(|at| (Arc::from(at.pool), at.address.addr())).collect()
}
