//! Changes of a pool's records: pure decisions on one state of it (A §5.4, §6.2, §7.1).

use std::net::IpAddr;

use ipnet::IpNet;

use super::error::PoolError;
use crate::ranges::{Cidr, PoolAddresses, RangeError, Shortage};
use crate::select::Unavailable;
use crate::{IPPoolStatus, Policy, PoolIPAllocation, PoolIPAllocations, RecordKey, SpiderIPPool};
use kube_machinery::api::ObjectKey;

/// The status to write, if any, and the result of the change.
#[derive(Debug)]
pub(crate) struct Decision<T> {
    pub(crate) outcome: T,
    /// The status to write; `None` = nothing needs to change.
    pub(crate) write: Option<IPPoolStatus>,
}

/// A request for an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    /// `namespace/name` for the record.
    pub(super) key: &'a ObjectKey,
    pub(super) uid: &'a str,
    pub(super) nic: &'a str,
    pub(super) max_records: u64,
    /// The addresses that do not work for this pod.
    pub(super) avoided: &'a [IpAddr],
    /// Addresses of a predecessor that the rules refuse by now, and whose records an earlier ADD may have transferred to the pod.
    pub(super) refused: &'a [IpAddr],
    /// Own records that are certain to stay, because the requester made them just now; `None` = all are.
    pub(super) sure: Option<&'a [IpAddr]>,
    /// The addresses that the pod's endpoint names and keeps, as the API server has it; `None` = unknown.
    pub(super) named: Option<&'a [IpAddr]>,
    pub(super) policy: &'a Policy,
}

impl Ask<'_> {
    /// Whether a pool that was just read has a record of this NIC that its endpoint does not name; `None` = its records cannot be read.
    pub(super) fn is_recorded_in(&self, pool: &SpiderIPPool) -> Option<bool> {
        let Some(status) = &pool.status else { return Some(false) };
        let records = status.allocated_ips.parse().ok()?;
        let is_own = |(key, record): (&RecordKey, &PoolIPAllocation)| {
            let is_named = self.named.is_some_and(|named| key.address().is_some_and(|ip| named.contains(&ip)));
            key.address().is_some() && !is_named && record.interface.as_deref().is_none_or(|interface| interface == self.nic)
        };
        Some(records.of_pod_uid(self.uid).any(is_own))
    }
}

/// The records of a pool for the requester.
struct Own {
    /// The address of the record that serves the NIC, and whether the record names the NIC.
    record: Option<(IpAddr, bool)>,
    /// The addresses whose records are dropped.
    bad: Vec<IpAddr>,
}

impl Own {
    /// The records of the NIC.
    ///
    /// # Errors
    /// One of them has to change, and the content of the endpoint is unknown.
    fn of_nic(records: &PoolIPAllocations, ask: &Ask<'_>) -> Result<Self, PoolError> {
        let is_of_nic = |record: &PoolIPAllocation| record.interface.as_deref().is_none_or(|interface| interface == ask.nic);
        let mut bad = Vec::new();
        // A record that names the NIC takes precedence over one that names none.
        let mut own: Option<(IpAddr, bool)> = None;
        for (key, record) in records.of_pod_uid(ask.uid).filter(|(_, record)| is_of_nic(record)) {
            let Some(ip) = key.address() else { continue };
            let named = record.interface.is_some();
            if ask.named.is_some_and(|named| named.contains(&ip)) {
                continue;
            }
            if ask.avoided.contains(&ip) || ask.refused.contains(&ip) || ask.sure.is_some_and(|sure| !sure.contains(&ip)) {
                bad.push(ip);
            } else if own.is_none_or(|(_, known)| named && !known) {
                own = Some((ip, named));
            }
        }
        if ask.named.is_none() && (!bad.is_empty() || own.is_some_and(|(_, named)| !named)) {
            return Err(PoolError::EndpointUnknown);
        }
        Ok(Self { record: own, bad })
    }

