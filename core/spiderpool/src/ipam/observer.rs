//! Observer callbacks for each step of an operation.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Pod;

use super::answer::{AddAnswer, DelOutcome};
use super::error::{IpamError, PoolError};
use super::request::{AddRequest, BatchRequest, DelRequest};
use crate::SpiderEndpoint;
use crate::ranges::IpVersion;
use crate::select::{self, Cluster, Selection, TopController};
use kube_machinery::api::ObjectKey;

/// Looks on and changes nothing. Called between two steps of an operation: it must neither wait nor call back.
pub trait Observer: Clone + Send + Sync + 'static {
    /// A step was just done, or is about to be.
    fn observe(&self, step: Step<'_>);
}

/// Nobody looks on.
impl Observer for () {
    fn observe(&self, _: Step<'_>) {}
}

/// Why records are taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A DEL of the pod (A §7.1).
    Del,
    /// The pools that the pod is to take addresses from have changed (A §6.3).
    PoolChange,
    /// A batch release: somebody else answers on an address (A §7.3).
    Conflict,
    /// An ADD failed, and takes back what it recorded itself.
    RollBack,
    /// An ADD found the endpoint of its pod's predecessor marked by a release that was not finished.
    Marked,
    /// An address was recorded for a NIC that had another one from an earlier try.
    Superseded,
}

impl Cause {
    /// Why, in half a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Cause::Del => "DEL",
            Cause::PoolChange => "its pools changed",
            Cause::Conflict => "another host answers on it",
            Cause::RollBack => "the request failed",
            Cause::Marked => "a predecessor left them",
            Cause::Superseded => "another one took its place",
        }
    }
}

/// What an operation took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Effort {
    /// Requests that read an object or a list, whatever came of them.
    pub reads: u32,
    /// Requests that wrote, or tried to.
    pub writes: u32,
    /// Writes that met a conflict.
    pub conflicts: u32,
    /// Attempts at pools: each is a read, a decision and at most one write.
    pub attempts: u32,
    /// Pools that were given up after all attempts.
    pub exhausted: u32,
    /// How long it waited for tickets.
    pub ticket_wait: Duration,
}

