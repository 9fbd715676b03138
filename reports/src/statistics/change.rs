//! Changes of figures between two reports, and tests of whether they may be due to chance.
//!
//! | of | test | interval of the change |
//! |---|---|---|
//! | means and ratios over runs ([`means`]) | Welch's t | Fieller's, with as many degrees of freedom |
//! | shares ([`shares`]) | two proportions, pooled | Koopman's score interval of their ratio |
//! | quantiles ([`quantiles`]) | the distance against both intervals (MOVER) | the same for the ratio |
//! | counts of runs ([`fisher`]) | Fisher's exact | |
//!
//! Each interval contains 0 (no change) exactly when its test has p ≥ 0.05, so that either shows significance. The samples are assumed to
//! be independent. Reports that share seeds are more alike than that, so that less is called significant, not more.
//!
//! R. M. Fung and others call the method of the third row MOVER: A. Donner, G. Y. Zou, "Closed-form confidence intervals for functions of
//! the normal mean and standard deviation", 2012. P. A. R. Koopman, "Confidence intervals for the ratio of two binomial proportions", 1984.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::stats_tests::Alternative;
use statrs::stats_tests::fisher::fishers_exact;

use super::{Estimate, NORMAL_95, student_95};

/// The p-value below which a change is significant.
pub const LEVEL: f64 = 0.05;

/// The change of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// The change as a part of the old value, with its interval of 95 %: -0.12 = 12 % less. Unset = there is no ratio, as the old value
    /// is not above 0 or a value is below it.
    pub part: Option<Estimate>,
    /// The probability of a difference at least as large by chance if nothing had changed; unset = the runs do not bound the figures.
    pub p: Option<f64>,
}

impl Change {
    /// Whether chance alone hardly explains it.
    pub fn is_significant(&self) -> bool {
        self.p.is_some_and(|p| p < LEVEL)
    }
}

/// The squared distances that determine one end of an interval: of the new value and of the old one.
type Squares = (f64, f64);

/// The interval of `new / old` whose ends solve (new - θ old)² = v_new + θ² v_old, with the squares of either end.
fn ratio(old: f64, new: f64, low: Option<Squares>, high: Option<Squares>) -> Option<Estimate> {
    if old <= 0.0 || new < 0.0 {
        return None;
    }
    let root = |(of_new, of_old): Squares| (old * old * of_new + new * new * of_old - of_new * of_old).max(0.0).sqrt();
    let low = low.map(|squares| {
        let rest = new * new - squares.0;
        // A value that cannot be told from 0 may be 0.
        if rest <= 0.0 { -1.0 } else { rest / (old * new + root(squares)) - 1.0 }
    });
    let high = high.and_then(|squares| {
        let rest = old * old - squares.1;
        (rest > 0.0).then(|| (old * new + root(squares)) / rest - 1.0)
    });
    let value = new / old - 1.0;
    // Rounding must not put an end on the wrong side of the value.
    Some(Estimate { value, low: low.map(|end| end.min(value)), high: high.map(|end| end.max(value)) })
}

/// The squared standard error of a mean over `runs` runs, from its interval; `None` when they do not bound it.
fn squared_error(found: Estimate, runs: u64) -> Option<f64> {
    // An end that was clamped is too near.
    let half =
        [found.low.map(|low| found.value - low), found.high.map(|high| high - found.value)].into_iter().flatten().reduce(f64::max)?;
    (runs > 1).then(|| (half / student_95(runs - 1)).powi(2))
}

/// The change of a mean or a ratio, each with its number of runs.
pub fn means(old: (Estimate, u64), new: (Estimate, u64)) -> Change {
    let value = (old.0.value, new.0.value);
    let (Some(of_old), Some(of_new)) = (squared_error(old.0, old.1), squared_error(new.0, new.1)) else {
        return Change { part: ratio(value.0, value.1, None, None), p: None };
    };
    let both = of_old + of_new;
    if both <= 0.0 {
        // There is no scatter: the values are equal, or certainly different.
        let p = if value.0 == value.1 { 1.0 } else { 0.0 };
        return Change { part: ratio(value.0, value.1, Some((0.0, 0.0)), Some((0.0, 0.0))), p: Some(p) };
    }
    // Welch's and Satterthwaite's degrees of freedom.
    let degrees = both * both / (of_old * of_old / (old.1 - 1) as f64 + of_new * of_new / (new.1 - 1) as f64);
    let Ok(student) = StudentsT::new(0.0, 1.0, degrees) else { return Change::default() };
    let p = 2.0 * student.sf((value.1 - value.0).abs() / both.sqrt());
    let wide = student.inverse_cdf(1.0 - LEVEL / 2.0).powi(2);
    let squares = Some((wide * of_new, wide * of_old));
    Change { part: ratio(value.0, value.1, squares, squares), p: Some(p.min(1.0)) }
}

