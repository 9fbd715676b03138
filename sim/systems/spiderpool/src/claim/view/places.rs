//! The history of the places of StatefulSets and VMs (A §6.4, §6.5).

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube_machinery::FxHashMap;
use kube_machinery::kubevirt::{VirtualMachine, VirtualMachineInstance};
use sim_config::time::SimTime;

use super::pods::Place;

/// The ordinals of a StatefulSet: the first, and the number of them.
type Ordinals = (u32, u32);

/// A state that began at a moment.
#[derive(Clone, Copy, Debug)]
struct Era<T> {
    from: u64,
    at: SimTime,
    state: T,
}

/// A moment, and its time.
pub(super) type When = (u64, SimTime);

/// A VM and its instance.
#[derive(Debug, Default)]
struct Vm {
    /// Whether the instance is being deleted, and whether a VM controls it.
    instance: Option<(bool, bool)>,
    /// The UIDs of the pods that the instance says are active.
    active: Vec<String>,
    /// The UIDs of pods that were active by the instance, each with the time since which it is not.
    inactive: Vec<(String, SimTime)>,
    /// Whether the VM is being deleted.
    machine: Option<bool>,
    /// Whether the VM keeps its addresses, from a moment on.
    eras: Vec<Era<bool>>,
    /// The time since which there has been neither an instance nor a VM that keeps the addresses.
    freed: SimTime,
}

impl Vm {
    fn is_valid(&self) -> bool {
        match self.instance {
            Some((false, _)) => true,
            Some((true, false)) => false,
            Some((true, true)) | None => self.machine == Some(false),
        }
    }

    /// Whether nothing is left that could keep addresses: a finalizer holds an instance that is being deleted until its pods are gone, and
    /// until then they may run (D, `ending-vm-frees`).
    fn is_free(&self) -> bool {
        !self.is_valid() && self.instance.is_none()
    }

    fn turn(&mut self, when: When) -> bool {
        if !self.is_free() {
            self.freed = SimTime::NEVER;
        } else if self.freed == SimTime::NEVER {
            self.freed = when.1;
        }
        let valid = self.is_valid();
        turn(&mut self.eras, when, valid)
    }
}

/// The ordinals of each StatefulSet, and whether each VM keeps its addresses, with their histories.
#[derive(Debug, Default)]
pub(in super::super) struct Places {
    /// The ordinals of each StatefulSet, from a moment on.
    sets: FxHashMap<Arc<str>, Vec<Era<Ordinals>>>,
    vms: FxHashMap<Arc<str>, Vm>,
}

/// Whether `holds` was true of the state at all times since `moment`.
fn throughout<T>(eras: &[Era<T>], moment: u64, holds: impl Fn(&T) -> bool) -> bool {
    let first = eras.iter().rposition(|era| era.from <= moment).unwrap_or(0);
    !eras.is_empty() && eras[first..].iter().all(|era| holds(&era.state))
}

/// Like [`throughout`] since a time, including the state just before the events of that time.
fn throughout_from<T>(eras: &[Era<T>], time: SimTime, holds: impl Fn(&T) -> bool) -> bool {
    let first = eras.iter().rposition(|era| era.at < time).unwrap_or(0);
    !eras.is_empty() && eras[first..].iter().all(|era| holds(&era.state))
}

/// Sets the state from now on. Returns whether it changed.
fn turn<T: PartialEq>(eras: &mut Vec<Era<T>>, (from, at): When, state: T) -> bool {
    let turns = eras.last().is_none_or(|era| era.state != state);
    if turns {
        eras.push(Era { from, at, state });
    }
    turns
}

/// The time since which the state has been one for which `holds` is true.
fn since<T>(eras: &[Era<T>], holds: impl Fn(&T) -> bool) -> SimTime {
    eras.iter().rev().take_while(|era| holds(&era.state)).last().map_or(SimTime::ZERO, |era| era.at)
}

fn has((start, count): &Ordinals, ordinal: u32) -> bool {
    (*start..start.saturating_add(*count)).contains(&ordinal)
}

impl Places {
    /// Whether a place exists now.
    pub(in super::super) fn is_there(&self, place: &Place) -> bool {
        self.were_there_since(place, u64::MAX)
    }

