//! The runtime: tasks of simulated processes on a scaled clock. The only module that names madsim.
//!
//! One madsim millisecond stands for one model microsecond. madsim sleeps at least 1 ms, so model time has a
//! resolution of 1 µs; and it advances its clock by 50 to 100 ns per poll, which is far below that resolution.
//!
//! Every task belongs to a process (see `process`) and is dropped at once when that process crashes; when a run
//! ends no task is left, because madsim leaks tasks that never end.

mod clock;
mod process;
mod sleep;
mod table;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use madsim::runtime::{Handle, NodeHandle, Runtime};
use madsim::time::TimeHandle;
use parking_lot::Mutex;
use process::{Host, Process};
use sim_config::draw::{Concern, Draw};
use sim_config::time::SimTime;
use table::Table;

pub use clock::Clock;
pub use process::{HostId, Main, ProcessId, ProcessState, TaskHandle};
pub use sleep::{ClockSleep, Sleep};

/// The latest time of a timer, in microseconds: after ten thousand years, and madsim's clock can still count it.
const HORIZON: u64 = u64::MAX / 4;
/// How often madsim's bookkeeping of ended tasks is pruned, in spawns.
const PRUNE_EVERY: usize = 256;
/// Polls after which a run is taken to be stuck in a loop that never lets time pass.
const POLLS_MAX: u64 = 2_000_000_000;

/// A handle on the running simulation. Cheap to clone.
#[derive(Clone)]
pub struct Rt {
    inner: Arc<Inner>,
}

struct Inner {
    time: TimeHandle,
    /// Model time in microseconds. It stands still while a task is polled, so it is read once per poll.
    now: AtomicU64,
    /// Puts timers into madsim's heap: one sleep that is set anew for each costs less than a sleep for each.
    timer: Mutex<Timer>,
    handle: Handle,
    node: NodeHandle,
    hosts: Table<Host>,
    processes: Table<Arc<Process>>,
    timeline: Mutex<Timeline>,
    live_tasks: AtomicUsize,
    spawned: AtomicUsize,
    polls: AtomicU64,
    stopping: AtomicBool,
    idle: Mutex<Option<Waker>>,
    panics: Mutex<Vec<Panic>>,
    on_panic: Mutex<Option<OnPanic>>,
}

/// Told of a panic when its process is already down.
type OnPanic = Arc<dyn Fn(&Panic) + Send + Sync>;

struct Timer {
    /// When madsim's clock began.
    base: Instant,
    sleep: madsim::time::Sleep,
}

/// A panic inside a task of a process. The process is down from then on.
#[derive(Clone, Debug)]
pub struct Panic {
    /// Whose task it was.
    pub process: ProcessId,
    /// When.
    pub at: SimTime,
    /// `file:line: message`.
    pub message: String,
    /// Whether the code that panicked belongs to the system under test.
    pub in_core: bool,
}

/// Delayed actions of the world itself: they belong to no process and nothing can crash or pause them.
#[derive(Default)]
struct Timeline {
    queue: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    waker: Option<Waker>,
    /// When the timeline's task wakes next.
    armed: Option<SimTime>,
}

struct Entry {
    at: SimTime,
    sequence: u64,
    action: Box<dyn FnOnce() + Send>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// Runs `main` in a fresh runtime to its end, then ends every task. `seed` chooses the interleaving only.
pub fn run<T>(seed: u64, main: impl AsyncFnOnce(Rt) -> T) -> T {
    let runtime = Runtime::with_seed_and_config(Draw::new(seed, Concern::Interleaving, 0).u64(), madsim::Config::default());
    runtime.block_on(async {
        let rt = Rt::new();
        let _quiet = quiet_panics();
        let timeline = rt.clone();
        rt.spawn_raw(async move { timeline.run_timeline().await });
        rt.on_the_clock(async {
            let result = main(rt.clone()).await;
            rt.stop().await;
            result
        })
        .await
    })
}

thread_local! {
    /// The message of the panic that is being unwound on this thread, if a task of a process raised it.
    static LAST_PANIC: RefCell<Option<(String, bool)>> = const { RefCell::new(None) };
    /// Whether panics on this thread are caught and reported by the runtime.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Installs, once per program, a panic hook that keeps quiet for panics which the runtime catches.
fn quiet_panics() -> impl Drop {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CATCHING.get() {
                return default(info);
            }
            let text = info.payload_as_str().unwrap_or("(no message)");
            let (place, in_core) = info.location().map_or((String::new(), false), |location| {
                // Registry sources come with absolute paths; the workspace's own with relative ones.
                (format!("{}:{}: ", location.file(), location.line()), location.file().starts_with("core/"))
            });
            LAST_PANIC.set(Some((format!("{place}{text}"), in_core)));
        }));
    });
    struct Quiet;
    impl Drop for Quiet {
        fn drop(&mut self) {
            CATCHING.set(false);
        }
    }
    Quiet
}

impl Rt {
    fn new() -> Self {
        let (handle, time) = (Handle::current(), TimeHandle::current());
        // Not on madsim's main node, whose bookkeeping of ended tasks can never be pruned.
        let node = handle.create_node().name("model").build();
        Self {
            inner: Arc::new(Inner {
                now: AtomicU64::new(0),
                timer: Mutex::new(Timer { base: time.now_instant() - time.elapsed(), sleep: time.sleep(Duration::ZERO) }),
                time,
                handle,
                node,
                hosts: Table::default(),
                processes: Table::default(),
                timeline: Mutex::default(),
                live_tasks: AtomicUsize::new(0),
                spawned: AtomicUsize::new(0),
                polls: AtomicU64::new(0),
                stopping: AtomicBool::new(false),
                idle: Mutex::default(),
                panics: Mutex::default(),
                on_panic: Mutex::default(),
            }),
        }
    }

