//! A process's cached facts about the addresses of pools, so that it need not parse their texts again.
//!
//! Objects are shared and never change: the same object under the same circumstances has the same answer. The memo keeps one answer per
//! pool name, for the object that it last saw under it. It changes no answer, only the cost.

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxBuildHasher;

use super::asker::Asker;
use super::pod_filter::PodFilter;
use crate::ranges::{IpSet, IpVersion, RangeError, Shortage};
use crate::{Policy, SpiderIPPool};
use kube_machinery::FxHashMap;

/// The maximum number of remembered pools; beyond it all are forgotten, because most of them are gone.
const POOLS_MAX: usize = 1 << 16;

/// The pools that have addresses left. Private to a process: it saves no work for others. A clone is empty.
#[derive(Debug, Default)]
pub struct CapacityMemo(Mutex<Known>);

impl Clone for CapacityMemo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[derive(Debug, Default)]
struct Known {
    circumstances: [Option<Circumstances>; 2],
    /// Entries by the hash of the name: they are identified by their objects, and two names with one hash evict each other.
    pools: FxHashMap<u64, Entry>,
    /// The number of the latest circumstances.
    latest: u64,
}

/// Everything that an answer depends on, besides the pool.
#[derive(Clone, Debug, PartialEq)]
struct Circumstances {
    reserved: Result<IpSet, RangeError>,
    max_records: u64,
    policy: Policy,
    number: u64,
}

#[derive(Debug)]
struct Entry {
    pool: Arc<SpiderIPPool>,
    circumstances: u64,
    shortage: Option<Shortage>,
    /// The owners of the pool's records, if it has a shortage: then it serves only those. `None` = its records have to be read.
    owners: Option<PodFilter>,
}

/// The maximum number of records in a filter; beyond it the filter costs too much for one check per version of a pool.
const SKETCHED_MAX: usize = 1 << 12;

/// The memo, locked for one decision: it checks many pools, and nobody else decides meanwhile.
#[derive(Debug)]
pub(super) struct Open<'a>(MutexGuard<'a, Known>);

impl CapacityMemo {
    /// Locks the memo, which must not be locked already by the same caller.
    pub(super) fn open(&self) -> Open<'_> {
        // The content stays valid even if a reader panicked.
        Open(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Open<'_> {
    /// The number of these circumstances; it changes only when they do.
    pub(super) fn circumstances(&mut self, family: IpVersion, reserved: &Result<IpSet, RangeError>, asker: &Asker<'_>) -> u64 {
        let known = &mut *self.0;
        let slot = usize::from(family == IpVersion::V6);
        let same = |of: &&Circumstances| of.max_records == asker.max_records && of.policy == *asker.policy && of.reserved == *reserved;
        if let Some(of) = known.circumstances[slot].as_ref().filter(same) {
            return of.number;
        }
        known.latest += 1;
        let number = known.latest;
        let of = Circumstances { reserved: reserved.clone(), max_records: asker.max_records, policy: *asker.policy, number };
        known.circumstances[slot] = Some(of);
        number
    }

    /// The reason why the pool has no address for a requester without one, and whether the requester may already have one; calls `find` if
    /// the reason is unknown.
    pub(super) fn shortage(
        &mut self,
        pool: &Arc<SpiderIPPool>,
        circumstances: u64,
        owner: u64,
        find: impl FnOnce() -> Option<Shortage>,
    ) -> Option<(Shortage, bool)> {
        let name = FxBuildHasher.hash_one(pool.metadata.name.as_deref().unwrap_or_default());
        let known = &mut *self.0;
        if let Some(entry) = known.pools.get(&name)
            && entry.circumstances == circumstances
            && Arc::ptr_eq(&entry.pool, pool)
        {
            return entry.answer(owner);
        }
        let shortage = find();
        let records = || pool.status.as_ref()?.allocated_ips.parse().ok().filter(|records| records.len() <= SKETCHED_MAX);
        let owners = shortage.and_then(|_| records()).map(PodFilter::of);
        let entry = Entry { pool: Arc::clone(pool), circumstances, shortage, owners };
        let answer = entry.answer(owner);
        if known.pools.len() >= POOLS_MAX {
            known.pools.clear();
        }
        known.pools.insert(name, entry);
        answer
    }
}

impl Entry {
    fn answer(&self, owner: u64) -> Option<(Shortage, bool)> {
        Some((self.shortage?, self.owners.as_ref().is_none_or(|owners| owners.may_hold(owner))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IPPoolSpec;

    #[test]
    fn an_answer_is_kept_for_the_same_object_under_the_same_circumstances() {
        let memo = CapacityMemo::default();
        let mut memo = memo.open();
        let (hardened, upstream) = (Policy::hardened(), Policy::upstream());
        let asker = Asker { pod_uid: "u", nic: "eth0", max_records: 5, policy: &hardened };
        let nothing = Ok(IpSet::default());
        let first = memo.circumstances(IpVersion::V4, &nothing, &asker);
        let pool = |name: &str| Arc::new(SpiderIPPool::new(name, IPPoolSpec::default()));
        let (one, again) = (pool("p"), pool("p"));
        let unknown = || Some(Shortage::Exhausted);
        let known = || unreachable!("the answer is known");
        assert_eq!(memo.shortage(&one, first, 7, unknown), Some((Shortage::Exhausted, true)));
        assert_eq!(memo.shortage(&one, first, 7, known), Some((Shortage::Exhausted, true)));
        assert_eq!(memo.circumstances(IpVersion::V4, &nothing, &asker), first);
        // Another object of that name, another policy, other reservations.
        assert_eq!(memo.shortage(&again, first, 7, || None), None);
        let reserved = Ok([std::net::IpAddr::from([10, 0, 0, 1])].into_iter().collect::<IpSet>());
        let mut numbers = vec![first];
        for (reserved, asker) in
            [(&reserved, asker), (&nothing, Asker { policy: &upstream, ..asker }), (&nothing, Asker { max_records: 6, ..asker })]
        {
            let number = memo.circumstances(IpVersion::V4, reserved, &asker);
            assert!(!numbers.contains(&number));
            numbers.push(number);
            assert_eq!(memo.shortage(&again, number, 7, unknown), Some((Shortage::Exhausted, true)));
        }
    }
}
