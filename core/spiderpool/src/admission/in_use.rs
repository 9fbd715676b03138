//! The addresses that an update may not remove.

use std::net::IpAddr;

use super::addresses::Addresses;
use super::{Denial, Rules, Violation};
use crate::address_set::AddressSet;
use crate::ranges::{IpSet, IpVersion, RangeError, parse_range, total_ips};
use crate::select::is_auto_pool;
use crate::{PoolIPAllocation, RecordKey, SpiderIPPool, SpiderSubnet, SubnetSpec, SubnetStatus};
use kube_machinery::controller_of;

/// Checks that the records of a pool keep their addresses.
///
/// # Errors
/// The first record that would lose its address.
pub(super) fn check_records(old: &SpiderIPPool, new: &SpiderIPPool, rules: &Rules<'_>) -> Result<(), Violation> {
    let policy = rules.policy;
    let lost = AddressSet::of_pool(&old.spec, policy).0.difference(&AddressSet::of_pool(&new.spec, policy).0);
    if lost.is_empty() {
        return Ok(());
    }
    // The stored status counts, whatever the request says of it.
    let Some(status) = &old.status else { return Ok(()) };
    let records = status.allocated_ips.parse().map_err(|error| Violation::internal("spec.ips", error))?;
    match records.iter().find(|(key, _)| address_of(key).is_some_and(|ip| lost.contains(ip))) {
        Some((key, record)) => Err(record_in_use(key, record)),
        None => Ok(()),
    }
}

/// The address of a record, if its key spells one.
pub(super) fn address_of(key: &RecordKey) -> Option<IpAddr> {
    key.address().or_else(|| key.to_string().parse().ok())
}

/// The violation for a record that would lose its address.
pub(super) fn record_in_use(key: &RecordKey, record: &PoolIPAllocation) -> Violation {
    Violation::forbidden("spec.ips", format_args!("{key} would go, and Pod {} has it", record.pod))
}

/// The addresses of a pool or a subnet, by the strict parser.
pub(super) fn strict_total(addresses: &Addresses<'_>, rules: &Rules<'_>) -> Result<IpSet, RangeError> {
    Ok(total_ips(addresses.ips, addresses.exclude, addresses.version.unwrap_or_default(), rules.policy)?.into_iter().collect())
}

/// The addresses of a pool or a subnet, for comparison with another one.
///
/// # Errors
/// With `upstream-ranges`, the strict parser cannot read them.
pub(super) fn total_of(addresses: Addresses<'_>, rules: &Rules<'_>) -> Result<IpSet, Violation> {
    if rules.policy.upstream_ranges {
        return strict_total(&addresses, rules).map_err(|error| Violation::internal("spec.ips", error));
    }
    Ok(AddressSet::new(addresses.version, addresses.ips, addresses.exclude, rules.policy).0)
}

/// Checks that the pre-allocations of a subnet and its auto pools keep their addresses.
///
/// # Errors
/// The first pool that would lose addresses.
pub(super) fn check_pre_allocations(old: &SpiderSubnet, new: &SpiderSubnet, rules: &Rules<'_>) -> Result<(), Violation> {
    let set = |spec: &SubnetSpec| AddressSet::of_subnet(spec, rules.policy).0;
    let lost = set(&old.spec).difference(&set(&new.spec));
    if lost.is_empty() {
        return Ok(());
    }
    check_each_pre_allocation(&old.status, new, rules, |ips| ips.intersection(&lost))?;
    // The status may not mention a pool that was made while its pre-allocation was given back (K124). It is added back with all addresses
    // that it lists.
    for pool in rules.live.pools().iter().filter(|pool| is_auto_pool(pool) && pool.spec.subnet == old.spec.subnet) {
        let has = AddressSet::new(pool.spec.ip_version, pool.spec.ips.as_deref().unwrap_or_default(), &[], rules.policy).0;
        if let Some(range) = has.intersection(&lost).ranges().next() {
            let name = pool.metadata.name.as_deref().unwrap_or_default();
            return Err(Violation::forbidden("spec.ips", format_args!("{range} would go, and pool {name} has it")));
        }
    }
    Ok(())
}

/// Checks that every pre-allocation in `status` keeps its addresses; `gone` returns those that it would lose.
pub(super) fn check_each_pre_allocation(
    status: &Option<SubnetStatus>,
    new: &SpiderSubnet,
    rules: &Rules<'_>,
    gone: impl Fn(&IpSet) -> IpSet,
) -> Result<(), Violation> {
    let Some(status) = status else { return Ok(()) };
    let internal = |error: &dyn std::fmt::Display| Violation::internal("status.controlledIPPools", error);
    let pools = status.controlled_ippools.parse().map_err(|error| internal(&error))?;
    let version = new.spec.ip_version.unwrap_or_default();
    for (name, pool) in pools.iter() {
        let ips = pre_allocated(&pool.ips, version, rules).map_err(|error| internal(&error))?;
        if let Some(range) = gone(&ips).ranges().next() {
            return Err(Violation::forbidden("spec.ips", format_args!("{range} would go, and pool {name} has it")));
        }
    }
    Ok(())
}

