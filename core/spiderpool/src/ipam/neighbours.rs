//! Pools that overlap although admission never permits it (K124, A W18): the younger one serves no address.
//!
//! Before an agent first allocates an address of a pool, and again when the pool's spec has changed, it lists all pools. If no other pool
//! has one of the addresses, the pool may serve for as long as its spec stays: of two overlapping pools, the one that came later sees the
//! other in its list, whenever that list is made. So they never both serve, whatever clocks say and however many agents there are.
//!
//! Unchanged ranges are not enough: a pool may have lost an address and got it back, and another one was made of it meanwhile. The
//! generation shows this (K §1.1).
//!
//! An overlapping pool serves only if it is surely the older one. Creation times are set by API servers before an object is stored, and a
//! request may take long, so they must be far apart; and the ranges must be those that it was created with. Otherwise it is withheld until
//! one of the two is deleted or changed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::address_set::AddressSets;
use crate::{Policy, SpiderIPPool};
use kube_machinery::FxHashMap;

/// The pools that a process has found to be without overlap. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    known: Arc<Mutex<FxHashMap<Arc<str>, Looked>>>,
    addresses: AddressSets,
}

/// The ranges that a pool was compared with, and their generation.
#[derive(Debug, PartialEq)]
struct Looked {
    uid: Option<String>,
    generation: Option<i64>,
    version: Option<i64>,
    ips: Option<Vec<String>>,
    exclude_ips: Option<Vec<String>>,
}

impl Looked {
    fn at(pool: &SpiderIPPool) -> Self {
        let (meta, spec) = (&pool.metadata, &pool.spec);
        let (ips, exclude_ips) = (spec.ips.clone(), spec.exclude_ips.clone());
        Self { uid: meta.uid.clone(), generation: meta.generation, version: spec.ip_version, ips, exclude_ips }
    }

    fn is_at(&self, pool: &SpiderIPPool) -> bool {
        let (meta, spec) = (&pool.metadata, &pool.spec);
        let is_same_spec = self.ips == spec.ips && self.exclude_ips == spec.exclude_ips && self.version == spec.ip_version;
        is_same_spec && self.generation == meta.generation && self.uid == meta.uid
    }
}

impl Neighbours {
    /// Whether the pool is known to have no overlap, or to be the older one, with its current spec.
    pub(super) fn knows(&self, pool: &SpiderIPPool) -> bool {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        self.known.lock().unwrap().get(name).is_some_and(|known| known.is_at(pool))
    }

    /// Compares all pools, read after the pool in question. Returns each pool that may not serve, with one that it overlaps.
    ///
    /// O(n log n) for n ranges, and the overlaps.
    pub(super) fn learn(&self, pools: &[Arc<SpiderIPPool>], margin: Duration, policy: &Policy) -> BTreeMap<String, String> {
        let name = |pool: &SpiderIPPool| pool.metadata.name.clone().unwrap_or_default();
        let mut withheld = BTreeMap::new();
        self.addresses.keep(pools);
        for (one, other) in overlaps(pools, &self.addresses, policy) {
            for (pool, other) in [(&pools[one], &pools[other]), (&pools[other], &pools[one])] {
                if !self.knows(pool) && !is_surely_older(pool, other, margin) {
                    withheld.entry(name(pool)).or_insert_with(|| name(other));
                }
            }
        }
        let mut known = self.known.lock().unwrap();
        for pool in pools.iter().filter(|pool| !withheld.contains_key(pool.metadata.name.as_deref().unwrap_or_default())) {
            known.insert(name(pool).into(), Looked::at(pool));
        }
        withheld
    }
}

/// The pools that an agent which has just started serves no address from, each with one that it overlaps (D §1.2); empty where it does not
/// compare.
///
/// `margin` is the time after which a write whose sender gave up can no longer be carried out.
pub fn withheld(pools: &[Arc<SpiderIPPool>], margin: Duration, policy: &Policy) -> BTreeMap<String, String> {
    if policy.overlap_admitted_forever { BTreeMap::new() } else { Neighbours::default().learn(pools, margin, policy) }
}

/// Whether `pool` has had its ranges since before the other one could have been requested.
fn is_surely_older(pool: &SpiderIPPool, other: &SpiderIPPool, margin: Duration) -> bool {
    let created = |pool: &SpiderIPPool| pool.metadata.creation_timestamp.as_ref().map(|time| time.0);
    match (created(pool), created(other)) {
        (Some(mine), Some(its)) => {
            let apart = its.as_second().saturating_sub(mine.as_second());
            pool.metadata.generation == Some(1) && apart > i64::try_from(margin.as_secs()).unwrap_or(i64::MAX)
        }
        _ => false,
    }
}

