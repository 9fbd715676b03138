//! Sentences about observed events. Made only when a claim is violated.

use std::net::IpAddr;
use std::sync::Arc;

use kube_sim::rt::ProcessId;

use super::{PoolChange, Said, SubnetChange, View};

/// The short form of a UID for messages.
fn short(uid: &str) -> &str {
    uid.get(..8).unwrap_or(uid)
}

impl View {
    /// The name of a process.
    pub(in super::super) fn name(&self, process: ProcessId) -> Arc<str> {
        self.rt.process_name(process)
    }

    /// The process and the time, as the end of a sentence.
    pub(in super::super) fn by(&self, said: Said) -> String {
        format!("by {} at {}", self.name(said.by), said.at)
    }

    /// A description of a pod by its UID.
    pub(in super::super) fn pod_of(&self, uid: &str) -> String {
        let Some(pod) = self.pods.get(uid) else { return format!("a pod that was never seen (uid {})", short(uid)) };
        let state = match (pod.gone, pod.is_terminating(), pod.is_alive()) {
            (true, ..) => "gone",
            (_, true, _) => "terminating",
            (.., false) => "over",
            (.., true) => "alive",
        };
        format!("{} (uid {}, {state}{})", pod.key, short(uid), pod.node().map_or(String::new(), |node| format!(", on {node}")))
    }

    /// A sentence about a write of a pool: its revision, writer and time.
    pub(in super::super) fn story_of_write(&self, change: &PoolChange) -> String {
        format!("revision {} of pool {} was written {}", change.revision, change.pool, self.by(change.said))
    }

    /// A sentence about a write of a subnet: its revision, writer and time.
    pub(in super::super) fn story_of_subnet(&self, change: &SubnetChange) -> String {
        format!("revision {} of subnet {} was written {}", change.revision, change.subnet, self.by(change.said))
    }

    /// A description of the holder of an address, and of the announcements about the address.
    pub(in super::super) fn story_of(&self, pool: &str, address: IpAddr) -> String {
        let mut parts = Vec::new();
        for holder in self.pools.holders(address) {
            let since = holder.since.map_or("before the run".to_owned(), |said| self.by(said));
            parts.push(format!("recorded in {} for {}, made {since}", holder.pool, self.pod_of(&holder.record.pod_uid)));
        }
        if parts.is_empty() {
            parts.push("not recorded".to_owned());
        }
        let mut releases: Vec<_> = self.ledger.releases_of(pool, address).collect();
        releases.sort_by_key(|(_, release)| release.said.moment);
        for (uid, release) in releases {
            parts.push(format!("release for {} ({}) begun {}", self.pod_of(uid), release.cause.sentence(), self.by(release.said)));
        }
        for (_, sandbox) in self.sandboxes.answering(address) {
            parts.push(format!("answered by a sandbox of {}", self.pod_of(&sandbox.uid)));
        }
        format!("{address}: {}", parts.join("; "))
    }
}
