//! Reuse of the addresses that an endpoint names: those of this very pod, and those of its predecessor (A §5.3, §6.2, §6.3).
//!
//! Addresses that the pod cannot have any more are released once it has others. Until then its endpoint and the records stay: an address
//! that is disabled, excluded or reserved today may be permitted again tomorrow, and then the pod has it as before. A pool in deletion
//! never is. It waits for its last record (A §8.6), so a pod that waited for its address there would wait for ever, with everybody who
//! wants the pool back.

use std::net::IpAddr;
use std::sync::Arc;

use super::attempt::{Add, GivenUp, Setback};
use super::static_reuse::{StaticReuse, name_entry, permits};
use crate::ipam::allocated_ip::{Stored, stored};
use crate::ipam::answer::{AddAnswer, How};
use crate::ipam::caches::Caches;
use crate::ipam::endpoints::{EndpointOwnership, entries, is_unfinished, uid_of};
use crate::ipam::error::{IpamError, PoolError, of_pool};
use crate::ipam::failure_cache::Suspect;
use crate::ipam::observer::{Cause, Observer, Step};
use crate::ipam::op::{Op, by_pool};
use crate::ipam::pool_decide::{Fate, NewOwner, ReusedIp};
use crate::join::join_all;
use crate::ranges::{IpVersion, parse_range};
use crate::select::{self, PermittedPools, SelectError, permitted_pools};
use crate::validity::Keeper;
use crate::{IPAllocationDetail, Policy, SpiderEndpoint, SpiderIPPool, names};
use kube_machinery::client::Client;
use kube_machinery::env::Env;

