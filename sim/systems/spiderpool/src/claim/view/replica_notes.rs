//! The notes of replicas of Spiderpool's controller, and what they learn when they are shown all pods again.

use std::sync::Arc;

use ipam_spiderpool::reclaim::{Dropped, Target};
use kube_sim::kinds::KindId;
use kube_sim::rt::ProcessId;

use super::agents::Shown;
use super::pods::{Place, Pod, Pods};
use super::replicas::{Announced, Replicas, Whose};
use super::{Said, Seen, View};
use crate::workload::ReclaimNote;

impl View {
    /// Finds the pods whose end a replica missed, when it is shown all pods again by a list or a stream. `shown`: the pods of its cache
    /// that are no longer among them.
    pub(super) fn relisted(
        &mut self,
        client: ProcessId,
        kind: KindId,
        shown: impl FnOnce(&mut Replicas, &Pods) -> Vec<Arc<str>>,
    ) -> Option<Seen<'static>> {
        if kind != self.kinds.pods || !self.is_replica(client) {
            return None;
        }
        let missed = shown(&mut self.replicas, &self.pods);
        for uid in &missed {
            self.replicas.misses(client, uid, self.at);
        }
        (!missed.is_empty()).then_some(Seen::Relisted(client, missed))
    }

    /// Takes in a note of a replica about reclaim.
    pub(super) fn reclaim_note(&mut self, said: Said, note: &ReclaimNote) {
        let shown = |view: &Self| view.agents.shown(said.by, Shown::Nodes);
        match note {
            ReclaimNote::Fired { uid, .. } | ReclaimNote::Judged { uid, .. } => {
                if let ReclaimNote::Fired { uid, .. } = note {
                    self.replicas.takes_in_hand(said, uid);
                }
                let shown = shown(self);
                self.replicas.judged(said.by, uid, shown);
            }
            ReclaimNote::ReleaseBegun { by, key, what, endpoint, row } => {
                let whose = |target: &Target| {
                    let pod = self.pods.get(&target.uid);
                    let owner = pod.and_then(|pod| pod.place.as_ref()).map(|place| match place {
                        Place::Ordinal(owner, _) | Place::Vm(owner) => owner.clone(),
                    });
                    Whose { pod: pod.map(|pod| pod.key.clone()), owner, node: pod.and_then(Pod::node).map(Arc::from) }
                };
                let whose: Vec<_> = what.iter().map(whose).collect();
                let (by, key, what, clock) = (*by, key.clone(), what.clone(), self.clock(said.by));
                let (nodes, node, decided, read) = (0, u64::MAX, 0, said.at);
                let announced = Announced { said, by, key, what, endpoint: *endpoint, row: *row, clock, nodes, node, decided, read };
                let shown = shown(self);
                self.replicas.announces(announced, shown, &whose);
            }
            ReclaimNote::Full { uid, .. } => self.replicas.finds_no_room(uid, said.at),
            ReclaimNote::Held { uid, .. } => self.replicas.is_done_with(uid, said.at),
            ReclaimNote::Dropped { uid, why, .. } => {
                self.replicas.is_done_with(uid, said.at);
                if matches!(why, Dropped::Done | Dropped::Moot) {
                    self.replicas.ends_tracing(uid, said.at);
                }
            }
            ReclaimNote::Entered { uid, .. } => {
                self.replicas.speaks(said.by);
                self.replicas.traces(uid);
            }
            ReclaimNote::ReleaseEnded { key, ok, .. } => {
                self.replicas.comes_to_an_end(said.at);
                if !ok {
                    self.replicas.fails(key, said.at);
                }
            }
            ReclaimNote::ScanEnded { took, .. } => self.replicas.longest_scan = self.replicas.longest_scan.max(*took),
            ReclaimNote::Leads(_)
            | ReclaimNote::EventLost { .. }
            | ReclaimNote::ScanBegun { .. }
            | ReclaimNote::Marked { .. }
            | ReclaimNote::Removed { .. }
            | ReclaimNote::LetGo { .. } => self.replicas.speaks(said.by),
        }
    }
}
