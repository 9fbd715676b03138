//! Why a release was not carried out, or not to its end.

use thiserror::Error;

use crate::ipam::PoolError;
use kube_machinery::api::{ApiError, ObjectKey};

/// What went wrong. What was written before stays, and whoever comes next goes on from there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReclaimError {
    /// The records of a pool were not removed.
    #[error("IPPool {pool}: {error}")]
    Pool {
        /// The name of the pool.
        pool: String,
        /// Why they were not removed, or are not known to be.
        error: PoolError,
    },
    /// The endpoint was not read, marked or let go.
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
        /// The kind that was asked for, such as `Pod`.
        what: &'static str,
        /// The error of the read.
        error: ApiError,
    },
    /// It was refused its pools: too many wait.
    #[error("queue is full")]
    QueueFull,
    /// Leadership was lost before the next write.
    #[error("this replica does not lead any more")]
    NotLeading,
}

impl ReclaimError {
    /// Whether the same may succeed on what is true by now.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Endpoint { error, .. } if error.is_conflict())
    }
}
