//! The pools as commits leave them, the changes of each commit, and the holder of each address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::names::LABEL_OWNER_APPLICATION_NAME;
use ipam_spiderpool::ranges::{CheckedRanges, IpRange, IpSet, PoolAddresses, parse_range};
use ipam_spiderpool::{IPPoolSpec, Policy, PoolIPAllocation, PoolIPAllocations, RecordKey, SpiderIPPool};
use k8s_openapi::api::core::v1::Pod as PodObject;
use kube_machinery::FxHashMap;
use kube_machinery::label_selector::selects;
use sim_config::time::SimTime;

use super::endpoints::addresses_of as addresses_in;
use super::overlaps::Overlaps;
use super::{Said, View};

/// A pool as of its last commit, with the earlier states that caches may show.
#[derive(Clone, Debug)]
pub(in super::super) struct Pool {
    /// Its object as of the last commit.
    pub(in super::super) object: Arc<SpiderIPPool>,
    /// `ips` without `excludeIPs`, parsed once for each spec; `None` = cannot be parsed.
    pub(in super::super) addresses: Option<Arc<IpSet>>,
    /// Its records as they could last be parsed: text that was broken by hand takes no address away.
    records: PoolIPAllocations,
    /// The times in which its records could not be parsed; an end of `None` = they cannot be parsed now.
    hidden: Vec<(SimTime, Option<SimTime>)>,
    /// The revision of the last change of anything but its records and ranges; 0 = not in this run.
    pub(in super::super) changed: u64,
    /// `addresses` from a revision on, the present ones last.
    eras: Vec<(u64, Option<Arc<IpSet>>)>,
    /// The number of `addresses`.
    size: u128,
    /// The time since which it has had more addresses than records, with the same spec; `None` = it has not, or is being deleted.
    roomy_since: Option<SimTime>,
}

/// The number of addresses of a pool that are never allocated: its gateway, and that of its subnet.
const GATEWAYS: u128 = 2;

impl Pool {
    fn new(object: Arc<SpiderIPPool>) -> Self {
        let addresses = addresses_of(&object.spec);
        let records = records_of(&object).cloned().unwrap_or_default();
        let size = size_of(addresses.as_deref());
        Self { eras: vec![(0, addresses.clone())], addresses, records, hidden: Vec::new(), object, changed: 0, size, roomy_since: None }
    }

    /// Updates whether it has a free address from now on; `anew`: its spec has changed.
    fn see_room(&mut self, at: SimTime, anew: bool) {
        let has_room = self.size > self.records.len() as u128 + GATEWAYS && !self.is_terminating();
        self.roomy_since = self.roomy_since.filter(|_| !anew).or(Some(at)).filter(|_| has_room);
    }

    /// Whether a process that was shown everything up to a revision, and maybe more, can have known the pool without an address.
    pub(in super::super) fn may_have_lacked(&self, address: IpAddr, shown: u64) -> bool {
        let known = self.eras.iter().rposition(|(from, _)| *from <= shown).unwrap_or(0);
        self.eras[known..].iter().any(|(_, addresses)| addresses.as_ref().is_none_or(|addresses| !addresses.contains(address)))
    }

    /// The addresses in `ips`, including those that `excludeIPs` removes, as [`listed`] parses them; `None` = cannot be parsed.
    pub(in super::super) fn listed(&self) -> Option<IpSet> {
        listed(&self.object.spec)
    }

    /// The time until which its records could not be parsed, so that a record could not be removed.
    pub(in super::super) fn garbled_until(&self, now: SimTime) -> Option<SimTime> {
        self.hidden.last().map(|(_, until)| until.unwrap_or(now))
    }

    /// Whether a reader from `began` to `ended` can have found its records unreadable, among them a record that was made at `since`.
    fn may_have_hidden(&self, since: Option<Said>, began: SimTime, ended: SimTime) -> bool {
        let is_hidden = |(from, until): &(SimTime, Option<SimTime>)| {
            *from <= ended && until.is_none_or(|until| began < until) && since.is_none_or(|since| since.at <= *from)
        };
        self.hidden.iter().any(is_hidden)
    }