    /// Upstream's form (`one-record-per-pod`): the pod's first record serves every NIC.
    fn of_pod(records: &PoolIPAllocations, ask: &Ask<'_>) -> Self {
        let first = records.of_pod_uid(ask.uid).find_map(|(key, _)| key.address());
        Self { record: first.map(|ip| (ip, true)), bad: Vec::new() }
    }
}

/// The allocation of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// The address; `None` = nothing is left besides own records that have to be dropped, so that these are dropped first and the pool is
    /// tried again.
    pub(super) address: Option<IpNet>,
    /// Whether it was already recorded for this pod and NIC.
    pub(super) recorded: bool,
    /// Own records that are dropped in its favour.
    pub(super) dropped: Vec<IpAddr>,
}

fn records(pool: &SpiderIPPool) -> Result<PoolIPAllocations, PoolError> {
    let Some(status) = &pool.status else { return Ok(PoolIPAllocations::default()) };
    let parsed = status.allocated_ips.parse().map_err(|error| PoolError::BadRecords(error.to_string()))?;
    // The map is persistent: this copies a few pointers.
    Ok(parsed.clone())
}

/// The status of a pool with other records.
fn status(pool: &SpiderIPPool, records: PoolIPAllocations, count: Option<i64>) -> IPPoolStatus {
    let before = pool.status.as_ref();
    IPPoolStatus {
        allocated_ips: records.into(),
        total_ip_count: before.and_then(|status| status.total_ip_count),
        allocated_ip_count: count.or_else(|| before.and_then(|status| status.allocated_ip_count)),
    }
}

fn count_of(records: &PoolIPAllocations) -> Option<i64> {
    Some(i64::try_from(records.len()).unwrap_or(i64::MAX))
}

/// The record of an address for a pod. Only the hardened form names the NIC (A W14).
fn record(ask: &Ask<'_>) -> PoolIPAllocation {
    let interface = (!ask.policy.one_record_per_pod).then(|| ask.nic.to_owned());
    PoolIPAllocation { interface, pod: ask.key.as_str().to_owned(), pod_uid: ask.uid.to_owned() }
}

/// Allocates an address: the one that is recorded for this pod and NIC, else the first free one.
///
/// An own record on an address that does not work for the pod is replaced by a new one in the same write, and so is one that the rules
/// refuse, and one that a late write may remove: the pool has another version then, so that the late write has no effect (K070, K075). An
/// own record that names no NIC, as upstream writes them, is assigned to this NIC.
///
/// If nothing else is free, such records are only dropped: a record that stayed would be a second one beside that of the next pool (A W1).
///
/// An address that the pod's endpoint names belongs to another NIC, or was given to this one by an ADD that nobody remembers: it stays
/// unchanged.
///
/// # Errors
/// [`PoolError::EndpointUnknown`] before an own record is changed although the endpoint may name it.
pub(super) fn allocate(
    pool: &SpiderIPPool,
    ask: &Ask<'_>,
    addresses: impl FnOnce() -> Result<std::sync::Arc<PoolAddresses>, RangeError>,
) -> Result<Decision<Given>, PoolError> {
    let mut records = records(pool)?;
    let prefix = Cidr::parse(&pool.spec.subnet, ask.policy).map_err(Unavailable::from)?.net().prefix_len();
    let network = |ip: IpAddr| IpNet::new(ip, prefix).map_err(|_| Unavailable::from(RangeError::Cidr(pool.spec.subnet.clone())));
    let Own { record: own, bad } = if ask.policy.one_record_per_pod { Own::of_pod(&records, ask) } else { Own::of_nic(&records, ask)? };
    if let Some((ip, named)) = own {
        let address = network(ip)?;
        // Upstream writes back an unchanged record, which has no effect.
        let write = if ask.policy.one_record_per_pod {
            pool.status.clone()
        } else if named && bad.is_empty() {
            None
        } else {
            bad.iter().for_each(|ip| drop(records.remove(*ip)));
            records.insert(ip, record(ask));
            let count = count_of(&records);
            Some(status(pool, records, count))
        };
        return Ok(Decision { outcome: Given { address: Some(address), recorded: true, dropped: bad }, write });
    }
    let addresses = addresses().map_err(Unavailable::from)?;
    let free = addresses.first_free(&records).map_err(Unavailable::from)?;
    let shortage = || addresses.shortage(&records).map_err(Unavailable::from);
    let shortage = if free.is_none() && bad.is_empty() { shortage()?.unwrap_or(Shortage::Exhausted) } else { Shortage::Exhausted };
    bad.iter().for_each(|ip| drop(records.remove(*ip)));
    let before = records.len() as u64;
    let address = match free {
        Some(ip) if before < ask.max_records => {
            records.insert(ip, record(ask));
            Some(network(ip)?)
        }
        _ if !bad.is_empty() => None,
        Some(_) => return Err(Unavailable::MaxRecords(before).into()),
        None => return Err(Unavailable::UsedOut(shortage).into()),
    };
    let count = count_of(&records);
    Ok(Decision { outcome: Given { address, recorded: false, dropped: bad }, write: Some(status(pool, records, count)) })
}

