//! Differences between two figures whose runs are pairs: the same seeds, with something changed.
//!
//! Effects of the seeds on both figures cancel, so that the interval is narrower, the more the runs of a pair are correlated: MOVER with a
//! correlation, which for shares with Wilson's intervals is Newcombe's tenth method, and for means the paired t test.
//!
//! R. G. Newcombe, "Improved confidence intervals for the difference between binomial proportions based on paired data", 1998; G. Y. Zou,
//! A. Donner, "Construction of confidence limits about effect measures: a general approach", 2008.

use super::Estimate;

/// The correlation of the numbers of pairs, from -1 to 1; 0 when either does not vary, and between numbers that are not paired.
pub fn correlation(old: &[f64], new: &[f64]) -> f64 {
    if old.len() != new.len() || old.is_empty() {
        return 0.0;
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let (of_old, of_new) = (mean(old), mean(new));
    let sum = |of: &dyn Fn(f64, f64) -> f64| old.iter().zip(new).map(|(old, new)| of(old - of_old, new - of_new)).sum::<f64>();
    let (both, old, new) = (sum(&|old, new| old * new), sum(&|old, _| old * old), sum(&|_, new| new * new));
    if old > 0.0 && new > 0.0 { (both / (old * new).sqrt()).clamp(-1.0, 1.0) } else { 0.0 }
}

/// The difference `new - old`, when their runs have this `correlation`.
pub fn difference(old: Estimate, new: Estimate, correlation: f64) -> Estimate {
    let value = new.value - old.value;
    let far = |of_new: f64, of_old: f64| (of_new * of_new - 2.0 * correlation * of_new * of_old + of_old * of_old).max(0.0).sqrt();
    let low = new.low.zip(old.high).map(|(low, high)| value - far(new.value - low, high - old.value));
    let high = new.high.zip(old.low).map(|(high, low)| value + far(high - new.value, old.value - low));
    Estimate { value, low, high }
}

/// Whether the interval of a difference excludes 0.
pub fn is_significant(difference: Estimate) -> bool {
    difference.low.is_some_and(|low| low > 0.0) || difference.high.is_some_and(|high| high < 0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::statistics::{mean, wilson};

    proptest! {
        /// The interval for means is that of the mean of the differences: the paired t test.
        #[test]
        fn of_means_it_is_that_of_the_mean_difference(pairs in prop::collection::vec((-10.0..10.0f64, -10.0..10.0f64), 3..50)) {
            let (old, new): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
            let of = |all: &[f64]| mean(all.iter().copied()).unwrap();
            let found = difference(of(&old), of(&new), correlation(&old, &new));
            let expected = mean(pairs.iter().map(|(old, new)| new - old)).unwrap();
            let ends = [(found.low, expected.low), (found.high, expected.high)];
            let ends = ends.map(|(found, expected)| (found.unwrap(), expected.unwrap()));
            for (found, expected) in ends.into_iter().chain([(found.value, expected.value)]) {
                prop_assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
            }
        }

        /// Pairs that are mixed up give a wider interval.
        #[test]
        fn pairs_that_move_together_say_more_than_others(noise in prop::collection::vec((0.0..10.0f64, -0.1..0.1f64), 20..60)) {
            let old: Vec<f64> = noise.iter().map(|(all, _)| *all).collect();
            let new: Vec<f64> = noise.iter().map(|(all, own)| all + own).collect();
            let mut shifted = new.clone();
            shifted.rotate_left(1);
            let of = |all: &[f64]| mean(all.iter().copied()).unwrap();
            let width = |new: &[f64]| difference(of(&old), of(new), correlation(&old, new)).half_width();
            prop_assert!(width(&new) <= width(&shifted) + 1e-12);
        }
    }

    #[test]
    fn without_pairs_it_is_newcombes_interval_of_two_shares() {
        // 56 of 70 less 48 of 80: 0.2000 (0.0524 to 0.3339).
        let found = difference(wilson(48.0, 80.0).unwrap(), wilson(56.0, 70.0).unwrap(), 0.0);
        let rounded = [Some(found.value), found.low, found.high].map(|number| (number.unwrap() * 1e4).round());
        assert_eq!(rounded, [2000.0, 524.0, 3339.0]);
        assert!(is_significant(found));
    }

    #[test]
    fn the_same_runs_differ_in_nothing() {
        let runs = [1.0, 5.0, 2.0, 8.0];
        let found = mean(runs.into_iter()).unwrap();
        let same = difference(found, found, correlation(&runs, &runs));
        assert_eq!((same.value, same.low, same.high), (0.0, Some(0.0), Some(0.0)));
        assert!(!is_significant(same));
        assert_eq!(correlation(&[1.0, 1.0], &[1.0, 2.0]), 0.0);
        assert_eq!(correlation(&[1.0], &[1.0, 2.0]), 0.0, "no pairs");
        assert_eq!(difference(Estimate { low: None, ..found }, found, 0.5).high, None, "nothing bounds it");
    }
}
