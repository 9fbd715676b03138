//! Situations that must occur in some runs, so that scenarios test what they are meant to.

use kube_machinery::api::Reason;
use kube_sim::trace::Outcome;

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::{Failure, PoolNote, Releaser};

/// A situation that a single event shows.
#[derive(Clone, Copy)]
pub(crate) enum Coverage {
    /// A write by a process of the pool fails with a conflict.
    PoolWritersConflict,
    /// A process of the pool creates the ConfigMap after another one did.
    ACreateRaceHappens,
    /// A VM refuses a reboot because it serves another allocation than the one that requests it.
    AVmRefuses,
    /// A record without an owner is released successfully.
    ALeakIsReclaimed,
    /// A sandbox is released because the next one of its pod needs an address.
    ASuccessorReleases,
    /// A call repeats the request for an ID that has an address.
    AllocateIsIdempotent,
    /// An address is given after more than one VM was probed while one does not answer.
    ADeadVmIsSkipped,
}

impl PoolClaim for Coverage {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let held = match (*self, seen) {
            (Coverage::PoolWritersConflict, Seen::Wrote(outcome)) => matches!(outcome, Outcome::Http(_, Reason::Conflict)),
            (Coverage::ACreateRaceHappens, Seen::Wrote(outcome)) => matches!(outcome, Outcome::Http(_, Reason::AlreadyExists)),
            (Coverage::AVmRefuses, Seen::Note(_, PoolNote::ReleaseEnded { failure, .. })) => *failure == Some(Failure::HeldByAnother),
            (Coverage::ALeakIsReclaimed, Seen::Note(_, PoolNote::ReleaseEnded { id, failure: None, .. })) => {
                view.ledger.get(id).and_then(|sandbox| sandbox.release).is_some_and(|release| release.way == Releaser::Reclaim)
            }
            (Coverage::ASuccessorReleases, Seen::Note(_, PoolNote::ReleaseBegun { by, .. })) => *by == Releaser::Successor,
            (Coverage::AllocateIsIdempotent, Seen::Note(_, PoolNote::Allocated { effort, .. })) => effort.writes == 0,
            (Coverage::ADeadVmIsSkipped, Seen::Note(_, PoolNote::Allocated { effort, .. })) => effort.probes > 1 && view.vms.any_broken(),
            _ => false,
        };
        if held {
            findings.held();
        }
    }
}

/// A process of the pool rebuilds the document after it was deleted.
#[derive(Default)]
pub(crate) struct ADocumentIsRebuilt {
    deleted: bool,
}

impl PoolClaim for ADocumentIsRebuilt {
    fn observe(&mut self, seen: &Seen<'_>, _: &View, findings: &mut Findings) {
        let Seen::Commit(change) = seen else { return };
        if self.deleted && change.written().is_some() {
            findings.held();
        }
        self.deleted = change.after.document().is_none() && (self.deleted || change.before.document().is_some());
    }
}

#[cfg(test)]
mod tests {
    use ipam_byom::Effort;

    use super::super::testing::on_stage;
    use super::*;
    use crate::workload::VmChange;

    #[test]
    fn conflicts_and_races_of_the_pool_are_seen_and_others_are_not() {
        for (claim, reason) in [("pool-writers-conflict", Reason::Conflict), ("a-create-race-happens", Reason::AlreadyExists)] {
            on_stage(claim, |stage| {
                let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.process("kubectl"));
                stage.wrote(person, reason);
                stage.wrote(adaptor, Reason::InternalError);
                assert!(!stage.held());
                stage.wrote(adaptor, reason);
                assert!(stage.held());
            });
        }
    }

    #[test]
    fn releases_are_told_apart() {
        on_stage("a-vm-refuses", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            stage.released(adaptor, "a");
            assert!(!stage.held());
            stage.release_fails(adaptor, "a", Failure::HeldByAnother);
            assert!(stage.held());
        });
        on_stage("a-leak-is-reclaimed", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            stage.note(adaptor, PoolNote::ReleaseBegun { id: "a".into(), by: Releaser::Reclaim });
            stage.release_fails(adaptor, "a", Failure::OutOfTime);
            assert!(!stage.held());
            stage.released(adaptor, "a");
            assert!(stage.held());
        });
        on_stage("a-successor-releases", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            stage.release(adaptor, "a");
            assert!(!stage.held());
            stage.note(adaptor, PoolNote::ReleaseBegun { id: "b".into(), by: Releaser::Successor });
            assert!(stage.held());
        });
    }

    #[test]
    fn a_document_is_rebuilt_only_after_it_was_deleted() {
        on_stage("a-document-is-rebuilt", |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.process("kubectl"));
            stage.edit(adaptor, |_| {});
            stage.edit(adaptor, |_| {});
            assert!(!stage.held());
            stage.delete(person);
            assert!(!stage.held());
            stage.edit(adaptor, |_| {});
            assert!(stage.held());
        });
    }

    #[test]
    fn a_dead_vm_is_skipped_only_if_there_is_one() {
        on_stage("a-dead-vm-is-skipped", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            let effort = Effort { probes: 2, ..Effort::default() };
            stage.allocated_with(adaptor, "a", "10.0.0.1", effort);
            stage.vm("10.0.0.2", VmChange::Broken);
            stage.allocated_with(adaptor, "a", "10.0.0.1", Effort { probes: 1, ..effort });
            assert!(!stage.held());
            stage.allocated_with(adaptor, "a", "10.0.0.1", effort);
            assert!(stage.held());
        });
    }
}
