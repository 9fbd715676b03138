//! Sentences about past events, made only when a claim is violated.

use std::sync::Arc;

use kube_sim::rt::ProcessId;

use super::View;
use super::document::Change;
use super::ledger::Said;
use super::processes::{Read, Sight};
use crate::workload::short;

fn seen(sight: Sight) -> String {
    let revision = if sight.revision == 0 { "as it was before the run".to_owned() } else { format!("at revision {}", sight.revision) };
    match sight.version {
        Some(version) => format!("version {version} {revision}"),
        None => format!("no document {revision}"),
    }
}

fn story_of_read(read: &Read) -> String {
    let (from, to) = (read.from, read.to);
    if from.revision == to.revision {
        format!("{} ({})", seen(to), to.at)
    } else {
        format!("something from {} ({}) to {} ({})", seen(from), from.at, seen(to), to.at)
    }
}

impl View {
    /// The name of a process.
    pub(in super::super) fn name(&self, process: ProcessId) -> Arc<str> {
        self.rt.process_name(process)
    }

    fn said(&self, said: Said) -> String {
        format!("by {} at {}", self.name(said.by), said.at)
    }

    /// A description of a write: the writer, the old and the new state, and the writer's reads.
    pub(in super::super) fn story_of_write(&self, change: &Change) -> String {
        let reads: Vec<String> = change.read.iter().rev().flatten().map(story_of_read).collect();
        let read = if reads.is_empty() { "had not read the pool".to_owned() } else { format!("had read {}", reads.join(", then ")) };
        let what = change.after.version().map_or("what is no document".to_owned(), |version| format!("version {version}"));
        let over = seen(Sight { at: change.at, revision: change.before_revision, version: change.before.version() });
        format!("{} {read}, and wrote {what} over {over}, as revision {} ({})", self.name(change.by), change.revision, change.at)
    }

    /// The known life of a sandbox, in order.
    pub(in super::super) fn story_of(&self, id: &str) -> String {
        let mut parts = Vec::new();
        if let Some(sandbox) = self.ledger.get(id) {
            parts.extend(sandbox.asked.map(|said| format!("asked for {}", self.said(said))));
            parts.extend(sandbox.recorded.as_ref().map(|recorded| {
                let version = recorded.version.map_or(String::new(), |version| format!(" (version {version})"));
                format!("recorded with {} in revision {}{version} {}", recorded.address, recorded.revision, self.said(recorded.said))
            }));
            parts.extend(sandbox.allocated.as_ref().map(|grant| format!("given {} {}", grant.address, self.said(grant.said))));
            parts.extend(sandbox.told.as_ref().map(|grant| format!("told {} {}", grant.address, self.said(grant.said))));
            parts.extend(
                sandbox.release.map(|release| format!("its release ({}) begun {}", release.way.sentence(), self.said(release.said))),
            );
            parts.extend(sandbox.ended.map(|at| format!("over at {at}")));
            parts.extend(
                sandbox
                    .removed
                    .as_ref()
                    .map(|removed| format!("its record removed in revision {} {}", removed.revision, self.said(removed.said))),
            );
            parts.extend(sandbox.released.map(|at| format!("released with success at {at}")));
        }
        parts.extend(
            self.ledger.hand(id).map(|hand| format!("its record up to revision {} ({}): {}", hand.revision, hand.said.at, hand.excuse)),
        );
        let id = short(id);
        if parts.is_empty() { format!("{id}: nothing is known of it") } else { format!("{id}: {}", parts.join("; ")) }
    }
}
