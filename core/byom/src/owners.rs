//! The possible users of addresses, according to another source than the pool document.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use super::address::AddressKey;
use super::allocation::IpAllocation;
use super::error::{NotOwned, OwnersUnknown};
use super::observer::Step;
use super::outcome::Context;

/// The allocations and VMs that owners of addresses name.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The allocations that the owners name.
    pub allocations: Vec<IpAllocation>,
    /// The VMs of owners that name no allocation, like those of an older version: the allocation that such a VM serves may belong to them.
    pub vms: BTreeSet<AddressKey>,
}

/// The live owners of addresses: in reality the PeerPod objects.
///
/// Only [`live`](Self::live) must be implemented; an owner is then whatever it returns. Implementations that keep owners themselves are
/// told by the pool when one is added ([`own`](Self::own)) and when one is withdrawn before it was used ([`disown`](Self::disown)).
pub trait Owners: Clone + Send + Sync + 'static {
    /// Lists every allocation that may still be in use, doubtful ones included. Reads after the call, not from a cache.
    ///
    /// The pool is rebuilt from the list when the document is lost, so an allocation that is missing here would be granted twice.
    ///
    /// # Errors
    /// The owners are unknown. Then nothing is rebuilt and nothing is released.
    fn live(&self) -> impl Future<Output = Result<Vec<IpAllocation>, OwnersUnknown>> + Send;

    /// Lists everything that owners name, even where [`live`](Self::live) has another allocation of the same VM. Records that are missing
    /// here for long are released.
    ///
    /// # Errors
    /// The owners are unknown.
    fn named(&self) -> impl Future<Output = Result<Named, OwnersUnknown>> + Send {
        async { Ok(Named { allocations: self.live().await?, vms: BTreeSet::new() }) }
    }

    /// The namespace of the pod of an allocation whose record lacks it; `None` = unknown.
    fn namespace_of(&self, record: &IpAllocation) -> impl Future<Output = Option<Arc<str>>> + Send {
        let _ = record;
        async { None }
    }

    /// Records the owner of an allocation that is about to be used: after this, [`live`](Self::live) lists it. Never called with
    /// `byom-owner-recorded-late`.
    ///
    /// # Errors
    /// The allocation may not be in the list. It is then rolled back.
    fn own(&self, record: &IpAllocation, context: Context) -> impl Future<Output = Result<(), NotOwned>> + Send {
        let _ = (record, context);
        async { Ok(()) }
    }

    /// Whether an address under `id` is still wanted. Asked before a record is written: after its sandbox was stopped and released, a call
    /// that is still on its way must not bring the record back. Nor may it take another sandbox of the pod for its predecessor.
    fn wants(&self, id: &Arc<str>) -> bool {
        let _ = id;
        true
    }

    /// Handles the roll-back of an allocation: `released` says whether its record is gone. If it is not, the release has to be continued
    /// elsewhere.
    fn disown(&self, id: &Arc<str>, released: bool) -> impl Future<Output = ()> + Send {
        let _ = (id, released);
        async {}
    }

    /// Receives a step of the pool. Must neither wait nor call back.
    fn observe(&self, step: Step<'_>) {
        let _ = step;
    }
}

/// Owners that are never known: a lost document stays lost until an operator restores it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOwners;

impl Owners for NoOwners {
    async fn live(&self) -> Result<Vec<IpAllocation>, OwnersUnknown> {
        Err(OwnersUnknown("nothing keeps them".to_owned()))
    }
}
