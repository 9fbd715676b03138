//! Threads that run plans, and batches of runs whose results come in the order of their numbers, whichever thread ran them.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::progress::{Progress, Unit};

/// The stack size of a thread that runs plans: a process of the system under test is a dozen futures deep, and without optimisation each of
/// them takes kilobytes.
pub const STACK_BYTES: usize = 32 << 20;

/// The number of workers: the requested number, or one per core.
pub fn jobs(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Starts a thread whose stack suffices for running plans.
///
/// # Panics
/// The operating system gives no thread.
pub fn spawn_worker<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> std::thread::ScopedJoinHandle<'scope, T> {
    let started = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
    started.unwrap_or_else(|error| panic!("failed to start a thread: {error}"))
}

/// Runs batches of numbered tasks on its own threads.
pub struct ThreadPool<'a> {
    /// The number of threads.
    pub jobs: usize,
    /// The number of runs that a thread takes at a time.
    pub chunk: u64,
    /// The name of the stage, for observers.
    pub label: &'a str,
    /// The observer that gets the counts.
    pub progress: &'a dyn Progress,
}

impl ThreadPool<'_> {
    /// The results of `work` for each number; each thread has its own state from `begin`. `None` = the user stopped it.
    ///
    /// # Errors
    /// Returns an error of `work`, after which no further chunk is begun.
    pub fn each<S, T: Send, E: Send>(
        &self,
        range: Range<u64>,
        begin: impl Fn() -> S + Sync,
        work: impl Fn(&S, u64) -> Result<T, E> + Sync,
    ) -> Result<Option<Vec<T>>, E> {
        let counters = self.progress.begin(self.label, Unit::Seeds, Some(range.end - range.start), self.jobs);
        let next = AtomicU64::new(range.start);
        let done: Mutex<Vec<(u64, Vec<T>)>> = Mutex::default();
        let failed: Mutex<Option<E>> = Mutex::default();
        std::thread::scope(|scope| {
            for counter in &counters {
                let (next, done, failed, begin, work, end) = (&next, &done, &failed, &begin, &work, range.end);
                spawn_worker(scope, move || {
                    let state = begin();
                    loop {
                        let first = next.fetch_add(self.chunk, Ordering::Relaxed);
                        if first >= end || self.progress.stop_requested() || lock(failed).is_some() {
                            return;
                        }
                        let mut part = Vec::new();
                        for number in first..end.min(first + self.chunk) {
                            match work(&state, number) {
                                Ok(one) => part.push(one),
                                Err(error) => {
                                    lock(failed).get_or_insert(error);
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
        if let Some(error) = lock(&failed).take() {
            return Err(error);
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
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::engine::progress::{Unobserved, WorkerCounter};

    /// An observer that stops everything.
    #[derive(Default)]
    struct Stopped(AtomicBool);

    impl Progress for Stopped {
        fn begin(&self, stage: &str, unit: Unit, total: Option<u64>, workers: usize) -> Vec<Arc<WorkerCounter>> {
            Unobserved.begin(stage, unit, total, workers)
        }

        fn stop_requested(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn results_are_in_order_and_one_that_breaks_breaks_all() {
        let progress = Stopped::default();
        let pool = ThreadPool { jobs: 3, chunk: 4, label: "runs", progress: &progress };
        let squares = pool.each(5..50, || 2, |factor, number| Ok::<_, String>(factor * number)).unwrap().unwrap();
        assert_eq!(squares, (5..50).map(|number| 2 * number).collect::<Vec<u64>>());
        let broken = pool.each(0..50, || (), |(), number| if number == 30 { Err("no") } else { Ok(number) });
        assert_eq!(broken.unwrap_err(), "no");
        progress.0.store(true, Ordering::Relaxed);
        assert!(pool.each(0..5, || (), |(), number| Ok::<_, String>(number)).unwrap().is_none());
    }
}
