//! Formulas for a burst that need no simulation (B §8.2).

use super::setting::{DECIDES_ONCE, Setting, System};

/// The result of a formula for a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedForm {
    /// The formula that applies to the setting.
    pub form: Form,
    /// The number of refused writes per call.
    pub conflicts_per_call: f64,
    /// The share of calls that give up.
    pub exhausted: f64,
    /// The number of acknowledged calls of a burst without a record at its end, if a formula gives it.
    pub lost: Option<f64>,
}

/// The formulas of B §8.2 that give figures of whole bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Forms 2 and 3: dead-time counters, chained over the rounds of a burst that starts at once.
    ChainedRounds,
    /// Form 4: the fixed point of the rate of writes, for starts spread much wider than the sleeps.
    FixedPoint,
}

impl Form {
    /// The name of the form in tables.
    pub fn name(self) -> &'static str {
        match self {
            Form::ChainedRounds => "chained-rounds",
            Form::FixedPoint => "fixed-point",
        }
    }
}

/// A preset of client-go's (B §2.5).
struct Sleeps {
    attempts: u32,
    factor: f64,
}

/// The first sleep, in seconds. `JITTER` is the part by which a sleep may become longer.
const FIRST_SLEEP_S: f64 = 0.010;
const JITTER: f64 = 0.1;

/// The formula for a setting; `None` where there is none.
///
/// Both forms assume one allocation from each adaptor, no rate limit, no faults, no shortage of addresses, client-go's presets, and round
/// trips without scatter. Form 3 is for starts within a few windows, form 4 for starts spread over three times the sleeps or more.
pub fn of(setting: &Setting) -> Option<ClosedForm> {
    let sleeps = match setting.retry.as_str() {
        "default-backoff" => Sleeps { attempts: 4, factor: 5.0 },
        "default-retry" => Sleeps { attempts: 5, factor: 1.0 },
        _ => return None,
    };
    let (n, spread, window) = (setting.instances, setting.spread.as_f64(), setting.vulnerable_s());
    let whole: f64 = (1..sleeps.attempts).map(|k| FIRST_SLEEP_S * sleeps.factor.powi(k as i32 - 1)).sum();
    if setting.pools > 1
        || !setting.lock.is_empty()
        || n == 0
        || setting.system != System::Byom
        || setting.has_faults()
        || setting.throttle != "none"
        || !setting.is_roomy()
        || setting.width > 0
        || window <= 0.0
    {
        return None;
    }
    let (form, conflicts_per_call, exhausted) = if spread <= FIRST_SLEEP_S {
        let (conflicts, exhausted) = chained_rounds(n, spread, window, &sleeps);
        (Form::ChainedRounds, conflicts, exhausted)
    } else if spread >= 2.5 * whole && window < whole / 10.0 {
        let (conflicts, exhausted) = fixed_point(n, spread, window, sleeps.attempts);
        (Form::FixedPoint, conflicts, exhausted)
    } else {
        return None;
    };
    let lost = match (setting.update == DECIDES_ONCE, form) {
        (false, _) => Some(0.0),
        // Only the record of the last writer survives.
        (true, Form::ChainedRounds) if spread == 0.0 => Some(f64::from(n) * (1.0 - exhausted) - 1.0),
        (true, Form::FixedPoint) if 4.0 * f64::from(n) * setting.decided_s() <= spread => {
            let overlap = 1.0 - (1.0 - setting.decided_s() / spread).powi(2);
            Some(f64::from(n) * f64::from(n - 1) / 2.0 * overlap)
        }
        _ => None,
    };
    Some(ClosedForm { form, conflicts_per_call, exhausted, lost })
}

/// The probability that at least `least` of `n` trials succeed.
fn at_least(least: u32, n: u32, probability: f64) -> f64 {
    if least == 0 {
        return 1.0;
    }
    if probability >= 1.0 {
        return f64::from(u8::from(n >= least));
    }
    let mut term = (1.0 - probability).powi(n as i32);
    let mut fewer = 0.0;
    for k in 0..least.min(n + 1) {
        fewer += term;
        term *= f64::from(n - k) / f64::from(k + 1) * probability / (1.0 - probability);
    }
    (1.0 - fewer).max(0.0)
}

/// Form 2: the number of accepted writes of `n` that are uniform over `spread`, where one is refused if another was accepted within
/// `window` before it.
fn accepted(n: u32, spread: f64, window: f64) -> f64 {
    let mut total = 0.0;
    for m in 0..n {
        if m > 0 && f64::from(m) * window >= spread {
            break;
        }
        let free = if m == 0 { 1.0 } else { 1.0 - f64::from(m) * window / spread };
        total += at_least(m + 1, n, free);
    }
    total
}