/// One step, and what it is about. Durations are by the monotonic clock of the process.
///
/// An operation that is dropped, with its process for instance, has a step that begins it and none that ends it.
#[derive(Clone, Copy)]
pub enum Step<'a> {
    /// An ADD begins; said before anything is read, and before it waits for its turn at the pod.
    AddBegun {
        /// What is asked for.
        request: &'a AddRequest,
    },
    /// Pools were selected, on the state that `cluster` shows at this very moment (A A8). Also said when the hardened form asks
    /// whether a recorded address is still permitted (A A4, A6).
    Selected {
        /// The ADD that asks.
        request: &'a AddRequest,
        /// The pod that it is for, as it was read last.
        pod: &'a Arc<Pod>,
        /// What selection was asked.
        asked: &'a select::Request<'a>,
        /// The state that it was decided on.
        cluster: &'a dyn Cluster,
        /// What the pod belongs to.
        controller: &'a TopController,
        /// What was selected, or why nothing.
        selection: &'a Selection,
    },
    /// It was checked whether the pools that a static pod took addresses from are still those it is to take addresses from (A §6.3).
    PoolsCompared {
        /// The ADD that asks.
        request: &'a AddRequest,
        /// The pod that it is for, as it was read last.
        pod: &'a Arc<Pod>,
        /// What the tiers were asked.
        asked: &'a select::Request<'a>,
        /// The state that it was decided on.
        cluster: &'a dyn Cluster,
        /// What the pod belongs to.
        controller: &'a TopController,
        /// The endpoint that was compared.
        endpoint: &'a SpiderEndpoint,
        /// Which of its entries are given up.
        given_up: &'a [usize],
    },
    /// A request waits for pools (A §5.6).
    TicketsAsked {
        /// The UID of the pod.
        uid: &'a str,
        /// The names of the pools, which are granted together.
        pools: &'a [Arc<str>],
        /// Tells this wait from all others of the process.
        turn: u64,
    },
    /// It has them. A wait that is dropped or refused is never granted.
    TicketsGranted {
        /// As when it was asked for.
        turn: u64,
        /// How long it waited.
        waited: Duration,
    },
    /// The wait ended without a grant: the deadline passed, or the queue is full.
    TicketsRefused {
        /// As when it was asked for.
        turn: u64,
    },
    /// An address that an earlier ADD of the pod got before it failed is used without asking its pool (A §5.5).
    FailureCacheUsed {
        /// The UID of the pod.
        uid: &'a str,
        /// The name of the NIC; in nameless mode its index.
        nic: &'a str,
        /// The name of the pool that the address is of.
        pool: &'a str,
        /// The address, with the prefix of the pool's subnet.
        address: IpNet,
    },
    /// A pool was asked for an address (A §5.4).
    PoolTried {
        /// The UID of the pod.
        uid: &'a str,
        /// The name of the NIC; in nameless mode its index.
        nic: &'a str,
        /// The family that is asked for.
        family: IpVersion,
        /// The name of the pool that was asked.
        pool: &'a str,
        /// The address, or why none.
        result: Result<IpNet, &'a PoolError>,
        /// How many attempts it took.
        attempts: u32,
    },
    /// Records of a pool were made over to a new pod of the same name (A §6.2).
    Reowned {
        /// The key of the records.
        pod: &'a ObjectKey,
        /// The UID of the new pod.
        uid: &'a str,
        /// The name of the pool that has the records.
        pool: &'a str,
        /// The addresses of this pool that were to be made over.
        addresses: &'a [IpAddr],
        /// Whether that went well.
        result: Result<(), &'a PoolError>,
    },
    /// An ADD ended, well or not.
    AddEnded {
        /// What was asked for.
        request: &'a AddRequest,
        /// The UID under which addresses are recorded; upstream takes it from its cache (A W6). Empty if the pod was not found.
        uid: &'a str,
        /// What the agent answers.
        result: Result<&'a AddAnswer, &'a IpamError>,
        /// The requests, attempts and waits of the whole ADD.
        effort: &'a Effort,
        /// How long it took.
        took: Duration,
    },
    /// Records are about to be taken away; said before the first write that does so.
    ReleaseBegun {
        /// The key of the records: `namespace/name` of the pod or of its VMI.
        pod: &'a ObjectKey,
        /// The UID of the records.
        uid: &'a str,
        /// The UID that the request names; empty if it names none.
        asked: &'a str,
        /// Why they are taken away; it stays the same to the end.
        cause: Cause,
        /// The records, by pool.
        what: &'a [(Arc<str>, IpAddr)],
    },
    /// That is done, or given up.
    ReleaseEnded {
        /// As at its begin.
        pod: &'a ObjectKey,
        /// As at its begin.
        uid: &'a str,
        /// As at its begin.
        cause: Cause,
        /// The error of the first pool that has one; the others were tried all the same.
        result: Result<(), &'a IpamError>,
    },
    /// A DEL begins; said before anything is read, and before it waits for its turn at the pod.
    DelBegun {
        /// What is asked for.
        request: &'a DelRequest,
    },
    /// A DEL ended, well or not.
    DelEnded {
        /// What was asked for.
        request: &'a DelRequest,
        /// What it did, or why something may be left.
        result: Result<DelOutcome, &'a IpamError>,
        /// The requests, attempts and waits of the whole DEL.
        effort: &'a Effort,
        /// How long it took.
        took: Duration,
    },
    /// A batch release begins.
    BatchBegun {
        /// What is asked for.
        request: &'a BatchRequest,
    },
    /// A batch release ended.
    BatchEnded {
        /// What was asked for.
        request: &'a BatchRequest,
        /// Whether the addresses are given back; after an error something may be left.
        result: Result<(), &'a IpamError>,
        /// The requests, attempts and waits of the whole batch release.
        effort: &'a Effort,
        /// How long it took.
        took: Duration,
    },
}
