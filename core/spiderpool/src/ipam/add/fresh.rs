//! Allocation of addresses from pools: select, wait for tickets, allocate for each NIC and family, write the endpoint (A §5.2, A8 to A16).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::attempt::{Add, Ledger, Setback};
use super::reuse::given_up;
use super::static_reuse::{Entries, StaticReuse, leave_names, name_entry, permits};
use crate::ipam::allocated_ip::{AllocatedIp, add_routes, complete, details, stored, told_of_allocated};
use crate::ipam::answer::{AddAnswer, How};
use crate::ipam::caches::Caches;
use crate::ipam::endpoints::{EndpointOwnership, avoided, entries, uid_of};
use crate::ipam::error::{Failure, Failures, IpamError, PoolError};
use crate::ipam::failure_cache::Suspect;
use crate::ipam::observer::{Cause, Observer, Step};
use crate::ipam::op::{by_pool, distinct, recorded};
use crate::ipam::pool_decide::Ask;
use crate::join::join_all;
use crate::ranges::IpVersion;
use crate::select::{self, FamilySelection, NicSelection, SelectError, Selection, permitted_pools, select_for, tries};
use crate::{IPAllocationDetail, SpiderEndpoint, SpiderIPPool};
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// One NIC and family that needs an address.
pub(super) struct Allocation<'a> {
    pub(super) nic: &'a str,
    pub(super) clean_gateway: bool,
    family: IpVersion,
    /// The pools, in the order in which they are tried.
    pub(super) pools: Vec<Candidate>,
    /// The index of the pool that is being tried, or that has allocated the address.
    current: AtomicUsize,
}

/// A pool that is tried.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) name: Arc<str>,
    pub(super) pool: Arc<SpiderIPPool>,
    /// Whether it already holds a record of this pod and NIC, as far as this process knows: from an earlier round or try, or by the cache.
    pub(super) held: bool,
}

/// The entries of NICs that got addresses, each with the name under which the NIC allocated.
pub(super) type NewEntries = Vec<(String, IPAllocationDetail)>;

/// The outcome of an allocation.
enum AllocationResult {
    Address { allocated: AllocatedIp, recorded: bool },
    Nothing { failure: Failure, unsettled: Option<Arc<str>> },
}

fn name_of(pool: &SpiderIPPool) -> Arc<str> {
    pool.metadata.name.as_deref().unwrap_or_default().into()
}

