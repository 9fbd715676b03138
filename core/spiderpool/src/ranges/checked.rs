//! The parser of the admission webhooks: the addresses that a pool or subnet would hold (A §1.6, right column of the table).

use super::set::MAPPED;
use super::version::number_of;
use super::{Cidr, IpRange, IpVersion, RangeError};
use crate::Policy;

/// A piece of an entry of `ips` that remains after `excludeIPs` are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedRange {
    /// The entry, as written.
    pub text: String,
    /// The remaining addresses of the entry: a piece has at least one.
    pub range: IpRange,
}

/// `ips` without `excludeIPs`, in the order of `ips`, all inside the CIDR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedRanges {
    /// The pieces in the order of `ips`; an entry may have several, or none.
    pub ranges: Vec<CheckedRange>,
}

impl CheckedRanges {
    /// Parses a spec.
    ///
    /// With `upstream-ranges` the ends of a reversed entry of `ips` are swapped. A reversed entry of `excludeIPs` is not: it removes
    /// nothing and may duplicate the addresses between its ends (A §14.3).
    ///
    /// # Errors
    /// `subnet` is no CIDR; an entry is no range, or not inside it; two entries of `ips` share addresses. Hardened, also a reversed entry.
    pub fn parse<T: AsRef<str>>(subnet: &str, ips: &[T], exclude: &[T], policy: &Policy) -> Result<Self, RangeError> {
        let cidr = Cidr::parse(subnet, policy)?;
        let version = cidr.version();
        let mut ranges: Vec<CheckedRange> = Vec::new();
        for text in ips.iter().map(AsRef::as_ref) {
            let (first, last) = numbers(text, &cidr, policy)?;
            let range = IpRange::of_numbers(version, first.min(last), first.max(last)).expect("the ends are inside a CIDR");
            if let Some(other) = ranges.iter().find(|other| other.range.overlaps(&range)) {
                return Err(RangeError::Overlap { text: text.to_owned(), other: other.text.clone() });
            }
            ranges.push(CheckedRange { text: text.to_owned(), range });
        }
        let exclude = exclude.iter().map(|text| numbers(text.as_ref(), &cidr, policy)).collect::<Result<Vec<_>, _>>()?;
        for (low, high) in exclude {
            ranges = ranges.into_iter().flat_map(|piece| without(piece, version, low, high)).collect();
        }
        Ok(Self { ranges })
    }

    /// The number of addresses, at most `u128::MAX`.
    pub fn total(&self) -> u128 {
        self.ranges.iter().fold(0, |sum: u128, piece| sum.saturating_add(piece.range.count()))
    }

    /// The value of `status.totalIPCount`: the total, at most 2^63 - 1.
    pub fn total_ip_count(&self) -> i64 {
        i64::try_from(self.total()).unwrap_or(i64::MAX)
    }

    /// The entries of `other`, as written, that share addresses with this one; one item for each pair of pieces.
    pub fn overlaps<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        let of = |mine: &'a CheckedRange| other.ranges.iter().filter(move |piece| piece.range.overlaps(&mine.range));
        self.ranges.iter().flat_map(of).map(|piece| &*piece.text)
    }
}

/// The numbers of both ends of an entry; they may be in the wrong order with `upstream-ranges`.
fn numbers(text: &str, cidr: &Cidr, policy: &Policy) -> Result<(u128, u128), RangeError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    if last.contains('-') {
        return Err(RangeError::Ends(text.to_owned()));
    }
    let number = |end: &str| {
        let ip = end.parse().map_err(|_| RangeError::Address(end.to_owned()).of_end(text))?;
        let outside = || RangeError::Outside { text: end.to_owned(), cidr: cidr.to_string() };
        cidr.contains(ip).then(|| number_of(ip)).ok_or_else(outside)
    };
    let (first, last) = (number(first)?, number(last)?);
    if first > last && !policy.upstream_ranges {
        return Err(RangeError::Reversed(text.to_owned()));
    }
    Ok((first, last))
}

/// The parts of a piece below `low` and above `high`, which upstream does not put in order.
fn without(piece: CheckedRange, version: IpVersion, low: u128, high: u128) -> Vec<CheckedRange> {
    let (first, last) = piece.range.numbers();
    if first > high || last < low {
        return vec![piece];
    }
    let below = low.checked_sub(1).filter(|_| first < low).map(|end| (first, end));
    let above = high.checked_add(1).filter(|_| last > high).map(|start| (start, last));
    let ranges = below.into_iter().chain(above).filter_map(|(first, last)| IpRange::of_numbers(version, first, last));
    ranges.map(|range| CheckedRange { text: piece.text.clone(), range }).collect()
}

