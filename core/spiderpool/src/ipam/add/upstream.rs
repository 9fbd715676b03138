//! Upstream's forms of some steps of an ADD: what it gives up after a change of pools, and how; and what it keeps in
//! its memory and takes from it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::attempt::{Add, Setback};
use super::fresh::Allocation;
use super::static_reuse::{StaticReuse, permits};
use crate::ipam::allocated_ip::{AllocatedIp, stored};
use crate::ipam::caches::Caches;
use crate::ipam::endpoints::{entries, has_finalizer, is_terminating, uid_of};
use crate::ipam::error::IpamError;
use crate::ipam::observer::{Cause, Observer, Step};
use crate::ranges::IpVersion;
use crate::select::PermittedPools;
use crate::{IPAllocationDetail, SpiderEndpoint};
use kube_machinery::client::Client;
use kube_machinery::env::Env;

impl<C: Client, V: Env, K: Caches, O: Observer> Add<'_, C, V, K, O> {
    /// Gives up entries, not addresses: there is one set of pools for both families of a NIC (A §6.3). Only the NIC of the request is
    /// compared (`static-reuse-skips-filter`), and a NIC without a name under its own name, too (`nameless-nic-always-changed`).
    pub(super) fn compare_entries(&self, known: &[IPAllocationDetail], permitted: &PermittedPools) -> StaticReuse {
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

    /// Upstream's way after a change of pools (A §6.3): the endpoint first, then the records. What is left of the endpoint.
    pub(super) async fn release_outdated(
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

    /// Upstream's way with a namesake's endpoint (A §5.3): by name, whatever is there by now.
    pub(super) async fn remove_by_name(&self, endpoint: &SpiderEndpoint) -> Result<(), IpamError> {
        if !is_terminating(endpoint) {
            self.op.mark(endpoint).await.map_err(|error| self.of_endpoint(error))?;
        }
        if has_finalizer(endpoint) {
            self.op.let_go(endpoint).await.map_err(|error| self.of_endpoint(error))?;
        }
        Ok(())
    }

    /// An address of an earlier try, whatever became of its record since (`failure-cache-unchecked`).
    pub(super) fn remembered(&self, allocation: &Allocation<'_>) -> Option<AllocatedIp> {
        let nic = allocation.nic;
        let known = self.op.agent.failures.of(&self.uid);
        let candidate = |known: &AllocatedIp| allocation.pools.iter().find(|candidate| known.nic == nic && candidate.name == known.pool);
        let (known, candidate) = known.iter().find_map(|known| Some((known, candidate(known)?)))?;
        let allocated = known.allocated_again(&candidate.pool, allocation.clean_gateway);
        let (pool, address) = (&*allocated.pool, allocated.address);
        self.op.observe(Step::FailureCacheUsed { uid: &self.uid, nic, pool, address });
        Some(allocated)
    }

    /// What a failure of some NICs leaves of the others (`partial-failure-keeps-records`): the next try finds it in the memory. Nameless,
    /// everything is forgotten (A §5.5).
    pub(super) fn keep_part(&self, allocated: Vec<AllocatedIp>) {
        if self.nameless {
            self.op.agent.failures.forget(&self.uid);
        } else if !allocated.is_empty() {
            self.remember(allocated);
        }
    }
}
