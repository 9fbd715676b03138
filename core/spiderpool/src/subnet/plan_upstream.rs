//! Upstream's form of the same decision (A §8.4, U2 to U4): the subnet is always written before the pool.

use super::pick::lowest;
use super::pool;
use super::shares::{Shares, listed, recorded};
use super::want::{Known, Plan, Refusal, Want, Write};
use crate::Policy;
use crate::ranges::IpSet;

pub(super) fn plan(want: &Want<'_>, known: &Known<'_>, name: &str, policy: &Policy) -> Result<Plan, Refusal> {
    let version = want.demand.family.number();
    let size = u128::from(want.demand.size);
    let (has, records) = match known.pool {
        Some(pool) => (listed(pool, version, policy)?, recorded(pool)?),
        None => Default::default(),
    };
    if let Some(pool) = known.pool
        && has.count() == size
        && pool::is_up_to_date(pool, want, policy)
    {
        return Ok(Plan::default());
    }
    let shares = Shares::read(known.subnet, name, want.application, policy)?;
    let (ips, is_written) = set_aside(&shares, &has, &records, size, name, known, policy)?;
    let mut writes = Vec::new();
    if is_written {
        writes.push(Write::Subnet(shares.set_aside(known.subnet, name, want.application, &ips)));
    }
    writes.push(match known.pool {
        None => Write::Create(pool::new(name, known.subnet, want, &ips, policy)),
        Some(pool) => Write::Update(pool::changed(pool, want, &ips, policy)),
    });
    Ok(Plan { writes, again: false, surplus: 0 })
}

/// A U3: the addresses to pre-allocate, and whether the subnet has to be written for that.
fn set_aside(
    shares: &Shares,
    has: &IpSet,
    records: &IpSet,
    size: u128,
    name: &str,
    known: &Known<'_>,
    policy: &Policy,
) -> Result<(IpSet, bool), Refusal> {
    let draw = |missing: u128| {
        let free = shares.free().difference(known.reserved);
        let subnet = known.subnet.metadata.name.clone().unwrap_or_default();
        if free.count() < missing {
            return Err(Refusal::Insufficient { subnet, free: free.count(), missing });
        }
        Ok(lowest(&free, missing))
    };
    let Some(own) = &shares.own else { return Ok((draw(size)?, true)) };
    let count = own.count();
    if count < size {
        return Ok((own.union(&draw(size - count)?), true));
    }
    if count > size {
        let excess = count - size;
        if count.saturating_sub(records.count()) < excess {
            return Err(Refusal::InUse { pool: name.to_owned(), excess });
        }
        return Ok((own.difference(&lowest(&own.difference(records), excess)), true));
    }
    if own.contains_all(records) {
        // The subnet was written before, and the pool was not.
        return Ok((own.clone(), false));
    }
    // A shrink was interrupted, and an address that it gave up was recorded meanwhile.
    let excess = has.count().saturating_sub(size);
    let mended = has.difference(&lowest(&has.difference(records), excess));
    if !policy.interrupted_shrink_takes_back && !mended.intersection(&shares.others).is_empty() {
        return Err(Refusal::Contested(name.to_owned()));
    }
    Ok((mended, true))
}
