//! Sets of addresses of both families.

use std::net::IpAddr;

use super::version::number_of;
use super::{Intervals, IpRange, IpVersion};

/// The IPv6 numbers of IPv4-mapped addresses, which are IPv4 addresses here.
pub(super) const MAPPED: (u128, u128) = (0xffff_0000_0000, 0xffff_ffff_ffff);

/// A set of addresses. An IPv4-mapped address is its IPv4 address, so the whole of IPv6 has 2^128 - 2^32 addresses.
///
/// Order is IPv4 before IPv6, then by number. Costs are those of [`Intervals`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpSet {
    v4: Intervals,
    v6: Intervals,
}

impl IpSet {
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// The number of addresses, at most `u128::MAX`, which also stands for more.
    pub fn count(&self) -> u128 {
        self.v4.count().saturating_add(self.v6.count())
    }

    /// The addresses of one family, by their numbers.
    pub fn of_version(&self, version: IpVersion) -> &Intervals {
        match version {
            IpVersion::V4 => &self.v4,
            IpVersion::V6 => &self.v6,
        }
    }

    /// Whether the set holds the address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.of_version(IpVersion::of(ip)).contains(number_of(ip))
    }

    /// Whether the set holds every address of `other`.
    pub fn contains_all(&self, other: &Self) -> bool {
        IpVersion::ALL.iter().all(|version| self.of_version(*version).contains_all(other.of_version(*version)))
    }

    /// The lowest address that is not in the set, from `ip` on and of its family.
    pub fn first_absent_from(&self, ip: IpAddr) -> Option<IpAddr> {
        let version = IpVersion::of(ip);
        let mut number = self.of_version(version).first_absent_from(number_of(ip))?;
        if version == IpVersion::V6 && (MAPPED.0..=MAPPED.1).contains(&number) {
            number = self.v6.first_absent_from(MAPPED.1 + 1)?;
        }
        (number <= version.max()).then(|| version.address(number))
    }

    /// The address with `index` lower ones in the set.
    pub fn nth(&self, index: u128) -> Option<IpAddr> {
        match index.checked_sub(self.v4.count()) {
            Some(index) => self.v6.nth(index).map(|number| IpVersion::V6.address(number)),
            None => self.v4.nth(index).map(|number| IpVersion::V4.address(number)),
        }
    }

    /// The addresses one by one: IPv4 before IPv6, each family ascending.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.ranges().flat_map(IpRange::iter)
    }

    /// The addresses as ranges, ascending and maximal.
    pub fn ranges(&self) -> impl Iterator<Item = IpRange> {
        let of = |version: IpVersion| self.of_version(version).runs().map(move |(first, last)| (version, first, last));
        of(IpVersion::V4).chain(of(IpVersion::V6)).filter_map(|(version, first, last)| IpRange::of_numbers(version, first, last))
    }

    /// The addresses as upstream writes merged ranges: `a` or `a-b`.
    pub fn texts(&self) -> Vec<String> {
        self.ranges().map(|range| range.to_string()).collect()
    }

    /// The addresses in either set.
    pub fn union(&self, other: &Self) -> Self {
        Self { v4: self.v4.union(&other.v4), v6: self.v6.union(&other.v6) }
    }

    /// The addresses in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self { v4: self.v4.intersection(&other.v4), v6: self.v6.intersection(&other.v6) }
    }

    /// The first range of the addresses in both sets, without building the intersection.
    pub fn first_shared(&self, other: &Self) -> Option<IpRange> {
        let of = |version: IpVersion| {
            let (first, last) = self.of_version(version).first_shared(other.of_version(version))?;
            IpRange::of_numbers(version, first, last)
        };
        IpVersion::ALL.into_iter().find_map(of)
    }

    /// The addresses in this set only.
    pub fn difference(&self, other: &Self) -> Self {
        Self { v4: self.v4.difference(&other.v4), v6: self.v6.difference(&other.v6) }
    }
}

impl FromIterator<IpRange> for IpSet {
    fn from_iter<I: IntoIterator<Item = IpRange>>(ranges: I) -> Self {
        let (v4, v6): (Vec<_>, Vec<_>) = ranges.into_iter().partition(|range| range.version() == IpVersion::V4);
        let intervals = |ranges: Vec<IpRange>| ranges.iter().map(IpRange::numbers).collect::<Intervals>();
        Self { v4: intervals(v4), v6: intervals(v6).difference(&Intervals::between(MAPPED.0, MAPPED.1)) }
    }
}

