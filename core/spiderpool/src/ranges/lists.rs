//! Lists of ranges, as specs hold them (A §1.6).

use std::net::IpAddr;

use super::text::{ends, full_length};
use super::version::number_of;
use super::{IpRange, IpSet, IpVersion, RangeError, check_range, parse_ip, parse_range};
use crate::Policy;

/// Parses each range of a list, in order.
///
/// # Errors
/// Those of [`parse_range`], of the first text that has one. An empty list has none.
pub fn parse_ranges<T: AsRef<str>>(texts: &[T], version: i64, policy: &Policy) -> Result<Vec<IpRange>, RangeError> {
    texts.iter().map(|text| parse_range(text.as_ref(), version, policy)).collect()
}

/// The list in its shortest form: ascending, each address once, adjacent ranges joined.
///
/// With `upstream-ranges` addresses with a leading zero byte are not joined (A §14.7).
///
/// # Errors
/// Those of [`parse_ranges`]; also for a `version` of an empty list, and for texts that upstream first treated as IPv4.
pub fn merge_ranges<T: AsRef<str>>(texts: &[T], version: i64, policy: &Policy) -> Result<Vec<String>, RangeError> {
    let family = IpVersion::try_from(version)?;
    let ranges = parse_ranges(texts, version, policy)?;
    if let Some((text, _)) = texts.iter().zip(&ranges).find(|(_, range)| range.version() != family) {
        return Err(RangeError::Family { text: text.as_ref().to_owned(), version: family });
    }
    let merged: IpSet = ranges.into_iter().collect();
    if !policy.upstream_ranges {
        return Ok(merged.texts());
    }
    // The number from which on upstream sees that an address follows another. Below there are only texts of one address.
    let joined = full_length(family) - 1;
    let split = |range: IpRange| {
        let (first, last) = range.numbers();
        let alone = (first..=last.min(joined - 1)).map(|number| (number, number));
        let together = std::iter::once((first.max(joined), last));
        alone.chain(together).filter_map(move |(first, last)| IpRange::of_numbers(family, first, last))
    };
    Ok(merged.ranges().flat_map(split).map(|range| range.to_string()).collect())
}

/// The rest of each range, in order, without the addresses of `set`.
pub fn subtract(ranges: impl IntoIterator<Item = IpRange>, set: &IpSet) -> Vec<IpRange> {
    ranges.into_iter().flat_map(|range| IpSet::from(range).difference(set).ranges().collect::<Vec<_>>()).collect()
}

/// The addresses of a pool or subnet: `ips` without `exclude`; ascending and each once.
///
/// With `upstream-ranges` in the order of `ips`, with the duplicates in it.
///
/// # Errors
/// Those of [`parse_ranges`].
pub fn total_ips<T: AsRef<str>>(ips: &[T], exclude: &[T], version: i64, policy: &Policy) -> Result<Vec<IpRange>, RangeError> {
    let ips = parse_ranges(ips, version, policy)?;
    let exclude: IpSet = parse_ranges(exclude, version, policy)?.into_iter().collect();
    if policy.upstream_ranges {
        return Ok(subtract(ips, &exclude));
    }
    Ok(ips.into_iter().collect::<IpSet>().difference(&exclude).ranges().collect())
}

/// The addresses that `texts` reserve, of all SpiderReservedIPs of one family, and the errors of texts that reserve nothing.
///
/// # Errors
/// With `upstream-ranges` the first bad text fails all (A §14.15); otherwise only a bad `version` is an error.
pub fn reserved_ips<T: AsRef<str>>(texts: &[T], version: i64, policy: &Policy) -> Result<(IpSet, Vec<RangeError>), RangeError> {
    IpVersion::try_from(version)?;
    let (mut ranges, mut bad) = (Vec::new(), Vec::new());
    for text in texts {
        match parse_range(text.as_ref(), version, policy) {
            Ok(range) => ranges.push(range),
            Err(error) if policy.upstream_ranges => return Err(error),
            Err(error) => bad.push(error),
        }
    }
    Ok((ranges.into_iter().collect(), bad))
}

/// Whether two ranges share addresses.
///
/// # Errors
/// Those of [`parse_range`].
pub fn ranges_overlap(one: &str, other: &str, version: i64, policy: &Policy) -> Result<bool, RangeError> {
    check_range(one, version, policy)?;
    check_range(other, version, policy)?;
    Ok(parse_range(one, version, policy)?.overlaps(&parse_range(other, version, policy)?))
}

