//! B I6: acknowledged allocations persist.

use std::sync::Arc;

use super::view::{Change, Sandbox, Seen, View};
use super::{Findings, PoolClaim, violated};
use crate::workload::{PoolNote, short};

/// An acknowledged allocation is recorded, and stays in every later document written by a process of the pool, until its release begins or
/// its sandbox is over. A record whose release ended successfully does not come back.
///
/// A ConfigMap that was deleted, made unreadable or stripped of its map of records must be rebuilt with every allocation that a sandbox was
/// told; an allocation that was on its way to its sandbox may be lost then. A record that an outside writer removed or changed is not
/// judged any more; nor is one that an outside writer removed before its call was answered. Records that come back because a lost document
/// is rebuilt from live owners are no violation: in doubt it is right to keep an address. A document rebuilt without an owner that no list
/// of PeerPods showed is excused by `owner-lost-by-watch-cache`, unless the rebuilding process had acknowledged that allocation itself: the
/// owner's VM still refuses all other allocations.
///
/// Broken by `byom-decide-once`, `byom-recover-decide-once`, `byom-reset-after-read-error`, `byom-missing-map-is-empty-pool` and
/// `byom-release-by-address`. Not covered: answers to a process that has crashed.
pub(crate) struct AcknowledgedRecordsPersist;

impl PoolClaim for AcknowledgedRecordsPersist {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match seen {
            Seen::Commit(change) if change.by_pool => {
                if change.before.document().is_some_and(|before| before.allocated.iter().next().is_some()) {
                    findings.exercised();
                }
                for (id, excuse) in lost(change, view) {
                    violated(findings, excuse, || {
                        vec![format!("the record of {id} is lost", id = short(id)), view.story_of_write(change), view.story_of(id)]
                    });
                }
                if change.anew {
                    return;
                }
                // Without an earlier record in this document it is a delayed write, and nothing came back.
                let back = |sandbox: &Sandbox| sandbox.released.is_some() && sandbox.times_recorded > 1;
                let added = change.records.iter().filter(|edit| edit.added().is_some()).map(|edit| &edit.id);
                for id in added.filter(|id| view.ledger.is_ours(id) && view.ledger.get(id).is_some_and(back)) {
                    findings.violated(|| {
                        vec![format!("the record of {id} is back", id = short(id)), view.story_of_write(change), view.story_of(id)]
                    });
                }
            }
            Seen::Note(_, PoolNote::Allocated { id, address, .. } | PoolNote::Told { id, address }) => {
                let Some(document) = view.state.whole() else { return };
                let recorded = document.allocated.get(id).is_some_and(|record| record.ip.key() == address.key());
                // The answer of a call may be older than the rebuilt document; the record is looked up again before the sandbox is told.
                let is_told = matches!(seen, Seen::Note(_, PoolNote::Told { .. }));
                let may_be_lost = !is_told && view.ledger.get(id).is_some_and(|sandbox| sandbox.lost_on_the_way);
                if !recorded && !may_be_lost && view.ledger.is_live(id) && view.ledger.is_ours(id) {
                    findings.violated(|| {
                        let version = document.version;
                        vec![
                            format!("{id} is given {address}, which is not recorded for it in version {version}", id = short(id)),
                            view.story_of(id),
                        ]
                    });
                }
            }
            _ => {}
        }
    }
}

