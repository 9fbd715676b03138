//! Who may still be using an address, according to something else than the pool document.

use std::future::Future;

use thiserror::Error;

use super::allocation::IpAllocation;

/// The live owners of addresses: in reality the PeerPod objects and the adaptors' own sandboxes.
pub trait Owners: Clone + Send + Sync + 'static {
    /// Every allocation that may still be in use; what is in doubt is in the list. Read after the call, not from a cache.
    ///
    /// Two things rest on it: the pool is rebuilt from it when the document is lost, so an allocation that is missing here
    /// would be granted twice; and records that are missing here for long are released.
    ///
    /// # Errors
    /// It cannot be told. Then nothing is rebuilt and nothing released.
    fn live(&self) -> impl Future<Output = Result<Vec<IpAllocation>, OwnersUnknown>> + Send;
}

/// The owners cannot be told now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the live owners of addresses are unknown: {0}")]
pub struct OwnersUnknown(pub String);

/// Nobody knows, ever: a lost document stays lost until somebody restores it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOwners;

impl Owners for NoOwners {
    async fn live(&self) -> Result<Vec<IpAllocation>, OwnersUnknown> {
        Err(OwnersUnknown("nothing keeps them".to_owned()))
    }
}
