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
    /// Leadership was gained.
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

/// Who releases.
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
    /// It is done.
    Done,
    /// There is nothing to do any more, or others have to.
    Moot,
    /// It failed too often.
    GivenUp,
    /// Leadership was lost.
    NotLeading,
}

/// What a scan came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Pools that were looked into.
    pub pools: u64,
    /// Records that were judged.
    pub records: u64,
    /// Records that stay.
    pub kept: u64,
    /// Records that were found to go.
    pub released: u64,
    /// Records of pods that are to be traced.
    pub tracked: u64,
    /// Endpoints that were found to go although no record led to them, or that were marked already.
    pub swept: u64,
    /// Releases that failed.
    pub failed: u64,
    /// Whether a list failed.
    pub incomplete: bool,
}

/// One step, and what it is about. Durations are by the monotonic clock of the process, deadlines on its wall clock.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// It was noticed that this replica leads.
    LeadershipGained {
        /// The how-manieth time.
        term: u64,
    },
    /// It was noticed that it does not any more.
    LeadershipLost {
        /// As when it was gained.
        term: u64,
    },
    /// An event of a pod was judged.
    EventJudged {
        /// The event.
        event: &'a Event<'a>,
        /// What it means.
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
        /// The entry.
        entry: &'a PodEntry,
        /// TD-3 or TD-4.
        row: Row,
    },
    /// Its deadline has passed, and it is held back.
    EntryHeld {
        /// The entry.
        entry: &'a PodEntry,
        /// Why.
        row: Row,
    },
    /// It found no room on its way to the executors.
    ChannelFull {
        /// The entry.
        entry: &'a PodEntry,
    },
    /// It is traced no more.
    EntryDropped {
        /// The entry.
        entry: &'a PodEntry,
        /// Why.
        why: Dropped,
    },
    /// An executor has judged an entry.
    Executed {
        /// The entry.
        entry: &'a PodEntry,
        /// XD-1 to XD-4 upstream; the row of the record's table in the hardened form.
        row: Row,
    },
    /// A scan begins.
    ScanBegun {
        /// Why.
        cause: ScanCause,
        /// Whether this replica leads.
        leading: bool,
    },
    /// A record was judged, or an endpoint as if it were one. Not said of records of which a glance shows that they stay.
    RecordJudged {
        /// The pool; absent if this is about the endpoint alone.
        pool: Option<&'a str>,
        /// What was seen.
        record: &'a RecordView<'a>,
        /// What is to be done.
        verdict: &'a Verdict,
        /// On what.
        sight: Sight,
        /// By which row the caches let it go, where the API server says that it stays.
        overrules: Option<Row>,
    },
    /// A scan ended.
    ScanEnded {
        /// What it came to.
        counts: &'a ScanCounts,
        /// How long it took.
        took: Duration,
    },
    /// A release begins; said before its first write.
    ReleaseBegun {
        /// Who.
        by: Releaser,
        /// Under which name the records are.
        key: &'a ObjectKey,
        /// The records: pool, address, UID.
        what: &'a [Target],
        /// Whether the endpoint goes, too.
        endpoint: bool,
        /// Why.
        row: Row,
    },
    /// The endpoint was marked: it is terminating now, or gone.
    EndpointMarked {
        /// The endpoint.
        key: &'a ObjectKey,
    },
    /// Records were removed from a pool, or were gone already.
    RecordsRemoved {
        /// The pool.
        pool: &'a str,
        /// The UID.
        uid: &'a str,
        /// The addresses that were asked for.
        ips: &'a [IpAddr],
        /// How many of them had such a record.
        removed: usize,
    },
    /// The endpoint has lost its finalizer.
    EndpointLetGo {
        /// The endpoint.
        key: &'a ObjectKey,
    },
    /// A release ended.
    ReleaseEnded {
        /// As at its begin.
        by: Releaser,
        /// As at its begin.
        key: &'a ObjectKey,
        /// How.
        result: Result<(), &'a ReclaimError>,
    },
}

/// One record that is to go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The pool.
    pub pool: Arc<str>,
    /// The address.
    pub ip: IpAddr,
    /// The UID that the record must have.
    pub uid: Arc<str>,
}
