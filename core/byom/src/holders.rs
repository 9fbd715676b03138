//! VMs that serve another allocation than the one recorded for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::address::{Address, AddressKey};
use super::error::PoolError;

/// The allocations served by VMs that are recorded for another allocation and refused to boot for it. Nothing else knows of such an
/// allocation if its record was overwritten and its owner left without its VM. Clones share the memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders(Arc<Mutex<BTreeMap<Arc<str>, Address>>>);

impl Holders {
    pub(super) fn learn(&self, error: &PoolError) {
        if let PoolError::HeldByAnother { address, holder } = error {
            self.0.lock().unwrap().insert(holder.clone(), address.clone());
        }
    }

    pub(super) fn vm(&self, holder: &str) -> Option<Address> {
        self.0.lock().unwrap().get(holder).cloned()
    }

    /// Forgets the allocations that have, or may have, an owner after all; returns the remaining ones.
    pub(super) fn unowned(&self, owned: &BTreeSet<Arc<str>>, owned_vms: &BTreeSet<AddressKey>) -> BTreeSet<Arc<str>> {
        let mut holders = self.0.lock().unwrap();
        holders.retain(|holder, vm| !owned.contains(holder) && !owned_vms.contains(vm.key()));
        holders.keys().cloned().collect()
    }

    pub(super) fn forget(&self, holder: &str) {
        self.0.lock().unwrap().remove(holder);
    }
}
