//! Sleeps between attempts, and the retry of a write that failed with a conflict (K §4.4).

use std::future::Future;
use std::time::Duration;

use crate::api::ApiError;
use crate::env::Env;

/// The number of attempts and the sleeps in between, with the arithmetic of client-go's `wait.Backoff`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The total number of attempts; there is one sleep fewer. 0 counts as 1.
    pub steps: u32,
    /// The first sleep, before jitter.
    pub base: Duration,
    /// The factor by which each sleep, before jitter, is longer than the previous one.
    pub factor: f64,
    /// The maximum of each sleep before jitter. Unlike client-go's `Cap`, it does not end the attempts.
    pub cap: Duration,
    /// The jitter of each sleep. It does not accumulate from sleep to sleep.
    pub jitter: Jitter,
}

/// The randomisation of a sleep of `d`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// Uniform in `[d, d + part * d)`, as in client-go.
    Added(f64),
    /// Uniform in `[0, d)`, so that contenders that failed together spread out.
    Full,
}

impl Jitter {
    /// Applies the jitter to `duration`; draws nothing if there is none.
    pub fn scatter(self, duration: Duration, unit: impl FnOnce() -> f64) -> Duration {
        match self {
            Self::Added(part) => jittered(duration, part, unit),
            Self::Full => scaled(duration, unit()),
        }
    }
}

/// client-go's `retry.DefaultRetry`: 5 attempts within 40 to 44 ms. Meant for few writers that rarely collide.
pub const DEFAULT_RETRY: Backoff =
    Backoff { steps: 5, base: Duration::from_millis(10), factor: 1.0, cap: Duration::MAX, jitter: Jitter::Added(0.1) };

/// client-go's `retry.DefaultBackoff`: 4 attempts within 310 to 341 ms.
pub const DEFAULT_BACKOFF: Backoff =
    Backoff { steps: 4, base: Duration::from_millis(10), factor: 5.0, cap: Duration::MAX, jitter: Jitter::Added(0.1) };

impl Backoff {
    /// The sleeps between the attempts; `unit` draws uniformly from `[0, 1)`, once per sleep if there is jitter.
    pub fn sleeps<U: FnMut() -> f64>(self, unit: U) -> Sleeps<U> {
        Sleeps { left: self.steps.saturating_sub(1), next: self.base.min(self.cap), backoff: self, unit }
    }

    /// The sleep after attempt number `made` (from 1); `None` = that was the last. `unit` draws from `[0, 1)`.
    pub fn sleep(self, made: u32, unit: impl FnOnce() -> f64) -> Option<Duration> {
        if made >= self.steps {
            return None;
        }
        let mut plain = self.base.min(self.cap);
        for _ in 1..made {
            let next = self.after(plain);
            if next == plain {
                break;
            }
            plain = next;
        }
        Some(self.jitter.scatter(plain, unit))
    }

    /// The sleep that follows `sleep`, both before jitter.
    fn after(self, sleep: Duration) -> Duration {
        scaled(sleep, self.factor).min(self.cap)
    }
}

/// The sleeps of one [`Backoff`].
#[derive(Clone, Debug)]
pub struct Sleeps<U> {
    left: u32,
    next: Duration,
    backoff: Backoff,
    unit: U,
}

impl<U: FnMut() -> f64> Iterator for Sleeps<U> {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        let sleep = self.next;
        self.next = self.backoff.after(sleep);
        Some(self.backoff.jitter.scatter(sleep, &mut self.unit))
    }
}

/// `duration` times `factor`, cut to whole nanoseconds as Go does.
pub fn scaled(duration: Duration, factor: f64) -> Duration {
    Duration::from_nanos((duration.as_nanos() as f64 * factor) as u64)
}

/// `duration` plus a uniform share of up to `jitter` times itself; draws nothing without jitter.
pub fn jittered(duration: Duration, jitter: f64, unit: impl FnOnce() -> f64) -> Duration {
    if jitter > 0.0 { duration + scaled(duration, unit() * jitter) } else { duration }
}

/// Sleeps that grow while failures continue: client-go's exponential backoff manager (K §4.1, step 8).
///
/// Starts over once it has not been used for `reset_after`. The cap applies before jitter, as in client-go.
#[derive(Clone, Debug)]
pub struct GrowingBackoff {
    base: Duration,
    factor: f64,
    jitter: f64,
    cap: Duration,
    reset_after: Duration,
    next: Duration,
    asked_at: Option<Duration>,
}

