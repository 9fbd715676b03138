//! The progress of the harness, for observers that may ask it to stop.
//!
//! ```text
//! worker 1 ──► WorkerCounter ─┐
//! worker 2 ──► WorkerCounter ─┴──◄ read at any time ── Progress (a bar, a log, nothing)
//! workers  ◄── stop_requested, polled between two runs
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Observes the harness while it works, and may ask it to stop.
pub trait Progress: Sync {
    /// Begins a stage, such as the sweep of a scenario: `total` runs, if their number is known. Returns one counter for each worker.
    fn begin(&self, stage: &str, unit: Unit, total: Option<u64>, workers: usize) -> Vec<Arc<WorkerCounter>>;

    /// Reports the progress of the stage, in words.
    fn say(&self, text: String) {
        let _ = text;
    }

    /// Whether to stop with the results so far. Workers ask between two runs.
    fn stop_requested(&self) -> bool;
}

/// The kind of a stage's runs, which decides whether a failing run is bad news.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Seeds; one that violates a claim is bad news.
    #[default]
    Seeds,
    /// Candidates for a smaller plan; one that still fails is the goal.
    Candidates,
}

/// The runs that one worker has finished. Aligned so that no two workers write to one cache line (or to a pair that is fetched together).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounter {
    done: AtomicU64,
    failed: AtomicU64,
}

impl WorkerCounter {
    /// Counts one more run.
    pub fn count(&self, failed: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of finished runs.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The number of finished runs that failed.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// No observer: nothing is reported, and the harness is never stopped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Progress for Unobserved {
    fn begin(&self, _: &str, _: Unit, _: Option<u64>, workers: usize) -> Vec<Arc<WorkerCounter>> {
        (0..workers).map(|_| Arc::default()).collect()
    }

    fn stop_requested(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_do_not_share_a_cache_line() {
        assert!(align_of::<WorkerCounter>() >= 128);
    }

    #[test]
    fn each_worker_counts_for_itself() {
        let counters = Unobserved.begin("counter", Unit::Seeds, None, 2);
        counters[0].count(false);
        counters[1].count(true);
        counters[1].count(false);
        let counts: Vec<_> = counters.iter().map(|counter| (counter.done(), counter.failed())).collect();
        assert_eq!(counts, [(1, 0), (2, 1)]);
    }
}
