//! Pools that overlap, and which of two is the younger one at each shared address.

use std::sync::Arc;

use ipam_spiderpool::ranges::IpSet;
use kube_machinery::FxHashMap;

use crate::ip_interval_index::IpIntervalIndex;

/// The order in which pools came to have an address.
///
/// A pool is younger than another one at an address if it came to have the address later, because it was created later or its ranges were
/// changed. Pools that exist when the run begins are of the same age.
#[derive(Debug, Default)]
pub(in super::super) struct Overlaps {
    /// The addresses of each pool.
    intervals: IpIntervalIndex,
    /// For each younger pool, the addresses that an older pool already had and still has.
    older: FxHashMap<Arc<str>, Vec<(Arc<str>, IpSet)>>,
    /// For each older pool, the younger ones.
    younger: FxHashMap<Arc<str>, Vec<Arc<str>>>,
}

impl Overlaps {
    /// The pool that had the address before `pool`, if another pool has it as well.
    pub(in super::super) fn older(&self, pool: &str, address: std::net::IpAddr) -> Option<&Arc<str>> {
        self.older.get(pool)?.iter().find(|(_, shared)| shared.contains(address)).map(|(other, _)| other)
    }

    /// Whether a pool overlaps an older one.
    pub(in super::super) fn is_younger(&self, pool: &str) -> bool {
        self.older.contains_key(pool)
    }

    /// Whether a younger pool overlaps this one.
    pub(in super::super) fn is_older(&self, pool: &str) -> bool {
        self.younger.contains_key(pool)
    }

    /// The pools that share an address with `pool`, whether they had it earlier or later.
    pub(in super::super) fn with(&self, pool: &str) -> impl Iterator<Item = &Arc<str>> {
        let older = self.older.get(pool).into_iter().flatten().map(|(other, _)| other);
        older.chain(self.younger.get(pool).into_iter().flatten())
    }

    /// The overlapping pools and their shared addresses, as texts.
    pub(in super::super) fn pairs(&self) -> Vec<String> {
        let told = |(pool, older): (&Arc<str>, &Vec<(Arc<str>, IpSet)>)| {
            older.iter().map(|(other, shared)| format!("{pool} {other} at {}", shared.texts().join(", "))).collect::<Vec<_>>()
        };
        self.older.iter().flat_map(told).collect()
    }

    /// The part of these addresses that other pools have.
    pub(in super::super) fn of_others(&self, pool: &str, set: &IpSet) -> IpSet {
        self.intervals.others(pool, set).map(|(_, range)| range).collect::<IpSet>().intersection(set)
    }

    /// Takes in the addresses of a pool that exists when the run begins.
    pub(super) fn begin(&mut self, pool: &Arc<str>, set: &IpSet) {
        self.intervals.put(pool, set);
    }

    /// Takes in a change of the addresses of a pool. For addresses that it keeps, its age stays the same.
    pub(super) fn change(&mut self, pool: &Arc<str>, before: &IpSet, after: &IpSet) {
        self.intervals.take(pool, before);
        let lost = before.difference(after);
        if !lost.is_empty() {
            self.give_up(pool, &lost);
        }
        let new = after.difference(before);
        let mut older: Vec<(Arc<str>, IpSet)> = Vec::new();
        for (other, range) in self.intervals.others(pool, &new) {
            let shared = IpSet::from(range).intersection(&new);
            match older.iter_mut().find(|(known, _)| known == other) {
                Some((_, known)) => *known = known.union(&shared),
                None => older.push((other.clone(), shared)),
            }
        }
        for (other, shared) in older {
            let known = self.older.entry(pool.clone()).or_default();
            match known.iter_mut().find(|(older, _)| *older == other) {
                Some((_, known)) => *known = known.union(&shared),
                None => known.push((other.clone(), shared)),
            }
            let younger = self.younger.entry(other).or_default();
            if !younger.contains(pool) {
                younger.push(pool.clone());
            }
        }
        self.intervals.put(pool, after);
    }

    /// Removes addresses from a pool: at these it is no longer older or younger than any other pool.
    fn give_up(&mut self, pool: &Arc<str>, lost: &IpSet) {
        if let Some(mut older) = self.older.remove(pool) {
            older.iter_mut().for_each(|(_, shared)| *shared = shared.difference(lost));
            older.retain(|(_, shared)| !shared.is_empty());
            if !older.is_empty() {
                self.older.insert(pool.clone(), older);
            }
        }
        let Some(mut younger) = self.younger.remove(pool) else { return };
        younger.retain(|name| {
            let Some(older) = self.older.get_mut(name) else { return false };
            older.iter_mut().filter(|(other, _)| other == pool).for_each(|(_, shared)| *shared = shared.difference(lost));
            older.retain(|(_, shared)| !shared.is_empty());
            let still = older.iter().any(|(other, _)| other == pool);
            if older.is_empty() {
                self.older.remove(name);
            }
            still
        });
        if !younger.is_empty() {
            self.younger.insert(pool.clone(), younger);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn set(numbers: &[u8]) -> IpSet {
        numbers.iter().map(|byte| std::net::IpAddr::from([10, 0, 0, *byte])).collect()
    }

    proptest! {
        #[test]
        fn who_is_younger_is_what_an_account_of_each_address_says(
            changes in prop::collection::vec((0usize..4, prop::collection::btree_set(0u8..12, 0..8)), 1..16)
        ) {
            let mut overlaps = Overlaps::default();
            let names: Vec<Arc<str>> = (0..4).map(|at| Arc::from(at.to_string())).collect();
            let mut sets: Vec<Vec<u8>> = vec![Vec::new(); 4];
            // The change since which each pool has had each address.
            let mut since: BTreeMap<(usize, u8), usize> = BTreeMap::new();
            for (at, (pool, numbers)) in changes.iter().enumerate() {
                let after: Vec<u8> = numbers.iter().copied().collect();
                overlaps.change(&names[*pool], &set(&sets[*pool]), &set(&after));
                since.retain(|(other, number), _| other != pool || numbers.contains(number));
                for number in &after {
                    since.entry((*pool, *number)).or_insert(at);
                }
                sets[*pool] = after;
            }
            for (pool, name) in names.iter().enumerate() {
                for number in 0u8..12 {
                    let mine = since.get(&(pool, number));
                    let is_younger = mine.is_some_and(|mine| (0..4).any(|other| since.get(&(other, number)).is_some_and(|its| its < mine)));
                    let found = overlaps.older(name, std::net::IpAddr::from([10, 0, 0, number])).is_some();
                    prop_assert_eq!(found, is_younger, "pool {} at {}", pool, number);
                }
                let any = (0u8..12).any(|number| overlaps.older(name, std::net::IpAddr::from([10, 0, 0, number])).is_some());
                prop_assert_eq!(overlaps.is_younger(name), any);
            }
        }
    }
}
