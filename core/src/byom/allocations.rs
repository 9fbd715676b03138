//! The records of a pool, by allocation ID and by address.

use std::fmt;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};

use super::address::{Address, AddressKey};
use super::allocation::IpAllocation;
use super::go_json::length_of;

/// A key, and its record before and after: at least one of them is there, and they differ.
pub type RecordChange<'a> = (&'a Arc<str>, Option<&'a Arc<IpAllocation>>, Option<&'a Arc<IpAllocation>>);

/// The map `allocatedIPs`. Persistent: a clone shares everything, and an edit costs O(log n).
///
/// Go tells a nil map from an empty one; the nil map is written as `null`, and storing into it panics (B W18).
#[derive(Clone, Default)]
pub struct Allocations {
    by_id: OrdMap<Arc<str>, Arc<IpAllocation>>,
    /// (hash of the address's key, allocation ID) of each record.
    by_address: OrdSet<(u64, Arc<str>)>,
    /// The length of all entries without what separates them.
    entries_len: usize,
    /// How many records have a namespace.
    namespaces: usize,
    /// Only if there is no record.
    null: bool,
}

impl Allocations {
    /// Go's nil map. The first record that is inserted makes it a map.
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

    /// The records of an address in any spelling, by key in byte order. More than one only in a damaged document.
    pub fn of_address(&self, address: &AddressKey) -> impl Iterator<Item = (&Arc<str>, &Arc<IpAllocation>)> {
        let hash = address.hash();
        let same_hash = self.by_address.range((hash, Arc::from(""))..).take_while(move |(other, _)| *other == hash);
        same_hash.map(|(_, id)| (id, &self.by_id[id])).filter(move |(_, record)| record.ip.key() == address)
    }

    /// Whether an address has a record. With `textual`, only the same spelling counts.
    pub fn holds(&self, address: &Address, textual: bool) -> bool {
        self.of_address(address.key()).any(|(_, record)| !textual || record.ip.text() == address.text())
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Sets the record under a key; the previous one is returned.
    pub fn insert(&mut self, id: Arc<str>, record: impl Into<Arc<IpAllocation>>) -> Option<Arc<IpAllocation>> {
        let record = record.into();
        let previous = self.remove(&id);
        self.null = false;
        self.entries_len += length_of(|out| record.write_entry(&id, out));
        self.namespaces += usize::from(record.pod_namespace.is_some());
        self.by_address.insert((record.ip.key().hash(), id.clone()));
        self.by_id.insert(id, record);
        previous
    }

    /// Removes the record under a key and returns it.
    pub fn remove(&mut self, id: &str) -> Option<Arc<IpAllocation>> {
        let (id, record) = self.by_id.remove_with_key(id)?;
        self.entries_len -= length_of(|out| record.write_entry(&id, out));
        self.namespaces -= usize::from(record.pod_namespace.is_some());
        self.by_address.remove(&(record.ip.key().hash(), id));
        Some(record)
    }

    /// These records as a writer leaves them that does not know the field `podNamespace`. Linear if there is any.
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

    /// What differs in `newer`: keys with the record before and the one after, by key. For two versions of one map the cost
    /// is that of their edits, whatever its size.
    pub fn diff<'a>(&'a self, newer: &'a Self) -> impl Iterator<Item = RecordChange<'a>> {
        self.by_id.diff(&newer.by_id).map(|item| match item {
            DiffItem::Add(id, record) => (id, None, Some(record)),
            DiffItem::Update { old: (id, old), new: (_, new) } => (id, Some(old), Some(new)),
            DiffItem::Remove(id, record) => (id, Some(record), None),
        })
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

    /// The length of what [`write`](Self::write) writes.
    pub(super) fn text_len(&self) -> usize {
        match self.len() {
            0 if self.null => "null".len(),
            0 => "{}".len(),
            records => self.entries_len + 2 * records + "\n  }".len(),
        }
    }
}

/// The records decide; the rest follows from them.
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
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn record(id: &Arc<str>, address: u8) -> IpAllocation {
        IpAllocation { allocation_id: id.clone(), ip: Address::new(format!("10.0.0.{address}")), ..IpAllocation::default() }
    }

    /// Records to set or, without an address, to remove.
    fn edits(count: usize) -> impl Strategy<Value = Vec<(u8, Option<u8>)>> {
        prop::collection::vec((any::<u8>(), prop::option::weighted(0.7, 0u8..4)), 0..count)
    }

    proptest! {
        #[test]
        fn the_difference_of_two_maps_is_that_of_plain_ones([common, old, new] in [edits(300), edits(20), edits(20)], related: bool) {
            let edit = |map: &mut Allocations, edits: Vec<(u8, Option<u8>)>| {
                for (id, address) in edits {
                    let id: Arc<str> = format!("pod-{id}").into();
                    match address {
                        Some(address) => drop(map.insert(id.clone(), record(&id, address))),
                        None => drop(map.remove(&id)),
                    }
                }
            };
            let mut older = Allocations::default();
            edit(&mut older, common);
            let mut newer = if related { older.clone() } else { Allocations::default() };
            edit(&mut older, old);
            edit(&mut newer, new);
            let plain = |map: &Allocations| map.iter().map(|(id, record)| (id.clone(), record.ip.to_string())).collect::<BTreeMap<_, _>>();
            let (before, after) = (plain(&older), plain(&newer));
            let ids: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
            let expected: Vec<_> = ids.into_iter().map(|id| (id, before.get(id), after.get(id))).filter(|(_, old, new)| old != new).collect();
            let text = |record: Option<&Arc<IpAllocation>>| record.map(|record| record.ip.to_string());
            let found: Vec<_> = older.diff(&newer).map(|(id, old, new)| (id, text(old), text(new))).collect();
            prop_assert!(found.iter().map(|(id, old, new)| (*id, old.as_ref(), new.as_ref())).eq(expected));
        }
    }
}
