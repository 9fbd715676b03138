//! The pods that are traced (G §1.3): in memory, of one process, and lost with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::entry::PodEntry;
use crate::Policy;

/// The entries. The hardened form has one for each UID; upstream one for each name, whatever pod that is.
#[derive(Debug)]
pub(super) struct Database {
    by_name: bool,
    capacity: usize,
    entries: BTreeMap<Arc<str>, Slot>,
    /// The earliest deadline of what did not fit: a scan is due then.
    missed: Option<Timestamp>,
}

#[derive(Debug)]
struct Slot {
    entry: PodEntry,
    /// An executor has it, or is about to.
    in_hand: bool,
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    /// It is in the database; nothing was there under its key.
    Made,
    /// It took the place of this one.
    Replaced(Box<PodEntry>),
    /// It says nothing new.
    Unchanged,
    /// There is no room for it.
    Full,
}

impl Database {
    pub(super) fn new(capacity: usize, policy: &Policy) -> Self {
        Self { by_name: policy.reclaim.database_keyed_by_name, capacity, entries: BTreeMap::new(), missed: None }
    }

    fn key(&self, entry: &PodEntry) -> Arc<str> {
        if self.by_name || entry.uid.is_empty() { entry.pod.as_str().into() } else { entry.uid.clone() }
    }

    /// Takes an entry in.
    pub(super) fn apply(&mut self, entry: PodEntry) -> Applied {
        let key = self.key(&entry);
        let full = self.entries.len() >= self.capacity;
        match self.entries.get_mut(&key) {
            None if full => {
                self.miss(entry.term.stop);
                Applied::Full
            }
            None => {
                self.entries.insert(key, Slot { entry, in_hand: false });
                Applied::Made
            }
            Some(slot) => {
                let facts = |entry: &PodEntry| (entry.term, entry.tracing, entry.requeues);
                if facts(&slot.entry) == facts(&entry) {
                    return Applied::Unchanged;
                }
                Applied::Replaced(Box::new(std::mem::replace(&mut slot.entry, entry)))
            }
        }
    }

    /// Takes note that a scan has to do what does not fit in here.
    pub(super) fn miss(&mut self, stop: Timestamp) {
        self.missed = Some(self.missed.map_or(stop, |missed| missed.min(stop)));
    }

    /// Whether a scan is due for what did not fit; said once.
    pub(super) fn take_missed(&mut self, now: Timestamp) -> bool {
        let due = self.missed.is_some_and(|missed| now > missed);
        if due {
            self.missed = None;
        }
        due
    }

    /// The entries whose deadline has passed, by key. Upstream copies also those that are in hand.
    pub(super) fn due(&self, now: Timestamp) -> Vec<PodEntry> {
        let due = self.entries.values().filter(|slot| slot.entry.term.is_over(now) && (self.by_name || !slot.in_hand));
        due.map(|slot| slot.entry.clone()).collect()
    }

    /// Says that an executor will see to an entry, or will not any more.
    pub(super) fn set_in_hand(&mut self, entry: &PodEntry, in_hand: bool) {
        let key = self.key(entry);
        if let Some(slot) = self.entries.get_mut(&key) {
            slot.in_hand = in_hand;
        }
    }

    /// Forgets an entry; by name also one of another pod (G R11). What was forgotten.
    pub(super) fn remove(&mut self, entry: &PodEntry) -> Option<PodEntry> {
        self.entries.remove(&self.key(entry)).map(|slot| slot.entry)
    }

    /// Counts a release that failed and is to be tried again; false if there is no room for it.
    pub(super) fn requeue(&mut self, entry: &PodEntry, now: Timestamp) -> bool {
        let again = PodEntry { requeues: entry.requeues + 1, entered: now, ..entry.clone() };
        if self.by_name {
            return self.apply(again) != Applied::Full;
        }
        // What was learned of the pod meanwhile counts, and one that was forgotten stays so.
        if let Some(slot) = self.entries.get_mut(&entry.uid) {
            (slot.entry.requeues, slot.entry.entered) = (again.requeues, now);
            slot.in_hand = false;
        }
        true
    }

    /// Forgets every entry, and that a scan is due; returns what was forgotten.
    pub(super) fn clear(&mut self) -> Vec<PodEntry> {
        self.missed = None;
        std::mem::take(&mut self.entries).into_values().map(|slot| slot.entry).collect()
    }

    /// The entry of a pod, by name and UID.
    pub(super) fn of(&self, pod: &str, uid: &str) -> Option<&PodEntry> {
        let key = if self.by_name || uid.is_empty() { pod } else { uid };
        self.entries.get(key).map(|slot| &slot.entry)
    }

    pub(super) fn all(&self) -> Vec<PodEntry> {
        self.entries.values().map(|slot| slot.entry.clone()).collect()
    }
}