impl<C: Client, V: Env, K: Caches, O: Observer> Add<'_, C, V, K, O> {
    /// The name under which the NIC of an entry allocates: in nameless mode its position.
    pub(super) fn nic_of(&self, place: usize, entry: &IPAllocationDetail) -> String {
        if self.nameless { place.to_string() } else { entry.interface.clone() }
    }

    /// Whether it has to be checked that the pools of an endpoint are still those that the pod should take addresses from. An answer that
    /// the pod had once stays (A S16), so the hardened form checks only a predecessor's endpoint; upstream leaves out VMs.
    pub(super) fn compares(&self, endpoint: &SpiderEndpoint) -> bool {
        let policy = self.policy();
        let kept = match self.keeper {
            Keeper::Nobody => false,
            Keeper::StatefulSet => true,
            Keeper::Vm => !policy.static_reuse_skips_filter,
        };
        kept && match self.ownership(endpoint) {
            EndpointOwnership::Own => policy.partial_pool_change_recreates,
            EndpointOwnership::Inherited => true,
            EndpointOwnership::Foreign => false,
        }
    }

    /// The addresses of an endpoint that the pod has to give up; waits for auto pools that do not exist yet (A §6.3).
    pub(super) async fn compare_when_settled(&self, endpoint: &SpiderEndpoint) -> Result<StaticReuse, IpamError> {
        let agent = self.op.agent;
        let mut left = agent.config.settings.subnet_pool_retries;
        loop {
            let error = match self.compare(endpoint) {
                Ok(static_reuse) => return Ok(static_reuse),
                Err(error) => error,
            };
            let waits =
                matches!(error, IpamError::Select(SelectError::SubnetNoAutoPool { .. } | SelectError::SubnetReconcileFailed { .. }));
            if !waits {
                self.tell_selection();
                return Err(error);
            }
            if left <= 1 || self.op.is_late() {
                self.tell_selection();
                self.leave_behind(endpoint).await;
                return Err(error);
            }
            left -= 1;
            self.wait_for_pools().await?;
        }
    }

    /// Reports a refusal for lack of a pool as a selection to the observer.
    fn tell_selection(&self) {
        let (asked, caches) = (self.asked(), &self.op.agent.caches);
        let selection = select::select_for(caches, &asked, &self.controller);
        let (request, pod, controller) = (self.request, &self.pod, &self.controller);
        self.op.observe(Step::Selected { request, pod, asked: &asked, cluster: caches, controller, selection: &selection });
    }

    /// Whether another pod runs the same VM as this one: then the two take part in a live migration, and an address that one of them gave
    /// up would be taken from the other (A S1, A S10, A W28). The other pod may not be that of the endpoint, which may be left from a
    /// failed migration.
    pub(super) async fn serves_a_running_vm(&self, endpoint: &SpiderEndpoint) -> Result<bool, IpamError> {
        Ok(uid_of(endpoint) != &*self.uid && self.has_another_pod_of_vm(self.op).await?)
    }

    /// Whether another pod of the same VM may run, whichever of the two endpoint and records name.
    pub(super) async fn has_another_pod_of_vm(&self, op: &Op<'_, C, V, K, O>) -> Result<bool, IpamError> {
        let asks = self.keeper == Keeper::Vm && !self.policy().static_reuse_skips_filter;
        Ok(asks && op.has_pod_of_vm(&self.key, |uid| *uid != *self.uid).await?)
    }

    /// Checks that old records of the pod may be dropped although there is no endpoint: an earlier ADD may have ended that of the VM, and
    /// taken over what another of its pods answers on (A W28). Then the pod has to wait until it is certain to keep them, or until the
    /// other one has ended.
    pub(super) async fn check_drops(&self) -> Result<(), Setback> {
        if self.keeper != Keeper::Vm {
            return Ok(());
        }
        if !self.endpoint_is_live {
            return Err(Setback::Again(IpamError::StaleEndpoint(self.key.clone())));
        }
        if self.has_another_pod_of_vm(self.op).await? { Err(IpamError::TerminatingEndpoint(self.key.clone()).into()) } else { Ok(()) }
    }

    /// The addresses of an endpoint that the pod has to give up (A A4).
    fn compare(&self, endpoint: &SpiderEndpoint) -> Result<StaticReuse, IpamError> {
        let (caches, asked) = (&self.op.agent.caches, self.asked());
        let static_reuse = if self.compares_otherwise() {
            self.compare_otherwise(endpoint)?
        } else {
            self.compare_addresses(entries(endpoint), &self.permitted(endpoint, true)?)
        };
        let mut places: Vec<usize> = static_reuse.given_up.iter().map(|(place, _)| *place).collect();
        places.dedup();
        let (request, pod, controller) = (self.request, &self.pod, &self.controller);
        self.op.observe(Step::PoolsCompared { request, pod, asked: &asked, cluster: caches, controller, endpoint, given_up: &places });
        Ok(static_reuse)
    }

    /// The pools from which the pod may take addresses on each NIC that the endpoint names; with `gate`, only those of enabled families.
    pub(super) fn permitted(&self, endpoint: &SpiderEndpoint, gate: bool) -> Result<PermittedPools, SelectError> {
        let (caches, asked) = (&self.op.agent.caches, self.asked());
        let mut permitted = permitted_pools(caches, &asked, &self.controller, gate)?;
        let mut more = Vec::new();
        // Most tiers answer for one NIC at a time. Once this ADD has transferred the endpoint to the pod, nobody compares the others.
        let others = entries(endpoint).iter().map(|entry| entry.interface.as_str());
        for nic in others.filter(|nic| !permitted.all_nics && !nic.is_empty() && *nic != &*self.request.nic) {
            if let Ok(of_nic) = permitted_pools(caches, &select::Request { nic, ..asked }, &self.controller, gate) {
                more.extend(of_nic.pools);
            }
        }
        permitted.pools.extend(more);
        Ok(permitted)
    }

    /// Gives up each address that is of none of the permitted pools, or that its pool may not allocate any more.
    pub(super) fn compare_addresses(&self, known: &[IPAllocationDetail], permitted: &PermittedPools) -> StaticReuse {
        let mut static_reuse = StaticReuse::default();
        let frees_all = self.policy().dropped_nic_frees_all && self.has_dropped_a_nic(known);
        for (place, entry) in known.iter().enumerate() {
            let nic = self.nic_of(place, entry);
            // No NIC has the address of an entry without a name yet, and none ever will unless the pod is nameless (A §2.4).
            let covered = permitted.all_nics || nic.is_empty() || permitted.pools.iter().any(|(of, ..)| *of == nic);
            for at in stored(entry) {
                let outside = !permits(permitted, &nic, at.family, at.pool);
                if (covered && outside) || frees_all || !self.is_usable(&at) {
                    static_reuse.given_up.insert((place, at.family));
                    let wanted = permitted.pools.iter().any(|(of, family, _)| *of == nic && *family == at.family);
                    if !covered || wanted {
                        static_reuse.incomplete.insert(place);
                    }
                }
            }
        }
        static_reuse
    }

    /// Whether the pod lacks one of the NICs that an endpoint names.
    fn has_dropped_a_nic(&self, known: &[IPAllocationDetail]) -> bool {
        select::nics(&self.pod)
            .is_some_and(|nics| known.iter().any(|entry| !entry.interface.is_empty() && !nics.contains(&entry.interface)))
    }

    /// Whether a pool, as the cache shows it, may still allocate this address.
    fn is_usable(&self, at: &Stored<'_>) -> bool {
        let agent = self.op.agent;
        let Some(pool) = agent.caches.pool(at.pool) else { return false };
        if pool.metadata.deletion_timestamp.is_some() || pool.spec.disable {
            return false;
        }
        if self.policy().reuse_in_first_range_only && !is_in_first_range(&pool, at, self.policy()) {
            return false;
        }
        let addresses = agent.addresses.addresses(&pool, &self.op.reservations(at.family), self.policy());
        addresses.is_ok_and(|addresses| addresses.is_usable(at.address.addr()))
    }

    /// Reuses the addresses of an endpoint. Returns the answer if they serve the NIC; `static_reuse` holds what is kept in any case.
    pub(super) async fn reuse(&mut self, endpoint: &SpiderEndpoint, static_reuse: &mut StaticReuse) -> Result<Option<AddAnswer>, Setback> {
        let verifies = !self.policy().unrecorded_answer;
        let own = self.ownership(endpoint) == EndpointOwnership::Own;
        let known = entries(endpoint);
        self.leave_unfinished(endpoint, static_reuse);
        static_reuse.keep(known);
        if !self.policy().one_record_per_pod {
            static_reuse.part(known);
        }
        if !known.iter().any(|entry| self.serves(entry)) && (own || self.policy().late_endpoint_create_fails) {
            return Ok(None);
        }
        if verifies && !self.endpoint_is_live {
            self.check_endpoint(endpoint).await?;
            self.endpoint_is_live = true;
        }
        self.exchange_avoided(endpoint, static_reuse);
        if !own && !self.suffices(static_reuse) {
            static_reuse.untaken = true;
            return Ok(None);
        }
        if verifies || self.keeper != Keeper::Nobody || !own {
            self.take_over(endpoint, static_reuse).await?;
        }
        if !self.answers(endpoint, static_reuse) {
            return Ok(None);
        }
        let how = if own && self.keeper == Keeper::Nobody { How::Existing } else { How::Reowned };
        let written = self.write_reused(endpoint, static_reuse).await;
        let given_up = given_up(endpoint, static_reuse);
        let written = match written {
            Ok(written) => written,
            Err(setback) => {
                self.given_up = given_up;
                return Err(setback);
            }
        };
        self.release_given_up(given_up, entries(&written)).await;
        // The two pods of a VM's live migration may ask at the same time, and each takes over what the other one has just taken over. A pod
        // that changed something checks once more, so that endpoint and records are left to the same pod.
        if verifies && self.keeper == Keeper::Vm && (!own || self.takes_over) {
            return Err(Setback::Again(IpamError::StaleEndpoint(self.key.clone())));
        }
        Ok(Some(self.answer_of(&written, how)))
    }

    /// Transfers the records of the kept addresses of an endpoint to the pod.
    async fn take_over(&mut self, endpoint: &SpiderEndpoint, static_reuse: &mut StaticReuse) -> Result<(), Setback> {
        let own = self.ownership(endpoint) == EndpointOwnership::Own;
        // The pod's own endpoint without the finalizer was left by a DEL of this very pod. Another sandbox may be that of a pod that only
        // caches show: a restarted kubelet on a lagging server starts it anew (K §5.5).
        if !own || self.is_let_go(endpoint) || self.holder().is_in_another_sandbox(endpoint) {
            self.confirm().await?;
        }
        let beside = self.stays_beside(endpoint, &[]);
        self.leave_strays_of_kept(&static_reuse.kept, beside.as_deref()).await?;
        let lost = self.reown_all(&static_reuse.kept, uid_of(endpoint), beside.as_deref()).await?;
        static_reuse.lose(lost, entries(endpoint));
        Ok(())
    }

    /// Whether an entry is for the NIC of the request. Only in nameless mode an entry gets its name from the request (A §2.4): any other
    /// answer would lack the NIC.
    pub(super) fn serves(&self, entry: &IPAllocationDetail) -> bool {
        let gives_names = self.nameless || self.policy().static_reuse_skips_filter;
        *entry.interface == *self.request.nic || (gives_names && entry.interface.is_empty())
    }

    /// Whether the request is answered with the kept entries of an endpoint. An endpoint that is marked for deletion is replaced first.
    fn answers(&self, endpoint: &SpiderEndpoint, static_reuse: &StaticReuse) -> bool {
        let reborn = self.ownership(endpoint) != EndpointOwnership::Foreign && self.ends(endpoint);
        !reborn && self.suffices(static_reuse)
    }

    /// Whether the kept entries of an endpoint satisfy the request. An entry that needs another address serves nobody yet; it gets one now
    /// if this ADD is for all NICs (A §2.4).
    fn suffices(&self, static_reuse: &StaticReuse) -> bool {
        let annotations = self.pod.metadata.annotations.as_ref();
        let for_all = annotations.is_some_and(|annotations| annotations.contains_key(names::ANNOTATION_IPPOOLS));
        let whole = !for_all || static_reuse.incomplete.is_empty();
        let serving = |(place, entry): &(usize, IPAllocationDetail)| self.serves(entry) && !static_reuse.incomplete.contains(place);
        whole && static_reuse.kept.iter().any(serving)
    }

    /// Gives up the rest of unfinished entries in pools that are being deleted: no ADD was answered with it yet, and such a pool gives it
    /// to nobody (A §3). But the pods of a VM's live migration may both be alive.
    fn leave_unfinished(&self, endpoint: &SpiderEndpoint, static_reuse: &mut StaticReuse) {
        let own = self.ownership(endpoint) == EndpointOwnership::Own;
        let leaves = own && self.keeper == Keeper::StatefulSet && !self.policy().static_reuse_skips_filter;
        let known = entries(endpoint).iter().enumerate();
        for (place, entry) in known.filter(|(_, entry)| is_unfinished(endpoint, &entry.interface)) {
            static_reuse.incomplete.insert(place);
            let going = stored(entry).filter(|at| leaves && self.is_going(at.pool));
            static_reuse.given_up.extend(going.map(|at| (place, at.family)));
        }
    }

    /// Exchanges addresses on which another host answered for others.
    fn exchange_avoided(&self, endpoint: &SpiderEndpoint, static_reuse: &mut StaticReuse) {
        let avoided = crate::ipam::endpoints::avoided(endpoint);
        if self.policy().conflict_returns_same_address || avoided.is_empty() {
            return;
        }
        for (place, entry) in std::mem::take(&mut static_reuse.kept) {
            for at in stored(&entry).filter(|at| avoided.contains(&at.address.addr())) {
                static_reuse.replace(place, at.family);
            }
        }
        static_reuse.keep(entries(endpoint));
    }

    /// Writes the endpoint with the entries that are kept, if that changes it.
    async fn write_reused(&mut self, endpoint: &SpiderEndpoint, static_reuse: &mut StaticReuse) -> Result<Arc<SpiderEndpoint>, Setback> {
        let known = entries(endpoint);
        self.leave_nics(static_reuse, known).await?;
        let (kept, unfinished) = static_reuse.entries(self.nameless, |_, _| false);
        let mut ips: Vec<IPAllocationDetail> = kept.into_iter().map(|(_, entry)| entry).collect();
        if self.nameless {
            name_entry(&mut ips, &self.request.nic, None);
        }
        let own = self.ownership(endpoint) == EndpointOwnership::Own;
        let elsewhere = endpoint.status.as_ref().is_some_and(|status| status.current.node != self.node());
        let changed = ips != known || !own || elsewhere || self.is_let_go(endpoint) || self.holder().is_in_another_sandbox(endpoint);
        if changed {
            self.write(Some(endpoint), ips, &unfinished, self.policy().late_endpoint_create_fails).await
        } else if self.made_records {
            self.keep_named(endpoint, &static_reuse.kept, ips, &unfinished).await
        } else {
            Ok(Arc::new(endpoint.clone()))
        }
    }

    /// Checks that the endpoint is still as the cache shows it: its addresses may have been released meanwhile.
    async fn check_endpoint(&self, known: &SpiderEndpoint) -> Result<(), Setback> {
        let live = self.op.get::<SpiderEndpoint>(&self.key).await.map_err(|error| self.of_endpoint(error))?;
        let version = live.as_ref().and_then(|live| live.metadata.resource_version.as_deref());
        if version == known.metadata.resource_version.as_deref() {
            return Ok(());
        }
        Err(Setback::Again(IpamError::StaleEndpoint(self.key.clone())))
    }

    /// Returns the pod's endpoint after missing records of it were made anew: the process that removed them may have removed the endpoint,
    /// too, and then it has to name the kept addresses again.
    async fn keep_named(
        &mut self,
        known: &SpiderEndpoint,
        kept: &[(usize, IPAllocationDetail)],
        ips: Vec<IPAllocationDetail>,
        unfinished: &[String],
    ) -> Result<Arc<SpiderEndpoint>, Setback> {
        let live = self.op.get::<SpiderEndpoint>(&self.key).await.map_err(|error| self.of_endpoint(error))?;
        match live {
            // The endpoint is deleted last: by now all records are gone that had to go.
            None if self.reown_all(kept, uid_of(known), None).await?.is_empty() => self.write(None, ips, unfinished, false).await,
            Some(live) if live.metadata.resource_version == known.metadata.resource_version => Ok(live),
            _ => Err(Setback::Again(IpamError::StaleEndpoint(self.key.clone()))),
        }
    }

    /// Transfers the records of entries to this pod. Returns the addresses that could not be had, by position and family (A RO1). `beside`:
    /// the other addresses that may stay recorded for their NICs; `None` = any.
    pub(super) async fn reown_all(
        &mut self,
        kept: &[(usize, IPAllocationDetail)],
        gone: &str,
        beside: Option<&[IpAddr]>,
    ) -> Result<Vec<(usize, IpVersion)>, Setback> {
        let of_entry = |(place, entry): &(usize, IPAllocationDetail)| {
            let (place, nic) = (*place, self.nic_of(*place, entry));
            let reused_ip = |at: Stored<'_>| (Arc::from(at.pool), (place, ReusedIp { ip: at.address.addr(), nic: nic.clone() }));
            stored(entry).map(reused_ip).collect::<Vec<_>>()
        };
        let pools = by_pool(kept.iter().flat_map(of_entry));
        if pools.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<Arc<str>> = pools.iter().map(|(pool, _)| pool.clone()).collect();
        let _tickets = self.op.tickets(&self.uid, &names).await?;
        if self.op.is_late() {
            return Err(IpamError::OutOfTime.into());
        }
        let max_records = self.op.agent.config.settings.select.max_allocated_ips;
        let (key, uid, policy) = (self.key.as_str(), &*self.uid, self.policy());
        let new_owner = self.loosened(NewOwner { key, uid, gone: Some(gone), beside, makes: false, max_records, policy });
        let results = join_all(pools.iter().map(|(pool, reused)| self.reown_of(pool, new_owner, reused)).collect()).await;
        let mut lost = Vec::new();
        let (mut failed, mut strayed) = (None, false);
        for ((pool, reused), result) in pools.iter().zip(results) {
            let places = reused.iter().map(|(place, reused_ip)| (*place, IpVersion::of(reused_ip.ip)));
            match result {
                Ok(fates) => {
                    self.note_fates(pool, reused, &fates);
                    lost.extend(places.zip(fates).filter(|(_, fate)| !fate.is_kept()).map(|(place, _)| place));
                }
                Err(PoolError::NotFound) if !self.policy().foreign_record_blocks => lost.extend(places),
                Err(PoolError::EndpointUnknown) => {
                    strayed = true;
                    // The next round reads the pool itself, whatever the cache shows.
                    for (_, reused_ip) in reused {
                        self.op.agent.failures.hold(&self.uid, Suspect { nic: reused_ip.nic.as_str().into(), pool: pool.clone() });
                    }
                }
                Err(error) => failed = failed.or(Some(of_pool(pool)(error))),
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None if strayed => Err(Setback::Again(IpamError::StaleEndpoint(self.key.clone()))),
            None => Ok(lost),
        }
    }

    /// Notes the fates of a pool's addresses.
    fn note_fates(&mut self, pool: &Arc<str>, reused: &[(usize, ReusedIp)], fates: &[Fate]) {
        self.takes_over |= fates.contains(&Fate::TakenOver);
        self.made_records |= fates.contains(&Fate::Made);
        let all = || reused.iter().zip(fates).map(|((_, reused_ip), fate)| (reused_ip, fate));
        let kept = all().filter(|(_, fate)| fate.is_kept());
        self.taken_over.extend(kept.map(|(reused_ip, _)| (pool.clone(), reused_ip.clone())));
        // An address that nobody has may be permitted again tomorrow.
        let taken = all().filter(|(_, fate)| **fate == Fate::OfAnotherPod);
        self.taken.extend(taken.map(|(reused_ip, _)| (pool.clone(), reused_ip.ip)));
    }

    async fn reown_of(&self, pool: &Arc<str>, new_owner: NewOwner<'_>, reused: &[(usize, ReusedIp)]) -> Result<Vec<Fate>, PoolError> {
        let reused: Vec<ReusedIp> = reused.iter().map(|(_, reused_ip)| reused_ip.clone()).collect();
        let addresses: Vec<IpAddr> = reused.iter().map(|reused_ip| reused_ip.ip).collect();
        let mut result = self.op.reown(pool, new_owner, &reused).await;
        let mut makes = new_owner.makes;
        while let Ok(fates) = &result {
            let third = fates.iter().find_map(|fate| if let Fate::Of(uid) = fate { Some(uid.clone()) } else { None });
            let missing = fates.contains(&Fate::Missing);
            if third.is_none() && !missing {
                break;
            }
            // A third pod of the name: whichever it was, this one is alive after the record was read, so that one is gone. A process that
            // removed the record may have believed this one to be gone; if it is alive after the record was missed, it gets it anew.
            self.check_alive().await.map_err(|error| PoolError::Replaced(error.to_string()))?;
            makes |= missing;
            let gone = third.as_deref().or(new_owner.gone);
            result = self.op.reown(pool, NewOwner { gone, makes, ..new_owner }, &reused).await;
        }
        let step = result.as_ref().map(drop);
        self.op.observe(Step::Reowned { pod: &self.key, uid: &self.uid, pool, addresses: &addresses, result: step });
        result
    }

    /// Releases the addresses that the pod gave up, once its endpoint names the ones it has instead.
    pub(super) async fn release_given_up(&mut self, given_up: GivenUp, now: &[IPAllocationDetail]) {
        let is_in_use = |ip: IpAddr| now.iter().flat_map(stored).any(|at| at.address.addr() == ip);
        let GivenUp { of, mut what } = given_up;
        what.retain(|(_, ip)| !is_in_use(*ip));
        if what.is_empty() {
            return;
        }
        self.taken_over.retain(|(_, taken)| !what.iter().any(|(_, ip)| *ip == taken.ip));
        // Records that are not removed now are left to reclaim, which finds them in no endpoint.
        let _ = self.op.take_back(&self.key, &of, Cause::PoolChange, &what).await;
        if of != *self.uid {
            let _ = self.op.take_back(&self.key, &self.uid, Cause::PoolChange, &what).await;
        }
    }

    /// Gives up the rest of entries that need another address and whose NIC the pod does not have, unlike its predecessor: no ADD will ask
    /// for the rest, and no endpoint names it. But the other pod of a VM's migration may have the NIC, and answer on the rest.
    pub(super) async fn leave_nics(&self, static_reuse: &mut StaticReuse, known: &[IPAllocationDetail]) -> Result<(), IpamError> {
        if self.nameless || self.policy().static_reuse_skips_filter || static_reuse.incomplete.is_empty() {
            return Ok(());
        }
        // If the networks cannot be read, the future NICs are unknown.
        let Some(nics) = select::nics(&self.pod) else { return Ok(()) };
        let is_left = |nic: &str| !nic.is_empty() && *nic != *self.request.nic && !nics.iter().any(|has| has == nic);
        let left = static_reuse.incomplete.iter().filter_map(|place| Some((*place, known.get(*place)?)));
        let left = left.filter(|(_, entry)| is_left(&entry.interface));
        let left: Vec<_> = left.flat_map(|(place, entry)| stored(entry).map(move |at| (place, at.family))).collect();
        if !left.is_empty() && !self.has_another_pod_of_vm(self.op).await? {
            static_reuse.given_up.extend(left);
            static_reuse.keep(known);
        }
        Ok(())
    }

    /// The given-up addresses of the pod in pools that are being deleted, as the cache shows them.
    pub(super) fn given_up_for_good(&self, endpoint: &SpiderEndpoint, static_reuse: &StaticReuse) -> Vec<(Arc<str>, IpAddr)> {
        // Upstream keeps it, whatever happens to the pool.
        if self.policy().static_reuse_skips_filter {
            return Vec::new();
        }
        let mut what = given_up(endpoint, static_reuse).what;
        what.retain(|(pool, _)| self.is_going(pool));
        what
    }

    /// Whether a pool is being deleted, as the cache shows it.
    fn is_going(&self, pool: &str) -> bool {
        self.op.agent.caches.pool(pool).is_some_and(|pool| pool.metadata.deletion_timestamp.is_some())
    }

    /// Releases the predecessor's addresses in pools that are being deleted, for a pod whose own auto pool does not exist.
    ///
    /// A StatefulSet that is created again under its name has new pools, and they may have to wait for the addresses that the old ones hold
    /// in the subnet; or for the subnet itself, which is being deleted and is removed after its last pool. The VM's pods of a live
    /// migration may both be alive.
    pub(super) async fn leave_behind(&self, endpoint: &SpiderEndpoint) {
        if self.policy().static_reuse_skips_filter || self.keeper != Keeper::StatefulSet {
            return;
        }
        let all = entries(endpoint).iter().flat_map(stored).map(|at| (Arc::from(at.pool), at.address.addr()));
        let what: Vec<(Arc<str>, IpAddr)> = all.filter(|(pool, _): &(Arc<str>, _)| self.is_going(pool)).collect();
        if !what.is_empty() {
            // Records that stay now are removed when the next ADD finds no pool.
            let _ = self.leave_pools(uid_of(endpoint), &what).await;
        }
    }

    /// Removes the records of addresses in pools that are being deleted, though the pod has no replacement yet.
    ///
    /// The endpoint names them until the pod is served: if a pool of that name exists by then, with the address free, the pod gets its
    /// address back. The records may be those of any pod of the name whose ADD came that far.
    pub(super) async fn leave_pools(&self, endpoint_uid: &str, what: &[(Arc<str>, IpAddr)]) -> Result<(), IpamError> {
        // The records, by their UIDs.
        let mut found = Vec::new();
        for (name, ips) in by_pool(what.iter().cloned()) {
            let Some(pool) = self.op.pool(&name).await?.filter(|pool| pool.metadata.deletion_timestamp.is_some()) else { continue };
            let records = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok());
            let of_name = |ip: &IpAddr| records.and_then(|records| records.get(*ip)).filter(|record| record.pod == self.key.as_str());
            for ip in ips {
                let Some(record) = of_name(&ip) else { continue };
                // The pods of a VM's live migration have one name, and both are alive.
                let known = [endpoint_uid, &*self.uid].contains(&record.pod_uid.as_str());
                if known || self.keeper != Keeper::Vm {
                    found.push((Arc::from(record.pod_uid.as_str()), (name.clone(), ip)));
                }
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        // Whichever pods these are: this one is alive after their records were read, so they are gone.
        self.check_alive().await?;
        for (uid, what) in by_pool(found) {
            self.op.take_back(&self.key, &uid, Cause::PoolChange, &what).await?;
        }
        Ok(())
    }
}

/// Whether an address is in the first range of its pool.
fn is_in_first_range(pool: &SpiderIPPool, at: &Stored<'_>, policy: &Policy) -> bool {
    let first = pool.spec.ips.iter().flatten().next();
    let range = first.and_then(|text| parse_range(text, at.family.number(), policy).ok());
    range.is_some_and(|range| range.contains(at.address.addr()))
}

/// The addresses of an endpoint that are given up, except those that one of its NICs keeps.
pub(super) fn given_up(endpoint: &SpiderEndpoint, static_reuse: &StaticReuse) -> GivenUp {
    let all = entries(endpoint);
    let of = |&(place, family): &(usize, _)| all.get(place).into_iter().flat_map(stored).filter(move |at| at.family == family);
    let kept = |at: &Stored<'_>| static_reuse.kept.iter().flat_map(|(_, entry)| stored(entry)).any(|kept| kept.address == at.address);
    let given_up = static_reuse.given_up.iter().flat_map(of).filter(|at| !kept(at));
    let what = given_up.map(|at| (Arc::from(at.pool), at.address.addr())).collect();
    GivenUp { of: uid_of(endpoint).to_owned(), what }
}
