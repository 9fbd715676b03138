//! The strict parser: one text, one address or range (A §1.6, left column of the table).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::version::number_of;
use super::{IpRange, IpVersion, RangeError};
use crate::Policy;

/// Parses an address into its canonical form.
///
/// Upstream treats as IPv4 what parses and has a dot, as IPv6 what has a colon, so `fd00::1.2.3.4` is both; hardened, the number decides,
/// so `fd00::1.2.3.4` is IPv6 and `::ffff:10.0.0.1` is IPv4.
///
/// # Errors
/// `version` is not 4 or 6, `text` is no address, or one of the other family.
pub fn parse_ip(text: &str, version: i64, policy: &Policy) -> Result<IpAddr, RangeError> {
    let version = IpVersion::try_from(version)?;
    let ip: IpAddr = text.parse().map_err(|_| RangeError::Address(text.to_owned()))?;
    let matches = match (policy.upstream_ranges, version) {
        (true, IpVersion::V4) => text.contains('.'),
        (true, IpVersion::V6) => text.contains(':'),
        (false, _) => IpVersion::of(ip) == version,
    };
    if matches { Ok(ip.to_canonical()) } else { Err(RangeError::Family { text: text.to_owned(), version }) }
}

/// Parses a range: `a`, or `a-b` with `a` not above `b`; no blanks.
///
/// # Errors
/// `version` is not 4 or 6, or `text` is no range of it. With `upstream-ranges` also [`RangeError::Endless`]: upstream walks from address
/// to address through a number without its leading zero bytes, so it never gets past an address with such a byte, nor past the end
/// of the family (A §14.4). (Ranges of IPv4-compatible addresses and ranges from IPv6 to IPv4, which pass its check of families, count as
/// endless too, though upstream treats a few of them as IPv4.)
pub fn parse_range(text: &str, version: i64, policy: &Policy) -> Result<IpRange, RangeError> {
    let (first, last) = ends(text, version, policy)?;
    if policy.upstream_ranges && text.contains('-') && !expands(first, last) {
        return Err(RangeError::Endless(text.to_owned()));
    }
    Ok(IpRange::new(first, last).expect("the ends are of one family and in order"))
}

/// Checks that `text` has the form of a range; upstream then may still not be able to expand it.
///
/// # Errors
/// As [`parse_range`], but never [`RangeError::Endless`].
pub fn check_range(text: &str, version: i64, policy: &Policy) -> Result<(), RangeError> {
    ends(text, version, policy).map(drop)
}

/// Both ends, in order. With `upstream-ranges` their families can differ: then their numbers are in order.
pub(super) fn ends(text: &str, version: i64, policy: &Policy) -> Result<(IpAddr, IpAddr), RangeError> {
    match IpVersion::try_from(version)? {
        IpVersion::V4 => plain_ends(text, |end| end.parse::<Ipv4Addr>().ok()),
        IpVersion::V6 => plain_ends(text, |end| end.parse::<Ipv6Addr>().ok().filter(|ip| ip.to_ipv4_mapped().is_none())),
    }
    .map_or_else(|| judged_ends(text, version, policy), Ok)
}

/// Both ends in their usual form: addresses of the family in its own notation, in order. Every policy reads them alike, and each is parsed
/// once.
fn plain_ends<A: Copy + PartialOrd + Into<IpAddr>>(text: &str, read: impl Fn(&str) -> Option<A>) -> Option<(IpAddr, IpAddr)> {
    let Some((first, last)) = text.split_once('-') else {
        let ip = read(text)?.into();
        return Some((ip, ip));
    };
    let (first, last) = (read(first)?, read(last)?);
    (first <= last).then(|| (first.into(), last.into()))
}

/// Both ends in any form.
fn judged_ends(text: &str, version: i64, policy: &Policy) -> Result<(IpAddr, IpAddr), RangeError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    if last.contains('-') {
        return Err(RangeError::Ends(text.to_owned()));
    }
    if let (false, Ok(first), Ok(last)) = (policy.upstream_ranges, first.parse(), last.parse())
        && IpVersion::of(first) != IpVersion::of(last)
    {
        return Err(RangeError::Mixed(text.to_owned()));
    }
    let end = |end| parse_ip(end, version, policy).map_err(|error| error.of_end(text));
    let (first, last) = (end(first)?, end(last)?);
    if number_of(first) > number_of(last) {
        return Err(RangeError::Reversed(text.to_owned()));
    }
    Ok((first, last))
}

/// The lowest number that has as many bytes, in Go's `big.Int`, as an address.
pub(super) fn full_length(version: IpVersion) -> u128 {
    1 << (version.bits() - 8)
}

