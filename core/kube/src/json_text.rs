//! Fields that hold a JSON document as *text*: a string inside an object, or a value of a ConfigMap.
//!
//! ```text
//!            deserialise                    parse (once)
//!   wire ───────────────► verbatim text ─────────────────► typed value, text stays what counts
//!        ◄─────────────── text (once) ◄─── typed value ◄── make_mut, From<T>
//!            serialise
//! ```
//!
//! A cell is either *verbatim* (its bytes are the original text, readable or not) or *typed* (its bytes are [`TextForm::to_text`] of its
//! value). The other form is made on demand and kept. Reading never changes the bytes; only [`JsonText::make_mut`] and replacing the cell
//! do.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::word_hash::WordHash;

/// A value with one canonical text.
///
/// `a == b` exactly if `a.to_text() == b.to_text()`, and `from_text(to_text(a)) == a`.
pub trait TextForm: Clone + Eq {
    /// The text of a typed cell; equal values have equal texts.
    fn to_text(&self) -> String;

    /// Reads a text, canonical or not.
    ///
    /// # Errors
    /// The text is not a document of this type.
    fn from_text(text: &str) -> Result<Self, InvalidText>;

    /// The length in bytes of the canonical text. Types that can know it without making the text should.
    fn text_len(&self) -> usize {
        self.to_text().len()
    }

    /// The length in bytes of the canonical text inside a JSON string: see [`escaped_len`]. Types that can know it without making the text
    /// should.
    fn escaped_len(&self) -> usize {
        escaped_len(self.to_text().as_bytes())
    }

    /// A hash that distinguishes this value from most others: see [`JsonText::content_hash`]. Types that can compute it without making the
    /// text should.
    fn content_hash(&self) -> u64 {
        WordHash::new().text(&self.to_text()).finish()
    }

    /// Whether this value is left out together with its field. There is at most one such value.
    fn is_absent(&self) -> bool {
        false
    }
}

/// The size in bytes of a text inside a JSON string, without the quotes around it, as Go writes it and API servers store it: `<`, `>` and
/// `&` as six bytes, too. The text is UTF-8, and none of its characters is cut.
pub fn escaped_len(text: &[u8]) -> usize {
    /// The first byte of the line and paragraph separators of Unicode, and of other characters.
    const MARK: u64 = 1 << 40;
    /// The number of extra bytes that each byte takes when escaped; [`MARK`] for those that need a closer look.
    const MORE: [u64; 256] = {
        let mut more = [0; 256];
        let mut byte = 0;
        while byte < 0x20 {
            more[byte] = 5;
            byte += 1;
        }
        let (short, long) = (b"\"\\\n\r\t\x08\x0c", b"<>&");
        let mut at = 0;
        while at < short.len() {
            more[short[at] as usize] = 1;
            at += 1;
        }
        at = 0;
        while at < long.len() {
            more[long[at] as usize] = 5;
            at += 1;
        }
        more[0xe2] = MARK;
        more
    };
    // One pass, because most texts are short: the marks are counted above the bytes, of which no text has so many.
    let more: u64 = text.iter().map(|byte| MORE[usize::from(*byte)]).sum();
    // The separators are rare: three bytes become six.
    let separators = if more >= MARK { text.windows(3).filter(|bytes| matches!(bytes, [0xe2, 0x80, 0xa8 | 0xa9])).count() } else { 0 };
    text.len() + (more % MARK) as usize + 3 * separators
}

/// The reason why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unreadable JSON text: {0}")]
pub struct InvalidText(Arc<str>);

impl InvalidText {
    /// An error with this message.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string().into())
    }
}

/// A JSON document kept as text, as a typed value, or both.
///
/// | operation | cost, for a document of `n` bytes |
/// |---|---|
/// | `clone`, `text_len`, `is_absent` | constant (given a constant [`TextForm::text_len`]) |
/// | `escaped_len` | O(n) for verbatim text, else constant (given a constant [`TextForm::escaped_len`]) |
/// | `content_hash` | O(n) for verbatim text, else constant (given a constant [`TextForm::content_hash`]) |
/// | `parse`, `text` | O(n) when it is the first conversion of this cell or its clones, then constant |
/// | `make_mut` | `T::clone` if the cell is shared, nothing if not; verbatim text is parsed first |
/// | `==` | constant for clones; `T == T` or a comparison of texts of equal length otherwise |
///
/// Equality is equality of bytes: a PUT of an equal object is a no-op PUT (K040).
///
/// In a struct: `#[serde(default, skip_serializing_if = "JsonText::is_absent")]`.
pub struct JsonText<T>(Arc<Cell<T>>);

enum Cell<T> {
    Verbatim { text: Box<str>, typed: OnceLock<Result<T, InvalidText>> },
    Typed { typed: T, text: OnceLock<Box<str>> },
}

impl<T> Cell<T> {
    fn typed(typed: T) -> Self {
        Self::Typed { typed, text: OnceLock::new() }
    }
}

