//! Results of an independent model of the pool's protocol: the tables of B §8.3.

#![expect(clippy::approx_constant, reason = "the tables hold measured probabilities")]

use super::setting::{DECIDES_AGAIN, Setting};

/// A row of a table of B §8.3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modelled {
    /// The number of refused writes per call.
    pub conflicts_per_call: f64,
    /// The share of calls that give up.
    pub exhausted: f64,
    /// The number of acknowledged calls of a burst without a record at its end.
    pub lost: f64,
}

/// "A simulator with these latencies should reproduce conflicts per call within 3 %" (B §8.3).
pub const CONFLICTS_RELATIVE: f64 = 0.03;
/// "… and P(exhaust) within 0.02".
pub const EXHAUSTED_ABSOLUTE: f64 = 0.02;
/// The rounding error of conflicts, which the tables state with two decimals.
pub const ROUNDING: f64 = 0.005;

impl Modelled {
    /// Whether these figures are within the tolerance that B §8.3 states.
    pub fn agrees(&self, conflicts_per_call: f64, exhausted: f64) -> bool {
        (conflicts_per_call - self.conflicts_per_call).abs() <= CONFLICTS_RELATIVE * self.conflicts_per_call + ROUNDING
            && (exhausted - self.exhausted).abs() <= EXHAUSTED_ABSOLUTE
    }
}

/// The rows of a table: N, conflicts per call, P(call exhausts), granted but lost (`as_coded`).
type Rows = &'static [(u32, f64, f64, f64)];

const AT_ONCE: Rows = &[
    (2, 0.50, 0.000, 1.00),
    (4, 1.50, 0.000, 3.00),
    (8, 2.55, 0.318, 4.45),
    (16, 3.18, 0.581, 5.70),
    (32, 3.54, 0.757, 6.77),
    (64, 3.76, 0.869, 7.37),
];
const OVER_50_MS: Rows = &[
    (2, 0.14, 0.000, 0.49),
    (4, 0.45, 0.000, 2.19),
    (8, 0.94, 0.007, 6.04),
    (16, 1.65, 0.106, 11.89),
    (32, 2.48, 0.365, 17.60),
    (64, 3.12, 0.618, 21.53),
];
const OVER_250_MS: Rows = &[
    (2, 0.03, 0.000, 0.12),
    (4, 0.09, 0.000, 0.63),
    (8, 0.25, 0.000, 2.86),
    (16, 0.61, 0.003, 11.08),
    (32, 1.26, 0.043, 24.47),
    (64, 2.09, 0.219, 43.19),
];
const OVER_1_S: Rows = &[
    (2, 0.01, 0.000, 0.03),
    (4, 0.02, 0.000, 0.16),
    (8, 0.06, 0.000, 0.75),
    (16, 0.13, 0.000, 3.26),
    (32, 0.31, 0.002, 13.57),
    (64, 0.76, 0.030, 44.63),
];
/// The rows with 200 ms before every request, over 1 s.
const WAITING: Rows = &[(2, 0.18, 0.000, 0.66), (8, 1.78, 0.191, 4.61), (16, 2.70, 0.504, 5.86), (64, 3.63, 0.852, 7.17)];
const DEFAULT_RETRY: Rows = &[(8, 3.11, 0.368, 0.0), (16, 4.01, 0.655, 0.0), (32, 4.44, 0.790, 0.0), (64, 4.69, 0.880, 0.0)];
const TWELVE: Rows = &[(8, 1.75, 0.000, 0.0), (16, 2.49, 0.000, 0.0), (32, 3.39, 0.000, 0.0), (64, 4.41, 0.000, 0.0)];

/// The row of a setting; `None` if the tables have none.
pub fn of(setting: &Setting) -> Option<Modelled> {
    let micros = |seconds: crate::Seconds| seconds.as_micros();
    let as_assumed = micros(setting.read) == 4_000
        && micros(setting.write) == 10_000
        && setting.throttle == "none"
        && setting.taken == 0
        && setting.width == 0
        && setting.pools == 1
        && setting.lock.is_empty()
        && !setting.has_faults()
        && setting.addresses == 2 * setting.instances;
    if !as_assumed {
        return None;
    }
    let again = setting.update == DECIDES_AGAIN;
    let rows = match (setting.retry.as_str(), micros(setting.spread), micros(setting.think)) {
        ("default-backoff", 0, 500) => AT_ONCE,
        ("default-backoff", 50_000, 500) => OVER_50_MS,
        ("default-backoff", 250_000, 500) => OVER_250_MS,
        ("default-backoff", 1_000_000, 500) => OVER_1_S,
        ("default-backoff", 1_000_000, 200_000) => WAITING,
        ("default-retry", 0, 500) if again => DEFAULT_RETRY,
        ("twelve", 0, 500) if again => TWELVE,
        _ => return None,
    };
    let &(_, conflicts_per_call, exhausted, lost) = rows.iter().find(|row| row.0 == setting.instances)?;
    Some(Modelled { conflicts_per_call, exhausted, lost: if again { 0.0 } else { lost } })
}