/// The pairs of pools that share addresses.
fn overlaps(pools: &[Arc<SpiderIPPool>], addresses: &AddressSets, policy: &Policy) -> Vec<(usize, usize)> {
    let mut ranges: Vec<_> = Vec::with_capacity(pools.len());
    for (at, pool) in pools.iter().enumerate() {
        ranges.extend(addresses.of_pool(pool, policy).0.ranges().map(|range| (range.version(), range.numbers(), at)));
    }
    ranges.sort_unstable_by_key(|(version, (first, last), at)| (*version, *first, Reverse(*last), *at));
    let mut pairs = Vec::new();
    // Ranges that begin below the current one and reach into it.
    let mut open: Vec<(_, u128, usize)> = Vec::new();
    for (version, (first, last), at) in ranges {
        open.retain(|(of, end, _)| *of == version && *end >= first);
        pairs.extend(open.iter().filter(|(.., other)| *other != at).map(|(.., other)| (*other, at)));
        open.push((version, last, at));
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use proptest::prelude::*;

    use super::*;

    const MARGIN: Duration = Duration::from_secs(40);

    fn pool(name: &str, ips: &str, created: i64, generation: i64) -> Arc<SpiderIPPool> {
        let mut pool = SpiderIPPool::default();
        (pool.metadata.name, pool.metadata.uid) = (Some(name.to_owned()), Some(name.to_owned()));
        pool.metadata.creation_timestamp = Some(Time(jiff::Timestamp::from_second(created).unwrap()));
        (pool.metadata.generation, pool.spec.ip_version, pool.spec.ips) = (Some(generation), Some(4), Some(vec![ips.to_owned()]));
        Arc::new(pool)
    }

    fn withheld(neighbours: &Neighbours, pools: &[&Arc<SpiderIPPool>]) -> Vec<String> {
        let pools: Vec<_> = pools.iter().map(|pool| Arc::clone(pool)).collect();
        neighbours.learn(&pools, MARGIN, &Policy::hardened()).into_keys().collect()
    }

    #[test]
    fn of_two_pools_that_overlap_the_surely_older_one_serves() {
        let (old, young) = (pool("old", "10.0.0.1-10.0.0.9", 100, 1), pool("young", "10.0.0.9-10.0.0.12", 200, 1));
        let neighbours = Neighbours::default();
        assert_eq!(withheld(&neighbours, &[&old, &young]), ["young"]);
        assert!(neighbours.knows(&old) && !neighbours.knows(&young));
        // This is unknown if they were created at almost the same time, or if the ranges of the older one are younger.
        let twin = pool("twin", "10.0.0.9", 120, 1);
        assert_eq!(withheld(&Neighbours::default(), &[&old, &twin]), ["old", "twin"]);
        let grown = pool("grown", "10.0.0.9-10.0.0.12", 0, 2);
        assert_eq!(withheld(&Neighbours::default(), &[&grown, &young]), ["grown", "young"]);
    }

    #[test]
    fn a_pool_that_was_alone_goes_on_serving_until_its_ranges_change() {
        let neighbours = Neighbours::default();
        let (first, twin) = (pool("first", "10.0.0.1-10.0.0.9", 100, 1), pool("twin", "10.0.0.9", 100, 1));
        assert!(withheld(&neighbours, &[&first]).is_empty() && neighbours.knows(&first));
        assert_eq!(withheld(&neighbours, &[&first, &twin]), ["twin"]);
        let grown = pool("first", "10.0.0.1-10.0.0.10", 100, 2);
        assert!(!neighbours.knows(&grown));
        assert_eq!(withheld(&neighbours, &[&grown, &twin]), ["first", "twin"]);
        // Once the other is gone, both may serve.
        assert!(withheld(&neighbours, &[&grown]).is_empty() && neighbours.knows(&grown));
    }

    #[test]
    fn a_pool_that_has_an_address_back_is_compared_again() {
        let neighbours = Neighbours::default();
        let (before, back) = (pool("first", "10.0.0.1-10.0.0.9", 100, 1), pool("first", "10.0.0.1-10.0.0.9", 100, 3));
        assert!(withheld(&neighbours, &[&before]).is_empty());
        let meanwhile = pool("meanwhile", "10.0.0.9", 200, 1);
        assert!(!neighbours.knows(&back));
        assert_eq!(withheld(&neighbours, &[&back, &meanwhile]), ["first", "meanwhile"]);
    }

    proptest! {
        #[test]
        fn overlapping_pairs_are_those_of_plain_sets(ranges in prop::collection::vec((1u8..40, 0u8..5), 0..8)) {
            let text = |(first, more): &(u8, u8)| format!("10.0.0.{first}-10.0.0.{}", first + more);
            let pools: Vec<_> = ranges.iter().enumerate().map(|(at, range)| pool(&format!("p{at}"), &text(range), 0, 1)).collect();
            let mut expected = Vec::new();
            for (one, (first, more)) in ranges.iter().enumerate() {
                for (other, (its_first, its_more)) in ranges.iter().enumerate().skip(one + 1) {
                    if (*first..=first + more).any(|last| (*its_first..=its_first + its_more).contains(&last)) {
                        expected.push((one, other));
                    }
                }
            }
            let found = overlaps(&pools, &AddressSets::default(), &Policy::hardened());
            let mut found: Vec<_> = found.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
