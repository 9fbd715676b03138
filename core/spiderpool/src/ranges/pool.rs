//! The choice of a free address in a pool (A §1.6, §5.4).

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::checked::pieces;
use super::set::MAPPED;
use super::{IpRange, IpSet, IpVersion, RangeError, parse_range, parse_ranges, subtract};
use crate::{IPPoolSpec, Policy, PoolIPAllocations};

/// The addresses that a pool can allocate: `ips` without `excludeIPs` and without reserved addresses, in the order in which they are tried.
///
/// Made once for a generation of a pool and a set of reservations; a choice then costs one look-up among the records for each full stretch
/// of addresses, however long it is.
#[derive(Clone, Debug)]
pub struct PoolAddresses {
    version: IpVersion,
    policy: Policy,
    /// Whether `ips` holds anything.
    listed: bool,
    included: Vec<IpRange>,
    usable: Vec<IpRange>,
    mark: Mark,
}

/// The reason why a pool has no address to allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// `ips` holds no address: it is empty, or none of its entries can be read.
    Empty,
    /// All are in `excludeIPs`.
    Excluded,
    /// All others are reserved.
    Reserved,
    /// All others have a record.
    Exhausted,
}

impl PoolAddresses {
    /// Parses the ranges of a pool.
    ///
    /// Hardened, addresses are tried from the lowest up, and an entry of `ips` that is no range holds nothing ([`bad_entries`] names it):
    /// admission refuses such an entry, so it was stored some other way, and the rest of the pool serves. With `upstream-ranges` they are
    /// tried in the order of `ips`; there a bad entry of `ips` is skipped, of `a-b-c` only `a` counts, a range may extend from IPv4 to IPv6
    /// in the order of IPv4-mapped addresses, and the range of all IPv6 addresses holds none (A §14.6).
    ///
    /// # Errors
    /// `version` is not 4 or 6, or an entry of `exclude` is no range: the addresses that it should protect are unknown.
    pub fn new<T: AsRef<str>>(ips: &[T], exclude: &[T], reserved: &IpSet, version: i64, policy: &Policy) -> Result<Self, RangeError> {
        let family = IpVersion::try_from(version)?;
        let excluded: IpSet = parse_ranges(exclude, version, policy)?.into_iter().collect();
        let listed: Vec<IpRange> = if policy.upstream_ranges {
            ips.iter().flat_map(|text| scanned(text.as_ref())).collect()
        } else {
            let readable = ips.iter().filter_map(|text| parse_range(text.as_ref(), version, policy).ok());
            readable.collect::<IpSet>().ranges().collect()
        };
        let is_listed = !listed.is_empty();
        let included = subtract(listed, &excluded);
        let usable = subtract(included.iter().copied(), reserved);
        Ok(Self { version: family, policy: *policy, listed: is_listed, included, usable, mark: Mark::default() })
    }

    /// Parses the ranges of a spec.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), or `spec.ipVersion` is absent.
    pub fn of(spec: &IPPoolSpec, reserved: &IpSet, policy: &Policy) -> Result<Self, RangeError> {
        let (ips, exclude) = (spec.ips.as_deref().unwrap_or_default(), spec.exclude_ips.as_deref().unwrap_or_default());
        Self::new(ips, exclude, reserved, spec.ip_version.ok_or(RangeError::NoVersion)?, policy)
    }

    /// The family of `spec.ipVersion`.
    pub fn version(&self) -> IpVersion {
        self.version
    }

    /// `ips` without `excludeIPs`, in the order in which it is tried.
    pub fn included(&self) -> &[IpRange] {
        &self.included
    }

    /// The addresses that can be allocated if there is no record, in the order in which they are tried.
    pub fn usable(&self) -> &[IpRange] {
        &self.usable
    }

    /// Whether the pool may allocate this address (if nobody has it).
    pub fn is_usable(&self, ip: IpAddr) -> bool {
        self.usable.iter().any(|range| range.contains(ip))
    }

    /// The address to allocate next; `None` if there is none.
    ///
    /// O(k log n) for n records and k full stretches of usable addresses before the free one. If there are many stretches, the number of
    /// full ones is remembered, so that the next choice costs what changed in between. Keys of records that are not canonical addresses
    /// count as the addresses that they spell.
    ///
    /// # Errors
    /// With `upstream-ranges`, a key that is no range of the pool's family. (Hardened, such a key holds nothing here.)
    pub fn first_free(&self, records: &PoolIPAllocations) -> Result<Option<IpAddr>, RangeError> {
        let spelled = self.spelled(records)?;
        if self.usable.len() >= MARKED && spelled.is_empty() {
            let full = self.mark.full(records, &self.usable, &self.policy);
            let free_in = |range: &IpRange| records.first_free_from(range.first()).filter(|ip| range.contains(*ip));
            let found = (full..).zip(&self.usable[full..]).find_map(|(at, range)| Some((at, free_in(range)?)));
            self.mark.set(records, found.map_or(self.usable.len(), |(at, _)| at));
            return Ok(found.map(|(_, ip)| ip));
        }
        let free_from = |ip| {
            let mut free = records.first_free_from(ip)?;
            // Two sets alternate, until one address is in neither.
            loop {
                let next = spelled.first_absent_from(free)?;
                let again = records.first_free_from(next)?;
                if again == free {
                    return Some(free);
                }
                free = again;
            }
        };
        Ok(self.lowest(free_from))
    }

