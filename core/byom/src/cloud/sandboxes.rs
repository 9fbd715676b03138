//! An adaptor process's memory of its sandboxes, which is lost with the process (B §5.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::peer_pod::PeerPod;
use super::sandbox::Sandbox;
use crate::instance::Instance;
use kube_machinery::api::ObjectKey;
use kube_machinery::latest;

/// The known state of a sandbox's PeerPod.
#[derive(Clone, Debug)]
pub(super) enum Written {
    /// A create was sent; it is unknown whether it was stored.
    Perhaps(ObjectKey),
    /// The PeerPod is stored, as last returned by the API server.
    Seen(Arc<PeerPod>),
}

/// One sandbox, from the beginning of StartVM to the end of StopVM.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) sandbox: Sandbox,
    /// The VM, once it has its user data.
    pub(super) instance: Option<Instance>,
    pub(super) peer_pod: Option<Written>,
    /// Whether StartVM is under way.
    pub(super) starting: bool,
    /// Whether StopVM is done while StartVM is still under way.
    over: bool,
    /// Becomes true with StopVM.
    pub(super) stopped: latest::Sender<bool>,
}

impl Entry {
    fn new(sandbox: Sandbox) -> Self {
        Self { sandbox, instance: None, peer_pod: None, starting: false, over: false, stopped: latest::Sender::new(false) }
    }
}

/// The sandboxes of one process.
#[derive(Debug, Default)]
pub(super) struct Sandboxes {
    entries: BTreeMap<Arc<str>, Entry>,
    /// The sandbox ID of each allocation ID.
    allocations: BTreeMap<Arc<str>, Arc<str>>,
    /// The PeerPod that was last written for a Pod, by the Pod's UID.
    pub(super) peer_pods: BTreeMap<Arc<str>, Arc<PeerPod>>,
}

impl Sandboxes {
    /// Notes the beginning of StartVM. The receiver becomes true if a StopVM comes before its end.
    pub(super) fn begin(&mut self, sandbox: &Sandbox) -> latest::Receiver<bool> {
        self.allocations.insert(sandbox.allocation_id(), sandbox.id.clone());
        let entry = self.entries.entry(sandbox.id.clone()).or_insert_with(|| Entry::new(sandbox.clone()));
        entry.starting = true;
        entry.stopped.subscribe()
    }

    /// Notes the end of StartVM; a sandbox that was stopped before it is forgotten.
    pub(super) fn end(&mut self, sandbox: &Sandbox) {
        let Some(entry) = self.entries.get_mut(&sandbox.id) else { return };
        entry.starting = false;
        if entry.over {
            self.remove(sandbox);
        }
    }

    fn remove(&mut self, sandbox: &Sandbox) {
        self.entries.remove(&sandbox.id);
        self.allocations.remove(&sandbox.allocation_id());
    }

    /// The entry of a sandbox; one that was stopped is unknown.
    pub(super) fn known(&mut self, sandbox_id: &str) -> Option<&mut Entry> {
        self.get(sandbox_id).filter(|entry| !entry.over)
    }

    pub(super) fn get(&mut self, sandbox_id: &str) -> Option<&mut Entry> {
        self.entries.get_mut(sandbox_id)
    }

    pub(super) fn of_allocation(&mut self, id: &str) -> Option<&mut Entry> {
        self.allocations.get(id).and_then(|sandbox_id| self.entries.get_mut(sandbox_id))
    }

    /// The PeerPods of its sandboxes, as last seen.
    pub(super) fn written(&self) -> Vec<Arc<PeerPod>> {
        let seen = |entry: &Entry| match &entry.peer_pod {
            Some(Written::Seen(peer_pod)) => Some(peer_pod.clone()),
            Some(Written::Perhaps(_)) | None => None,
        };
        self.entries.values().filter_map(seen).collect()
    }

    /// Notes the end of StopVM. A StartVM that is under way still finds its entry for the clean-up.
    pub(super) fn forget(&mut self, sandbox: &Sandbox) {
        match self.entries.get_mut(&sandbox.id) {
            Some(entry) if entry.starting => entry.over = true,
            _ => self.remove(sandbox),
        }
    }

    /// Notes that the PeerPod of a Pod was released.
    pub(super) fn forget_peer_pod(&mut self, peer_pod: &PeerPod) {
        self.peer_pods.retain(|_, known| known.metadata.uid != peer_pod.metadata.uid);
    }

    /// The number of remembered sandboxes.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
