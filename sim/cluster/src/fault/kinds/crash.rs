//! Crashes: a process loses its memory and starts again.

use std::sync::Arc;

use sim_config::Choice;
use sim_config::time::Span;

use crate::cluster::{Cluster, WritePoint};
use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::parameters::{between, counted_from_1, parameters, target};
use crate::fault::process_down::{INITIALIZING, take_down};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// A process loses its memory and starts again after `down`.
    pub struct Crash / CrashDraft {
        /// Processes that lose their memory, all at the same time, named by themselves or by their hosts.
        process: Target = target("one:*"),
        /// The time for which it is down.
        down: Span = between(Span::millis(100), Span::secs(60)),
    }
}

impl Inject for Crash {
    const EVENT: &'static str = "a crash, an OOM kill or a restart of a container (K §9.2 C1)";
    const LASTS: Lasts<Self> = Lasts::Recovers(|fault| Some(fault.down));
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<CrashDraft>> =
        Drawn::ByDefault(|targeting| Some(CrashDraft { process: targeting.process()?, ..CrashDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Processes(self.process.clone())
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        take_down(injection, self.process.processes(&injection.cluster.rt), INITIALIZING)
    }
}

parameters! {
    /// A process crashes at its n-th API write, before its commit or right after it and before the answer.
    pub struct CrashAtWrite / CrashAtWriteDraft {
        /// Processes that crash, each at its own `nth` write, named by themselves or by their hosts.
        process: Target = target("one:*"),
        /// The number of the write, counting from 1 over the whole run.
        nth: u32 = Choice::Between(1, 20) => counted_from_1("writes"),
        /// Whether it crashes after the commit instead of before it.
        after_commit: bool = Choice::OneOf(vec![false, true]),
        /// The time for which it is down.
        down: Span = between(Span::millis(100), Span::secs(10)),
    }
}

impl Inject for CrashAtWrite {
    const EVENT: &'static str = "a crash in the middle of a change that takes several writes (K §9.1, intermediate state)";
    const LASTS: Lasts<Self> = Lasts::Recovers(|fault| Some(fault.down));
    const BEGINS: Trigger<Wait<Self>> = Trigger::Request(Wait { nth: |fault| fault.nth, arm: Self::arm });
    const DRAWN: Drawn<Aim<CrashAtWriteDraft>> =
        Drawn::ByDefault(|targeting| Some(CrashAtWriteDraft { process: targeting.process()?, ..CrashAtWriteDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Processes(self.process.clone())
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        take_down(injection, injection.reached_by.into_iter().collect(), INITIALIZING)
    }
}

impl CrashAtWrite {
    fn arm(&self, index: u32, cluster: &Arc<Cluster>) {
        for client in self.process.processes(&cluster.rt) {
            cluster.add_write_point(WritePoint { fault: index, client, nth: self.nth, after_commit: self.after_commit });
        }
    }
}
