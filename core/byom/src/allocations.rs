//! The records of a pool, by allocation ID and by address.

use std::fmt;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};

use super::address::{Address, AddressKey};
use super::allocation::IpAllocation;
use super::go_json::measure;
use kube_machinery::word_hash::WordHash;

/// The difference of one key between the records of an earlier and a later document.
#[derive(Clone, Copy, Debug)]
pub enum RecordChange<'a> {
    /// Only the later document has the record.
    Added(&'a Arc<str>, &'a Arc<IpAllocation>),
    /// The two documents have different records under the same key.
    Changed {
        /// The key of both records: the allocation ID.
        id: &'a Arc<str>,
        /// The record in the earlier document.
        from: &'a Arc<IpAllocation>,
        /// The record in the later document.
        to: &'a Arc<IpAllocation>,
    },
    /// Only the earlier document has the record.
    Removed(&'a Arc<str>, &'a Arc<IpAllocation>),
}

/// The map `allocatedIPs`. Persistent: a clone shares everything, and an edit costs O(log n).
///
/// Go distinguishes a nil map from an empty one; the nil map is written as `null`, and storing into it panics (B W18).
#[derive(Clone, Default)]
pub struct Allocations {
    by_id: OrdMap<Arc<str>, Arc<IpAllocation>>,
    /// (hash of the address's key, allocation ID) of each record.
    by_address: OrdSet<(u64, Arc<str>)>,
    /// The length of all entries without their separators.
    entries_len: usize,
    /// The sum of the hashes of all entries.
    entries_hash: u64,
    /// The number of records with a namespace.
    namespaces: usize,
    /// Whether this is Go's nil map; true only if there is no record.
    null: bool,
}

impl Allocations {
    /// Go's nil map. Inserting a first record makes it a map.
    pub fn null() -> Self {
        Self { null: true, ..Self::default() }
    }

    /// Whether this is Go's nil map.
    pub fn is_null(&self) -> bool {
        self.null
    }

    /// The record under this key.
    pub fn get(&self, id: &str) -> Option<&Arc<IpAllocation>> {
        self.by_id.get(id)
    }

