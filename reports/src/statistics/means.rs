//! Means over runs, and ratios of sums over runs.

use super::{Estimate, student_95};

/// The mean of one number from each run; `None` without runs. The interval of a single run is open.
pub fn mean(values: impl Iterator<Item = f64> + Clone) -> Option<Estimate> {
    let count = values.clone().count();
    if count == 0 {
        return None;
    }
    let runs = count as f64;
    let mean = values.clone().sum::<f64>() / runs;
    if count == 1 {
        return Some(Estimate { value: mean, low: None, high: None });
    }
    let squares = values.map(|value| (value - mean) * (value - mean)).sum::<f64>();
    let error = (squares / (runs - 1.0) / runs).sqrt();
    Some(Estimate::around(mean, student_95(count as u64 - 1) * error))
}

/// The ratio of the sum of the first numbers to the sum of the second; `None` when the latter is 0.
///
/// A run with more of the second weighs more, as it should: the interval is that of the mean residual of the runs.
pub fn ratio(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Estimate> {
    let (runs, above, below) = pairs.clone().fold((0_u64, 0.0, 0.0), |(runs, above, below), (a, b)| (runs + 1, above + a, below + b));
    if below == 0.0 {
        return None;
    }
    let (value, per_run) = (above / below, below / runs as f64);
    let residuals = mean(pairs.map(|(a, b)| (a - value * b) / per_run))?;
    Some(Estimate { value, low: residuals.low.map(|low| value + low), high: residuals.high.map(|high| value + high) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-9 * (1.0 + left.abs().max(right.abs()))
    }

    proptest! {
        /// Compares with the textbook's other formula: the mean of the squares less the square of the mean.
        #[test]
        fn the_interval_of_a_mean_is_that_of_the_sums(values in prop::collection::vec(-100.0..100.0f64, 2..60)) {
            let n = values.len() as f64;
            let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
            let variance = (squares - sum * sum / n).max(0.0) / (n - 1.0);
            let found = mean(values.iter().copied()).unwrap();
            prop_assert!(near(found.value, sum / n));
            prop_assert!((found.half_width() - student_95(values.len() as u64 - 1) * (variance / n).sqrt()).abs() < 1e-6);
            prop_assert!(near(found.high.unwrap() - found.value, found.value - found.low.unwrap()));
        }

        /// The jackknife agrees with the linearised form when the runs are alike.
        #[test]
        fn the_interval_of_a_ratio_is_that_of_the_jackknife(pairs in prop::collection::vec((0.0..10.0f64, 9.0..10.0f64), 20..60)) {
            let n = pairs.len() as f64;
            let total = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
            let without: Vec<f64> = pairs.iter().map(|pair| (total.0 - pair.0) / (total.1 - pair.1)).collect();
            let center = without.iter().sum::<f64>() / n;
            let error = ((n - 1.0) / n * without.iter().map(|one| (one - center).powi(2)).sum::<f64>()).sqrt();
            let found = ratio(pairs.iter().copied()).unwrap();
            prop_assert!(near(found.value, total.0 / total.1));
            let jackknife = student_95(pairs.len() as u64 - 1) * error;
            prop_assert!((found.half_width() / jackknife - 1.0).abs() < 0.02, "{} for {jackknife}", found.half_width());
        }
    }

    #[test]
    fn nothing_has_no_mean_and_one_run_bounds_nothing() {
        assert_eq!(mean([].into_iter()), None);
        assert_eq!(mean([3.0].into_iter()), Some(Estimate { value: 3.0, low: None, high: None }));
        assert_eq!(ratio([(1.0, 0.0)].into_iter()), None);
    }
}