/// The addresses of a pre-allocation.
fn pre_allocated(texts: &[String], version: i64, rules: &Rules<'_>) -> Result<IpSet, RangeError> {
    texts.iter().map(|text| parse_range(text, version, rules.policy)).collect()
}

/// Checks that a pool has only addresses of the subnet that owns it, and an auto pool only those that are pre-allocated for it.
///
/// Upstream requires an auto pool to have all of these (`subnet-shrinks-lowest`). Hardened, a pool is written before its subnet when both
/// shrink, so it may have fewer for a while; and only addresses that a request adds are checked.
///
/// # Errors
/// The addresses that the pool has too many, or why it cannot be compared.
pub(super) fn check_within_subnet(old: Option<&SpiderIPPool>, new: &SpiderIPPool, rules: &Rules<'_>) -> Result<(), Denial> {
    const FIELD: &str = "spec.ips";
    let owner = controller_of(&new.metadata);
    let Some(owner) = owner else { return Ok(()) };
    let total = total_of(Addresses::from(&new.spec), rules)?;
    if total.is_empty() {
        return Ok(());
    }
    let added = match old {
        Some(old) if !rules.policy.update_judged_whole => total.difference(&AddressSet::of_pool(&old.spec, rules.policy).0),
        _ => total.clone(),
    };
    if added.is_empty() {
        return Ok(());
    }
    let subnet = rules.live.subnets().iter().find(|subnet| subnet.metadata.name.as_ref() == Some(&owner.name));
    let subnet = subnet.ok_or_else(|| Violation::internal("spec.subnet", format_args!("there is no subnet {}", owner.name)))?;
    let version = subnet.spec.ip_version.unwrap_or_default();
    if IpVersion::try_from(version).is_err() {
        return Err(Violation::internal(FIELD, format_args!("subnet {} has no family", owner.name)).into());
    }
    let outside = added.difference(&total_of(Addresses::from(&subnet.spec), rules)?);
    if let Some(range) = outside.ranges().next() {
        return Err(Violation::forbidden(FIELD, format_args!("{range} is none of the addresses of subnet {}", owner.name)).into());
    }
    if !is_auto_pool(new) {
        return Ok(());
    }
    let (none, name) = (Default::default(), new.metadata.name.clone().unwrap_or_default());
    let pools = match &subnet.status {
        Some(status) => status.controlled_ippools.parse().map_err(|error| Violation::internal("spec.subnet", error))?,
        None => &none,
    };
    let set_aside = pools.get(&name).map(|pool| pre_allocated(&pool.ips, version, rules));
    let set_aside = set_aside.transpose().map_err(|error| Violation::internal("spec.subnet", error))?.unwrap_or_default();
    let fits = if rules.policy.subnet_shrinks_lowest { set_aside == total } else { set_aside.contains_all(&added) };
    if fits {
        return Ok(());
    }
    Err(Violation::forbidden(FIELD, format_args!("the addresses are not those that subnet {} sets aside for the pool", owner.name)).into())
}

/// Checks that a user's pool has no address that the subnet of its CIDR pre-allocates for another pool, whether or not that one exists yet.
///
/// Upstream compares it with pools only (`manual-pool-ignores-preallocation`).
///
/// # Errors
/// The pool for which an address is pre-allocated.
pub(super) fn check_set_aside(added: &IpSet, new: &SpiderIPPool, rules: &Rules<'_>) -> Result<(), Violation> {
    if rules.policy.manual_pool_ignores_preallocation || !rules.settings.enable_spider_subnet || is_auto_pool(new) {
        return Ok(());
    }
    let own = new.metadata.name.as_deref().unwrap_or_default();
    for subnet in rules.live.subnets().iter().filter(|subnet| subnet.spec.subnet == new.spec.subnet) {
        // An unreadable status is rebuilt by the controller.
        let Some(Ok(pools)) = subnet.status.as_ref().map(|status| status.controlled_ippools.parse()) else { continue };
        let others = pools.iter().filter(|(name, _)| *name != own).flat_map(|(name, pool)| pool.ips.iter().map(move |text| (name, text)));
        for (name, text) in others {
            let range = parse_range(text, new.spec.ip_version.unwrap_or_default(), rules.policy);
            if range.is_ok_and(|range| !added.intersection(&range.into()).is_empty()) {
                return Err(Violation::forbidden("spec.ips", format_args!("addresses of {text} are set aside for pool {name}")));
            }
        }
    }
    Ok(())
}
