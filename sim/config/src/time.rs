//! Model time, in microseconds since the run began.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in model time, with a resolution of 1 µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(u64);

impl SimTime {
    /// The beginning of the run.
    pub const ZERO: SimTime = SimTime(0);
    /// Later than everything: a moment that never comes.
    pub const NEVER: SimTime = SimTime(u64::MAX);

    /// The point `micros` microseconds after the beginning.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The point `seconds` seconds after the beginning.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000)
    }

    /// Microseconds since the beginning.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Seconds since the beginning.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The time since the beginning.
    pub const fn since_start(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: SimTime) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in whole microseconds, rounded up, so that a positive duration never becomes zero.
pub fn micros(duration: Duration) -> u64 {
    // Without a division of 128 bits: every message adds several durations.
    duration.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(duration.subsec_nanos().div_ceil(1_000)))
}

impl Add<Duration> for SimTime {
    type Output = SimTime;
    fn add(self, rhs: Duration) -> SimTime {
        SimTime(self.0.saturating_add(micros(rhs)))
    }
}

impl AddAssign<Duration> for SimTime {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub<SimTime> for SimTime {
    type Output = Duration;
    fn sub(self, rhs: SimTime) -> Duration {
        self.since(rhs)
    }
}

impl fmt::Display for SimTime {
    /// Seconds with milliseconds: `41.207 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == SimTime::NEVER { f.write_str("never") } else { write!(f, "{}.{:03} s", self.0 / 1_000_000, self.0 / 1_000 % 1_000) }
    }
}

/// A span of time as users write it in a scenario or a plan: `250us`, `1.5ms`, `30s`, `5m`, `2h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

impl Span {
    /// Whether the span is zero.
    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    /// Longer than any run: a fault of this duration is not healed. Written `forever`.
    pub const FOREVER: Span = Span::micros(SPAN_MAX_MICROS);

    /// A span of whole microseconds.
    pub const fn micros(micros: u64) -> Self {
        Self(Duration::from_micros(micros))
    }

    /// A span of whole milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// A span of whole seconds.
    pub const fn secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

/// The notation of a span, for error messages.
const SPAN_FORM: &str = "a duration such as 250us, 1.5ms, 30s, 5m or 2h";
/// A hundred years: longer than any run, short enough that sums cannot overflow.
const SPAN_MAX_MICROS: u64 = 100 * 365 * 24 * 3_600 * 1_000_000;

impl FromStr for Span {
    type Err = String;

    /// Exact decimal arithmetic: floating point would make the meaning of a plan depend on rounding.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Span::FOREVER);
        }
        let bad = || format!("`{text}` is not {SPAN_FORM}");
        let unit_at = text.find(|c: char| c != '.' && !c.is_ascii_digit()).ok_or_else(bad)?;
        let (number, unit) = text.split_at(unit_at);
        let unit_micros: u64 = match unit {
            "us" | "µs" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" | "min" => 60_000_000,
            "h" => 3_600_000_000,
            _ => return Err(bad()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || (number.contains('.') && fraction.is_empty()) {
            return Err(bad());
        }
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let mut total = whole
            .checked_mul(unit_micros)
            .filter(|&total| total <= SPAN_MAX_MICROS)
            .ok_or_else(|| format!("`{text}` is longer than 100 years"))?;
        if !fraction.is_empty() {
            let digits: u64 = fraction.parse().map_err(|_| bad())?;
            let scale = u32::try_from(fraction.len()).ok().and_then(|len| 10u64.checked_pow(len)).ok_or_else(bad)?;
            let scaled = u128::from(digits) * u128::from(unit_micros);
            if scaled % u128::from(scale) != 0 {
                return Err(format!("`{text}` is finer than a microsecond, which is the resolution of model time"));
            }
            total += (scaled / u128::from(scale)) as u64;
        }
        Ok(Span(Duration::from_micros(total)))
    }
}

impl fmt::Display for Span {
    /// The largest unit that needs at most three decimals; parses back to the same span.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = micros(self.0);
        let (unit, scale) = match total {
            0 => return f.write_str("0s"),
            SPAN_MAX_MICROS => return f.write_str("forever"),
            t if t % 1_000 == 0 && t >= 1_000_000 => ("s", 1_000_000),
            t if (1_000..1_000_000).contains(&t) => ("ms", 1_000),
            t if t < 1_000 => ("us", 1),
            _ => ("s", 1_000_000),
        };
        let (whole, rest) = (total / scale, total % scale);
        if rest == 0 {
            return write!(f, "{whole}{unit}");
        }
        let width = if scale == 1_000 { 3 } else { 6 };
        let fraction = format!("{rest:0width$}");
        write!(f, "{whole}.{}{unit}", fraction.trim_end_matches('0'))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SPAN_FORM)
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

impl schemars::JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": SPAN_FORM, "pattern": r"^[0-9]+(\.[0-9]+)?(us|µs|ms|s|m|min|h)$|^forever$" })
    }
}

/// A plan file has a point in time as the span since the beginning.
impl Serialize for SimTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == SimTime::NEVER { serializer.serialize_str("never") } else { Span(self.since_start()).serialize(serializer) }
    }
}

impl<'de> Deserialize<'de> for SimTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = SimTime;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "`never` or {SPAN_FORM}")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SimTime, E> {
                if text == "never" {
                    Ok(SimTime::NEVER)
                } else {
                    text.parse::<Span>().map(|span| SimTime::ZERO + span.0).map_err(E::custom)
                }
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_read_as_people_write_them() {
        for (text, micros) in
            [("250us", 250), ("1.5ms", 1_500), ("30s", 30_000_000), ("0.000001s", 1), ("5m", 300_000_000), ("2h", 7_200_000_000), ("0s", 0)]
        {
            assert_eq!(text.parse::<Span>().unwrap(), Span::micros(micros), "{text}");
        }
    }

    #[test]
    fn spans_refuse_what_they_cannot_keep() {
        for text in ["", "5", "s", ".5s", "5.s", "1e3s", "-1s", "1.0000001s", "0.5us", "5 s", "1d", "9999999999h", "1..2s"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_print_in_milliseconds() {
        assert_eq!(SimTime::from_micros(41_207_999).to_string(), "41.207 s");
    }

    proptest! {
        #[test]
        fn printed_spans_parse_back(micros in 0..SPAN_MAX_MICROS) {
            let span = Span::micros(micros);
            prop_assert_eq!(span.to_string().parse::<Span>(), Ok(span));
        }
    }
}
