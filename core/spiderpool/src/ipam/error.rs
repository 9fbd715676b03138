//! Errors of the agent's operations.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;

use crate::ranges::IpVersion;
use crate::select::{SelectError, Unavailable};
use kube_machinery::api::{ApiError, ObjectKey, Reason};

/// The reason why a pool was not changed, or why that is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PoolError {
    /// There is no such pool.
    #[error("IPPool not found")]
    NotFound,
    /// The pool has no address to allocate.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The records cannot be read.
    #[error("the records of the pool cannot be read: {0}")]
    BadRecords(String),
    /// An address to be re-owned is recorded for another pod.
    #[error("data broken, IP {ip} is recorded for {holder}")]
    DataBroken {
        /// The address that was to be re-owned.
        ip: IpAddr,
        /// `namespace/name` of the holder.
        holder: String,
    },
    /// Other writers were faster in every attempt.
    #[error("exhaust all retries ({attempts} times)")]
    RetriesExhausted {
        /// The number of attempts made.
        attempts: u32,
    },
    /// The pool has not been compared with the others: another pool may have the same addresses.
    #[error("cannot tell whether another pool has the same addresses")]
    NotCompared,
    /// Only addresses with stale records of this very pod were free: they were released in every attempt. Hardened form only.
    #[error("stale records of this pod were released; retry")]
    OwnRecordsMadeWay,
    /// Another pool has some of the addresses, and this one is not the older of the two. Hardened form only.
    #[error("addresses overlap with IPPool {other}; change or delete one of the two")]
    Overlaps {
        /// The name of the other pool.
        other: String,
    },
    /// The request outlived its deadline.
    #[error("deadline exceeded")]
    OutOfTime,
    /// The pool has a record of this pod, and only its endpoint, which could not be read, shows whether the address is in use; or another
    /// pool has a record that the cache did not show.
    #[error("a pool already records this pod, and its endpoint could not be read")]
    EndpointUnknown,
    /// The requesting pod was gone or replaced before its predecessor's record was transferred to it.
    #[error("pod was replaced during allocation: {0}")]
    Replaced(String),
    /// A write of the pool still had an unknown outcome at the end: the pool may hold the record, or hold it soon.
    #[error("the outcome of the write that records the address is unknown: {0}")]
    Unsettled(ApiError),
    /// The API server refused the request or did not answer.
    #[error(transparent)]
    Api(ApiError),
}

/// The failure of a NIC to get an address of a family: each pool that was tried, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The name of the NIC; in nameless mode its index.
    pub nic: String,
    /// The family of all these pools.
    pub family: IpVersion,
    /// The pools in the order in which they were tried.
    pub pools: Vec<(String, PoolError)>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to allocate any {} IP address to NIC {}", self.family, self.nic)?;
        for (at, (pool, error)) in self.pools.iter().enumerate() {
            write!(f, "{}{pool}: {error}", if at == 0 { " from " } else { ", " })?;
        }
        Ok(())
    }
}

/// Several failures, as a human-readable list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures(pub Vec<Failure>);

