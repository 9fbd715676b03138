//! The order in which tasks are polled, and the advance of time.
//!
//! ```text
//!   timers ──time goes on to the earliest──► ready ──one is drawn──► poll ──► ready, timers
//! ```
//! One task of madsim carries the whole run: a task's way through madsim's own queue and timers costs about a thousand instructions, and
//! through this executor two hundred. Madsim provides the context (no clock and no randomness of the machine reaches the code that runs in
//! it), the random numbers that decide which task is polled next, and the clock, which is advanced with model time.
//!
//! Time does not advance while anything is ready. Everything due at one time becomes ready at once, and then any order is possible.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use madsim::rand::{GlobalRng, Rng};
use madsim::time::TimeHandle;
use parking_lot::Mutex;
use sim_config::time::SimTime;

use super::Rt;
use super::process::Task;
use super::timers::{Action, Due, TimerId, Timers};

/// The number of polls after which a run counts as stuck in a loop that never lets time pass.
const POLLS_MAX: u64 = 2_000_000_000;

/// Something that continues when its turn comes.
enum Ready {
    /// A task of a process.
    Task(Arc<Task>),
    /// The world's actions that are due.
    Actions,
    /// The main task, which runs the simulation.
    Main,
}

/// The ready tasks and actions. Tasks put themselves here when they are woken.
#[derive(Default)]
pub(super) struct Queue {
    ready: Mutex<Vec<Ready>>,
    /// Tasks that have not ended, ready or not.
    live: AtomicUsize,
}

impl Queue {
    /// Adds a task of a process that is ready.
    pub(super) fn push(&self, task: Arc<Task>) {
        self.ready.lock().push(Ready::Task(task));
    }

    /// Adds a new task, which is ready.
    pub(super) fn add_task(&self, task: Arc<Task>) {
        self.live.fetch_add(1, Ordering::Relaxed);
        self.push(task);
    }

    /// Notes that a task has ended.
    pub(super) fn forget_task(&self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of tasks that have not ended.
    pub(super) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Takes out one of the ready items, each with the same probability.
    fn draw(&self, random: &mut GlobalRng) -> Option<Ready> {
        let mut ready = self.ready.lock();
        match ready.len() {
            0 | 1 => ready.pop(),
            n => {
                let at = random.gen_range(0..n as u32);
                Some(ready.swap_remove(at as usize))
            }
        }
    }
}

/// Wakes the main task.
struct MainWaker {
    queue: Arc<Queue>,
    scheduled: AtomicBool,
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.scheduled.swap(true, Ordering::Relaxed) {
            self.queue.ready.lock().push(Ready::Main);
        }
    }
}

/// Actions that are due, in the order in which they were given.
#[derive(Default)]
struct Actions {
    due: VecDeque<Action>,
    /// Whether they are among the ready items.
    scheduled: bool,
}

/// The ready items, and the timers.
pub(super) struct Executor {
    clock: TimeHandle,
    /// Model time in microseconds.
    now: AtomicU64,
    queue: Arc<Queue>,
    actions: Mutex<Actions>,
    timers: Mutex<Timers>,
    polls: AtomicU64,
}

impl Executor {
    /// An executor at the beginning of time; it needs the context of madsim.
    pub(super) fn new() -> Self {
        Self {
            clock: TimeHandle::current(),
            now: AtomicU64::new(0),
            queue: Arc::default(),
            actions: Mutex::default(),
            timers: Mutex::default(),
            polls: AtomicU64::new(0),
        }
    }

    pub(super) fn now(&self) -> SimTime {
        SimTime::from_micros(self.now.load(Ordering::Relaxed))
    }

    pub(super) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    fn count_poll(&self) {
        // One thread polls the tasks of a run: no need for an atomic addition.
        let count = self.polls.load(Ordering::Relaxed) + 1;
        assert!(count < POLLS_MAX, "the run does not come to an end: {POLLS_MAX} polls");
        self.polls.store(count, Ordering::Relaxed);
    }

    /// Makes the world act as soon as it gets its turn.
    fn act_soon(&self, action: Action) {
        let mut actions = self.actions.lock();
        actions.due.push_back(action);
        if !std::mem::replace(&mut actions.scheduled, true) {
            self.queue.ready.lock().push(Ready::Actions);
        }
    }

    /// Carries out the due actions, and those that become due by them.
    fn act(&self) {
        loop {
            let mut actions = self.actions.lock();
            let Some(action) = actions.due.pop_front() else {
                actions.scheduled = false;
                return;
            };
            drop(actions);
            self.count_poll();
            action();
        }
    }

