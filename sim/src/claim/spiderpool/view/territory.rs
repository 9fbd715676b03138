//! Whose an address is, for sets of addresses that should not meet but may.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipam_core::spiderpool::ranges::{IpRange, IpSet, IpVersion};

/// A range, and which pool has it.
type Held = (Arc<str>, IpRange);

/// The ranges of owners, by where they begin.
///
/// Putting in, taking out and looking costs what the set asked about costs, times the logarithm of how many ranges there are, and what lies
/// within the longest range before it.
#[derive(Debug, Default)]
pub(in super::super) struct Territory {
    ranges: BTreeMap<(IpVersion, u128), Vec<Held>>,
    /// How far the longest range that ever was reaches beyond its first address.
    reach: u128,
}

impl Territory {
    /// An owner has these addresses, too.
    pub(super) fn put(&mut self, owner: &Arc<str>, set: &IpSet) {
        for range in set.ranges() {
            let (first, last) = range.numbers();
            self.reach = self.reach.max(last - first);
            self.ranges.entry((range.version(), first)).or_default().push((owner.clone(), range));
        }
    }

    /// An owner has no more what it was given as this very set.
    pub(super) fn take(&mut self, owner: &str, set: &IpSet) {
        for range in set.ranges() {
            let key = (range.version(), range.numbers().0);
            let Some(ranges) = self.ranges.get_mut(&key) else { continue };
            ranges.retain(|(other, _)| **other != *owner);
            if ranges.is_empty() {
                self.ranges.remove(&key);
            }
        }
    }

    /// The ranges of everybody but `owner` that meet the set.
    pub(in super::super) fn others<'a>(&'a self, owner: &'a str, set: &'a IpSet) -> impl Iterator<Item = (&'a Arc<str>, IpRange)> {
        set.ranges().flat_map(move |asked| {
            let ((first, last), version) = (asked.numbers(), asked.version());
            let near = self.ranges.range((version, first.saturating_sub(self.reach))..=(version, last));
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

    proptest! {
        #[test]
        fn who_meets_whom_is_what_plain_sets_say(
            ranges in prop::collection::vec((1u8..60, 0u8..20), 1..12),
            gone in prop::collection::vec(any::<bool>(), 12),
            asked in (1u8..60, 0u8..20),
        ) {
            let mut territory = Territory::default();
            let owners: Vec<(Arc<str>, u8, u8)> =
                ranges.iter().enumerate().map(|(at, (first, more))| (Arc::from(at.to_string()), *first, first + more)).collect();
            owners.iter().for_each(|(owner, first, last)| territory.put(owner, &set(*first, *last)));
            for ((owner, first, last), _) in owners.iter().zip(&gone).filter(|(_, gone)| **gone) {
                territory.take(owner, &set(*first, *last));
            }
            let (first, last) = (asked.0, asked.0 + asked.1);
            let meets = |(at, (_, from, to)): &(usize, &(Arc<str>, u8, u8))| *at != 0 && !gone[*at] && *from <= last && *to >= first;
            let expected: BTreeSet<&Arc<str>> = owners.iter().enumerate().filter(meets).map(|(_, (owner, ..))| owner).collect();
            let asked = set(first, last);
            let found: BTreeSet<&Arc<str>> = territory.others("0", &asked).map(|(owner, _)| owner).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