impl Failures {
    /// Whether every pool that was tried was merely full.
    pub(super) fn are_used_out(&self) -> bool {
        let is_full = |(_, error): &(String, PoolError)| matches!(error, PoolError::Unavailable(Unavailable::UsedOut(_)));
        self.0.iter().all(|failure| failure.pools.iter().all(is_full))
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, failure) in self.0.iter().enumerate() {
            write!(f, "{}{failure}", if at == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// The reason why an ADD, a DEL or a batch release failed. Earlier writes stay, unless the text says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IpamError {
    /// There is no such pod, as far as is known.
    #[error("pod {0} not found")]
    MissingPod(ObjectKey),
    /// The request has no UID, and the pod of this name is not bound to this node. Hardened form only.
    #[error("pod {0} is not bound to this node, and the request names no UID")]
    Elsewhere(ObjectKey),
    /// The pod of this name is not the one that the request is for. Hardened form only.
    #[error("pod {pod} has UID {found}, not {wanted}")]
    Replaced {
        /// Namespace and name in the request.
        pod: ObjectKey,
        /// The UID in the request.
        wanted: Arc<str>,
        /// The UID of the pod.
        found: String,
    },
    /// No pool was selected.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// A NIC got no address of a family.
    #[error("{0}")]
    NotAllocated(Failures),
    /// A pool was not changed as intended.
    #[error("IPPool {pool}: {error}")]
    Pool {
        /// The name of the pool.
        pool: String,
        /// The reason why it was not changed, or is not known to be.
        error: PoolError,
    },
    /// The endpoint was not read or written.
    #[error("endpoint {endpoint}: {error}")]
    Endpoint {
        /// Namespace and name of the endpoint: the pod's, or those of its VM.
        endpoint: ObjectKey,
        /// The error of the request; after an ambiguous one the endpoint may be written nevertheless.
        error: ApiError,
    },
    /// There is no endpoint (batch release).
    #[error("endpoint {0} not found")]
    MissingEndpoint(ObjectKey),
    /// The endpoint is of another pod (batch release).
    #[error("endpoint {endpoint} has UID {found}, not {wanted}")]
    EndpointOfAnother {
        /// Namespace and name of the endpoint.
        endpoint: ObjectKey,
        /// The UID that was looked for.
        wanted: Arc<str>,
        /// The UID in the endpoint.
        found: String,
    },
    /// The endpoint is not as the cache shows it.
    #[error("endpoint {0} has changed")]
    StaleEndpoint(ObjectKey),
    /// The endpoint is being deleted and its addresses are not released yet: retry. Hardened form only.
    #[error("endpoint {0} is terminating")]
    TerminatingEndpoint(ObjectKey),
    /// The pod, its StatefulSet or its VM could not be read.
    #[error("cannot read {what}: {error}")]
    Reading {
        /// The object of the read, human-readable: a kind, or `pods of the VM`.
        what: &'static str,
        /// The error of the read.
        error: ApiError,
    },
    /// Status 521: conflicting addresses are not released (`SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS`).
    #[error("forbidden to release conflicting IPs of stateless pods")]
    ForbiddenStateless,
    /// Status 522: conflicting addresses of this kind of pod are not released.
    #[error("forbidden to release conflicting IPs of stateful pods")]
    ForbiddenStateful,
    /// Another sandbox of the pod may be the one that answers on its addresses (batch release). Hardened form only.
    #[error("endpoint {0} names another sandbox, which may answer on the addresses")]
    InAnotherSandbox(ObjectKey),
    /// The limiter's queue is full.
    #[error("queue is full")]
    QueueFull,
    /// The request outlived its deadline.
    #[error("deadline exceeded")]
    OutOfTime,
}

impl IpamError {
    /// The public name of the class.
    pub fn class(&self) -> &'static str {
        match self {
            Self::MissingPod(_) => "missing-pod",
            Self::Elsewhere(_) => "pod-elsewhere",
            Self::Replaced { .. } => "replaced-pod",
            Self::Select(error) => error.class(),
            Self::NotAllocated(_) => "exhausted",
            Self::Pool { error, .. } => match error {
                PoolError::NotFound => "pool-not-found",
                PoolError::DataBroken { .. } => "data-broken",
                PoolError::RetriesExhausted { .. } => "retries-exhausted",
                PoolError::OutOfTime => "out-of-time",
                _ => "pool",
            },
            Self::Endpoint { error, .. } if error.is_not_found() => "endpoint-not-found",
            Self::Endpoint { error, .. } if error.is_already_exists() => "endpoint-already-exists",
            Self::Endpoint { error, .. } if error.is_conflict() => "endpoint-conflict",
            Self::Endpoint { .. } => "endpoint",
            Self::MissingEndpoint(_) => "missing-endpoint",
            Self::EndpointOfAnother { .. } => "uid-mismatch",
            Self::StaleEndpoint(_) => "stale-endpoint",
            Self::TerminatingEndpoint(_) => "terminating-endpoint",
            Self::Reading { .. } => "reading",
            Self::ForbiddenStateless => "forbid-stateless",
            Self::ForbiddenStateful => "forbid-stateful",
            Self::InAnotherSandbox(_) => "in-another-sandbox",
            Self::QueueFull => "queue-full",
            Self::OutOfTime => "out-of-time",
        }
    }
}

/// Wraps a pool's error with its name.
pub(super) fn of_pool(pool: &str) -> impl FnOnce(PoolError) -> IpamError {
    move |error| IpamError::Pool { pool: pool.to_owned(), error }
}

/// Whether the same request may succeed some time later.
pub(super) fn may_pass(error: &ApiError) -> bool {
    error.is_ambiguous() || error.reason().is_none_or(|reason| reason == Reason::TooManyRequests)
}