/// Whether an address is in a range. With `upstream-ranges` a range of one address is compared as text (A §14.18).
///
/// # Errors
/// Those of [`check_range`] and [`parse_ip`].
pub fn range_contains(range: &str, ip: &str, version: i64, policy: &Policy) -> Result<bool, RangeError> {
    let (first, last) = ends(range, version, policy)?;
    let number = number_of(parse_ip(ip, version, policy)?);
    if policy.upstream_ranges && !range.contains('-') {
        return Ok(range == ip);
    }
    Ok((number_of(first)..=number_of(last)).contains(&number))
}

/// The addresses of `source` that are not in `exclude`, ascending, with the duplicates in `source`.
pub fn diff_sorted(source: &[IpAddr], exclude: &[IpAddr]) -> Vec<IpAddr> {
    let exclude: IpSet = exclude.iter().copied().collect();
    let mut rest: Vec<IpAddr> = source.iter().copied().filter(|ip| !exclude.contains(*ip)).collect();
    rest.sort_by_key(|ip| (IpVersion::of(*ip), number_of(*ip)));
    rest
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    /// The bytes of `number + 1`, as many as it needs: upstream's idea of the next address.
    fn next_of(number: u128) -> Vec<u8> {
        number.checked_add(1).map(u128::to_be_bytes).unwrap_or_default().into_iter().skip_while(|byte| *byte == 0).collect()
    }

    proptest! {
        /// Tests addresses around the lowest one without a leading zero byte, where upstream begins to see neighbours.
        #[test]
        fn upstream_joins_neighbours_that_its_arithmetic_reaches(ipv4: bool, offsets in prop::collection::vec(0u128..12, 1..10)) {
            let (version, base) = if ipv4 { (IpVersion::V4, (1 << 24) - 6) } else { (IpVersion::V6, (1 << 120) - 6) };
            let texts: Vec<String> = offsets.iter().map(|offset| version.address(base + offset).to_string()).collect();
            let bytes = |number: u128| match version.address(number) {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            let mut expected: Vec<(u128, u128)> = Vec::new();
            for number in offsets.iter().map(|offset| base + offset).collect::<BTreeSet<_>>() {
                match expected.last_mut() {
                    Some((_, last)) if next_of(*last) == bytes(number) => *last = number,
                    _ => expected.push((number, number)),
                }
            }
            let text = |(first, last)| IpRange::of_numbers(version, first, last).unwrap().to_string();
            let expected: Vec<String> = expected.into_iter().map(text).collect();
            prop_assert_eq!(merge_ranges(&texts, version.number(), &Policy::upstream()).unwrap(), expected);
        }
    }

    #[test]
    fn merged_lists_have_each_address_once() {
        let texts = ["10.0.0.7", "10.0.0.1-10.0.0.3", "::ffff:10.0.0.4", "10.0.0.2-10.0.0.5"];
        for policy in [Policy::hardened(), Policy::upstream()] {
            assert_eq!(merge_ranges(&texts, 4, &policy).unwrap(), ["10.0.0.1-10.0.0.5", "10.0.0.7"]);
            assert_eq!(merge_ranges::<&str>(&[], 4, &policy).unwrap(), Vec::<String>::new());
            assert_eq!(merge_ranges::<&str>(&[], 0, &policy), Err(RangeError::Version(0)));
        }
        // A text with a dot passed as IPv4 until here.
        let refused = RangeError::Family { text: "fd00::1.2.3.4".to_owned(), version: IpVersion::V4 };
        assert_eq!(merge_ranges(&["10.0.0.1", "fd00::1.2.3.4"], 4, &Policy::upstream()), Err(refused));
    }

    #[test]
    fn a_bad_reservation_fails_all_upstream() {
        let texts = ["10.0.0.1", "10.0.0.9-10.0.0.1", "10.0.0.4-10.0.0.5"];
        let reversed = RangeError::Reversed(texts[1].to_owned());
        let (reserved, bad) = reserved_ips(&texts, 4, &Policy::hardened()).unwrap();
        assert_eq!((reserved.texts(), bad), (vec!["10.0.0.1".to_owned(), "10.0.0.4-10.0.0.5".to_owned()], vec![reversed.clone()]));
        assert_eq!(reserved_ips(&texts, 4, &Policy::upstream()), Err(reversed));
        assert_eq!(reserved_ips(&texts, 7, &Policy::hardened()), Err(RangeError::Version(7)));
    }

    #[test]
    fn sorting_goes_by_number() {
        let ip = |bits: u32| IpAddr::from(Ipv4Addr::from_bits(bits));
        let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
        assert_eq!(diff_sorted(&[v6, ip(10), ip(2), ip(10), ip(3)], &[ip(3)]), [ip(2), ip(10), ip(10), v6]);
    }
}
