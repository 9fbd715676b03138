//! The pool document: one JSON text in one ConfigMap, shared by all instances (B §1.2).

use std::fmt::{self, Write};

use super::allocations::Allocations;
use super::available::Available;
use super::decode;
use super::go_json::measure;
use super::seconds::Seconds;
use kube_machinery::json_text::{InvalidText, TextForm};
use kube_machinery::word_hash::WordHash;

/// The state of the pool: the allocated and the available addresses.
///
/// Its text is that of Go's encoder: two spaces of indentation, fields in this order, keys in byte order, `<`, `>` and `&` escaped, no
/// newline at the end. Reading follows Go's decoder: names match whatever their case, unknown fields are dropped (so the next write erases
/// them), missing fields and `null` are the zero value.
///
/// Clones share everything, edits cost O(log n), and the length of the text is known without making it.
#[derive(Clone, Debug, Default)]
pub struct PoolDocument {
    /// The records by allocation ID: `allocatedIPs`.
    pub allocated: Allocations,
    /// The available addresses, in the order in which they are offered. (Go's nil slice is not distinguished from an empty one: nothing
    /// writes it.)
    pub available: Available,
    /// The time of the last change, by the clock of the process that made it.
    pub last_updated: Seconds,
    /// The number of writes; nothing ever compares it (B §1.3).
    pub version: i64,
}

const HEAD: &str = "{\n  \"allocatedIPs\": ";
const AVAILABLE: &str = ",\n  \"availableIPs\": ";

impl PoolDocument {
    fn write_tail(&self, out: &mut impl Write) -> fmt::Result {
        out.write_str(",\n  \"lastUpdated\": ")?;
        self.last_updated.write_json(out)?;
        write!(out, ",\n  \"version\": {}\n}}", self.version)
    }

    fn write(&self, out: &mut impl Write) -> fmt::Result {
        out.write_str(HEAD)?;
        self.allocated.write(out)?;
        out.write_str(AVAILABLE)?;
        self.available.write(out)?;
        self.write_tail(out)
    }
}

/// Documents are equal if they are written alike. The fields that differ between versions of a document are compared first.
impl PartialEq for PoolDocument {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
            && self.last_updated == other.last_updated
            && self.text_len() == other.text_len()
            && self.allocated == other.allocated
            && self.available == other.available
    }
}

impl Eq for PoolDocument {}

impl TextForm for PoolDocument {
    fn to_text(&self) -> String {
        let mut text = String::with_capacity(self.text_len());
        self.write(&mut text).expect("writing to a string does not fail");
        text
    }

    fn from_text(text: &str) -> Result<Self, InvalidText> {
        decode::document(text)
    }

    fn text_len(&self) -> usize {
        let lists = self.allocated.text_len() + self.available.text_len();
        HEAD.len() + AVAILABLE.len() + lists + measure(|out| self.write_tail(out)).len
    }

    fn content_hash(&self) -> u64 {
        let tail = measure(|out| self.write_tail(out)).hash();
        WordHash::new().word(self.allocated.content_hash()).word(self.available.content_hash()).word(tail).finish()
    }
}
