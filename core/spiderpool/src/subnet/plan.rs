//! The next writes that give a workload the pool it asks for (A §8.4).

use super::kinds::Kind;
use super::pick::{from, highest, lowest};
use super::shares::{Shares, held, listed, recorded};
use super::want::{Known, Plan, Refusal, Want, Write};
use super::{plan_upstream, pool};
use crate::Policy;
use crate::ranges::{IpSet, IpVersion, parse_range};
use crate::{PoolIPPreAllocations, SpiderSubnet};

/// Decides the next writes.
///
/// Hardened, the pool's addresses are a subset of its pre-allocation after every single write, and equal to it once nothing is left to
/// write. The pool grows first by what is pre-allocated for it already, then by free addresses; it shrinks from the highest address that no
/// pod has, as far as possible. Addresses that are pre-allocated for another pool are given up unless a pod has them. Before a pool grows,
/// the subnet is always written, so that an earlier decision to give the same addresses back comes too late.
///
/// # Errors
/// The reason why nothing can be written.
pub fn plan(want: &Want<'_>, known: &Known<'_>, policy: &Policy) -> Result<Plan, Refusal> {
    let (subnet, family) = (known.subnet, want.demand.family);
    let subnet_name = || subnet.metadata.name.clone().unwrap_or_default();
    if subnet.metadata.deletion_timestamp.is_some() {
        return Err(Refusal::SubnetTerminating(subnet_name()));
    }
    if subnet.spec.ip_version != Some(family.number()) {
        return Err(Refusal::OtherFamily { subnet: subnet_name(), family });
    }
    let name = known.pool.and_then(|pool| pool.metadata.name.clone()).unwrap_or_else(|| want.pool_name(policy));
    if let Some(pool) = known.pool.filter(|pool| pool.spec.subnet != subnet.spec.subnet) {
        return Err(Refusal::OtherCidr { pool: name, has: pool.spec.subnet.clone(), wants: subnet.spec.subnet.clone() });
    }
    if policy.subnet_shrinks_lowest {
        return plan_upstream::plan(want, known, &name, policy);
    }
    if known.pool.is_some_and(|pool| pool.metadata.deletion_timestamp.is_some()) {
        return Err(Refusal::PoolTerminating(name));
    }
    let shares = Shares::read(subnet, &name, want.application, policy)?;
    let (has, records) = match known.pool {
        Some(pool) => (listed(pool, family.number(), policy)?, recorded(pool)?),
        None => Default::default(),
    };
    let target = Target::of(&shares, &has, &records, want, known, policy);
    let refusal = target.short.map(|(free, missing)| Refusal::Insufficient { subnet: subnet_name(), free, missing });
    if let (None, Some(refusal)) = (known.pool, &refusal) {
        // A pool that cannot be made keeps no pre-allocation, unless another agent may be making a smaller one.
        let alone = shares.own.iter().filter(|_| makes_alone(want));
        let writes: Vec<_> = alone.map(|_| Write::Subnet(shares.give_back(subnet, &name))).collect();
        return if writes.is_empty() { Err(refusal.clone()) } else { Ok(Plan { writes, again: true, surplus: 0 }) };
    }
    let mut plan = Plan { surplus: target.surplus, ..Plan::default() };

    // The pre-allocation before the pool is written holds all addresses that the pool has then, and has now.
    let mine = |ips: &IpSet| ips.difference(&shares.others);
    let own = shares.own.clone().unwrap_or_default();
    let before =
        if mine(&target.ips.union(&has)).difference(&own).is_empty() { own.clone() } else { mine(&own.union(&has).union(&target.ips)) };
    let after = mine(&target.ips);
    let set_aside = |ips: &IpSet| Write::Subnet(shares.set_aside(subnet, &name, want.application, ips));
    let first = before != own || (shares.own.is_none() && known.pool.is_none());
    // A half-done shrink may be about to give back what the pool now gets.
    let reuses = !first && !target.ips.difference(&has).is_empty();
    if first {
        plan.writes.push(set_aside(&before));
    } else if reuses {
        plan.writes.push(Write::Hold(held(subnet)));
    }
    match known.pool {
        None => plan.writes.push(Write::Create(pool::new(&name, subnet, want, &target.ips, policy))),
        Some(known) if has == target.ips && pool::is_up_to_date(known, want, policy) => {
            // Another replica or agent may be about to make the pool as large as its pre-allocation.
            if !first && !own.difference(&after).is_empty() {
                plan.writes.push(Write::Update(pool::fenced(known, subnet)));
            }
        }
        Some(known) => plan.writes.push(Write::Update(pool::changed(known, want, &target.ips, policy))),
    }
    if first || reuses {
        plan.again = before != after;
    } else if own != after || shares.own.is_none() {
        plan.writes.push(set_aside(&after));
    }
    match refusal {
        // All other repairs come first.
        Some(refusal) if plan.writes.is_empty() => Err(refusal),
        Some(_) => Ok(Plan { again: true, ..plan }),
        None => Ok(plan),
    }
}

