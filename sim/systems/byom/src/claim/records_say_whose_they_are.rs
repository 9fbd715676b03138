//! B §1.2, §4.1: a record names its node, its pod and the pod's namespace.

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::{PoolNote, short};

/// A record that a process of the pool adds has the name of the process's node, from whatever source; and when the pod of its sandbox runs,
/// the record has that pod's name and namespace. Records by outside writers, and those of a rebuilt document, which come from their owners,
/// are not judged by their node.
///
/// Broken by `byom-namespace-not-written`. Not covered: the pod of a sandbox that never ran.
pub(crate) struct RecordsSayWhoseTheyAre;

impl PoolClaim for RecordsSayWhoseTheyAre {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
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
                    findings.violated(|| vec![told(), view.story_of(id)]);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_byom::IpAllocation;

    use super::super::testing::{on_stage, record};

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
}
