//! Summaries of a metric over the seeds of a point.

use serde::{Deserialize, Serialize};

use super::value::{Source, Value};
use crate::rows;
use crate::statistics::{self, Estimate};

/// A metric over the seeds of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The point: the scenario, and what is varied in it.
    pub scenario: String,
    /// The settings that are varied, as `KEY=VALUE`; empty = the scenario is unchanged.
    pub varied: String,
    /// The name of the metric. A name that ends in `_s` is that of a time in seconds.
    pub metric: String,
    /// The source of the values: the system or the harness.
    pub source: Source,
    /// The number of runs that gave a value.
    pub runs: u64,
    /// The sum over these runs.
    pub sum: f64,
    /// The mean over these runs.
    pub mean: Estimate,
    /// The smallest value of any run.
    pub min: f64,
    /// The median over these runs.
    pub p50: Estimate,
    /// The 90 % quantile over these runs.
    pub p90: Estimate,
    /// The 99 % quantile over these runs.
    pub p99: Estimate,
    /// The largest value of any run.
    pub max: f64,
}

impl Summary {
    /// Whether the metric is a time, in seconds.
    pub fn is_time(&self) -> bool {
        self.metric.ends_with("_s")
    }
}

/// The values of a metric at a point, by seed.
pub(super) struct Numbers<'a> {
    pub(super) scenario: &'a str,
    pub(super) varied: &'a str,
    pub(super) metric: &'a str,
    pub(super) source: Source,
    pub(super) by_seed: Vec<(u64, f64)>,
}

/// The values of each metric at each point: metrics of the system by name, then those of the harness in the order of `runs.csv`; points in
/// the order in which they first appear.
pub(super) fn sorted<'a>(values: &'a [Value], wanted: &[String]) -> Vec<Numbers<'a>> {
    let mut points: Vec<&str> = Vec::new();
    let mut all: std::collections::BTreeMap<_, Numbers<'a>> = std::collections::BTreeMap::new();
    for value in values {
        let point = points.iter().position(|known| *known == value.scenario).unwrap_or_else(|| {
            points.push(&value.scenario);
            points.len() - 1
        });
        if !wanted.is_empty() && !wanted.contains(&value.metric) {
            continue;
        }
        let place = if value.source == Source::Run { rows::place(&value.metric) } else { None };
        let numbers = all.entry((value.source, place, &*value.metric, point)).or_insert_with(|| Numbers {
            scenario: &value.scenario,
            varied: &value.varied,
            metric: &value.metric,
            source: value.source,
            by_seed: Vec::new(),
        });
        numbers.by_seed.push((value.seed, value.value));
    }
    // Sums of fractions depend on their order.
    all.into_values()
        .map(|mut numbers| {
            numbers.by_seed.sort_by_key(|(seed, _)| *seed);
            numbers
        })
        .collect()
}

pub(super) fn summaries(values: &[Value], wanted: &[String]) -> Vec<Summary> {
    sorted(values, wanted).iter().filter_map(summary).collect()
}

fn summary(numbers: &Numbers<'_>) -> Option<Summary> {
    let mut ascending: Vec<f64> = numbers.by_seed.iter().map(|(_, value)| *value).collect();
    ascending.sort_by(f64::total_cmp);
    Some(Summary {
        scenario: numbers.scenario.to_owned(),
        varied: numbers.varied.to_owned(),
        metric: numbers.metric.to_owned(),
        source: numbers.source,
        runs: ascending.len() as u64,
        sum: numbers.by_seed.iter().map(|(_, value)| *value).sum(),
        mean: statistics::mean(numbers.by_seed.iter().map(|(_, value)| *value))?,
        min: *ascending.first()?,
        p50: quantile(&ascending, 0.5)?,
        p90: quantile(&ascending, 0.9)?,
        p99: quantile(&ascending, 0.99)?,
        max: *ascending.last()?,
    })
}

/// A quantile of numbers that need be neither whole nor positive: it is taken of their ranks.
fn quantile(ascending: &[f64], p: f64) -> Option<Estimate> {
    // Equal numbers share one rank, that of the first.
    let ranks: Vec<[u64; 1]> = ascending.iter().map(|value| [ascending.partition_point(|other| other < value) as u64]).collect();
    let at = |rank: f64| ascending[rank as usize];
    statistics::quantile(&ranks, p).map(|found| Estimate { value: at(found.value), low: found.low.map(at), high: found.high.map(at) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_numbers_whatever_they_are() {
        let numbers: Vec<f64> = (0..100).map(|number| f64::from(number) / 4.0 - 10.0).collect();
        let half = quantile(&numbers, 0.5).unwrap();
        assert_eq!(half.value, numbers[49]);
        assert!(half.low.unwrap() < half.value && half.high.unwrap() > half.value, "{half:?}");
        assert_eq!(quantile(&[3.5; 7], 0.9).map(|found| found.value), Some(3.5));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
