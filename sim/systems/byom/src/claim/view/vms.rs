//! The VMs, according to their notes.

use std::sync::Arc;

use ipam_byom::AddressKey;
use kube_machinery::FxHashMap;
use sim_config::time::SimTime;

use crate::workload::VmChange;

/// The known state of a VM.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Vm {
    /// The allocation whose user data it has taken since its last boot, and the time.
    pub(in super::super) tenant: Option<(Arc<str>, SimTime)>,
    /// The time since which it is about to boot.
    pub(in super::super) going_down: Option<SimTime>,
    /// Whether it does not answer.
    pub(in super::super) broken: bool,
}

/// The known VMs, by address.
#[derive(Debug, Default)]
pub(in super::super) struct Vms(FxHashMap<AddressKey, Vm>);

impl Vms {
    /// The known state of a VM.
    pub(in super::super) fn get(&self, address: &AddressKey) -> Option<&Vm> {
        self.0.get(address)
    }

    /// Whether it does not answer.
    pub(in super::super) fn is_broken(&self, address: &AddressKey) -> bool {
        self.get(address).is_some_and(|vm| vm.broken)
    }

    /// Whether some VM does not answer.
    pub(in super::super) fn any_broken(&self) -> bool {
        self.0.values().any(|vm| vm.broken)
    }

    pub(super) fn see(&mut self, address: &AddressKey, change: &VmChange, at: SimTime) {
        let vm = self.0.entry(address.clone()).or_default();
        match change {
            VmChange::Given { id, .. } => vm.tenant = Some((id.clone(), at)),
            VmChange::Rebooting { .. } => vm.going_down = vm.going_down.or(Some(at)),
            VmChange::Booted => {
                vm.tenant = None;
                vm.going_down = None;
            }
            VmChange::Broken => vm.broken = true,
            VmChange::Mended => vm.broken = false,
        }
    }
}