/// Removes the records of these addresses that have this UID. The decision holds their number.
pub(crate) fn release(pool: &SpiderIPPool, uid: &str, ips: &[IpAddr]) -> Result<Decision<usize>, PoolError> {
    let mut records = records(pool)?;
    let before = records.len();
    for ip in ips {
        if records.get(*ip).is_some_and(|record| record.pod_uid == uid) {
            records.remove(*ip);
        }
    }
    let removed = before - records.len();
    let count = count_of(&records);
    Ok(Decision { outcome: removed, write: (removed > 0).then(|| status(pool, records, count)) })
}

/// The pod that takes over addresses of another pod of the same name.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewOwner<'a> {
    /// `namespace/name` in the records.
    pub(super) key: &'a str,
    /// The UID of the new pod.
    pub(super) uid: &'a str,
    /// The UID of the pod that is known to be gone; `None` = any pod of the name counts as gone.
    pub(super) gone: Option<&'a str>,
    /// The addresses that may be recorded for its NICs besides those taken over; `None` = any.
    pub(super) beside: Option<&'a [IpAddr]>,
    /// Whether missing records may be made: the pod was alive after they were found missing.
    pub(super) makes: bool,
    pub(super) max_records: u64,
    pub(super) policy: &'a Policy,
}

impl NewOwner<'_> {
    /// Whether a record belongs to a pod of another name.
    fn is_kept_from(&self, known: &PoolIPAllocation) -> bool {
        known.pod != self.key && !self.policy.reown_ignores_owner
    }
}

/// One address that is taken over, and its NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReusedIp {
    pub(super) ip: IpAddr,
    pub(super) nic: String,
}

/// The fate of an address that is taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The new pod has it, as before.
    Kept,
    /// The new pod has it, and another pod of the name had it until now.
    TakenOver,
    /// The new pod has it by a new record; its record was missing.
    Made,
    /// The record is missing, and the pod has to be checked to be alive first.
    Missing,
    /// It is not recorded for anybody, and the pool may not allocate it now.
    Lost,
    /// Another pod has it.
    OfAnotherPod,
    /// Another NIC of the new pod has it.
    OfAnotherNic,
    /// It is recorded for a third pod of the name, with this UID; first it has to be checked which of them is gone.
    Of(String),
}

impl Fate {
    /// Whether the new pod has it.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self, Self::Kept | Self::TakenOver | Self::Made)
    }
}