impl<C: Client, V: Env, K: Caches, O: Observer> Add<'_, C, V, K, O> {
    /// A A8: selects the pools. Waits for auto pools that do not exist yet or do not have their size (A §2.2).
    ///
    /// Full pools of a NIC do not matter if the NIC already `has` its addresses.
    async fn selection(&self, has: &(impl Fn(usize, &str, IpVersion) -> bool + Sync)) -> Result<Selection, IpamError> {
        let agent = self.op.agent;
        let mut left = agent.config.settings.subnet_pool_retries;
        let mut made = false;
        loop {
            let selection = {
                let asked = select::Request { made, ..self.asked() };
                let selection = select_for(&agent.caches, &asked, &self.controller);
                let (request, pod, controller) = (self.request, &self.pod, &self.controller);
                self.op.observe(Step::Selected { request, pod, asked: &asked, cluster: &agent.caches, controller, selection: &selection });
                selection
            };
            let waits = matches!(selection.error, Some(SelectError::SubnetNoAutoPool { .. } | SelectError::SubnetReconcileFailed { .. }));
            // Two agents that ask for different sizes would change the pool in turn, and wait for each other.
            let serves = made && selection.error.is_none();
            if serves || !(waits || selection.unsettled) || left <= 1 || self.op.is_late() {
                let mut nics = selection.nics.iter().enumerate();
                let serves = |(place, nic): (usize, &NicSelection)| {
                    nic.families.iter().all(|family| has(place, &nic.nic, family.family) || !family.order.is_empty())
                };
                let served = matches!(selection.error, Some(SelectError::AllFiltered { .. })) && nics.all(serves);
                return if served { Ok(selection) } else { Ok(selection.into_result()?) };
            }
            left -= 1;
            let lacks = made || matches!(selection.error, Some(SelectError::SubnetReconcileFailed { .. }));
            if lacks && self.makes_its_pools() {
                made = self.make_pools().await?;
            }
            self.wait_for_pools().await?;
        }
    }

    /// The order in which pools are tried. In the hardened form a pool that is known to hold a record of this pod and NIC goes first:
    /// whatever happened to an earlier try, no second record is made.
    fn order(&self, nic: &str, family: &FamilySelection, ledger: &Ledger, suspects: &[Suspect]) -> Vec<Candidate> {
        let (policy, agent) = (self.policy(), self.op.agent);
        let below = |bound: usize| (agent.env.random() % bound as u64) as usize;
        let candidate = |pool: Arc<SpiderIPPool>| Candidate { name: name_of(&pool), pool, held: false };
        let mut order: Vec<_> = tries(&family.order, policy, below).into_iter().map(candidate).collect();
        if policy.one_record_per_pod {
            return order;
        }
        let is_meant = |allocated: &&AllocatedIp| allocated.nic == nic && IpVersion::of(allocated.address.addr()) == family.family;
        let recorded = ledger.recorded.iter().chain(&ledger.found);
        let mut mine: Vec<Arc<str>> = recorded.filter(is_meant).map(|allocated| allocated.pool.clone()).collect();
        if !mine.is_empty() {
            mine.sort_unstable();
            mine.dedup();
            order.extend(self.left_out(nic, family, &mine));
        }
        if order.len() > 1 {
            let asked = self.asked();
            let asker = asked.asker(nic);
            // The cache may not show yet the records that a failed ADD could not remove.
            let left = if policy.partial_failure_keeps_records { Vec::new() } else { agent.failures.of(&self.uid) };
            let is_left_in = |name: &Arc<str>| left.iter().any(|allocated| allocated.pool == *name && is_meant(&allocated));
            for Candidate { name, pool, held } in &mut order {
                let is_suspect = suspects.iter().any(|suspect| *suspect.nic == *nic && suspect.pool == *name);
                *held = is_suspect || is_left_in(name) || mine.contains(name) || asker.holds(pool);
            }
            order.sort_by_key(|candidate| !candidate.held);
        }
        order
    }

    /// Orders the pools again after the wait for their tickets: the cache may show by now that one of them holds a record of a NIC, as a
    /// request of an earlier run of this process can have been carried out meanwhile.
    fn order_again(&self, allocations: &mut [Allocation<'_>]) {
        if self.policy().one_record_per_pod {
            return;
        }
        let (asked, caches) = (self.asked(), &self.op.agent.caches);
        for Allocation { nic, pools, .. } in allocations.iter_mut().filter(|allocation| allocation.pools.len() > 1) {
            let asker = asked.asker(nic);
            for candidate in &mut *pools {
                candidate.held |= caches.pool(&candidate.name).is_some_and(|pool| asker.holds(&pool));
            }
            pools.sort_by_key(|candidate| !candidate.held);
        }
    }

    /// The pools that surely hold a record of this NIC although the cache shows them as exhausted: it may show all records but this one.
    fn left_out(&self, nic: &str, family: &FamilySelection, mine: &[Arc<str>]) -> Vec<Candidate> {
        let caches = &self.op.agent.caches;
        let is_in = |name: &str| family.order.iter().flatten().any(|pool| pool.metadata.name.as_deref() == Some(name));
        if mine.iter().all(|pool| is_in(pool)) {
            return Vec::new();
        }
        let Ok(permitted) = permitted_pools(caches, &select::Request { nic, ..self.asked() }, &self.controller, true) else {
            return Vec::new();
        };
        let left_out = mine.iter().filter(|pool| !is_in(pool) && permits(&permitted, nic, family.family, pool));
        left_out.filter_map(|name| Some(Candidate { name: name.clone(), pool: caches.pool(name)?, held: false })).collect()
    }

    /// Looks for records of the pod's NICs in newly read pools, where the NIC begins with another pool: an earlier run of this process made
    /// them, and the cache did not show them when the pools were ordered. The next round takes them into account (A W1).
    ///
    /// Records `known` at the start of this round are dealt with. `mine` are the records of this ADD, and `named` is what the endpoint
    /// keeps. The pool that the NIC has reached meanwhile shows what this round itself records, maybe before the answer to that write
    /// arrives.
    fn finds_strays(
        &self,
        allocations: &[Allocation<'_>],
        pools: &[Arc<SpiderIPPool>],
        known: &[Suspect],
        mine: &[IpAddr],
        named: Option<&[IpAddr]>,
    ) -> bool {
        // Those of upstream's forms that allocate beside such a record should do so here, too.
        if self.keeps_strays() || self.policy().further_nic_draws_again {
            return false;
        }
        let is_stray = |ip: &IpAddr| !mine.contains(ip) && !named.is_some_and(|named| named.contains(ip));
        let mut found = false;
        for pool in pools {
            let name = name_of(pool);
            for (ip, record) in recorded(pool, Some(&self.key), &self.uid).filter(|(ip, _)| is_stray(ip)) {
                let is_for = |of: &&Allocation<'_>| record.interface.as_deref() == Some(of.nic) && of.family == IpVersion::of(ip);
                let Some(of) = allocations.iter().find(is_for) else { continue };
                let current = of.current.load(Ordering::Relaxed);
                let mut places = of.pools.iter().enumerate();
                let is_asked = places.any(|(at, candidate)| (at == 0 || at == current || candidate.held) && candidate.name == name);
                let suspect = Suspect { nic: of.nic.into(), pool: name.clone() };
                if !is_asked && !known.contains(&suspect) {
                    self.op.agent.failures.hold(&self.uid, suspect);
                    found = true;
                }
            }
        }
        found
    }

    /// Whether a write may be under way that removes records of this pod: from a roll-back with unknown outcome, or from this process
    /// before it was restarted.
    fn may_be_withdrawn(&self, pool: &Arc<str>) -> bool {
        if self.trusts_own_records() {
            return false;
        }
        let agent = self.op.agent;
        let young = agent.env.monotonic().saturating_sub(agent.began) < agent.config.settings.late_commit;
        (young && !agent.failures.is_fenced(pool)) || agent.failures.of(&self.uid).iter().any(|allocated| allocated.pool == *pool)
    }

    /// One task of A A10.
    ///
    /// If a pool may hold a record of this NIC and could not be read, or keeps the record, no further pool is tried: an address of the next
    /// would be a second record of the NIC (A X1). The runtime retries.
    async fn allocate_one(
        &self,
        allocation: &Allocation<'_>,
        avoided: &[IpAddr],
        mine: &[IpAddr],
        named: Option<&[IpAddr]>,
        refused: &[IpAddr],
        finds_strays: &(impl Fn(&[Arc<SpiderIPPool>]) -> bool + Sync),
    ) -> AllocationResult {
        let nic = allocation.nic;
        if let Some(allocated) = self.remembered(allocation) {
            return AllocationResult::Address { allocated, recorded: true };
        }
        let max_records = self.op.agent.config.settings.select.max_allocated_ips;
        let mut failure = Failure { nic: nic.to_owned(), family: allocation.family, pools: Vec::new() };
        for (at, Candidate { name: pool, held, .. }) in allocation.pools.iter().enumerate() {
            allocation.current.store(at, Ordering::Relaxed);
            let is_sure = !self.may_be_withdrawn(pool);
            let sure = (!is_sure).then_some(mine);
            let ask = Ask { key: &self.key, uid: &self.uid, nic, max_records, avoided, refused, sure, named, policy: self.policy() };
            let tried = self.op.allocate(pool, allocation.family, ask, allocation.clean_gateway, finds_strays).await;
            let (uid, family, attempts) = (&*self.uid, allocation.family, tried.attempts);
            let result = tried.result.as_ref().map(|(allocated, _)| allocated.address);
            self.op.observe(Step::PoolTried { uid, nic, family, pool, result, attempts });
            match tried.result {
                Ok((allocated, recorded)) => return AllocationResult::Address { allocated, recorded },
                Err(error) => {
                    // The next round knows the endpoint. It begins with this pool: an address of another pool would give the NIC two.
                    if error == PoolError::EndpointUnknown && tried.holds == Some(true) && !self.keeps_strays() {
                        self.op.agent.failures.hold(&self.uid, Suspect { nic: nic.into(), pool: pool.clone() });
                    }
                    let unsettled = matches!(error, PoolError::Unsettled(_)).then(|| pool.clone());
                    // The caches may not show yet what an earlier run of this process recorded.
                    let is_suspect = (*held || !is_sure) && !self.policy().lost_reply_takes_next_pool;
                    let ends = unsettled.is_some()
                        || matches!(error, PoolError::OutOfTime | PoolError::EndpointUnknown)
                        || (is_suspect && tried.holds != Some(false) && error != PoolError::NotFound);
                    failure.pools.push((pool.to_string(), error));
                    if ends {
                        return AllocationResult::Nothing { failure, unsettled };
                    }
                }
            }
        }
        AllocationResult::Nothing { failure, unsettled: None }
    }

    /// Whether a NIC has its address of a family from the endpoint.
    fn has(&self, static_reuse: &StaticReuse, place: usize, nic: &str, family: IpVersion) -> bool {
        !self.policy().answer_not_as_stored && static_reuse.has(self.nameless, place, nic, family)
    }

    /// The NICs and families that need an address.
    fn allocations<'s>(&self, selection: &'s Selection, static_reuse: &StaticReuse, ledger: &Ledger) -> Vec<Allocation<'s>> {
        let mut allocations = Vec::new();
        let suspects = self.op.agent.failures.holders(&self.uid);
        for (place, nic) in selection.nics.iter().enumerate() {
            for family in nic.families.iter().filter(|family| !self.has(static_reuse, place, &nic.nic, family.family)) {
                let pools = self.order(&nic.nic, family, ledger, &suspects);
                let (clean_gateway, family, current) = (nic.clean_gateway, family.family, AtomicUsize::new(0));
                allocations.push(Allocation { nic: &nic.nic, clean_gateway, family, pools, current });
            }
        }
        allocations
    }

    /// Removes records that an earlier run of the agent, or an earlier round of this ADD, made for these NICs in pools that they no longer
    /// draw from (A W1): together with the new addresses, they would be two records of a family (A X1).
    ///
    /// Addresses that the endpoint names stay, even those of its own that the pod gave up. A predecessor's address is this pod's only if an
    /// earlier ADD already had its record, when the pod could still have it.
    async fn leave_strays(
        &self,
        allocations: &[Allocation<'_>],
        base: Option<&SpiderEndpoint>,
        static_reuse: &StaticReuse,
        recorded: &mut Vec<AllocatedIp>,
    ) -> Result<(), Setback> {
        if self.keeps_strays() {
            return Ok(());
        }
        let (mut strays, mut drops_old) = (Vec::new(), false);
        for Allocation { nic, family, pools, .. } in allocations {
            let mut of_nic = self.op.strays(&self.key, &self.uid, |of| of == Some(*nic)).await?;
            let own = recorded.iter().filter(|allocated| allocated.nic == **nic);
            of_nic.extend(own.map(|allocated| (allocated.pool.clone(), allocated.address.addr())));
            let is_drawn_from = |pool: &str| pools.iter().any(|candidate| *candidate.name == *pool);
            // Another NIC may have it by now: the cache can show an old state.
            let is_anothers = |ip: IpAddr| recorded.iter().any(|allocated| allocated.nic != **nic && allocated.address.addr() == ip);
            let is_stray = |pool: &str, ip: IpAddr| IpVersion::of(ip) == *family && !is_drawn_from(pool) && !is_anothers(ip);
            let is_old = |at: &(Arc<str>, IpAddr)| {
                let is_unsure = IpVersion::of(at.1) == *family && self.may_be_withdrawn(&at.0);
                (is_unsure || is_stray(&at.0, at.1)) && !self.is_drawn(recorded, at)
            };
            drops_old |= of_nic.iter().any(is_old);
            strays.extend(of_nic.into_iter().filter(|(pool, ip)| is_stray(pool, *ip)));
        }
        if drops_old && base.is_none() {
            self.check_drops().await?;
        }
        let mut named: Vec<IpAddr> = base.into_iter().flat_map(entries).flat_map(stored).map(|at| at.address.addr()).collect();
        if let Some(predecessors) = base.filter(|base| self.ownership(base) == EndpointOwnership::Inherited) {
            let given_up = given_up(predecessors, static_reuse).what;
            named.retain(|ip| !given_up.iter().any(|(_, other)| other == ip));
            // The cache may not show yet what an earlier round did.
            let is_taken_over = |(pool, ip): &(Arc<str>, IpAddr)| self.taken_over.iter().any(|(of, taken)| of == pool && taken.ip == *ip);
            strays.extend(given_up.into_iter().filter(is_taken_over));
        }
        strays.retain(|(_, ip)| !named.contains(ip));
        let strays = distinct(strays);
        self.take_back_strays(&strays).await?;
        recorded.retain(|allocated| !strays.iter().any(|(pool, ip)| *pool == allocated.pool && *ip == allocated.address.addr()));
        Ok(())
    }

    /// Like `leave_strays`, before the addresses of `kept` are taken over: each of their NICs then has no other of the same family except
    /// those that [stay beside](Self::stays_beside) them.
    pub(super) async fn leave_strays_of_kept(
        &self,
        kept: &[(usize, IPAllocationDetail)],
        beside: Option<&[IpAddr]>,
    ) -> Result<(), Setback> {
        let Some(named) = beside else { return Ok(()) };
        let mut strays = Vec::new();
        for (place, entry) in kept {
            let nic = self.nic_of(*place, entry);
            let has = |family: IpVersion| stored(entry).any(|at| IpVersion::of(at.address.addr()) == family);
            let is_stray = |ip: IpAddr| !named.contains(&ip) && has(IpVersion::of(ip));
            let of_nic = self.op.strays(&self.key, &self.uid, |of| of == Some(&*nic)).await?;
            strays.extend(of_nic.into_iter().filter(|(_, ip)| is_stray(*ip)));
        }
        self.take_back_strays(&distinct(strays)).await
    }

    /// The pod's records that stay while addresses that `endpoint` names are taken over; `None` = all. The addresses that it names for any
    /// NIC stay, and those allocated in this round: the cache may show the NIC under which an earlier run of the agent recorded them.
    pub(super) fn stays_beside(&self, endpoint: &SpiderEndpoint, drawn: &[AllocatedIp]) -> Option<Vec<IpAddr>> {
        if self.keeps_strays() {
            return None;
        }
        let named = entries(endpoint).iter().flat_map(stored).map(|at| at.address.addr());
        Some(named.chain(drawn.iter().map(|allocated| allocated.address.addr())).collect())
    }

    /// The addresses of a predecessor that the rules refuse by now. An earlier ADD that ended before the pod had an answer may have
    /// transferred the record to the pod: such a record is replaced, unlike one that was newly allocated.
    fn refused(&self, base: Option<&SpiderEndpoint>, static_reuse: &StaticReuse, drawn: &[AllocatedIp]) -> Vec<IpAddr> {
        let predecessors = base.filter(|base| self.ownership(base) == EndpointOwnership::Inherited && !self.keeps_strays());
        let mut refused = predecessors.map(|base| given_up(base, static_reuse).what).unwrap_or_default();
        refused.retain(|(pool, ip)| !drawn.iter().any(|allocated| allocated.pool == *pool && allocated.address.addr() == *ip));
        refused.into_iter().map(|(_, ip)| ip).collect()
    }

    /// Removes records that no endpoint names, for which the endpoint's current state must be known.
    async fn take_back_strays(&self, strays: &[(Arc<str>, IpAddr)]) -> Result<(), Setback> {
        if strays.is_empty() {
            return Ok(());
        }
        if !self.endpoint_is_live {
            return Err(Setback::Again(IpamError::StaleEndpoint(self.key.clone())));
        }
        Ok(self.op.take_back(&self.key, &self.uid, Cause::Superseded, strays).await?)
    }

    /// Standard mode: allocates the addresses that no endpoint has for the pod, and writes the pod's endpoint.
    pub(super) async fn fresh(
        &mut self,
        base: Option<&SpiderEndpoint>,
        mut static_reuse: StaticReuse,
        strict: bool,
        ledger: &mut Ledger,
    ) -> Result<AddAnswer, Setback> {
        let has = |place: usize, nic: &str, family: IpVersion| self.has(&static_reuse, place, nic, family);
        let selection = self.selection(&has).await?;
        self.confirm().await?;
        let ended = self.ended.as_ref().map(|(ended, _)| ended.clone());
        let from = base.or(ended.as_deref());
        let mut allocated = self.draw(&selection, from, &mut static_reuse, ledger).await?;
        add_routes(&mut allocated, &selection.routes);
        if let Some(from) = from {
            self.leave_nics(&mut static_reuse, entries(from)).await?;
        }
        let (ips, unfinished) = self.assemble(&selection, &allocated, base, &static_reuse);
        let given_up = from.map(|from| given_up(from, &static_reuse)).unwrap_or_default();
        let written = match self.write(base, ips, &unfinished, strict).await {
            Ok(written) => written,
            Err(setback) => {
                self.given_up = given_up;
                self.keep_unwritten(allocated);
                return Err(setback);
            }
        };
        self.release_given_up(given_up, entries(&written)).await;
        if self.policy().answer_not_as_stored {
            let (ips, routes) = told_of_allocated(&allocated, self.nameless);
            return Ok(AddAnswer { ips, routes, how: How::Fresh });
        }
        Ok(self.answer_of(&written, How::Fresh))
    }

    /// Allocates the missing addresses. Addresses kept of a predecessor are taken over last: a pod that cannot have the rest takes none.
    async fn draw(
        &mut self,
        selection: &Selection,
        base: Option<&SpiderEndpoint>,
        static_reuse: &mut StaticReuse,
        ledger: &mut Ledger,
    ) -> Result<Vec<AllocatedIp>, Setback> {
        let policy = *self.policy();
        let mut avoided = base.map(avoided).filter(|_| !policy.conflict_returns_same_address).unwrap_or_default();
        self.forgets_conflicts = false;
        loop {
            let mut allocations = self.allocations(selection, static_reuse, ledger);
            self.leave_strays(&allocations, base, static_reuse, &mut ledger.recorded).await?;
            let named = static_reuse.kept.iter().flat_map(|(_, entry)| stored(entry)).map(|at| at.address.addr());
            let named = self.endpoint_is_live.then(|| named.collect::<Vec<IpAddr>>());
            let refused = self.refused(base, static_reuse, &ledger.recorded);
            let allocated = match self.allocate_all(&mut allocations, &avoided, named.as_deref(), &refused, ledger).await {
                // The hosts that answered on those addresses may be gone; the following probe will tell. All addresses are tried again,
                // each in its turn.
                Err(Setback::Failed(IpamError::NotAllocated(failures)))
                    if !avoided.is_empty() && failures.are_used_out() && !policy.conflict_avoided_forever =>
                {
                    avoided.clear();
                    self.forgets_conflicts = true;
                    continue;
                }
                result => result?,
            };
            let Some(base) = base.filter(|_| static_reuse.untaken) else { return Ok(allocated) };
            static_reuse.untaken = false;
            let beside = self.stays_beside(base, &ledger.recorded);
            self.leave_strays_of_kept(&static_reuse.kept, beside.as_deref()).await?;
            let lost = self.reown_all(&static_reuse.kept, uid_of(base), beside.as_deref()).await?;
            if lost.is_empty() {
                return Ok(allocated);
            }
            // Allocated addresses are found again by their records.
            static_reuse.lose(lost, entries(base));
        }
    }

    /// The entries that the endpoint should have, and the NICs that still lack an address.
    fn assemble(
        &self,
        selection: &Selection,
        allocated: &[AllocatedIp],
        base: Option<&SpiderEndpoint>,
        static_reuse: &StaticReuse,
    ) -> (Vec<IPAllocationDetail>, Vec<String>) {
        let allocates_for = |place: usize, entry: &IPAllocationDetail| {
            let nic = self.nic_of(place, entry);
            selection.nics.iter().any(|selected| selected.nic == nic)
        };
        let (kept, unfinished) = static_reuse.entries(self.nameless, allocates_for);
        let mut new = details(allocated, self.nameless, |_| self.leaves_out_gateway());
        if self.assembles_otherwise() {
            return (self.assemble_otherwise(base, kept, new), unfinished);
        }
        if self.nameless {
            leave_names(&kept, &mut new);
        }
        let mut ips = match base {
            None if kept.is_empty() => new.into_iter().map(|(_, entry)| entry).collect(),
            _ if self.nameless => by_place(kept, new),
            _ => by_name(kept, new),
        };
        if self.nameless {
            // A predecessor may have had its NICs in another order, or more of them.
            name_entry(&mut ips, &self.request.nic, select::nics(&self.pod).as_deref());
        }
        (ips, unfinished)
    }

    /// A A9 to A A12.
    async fn allocate_all(
        &self,
        allocations: &mut [Allocation<'_>],
        avoided: &[IpAddr],
        named: Option<&[IpAddr]>,
        refused: &[IpAddr],
        ledger: &mut Ledger,
    ) -> Result<Vec<AllocatedIp>, Setback> {
        if allocations.is_empty() && !self.policy().answer_not_as_stored {
            return Ok(Vec::new());
        }
        let names: Vec<Arc<str>> =
            allocations.iter().flat_map(|allocation| allocation.pools.iter().map(|pool| pool.name.clone())).collect();
        let tickets = self.op.tickets(&self.uid, &names).await?;
        if self.op.is_late() {
            return Err(IpamError::OutOfTime.into());
        }
        if !self.policy().uid_from_cached_pod && self.is_shown_ending() {
            return Err(SelectError::DeadPod.into());
        }
        self.order_again(allocations);
        let allocations = &*allocations;
        let mine: Vec<IpAddr> = ledger.recorded.iter().map(|allocated| allocated.address.addr()).collect();
        let known = self.op.agent.failures.holders(&self.uid);
        let finds_strays = |pools: &[Arc<SpiderIPPool>]| self.finds_strays(allocations, pools, &known, &mine, named);
        let one = |allocation| self.allocate_one(allocation, avoided, &mine, named, refused, &finds_strays);
        let results = if self.policy().nics_race {
            join_all(allocations.iter().map(one).collect()).await
        } else {
            pool_by_pool(allocations, one).await
        };
        drop(tickets);
        let (allocated, failures) = booked(results, allocations, ledger);
        if failures.is_empty() {
            return Ok(allocated);
        }
        let is_unknown = |failure: &Failure| failure.pools.iter().any(|(_, error)| *error == PoolError::EndpointUnknown);
        if failures.iter().any(is_unknown) {
            return Err(Setback::Again(IpamError::StaleEndpoint(self.key.clone())));
        }
        self.keep_part(allocated);
        Err(IpamError::NotAllocated(Failures(failures)).into())
    }
}

/// The results of `one` for each allocation. Allocations that begin with the same pool run one after another: concurrently, all but one of
/// them would meet a conflict (A §5.4).
async fn pool_by_pool<'a, F: Future<Output = AllocationResult> + Send>(
    allocations: &'a [Allocation<'a>],
    one: impl Fn(&'a Allocation<'a>) -> F + Sync,
) -> Vec<AllocationResult> {
    let first_pool = |allocation: &Allocation<'_>| allocation.pools.first().map(|pool| pool.name.clone()).unwrap_or_default();
    let queues = by_pool(allocations.iter().enumerate().map(|(place, allocation)| (first_pool(allocation), (place, allocation))));
    let in_turn = queues.into_iter().map(|(_, queue)| async {
        let mut results = Vec::with_capacity(queue.len());
        for (place, allocation) in queue {
            results.push((place, one(allocation).await));
        }
        results
    });
    let mut results: Vec<_> = join_all(in_turn.collect()).await.into_iter().flatten().collect();
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The addresses and the failures of these results, which are also entered into the ledger.
fn booked(results: Vec<AllocationResult>, allocations: &[Allocation<'_>], ledger: &mut Ledger) -> (Vec<AllocatedIp>, Vec<Failure>) {
    let (mut allocated, mut failures) = (Vec::new(), Vec::new());
    for (result, allocation) in results.into_iter().zip(allocations) {
        match result {
            AllocationResult::Address { allocated: one, recorded } => {
                let known = ledger.recorded.iter().any(|other| (&other.pool, other.address) == (&one.pool, one.address));
                if recorded {
                    ledger.found.push(one.clone());
                } else if !known {
                    ledger.recorded.push(one.clone());
                }
                allocated.push(one);
            }
            AllocationResult::Nothing { failure, unsettled } => {
                ledger.unsettled.extend(unsettled.map(|pool| Suspect { nic: allocation.nic.into(), pool }));
                failures.push(failure);
            }
        }
    }
    (allocated, failures)
}

/// The entries of an endpoint: those that are kept, completed by the new ones. NICs without a name are identified by their positions.
pub(super) fn by_place(kept: Entries, new: NewEntries) -> Vec<IPAllocationDetail> {
    let mut all: BTreeMap<usize, IPAllocationDetail> = kept.into_iter().collect();
    for (nic, entry) in new {
        let place = nic.parse().unwrap_or(usize::MAX);
        match all.get_mut(&place) {
            Some(known) => complete(known, entry),
            None => drop(all.insert(place, entry)),
        }
    }
    all.into_values().collect()
}

/// The same for NICs that are identified by their names.
pub(super) fn by_name(kept: Entries, new: NewEntries) -> Vec<IPAllocationDetail> {
    let mut all: Vec<IPAllocationDetail> = kept.into_iter().map(|(_, entry)| entry).collect();
    for (_, entry) in new {
        match all.iter_mut().find(|other| other.interface == entry.interface) {
            Some(known) => complete(known, entry),
            None => all.push(entry),
        }
    }
    all
}
