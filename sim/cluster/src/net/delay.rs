//! Distributions of delays.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sim_config::draw::{exp, normal_quantile};
use sim_config::time::{Span, micros};

/// The 99 % quantile of the standard normal distribution.
const Z99: f64 = 2.326_347_874_040_841;

/// A distribution of delays, drawn by its quantile function from one uniform number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Delay {
    /// Every message or step is delayed by exactly this much.
    Constant(Span),
    /// Uniform between two bounds.
    Uniform {
        /// Lower bound: no delay is shorter.
        low: Span,
        /// Upper bound: every delay is shorter. Where it is not above `low`, every delay is `low`.
        high: Span,
    },
    /// Lognormal, given by the figures that are usually measured (K §11.2).
    Lognormal {
        /// Half of all delays are shorter.
        median: Span,
        /// 99 of 100 delays are shorter. Not below the median.
        p99: Span,
        /// Longer delays are cut to this.
        max: Span,
    },
}

/// A [`Delay`] prepared for drawing.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    low: f64,
    /// Constant and uniform: the width. Lognormal: sigma.
    spread: f64,
    max: f64,
    lognormal: bool,
}

impl Delay {
    /// A lognormal distribution with this median, 99 % quantile and maximum, all in microseconds.
    pub const fn lognormal_us(median: u64, p99: u64, max: u64) -> Self {
        Delay::Lognormal { median: Span::micros(median), p99: Span::micros(p99), max: Span::micros(max) }
    }

    /// Prepares the distribution for drawing.
    pub fn sampler(self) -> Sampler {
        let us = |span: Span| micros(span.0) as f64;
        match self {
            Delay::Constant(span) => Sampler { low: us(span), spread: 0.0, max: us(span), lognormal: false },
            Delay::Uniform { low, high } => {
                Sampler { low: us(low), spread: (us(high) - us(low)).max(0.0), max: us(high).max(us(low)), lognormal: false }
            }
            Delay::Lognormal { median, p99, max } => {
                let median = us(median).max(1.0);
                let sigma = libm::log(us(p99).max(median) / median) / Z99;
                Sampler { low: median, spread: sigma, max: us(max).max(1.0), lognormal: true }
            }
        }
    }
}

impl Sampler {
    /// The longest delay that can be drawn from it.
    pub fn most(&self) -> Duration {
        Duration::from_micros(self.max as u64)
    }

    /// The delay at quantile `u` in `[0, 1)`, in whole microseconds.
    pub fn sample(&self, u: f64) -> Duration {
        let us = if !self.lognormal {
            self.low + self.spread * u
        } else {
            // The half-open interval includes 0, where the quantile is minus infinity.
            self.low * exp(self.spread * normal_quantile(u.max(1e-12)))
        };
        Duration::from_micros(us.min(self.max) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_config::draw::{Concern, Draw};

    #[test]
    fn a_lognormal_delay_has_the_median_and_p99_it_was_given() {
        let sampler = Delay::lognormal_us(300, 2_000, 50_000).sampler();
        assert_eq!(sampler.sample(0.5), Duration::from_micros(300));
        assert!(sampler.sample(0.99).as_micros().abs_diff(2_000) <= 1);
        assert_eq!(sampler.sample(0.999_999_999_999), Duration::from_micros(50_000).min(sampler.sample(0.999_999_999_999)));
        let mut draw = Draw::new(1, Concern::Link, 0);
        let above = (0..10_000).filter(|_| sampler.sample(draw.unit()) > Duration::from_micros(2_000)).count();
        assert!((60..140).contains(&above), "{above} of 10000 above p99");
    }

    #[test]
    fn a_uniform_delay_stays_within_its_bounds() {
        let sampler = Delay::Uniform { low: Span::millis(1), high: Span::millis(3) }.sampler();
        assert_eq!(sampler.sample(0.0), Duration::from_millis(1));
        assert_eq!(sampler.sample(0.5), Duration::from_millis(2));
        assert!(sampler.sample(0.999_999) < Duration::from_millis(3));
    }

    #[test]
    fn samples_are_the_same_on_every_machine() {
        let sampler = Delay::lognormal_us(3_000, 20_000, 200_000).sampler();
        let sampled: Vec<u128> = [0.001, 0.1, 0.5, 0.9, 0.999].iter().map(|&u| sampler.sample(u).as_micros()).collect();
        // 3000 * exp(sigma * z): 241.36, 1054.97, 3000.00, 8531.02, 37288.11, cut to whole microseconds.
        assert_eq!(sampled, [241, 1054, 3000, 8531, 37288]);
    }
}
