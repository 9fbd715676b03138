//! Reading a pool document as Go's `encoding/json` does (B §1.2).
//!
//! Differences: Go replaces lone surrogates and allows 10,000 levels of nesting where serde_json reports an error.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::address::Address;
use super::allocation::IpAllocation;
use super::allocations::Allocations;
use super::document::PoolDocument;
use super::seconds::Seconds;
use kube_machinery::json_text::InvalidText;

/// Reads a pool document.
///
/// # Errors
/// The text is not JSON, or a value has another type than its field.
pub(super) fn document(text: &str) -> Result<PoolDocument, InvalidText> {
    let mut document = PoolDocument { allocated: Allocations::null(), ..PoolDocument::default() };
    let mut json = serde_json::Deserializer::from_str(text);
    Into(&mut document).deserialize(&mut json).and_then(|()| json.end()).map_err(InvalidText::new)?;
    Ok(document)
}

/// A Go value filled from the members of a JSON object, in the order of the text.
trait Members {
    /// Reads the member called `name`.
    fn member<'de, A: MapAccess<'de>>(&mut self, name: String, map: &mut A) -> Result<(), A::Error>;

    /// The effect of `null`: none, except on values that can be nil.
    fn null(&mut self) {}

    /// The effect of an object before its members are read: none, except on nil values.
    fn object(&mut self) {}
}

/// Reads the next JSON value into an existing value.
struct Into<'a, T>(&'a mut T);

impl<'de, T: Members> DeserializeSeed<'de> for Into<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Members> Visitor<'de> for Into<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.null();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.object();
        while let Some(name) = map.next_key()? {
            self.0.member(name, &mut map)?;
        }
        Ok(())
    }
}

impl Members for PoolDocument {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: String, map: &mut A) -> Result<(), A::Error> {
        if is(&name, "allocatedIPs") {
            map.next_value_seed(Into(&mut self.allocated))
        } else if is(&name, "availableIPs") {
            let list: Option<Vec<Option<Box<str>>>> = map.next_value()?;
            self.available = list.unwrap_or_default().into_iter().map(|text| Address::new(text.unwrap_or_default())).collect();
            Ok(())
        } else if is(&name, "lastUpdated") {
            time(map).map(|time| self.last_updated = time)
        } else if is(&name, "version") {
            if let Some(version) = map.next_value()? {
                self.version = version;
            }
            Ok(())
        } else {
            map.next_value().map(|IgnoredAny| ())
        }
    }
}

impl Members for Allocations {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: String, map: &mut A) -> Result<(), A::Error> {
        let mut record = IpAllocation::default();
        map.next_value_seed(Into(&mut record))?;
        self.insert(name.into(), record);
        Ok(())
    }

    fn null(&mut self) {
        *self = Self::null();
    }

    fn object(&mut self) {
        if self.is_null() {
            *self = Self::default();
        }
    }
}

impl Members for IpAllocation {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: String, map: &mut A) -> Result<(), A::Error> {
        if is(&name, "allocationID") {
            text(map, &mut self.allocation_id)
        } else if is(&name, "ip") {
            if let Some(text) = map.next_value::<Option<Box<str>>>()? {
                self.ip = Address::new(text);
            }
            Ok(())
        } else if is(&name, "nodeName") {
            text(map, &mut self.node_name)
        } else if is(&name, "podName") {
            text(map, &mut self.pod_name)
        } else if is(&name, "podNamespace") {
            if let Some(namespace) = map.next_value::<Option<String>>()? {
                self.pod_namespace = Some(namespace.into());
            }
            Ok(())
        } else if is(&name, "allocatedAt") {
            time(map).map(|time| self.allocated_at = time)
        } else {
            map.next_value().map(|IgnoredAny| ())
        }
    }
}

fn text<'de, A: MapAccess<'de>>(map: &mut A, field: &mut Arc<str>) -> Result<(), A::Error> {
    if let Some(text) = map.next_value::<Option<String>>()? {
        *field = text.into();
    }
    Ok(())
}

fn time<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Seconds, A::Error> {
    match map.next_value::<Option<String>>()? {
        Some(text) => Seconds::parse(&text).map_err(A::Error::custom),
        None => Ok(Seconds::ZERO),
    }
}

/// Whether Go matches `name` to the field called `field`: letters match in either case, including the two non-ASCII letters that fold to
/// ASCII.
fn is(name: &str, field: &str) -> bool {
    let folded = |character: char| match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    name == field || name.chars().map(folded).eq(field.chars().map(folded))
}