    /// The time since which nothing of a place has existed; `None` = something does, even if only the instance of a VM that is being
    /// deleted. A place that was never seen counts as gone from the beginning.
    pub(in super::super) fn gone_since(&self, place: &Place) -> Option<SimTime> {
        match place {
            Place::Ordinal(set, ordinal) => (!self.is_there(place))
                .then(|| self.sets.get(set).map_or(SimTime::ZERO, |eras| since(eras, |ordinals| !has(ordinals, *ordinal)))),
            Place::Vm(vmi) => self.vms.get(vmi).map_or(Some(SimTime::ZERO), |vm| vm.is_free().then_some(vm.freed)),
        }
    }

    /// Whether a place existed at all times since `moment`.
    pub(in super::super) fn were_there_since(&self, place: &Place, moment: u64) -> bool {
        match place {
            Place::Ordinal(set, ordinal) => {
                self.sets.get(set).is_some_and(|eras| throughout(eras, moment, |ordinals| has(ordinals, *ordinal)))
            }
            Place::Vm(vmi) => self.vms.get(vmi).is_some_and(|vm| throughout(&vm.eras, moment, |valid| *valid)),
        }
    }

    /// Whether a place existed at all times since a point of time, and just before it.
    pub(in super::super) fn were_there_from(&self, place: &Place, time: SimTime) -> bool {
        match place {
            Place::Ordinal(set, ordinal) => {
                self.sets.get(set).is_some_and(|eras| throughout_from(eras, time, |ordinals| has(ordinals, *ordinal)))
            }
            Place::Vm(vmi) => self.vms.get(vmi).is_some_and(|vm| throughout_from(&vm.eras, time, |valid| *valid)),
        }
    }

    /// Whether the instance of a VM says that a pod other than `uid` is active, whether or not that pod exists.
    pub(in super::super) fn has_other_active_pod(&self, vm: &str, uid: &str) -> bool {
        self.vms.get(vm).is_some_and(|vm| vm.active.iter().any(|active| active != uid))
    }

    /// Whether the instance of a VM has said since a point of time that a pod other than `uid` is active.
    pub(super) fn had_other_active_pod(&self, vm: &str, uid: &str, since: SimTime) -> bool {
        let was_active = |vm: &Vm| vm.inactive.iter().any(|(other, at)| other != uid && *at >= since);
        self.has_other_active_pod(vm, uid) || self.vms.get(vm).is_some_and(was_active)
    }

    /// Takes in a version of a StatefulSet. Returns whether its places changed.
    pub(super) fn see_set(&mut self, key: &str, when: When, set: Option<&StatefulSet>) -> bool {
        let spec = set.map(|set| &set.spec);
        let start = spec.and_then(|spec| spec.ordinals.as_ref()?.start).unwrap_or(0);
        let count = spec.map_or(0, |spec| spec.replicas.unwrap_or(1));
        let ordinals = (u32::try_from(start).unwrap_or(0), u32::try_from(count).unwrap_or(0));
        let eras = match self.sets.get_mut(key) {
            Some(eras) => eras,
            None => self.sets.entry(key.into()).or_default(),
        };
        turn(eras, when, ordinals)
    }

    fn vm(&mut self, key: &str) -> &mut Vm {
        self.vms.entry(key.into()).or_default()
    }

    /// Takes in a version of a VMI, `None` if it is gone. Returns whether its VM started or stopped keeping its addresses.
    pub(super) fn see_instance(&mut self, key: &str, when: When, instance: Option<&VirtualMachineInstance>) -> bool {
        let vm = self.vm(key);
        let status = instance.and_then(|instance| instance.status.as_ref());
        let active: Vec<String> = status.map(|status| status.active_pods.keys().cloned().collect()).unwrap_or_default();
        vm.inactive.retain(|(uid, _)| !active.contains(uid));
        let gone = std::mem::take(&mut vm.active).into_iter().filter(|uid| !active.contains(uid));
        vm.inactive.extend(gone.map(|uid| (uid, when.1)));
        vm.active = active;
        vm.instance = instance.map(|instance| {
            let owners = instance.metadata.owner_references.iter().flatten();
            let controlled = owners.into_iter().any(|owner| owner.kind == "VirtualMachine" && owner.controller == Some(true));
            (instance.metadata.deletion_timestamp.is_some(), controlled)
        });
        vm.turn(when)
    }

    /// Takes in a version of a VM, `None` if it is gone. Returns whether it started or stopped keeping its addresses.
    pub(super) fn see_machine(&mut self, key: &str, when: When, machine: Option<&VirtualMachine>) -> bool {
        let vm = self.vm(key);
        vm.machine = machine.map(|machine| machine.metadata.deletion_timestamp.is_some());
        vm.turn(when)
    }
}
