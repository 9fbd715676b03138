//! Using again the addresses that an endpoint names: those of this very pod, and those of its predecessor (A §5.3, §6.2, §6.3).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::add::{Add, Setback};
use super::answer::{AddAnswer, How};
use super::caches::Caches;
use super::drawn::{Stored, stored, without};
use super::endpoints::{entries, has_finalizer, is_terminating, is_unfinished, uid_of};
use super::error::{IpamError, PoolError};
use super::observer::{Cause, Observer, Step};
use super::op::of_pool;
use super::pool_decide::{Fate, Heir, Heirloom};
use super::release::by_pool;
use super::standing::Standing;
use crate::client::Client;
use crate::env::Env;
use crate::kubevirt::VirtualMachineInstance;
use crate::spiderpool::join::join_all;
use crate::spiderpool::ranges::IpVersion;
use crate::spiderpool::select::{self, PermittedPools, SelectError, named_pools, permitted_pools};
use crate::spiderpool::validity::Keeper;
use crate::spiderpool::{IPAllocationDetail, SpiderEndpoint, names};

/// Entries of an endpoint, with their places.
pub(super) type Entries = Vec<(usize, IPAllocationDetail)>;

/// What becomes of the entries of an endpoint, by their places.
#[derive(Debug, Default)]
pub(super) struct Inheritance {
    /// Addresses that the pod cannot have any more, by place and family.
    pub(super) given_up: BTreeSet<(usize, IpVersion)>,
    /// Places that need another address instead.
    pub(super) incomplete: BTreeSet<usize>,
    /// The entries, without the addresses that are given up.
    pub(super) kept: Entries,
    /// Whether the records of these are the predecessor's still, because it is not sure yet that the pod can have the rest.
    pub(super) untaken: bool,
}

impl Inheritance {
    /// Gives up an address for another.
    fn replace(&mut self, place: usize, family: IpVersion) {
        self.given_up.insert((place, family));
        self.incomplete.insert(place);
    }

    /// Whether a NIC need not draw an address of a family: its entry has one, or lacks none.
    pub(super) fn has(&self, nameless: bool, place: usize, nic: &str, family: IpVersion) -> bool {
        let mut kept = self.kept.iter().filter(|(at, entry)| if nameless { *at == place } else { entry.interface == nic });
        let given = |(at, entry): &(usize, IPAllocationDetail)| {
            !self.incomplete.contains(at) || stored(entry).any(|stored| stored.family == family)
        };
        kept.any(given)
    }

    /// Gives up addresses for others.
    pub(super) fn lose(&mut self, lost: Vec<(usize, IpVersion)>, entries: &[IPAllocationDetail]) {
        for (place, family) in lost {
            self.replace(place, family);
        }
        self.keep(entries);
    }

    /// What is kept in the endpoint, and the NICs of which another ADD has to draw what they lack; this one draws for those that `draws` is true of.
    ///
    /// NICs without a name have one ADD for all of them. What it does not draw for, the pod does not have.
    pub(super) fn entries(&self, nameless: bool, draws: impl Fn(usize, &IPAllocationDetail) -> bool) -> (Entries, Vec<String>) {
        let (mut kept, mut unfinished) = (Vec::with_capacity(self.kept.len()), Vec::new());
        for (place, entry) in &self.kept {
            if self.incomplete.contains(place) && !draws(*place, entry) {
                if nameless || entry.interface.is_empty() {
                    continue;
                }
                unfinished.push(entry.interface.clone());
            }
            kept.push((*place, entry.clone()));
        }
        (kept, unfinished)
    }

    /// Takes over the entries of an endpoint, without what is given up.
    pub(super) fn keep(&mut self, entries: &[IPAllocationDetail]) {
        let mut kept = Vec::with_capacity(entries.len());
        for (place, entry) in entries.iter().enumerate() {
            let lost = |family: &IpVersion| self.given_up.contains(&(place, *family));
            let rest = IpVersion::ALL.into_iter().filter(lost).fold(entry.clone(), |rest, family| without(&rest, family));
            let untouched = !IpVersion::ALL.iter().any(lost);
            if untouched || stored(&rest).next().is_some() {
                kept.push((place, rest));
            }
        }
        self.kept = kept;
    }
}

/// Whether an address of an entry may be used again, as far as pools are concerned.
pub(super) fn permits(permitted: &PermittedPools, nic: &str, family: IpVersion, pool: &str) -> bool {
    permitted.pools.iter().any(|(of, version, names)| of == nic && *version == family && names.contains(pool))
}

