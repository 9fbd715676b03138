//! The rules for pools (A §9.1).

use std::sync::Arc;

use ipam_spiderpool::admission::{AdmissionSettings, Fault, Listed};
use ipam_spiderpool::ranges::IpSet;
use ipam_spiderpool::select::is_auto_pool;
use ipam_spiderpool::{SpiderIPPool, SpiderSubnet};
use kube_machinery::{InvalidText, controller_of};

use super::block::{Block, Change, addresses_of};
use super::held::{Held, HeldByPools};
use super::selector::judge_affinity;
use super::stored::stored_pool;
use super::subnet::{pre_allocations, unreadable};
use super::{Found, Ruling, ruling_of_deletion, ruling_of_terminating};

/// Judges the write of a pool. `old`: as stored, `None` for a creation; `new`: as it would be stored, with defaults filled in, `None` for a
/// deletion. `held`: a cache of the addresses of pools.
pub fn pool(
    old: Option<&SpiderIPPool>,
    new: Option<&SpiderIPPool>,
    live: &Listed,
    settings: &AdmissionSettings,
    held: &mut HeldByPools,
) -> Ruling {
    let old = old.map(stored_pool);
    let Some(new) = new.map(stored_pool) else {
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
        if found.is_empty() && live.pools.iter().any(|pool| pool.metadata.name == new.metadata.name) {
            return Ruling::AlreadyExists;
        }
        let own = Held::of(&block);
        if live.pools.iter().any(|pool| pool.spec.subnet != block.subnet && held.of(pool).overlaps(&own)) {
            found.add("spec.subnet", Fault::Invalid);
        }
    }
    if block.judge_ranges(old_block.as_ref(), true, &mut found) {
        let Change { added, gone } = Change::between(old_block.as_ref(), &block);
        judge_added(&new, &added, live, settings, held, &mut found);
        if let Some(old) = &old {
            judge_gone(old, &gone, &mut found);
        }
    }
    block.judge_gateway(old_block.as_ref(), &mut found);
    block.judge_routes(old_block.as_ref(), &mut found);
    judge_affinity(&new, old.as_ref(), &mut found);
    found.ruling()
}

/// Whether an address is recorded or counted, or the records cannot be parsed.
fn is_in_use(pool: &SpiderIPPool) -> bool {
    let Some(status) = &pool.status else { return false };
    status.allocated_ip_count.unwrap_or(0) > 0 || status.allocated_ips.parse().map_or(true, |records| !records.is_empty())
}

/// The addresses that have a record; a key in a non-canonical form stands for the address that it spells.
fn recorded(pool: &SpiderIPPool) -> Result<IpSet, InvalidText> {
    let (Some(status), Some(family)) = (&pool.status, Block::from(&pool.spec).family()) else { return Ok(IpSet::default()) };
    let keys: Vec<String> = status.allocated_ips.parse()?.iter().map(|(key, _)| key.to_string()).collect();
    Ok(addresses_of(&keys, family))
}

/// Requires that no address with a record is removed.
fn judge_gone(old: &SpiderIPPool, gone: &IpSet, found: &mut Found) {
    if gone.is_empty() {
        return;
    }
    match recorded(old) {
        Ok(recorded) if recorded.first_shared(gone).is_none() => {}
        Ok(_) => found.add("spec.ips", Fault::Forbidden),
        Err(_) => {
            found.add("spec.ips", Fault::Internal);
            found.add("status.allocatedIPs", Fault::Internal);
        }
    }
}

/// Requires that a new address is in no other pool, whatever the labels say (A §14.17), and that subnets permit it (A §9.1 rule 6).
fn judge_added(pool: &SpiderIPPool, added: &IpSet, live: &Listed, settings: &AdmissionSettings, held: &mut HeldByPools, found: &mut Found) {
    if added.is_empty() {
        return;
    }
    let mut others = live.pools.iter().filter(|other| other.metadata.name != pool.metadata.name);
    if others.any(|other| held.of(other).addresses.first_shared(added).is_some()) {
        found.add("spec.ips", Fault::Forbidden);
    }
    if !settings.enable_spider_subnet {
        return;
    }
    if let Some(owner) = controller_of(&pool.metadata).filter(|owner| owner.kind == "SpiderSubnet") {
        match live.subnets.iter().find(|subnet| subnet.metadata.name.as_ref() == Some(&owner.name)) {
            Some(subnet) => judge_share(pool, added, subnet, found),
            // The addresses of the subnet are unknown.
            None => ["spec.ips", "spec.subnet", "metadata.ownerReferences"].iter().for_each(|field| found.add(*field, Fault::Internal)),
        }
    }
    if !is_auto_pool(pool) {
        let same = live.subnets.iter().filter(|subnet| subnet.spec.subnet == pool.spec.subnet);
        same.for_each(|subnet| judge_set_aside(pool, added, subnet, found));
    }
}

/// Requires that a new address belongs to the subnet that controls the pool and, for an auto pool, that it is set aside for the pool. Not
/// all that is set aside need be in the pool (D §1.2, `subnet-shrinks-lowest` off).
fn judge_share(pool: &SpiderIPPool, added: &IpSet, subnet: &Arc<SpiderSubnet>, found: &mut Found) {
    if !Block::from(&subnet.spec).addresses().contains_all(added) {
        found.add("spec.ips", Fault::Forbidden);
    }
    if !is_auto_pool(pool) {
        return;
    }
    let Ok(entries) = pre_allocations(subnet) else {
        found.add("spec.ips", Fault::Forbidden);
        return unreadable(found);
    };
    let own = entries.into_iter().filter(|(name, _)| Some(*name) == pool.metadata.name.as_ref());
    let family = Block::from(&pool.spec).family().unwrap_or_default();
    let own = addresses_of(own.flat_map(|(_, entry)| &entry.ips), family);
    if !own.contains_all(added) {
        found.add("spec.ips", Fault::Forbidden);
    }
}

/// Requires that an address of a manual pool is not set aside for another pool (`manual-pool-ignores-preallocation` off).
fn judge_set_aside(pool: &SpiderIPPool, added: &IpSet, subnet: &Arc<SpiderSubnet>, found: &mut Found) {
    let Ok(entries) = pre_allocations(subnet) else { return unreadable(found) };
    let others = entries.into_iter().filter(|(name, _)| Some(*name) != pool.metadata.name.as_ref());
    let family = Block::from(&pool.spec).family().unwrap_or_default();
    let others = addresses_of(others.flat_map(|(_, entry)| &entry.ips), family);
    if others.first_shared(added).is_some() {
        found.add("spec.ips", Fault::Forbidden);
    }
}
