//! Notes of the replicas of Spiderpool's controller about reclaim. Claims and figures are based on them.
//!
//! ```text
//!  tracing:  Entered ─► Fired ─► (Released ...) ─► Dropped       Full, Held, Lost: what delays it
//!  a scan:   ScanBegun ─► Judged (each record that does not just stay) ─► (Released ...) ─► ScanEnded
//!  release:  ReleaseBegun ─► Marked ─► Removed (each pool) ─► LetGo ─► ReleaseEnded
//! ```

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::reclaim::{Dropped, Releaser, Row, ScanCause, ScanCounts, Target, Tracing};
use jiff::Timestamp;
use kube_machinery::word_hash;
use kube_sim::trace::Note;
use kube_sim::trace::entity::{About, Entity};

/// A note of a replica. The process that wrote it is that of the event. `pod` and `key` are `NAMESPACE/NAME`: `pod` of the pod, `key` of
/// its endpoint and its records (for a VM's pod it is that of the VM).
#[derive(Clone, Debug, Hash)]
pub enum ReclaimNote {
    /// The replica noticed that it leads, or that it no longer does (G §8).
    Leads(bool),
    /// An event of a pod could not be judged (G §3.1, `event lost`).
    EventLost {
        /// The pod of the event.
        pod: Arc<str>,
        /// The UID of that pod; empty if its object has none.
        uid: Arc<str>,
        /// The row that says what could not be read or was missing.
        row: Row,
    },
    /// A pod is traced from now on (G §1.3).
    Entered {
        /// The pod of the entry, not its VM.
        pod: Arc<str>,
        /// The UID that is traced, whichever pod has the name now.
        uid: Arc<str>,
        /// The state of the pod: terminating, ended or gone.
        tracing: Tracing,
        /// The wall-clock deadline; reclaim acts strictly after it.
        stop: Timestamp,
    },
    /// There is no room for a pod: in the database, or on the way to the executors (G §1.2, §1.3).
    Full {
        /// The pod of the entry that found no room.
        pod: Arc<str>,
        /// The UID that is to be traced, whichever pod has the name now.
        uid: Arc<str>,
        /// Whether the database is full.
        database: bool,
    },
    /// The deadline of a pod has passed, and it goes to the executors (G §3.2).
    Fired {
        /// The pod of the entry, not its VM.
        pod: Arc<str>,
        /// The UID that is traced, whichever pod has the name now.
        uid: Arc<str>,
    },
    /// The deadline of a pod has passed, but the entry is held back.
    Held {
        /// The pod of the entry, not its VM.
        pod: Arc<str>,
        /// The UID that is traced, whichever pod has the name now.
        uid: Arc<str>,
        /// The row that says why it is held back.
        row: Row,
    },
    /// A pod is no longer traced.
    Dropped {
        /// The pod of the entry, not its VM.
        pod: Arc<str>,
        /// The UID that was traced, whichever pod has the name now.
        uid: Arc<str>,
        /// The reason: nothing is left to do, it failed too often, or the replica no longer leads.
        why: Dropped,
    },
    /// A scan begins (G §1.5).
    ScanBegun {
        /// The trigger of the scan: a request, a takeover, something that was missed, or the interval.
        cause: ScanCause,
        /// Whether this replica leads.
        leading: bool,
    },
    /// A scan has judged a record, or an endpoint that belongs to no record, and it does not simply stay (G §3.3).
    Judged {
        /// The pool; `None` = the note is about the endpoint alone.
        pool: Option<Arc<str>>,
        /// The address; `None` = the note is about the endpoint alone, or the address cannot be read.
        address: Option<IpAddr>,
        /// The name in the record, or that of the endpoint; a damaged name belongs to no pod.
        key: Arc<str>,
        /// The UID in the record.
        uid: Arc<str>,
        /// Whether the record goes; otherwise its pod is traced, or its endpoint goes alone.
        release: bool,
        /// The row that decided on the record, or on the endpoint alone if the record stays.
        row: Row,
        /// The row by which the replica's caches would let the record go, if the API server says that it stays.
        overrules: Option<Row>,
    },
    /// A scan is over.
    ScanEnded {
        /// The results of the scan.
        counts: ScanCounts,
        /// The duration of the scan, by the clock of the process.
        took: Duration,
    },
    /// Records are about to be removed. Noted before the first write.
    ReleaseBegun {
        /// The origin of the release: a record or an endpoint that a scan found, or a deadline that has passed.
        by: Releaser,
        /// The name under which the records and the endpoint are.
        key: Arc<str>,
        /// The records that are to go, each only while it has its UID.
        what: Arc<[Target]>,
        /// Whether the endpoint is also to go.
        endpoint: bool,
        /// The row of the decision tables by which they go (G §3).
        row: Row,
    },
    /// The endpoint is terminating now, or gone.
    Marked {
        /// The name of the endpoint, which need not be that of its pod.
        key: Arc<str>,
    },
    /// The records of a pool are removed, or were gone already.
    Removed {
        /// Name of the pool; nothing was written to it if `removed` is 0.
        pool: Arc<str>,
        /// The UID in the records.
        uid: Arc<str>,
        /// The addresses that were to go.
        ips: Arc<[IpAddr]>,
        /// The number of these addresses that had such a record.
        removed: usize,
    },
    /// The endpoint has lost its finalizer.
    LetGo {
        /// The name of the endpoint, as when it was marked.
        key: Arc<str>,
    },
    /// A release is over.
    ReleaseEnded {
        /// The origin of the release, as in [`ReclaimNote::ReleaseBegun`].
        by: Releaser,
        /// The name under which the records were, as in [`ReclaimNote::ReleaseBegun`].
        key: Arc<str>,
        /// Whether it succeeded; also true if there was nothing to do.
        ok: bool,
    },
}

