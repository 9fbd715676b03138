//! B I10: recovery keeps all records.

use super::view::{Seen, View};
use super::{Findings, PoolClaim, violated};
use crate::workload::short;

/// While a process recovers, none of its commits removes or alters the record of a live sandbox whose release has not begun. A document
/// that it rebuilds has the records of all sandboxes that were told their address, and each record has the same contents as before: VM,
/// node, pod and time.
///
/// Broken by `byom-recover-decide-once`, `byom-reset-after-read-error` and `byom-missing-map-is-empty-pool`. With `byom-decide-once` it can
/// report a loss caused by another operation of the same process.
pub(crate) struct RecoveryKeepsRecords;

impl PoolClaim for RecoveryKeepsRecords {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Commit(change) = seen else { return };
        if !view.processes.get(change.by).is_some_and(|process| process.recovers) {
            return;
        }
        if change.written().is_none() {
            return;
        }
        if change.anew || change.before.document().is_some_and(|before| before.allocated.iter().next().is_some()) {
            findings.exercised();
        }
        let gone: Vec<_> = if change.anew {
            change.missing.iter().map(|missing| (&missing.id, missing.excuse)).collect()
        } else {
            let touched = change.records.iter().filter(|edit| edit.before.is_some()).map(|edit| &edit.id);
            touched.filter(|id| view.ledger.is_live(id) && view.ledger.is_ours(id)).map(|id| (id, None)).collect()
        };
        for id in &change.altered {
            findings.violated(|| {
                let name = view.name(change.by);
                vec![
                    format!("{name} recreates the document, and the record of {id} is not what it was", id = short(id)),
                    view.story_of_write(change),
                    view.story_of(id),
                ]
            });
        }
        for (id, excuse) in gone {
            violated(findings, excuse, || {
                let name = view.name(change.by);
                vec![
                    format!("{name} recovers, and its write does not keep the record of {id}", id = short(id)),
                    view.story_of_write(change),
                    view.story_of(id),
                ]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_byom::{Address, IpAllocation, Seconds};

    use super::super::testing::{give_back, on_stage, record};

    #[test]
    fn a_recovery_that_loses_a_record_is_a_violation() {
        on_stage("recovery-keeps-records", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.allocate(adaptor, "b", "10.0.0.2");
            stage.recover(adaptor);
            stage.release(adaptor, "b");
            stage.edit(adaptor, |document| give_back(document, "b"));
            assert_eq!(stage.excuses(), [], "the release of another task of the process");
            stage.edit(adaptor, |document| drop(document.allocated.insert("a".into(), record("a", "::ffff:10.0.0.1"))));
            assert_eq!(stage.excuses(), [None]);
            stage.edit(adaptor, |document| give_back(document, "a"));
            assert_eq!(stage.excuses(), [None, None]);
        });
    }

    #[test]
    fn a_recovery_that_takes_an_unreadable_document_for_an_empty_one_is_a_violation() {
        on_stage("recovery-keeps-records", |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2"), stage.process("kubectl"));
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.told(adaptor, "a", "10.0.0.1");
            stage.scribble(person);
            stage.recover(adaptor);
            stage.edit(adaptor, |_| {});
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_document_is_made_anew_with_each_record_as_it_was() {
        let second = Seconds::new("2026-01-01T00:00:01Z".parse().unwrap());
        let altered: [fn(&mut IpAllocation); 3] =
            [|_| {}, |record| record.ip = Address::new("::ffff:10.0.0.1"), |record| record.pod_namespace = Some("ns".into())];
        for (number, alter) in altered.into_iter().enumerate() {
            on_stage("recovery-keeps-records", |stage| {
                let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2"), stage.process("kubectl"));
                stage.allocate(adaptor, "a", "10.0.0.1");
                for (allocated_at, findings) in [(Seconds::ZERO, 0), (second, 1)] {
                    stage.delete(person);
                    stage.recover(adaptor);
                    stage.edit(adaptor, |document| {
                        let mut anew = IpAllocation { allocated_at, ..record("a", "10.0.0.1") };
                        alter(&mut anew);
                        document.allocated.insert("a".into(), anew);
                    });
                    stage.recovered(adaptor);
                    assert_eq!(stage.excuses().len(), findings, "{number}");
                }
            });
        }
    }
}
