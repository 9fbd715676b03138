//! etcd: one revision counter for all objects of all types, the current state, and the history since compaction.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use kube_machinery::ObjectKey;
use sim_config::time::SimTime;

use crate::kinds::KindId;
use crate::object::{Obj, make_mut};

/// etcd's commit counter. 0 is never the revision of an object.
pub type Revision = u64;

/// One committed change of one object: its time, and the states before and after.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision of the change.
    pub revision: Revision,
    /// The time of the commit.
    pub at: SimTime,
    /// Namespace and name of the object; its type is that of the table.
    pub key: ObjectKey,
    /// The state before; unset = the object is new.
    pub before: Option<Obj>,
    /// The state after; unset = the object is gone.
    pub after: Option<Obj>,
    /// The last state with the revision of the removal, as watchers see it (K041); unset unless this is a removal.
    pub tombstone: Option<Obj>,
    /// The number of the next change of this object; unset = it was not changed again, or was removed by this change.
    pub changed_again: Option<u64>,
}

/// An object in its present state.
struct Entry {
    object: Obj,
    /// The number of the change that led to this state.
    changed: u64,
}

/// An object whose state in a restored backup is another one.
pub struct Undone {
    /// The key of the object; its type is given beside it.
    pub key: ObjectKey,
    /// The lost state; unset = the object was gone.
    pub lost: Option<Obj>,
    /// The state in the backup, at the version that it had; unset = the object is newer than the backup.
    pub restored: Option<Obj>,
}

/// The objects and changes of one type.
#[derive(Default)]
pub struct Table {
    objects: BTreeMap<ObjectKey, Entry>,
    log: VecDeque<Change>,
    /// The number of changes that were dropped from the front of the log.
    dropped: u64,
}

impl Table {
    /// The object called `key`.
    pub fn get(&self, key: &ObjectKey) -> Option<&Obj> {
        self.objects.get(key).map(|entry| &entry.object)
    }

    /// The number of the next change, counting from the beginning of the run.
    pub fn next_index(&self) -> u64 {
        self.dropped + self.log.len() as u64
    }

    /// The change with this number; `None` = dropped or still to come.
    pub fn change(&self, index: u64) -> Option<&Change> {
        self.log.get(usize::try_from(index.checked_sub(self.dropped)?).ok()?)
    }

    /// The changes after `revision`, oldest first.
    pub fn changes_after(&self, revision: Revision) -> impl DoubleEndedIterator<Item = &Change> {
        let from = self.log.partition_point(|change| change.revision <= revision);
        self.log.range(from..)
    }

    /// Whether the object called `key` changed after `at`.
    pub fn changed_since(&self, key: &ObjectKey, at: SimTime) -> bool {
        self.log.iter().rev().take_while(|change| change.at > at).any(|change| change.key == *key)
    }

    /// The number of the first change after `revision`.
    pub fn index_after(&self, revision: Revision) -> u64 {
        self.dropped + self.log.partition_point(|change| change.revision <= revision) as u64
    }

    /// The number of the oldest change in the log.
    pub fn first_index(&self) -> u64 {
        self.dropped
    }

    /// The object called `key` as of `revision`.
    pub fn get_at(&self, key: &ObjectKey, revision: Revision) -> Option<&Obj> {
        match self.changes_after(revision).find(|change| change.key == *key) {
            Some(change) => change.before.as_ref(),
            None => self.get(key),
        }
    }

    /// The present objects, by storage key, from `start` on.
    pub fn range(&self, start: Bound<&ObjectKey>) -> impl Iterator<Item = (&ObjectKey, &Obj)> {
        self.objects.range::<ObjectKey, _>((start, Bound::Unbounded)).map(|(key, entry)| (key, &entry.object))
    }

    /// The objects as of `revision`, by storage key.
    ///
    /// Undoes the changes since then, so the cost grows with their number: requests are for the recent past.
    pub fn at(&self, revision: Revision) -> Vec<(&ObjectKey, &Obj)> {
        let mut undone: BTreeMap<&ObjectKey, Option<&Obj>> = BTreeMap::new();
        for change in self.changes_after(revision).rev() {
            undone.insert(&change.key, change.before.as_ref());
        }
        if undone.is_empty() {
            return self.range(Bound::Unbounded).collect();
        }
        let mut state: BTreeMap<&ObjectKey, &Obj> = self.range(Bound::Unbounded).collect();
        for (key, object) in undone {
            match object {
                Some(object) => state.insert(key, object),
                None => state.remove(key),
            };
        }
        state.into_iter().collect()
    }

    /// Appends a change of an object whose state came from change `last`.
    fn append(&mut self, change: Change, last: Option<u64>) -> &Change {
        let number = self.next_index();
        let last = last.and_then(|last| usize::try_from(last.checked_sub(self.dropped)?).ok());
        if let Some(last) = last.and_then(|last| self.log.get_mut(last)) {
            last.changed_again = Some(number);
        }
        self.log.push_back(change);
        self.log.back().unwrap_or_else(|| unreachable!("just pushed"))
    }

