//! The two families of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::RangeError;

/// A family of addresses; `spec.ipVersion` holds its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpVersion {
    /// IPv4, `spec.ipVersion: 4`; IPv4-mapped IPv6 addresses belong to it.
    V4,
    /// IPv6, `spec.ipVersion: 6`, without the IPv4-mapped addresses.
    V6,
}

impl IpVersion {
    /// Both families, IPv4 first: the order in which they are processed.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The family of an address. An IPv4-mapped address is an IPv4 address.
    pub fn of(ip: IpAddr) -> Self {
        if ip.to_canonical().is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The number of the family, 4 or 6, as in `spec.ipVersion`.
    pub fn number(self) -> i64 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }

    /// The length of an address in bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The highest address, as a number.
    pub fn max(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// The address with this number; bits beyond the length of the family's addresses are ignored.
    pub fn address(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::from_bits(number as u32).into(),
            Self::V6 => Ipv6Addr::from_bits(number).into(),
        }
    }
}

impl TryFrom<i64> for IpVersion {
    type Error = RangeError;

    fn try_from(number: i64) -> Result<Self, RangeError> {
        Self::ALL.into_iter().find(|version| version.number() == number).ok_or(RangeError::Version(number))
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv{}", self.number())
    }
}

/// The number of an address in its family.
pub(super) fn number_of(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}
