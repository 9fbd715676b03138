//! Who may still be using an address, according to something else than the pool document.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use super::address::AddressKey;
use super::allocation::IpAllocation;
use super::error::{NotOwned, OwnersUnknown};
use super::observer::Step;
use super::outcome::Context;

/// What the owners of addresses name.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The allocations that they name.
    pub allocations: Vec<IpAllocation>,
    /// The VMs of those that name no allocation, as an older version's do: whoever such a VM serves may be theirs.
    pub vms: BTreeSet<AddressKey>,
}

/// The live owners of addresses: in reality the PeerPod objects.
///
/// Only [`live`](Self::live) has to be there; an owner is then whatever it returns. Who keeps owners himself has the pool
/// tell him when one comes ([`own`](Self::own)) and when one goes before it was used ([`disown`](Self::disown)).
pub trait Owners: Clone + Send + Sync + 'static {
    /// Every allocation that may still be in use; what is in doubt is in the list. Read after the call, not from a cache.
    ///
    /// The pool is rebuilt from it when the document is lost, so an allocation that is missing here would be granted twice.
    ///
    /// # Errors
    /// It cannot be told. Then nothing is rebuilt and nothing released.
    fn live(&self) -> impl Future<Output = Result<Vec<IpAllocation>, OwnersUnknown>> + Send;

    /// What owners name, also where another allocation of a VM is the one that [`live`](Self::live) has. Records that are missing here for
    /// long are released.
    ///
    /// # Errors
    /// It cannot be told.
    fn named(&self) -> impl Future<Output = Result<Named, OwnersUnknown>> + Send {
        async { Ok(Named { allocations: self.live().await?, vms: BTreeSet::new() }) }
    }

    /// The namespace of the pod that an allocation is for whose record does not say it; `None` = that cannot be told.
    fn namespace_of(&self, record: &IpAllocation) -> impl Future<Output = Option<Arc<str>>> + Send {
        let _ = record;
        async { None }
    }

    /// An allocation was recorded and is about to be used: once this is done, [`live`](Self::live) has it. With
    /// `byom-owner-recorded-late` nobody calls it.
    ///
    /// # Errors
    /// It is not known to be in the list. Then the allocation is rolled back.
    fn own(&self, record: &IpAllocation, context: Context) -> impl Future<Output = Result<(), NotOwned>> + Send {
        let _ = (record, context);
        async { Ok(()) }
    }

    /// Whether anybody still wants an address under `id`. Asked before a record is written: once its sandbox was stopped, and what it
    /// had was released, a call that is still on its way must not bring the record back. Nor may it take another sandbox of the pod for its
    /// predecessor.
    fn wants(&self, id: &Arc<str>) -> bool {
        let _ = id;
        true
    }

    /// An allocation was rolled back: `released` tells whether its record is gone. If it is not, somebody else has to go
    /// on with it.
    fn disown(&self, id: &Arc<str>, released: bool) -> impl Future<Output = ()> + Send {
        let _ = (id, released);
        async {}
    }

    /// Told what the pool does. Neither waits nor calls back.
    fn observe(&self, step: Step<'_>) {
        let _ = step;
    }
}

/// Nobody knows, ever: a lost document stays lost until somebody restores it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOwners;

impl Owners for NoOwners {
    async fn live(&self) -> Result<Vec<IpAllocation>, OwnersUnknown> {
        Err(OwnersUnknown("nothing keeps them".to_owned()))
    }
}
