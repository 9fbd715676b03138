//! Writes the steps of reclaim in the replicas of the controller to the trace.

use std::sync::{Arc, Weak};

use ipam_spiderpool::reclaim::{Meaning, Observer, PodEntry, Sight, Step};
use kube_sim::cluster::Cluster;
use kube_sim::rt::ProcessId;

use super::reclaim_note::ReclaimNote;
use crate::coverage;

/// The observer of one replica.
#[derive(Clone)]
pub(super) struct ReclaimTraceObserver {
    pub cluster: Weak<Cluster>,
    pub process: ProcessId,
}

fn text(key: &kube_machinery::ObjectKey) -> Arc<str> {
    key.as_str().into()
}

fn who(entry: &PodEntry) -> (Arc<str>, Arc<str>) {
    (text(&entry.pod), entry.uid.clone())
}

impl Observer for ReclaimTraceObserver {
    fn observe(&self, step: Step<'_>) {
        let Some(cluster) = self.cluster.upgrade() else { return };
        coverage::of_controller(&cluster, &step);
        let Some(told) = told(step) else { return };
        cluster.note(self.process, &told);
    }
}

/// The note about a step; `None` for records that simply stay, so that the cost of a scan depends on its findings.
fn told(step: Step<'_>) -> Option<ReclaimNote> {
    Some(match step {
        Step::LeadershipGained { .. } => ReclaimNote::Leads(true),
        Step::LeadershipLost { .. } => ReclaimNote::Leads(false),
        Step::EventJudged { event, meaning: Meaning::Lost(row) } => {
            let meta = &event.pod().metadata;
            let uid = meta.uid.as_deref().unwrap_or_default().into();
            ReclaimNote::EventLost { pod: text(&kube_machinery::ObjectKey::of(event.pod())), uid, row: *row }
        }
        Step::EventJudged { .. } | Step::Executed { .. } => return None,
        Step::EntryMade { entry, .. } => {
            let (pod, uid) = who(entry);
            ReclaimNote::Entered { pod, uid, tracing: entry.tracing, stop: entry.term.stop }
        }
        Step::DatabaseFull { entry } => {
            let (pod, uid) = who(entry);
            ReclaimNote::Full { pod, uid, database: true }
        }
        Step::ChannelFull { entry } => {
            let (pod, uid) = who(entry);
            ReclaimNote::Full { pod, uid, database: false }
        }
        Step::EntryFired { entry, .. } => {
            let (pod, uid) = who(entry);
            ReclaimNote::Fired { pod, uid }
        }
        Step::EntryHeld { entry, row } => {
            let (pod, uid) = who(entry);
            ReclaimNote::Held { pod, uid, row }
        }
        Step::EntryDropped { entry, why } => {
            let (pod, uid) = who(entry);
            ReclaimNote::Dropped { pod, uid, why }
        }
        Step::ScanBegun { cause, leading } => ReclaimNote::ScanBegun { cause, leading },
        // Records that stay by the caches are not noted; any other verdict of the caches is first confirmed by the API server.
        Step::RecordJudged { sight: Sight::Cached, verdict, .. } if verdict.keeps_all() => return None,
        Step::RecordJudged { pool, record, verdict, overrules, .. } => ReclaimNote::Judged {
            pool: pool.map(Arc::from),
            address: record.ip,
            key: record.key.into(),
            uid: record.uid.into(),
            release: verdict.release,
            row: verdict.endpoint_row.filter(|_| !verdict.release).unwrap_or(verdict.row),
            overrules,
        },
        Step::ScanEnded { counts, took } => ReclaimNote::ScanEnded { counts: *counts, took },
        Step::ReleaseBegun { by, key, what, endpoint, row } => {
            ReclaimNote::ReleaseBegun { by, key: text(key), what: what.into(), endpoint, row }
        }
        Step::EndpointMarked { key } => ReclaimNote::Marked { key: text(key) },
        Step::RecordsRemoved { pool, uid, ips, removed } => {
            ReclaimNote::Removed { pool: pool.into(), uid: uid.into(), ips: ips.into(), removed }
        }
        Step::EndpointLetGo { key } => ReclaimNote::LetGo { key: text(key) },
        Step::ReleaseEnded { by, key, result } => ReclaimNote::ReleaseEnded { by, key: text(key), ok: result.is_ok() },
    })
}
