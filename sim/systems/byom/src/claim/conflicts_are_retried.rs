//! B I14, call by call: races do not make calls fail.

use std::time::Duration;

use ipam_byom::Effort;
use kube_sim::rt::ProcessId;

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::{Failure, PoolNote, Releaser, short};

/// No allocation, release or recovery fails because all its writes lost a race, unless a request failed for another reason or its time was
/// up.
///
/// Broken by `byom-create-race-fails` (B W2) and `byom-four-attempts` (B W23). Not covered: operations in which both happened.
pub(crate) struct ConflictsAreRetried;

/// The duration below which an operation did not fail for lack of time.
const IN_TIME: Duration = Duration::from_secs(25);

impl PoolClaim for ConflictsAreRetried {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Note(process, note) = seen else { return };
        let (id, effort, failure, took) = match note {
            PoolNote::Allocated { effort, .. } | PoolNote::ReleaseEnded { failure: None, effort, .. } => {
                if effort.conflicts + effort.create_races > 0 {
                    findings.exercised();
                }
                return;
            }
            PoolNote::RecoverEnded { result: Err(Failure::Exhausted | Failure::CreateRace | Failure::Writing), .. } => {
                return recovery(*process, view, findings);
            }
            PoolNote::Refused { id, why, effort, took } => (id, effort, *why, *took),
            PoolNote::ReleaseEnded { id, by, failure: Some(failure), effort, took } => {
                // Such a release has the remaining time of the call that it is part of.
                let of_call = view.ledger.asked_since(*process).filter(|_| *by == Releaser::Successor);
                (id, effort, *failure, of_call.map_or(*took, |asked| view.at.since(asked).max(*took)))
            }
            _ => return,
        };
        let Effort { reads, writes, conflicts, create_races, .. } = *effort;
        if conflicts + create_races > 0 {
            findings.exercised();
        }
        if !matches!(failure, Failure::Exhausted | Failure::CreateRace | Failure::Writing)
            || writes == 0
            || writes != conflicts + create_races
            || took >= IN_TIME
        {
            return;
        }
        let sandbox = view.ledger.get(id);
        let asked = sandbox.and_then(|sandbox| sandbox.asked).map(|said| said.at);
        let begun = sandbox.and_then(|sandbox| sandbox.release).map(|release| release.said.at);
        let since = if matches!(note, PoolNote::Refused { .. }) { asked } else { begun };
        let failed = view.processes.get(*process).and_then(|known| known.failed);
        if failed.is_none() || since.is_some() && failed < since {
            findings.violated(|| {
                let name = view.name(*process);
                vec![
                    format!(
                        "{name} gives up on {} ({failure}): of {writes} writes {conflicts} met a conflict and {create_races} came second \
                         in creating the ConfigMap; {reads} reads, and no request failed otherwise",
                        short(id)
                    ),
                    view.story_of(id),
                ]
            });
        }
    }
}

fn recovery(process: ProcessId, view: &View, findings: &mut Findings) {
    // A recovery made by a call for an address has the time of that call, and is judged with it.
    if view.ledger.is_asked(process) {
        return;
    }
    let Some(known) = view.processes.get(process) else { return };
    let Some(began) = known.recovery.map(|recovery| recovery.at) else { return };
    if known.raced >= Some(began) && known.failed < Some(began) && view.at.since(began) < IN_TIME {
        findings.violated(|| {
            let name = view.name(process);
            vec![format!("{name} gives up its recovery, begun at {began}: a write of it came second, and no request failed otherwise")]
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use kube_machinery::api::Reason;

    use super::super::testing::{Stage, on_stage};
    use super::*;

    pub(in super::super) fn refused(stage: &mut Stage, process: ProcessId, why: Failure, effort: Effort) {
        stage.note(process, PoolNote::Refused { id: "a".into(), why, effort, took: Duration::from_millis(9) });
    }

    #[test]
    fn a_call_that_only_came_second_may_not_fail() {
        on_stage("conflicts-are-retried", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            stage.wrote(adaptor, Reason::InternalError);
            stage.ask(adaptor, "a");
            stage.wrote(adaptor, Reason::Conflict);
            refused(stage, adaptor, Failure::NoAvailable, Effort { writes: 4, conflicts: 4, ..Effort::default() });
            refused(stage, adaptor, Failure::Writing, Effort { writes: 4, conflicts: 3, ..Effort::default() });
            assert_eq!(stage.excuses(), []);
            refused(stage, adaptor, Failure::Exhausted, Effort { writes: 4, conflicts: 4, ..Effort::default() });
            refused(stage, adaptor, Failure::Writing, Effort { writes: 1, create_races: 1, ..Effort::default() });
            assert_eq!(stage.excuses(), [None, None]);
            stage.wrote(adaptor, Reason::InternalError);
            refused(stage, adaptor, Failure::Exhausted, Effort { writes: 4, conflicts: 4, ..Effort::default() });
            assert_eq!(stage.excuses(), [None, None]);
        });
    }

    #[test]
    fn a_release_that_only_came_second_may_not_fail_in_time() {
        // The releaser, the seconds that the surrounding call waits before the release begins, the seconds that the release takes, and the
        // expected excuses.
        for (by, before, seconds, excuses) in [
            (Releaser::Stop, 0, 1, &[None][..]),
            (Releaser::Stop, 0, 30, &[]),
            (Releaser::Successor, 0, 1, &[None]),
            (Releaser::Successor, 29, 1, &[]),
            (Releaser::Stop, 29, 1, &[None]),
        ] {
            on_stage("conflicts-are-retried", |stage| {
                let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
                stage.ask(adaptor, "b");
                stage.pass(Duration::from_secs(before));
                stage.note(adaptor, PoolNote::ReleaseBegun { id: "a".into(), by });
                stage.pass(Duration::from_secs(seconds));
                stage.wrote(adaptor, Reason::Conflict);
                let (effort, took) = (Effort { writes: 1, conflicts: 1, ..Effort::default() }, Duration::from_secs(seconds));
                stage.note(adaptor, PoolNote::ReleaseEnded { id: "a".into(), by, failure: Some(Failure::Writing), effort, took });
                assert_eq!(stage.excuses(), excuses, "{by:?} after {before} s in {seconds} s");
            });
        }
    }

    #[test]
    fn a_recovery_that_only_came_second_may_not_fail() {
        on_stage("conflicts-are-retried", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            let fails = |stage: &mut Stage| {
                stage.note(adaptor, PoolNote::RecoverEnded { result: Err(Failure::Writing), effort: Effort::default(), of_call: false });
            };
            stage.recover(adaptor);
            stage.wrote(adaptor, Reason::AlreadyExists);
            stage.wrote(adaptor, Reason::InternalError);
            fails(stage);
            stage.recover(adaptor);
            fails(stage);
            assert_eq!(stage.excuses(), []);
            stage.ask(adaptor, "a");
            stage.recover(adaptor);
            stage.wrote(adaptor, Reason::Conflict);
            fails(stage);
            refused(stage, adaptor, Failure::OutOfTime, Effort { writes: 1, conflicts: 1, ..Effort::default() });
            assert_eq!(stage.excuses(), [], "the time of the call was up");
            stage.recover(adaptor);
            stage.wrote(adaptor, Reason::AlreadyExists);
            fails(stage);
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