/// The acknowledged allocations lost by a commit of a process of the pool, by ID, with their excuses.
fn lost<'a>(change: &'a Change, view: &View) -> Vec<(&'a Arc<str>, Option<&'static str>)> {
    if change.after.document().is_none() {
        return Vec::new();
    }
    if change.anew {
        return change.missing.iter().map(|missing| (&missing.id, missing.excuse)).collect();
    }
    let gone = change.records.iter().filter(|edit| edit.lost_address().is_some()).map(|edit| &edit.id);
    let acknowledged =
        |id: &&Arc<str>| view.ledger.is_ours(id) && view.ledger.get(id).is_some_and(|sandbox| sandbox.acknowledged().is_some());
    gone.filter(acknowledged).map(|id| (id, None)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::UNLISTED;
    use super::super::testing::{Stage, give_back, on_stage, on_stage_with, take};
    use kube_sim::cluster::CACHE_COMPARED_AFTER;
    use kube_sim::rt::ProcessId;
    use kube_sim::trace::ProcessChange;

    const CLAIM: &str = "acknowledged-records-persist";

    fn two(stage: &mut Stage) -> (ProcessId, ProcessId) {
        let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2,10.0.0.3");
        stage.allocate(adaptor, "a", "10.0.0.1");
        (adaptor, stage.process("kubectl"))
    }

    #[test]
    fn a_record_that_another_writer_loses_is_a_violation() {
        on_stage(CLAIM, |stage| {
            let (adaptor, _) = two(stage);
            let stale = stage.document();
            stage.allocate(adaptor, "b", "10.0.0.2");
            assert_eq!(stage.excuses(), []);
            stage.edit(adaptor, |document| {
                *document = stale;
                take(document, "c", "10.0.0.3");
            });
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "the record of b is lost");
        });
    }

    #[test]
    fn a_record_that_is_lost_before_it_is_acknowledged_is_a_violation() {
        on_stage(CLAIM, |stage| {
            let (adaptor, _) = two(stage);
            stage.ask(adaptor, "b");
            stage.edit(adaptor, |document| take(document, "b", "10.0.0.2"));
            stage.edit(adaptor, |document| give_back(document, "b"));
            assert_eq!(stage.excuses(), []);
            stage.allocated(adaptor, "b", "10.0.0.2");
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_record_may_go_once_its_release_has_begun_but_not_come_back_after_it() {
        on_stage(CLAIM, |stage| {
            let (adaptor, _) = two(stage);
            stage.release(adaptor, "a");
            stage.edit(adaptor, |document| give_back(document, "a"));
            stage.released(adaptor, "a");
            assert_eq!(stage.excuses(), []);
            stage.edit(adaptor, |document| take(document, "a", "10.0.0.1"));
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "the record of a is back");
        });
    }

    #[test]
    fn a_record_that_was_lost_with_its_document_does_not_come_back_with_a_write_that_was_long_on_its_way() {
        for lost in [true, false] {
            on_stage(CLAIM, |stage| {
                let (adaptor, person) = two(stage);
                stage.ask(adaptor, "b");
                stage.edit(adaptor, |document| take(document, "b", "10.0.0.2"));
                if lost {
                    stage.delete(person);
                    stage.edit(adaptor, |document| take(document, "a", "10.0.0.1"));
                } else {
                    stage.edit(adaptor, |document| give_back(document, "b"));
                }
                stage.release(adaptor, "b");
                stage.released(adaptor, "b");
                stage.edit(adaptor, |document| take(document, "b", "10.0.0.2"));
                assert_eq!(stage.excuses(), if lost { vec![] } else { vec![None] });
            });
        }
    }

    #[test]
    fn what_somebody_outside_removed_is_forgiven() {
        on_stage(CLAIM, |stage| {
            let (adaptor, person) = two(stage);
            stage.edit(person, |document| give_back(document, "a"));
            stage.edit(adaptor, |_| {});
            stage.ask(adaptor, "b");
            stage.edit(adaptor, |document| take(document, "b", "10.0.0.2"));
            stage.edit(person, |document| give_back(document, "b"));
            stage.allocated(adaptor, "b", "10.0.0.2");
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn a_deleted_document_has_to_be_made_anew_with_all_that_was_told() {
        on_stage(CLAIM, |stage| {
            let (adaptor, person) = two(stage);
            stage.delete(person);
            stage.edit(adaptor, |_| {});
            assert_eq!(stage.excuses(), [], "no sandbox was told anything");
            stage.allocate(adaptor, "b", "10.0.0.2");
            stage.told(adaptor, "b", "10.0.0.2");
            let whole = stage.document();
            stage.delete(person);
            stage.edit(adaptor, |document| *document = whole);
            assert_eq!(stage.excuses(), []);
            stage.delete(person);
            stage.edit(adaptor, |_| {});
            assert_eq!(stage.excuses(), [None]);
        });
    }

    /// An event around the owner of `a`, which `adaptor-0` has written, while the document is rebuilt without it.
    #[derive(Clone, Copy, PartialEq)]
    enum Step {
        Lost(&'static str),
        Changed,
        Relisted,
        Restarted,
        /// The server has compared its cache with etcd.
        Compared,
        /// The rebuilding process has found no document, and lists the owners.
        Reads,
    }
    use Step::{Changed, Compared, Lost, Reads, Relisted, Restarted};

    /// The excuse if `adaptor-0` itself rebuilds the document, or another adaptor does.
    fn excuse_of(by_itself: bool, steps: &[Step]) -> Option<&'static str> {
        excuse_with(true, by_itself, steps)
    }

    fn excuse_with(snapshots: bool, by_itself: bool, steps: &[Step]) -> Option<&'static str> {
        let mut excuses = Vec::new();
        on_stage_with(CLAIM, snapshots, |stage| {
            let (writer, person) = two(stage);
            let maker = if by_itself { writer } else { stage.adaptor("adaptor-1", "10.0.0.1,10.0.0.2,10.0.0.3") };
            let server = stage.process("apiserver-0");
            stage.told(writer, "a", "10.0.0.1");
            stage.peer_pod("a", true);
            stage.delete(person);
            for step in steps {
                match step {
                    Lost(id) => stage.lost_peer_pod(server, id),
                    Changed => stage.peer_pod("a", true),
                    Relisted => stage.relisted_peer_pods(server),
                    Restarted => stage.change(writer, ProcessChange::Started),
                    Compared => stage.pass(CACHE_COMPARED_AFTER),
                    Reads => stage.read(maker),
                }
            }
            stage.edit(maker, |_| {});
            excuses = stage.excuses();
        });
        let [excuse] = excuses[..] else { panic!("one violation: {excuses:?}") };
        excuse
    }

    #[test]
    fn an_owner_that_a_watch_cache_has_lost_excuses_whoever_does_not_know_him_by_itself() {
        assert_eq!(excuse_of(false, &[Reads]), None);
        assert_eq!(excuse_of(false, &[Lost("b"), Reads]), None);
        assert_eq!(excuse_of(false, &[Lost("a"), Reads]), Some(UNLISTED));
        assert_eq!(excuse_of(true, &[Lost("a"), Reads]), None);
        assert_eq!(excuse_of(true, &[Lost("a"), Restarted, Reads]), Some(UNLISTED));
    }

    #[test]
    fn an_owner_excuses_nobody_where_exact_lists_ask_etcd() {
        assert_eq!(excuse_with(false, false, &[Lost("a"), Reads]), None, "servers before 1.34");
        assert_eq!(excuse_of(false, &[Lost("a"), Compared, Reads]), None, "the server lists from etcd what it can");
    }

    #[test]
    fn an_owner_is_listed_again_once_he_changes_or_the_cache_begins_anew() {
        for end in [Changed, Relisted] {
            assert_eq!(excuse_of(false, &[Lost("a"), end, Reads]), None);
            assert_eq!(excuse_of(false, &[Lost("a"), Reads, end]), Some(UNLISTED), "the list may be from before");
            assert_eq!(excuse_of(false, &[Lost("a"), end, Lost("a"), Reads]), Some(UNLISTED));
        }
    }

    #[test]
    fn what_is_lost_on_its_way_may_not_be_told() {
        on_stage(CLAIM, |stage| {
            let (adaptor, person) = two(stage);
            stage.ask(adaptor, "b");
            stage.edit(adaptor, |document| take(document, "b", "10.0.0.2"));
            stage.delete(person);
            stage.allocated(adaptor, "b", "10.0.0.2");
            stage.edit(adaptor, |_| {});
            assert_eq!(stage.excuses(), []);
            stage.told(adaptor, "b", "10.0.0.2");
            assert_eq!(stage.excuses(), [None]);
        });
        // The document exists again when the call is answered: the answer took longer.
        on_stage(CLAIM, |stage| {
            let (adaptor, person) = two(stage);
            stage.ask(adaptor, "b");
            stage.edit(adaptor, |document| take(document, "b", "10.0.0.2"));
            stage.delete(person);
            stage.edit(adaptor, |_| {});
            stage.allocated(adaptor, "b", "10.0.0.2");
            assert_eq!(stage.excuses(), []);
            stage.told(adaptor, "b", "10.0.0.2");
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn an_unreadable_document_is_no_reason_to_write_an_empty_one() {
        on_stage(CLAIM, |stage| {
            let (adaptor, person) = two(stage);
            stage.told(adaptor, "a", "10.0.0.1");
            stage.scribble(person);
            assert_eq!(stage.excuses(), []);
            stage.edit(adaptor, |_| {});
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