/// The change of a quantile, whose interval need not be symmetrical: the side that faces the other value counts.
pub fn quantiles(old: Estimate, new: Estimate) -> Change {
    let below = |found: Estimate| found.low.map(|low| (found.value - low).powi(2));
    let above = |found: Estimate| found.high.map(|high| (high - found.value).powi(2));
    let (low, high) = (below(new).zip(above(old)), above(new).zip(below(old)));
    let part = ratio(old.value, new.value, low, high);
    let facing = if new.value > old.value { low } else { high };
    let p = match facing {
        _ if new.value == old.value => Some(1.0),
        Some((of_new, of_old)) if of_new + of_old > 0.0 => {
            Some(2.0 * normal_beyond(NORMAL_95 * (new.value - old.value).abs() / (of_new + of_old).sqrt()))
        }
        Some(_) => Some(0.0),
        None => None,
    };
    Change { part, p }
}

/// The probability that a normal variable lies more than `deviations` standard deviations above its mean.
fn normal_beyond(deviations: f64) -> f64 {
    Normal::standard().sf(deviations)
}

/// The number of independent trials for which a share has this interval: Wilson's formula, inverted.
fn trials(found: Estimate) -> Option<f64> {
    let half = (found.high? - found.low?) / 2.0;
    let scatter = found.value * (1.0 - found.value);
    // half² (1 + k)² = k scatter + k² / 4 with k = z² / trials; it has one root above 0.
    let (a, b, c) = (half * half - 0.25, 2.0 * half * half - scatter, half * half);
    let root = (b * b - 4.0 * a * c).max(0.0).sqrt();
    let k = if b > 0.0 { (-b - root) / (2.0 * a) } else { 2.0 * c / (root - b) };
    let trials = NORMAL_95 * NORMAL_95 / k;
    (half < 0.5 && trials.is_finite() && trials > 0.0).then_some(trials)
}

/// The change of a share, with as many trials as its interval implies.
pub fn shares(old: Estimate, new: Estimate) -> Change {
    let (Some(of_old), Some(of_new)) = (trials(old), trials(new)) else {
        return Change { part: ratio(old.value, new.value, None, None), p: None };
    };
    let two = Two { old: (old.value, of_old), new: (new.value, of_new) };
    let part = (old.value > 0.0).then(|| two.ratio());
    Change { part, p: Some((2.0 * normal_beyond(two.deviations(1.0))).min(1.0)) }
}

/// Two shares, each with its number of trials.
struct Two {
    old: (f64, f64),
    new: (f64, f64),
}

impl Two {
    /// The number of standard deviations by which the shares miss the ratio `theta`, with the scatter of the shares that fit it best. For
    /// 1, this is the pooled test of two proportions.
    fn deviations(&self, theta: f64) -> f64 {
        let ((old, of_old), (new, of_new)) = (self.old, self.new);
        let hits = old * of_old + new * of_new;
        let (a, b) = (theta * (of_old + of_new), of_old + new * of_new + theta * (of_new + old * of_old));
        // The share of the old trials with the maximum likelihood for both samples.
        let fit = 2.0 * hits / (b + (b * b - 4.0 * a * hits).max(0.0).sqrt());
        let of = |share: f64, trials: f64| share.clamp(0.0, 1.0) * (1.0 - share.clamp(0.0, 1.0)) / trials;
        let squared = of(theta * fit, of_new) + theta * theta * of(fit, of_old);
        let distance = (new - theta * old).abs();
        if distance == 0.0 { 0.0 } else { distance / squared.sqrt() }
    }

    /// The change of the share, with its interval.
    fn ratio(&self) -> Estimate {
        /// The ratio above which an end counts as unbounded.
        const MOST: f64 = 1e9;
        let value = self.new.0 / self.old.0;
        let inside = |theta: f64| self.deviations(theta) <= NORMAL_95;
        let between = |mut out: f64, mut within: f64| {
            for _ in 0..200 {
                let middle = f64::midpoint(out, within);
                if inside(middle) { within = middle } else { out = middle }
            }
            within
        };
        let low = if value > 0.0 { between(0.0, value) } else { 0.0 };
        let mut far = value.max(1e-9) * 2.0;
        while far < MOST && inside(far) {
            far *= 2.0;
        }
        let high = (far < MOST).then(|| between(far, value));
        Estimate { value: value - 1.0, low: Some(low - 1.0), high: high.map(|high| high - 1.0) }
    }
}

