//! An index from address ranges to owners that finds overlaps.
//!
//! Claims use it for pools and shares of subnets, and admission of manifests for everything that a new object could meet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipam_spiderpool::ranges::{IpRange, IpSet, IpVersion};

/// Ranges that begin at one address, each with its owner.
type Owned = Vec<(Arc<str>, IpRange)>;

/// The number of binary digits of a range's size, less one. A range reaches less than twice as far as any other of its class.
type Class = u32;

/// The ranges of owners, by class and first address.
///
/// An operation costs the number of ranges of its set, times the logarithm of the number of all ranges and the number of their classes,
/// plus the number of results. One large range among many small ones adds one lookup.
#[derive(Clone, Debug, Default)]
pub(crate) struct IpIntervalIndex {
    ranges: BTreeMap<(IpVersion, Class, u128), Owned>,
    /// The classes of all ranges that were ever added.
    classes: BTreeSet<(IpVersion, Class)>,
}

/// The key of a range.
fn key(range: &IpRange) -> (IpVersion, Class, u128) {
    let (first, last) = range.numbers();
    (range.version(), class_of(first, last), first)
}

fn class_of(first: u128, last: u128) -> Class {
    (last - first).checked_ilog2().map_or(0, |digits| digits + 1)
}

/// The maximum distance from the first to the last address of a range of a class.
fn reach(class: Class) -> u128 {
    1u128.checked_shl(class).map_or(u128::MAX, |reach| reach - 1)
}

impl IpIntervalIndex {
    /// Adds a set of addresses to an owner.
    pub(crate) fn put(&mut self, owner: &Arc<str>, set: &IpSet) {
        for range in set.ranges() {
            let (version, class, first) = key(&range);
            self.classes.insert((version, class));
            self.ranges.entry((version, class, first)).or_default().push((owner.clone(), range));
        }
    }

    /// Removes a set of addresses from an owner; it must equal a set that was added.
    pub(crate) fn take(&mut self, owner: &str, set: &IpSet) {
        for range in set.ranges() {
            let key = key(&range);
            let Some(ranges) = self.ranges.get_mut(&key) else { continue };
            ranges.retain(|(other, _)| **other != *owner);
            if ranges.is_empty() {
                self.ranges.remove(&key);
            }
        }
    }

    /// The ranges of all owners but `owner` that meet the set.
    pub(crate) fn others<'a>(&'a self, owner: &'a str, set: &'a IpSet) -> impl Iterator<Item = (&'a Arc<str>, IpRange)> {
        set.ranges().flat_map(move |asked| {
            let ((first, last), version) = (asked.numbers(), asked.version());
            let classes = self.classes.range((version, 0)..=(version, Class::MAX));
            let near = classes.flat_map(move |&(_, class)| {
                self.ranges.range((version, class, first.saturating_sub(reach(class)))..=(version, class, last))
            });
            let meet = near.flat_map(|(_, ranges)| ranges).filter(move |(other, range)| range.overlaps(&asked) && **other != *owner);
            meet.map(|(other, range)| (other, *range))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(first: u8, last: u8) -> IpSet {
        let address = |byte| format!("10.0.0.{byte}").parse().unwrap();
        IpRange::new(address(first), address(last.max(first))).unwrap().into()
    }

    #[test]
    fn a_class_reaches_as_far_as_its_longest_range() {
        for (last, class) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (u128::MAX, 128)] {
            assert_eq!(class_of(0, last), class, "{last}");
            assert!(reach(class) >= last && (class == 0 || reach(class - 1) < last), "{last}");
        }
    }

    proptest! {
        #[test]
        fn who_meets_whom_is_what_plain_sets_say(
            ranges in prop::collection::vec((1u8..60, 0u8..20), 1..12),
            gone in prop::collection::vec(any::<bool>(), 12),
            asked in (1u8..60, 0u8..20),
        ) {
            let mut intervals = IpIntervalIndex::default();
            let owners: Vec<(Arc<str>, u8, u8)> =
                ranges.iter().enumerate().map(|(at, (first, more))| (Arc::from(at.to_string()), *first, first + more)).collect();
            owners.iter().for_each(|(owner, first, last)| intervals.put(owner, &set(*first, *last)));
            for ((owner, first, last), _) in owners.iter().zip(&gone).filter(|(_, gone)| **gone) {
                intervals.take(owner, &set(*first, *last));
            }
            let (first, last) = (asked.0, asked.0 + asked.1);
            let meets = |(at, (_, from, to)): &(usize, &(Arc<str>, u8, u8))| *at != 0 && !gone[*at] && *from <= last && *to >= first;
            let expected: BTreeSet<&Arc<str>> = owners.iter().enumerate().filter(meets).map(|(_, (owner, ..))| owner).collect();
            let asked = set(first, last);
            let found: BTreeSet<&Arc<str>> = intervals.others("0", &asked).map(|(owner, _)| owner).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
