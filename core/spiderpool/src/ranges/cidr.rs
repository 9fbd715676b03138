//! CIDRs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::{IpRange, IpVersion, RangeError};
use crate::Policy;

/// A network, with the form in which it was written.
#[derive(Clone, Copy, Debug)]
pub struct Cidr {
    net: IpNet,
    /// The family of the address before the prefix was applied.
    written: IpVersion,
    /// The prefix as written: 96 more than that of `net` for an IPv4-mapped address.
    ones: u8,
}

impl Cidr {
    /// Parses a network: an address, a slash and the length of the prefix; bits after the prefix are ignored.
    ///
    /// Upstream treats as IPv4 what can be converted to four bytes, once before and once after it applies the prefix, so
    /// `::ffff:10.0.0.0/24` counts as IPv4 and holds IPv6 addresses (A §14.7). Hardened, that is an error, and `::ffff:10.0.0.0/120` is
    /// `10.0.0.0/24`.
    ///
    /// # Errors
    /// `text` is no CIDR.
    pub fn parse(text: &str, policy: &Policy) -> Result<Self, RangeError> {
        let bad = || RangeError::Cidr(text.to_owned());
        let (ip, prefix) = text.split_once('/').ok_or_else(bad)?;
        let ip: IpAddr = ip.parse().map_err(|_| bad())?;
        let digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let ones = prefix.parse::<u128>().ok().filter(|ones| digits && *ones <= if ip.is_ipv4() { 32 } else { 128 });
        let ones = ones.ok_or_else(bad)? as u8;
        let net = match (ip, ip.to_canonical()) {
            (IpAddr::V6(_), IpAddr::V4(ip)) if ones >= 96 => net4(ip, ones - 96),
            (IpAddr::V6(_), IpAddr::V4(_)) if !policy.upstream_ranges => return Err(RangeError::HalfMapped(text.to_owned())),
            (IpAddr::V6(ip), _) => IpNet::V6(Ipv6Net::new_assert(ip, ones).trunc()),
            (IpAddr::V4(ip), _) => net4(ip, ones),
        };
        Ok(Self { net, written: IpVersion::of(ip), ones })
    }

    /// Parses a network of one family.
    ///
    /// # Errors
    /// `version` is not 4 or 6, `text` is no CIDR, or one of the other family.
    pub fn parse_version(text: &str, version: i64, policy: &Policy) -> Result<Self, RangeError> {
        let version = IpVersion::try_from(version)?;
        let cidr = Self::parse(text, policy)?;
        if cidr.written == version { Ok(cidr) } else { Err(RangeError::Family { text: text.to_owned(), version }) }
    }

    /// The family of its addresses.
    pub fn version(&self) -> IpVersion {
        IpVersion::of(self.net.addr())
    }

    /// The network; its address has no bits after the prefix.
    pub fn net(&self) -> IpNet {
        self.net
    }

    /// All its addresses. Those of an IPv6 network include the numbers of IPv4-mapped addresses if it is that wide.
    pub fn range(&self) -> IpRange {
        let (first, last) = match self.net {
            IpNet::V4(net) => (net.network().to_bits().into(), net.broadcast().to_bits().into()),
            IpNet::V6(net) => (net.network().to_bits(), net.broadcast().to_bits()),
        };
        IpRange::of_numbers(self.version(), first, last).expect("a network begins below its end")
    }

    /// Whether the address is in the network.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.net.contains(&ip.to_canonical())
    }

    /// Whether both ends of the range, and so all of it, are in the network.
    pub fn contains_range(&self, range: &IpRange) -> bool {
        let ((low, high), (first, last)) = (self.range().numbers(), range.numbers());
        range.version() == self.version() && low <= first && last <= high
    }

    /// Whether every address of `other` is in the network. (Prefixes are compared as they were written.)
    pub fn contains_cidr(&self, other: &Self, policy: &Policy) -> bool {
        if policy.upstream_ranges {
            return self.ones <= other.ones && self.contains(other.net.addr());
        }
        self.net.contains(&other.net)
    }

    /// Whether the two share addresses.
    pub fn overlaps(&self, other: &Self, policy: &Policy) -> bool {
        self.contains_cidr(other, policy) || other.contains_cidr(self, policy)
    }

    /// Whether `text` is a CIDR in the only form that upstream accepts in a new object: as Go writes it, without bits after the prefix.
    pub fn is_canonical(text: &str, policy: &Policy) -> bool {
        Self::parse(text, policy).is_ok_and(|cidr| cidr.is_written(text))
    }

    /// Whether `text`, from which it was parsed, is its written form.
    fn is_written(&self, text: &str) -> bool {
        match (self.net, text.split_once('/')) {
            // There is one way to write an IPv4 address, so no text is made: this check runs for every new pool, refused or not.
            (IpNet::V4(net), Some((ip, ones))) => ip.parse() == Ok(net.addr()) && (ones == "0" || !ones.starts_with('0')),
            _ => self.to_string() == text,
        }
    }
}