impl GrowingBackoff {
    /// The backoff of client-go's reflector: 800 ms, factor 2, jitter 1.0, cap 30 s, reset after 2 minutes.
    pub fn reflector() -> Self {
        let base = Duration::from_millis(800);
        let cap = Duration::from_secs(30);
        Self { base, factor: 2.0, jitter: 1.0, cap, reset_after: Duration::from_secs(120), next: base, asked_at: None }
    }

    /// The sleep to make at monotonic time `now`.
    pub fn sleep(&mut self, now: Duration, unit: impl FnOnce() -> f64) -> Duration {
        if self.asked_at.is_some_and(|asked_at| now.saturating_sub(asked_at) > self.reset_after) {
            self.next = self.base;
        }
        self.asked_at = Some(now);
        let sleep = self.next;
        self.next = scaled(sleep, self.factor).min(self.cap);
        jittered(sleep, self.jitter, unit)
    }
}

/// An error that may be a conflict in the sense of optimistic locking.
pub trait Conflict {
    /// Whether reading, deciding and writing again may help. AlreadyExists is not a conflict (K §2.12).
    fn is_conflict(&self) -> bool;
}

impl Conflict for ApiError {
    fn is_conflict(&self) -> bool {
        ApiError::is_conflict(self)
    }
}

/// Runs `attempt` until it does not fail with a conflict, at most `backoff.steps` times (K152).
///
/// `attempt` has to read again and decide again each time. Do not read from an informer here: within the 40 ms of [`DEFAULT_RETRY`] it
/// usually still shows the state that just lost.
///
/// # Errors
/// The first error that is not a conflict, or the conflict of the last attempt.
pub async fn retry_on_conflict<V, T, E, F>(env: &V, backoff: Backoff, mut attempt: impl FnMut() -> F + Send) -> Result<T, E>
where
    V: Env,
    E: Conflict + Send,
    T: Send,
    F: Future<Output = Result<T, E>> + Send,
{
    let mut sleeps = backoff.sleeps(|| env.random_unit());
    loop {
        match attempt().await {
            Err(error) if error.is_conflict() => match sleeps.next() {
                Some(sleep) => env.sleep(sleep).await,
                None => return Err(error),
            },
            result => return result,
        }
    }
}