/// Whether upstream's walk from `first` ends after `last`: all numbers on the way but the first must have full length.
fn expands(first: IpAddr, last: IpAddr) -> bool {
    let version = IpVersion::of(first);
    version == IpVersion::of(last) && number_of(last) < version.max() && number_of(first) + 1 >= full_length(version)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An end of a range: an address of either family in one of its forms, or none.
    fn end() -> impl Strategy<Value = String> {
        let v4 = (0u32..4).prop_map(|last| Ipv4Addr::from_bits(0x0a00_0000 + last).to_string());
        let v6 = (0u128..4).prop_map(|last| Ipv6Addr::from_bits((0xfd00 << 112) + last).to_string());
        let other =
            prop::sample::select(vec!["::ffff:10.0.0.2", "::ffff:a00:1", "fd00::1.2.3.4", "::1", "", "10.0.0.01", "10.0.0.1 ", "1-2"]);
        prop_oneof![4 => v4, 4 => v6, 1 => other.prop_map(str::to_owned)]
    }

    fn hardened(text: &str, version: i64) -> Result<String, RangeError> {
        parse_range(text, version, &Policy::hardened()).map(|range| range.to_string())
    }

    #[test]
    fn a_range_is_what_its_numbers_say() {
        for (text, version, canonical) in [
            ("10.0.0.1", 4, "10.0.0.1"),
            ("10.0.0.1-10.0.0.1", 4, "10.0.0.1"),
            ("::ffff:10.0.0.1-10.0.0.3", 4, "10.0.0.1-10.0.0.3"),
            ("0.0.0.0-255.255.255.255", 4, "0.0.0.0-255.255.255.255"),
            ("FD00::1.2.3.4", 6, "fd00::102:304"),
            ("::1-::4", 6, "::1-::4"),
            ("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 6, "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            assert_eq!(hardened(text, version).as_deref(), Ok(canonical), "{text}");
        }
    }

    #[test]
    fn each_defect_has_its_error() {
        use RangeError::*;
        let owned = str::to_owned;
        for (text, version, error) in [
            ("10.0.0.1", 5, Version(5)),
            ("", 4, Address(owned(""))),
            (" 10.0.0.1", 4, Address(owned(" 10.0.0.1"))),
            ("10.0.0.01", 4, Address(owned("10.0.0.01"))),
            ("10.0.0.1-", 4, End { text: owned("10.0.0.1-"), end: owned("") }),
            ("fe80::1%eth0", 6, Address(owned("fe80::1%eth0"))),
            ("10.0.0.1-10.0.0.3-10.0.0.5", 4, Ends(owned("10.0.0.1-10.0.0.3-10.0.0.5"))),
            ("10.0.0.1-fd00::1", 4, Mixed(owned("10.0.0.1-fd00::1"))),
            ("10.0.0.9-10.0.0.1", 4, Reversed(owned("10.0.0.9-10.0.0.1"))),
            ("fd00::1.2.3.4", 4, Family { text: owned("fd00::1.2.3.4"), version: IpVersion::V4 }),
            ("::ffff:a00:1", 6, Family { text: owned("::ffff:a00:1"), version: IpVersion::V6 }),
        ] {
            assert_eq!(hardened(text, version), Err(error), "{text}");
        }
    }

    #[test]
    fn upstream_never_gets_past_a_zero_byte_or_the_end() {
        let upstream = |text, version| parse_range(text, version, &Policy::upstream());
        for (text, version) in [
            ("0.0.0.1-0.0.0.1", 4),
            ("0.255.255.254-1.0.0.3", 4),
            ("255.255.255.255-255.255.255.255", 4),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 6),
            ("::1-::4", 6),
            ("64:ff9b::1-64:ff9b::3", 6),
            ("ffff::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 6),
            ("10.0.0.1-fd00::1.2.3.4", 4),
        ] {
            assert_eq!(upstream(text, version), Err(RangeError::Endless(text.to_owned())));
            assert_eq!(check_range(text, version, &Policy::upstream()), Ok(()));
        }
        for (text, version) in [
            ("0.0.0.1", 4),
            ("255.255.255.255", 4),
            ("::", 6),
            ("0.255.255.255-1.0.0.3", 4),
            ("ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff-100::5", 6),
            ("255.0.0.0-255.255.255.254", 4),
        ] {
            assert_eq!(upstream(text, version).map(|range| range.to_string()).as_deref(), Ok(text));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_plainly_is_what_every_policy_takes_it_for(
            a in end(), b in end(), single: bool, version in prop_oneof![Just(4), Just(6)],
        ) {
            let text = if single { a } else { format!("{a}-{b}") };
            for policy in [Policy::hardened(), Policy::upstream()] {
                prop_assert_eq!(ends(&text, version, &policy), judged_ends(&text, version, &policy), "{}", text);
            }
        }
    }
}