/// Transfers the records of addresses to a new pod of the same name. Returns the fate of each address.
///
/// A missing record is made anew if the pool may allocate the address. A record of another pod stays that pod's.
///
/// # Errors
/// With `foreign-record-blocks`, an address belongs to another pod. [`PoolError::EndpointUnknown`] before a NIC of the new pod has a second
/// record of a family: a write of an earlier run of the agent has been committed by now, and is undone first.
pub(super) fn reown(
    pool: &SpiderIPPool,
    new_owner: &NewOwner<'_>,
    reused: &[ReusedIp],
    addresses: impl FnOnce() -> Result<std::sync::Arc<PoolAddresses>, RangeError>,
) -> Result<Decision<Vec<Fate>>, PoolError> {
    let mut records = records(pool)?;
    let policy = new_owner.policy;
    let by_nic = !policy.one_record_per_pod;
    if has_stray(&records, new_owner, reused) {
        return Err(PoolError::EndpointUnknown);
    }
    let mut addresses = Some(addresses);
    let mut usable = None;
    let (mut kept, mut changed, mut added) = (Vec::with_capacity(reused.len()), false, false);
    for ReusedIp { ip, nic } in reused {
        let interface = by_nic.then(|| nic.clone());
        let new = PoolIPAllocation { interface, pod: new_owner.key.to_owned(), pod_uid: new_owner.uid.to_owned() };
        match records.get(*ip) {
            Some(known) if new_owner.is_kept_from(known) => {
                if policy.foreign_record_blocks {
                    return Err(PoolError::DataBroken { ip: *ip, holder: known.pod.clone() });
                }
                kept.push(Fate::OfAnotherPod);
            }
            // Another NIC of this very pod has it.
            Some(known) if by_nic && known.pod_uid == new_owner.uid && is_of_another_nic(known, nic) => kept.push(Fate::OfAnotherNic),
            Some(known) if new_owner.gone.is_some_and(|gone| known.pod_uid != gone && known.pod_uid != new_owner.uid) => {
                kept.push(Fate::Of(known.pod_uid.clone()));
            }
            Some(known) => {
                let is_own = known.pod_uid == new_owner.uid;
                if !is_own || (by_nic && *known != new) {
                    records.insert(*ip, new);
                    changed = true;
                }
                kept.push(if is_own { Fate::Kept } else { Fate::TakenOver });
            }
            None if policy.reown_missing_record => kept.push(Fate::Kept),
            None if !new_owner.makes => kept.push(Fate::Missing),
            None => {
                if usable.is_none()
                    && let Some(addresses) = addresses.take()
                {
                    usable = addresses().ok();
                }
                let free = usable.as_ref().is_some_and(|usable| usable.is_usable(*ip)) && (records.len() as u64) < new_owner.max_records;
                if free {
                    records.insert(*ip, new);
                    (changed, added) = (true, true);
                }
                kept.push(if free { Fate::Made } else { Fate::Lost });
            }
        }
    }
    // Upstream leaves the count unchanged; the number of records is the same there.
    let count = added.then(|| count_of(&records)).flatten();
    Ok(Decision { outcome: kept, write: changed.then(|| status(pool, records, count)) })
}

/// Whether a NIC of the new pod has a record of an address other than those that it takes over, or may have besides them.
fn has_stray(records: &PoolIPAllocations, new_owner: &NewOwner<'_>, reused: &[ReusedIp]) -> bool {
    let Some(beside) = new_owner.beside else { return false };
    let is_taken_over = |ip: IpAddr| reused.iter().any(|reused_ip| reused_ip.ip == ip);
    let has_another = |ip: IpAddr, nic: &str| reused.iter().any(|reused_ip| reused_ip.nic == nic && reused_ip.ip.is_ipv4() == ip.is_ipv4());
    let is_stray = |(key, record): (&RecordKey, &PoolIPAllocation)| {
        let of_nic = key.address().zip(record.interface.as_deref()).filter(|_| record.pod == new_owner.key);
        of_nic.is_some_and(|(ip, nic)| !beside.contains(&ip) && !is_taken_over(ip) && has_another(ip, nic))
    };
    records.of_pod_uid(new_owner.uid).any(is_stray)
}

fn is_of_another_nic(record: &PoolIPAllocation, nic: &str) -> bool {
    record.interface.as_deref().is_some_and(|interface| interface != nic)
}

#[cfg(test)]
mod tests;
