//! Selection of the addresses of a set that are taken or given up.

use crate::ranges::{IpRange, IpSet};

/// The `count` lowest addresses, or all.
pub(super) fn lowest(set: &IpSet, count: u128) -> IpSet {
    let mut left = count;
    let mut part = |range: IpRange| {
        let (first, last) = range.numbers();
        let last = (left > 0).then(|| last.min(first.saturating_add(left - 1)))?;
        left -= last - first + 1;
        IpRange::new(range.first(), range.version().address(last))
    };
    set.ranges().map_while(&mut part).collect()
}

/// The `count` highest addresses, or all.
pub(super) fn highest(set: &IpSet, count: u128) -> IpSet {
    let all = set.count();
    if count >= all { set.clone() } else { set.difference(&lowest(set, all - count)) }
}

/// `count` consecutive addresses of the set, starting after the `skip` lowest and continuing with the lowest after the highest.
pub(super) fn from(set: &IpSet, skip: u128, count: u128) -> IpSet {
    let below = lowest(set, skip);
    let above = lowest(&set.difference(&below), count);
    let rest = count.saturating_sub(above.count());
    above.union(&lowest(&below, rest))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn picks_are_those_of_a_plain_set(
            numbers in prop::collection::btree_set(0u32..60, 0..40),
            skip in 0usize..70,
            count in 0usize..70,
        ) {
            let address = |number: &u32| IpAddr::from((0x0a00_0000 + number).to_be_bytes());
            let plain: BTreeSet<IpAddr> = numbers.iter().map(address).collect();
            let set: IpSet = plain.iter().copied().collect();
            let same = |picked: IpSet, expected: Vec<IpAddr>| picked.iter().eq(expected.into_iter().collect::<BTreeSet<_>>());
            prop_assert!(same(lowest(&set, count as u128), plain.iter().copied().take(count).collect()));
            prop_assert!(same(highest(&set, count as u128), plain.iter().rev().copied().take(count).collect()));
            let skip = skip.min(plain.len());
            let turned: Vec<IpAddr> = plain.iter().chain(&plain).copied().skip(skip).take(count.min(plain.len())).collect();
            prop_assert!(same(from(&set, skip as u128, count as u128), turned));
        }
    }

    #[test]
    fn the_whole_of_a_family_is_picked_from_without_walking() {
        let all: IpSet = IpRange::new("::".parse().unwrap(), "::fffe:ffff:ffff".parse().unwrap()).unwrap().into();
        assert_eq!(lowest(&all, 2).texts(), ["::-::1"]);
        assert_eq!(highest(&all, 2).texts(), ["::fffe:ffff:fffe-::fffe:ffff:ffff"]);
        assert_eq!(lowest(&all, u128::MAX), all);
    }
}
