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

/// Observes and changes nothing. Called between two steps of an operation: it must neither wait nor call back.
pub trait Observer: Clone + Send + Sync + 'static {
    /// Called when a step was just done or is about to be.
    fn observe(&self, step: Step<'_>);
}

/// The observer that ignores everything.
impl Observer for () {
    fn observe(&self, _: Step<'_>) {}
}

/// The reason why records are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A DEL of the pod (A §7.1).
    Del,
    /// The pools that the pod should take addresses from have changed (A §6.3).
    PoolChange,
    /// A batch release: another host answers on an address (A §7.3).
    Conflict,
    /// An ADD failed, and removes the records that it made itself.
    RollBack,
    /// An ADD found the endpoint of its pod's predecessor marked by a release that was not finished.
    Marked,
    /// An address was recorded for a NIC that had another one from an earlier try.
    Superseded,
}

impl Cause {
    /// The reason, as half a sentence.
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

/// The cost of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Effort {
    /// Requests that read an object or a list, whatever the outcome.
    pub reads: u32,
    /// Requests that wrote, or tried to.
    pub writes: u32,
    /// Writes that met a conflict.
    pub conflicts: u32,
    /// Attempts at pools: each is a read, a decision and at most one write.
    pub attempts: u32,
    /// Pools that were given up after all attempts.
    pub exhausted: u32,
    /// The time spent waiting for tickets.
    pub ticket_wait: Duration,
}

/// One step, with the objects it concerns. Durations are by the monotonic clock of the process.
///
/// An operation that is dropped, for example with its process, has a step that begins it and none that ends it.
#[derive(Clone, Copy)]
pub enum Step<'a> {
    /// An ADD begins; reported before anything is read, and before it waits for its turn at the pod.
    AddBegun {
        /// The request that begins.
        request: &'a AddRequest,
    },
    /// Pools were selected, on the state that `cluster` shows at this very moment (A A8). Also reported when the hardened form checks
    /// whether a recorded address is still permitted (A A4, A6).
    Selected {
        /// The ADD that caused the selection.
        request: &'a AddRequest,
        /// The pod that it is for, as it was read last.
        pod: &'a Arc<Pod>,
        /// The input of the selection.
        asked: &'a select::Request<'a>,
        /// The state that it was decided on.
        cluster: &'a dyn Cluster,
        /// The top controller of the pod.
        controller: &'a TopController,
        /// The selected pools, or the reason why there are none.
        selection: &'a Selection,
    },
    /// The pools that a static pod took addresses from were compared with those that it should take them from now (A §6.3).
    PoolsCompared {
        /// The ADD that caused the comparison.
        request: &'a AddRequest,
        /// The pod that it is for, as it was read last.
        pod: &'a Arc<Pod>,
        /// The input of the tiers.
        asked: &'a select::Request<'a>,
        /// The state that it was decided on.
        cluster: &'a dyn Cluster,
        /// The top controller of the pod.
        controller: &'a TopController,
        /// The endpoint that was compared.
        endpoint: &'a SpiderEndpoint,
        /// The indices of the entries that are given up.
        given_up: &'a [usize],
    },
    /// A request waits for pools (A §5.6).
    TicketsAsked {
        /// The UID of the pod.
        uid: &'a str,
        /// The names of the pools, which are granted together.
        pools: &'a [Arc<str>],
        /// The number of this wait, unique within the process.
        turn: u64,
    },
    /// The tickets were granted. A wait that is dropped or refused is never granted.
    TicketsGranted {
        /// The turn of [`TicketsAsked`](Self::TicketsAsked).
        turn: u64,
        /// The duration of the wait.
        waited: Duration,
    },
    /// The wait ended without a grant: the deadline passed, or the queue is full.
    TicketsRefused {
        /// The turn of [`TicketsAsked`](Self::TicketsAsked).
        turn: u64,
    },
    /// An address from an earlier, failed ADD of the pod is used without a read of its pool (A §5.5).
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
        /// The address, or the reason why there is none.
        result: Result<IpNet, &'a PoolError>,
        /// The number of attempts.
        attempts: u32,
    },
    /// Records of a pool were transferred to a new pod of the same name (A §6.2).
    Reowned {
        /// The key of the records.
        pod: &'a ObjectKey,
        /// The UID of the new pod.
        uid: &'a str,
        /// The name of the pool that has the records.
        pool: &'a str,
        /// The addresses of this pool that were to be transferred.
        addresses: &'a [IpAddr],
        /// The outcome of the transfer.
        result: Result<(), &'a PoolError>,
    },
    /// An ADD ended, successfully or not.
    AddEnded {
        /// The request that ended.
        request: &'a AddRequest,
        /// The UID under which addresses are recorded; upstream takes it from its cache (A W6). Empty if the pod was not found.
        uid: &'a str,
        /// The answer of the agent.
        result: Result<&'a AddAnswer, &'a IpamError>,
        /// The requests, attempts and waits of the whole ADD.
        effort: &'a Effort,
        /// The duration of the ADD.
        took: Duration,
    },
    /// Records are about to be removed; reported before the first write that does so.
    ReleaseBegun {
        /// The key of the records: `namespace/name` of the pod or of its VMI.
        pod: &'a ObjectKey,
        /// The UID of the records.
        uid: &'a str,
        /// The UID that the request names; empty if it names none.
        asked: &'a str,
        /// The reason for the removal; it stays the same to the end.
        cause: Cause,
        /// The records, by pool.
        what: &'a [(Arc<str>, IpAddr)],
    },
    /// The removal is done, or given up.
    ReleaseEnded {
        /// The key of the records, as in [`ReleaseBegun`](Self::ReleaseBegun).
        pod: &'a ObjectKey,
        /// The UID of the records, as in [`ReleaseBegun`](Self::ReleaseBegun).
        uid: &'a str,
        /// The reason, as in [`ReleaseBegun`](Self::ReleaseBegun).
        cause: Cause,
        /// The error of the first pool that has one; the others were tried nevertheless.
        result: Result<(), &'a IpamError>,
    },
    /// A DEL begins; reported before anything is read, and before it waits for its turn at the pod.
    DelBegun {
        /// The request that begins.
        request: &'a DelRequest,
    },
    /// A DEL ended, successfully or not.
    DelEnded {
        /// The request that ended.
        request: &'a DelRequest,
        /// The outcome, or the reason why something may be left.
        result: Result<DelOutcome, &'a IpamError>,
        /// The requests, attempts and waits of the whole DEL.
        effort: &'a Effort,
        /// The duration of the DEL.
        took: Duration,
    },
    /// A batch release begins.
    BatchBegun {
        /// The request that begins.
        request: &'a BatchRequest,
    },
    /// A batch release ended.
    BatchEnded {
        /// The request that ended.
        request: &'a BatchRequest,
        /// The outcome: the addresses are released, or after an error some may be left.
        result: Result<(), &'a IpamError>,
        /// The requests, attempts and waits of the whole batch release.
        effort: &'a Effort,
        /// The duration of the batch release.
        took: Duration,
    },
}
