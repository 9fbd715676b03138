//! The sandboxes and the addresses that they answer on: the ground truth, whatever the API says.

use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::{FxHashMap, FxHashSet, ObjectKey};
use kube_sim::node::PodNote;

use super::Said;

/// A sandbox since its kubelet made it; it stays known when it is gone.
#[derive(Clone, Debug)]
pub(in super::super) struct Sandbox {
    /// The namespace and name of its pod, which another pod may have by now.
    pub(in super::super) pod: ObjectKey,
    /// The UID of its pod.
    pub(in super::super) uid: Arc<str>,
    /// The kubelet that reported it, and the time.
    pub(in super::super) said: Said,
    /// The NICs on which it answers, since when, and the addresses.
    pub(in super::super) nics: Vec<(Arc<str>, Said, Arc<[IpAddr]>)>,
    /// The NICs whose DEL is in progress or has failed. The other NICs still get theirs, and then all are called again: the network
    /// namespace, and with it a NIC whose DEL was lost, stays until none fails (K §5.3).
    pub(in super::super) pending_dels: FxHashSet<Arc<str>>,
    /// Whether an ADD is in progress.
    pub(in super::super) is_being_set_up: bool,
}

/// All sandboxes by ID; those that are gone answer on no address.
#[derive(Debug, Default)]
pub(in super::super) struct Sandboxes {
    by_id: FxHashMap<Arc<str>, Sandbox>,
    by_address: FxHashMap<IpAddr, Vec<Arc<str>>>,
}

impl Sandboxes {
    /// The sandbox with an ID, even if it is gone; `None` = no kubelet reported it.
    pub(in super::super) fn get(&self, id: &str) -> Option<&Sandbox> {
        self.by_id.get(id)
    }

    /// All sandboxes, in arbitrary order.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Sandbox)> {
        self.by_id.iter()
    }

    /// The sandboxes that answer on an address.
    pub(in super::super) fn answering(&self, address: IpAddr) -> impl Iterator<Item = (&Arc<str>, &Sandbox)> {
        let ids = self.by_address.get(&address).into_iter().flatten();
        ids.filter_map(|id| Some((id, self.by_id.get(id)?)))
    }

    /// Makes a sandbox stop answering on a NIC; `None` = on all of them.
    fn silence(&mut self, id: &str, nic: Option<&str>) {
        let Some(sandbox) = self.by_id.get_mut(id) else { return };
        let by_address = &mut self.by_address;
        sandbox.nics.retain(|(name, _, addresses)| {
            let goes = nic.is_none_or(|nic| **name == *nic);
            for address in addresses.iter().filter(|_| goes) {
                if let Some(ids) = by_address.get_mut(address) {
                    ids.retain(|other| **other != *id);
                    if ids.is_empty() {
                        by_address.remove(address);
                    }
                }
            }
            !goes
        });
    }

    fn set_up(&mut self, id: &str, begins: bool) {
        if let Some(sandbox) = self.by_id.get_mut(id) {
            sandbox.is_being_set_up = begins;
        }
    }

    pub(super) fn note(&mut self, note: &PodNote, said: Said) {
        match note {
            PodNote::SandboxStarted { sandbox, pod, uid } => {
                let (pod, uid) = (pod.clone(), uid.clone());
                let made = Sandbox { pod, uid, said, nics: Vec::new(), pending_dels: FxHashSet::default(), is_being_set_up: false };
                self.by_id.insert(sandbox.clone(), made);
            }
            PodNote::Attached { sandbox, nic, addresses } => {
                self.silence(sandbox, Some(nic));
                self.set_up(sandbox, false);
                if let Some(known) = self.by_id.get_mut(sandbox) {
                    known.nics.push((nic.clone(), said, addresses.clone()));
                    for address in addresses.iter() {
                        self.by_address.entry(*address).or_default().push(sandbox.clone());
                    }
                }
            }
            // The containers have stopped by then: a NIC that is being taken down serves nobody.
            PodNote::DelAsked { sandbox, nic, netns } => {
                self.silence(sandbox, Some(nic));
                // Without a network namespace nothing is left of it that could end (K §5.4, §5.5).
                if *netns && let Some(known) = self.by_id.get_mut(sandbox) {
                    known.pending_dels.insert(nic.clone());
                }
            }
            PodNote::DelDone { sandbox, nic, failed: false } => {
                if let Some(known) = self.by_id.get_mut(sandbox) {
                    known.pending_dels.remove(nic);
                }
            }
            PodNote::SandboxGone { sandbox } => {
                self.silence(sandbox, None);
                self.set_up(sandbox, false);
                if let Some(known) = self.by_id.get_mut(sandbox) {
                    known.pending_dels.clear();
                }
            }
            PodNote::InterfaceDown { sandbox, nic } => self.silence(sandbox, Some(nic)),
            PodNote::AddAsked { sandbox, .. } => self.set_up(sandbox, true),
            PodNote::AddFailed { sandbox, .. } => self.set_up(sandbox, false),
            PodNote::DelDone { failed: true, .. } | PodNote::PodRunning { .. } | PodNote::PodStopped { .. } => {}
        }
    }
}