/// The p-value of two counts, each with its number of trials; `None` when one has no trials.
pub fn fisher(old: (u64, u64), new: (u64, u64)) -> Option<f64> {
    let rest = |(hits, of): (u64, u64)| of.checked_sub(hits);
    let table = [old.0, new.0, rest(old)?, rest(new)?];
    (old.1 > 0 && new.1 > 0).then(|| fishers_exact(&table, Alternative::TwoSided).ok()).flatten().map(|p| p.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;
    use crate::statistics::{mean, quantile, ratio as ratio_of, share};

    /// A deterministic pseudo-random generator of numbers from 0 to 1.
    struct Draw(u64);

    impl Draw {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// An approximately normal number, with mean 0 and deviation 1.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.next()).sum::<f64>() - 6.0
        }

        fn shuffle<T>(&mut self, all: &mut [T]) {
            for last in (1..all.len()).rev() {
                all.swap(last, (self.next() * (last + 1) as f64) as usize);
            }
        }
    }

    /// The distance between the means of two samples.
    fn difference(old: &[f64], new: &[f64]) -> f64 {
        (new.iter().sum::<f64>() / new.len() as f64 - old.iter().sum::<f64>() / old.len() as f64).abs()
    }

    /// The distance in standard errors, each sample with its own scatter: without it, a permutation test differs from Welch's where both
    /// sizes and scatter differ.
    fn in_errors(old: &[f64], new: &[f64]) -> f64 {
        let error = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0) / values.len() as f64
        };
        difference(old, new) / (error(old) + error(new)).sqrt()
    }

    /// The p-value of a permutation test, which assumes no distribution: the share of shuffles in which the samples are at least as far
    /// apart. Equal distances count half.
    fn permuted(apart: fn(&[f64], &[f64]) -> f64, old: &[f64], new: &[f64], seed: u64) -> f64 {
        let apart = |all: &[f64]| {
            let (old, new) = all.split_at(old.len());
            apart(old, new)
        };
        let mut all = [old, new].concat();
        let (seen, mut draw, mut hits) = (apart(&all), Draw(seed), 0.0);
        let tries = 1_500;
        for _ in 0..tries {
            draw.shuffle(&mut all);
            let again = apart(&all);
            hits += if (again - seen).abs() < 1e-9 { 0.5 } else { f64::from(u8::from(again > seen)) };
        }
        hits / f64::from(tries)
    }

    fn of_mean(values: &[f64]) -> (Estimate, u64) {
        (mean(values.iter().copied()).unwrap(), values.len() as u64)
    }

    fn of_hits(hits: &[bool]) -> Estimate {
        share(hits.iter().map(|hit| (f64::from(u8::from(*hit)), 1.0))).unwrap()
    }

    fn of_median(values: &[u64]) -> Estimate {
        let runs: Vec<[u64; 1]> = values.iter().map(|value| [*value]).collect();
        quantile(&runs, 0.5).unwrap()
    }

    /// Whether the interval of a change contains 0.
    fn holds_none(change: &Change) -> bool {
        let part = change.part.unwrap();
        part.low.is_none_or(|low| low <= 1e-9) && part.high.is_none_or(|high| high >= -1e-9)
    }

    fn is_close_call(change: &Change) -> bool {
        change.p.is_some_and(|p| (p - LEVEL).abs() < 1e-4)
    }

    proptest! {
        // The samples are fixed: by chance alone one in some thousand is far from the result of the permutation test.
        #![proptest_config(ProptestConfig {
            cases: 40,
            rng_seed: RngSeed::Fixed(1),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn welchs_p_is_that_of_labels_dealt_anew(seed in any::<u64>(), shift in -0.8..0.8f64, more in 0usize..20) {
            let mut draw = Draw(seed);
            let old: Vec<f64> = (0..40).map(|_| 5.0 + draw.normal()).collect();
            let new: Vec<f64> = (0..40 + more).map(|_| 5.0 + shift + draw.normal()).collect();
            let p = means(of_mean(&old), of_mean(&new)).p.unwrap();
            let expected = permuted(in_errors, &old, &new, seed);
            // The tolerance is more than five standard errors of 1,500 tries.
            prop_assert!((p - expected).abs() < 0.07, "{p} beside {expected}");
        }

        #[test]
        fn the_p_of_two_shares_is_that_of_labels_dealt_anew(seed in any::<u64>(), old in 0.3..0.7f64, shift in -0.2..0.2f64) {
            let mut draw = Draw(seed);
            let sample = |draw: &mut Draw, share: f64, count| -> Vec<bool> { (0..count).map(|_| draw.next() < share).collect() };
            let (old, new) = (sample(&mut draw, old, 80), sample(&mut draw, (old + shift).clamp(0.05, 0.95), 100));
            let number = |hits: &[bool]| hits.iter().map(|hit| f64::from(u8::from(*hit))).collect::<Vec<_>>();
            let p = shares(of_hits(&old), of_hits(&new)).p.unwrap();
            let expected = permuted(difference, &number(&old), &number(&new), seed);
            // Hits have few different tables, whose p-values differ much where p is large; rare hits are too few for a normal distribution.
            prop_assert!((p - expected).abs() < 0.03 + 0.15 * expected, "{p} beside {expected}");
        }

        #[test]
        fn an_interval_holds_no_change_when_nothing_is_significant(
            seed in any::<u64>(), scale in 0.5..2.0f64, of_old in 12usize..60, of_new in 12usize..60,
        ) {
            let mut draw = Draw(seed);
            let old: Vec<f64> = (0..of_old).map(|_| draw.next()).collect();
            let new: Vec<f64> = (0..of_new).map(|_| scale * draw.next()).collect();
            let micros = |values: &[f64]| values.iter().map(|value| (value * 1e6) as u64).collect::<Vec<_>>();
            let hits = |values: &[f64]| values.iter().map(|value| *value < 0.4).collect::<Vec<_>>();
            let mut all = vec![means(of_mean(&old), of_mean(&new)), quantiles(of_median(&micros(&old)), of_median(&micros(&new)))];
            if of_hits(&hits(&old)).value > 0.0 {
                all.push(shares(of_hits(&hits(&old)), of_hits(&hits(&new))));
            }
            for change in all {
                let part = change.part.unwrap();
                prop_assert!(part.low.is_none_or(|low| low <= part.value) && part.high.is_none_or(|high| high >= part.value), "{change:?}");
                prop_assert!(is_close_call(&change) || holds_none(&change) != change.is_significant(), "{change:?}");
            }
        }

        #[test]
        fn the_trials_of_a_share_are_those_of_its_interval(hits in 0u32..400, more in 1u32..400) {
            let of = f64::from(hits + more);
            let found = crate::statistics::wilson(f64::from(hits), of).unwrap();
            prop_assert!((trials(found).unwrap() / of - 1.0).abs() < 1e-6, "{found:?}");
        }
    }

    /// The number of 300 pairs of samples whose change is called significant, and the number whose interval contains the true change.
    fn simulated(truth: f64, change: impl Fn(&mut Draw) -> Change) -> (usize, usize) {
        let mut counts = (0, 0);
        for seed in 0..300 {
            let change = change(&mut Draw(seed * 7_919));
            let part = change.part.unwrap();
            counts.0 += usize::from(change.is_significant());
            counts.1 += usize::from(part.low.is_none_or(|low| low <= truth) && part.high.is_none_or(|high| truth <= high));
        }
        counts
    }

    #[test]
    fn chance_is_called_significant_as_rarely_as_it_should_be_and_a_change_often() {
        let exponential = |draw: &mut Draw, scale: f64| (-(1.0 - draw.next()).ln() * 1e6 * scale) as u64;
        let medians = |scale: f64| {
            move |draw: &mut Draw| {
                let sample = |draw: &mut Draw, scale| (0..150).map(|_| exponential(draw, scale)).collect::<Vec<_>>();
                let (old, new) = (sample(draw, 1.0), sample(draw, scale));
                quantiles(of_median(&old), of_median(&new))
            }
        };
        // Ratios of sums over runs, as conflicts per call are.
        let rates = |scale: f64| {
            move |draw: &mut Draw| {
                let run = |draw: &mut Draw, scale: f64| (4.0 * scale * draw.next(), 3.0 + draw.next());
                let sample = |draw: &mut Draw, scale| (0..40).map(|_| run(draw, scale)).collect::<Vec<_>>();
                let (old, new) = (sample(draw, 1.0), sample(draw, scale));
                let of = |runs: &[(f64, f64)]| (ratio_of(runs.iter().copied()).unwrap(), runs.len() as u64);
                means(of(&old), of(&new))
            }
        };
        // Calls that are correlated within a burst.
        let give_ups = |scale: f64| {
            move |draw: &mut Draw| {
                let run = |draw: &mut Draw, scale: f64| {
                    let share = (0.3 * scale + 0.2 * (draw.next() - 0.5)).clamp(0.0, 1.0);
                    ((0..8).filter(|_| draw.next() < share).count() as f64, 8.0)
                };
                let sample = |draw: &mut Draw, scale| (0..60).map(|_| run(draw, scale)).collect::<Vec<_>>();
                let (old, new) = (sample(draw, 1.0), sample(draw, scale));
                shares(share(old.into_iter()).unwrap(), share(new.into_iter()).unwrap())
            }
        };
        for (what, (significant, _)) in
            [("medians", simulated(0.0, medians(1.0))), ("rates", simulated(0.0, rates(1.0))), ("give-ups", simulated(0.0, give_ups(1.0)))]
        {
            assert!((3..=27).contains(&significant), "{what}: {significant} of 300 where nothing changed");
        }
        for (what, (significant, held)) in
            [("medians", simulated(1.0, medians(2.0))), ("rates", simulated(0.5, rates(1.5))), ("give-ups", simulated(0.5, give_ups(1.5)))]
        {
            assert!(significant > 250, "{what}: {significant} of 300 where it changed");
            assert!((276..=297).contains(&held), "{what}: {held} of 300 intervals hold the true change");
        }
    }

    #[test]
    fn the_same_is_no_change_and_what_nothing_bounds_is_not_judged() {
        let found = Estimate { value: 2.0, low: Some(1.5), high: Some(2.5) };
        for change in [means((found, 10), (found, 10)), quantiles(found, found)] {
            assert_eq!((change.part.unwrap().value, change.p, change.is_significant()), (0.0, Some(1.0), false));
        }
        let some = Estimate { value: 0.2, low: Some(0.1), high: Some(0.35) };
        assert_eq!(shares(some, some).p, Some(1.0));
        let open = Estimate { value: 9.0, low: None, high: None };
        for change in [means((found, 10), (open, 1)), quantiles(found, open)] {
            assert_eq!((change.p, change.part.unwrap().low, change.part.unwrap().high), (None, None, None));
        }
        let none = Estimate::default();
        assert_eq!(means((Estimate { low: Some(0.0), high: Some(0.0), ..none }, 10), (found, 10)).part, None, "nothing has no ratio");
        let exact = |value| Estimate { value, low: Some(value), high: Some(value) };
        assert_eq!(means((exact(0.5), 10), (exact(0.5), 10)).p, Some(1.0));
        assert_eq!(means((exact(0.5), 10), (exact(1.5), 10)).p, Some(0.0), "nothing scatters, and it is another number");
    }

    /// Compares with sums over all tables with the same margins that are at most as likely, computed with factorials.
    #[test]
    fn fishers_p_is_that_of_all_tables_as_unlikely() {
        let factorial = |n: u64| (1..=n).map(|n| (n as f64).ln()).sum::<f64>();
        let of = |(a, m): (u64, u64), (b, n): (u64, u64)| {
            let choose = |n: u64, k: u64| factorial(n) - factorial(k) - factorial(n - k);
            (choose(m, a) + choose(n, b) - choose(m + n, a + b)).exp()
        };
        for (old, new) in [((3, 8), (0, 20)), ((2, 8), (0, 20)), ((8, 8), (0, 60)), ((1, 8), (5, 9)), ((0, 5), (0, 9)), ((4, 4), (6, 6))] {
            let hits = old.0 + new.0;
            let seen = of(old, new);
            let tables = (0..=hits).filter(|a| *a <= old.1 && hits - a <= new.1).map(|a| of((a, old.1), (hits - a, new.1)));
            let expected: f64 = tables.filter(|p| *p <= seen * (1.0 + 1e-9)).sum();
            let found = fisher(old, new).unwrap();
            assert!((found - expected).abs() < 1e-9, "{old:?} {new:?}: {found}, expected {expected}");
        }
        assert_eq!((fisher((0, 0), (1, 2)), fisher((3, 2), (1, 2))), (None, None));
    }
}