impl<T> JsonText<T> {
    /// A cell with exactly this text, which need not be readable.
    pub fn verbatim(text: impl Into<Box<str>>) -> Self {
        Self(Arc::new(Cell::Verbatim { text: text.into(), typed: OnceLock::new() }))
    }
}

impl<T: TextForm> JsonText<T> {
    /// The typed value.
    ///
    /// # Errors
    /// The text is verbatim and unreadable.
    pub fn parse(&self) -> Result<&T, InvalidText> {
        match &*self.0 {
            Cell::Verbatim { text, typed } => typed.get_or_init(|| T::from_text(text)).as_ref().map_err(Clone::clone),
            Cell::Typed { typed, .. } => Ok(typed),
        }
    }

    /// The text; for an absent value, the text it would have.
    pub fn text(&self) -> &str {
        match &*self.0 {
            Cell::Verbatim { text, .. } => text,
            Cell::Typed { typed, text } => text.get_or_init(|| typed.to_text().into()),
        }
    }

    /// The length of the text in bytes, 0 if absent. (In the JSON of its object it is longer: [`JsonText::escaped_len`].)
    pub fn text_len(&self) -> usize {
        match &*self.0 {
            Cell::Verbatim { text, .. } => text.len(),
            Cell::Typed { typed, .. } if typed.is_absent() => 0,
            Cell::Typed { typed, .. } => typed.text_len(),
        }
    }

    /// The length of the text in bytes as it stands in the JSON of its object, without the quotes around it; 0 if absent.
    pub fn escaped_len(&self) -> usize {
        match &*self.0 {
            Cell::Verbatim { text, .. } => escaped_len(text.as_bytes()),
            Cell::Typed { typed, .. } if typed.is_absent() => 0,
            Cell::Typed { typed, .. } => typed.escaped_len(),
        }
    }

    /// A hash for detecting that two runs of one program differ. Cells made in the same way have the same hash, whether or not they were
    /// read, and cells with different bytes have different hashes, but for collisions. Equal bytes may have different hashes, if one cell
    /// is verbatim or their values were made in different ways.
    pub fn content_hash(&self) -> u64 {
        match &*self.0 {
            Cell::Verbatim { text, .. } => WordHash::new().word(1).text(text).finish(),
            Cell::Typed { typed, .. } => typed.content_hash(),
        }
    }

    /// Whether the field is left out. Verbatim text never is.
    pub fn is_absent(&self) -> bool {
        matches!(&*self.0, Cell::Typed { typed, .. } if typed.is_absent())
    }

    /// The typed value for editing, in a copy if the cell is shared. From then on its text is the canonical one.
    ///
    /// # Errors
    /// The text is verbatim and unreadable; the cell is unchanged then, and only a new value can replace it.
    pub fn make_mut(&mut self) -> Result<&mut T, InvalidText> {
        let copy = match Arc::get_mut(&mut self.0) {
            Some(Cell::Typed { text, .. }) => {
                text.take();
                None
            }
            _ => Some(self.parse()?.clone()),
        };
        if let Some(typed) = copy {
            self.0 = Arc::new(Cell::typed(typed));
        }
        match Arc::get_mut(&mut self.0) {
            Some(Cell::Typed { typed, .. }) => Ok(typed),
            _ => unreachable!("the cell was just made typed and unshared"),
        }
    }
}

impl<T> From<T> for JsonText<T> {
    fn from(typed: T) -> Self {
        Self(Arc::new(Cell::typed(typed)))
    }
}

impl<T: Default> Default for JsonText<T> {
    fn default() -> Self {
        T::default().into()
    }
}

impl<T> Clone for JsonText<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: TextForm> PartialEq for JsonText<T> {
    fn eq(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) {
            return true;
        }
        match (&*self.0, &*other.0) {
            (Cell::Typed { typed: a, .. }, Cell::Typed { typed: b, .. }) => a == b,
            _ => self.is_absent() == other.is_absent() && self.text_len() == other.text_len() && self.text() == other.text(),
        }
    }
}

impl<T: TextForm> Eq for JsonText<T> {}

impl<T: TextForm> fmt::Debug for JsonText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_absent() { f.write_str("absent") } else { fmt::Debug::fmt(self.text(), f) }
    }
}

impl<T: TextForm> Serialize for JsonText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_absent() { serializer.serialize_none() } else { serializer.serialize_str(self.text()) }
    }
}

/// Reads `null` as the default value, because a server prunes it.
impl<'de, T: Default> Deserialize<'de> for JsonText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<Box<str>>::deserialize(deserializer)?.map_or_else(Self::default, Self::verbatim))
    }
}