impl FromIterator<IpAddr> for IpSet {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(ips: I) -> Self {
        ips.into_iter().map(IpRange::from).collect()
    }
}

impl From<IpRange> for IpSet {
    fn from(range: IpRange) -> Self {
        Self::from_iter([range])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Ranges around the ends of both families and of the IPv4-mapped addresses.
    fn ranges() -> impl Strategy<Value = Vec<IpRange>> {
        let low = |version: IpVersion, at: u128| (0u128..12).prop_map(move |more| (version, at + more));
        let first = prop_oneof![
            low(IpVersion::V4, 0),
            low(IpVersion::V4, u32::MAX as u128 - 11),
            low(IpVersion::V6, 0),
            low(IpVersion::V6, MAPPED.0 - 12),
            low(IpVersion::V6, MAPPED.1 + 1),
            low(IpVersion::V6, u128::MAX - 11),
        ];
        let range = |((version, first), more): ((IpVersion, u128), u128)| {
            IpRange::of_numbers(version, first, first.saturating_add(more).min(version.max())).unwrap()
        };
        prop::collection::vec((first, 0u128..6).prop_map(range), 0..8)
    }

    fn plain(ranges: &[IpRange]) -> BTreeSet<IpAddr> {
        ranges.iter().flat_map(|range| range.iter()).filter(|ip| ip.to_canonical() == *ip).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(a in ranges(), b in ranges(), index in 0usize..40) {
            let (x, y) = (a.iter().copied().collect::<IpSet>(), b.iter().copied().collect::<IpSet>());
            let (p, q) = (plain(&a), plain(&b));
            for (set, oracle) in [
                (&x, &p),
                (&x.union(&y), &(&p | &q)),
                (&x.intersection(&y), &(&p & &q)),
                (&x.difference(&y), &(&p - &q)),
            ] {
                prop_assert!(set.iter().eq(oracle.iter().copied()));
                prop_assert_eq!(set.count(), oracle.len() as u128);
                prop_assert_eq!(set.is_empty(), oracle.is_empty());
                prop_assert_eq!(&oracle.iter().copied().collect::<IpSet>(), set);
                prop_assert_eq!(set.texts().len(), set.ranges().count());
            }
            prop_assert_eq!(x.contains_all(&y), p.is_superset(&q));
            prop_assert_eq!(x.first_shared(&y), x.intersection(&y).ranges().next());
            prop_assert_eq!(x.nth(index as u128), p.iter().nth(index).copied());
            for ip in &q {
                prop_assert_eq!(x.contains(*ip), p.contains(ip));
                let (version, number) = (IpVersion::of(*ip), number_of(*ip));
                let above = (number..=version.max()).take(40).map(|number| version.address(number));
                let absent = above.filter(|ip| ip.to_canonical() == *ip).find(|ip| !p.contains(ip));
                // The oracle does not walk across the mapped ones.
                if absent.is_some() || number > MAPPED.1 || version == IpVersion::V4 {
                    prop_assert_eq!(x.first_absent_from(*ip), absent);
                }
            }
        }
    }

    #[test]
    fn the_whole_of_both_families_costs_three_runs() {
        let all: IpSet = IpVersion::ALL.into_iter().filter_map(|version| IpRange::of_numbers(version, 0, version.max())).collect();
        assert_eq!(all.texts(), ["0.0.0.0-255.255.255.255", "::-::fffe:ffff:ffff", "::1:0:0:0-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]);
        assert_eq!(all.of_version(IpVersion::V6).count(), u128::MAX - u128::from(u32::MAX));
        assert!(all.contains("::ffff:1.2.3.4".parse().unwrap()));
        assert_eq!(all.first_absent_from("1.2.3.4".parse().unwrap()), None);
        assert_eq!(all.first_absent_from("::".parse().unwrap()), None);
    }

    #[test]
    fn what_comes_after_the_last_below_the_mapped_ones_is_behind_them() {
        let below = IpRange::of_numbers(IpVersion::V6, 0, MAPPED.0 - 1).map(IpSet::from).unwrap();
        assert_eq!(below.first_absent_from("::".parse().unwrap()), Some("::1:0:0:0".parse().unwrap()));
    }
}
