//! The interface of production code to its machine.

use std::future::Future;
use std::time::Duration;

/// Clocks, sleep, tasks and randomness of one process.
///
/// The two clocks may differ from those of every other process in offset and rate (K §9.2 F1 to F3).
pub trait Env: Clone + Send + Sync + 'static {
    /// A handle on a task started by [`Env::spawn`].
    type Task: Task;

    /// Time on the process's monotonic clock, from an arbitrary origin. Never goes back.
    fn monotonic(&self) -> Duration;

    /// Time on the machine's wall clock. May jump.
    fn wall(&self) -> jiff::Timestamp;

    /// Completes when `duration` has passed on the monotonic clock.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static;

    /// Runs `future` concurrently within this process. It ends with the process at the latest.
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Task;

    /// A uniformly random number.
    fn random(&self) -> u64;

    /// A uniformly random number in `[0, 1)`, with 53 bits.
    fn random_unit(&self) -> f64 {
        (self.random() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Ends the process at once, tasks and all, like a Go program that dereferences nil: used by mutated forms where their upstream
    /// crashes. No hardened form calls it.
    ///
    /// In an environment of an operating system's process, that process ends. A simulation or a test, which treats a task's panic as the
    /// end of its process, panics, and reports the caller as the location.
    #[track_caller]
    fn crash(&self, reason: &str) -> !;
}

/// A running task. Dropping the handle leaves the task running.
pub trait Task: Send + Sync + 'static {
    /// Ends the task at its next suspension point.
    fn abort(&self);
}
