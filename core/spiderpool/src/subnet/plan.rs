//! What to write next, so that a workload gets the pool that it asks for (A §8.4).

use super::kinds::Kind;
use super::pick::{from, highest, lowest};
use super::shares::{Shares, held, listed, recorded};
use super::want::{Known, Plan, Refusal, Want, Write};
use super::{plan_upstream, pool};
use crate::Policy;
use crate::ranges::{IpSet, IpVersion, parse_range};
use crate::{PoolIPPreAllocations, SpiderSubnet};

/// Decides what to write next.
///
/// Hardened, the pool's addresses are a part of what is set aside for it after every single write, and the same once nothing is left to
/// write. It grows by what is set aside for it already, then by free addresses; it shrinks from its highest address that no pod has, as far
/// as it can. Addresses that are set aside for another pool are given up unless a pod has them. Before it grows, the subnet is always
/// written, so that a write that gives back what it gets, and was decided on before, comes too late.
///
/// # Errors
/// Why nothing can be written.
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
        // Nothing stays set aside for a pool that cannot be made, unless another agent may be making a smaller one.
        let alone = shares.own.iter().filter(|_| makes_alone(want));
        let writes: Vec<_> = alone.map(|_| Write::Subnet(shares.give_back(subnet, &name))).collect();
        return if writes.is_empty() { Err(refusal.clone()) } else { Ok(Plan { writes, again: true, surplus: 0 }) };
    }
    let mut plan = Plan { surplus: target.surplus, ..Plan::default() };

    // What is set aside before the pool is written has all that the pool has then, and has now.
    let mine = |ips: &IpSet| ips.difference(&shares.others);
    let own = shares.own.clone().unwrap_or_default();
    let before =
        if mine(&target.ips.union(&has)).difference(&own).is_empty() { own.clone() } else { mine(&own.union(&has).union(&target.ips)) };
    let after = mine(&target.ips);
    let set_aside = |ips: &IpSet| Write::Subnet(shares.set_aside(subnet, &name, want.application, ips));
    let first = before != own || (shares.own.is_none() && known.pool.is_none());
    // A shrink that is half done may be about to give back what the pool now gets.
    let reuses = !first && !target.ips.difference(&has).is_empty();
    if first {
        plan.writes.push(set_aside(&before));
    } else if reuses {
        plan.writes.push(Write::Hold(held(subnet)));
    }
    match known.pool {
        None => plan.writes.push(Write::Create(pool::new(&name, subnet, want, &target.ips, policy))),
        Some(known) if has == target.ips && pool::is_up_to_date(known, want, policy) => {
            // Another replica or agent may be about to make the pool as large as what was set aside.
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
        // Whatever else is to be mended comes first.
        Some(refusal) if plan.writes.is_empty() => Err(refusal),
        Some(_) => Ok(Plan { again: true, ..plan }),
        None => Ok(plan),
    }
}

/// What a pool is to have.
struct Target {
    ips: IpSet,
    /// How many it has too many.
    surplus: u128,
    /// How many are free, and how many more are needed, if that is too few.
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
        // What is set aside already comes first: that is what an earlier plan was about to give.
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
            // Nothing is set aside for a pool that cannot be made.
            return Self { ips: kept, surplus: 0, short: Some((count, missing)) };
        }
        let skip = known.draw.map_or(0, |draw| u128::from(draw) % count);
        Self { ips: kept.union(&from(&free, skip, missing)), surplus: 0, short: None }
    }
}

/// What pools of the CIDR have without the subnet's knowing of it.
///
/// Pools and entries are both in the order of their names, so that almost all are found side by side and the same, and none of these is
/// read.
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

/// Whether nobody else is about to make the pool, so that what is set aside for it while it is not there may be given back. Agents on
/// several nodes make one pool for a third-party workload, and want different sizes of it while its pods are replaced; a pool that is yet
/// to be created has no version that would keep the slower one away.
fn makes_alone(want: &Want<'_>) -> bool {
    Kind::of(&want.application.name).is_some()
}

/// What to write when admission refuses the pool for good: what is set aside for it but not in it goes back (A W20). Nothing if there is
/// nothing to give back.
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
