//! A time of a scenario's fault: a duration, or a part of the safety phase, so that a fault scales with the phase.
//!
//! `at = "25%..50%"` is some time in the second quarter of the safety phase; `at = "0s"` with `for = "100%"` is all of it.

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
pub enum PhaseTime {
    /// A duration, whatever the phase.
    Span(Span),
    /// A part of the safety phase, in thousandths of a percent: 0 to 100 000.
    Part(u32),
}

/// The whole safety phase in thousandths of a percent.
const WHOLE: u32 = 100_000;

const FORM: &str = "a duration such as 250us, 1.5ms, 30s, 5m or 2h, or a part of the safety phase such as 50%";

impl PhaseTime {
    /// The duration, given that of the safety phase.
    pub fn of(self, safety: Span) -> Span {
        match self {
            PhaseTime::Span(span) => span,
            // Below 2^52 microseconds times 2^17: the product does not fit 64 bits, but the quotient does.
            PhaseTime::Part(part) => Span::micros((u128::from(micros(safety.0)) * u128::from(part) / u128::from(WHOLE)) as u64),
        }
    }
}

impl From<Span> for PhaseTime {
    fn from(span: Span) -> Self {
        PhaseTime::Span(span)
    }
}

impl From<Span> for Choice<PhaseTime> {
    fn from(span: Span) -> Self {
        Choice::Is(span.into())
    }
}

/// A duration and a part have no order before the phase is drawn.
impl PartialOrd for PhaseTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (PhaseTime::Span(one), PhaseTime::Span(other)) => Some(one.cmp(other)),
            (PhaseTime::Part(one), PhaseTime::Part(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }
}

impl FromStr for PhaseTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(PhaseTime::Span);
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
        part.filter(|part| *part <= WHOLE).map(PhaseTime::Part).ok_or_else(bad)
    }
}

impl fmt::Display for PhaseTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PhaseTime::Span(span) => span.fmt(f),
            PhaseTime::Part(part) if part % 1_000 == 0 => write!(f, "{}%", part / 1_000),
            PhaseTime::Part(part) => {
                let decimals = format!("{:03}", part % 1_000);
                write!(f, "{}.{}%", part / 1_000, decimals.trim_end_matches('0'))
            }
        }
    }
}

impl Serialize for PhaseTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PhaseTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = PhaseTime;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(FORM)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<PhaseTime, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

impl JsonSchema for PhaseTime {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PhaseTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": FORM,
            "pattern": r"^[0-9]+(\.[0-9]+)?(us|µs|ms|s|m|min|h|%)$|^forever$",
        })
    }
}

impl Open for PhaseTime {
    const RANGE: Option<RangeForm> = Some(RangeForm { example: "2s..8s", end: r"[0-9]+(\.[0-9]+)?(us|µs|ms|s|m|min|h|%)" });

    fn end(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn end_text(&self) -> String {
        self.to_string()
    }

    /// Durations are drawn as elsewhere; parts uniformly, because they are times within a phase.
    fn between(low: &Self, high: &Self, word: u64) -> Self {
        match (*low, *high) {
            (PhaseTime::Span(low), PhaseTime::Span(high)) => PhaseTime::Span(Span::between(&low, &high, word)),
            (PhaseTime::Part(low), PhaseTime::Part(high)) => PhaseTime::Part(low + below(word, u64::from(high - low) + 1) as u32),
            // A range never has one end of each.
            (low, _) => low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Concern, Draw};
    use proptest::prelude::*;

    #[test]
    fn a_part_is_of_the_safety_phase_and_a_duration_is_not() {
        for (text, safety, expected) in [
            ("100%", Span::secs(13_000), Span::secs(13_000)),
            ("50%", Span::secs(3_600), Span::secs(1_800)),
            ("0%", Span::secs(3_600), Span::secs(0)),
            ("33.333%", Span::secs(1), Span::micros(333_330)),
            ("100%", Span::FOREVER, Span::FOREVER),
            ("1h", Span::secs(5), Span::secs(3_600)),
            ("forever", Span::secs(5), Span::FOREVER),
        ] {
            assert_eq!(text.parse::<PhaseTime>().unwrap().of(safety), expected, "{text} of {safety}");
        }
    }

    #[test]
    fn a_part_that_cannot_be_is_refused() {
        for text in ["100.001%", "101%", "-1%", "%", ".5%", "5.%", "1.0000%", "+5%", "5 %", "1e1%", "99999999999%"] {
            let error = text.parse::<PhaseTime>().unwrap_err();
            assert!(error.contains("is not a part from 0% to 100%"), "{text}: {error}");
        }
    }

    #[test]
    fn a_range_has_two_durations_or_two_parts() {
        let read = |text: &str| {
            #[derive(Deserialize)]
            struct Row {
                at: Choice<PhaseTime>,
            }
            crate::toml::from_str::<Row>("f", &format!("at = \"{text}\"")).map(|row| row.at).map_err(|problems| problems.to_string())
        };
        assert_eq!(read("25%..50%").unwrap(), Choice::Between(PhaseTime::Part(25_000), PhaseTime::Part(50_000)));
        assert!(read("50%..25%").unwrap_err().contains("reversed; write `25%..50%`"));
        assert!(read("5s..50%").unwrap_err().contains("cannot be compared"));
    }

    proptest! {
        #[test]
        fn durations_are_drawn_as_ever(low in 0_u64..10_000_000, more in 0_u64..10_000_000, seed: u64) {
            let (low, high) = (Span::micros(low), Span::micros(low + more));
            let mut draw = Draw::new(seed, Concern::Faults, 0);
            let time = Choice::Between(PhaseTime::Span(low), PhaseTime::Span(high)).draw(&mut draw);
            let mut draw = Draw::new(seed, Concern::Faults, 0);
            prop_assert_eq!(time.of(Span::secs(1)), Choice::Between(low, high).draw(&mut draw));
        }

        #[test]
        fn parts_stay_in_their_range_and_survive_their_file(low in 0..=WHOLE, high in 0..=WHOLE, word: u64) {
            let (low, high) = (low.min(high), low.max(high));
            let drawn = PhaseTime::between(&PhaseTime::Part(low), &PhaseTime::Part(high), word);
            prop_assert!(PhaseTime::Part(low) <= drawn && drawn <= PhaseTime::Part(high));
            prop_assert_eq!(drawn.to_string().parse::<PhaseTime>().unwrap(), drawn);
        }
    }
}
