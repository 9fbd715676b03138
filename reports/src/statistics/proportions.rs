//! Shares of runs, and of calls several of which share a run.

use super::{Estimate, NORMAL_95};

/// The share `hits / trials` of independent trials; `None` without trials. Both ends lie within 0 to 1, and the absence of hits is no proof
/// that there are none.
///
/// E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
pub fn wilson(hits: f64, trials: f64) -> Option<Estimate> {
    if trials <= 0.0 {
        return None;
    }
    let (share, z) = (hits / trials, NORMAL_95);
    let (center, half) = score(share, trials, z);
    // Rounding must not put an end on the wrong side of the value.
    Some(Estimate { value: share, low: Some((center - half).max(0.0).min(share)), high: Some((center + half).min(1.0).max(share)) })
}

/// The centre and half the width of Wilson's interval.
pub(super) fn score(share: f64, trials: f64, z: f64) -> (f64, f64) {
    let whole = 1.0 + z * z / trials;
    let center = (share + z * z / (2.0 * trials)) / whole;
    let half = z / whole * (share * (1.0 - share) / trials + z * z / (4.0 * trials * trials)).sqrt();
    (center, half)
}

/// The share of the first of each pair in the second, where pairs are runs and the calls of a run are correlated; `None` without calls.
///
/// The interval is Wilson's, with as many trials as independent calls would need to scatter as these do between runs. When the calls of all
/// runs end alike, there is no scatter to measure, and each run counts as one trial.
pub fn share(runs: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Estimate> {
    let (hits, calls) = runs.clone().fold((0.0, 0.0), |(hits, calls), (hit, of)| (hits + hit, calls + of));
    wilson(hits, calls)?;
    let trials = calls / design_effect(runs, hits / calls);
    wilson(hits / calls * trials, trials)
}

/// The design effect: the number of correlated calls that are worth one independent call. Below 1 when the outcomes of the calls of a run
/// are negatively correlated, as when only so many of them can win.
pub(super) fn design_effect(runs: impl Iterator<Item = (f64, f64)> + Clone, share: f64) -> f64 {
    let (count, calls) = runs.clone().fold((0.0, 0.0), |(count, calls), (_, of)| (count + 1.0, calls + of));
    let per_run = calls / count;
    let independent = share * (1.0 - share) / calls;
    if independent <= 0.0 || count < 2.0 {
        return per_run.max(1.0);
    }
    let squares = runs.map(|(hit, of)| (hit - share * of).powi(2)).sum::<f64>();
    let between = squares * count / (count - 1.0) / (calls * calls);
    // No scatter at all, such as one winner in each run of two, leaves no uncertainty; a floor keeps the numbers finite.
    (between / independent).max(1e-9)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The probability that at least `hits` of `trials` succeed, each with `probability`, summed term by term.
    fn at_least(hits: u64, trials: u64, probability: f64) -> f64 {
        let mut term = (1.0 - probability).powi(trials as i32);
        let mut sum = 0.0;
        for k in 0..=trials {
            if k >= hits {
                sum += term;
            }
            term *= (trials - k) as f64 / (k + 1) as f64 * probability / (1.0 - probability);
        }
        sum
    }

    proptest! {
        /// Both ends satisfy their definition: the share is 1.96 standard errors away from each, measured at that end.
        #[test]
        fn the_ends_of_wilsons_interval_are_as_unlikely_as_they_should_be(trials in 1u64..5_000, part in 0.0..=1.0f64) {
            let hits = (part * trials as f64).round();
            let found = wilson(hits, trials as f64).unwrap();
            for end in [found.low.unwrap(), found.high.unwrap()] {
                if end > 1e-12 && end < 1.0 - 1e-12 {
                    let errors = (found.value - end).abs() / (end * (1.0 - end) / trials as f64).sqrt();
                    prop_assert!((errors - NORMAL_95).abs() < 1e-6, "{errors}");
                }
            }
            prop_assert!(found.low.unwrap() <= found.value && found.value <= found.high.unwrap());
        }

        /// Calls that are alone in their runs are independent trials.
        #[test]
        fn a_call_a_run_makes_a_share_of_runs(hits in prop::collection::vec(any::<bool>(), 30..300)) {
            let runs = hits.iter().map(|hit| (f64::from(u8::from(*hit)), 1.0));
            let found = share(runs).unwrap();
            let plain = wilson(hits.iter().filter(|hit| **hit).count() as f64, hits.len() as f64).unwrap();
            prop_assert!((found.half_width() / plain.half_width() - 1.0).abs() < 0.02, "{found:?} {plain:?}");
        }

        /// An outcome shared by all calls of a run counts as that of one call.
        #[test]
        fn runs_that_end_as_a_whole_count_once(hits in prop::collection::vec(any::<bool>(), 30..100), calls in 1u32..64) {
            let of = f64::from(calls);
            let found = share(hits.iter().map(|hit| (f64::from(u8::from(*hit)) * of, of))).unwrap();
            let plain = wilson(hits.iter().filter(|hit| **hit).count() as f64, hits.len() as f64).unwrap();
            prop_assert!((found.half_width() / plain.half_width() - 1.0).abs() < 0.02, "{found:?} {plain:?}");
        }
    }

    #[test]
    fn wilsons_interval_holds_about_as_often_as_it_says() {
        for probability in [0.02, 0.3, 0.5] {
            let trials = 200;
            let mut covered = 0.0;
            for hits in 0..=trials {
                let found = wilson(hits as f64, trials as f64).unwrap();
                if found.low.unwrap() <= probability && probability <= found.high.unwrap() {
                    covered += at_least(hits, trials, probability) - at_least(hits + 1, trials, probability);
                }
            }
            assert!((0.93..0.98).contains(&covered), "{probability}: {covered}");
        }
    }

    #[test]
    fn nothing_seen_is_not_nothing() {
        let none = share(std::iter::repeat_n((0.0, 64.0), 100)).unwrap();
        assert_eq!((none.value, none.low), (0.0, Some(0.0)));
        assert!((0.03..0.04).contains(&none.high.unwrap()), "a hundred runs: {none:?}");
        assert_eq!((share(std::iter::empty()), wilson(0.0, 0.0)), (None, None));
    }
}
