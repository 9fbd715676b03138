//! Why an operation on the pool failed.

use std::sync::Arc;

use thiserror::Error;

use super::address::Address;
use super::decide::Refusal;
use super::vm::VmError;
use kube_machinery::api::ApiError;
use kube_machinery::json_text::InvalidText;

/// Why the state of the pool is not known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The API server did not give the ConfigMap.
    #[error("cannot read the ConfigMap: {0}")]
    Api(ApiError),
    /// The stored text is no document.
    #[error(transparent)]
    Unreadable(InvalidText),
    /// There is no document, and it cannot be told from a lost one.
    #[error("there is no pool document, and it is unknown whether one was lost")]
    Missing,
    /// The document has no map of records, and they cannot be told from lost ones.
    #[error("the pool document has no allocatedIPs, and it is unknown whether they were lost")]
    NullMap,
}

/// Why an operation on the pool failed (B §2.4, §3).
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
        /// What came of the last try.
        error: VmError,
    },
    /// What is recorded for the allocation is no address.
    #[error("`{0}` is no address")]
    InvalidAddress(Arc<str>),
    /// The name of the node is unknown.
    #[error("the name of the node is unknown")]
    NoNodeName,
    /// An allocation was not written, or it is not known whether it was.
    #[error("cannot write the allocation: {0}")]
    Allocating(ApiError),
    /// A release or a recovery was not written, or it is not known whether it was.
    #[error("cannot update the pool state: {0}")]
    Updating(ApiError),
    /// The document is lost and cannot be rebuilt.
    #[error(transparent)]
    Owners(#[from] OwnersUnknown),
    /// The VM of a recorded allocation serves another one: the record is kept until the VM is given back, or reclaimed because nobody owns
    /// the other one.
    #[error("VM {address} is held under allocation `{holder}`")]
    HeldByAnother {
        /// The VM that refused to boot for this allocation.
        address: Address,
        /// What the VM says.
        holder: Arc<str>,
    },
    /// The allocation did not get its owner; it was rolled back, as far as that went.
    #[error(transparent)]
    NotOwned(#[from] NotOwned),
    /// The document was lost between the allocation and the writing of its owner: the allocation counts as never given.
    #[error("the record was lost before it was used")]
    RecordLost,
    /// The VM did not take the user data; the allocation was rolled back, as far as that went.
    #[error("cannot send the user data: {0}")]
    UserData(VmError),
    /// The operation did not end within its time. What it had begun may still take effect; a release can be repeated.
    #[error("the operation timed out")]
    OutOfTime,
    /// Upstream's process panics here: the caller is to crash it (B W18).
    #[error("panic: assignment to entry in nil map")]
    Panic,
}

impl PoolError {
    /// The failed request that ended the operation, if one did.
    pub(super) fn of_request(&self) -> Option<&ApiError> {
        match self {
            Self::Reading(ReadError::Api(error)) | Self::Allocating(error) | Self::Updating(error) => Some(error),
            _ => None,
        }
    }

    /// The name of the sentinel error that upstream returns or wraps, for those that it has.
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

/// The owners cannot be told now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the live owners of addresses are unknown: {0}")]
pub struct OwnersUnknown(pub String);

/// An allocation did not get its owner.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotOwned {
    /// The owner was not written, or it is not known whether it was.
    #[error("cannot record the owner: {0}")]
    Api(ApiError),
    /// Nobody wants it any more.
    #[error("the sandbox was stopped")]
    Unwanted,
}
