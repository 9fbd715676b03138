//! The number of pods of an application, in the form that budgets use.

use std::fmt;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A description of the valid forms of a [`PodCount`].
const FORM: &str = "a number of pods, or a percentage such as \"50%\"";

/// A number of pods, or a percentage of the desired number, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodCount {
    /// This number of pods, even if fewer are desired.
    Number(u32),
    /// This percentage of the desired pods, at most 100.
    Percent(u32),
}

impl fmt::Display for PodCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PodCount::Number(number) => write!(f, "{number}"),
            PodCount::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Serialize for PodCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            PodCount::Number(number) => serializer.serialize_u32(*number),
            PodCount::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for PodCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = PodCount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(FORM)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<PodCount, E> {
                u32::try_from(number).map(PodCount::Number).map_err(|_| E::custom(format!("`{number}` is not {FORM}")))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<PodCount, E> {
                u32::try_from(number).map(PodCount::Number).map_err(|_| E::custom(format!("`{number}` is not {FORM}")))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<PodCount, E> {
                let percent = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
                let percent = percent.and_then(|digits| digits.parse().ok()).filter(|percent| *percent <= 100);
                percent.map(PodCount::Percent).ok_or_else(|| E::custom(format!("`{text}` is not {FORM}")))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for PodCount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PodCount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": FORM,
            "oneOf": [{"type": "integer", "minimum": 0, "maximum": u32::MAX}, {"type": "string", "pattern": "^(100|[0-9]{1,2})%$"}],
        })
    }
}

impl From<PodCount> for IntOrString {
    fn from(count: PodCount) -> Self {
        match count {
            PodCount::Number(number) => IntOrString::Int(number.min(i32::MAX as u32) as i32),
            PodCount::Percent(_) => IntOrString::String(count.to_string()),
        }
    }
}
