//! Upstream's forms of some steps of an ADD: the addresses it gives up after a change of pools, and how; the records it leaves; its use of
//! the failure cache; and its writes. Each is called at the step that it replaces.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::attempt::{Add, Setback};
use super::fresh::{Allocation, NewEntries, by_name, by_place};
use super::static_reuse::{Entries, StaticReuse, name_entry, permits};
use crate::ipam::allocated_ip::{AllocatedIp, first_is_eth0, stored};
use crate::ipam::answer::How;
use crate::ipam::caches::Caches;
use crate::ipam::endpoints::{EndpointOwnership, entries, has_finalizer, is_terminating, uid_of};
use crate::ipam::error::IpamError;
use crate::ipam::observer::{Cause, Observer, Step};
use crate::ipam::pool_decide::NewOwner;
use crate::ranges::IpVersion;
use crate::select::{self, PermittedPools, SelectError, is_alive, named_pools};
use crate::validity::Keeper;
use crate::{IPAllocationDetail, SpiderEndpoint};
use kube_machinery::api::ObjectKey;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

impl<C: Client, V: Env, K: Caches, O: Observer> Add<'_, C, V, K, O> {
    /// Whether the pools of an endpoint are compared in one of upstream's ways.
    pub(super) fn compares_otherwise(&self) -> bool {
        let policy = self.policy();
        policy.static_reuse_skips_filter || policy.static_reuse_before_gating || (policy.nameless_nic_always_changed && self.nameless)
    }

    /// The addresses of an endpoint that the pod has to give up: by the names in the tiers, whatever happened to those pools
    /// (`static-reuse-skips-filter`); with pools of a disabled family (`static-reuse-before-gating`).
    pub(super) fn compare_otherwise(&self, endpoint: &SpiderEndpoint) -> Result<StaticReuse, IpamError> {
        let policy = self.policy();
        let gate = !policy.static_reuse_before_gating;
        let permitted = if policy.static_reuse_skips_filter {
            let pools = named_pools(&self.op.agent.caches, &self.asked(), &self.controller, gate)?;
            PermittedPools { all_nics: false, pools }
        } else {
            self.permitted(endpoint, gate)?
        };
        let known = entries(endpoint);
        let entry_wise = policy.static_reuse_skips_filter || (policy.nameless_nic_always_changed && self.nameless);
        Ok(if entry_wise { self.compare_entries(known, &permitted) } else { self.compare_addresses(known, &permitted) })
    }

    /// Gives up entries, not addresses: both families of a NIC share one set of pools (A §6.3). Only the NIC of the request is compared
    /// (`static-reuse-skips-filter`), and a NIC without a name under its own name, too (`nameless-nic-always-changed`).
    fn compare_entries(&self, known: &[IPAllocationDetail], permitted: &PermittedPools) -> StaticReuse {
        let mut static_reuse = StaticReuse::default();
        for (place, entry) in known.iter().enumerate() {
            let nic = self.nic_of(place, entry);
            let asked_for = *entry.interface == *self.request.nic;
            for at in stored(entry) {
                let unnamed = |nic: &str| !IpVersion::ALL.iter().any(|family| permits(permitted, nic, *family, at.pool));
                let changed = if self.policy().nameless_nic_always_changed && self.nameless {
                    unnamed(&nic) || (asked_for && unnamed(&entry.interface))
                } else {
                    (asked_for || self.nameless) && unnamed(&nic)
                };
                if changed {
                    IpVersion::ALL.into_iter().for_each(|family| static_reuse.replace(place, family));
                }
            }
        }
        static_reuse
    }

    /// Upstream's way after a change of pools (`partial-pool-change-recreates`): the rest of the endpoint is kept, and created again.
    pub(super) async fn recreate(
        &self,
        endpoint: Arc<SpiderEndpoint>,
        static_reuse: &mut StaticReuse,
    ) -> Result<Arc<SpiderEndpoint>, Setback> {
        let left = self.release_outdated(endpoint, &static_reuse.given_up).await?;
        *static_reuse = StaticReuse { kept: entries(&left).iter().cloned().enumerate().collect(), ..StaticReuse::default() };
        Ok(left)
    }

    /// Writes the endpoint first, then the records (A §6.3). Returns the rest of the endpoint.
    async fn release_outdated(
        &self,
        endpoint: Arc<SpiderEndpoint>,
        given_up: &BTreeSet<(usize, IpVersion)>,
    ) -> Result<Arc<SpiderEndpoint>, Setback> {
        let all = entries(&endpoint);
        let given_up: BTreeSet<usize> = given_up.iter().map(|(place, _)| *place).collect();
        let of_places = |places: &mut dyn Iterator<Item = &IPAllocationDetail>| {
            let mut what: Vec<(Arc<str>, IpAddr)> = Vec::new();
            for entry in places {
                what.extend(stored(entry).map(|at| (Arc::from(at.pool), at.address.addr())));
            }
            what
        };
        let (what, left) = if self.nameless || given_up.len() == all.len() {
            let mut left = endpoint.clone();
            if !is_terminating(&left) {
                let marked = self.op.mark(&left).await.map_err(|error| self.of_endpoint(error))?;
                left = marked.unwrap_or(left);
            }
            if has_finalizer(&left) {
                let gone = self.op.let_go(&left).await.map_err(|error| self.of_endpoint(error))?;
                left = gone.unwrap_or(left);
            }
            (of_places(&mut all.iter()), left)
        } else {
            let mut trimmed = SpiderEndpoint::clone(&endpoint);
            if let Some(status) = &mut trimmed.status {
                let mut place = 0..;
                status.current.ips.retain(|_| place.next().is_some_and(|place| !given_up.contains(&place)));
            }
            let left = self.op.update(trimmed).await.map_err(|error| self.of_endpoint(error))?;
            (of_places(&mut given_up.iter().filter_map(|place| all.get(*place))), left)
        };
        self.op.take_back(&self.key, uid_of(&endpoint), Cause::PoolChange, &what).await?;
        Ok(left)
    }

    /// Whether an endpoint of an unrelated earlier pod of the name is removed before anything else (`endpoint-delete-by-name`).
    pub(super) fn removes_by_name(&self, endpoint: &SpiderEndpoint) -> bool {
        let removes = self.policy().endpoint_delete_by_name && self.keeper == Keeper::Nobody;
        removes && self.ownership(endpoint) == EndpointOwnership::Foreign
    }

    /// Upstream's way with the endpoint of another pod of the name (A §5.3): removal by name, whatever is there by now.
    pub(super) async fn remove_by_name(&self, endpoint: &SpiderEndpoint) -> Result<(), IpamError> {
        if !is_terminating(endpoint) {
            self.op.mark(endpoint).await.map_err(|error| self.of_endpoint(error))?;
        }
        if has_finalizer(endpoint) {
            self.op.let_go(endpoint).await.map_err(|error| self.of_endpoint(error))?;
        }
        Ok(())
    }

    /// An address of an earlier try, whatever happened to its record since (`failure-cache-unchecked`).
    pub(super) fn remembered(&self, allocation: &Allocation<'_>) -> Option<AllocatedIp> {
        if !self.policy().failure_cache_unchecked {
            return None;
        }
        let nic = allocation.nic;
        let known = self.op.agent.failures.of(&self.uid);
        let candidate = |known: &AllocatedIp| allocation.pools.iter().find(|candidate| known.nic == nic && candidate.name == known.pool);
        let (known, candidate) = known.iter().find_map(|known| Some((known, candidate(known)?)))?;
        let allocated = known.allocated_again(&candidate.pool, allocation.clean_gateway);
        let (pool, address) = (&*allocated.pool, allocated.address);
        self.op.observe(Step::FailureCacheUsed { uid: &self.uid, nic, pool, address });
        Some(allocated)
    }

    /// Remembers the addresses of the NICs that succeeded when others failed (`partial-failure-keeps-records`), for the next try. In
    /// nameless mode, everything is forgotten (A §5.5).
    pub(super) fn keep_part(&self, allocated: Vec<AllocatedIp>) {
        if !self.policy().partial_failure_keeps_records {
            return;
        }
        if self.nameless {
            self.op.agent.failures.forget(&self.uid);
        } else if !allocated.is_empty() {
            self.remember(allocated);
        }
    }

    /// Remembers the addresses if the endpoint could not be written. If nothing was allocated, the memory stays unchanged.
    pub(super) fn keep_unwritten(&self, allocated: Vec<AllocatedIp>) {
        if self.policy().partial_failure_keeps_records && (self.nameless || !allocated.is_empty()) {
            self.remember(allocated);
        }
    }

    /// Whether an ADD leaves records that its answer does not name (`partial-failure-keeps-records`, `lost-reply-takes-next-pool`).
    pub(super) fn leaves_leftovers(&self) -> bool {
        let policy = self.policy();
        policy.partial_failure_keeps_records || policy.lost_reply_takes_next_pool
    }

    /// Whether the memory of a pod's ADDs is cleared with an answer: if nothing is left to be released. Upstream clears it in any case
    /// (`partial-failure-keeps-records`), but not with an answer from an endpoint (`failure-cache-kept-by-reuse`).
    pub(super) fn forgets(&self, how: How, complete: bool) -> bool {
        let policy = self.policy();
        (complete || policy.partial_failure_keeps_records) && (how == How::Fresh || !policy.failure_cache_kept_by_reuse)
    }

    /// Whether stray records are kept: upstream removes nothing before it allocates. Its forms that leave records behind should do so here,
    /// too.
    pub(super) fn keeps_strays(&self) -> bool {
        let policy = self.policy();
        policy.strays_go_afterwards
            || policy.partial_failure_keeps_records
            || policy.lost_reply_takes_next_pool
            || policy.answer_not_as_stored
            || (self.nameless && policy.nameless_entry_lost)
    }

    /// Whether an endpoint that the cache does not show is not looked up: the upstream forms that depend on this have to meet it.
    pub(super) fn goes_by_cache(&self) -> bool {
        let policy = self.policy();
        policy.further_nic_draws_again || policy.endpoint_delete_by_name || policy.late_endpoint_create_fails
    }

    /// Whether a record of the pod is answered unchecked, whatever may still remove it (`unfenced-own-record`, `one-record-per-pod`).
    pub(super) fn trusts_own_records(&self) -> bool {
        let policy = self.policy();
        policy.unfenced_own_record || policy.one_record_per_pod
    }

    /// Treats any holder of an address as gone (`uid-from-cached-pod`), and the requester as alive (`liveness-from-cache`).
    pub(super) fn loosened<'n>(&self, exact: NewOwner<'n>) -> NewOwner<'n> {
        let policy = self.policy();
        let gone = exact.gone.filter(|_| !policy.uid_from_cached_pod);
        NewOwner { gone, makes: exact.makes || policy.liveness_from_cache || policy.uid_from_cached_pod, ..exact }
    }

    /// Whether a pool's `cleanGateway` is respected: always, or by chance (`random-clean-gateway`).
    pub(super) fn leaves_out_gateway(&self) -> bool {
        !self.policy().random_clean_gateway || self.op.agent.env.random().is_multiple_of(2)
    }

    /// Whether the entries of an endpoint are composed in one of upstream's ways.
    pub(super) fn assembles_otherwise(&self) -> bool {
        let policy = self.policy();
        policy.nameless_entry_lost || policy.answer_not_as_stored
    }

    /// The entries of an endpoint: NICs without a name are one NIC (`nameless-entry-lost`), and a kept entry stays unchanged
    /// (`answer-not-as-stored`).
    pub(super) fn assemble_otherwise(&self, base: Option<&SpiderEndpoint>, kept: Entries, mut new: NewEntries) -> Vec<IPAllocationDetail> {
        let policy = self.policy();
        if self.nameless && policy.nameless_entry_lost {
            first_is_eth0(&mut new);
        }
        let mut ips = match base {
            None if kept.is_empty() => new.into_iter().map(|(_, entry)| entry).collect(),
            _ if self.nameless && !policy.nameless_entry_lost => by_place(kept, new),
            _ if policy.answer_not_as_stored => by_first_name(kept, new),
            _ => by_name(kept, new),
        };
        if self.nameless && !policy.answer_not_as_stored {
            name_entry(&mut ips, &self.request.nic, select::nics(&self.pod).as_deref());
        }
        ips
    }
}

/// The first entry of each name. An empty name counts as a name.
fn by_first_name(kept: Entries, new: NewEntries) -> Vec<IPAllocationDetail> {
    let mut all: Vec<IPAllocationDetail> = kept.into_iter().map(|(_, entry)| entry).collect();
    for (_, entry) in new {
        if !all.iter().any(|other| other.interface == entry.interface) {
            all.push(entry);
        }
    }
    all
}

/// The pod that the cache shows under a name, whichever it is (`uid-from-cached-pod`).
///
/// # Errors
/// There is none, or it is not alive.
pub(super) fn shown(cached: Option<Arc<Pod>>, key: &ObjectKey) -> Result<Arc<Pod>, IpamError> {
    let pod = cached.ok_or_else(|| IpamError::MissingPod(key.clone()))?;
    if is_alive(&pod) { Ok(pod) } else { Err(SelectError::DeadPod.into()) }
}