    /// Updates whether its records can be parsed from now on.
    fn see_text(&mut self, at: SimTime) {
        match (self.hidden.last_mut(), is_garbled(&self.object)) {
            (Some((_, until @ None)), false) => *until = Some(at),
            (Some((_, None)), true) | (_, false) => {}
            (_, true) => self.hidden.push((at, None)),
        }
    }

    /// Its records, as they could last be parsed.
    pub(in super::super) fn records(&self) -> PoolIPAllocations {
        self.records.clone()
    }

    /// Whether its rules depend on the node of a pod.
    pub(in super::super) fn looks_at_nodes(&self) -> bool {
        let spec = &self.object.spec;
        spec.node_affinity.is_some() || spec.node_name.as_ref().is_some_and(|names| !names.is_empty())
    }

    /// Whether its rules admit a pod with these labels. The pod affinity of an auto pool only names its workload.
    pub(in super::super) fn selects_pod(&self, pod: &PodObject) -> bool {
        let is_auto = self.object.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL_OWNER_APPLICATION_NAME));
        let selector = self.object.spec.pod_affinity.as_ref().filter(|_| !is_auto);
        selector.is_none_or(|selector| selects(selector, pod.metadata.labels.as_ref()) == Ok(true))
    }

    /// Whether it is being deleted.
    pub(in super::super) fn is_terminating(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// The number of its addresses that have no record and are not in `reserved`, counted up to `most`.
    pub(in super::super) fn free(&self, reserved: &IpSet, most: usize) -> usize {
        let Ok(addresses) = PoolAddresses::of(&self.object.spec, reserved, &Policy::hardened()) else { return 0 };
        let mut taken = self.records();
        let mut next = || {
            let free = addresses.first_free(&taken).ok().flatten()?;
            taken.insert(free, PoolIPAllocation::default());
            Some(free)
        };
        (0..most).take_while(|_| next().is_some()).count()
    }
}

impl View {
    /// Whether a pool had a free address at every moment since `began`, so that any read in that time showed one. `None` where that is
    /// unknown: where addresses were ever reserved, shared with another pool or unreadable, or where the pool may not have a record for
    /// each.
    pub(in super::super) fn has_had_room(&self, name: &str, began: SimTime) -> Option<bool> {
        let pool = self.pools.get(name)?;
        let addresses = pool.addresses.as_deref()?;
        let is_its_own = || !self.reservations.ever_met(addresses) && self.pools.overlaps.with(name).next().is_none();
        let is_known = pool.size <= self.terms.fewest_records.into() && !pool.may_have_hidden(None, began, self.at);
        (is_known && is_its_own()).then(|| pool.roomy_since.is_some_and(|since| since < began))
    }

    /// Whether a record was made unreadable by hand while the last request for its pod looked, which was answered with something else.
    /// Nothing takes back a record of a live pod (G P-6): it ends with the pod, or with the next request.
    pub(in super::super) fn is_hidden_since_answered(&self, name: &str, address: IpAddr, uid: &str) -> bool {
        let (Some(pool), Some(last)) = (self.pools.get(name), self.ledger.last(uid)) else { return false };
        let since = self.pools.holder(name, address).and_then(|holder| holder.since);
        let endpoint = self.pods.get(uid).and_then(|pod| self.endpoint_of(pod));
        let is_named =
            || endpoint.is_some_and(|(endpoint, _)| addresses_in(endpoint).any(|(_, of, named)| *of == *name && named == address));
        last.refusal.is_none() && pool.may_have_hidden(since, last.began, last.said.at) && !is_named()
    }
}

fn is_garbled(pool: &SpiderIPPool) -> bool {
    pool.status.as_ref().is_some_and(|status| status.allocated_ips.parse().is_err())
}

/// The records of a pool, if they can be parsed.
pub(in super::super) fn records_of(pool: &SpiderIPPool) -> Option<&PoolIPAllocations> {
    pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok())
}

/// The addresses in `ips`, including those that `excludeIPs` removes; `None` = cannot be parsed.
pub(in super::super) fn listed(spec: &IPPoolSpec) -> Option<IpSet> {
    spec.ips.iter().flatten().map(|text| parse_range(text, spec.ip_version?, &Policy::hardened()).ok()).collect()
}