    /// Returns the objects to their states at `revision`, and drops the log. Returns the undone states, by key.
    fn roll_back(&mut self, revision: Revision) -> Vec<Undone> {
        let mut first: BTreeMap<ObjectKey, Option<Obj>> = BTreeMap::new();
        for change in self.changes_after(revision) {
            first.entry(change.key.clone()).or_insert_with(|| change.before.clone());
        }
        (self.dropped, self.log) = (self.next_index(), VecDeque::new());
        let undone = first.into_iter().map(|(key, restored)| {
            let lost = match &restored {
                // The log no longer has the change that led to this state.
                Some(object) => self.objects.insert(key.clone(), Entry { object: object.clone(), changed: 0 }),
                None => self.objects.remove(&key),
            };
            Undone { key, lost: lost.map(|entry| entry.object), restored }
        });
        undone.filter(|undone| undone.lost.is_some() || undone.restored.is_some()).collect()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

/// The store behind all API servers.
pub struct Store {
    revision: Revision,
    compacted: Revision,
    tables: Vec<Table>,
    /// The number of times that it was restored from a backup.
    restores: u32,
}

impl Store {
    /// An empty store for `kinds` types. The first write takes revision 2, as in a fresh etcd.
    pub fn new(kinds: usize) -> Self {
        Self { revision: 1, compacted: 0, tables: (0..kinds).map(|_| Table::default()).collect(), restores: 0 }
    }

    /// The last revision taken.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The last revision that an object had taken at `at`.
    pub fn revision_at(&self, at: SimTime) -> Revision {
        let of = |table: &Table| {
            let after = table.log.partition_point(|change| change.at <= at);
            // Dropped changes were long before.
            after.checked_sub(1).map_or(0, |last| table.log[last].revision)
        };
        self.tables.iter().map(of).max().unwrap_or(0).max(self.compacted)
    }

    /// The revision up to which states can no longer be read exactly.
    pub fn compacted(&self) -> Revision {
        self.compacted
    }

    /// The objects of one type.
    pub fn table(&self, kind: KindId) -> &Table {
        &self.tables[usize::from(kind.0)]
    }

    /// Takes `revisions` that belong to no object of the cluster (leases, events, the compactor's own key).
    pub fn burn(&mut self, revisions: u64) {
        self.revision += revisions;
    }

    /// Makes states up to `revision` unreadable.
    pub fn compact(&mut self, revision: Revision) {
        self.compacted = self.compacted.max(revision.min(self.revision));
    }

    /// The number of times that it was restored from a backup.
    pub fn restores(&self) -> u32 {
        self.restores
    }

    /// Returns all objects to their states at `revision`, drops the history, and goes on after `revision + bump`. Returns the undone
    /// states, by type and key. Compacted changes cannot be undone: `revision` must be later.
    pub fn restore(&mut self, revision: Revision, bump: u64) -> Vec<(KindId, Undone)> {
        self.revision = revision + bump;
        self.compacted = self.revision;
        self.restores += 1;
        let tables = self.tables.iter_mut().enumerate();
        tables.flat_map(|(kind, table)| table.roll_back(revision).into_iter().map(move |undone| (KindId(kind as u16), undone))).collect()
    }

    /// Drops changes of one type that can no longer be requested: those up to `revision`.
    pub fn drop_changes(&mut self, kind: KindId, revision: Revision) {
        let table = &mut self.tables[usize::from(kind.0)];
        while table.log.front().is_some_and(|change| change.revision <= revision) {
            table.log.pop_front();
            table.dropped += 1;
        }
    }

    /// Puts `object` under `key` and stamps it with the next revision.
    pub fn put(&mut self, kind: KindId, key: ObjectKey, mut object: Obj, at: SimTime) -> &Change {
        self.revision += 1;
        stamp(&mut object, self.revision);
        let table = &mut self.tables[usize::from(kind.0)];
        let entry = Entry { object: object.clone(), changed: table.next_index() };
        let before = match table.objects.get_mut(&key) {
            Some(slot) => Some(std::mem::replace(slot, entry)),
            None => {
                table.objects.insert(key.clone(), entry);
                None
            }
        };
        let (before, last) = before.map(|entry| (entry.object, entry.changed)).unzip();
        let change = Change { revision: self.revision, at, key, before, after: Some(object), tombstone: None, changed_again: None };
        table.append(change, last)
    }

    /// Removes the object under `key`, which must exist.
    pub fn remove(&mut self, kind: KindId, key: ObjectKey, at: SimTime) -> &Change {
        self.revision += 1;
        let table = &mut self.tables[usize::from(kind.0)];
        let Entry { object: before, changed } = table.objects.remove(&key).unwrap_or_else(|| panic!("{key} is removed but does not exist"));
        let mut tombstone = before.deep_copy();
        stamp(&mut tombstone, self.revision);
        let (before, tombstone) = (Some(before), Some(tombstone));
        let change = Change { revision: self.revision, at, key, before, after: None, tombstone, changed_again: None };
        table.append(change, Some(changed))
    }
}

/// Writes the revision into the object, reusing the text's memory.
fn stamp(object: &mut Obj, revision: Revision) {
    use std::fmt::Write;
    let text = make_mut(object).meta_mut().resource_version.get_or_insert_default();
    text.clear();
    write!(text, "{revision}").unwrap_or_else(|_| unreachable!("writing to a String does not fail"));
}

/// Whether `key` is in this namespace; `None` = in any.
pub fn in_namespace(key: &ObjectKey, namespace: Option<&Arc<str>>) -> bool {
    namespace.is_none_or(|namespace| key.namespace() == Some(namespace))
}
