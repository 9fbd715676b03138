//! The number of attempts of a write, and the pauses between them.

use std::time::Duration;

use super::policy::Policy;
use kube_machinery::api::{ApiError, Reason};
use kube_machinery::retry::{Backoff, DEFAULT_BACKOFF, scaled};

/// The policy for retrying a write that failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Retry {
    /// Exponential backoff as in client-go's presets.
    Backoff(Backoff),
    /// After attempt k (from 1) a sleep uniform in `[0, min(cap, base * 2^k))`, so that contenders spread out.
    FullJitter {
        /// The total number of attempts, including the first.
        attempts: u32,
        /// Half the bound of the first sleep.
        base: Duration,
        /// The bound of later sleeps.
        cap: Duration,
    },
}

impl Retry {
    /// Upstream's policy: four attempts, with about 10, 50 and 250 ms between them.
    pub const UPSTREAM: Self = Self::Backoff(DEFAULT_BACKOFF);

    /// The reference policy of B §8.3.
    pub const TWELVE: Self = Self::full_jitter(12);

    /// Full jitter with no limit but the operation's time.
    pub const PATIENT: Self = Self::full_jitter(u32::MAX);

    const fn full_jitter(attempts: u32) -> Self {
        Self::FullJitter { attempts, base: Duration::from_millis(10), cap: Duration::from_millis(500) }
    }

    /// The retries that belong to a policy.
    pub fn of(policy: &Policy) -> Self {
        if policy.four_attempts { Self::UPSTREAM } else { Self::PATIENT }
    }

    /// The sleep after attempt number `made` (from 1); `None` = that was the last. `unit` draws from `[0, 1)`.
    pub fn sleep(self, made: u32, unit: impl FnOnce() -> f64) -> Option<Duration> {
        match self {
            Self::Backoff(backoff) => backoff.sleep(made, unit),
            Self::FullJitter { attempts, .. } if made >= attempts => None,
            Self::FullJitter { base, cap, .. } => {
                let bound = base.saturating_mul(1u32.checked_shl(made).unwrap_or(u32::MAX)).min(cap);
                Some(scaled(bound, unit()))
            }
        }
    }
}

/// Whether an error rejects the request itself, so that resending it is useless. Conflicts and AlreadyExists do not.
pub(super) fn is_verdict(error: &ApiError) -> bool {
    matches!(
        error.reason(),
        Some(
            Reason::Unauthorized
                | Reason::Forbidden
                | Reason::Invalid
                | Reason::BadRequest
                | Reason::MethodNotAllowed
                | Reason::NotAcceptable
                | Reason::RequestEntityTooLarge
                | Reason::UnsupportedMediaType
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(retry: Retry, unit: f64) -> Vec<f64> {
        (1..).map_while(|made| retry.sleep(made, || unit)).take(20).map(|sleep| sleep.as_secs_f64() * 1000.0).collect()
    }

    #[test]
    fn upstream_sleeps_three_times_in_the_documented_bounds() {
        assert_eq!(millis(Retry::UPSTREAM, 0.0), [10.0, 50.0, 250.0]);
        assert_eq!(millis(Retry::UPSTREAM, 1.0), [11.0, 55.0, 275.0]);
    }

    #[test]
    fn full_jitter_doubles_its_bound_up_to_the_cap() {
        let bounds = [20.0, 40.0, 80.0, 160.0, 320.0, 500.0, 500.0, 500.0, 500.0, 500.0, 500.0];
        assert_eq!(millis(Retry::TWELVE, 1.0), bounds);
        assert_eq!(millis(Retry::TWELVE, 0.0), [0.0; 11]);
        assert_eq!(Retry::PATIENT.sleep(1000, || 0.5), Some(Duration::from_millis(250)));
    }
}