    /// Advances time to the earliest timer, and makes everything ready that is due then.
    fn advance(&self, due: &mut Vec<Due>) {
        let at = self.timers.lock().fire(due).expect("something is left to happen, or everybody would wait for ever");
        self.clock.advance(at.since(self.now()));
        self.now.store(at.as_micros(), Ordering::Relaxed);
        for due in due.drain(..) {
            match due {
                Due::Wake(waker) => waker.wake(),
                Due::Act(action) => self.act_soon(action),
            }
        }
    }

    /// Drops all ready items and timers.
    pub(super) fn clear(&self) {
        // Dropped without the locks: they may hold handles on anything.
        let timers = std::mem::take(&mut *self.timers.lock());
        let actions = std::mem::take(&mut *self.actions.lock());
        let ready = std::mem::take(&mut *self.queue.ready.lock());
        drop((timers, actions, ready));
    }
}

impl Rt {
    /// Runs `main` to its end, and all other tasks meanwhile.
    pub(super) fn drive<T>(&self, main: impl Future<Output = T>) -> T {
        let executor = &self.inner.executor;
        let mut random = madsim::rand::thread_rng();
        let mut due = Vec::new();
        let mut main = pin!(main);
        let main_waker = Arc::new(MainWaker { queue: executor.queue.clone(), scheduled: AtomicBool::new(false) });
        main_waker.wake_by_ref();
        let waker = Waker::from(main_waker.clone());
        loop {
            match executor.queue.draw(&mut random) {
                Some(Ready::Task(task)) => {
                    executor.count_poll();
                    self.poll(task);
                }
                Some(Ready::Actions) => executor.act(),
                Some(Ready::Main) => {
                    executor.count_poll();
                    main_waker.scheduled.store(false, Ordering::Relaxed);
                    if let Poll::Ready(result) = main.as_mut().poll(&mut Context::from_waker(&waker)) {
                        return result;
                    }
                }
                None => executor.advance(&mut due),
            }
        }
    }

    /// Carries out `action` at `at` (now if that has passed), whatever happens to any process meanwhile. Actions of
    /// one instant run in the order in which they were given.
    pub fn at(&self, at: SimTime, action: impl FnOnce() + Send + 'static) {
        let executor = &self.inner.executor;
        let action = Box::new(action);
        if at <= self.now() {
            executor.act_soon(action);
        } else {
            // Dropped without the lock: it may hold handles on anything.
            let never = executor.timers.lock().set(at, Due::Act(action)).err();
            drop(never);
        }
    }

    /// Arranges that `waker` is called at `at`, or at once if that has passed. Cannot be undone; an extra wake is harmless.
    pub fn wake_at(&self, waker: &Waker, at: SimTime) {
        if at <= self.now() {
            waker.wake_by_ref();
        } else {
            self.set_timer(at, waker);
        }
    }

    /// Sets a timer that calls `waker` at `at`, which has not passed. `None` = that time never comes.
    pub(super) fn set_timer(&self, at: SimTime, waker: &Waker) -> Option<TimerId> {
        self.inner.executor.timers.lock().set(at, Due::Wake(waker.clone())).ok()
    }

    /// Makes a timer that has not fired call `waker` instead.
    pub(super) fn wake_instead(&self, timer: TimerId, waker: &Waker) {
        let before = self.inner.executor.timers.lock().wake_instead(timer, waker);
        drop(before);
    }

