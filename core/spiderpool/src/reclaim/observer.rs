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

/// Looks on and changes nothing. Called between two steps: it must neither wait nor call back.
pub trait Observer: Clone + Send + Sync + 'static {
    /// A step was just done, or is about to be.
    fn observe(&self, step: Step<'_>);
}

/// Nobody looks on.
impl Observer for () {
    fn observe(&self, _: Step<'_>) {}
}

/// Why a scan begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScanCause {
    /// The process has started, or somebody else asked for it.
    Asked,
    /// Leadership was gained; with `no-scan-on-takeover` there is no such scan.
    Takeover,
    /// What did not fit into the database, or failed too often, is due.
    Missed,
    /// The interval is over.
    Interval,
}

/// On what a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sight {
    /// What the caches show.
    Cached,
    /// What the API server said just now.
    Confirmed,
}

/// Which part of reclaim releases, and on what account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Releaser {
    /// A scan, on account of a record.
    Scan,
    /// An executor: a deadline has passed.
    Trace,
    /// A scan, on account of an endpoint that no record leads to, or that is marked.
    Sweep,
}

/// Why an entry is no longer in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropped {
    /// Its release went well, or found nothing to release.
    Done,
    /// There is nothing to do any more, or others have to.
    Moot,
    /// It failed too often.
    GivenUp,
    /// Leadership was lost: who leads next learns of the pod by events and scans of its own.
    NotLeading,
}

/// What a scan came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScanCounts {
    /// Pools that were looked into.
    pub pools: u64,
    /// Records that were judged.
    pub records: u64,
    /// Records that stay, by the caches or by the API server after all.
    pub kept: u64,
    /// Records that were found to go.
    pub released: u64,
    /// Records of pods that are to be traced.
    pub tracked: u64,
    /// Endpoints that were found to go although no record led to them, or that were marked already.
    pub swept: u64,
    /// Records, and endpoints without one, whose release or the reads before it failed.
    pub failed: u64,
    /// Whether a list failed.
    pub incomplete: bool,
}

/// One step, and what it is about. Durations are by the monotonic clock of the process, deadlines on its wall clock.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// It was noticed that this replica leads.
    LeadershipGained {
        /// How often this process has gained leadership, this time included.
        term: u64,
    },
    /// It was noticed that it does not any more.
    LeadershipLost {
        /// As when it was gained.
        term: u64,
    },
    /// An event of a pod was judged.
    EventJudged {
        /// The change of the pod, as the informer told it.
        event: &'a Event<'a>,
        /// What it means, once all questions are answered.
        meaning: &'a Meaning,
    },
    /// A pod is traced from now on.
    EntryMade {
        /// The entry: until when, and why.
        entry: &'a PodEntry,
        /// Whose place it took.
        replaced: Option<&'a PodEntry>,
    },
    /// There was no room for it.
    DatabaseFull {
        /// What did not fit.
        entry: &'a PodEntry,
    },
    /// Its deadline has passed, and it waits for an executor.
    EntryFired {
        /// The entry, which stays in the database meanwhile unless the row is TD-4.
        entry: &'a PodEntry,
        /// TD-3, or TD-4 of a pod without addresses (G §3.2).
        row: Row,
    },
    /// Its deadline has passed, and it is held back.
    EntryHeld {
        /// The entry that waits for another turn.
        entry: &'a PodEntry,
        /// TD-2 or TD-5 of the trace worker, or the row on which an executor left it.
        row: Row,
    },
    /// It found no room on its way to the executors.
    ChannelFull {
        /// The entry; as long as it is in the database, the next turn of the trace worker tries again.
        entry: &'a PodEntry,
    },
    /// It is traced no more.
    EntryDropped {
        /// The entry, as it was in the database.
        entry: &'a PodEntry,
        /// Why nobody traces it any more.
        why: Dropped,
    },
    /// An executor has judged an entry.
    Executed {
        /// The entry, as it came through the channel.
        entry: &'a PodEntry,
        /// XD-1 to XD-4 upstream; the row of the record's table in the hardened form.
        row: Row,
    },
    /// A scan begins; said before anything is listed, whether or not this replica leads.
    ScanBegun {
        /// What the scan was begun for.
        cause: ScanCause,
        /// Whether this replica leads.
        leading: bool,
    },
    /// A record was judged, or an endpoint as if it were one. Not said of records of which a glance shows that they stay.
    RecordJudged {
        /// The pool; absent if this is about the endpoint alone.
        pool: Option<&'a str>,
        /// The record, with its pod and its endpoint as they were seen.
        record: &'a RecordView<'a>,
        /// What is to be done.
        verdict: &'a Verdict,
        /// Whether the caches or the API server showed it so.
        sight: Sight,
        /// By which row the caches let it go, where the API server says that it stays.
        overrules: Option<Row>,
    },
    /// A scan ended; its releases have ended, too.
    ScanEnded {
        /// What it came to.
        counts: &'a ScanCounts,
        /// How long it took.
        took: Duration,
    },
    /// A release begins; said before its first write.
    ReleaseBegun {
        /// Which part of reclaim decided it.
        by: Releaser,
        /// Under which name the records are.
        key: &'a ObjectKey,
        /// The records: pool, address, UID.
        what: &'a [Target],
        /// Whether the endpoint goes, too.
        endpoint: bool,
        /// The row on which it was decided.
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
        /// The addresses that were asked for.
        ips: &'a [IpAddr],
        /// How many of them had such a record.
        removed: usize,
    },
    /// The endpoint has lost its finalizer.
    EndpointLetGo {
        /// Namespace and name of the endpoint.
        key: &'a ObjectKey,
    },
    /// A release ended, well or not.
    ReleaseEnded {
        /// As at its begin.
        by: Releaser,
        /// As at its begin.
        key: &'a ObjectKey,
        /// Whether all of it was carried out; what was written before an error stays.
        result: Result<(), &'a ReclaimError>,
    },
}

/// One record that is to go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The name of the pool that has the record.
    pub pool: Arc<str>,
    /// The address that the record is about.
    pub ip: IpAddr,
    /// The UID that the record must have.
    pub uid: Arc<str>,
}
