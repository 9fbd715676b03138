//! Estimates from independent runs, with intervals that hold in 95 of 100 reports.
//!
//! | of | interval |
//! |---|---|
//! | a mean over runs ([`mean`]) | Student's t over runs |
//! | a ratio of two sums ([`ratio`]) | Student's t over runs, on the linearised ratio |
//! | a share of runs ([`wilson`]) | Wilson's score interval |
//! | a share of calls, several of which share a run ([`share`]) | Wilson's, with the effective number of calls (scatter between runs) |
//! | a quantile of all calls ([`quantile`]) | order statistics, for any distribution; calls count as they do in a share |
//!
//! [`change`] compares two of them, [`paired`] two of the same seeds.
//!
//! Runs are independent because their seeds are; the calls of one run are not, and nothing here assumes that they are. Pure functions: no
//! randomness, so that the same runs give the same report.

pub mod change;
mod means;
pub mod paired;
mod proportions;
mod quantiles;
mod student;

use serde::{Deserialize, Serialize};

pub use means::{mean, ratio};
pub use proportions::{share, wilson};
pub use quantiles::quantile;
pub use student::{NORMAL_95, student_95};

/// A number and the ends of its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate itself, which lies within the interval.
    pub value: f64,
    /// The lower end; unset = the runs do not bound it.
    pub low: Option<f64>,
    /// The upper end; unset = the runs do not bound it.
    pub high: Option<f64>,
}

impl Estimate {
    /// The estimate `value` with the interval of `half` on either side.
    fn around(value: f64, half: f64) -> Self {
        Self { value, low: Some(value - half), high: Some(value + half) }
    }

    /// Converts to a unit that is `parts` times as large.
    #[must_use]
    pub fn per(self, parts: f64) -> Self {
        let per = |number: f64| number / parts;
        Self { value: per(self.value), low: self.low.map(per), high: self.high.map(per) }
    }

    /// Clamps the ends to the possible range of the quantity.
    #[must_use]
    pub fn clamped(self, least: f64, most: f64) -> Self {
        let clamp = |end: f64| end.clamp(least, most);
        Self { low: self.low.map(clamp), high: self.high.map(clamp), ..self }
    }

    /// The distance from the value to the farther end of the interval; infinite when an end is open.
    pub fn half_width(&self) -> f64 {
        match (self.low, self.high) {
            (Some(low), Some(high)) => (self.value - low).max(high - self.value),
            _ => f64::INFINITY,
        }
    }

    /// Whether the interval is narrow enough: `relative` of the value, or `absolute`, whichever is larger.
    pub fn is_within(&self, relative: f64, absolute: f64) -> bool {
        self.half_width() <= (relative * self.value.abs()).max(absolute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_interval_is_never_narrow_enough() {
        let open = Estimate { value: 1.0, low: Some(1.0), high: None };
        assert!(!open.is_within(0.5, 100.0));
        assert!(Estimate::around(1.0, 0.0199).is_within(0.02, 0.005));
        assert!(!Estimate::around(1.0, 0.021).is_within(0.02, 0.005));
        assert!(Estimate::around(0.0, 0.005).is_within(0.02, 0.005));
    }
}