    /// Keys and records, by key in byte order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Arc<str>, &Arc<IpAllocation>)> {
        self.by_id.iter()
    }

    /// The records of an address in any spelling, by key in byte order. Only a damaged document has more than one.
    pub fn of_address(&self, address: &AddressKey) -> impl Iterator<Item = (&Arc<str>, &Arc<IpAllocation>)> {
        let hash = address.hash();
        let same_hash = self.by_address.range((hash, Arc::from(""))..).take_while(move |(other, _)| *other == hash);
        same_hash.map(|(_, id)| (id, &self.by_id[id])).filter(move |(_, record)| record.ip.key() == address)
    }

    /// Whether an address has a record. With `textual`, only the same spelling counts.
    pub fn holds(&self, address: &Address, textual: bool) -> bool {
        self.of_address(address.key()).any(|(_, record)| !textual || record.ip.text() == address.text())
    }

    /// The changes that turn these records into `later`, by key in byte order. Costs O(changes) if `later` was derived from these records,
    /// or both from a third.
    pub fn diff<'a>(&'a self, later: &'a Self) -> impl Iterator<Item = RecordChange<'a>> {
        self.by_id.diff(&later.by_id).map(|item| match item {
            DiffItem::Add(id, record) => RecordChange::Added(id, record),
            DiffItem::Update { old, new } => RecordChange::Changed { id: new.0, from: old.1, to: new.1 },
            DiffItem::Remove(id, record) => RecordChange::Removed(id, record),
        })
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Sets the record of a key and returns the previous one.
    pub fn insert(&mut self, id: Arc<str>, record: impl Into<Arc<IpAllocation>>) -> Option<Arc<IpAllocation>> {
        let record = record.into();
        // Removing a key that is absent would copy its path down the tree.
        let previous = if self.by_id.contains_key(&id) { self.remove(&id) } else { None };
        self.null = false;
        let entry = measure(|out| record.write_entry(&id, out));
        self.entries_len += entry.len;
        self.entries_hash = self.entries_hash.wrapping_add(entry.hash());
        self.namespaces += usize::from(record.pod_namespace.is_some());
        self.by_address.insert((record.ip.key().hash(), id.clone()));
        self.by_id.insert(id, record);
        previous
    }

    /// Removes the record under a key and returns it.
    pub fn remove(&mut self, id: &str) -> Option<Arc<IpAllocation>> {
        let (id, record) = self.by_id.remove_with_key(id)?;
        let entry = measure(|out| record.write_entry(&id, out));
        self.entries_len -= entry.len;
        self.entries_hash = self.entries_hash.wrapping_sub(entry.hash());
        self.namespaces -= usize::from(record.pod_namespace.is_some());
        self.by_address.remove(&(record.ip.key().hash(), id));
        Some(record)
    }

    /// These records as written by a process that does not know the field `podNamespace`. Linear if any record has one.
    #[must_use]
    pub fn without_namespaces(mut self) -> Self {
        if self.namespaces > 0 {
            let with: Vec<_> =
                self.by_id.iter().filter(|(_, record)| record.pod_namespace.is_some()).map(|(id, r)| (id.clone(), r.clone())).collect();
            for (id, record) in with {
                self.insert(id, IpAllocation { pod_namespace: None, ..(*record).clone() });
            }
        }
        self
    }

    pub(super) fn write(&self, out: &mut impl fmt::Write) -> fmt::Result {
        if self.is_empty() {
            return out.write_str(if self.null { "null" } else { "{}" });
        }
        let mut separator = "{\n";
        for (id, record) in &self.by_id {
            out.write_str(separator)?;
            record.write_entry(id, out)?;
            separator = ",\n";
        }
        out.write_str("\n  }")
    }

    /// The length of the output of [`write`](Self::write).
    pub(super) fn text_len(&self) -> usize {
        match self.len() {
            0 if self.null => "null".len(),
            0 => "{}".len(),
            records => self.entries_len + 2 * records + "\n  }".len(),
        }
    }

    /// A hash that equal records share. Takes constant time.
    pub(super) fn content_hash(&self) -> u64 {
        WordHash::new().word(u64::from(self.null)).word(self.len() as u64).word(self.entries_hash).finish()
    }
}

/// Only the records are compared; everything else follows from them.
impl PartialEq for Allocations {
    fn eq(&self, other: &Self) -> bool {
        self.null == other.null && self.entries_len == other.entries_len && self.by_id == other.by_id
    }
}

impl Eq for Allocations {}

impl fmt::Debug for Allocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.by_id.fmt(f)
    }
}

impl FromIterator<(Arc<str>, IpAllocation)> for Allocations {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, IpAllocation)>>(records: I) -> Self {
        let mut map = Self::default();
        for (id, record) in records {
            map.insert(id, record);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn records(ids: &[(u8, u8)]) -> Allocations {
        let record = |ip: u8| IpAllocation { ip: Address::new(format!("10.0.0.{ip}")), ..IpAllocation::default() };
        ids.iter().map(|(id, ip)| (Arc::from(format!("id-{id}")), record(*ip))).collect()
    }

    proptest! {
        #[test]
        fn the_changes_make_the_later_records_of_the_earlier(
            before in prop::collection::vec((0u8..40, 0u8..3), 0..40),
            after in prop::collection::vec((0u8..40, 0u8..3), 0..40),
        ) {
            let (before, after) = (records(&before), records(&after));
            let mut made = before.clone();
            for change in before.diff(&after) {
                match change {
                    RecordChange::Added(id, record) => prop_assert!(made.insert(id.clone(), record.clone()).is_none()),
                    RecordChange::Changed { id, from, to } => {
                        prop_assert_ne!(from, to);
                        prop_assert_eq!(made.insert(id.clone(), to.clone()), Some(from.clone()));
                    }
                    RecordChange::Removed(id, record) => prop_assert_eq!(made.remove(id), Some(record.clone())),
                }
            }
            prop_assert_eq!(made, after);
        }
    }
}
