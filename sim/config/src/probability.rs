//! Probabilities, as scenarios write them.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};

use super::choice::{FRACTION, Open, RangeForm};

/// A probability: a number from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize)]
pub struct Probability(f64);

impl Probability {
    /// The probability 0: it never happens.
    pub const NEVER: Probability = Probability(0.0);
    /// The probability 1: it always happens.
    pub const ALWAYS: Probability = Probability(1.0);

    /// A probability, if the number is one.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// The probability as a number from 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Probability;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a probability from 0 to 1")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Probability, E> {
                Probability::new(value as f64).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Probability, E> {
                Probability::new(value as f64).ok_or_else(|| E::invalid_value(Unexpected::Signed(value), &self))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Probability, E> {
                Probability::new(value).ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))
            }
        }
        deserializer.deserialize_f64(Number)
    }
}

impl JsonSchema for Probability {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Probability".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1, "description": "a probability from 0 to 1" })
    }
}

impl Open for Probability {
    const RANGE: Option<RangeForm> = Some(RangeForm { example: "0.1..0.5", end: FRACTION });

    fn end(text: &str) -> Result<Self, String> {
        text.parse().ok().and_then(Probability::new).ok_or_else(|| format!("`{text}` is not a probability from 0 to 1"))
    }

    fn end_text(&self) -> String {
        self.0.to_string()
    }

    fn between(low: &Self, high: &Self, word: u64) -> Self {
        Probability(f64::between(&low.0, &high.0, word))
    }
}
