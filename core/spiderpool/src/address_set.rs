//! Sets of addresses, and the check whether two of them overlap.

use std::sync::{Arc, Mutex, PoisonError};

use crate::ranges::{IpRange, IpSet, IpVersion, parse_range};
use crate::{IPPoolSpec, Policy, SpiderIPPool, SubnetSpec};
use kube_machinery::{FxHashMap, FxHashSet};

/// The addresses of a pool or a subnet: `ips` without `excludeIPs`.
///
/// A range that cannot be read holds nothing and excludes nothing, so that an object is never assumed to have fewer addresses than it can
/// allocate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSet(pub IpSet);

impl AddressSet {
    /// The addresses of `ips` without those of `exclude`; empty if the family is not known.
    pub(crate) fn new(version: Option<i64>, ips: &[String], exclude: &[String], policy: &Policy) -> Self {
        let Some(version) = version else { return Self::default() };
        let read = |texts: &[String]| texts.iter().filter_map(|text| parse_range(text, version, policy).ok()).collect::<IpSet>();
        let ips = read(ips);
        if exclude.is_empty() { Self(ips) } else { Self(ips.difference(&read(exclude))) }
    }

    /// The addresses of a pool.
    pub fn of_pool(spec: &IPPoolSpec, policy: &Policy) -> Self {
        Self::new(spec.ip_version, spec.ips.as_deref().unwrap_or_default(), spec.exclude_ips.as_deref().unwrap_or_default(), policy)
    }

    /// The addresses of a subnet.
    pub fn of_subnet(spec: &SubnetSpec, policy: &Policy) -> Self {
        Self::new(spec.ip_version, spec.ips.as_deref().unwrap_or_default(), spec.exclude_ips.as_deref().unwrap_or_default(), policy)
    }
}

/// The addresses that a pool shares with `mine`, if there are any.
///
/// Costs one look-up for each entry of `ips`; the exclusions are read only if an entry meets `mine`. So comparing one pool with ten
/// thousand others takes a few milliseconds, whatever they hold.
pub fn shares_addresses(mine: &IpSet, other: &IPPoolSpec, policy: &Policy) -> Option<IpRange> {
    let version = other.ip_version?;
    let family = IpVersion::try_from(version).ok()?;
    if mine.of_version(family).is_empty() {
        return None;
    }
    let meets = |text: &String| parse_range(text, version, policy).is_ok_and(|range| !mine.intersection(&range.into()).is_empty());
    if !other.ips.iter().flatten().any(meets) {
        return None;
    }
    AddressSet::of_pool(other, policy).0.first_shared(mine)
}

/// A cache of the pools' addresses in one process. A pool is read once per generation, as the API server counts every change of a spec; a
/// pool without UID or generation is read each time. The cache changes no result, only the cost. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressSets(Arc<Mutex<FxHashMap<Arc<str>, Known>>>);

#[derive(Debug)]
struct Known {
    generation: i64,
    /// The only part of the policy that the meaning of a range depends on.
    upstream_ranges: bool,
    addresses: Arc<AddressSet>,
}

impl AddressSets {
    /// The addresses of a pool as the API server stored it.
    pub(crate) fn of_pool(&self, pool: &SpiderIPPool, policy: &Policy) -> Arc<AddressSet> {
        let read = || Arc::new(AddressSet::of_pool(&pool.spec, policy));
        let (Some(uid), Some(generation)) = (pool.metadata.uid.as_deref(), pool.metadata.generation) else { return read() };
        // The content stays valid even if a reader panicked.
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sets.get(uid)
            && known.generation == generation
            && known.upstream_ranges == policy.upstream_ranges
        {
            debug_assert_eq!(*known.addresses, *read(), "the ranges of a pool change with its generation");
            return Arc::clone(&known.addresses);
        }
        let addresses = read();
        sets.insert(uid.into(), Known { generation, upstream_ranges: policy.upstream_ranges, addresses: Arc::clone(&addresses) });
        addresses
    }

    /// Forgets pools that are not among `pools`, from time to time: the cache never holds much more than twice as many as there are.
    pub(crate) fn keep(&self, pools: &[Arc<SpiderIPPool>]) {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sets.len() > 2 * pools.len() + KEPT {
            let there: FxHashSet<&str> = pools.iter().filter_map(|pool| pool.metadata.uid.as_deref()).collect();
            sets.retain(|uid, _| there.contains(&**uid));
        }
    }
}

/// The number of deleted pools that are kept without a check.
const KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(uid: usize, generation: i64, ips: &str) -> Arc<SpiderIPPool> {
        let mut pool = SpiderIPPool::default();
        (pool.metadata.uid, pool.metadata.generation) = (Some(uid.to_string()), Some(generation));
        (pool.spec.ip_version, pool.spec.ips) = (Some(4), Some(vec![ips.to_owned()]));
        Arc::new(pool)
    }

    #[test]
    fn a_pool_is_read_again_when_its_generation_or_the_policy_is_another() {
        let (sets, hardened, upstream) = (AddressSets::default(), Policy::hardened(), Policy::upstream());
        let texts = |pool: &SpiderIPPool, policy: &Policy| sets.of_pool(pool, policy).0.texts();
        let first = pool(1, 1, "10.0.0.1");
        let known = sets.of_pool(&first, &hardened);
        assert!(Arc::ptr_eq(&known, &sets.of_pool(&first, &hardened)));
        assert_eq!(texts(&pool(1, 2, "10.0.0.2"), &hardened), ["10.0.0.2"]);
        assert_eq!(texts(&pool(2, 2, "10.0.0.3"), &hardened), ["10.0.0.3"]);
        // Upstream never finishes this one.
        let endless = pool(3, 1, "0.0.0.1-0.0.0.2");
        assert_eq!(texts(&endless, &hardened), ["0.0.0.1-0.0.0.2"]);
        assert_eq!(texts(&endless, &upstream), [""; 0]);
        let mut draft = (*first).clone();
        draft.metadata.generation = None;
        assert!(!Arc::ptr_eq(&sets.of_pool(&draft, &hardened), &sets.of_pool(&draft, &hardened)));
    }

    #[test]
    fn pools_that_are_gone_are_forgotten() {
        let (sets, policy) = (AddressSets::default(), Policy::hardened());
        let there = [pool(0, 1, "10.0.0.1")];
        for uid in 0..1_000 {
            let gone = pool(uid, 1, "10.0.0.1");
            sets.of_pool(&gone, &policy);
            sets.keep(&there);
            assert!(sets.0.lock().unwrap().len() <= 2 * there.len() + KEPT + 1);
        }
        assert!(sets.0.lock().unwrap().contains_key("0"));
    }
}
