//! Quantiles of all calls of many runs.

use super::proportions::{design_effect, score};
use super::{Estimate, NORMAL_95};

/// The smallest of all numbers that the share `p` of them does not exceed; `None` without numbers.
///
/// Each element of `runs` holds the numbers of one run, sorted. The interval lies between two order statistics: the number of values below
/// the true quantile is a count, whatever their distribution. That count has the interval of a share; calls of one run that are correlated
/// count for less, and never for more than independent ones. An end is open where even the smallest or the largest number does not bound
/// it.
///
/// R. S. Woodruff, "Confidence intervals for medians and other position measures", 1952.
pub fn quantile<T: AsRef<[u64]>>(runs: &[T], p: f64) -> Option<Estimate> {
    let mut all: Vec<u64> = runs.iter().flat_map(|run| run.as_ref()).copied().collect();
    all.sort_unstable();
    of_sorted(&all, runs, p)
}

fn of_sorted<T: AsRef<[u64]>>(all: &[u64], runs: &[T], p: f64) -> Option<Estimate> {
    let count = all.len() as f64;
    let at = |rank: f64| (rank >= 1.0 && rank <= count).then(|| all[rank as usize - 1] as f64);
    let rank = (p * count).ceil().clamp(1.0, count.max(1.0));
    let value = at(rank)?;
    let below = runs.iter().map(AsRef::as_ref).filter(|run| !run.is_empty()).map(|run| {
        let below = run.partition_point(|number| *number as f64 <= value);
        (below as f64, run.len() as f64)
    });
    let share = below.clone().map(|(below, _)| below).sum::<f64>() / count;
    // The number of calls that are worth one independent call.
    let alike = design_effect(below, share).max(1.0);
    let (center, half) = score(p, count / alike, NORMAL_95);
    let (low, high) = (((center - half) * count).floor(), ((center + half) * count + alike).ceil());
    Some(Estimate { value, low: at(low.min(rank)), high: at(high.max(rank)) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with counting, without sorting anything.
        #[test]
        fn a_quantile_is_the_smallest_number_that_enough_do_not_exceed(
            runs in prop::collection::vec(prop::collection::vec(0u64..1_000, 0..8), 1..40), p in 0.01..1.0f64,
        ) {
            let runs: Vec<Vec<u64>> = runs.into_iter().map(|mut run| { run.sort_unstable(); run }).collect();
            let all: Vec<u64> = runs.iter().flatten().copied().collect();
            let enough = |number: u64| all.iter().filter(|other| **other <= number).count() as f64 >= p * all.len() as f64;
            let smallest = all.iter().copied().filter(|number| enough(*number)).min();
            let found = quantile(&runs, p);
            prop_assert_eq!(found.map(|found| found.value as u64), smallest);
            if let Some(Estimate { value, low, high }) = found {
                prop_assert!(low.is_none_or(|low| low <= value) && high.is_none_or(|high| high >= value));
            }
        }
    }

    /// A deterministic sequence of pseudo-random numbers.
    fn scattered(seed: u64) -> impl Iterator<Item = f64> {
        (seed * 1_000_003..).map(|n| {
            let mixed = (n ^ (n >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((mixed ^ (mixed >> 32)) >> 11) as f64 / (1u64 << 53) as f64
        })
    }

    /// The number of 400 reports that contain the true quantile of exponentially distributed times. With `alike`, all calls of a run take
    /// equally long.
    fn covered(p: f64, runs: usize, calls: usize, alike: bool) -> usize {
        let truth = -(1.0 - p).ln() * 1e6;
        let inside = |seed: u64| {
            let mut draw = scattered(seed);
            let mut time = || (-(1.0 - draw.next().unwrap()).ln() * 1e6) as u64;
            let runs: Vec<Vec<u64>> = (0..runs)
                .map(|_| {
                    let mut run: Vec<u64> = if alike { vec![time(); calls] } else { (0..calls).map(|_| time()).collect() };
                    run.sort_unstable();
                    run
                })
                .collect();
            let found = quantile(&runs, p).unwrap();
            found.low.is_none_or(|low| low <= truth) && found.high.is_none_or(|high| truth <= high)
        };
        (0..400).filter(|seed| inside(*seed)).count()
    }

    #[test]
    fn intervals_hold_about_as_often_as_they_say() {
        for (p, alike) in [(0.5, false), (0.9, false), (0.99, false), (0.5, true), (0.9, true)] {
            let covered = covered(p, 100, 5, alike);
            assert!((370..=400).contains(&covered), "p{p}, alike {alike}: {covered} of 400");
        }
    }

    #[test]
    fn few_numbers_leave_the_far_end_open() {
        let found = quantile(&[[1, 2, 3]], 0.999).unwrap();
        assert_eq!((found.value, found.high), (3.0, None));
        assert_eq!(quantile(&[[0u64; 0]], 0.5), None);
    }
}
