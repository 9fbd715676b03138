//! The agent's memory of ADDs: of those that failed (A §5.5), and of endpoints that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::allocated_ip::AllocatedIp;

/// The addresses that pods got in an ADD that failed afterwards, by the UID of the pod. Lost with the process.
///
/// In the hardened form these are the addresses that could not be released, or may have been recorded without confirmation: the next ADD
/// reads their pools first, and DEL releases them.
#[derive(Clone, Debug, Default)]
pub(super) struct FailureCache(Arc<Mutex<Memory>>);

/// A pool that may hold an unconfirmed record of a NIC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Suspect {
    /// The NIC whose record it is.
    pub(super) nic: Arc<str>,
    /// The name of the pool.
    pub(super) pool: Arc<str>,
}

#[derive(Debug, Default)]
struct Memory {
    allocated: BTreeMap<Arc<str>, Vec<AllocatedIp>>,
    suspects: BTreeMap<Arc<str>, BTreeSet<Suspect>>,
    /// Pools that were seen to hold a record of the pod that its endpoint may name: a NIC may answer on it.
    held: BTreeMap<Arc<str>, BTreeSet<Suspect>>,
    /// Such pools for all pods, where the cache did not show the record when all pools were read last.
    unseen: BTreeMap<Arc<str>, BTreeSet<Suspect>>,
    /// Pools that this process has changed.
    fenced: BTreeSet<Arc<str>>,
    /// The UIDs of pods whose endpoints this process has written, as far as it knows, and that no DEL has ended since.
    served: BTreeSet<Arc<str>>,
}

impl FailureCache {
    /// The remembered addresses of a pod.
    pub(super) fn of(&self, uid: &str) -> Vec<AllocatedIp> {
        self.0.lock().unwrap().allocated.get(uid).cloned().unwrap_or_default()
    }

    /// Replaces the remembered addresses of a pod; an empty list removes them.
    pub(super) fn set(&self, uid: &Arc<str>, allocated: Vec<AllocatedIp>) {
        let entries = &mut self.0.lock().unwrap().allocated;
        if allocated.is_empty() {
            entries.remove(uid);
        } else {
            entries.insert(uid.clone(), allocated);
        }
    }

    /// Forgets the failures of a pod.
    pub(super) fn forget(&self, uid: &str) {
        let mut memory = self.0.lock().unwrap();
        memory.allocated.remove(uid);
        memory.suspects.remove(uid);
        memory.held.remove(uid);
        memory.unseen.remove(uid);
    }

    /// Remembers that the pod may have an endpoint, whatever the cache shows.
    pub(super) fn serve(&self, uid: &Arc<str>) {
        self.0.lock().unwrap().served.insert(uid.clone());
    }

    /// Whether the pod may have an endpoint, whatever the cache shows.
    pub(super) fn is_served(&self, uid: &str) -> bool {
        self.0.lock().unwrap().served.contains(uid)
    }

    /// Forgets a pod that needs nothing any more.
    pub(super) fn forget_pod(&self, uid: &str) {
        self.forget(uid);
        self.0.lock().unwrap().served.remove(uid);
    }

    /// All remembered addresses, by the UID of the pod.
    pub(super) fn all(&self) -> BTreeMap<Arc<str>, Vec<AllocatedIp>> {
        self.0.lock().unwrap().allocated.clone()
    }

    /// Remembers a pool that may hold a record of a NIC of the pod.
    pub(super) fn suspect(&self, uid: &Arc<str>, suspect: Suspect) {
        self.0.lock().unwrap().suspects.entry(uid.clone()).or_default().insert(suspect);
    }

    /// Remembers a pool that holds a record of a NIC of the pod, which an endpoint may name.
    pub(super) fn hold(&self, uid: &Arc<str>, suspect: Suspect) {
        self.0.lock().unwrap().held.entry(uid.clone()).or_default().insert(suspect);
    }

    /// Replaces the list of pools in which the cache does not show the records of pods yet: an earlier run of this process may have made
    /// some of them.
    pub(super) fn see(&self, unseen: BTreeMap<Arc<str>, BTreeSet<Suspect>>) {
        self.0.lock().unwrap().unseen = unseen;
    }

    /// Forgets that a pool may hold records of NICs of the pod: none `is_left`, and earlier writes to it can no longer take effect (K070).
    pub(super) fn settle(&self, uid: &str, pool: &str, is_left: impl Fn(&str) -> bool) {
        let memory = &mut *self.0.lock().unwrap();
        for suspects in [&mut memory.suspects, &mut memory.held, &mut memory.unseen] {
            forget_pool(suspects, uid, pool, &is_left);
        }
    }

    /// Forgets that a pool was seen to hold records of NICs of the pod: none `is_left`. Earlier writes to it may still be carried out.
    pub(super) fn unhold(&self, uid: &str, pool: &str, is_left: impl Fn(&str) -> bool) {
        forget_pool(&mut self.0.lock().unwrap().held, uid, pool, &is_left);
    }

    /// Remembers that this process has changed a pool: writes that an earlier process sent were based on an older version, and have no
    /// effect (K070).
    pub(super) fn fence(&self, pool: &str) {
        let fenced = &mut self.0.lock().unwrap().fenced;
        if !fenced.contains(pool) {
            fenced.insert(pool.into());
        }
    }

    /// Whether this process has changed a pool.
    pub(super) fn is_fenced(&self, pool: &str) -> bool {
        self.0.lock().unwrap().fenced.contains(pool)
    }

    /// The pools that may hold a record of the pod that no ADD was answered with. Almost every pod has none.
    pub(super) fn suspects(&self, uid: &str) -> Vec<Suspect> {
        self.0.lock().unwrap().suspects.get(uid).into_iter().flatten().cloned().collect()
    }

    /// The suspects, and the pools that were seen to hold a record of the pod, whether a NIC answers on it or not. The cache may not show
    /// it.
    pub(super) fn holders(&self, uid: &str) -> Vec<Suspect> {
        let memory = self.0.lock().unwrap();
        [&memory.suspects, &memory.held, &memory.unseen].into_iter().filter_map(|suspects| suspects.get(uid)).flatten().cloned().collect()
    }
}

fn forget_pool(suspects: &mut BTreeMap<Arc<str>, BTreeSet<Suspect>>, uid: &str, pool: &str, is_left: &impl Fn(&str) -> bool) {
    if let Some(of_pod) = suspects.get_mut(uid) {
        of_pod.retain(|suspect| *suspect.pool != *pool || is_left(&suspect.nic));
        if of_pod.is_empty() {
            suspects.remove(uid);
        }
    }
}
