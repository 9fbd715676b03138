//! Hosts, the processes on them, and the tasks of a process.
//!
//! ```text
//!   start ──► running ◄──resume──┐
//!               │  │             │
//!         crash │  └───pause──► paused
//!               ▼                │
//!             down ◄───crash─────┘
//! ```
//! A crash drops the state of every task of the process at once. A paused process is not polled; its timers run on and are noticed when it
//! resumes, as after SIGSTOP or a stop-the-world pause.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sim_config::time::SimTime;
use slab::Slab;

use super::executor::Queue;
use super::{CATCHING, Clock, LAST_PANIC, Panic, Rt};

/// A host, by its number in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub u32);

/// A process, by its number in the run. A restarted process keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId(pub u32);

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProcessState {
    /// It does not run, and has no memory.
    Down = 0,
    /// Its tasks are polled when they are due.
    Running = 1,
    /// Its tasks are not polled; it keeps its memory.
    Paused = 2,
}

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The main function of a process; called with the number of its incarnation (0 at the first start).
pub type Main = Arc<dyn Fn(u32) -> BoxFuture + Send + Sync>;

/// A process. Its tasks check it on every poll.
pub(super) struct Process {
    id: ProcessId,
    name: Arc<str>,
    host: HostId,
    main: Mutex<Option<Main>>,
    state: AtomicU8,
    /// Counts crashes; tasks of an earlier incarnation are dead.
    incarnation: AtomicU32,
    tasks: Mutex<Slab<Arc<Task>>>,
    /// Tasks that were due while the process was paused.
    parked: Mutex<Vec<Arc<Task>>>,
}

impl Process {
    /// Drops the main function: it may own handles on the world, so this breaks the cycle.
    pub(super) fn forget_main(&self) {
        let main = self.main.lock().take();
        drop(main);
    }
}

pub(super) struct Host {
    name: Arc<str>,
    clock: Mutex<Clock>,
    /// The wakers of sleeps by this clock, if its rate may change.
    sleepers: Mutex<Option<Vec<Waker>>>,
}

/// A task of a process, and its waker.
pub(super) struct Task {
    queue: Arc<Queue>,
    process: Arc<Process>,
    /// Its place among the tasks of its process.
    place: usize,
    incarnation: u32,
    /// Whether it is in the queue, or parked.
    scheduled: AtomicBool,
    ended: AtomicBool,
    /// The model time of the last poll, and the number of polls at that time.
    polled_at: AtomicU64,
    polls: AtomicU32,
    /// The future, locked while it is polled; dropped when the task has ended.
    future: Mutex<Option<BoxFuture>>,
}

/// The number of polls of a task at one time after which it counts as spinning. Tasks with much to do and nothing to wait for stay far
/// below.
const SPINS: u32 = 1_000_000;

impl Task {
    /// Counts a poll. Returns whether there were too many at one time.
    fn spins(&self, now: SimTime) -> bool {
        let at = now.as_micros();
        if self.polled_at.load(Ordering::Relaxed) != at {
            self.polled_at.store(at, Ordering::Relaxed);
            self.polls.store(0, Ordering::Relaxed);
            return false;
        }
        // One thread polls the tasks of a run.
        let polls = self.polls.load(Ordering::Relaxed) + 1;
        self.polls.store(polls, Ordering::Relaxed);
        polls >= SPINS
    }

    /// Drops the task's state now. A task that ends itself while it is polled loses its state at its next suspension point.
    fn end(&self) {
        if self.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        self.queue.forget_task();
        // A crash has dropped all tasks of earlier lives.
        if self.process.incarnation.load(Ordering::Relaxed) == self.incarnation {
            self.process.tasks.lock().remove(self.place);
        }
        let future = self.future.try_lock().and_then(|mut future| future.take());
        drop(future);
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // A run is on one thread: no need for an atomic exchange.
        if !self.scheduled.load(Ordering::Relaxed) {
            self.scheduled.store(true, Ordering::Relaxed);
            self.queue.clone().push(self);
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.scheduled.load(Ordering::Relaxed) {
            self.scheduled.store(true, Ordering::Relaxed);
            self.queue.push(self.clone());
        }
    }
}

/// A handle on a task of a process. Dropping it leaves the task running.
#[derive(Clone)]
pub struct TaskHandle(Arc<Task>);

impl TaskHandle {
    /// Drops the task's state now.
    pub fn abort(&self) {
        self.0.end();
    }
}

impl kube_machinery::Task for TaskHandle {
    fn abort(&self) {
        self.0.end();
    }
}

impl Rt {
    /// Polls a task if its process runs.
    pub(super) fn poll(&self, task: Arc<Task>) {
        if task.has_ended() {
            return;
        }
        if task.process.state.load(Ordering::Relaxed) == ProcessState::Paused as u8 {
            task.process.parked.lock().push(task.clone());
            return;
        }
        task.scheduled.store(false, Ordering::Relaxed);
        let waker = Waker::from(task.clone());
        let mut slot = task.future.lock();
        let Some(future) = slot.as_mut() else { return };
        CATCHING.set(true);
        let poll = if task.spins(self.now()) {
            // Handled as a panic: a task that goes on like this never lets time pass.
            LAST_PANIC.set(Some((format!("spins: one of its tasks was polled {SPINS} times while no time passed"), true)));
            None
        } else {
            std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker)))).ok()
        };
        CATCHING.set(false);
        if matches!(poll, Some(Poll::Pending)) && !task.has_ended() {
            return;
        }
        // Dropped last, and without the lock: it may do anything.
        let _over = slot.take();
        drop(slot);
        task.end();
        if poll.is_none() {
            let (message, in_core) = LAST_PANIC.take().unwrap_or_default();
            let process = task.process.id;
            let panic = Panic { process, at: self.now(), message, in_core };
            self.inner.panics.lock().push(panic.clone());
            self.crash(process);
            let told = self.inner.on_panic.lock().clone();
            if let Some(told) = told {
                told(&panic);
            }
        }
    }
}

