//! Many durations as a histogram whose parts can be joined in any order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Seconds;

/// Durations below this many microseconds have a bucket each.
const EXACT: u64 = 256;
/// Above `EXACT`, this many buckets (as a power of two) lie between a number and its double: no quantile is more than 0.8 % too large.
const STEPS_LOG2: u32 = 7;

/// Durations, sorted into buckets. Joining the distributions of two parts gives that of the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", from = "Written")]
pub struct Distribution {
    count: u64,
    sum: Seconds,
    max: Seconds,
    /// Counts by the smallest number of microseconds in the bucket.
    buckets: BTreeMap<u64, u64>,
}

/// The JSON form. Quantiles are for readers: they follow from the buckets.
#[derive(Serialize, Deserialize)]
struct Written {
    count: u64,
    #[serde(rename = "sum_s")]
    sum: Seconds,
    #[serde(rename = "max_s")]
    max: Seconds,
    #[serde(rename = "p50_s", default)]
    p50: Seconds,
    #[serde(rename = "p90_s", default)]
    p90: Seconds,
    #[serde(rename = "p99_s", default)]
    p99: Seconds,
    #[serde(rename = "p999_s", default)]
    p999: Seconds,
    /// Pairs: the smallest number of microseconds in the bucket, and how many durations are in it.
    buckets: Vec<(u64, u64)>,
}

impl From<Distribution> for Written {
    fn from(all: Distribution) -> Self {
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|p| all.quantile(p).unwrap_or_default());
        Self { count: all.count, sum: all.sum, max: all.max, p50, p90, p99, p999, buckets: all.buckets.into_iter().collect() }
    }
}

impl From<Written> for Distribution {
    fn from(written: Written) -> Self {
        let mut buckets = BTreeMap::new();
        for (bucket, count) in written.buckets {
            let known: &mut u64 = buckets.entry(bucket).or_default();
            *known = known.saturating_add(count);
        }
        Self { count: written.count, sum: written.sum, max: written.max, buckets }
    }
}

/// The width of the buckets around `micros`, as a power of two.
fn width_log2(micros: u64) -> u32 {
    if micros < EXACT { 0 } else { micros.ilog2() - STEPS_LOG2 }
}

impl Distribution {
    /// Counts one duration, in the bucket that it falls into.
    pub fn add(&mut self, duration: Seconds) {
        let micros = duration.as_micros();
        let width = width_log2(micros);
        *self.buckets.entry(micros >> width << width).or_default() += 1;
        self.count += 1;
        self.sum += duration;
        self.max = self.max.max(duration);
    }

    /// Adds the durations of another part.
    pub fn join(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            let known = self.buckets.entry(*bucket).or_default();
            *known = known.saturating_add(*count);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest duration, to the microsecond; zero if there are none.
    pub fn max(&self) -> Seconds {
        self.max
    }

    /// The mean; `None` if there are none.
    pub fn mean(&self) -> Option<Seconds> {
        (self.count > 0).then(|| Seconds::from_micros(self.sum.as_micros() / self.count))
    }

    /// A duration that the fraction `p` of all does not exceed: the end of the bucket in which it lies, at most 0.8 % too
    /// large and never more than the longest. `None` if there are none.
    pub fn quantile(&self, p: f64) -> Option<Seconds> {
        self.ranked(((p * self.count as f64).ceil() as u64).clamp(1, self.count.max(1)))
    }

    /// The end of the bucket of the duration that is the `rank`th, from 1, when they are sorted. `None` if there are fewer.
    pub(crate) fn ranked(&self, rank: u64) -> Option<Seconds> {
        let mut below = 0;
        let (bucket, _) = self.buckets.iter().find(|(_, count)| {
            below += **count;
            below >= rank
        })?;
        let last = bucket + (1 << width_log2(*bucket)) - 1;
        Some(Seconds::from_micros(last).min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(durations: &[u64]) -> Distribution {
        let mut all = Distribution::default();
        durations.iter().for_each(|micros| all.add(Seconds::from_micros(*micros)));
        all
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_list(
            mut list in prop::collection::vec(prop_oneof![0u64..1_000, 0u64..100_000_000], 1..200),
            p in 0.0..1.0f64,
        ) {
            let all = of(&list);
            list.sort_unstable();
            let exact = list[((p * list.len() as f64).ceil() as usize).clamp(1, list.len()) - 1];
            let found = all.quantile(p).unwrap().as_micros();
            prop_assert!(found >= exact && found as f64 <= exact as f64 * 1.008, "{found} for {exact}");
            prop_assert_eq!(all.quantile(1.0).unwrap(), all.max());
        }

        #[test]
        fn parts_give_the_whole(
            left in prop::collection::vec(0u64..10_000_000, 0..50),
            right in prop::collection::vec(0u64..10_000_000, 0..50),
        ) {
            let mut joined = of(&left);
            joined.join(&of(&right));
            let whole = of(&[left, right].concat());
            prop_assert_eq!(&joined, &whole);
            let text = serde_json::to_string(&whole).unwrap();
            prop_assert_eq!(serde_json::from_str::<Distribution>(&text).unwrap(), whole);
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!((of(&[]).quantile(0.5), of(&[]).mean(), of(&[3]).quantile(0.0)), (None, None, Some(Seconds::from_micros(3))));
    }
}
