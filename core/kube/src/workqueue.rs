//! A queue of keys to reconcile, and how soon a failed one comes back: client-go's workqueue (K §4.5).
//!
//! Queueing a key twice processes it once; queueing it while it is processed processes it once more afterwards; no
//! two workers of one process ever hold the same key. The queue carries keys only: what to do is decided from the
//! state at the time of processing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::env::Env;
use crate::race::race;
use crate::rate_limit::{RateLimit, TokenBucket};

/// The wait after the first failure of an item; it doubles with each further one.
const BASE_DELAY: Duration = Duration::from_millis(5);

/// The longest wait of an item, reached when it had failed 18 times before.
const DELAY_MAX: Duration = Duration::from_secs(1000);

/// Across all items, so that many failing ones do not make a flood.
const OVERALL: RateLimit = RateLimit { qps: 10.0, burst: 100 };

/// How long failed items wait: per item 5 ms doubling up to 1000 s, or a place in a bucket of 10 a second and burst
/// 100 for all items, whichever is later.
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
    /// Counts a failure of `item` at `now` and tells how long it has to wait.
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

    /// Forgets the failures of `item`: it succeeded, or will not be tried again.
    pub fn forget(&mut self, item: &T) {
        self.failures.remove(item);
    }

    /// How often `item` failed since it was last forgotten.
    pub fn failures(&self, item: &T) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }
}

/// The pure queue. Time is passed in.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    ready: VecDeque<T>,
    /// What has to be processed: what is in `ready`, and what was added while it was processed.
    dirty: BTreeSet<T>,
    processing: BTreeSet<T>,
    /// When waiting items become ready, in that order and then in the order in which they came.
    waiting: BTreeMap<(Duration, u64), T>,
    /// The place of each waiting item in `waiting`.
    places: BTreeMap<T, (Duration, u64)>,
    places_made: u64,
    shutting_down: bool,
}

impl<T: Ord + Clone> Default for Queue<T> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            dirty: BTreeSet::new(),
            processing: BTreeSet::new(),
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
            places_made: 0,
            shutting_down: false,
        }
    }
}

impl<T: Ord + Clone> Queue<T> {
    /// Queues `item` unless it is queued already. While it is processed it is only noted.
    pub fn add(&mut self, item: T) {
        if self.shutting_down || !self.dirty.insert(item.clone()) {
            return;
        }
        if !self.processing.contains(&item) {
            self.ready.push_back(item);
        }
    }

    /// Queues `item` at the time `at`. Of several times for one item the earliest counts.
    pub fn add_at(&mut self, item: T, at: Duration) {
        if self.shutting_down {
            return;
        }
        if let Some(place) = self.places.get(&item) {
            if place.0 <= at {
                return;
            }
            self.waiting.remove(place);
        }
        self.places_made += 1;
        let place = (at, self.places_made);
        self.places.insert(item.clone(), place);
        self.waiting.insert(place, item);
    }

    /// Queues every item whose time has come, and tells when the next one's will.
    pub fn wake(&mut self, now: Duration) -> Option<Duration> {
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > now {
                return Some(first.key().0);
            }
            let item = first.remove();
            self.places.remove(&item);
            self.add(item);
        }
        None
    }

    /// Hands out the item that has been ready the longest. It must be given back with [`done`](Self::done).
    pub fn take(&mut self) -> Option<T> {
        let item = self.ready.pop_front()?;
        self.dirty.remove(&item);
        self.processing.insert(item.clone());
        Some(item)
    }

    /// The processing of `item` ended, well or not. If it was added meanwhile, it is queued now.
    pub fn done(&mut self, item: &T) {
        if let Some(item) = self.processing.take(item)
            && self.dirty.contains(&item)
        {
            self.ready.push_back(item);
        }
    }

    /// How many items are ready.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether no item is ready.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Takes nothing in any more. What is ready can still be taken; what waits for its time is dropped.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        self.waiting.clear();
        self.places.clear();
    }

    /// Whether nothing more will come: shut down, nothing ready, and nothing being processed that was added again.
    pub fn is_over(&self) -> bool {
        self.shutting_down && self.dirty.is_empty()
    }
}

