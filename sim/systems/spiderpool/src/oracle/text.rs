//! Annotations as Go parses them (A §14.10): keys match regardless of case, unknown keys are ignored, `null` counts as absent, the last of
//! equal keys wins, and a value of another type is an error.

use std::fmt;

use ipam_spiderpool::names::ANNOTATION_IPPOOLS;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// The members of an object, in the order in which they are written.
#[derive(Default)]
pub(super) struct Item(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Item;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_unit<E>(self) -> Result<Item, E> {
                Ok(Item::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Item, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Item(members))
            }
        }

        deserializer.deserialize_any(Members)
    }
}

impl Item {
    /// The value of the member with this name. `Err`: it has another type.
    fn member<T: Default>(&self, key: &str, read: impl Fn(&Value) -> Option<T>) -> Result<T, ()> {
        let members = self.0.iter().filter(|(name, value)| name.eq_ignore_ascii_case(key) && !value.is_null());
        members.map(|(_, value)| read(value).ok_or(())).try_fold(T::default(), |_, value| value)
    }

    pub(super) fn text(&self, key: &str) -> Result<String, ()> {
        self.member(key, |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, ()> {
        self.member(key, texts)
    }

    pub(super) fn is_true(&self, key: &str) -> Result<bool, ()> {
        self.member(key, Value::as_bool)
    }
}

/// A list of texts, in which `null` counts as an empty text.
pub(super) fn texts(value: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| if value.is_null() { Some(String::new()) } else { value.as_str().map(str::to_owned) };
    value.as_array()?.iter().map(text).collect()
}

/// A list of objects; `null` counts as an empty list.
pub(super) fn items(text: &str) -> Result<Vec<Item>, ()> {
    serde_json::from_str::<Option<Vec<Item>>>(text).map(Option::unwrap_or_default).map_err(drop)
}

/// The members of an object; `null` has none, and anything else is `Err`.
pub(super) fn item(text: &str) -> Result<Item, ()> {
    serde_json::from_str(text).map_err(drop)
}

/// The names and patterns of pools for one NIC, by family.
pub(super) type Lists = [Vec<String>; 2];

/// Whether the pod's annotation identifies NICs by index (A §2.4).
pub(super) fn is_nameless(pod: &Pod) -> bool {
    let Some(text) = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(ANNOTATION_IPPOOLS)) else { return false };
    let read = items(text).and_then(|items| items.iter().map(read_item).collect::<Result<Vec<_>, ()>>());
    read.is_ok_and(|items| items.iter().any(|(interface, _)| interface.is_empty()))
}

/// The interface that an element of an annotation names, and its lists of pools.
pub(super) fn read_item(item: &Item) -> Result<(String, Lists), ()> {
    item.is_true("cleangateway")?;
    Ok((item.text("interface")?, [item.texts("ipv4")?, item.texts("ipv6")?]))
}