/// The desired content of a pool.
struct Target {
    ips: IpSet,
    /// The number of addresses too many.
    surplus: u128,
    /// The number of free addresses and the number still needed, if there are too few.
    short: Option<(u128, u128)>,
}

impl Target {
    fn of(shares: &Shares, has: &IpSet, records: &IpSet, want: &Want<'_>, known: &Known<'_>, policy: &Policy) -> Self {
        let wanted = u128::from(want.demand.size);
        let own = shares.own.clone().unwrap_or_default();
        let contested = has.intersection(&shares.others).difference(records);
        let kept = has.difference(&contested);
        if kept.count() >= wanted {
            let unused = kept.difference(records);
            let excess = kept.count() - wanted;
            let ips = if excess == 0 { kept } else { kept.difference(&highest(&unused, excess)) };
            return Self { ips, surplus: excess.saturating_sub(unused.count()), short: None };
        }
        let missing = wanted - kept.count();
        let usable = |set: IpSet| set.difference(known.reserved).difference(&contested);
        // Addresses that are pre-allocated already come first: an earlier plan was about to give them to the pool.
        let mut spare = usable(own.intersection(&shares.total).difference(&shares.others).difference(has));
        if !spare.is_empty() && !policy.manual_pool_ignores_preallocation {
            spare = spare.difference(&occupied(known, want.demand.family, policy));
        }
        let from_spare = lowest(&spare, missing);
        let kept = kept.union(&from_spare);
        let missing = missing - from_spare.count();
        if missing == 0 {
            return Self { ips: kept, surplus: 0, short: None };
        }
        let mut free = usable(shares.free().difference(has));
        if !policy.manual_pool_ignores_preallocation {
            free = free.difference(&occupied(known, want.demand.family, policy));
        }
        let count = free.count();
        if count < missing {
            // A pool that cannot be made gets no pre-allocation.
            return Self { ips: kept, surplus: 0, short: Some((count, missing)) };
        }
        let skip = known.draw.map_or(0, |draw| u128::from(draw) % count);
        Self { ips: kept.union(&from(&free, skip, missing)), surplus: 0, short: None }
    }
}

/// The addresses that pools of the CIDR have without the subnet's knowledge.
///
/// Pools and entries are both in the order of their names, so that almost all match side by side, and none of these is parsed.
fn occupied(known: &Known<'_>, family: IpVersion, policy: &Policy) -> IpSet {
    let own = known.pool.and_then(|pool| pool.metadata.name.as_ref());
    let none = PoolIPPreAllocations::default();
    let entries = known.subnet.status.as_ref().and_then(|status| status.controlled_ippools.parse().ok()).unwrap_or(&none);
    let mut entries = entries.iter().peekable();
    let mut ranges = Vec::new();
    for pool in known.neighbours.iter().filter(|pool| pool.metadata.name.as_ref() != own) {
        let (name, ips) = (pool.metadata.name.as_deref().unwrap_or_default(), pool.spec.ips.as_deref().unwrap_or_default());
        while entries.next_if(|(of, _)| of.as_str() < name).is_some() {}
        if entries.next_if(|(of, entry)| *of == name && entry.ips == ips).is_none() {
            ranges.extend(ips.iter().filter_map(|text| parse_range(text, family.number(), policy).ok()));
        }
    }
    ranges.into_iter().collect()
}

/// Whether nobody else can be about to make the pool, so that its pre-allocation may be given back while it does not exist. Agents on
/// several nodes make one pool for a third-party workload, and want different sizes of it while its pods are replaced; a pool that does not
/// exist yet has no resourceVersion that would stop the slower agent.
fn makes_alone(want: &Want<'_>) -> bool {
    Kind::of(&want.application.name).is_some()
}

/// The subnet to write when admission refuses the pool permanently: what is pre-allocated for the pool but not in it is given back (A W20).
/// `None` if there is nothing to give back.
///
/// # Errors
/// Something cannot be read.
pub(super) fn give_back(want: &Want<'_>, known: &Known<'_>, policy: &Policy) -> Result<Option<Box<SpiderSubnet>>, Refusal> {
    let name = known.pool.and_then(|pool| pool.metadata.name.clone()).unwrap_or_else(|| want.pool_name(policy));
    let shares = Shares::read(known.subnet, &name, want.application, policy)?;
    let Some(own) = &shares.own else { return Ok(None) };
    let Some(pool) = known.pool else { return Ok(makes_alone(want).then(|| shares.give_back(known.subnet, &name))) };
    let kept = listed(pool, want.demand.family.number(), policy)?.difference(&shares.others);
    Ok((kept != *own).then(|| shares.set_aside(known.subnet, &name, want.application, &kept)))
}
