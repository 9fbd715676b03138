//! Runs on several threads, their results in the order of their numbers whoever ran them.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cli::{CliError, Progress};

/// The stack of a thread that runs plans: a process of the system under test is a dozen futures deep, and without optimisation each of
/// them takes kilobytes.
pub(crate) const STACK_BYTES: usize = 32 << 20;

/// Starts a thread with room for running plans.
pub(crate) fn spawn_worker<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> std::thread::ScopedJoinHandle<'scope, T> {
    let started = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
    started.unwrap_or_else(|error| panic!("failed to start a thread: {error}"))
}

/// How the runs of a batch are shared out.
pub(crate) struct ThreadPool<'a> {
    /// How many threads.
    pub(crate) jobs: usize,
    /// How many runs a thread takes at a time.
    pub(crate) chunk: u64,
    /// What is counted, for the bar.
    pub(crate) label: &'a str,
    /// Where it is counted.
    pub(crate) progress: &'a Progress,
}

impl ThreadPool<'_> {
    /// What `work` gives for each number, each thread with a state of its own from `begin`; `None` when the user stopped it.
    ///
    /// # Errors
    /// A run broke the harness.
    pub(crate) fn each<S, T: Send>(
        &self,
        range: Range<u64>,
        begin: impl Fn() -> S + Sync,
        work: impl Fn(&S, u64) -> Result<T, String> + Sync,
    ) -> Result<Option<Vec<T>>, CliError> {
        let counters = self.progress.begin(self.label, Some(range.end - range.start), self.jobs);
        let next = AtomicU64::new(range.start);
        let done: Mutex<Vec<(u64, Vec<T>)>> = Mutex::default();
        let broken: Mutex<Option<String>> = Mutex::default();
        std::thread::scope(|scope| {
            for counter in &counters {
                let (next, done, broken, begin, work, end) = (&next, &done, &broken, &begin, &work, range.end);
                spawn_worker(scope, move || {
                    let state = begin();
                    loop {
                        let first = next.fetch_add(self.chunk, Ordering::Relaxed);
                        if first >= end || self.progress.stop_requested() || lock(broken).is_some() {
                            return;
                        }
                        let mut part = Vec::new();
                        for number in first..end.min(first + self.chunk) {
                            match work(&state, number) {
                                Ok(one) => part.push(one),
                                Err(message) => {
                                    lock(broken).get_or_insert(message);
                                    return;
                                }
                            }
                            counter.count(false);
                        }
                        lock(done).push((first, part));
                    }
                });
            }
        });
        if let Some(message) = lock(&broken).take() {
            return Err(CliError::harness(message));
        }
        if self.progress.stop_requested() {
            return Ok(None);
        }
        let mut done = std::mem::take(&mut *lock(&done));
        done.sort_by_key(|(first, _)| *first);
        Ok(Some(done.into_iter().flat_map(|(_, part)| part).collect()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_one_that_breaks_breaks_all() {
        let progress = Progress::default();
        let pool = ThreadPool { jobs: 3, chunk: 4, label: "runs", progress: &progress };
        let squares = pool.each(5..50, || 2, |factor, number| Ok(factor * number)).unwrap().unwrap();
        assert_eq!(squares, (5..50).map(|number| 2 * number).collect::<Vec<u64>>());
        let broken = pool.each(0..50, || (), |(), number| if number == 30 { Err("no".to_owned()) } else { Ok(number) });
        assert_eq!(broken.unwrap_err().exit_code, 70);
        progress.stop();
        assert!(pool.each(0..5, || (), |(), number| Ok(number)).unwrap().is_none());
    }
}