    /// The reason why there is no address to allocate; `None` if there is one.
    ///
    /// # Errors
    /// Those of [`first_free`](Self::first_free).
    pub fn shortage(&self, records: &PoolIPAllocations) -> Result<Option<Shortage>, RangeError> {
        Ok(match self.first_free(records)? {
            Some(_) => None,
            None if !self.listed => Some(Shortage::Empty),
            None if self.included.is_empty() => Some(Shortage::Excluded),
            None if self.usable.is_empty() => Some(Shortage::Reserved),
            None => Some(Shortage::Exhausted),
        })
    }

    /// The first usable address that is free; `free_from` returns the lowest free address from a given one on.
    fn lowest(&self, mut free_from: impl FnMut(IpAddr) -> Option<IpAddr>) -> Option<IpAddr> {
        self.usable.iter().find_map(|range| free_from(range.first()).filter(|ip| range.contains(*ip)))
    }

    /// The addresses of records whose keys are not canonical addresses.
    fn spelled(&self, records: &PoolIPAllocations) -> Result<IpSet, RangeError> {
        if self.policy.upstream_ranges {
            let ends = [records.iter().next(), records.iter().rev().find(|(key, _)| key.address().is_some())];
            let foreign = |ip: &IpAddr| IpVersion::of(*ip) != self.version;
            if let Some(ip) = ends.into_iter().flatten().filter_map(|(key, _)| key.address()).find(foreign) {
                return Err(RangeError::Family { text: ip.to_string(), version: self.version });
            }
        }
        let mut ranges = Vec::new();
        for (key, _) in records.others() {
            match parse_range(&key.to_string(), self.version.number(), &self.policy) {
                Ok(range) => ranges.push(range),
                Err(error) if self.policy.upstream_ranges => return Err(error),
                Err(_) => {}
            }
        }
        Ok(ranges.into_iter().collect())
    }
}

/// The number of stretches from which on it is worth remembering which are full.
const MARKED: usize = 16;

/// The number of stretches, from the first on, without a free address, and the records it holds for. It changes no answer, only the cost.
#[derive(Debug, Default)]
struct Mark(Mutex<Option<(PoolIPAllocations, usize)>>);

/// A clone remembers nothing.
impl Clone for Mark {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Mark {
    fn open(&self) -> MutexGuard<'_, Option<(PoolIPAllocations, usize)>> {
        // The content stays valid even if a reader panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of stretches, from the first on, without a free address for these records. Versions of records share their common parts,
    /// so this costs what changed since the last time.
    fn full(&self, records: &PoolIPAllocations, usable: &[IpRange], policy: &Policy) -> usize {
        let open = self.open();
        let Some((before, full)) = &*open else { return 0 };
        let gone = before.diff(records).filter(|edit| edit.after.is_none()).filter_map(|edit| edit.key.address());
        let stretch = |ip: IpAddr| match policy.upstream_ranges {
            // Stretches are in any order, and may repeat.
            true => 0,
            false => usable.partition_point(|range| range.last() < ip),
        };
        gone.map(stretch).fold(*full, usize::min)
    }

    fn set(&self, records: &PoolIPAllocations, full: usize) {
        *self.open() = Some((records.clone(), full));
    }
}

/// The entries of `ips` and `excludeIPs` that are no ranges, with the field and the error.
pub fn bad_entries(spec: &IPPoolSpec, policy: &Policy) -> Vec<(String, RangeError)> {
    let Some(version) = spec.ip_version else { return vec![("spec.ipVersion".to_owned(), RangeError::NoVersion)] };
    let mut bad = Vec::new();
    for (field, texts) in [("spec.ips", &spec.ips), ("spec.excludeIPs", &spec.exclude_ips)] {
        for (at, text) in texts.iter().flatten().enumerate() {
            bad.extend(parse_range(text, version, policy).err().map(|error| (format!("{field}[{at}]"), error)));
        }
    }
    bad
}

/// The ranges that upstream's scan for a free address reads in a text: all addresses have sixteen bytes there.
fn scanned(text: &str) -> Vec<IpRange> {
    let bytes = |text: &str| match text.parse().ok()? {
        IpAddr::V4(ip) => Some(MAPPED.0 + u128::from(ip.to_bits())),
        IpAddr::V6(ip) => Some(ip.to_bits()),
    };
    let ends: Vec<&str> = text.split('-').collect();
    let (first, last) = match *ends {
        [first, last] => (bytes(first), bytes(last)),
        _ => (bytes(ends[0]), bytes(ends[0])),
    };
    // The walk stops before the address after the last, which is the first one if the range holds all.
    match (first, last) {
        (Some(first), Some(last)) if (first, last) != (0, u128::MAX) => pieces(first, last).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
