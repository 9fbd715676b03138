//! A virtual clock and an executor.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::env::{Env, Task};

type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// An environment whose clock moves only inside [`TestEnv::block_on`] and [`TestEnv::advance`].
#[derive(Clone)]
pub struct TestEnv {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

struct State {
    now: Duration,
    random: u64,
    timers: BTreeMap<(Duration, u64), Waker>,
    timers_made: u64,
    tasks: Vec<Option<Boxed<'static>>>,
    fixed_unit: Option<f64>,
}

/// The index of the task that [`TestEnv::block_on`] itself runs.
const MAIN: usize = usize::MAX;

struct Ready {
    task: usize,
    queue: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        let mut queue = self.queue.lock().unwrap();
        if !queue.contains(&self.task) {
            queue.push_back(self.task);
        }
    }
}

/// A task of a [`TestEnv`].
pub struct TestTask {
    env: TestEnv,
    task: usize,
}

impl Task for TestTask {
    fn abort(&self) {
        let aborted = self.env.shared.state.lock().unwrap().tasks[self.task].take();
        drop(aborted);
    }
}

impl Default for TestEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl TestEnv {
    /// An environment without tasks at the start of 1970; its random numbers are the same in every test.
    pub fn new() -> Self {
        let state = State { now: Duration::ZERO, random: 1, timers: BTreeMap::new(), timers_made: 0, tasks: Vec::new(), fixed_unit: None };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), ready: Arc::default() }) }
    }

    /// Makes `random_unit` return `unit` from now on.
    pub fn fix_random_unit(&self, unit: f64) {
        self.shared.state.lock().unwrap().fixed_unit = Some(unit);
    }

    /// The number of tasks that have neither ended nor been aborted.
    pub fn tasks_alive(&self) -> usize {
        self.shared.state.lock().unwrap().tasks.iter().flatten().count()
    }

    fn waker(&self, task: usize) -> Waker {
        Arc::new(Ready { task, queue: self.shared.ready.clone() }).into()
    }

    /// Runs one task that is ready; false if there is none.
    fn step(&self, main: Option<&mut Boxed<'_>>) -> bool {
        let Some(task) = self.shared.ready.lock().unwrap().pop_front() else { return false };
        let waker = self.waker(task);
        let mut context = Context::from_waker(&waker);
        if task == MAIN {
            if let Some(main) = main {
                let _ = main.as_mut().poll(&mut context);
            }
            return true;
        }
        let Some(mut future) = self.shared.state.lock().unwrap().tasks[task].take() else { return true };
        if future.as_mut().poll(&mut context).is_pending() {
            self.shared.state.lock().unwrap().tasks[task] = Some(future);
        }
        true
    }

    /// Moves the clock to the next timer at or before `limit`; false if there is none.
    fn fire(&self, limit: Duration) -> bool {
        let mut state = self.shared.state.lock().unwrap();
        let Some(entry) = state.timers.first_entry().filter(|entry| entry.key().0 <= limit) else { return false };
        let ((at, _), waker) = entry.remove_entry();
        state.now = state.now.max(at);
        drop(state);
        waker.wake();
        true
    }

    /// Advances virtual time by `duration`: runs each task at the time at which it is due, and sets the clock to the end.
    pub fn advance(&self, duration: Duration) {
        let limit = self.monotonic() + duration;
        while self.step(None) || self.fire(limit) {}
        self.shared.state.lock().unwrap().now = limit;
    }

    /// Runs everything that need not wait for time to pass.
    pub fn settle(&self) {
        self.advance(Duration::ZERO);
    }

    /// Runs `future` to its end, however much virtual time it takes.
    ///
    /// # Panics
    /// If nothing can run, no timer is set and the future has not ended.
    pub fn block_on<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        let result = Mutex::new(None);
        let mut main: Boxed<'_> = Box::pin(async { *result.lock().unwrap() = Some(future.await) });
        self.waker(MAIN).wake();
        loop {
            while result.lock().unwrap().is_none() && self.step(Some(&mut main)) {}
            if result.lock().unwrap().is_some() {
                break;
            }
            assert!(self.fire(Duration::MAX), "deadlock: the future is pending, no task is runnable and no timer is set");
        }
        drop(main);
        self.shared.ready.lock().unwrap().retain(|task| *task != MAIN);
        result.into_inner().unwrap().unwrap()
    }
}

impl Env for TestEnv {
    type Task = TestTask;

    fn monotonic(&self) -> Duration {
        self.shared.state.lock().unwrap().now
    }

    fn wall(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::try_from(self.monotonic()).unwrap()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        let env = self.clone();
        let until = self.monotonic() + duration;
        // One timer for all polls: with one for each, every wake-up would create more timers than it used up.
        let mut place = None;
        poll_fn(move |context| {
            let mut state = env.shared.state.lock().unwrap();
            if state.now >= until {
                return Poll::Ready(());
            }
            let number = *place.get_or_insert_with(|| {
                state.timers_made += 1;
                state.timers_made
            });
            state.timers.insert((until, number), context.waker().clone());
            Poll::Pending
        })
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> TestTask {
        let mut state = self.shared.state.lock().unwrap();
        state.tasks.push(Some(Box::pin(future)));
        let task = state.tasks.len() - 1;
        drop(state);
        self.waker(task).wake();
        TestTask { env: self.clone(), task }
    }

    fn random(&self) -> u64 {
        let mut state = self.shared.state.lock().unwrap();
        state.random = state.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state.random
    }

    fn crash(&self, reason: &str) -> ! {
        panic!("the process crashes: {reason}")
    }

    fn random_unit(&self) -> f64 {
        let fixed = self.shared.state.lock().unwrap().fixed_unit;
        fixed.unwrap_or_else(|| (self.random() >> 11) as f64 / (1u64 << 53) as f64)
    }
}
