//! Sets of addresses, and whether two share some.

use crate::ranges::{IpRange, IpSet, IpVersion, parse_range};
use crate::{IPPoolSpec, Policy, SubnetSpec};

/// The addresses of a pool or a subnet: `ips` without `excludeIPs`.
///
/// What cannot be read holds nothing and excludes nothing, so that an object is never thought to have fewer addresses than it can give away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSet(pub IpSet);

impl AddressSet {
    /// What is left of `ips` without `exclude`; nothing if the family is not known.
    pub(crate) fn new(version: Option<i64>, ips: &[String], exclude: &[String], policy: &Policy) -> Self {
        let Some(version) = version else { return Self::default() };
        let read = |texts: &[String]| texts.iter().filter_map(|text| parse_range(text, version, policy).ok()).collect::<IpSet>();
        let ips = read(ips);
        if exclude.is_empty() { Self(ips) } else { Self(ips.difference(&read(exclude))) }
    }

    /// Those of a pool.
    pub fn of_pool(spec: &IPPoolSpec, policy: &Policy) -> Self {
        Self::new(spec.ip_version, spec.ips.as_deref().unwrap_or_default(), spec.exclude_ips.as_deref().unwrap_or_default(), policy)
    }

    /// Those of a subnet.
    pub fn of_subnet(spec: &SubnetSpec, policy: &Policy) -> Self {
        Self::new(spec.ip_version, spec.ips.as_deref().unwrap_or_default(), spec.exclude_ips.as_deref().unwrap_or_default(), policy)
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
