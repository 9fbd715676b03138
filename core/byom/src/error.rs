//! The reasons why an operation on the pool fails.

use std::sync::Arc;

use thiserror::Error;

use super::address::Address;
use super::decide::Refusal;
use super::vm::VmError;
use kube_machinery::api::ApiError;
use kube_machinery::json_text::InvalidText;

/// The reason why the state of the pool is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// Reading the ConfigMap failed.
    #[error("cannot read the ConfigMap: {0}")]
    Api(ApiError),
    /// The stored text is not a valid document.
    #[error(transparent)]
    Unreadable(InvalidText),
    /// There is no document; it may have been lost.
    #[error("there is no pool document, and it is unknown whether one was lost")]
    Missing,
    /// The document has no map of records; the records may have been lost.
    #[error("the pool document has no allocatedIPs, and it is unknown whether they were lost")]
    NullMap,
}

/// The reason why an operation on the pool failed (B §2.4, §3).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PoolError {
    /// The state is unknown; nothing was written.
    #[error("cannot retrieve the pool state: {0}")]
    Reading(ReadError),
    /// No address is left, or none whose VM answers.
    #[error("no address is available")]
    NoAvailable,
    /// The chosen VM does not answer (only if such VMs are not skipped).
    #[error("VM {address} is not ready: {error}")]
    NotReady {
        /// The VM that was chosen; no record of it was written.
        address: Address,
        /// The error of the last attempt.
        error: VmError,
    },
    /// The text recorded for the allocation is not an address.
    #[error("`{0}` is no address")]
    InvalidAddress(Arc<str>),
    /// The name of the node is unknown.
    #[error("the name of the node is unknown")]
    NoNodeName,
    /// An allocation was not written, or the outcome of the write is unknown.
    #[error("cannot write the allocation: {0}")]
    Allocating(ApiError),
    /// A release or a recovery was not written, or the outcome of the write is unknown.
    #[error("cannot update the pool state: {0}")]
    Updating(ApiError),
    /// The document is lost and cannot be rebuilt.
    #[error(transparent)]
    Owners(#[from] OwnersUnknown),
    /// The VM of a recorded allocation serves another one. The record is kept until the VM is given back, or reclaimed because the other
    /// allocation has no owner.
    #[error("VM {address} is held under allocation `{holder}`")]
    HeldByAnother {
        /// The VM that refused to boot for this allocation.
        address: Address,
        /// The allocation that the VM says it serves.
        holder: Arc<str>,
    },
    /// The allocation did not get its owner; it was rolled back as far as possible.
    #[error(transparent)]
    NotOwned(#[from] NotOwned),
    /// The document was lost between the allocation and the writing of its owner: the allocation counts as never made.
    #[error("the record was lost before it was used")]
    RecordLost,
    /// The VM did not take the user data; the allocation was rolled back as far as possible.
    #[error("cannot send the user data: {0}")]
    UserData(VmError),
    /// The operation did not end within its time. Its requests may still take effect; a release can be repeated.
    #[error("the operation timed out")]
    OutOfTime,
    /// Upstream's process panics here: the caller must crash it (B W18).
    #[error("panic: assignment to entry in nil map")]
    Panic,
}

impl PoolError {
    /// The failed request that ended the operation, if any.
    pub(super) fn of_request(&self) -> Option<&ApiError> {
        match self {
            Self::Reading(ReadError::Api(error)) | Self::Allocating(error) | Self::Updating(error) => Some(error),
            _ => None,
        }
    }

    /// The name of the sentinel error that upstream returns or wraps, if there is one.
    pub fn sentinel(&self) -> Option<&'static str> {
        match self {
            Self::Reading(_) => Some("ErrRetrievingPoolState"),
            Self::NoAvailable => Some("ErrNoAvailableIPs"),
            Self::NotReady { .. } | Self::InvalidAddress(_) => Some("ErrInvalidAllocatedIP"),
            Self::NoNodeName => Some("ErrNodeNameDetection"),
            Self::Allocating(_) => Some("ErrConflict"),
            Self::Updating(_) => Some("ErrUpdatingPoolState"),
            Self::Owners(_)
            | Self::HeldByAnother { .. }
            | Self::NotOwned(_)
            | Self::RecordLost
            | Self::UserData(_)
            | Self::OutOfTime
            | Self::Panic => None,
        }
    }
}

impl From<Refusal> for PoolError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unreadable(error) => Self::Reading(ReadError::Unreadable(error)),
            Refusal::Missing => Self::Reading(ReadError::Missing),
            Refusal::NullMap => Self::Reading(ReadError::NullMap),
            Refusal::Panic => Self::Panic,
            Refusal::NoAvailable { .. } => Self::NoAvailable,
            Refusal::InvalidAddress(text) => Self::InvalidAddress(text),
            Refusal::NoNodeName => Self::NoNodeName,
        }
    }
}

/// The owners cannot be listed now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the live owners of addresses are unknown: {0}")]
pub struct OwnersUnknown(pub String);

/// The reason why an allocation did not get its owner.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotOwned {
    /// The owner was not written, or the outcome of the write is unknown.
    #[error("cannot record the owner: {0}")]
    Api(ApiError),
    /// The address is no longer wanted.
    #[error("the sandbox was stopped")]
    Unwanted,
}
