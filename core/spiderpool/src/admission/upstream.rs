//! Upstream's forms of some rules: an update is judged as a whole, whatever it changes (`update-judged-whole`), and ranges are compared by
//! the label of their CIDR (`upstream-ranges`).

use super::addresses::{Addresses, Checked};
use super::in_use::{address_of, check_each_pre_allocation, record_in_use, strict_total};
use super::{Rules, Violation};
use crate::address_set::AddressSet;
use crate::names::LABEL_IPPOOL_CIDR;
use crate::ranges::{CheckedRanges, IpSet, cidr_label};
use crate::{SpiderIPPool, SpiderSubnet};

/// Checks that the new addresses of a pool include every record that the request names. The ranges are read whether or not there is a
/// record (A §1.6, hazard a).
pub(super) fn check_records(new: &SpiderIPPool, rules: &Rules<'_>) -> Result<(), Violation> {
    let internal = |error: &dyn std::fmt::Display| Violation::internal("spec.ips", error);
    let kept = strict_total(&Addresses::from(&new.spec), rules).map_err(|error| internal(&error))?;
    let Some(status) = &new.status else { return Ok(()) };
    let records = status.allocated_ips.parse().map_err(|error| internal(&error))?;
    match records.iter().find(|(key, _)| address_of(key).is_none_or(|ip| !kept.contains(ip))) {
        Some((key, record)) => Err(record_in_use(key, record)),
        None => Ok(()),
    }
}

/// Checks that the new addresses of a subnet include every pre-allocation that the request names.
pub(super) fn check_pre_allocations(new: &SpiderSubnet, rules: &Rules<'_>) -> Result<(), Violation> {
    let total = AddressSet::of_subnet(&new.spec, rules.policy).0;
    check_each_pre_allocation(&new.status, new, rules, |ips: &IpSet| ips.difference(&total))
}

/// Checks that no other pool with the label of the CIDR has one of the addresses; errors of ranges are those of the CIDR (A §14.17).
pub(super) fn check_overlap(checked: &Checked<'_>, new: &SpiderIPPool, rules: &Rules<'_>) -> Result<(), Violation> {
    let read = |addresses: &Addresses<'_>| CheckedRanges::parse(addresses.subnet, addresses.ips, addresses.exclude, rules.policy);
    let mine = read(&checked.addresses).map_err(|error| Violation::invalid("spec.subnet", error))?;
    let label = cidr_label(&new.spec.subnet, checked.version, rules.policy).map_err(|error| Violation::internal("spec.ips", error))?;
    for other in rules.live.pools() {
        let its_label = other.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_IPPOOL_CIDR));
        if other.metadata.name == new.metadata.name || its_label != Some(&label) {
            continue;
        }
        let its = read(&Addresses::from(&other.spec)).map_err(|error| Violation::invalid("spec.subnet", error))?;
        if let Some(range) = mine.overlaps(&its).next() {
            let name = other.metadata.name.as_deref().unwrap_or_default();
            return Err(Violation::forbidden("spec.ips", format_args!("{range} of pool {name} shares addresses")));
        }
    }
    Ok(())
}
