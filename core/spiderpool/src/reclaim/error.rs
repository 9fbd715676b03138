//! The reasons why a release failed or is incomplete.

use thiserror::Error;

use crate::ipam::PoolError;
use kube_machinery::api::{ApiError, ObjectKey};

/// The error of a release. Earlier writes stay, and the next attempt continues from there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReclaimError {
    /// The records of a pool were not removed.
    #[error("IPPool {pool}: {error}")]
    Pool {
        /// The name of the pool.
        pool: String,
        /// The reason why they were not removed, or are not known to be.
        error: PoolError,
    },
    /// The endpoint was not read or marked, or its finalizer was not removed.
    #[error("endpoint {endpoint}: {error}")]
    Endpoint {
        /// Namespace and name of the endpoint: the pod's, or those of its VM.
        endpoint: ObjectKey,
        /// The error of the request.
        error: ApiError,
    },
    /// The pod, its node, its StatefulSet, its VM or the pool could not be read.
    #[error("cannot read {what}: {error}")]
    Reading {
        /// The kind that was read, such as `Pod`.
        what: &'static str,
        /// The error of the read.
        error: ApiError,
    },
    /// The queue for pools is full: too many releases wait.
    #[error("queue is full")]
    QueueFull,
    /// Leadership was lost before the next write.
    #[error("this replica does not lead any more")]
    NotLeading,
}

impl ReclaimError {
    /// Whether a retry on the current state may succeed.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Endpoint { error, .. } if error.is_conflict())
    }
}
