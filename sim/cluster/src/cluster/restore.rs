//! etcd restored from a backup (K §9.2 B14, K201): everything committed since the backup is undone.

use std::time::Duration;

use kube_machinery::api::Verb;
use sim_config::time::{SimTime, micros};

use super::store::{Revision, Undone};
use super::{Cluster, State};
use crate::kinds::KindId;
use crate::rt::ProcessId;
use crate::trace::EventKind;

impl Cluster {
    /// Restores etcd from a backup that is `age` old, or as old as the history that is kept, which is five minutes at least. The store is
    /// then at the revision of the backup plus `bump`, and counts as compacted up to there. `by`: the process to which the trace attributes
    /// the restored states.
    ///
    /// All API servers have to be down: they would go on with the content of their caches.
    pub fn restore_backup(&self, by: ProcessId, age: Duration, bump: u64) {
        let now = self.rt.now();
        let mut state = self.lock();
        debug_assert!(state.servers.iter().all(|server| !server.up), "API servers run while etcd is restored");
        let taken = SimTime::from_micros(now.as_micros().saturating_sub(micros(age)));
        let revision = state.store.revision_at(taken);
        state.exchanges.forget_proposals();
        let undone = state.store.restore(revision, bump);
        // Each takes a revision in the trace; the last is that of the restored etcd.
        let first = (state.store.revision() + 1).saturating_sub(undone.len() as u64);
        for (revision, (kind, undone)) in (first..).zip(undone) {
            state.tell_undone(self, by, kind, revision, &undone, now);
        }
    }
}

impl State {
    fn tell_undone(&mut self, cluster: &Cluster, by: ProcessId, kind: KindId, revision: Revision, undone: &Undone, now: SimTime) {
        let verb = match (&undone.lost, &undone.restored) {
            (_, None) => Verb::Delete,
            (None, _) => Verb::Create,
            (Some(_), Some(_)) => Verb::Update,
        };
        let Undone { key, lost, restored } = undone;
        let event = EventKind::Commit {
            client: by,
            server: by,
            verb,
            kind,
            key,
            revision,
            before: lost.as_ref(),
            after: restored.as_ref(),
            content: restored.as_ref().map_or(0, |object| cluster.registry.get(kind).content_of(&**object)),
        };
        self.recorder.observe(now, event);
        if self.node_kind == Some(kind) {
            cluster.nodes.heartbeats.node_changed(key.name(), restored.as_ref(), now);
        }
    }
}