    /// Cancels a timer that has not fired.
    pub(super) fn cancel_timer(&self, timer: TimerId) {
        let before = self.inner.executor.timers.lock().cancel(timer);
        drop(before);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::future::{pending, poll_fn};
    use std::time::Duration;

    use super::super::{ProcessId, run};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A process that is up and does nothing yet.
    fn process(rt: &Rt, name: &str) -> ProcessId {
        let process = rt.add_process(rt.add_host(name), name);
        rt.start(process);
        process
    }

    /// The order in which three tasks, the world and the main task go on, all due at one time.
    fn order(seed: u64) -> String {
        run(seed, async |rt| {
            let order = Arc::new(Mutex::new(String::new()));
            for name in ["a", "b", "c"] {
                let (order, sleep) = (order.clone(), rt.sleep(SECOND));
                rt.spawn(process(&rt, name), async move {
                    sleep.await;
                    order.lock().push_str(name);
                });
            }
            let acting = order.clone();
            rt.at(SimTime::from_secs(1), move || acting.lock().push('w'));
            rt.sleep(SECOND).await;
            order.lock().push('m');
            rt.sleep(SECOND).await;
            order.lock().clone()
        })
    }

    #[test]
    fn those_due_at_one_time_go_on_in_any_order_and_a_seed_always_chooses_the_same() {
        let mut times = BTreeMap::new();
        for seed in 0..2_400 {
            *times.entry(order(seed)).or_insert(0) += 1;
        }
        assert_eq!(times.len(), 120, "{times:?}");
        // 20 are expected of each; fewer than 4 or more than 45 of any would have a probability of 1 in 1,000.
        assert!(times.values().all(|times| (4..=45).contains(times)), "{times:?}");
        for seed in 0..50 {
            assert_eq!(order(seed), order(seed));
        }
    }

    #[test]
    fn time_stands_still_while_anything_is_ready_and_no_wake_during_a_poll_is_lost() {
        run(1, async |rt| {
            let (busy, polls) = (rt.clone(), Arc::new(AtomicU64::new(0)));
            let counter = polls.clone();
            rt.spawn(
                process(&rt, "busy"),
                poll_fn(move |cx| {
                    assert_eq!(busy.now(), SimTime::ZERO);
                    cx.waker().wake_by_ref();
                    if counter.fetch_add(1, Ordering::Relaxed) < 100_000 { Poll::Pending } else { Poll::Ready(()) }
                }),
            );
            rt.sleep(Duration::from_micros(1)).await;
            assert_eq!((rt.now(), polls.load(Ordering::Relaxed)), (SimTime::from_micros(1), 100_001));
        });
    }

    /// The number of polls of a task that polls a sleep of a second at its first poll, and then drops or keeps it.
    fn polls(keeps: bool) -> u64 {
        run(1, async |rt| {
            let polls = Arc::new(AtomicU64::new(0));
            let (counter, mut sleep) = (polls.clone(), Some(rt.sleep(SECOND)));
            rt.spawn(
                process(&rt, "sleeper"),
                poll_fn(move |cx| {
                    counter.fetch_add(1, Ordering::Relaxed);
                    if let Some(sleep) = &mut sleep {
                        let _ = std::pin::Pin::new(sleep).poll(cx);
                    }
                    if !keeps {
                        sleep = None;
                    }
                    Poll::Pending
                }),
            );
            rt.sleep(2 * SECOND).await;
            polls.load(Ordering::Relaxed)
        })
    }

    #[test]
    fn nobody_is_woken_for_a_sleep_that_was_dropped() {
        assert_eq!((polls(true), polls(false)), (2, 1));
    }

    #[test]
    fn a_wake_of_a_task_that_has_ended_reaches_nobody() {
        run(1, async |rt| {
            let (process, polls) = (process(&rt, "p"), Arc::new(AtomicU64::new(0)));
            let (counter, waker) = (polls.clone(), Arc::new(Mutex::new(None)));
            let told = waker.clone();
            let task = poll_fn(move |cx: &mut Context<'_>| {
                counter.fetch_add(1, Ordering::Relaxed);
                *told.lock() = Some(cx.waker().clone());
                Poll::<()>::Pending
            });
            rt.spawn(process, task);
            rt.sleep(SECOND).await;
            let waker = waker.lock().take().unwrap();
            // Once the task is woken and then ended, once ended and then woken.
            waker.wake_by_ref();
            rt.crash(process);
            rt.start(process);
            rt.sleep(SECOND).await;
            waker.wake();
            rt.sleep(SECOND).await;
            assert_eq!(polls.load(Ordering::Relaxed), 1);
        });
    }

    /// Spawns a task and sets a timer when it is dropped.
    struct Stubborn {
        rt: Rt,
        process: ProcessId,
        world: Arc<()>,
    }

    impl Drop for Stubborn {
        fn drop(&mut self) {
            let (for_task, for_action, rt) = (self.world.clone(), self.world.clone(), self.rt.clone());
            self.rt.spawn(self.process, async move {
                let _world = for_task;
                pending().await
            });
            self.rt.at(self.rt.now() + SECOND, move || drop((for_action, rt)));
            self.rt.start(self.process);
        }
    }

    #[test]
    fn nothing_outlives_a_run() {
        let world = Arc::new(());
        let inner = run(1, async |rt| {
            for (name, paused) in [("up", false), ("paused", true)] {
                let process = process(&rt, name);
                let stubborn = Stubborn { rt: rt.clone(), process, world: world.clone() };
                let sleep = rt.sleep(2 * SECOND);
                rt.spawn(process, async move {
                    let _stubborn = stubborn;
                    sleep.await;
                });
                let main = (rt.clone(), world.clone());
                rt.set_main(process, move |_| {
                    let _main = &main;
                    pending()
                });
                if paused {
                    rt.pause(process);
                }
            }
            let (later, kept) = (rt.clone(), world.clone());
            rt.at(SimTime::from_secs(3), move || drop((later, kept)));
            rt.sleep(SECOND).await;
            Arc::downgrade(&rt.inner)
        });
        assert_eq!((Arc::strong_count(&world), inner.strong_count()), (1, 0));
    }
}
