//! Turns serde's expectations and the values of a file into words for people.

use super::node::{Node, Value};

/// The words differ a little between the two languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Scenario, plan and settings files.
    Toml,
    /// Manifests; JSON is read as YAML.
    Yaml,
}

impl Language {
    fn table(self) -> &'static str {
        if self == Language::Toml { "a table" } else { "a mapping" }
    }

    fn list(self) -> &'static str {
        if self == Language::Toml { "an array" } else { "a list" }
    }

    pub(super) fn key(self) -> &'static str {
        if self == Language::Toml { "key" } else { "field" }
    }

    /// The description of a value, with the value itself if it is short.
    pub fn found(self, node: &Node) -> String {
        match &node.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => format!("the boolean {value}"),
            Value::Integer(value) => format!("the number {value}"),
            Value::Float(value) => format!("the number {value}"),
            Value::String(text) => quoted_string(text),
            Value::List(_) => self.list().to_owned(),
            Value::Table(_) => self.table().to_owned(),
        }
    }

    /// The words for an expectation as serde names it.
    pub(super) fn expected(self, serde: &str) -> String {
        if let Some(count) = serde.strip_prefix("a tuple of size ").or_else(|| serde.strip_prefix("an array of length ")) {
            return format!("{count} elements");
        }
        let whole = |low: i128, high: i128| format!("a whole number from {low} to {high}");
        match serde {
            "a boolean" => "true or false".to_owned(),
            "a sequence" => self.list().to_owned(),
            "a map" | "map" => self.table().to_owned(),
            "f32" | "f64" => "a number".to_owned(),
            "u8" => whole(0, u8::MAX.into()),
            "u16" => whole(0, u16::MAX.into()),
            "u32" => whole(0, u32::MAX.into()),
            "u64" | "usize" | "u128" => "a whole number, 0 or more".to_owned(),
            "a nonzero u8" => whole(1, u8::MAX.into()),
            "a nonzero u16" => whole(1, u16::MAX.into()),
            "a nonzero u32" => whole(1, u32::MAX.into()),
            "a nonzero u64" | "a nonzero usize" => "a whole number, 1 or more".to_owned(),
            "i8" => whole(i8::MIN.into(), i8::MAX.into()),
            "i16" => whole(i16::MIN.into(), i16::MAX.into()),
            "i32" => whole(i32::MIN.into(), i32::MAX.into()),
            "i64" | "isize" | "i128" => "a whole number".to_owned(),
            "unit" | "unit struct" => "nothing".to_owned(),
            _ if serde.starts_with("struct ") || serde.starts_with("internally tagged enum ") => self.table().to_owned(),
            // k8s-openapi names only the type: `expected ObjectMeta`.
            _ if serde.starts_with(char::is_uppercase) && serde.chars().all(char::is_alphanumeric) => format!("{} ({serde})", self.table()),
            _ => serde.to_owned(),
        }
    }
}

/// A string as a message shows it: one line, not too long.
pub(super) fn quoted_string(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut chars = text.chars();
    let mut shown = String::new();
    for c in chars.by_ref().take(LONGEST) {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if chars.next().is_some() {
        shown.push('…');
    }
    format!("the string \"{shown}\"")
}

/// The name that was probably meant.
pub fn meant<'k>(found: &str, known: &[&'k str]) -> Option<&'k str> {
    let found = found.to_lowercase().replace('_', "-");
    known
        .iter()
        .map(|name| (strsim::osa_distance(&found, &name.to_lowercase().replace('_', "-")), *name))
        .filter(|&(distance, name)| distance <= (name.chars().count().max(found.chars().count()) / 3).max(1))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// The known name that is most similar to the one found, however different it is.
pub fn nearest<'k>(found: &str, known: impl IntoIterator<Item = &'k str>) -> &'k str {
    known.into_iter().min_by_key(|known| strsim::levenshtein(known, found)).unwrap_or_default()
}

/// `did you mean …?`, or the names to choose from.
pub fn advice(found: &str, known: &[&str], what: &str) -> String {
    if let Some(name) = meant(found, known) {
        return format!("did you mean `{name}`?");
    }
    match known {
        [] => format!("no other {what} is known here"),
        [only] => format!("the only known {what} is `{only}`"),
        _ => format!("known {what}s: {}", names(known)),
    }
}

/// The names as messages list them, in backticks with commas between: `a`, `b`, `c`.
pub fn names(known: &[&str]) -> String {
    known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
