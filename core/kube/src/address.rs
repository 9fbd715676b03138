//! IP addresses compared by meaning, whatever their spelling.

use std::fmt;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

/// The meaning of an address: all spellings of an address have one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressKey {
    /// An address without a zone; an IPv4-mapped one is its IPv4 address.
    Ip(IpAddr),
    /// An IPv6 address and its zone, which is not empty.
    Zoned(Ipv6Addr, Arc<str>),
    /// A text that is not an address.
    Other(Arc<str>),
}

impl AddressKey {
    /// The key of the address that `text` spells, an IPv4-mapped one as IPv4; any text that [`parse`] rejects is [`Other`](Self::Other).
    pub fn of(text: &str) -> Self {
        match parse(text) {
            Some((IpAddr::V6(ip), Some(zone))) => Self::Zoned(ip, zone.into()),
            Some((ip, _)) => Self::Ip(ip.to_canonical()),
            None => Self::Other(text.into()),
        }
    }

    /// A hash that is equal for equal keys, and the same in every run.
    pub fn hash(&self) -> u64 {
        FxBuildHasher.hash_one(self)
    }

    /// Whether this is an address.
    pub fn is_address(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

/// The address that `text` spells, and its zone. Like Go's `netip.ParseAddr`: a zone may follow an IPv6 address.
pub fn parse(text: &str) -> Option<(IpAddr, Option<&str>)> {
    match text.split_once('%') {
        Some((ip, zone)) => {
            Some((ip.parse::<Ipv6Addr>().ok()?.into(), Some(zone).filter(|zone| !zone.is_empty()))).filter(|(_, zone)| zone.is_some())
        }
        None => Some((text.parse().ok()?, None)),
    }
}

/// Displays the canonical spelling, or the text that is not an address.
impl fmt::Display for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressKey::Ip(ip) => ip.fmt(f),
            AddressKey::Zoned(ip, zone) => write!(f, "{ip}%{zone}"),
            AddressKey::Other(text) => f.write_str(text),
        }
    }
}