impl<T> schemars::JsonSchema for JsonText<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "JsonText".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The pod of each address.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Records(BTreeMap<Ipv4Addr, String>);

    impl TextForm for Records {
        fn to_text(&self) -> String {
            serde_json::to_string(&self.0).unwrap()
        }

        fn from_text(text: &str) -> Result<Self, InvalidText> {
            serde_json::from_str(text).map(Self).map_err(InvalidText::new)
        }

        fn is_absent(&self) -> bool {
            self.0.is_empty()
        }
    }

    type Document = JsonText<Records>;

    fn records(bits: &[u32]) -> Records {
        Records(bits.iter().map(|bits| (Ipv4Addr::from_bits(*bits), format!("ns/pod-{bits}"))).collect())
    }

    /// The value that an API server would store for the field: nothing or bytes.
    fn bytes(document: &Document) -> Option<String> {
        serde_json::to_value(document).unwrap().as_str().map(str::to_owned)
    }

    /// The same few values in every possible state of a cell.
    fn documents() -> impl Strategy<Value = Document> {
        let values = || prop_oneof![Just(records(&[])), Just(records(&[1])), Just(records(&[1, 2]))];
        prop_oneof![
            values().prop_map(Document::from),
            values().prop_map(|value| Document::verbatim(value.to_text())),
            values().prop_map(|value| Document::verbatim(value.to_text().replace(":", ": "))),
            values().prop_map(|value| {
                let mut edited = Document::verbatim(value.to_text());
                edited.make_mut().unwrap();
                edited
            }),
            Just(Document::verbatim("")),
            Just(Document::verbatim("null")),
            Just(Document::default()),
        ]
    }

    #[test]
    fn escaped_texts_are_as_long_as_go_writes_them() {
        for (text, length) in [
            ("", 0),
            ("plain é", 8),
            ("\"\\\n\r\t\u{8}\u{c}", 14),
            ("<>&", 18),
            ("\0\u{1f}", 12),
            ("\u{7f}", 1),
            ("a\u{2028}\u{2029}\u{2027}", 16),
        ] {
            assert_eq!(escaped_len(text.as_bytes()), length, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_go_does_not_escape_apart_is_as_long_as_in_any_json(text in "[^<>&\u{2028}\u{2029}]{0,40}") {
            prop_assert_eq!(escaped_len(text.as_bytes()) + 2, serde_json::to_string(&text).unwrap().len());
        }

        #[test]
        fn equality_is_equality_of_bytes(a in documents(), b in documents(), convert in any::<[bool; 4]>()) {
            let expected = bytes(&a) == bytes(&b);
            let (a, b) = (a.clone(), b.clone());
            // Reads fill caches; they never change the answer.
            for (document, [parse, text]) in [(&a, [convert[0], convert[1]]), (&b, [convert[2], convert[3]])] {
                if parse {
                    let _ = document.parse();
                }
                if text {
                    document.text();
                }
            }
            prop_assert_eq!(a == b, expected);
            prop_assert!(expected || a.content_hash() != b.content_hash());
        }

        #[test]
        fn any_text_is_kept_verbatim(text in any::<String>()) {
            let document: Document = serde_json::from_value(json!(text)).unwrap();
            let _ = document.parse();
            prop_assert_eq!(document.text_len(), text.len());
            prop_assert_eq!(serde_json::to_value(&document).unwrap(), json!(text));
        }

        #[test]
        fn a_typed_value_round_trips_through_json(bits in prop::collection::vec(0u32..1000, 1..20)) {
            let typed = Document::from(records(&bits));
            let wire = serde_json::to_string(&typed).unwrap();
            let read: Document = serde_json::from_str(&wire).unwrap();
            prop_assert_eq!(read.parse(), typed.parse());
            prop_assert_eq!(&read, &typed);
            prop_assert_eq!(serde_json::to_string(&read).unwrap(), wire);
        }
    }

    #[test]
    fn broken_text_gives_an_error_and_stays() {
        let mut broken = Document::verbatim("{\"10.0.0.1\":");
        let error = broken.parse().unwrap_err();
        assert_eq!(error.to_string(), "unreadable JSON text: EOF while parsing a value at line 1 column 12");
        assert_eq!(broken.make_mut().unwrap_err(), error);
        assert_eq!(broken.text(), "{\"10.0.0.1\":");
    }

    #[test]
    fn an_edit_copies_what_is_shared_and_makes_the_text_canonical() {
        let stored = Document::verbatim("{ }");
        let mut edited = stored.clone();
        edited.make_mut().unwrap();
        assert_eq!((stored.text(), edited.is_absent()), ("{ }", true));

        *edited.make_mut().unwrap() = records(&[1]);
        let snapshot = edited.clone();
        assert_eq!(edited.text(), r#"{"0.0.0.1":"ns/pod-1"}"#);
        *edited.make_mut().unwrap() = records(&[1, 2]);
        assert_eq!(snapshot, Document::from(records(&[1])));
        assert_eq!(edited.text(), records(&[1, 2]).to_text());
    }

    #[test]
    fn null_is_absent() {
        let document: Document = serde_json::from_value(Value::Null).unwrap();
        assert_eq!((document.is_absent(), document.text_len()), (true, 0));
        assert_ne!(document, Document::verbatim("{}"));
    }
}
