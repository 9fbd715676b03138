//! The list of available addresses.

use std::fmt;

use imbl::OrdSet;

use super::address::{Address, AddressKey};
use super::go_json::{measure, write_string};
use super::ranked::Ranked;
use kube_machinery::word_hash::WordHash;

/// The list `availableIPs`: the order counts (B §2.3), and it can hold any text, even more than once.
///
/// Persistent: a clone shares everything. `get`, `remove`, `push` and `position` cost O(log n) each.
#[derive(Clone, Default)]
pub struct Available {
    entries: Ranked<Address>,
    /// (hash of the key, place) of each entry.
    places: OrdSet<(u64, u64)>,
    /// The length of all entries without their separators.
    entries_len: usize,
    /// The sum of [`entry_hash`] over all entries.
    entries_hash: u64,
}

fn entry_len(address: &Address) -> usize {
    "    ".len() + measure(|out| write_string(out, address.text())).len
}

/// The hash of an entry and its place: the order counts.
fn entry_hash(place: u64, address: &Address) -> u64 {
    WordHash::new().word(place).text(address.text()).finish()
}

impl Available {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry at an index.
    pub fn get(&self, index: usize) -> Option<&Address> {
        self.entries.get(index).map(|(_, address)| address)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &Address> {
        self.entries.iter()
    }

    /// The ascending indexes at which an address stands, in any spelling.
    pub fn positions(&self, address: &AddressKey) -> impl Iterator<Item = usize> {
        let hash = address.hash();
        let same_hash = self.places.range((hash, 0)..).take_while(move |(other, _)| *other == hash);
        let same = same_hash.filter(move |(_, place)| self.entries.at(*place).is_some_and(|entry| entry.key() == address));
        same.map(|(_, place)| self.entries.rank(*place))
    }

    /// Whether an address is in the list, in any spelling.
    pub fn contains(&self, address: &AddressKey) -> bool {
        self.positions(address).next().is_some()
    }

    /// Appends an entry at the end.
    pub fn push(&mut self, address: Address) {
        self.entries_len += entry_len(&address);
        let hash = address.key().hash();
        let place = self.entries.push(address.clone());
        self.entries_hash = self.entries_hash.wrapping_add(entry_hash(place, &address));
        self.places.insert((hash, place));
    }

    /// Removes and returns the entry at an index; the others keep their order. Panics if there is none.
    pub fn remove(&mut self, index: usize) -> Address {
        let (place, _) = self.entries.get(index).expect("the index is in the list");
        let address = self.entries.remove(place);
        self.entries_len -= entry_len(&address);
        self.entries_hash = self.entries_hash.wrapping_sub(entry_hash(place, &address));
        self.places.remove(&(address.key().hash(), place));
        address
    }

    /// The entries that `newer` lacks and those that it adds, each in the order of their list. An entry that moved is in both. For two
    /// versions of one list the cost is that of their edits, whatever its length.
    pub fn diff<'a>(&'a self, newer: &'a Self) -> (Vec<&'a Address>, Vec<&'a Address>) {
        self.entries.diff(&newer.entries)
    }

    pub(super) fn write(&self, out: &mut impl fmt::Write) -> fmt::Result {
        if self.is_empty() {
            return out.write_str("[]");
        }
        let mut separator = "[\n    ";
        for address in self.iter() {
            out.write_str(separator)?;
            write_string(out, address.text())?;
            separator = ",\n    ";
        }
        out.write_str("\n  ]")
    }

    /// The length of the output of [`write`](Self::write).
    pub(super) fn text_len(&self) -> usize {
        if self.is_empty() { 2 } else { self.entries_len + 2 * self.len() + "\n  ]".len() }
    }

    /// A hash that is equal for lists made by the same pushes and removals, and differs, but for collisions, for lists of different texts.
    /// Takes constant time. (Equal lists can differ in it: a removal leaves an empty place behind.)
    pub(super) fn content_hash(&self) -> u64 {
        WordHash::new().word(self.len() as u64).word(self.entries_hash).finish()
    }
}

/// Lists are equal if they are written alike.
impl PartialEq for Available {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.entries_len == other.entries_len
            && self.iter().map(Address::text).eq(other.iter().map(Address::text))
    }
}

impl Eq for Available {}

impl fmt::Debug for Available {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl FromIterator<Address> for Available {
    fn from_iter<I: IntoIterator<Item = Address>>(addresses: I) -> Self {
        let mut list = Self::default();
        for address in addresses {
            list.push(address);
        }
        list
    }
}
