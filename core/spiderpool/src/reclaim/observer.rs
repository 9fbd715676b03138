//! Observer callbacks for each step of an operation.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::entry::PodEntry;
use super::error::ReclaimError;
use super::event::{Event, Meaning};
use super::record::Verdict;
use super::row::Row;
use super::view::RecordView;
use kube_machinery::api::ObjectKey;

/// Observes and changes nothing. Called between two steps: it must neither wait nor call back.
pub trait Observer: Clone + Send + Sync + 'static {
    /// Called when a step was just done or is about to be.
    fn observe(&self, step: Step<'_>);
}

/// The observer that ignores everything.
impl Observer for () {
    fn observe(&self, _: Step<'_>) {}
}

/// The cause of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScanCause {
    /// The process has started, or a caller asked for it.
    Asked,
    /// Leadership was gained; with `no-scan-on-takeover` there is no such scan.
    Takeover,
    /// An entry that did not fit into the database, or failed too often, is due.
    Missed,
    /// The interval is over.
    Interval,
}

/// The source of the state for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sight {
    /// The state in the caches.
    Cached,
    /// The API server, just now.
    Confirmed,
}

/// The part of reclaim that releases, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Releaser {
    /// A scan, because of a record.
    Scan,
    /// An executor: a deadline has passed.
    Trace,
    /// A scan, because of an endpoint that no record leads to, or that is marked.
    Sweep,
}

/// The reason why an entry is no longer in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropped {
    /// Its release succeeded, or found nothing to release.
    Done,
    /// There is nothing to do any more, or another part has to do it.
    Moot,
    /// It failed too often.
    GivenUp,
    /// Leadership was lost: the next leader learns of the pod by its own events and scans.
    NotLeading,
}

/// The counts of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScanCounts {
    /// Pools that were scanned.
    pub pools: u64,
    /// Records that were judged.
    pub records: u64,
    /// Records that stay, by the caches or, in the end, by the API server.
    pub kept: u64,
    /// Records that were judged to be released.
    pub released: u64,
    /// Records of pods that are to be traced.
    pub tracked: u64,
    /// Endpoints that were judged to be released although no record led to them, or that were marked already.
    pub swept: u64,
    /// Records, and endpoints without one, whose release or the reads before it failed.
    pub failed: u64,
    /// Whether a list failed.
    pub incomplete: bool,
}

/// One step, with the objects it concerns. Durations are by the monotonic clock of the process, deadlines on its wall clock.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// This replica noticed that it leads.
    LeadershipGained {
        /// The number of times that this process has gained leadership, including this one.
        term: u64,
    },
    /// This replica noticed that it no longer leads.
    LeadershipLost {
        /// The term that ended.
        term: u64,
    },
    /// An event of a pod was judged.
    EventJudged {
        /// The change of the pod, as the informer reported it.
        event: &'a Event<'a>,
        /// Its meaning, once all questions are answered.
        meaning: &'a Meaning,
    },
    /// A pod is traced from now on.
    EntryMade {
        /// The entry, with deadline and reason.
        entry: &'a PodEntry,
        /// The entry that it replaced.
        replaced: Option<&'a PodEntry>,
    },
    /// There was no room for an entry.
    DatabaseFull {
        /// The entry that did not fit.
        entry: &'a PodEntry,
    },
    /// The deadline of an entry has passed, and it waits for an executor.
    EntryFired {
        /// The entry, which stays in the database meanwhile unless the row is TD-4.
        entry: &'a PodEntry,
        /// TD-3, or TD-4 of a pod without addresses (G §3.2).
        row: Row,
    },
    /// The deadline of an entry has passed, and it is held back.
    EntryHeld {
        /// The entry that waits for another turn.
        entry: &'a PodEntry,
        /// TD-2 or TD-5 of the trace worker, or the row on which an executor left it.
        row: Row,
    },
    /// An entry found no room in the channel to the executors.
    ChannelFull {
        /// The entry; as long as it is in the database, the next turn of the trace worker tries again.
        entry: &'a PodEntry,
    },
    /// An entry is no longer traced.
    EntryDropped {
        /// The entry, as it was in the database.
        entry: &'a PodEntry,
        /// The reason why it was dropped.
        why: Dropped,
    },
    /// An executor has judged an entry.
    Executed {
        /// The entry, as it came through the channel.
        entry: &'a PodEntry,
        /// XD-1 to XD-4 upstream; the row of the record's table in the hardened form.
        row: Row,
    },
    /// A scan begins; reported before anything is listed, whether or not this replica leads.
    ScanBegun {
        /// The cause of the scan.
        cause: ScanCause,
        /// Whether this replica leads.
        leading: bool,
    },
    /// A record was judged, or an endpoint in the same way. Not reported for records that a quick check shows to stay.
    RecordJudged {
        /// The pool; absent if only the endpoint was judged.
        pool: Option<&'a str>,
        /// The record, with its pod and its endpoint as they were seen.
        record: &'a RecordView<'a>,
        /// The verdict on it.
        verdict: &'a Verdict,
        /// The source of the state: the caches or the API server.
        sight: Sight,
        /// The row by which the caches would release it, if the API server says that it stays.
        overrules: Option<Row>,
    },
    /// A scan ended, and so have its releases.
    ScanEnded {
        /// The counts of the scan.
        counts: &'a ScanCounts,
        /// The duration of the scan.
        took: Duration,
    },
    /// A release begins; reported before its first write.
    ReleaseBegun {
        /// The part of reclaim that decided it.
        by: Releaser,
        /// The name that the records are under.
        key: &'a ObjectKey,
        /// The records: pool, address, UID.
        what: &'a [Target],
        /// Whether the endpoint is removed, too.
        endpoint: bool,
        /// The row by which it was decided.
        row: Row,
    },
    /// The endpoint was marked: it is terminating now, or gone.
    EndpointMarked {
        /// Namespace and name of the endpoint.
        key: &'a ObjectKey,
    },
    /// Records were removed from a pool, or were gone already.
    RecordsRemoved {
        /// The name of the pool.
        pool: &'a str,
        /// The UID that the records had to have.
        uid: &'a str,
        /// The addresses to be removed.
        ips: &'a [IpAddr],
        /// The number of those that had such a record.
        removed: usize,
    },
    /// The endpoint has lost its finalizer.
    EndpointLetGo {
        /// Namespace and name of the endpoint.
        key: &'a ObjectKey,
    },
    /// A release ended, successfully or not.
    ReleaseEnded {
        /// The part of reclaim, as in [`ReleaseBegun`](Self::ReleaseBegun).
        by: Releaser,
        /// The name, as in [`ReleaseBegun`](Self::ReleaseBegun).
        key: &'a ObjectKey,
        /// The outcome; writes before an error stay.
        result: Result<(), &'a ReclaimError>,
    },
}

/// A record to be removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The name of the pool that has the record.
    pub pool: Arc<str>,
    /// The address that the record is about.
    pub ip: IpAddr,
    /// The UID that the record must have.
    pub uid: Arc<str>,
}
