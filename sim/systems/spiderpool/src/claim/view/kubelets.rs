//! The kubelets: whether they run, and when they were told that a pod is to end or is gone.

use std::sync::Arc;

use kube_machinery::{FxHashMap, FxHashSet};
use kube_sim::rt::ProcessId;
use kube_sim::trace::ProcessChange;
use sim_config::time::SimTime;

/// The known state of the kubelets that have or had a sandbox.
#[derive(Debug, Default)]
pub(in super::super) struct Kubelets {
    known: FxHashSet<ProcessId>,
    down: FxHashSet<ProcessId>,
    up: FxHashMap<ProcessId, SimTime>,
    /// The times at which kubelets that crashed started again.
    reborn: FxHashMap<ProcessId, SimTime>,
    crashed: FxHashSet<ProcessId>,
    told: FxHashMap<Arc<str>, SimTime>,
}

impl Kubelets {
    /// Whether a kubelet is down or paused.
    pub(in super::super) fn is_down(&self, process: ProcessId) -> bool {
        self.down.contains(&process)
    }

    /// The time at which a kubelet last began to run again; `None` = it has always run.
    pub(in super::super) fn up_since(&self, process: ProcessId) -> Option<SimTime> {
        self.up.get(&process).copied()
    }

    /// The time at which a kubelet, in its present life, was first told that a pod of its node is to end.
    pub(in super::super) fn told_of_end(&self, process: ProcessId, uid: &str) -> Option<SimTime> {
        let told = self.told.get(uid).copied()?;
        (!self.is_forgotten(process, told)).then_some(told)
    }

    /// Whether a kubelet has crashed since a time.
    fn is_forgotten(&self, process: ProcessId, told: SimTime) -> bool {
        self.crashed.contains(&process) || self.reborn.get(&process).is_some_and(|reborn| *reborn > told)
    }

    /// Whether a process is a kubelet.
    pub(super) fn is_one(&self, process: ProcessId) -> bool {
        self.known.contains(&process)
    }

    pub(super) fn speaks(&mut self, process: ProcessId) {
        self.known.insert(process);
    }

    pub(super) fn is_told(&mut self, process: ProcessId, uid: &str, at: SimTime) {
        if self.told_of_end(process, uid).is_none() {
            self.told.insert(uid.into(), at);
        }
    }

    pub(super) fn changes(&mut self, process: ProcessId, change: ProcessChange, at: SimTime) {
        match change {
            ProcessChange::Started | ProcessChange::Resumed => {
                if self.down.remove(&process) {
                    self.up.insert(process, at);
                }
                if change == ProcessChange::Started && self.crashed.remove(&process) {
                    self.reborn.insert(process, at);
                }
            }
            ProcessChange::Crashed | ProcessChange::Panicked => {
                self.down.insert(process);
                self.crashed.insert(process);
            }
            ProcessChange::Paused => {
                self.down.insert(process);
            }
        }
    }
}