fn addresses_of(spec: &IPPoolSpec) -> Option<Arc<IpSet>> {
    let addresses = PoolAddresses::of(spec, &IpSet::default(), &Policy::hardened()).ok()?;
    Some(Arc::new(addresses.included().iter().copied().collect::<IpSet>()))
}

fn size_of(addresses: Option<&IpSet>) -> u128 {
    addresses.into_iter().flat_map(IpSet::ranges).map(|range: IpRange| range.count()).fold(0, u128::saturating_add)
}

/// The spec of a pool without its ranges.
fn without_ranges(spec: &IPPoolSpec) -> IPPoolSpec {
    IPPoolSpec { ips: None, exclude_ips: None, ..spec.clone() }
}

/// A record before and after a commit: at least one of them exists, and they differ.
#[derive(Clone, Debug)]
pub(in super::super) struct RecordEdit {
    /// The key in `status.allocatedIPs`, which need not be an address.
    pub(in super::super) key: RecordKey,
    /// The record before the commit; `None` = it is added.
    pub(in super::super) before: Option<Arc<PoolIPAllocation>>,
    /// The record after the commit; `None` = it is removed.
    pub(in super::super) after: Option<Arc<PoolIPAllocation>>,
    /// The process that made the earlier record for its UID, and the time; `None` = it dates from before the run, or there was none.
    pub(in super::super) since: Option<Said>,
}

impl RecordEdit {
    /// The address and its record, if the address had none before.
    pub(in super::super) fn added(&self) -> Option<(IpAddr, &Arc<PoolIPAllocation>)> {
        if self.before.is_some() {
            return None;
        }
        self.key.address().zip(self.after.as_ref())
    }

    /// The address and its earlier record, if the UID of that has lost it.
    pub(in super::super) fn taken(&self) -> Option<(IpAddr, &Arc<PoolIPAllocation>)> {
        let before = self.before.as_ref()?;
        let same = self.after.as_ref().is_some_and(|after| after.pod_uid == before.pod_uid);
        self.key.address().filter(|_| !same).map(|address| (address, before))
    }

    /// The address and its record, if it is new for its UID: the address had none, or one of another UID.
    pub(in super::super) fn given(&self) -> Option<(IpAddr, &Arc<PoolIPAllocation>)> {
        let after = self.after.as_ref()?;
        let same = self.before.as_ref().is_some_and(|before| after.pod_uid == before.pod_uid);
        self.key.address().filter(|_| !same).map(|address| (address, after))
    }
}

/// One commit of a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolChange {
    /// The writer, and the time.
    pub(in super::super) said: Said,
    /// Whether the writer is an agent.
    pub(in super::super) by_agent: bool,
    /// The moment at which the sender of the write crashed, if the write was certainly sent before that.
    pub(in super::super) left_behind: Option<u64>,
    /// The earliest moment at which the writer, if it remembers it, sent the write.
    pub(in super::super) sent: Option<u64>,
    /// Whether it was written by hand.
    pub(in super::super) by_hand: bool,
    /// Whether the writer is a replica of Spiderpool's controller.
    pub(in super::super) by_replica: bool,
    /// The revision of the commit.
    pub(in super::super) revision: u64,
    /// Name of the pool that was created, changed or removed.
    pub(in super::super) pool: Arc<str>,
    /// The state before the commit; `None` = there was no such pool.
    pub(in super::super) before: Option<Arc<SpiderIPPool>>,
    /// The state after the commit.
    pub(in super::super) after: Option<Arc<SpiderIPPool>>,
    /// The records that differ, by key.
    pub(in super::super) edits: Vec<RecordEdit>,
    /// Whether its addresses changed: it is new or gone, or its ranges changed.
    pub(in super::super) moved: bool,
}

/// The holder of an address.
#[derive(Clone, Debug)]
pub(in super::super) struct Holder {
    /// The pool that has the record; an address may have holders in several pools.
    pub(in super::super) pool: Arc<str>,
    /// The record with the name and the UID that the address is kept for.
    pub(in super::super) record: Arc<PoolIPAllocation>,
    /// The process that made the record for this UID, and the time; `None` = it dates from before the run.
    pub(in super::super) since: Option<Said>,
}

