//! The distribution of a gate's time: a pure function of the remaining time and the measured rates.

use std::time::Duration;

/// The number of seeds that a case still needs, and its speed so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Need {
    /// The number of further seeds that it would run with unlimited time.
    pub(super) seeds: u64,
    /// The measured seeds per second of real time; more than 0.
    pub(super) per_second: f64,
}

impl Need {
    fn seconds(self) -> f64 {
        self.seeds as f64 / self.per_second
    }
}

/// The number of seeds that each need gets in the remaining time.
///
/// If there is enough time, each need gets all its seeds. Otherwise no need gets more time than another one that wants more: small needs
/// are met, and the large ones share the rest evenly. The result takes no longer than `left`, if the measured rates hold.
pub(super) fn share(left: Duration, needs: &[Need]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by(|&a, &b| needs[a].seconds().total_cmp(&needs[b].seconds()));
    let mut left = left.as_secs_f64();
    let mut shares = vec![0; needs.len()];
    for (met, &index) in order.iter().enumerate() {
        let need = needs[index];
        let fair = left / (needs.len() - met) as f64;
        shares[index] = if need.seconds() <= fair { need.seeds } else { need.seeds.min((fair * need.per_second) as u64) };
        left = (left - shares[index] as f64 / need.per_second).max(0.0);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn need(seeds: u64, per_second: f64) -> Need {
        Need { seeds, per_second }
    }

    #[test]
    fn what_fits_runs_in_full() {
        assert_eq!(share(Duration::from_secs(3), &[need(100, 100.0), need(20, 10.0)]), [100, 20]);
        assert_eq!(share(Duration::from_secs(3), &[]), Vec::<u64>::new());
    }

    #[test]
    fn small_needs_are_met_and_large_ones_share_the_rest() {
        let needs = [need(10_000, 100.0), need(10, 10.0), need(10_000, 50.0)];
        assert_eq!(share(Duration::from_secs(21), &needs), [1_000, 10, 500]);
    }

    #[test]
    fn no_time_is_no_seed() {
        assert_eq!(share(Duration::ZERO, &[need(5, 1.0), need(5, 1_000.0)]), [0, 0]);
    }

    fn needs() -> impl Strategy<Value = Vec<Need>> {
        proptest::collection::vec((0..100_000u64, 0.1..10_000.0f64).prop_map(|(seeds, rate)| need(seeds, rate)), 0..40)
    }

    /// The seconds that this many seeds of a need take.
    fn takes(need: Need, seeds: u64) -> f64 {
        seeds as f64 / need.per_second
    }

    proptest! {
        #[test]
        fn the_time_is_kept_and_nobody_gets_more_than_wanted(left in 0.0..500.0f64, needs in needs()) {
            let shares = share(Duration::from_secs_f64(left), &needs);
            prop_assert!(needs.iter().zip(&shares).all(|(need, &seeds)| seeds <= need.seeds));
            let taken: f64 = needs.iter().zip(&shares).map(|(&need, &seeds)| takes(need, seeds)).sum();
            prop_assert!(taken <= left + 1e-6, "{taken} of {left}");
        }

        /// The oracle: each need that did not get everything got as much time as the one that got most, and no time is left for it. Both
        /// hold up to the time of single seeds: seeds are whole, and unused time goes to the next need.
        #[test]
        fn only_who_wants_more_than_a_fair_share_is_cut(left in 0.0..500.0f64, needs in needs()) {
            let needs: Vec<_> = needs.into_iter().filter(|need| need.per_second > 10.0).collect();
            let shares = share(Duration::from_secs_f64(left), &needs);
            let times: Vec<f64> = needs.iter().zip(&shares).map(|(&need, &seeds)| takes(need, seeds)).collect();
            let most = times.iter().copied().fold(0.0, f64::max);
            let rounding: f64 = needs.iter().map(|&need| takes(need, 1)).sum::<f64>() + 1e-6;
            for ((need, &seeds), time) in needs.iter().zip(&shares).zip(&times).filter(|((need, seeds), _)| need.seeds != **seeds) {
                prop_assert!(time + 2.0 * rounding >= most, "{need:?} got {seeds}, another {most} s");
                prop_assert!(times.iter().sum::<f64>() + rounding >= left, "{need:?} got {seeds} although there is time");
            }
        }

        #[test]
        fn everything_runs_where_it_fits(needs in needs()) {
            let all: f64 = needs.iter().map(|need| need.seconds()).sum();
            let shares = share(Duration::from_secs_f64(all * 1.001 + 0.001), &needs);
            prop_assert_eq!(shares, needs.iter().map(|need| need.seeds).collect::<Vec<_>>());
        }
    }
}
