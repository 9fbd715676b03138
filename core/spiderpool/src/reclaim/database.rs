//! The traced pods (G §1.3): in the memory of one process, and lost with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::entry::PodEntry;
use crate::Policy;

/// The entries. The hardened form has one per UID; upstream one per name, whichever pod has it.
#[derive(Debug)]
pub(super) struct Database {
    by_name: bool,
    capacity: usize,
    entries: BTreeMap<Arc<str>, Slot>,
    /// The earliest deadline of the entries that did not fit: a scan is due then.
    missed: Option<Timestamp>,
}

#[derive(Debug)]
struct Slot {
    entry: PodEntry,
    /// Whether an executor processes the entry, or is about to.
    in_hand: bool,
}

/// The outcome of adding an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    /// It was added; its key was free.
    Made,
    /// It replaced this one.
    Replaced(Box<PodEntry>),
    /// It brings nothing new.
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

    /// Adds or replaces an entry.
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

    /// Notes that a scan has to handle an entry that does not fit.
    pub(super) fn miss(&mut self, stop: Timestamp) {
        self.missed = Some(self.missed.map_or(stop, |missed| missed.min(stop)));
    }

    /// Whether a scan is due for entries that did not fit; returned once.
    pub(super) fn take_missed(&mut self, now: Timestamp) -> bool {
        let due = self.missed.is_some_and(|missed| now > missed);
        if due {
            self.missed = None;
        }
        due
    }

    /// The entries whose deadline has passed, by key. Upstream also copies those that an executor already has.
    pub(super) fn due(&self, now: Timestamp) -> Vec<PodEntry> {
        let due = self.entries.values().filter(|slot| slot.entry.term.is_over(now) && (self.by_name || !slot.in_hand));
        due.map(|slot| slot.entry.clone()).collect()
    }

    /// Sets whether an executor has an entry.
    pub(super) fn set_in_hand(&mut self, entry: &PodEntry, in_hand: bool) {
        let key = self.key(entry);
        if let Some(slot) = self.entries.get_mut(&key) {
            slot.in_hand = in_hand;
        }
    }

    /// Removes an entry, by name also one of another pod (G R11), and returns it.
    pub(super) fn remove(&mut self, entry: &PodEntry) -> Option<PodEntry> {
        self.entries.remove(&self.key(entry)).map(|slot| slot.entry)
    }

    /// Counts a failed release that is to be retried; returns false if there is no room for it.
    pub(super) fn requeue(&mut self, entry: &PodEntry, now: Timestamp) -> bool {
        let again = PodEntry { requeues: entry.requeues + 1, entered: now, ..entry.clone() };
        if self.by_name {
            return self.apply(again) != Applied::Full;
        }
        // Facts learned of the pod meanwhile count, and a removed entry stays removed.
        if let Some(slot) = self.entries.get_mut(&entry.uid) {
            (slot.entry.requeues, slot.entry.entered) = (again.requeues, now);
            slot.in_hand = false;
        }
        true
    }

    /// Removes all entries and the note that a scan is due; returns the entries.
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