/// Gives the NIC of a request its entry (A §2.4): the one with its name, else the first without a name, which gets the name.
pub(super) fn claim<'e>(entries: impl IntoIterator<Item = &'e mut IPAllocationDetail>, nic: &str) {
    let mut free = None;
    for entry in entries {
        if entry.interface == nic {
            return;
        }
        if free.is_none() && entry.interface.is_empty() {
            free = Some(entry);
        }
    }
    if let Some(entry) = free {
        nic.clone_into(&mut entry.interface);
    }
}

impl<C: Client, V: Env, K: Caches, O: Observer> Add<'_, C, V, K, O> {
    /// The name under which the NIC of an entry draws: in nameless mode its place.
    pub(super) fn nic_of(&self, place: usize, entry: &IPAllocationDetail) -> String {
        if self.nameless { place.to_string() } else { entry.interface.clone() }
    }

    /// Whether it is to be checked that the pools of an endpoint are still those that the pod is to draw from. An answer that
    /// the pod had once stays (A S16), so the hardened form looks at a predecessor's only; upstream leaves out VMs.
    pub(super) fn compares(&self, endpoint: &SpiderEndpoint) -> bool {
        let policy = self.policy();
        let kept = match self.keeper {
            Keeper::Nobody => false,
            Keeper::StatefulSet => true,
            Keeper::Vm => !policy.static_reuse_skips_filter,
        };
        kept && match self.standing(endpoint) {
            Standing::Own => policy.partial_pool_change_recreates,
            Standing::Inherited => true,
            Standing::Foreign => false,
        }
    }

    /// What the pod is to give up of an endpoint; auto pools that are not there yet are waited for (A §6.3).
    pub(super) async fn compare_when_settled(&self, endpoint: &SpiderEndpoint) -> Result<Inheritance, IpamError> {
        let agent = self.op.agent;
        let mut left = agent.config.settings.subnet_pool_retries;
        loop {
            let error = match self.compare(endpoint) {
                Ok(inheritance) => return Ok(inheritance),
                Err(error) => error,
            };
            let waits =
                matches!(error, IpamError::Select(SelectError::SubnetNoAutoPool { .. } | SelectError::SubnetReconcileFailed { .. }));
            if !waits {
                return Err(error);
            }
            if left <= 1 || self.op.is_late() {
                // What is refused for want of a pool is a selection for whoever looks on.
                let asked = self.asked();
                let selection = select::select_for(&agent.caches, &asked, &self.controller);
                let (request, controller) = (self.request, &self.controller);
                self.op.observe(Step::Selected { request, asked: &asked, cluster: &agent.caches, controller, selection: &selection });
                self.leave_behind(endpoint).await;
                return Err(error);
            }
            left -= 1;
            self.wait_for_pools().await?;
        }
    }

    /// Whether the pod that an endpoint is for runs the same VM as this one: then they are the two of a live migration, and what
    /// one of them gave up would be taken from under the other (A S10, W28).
    pub(super) async fn serves_a_running_vm(&self, endpoint: &SpiderEndpoint) -> Result<bool, IpamError> {
        if self.keeper != Keeper::Vm || self.policy().static_reuse_skips_filter || uid_of(endpoint) == &*self.uid {
            return Ok(false);
        }
        let instance = self.op.get::<VirtualMachineInstance>(&self.key).await;
        let instance = instance.map_err(|error| IpamError::Reading { what: "VirtualMachineInstance", error })?;
        let active = instance.as_ref().and_then(|instance| instance.status.as_ref()).map(|status| &status.active_pods);
        Ok(active.is_some_and(|active| active.contains_key(uid_of(endpoint))))
    }

    /// What the pod is to give up of an endpoint (A A4).
    fn compare(&self, endpoint: &SpiderEndpoint) -> Result<Inheritance, IpamError> {
        let (policy, caches, asked) = (self.policy(), &self.op.agent.caches, self.asked());
        let gate = !policy.static_reuse_before_gating;
        let permitted = if policy.static_reuse_skips_filter {
            PermittedPools { all_nics: false, pools: named_pools(caches, &asked, &self.controller, gate)? }
        } else {
            let mut permitted = permitted_pools(caches, &asked, &self.controller, gate)?;
            let mut more = Vec::new();
            // Most tiers are asked for one NIC at a time. Once this ADD has made the endpoint the pod's own nobody compares the others.
            let others = entries(endpoint).iter().map(|entry| entry.interface.as_str());
            for nic in others.filter(|nic| !permitted.all_nics && !nic.is_empty() && *nic != &*self.request.nic) {
                if let Ok(of_nic) = permitted_pools(caches, &select::Request { nic, ..asked }, &self.controller, gate) {
                    more.extend(of_nic.pools);
                }
            }
            permitted.pools.extend(more);
            permitted
        };
        let entries = entries(endpoint);
        let mut inheritance = Inheritance::default();
        for (place, entry) in entries.iter().enumerate() {
            let nic = self.nic_of(place, entry);
            let asked_for = *entry.interface == *self.request.nic;
            let covered = permitted.all_nics || permitted.pools.iter().any(|(of, ..)| *of == nic);
            for at in stored(entry) {
                let outside = !permits(&permitted, &nic, at.family, at.pool);
                // Upstream gives up an entry, not an address, and has one set of pools for both families of a NIC (A §6.3).
                let unnamed = |nic: &str| !IpVersion::ALL.iter().any(|family| permits(&permitted, nic, *family, at.pool));
                let changed = if policy.nameless_nic_always_changed && self.nameless {
                    unnamed(&nic) || (asked_for && unnamed(&entry.interface))
                } else if policy.static_reuse_skips_filter {
                    (asked_for || self.nameless) && unnamed(&nic)
                } else {
                    if (covered && outside) || !self.is_usable(&at) {
                        inheritance.given_up.insert((place, at.family));
                        let wanted = permitted.pools.iter().any(|(of, family, _)| *of == nic && *family == at.family);
                        if !covered || wanted {
                            inheritance.incomplete.insert(place);
                        }
                    }
                    continue;
                };
                if changed {
                    IpVersion::ALL.into_iter().for_each(|family| inheritance.replace(place, family));
                }
            }
        }
        let mut places: Vec<usize> = inheritance.given_up.iter().map(|(place, _)| *place).collect();
        places.dedup();
        let (request, controller) = (self.request, &self.controller);
        self.op.observe(Step::PoolsCompared { request, asked: &asked, cluster: caches, controller, endpoint, given_up: &places });
        Ok(inheritance)
    }

    /// Whether a pool, as the cache shows it, may still give this address away.
    fn is_usable(&self, at: &Stored<'_>) -> bool {
        let agent = self.op.agent;
        let Some(pool) = agent.caches.pool(at.pool) else { return false };
        if pool.metadata.deletion_timestamp.is_some() || pool.spec.disable {
            return false;
        }
        let addresses = agent.addresses.addresses(&pool, &self.op.reservations(at.family), self.policy());
        addresses.is_ok_and(|addresses| addresses.is_usable(at.address.addr()))
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

    /// Uses the addresses of an endpoint again: the answer, if they serve the NIC; what is kept in any case.
    pub(super) async fn reuse(&mut self, endpoint: &SpiderEndpoint, inheritance: &mut Inheritance) -> Result<Option<AddAnswer>, Setback> {
        let policy = *self.policy();
        let own = self.standing(endpoint) == Standing::Own;
        let serves = |entry: &IPAllocationDetail| *entry.interface == *self.request.nic || entry.interface.is_empty();
        let known = entries(endpoint);
        let unfinished = known.iter().enumerate().filter(|(_, entry)| is_unfinished(endpoint, &entry.interface));
        inheritance.incomplete.extend(unfinished.map(|(place, _)| place));
        inheritance.keep(known);
        if !known.iter().any(serves) && (own || policy.late_endpoint_create_fails) {
            return Ok(None);
        }
        if !self.endpoint_is_live && !policy.unrecorded_answer {
            self.check_endpoint(endpoint).await?;
            self.endpoint_is_live = true;
        }
        let avoided = super::endpoints::avoided(endpoint);
        if !policy.conflict_returns_same_address && !avoided.is_empty() {
            for (place, entry) in std::mem::take(&mut inheritance.kept) {
                for at in stored(&entry).filter(|at| avoided.contains(&at.address.addr())) {
                    inheritance.replace(place, at.family);
                }
            }
            inheritance.keep(known);
        }
        // An entry that needs another address serves nobody yet. It gets one now if this ADD is for all NICs (A §2.4).
        let annotations = self.pod.metadata.annotations.as_ref();
        let for_all = annotations.is_some_and(|annotations| annotations.contains_key(names::ANNOTATION_IPPOOLS));
        let reborn = own && is_terminating(endpoint) && !policy.terminating_endpoint_reused && !policy.adopt_stale_endpoint;
        let answers = |inheritance: &Inheritance| {
            let whole = !for_all || inheritance.incomplete.is_empty();
            let serving = |(place, entry): &(usize, IPAllocationDetail)| serves(entry) && !inheritance.incomplete.contains(place);
            whole && !reborn && inheritance.kept.iter().any(serving)
        };
        if !own && !answers(inheritance) {
            inheritance.untaken = true;
            return Ok(None);
        }
        if self.keeper != Keeper::Nobody || !own || !policy.unrecorded_answer {
            // Its own endpoint without the finalizer is what a DEL of this very pod has left.
            if !own || self.is_let_go(endpoint) {
                self.confirm().await?;
            }
            let lost = self.reown_all(&inheritance.kept, uid_of(endpoint)).await?;
            inheritance.lose(lost, known);
        }
        if !answers(inheritance) {
            return Ok(None);
        }
        self.leave_nics(inheritance, known);
        let (kept, unfinished) = inheritance.entries(self.nameless, |_, _| false);
        let mut ips: Vec<IPAllocationDetail> = kept.into_iter().map(|(_, entry)| entry).collect();
        if self.nameless {
            claim(&mut ips, &self.request.nic);
        }
        let how = if own && self.keeper == Keeper::Nobody { How::Existing } else { How::Reowned };
        let elsewhere = endpoint.status.as_ref().is_some_and(|status| status.current.node != self.node());
        let changed = ips != known || !own || elsewhere || self.is_let_go(endpoint) || self.holder().is_in_another_sandbox(endpoint);
        let written = if changed {
            self.write(Some(endpoint), ips, &unfinished, policy.late_endpoint_create_fails).await?
        } else {
            Arc::new(endpoint.clone())
        };
        self.release_given_up(endpoint, inheritance, entries(&written)).await;
        Ok(Some(self.answer_of(&written, how)))
    }

    /// What the cache shows of the endpoint is so still: its addresses may have been taken back meanwhile.
    async fn check_endpoint(&self, known: &SpiderEndpoint) -> Result<(), Setback> {
        let live = self.op.get::<SpiderEndpoint>(&self.key).await.map_err(|error| self.of_endpoint(error))?;
        let version = live.as_ref().and_then(|live| live.metadata.resource_version.as_deref());
        if version == known.metadata.resource_version.as_deref() {
            return Ok(());
        }
        Err(Setback::Again(IpamError::StaleEndpoint(self.key.clone())))
    }

    /// Makes the records of entries over to this pod; the addresses that could not be had, by place and family (A RO1).
    pub(super) async fn reown_all(&self, kept: &[(usize, IPAllocationDetail)], gone: &str) -> Result<Vec<(usize, IpVersion)>, IpamError> {
        let policy = self.policy();
        let of_entry = |(place, entry): &(usize, IPAllocationDetail)| {
            let (place, nic) = (*place, self.nic_of(*place, entry));
            let heirloom = |at: Stored<'_>| (Arc::from(at.pool), (place, Heirloom { ip: at.address.addr(), nic: nic.clone() }));
            stored(entry).map(heirloom).collect::<Vec<_>>()
        };
        let pools = by_pool(kept.iter().flat_map(of_entry));
        if pools.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<Arc<str>> = pools.iter().map(|(pool, _)| pool.clone()).collect();
        let _tickets = self.op.tickets(&self.uid, &names).await?;
        if self.op.is_late() {
            return Err(IpamError::OutOfTime);
        }
        let max_records = self.op.agent.config.settings.select.max_allocated_ips;
        let gone = (!policy.uid_from_cached_pod).then_some(gone);
        let heir = Heir { key: self.key.as_str(), uid: &self.uid, gone, max_records, policy };
        let results = join_all(pools.iter().map(|(pool, heirlooms)| self.reown_of(pool, heir, heirlooms)).collect()).await;
        let mut lost = Vec::new();
        let mut failed = None;
        for ((pool, heirlooms), result) in pools.iter().zip(results) {
            let places = heirlooms.iter().map(|(place, heirloom)| (*place, IpVersion::of(heirloom.ip)));
            match result {
                Ok(fates) => lost.extend(places.zip(fates).filter(|(_, fate)| *fate != Fate::Kept).map(|(place, _)| place)),
                Err(PoolError::NotFound) if !policy.foreign_record_blocks => lost.extend(places),
                Err(error) => failed = failed.or(Some(of_pool(pool)(error))),
            }
        }
        failed.map_or(Ok(lost), Err)
    }

    async fn reown_of(&self, pool: &Arc<str>, heir: Heir<'_>, heirlooms: &[(usize, Heirloom)]) -> Result<Vec<Fate>, PoolError> {
        let heirlooms: Vec<Heirloom> = heirlooms.iter().map(|(_, heirloom)| heirloom.clone()).collect();
        let addresses: Vec<IpAddr> = heirlooms.iter().map(|heirloom| heirloom.ip).collect();
        let mut result = self.op.reown(pool, heir, &heirlooms).await;
        // A third pod of the name: whichever it was, this one is alive after its record was read, so that one is gone.
        while let Ok(fates) = &result
            && let Some(third) = fates.iter().find_map(|fate| if let Fate::Of(uid) = fate { Some(uid.clone()) } else { None })
        {
            self.check_alive().await.map_err(|error| PoolError::Replaced(error.to_string()))?;
            result = self.op.reown(pool, Heir { gone: Some(&third), ..heir }, &heirlooms).await;
        }
        let step = result.as_ref().map(drop);
        self.op.observe(Step::Reowned { pod: &self.key, uid: &self.uid, pool, addresses: &addresses, result: step });
        result
    }
}
