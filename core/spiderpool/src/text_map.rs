//! A map whose text is one compact JSON object.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};

use kube_machinery::json_text::{InvalidText, TextForm, escaped_len};
use kube_machinery::word_hash::{Measure, WordHash};

/// A persistent map that is written as a compact JSON object, its keys in byte order of their *text*. An empty map is absent.
///
/// In memory it is ordered by `K` itself. Clones share everything; `insert` and `remove` copy O(log n) nodes, and `insert` counts the bytes
/// of one entry. `get` is O(log n), a comparison of two versions costs as much as they differ, and `text_len` and `escaped_len` are
/// constant. Only writing or reading the text is linear (times the logarithm, for the sorting).
///
/// Reading follows Go's decoder (unknown fields are ignored, `null` is an empty map, the last of equal keys counts), except that field
/// names are case-sensitive. Writing does not escape `<`, `>` and `&`, which no name may contain.
pub struct TextMap<K, V> {
    entries: OrdMap<K, Entry<V>>,
    /// The sum of the lengths of [`measure`].
    entries_len: usize,
    /// The sum of the lengths inside a JSON string.
    entries_escaped_len: usize,
    /// The sum of the hashes of [`measure`].
    entries_hash: u64,
}

/// A value with the measures of its entry, which are subtracted when it goes.
struct Entry<V> {
    value: Arc<V>,
    measures: Measures,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), measures: self.measures }
    }
}

/// The measures follow from key and value.
impl<V: PartialEq> PartialEq for Entry<V> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<V: Eq> Eq for Entry<V> {}

/// A difference between two versions of a map in one key: at least one side has a value, and the sides differ.
#[derive(Debug)]
pub struct Edit<'a, K, V> {
    /// The key under which the two versions differ.
    pub key: &'a K,
    /// The value in the earlier version.
    pub before: Option<&'a Arc<V>>,
    /// The value in the later version.
    pub after: Option<&'a Arc<V>>,
}

impl<K, V> Clone for Edit<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Edit<'_, K, V> {}

impl<K: Ord, V: Eq> TextMap<K, V> {
    /// The differences in `later`, in the order of `K`. For two versions of one map the cost is that of the edits between them.
    pub fn diff<'a>(&'a self, later: &'a Self) -> impl Iterator<Item = Edit<'a, K, V>> {
        self.entries.diff(&later.entries).map(|item| match item {
            DiffItem::Add(key, after) => Edit { key, before: None, after: Some(&after.value) },
            DiffItem::Update { old: (_, before), new: (key, after) } => {
                Edit { key, before: Some(&before.value), after: Some(&after.value) }
            }
            DiffItem::Remove(key, before) => Edit { key, before: Some(&before.value), after: None },
        })
    }
}

impl<K: Ord, V> TextMap<K, V> {
    /// The value of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &*entry.value)
    }

    /// The entries in the order of `K`.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, entry)| (key, &*entry.value))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<K: Ord + Clone + Display, V: Serialize> TextMap<K, V> {
    /// Sets the value of `key` and returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<Arc<V>> {
        let measures = measure(&key.to_string(), &value);
        self.count(measures);
        let previous = self.entries.insert(key, Entry { value: Arc::new(value), measures })?;
        self.discount(previous.measures);
        Some(previous.value)
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<Arc<V>> {
        let previous = self.entries.remove(key)?;
        self.discount(previous.measures);
        Some(previous.value)
    }
}

impl<K, V> TextMap<K, V> {
    fn count(&mut self, entry: Measures) {
        self.entries_len += entry.text.len;
        self.entries_escaped_len += entry.escaped_len;
        self.entries_hash = self.entries_hash.wrapping_add(entry.text.hash());
    }

    fn discount(&mut self, entry: Measures) {
        self.entries_len -= entry.text.len;
        self.entries_escaped_len -= entry.escaped_len;
        self.entries_hash = self.entries_hash.wrapping_sub(entry.text.hash());
    }
}

impl<K: Ord + Clone, V> Default for TextMap<K, V> {
    fn default() -> Self {
        Self { entries: OrdMap::new(), entries_len: 0, entries_escaped_len: 0, entries_hash: 0 }
    }
}

impl<K, V> Clone for TextMap<K, V> {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone(), ..*self }
    }
}

impl<K: Ord + fmt::Debug, V: fmt::Debug> fmt::Debug for TextMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.entries.iter().map(|(key, entry)| (key, &entry.value))).finish()
    }
}

impl<K: Ord, V: PartialEq> PartialEq for TextMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.entries_len == other.entries_len && self.entries == other.entries
    }
}

impl<K: Ord, V: Eq> Eq for TextMap<K, V> {}

impl<K, V> TextForm for TextMap<K, V>
where
    K: Ord + Clone + Display + for<'a> From<&'a str>,
    V: Eq + Default + Serialize + DeserializeOwned,
{
    fn to_text(&self) -> String {
        let mut entries: Vec<_> = self.iter().map(|(key, value)| (key.to_string(), value)).collect();
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut text = Vec::with_capacity(self.text_len());
        serde_json::Serializer::new(&mut text).collect_map(entries).expect("a record is plain data");
        String::from_utf8(text).expect("JSON is UTF-8")
    }

    fn from_text(text: &str) -> Result<Self, InvalidText> {
        let mut map = Self::default();
        for (key, value) in read_entries(text)? {
            map.insert(K::from(&key), value);
        }
        Ok(map)
    }

    fn text_len(&self) -> usize {
        // Braces, and no comma after the last entry.
        self.entries_len + if self.is_empty() { 2 } else { 1 }
    }

    fn escaped_len(&self) -> usize {
        self.entries_escaped_len + if self.is_empty() { 2 } else { 1 }
    }

    fn content_hash(&self) -> u64 {
        WordHash::new().word(self.len() as u64).word(self.entries_hash).finish()
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// The measures of an entry, computed without making the text.
#[derive(Clone, Copy, Default)]
struct Measures {
    text: Measure,
    escaped_len: usize,
}

impl Write for Measures {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.escaped_len += escaped_len(bytes);
        self.text.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes of `"key":value,` in compact JSON.
fn measure(key: &str, value: &impl Serialize) -> Measures {
    let mut measures = Measures::default();
    serde_json::to_writer(&mut measures, key).expect("a text is plain data");
    measures.write_all(b":").expect("counting does not fail");
    serde_json::to_writer(&mut measures, value).expect("a record is plain data");
    measures.write_all(b",").expect("counting does not fail");
    measures
}

/// Reads a JSON object as Go does: `null` is empty, a `null` value is the default, the last of equal keys counts.
pub(super) fn read_entries<V: DeserializeOwned + Default>(text: &str) -> Result<impl Iterator<Item = (String, V)>, InvalidText> {
    let entries: Option<BTreeMap<String, Option<V>>> = serde_json::from_str(text).map_err(InvalidText::new)?;
    Ok(entries.unwrap_or_default().into_iter().map(|(key, value)| (key, value.unwrap_or_default())))
}