impl Rt {
    /// Adds a host with clocks that run at the rate of model time. Names are not checked: two hosts can have the same.
    pub fn add_host(&self, name: &str) -> HostId {
        HostId(self.inner.hosts.push(Host { name: name.into(), clock: Mutex::default(), sleepers: Mutex::default() }))
    }

    /// Adds a process, which is down until [`Rt::start`].
    pub fn add_process(&self, host: HostId, name: &str) -> ProcessId {
        let id = ProcessId(self.inner.processes.len() as u32);
        self.inner.processes.push(Arc::new(Process {
            id,
            name: name.into(),
            host,
            main: Mutex::default(),
            state: AtomicU8::new(ProcessState::Down as u8),
            incarnation: AtomicU32::new(0),
            tasks: Mutex::default(),
            parked: Mutex::default(),
        }));
        id
    }

    /// Sets the main function that `process` runs when it starts.
    pub fn set_main<F: Future<Output = ()> + Send + 'static>(&self, process: ProcessId, main: impl Fn(u32) -> F + Send + Sync + 'static) {
        *self.process(process).main.lock() = Some(Arc::new(move |incarnation| Box::pin(main(incarnation))));
    }

    /// Every process, in the order in which they were added.
    pub fn processes(&self) -> Vec<ProcessId> {
        (0..self.inner.processes.len() as u32).map(ProcessId).collect()
    }

    /// The processes of `host`.
    pub fn processes_of(&self, host: HostId) -> Vec<ProcessId> {
        self.inner.processes.iter().filter(|process| process.host == host).map(|process| process.id).collect()
    }

    /// The process called `name`.
    pub fn find_process(&self, name: &str) -> Option<ProcessId> {
        self.inner.processes.iter().find(|process| &*process.name == name).map(|process| process.id)
    }

    /// The name of `process`.
    pub fn process_name(&self, process: ProcessId) -> Arc<str> {
        self.process(process).name.clone()
    }

    /// The host of `process`.
    pub fn host_of(&self, process: ProcessId) -> HostId {
        self.process(process).host
    }

    /// The name of `host`.
    pub fn host_name(&self, host: HostId) -> Arc<str> {
        self.inner.hosts[host.0].name.clone()
    }

    /// The clock of the host of `process`.
    pub fn clock_of(&self, process: ProcessId) -> Clock {
        *self.inner.hosts[self.process(process).host.0].clock.lock()
    }

    /// Changes the clock of `host`.
    pub fn adjust_clock(&self, host: HostId, change: impl FnOnce(&mut Clock, SimTime)) {
        let host = &self.inner.hosts[host.0];
        change(&mut host.clock.lock(), self.now());
        // Sleeps by the clock have to check it again.
        let sleepers = host.sleepers.lock().as_mut().map(std::mem::take).unwrap_or_default();
        sleepers.into_iter().for_each(Waker::wake);
    }

    /// Makes sleeps by the clock of `host` follow changes of its rate. Each of them costs a little more, so only hosts whose rate will
    /// change are worth it.
    pub fn follow_clock(&self, host: HostId) {
        self.inner.hosts[host.0].sleepers.lock().get_or_insert_default();
    }

    /// Calls `waker` when the rate of the clock of `host` changes; does nothing unless the clock is followed.
    pub(super) fn on_clock_change(&self, host: HostId, waker: &Waker) {
        if let Some(sleepers) = self.inner.hosts[host.0].sleepers.lock().as_mut()
            && !sleepers.iter().any(|known| known.will_wake(waker))
        {
            sleepers.push(waker.clone());
        }
    }

    /// The clock of `host`.
    pub(super) fn clock_of_host(&self, host: HostId) -> Clock {
        *self.inner.hosts[host.0].clock.lock()
    }

    fn process(&self, process: ProcessId) -> &Arc<Process> {
        &self.inner.processes[process.0]
    }

    /// The state of `process`.
    pub fn state(&self, process: ProcessId) -> ProcessState {
        match self.process(process).state.load(Ordering::Relaxed) {
            0 => ProcessState::Down,
            1 => ProcessState::Running,
            _ => ProcessState::Paused,
        }
    }

    /// The number of times that `process` has crashed or been stopped.
    pub fn incarnation(&self, process: ProcessId) -> u32 {
        self.process(process).incarnation.load(Ordering::Relaxed)
    }

    /// Starts `process` if it is down. Returns whether it was.
    pub fn start(&self, process: ProcessId) -> bool {
        if self.inner.stopping.load(Ordering::Relaxed) {
            return false;
        }
        let known = self.process(process);
        if known.state.load(Ordering::Relaxed) != ProcessState::Down as u8 {
            return false;
        }
        known.state.store(ProcessState::Running as u8, Ordering::Relaxed);
        let main = known.main.lock().clone();
        if let Some(main) = main {
            self.spawn(process, main(known.incarnation.load(Ordering::Relaxed)));
        }
        true
    }

    /// Ends `process` at once: every task's state is dropped. Returns whether it was up.
    ///
    /// A task may crash its own process; it gets no further than its next suspension point.
    pub fn crash(&self, process: ProcessId) -> bool {
        let process = self.process(process);
        if process.state.swap(ProcessState::Down as u8, Ordering::Relaxed) == ProcessState::Down as u8 {
            return false;
        }
        process.incarnation.fetch_add(1, Ordering::Relaxed);
        let tasks = std::mem::take(&mut *process.tasks.lock());
        for (_, task) in tasks {
            task.end();
        }
        let parked = std::mem::take(&mut *process.parked.lock());
        drop(parked);
        true
    }

    /// Pauses `process`. Returns whether it was running.
    pub fn pause(&self, process: ProcessId) -> bool {
        let (running, paused) = (ProcessState::Running as u8, ProcessState::Paused as u8);
        self.process(process).state.compare_exchange(running, paused, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Resumes a paused `process`. Returns whether it was paused.
    pub fn resume(&self, process: ProcessId) -> bool {
        let process = self.process(process);
        let (running, paused) = (ProcessState::Running as u8, ProcessState::Paused as u8);
        let resumed = process.state.compare_exchange(paused, running, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if resumed {
            for task in std::mem::take(&mut *process.parked.lock()) {
                self.inner.executor.queue().push(task);
            }
        }
        resumed
    }

    /// Runs `future` as a task of `process`. If the process is down, the future is dropped.
    pub fn spawn(&self, process: ProcessId, future: impl Future<Output = ()> + Send + 'static) -> TaskHandle {
        let process = self.process(process);
        let queue = self.inner.executor.queue();
        let down = process.state.load(Ordering::Relaxed) == ProcessState::Down as u8;
        let future = (!down).then(|| Box::pin(future) as BoxFuture);
        let task = |place: usize| {
            Arc::new(Task {
                queue: queue.clone(),
                process: process.clone(),
                place,
                incarnation: process.incarnation.load(Ordering::Relaxed),
                scheduled: AtomicBool::new(true),
                ended: AtomicBool::new(down),
                polled_at: AtomicU64::new(0),
                polls: AtomicU32::new(0),
                future: Mutex::new(future),
            })
        };
        if down {
            return TaskHandle(task(usize::MAX));
        }
        let task = {
            let mut tasks = process.tasks.lock();
            let entry = tasks.vacant_entry();
            let task = task(entry.key());
            entry.insert(task.clone());
            task
        };
        queue.add_task(task.clone());
        TaskHandle(task)
    }
}

impl fmt::Debug for Rt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rt").field("now", &self.now()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    /// A process that counts seconds, and its counter.
    fn counter(rt: &Rt) -> (ProcessId, Arc<AtomicU64>) {
        let ticks = Arc::new(AtomicU64::new(0));
        let process = rt.add_process(rt.add_host("h"), "counter");
        let (inner, count) = (rt.clone(), ticks.clone());
        rt.set_main(process, move |_| {
            let (rt, count) = (inner.clone(), count.clone());
            async move {
                loop {
                    rt.sleep(SECOND).await;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        rt.start(process);
        (process, ticks)
    }

    #[test]
    fn sleeps_end_on_the_microsecond() {
        super::super::run(1, async |rt| {
            rt.sleep(Duration::from_micros(1)).await;
            assert_eq!(rt.now(), SimTime::from_micros(1));
            rt.sleep(SECOND).await;
            assert_eq!(rt.now(), SimTime::from_micros(1_000_001));
        });
    }

    #[test]
    fn a_crashed_process_does_nothing_and_a_restarted_one_starts_over() {
        super::super::run(1, async |rt| {
            let (process, ticks) = counter(&rt);
            rt.sleep(SECOND * 5 / 2).await;
            assert!(rt.crash(process));
            rt.sleep(SECOND * 10).await;
            assert_eq!(ticks.load(Ordering::Relaxed), 2);
            assert!(rt.start(process));
            rt.sleep(SECOND * 3 / 2).await;
            assert_eq!(ticks.load(Ordering::Relaxed), 3);
            assert_eq!(rt.incarnation(process), 1);
        });
    }

    #[test]
    fn a_paused_process_does_nothing_until_it_resumes_and_its_timers_run_on() {
        super::super::run(1, async |rt| {
            let (process, ticks) = counter(&rt);
            rt.sleep(SECOND * 3 / 2).await;
            assert!(rt.pause(process));
            rt.sleep(SECOND * 10).await;
            assert_eq!(ticks.load(Ordering::Relaxed), 1);
            assert!(rt.resume(process));
            rt.sleep(SECOND / 10).await;
            assert_eq!(ticks.load(Ordering::Relaxed), 2, "the timer that was due during the pause is noticed at once");
        });
    }

    #[test]
    fn a_crash_drops_the_state_of_a_task_at_once() {
        struct Dropped(Arc<AtomicBool>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        super::super::run(1, async |rt| {
            let process = rt.add_process(rt.add_host("h"), "p");
            rt.start(process);
            let flag = Arc::new(AtomicBool::new(false));
            let guard = Dropped(flag.clone());
            rt.spawn(process, async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
            rt.sleep(SECOND).await;
            rt.crash(process);
            assert!(flag.load(Ordering::Relaxed));
        });
    }

    #[test]
    fn a_task_spawned_during_a_pause_ends_with_its_process() {
        super::super::run(1, async |rt| {
            let (process, _) = counter(&rt);
            rt.pause(process);
            rt.spawn(process, std::future::pending());
            rt.sleep(SECOND).await;
            // The run can only end when no task is left.
            rt.crash(process);
        });
    }

    #[test]
    fn a_process_that_goes_on_without_letting_time_pass_is_taken_down_and_named() {
        super::super::run(1, async |rt| {
            let (other, ticks) = counter(&rt);
            let process = rt.add_process(rt.add_host("h2"), "p");
            rt.start(process);
            let spins = std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                Poll::Pending
            });
            rt.spawn(process, spins);
            rt.sleep(SECOND * 3 / 2).await;
            assert_eq!((rt.state(process), rt.state(other)), (ProcessState::Down, ProcessState::Running));
            assert_eq!(ticks.load(Ordering::Relaxed), 1);
            let panics = rt.panics();
            assert!(panics.len() == 1 && panics[0].in_core && panics[0].message.starts_with("spins: "), "{panics:?}");
        });
    }

    #[test]
    fn a_panic_takes_its_process_down_and_nothing_else() {
        super::super::run(1, async |rt| {
            let (other, ticks) = counter(&rt);
            let process = rt.add_process(rt.add_host("h2"), "p");
            rt.start(process);
            rt.spawn(process, async { panic!("boom") });
            rt.sleep(SECOND * 3 / 2).await;
            assert_eq!(rt.state(process), ProcessState::Down);
            assert_eq!(rt.state(other), ProcessState::Running);
            assert_eq!(ticks.load(Ordering::Relaxed), 1);
            assert!(rt.panics()[0].message.ends_with("boom"), "{:?}", rt.panics());
        });
    }

    #[test]
    fn actions_of_one_instant_run_in_the_order_given() {
        super::super::run(1, async |rt| {
            let seen = Arc::new(Mutex::new(Vec::new()));
            for (at, value) in [(2, 'c'), (1, 'a'), (1, 'b')] {
                let seen = seen.clone();
                rt.at(SimTime::from_secs(at), move || seen.lock().push(value));
            }
            rt.sleep(SECOND * 3).await;
            assert_eq!(*seen.lock(), ['a', 'b', 'c']);
        });
    }

    #[test]
    fn a_task_may_crash_its_own_process() {
        super::super::run(1, async |rt| {
            let process = rt.add_process(rt.add_host("h"), "p");
            rt.start(process);
            let after = Arc::new(AtomicBool::new(false));
            let (inner, flag) = (rt.clone(), after.clone());
            rt.spawn(process, async move {
                inner.crash(process);
                inner.sleep(SECOND).await;
                flag.store(true, Ordering::Relaxed);
            });
            rt.sleep(SECOND * 3).await;
            assert!(!after.load(Ordering::Relaxed));
        });
    }
}
