//! B I16: operations end in time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use kube_sim::rt::ProcessId;
use sim_config::time::SimTime;

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::{Failure, PoolNote, Releaser, short};

/// The time limit of an operation: `OperationTimeout`.
const BUDGET: Duration = Duration::from_secs(30);

/// The time allowed for noticing that the limit is reached.
const SLACK: Duration = Duration::from_secs(1);

/// The time limit of an operation by the slowest possible clock, which runs at a tenth of the rate.
const BY_ANY_CLOCK: Duration = Duration::from_secs(12 * BUDGET.as_secs());

/// An allocation or a release ends within 30 s (and 1 s to notice that they are over), by the clock of its process or by true time, unless
/// the process was paused meanwhile. A release that gives up because its time is up has used all of that time, and a release of an adaptor
/// ends if its process keeps running.
///
/// Broken by `byom-probe-in-critical-section`, `byom-stop-on-callers-deadline` and `byom-rollback-on-callers-deadline`. Not covered: an
/// allocation that never ends, which is a pod that never runs. Releases that are dropped with their surrounding operation are not waited
/// for: those of a successor with the call that needs the address, those of a controller with its leadership.
#[derive(Default)]
pub(crate) struct PoolOperationsEndInTime {
    /// The start times of adaptors' releases that have not ended, by process and ID.
    open: BTreeMap<(ProcessId, Arc<str>), Vec<SimTime>>,
}

impl PoolOperationsEndInTime {
    fn keep_open(&mut self, process: ProcessId, note: &PoolNote, view: &View, findings: &mut Findings) {
        match note {
            PoolNote::ReleaseBegun { id, by: Releaser::Stop | Releaser::CleanUp | Releaser::RollBack } => {
                self.open.entry((process, id.clone())).or_default().push(view.at);
                findings.expect_by(view.at + BY_ANY_CLOCK);
            }
            PoolNote::ReleaseEnded { id, by: Releaser::Stop | Releaser::CleanUp | Releaser::RollBack, .. } => {
                let Entry::Occupied(mut open) = self.open.entry((process, id.clone())) else { return };
                open.get_mut().remove(0);
                if open.get().is_empty() {
                    open.remove();
                }
            }
            _ => {}
        }
    }
}

impl PoolClaim for PoolOperationsEndInTime {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Note(process, note) = seen else { return };
        self.keep_open(*process, note, view, findings);
        let (id, effort, took, what) = match note {
            PoolNote::Allocated { id, effort, took, .. } => (id, effort, *took, "is given an address"),
            PoolNote::Refused { id, effort, took, .. } => (id, effort, *took, "is refused an address"),
            PoolNote::ReleaseEnded { id, effort, took, .. } => (id, effort, *took, "ends the release"),
            _ => return,
        };
        findings.exercised();
        if let PoolNote::ReleaseEnded { by, failure: Some(Failure::OutOfTime), .. } = note
            && *by != Releaser::Successor
            && took + SLACK < BUDGET
        {
            findings.violated(|| {
                let name = view.name(*process);
                vec![format!("{name} has no time left to release {} after {took:?}", short(id)), view.story_of(id)]
            });
        }
        if took <= BUDGET + SLACK {
            return;
        }
        // If a clock changes its rate in between, the process sleeps by the old rate and measures by the new one.
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

    fn overdue(&mut self, at: SimTime, view: &View, findings: &mut Findings) {
        let mut late = Vec::new();
        self.open.retain(|(process, id), begun| {
            let is_late = |began: SimTime| began + BY_ANY_CLOCK <= at;
            late.extend(begun.iter().filter(|began| is_late(**began)).map(|began| (*process, id.clone(), *began)));
            begun.retain(|began| !is_late(*began));
            !begun.is_empty()
        });
        for (process, id, began) in late {
            let Some(known) = view.processes.get(process) else { continue };
            let lives_on = known.runs && known.started.is_none_or(|started| started <= began);
            let stood_still = known.paused || known.resumed.is_some_and(|resumed| resumed >= began);
            if lives_on && !stood_still {
                findings.violated(|| {
                    let name = view.name(process);
                    vec![format!("{name} began to release {} at {began}, and never said how that ended", short(&id)), view.story_of(&id)]
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_byom::Effort;
    use kube_sim::trace::ProcessChange;

    use super::super::testing::{Stage, on_stage};
    use super::*;

    const CLAIM: &str = "pool-operations-end-in-time";

    fn refused(stage: &mut Stage, process: ProcessId, seconds: u64) {
        let took = Duration::from_secs(seconds);
        stage.pass(took);
        stage.note(process, PoolNote::Refused { id: "a".into(), why: Failure::OutOfTime, effort: Effort::default(), took });
    }

    fn released(stage: &mut Stage, process: ProcessId, by: Releaser, failure: Option<Failure>, seconds: u64) {
        let (effort, took) = (Effort::default(), Duration::from_secs(seconds));
        stage.note(process, PoolNote::ReleaseEnded { id: "a".into(), by, failure, effort, took });
    }

    #[test]
    fn more_than_thirty_seconds_is_too_long() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            refused(stage, adaptor, 30);
            assert_eq!(stage.excuses(), []);
            refused(stage, adaptor, 32);
            assert_eq!(stage.excuses(), [None]);
            released(stage, adaptor, Releaser::Stop, None, 60);
            assert_eq!(stage.excuses(), [None, None]);
        });
    }

    #[test]
    fn who_gives_up_for_want_of_time_has_had_his_time() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            released(stage, adaptor, Releaser::Stop, Some(Failure::OutOfTime), 30);
            released(stage, adaptor, Releaser::Stop, Some(Failure::HeldByAnother), 2);
            released(stage, adaptor, Releaser::Successor, Some(Failure::OutOfTime), 2);
            assert_eq!(stage.excuses(), []);
            released(stage, adaptor, Releaser::Controller, Some(Failure::OutOfTime), 2);
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "adaptor-0 has no time left to release a after 2s");
        });
    }

    #[test]
    fn a_release_ends_as_long_as_its_process_runs() {
        /// The number of violations after a release begins and `then` is applied.
        fn found(then: impl FnOnce(&mut Stage, ProcessId)) -> usize {
            let mut found = 0;
            on_stage(CLAIM, |stage| {
                let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
                stage.release(adaptor, "a");
                then(stage, adaptor);
                stage.pass(BY_ANY_CLOCK);
                stage.ask(adaptor, "b");
                found = stage.excuses().len();
            });
            found
        }
        assert_eq!(found(|_, _| {}), 1);
        assert_eq!(found(|stage, adaptor| stage.released(adaptor, "a")), 0);
        assert_eq!(found(|stage, adaptor| stage.crash(adaptor)), 0);
        assert_eq!(found(|stage, adaptor| stage.change(adaptor, ProcessChange::Paused)), 0);
        assert_eq!(found(|stage, adaptor| stage.change(adaptor, ProcessChange::Resumed)), 0);
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
