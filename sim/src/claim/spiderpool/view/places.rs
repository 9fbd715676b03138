//! Which places of StatefulSets and VMs there were when (A §6.4, §6.5).

use std::sync::Arc;

use ipam_core::FxHashMap;
use ipam_core::kubevirt::{VirtualMachine, VirtualMachineInstance};
use k8s_openapi::api::apps::v1::StatefulSet;

use super::pods::Place;

/// The ordinals of a StatefulSet: the first and the number.
type Ordinals = (u32, u32);

/// A VM and its instance.
#[derive(Debug, Default)]
struct Vm {
    /// Whether the instance is being deleted, and whether a VM controls it.
    instance: Option<(bool, bool)>,
    /// Whether the VM is being deleted.
    machine: Option<bool>,
    /// Whether it keeps its addresses, from a moment on.
    eras: Vec<(u64, bool)>,
}

impl Vm {
    fn is_valid(&self) -> bool {
        match self.instance {
            Some((false, _)) => true,
            Some((true, false)) => false,
            Some((true, true)) | None => self.machine == Some(false),
        }
    }

    fn turn(&mut self, moment: u64) {
        let valid = self.is_valid();
        if self.eras.last().map(|(_, valid)| *valid) != Some(valid) {
            self.eras.push((moment, valid));
        }
    }
}

/// All places.
#[derive(Debug, Default)]
pub(in super::super) struct Places {
    /// Each from a moment on.
    sets: FxHashMap<Arc<str>, Vec<(u64, Ordinals)>>,
    vms: FxHashMap<Arc<str>, Vm>,
}

/// Whether a state that began with `eras` held all the time since `moment`.
fn throughout<T>(eras: &[(u64, T)], moment: u64, holds: impl Fn(&T) -> bool) -> bool {
    let first = eras.iter().rposition(|(from, _)| *from <= moment).unwrap_or(0);
    !eras.is_empty() && eras[first..].iter().all(|(_, state)| holds(state))
}

impl Places {
    /// Whether a place was there all the time since `moment`.
    pub(in super::super) fn were_there_since(&self, place: &Place, moment: u64) -> bool {
        match place {
            Place::Ordinal(set, ordinal) => {
                let holds = |(start, count): &Ordinals| (*start..start.saturating_add(*count)).contains(ordinal);
                self.sets.get(set).is_some_and(|eras| throughout(eras, moment, holds))
            }
            Place::Vm(vmi) => self.vms.get(vmi).is_some_and(|vm| throughout(&vm.eras, moment, |valid| *valid)),
        }
    }

    pub(super) fn see_set(&mut self, key: &str, moment: u64, set: Option<&StatefulSet>) {
        let spec = set.map(|set| &set.spec);
        let start = spec.and_then(|spec| spec.ordinals.as_ref()?.start).unwrap_or(0);
        let count = spec.map_or(0, |spec| spec.replicas.unwrap_or(1));
        let ordinals = (u32::try_from(start).unwrap_or(0), u32::try_from(count).unwrap_or(0));
        let eras = match self.sets.get_mut(key) {
            Some(eras) => eras,
            None => self.sets.entry(key.into()).or_default(),
        };
        if eras.last().map(|(_, last)| *last) != Some(ordinals) {
            eras.push((moment, ordinals));
        }
    }

    fn vm(&mut self, key: &str) -> &mut Vm {
        self.vms.entry(key.into()).or_default()
    }

    pub(super) fn see_instance(&mut self, key: &str, moment: u64, instance: Option<&VirtualMachineInstance>) {
        let vm = self.vm(key);
        vm.instance = instance.map(|instance| {
            let owners = instance.metadata.owner_references.iter().flatten();
            let controlled = owners.into_iter().any(|owner| owner.kind == "VirtualMachine" && owner.controller == Some(true));
            (instance.metadata.deletion_timestamp.is_some(), controlled)
        });
        vm.turn(moment);
    }

    pub(super) fn see_machine(&mut self, key: &str, moment: u64, machine: Option<&VirtualMachine>) {
        let vm = self.vm(key);
        vm.machine = machine.map(|machine| machine.metadata.deletion_timestamp.is_some());
        vm.turn(moment);
    }
}
