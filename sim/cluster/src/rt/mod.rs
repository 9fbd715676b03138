//! The runtime: tasks of simulated processes, and their clocks. The only module that names madsim.
//!
//! Model time has a resolution of 1 µs.
//!
//! Every task belongs to a process (see `process`) and is dropped at once when that process crashes; when a run ends no task is left. For
//! the order of polls see `executor`.

mod clock;
mod executor;
mod process;
mod sleep;
mod table;
mod timers;

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use executor::Executor;
use madsim::runtime::Runtime;
use parking_lot::Mutex;
use process::{Host, Process};
use sim_config::draw::{Concern, Draw};
use sim_config::time::SimTime;
use table::Table;

pub use clock::Clock;
pub use process::{HostId, Main, ProcessId, ProcessState, TaskHandle};
pub use sleep::{ClockSleep, Sleep};

/// A future in a box that is allocated before the future is made, so that a large one need not be copied into it.
pub fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}

/// A handle on the running simulation. Cheap to clone.
#[derive(Clone)]
pub struct Rt {
    inner: Arc<Inner>,
}

struct Inner {
    executor: Executor,
    hosts: Table<Host>,
    processes: Table<Arc<Process>>,
    stopping: AtomicBool,
    panics: Mutex<Vec<Panic>>,
    on_panic: Mutex<Option<OnPanic>>,
}

/// The function that is called on a panic, when its process is already down.
type OnPanic = Arc<dyn Fn(&Panic) + Send + Sync>;

/// A panic inside a task of a process. The process is down from then on.
#[derive(Clone, Debug)]
pub struct Panic {
    /// The process whose task panicked.
    pub process: ProcessId,
    /// The time of the panic, in model time.
    pub at: SimTime,
    /// The location and the text of the panic, as `file:line: message`; the file relative to the root of the workspace if it is inside.
    pub message: String,
    /// Whether the code that panicked belongs to the system under test.
    pub in_core: bool,
}

/// Runs `main` in a fresh runtime to its end, then ends every task. `seed` chooses the interleaving only.
pub fn run<T>(seed: u64, main: impl AsyncFnOnce(Rt) -> T) -> T {
    let runtime = Runtime::with_seed_and_config(Draw::new(seed, Concern::Interleaving, 0).u64(), madsim::Config::default());
    runtime.block_on(async {
        let rt = Rt::new();
        let _quiet = quiet_panics();
        let result = rt.drive(main(rt.clone()));
        rt.stop();
        result
    })
}

thread_local! {
    /// The message of the panic that is being unwound on this thread, if a task of a process raised it.
    static LAST_PANIC: RefCell<Option<(String, bool)>> = const { RefCell::new(None) };
    /// Whether panics on this thread are caught and reported by the runtime.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// The file of a panic, relative to the root of the workspace if it is inside. Sources of the registry have absolute paths and the
/// workspace's own relative ones, except for generic code that another package of it compiles: older compilers, 1.91 among them, give that
/// an absolute path, too.
fn from_workspace(file: &str) -> &str {
    let root = env!("CARGO_MANIFEST_DIR").trim_end_matches("sim/cluster");
    file.strip_prefix(root).unwrap_or(file)
}

/// Installs, once per program, a panic hook that is silent on panics caught by the runtime.
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
                let file = from_workspace(location.file());
                (format!("{file}:{}: ", location.line()), file.starts_with("core/"))
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
        Self {
            inner: Arc::new(Inner {
                executor: Executor::new(),
                hosts: Table::default(),
                processes: Table::default(),
                stopping: AtomicBool::new(false),
                panics: Mutex::default(),
                on_panic: Mutex::default(),
            }),
        }
    }

    /// Model time. It does not advance while a task is polled.
    pub fn now(&self) -> SimTime {
        self.inner.executor.now()
    }

    /// Completes at `at`, or at once if that has passed.
    pub fn sleep_until(&self, at: SimTime) -> Sleep {
        Sleep::new(self.clone(), at)
    }

    /// Completes when `duration` of model time has passed.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Ends every task of every process, and drops all timers: they may hold handles on the world.
    fn stop(&self) {
        self.inner.stopping.store(true, Ordering::Relaxed);
        self.inner.executor.clear();
        for process in self.processes() {
            self.crash(process);
        }
        *self.inner.on_panic.lock() = None;
        for process in self.inner.processes.iter() {
            process.forget_main();
        }
        // Things that tasks did when they were dropped.
        self.inner.executor.clear();
        assert_eq!(self.inner.executor.queue().live(), 0, "a task outlives its run");
    }

    /// Sets the function to call on panics. Dropped when the run ends.
    pub fn on_panic(&self, told: impl Fn(&Panic) + Send + Sync + 'static) {
        *self.inner.on_panic.lock() = Some(Arc::new(told));
    }

    /// Panics of tasks so far, in order.
    pub fn panics(&self) -> Vec<Panic> {
        self.inner.panics.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_workspace_are_told_from_its_root() {
        let root = env!("CARGO_MANIFEST_DIR").trim_end_matches("sim/cluster");
        assert_eq!(from_workspace(&format!("{root}core/kube/src/leader.rs")), "core/kube/src/leader.rs");
        for file in ["core/kube/src/leader.rs", "/registry/core/src/lib.rs"] {
            assert_eq!(from_workspace(file), file);
        }
    }
}
