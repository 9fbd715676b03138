//! The kubelets: which of them run, and when they were told that a pod is to end.

use std::sync::Arc;

use kube_machinery::{FxHashMap, FxHashSet};
use kube_sim::rt::ProcessId;
use kube_sim::trace::ProcessChange;
use sim_config::time::SimTime;

/// What is known of the kubelets that have a sandbox, or had one.
#[derive(Debug, Default)]
pub(in super::super) struct Kubelets {
    known: FxHashSet<ProcessId>,
    down: FxHashSet<ProcessId>,
    up: FxHashMap<ProcessId, SimTime>,
    told: FxHashMap<Arc<str>, SimTime>,
}

impl Kubelets {
    /// Whether a kubelet is down or stands still.
    pub(in super::super) fn is_down(&self, process: ProcessId) -> bool {
        self.down.contains(&process)
    }

    /// When a kubelet last began to run again; `None` = it has run all the time.
    pub(in super::super) fn up_since(&self, process: ProcessId) -> Option<SimTime> {
        self.up.get(&process).copied()
    }

    /// When the kubelet of a pod was first told that it is being deleted.
    pub(in super::super) fn told_of_end(&self, uid: &str) -> Option<SimTime> {
        self.told.get(uid).copied()
    }

    /// Whether a process is a kubelet.
    pub(super) fn is_one(&self, process: ProcessId) -> bool {
        self.known.contains(&process)
    }

    pub(super) fn speaks(&mut self, process: ProcessId) {
        self.known.insert(process);
    }

    pub(super) fn is_told(&mut self, uid: &str, at: SimTime) {
        if !self.told.contains_key(uid) {
            self.told.insert(uid.into(), at);
        }
    }

    pub(super) fn changes(&mut self, process: ProcessId, change: ProcessChange, at: SimTime) {
        match change {
            ProcessChange::Started | ProcessChange::Resumed => {
                if self.down.remove(&process) {
                    self.up.insert(process, at);
                }
            }
            ProcessChange::Crashed | ProcessChange::Paused | ProcessChange::Panicked => {
                self.down.insert(process);
            }
        }
    }
}
