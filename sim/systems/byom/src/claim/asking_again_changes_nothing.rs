//! B I7: repeating a call changes nothing.

use std::sync::Arc;

use ipam_byom::Address;
use kube_machinery::FxHashMap;

use super::view::{Seen, View};
use super::{Findings, PoolClaim, violated};
use crate::workload::{PoolNote, short};

/// The required result of a repeated call.
struct Repeat {
    address: Address,
    /// The number of outside writes when the call was made.
    meddled: u64,
    /// Whether the document was readable then.
    whole: bool,
}

/// A repeated call for an ID that holds an address gets the same address, and writes nothing.
///
/// Broken by `byom-decide-once` (the record was lost in between). It needs a workload that repeats calls.
#[derive(Default)]
pub(crate) struct AskingAgainChangesNothing {
    given: FxHashMap<Arc<str>, Address>,
    repeats: FxHashMap<Arc<str>, Repeat>,
}

impl PoolClaim for AskingAgainChangesNothing {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Note(process, note) = seen else { return };
        match note {
            PoolNote::Asked { id } => {
                if let Some(address) = self.given.get(id).cloned() {
                    self.repeats.insert(id.clone(), Repeat { address, meddled: view.meddled, whole: view.state.whole().is_some() });
                }
            }
            PoolNote::Allocated { id, address, effort, .. } => {
                let repeat = self.repeats.remove(id);
                self.given.insert(id.clone(), address.clone());
                let Some(repeat) = repeat else { return };
                findings.exercised();
                let changed = repeat.address.key() != address.key();
                let undisturbed = repeat.whole && repeat.meddled == view.meddled;
                if changed || undisturbed && effort.writes > 0 {
                    violated(findings, view.ledger.excuse_of([id]).filter(|_| changed), || {
                        let (name, before, writes) = (view.name(*process), &repeat.address, effort.writes);
                        vec![
                            format!(
                                "{name} asked again for {id}, which had {before}, and was given {address} after {writes} writes",
                                id = short(id)
                            ),
                            view.story_of(id),
                        ]
                    });
                }
            }
            PoolNote::ReleaseBegun { id, .. } | PoolNote::Ended { id, .. } => {
                self.given.remove(id);
                self.repeats.remove(id);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_byom::Effort;

    use super::super::testing::on_stage;

    #[test]
    fn another_address_and_a_write_are_violations() {
        on_stage("asking-again-changes-nothing", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.ask(adaptor, "a");
            stage.allocated_with(adaptor, "a", "10.0.0.1", Effort::default());
            assert_eq!(stage.excuses(), []);
            stage.ask(adaptor, "a");
            stage.allocated_with(adaptor, "a", "10.0.0.2", Effort::default());
            assert_eq!(stage.excuses(), [None]);
            stage.ask(adaptor, "a");
            stage.allocated_with(adaptor, "a", "10.0.0.2", Effort { writes: 1, ..Effort::default() });
            assert_eq!(stage.excuses(), [None, None]);
            stage.release(adaptor, "a");
            stage.ask(adaptor, "a");
            stage.allocated_with(adaptor, "a", "10.0.0.1", Effort { writes: 1, ..Effort::default() });
            assert_eq!(stage.excuses(), [None, None], "after its release it is a new allocation");
        });
    }

    #[test]
    fn a_write_that_made_a_deleted_document_anew_is_fine() {
        on_stage("asking-again-changes-nothing", |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2"), stage.process("kubectl"));
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.ask(adaptor, "a");
            stage.delete(person);
            stage.allocated_with(adaptor, "a", "10.0.0.1", Effort { writes: 1, ..Effort::default() });
            assert_eq!(stage.excuses(), []);
        });
    }
}
