//! A queue of keys to reconcile, with delays for failed ones: client-go's workqueue (K §4.5).
//!
//! A key that is queued twice is processed once; a key that is queued while it is processed is processed once more afterwards; no two
//! workers of one process ever hold the same key. The queue carries only keys: the work is decided from the state at the time of
//! processing.

mod failure_limiter;
mod queue;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::env::Env;
use crate::race::race;

pub use failure_limiter::FailureLimiter;
pub use queue::Queue;

/// A queue on which workers wait. Clones share it.
pub struct WorkQueue<T: Ord + Clone, V> {
    env: V,
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Notifies workers to check again: an item is ready, an earlier time is known, or the queue was shut down.
    changed: Notify,
}

struct State<T> {
    queue: Queue<T>,
    limiter: FailureLimiter<T>,
}

impl<T: Ord + Clone, V: Clone> Clone for WorkQueue<T, V> {
    fn clone(&self) -> Self {
        Self { env: self.env.clone(), shared: self.shared.clone() }
    }
}

impl<T: Ord + Clone + fmt::Debug, V> fmt::Debug for WorkQueue<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.shared.state.lock().unwrap().queue).finish()
    }
}

impl<T: Ord + Clone + Send + 'static, V: Env> WorkQueue<T, V> {
    /// An empty queue without failures, whose delays pass by the monotonic clock of `env`.
    pub fn new(env: V) -> Self {
        let state = State { queue: Queue::default(), limiter: FailureLimiter::default() };
        Self { env, shared: Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }) }
    }

    fn change<R>(&self, change: impl FnOnce(&mut State<T>) -> R) -> R {
        let result = change(&mut self.shared.state.lock().unwrap());
        self.shared.changed.notify_one();
        result
    }

    /// Queues `item` without a delay, unless it is queued already. One that is being processed is queued again when that ends.
    pub fn add(&self, item: T) {
        self.change(|state| state.queue.add(item));
    }

    /// Queues `item` after `delay`, whatever its failures (`RequeueAfter`).
    pub fn add_after(&self, item: T, delay: Duration) {
        if delay.is_zero() {
            return self.add(item);
        }
        let at = self.env.monotonic() + delay;
        self.change(|state| state.queue.add_at(item, at));
    }

    /// Counts a failure of `item` and queues it after the resulting wait.
    pub fn add_rate_limited(&self, item: T) {
        let now = self.env.monotonic();
        self.change(|state| {
            let delay = state.limiter.fail(&item, now);
            state.queue.add_at(item, now + delay);
        });
    }

    /// Forgets the failures of `item`. Does not remove it from the queue.
    pub fn forget(&self, item: &T) {
        self.shared.state.lock().unwrap().limiter.forget(item);
    }

    /// The number of failures of `item` since it was last forgotten.
    pub fn failures(&self, item: &T) -> u32 {
        self.shared.state.lock().unwrap().limiter.failures(item)
    }

    /// The number of items that are ready to be processed.
    pub fn len(&self) -> usize {
        self.shared.state.lock().unwrap().queue.len()
    }

    /// Whether no item is ready to be processed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for an item to process. `None` when the queue was shut down and is empty. Dropping this future loses
    /// no item; dropping the [`Taken`] item ends its processing.
    pub async fn next(&self) -> Option<Taken<T>> {
        loop {
            let now = self.env.monotonic();
            let (item, others, wake_at) = {
                let mut state = self.shared.state.lock().unwrap();
                let wake_at = state.queue.wake(now);
                let item = state.queue.take();
                if item.is_none() && state.queue.is_over() {
                    drop(state);
                    // One notification wakes one worker: pass it on, so that all of them see the end.
                    self.shared.changed.notify_one();
                    return None;
                }
                (item, !state.queue.is_empty(), wake_at)
            };
            if let Some(item) = item {
                // Several changes may have left one notification: pass it on if there is more to take or to wait for.
                if others || wake_at.is_some() {
                    self.shared.changed.notify_one();
                }
                return Some(Taken { item, shared: self.shared.clone() });
            }
            let changed = self.shared.changed.notified();
            match wake_at {
                Some(at) => {
                    race(changed, self.env.sleep(at - now)).await;
                }
                None => changed.await,
            }
        }
    }

    /// Shuts the queue down: it accepts no more items; workers finish those that are ready and then get `None`.
    pub fn shut_down(&self) {
        self.change(|state| state.queue.shut_down());
    }
}

/// An item that is being processed; no other worker gets it until this is dropped.
pub struct Taken<T: Ord + Clone> {
    item: T,
    shared: Arc<Shared<T>>,
}

impl<T: Ord + Clone> Deref for Taken<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T: Ord + Clone + fmt::Debug> fmt::Debug for Taken<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Taken").field(&self.item).finish()
    }
}

impl<T: Ord + Clone> Drop for Taken<T> {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap().queue.done(&self.item);
        self.shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestEnv;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    type Log = Arc<Mutex<Vec<(u128, u32, &'static str)>>>;

    /// `workers` workers that need 10 ms for each item and log the start times and items.
    fn run_workers(env: &TestEnv, queue: &WorkQueue<&'static str, TestEnv>, workers: u32) -> Log {
        let log = Log::default();
        for worker in 0..workers {
            let (queue, log, worker_env) = (queue.clone(), log.clone(), env.clone());
            env.spawn(async move {
                while let Some(item) = queue.next().await {
                    log.lock().unwrap().push((worker_env.monotonic().as_millis(), worker, *item));
                    worker_env.sleep(10 * MS).await;
                }
            });
        }
        log
    }

    #[test]
    fn workers_share_the_work_but_never_an_item() {
        let env = TestEnv::new();
        let queue = WorkQueue::new(env.clone());
        let log = run_workers(&env, &queue, 2);
        env.settle();
        queue.add("a");
        queue.add("b");
        env.advance(5 * MS);
        queue.add("a");
        env.advance(SECOND);
        assert_eq!(*log.lock().unwrap(), [(0, 0, "a"), (0, 1, "b"), (10, 0, "a")]);
    }

    #[test]
    fn delayed_items_come_when_their_time_has_come_even_to_workers_that_already_wait() {
        let env = TestEnv::new();
        let queue = WorkQueue::new(env.clone());
        let log = run_workers(&env, &queue, 3);
        queue.add_after("late", 500 * MS);
        env.settle();
        queue.add_after("early", 100 * MS);
        queue.add_rate_limited("failed");
        env.advance(SECOND);
        let log: Vec<_> = log.lock().unwrap().iter().map(|(at, _, item)| (*at, *item)).collect();
        assert_eq!(log, [(5, "failed"), (100, "early"), (500, "late")]);
        assert_eq!(queue.failures(&"failed"), 1);
        queue.forget(&"failed");
        assert_eq!(queue.failures(&"failed"), 0);
    }

    #[test]
    fn a_shut_down_queue_is_drained_and_then_lets_all_workers_go() {
        let env = TestEnv::new();
        let queue = WorkQueue::new(env.clone());
        for item in ["a", "b", "c"] {
            queue.add(item);
        }
        queue.add_after("never", SECOND);
        let log = run_workers(&env, &queue, 2);
        env.settle();
        queue.shut_down();
        queue.add("too late");
        env.advance(2 * SECOND);
        assert_eq!(log.lock().unwrap().len(), 3);
        assert_eq!(env.tasks_alive(), 0);
    }
}
