//! Sets of addresses of both families.

use std::net::IpAddr;

use super::version::number_of;
use super::{Intervals, IpRange, IpVersion};

/// The IPv6 numbers of IPv4-mapped addresses, which are IPv4 addresses here.
pub(super) const MAPPED: (u128, u128) = (0xffff_0000_0000, 0xffff_ffff_ffff);

/// A set of addresses. An IPv4-mapped address is its IPv4 address, so the whole of IPv6 has 2^32 addresses less than 2^128.
///
/// Order is IPv4 before IPv6, then by number. Costs are those of [`Intervals`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpSet {
    v4: Intervals,
    v6: Intervals,
}

impl IpSet {
    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// How many addresses it holds, at most `u128::MAX`, which also stands for more.
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

    /// Whether it holds the address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.of_version(IpVersion::of(ip)).contains(number_of(ip))
    }

    /// Whether it holds every address of `other`.
    pub fn contains_all(&self, other: &Self) -> bool {
        IpVersion::ALL.iter().all(|version| self.of_version(*version).contains_all(other.of_version(*version)))
    }

    /// The lowest address of the family of `ip`, from `ip` on, that it does not hold.
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

    /// The addresses, ascending.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.ranges().flat_map(IpRange::iter)
    }

    /// The addresses as ranges, ascending and as long as can be.
    pub fn ranges(&self) -> impl Iterator<Item = IpRange> {
        let of = |version: IpVersion| self.of_version(version).runs().map(move |(first, last)| (version, first, last));
        of(IpVersion::V4).chain(of(IpVersion::V6)).filter_map(|(version, first, last)| IpRange::of_numbers(version, first, last))
    }

    /// The addresses as upstream writes ranges that were merged: `a` or `a-b`.
    pub fn texts(&self) -> Vec<String> {
        self.ranges().map(|range| range.to_string()).collect()
    }

    /// What is in one or the other.
    pub fn union(&self, other: &Self) -> Self {
        Self { v4: self.v4.union(&other.v4), v6: self.v6.union(&other.v6) }
    }

    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        Self { v4: self.v4.intersection(&other.v4), v6: self.v6.intersection(&other.v6) }
    }

    /// What is in this one only.
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
