//! Durations in results: whole microseconds in memory, so that sums are exact in any order; seconds in JSON.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration or a point in model time. JSON has a number of seconds, which keeps every microsecond up to 71 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(u64);

impl Seconds {
    /// A duration of no time at all.
    pub const ZERO: Seconds = Seconds(0);

    /// A duration of whole microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The duration in whole microseconds, without rounding.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whether it is no time at all.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// The duration in seconds, for ratios and for JSON.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl From<Duration> for Seconds {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

impl Add for Seconds {
    type Output = Seconds;
    fn add(self, rhs: Seconds) -> Seconds {
        Seconds(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Seconds {
    fn add_assign(&mut self, rhs: Seconds) {
        *self = *self + rhs;
    }
}

impl Sum for Seconds {
    fn sum<I: Iterator<Item = Seconds>>(iter: I) -> Seconds {
        iter.fold(Seconds::ZERO, Add::add)
    }
}

impl fmt::Display for Seconds {
    /// Formats a point in time, as seconds with milliseconds: `41.207 s`. [`crate::human::duration`] formats durations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} s", self.0 / 1_000_000, self.0 / 1_000 % 1_000)
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        let micros = (seconds * 1e6).round();
        if micros >= 0.0 && micros <= u64::MAX as f64 {
            Ok(Seconds(micros as u64))
        } else {
            Err(serde::de::Error::custom(format_args!("{seconds} is not a duration in seconds")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_negative_duration_is_refused() {
        assert!(serde_json::from_str::<Seconds>("-0.5").is_err());
        assert_eq!(serde_json::from_str::<Seconds>("2").unwrap(), Seconds::from_micros(2_000_000));
    }

    #[test]
    fn the_longest_duration_can_be_read() {
        let longest = Seconds::from_micros(u64::MAX);
        assert_eq!(serde_json::from_str::<Seconds>(&serde_json::to_string(&longest).unwrap()).unwrap(), longest);
        assert!(serde_json::from_str::<Seconds>("1e300").is_err());
    }

    proptest! {
        #[test]
        fn every_microsecond_survives_json(micros in 0..=1u64 << 51) {
            let seconds = Seconds::from_micros(micros);
            let text = serde_json::to_string(&seconds).unwrap();
            prop_assert_eq!(serde_json::from_str::<Seconds>(&text).unwrap(), seconds);
        }
    }
}
