//! Processes that faults keep down.

use std::sync::Arc;
use std::time::Duration;

use super::effect::{ActiveEffect, Effect, Injection, Overlap};
use crate::cluster::Cluster;
use crate::rt::{ProcessId, ProcessState};

/// The time after a restart for which an API server's caches answer 429, if the fault does not set it.
pub(super) const INITIALIZING: Duration = Duration::from_secs(1);

/// A process that is down.
#[derive(Debug)]
struct ProcessDown {
    process: ProcessId,
    /// The time after its restart until the caches are ready, for an API server.
    initializing: Duration,
}

impl Effect for ProcessDown {
    fn apply(&self, cluster: &Arc<Cluster>) {
        match cluster.server_of(self.process) {
            Some(server) => cluster.crash_server(server),
            None => {
                cluster.crash(self.process);
            }
        }
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        match cluster.server_of(self.process) {
            Some(server) => cluster.restart_server(server, self.initializing),
            None => {
                cluster.start(self.process);
            }
        }
    }

    fn excludes(&self, other: &Self) -> Overlap {
        if self.process == other.process { Overlap::SameState } else { Overlap::Separate }
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}

/// Keeps processes down. One that is down for another reason stays down; but one in back-off does not start on a dead host.
pub(super) fn take_down(injection: &Injection<'_>, processes: Vec<ProcessId>, initializing: Duration) -> Vec<ActiveEffect> {
    let cluster = injection.cluster;
    let by_a_fault =
        |process| injection.active.iter().filter_map(ActiveEffect::downcast_ref).any(|down: &ProcessDown| down.process == process);
    let is_ours =
        |&process: &ProcessId| cluster.rt.state(process) != ProcessState::Down || by_a_fault(process) || cluster.backs_off(process);
    processes.into_iter().filter(is_ours).map(|process| ProcessDown { process, initializing }.into()).collect()
}
