//! JSON as Go's decoder fills structures with it (A §14.10): keys match without regard to case, unknown keys are ignored,
//! `null` is nothing, of equal keys the last counts, and a value of another type is an error wherever it stands.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// The members of an object in the order of the text; `null` has none.
#[derive(Clone, Debug, Default)]
pub(super) struct Members(Vec<(String, Value)>);

impl Members {
    /// The text of a member; empty if there is none.
    pub(super) fn text(&self, key: &str) -> Result<String, String> {
        self.last(key, |value| value.as_str().map(str::to_owned), "a string")
    }

    /// The texts of a member; none if there is no such member.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        self.last(key, texts_of, "a list of strings")
    }

    /// The truth of a member; false if there is none.
    pub(super) fn truth(&self, key: &str) -> Result<bool, String> {
        self.last(key, Value::as_bool, "true or false")
    }

    fn last<T: Default>(&self, key: &str, read: impl Fn(&Value) -> Option<T>, wanted: &str) -> Result<T, String> {
        let mut found = T::default();
        for (_, value) in self.0.iter().filter(|(name, value)| name.eq_ignore_ascii_case(key) && !value.is_null()) {
            found = read(value).ok_or_else(|| format!("{key} is not {wanted}: {value}"))?;
        }
        Ok(found)
    }
}

/// A list of texts, in which `null` is the empty text.
pub(super) fn texts_of(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| if text.is_null() { Some(String::new()) } else { text.as_str().map(str::to_owned) }).collect()
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_unit<E>(self) -> Result<Members, E> {
                Ok(Members::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_any(MembersVisitor)
    }
}
