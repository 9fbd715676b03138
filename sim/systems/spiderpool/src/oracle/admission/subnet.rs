//! The rules for subnets (A §9.2).

use ipam_spiderpool::admission::{AdmissionSettings, Fault, Listed};
use ipam_spiderpool::owner_label::subnet_of;
use ipam_spiderpool::ranges::{IpSet, parse_range};
use ipam_spiderpool::select::is_auto_pool;
use ipam_spiderpool::{Policy, PoolIPPreAllocation, SpiderIPPool, SpiderSubnet};
use kube_machinery::InvalidText;

use super::block::{Block, Change, addresses_of};
use super::held::{Held, HeldByPools};
use super::stored::stored_subnet;
use super::{Found, Ruling, ruling_of_deletion, ruling_of_terminating};

/// Judges the write of a subnet. `old`: as stored, `None` for a creation; `new`: as it would be stored, with defaults filled in, `None` for
/// a deletion. `held`: a cache of the addresses of pools.
pub fn subnet(
    old: Option<&SpiderSubnet>,
    new: Option<&SpiderSubnet>,
    live: &Listed,
    settings: &AdmissionSettings,
    held: &mut HeldByPools,
) -> Ruling {
    let old = old.map(stored_subnet);
    let Some(new) = new.map(stored_subnet) else {
        return ruling_of_deletion(settings, old.is_some_and(|old| is_in_use(&old)));
    };
    let terminating = old.as_ref().and_then(|old| ruling_of_terminating(&new.metadata, old.spec == new.spec));
    if let Some(ruling) = terminating {
        return ruling;
    }
    let (block, old_block) = (Block::from(&new.spec), old.as_ref().map(|old| Block::from(&old.spec)));
    let mut found = Found::default();
    block.judge_cidr(old_block.as_ref(), settings, &mut found);
    if old.is_none() {
        if found.is_empty() && live.subnets.iter().any(|subnet| subnet.metadata.name == new.metadata.name) {
            return Ruling::AlreadyExists;
        }
        judge_neighbours(&block, live, held, &mut found);
    }
    if block.judge_ranges(old_block.as_ref(), false, &mut found) {
        match &old {
            None => judge_pools_within(&block, live, held, &mut found),
            Some(old) => judge_gone(old, &Change::between(old_block.as_ref(), &block).gone, live, held, &mut found),
        }
    }
    block.judge_gateway(old_block.as_ref(), &mut found);
    block.judge_routes(old_block.as_ref(), &mut found);
    found.ruling()
}

/// The addresses that are set aside, by the name of the pool.
pub(super) fn pre_allocations(subnet: &SpiderSubnet) -> Result<Vec<(&String, &PoolIPPreAllocation)>, InvalidText> {
    let Some(status) = &subnet.status else { return Ok(Vec::new()) };
    Ok(status.controlled_ippools.parse()?.iter().collect())
}

/// Whether an address is set aside or counted, or the status cannot be parsed.
fn is_in_use(subnet: &SpiderSubnet) -> bool {
    let is_counted = subnet.status.as_ref().is_some_and(|status| status.allocated_ip_count.unwrap_or(0) > 0);
    is_counted || pre_allocations(subnet).map_or(true, |entries| entries.iter().any(|(_, entry)| !entry.ips.is_empty()))
}

/// Requires that the CIDR overlaps with no other subnet's, and with no pool's that differs from it.
fn judge_neighbours(block: &Block, live: &Listed, held: &mut HeldByPools, found: &mut Found) {
    let own = Held::of(block);
    let subnets = live.subnets.iter().any(|subnet| Held::of(&Block::from(&subnet.spec)).overlaps(&own));
    if subnets || live.pools.iter().any(|pool| pool.spec.subnet != block.subnet && held.of(pool).overlaps(&own)) {
        found.add("spec.subnet", Fault::Invalid);
    }
}

/// Requires that existing pools of the same CIDR have addresses of the subnet only.
fn judge_pools_within(block: &Block, live: &Listed, held: &mut HeldByPools, found: &mut Found) {
    let own = Held::of(block);
    let is_beyond = |held: &Held| held.family == own.family && !own.addresses.contains_all(&held.addresses);
    if live.pools.iter().any(|pool| pool.spec.subnet == block.subnet && is_beyond(&held.of(pool))) {
        found.add("spec.ips", Fault::Invalid);
    }
}

/// Requires that no address is removed that is set aside or in an auto pool of the subnet, whether or not the status says so (D §1.2).
fn judge_gone(old: &SpiderSubnet, gone: &IpSet, live: &Listed, held: &mut HeldByPools, found: &mut Found) {
    if gone.is_empty() {
        return;
    }
    let is_own = |pool: &SpiderIPPool| {
        is_auto_pool(pool)
            && (pool.spec.subnet == old.spec.subnet || subnet_of(pool).is_some() && subnet_of(pool) == old.metadata.name.as_deref())
    };
    let mut own = live.pools.iter().filter(|pool| is_own(pool));
    if own.any(|pool| held.of(pool).addresses.first_shared(gone).is_some()) {
        found.add("spec.ips", Fault::Forbidden);
    }
    let family = Block::from(&old.spec).family().unwrap_or_default();
    let Ok(entries) = pre_allocations(old) else { return unreadable(found) };
    let texts: Vec<&String> = entries.into_iter().flat_map(|(_, entry)| &entry.ips).collect();
    if texts.iter().any(|text| parse_range(text, family, &Policy::hardened()).is_err()) {
        unreadable(found);
    }
    if addresses_of(texts, family).first_shared(gone).is_some() {
        found.add("spec.ips", Fault::Forbidden);
    }
}

/// Reports that the set-aside addresses are unknown.
pub(super) fn unreadable(found: &mut Found) {
    found.add("spec.ips", Fault::Internal);
    found.add("status.controlledIPPools", Fault::Internal);
}
