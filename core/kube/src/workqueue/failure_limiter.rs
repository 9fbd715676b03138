//! The wait of failed items before they are retried.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::rate_limit::{RateLimit, TokenBucket};

/// The wait after the first failure of an item; it doubles with each further one.
const BASE_DELAY: Duration = Duration::from_millis(5);

/// The longest wait of an item, reached at its 19th failure.
const DELAY_MAX: Duration = Duration::from_secs(1000);

/// The limit over all items, so that many failing ones do not flood the server.
const OVERALL: RateLimit = RateLimit { qps: 10.0, burst: 100 };

/// The waits of failed items: per item 5 ms doubling up to 1000 s, or a place in a bucket of 10 a second and burst 100 for all items,
/// whichever is later.
#[derive(Clone, Debug)]
pub struct FailureLimiter<T> {
    failures: BTreeMap<T, u32>,
    bucket: TokenBucket,
}

impl<T: Ord + Clone> Default for FailureLimiter<T> {
    fn default() -> Self {
        Self { failures: BTreeMap::new(), bucket: TokenBucket::new(OVERALL) }
    }
}

impl<T: Ord + Clone> FailureLimiter<T> {
    /// Counts a failure of `item` at `now` and returns its wait.
    pub fn fail(&mut self, item: &T, now: Duration) -> Duration {
        let failures = match self.failures.get_mut(item) {
            Some(failures) => {
                *failures = failures.saturating_add(1);
                *failures
            }
            None => {
                self.failures.insert(item.clone(), 1);
                1
            }
        };
        let doubled = 2u32.checked_pow(failures - 1).and_then(|factor| BASE_DELAY.checked_mul(factor));
        let own = doubled.map_or(DELAY_MAX, |delay| delay.min(DELAY_MAX));
        own.max(self.bucket.take(now) - now)
    }

    /// Forgets the failures of `item`: it succeeded, or will not be retried.
    pub fn forget(&mut self, item: &T) {
        self.failures.remove(item);
    }

    /// The number of failures of `item` since it was last forgotten.
    pub fn failures(&self, item: &T) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_failing_item_waits_twice_as_long_each_time_up_to_1000_seconds() {
        let mut limiter = FailureLimiter::default();
        let waits: Vec<u128> = (0..21).map(|_| limiter.fail(&"a", Duration::ZERO).as_millis()).collect();
        assert_eq!(waits[..5], [5, 10, 20, 40, 80]);
        assert_eq!((waits[17], waits[18], waits[20]), (655_360, 1_000_000, 1_000_000));
        assert_eq!(limiter.failures(&"a"), 21);
        limiter.forget(&"a");
        assert_eq!((limiter.failures(&"a"), limiter.fail(&"a", Duration::ZERO)), (0, 5 * MS));
    }

    #[test]
    fn many_failing_items_share_a_bucket_of_ten_a_second() {
        let mut limiter = FailureLimiter::default();
        let waits: Vec<u128> = (0..103).map(|item| limiter.fail(&item, Duration::ZERO).as_millis()).collect();
        assert_eq!((waits[99], waits[100], waits[102]), (5, 100, 300));
    }
}