impl Note for ReclaimNote {
    fn about(&self) -> About {
        match self {
            Self::Leads(_) | Self::ScanBegun { .. } | Self::ScanEnded { .. } => About::passing([]),
            Self::EventLost { pod, .. }
            | Self::Entered { pod, .. }
            | Self::Full { pod, .. }
            | Self::Fired { pod, .. }
            | Self::Held { pod, .. }
            | Self::Dropped { pod, .. } => About::passing([Entity::pod(pod)]),
            Self::Judged { key, address, .. } => {
                About::passing([Entity::pod(key)].into_iter().chain(address.map(Entity::ip)).collect::<Vec<_>>())
            }
            Self::ReleaseBegun { key, what, .. } => {
                About::passing([Entity::pod(key)].into_iter().chain(what.iter().map(|target| Entity::ip(target.ip))).collect::<Vec<_>>())
            }
            Self::Removed { ips, .. } => About::passing(ips.iter().map(|&ip| Entity::ip(ip)).collect::<Vec<_>>()),
            Self::Marked { key } | Self::LetGo { key } | Self::ReleaseEnded { key, .. } => About::passing([Entity::pod(key)]),
        }
    }

    fn word(&self) -> u64 {
        word_hash::of("reclaim", self)
    }
}

impl fmt::Display for ReclaimNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leads(true) => f.write_str("leads reclaim from now on"),
            Self::Leads(false) => f.write_str("leads reclaim no more"),
            Self::EventLost { pod, row, .. } => write!(f, "cannot judge what happened to {pod}: {} ({})", row.sentence(), row.code()),
            Self::Entered { pod, tracing, stop, .. } => write!(f, "traces {pod} ({}) until {stop}", tracing.as_str()),
            Self::Full { pod, database: true, .. } => write!(f, "has no room to trace {pod}"),
            Self::Full { pod, database: false, .. } => write!(f, "has no executor for {pod} in time"),
            Self::Fired { pod, .. } => write!(f, "gives {pod} to its executors: its deadline has passed"),
            Self::Held { pod, row, .. } => write!(f, "holds {pod} back: {} ({})", row.sentence(), row.code()),
            Self::Dropped { pod, why, .. } => {
                let why = match why {
                    Dropped::Done => "it is done",
                    Dropped::Moot => "there is nothing to do",
                    Dropped::GivenUp => "it failed too often",
                    Dropped::NotLeading => "leadership was lost",
                };
                write!(f, "traces {pod} no more: {why}")
            }
            Self::ScanBegun { cause, leading } => {
                let why = match cause {
                    ScanCause::Asked => "it was asked to",
                    ScanCause::Takeover => "it leads now",
                    ScanCause::Missed => "something was missed",
                    ScanCause::Interval => "the interval is over",
                };
                write!(f, "scans all records as {}: {why}", if *leading { "leader" } else { "standby" })
            }
            Self::Judged { pool, address, key, release, row, overrules, .. } => {
                let what = if *release { "is to go" } else { "stays for now" };
                match (pool, address) {
                    (Some(pool), Some(address)) => write!(f, "finds that {address} of {pool} for {key} {what}")?,
                    (Some(pool), None) => write!(f, "finds that a record of {pool} for {key} {what}")?,
                    (None, _) => write!(f, "finds that the endpoint {key} {what}")?,
                }
                write!(f, ": {} ({})", row.sentence(), row.code())?;
                overrules.map_or(Ok(()), |row| write!(f, "; by its caches it would go: {} ({})", row.sentence(), row.code()))
            }
            Self::ScanEnded { counts, took } => write!(
                f,
                "has scanned {} records of {} pools in {took:?}: {} kept, {} to go, {} traced, {} endpoints swept, {} failed{}",
                counts.records,
                counts.pools,
                counts.kept,
                counts.released,
                counts.tracked,
                counts.swept,
                counts.failed,
                if counts.incomplete { ", incomplete" } else { "" }
            ),
            Self::ReleaseBegun { key, what, endpoint, row, .. } => {
                write!(f, "reclaims of {key}")?;
                what.iter().try_for_each(|target| write!(f, " {} ({})", target.ip, target.pool))?;
                let and = if *endpoint { " with its endpoint" } else { "" };
                write!(f, "{and}: {} ({})", row.sentence(), row.code())
            }
            Self::Marked { key } => write!(f, "has marked the endpoint {key}"),
            Self::Removed { pool, ips, removed, .. } => {
                write!(f, "has removed {removed} of {} records of {pool}:", ips.len())?;
                ips.iter().try_for_each(|ip| write!(f, " {ip}"))
            }
            Self::LetGo { key } => write!(f, "has let go of the endpoint {key}"),
            Self::ReleaseEnded { key, ok: true, .. } => write!(f, "has reclaimed what {key} had"),
            Self::ReleaseEnded { key, ok: false, .. } => write!(f, "cannot reclaim what {key} has"),
        }
    }
}
