//! A time of a scenario's fault: so long, or a part of the safety phase, so that a fault goes with the phase when that is changed.
//!
//! `at = "25%..50%"` is some time of the second quarter of the safety phase; `at = "0s"` with `for = "100%"` is all of it.

use std::fmt;
use std::str::FromStr;

use crate::Choice;
use crate::choice::{Open, RangeForm};
use crate::draw::below;
use crate::time::{Span, micros};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration, or a part of the safety phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lapse {
    /// So long, whatever the phase.
    Span(Span),
    /// So much of the safety phase, in thousandths of a percent: 0 to 100 000.
    Part(u32),
}

/// The whole safety phase in thousandths of a percent.
const WHOLE: u32 = 100_000;

const FORM: &str = "a duration such as 250us, 1.5ms, 30s, 5m or 2h, or a part of the safety phase such as 50%";

impl Lapse {
    /// How long it is when the safety phase lasts so long.
    pub fn of(self, safety: Span) -> Span {
        match self {
            Lapse::Span(span) => span,
            // Below 2^52 microseconds times 2^17: it does not fit 64 bits, and the quotient does.
            Lapse::Part(part) => Span::micros((u128::from(micros(safety.0)) * u128::from(part) / u128::from(WHOLE)) as u64),
        }
    }
}

impl From<Span> for Lapse {
    fn from(span: Span) -> Self {
        Lapse::Span(span)
    }
}

impl From<Span> for Choice<Lapse> {
    fn from(span: Span) -> Self {
        Choice::Is(span.into())
    }
}

/// A duration and a part have no order before the phase is drawn.
impl PartialOrd for Lapse {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Lapse::Span(one), Lapse::Span(other)) => Some(one.cmp(other)),
            (Lapse::Part(one), Lapse::Part(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }
}

impl FromStr for Lapse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(Lapse::Span);
        };
        let bad = || format!("`{text}` is not a part from 0% to 100% with at most three decimals");
        // Exact decimal arithmetic, as for durations.
        let (whole, decimals) = percent.split_once('.').unwrap_or((percent, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > 3 {
            return Err(bad());
        }
        let whole: u32 = whole.parse().map_err(|_| bad())?;
        let thousandths: u32 = format!("{decimals:0<3}").parse().map_err(|_| bad())?;
        let part = whole.checked_mul(1_000).and_then(|part| part.checked_add(thousandths));
        part.filter(|part| *part <= WHOLE).map(Lapse::Part).ok_or_else(bad)
    }
}

impl fmt::Display for Lapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lapse::Span(span) => span.fmt(f),
            Lapse::Part(part) if part % 1_000 == 0 => write!(f, "{}%", part / 1_000),
            Lapse::Part(part) => {
                let decimals = format!("{:03}", part % 1_000);
                write!(f, "{}.{}%", part / 1_000, decimals.trim_end_matches('0'))
            }
        }
    }
}

impl Serialize for Lapse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Lapse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Lapse;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(FORM)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Lapse, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

impl JsonSchema for Lapse {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Lapse".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": FORM,
            "pattern": r"^[0-9]+(\.[0-9]+)?(us|µs|ms|s|m|min|h|%)$|^forever$",
        })
    }
}

impl Open for Lapse {
    const RANGE: Option<RangeForm> = Some(RangeForm { example: "2s..8s", end: r"[0-9]+(\.[0-9]+)?(us|µs|ms|s|m|min|h|%)" });

    fn end(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn end_text(&self) -> String {
        self.to_string()
    }

    /// Durations as durations are drawn; parts uniformly, because they are about when in a phase something happens.
    fn between(low: &Self, high: &Self, word: u64) -> Self {
        match (*low, *high) {
            (Lapse::Span(low), Lapse::Span(high)) => Lapse::Span(Span::between(&low, &high, word)),
            (Lapse::Part(low), Lapse::Part(high)) => Lapse::Part(low + below(word, u64::from(high - low) + 1) as u32),
            // No range has such ends.
            (low, _) => low,
        }
    }
}