fn net4(ip: Ipv4Addr, ones: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(ip, ones).trunc())
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.net.fmt(f)
    }
}

/// The value of the labels `ippool-cidr` and `subnet-cidr`: the text, with `-` for `.`, `:` and `/` (A §1.1).
///
/// With `upstream-ranges` at most seven colons are replaced, so `1:2:3:4:5:6:7::/120` keeps its last.
///
/// # Errors
/// Those of [`Cidr::parse_version`].
pub fn cidr_label(text: &str, version: i64, policy: &Policy) -> Result<String, RangeError> {
    Cidr::parse_version(text, version, policy)?;
    if policy.upstream_ranges {
        return Ok(text.replacen('.', "-", 3).replacen(':', "-", 7).replacen('/', "-", 1));
    }
    Ok(text.replace(['.', ':', '/'], "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardened(text: &str) -> Result<String, RangeError> {
        Cidr::parse(text, &Policy::hardened()).map(|cidr| cidr.to_string())
    }

    #[test]
    fn bits_behind_the_prefix_do_not_count() {
        for (text, canonical) in [
            ("10.0.0.7/24", "10.0.0.0/24"),
            ("10.0.0.0/08", "10.0.0.0/8"),
            ("FD00:0::1/64", "fd00::/64"),
            ("::/0", "::/0"),
            ("::ffff:10.0.0.9/120", "10.0.0.0/24"),
        ] {
            assert_eq!(hardened(text).as_deref(), Ok(canonical));
            assert!(
                Cidr::is_canonical(canonical, &Policy::hardened()) && (text == canonical) == Cidr::is_canonical(text, &Policy::hardened())
            );
        }
        for text in ["", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8/8", "fe80::%eth0/64", "::/129"] {
            assert_eq!(hardened(text), Err(RangeError::Cidr(text.to_owned())));
        }
    }

    #[test]
    fn half_a_mapped_prefix_is_of_both_families_upstream() {
        let text = "::ffff:10.0.0.0/24";
        assert_eq!(hardened(text), Err(RangeError::HalfMapped(text.to_owned())));
        let cidr = Cidr::parse_version(text, 4, &Policy::upstream()).unwrap();
        assert_eq!((cidr.version(), cidr.to_string().as_str()), (IpVersion::V6, "::/24"));
    }

    #[test]
    fn a_wider_prefix_contains_a_narrower_one() {
        let parse = |text: &str, policy: &Policy| Cidr::parse(text, policy).unwrap();
        for policy in [Policy::hardened(), Policy::upstream()] {
            let (wide, narrow) = (parse("10.0.0.0/8", &policy), parse("10.1.0.0/16", &policy));
            assert!(wide.contains_cidr(&narrow, &policy) && !narrow.contains_cidr(&wide, &policy));
            assert!(wide.overlaps(&narrow, &policy) && narrow.overlaps(&wide, &policy));
            assert!(!narrow.overlaps(&parse("10.2.0.0/16", &policy), &policy));
            assert!(!parse("::/0", &policy).overlaps(&wide, &policy));
            assert!(narrow.contains_range(&narrow.range()) && !narrow.contains_range(&wide.range()));
        }
        // Upstream compares 112, as it is written, with 24, and so misses that one contains the other.
        let sees = |policy| parse("::ffff:10.0.0.0/112", &policy).overlaps(&parse("10.0.1.0/24", &policy), &policy);
        assert!(sees(Policy::hardened()) && !sees(Policy::upstream()));
    }

    #[test]
    fn a_network_may_end_among_the_mapped_addresses() {
        let cidr = Cidr::parse("::fffe:0:0/95", &Policy::hardened()).unwrap();
        assert_eq!(cidr.range().count(), 1 << 33);
        assert!(cidr.contains_range(&cidr.range()) && !cidr.contains("10.0.0.1".parse().unwrap()));
        let addresses = super::super::IpSet::from(cidr.range());
        assert_eq!(addresses.texts(), ["::fffe:0:0-::fffe:ffff:ffff"]);
    }

    #[test]
    fn a_label_has_no_colon_left() {
        let label = |policy| cidr_label("1:2:3:4:5:6:7::/112", 6, &policy).unwrap();
        assert_eq!((&*label(Policy::hardened()), &*label(Policy::upstream())), ("1-2-3-4-5-6-7---112", "1-2-3-4-5-6-7-:-112"));
    }
}
