//! JSON whose objects keep their order: names are given by first appearance, and the order of an answer may depend on that of a body.

use std::fmt::{self, Write};

use indexmap::IndexMap;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// The members of an object in their written order; of a duplicate name the last value counts.
pub type Map = IndexMap<String, Json>;

/// A value of JSON. Equal objects may have their members in any order; `1` and `1.0` differ.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// The one value `null`.
    Null,
    /// One of `true` and `false`.
    Bool(bool),
    /// A number; an integer beyond 64 bits is a float.
    Number(Number),
    /// A text, with its escapes resolved.
    String(String),
    /// A list, in its order.
    Array(Vec<Json>),
    /// An object, with its members in their order.
    Object(Map),
}

impl Json {
    /// Reads one document.
    ///
    /// # Errors
    ///
    /// Fails if the text is invalid JSON, more than one document, or nested deeper than 127 levels.
    pub fn read(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// The member of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.as_object()?.get(name)
    }

    /// The text, if the value is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Json::String(text) = self { Some(text) } else { None }
    }

    /// The members, if the value is an object.
    pub fn as_object(&self) -> Option<&Map> {
        if let Json::Object(members) = self { Some(members) } else { None }
    }

    /// The items, if the value is a list.
    pub fn as_array(&self) -> Option<&[Json]> {
        if let Json::Array(items) = self { Some(items) } else { None }
    }

    /// Without spaces, members in their order: the form that is sent.
    pub fn compact(&self) -> String {
        self.written(Form { spaced: false, ascii: false, sorted: false })
    }

    /// The same in ASCII: the content of a continue token.
    pub fn ascii_compact(&self) -> String {
        self.written(Form { spaced: false, ascii: true, sorted: false })
    }

    /// A line of a recording: with spaces, members sorted.
    pub fn line(&self) -> String {
        self.written(Form { spaced: true, ascii: false, sorted: true })
    }

    /// With spaces, members in their order, in ASCII: the source text of a case, in which sent values are found.
    pub fn ascii(&self) -> String {
        self.written(Form { spaced: true, ascii: true, sorted: false })
    }

    fn written(&self, form: Form) -> String {
        let mut out = String::new();
        form.value(self, &mut out);
        out
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Json::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Json::String(text)
    }
}

impl From<u16> for Json {
    fn from(number: u16) -> Self {
        Json::Number(number.into())
    }
}

impl FromIterator<(String, Json)> for Json {
    fn from_iter<I: IntoIterator<Item = (String, Json)>>(members: I) -> Self {
        Json::Object(members.into_iter().collect())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line())
    }
}

/// The format of a written value.
#[derive(Clone, Copy)]
struct Form {
    spaced: bool,
    ascii: bool,
    sorted: bool,
}

impl Form {
    fn value(self, value: &Json, out: &mut String) {
        match value {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => out.push_str(&number.to_string()),
            Json::String(text) => self.text(text, out),
            Json::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.comma(index, out);
                    self.value(item, out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                let mut members: Vec<(&String, &Json)> = members.iter().collect();
                if self.sorted {
                    members.sort_by_key(|(name, _)| *name);
                }
                out.push('{');
                for (index, (name, item)) in members.into_iter().enumerate() {
                    self.comma(index, out);
                    self.text(name, out);
                    out.push_str(if self.spaced { ": " } else { ":" });
                    self.value(item, out);
                }
                out.push('}');
            }
        }
    }

    fn comma(self, index: usize, out: &mut String) {
        if index > 0 {
            out.push_str(if self.spaced { ", " } else { "," });
        }
    }

    fn text(self, text: &str, out: &mut String) {
        out.push('"');
        for char in text.chars() {
            match char {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                char if char < ' ' || (self.ascii && char > '~') => {
                    for unit in char.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                char => out.push(char),
            }
        }
        out.push('"');
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;

        impl<'de> Visitor<'de> for AnyValue {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of JSON")
            }

            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
                Ok(Json::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
                Ok(Json::Number(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
                Ok(Json::Number(value.into()))
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
                Number::from_f64(value).map(Json::Number).ok_or_else(|| E::custom("a number without end"))
            }

            fn visit_str<E>(self, text: &str) -> Result<Json, E> {
                Ok(text.into())
            }

            fn visit_string<E>(self, text: String) -> Result<Json, E> {
                Ok(Json::String(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
                let mut array = Vec::new();
                while let Some(item) = items.next_element()? {
                    array.push(item);
                }
                Ok(Json::Array(array))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
                let mut object = Map::new();
                while let Some((name, item)) = members.next_entry()? {
                    object.insert(name, item);
                }
                Ok(Json::Object(object))
            }
        }

        deserializer.deserialize_any(AnyValue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_the_last_of_a_name_counts() {
        let value = Json::read(r#"{"b": 1, "a": [true, null], "b": 2}"#.as_bytes()).unwrap();
        assert_eq!(value.compact(), r#"{"b":2,"a":[true,null]}"#);
        assert_eq!(value.line(), r#"{"a": [true, null], "b": 2}"#);
    }

    #[test]
    fn texts_are_escaped_as_far_as_they_must_be() {
        let value = Json::from("\u{7f}\u{1}\"\\\n\r\t\u{8}\u{c}é\u{1f600}");
        assert_eq!(value.compact(), "\"\u{7f}\\u0001\\\"\\\\\\n\\r\\t\\b\\fé\u{1f600}\"");
        assert_eq!(value.ascii(), "\"\\u007f\\u0001\\\"\\\\\\n\\r\\t\\b\\f\\u00e9\\ud83d\\ude00\"");
    }

    #[test]
    fn integers_and_floats_differ() {
        assert_ne!(Json::read(b"1").unwrap(), Json::read(b"1.0").unwrap());
        assert_eq!(Json::read(b"1.0").unwrap().compact(), "1.0");
    }
}