/// The pieces of `first..=last`, sixteen bytes each, in which IPv4 addresses are IPv4-mapped: ascending, one family each.
pub(super) fn pieces(first: u128, last: u128) -> impl Iterator<Item = IpRange> {
    let part = move |version, low: u128, high: u128, offset| {
        let (first, last) = (first.max(low), last.min(high));
        (first <= last).then(|| IpRange::of_numbers(version, first - offset, last - offset))?
    };
    [
        part(IpVersion::V6, 0, MAPPED.0 - 1, 0),
        part(IpVersion::V4, MAPPED.0, MAPPED.1, MAPPED.0),
        part(IpVersion::V6, MAPPED.1 + 1, u128::MAX, 0),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(ips: &[&str], exclude: &[&str], policy: Policy) -> Result<Vec<String>, RangeError> {
        let checked = CheckedRanges::parse("10.0.0.0/24", ips, exclude, &policy)?;
        Ok(checked.ranges.iter().map(|piece| piece.range.to_string()).collect())
    }

    #[test]
    fn only_upstream_takes_reversed_ranges() {
        let reversed = |text: &str| Err(RangeError::Reversed(text.to_owned()));
        assert_eq!(parse(&["10.0.0.4-10.0.0.1"], &[], Policy::hardened()), reversed("10.0.0.4-10.0.0.1"));
        assert_eq!(parse(&["10.0.0.4-10.0.0.1"], &[], Policy::upstream()).unwrap(), ["10.0.0.1-10.0.0.4"]);
        // A reversed exclusion counts the addresses between its ends twice: fourteen instead of ten.
        let (ips, exclude) = (["10.0.0.1-10.0.0.10"], ["10.0.0.8-10.0.0.3"]);
        assert_eq!(parse(&ips, &exclude, Policy::hardened()), reversed("10.0.0.8-10.0.0.3"));
        assert_eq!(parse(&ips, &exclude, Policy::upstream()).unwrap(), ["10.0.0.1-10.0.0.7", "10.0.0.4-10.0.0.10"]);
        assert_eq!(CheckedRanges::parse("10.0.0.0/24", &ips, &exclude, &Policy::upstream()).unwrap().total_ip_count(), 14);
    }

    #[test]
    fn entries_are_inside_and_apart() {
        for policy in [Policy::hardened(), Policy::upstream()] {
            assert_eq!(
                parse(&["10.0.0.1-10.0.0.5"], &["10.0.0.2", "10.0.0.5-10.0.0.9"], policy).unwrap(),
                ["10.0.0.1", "10.0.0.3-10.0.0.4"]
            );
            let overlap = RangeError::Overlap { text: "10.0.0.5".to_owned(), other: "10.0.0.1-10.0.0.5".to_owned() };
            assert_eq!(parse(&["10.0.0.1-10.0.0.5", "10.0.0.5"], &[], policy), Err(overlap));
            assert!(matches!(parse(&["10.0.1.1"], &[], policy), Err(RangeError::Outside { .. })));
            assert!(matches!(parse(&[], &["10.0.1.1"], policy), Err(RangeError::Outside { .. })));
            let end = RangeError::End { text: "10.0.0.1-junk".to_owned(), end: "junk".to_owned() };
            assert_eq!(parse(&["10.0.0.1-junk"], &[], policy), Err(end));
            assert_eq!(parse(&["junk"], &[], policy), Err(RangeError::Address("junk".to_owned())));
        }
    }

    #[test]
    fn the_count_is_capped() {
        let all = |exclude: &[&str]| {
            CheckedRanges::parse("::/0", &["::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], exclude, &Policy::hardened()).unwrap()
        };
        assert_eq!((all(&[]).total(), all(&[]).total_ip_count()), (u128::MAX, i64::MAX));
        assert_eq!(all(&["::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]).total_ip_count(), 1);
    }

    #[test]
    fn sixteen_bytes_fall_into_families() {
        let texts = |first, last| pieces(first, last).map(|range| range.to_string()).collect::<Vec<_>>();
        assert_eq!(texts(MAPPED.0 - 1, MAPPED.0 + 1), ["::fffe:ffff:ffff", "0.0.0.0-0.0.0.1"]);
        assert_eq!(texts(MAPPED.1, MAPPED.1 + 1), ["255.255.255.255", "::1:0:0:0"]);
        assert_eq!(texts(5, 6), ["::5-::6"]);
        assert_eq!(pieces(0, u128::MAX).count(), 3);
    }
}
