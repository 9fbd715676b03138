//! A virtual clock, an executor and a scripted API server for unit tests of what is built on this package.
//!
//! No test waits for time to pass: [`TestEnv`] moves its clock to the next timer as soon as nothing else can run.
//!
//! ```
//! use std::time::Duration;
//!
//! use kube_machinery::Env;
//! use kube_machinery::testing::TestEnv;
//!
//! let env = TestEnv::new();
//! env.block_on(env.sleep(Duration::from_secs(3600)));
//! assert_eq!(env.monotonic(), Duration::from_secs(3600));
//! ```

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::api::{ApiError, Object, Reply, Request, WatchEvent, WatchOptions};
use crate::client::{Backlog, Client, WatchStream};
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

/// The task that [`TestEnv::block_on`] itself runs.
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

    /// From now on `random_unit` is `unit`.
    pub fn fix_random_unit(&self, unit: f64) {
        self.shared.state.lock().unwrap().fixed_unit = Some(unit);
    }

    /// How many tasks have neither ended nor been aborted.
    pub fn tasks_alive(&self) -> usize {
        self.shared.state.lock().unwrap().tasks.iter().flatten().count()
    }

    fn waker(&self, task: usize) -> Waker {
        Arc::new(Ready { task, queue: self.shared.ready.clone() }).into()
    }

    /// Runs what can run now; false once nothing can.
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

    /// Lets `duration` pass.
    pub fn advance(&self, duration: Duration) {
        let limit = self.monotonic() + duration;
        while self.step(None) || self.fire(limit) {}
        self.shared.state.lock().unwrap().now = limit;
    }

    /// Runs everything that does not have to wait for time to pass.
    pub fn settle(&self) {
        self.advance(Duration::ZERO);
    }

    /// Runs `future` to its end, however much virtual time it takes.
    ///
    /// # Panics
    /// When nothing can run, no timer is set and the future has not ended.
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
        // One timer for all polls: with one for each, every wake-up would make more of them than it used up.
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

    fn random_unit(&self) -> f64 {
        let fixed = self.shared.state.lock().unwrap().fixed_unit;
        fixed.unwrap_or_else(|| (self.random() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// What a scripted server says to one request, and after how long.
pub struct Answer<K> {
    /// How long the client waits for it.
    pub after: Duration,
    /// The reply, or why there is none.
    pub result: Result<Reply<K>, ApiError>,
}

impl<K> Answer<K> {
    /// `result`, at once.
    pub fn now(result: Result<Reply<K>, ApiError>) -> Self {
        Self { after: Duration::ZERO, result }
    }

    /// `object`, at once.
    pub fn object(object: impl Into<Arc<K>>) -> Self {
        Self::now(Ok(Reply::Object(object.into())))
    }

    /// `error`, at once.
    pub fn error(error: impl Into<ApiError>) -> Self {
        Self::now(Err(error.into()))
    }
}

/// The end of a watch that a test writes to; dropped, the watch ends cleanly.
pub type Feed<K> = mpsc::UnboundedSender<Result<WatchEvent<K>, ApiError>>;
/// The end of a watch that a client reads from.
pub type Events<K> = mpsc::UnboundedReceiver<Result<WatchEvent<K>, ApiError>>;
type OnSend<K> = Box<dyn FnMut(Request<K>) -> Answer<K> + Send>;
type OnWatch<K> = Box<dyn FnMut(WatchOptions) -> Result<Events<K>, ApiError> + Send>;

struct Server<K> {
    on_send: Mutex<OnSend<K>>,
    on_watch: Mutex<OnWatch<K>>,
}

/// A client of a server that knows one type and does what two closures say. A request is carried out when it is sent.
pub struct TestClient<O> {
    env: TestEnv,
    server: Arc<Server<O>>,
    streams_lists: bool,
}

impl<O> Clone for TestClient<O> {
    fn clone(&self) -> Self {
        Self { env: self.env.clone(), server: self.server.clone(), streams_lists: self.streams_lists }
    }
}

impl<O: Object> TestClient<O> {
    /// A client whose requests are answered by `on_send`, and whose watches are opened by `on_watch`.
    pub fn new(
        env: &TestEnv,
        on_send: impl FnMut(Request<O>) -> Answer<O> + Send + 'static,
        on_watch: impl FnMut(WatchOptions) -> Result<Events<O>, ApiError> + Send + 'static,
    ) -> Self {
        let server = Server { on_send: Mutex::new(Box::new(on_send)), on_watch: Mutex::new(Box::new(on_watch)) };
        Self { env: env.clone(), server: Arc::new(server), streams_lists: false }
    }

    /// The same client, with informers that begin with a watch-list stream.
    #[must_use]
    pub fn streaming_lists(self) -> Self {
        Self { streams_lists: true, ..self }
    }

    /// A client for a test that opens no watch.
    ///
    /// # Panics
    /// When a watch is opened.
    pub fn without_watch(env: &TestEnv, on_send: impl FnMut(Request<O>) -> Answer<O> + Send + 'static) -> Self {
        Self::new(env, on_send, |_| unreachable!("the test opens no watch"))
    }
}

fn cast<A: Any, B: Any>(value: A) -> B {
    let boxed: Box<dyn Any> = Box::new(value);
    *boxed.downcast().expect("the scripted server knows one type")
}

impl<O: Object> Client for TestClient<O> {
    type Watch<K: Object> = TestWatch<K>;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        let answer: Answer<K> = cast((self.server.on_send.lock().unwrap())(cast(request)));
        if answer.after > Duration::ZERO {
            self.env.sleep(answer.after).await;
        }
        answer.result
    }

    async fn watch<K: Object>(&self, _namespace: Option<Arc<str>>, options: WatchOptions) -> Result<TestWatch<K>, ApiError> {
        let events: Events<K> = cast((self.server.on_watch.lock().unwrap())(options)?);
        Ok(TestWatch::new(events))
    }

    fn streams_lists(&self) -> bool {
        self.streams_lists
    }
}

/// The stream fed by a test; a dropped feed is a clean end. It can be deferred; what was written is in its backlog when its reader has run.
pub struct TestWatch<K> {
    arrived: Arc<Mutex<Arrived<K>>>,
}

/// What a test wrote.
struct Arrived<K> {
    events: Events<K>,
    backlog: VecDeque<WatchEvent<K>>,
    deferred: bool,
    reader: Option<Waker>,
}

impl<K> TestWatch<K> {
    /// A stream fed by whoever holds the other end.
    pub fn new(events: Events<K>) -> Self {
        Self { arrived: Arc::new(Mutex::new(Arrived { events, backlog: VecDeque::new(), deferred: false, reader: None })) }
    }
}

impl<K> Arrived<K> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<WatchEvent<K>, ApiError>>> {
        loop {
            if !self.deferred
                && let Some(event) = self.backlog.pop_front()
            {
                return Poll::Ready(Some(Ok(event)));
            }
            match self.events.poll_recv(context) {
                Poll::Ready(Some(Ok(event))) if self.deferred && !matches!(event, WatchEvent::Error(_)) => self.backlog.push_back(event),
                Poll::Pending => {
                    self.reader = Some(context.waker().clone());
                    return Poll::Pending;
                }
                ready => return ready,
            }
        }
    }
}

impl<K: Object> WatchStream<K> for TestWatch<K> {
    async fn next(&mut self) -> Option<Result<WatchEvent<K>, ApiError>> {
        poll_fn(|context| self.arrived.lock().unwrap().poll(context)).await
    }

    fn backlog(&self) -> Option<Arc<dyn Backlog<K>>> {
        Some(self.arrived.clone())
    }
}

impl<K> std::fmt::Debug for Arrived<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrived").field("deferred", &self.deferred).finish_non_exhaustive()
    }
}

impl<K: Object> Backlog<K> for Mutex<Arrived<K>> {
    fn defer(&self, deferred: bool) {
        let mut arrived = self.lock().unwrap();
        arrived.deferred = deferred;
        arrived.reader.take().into_iter().for_each(Waker::wake);
    }

    fn has_arrived(&self) -> bool {
        let arrived = self.lock().unwrap();
        arrived.deferred && !arrived.backlog.is_empty()
    }

    fn take(&self, take: &mut dyn FnMut(WatchEvent<K>)) {
        if self.has_arrived() {
            let backlog = std::mem::take(&mut self.lock().unwrap().backlog);
            backlog.into_iter().for_each(take);
        }
    }
}
