//! The address that a pool would allocate to a NIC, by the known state (A §5.4).

use std::fmt;
use std::net::IpAddr;

use super::asker::Asker;
use super::cluster::Cluster;
use crate::ranges::{Cidr, IpSet, IpVersion, PoolAddresses, RangeError, Shortage, parse_range, reserved_ips};
use crate::{Policy, PoolIPAllocations, SpiderIPPool};

/// The address that a pool allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextFreeIp {
    /// The address, for which the pool holds no other pod's record.
    pub ip: IpAddr,
    /// The length of the prefix of the pool's subnet.
    pub prefix: u8,
    /// Whether the pool already holds a record of it for this pod (and NIC).
    pub recorded: bool,
}

impl fmt::Display for NextFreeIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// The reason why a pool allocates no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// No address is free.
    #[error("all IP addresses used out")]
    UsedOut(Shortage),
    /// The pool has its maximum number of records.
    #[error("all IP addresses used out: the pool has {0} records, and may not have more")]
    MaxRecords(u64),
    /// A range of the pool or of a reservation, or the CIDR, cannot be read.
    #[error(transparent)]
    BadRanges(#[from] RangeError),
    /// The records cannot be read.
    #[error("the records of the pool cannot be read: {0}")]
    BadRecords(String),
}

impl Unavailable {
    /// The public name, in kebab-case; it identifies only the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UsedOut(_) => "used-out",
            Self::MaxRecords(_) => "max-records",
            Self::BadRanges(_) => "bad-ranges",
            Self::BadRecords(_) => "bad-records",
        }
    }
}

/// The reserved addresses of a family: those of all reserved IP objects of this version that are not terminating (A §1.2).
///
/// # Errors
/// With `upstream-ranges`, the first text that is no range.
pub fn reserved<C: Cluster + ?Sized>(cluster: &C, family: IpVersion, policy: &Policy) -> Result<IpSet, RangeError> {
    let mut texts: Vec<String> = Vec::new();
    cluster.for_each_reserved_ip(&mut |object| {
        if object.metadata.deletion_timestamp.is_none() && object.spec.ip_version == Some(family.number()) {
            texts.extend(object.spec.ips.iter().flatten().cloned());
        }
    });
    reserved_ips(&texts, family.number(), policy).map(|(reserved, _)| reserved)
}

impl Asker<'_> {
    /// The address that `pool` allocates: the one that is recorded for this pod and NIC, else the first free one.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn next_free_ip(&self, pool: &SpiderIPPool, reserved: &Result<IpSet, RangeError>) -> Result<NextFreeIp, Unavailable> {
        // Upstream reads reservations before anything else (A §14.15).
        let reserved = reserved.as_ref().map_err(Clone::clone)?;
        let none = PoolIPAllocations::default();
        let records = match &pool.status {
            Some(status) => status.allocated_ips.parse().map_err(|error| Unavailable::BadRecords(error.to_string()))?,
            None => &none,
        };
        let prefix = Cidr::parse(&pool.spec.subnet, self.policy)?.net().prefix_len();
        if let Some(ip) = self.own(records) {
            return Ok(NextFreeIp { ip, prefix, recorded: true });
        }
        Ok(NextFreeIp { ip: self.free(pool, records, reserved)?, prefix, recorded: false })
    }

    /// The first free address.
    fn free(&self, pool: &SpiderIPPool, records: &PoolIPAllocations, reserved: &IpSet) -> Result<IpAddr, Unavailable> {
        let addresses = PoolAddresses::of(&pool.spec, reserved, self.policy)?;
        let Some(ip) = addresses.first_free(records)? else {
            let shortage = addresses.shortage(records)?.unwrap_or(Shortage::Exhausted);
            return Err(Unavailable::UsedOut(shortage));
        };
        let count = records.len() as u64;
        if count >= self.max_records { Err(Unavailable::MaxRecords(count)) } else { Ok(ip) }
    }

    /// The reason why the pool has no address for a requester that [has none of it yet](Self::is_recorded); `None` if it has one. An
    /// unreadable pool is no shortage.
    pub(super) fn shortage(&self, pool: &SpiderIPPool, reserved: &Result<IpSet, RangeError>) -> Option<Shortage> {
        if self.has_plenty(pool, reserved) {
            return None;
        }
        let none = PoolIPAllocations::default();
        let records = match &pool.status {
            Some(status) => status.allocated_ips.parse().ok()?,
            None => &none,
        };
        Cidr::parse(&pool.spec.subnet, self.policy).ok()?;
        match self.free(pool, records, reserved.as_ref().ok()?) {
            Ok(_) => None,
            Err(Unavailable::UsedOut(shortage)) => Some(shortage),
            Err(Unavailable::MaxRecords(_)) => Some(Shortage::Exhausted),
            Err(Unavailable::BadRanges(_) | Unavailable::BadRecords(_)) => None,
        }
    }

    /// Whether the pool holds this pod's record: then it has an address for it whatever happened since.
    pub(super) fn is_recorded(&self, pool: &SpiderIPPool) -> bool {
        let records = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok());
        records.is_some_and(|records| self.own(records).is_some())
    }

    /// Whether the first range holds a free address. Almost every pool has plenty, so the rest of it is not read.
    fn has_plenty(&self, pool: &SpiderIPPool, reserved: &Result<IpSet, RangeError>) -> bool {
        let (Ok(reserved), Some(version), [first, ..]) = (reserved, pool.spec.ip_version, pool.spec.ips.as_deref().unwrap_or_default())
        else {
            return false;
        };
        let records = match pool.status.as_ref().map(|status| status.allocated_ips.parse()) {
            None => None,
            Some(Ok(records)) if records.others().next().is_none() && (records.len() as u64) < self.max_records => Some(records),
            Some(_) => return false,
        };
        let Ok(range) = parse_range(first, version, self.policy) else { return false };
        let free = records.map_or(Some(range.first()), |records| records.first_free_from(range.first()));
        let usable = |ip: &IpAddr| {
            let excludes = |text: &String| parse_range(text, version, self.policy).map_or(true, |excluded| excluded.contains(*ip));
            range.contains(*ip) && !reserved.contains(*ip) && !pool.spec.exclude_ips.iter().flatten().any(excludes)
        };
        self.max_records > 0 && free.as_ref().is_some_and(usable)
    }

    /// Whether the pool is known to hold a record for this pod and NIC.
    pub fn holds(&self, pool: &SpiderIPPool) -> bool {
        let records = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok());
        records.is_some_and(|records| self.own(records).is_some())
    }

    /// The address that is recorded for this pod and NIC. Upstream matches only the pod (`one-record-per-pod`).
    fn own(&self, records: &PoolIPAllocations) -> Option<IpAddr> {
        let of_nic = |interface: &Option<String>| interface.as_deref().is_none_or(|interface| interface == self.nic);
        let own = records.of_pod_uid(self.pod_uid).find(|(_, record)| self.policy.one_record_per_pod || of_nic(&record.interface));
        own?.0.address()
    }
}