/// Form 3: conflicts per call, and the share of calls that give up.
fn chained_rounds(n: u32, spread: f64, window: f64, sleeps: &Sleeps) -> (f64, f64) {
    let (mut left, mut spread, mut sleep, mut conflicts) = (f64::from(n), spread, FIRST_SLEEP_S, 0.0);
    for _ in 0..sleeps.attempts {
        if left < 1e-9 {
            break;
        }
        // The number of writers left lies between two whole numbers.
        let (whole, part) = (left as u32, left.fract());
        let fewer = if whole == 0 { 0.0 } else { accepted(whole, spread, window) };
        let won = (fewer * (1.0 - part) + accepted(whole + 1, spread, window) * part).min(left);
        left -= won;
        conflicts += left;
        spread += JITTER * sleep;
        sleep *= sleeps.factor;
    }
    (conflicts / f64::from(n), left / f64::from(n))
}

/// Form 4: the same figures for starts spread wide.
fn fixed_point(n: u32, spread: f64, window: f64, attempts: u32) -> (f64, f64) {
    let powers = |p: f64, range: std::ops::Range<u32>| range.map(|k| p.powi(k as i32)).sum::<f64>();
    // B §8.2: an adaptor does not meet itself, which counts when there are few.
    let others = if n <= 8 { n - 1 } else { n };
    let mut p = 0.0;
    for _ in 0..500 {
        let busy = f64::from(others) / spread * powers(p, 0..attempts) * window;
        p = 0.5 * p + 0.5 * busy / (1.0 + busy);
    }
    (powers(p, 1..attempts + 1), p.powi(attempts as i32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seconds;
    use crate::conflicts::tests::setting;

    fn form(instances: u32, spread_ms: u64) -> ClosedForm {
        of(&setting(instances, spread_ms)).unwrap()
    }

    #[test]
    fn the_numbers_are_those_that_the_reference_states() {
        // B §8.2, 2.
        assert!((accepted(16, 0.050, 0.0075) - 5.020).abs() < 5e-4);
        assert_eq!(accepted(64, 0.0, 0.0075), 1.0);
        // B §8.2, 3: total conflicts and P(exhaust) of a simultaneous start.
        for (n, conflicts, exhausted) in [(16, 51.5, 0.594), (64, 243.0, 0.890)] {
            let found = form(n, 0);
            assert!((found.conflicts_per_call * f64::from(n) - conflicts).abs() < 0.05, "{found:?}");
            assert!((found.exhausted - exhausted).abs() < 5e-4, "{found:?}");
            assert_eq!((found.form, found.lost), (Form::ChainedRounds, Some(0.0)));
        }
        // B §8.2, 4: N = 32 over a second.
        let found = form(32, 1_000);
        assert!((found.conflicts_per_call - 0.313).abs() < 5e-4 && (found.exhausted - 0.0033).abs() < 5e-5, "{found:?}");
        // B §8.2, 5: lost allocations over a second.
        for (n, lost) in [(2, 0.028), (8, 0.78), (16, 3.34)] {
            let once = Setting { update: DECIDES_ONCE.to_owned(), dial: Seconds::from_micros(2_000), ..setting(n, 1_000) };
            assert!((of(&once).unwrap().lost.unwrap() - lost).abs() < 5e-3);
        }
    }

    #[test]
    fn a_simultaneous_burst_that_decides_once_keeps_one_record() {
        let found = of(&Setting { update: DECIDES_ONCE.to_owned(), ..setting(4, 0) }).unwrap();
        assert!((found.lost.unwrap() - (4.0 * (1.0 - found.exhausted) - 1.0)).abs() < 1e-12);
    }

    #[test]
    fn there_is_no_formula_for_jitter_limits_shortage_and_spreads_between() {
        assert_eq!(of(&setting(8, 50)), None);
        for other in [
            Setting { retry: "patient".to_owned(), ..setting(8, 0) },
            Setting { throttle: "drained".to_owned(), ..setting(8, 0) },
            Setting { addresses: 7, ..setting(8, 0) },
            Setting { faults: "mixed".to_owned(), ..setting(8, 0) },
            Setting { think: Seconds::from_micros(200_000), ..setting(8, 1_000) },
        ] {
            assert_eq!(of(&other), None, "{other:?}");
        }
    }
}
