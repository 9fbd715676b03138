//! Signed durations, and histograms of them whose parts can be joined in any order.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::distribution::Distribution;
use crate::{Seconds, human};

/// The time from one event to another; negative = the other came first. Whole microseconds in memory, a number of seconds in JSON and CSV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Margin(i64);

impl Margin {
    /// A margin of whole microseconds.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The time from `earlier` to `later`, both in microseconds since the beginning of a run.
    pub fn between(earlier: u64, later: u64) -> Self {
        let length = |length: u64| i64::try_from(length).unwrap_or(i64::MAX);
        Self(if later >= earlier { length(later - earlier) } else { -length(earlier - later) })
    }

    /// The margin in whole microseconds, with its sign.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The length of the margin, without its sign.
    fn length(self) -> Seconds {
        Seconds::from_micros(self.0.unsigned_abs())
    }
}

impl fmt::Display for Margin {
    /// Formats the margin for people: `-41.2 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", human::duration(self.length()))
    }
}

impl Serialize for Margin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / 1e6)
    }
}

impl<'de> Deserialize<'de> for Margin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A number out of range saturates; there is no such run.
        Ok(Self((f64::deserialize(deserializer)? * 1e6).round() as i64))
    }
}

/// Margins, sorted into buckets. Joining the spreads of two parts gives that of the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", from = "Written")]
pub struct Spread {
    /// The least margin; unset = there is none.
    least: Option<Margin>,
    greatest: Option<Margin>,
    /// The lengths of margins below zero.
    below: Distribution,
    /// The lengths of margins of zero and above.
    above: Distribution,
}

/// The JSON form. Quantiles are for readers: they follow from the buckets.
#[derive(Serialize, Deserialize)]
struct Written {
    count: u64,
    #[serde(rename = "min_s")]
    least: Option<Margin>,
    #[serde(rename = "p50_s", default)]
    p50: Option<Margin>,
    #[serde(rename = "p99_s", default)]
    p99: Option<Margin>,
    #[serde(rename = "max_s")]
    greatest: Option<Margin>,
    /// The lengths of margins below zero.
    below: Distribution,
    /// The lengths of margins of zero and above.
    above: Distribution,
}

impl From<Spread> for Written {
    fn from(all: Spread) -> Self {
        let [p50, p99] = [0.5, 0.99].map(|p| all.quantile(p));
        Self { count: all.count(), least: all.least, p50, p99, greatest: all.greatest, below: all.below, above: all.above }
    }
}

impl From<Written> for Spread {
    fn from(written: Written) -> Self {
        Self { least: written.least, greatest: written.greatest, below: written.below, above: written.above }
    }
}

impl Spread {
    /// Counts one margin, by its length and its sign.
    pub fn add(&mut self, margin: Margin) {
        self.reach(Some(margin), Some(margin));
        let side = if margin.0 < 0 { &mut self.below } else { &mut self.above };
        side.add(margin.length());
    }

    /// Adds the margins of another part.
    pub fn join(&mut self, other: &Self) {
        self.reach(other.least, other.greatest);
        self.below.join(&other.below);
        self.above.join(&other.above);
    }

    fn reach(&mut self, least: Option<Margin>, greatest: Option<Margin>) {
        self.least = self.least.into_iter().chain(least).min();
        self.greatest = self.greatest.max(greatest);
    }

    /// The number of margins.
    pub fn count(&self) -> u64 {
        self.below.count() + self.above.count()
    }

    /// The least margin; `None` if there are none.
    pub fn least(&self) -> Option<Margin> {
        self.least
    }

    /// The greatest margin; `None` if there are none.
    pub fn greatest(&self) -> Option<Margin> {
        self.greatest
    }

    /// The margin that the fraction `p` of all does not exceed, at most 0.8 % too far from zero and never beyond the extremes. `None` if
    /// there are none.
    pub fn quantile(&self, p: f64) -> Option<Margin> {
        let (below, count) = (self.below.count(), self.count());
        let rank = ((p * count as f64).ceil() as u64).clamp(1, count.max(1));
        let micros = |length: Seconds| i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
        if rank <= below {
            // The longest of those below zero comes first.
            return self.below.ranked(below - rank + 1).map(|length| Margin(-micros(length)));
        }
        self.above.ranked(rank - below).map(|length| Margin(micros(length)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(margins: &[i64]) -> Spread {
        let mut all = Spread::default();
        margins.iter().for_each(|micros| all.add(Margin(*micros)));
        all
    }

    fn margins() -> impl Strategy<Value = Vec<i64>> {
        prop::collection::vec(prop_oneof![-1_000i64..1_000, -100_000_000i64..100_000_000], 1..100)
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_list(mut list in margins(), p in 0.0..1.0f64) {
            let all = of(&list);
            list.sort_unstable();
            let exact = list[((p * list.len() as f64).ceil() as usize).clamp(1, list.len()) - 1];
            let found = all.quantile(p).unwrap().as_micros();
            prop_assert!(found.signum() == exact.signum() && found.abs() >= exact.abs(), "{found} for {exact}");
            prop_assert!(found.abs() as f64 <= exact.abs() as f64 * 1.008, "{found} for {exact}");
            let ends = [all.least(), all.greatest()].map(|end| end.unwrap().as_micros());
            prop_assert_eq!(ends, [list[0], list[list.len() - 1]]);
        }

        #[test]
        fn parts_give_the_whole_and_read_back(left in margins(), right in margins()) {
            let mut joined = of(&left);
            joined.join(&of(&right));
            let whole = of(&[left, right].concat());
            prop_assert_eq!(&joined, &whole);
            let text = serde_json::to_string(&whole).unwrap();
            prop_assert_eq!(serde_json::from_str::<Spread>(&text).unwrap(), whole);
        }
    }

    #[test]
    fn margins_have_a_sign() {
        assert_eq!((Margin::between(5, 2), Margin::between(2, 5)), (Margin(-3), Margin(3)));
        assert_eq!(Margin(-41_200_000).to_string(), format!("-{}", human::duration(Seconds::from_micros(41_200_000))));
        assert_eq!((of(&[]).quantile(0.5), of(&[]).least(), of(&[]).count()), (None, None, 0));
    }
}