/// The holders of an address; exactly one, unless something is wrong.
#[derive(Debug)]
struct Holders {
    first: Holder,
    more: Vec<Holder>,
}

/// The existing pools, and the holders of their addresses.
#[derive(Debug, Default)]
pub(in super::super) struct Pools {
    by_name: BTreeMap<Arc<str>, Pool>,
    /// The revision of the last commit of each pool; 0 = none in this run.
    revisions: FxHashMap<Arc<str>, u64>,
    holders: FxHashMap<IpAddr, Holders>,
    /// The pools and addresses of the records, by their UID.
    by_uid: FxHashMap<Box<str>, Vec<(Arc<str>, IpAddr)>>,
    /// The overlaps between pools.
    pub(in super::super) overlaps: Overlaps,
}

impl Pools {
    /// The pool with a name as of its last commit; `None` = there is none.
    pub(in super::super) fn get(&self, name: &str) -> Option<&Pool> {
        self.by_name.get(name)
    }

    /// The existing pools, sorted by name.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Pool)> {
        self.by_name.iter()
    }

    /// The revision of the last commit of a pool; 0 = none in this run.
    pub(in super::super) fn revision(&self, name: &str) -> u64 {
        self.revisions.get(name).copied().unwrap_or(0)
    }

    /// The holders of an address, in all pools.
    pub(in super::super) fn holders(&self, address: IpAddr) -> impl Iterator<Item = &Holder> {
        self.holders.get(&address).into_iter().flat_map(|holders| [&holders.first].into_iter().chain(&holders.more))
    }

    /// The addresses that are recorded for a UID, with their pools.
    pub(in super::super) fn of_uid(&self, uid: &str) -> &[(Arc<str>, IpAddr)] {
        self.by_uid.get(uid).map_or(&[], Vec::as_slice)
    }

    /// The UIDs for which there are records, in arbitrary order.
    pub(in super::super) fn uids(&self) -> impl Iterator<Item = &str> {
        self.by_uid.keys().map(|uid| &**uid)
    }

    /// The holder of an address of a pool.
    pub(in super::super) fn holder(&self, pool: &str, address: IpAddr) -> Option<&Holder> {
        self.holders(address).find(|holder| *holder.pool == *pool)
    }

    /// Takes in a pool that exists when the run begins.
    pub(super) fn begin(&mut self, name: &str, object: Arc<SpiderIPPool>) {
        let name: Arc<str> = name.into();
        for (key, record) in records_of(&object).into_iter().flat_map(PoolIPAllocations::iter) {
            if let Some(address) = key.address() {
                self.hold(address, Holder { pool: name.clone(), record: Arc::new(record.clone()), since: None });
            }
        }
        let mut pool = Pool::new(object);
        pool.see_text(SimTime::ZERO);
        pool.see_room(SimTime::ZERO, true);
        if let Some(addresses) = &pool.addresses {
            self.overlaps.begin(&name, addresses);
        }
        self.by_name.insert(name, pool);
    }

    /// Takes in a commit; the cost is proportional to the change.
    pub(super) fn commit(&mut self, name: &str, said: Said, revision: u64, after: Option<Arc<SpiderIPPool>>) -> PoolChange {
        let name: Arc<str> = self.by_name.get_key_value(name).map_or_else(|| name.into(), |(name, _)| name.clone());
        let before = self.by_name.get(&name).map(|pool| pool.object.clone());
        let old = self.by_name.get(&name).map_or_else(PoolIPAllocations::default, |pool| pool.records.clone());
        let new = match after.as_deref().map(|object| object.status.as_ref().map(|status| status.allocated_ips.parse())) {
            None | Some(None) => PoolIPAllocations::default(),
            Some(Some(Ok(records))) => records.clone(),
            Some(Some(Err(_))) => old.clone(),
        };
        let mut edits: Vec<RecordEdit> = old
            .diff(&new)
            .map(|edit| RecordEdit { key: edit.key.clone(), before: edit.before.cloned(), after: edit.after.cloned(), since: None })
            .collect();
        for edit in &mut edits {
            let Some(address) = edit.key.address() else { continue };
            edit.since = self.holder(&name, address).and_then(|holder| holder.since);
            let since = if edit.given().is_some() { Some(said) } else { edit.since };
            self.release(address, &name);
            if let Some(record) = &edit.after {
                self.hold(address, Holder { pool: name.clone(), record: record.clone(), since });
            }
        }
        self.revisions.insert(name.clone(), revision);
        let moved = self.replace(&name, revision, after.clone());
        if let Some(pool) = self.by_name.get_mut(&name) {
            pool.records = new;
            pool.see_text(said.at);
            pool.see_room(said.at, moved || pool.changed == revision);
        }
        PoolChange {
            said,
            by_agent: false,
            left_behind: None,
            sent: None,
            by_hand: false,
            by_replica: false,
            revision,
            pool: name,
            before,
            after,
            edits,
            moved,
        }
    }

    /// Replaces the last version of a pool. Returns whether its addresses changed.
    fn replace(&mut self, name: &Arc<str>, revision: u64, after: Option<Arc<SpiderIPPool>>) -> bool {
        let none = || Arc::new(IpSet::default());
        let Some(after) = after else {
            let gone = self.by_name.remove(name).and_then(|pool| pool.addresses).unwrap_or_else(none);
            self.overlaps.change(name, &gone, &IpSet::default());
            return true;
        };
        let Some(pool) = self.by_name.get_mut(name) else {
            let pool = Pool { changed: revision, ..Pool::new(after) };
            self.overlaps.change(name, &IpSet::default(), pool.addresses.as_deref().unwrap_or(&none()));
            self.by_name.insert(name.clone(), pool);
            return true;
        };
        let (old, new) = (&pool.object.spec, &after.spec);
        let same_ranges = old.ips == new.ips && old.exclude_ips == new.exclude_ips && old.ip_version == new.ip_version;
        if !same_ranges {
            let before = pool.addresses.take().unwrap_or_else(none);
            pool.addresses = addresses_of(new);
            pool.size = size_of(pool.addresses.as_deref());
            pool.eras.push((revision, pool.addresses.clone()));
            self.overlaps.change(name, &before, pool.addresses.as_deref().unwrap_or(&none()));
        }
        let same_rules = old == new || (!same_ranges && without_ranges(old) == without_ranges(new));
        if !same_rules || pool.is_terminating() != after.metadata.deletion_timestamp.is_some() {
            pool.changed = revision;
        }
        pool.object = after;
        !same_ranges
    }

    fn hold(&mut self, address: IpAddr, holder: Holder) {
        let own = (holder.pool.clone(), address);
        match self.by_uid.get_mut(&*holder.record.pod_uid) {
            Some(addresses) => addresses.push(own),
            None => drop(self.by_uid.insert(holder.record.pod_uid.as_str().into(), vec![own])),
        }
        match self.holders.get_mut(&address) {
            Some(holders) => holders.more.push(holder),
            None => drop(self.holders.insert(address, Holders { first: holder, more: Vec::new() })),
        }
    }

    fn release(&mut self, address: IpAddr, pool: &str) {
        let Some(holders) = self.holders.get_mut(&address) else { return };
        for holder in [&holders.first].into_iter().chain(&holders.more).filter(|holder| *holder.pool == *pool) {
            let Some(own) = self.by_uid.get_mut(&*holder.record.pod_uid) else { continue };
            own.retain(|(other, taken)| **other != *pool || *taken != address);
            if own.is_empty() {
                self.by_uid.remove(&*holder.record.pod_uid);
            }
        }
        holders.more.retain(|holder| *holder.pool != *pool);
        if *holders.first.pool == *pool {
            match holders.more.pop() {
                Some(holder) => holders.first = holder,
                None => drop(self.holders.remove(&address)),
            }
        }
    }
}

/// The number of addresses of a pool as its status counts them (A §1.1). `None` if admission would refuse its ranges.
pub(in super::super) fn total(pool: &Pool) -> Option<i64> {
    let spec = &pool.object.spec;
    let (ips, excluded) = (spec.ips.as_deref().unwrap_or_default(), spec.exclude_ips.as_deref().unwrap_or_default());
    CheckedRanges::parse(&spec.subnet, ips, excluded, &Policy::hardened()).ok()?;
    pool.addresses.as_ref()?;
    Some(pool.size.min(i64::MAX as u128) as i64)
}
