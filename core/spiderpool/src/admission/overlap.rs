//! Sets of addresses, and whether two share some.

use super::addresses::Addresses;
use crate::ranges::{IpRange, IpSet, IpVersion, parse_range};
use crate::{IPPoolSpec, Policy, SubnetSpec};

/// The addresses of a pool or a subnet: `ips` without `excludeIPs`.
///
/// What cannot be read holds nothing and excludes nothing, so that an object is never thought to have fewer addresses than it can give away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSet(pub IpSet);

impl AddressSet {
    pub(super) fn new(addresses: &Addresses<'_>, policy: &Policy) -> Self {
        let Some(version) = addresses.version else { return Self::default() };
        let read = |texts: &[String]| texts.iter().filter_map(|text| parse_range(text, version, policy).ok()).collect::<IpSet>();
        let ips = read(addresses.ips);
        if addresses.exclude.is_empty() { Self(ips) } else { Self(ips.difference(&read(addresses.exclude))) }
    }

    /// Those of a pool.
    pub fn of_pool(spec: &IPPoolSpec, policy: &Policy) -> Self {
        Self::new(&spec.into(), policy)
    }

    /// Those of a subnet.
    pub fn of_subnet(spec: &SubnetSpec, policy: &Policy) -> Self {
        Self::new(&spec.into(), policy)
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
    AddressSet::of_pool(other, policy).0.intersection(mine).ranges().next()
}