/// A queue that workers wait at. Clones share it.
pub struct WorkQueue<T: Ord + Clone, V> {
    env: V,
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Somebody should look again: an item is ready, an earlier time is known, or the queue was shut down.
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
    /// An empty queue.
    pub fn new(env: V) -> Self {
        let state = State { queue: Queue::default(), limiter: FailureLimiter::default() };
        Self { env, shared: Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }) }
    }

    fn change<R>(&self, change: impl FnOnce(&mut State<T>) -> R) -> R {
        let result = change(&mut self.shared.state.lock().unwrap());
        self.shared.changed.notify_one();
        result
    }

    /// Queues `item` now.
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

    /// Counts a failure of `item` and queues it after the wait that this means.
    pub fn add_rate_limited(&self, item: T) {
        let now = self.env.monotonic();
        self.change(|state| {
            let delay = state.limiter.fail(&item, now);
            state.queue.add_at(item, now + delay);
        });
    }

    /// Forgets the failures of `item`. Does not take it out of the queue.
    pub fn forget(&self, item: &T) {
        self.shared.state.lock().unwrap().limiter.forget(item);
    }

    /// How often `item` failed since it was last forgotten.
    pub fn failures(&self, item: &T) -> u32 {
        self.shared.state.lock().unwrap().limiter.failures(item)
    }

    /// How many items are ready to be processed.
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
                    // One notification wakes one worker: pass it on, so that all of them learn of the end.
                    self.shared.changed.notify_one();
                    return None;
                }
                (item, !state.queue.is_empty(), wake_at)
            };
            if let Some(item) = item {
                // Many changes may have left one notification: pass it on if there is more to take or to wait for.
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

    /// Takes nothing in any more; workers finish what is ready and then get `None`.
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
    use proptest::prelude::*;

    use super::*;
    use crate::testing::TestEnv;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_item_queued_twice_is_processed_once() {
        let mut queue = Queue::default();
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!((queue.take(), queue.take(), queue.take()), (Some("a"), Some("b"), None));
    }

    #[test]
    fn an_item_added_while_it_is_processed_is_processed_again_afterwards() {
        let mut queue = Queue::default();
        queue.add("a");
        queue.take();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.take(), None);
        queue.done(&"a");
        assert_eq!((queue.take(), queue.take()), (Some("a"), None));
        queue.done(&"a");
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn of_two_times_for_one_item_the_earlier_counts() {
        let mut queue = Queue::default();
        queue.add_at("a", 3 * SECOND);
        queue.add_at("b", 2 * SECOND);
        queue.add_at("a", SECOND);
        queue.add_at("a", 4 * SECOND);
        assert_eq!(queue.wake(Duration::ZERO), Some(SECOND));
        assert_eq!(queue.wake(5 * SECOND), None);
        assert_eq!((queue.take(), queue.take(), queue.take()), (Some("a"), Some("b"), None));
    }

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

    #[derive(Clone, Debug)]
    enum Act {
        Add(u8),
        AddAt(u8, u8),
        Pass(u8),
        Take,
        Done,
    }

    proptest! {
        /// No item is processed twice at once; and whatever was added is taken after it was added.
        #[test]
        fn nothing_is_lost_and_nothing_is_held_twice(acts in prop::collection::vec(prop_oneof![
            (0u8..4).prop_map(Act::Add),
            (0u8..4, 0u8..5).prop_map(|(item, delay)| Act::AddAt(item, delay)),
            (0u8..5).prop_map(Act::Pass),
            Just(Act::Take),
            Just(Act::Done),
        ], 0..60)) {
            let mut queue = Queue::default();
            let (mut now, mut held, mut owed) = (Duration::ZERO, Vec::new(), BTreeSet::new());
            for act in acts {
                match act {
                    Act::Add(item) => {
                        queue.add(item);
                        owed.insert(item);
                    }
                    Act::AddAt(item, delay) => {
                        queue.add_at(item, now + MS * u32::from(delay));
                        owed.insert(item);
                    }
                    Act::Pass(time) => now += MS * u32::from(time),
                    Act::Take => {
                        queue.wake(now);
                        if let Some(item) = queue.take() {
                            prop_assert!(!held.contains(&item), "{item} is held twice");
                            held.push(item);
                            if !queue.places.contains_key(&item) {
                                owed.remove(&item);
                            }
                        }
                    }
                    Act::Done => {
                        if let Some(item) = held.pop() {
                            queue.done(&item);
                        }
                    }
                }
            }
            held.iter().for_each(|item| queue.done(item));
            queue.wake(Duration::MAX);
            while let Some(item) = queue.take() {
                owed.remove(&item);
                queue.done(&item);
            }
            prop_assert!(owed.is_empty(), "lost: {owed:?}");
        }
    }

    type Log = Arc<Mutex<Vec<(u128, u32, &'static str)>>>;

    /// `workers` workers that need 10 ms for each item and write down when they began which.
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
