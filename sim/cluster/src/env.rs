//! The environment of a simulated process, as production code sees it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube_machinery::Env;
use parking_lot::Mutex;
use sim_config::draw::{Concern, Draw};

use crate::cluster::wall_of;
use crate::rt::{ProcessId, Rt, TaskHandle};

/// Clocks, sleep, tasks and randomness of one process in one of its lives.
#[derive(Clone)]
pub struct SimEnv {
    rt: Rt,
    process: ProcessId,
    choices: Arc<Mutex<Draw>>,
}

impl SimEnv {
    /// The environment of `process` in its present life. Each life has a separate stream of draws.
    pub fn new(rt: &Rt, seed: u64, process: ProcessId) -> Self {
        let index = u64::from(process.0) << 32 | u64::from(rt.incarnation(process));
        Self { rt: rt.clone(), process, choices: Arc::new(Mutex::new(Draw::new(seed, Concern::Choices, index))) }
    }
}

impl Env for SimEnv {
    type Task = TaskHandle;

    fn monotonic(&self) -> Duration {
        self.rt.clock_of(self.process).monotonic(self.rt.now())
    }

    fn wall(&self) -> jiff::Timestamp {
        wall_of(&self.rt, self.process)
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.rt.sleep_by_clock(self.process, duration)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> TaskHandle {
        self.rt.spawn(self.process, future)
    }

    fn random(&self) -> u64 {
        self.choices.lock().u64()
    }

    fn crash(&self, reason: &str) -> ! {
        panic!("the process crashes: {reason}")
    }
}
