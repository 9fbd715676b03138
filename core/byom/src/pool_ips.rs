//! Reading `VM_POOL_IPS` (B §4.4).

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use super::address::Address;

/// The default limit of the addresses that one entry of the setting contributes (`MAX_RANGE_IPS`).
pub const MAX_RANGE_IPS: u32 = 100;

/// The treatment of IPv4-mapped IPv6 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// As the IPv4 address: each VM has one name.
    AsIpv4,
    /// As a separate address, like upstream: a VM can be listed twice.
    Apart,
}

/// The parsed setting, with its good and bad entries.
#[derive(Clone, Debug, Default)]
pub struct PoolIps {
    /// The addresses in canonical spelling, in order and without duplicates.
    pub addresses: Vec<Address>,
    /// Repeated mentions of addresses, as written (within a range: the address).
    pub duplicates: Vec<String>,
    /// Entries that contribute nothing.
    pub bad: Vec<BadEntry>,
    /// Ranges that were cut at the limit.
    pub cut: Vec<LongRange>,
}

/// An entry that is neither an address nor a range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{entry}`: {problem}")]
pub struct BadEntry {
    /// As written, without surrounding blanks.
    pub entry: String,
    /// The problem with the entry.
    pub problem: BadEntryProblem,
}

/// The problem with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadEntryProblem {
    /// The entry is neither an address nor a range.
    #[error("neither an address nor a range FIRST-LAST")]
    NoAddress,
    /// An end of a range is not an address.
    #[error("an end of the range is no address")]
    NoAddressInRange,
    /// The ends are IPv4 and IPv6, or have different zones.
    #[error("the ends of the range are of different families or zones")]
    MixedRange,
    /// The range does not have at least two addresses in ascending order.
    #[error("the first address of the range must be below the last")]
    EmptyRange,
}

/// A range of more addresses than the limit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("range `{entry}` has {size} addresses, more than the limit of {limit}; raise MAX_RANGE_IPS or split it")]
pub struct LongRange {
    /// The entry `FIRST-LAST` as written, without surrounding blanks.
    pub entry: String,
    /// The number of addresses in the range.
    pub size: u128,
    /// The number of addresses that were kept.
    pub limit: u32,
}

impl PoolIps {
    /// Reads `setting`: addresses and ranges `FIRST-LAST`, separated by commas; blanks around entries and empty entries are ignored. The
    /// first `range_limit` addresses of each range are kept.
    pub fn parse(setting: &str, range_limit: u32, mapped: Mapped) -> Self {
        let mut ips = Self::default();
        let mut seen = BTreeSet::new();
        for entry in setting.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            if let Err(problem) = ips.entry(entry, range_limit, mapped, &mut seen) {
                ips.bad.push(BadEntry { entry: entry.to_owned(), problem });
            }
        }
        ips
    }

    fn entry(&mut self, entry: &str, range_limit: u32, mapped: Mapped, seen: &mut BTreeSet<Box<str>>) -> Result<(), BadEntryProblem> {
        let canonical = |text: &str| match mapped {
            Mapped::AsIpv4 => Address::new(text).canonical(),
            Mapped::Apart => Address::new(text).canonical_in_go(),
        };
        // A zone may contain a hyphen, so an entry that is not a range can still be an address.
        let ends = entry.split_once('-').map(|(first, last)| (canonical(first.trim()), canonical(last.trim())));
        let (first, last) = match (ends, canonical(entry)) {
            (Some((Some(first), Some(last))), _) => (first, last),
            (_, Some(address)) => {
                self.add(address, entry, seen);
                return Ok(());
            }
            (Some(_), None) => return Err(BadEntryProblem::NoAddressInRange),
            (None, None) => return Err(BadEntryProblem::NoAddress),
        };
        let (first, last) = (Bound::of(&first), Bound::of(&last));
        if first.ipv4 != last.ipv4 || first.zone != last.zone {
            return Err(BadEntryProblem::MixedRange);
        }
        let Some(above) = last.bits.checked_sub(first.bits).filter(|above| *above > 0) else { return Err(BadEntryProblem::EmptyRange) };
        for bits in (first.bits..=last.bits).take(range_limit as usize) {
            let address = Address::new(Bound { bits, ..first }.to_string());
            let text = address.text().to_owned();
            self.add(address, &text, seen);
        }
        let size = above.saturating_add(1);
        if size > u128::from(range_limit) {
            self.cut.push(LongRange { entry: entry.to_owned(), size, limit: range_limit });
        }
        Ok(())
    }

    fn add(&mut self, address: Address, written: &str, seen: &mut BTreeSet<Box<str>>) {
        if seen.insert(address.text().into()) {
            self.addresses.push(address);
        } else {
            self.duplicates.push(written.to_owned());
        }
    }
}

/// An end of a range, as a number.
#[derive(Clone, Copy)]
struct Bound<'a> {
    ipv4: bool,
    bits: u128,
    zone: Option<&'a str>,
}

