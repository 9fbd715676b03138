//! A process that is paused.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::rt::ProcessId;

parameters! {
    /// A process is paused, and resumes with its memory intact.
    pub struct Pause / PauseDraft {
        /// Processes that are paused while the fault lasts, named by themselves or by their hosts.
        process: Target = target("one:*"),
    }
}

impl Inject for Pause {
    const EVENT: &'static str = "a garbage collection, SIGSTOP, CPU starvation or a migration of the machine (K §9.2 C2)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<PauseDraft>> = Drawn::ByDefault(|targeting| Some(PauseDraft { process: targeting.process()? }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Processes(self.process.clone())
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        self.process.processes(&injection.cluster.rt).into_iter().map(stand_still).collect()
    }
}

/// The effect that pauses a process.
pub(super) fn stand_still(process: ProcessId) -> ActiveEffect {
    Paused(process).into()
}

/// A process that is paused.
#[derive(Debug)]
struct Paused(ProcessId);

impl Effect for Paused {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.pause(self.0);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.resume(self.0);
    }

    fn excludes(&self, other: &Self) -> Overlap {
        if self.0 == other.0 { Overlap::SameState } else { Overlap::Separate }
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}
