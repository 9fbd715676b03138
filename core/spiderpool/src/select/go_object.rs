//! JSON as Go's decoder fills structures with it (A §14.10): keys match case-insensitively, unknown keys are ignored, `null` is nothing,
//! the last of equal keys counts, and a value of another type is an error wherever it occurs.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The members of an object in the order of the text; `null` has none.
#[derive(Clone, Debug, Default)]
pub(super) struct Members(Vec<(String, Member)>);

/// The value of a member. Lists of texts, some of which name all pools of a cluster, are parsed as such at once.
#[derive(Clone, Debug)]
enum Member {
    Texts(Vec<String>),
    Other(Value),
}

impl Members {
    /// The text of a member; empty if there is none.
    pub(super) fn text(&self, key: &str) -> Result<String, String> {
        self.last(key, |value| value.as_str().map(str::to_owned), "a string")
    }

    /// Takes the texts of a member out; empty if there is no such member.
    pub(super) fn texts(&mut self, key: &str) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        for (_, member) in self.0.iter_mut().filter(|(name, member)| is_given(name, key, member)) {
            found = match member {
                Member::Texts(texts) => std::mem::take(texts),
                Member::Other(value) => texts_of(value).ok_or_else(|| format!("{key} is not a list of strings: {value}"))?,
            };
        }
        Ok(found)
    }

    /// The boolean value of a member; false if there is none.
    pub(super) fn truth(&self, key: &str) -> Result<bool, String> {
        self.last(key, Value::as_bool, "true or false")
    }

    fn last<T: Default>(&self, key: &str, read: impl Fn(&Value) -> Option<T>, wanted: &str) -> Result<T, String> {
        let mut found = T::default();
        for (_, member) in self.0.iter().filter(|(name, member)| is_given(name, key, member)) {
            let read = if let Member::Other(value) = member { read(value) } else { None };
            found = read.ok_or_else(|| format!("{key} is not {wanted}: {member}"))?;
        }
        Ok(found)
    }
}

/// Whether this is the member, and not `null`.
fn is_given(name: &str, key: &str, member: &Member) -> bool {
    name.eq_ignore_ascii_case(key) && !matches!(member, Member::Other(Value::Null))
}

/// Formats the member as JSON.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Member::Texts(texts) => Value::from(texts.clone()).fmt(f),
            Member::Other(value) => value.fmt(f),
        }
    }
}

/// Takes a list of texts out, in which `null` is the empty text. Any other value is left unchanged.
pub(super) fn texts_of(value: &mut Value) -> Option<Vec<String>> {
    let list = value.as_array_mut()?;
    if !list.iter().all(|text| text.is_null() || text.is_string()) {
        return None;
    }
    let text = |value: Value| if let Value::String(text) = value { text } else { String::new() };
    Some(std::mem::take(list).into_iter().map(text).collect())
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

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MemberVisitor;

        impl<'de> Visitor<'de> for MemberVisitor {
            type Value = Member;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }

            fn visit_unit<E>(self) -> Result<Member, E> {
                Ok(Member::Other(Value::Null))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Member, E> {
                Ok(Member::Other(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Member, E> {
                Ok(Member::Other(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Member, E> {
                Ok(Member::Other(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Member, E> {
                Ok(Member::Other(value.into()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Member, E> {
                Ok(Member::Other(value.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Member, A::Error> {
                Value::deserialize(MapAccessDeserializer::new(map)).map(Member::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Member, A::Error> {
                let mut texts = Vec::new();
                while let Some(value) = seq.next_element()? {
                    let Value::String(text) = value else {
                        let mut values: Vec<Value> = texts.into_iter().map(Value::String).collect();
                        values.push(value);
                        while let Some(value) = seq.next_element()? {
                            values.push(value);
                        }
                        return Ok(Member::Other(Value::Array(values)));
                    };
                    texts.push(text);
                }
                Ok(Member::Texts(texts))
            }
        }

        deserializer.deserialize_any(MemberVisitor)
    }
}
