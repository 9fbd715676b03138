//! B I14, at once: what an operation must not fail of.

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::byom::{Failure, PoolNote};

/// No operation fails because others write, too: a conflict or a lost create race is a reason to read, decide and write again.
///
/// Broken by `byom-create-race-fails` and `byom-four-attempts`. It does not see an operation that gives up because its time is
/// over, whatever it was spent on.
pub(in super::super) struct NoRaceFails;

impl PoolClaim for NoRaceFails {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Note(process, note) = seen else { return };
        let (id, failure) = match note {
            PoolNote::Refused { id, why, .. } => (Some(id), *why),
            PoolNote::ReleaseEnded { id, failure: Some(failure), .. } => (Some(id), *failure),
            PoolNote::RecoverEnded { result: Err(failure), .. } => (None, *failure),
            _ => return,
        };
        if matches!(failure, Failure::Exhausted | Failure::CreateRace) {
            findings.violated(|| {
                let name = view.name(*process);
                let what = if id.is_some() { "an operation" } else { "a recovery" };
                let first = format!("{what} of {name} fails: {failure}");
                [first].into_iter().chain(id.map(|id| view.story_of(id))).collect()
            });
        }
    }
}

/// No call for an address fails because one VM does not answer while another that is available does.
///
/// Broken by `byom-dead-vm-not-skipped`. It goes by the list as it is when the call fails.
pub(in super::super) struct FreeVmsAreFound;

impl PoolClaim for FreeVmsAreFound {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Note(process, PoolNote::Refused { id, why: Failure::NotReady, .. }) = seen else { return };
        let Some(document) = view.state.document() else { return };
        let answers = |address: &&ipam_core::byom::Address| !view.vms.is_broken(address.key());
        if let Some(free) = document.available.iter().find(answers) {
            findings.violated(|| {
                let first = format!("{} is given no VM because the one that was chosen does not answer; {free} does", view.name(*process));
                vec![first, view.story_of(id)]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_core::byom::Effort;

    use super::super::testing::on_stage;
    use crate::workload::byom::{Failure, PoolNote, VmChange};

    fn refused(why: Failure) -> PoolNote {
        PoolNote::Refused { id: "a".into(), why, effort: Effort::default(), took: Duration::from_millis(5) }
    }

    #[test]
    fn a_conflict_is_no_reason_to_fail_and_an_empty_pool_is() {
        on_stage("no-race-fails-an-operation", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            for why in [Failure::NoAvailable, Failure::OutOfTime, Failure::Writing] {
                stage.note(adaptor, refused(why));
            }
            assert_eq!(stage.excuses(), []);
            stage.note(adaptor, PoolNote::RecoverEnded { result: Err(Failure::CreateRace), effort: Effort::default() });
            assert_eq!(stage.excuses(), [None]);
        });
        on_stage("no-race-fails-an-operation", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            stage.note(adaptor, refused(Failure::Exhausted));
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_dead_vm_is_no_reason_to_fail_while_another_answers() {
        on_stage("free-vms-are-found", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.allocate(adaptor, "b", "10.0.0.1");
            stage.vm("10.0.0.2", VmChange::Broken);
            stage.note(adaptor, refused(Failure::NotReady));
            assert_eq!(stage.excuses(), []);
            stage.vm("10.0.0.2", VmChange::Mended);
            stage.note(adaptor, refused(Failure::NotReady));
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
