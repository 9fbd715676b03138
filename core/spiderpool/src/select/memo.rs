//! What a process has found out about the addresses of pools, so that it need not read their texts again.
//!
//! Objects are shared and never change: the same object under the same circumstances has the same answer. The memo keeps one
//! answer for each name of a pool, for the object that it last saw there. It changes no answer, only what it costs.

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxBuildHasher;

use super::asker::Asker;
use super::pod_filter::PodFilter;
use crate::ranges::{IpSet, IpVersion, RangeError, Shortage};
use crate::{Policy, SpiderIPPool};
use kube_machinery::FxHashMap;

/// As many pools are remembered; then all are forgotten, for most of them are gone.
const POOLS_MAX: usize = 1 << 16;

/// Which pools have addresses left. Private to a process: nobody else's work is faster for it. A clone knows nothing.
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
    /// By the hash of the name: entries are told by their objects, and two names of one hash forget each other.
    pools: FxHashMap<u64, Entry>,
    /// The number of the latest circumstances.
    latest: u64,
}

/// All that an answer depends on, besides the pool.
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
    /// Whose records the pool holds, if it has a shortage: then it only serves who has one. `None` = its records have to be asked.
    owners: Option<PodFilter>,
}

/// Records that are sketched; of more the filter costs too much for one look at each version of a pool.
const SKETCHED_MAX: usize = 1 << 12;

/// The memo, in the hands of one decision: it asks about many pools, and nobody else decides meanwhile.
#[derive(Debug)]
pub(super) struct Open<'a>(MutexGuard<'a, Known>);

impl CapacityMemo {
    /// Opens it. Whoever has it open must not open it once more.
    pub(super) fn open(&self) -> Open<'_> {
        // What is in it is true even if a reader panicked.
        Open(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Open<'_> {
    /// The number of these circumstances; the same one as long as they are the same.
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

    /// Why the pool has no address for somebody who has none of it yet, and whether the asker may be one who has; asks `find` if that is
    /// not known.
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
