//! B §1.2, §4.1: a record names its node, its pod and the pod's namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use sim_harness::check::OLDER_VERSION;

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::{PoolNote, short};

/// A record that a process of the pool adds has the name of the process's node, from whatever source; and when the pod of its sandbox runs,
/// the record has that pod's name and namespace. Records by outside writers, and those of a rebuilt document, which come from their owners,
/// are not judged by their node. An older version leaves out the namespaces of all records that it rewrites; this is excused for as long
/// as the record stays like that: nobody completes it.
///
/// Broken by `byom-namespace-not-written`. Not covered: the pod of a sandbox that never ran.
#[derive(Default)]
pub(crate) struct RecordsSayWhoseTheyAre {
    /// The records that an older version left without a namespace, by allocation ID.
    by_older: BTreeSet<Arc<str>>,
}

impl PoolClaim for RecordsSayWhoseTheyAre {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if let Seen::Commit(change) = seen {
            let is_by_older = view.is_by_older(change);
            for edit in &change.records {
                if edit.after.as_ref().is_none_or(|record| record.pod_namespace.is_some()) {
                    self.by_older.remove(&edit.id);
                } else if is_by_older {
                    self.by_older.insert(edit.id.clone());
                }
            }
        }
        match seen {
            Seen::Commit(change) if change.written().is_some() && !change.anew => {
                let node = view.host(change.by);
                for edit in &change.records {
                    let Some(record) = edit.added() else { continue };
                    findings.exercised();
                    if record.node_name != node {
                        findings.violated(|| {
                            let (id, name) = (short(&edit.id), view.name(change.by));
                            let line = format!("{name} is on {node}, and records node `{}` for {id}", record.node_name);
                            vec![line, view.story_of_write(change)]
                        });
                    }
                }
            }
            Seen::Note(_, PoolNote::Running { id, pod, .. }) if view.ledger.is_ours(id) => {
                let Some(record) = view.state.document().and_then(|document| document.allocated.get(id)) else { return };
                findings.exercised();
                let namespace = record.pod_namespace.as_deref().unwrap_or_default();
                if *format!("{namespace}/{}", record.pod_name) != **pod {
                    let told = || format!("the record of {} is that of `{namespace}/{}`, and its pod is {pod}", short(id), record.pod_name);
                    let detail = || vec![told(), view.story_of(id)];
                    let is_left_out = record.pod_namespace.is_none() && pod.rsplit('/').next() == Some(&*record.pod_name);
                    if is_left_out && self.by_older.contains(id) {
                        findings.violated_with(OLDER_VERSION.name, detail);
                    } else {
                        findings.violated(detail);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_byom::IpAllocation;
    use sim_config::time::SimTime;

    use super::super::testing::{on_stage, on_stage_under_upgrade, record};

    const CLAIM: &str = "records-say-whose-they-are";

    #[test]
    fn a_record_has_the_node_of_its_writer_and_the_pod_that_runs() {
        let right = || IpAllocation { node_name: "adaptor-0".into(), pod_namespace: Some("ns".into()), ..record("a", "10.0.0.1") };
        for (written, violations) in [
            (right(), 0),
            (IpAllocation { node_name: "".into(), ..right() }, 1),
            (IpAllocation { node_name: "adaptor-1".into(), ..right() }, 1),
            (IpAllocation { pod_name: "other".into(), ..right() }, 1),
            (IpAllocation { pod_namespace: None, ..right() }, 1),
            (IpAllocation { pod_namespace: Some("other".into()), ..right() }, 1),
        ] {
            on_stage(CLAIM, |stage| {
                // A host has the same name as its process here.
                let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
                stage.edit(adaptor, |_| {});
                stage.ask(adaptor, "a");
                stage.edit(adaptor, |document| drop(document.allocated.insert("a".into(), written.clone())));
                stage.runs("a", "ns/pod");
                assert_eq!((stage.excuses().len(), stage.exercised()), (violations, true), "{written:?}");
            });
        }
    }

    #[test]
    fn what_people_write_is_not_held_against_the_pool() {
        on_stage(CLAIM, |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.process("kubectl"));
            stage.edit(adaptor, |_| {});
            stage.edit(person, |document| drop(document.allocated.insert("a".into(), record("a", "10.0.0.1"))));
            stage.runs("a", "ns/other");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }

    #[test]
    fn a_namespace_that_an_older_version_left_out_is_excused_until_it_is_there_again() {
        let right = || IpAllocation { node_name: "adaptor-0".into(), pod_namespace: Some("ns".into()), ..record("a", "10.0.0.1") };
        let without = || IpAllocation { pod_namespace: None, ..right() };
        let misnamed = || IpAllocation { pod_name: "other".into(), ..without() };
        let elsewhere = || IpAllocation { pod_namespace: Some("other".into()), ..right() };
        let kept = Some("older-version");
        for (upgraded, older, later, excuses) in [
            (60, without(), None, vec![kept]),
            (60, without(), Some(without()), vec![kept]),
            (60, without(), Some(right()), vec![]),
            (60, without(), Some(elsewhere()), vec![None]),
            (60, misnamed(), None, vec![None]),
            (0, without(), None, vec![None]),
        ] {
            on_stage_under_upgrade(CLAIM, &[("adaptor-1", SimTime::from_secs(upgraded))], |stage| {
                let (adaptor, outdated) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.adaptor("adaptor-1", "10.0.0.1"));
                stage.edit(adaptor, |_| {});
                stage.ask(adaptor, "a");
                stage.edit(adaptor, |document| drop(document.allocated.insert("a".into(), right())));
                stage.edit(outdated, |document| drop(document.allocated.insert("a".into(), older.clone())));
                if let Some(later) = &later {
                    stage.edit(adaptor, |document| {
                        document.allocated.insert("a".into(), later.clone());
                        document.allocated.insert("b".into(), IpAllocation { node_name: "adaptor-0".into(), ..record("b", "10.0.0.2") });
                    });
                }
                stage.runs("a", "ns/pod");
                assert_eq!(stage.excuses(), excuses, "{upgraded} {older:?} {later:?}");
            });
        }
    }
}
