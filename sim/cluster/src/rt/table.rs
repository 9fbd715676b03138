//! A table that only grows: hosts and processes by number.

use std::ops::Index;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Entries of the first chunk; each further chunk holds twice as many as the one before.
const FIRST: usize = 16;
/// Enough chunks for more entries than there are 32-bit numbers.
const CHUNKS: usize = 29;

type Chunk<T> = Box<[OnceLock<T>]>;

/// A table whose entries are never moved or removed, so a reader needs no lock: every message looks up some process.
pub(super) struct Table<T> {
    chunks: [OnceLock<Chunk<T>>; CHUNKS],
    len: AtomicUsize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS], len: AtomicUsize::new(0) }
    }
}

/// The chunk that holds an entry, and the offset in it.
fn place(index: usize) -> (usize, usize) {
    let chunk = (index / FIRST + 1).ilog2() as usize;
    (chunk, index - FIRST * ((1 << chunk) - 1))
}

impl<T> Table<T> {
    /// Adds an entry and returns its number.
    pub(super) fn push(&self, value: T) -> u32 {
        let index = self.len.fetch_add(1, Ordering::Relaxed);
        let (chunk, offset) = place(index);
        let entries = self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| OnceLock::new()).collect());
        assert!(entries[offset].set(value).is_ok(), "every number is given once");
        index as u32
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// The entries in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).map(|index| &self[index as u32])
    }
}

impl<T> Index<u32> for Table<T> {
    type Output = T;

    /// The entry with this number. Panics if there is none, which is a bug of the caller.
    fn index(&self, index: u32) -> &T {
        let (chunk, offset) = place(index as usize);
        let entry = self.chunks[chunk].get().and_then(|entries| entries[offset].get());
        entry.unwrap_or_else(|| panic!("there is no entry {index}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_under_its_number() {
        let table = Table::default();
        for value in 0..1_000u32 {
            assert_eq!(table.push(value * 3), value);
        }
        assert_eq!(table.len(), 1_000);
        assert!(table.iter().copied().eq((0..1_000).map(|value| value * 3)));
    }

    #[test]
    #[should_panic(expected = "there is no entry 16")]
    fn a_number_that_was_not_given_is_refused() {
        let table = Table::default();
        (0..16).for_each(|value| assert_eq!(table.push(value), value));
        let _ = table[16];
    }
}