/// Runs `attempt` until it succeeds, with a sleep of `pause` after each failure. For work that must succeed eventually.
pub async fn until_success<V: Env, T, E, F: Future<Output = Result<T, E>>>(env: &V, pause: Duration, mut attempt: impl FnMut() -> F) -> T {
    loop {
        match attempt().await {
            Ok(output) => return output,
            Err(_) => env.sleep(pause).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use proptest::prelude::*;

    use super::*;
    use crate::api::{Reason, Status};
    use crate::testing::TestEnv;

    fn millis(sleeps: impl Iterator<Item = Duration>) -> Vec<f64> {
        sleeps.map(|sleep| sleep.as_secs_f64() * 1000.0).collect()
    }

    #[test]
    fn until_success_sleeps_after_each_failure_and_not_after_success() {
        let env = TestEnv::new();
        let mut failures = 3;
        let output = env.block_on(until_success(&env, Duration::from_secs(2), || {
            failures -= 1;
            std::future::ready(if failures >= 0 { Err(()) } else { Ok("done") })
        }));
        assert_eq!((output, env.monotonic()), ("done", Duration::from_secs(6)));
    }

    #[test]
    fn k152_default_retry_sleeps_four_times_ten_milliseconds() {
        assert_eq!(millis(DEFAULT_RETRY.sleeps(|| 0.0)), [10.0; 4]);
        assert_eq!(millis(DEFAULT_RETRY.sleeps(|| 0.5)), [10.5; 4]);
    }

    #[test]
    fn k152_default_backoff_sleeps_10_50_250() {
        assert_eq!(millis(DEFAULT_BACKOFF.sleeps(|| 0.0)), [10.0, 50.0, 250.0]);
        assert_eq!(millis(DEFAULT_BACKOFF.sleeps(|| 0.5)), [10.5, 52.5, 262.5]);
    }

    #[test]
    fn no_random_number_is_drawn_without_jitter() {
        let backoff = Backoff { jitter: Jitter::Added(0.0), ..DEFAULT_BACKOFF };
        assert_eq!(backoff.sleeps(|| unreachable!("no jitter, no draw")).count(), 3);
    }

    #[test]
    fn full_jitter_begins_at_nothing_and_a_cap_ends_no_attempts() {
        let full = Backoff { jitter: Jitter::Full, ..DEFAULT_BACKOFF };
        assert_eq!(millis(full.sleeps(|| 0.0)), [0.0; 3]);
        assert_eq!(millis(full.sleeps(|| 0.5)), [5.0, 25.0, 125.0]);
        let capped = Backoff { steps: 6, cap: Duration::from_millis(60), ..DEFAULT_BACKOFF };
        assert_eq!(millis(capped.sleeps(|| 0.0)), [10.0, 50.0, 60.0, 60.0, 60.0]);
        assert_eq!(millis(Backoff { cap: Duration::from_millis(5), ..DEFAULT_BACKOFF }.sleeps(|| 0.0)), [5.0; 3]);
    }

    proptest! {
        /// The sleep after attempt `k` is element `k` of the sequence of sleeps.
        #[test]
        fn the_sleep_after_an_attempt_is_the_one_in_its_place(
            steps in 0u32..40, base in 1u64..50, factor in prop::sample::select(vec![1.0, 1.5, 2.0, 5.0]), cap in 1u64..2_000,
            full in any::<bool>(), unit in 0.0..1.0f64,
        ) {
            let jitter = if full { Jitter::Full } else { Jitter::Added(0.1) };
            let backoff = Backoff { steps, base: Duration::from_millis(base), factor, cap: Duration::from_millis(cap), jitter };
            let counted: Vec<Duration> = (1..).map_while(|made| backoff.sleep(made, || unit)).collect();
            prop_assert_eq!(counted, backoff.sleeps(|| unit).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn total_sleep_stays_within_the_documented_bounds(units in prop::collection::vec(0.0..1.0f64, 4)) {
            let mut draws = units.iter().copied();
            let total: Duration = DEFAULT_RETRY.sleeps(|| draws.next().unwrap()).sum();
            prop_assert!((Duration::from_millis(40)..Duration::from_millis(44)).contains(&total));
            let mut draws = units.iter().copied();
            let total: Duration = DEFAULT_BACKOFF.sleeps(|| draws.next().unwrap()).sum();
            prop_assert!((Duration::from_millis(310)..Duration::from_millis(341)).contains(&total));
        }
    }

    #[test]
    fn growing_backoff_doubles_to_its_cap_and_starts_over_after_quiet() {
        let mut backoff = GrowingBackoff::reflector();
        let sleeps: Vec<f64> = (0..8).map(|second| backoff.sleep(Duration::from_secs(second), || 0.0).as_secs_f64()).collect();
        assert_eq!(sleeps, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]);
        assert_eq!(backoff.sleep(Duration::from_secs(7 + 120), || 0.5).as_secs(), 45, "jitter comes on top of the cap");
        assert_eq!(backoff.sleep(Duration::from_secs(127 + 121), || 0.0).as_millis(), 800);
    }

    fn attempts_made(reason: Reason, succeed_at: u32) -> (u32, Result<(), ApiError>, Duration) {
        let env = TestEnv::new();
        let attempts = AtomicU32::new(0);
        let result = env.block_on({
            let env = env.clone();
            let attempts = &attempts;
            async move {
                retry_on_conflict(&env, DEFAULT_RETRY, || async move {
                    let attempt = attempts.fetch_add(1, Ordering::Relaxed) + 1;
                    if attempt == succeed_at { Ok(()) } else { Err(Status::new(reason, format!("attempt {attempt}")).into()) }
                })
                .await
            }
        });
        (attempts.into_inner(), result, env.monotonic())
    }

    #[test]
    fn k152_only_conflict_is_retried() {
        for reason in [Reason::AlreadyExists, Reason::NotFound, Reason::Timeout, Reason::TooManyRequests, Reason::Unknown] {
            let (attempts, result, elapsed) = attempts_made(reason, 9);
            assert_eq!((attempts, elapsed), (1, Duration::ZERO), "{reason:?}");
            assert!(result.is_err());
        }
        let (attempts, result, _) = attempts_made(Reason::Conflict, 3);
        assert_eq!((attempts, result), (3, Ok(())));
    }

    #[test]
    fn k152_the_last_conflict_is_returned_without_a_sleep_after_it() {
        let (attempts, result, elapsed) = attempts_made(Reason::Conflict, 9);
        assert_eq!(attempts, 5);
        assert_eq!(result.unwrap_err().status().unwrap().text, "attempt 5");
        assert!((Duration::from_millis(40)..Duration::from_millis(44)).contains(&elapsed), "{elapsed:?}");
    }
}
