//! B I16: operations end in time.

use std::time::Duration;

use sim_config::time::SimTime;

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::{PoolNote, short};

/// How long an operation may take: `OperationTimeout`.
const BUDGET: Duration = Duration::from_secs(30);

/// What it may take to notice that the time is up.
const SLACK: Duration = Duration::from_secs(1);

/// An allocation or a release ends within 30 s (and 1 s to notice that they are over), by the clock of its process or by
/// true time, unless the process stood still meanwhile.
///
/// Broken by `byom-probe-in-critical-section`. It does not see an operation that never ends: that is a pod that never runs.
pub(crate) struct PoolOperationsEndInTime;

impl PoolClaim for PoolOperationsEndInTime {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Note(process, note) = seen else { return };
        let (id, effort, took, what) = match note {
            PoolNote::Allocated { id, effort, took, .. } => (id, effort, *took, "is given an address"),
            PoolNote::Refused { id, effort, took, .. } => (id, effort, *took, "is refused an address"),
            PoolNote::ReleaseEnded { id, effort, took, .. } => (id, effort, *took, "is done with the release"),
            _ => return,
        };
        findings.exercised();
        if took <= BUDGET + SLACK {
            return;
        }
        // A clock that changes its rate meanwhile makes the process sleep by the old rate and measure by the new one.
        let sandbox = view.ledger.get(id);
        let began = match note {
            PoolNote::ReleaseEnded { .. } => sandbox.and_then(|sandbox| sandbox.release).map(|release| release.said.at),
            _ => sandbox.and_then(|sandbox| sandbox.asked).map(|said| said.at),
        };
        if began.is_some_and(|began| view.at.since(began) <= BUDGET + SLACK) {
            return;
        }
        // Clocks may differ, but not by half.
        let began = SimTime::ZERO + view.at.since(SimTime::ZERO + took * 3 / 2);
        let stood_still = view.processes.get(*process).and_then(|known| known.resumed).is_some_and(|resumed| resumed >= began);
        if !stood_still {
            findings.violated(|| {
                let (name, mutex, probes) = (view.name(*process), effort.mutex_wait, effort.probes);
                vec![
                    format!(
                        "{name} {what} for {id} after {took:?}: {mutex:?} for the mutex, {probes} probes, {} reads, {} writes",
                        effort.reads,
                        effort.writes,
                        id = short(id)
                    ),
                    view.story_of(id),
                ]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_byom::Effort;

    use super::super::testing::{Stage, on_stage};
    use crate::workload::{Failure, PoolNote};
    use kube_sim::rt::ProcessId;
    use kube_sim::trace::ProcessChange;

    const CLAIM: &str = "pool-operations-end-in-time";

    fn refused(stage: &mut Stage, process: ProcessId, seconds: u64) {
        let took = Duration::from_secs(seconds);
        stage.pass(took);
        stage.note(process, PoolNote::Refused { id: "a".into(), why: Failure::OutOfTime, effort: Effort::default(), took });
    }

    #[test]
    fn more_than_thirty_seconds_is_too_long() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            refused(stage, adaptor, 30);
            assert_eq!(stage.excuses(), []);
            refused(stage, adaptor, 32);
            assert_eq!(stage.excuses(), [None]);
            stage.note(
                adaptor,
                PoolNote::ReleaseEnded { id: "a".into(), failure: None, effort: Effort::default(), took: Duration::from_secs(60) },
            );
            assert_eq!(stage.excuses(), [None, None]);
        });
    }

    #[test]
    fn a_process_that_stood_still_is_excused_once() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            stage.change(adaptor, ProcessChange::Resumed);
            refused(stage, adaptor, 40);
            assert_eq!(stage.excuses(), []);
            stage.pass(Duration::from_secs(60));
            refused(stage, adaptor, 40);
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
