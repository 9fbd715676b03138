//! An address of a VM: its text as written, and the address that the text means.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

pub use kube_machinery::address::AddressKey;
use kube_machinery::address::parse;

/// The text of an address together with the address it means. Any text is allowed, because a document can hold any. Cheap to clone.
///
/// Addresses are equal if their texts are. Two spellings name the same VM if their [`key`](Self::key)s are equal; the choice between the
/// two comparisons matters (B W21).
#[derive(Clone)]
pub struct Address(Arc<Written>);

struct Written {
    text: Box<str>,
    key: AddressKey,
}

impl Address {
    /// The address that `text` spells. A text that is not an address is kept as text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        let key = AddressKey::of(&text);
        Self(Arc::new(Written { text, key }))
    }

    /// The address in its canonical spelling; an IPv4-mapped one is written as its IPv4 address. `None` if the text is not an address.
    pub fn canonical(&self) -> Option<Self> {
        let text = match self.key() {
            AddressKey::Ip(ip) => ip.to_string(),
            AddressKey::Zoned(ip, zone) => format!("{ip}%{zone}"),
            AddressKey::Other(_) => return None,
        };
        Some(if *text == *self.text() { self.clone() } else { Self::new(text) })
    }

    /// The spelling that Go's `netip.Addr.String` gives: canonical, but an IPv4-mapped address stays IPv4-mapped.
    pub fn canonical_in_go(&self) -> Option<Self> {
        let text = match parse(self.text())? {
            (ip, Some(zone)) => format!("{ip}%{zone}"),
            (ip, None) => ip.to_string(),
        };
        Some(if *text == *self.text() { self.clone() } else { Self::new(text) })
    }

    /// The text as written.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The address that the text spells, whatever its spelling.
    pub fn key(&self) -> &AddressKey {
        &self.0.key
    }

    /// The address without its zone, if the text is an address; an IPv4-mapped one is its IPv4 address.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.key() {
            AddressKey::Ip(ip) => Some(*ip),
            AddressKey::Zoned(ip, _) => Some((*ip).into()),
            AddressKey::Other(_) => None,
        }
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Address {}

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        Self::new(ip.to_string())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_address_have_one_key() {
        for (text, canonical, in_go) in [
            ("10.0.0.1", Some("10.0.0.1"), Some("10.0.0.1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1"), Some("::ffff:10.0.0.1")),
            ("::FFFF:a00:1", Some("10.0.0.1"), Some("::ffff:10.0.0.1")),
            ("2001:DB8:0::1", Some("2001:db8::1"), Some("2001:db8::1")),
            ("fe80:0::1%eth0", Some("fe80::1%eth0"), Some("fe80::1%eth0")),
            ("fe80::1%", None, None),
            ("10.0.0.1%eth0", None, None),
            ("010.0.0.1", None, None),
            (" 10.0.0.1", None, None),
            ("", None, None),
        ] {
            let address = Address::new(text);
            assert_eq!(address.canonical().as_ref().map(Address::text), canonical, "{text}");
            assert_eq!(address.canonical_in_go().as_ref().map(Address::text), in_go, "{text}");
            assert_eq!(address.key().is_address(), canonical.is_some(), "{text}");
            if let Some(canonical) = canonical {
                assert_eq!(address.key(), Address::new(canonical).key());
            }
        }
        assert_ne!(Address::new("fe80::1%a").key(), Address::new("fe80::1").key());
    }
}