impl<'a> Bound<'a> {
    /// The bound of an address in canonical spelling, by its text: mapped addresses that are kept apart are IPv6.
    fn of(address: &'a Address) -> Self {
        let (ip, zone) = address.text().split_once('%').map_or((address.text(), None), |(ip, zone)| (ip, Some(zone)));
        match ip.parse().expect("the canonical spelling of an address is an address") {
            IpAddr::V4(ip) => Self { ipv4: true, bits: ip.to_bits().into(), zone },
            IpAddr::V6(ip) => Self { ipv4: false, bits: ip.to_bits(), zone },
        }
    }
}

impl fmt::Display for Bound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ipv4 {
            Ipv4Addr::from_bits(self.bits as u32).fmt(f)?;
        } else {
            Ipv6Addr::from_bits(self.bits).fmt(f)?;
        }
        self.zone.map_or(Ok(()), |zone| write!(f, "%{zone}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(addresses: &[Address]) -> Vec<&str> {
        addresses.iter().map(Address::text).collect()
    }

    fn parse(setting: &str) -> PoolIps {
        PoolIps::parse(setting, MAX_RANGE_IPS, Mapped::AsIpv4)
    }

    #[test]
    fn addresses_and_ranges_of_both_families_become_canonical_addresses() {
        let ips = parse(" 10.0.0.9, 10.0.0.254-10.0.1.1 ,,2001:DB8:0::1,fe80::1-fe80::2, fe80::a%e-0 ,fe80::1%z-fe80::2%z,");
        let expected = [
            "10.0.0.9",
            "10.0.0.254",
            "10.0.0.255",
            "10.0.1.0",
            "10.0.1.1",
            "2001:db8::1",
            "fe80::1",
            "fe80::2",
            "fe80::a%e-0",
            "fe80::1%z",
            "fe80::2%z",
        ];
        assert_eq!(texts(&ips.addresses), expected);
        assert!(ips.duplicates.is_empty() && ips.bad.is_empty() && ips.cut.is_empty());
    }

    #[test]
    fn duplicates_are_dropped_and_reported() {
        let ips = parse("10.0.0.2,10.0.0.1-10.0.0.3,10.0.0.2,::ffff:10.0.0.1");
        assert_eq!(texts(&ips.addresses), ["10.0.0.2", "10.0.0.1", "10.0.0.3"]);
        assert_eq!(ips.duplicates, ["10.0.0.2", "10.0.0.2", "::ffff:10.0.0.1"]);
    }

    #[test]
    fn upstream_lists_a_mapped_address_twice() {
        let ips = PoolIps::parse("10.0.0.1,::FFFF:10.0.0.1,::ffff:a00:2-::ffff:a00:3", 100, Mapped::Apart);
        assert_eq!(texts(&ips.addresses), ["10.0.0.1", "::ffff:10.0.0.1", "::ffff:10.0.0.2", "::ffff:10.0.0.3"]);
    }

    #[test]
    fn every_bad_entry_is_reported() {
        use BadEntryProblem::*;
        let ips = parse(
            "10.0.0.300,host,10.0.0.1-,10.0.0.5-10.0.0.5,10.0.0.6-10.0.0.1,10.0.0.1-fe80::1,\
             fe80::1%a-fe80::2%b,10.0.0.1-10.0.0.2-10.0.0.3,10.0.0.7",
        );
        let problems: Vec<_> = ips.bad.iter().map(|bad| bad.problem).collect();
        assert_eq!(problems, [NoAddress, NoAddress, NoAddressInRange, EmptyRange, EmptyRange, MixedRange, MixedRange, NoAddressInRange]);
        assert_eq!(texts(&ips.addresses), ["10.0.0.7"]);
        assert_eq!(ips.bad[1].to_string(), "`host`: neither an address nor a range FIRST-LAST");
    }

    #[test]
    fn ranges_over_the_limit_are_cut_and_reported() {
        let ips = PoolIps::parse("10.0.0.1-10.0.0.4,::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 3, Mapped::AsIpv4);
        assert_eq!(texts(&ips.addresses), ["10.0.0.1", "10.0.0.2", "10.0.0.3", "::", "::1", "::2"]);
        assert_eq!(ips.cut.iter().map(|cut| cut.size).collect::<Vec<_>>(), [4, u128::MAX]);
        let none = PoolIps::parse("10.0.0.1-10.0.0.4", 0, Mapped::AsIpv4);
        assert_eq!((none.addresses.len(), none.bad.len()), (0, 0));
    }

    proptest! {
        #[test]
        fn a_range_is_the_list_of_its_addresses(first in any::<u32>(), more in 1u32..150) {
            let last = first.saturating_add(more);
            prop_assume!(last > first);
            let range = format!("{}-{}", Ipv4Addr::from_bits(first), Ipv4Addr::from_bits(last));
            let list: Vec<String> = (first..=last).take(100).map(|bits| Ipv4Addr::from_bits(bits).to_string()).collect();
            let (range, list) = (parse(&range), parse(&list.join(",")));
            prop_assert_eq!(texts(&range.addresses), texts(&list.addresses));
        }
    }
}
