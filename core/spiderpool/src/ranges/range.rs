//! A range of addresses.

use std::fmt;
use std::net::IpAddr;

use super::IpVersion;
use super::version::number_of;

/// Consecutive addresses of one family; at least one.
///
/// A wide IPv6 range includes the numbers of the IPv4-mapped addresses; an [`IpSet`](super::IpSet) of it leaves them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpRange {
    version: IpVersion,
    first: u128,
    last: u128,
}

impl IpRange {
    /// The addresses from `first` to `last`; `None` if they are of different families or `first` is above `last`.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        let version = IpVersion::of(first);
        (version == IpVersion::of(last)).then(|| Self::of_numbers(version, number_of(first), number_of(last)))?
    }

    /// The addresses with the numbers from `first` to `last`; `None` if there is none.
    pub(super) fn of_numbers(version: IpVersion, first: u128, last: u128) -> Option<Self> {
        (first <= last && last <= version.max()).then_some(Self { version, first, last })
    }

    /// The family of all its addresses.
    pub fn version(&self) -> IpVersion {
        self.version
    }

    /// The lowest address, which is in the range.
    pub fn first(&self) -> IpAddr {
        self.version.address(self.first)
    }

    /// The highest address, which is in the range.
    pub fn last(&self) -> IpAddr {
        self.version.address(self.last)
    }

    /// The numbers of the lowest and the highest address in their family.
    pub fn numbers(&self) -> (u128, u128) {
        (self.first, self.last)
    }

    /// The number of addresses, at most `u128::MAX`, which also stands for one more.
    pub fn count(&self) -> u128 {
        (self.last - self.first).saturating_add(1)
    }

    /// Whether the address is in the range.
    pub fn contains(&self, ip: IpAddr) -> bool {
        IpVersion::of(ip) == self.version && (self.first..=self.last).contains(&number_of(ip))
    }

    /// Whether the two share addresses.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.version == other.version && self.first <= other.last && other.first <= self.last
    }

    /// The addresses one by one, ascending, both ends included.
    pub fn iter(self) -> impl Iterator<Item = IpAddr> {
        let version = self.version;
        (self.first..=self.last).map(move |number| version.address(number))
    }
}

impl From<IpAddr> for IpRange {
    fn from(ip: IpAddr) -> Self {
        Self { version: IpVersion::of(ip), first: number_of(ip), last: number_of(ip) }
    }
}

/// `a`, or `a-b` if there are more than one.
impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first().fmt(f)?;
        if self.first < self.last { write!(f, "-{}", self.last()) } else { Ok(()) }
    }
}
