//! Metrics of a system, a number for each run, summed up over the seeds of a scenario.

use serde::{Deserialize, Serialize};

/// Sums are kept in millionths, as whole numbers: then they do not depend on the order in which seeds are added and shards are merged.
const PARTS: f64 = 1e6;

/// A metric over the seeds of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricSummary {
    /// The name of the metric, as the system has it.
    pub name: String,
    /// Number of seeds that gave a value.
    pub seeds: u64,
    /// The smallest value of any seed.
    pub min: f64,
    /// The largest value of any seed.
    pub max: f64,
    /// The sum, in millionths.
    pub sum_millionths: i64,
}

impl MetricSummary {
    /// The value of one seed; `None` if it is not finite (infinite, or the result of a division by zero).
    pub fn of_seed(name: &str, value: f64) -> Option<Self> {
        let sum_millionths = (value * PARTS).round() as i64;
        value.is_finite().then(|| Self { name: name.to_owned(), seeds: 1, min: value, max: value, sum_millionths })
    }

    /// The mean over the seeds.
    pub fn mean(&self) -> f64 {
        self.sum_millionths as f64 / PARTS / self.seeds as f64
    }

    fn join(&mut self, other: &Self) {
        self.seeds = self.seeds.saturating_add(other.seeds);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum_millionths = self.sum_millionths.saturating_add(other.sum_millionths);
    }
}

/// Adds `more` to `all`, which is ordered by name.
pub fn join(all: &mut Vec<MetricSummary>, more: impl IntoIterator<Item = MetricSummary>) {
    for summary in more {
        match all.binary_search_by(|known| known.name.cmp(&summary.name)) {
            Ok(index) => all[index].join(&summary),
            Err(index) => all.insert(index, summary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_seeds_does_not_matter() {
        let seeds = [("retries", 3.0), ("holds", 0.1), ("retries", 0.3), ("retries", 7.1), ("holds", 0.2)];
        let sum = |order: &[usize]| {
            let mut all = Vec::new();
            order.iter().for_each(|&number| join(&mut all, MetricSummary::of_seed(seeds[number].0, seeds[number].1)));
            all
        };
        let all = sum(&[0, 1, 2, 3, 4]);
        assert_eq!(all, sum(&[4, 2, 0, 3, 1]));
        let [holds, retries] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((holds.name.as_str(), holds.seeds, holds.min, holds.max), ("holds", 2, 0.1, 0.2));
        assert_eq!((retries.seeds, retries.min, retries.max, retries.sum_millionths), (3, 0.3, 7.1, 10_400_000));
        assert_eq!(MetricSummary::of_seed("share", f64::NAN), None);
    }
}