    /// Model time.
    pub fn now(&self) -> SimTime {
        SimTime::from_micros(self.inner.now.load(Ordering::Relaxed))
    }

    /// Reads madsim's clock: at the beginning of every poll.
    fn refresh(&self) {
        let elapsed = self.inner.time.elapsed();
        let micros = elapsed.as_secs() * 1_000 + u64::from(elapsed.subsec_millis());
        self.inner.now.store(micros, Ordering::Relaxed);
    }

    /// `future`, with the clock read before each of its polls.
    async fn on_the_clock<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| {
            self.refresh();
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Has madsim wake the task of `cx` at `at`, or at once if that has passed.
    fn arm(&self, cx: &mut Context<'_>, at: SimTime) {
        if at == SimTime::NEVER {
            return;
        }
        let mut timer = self.inner.timer.lock();
        // One model microsecond is one madsim millisecond.
        let deadline = timer.base + Duration::from_millis(at.as_micros().min(HORIZON));
        let mut sleep = Pin::new(&mut timer.sleep);
        sleep.as_mut().reset(deadline);
        if sleep.poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    /// Completes at `at`, or at once if that has passed.
    pub fn sleep_until(&self, at: SimTime) -> Sleep {
        Sleep::new(self.clone(), at)
    }

    /// Completes when `duration` of model time has passed.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Arranges that `waker` is called at `at`. Cannot be undone; a wake too many is harmless.
    pub fn wake_at(&self, waker: &Waker, at: SimTime) {
        self.arm(&mut Context::from_waker(waker), at);
    }

    /// Carries out `action` at `at` (now if that has passed), whatever happens to any process meanwhile. Actions of
    /// one instant run in the order in which they were given.
    pub fn at(&self, at: SimTime, action: impl FnOnce() + Send + 'static) {
        let mut timeline = self.inner.timeline.lock();
        let sequence = timeline.sequence;
        timeline.sequence += 1;
        timeline.queue.push(Reverse(Entry { at, sequence, action: Box::new(action) }));
        if timeline.armed.is_none_or(|armed| at < armed)
            && let Some(waker) = &timeline.waker
        {
            waker.wake_by_ref();
        }
    }

    async fn run_timeline(&self) {
        std::future::poll_fn(|cx| {
            self.refresh();
            loop {
                if self.inner.stopping.load(Ordering::Relaxed) {
                    // Unfinished actions may hold handles on the world: dropping them breaks the cycle.
                    let rest = std::mem::take(&mut self.inner.timeline.lock().queue);
                    drop(rest);
                    return Poll::Ready(());
                }
                let now = self.now();
                let mut timeline = self.inner.timeline.lock();
                match timeline.queue.peek() {
                    Some(Reverse(entry)) if entry.at <= now => {
                        let Some(Reverse(entry)) = timeline.queue.pop() else { unreachable!("just peeked") };
                        drop(timeline);
                        (entry.action)();
                    }
                    next => {
                        let next = next.map(|Reverse(entry)| entry.at);
                        timeline.waker = Some(cx.waker().clone());
                        if next != timeline.armed
                            && let Some(at) = next.filter(|&at| at != SimTime::NEVER)
                        {
                            self.wake_at(cx.waker(), at);
                        }
                        timeline.armed = next;
                        return Poll::Pending;
                    }
                }
            }
        })
        .await;
    }

    /// Starts a madsim task and keeps count, so that [`Rt::stop`] can wait for the last one.
    fn spawn_raw(&self, future: impl Future<Output = ()> + Send + 'static) {
        struct Live(Rt);
        impl Drop for Live {
            fn drop(&mut self) {
                if self.0.inner.live_tasks.fetch_sub(1, Ordering::Relaxed) == 1
                    && let Some(waker) = self.0.inner.idle.lock().take()
                {
                    waker.wake();
                }
            }
        }
        self.inner.live_tasks.fetch_add(1, Ordering::Relaxed);
        let live = Live(self.clone());
        if self.inner.spawned.fetch_add(1, Ordering::Relaxed) % PRUNE_EVERY == PRUNE_EVERY - 1 {
            self.inner.handle.metrics().num_tasks();
        }
        // Dropping a madsim join handle detaches the task.
        drop(self.inner.node.spawn(async move {
            let _live = live;
            future.await;
        }));
    }

    /// Ends every task of every process and waits until the last one is gone.
    async fn stop(&self) {
        self.inner.stopping.store(true, Ordering::Relaxed);
        for process in self.processes() {
            self.crash(process);
        }
        *self.inner.on_panic.lock() = None;
        for process in self.inner.processes.iter() {
            process.forget_main();
        }
        let waker = self.inner.timeline.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
        std::future::poll_fn(|cx| {
            *self.inner.idle.lock() = Some(cx.waker().clone());
            if self.inner.live_tasks.load(Ordering::Relaxed) == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Says who is told of panics. Forgotten when the run ends.
    pub fn on_panic(&self, told: impl Fn(&Panic) + Send + Sync + 'static) {
        *self.inner.on_panic.lock() = Some(Arc::new(told));
    }

    /// Panics of tasks so far, in order.
    pub fn panics(&self) -> Vec<Panic> {
        self.inner.panics.lock().clone()
    }
}
