//! YAML and JSON (a subset of YAML as far as manifests go) as trees with positions.
//!
//! Plain scalars have the same meaning as for kubectl, whose parser (sigs.k8s.io/yaml) keeps many rules of YAML 1.1: `yes`, `on` and `y`
//! are booleans, `010` is eight, `1_000` is a thousand. Times stay text. Tags beyond the core ones are refused.

use std::collections::BTreeMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, StrInput, StructureStyle, Tag};
use rustc_hash::FxHashSet;

use super::node::{Entry, Node, Value};
use super::problem::{Position, Problem, Problems};
use super::source::saturate;

/// The largest depth: more than any Kubernetes object has, and little enough to recurse.
const DEEPEST: usize = 100;
/// The most values that a file may have through aliases: more are a bomb, not a manifest.
const MOST_ALIASED: usize = 100_000;

/// Reads every document of a text that is not empty. A document with problems is left out.
pub fn documents(file: &str, text: &str) -> (Vec<Node>, Problems) {
    let options = granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: DEEPEST,
        block_nesting_limit: DEEPEST,
    };
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut reader = Reader { file, ..Reader::default() };
    let mut documents = Vec::new();
    while let Some(event) = next(&mut parser, &mut reader) {
        match event {
            Ok((Event::StreamEnd, _)) => break,
            Ok((Event::DocumentStart(..), _)) => reader.start(),
            Ok((Event::DocumentEnd, _)) => documents.extend(reader.end()),
            Ok((event, span)) => reader.event(event, position(span.start)),
            Err(()) if reader.problems.is_full() => break,
            Err(()) => {}
        }
    }
    reader.problems.sort();
    (documents, reader.problems)
}

/// The next event; after a syntax error reading continues with the next document.
fn next<'t>(parser: &mut Parser<'t, StrInput<'t>>, reader: &mut Reader<'_>) -> Option<Result<(Event<'t>, granit_parser::Span), ()>> {
    match parser.next_event()? {
        Ok(event) => Some(Ok(event)),
        Err(error) => {
            reader.problem(position(*error.marker()), format!("not YAML: {}", error.info()), "");
            matches!(parser.proceed_next_document(), Ok(true)).then_some(Err(()))
        }
    }
}

fn position(marker: Marker) -> Position {
    Position { line: saturate(marker.line().max(1)), column: saturate(marker.col() + 1) }
}

/// Builds trees from events.
#[derive(Default)]
struct Reader<'f> {
    file: &'f str,
    open: Vec<Open>,
    root: Option<Node>,
    anchors: BTreeMap<usize, Node>,
    aliased: usize,
    problems: Problems,
    /// Whether the current document has problems.
    bad: bool,
}

/// A list or mapping that has not ended yet.
struct Open {
    at: Position,
    anchor: usize,
    /// Whether the collection is in block style: it begins at its first item then, and its key is the better place to report.
    block: bool,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Mapping { entries: Vec<Entry>, seen: FxHashSet<String>, key: Option<Key>, merged: Vec<Entry> },
}

struct Key {
    at: Position,
    text: String,
    merge: bool,
}

impl Reader<'_> {
    fn problem(&mut self, at: Position, wrong: impl Into<String>, right: impl Into<String>) {
        self.bad = true;
        self.problems.push(Problem::at(self.file, at, wrong, right));
    }

    fn start(&mut self) {
        self.open.clear();
        self.anchors.clear();
        self.root = None;
        self.bad = false;
    }

    fn end(&mut self) -> Option<Node> {
        let mut root = self.root.take().filter(|root| !self.bad && !matches!(root.value, Value::Null))?;
        root.number();
        Some(root)
    }

    fn event(&mut self, event: Event<'_>, at: Position) {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let merge = text == "<<" && style == ScalarStyle::Plain;
                let value = self.scalar(at, &text, style, tag.as_deref());
                self.anchored(anchor, Node::new(at, value), false, merge);
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.collection_tag(at, tag.as_deref(), "seq");
                self.open.push(Open { at, anchor, block: style == StructureStyle::Block, items: Items::List(Vec::new()) });
            }
            Event::MappingStart(style, anchor, tag) => {
                self.collection_tag(at, tag.as_deref(), "map");
                let items = Items::Mapping { entries: Vec::new(), seen: FxHashSet::default(), key: None, merged: Vec::new() };
                self.open.push(Open { at, anchor, block: style == StructureStyle::Block, items });
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(id) => self.alias(id, at),
            Event::UnresolvedAlias(name) => {
                self.problem(
                    at,
                    format!("the alias `*{name}` has no anchor"),
                    format!("put `&{name}` before the value that is meant, above"),
                );
                self.attach(Node::new(at, Value::Null), false, false);
            }
            _ => {}
        }
    }

    fn close(&mut self) {
        let Some(Open { at, anchor, block, items }) = self.open.pop() else { return };
        let value = match items {
            Items::List(items) => Value::List(items),
            Items::Mapping { mut entries, seen, merged, .. } => {
                let mut seen = seen;
                entries.extend(merged.into_iter().filter(|entry| seen.insert(entry.key.clone())));
                Value::Table(entries)
            }
        };
        self.anchored(anchor, Node::new(at, value), block, false);
    }

    fn anchored(&mut self, anchor: usize, node: Node, block: bool, merge: bool) {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.attach(node, block, merge);
    }

    fn alias(&mut self, id: usize, at: Position) {
        let Some(node) = self.anchors.get(&id) else {
            self.problem(at, "an alias inside the value that it stands for", "");
            return self.attach(Node::new(at, Value::Null), false, false);
        };
        self.aliased += node.size();
        if self.aliased > MOST_ALIASED || self.open.len() + node.depth() > 2 * DEEPEST {
            self.problem(at, "aliases make this document too large", "");
            return self.attach(Node::new(at, Value::Null), false, false);
        }
        let node = node.clone();
        self.attach(node, false, false);
    }

    /// Puts a value in its place: into the innermost open collection, or at the top.
    fn attach(&mut self, mut node: Node, block: bool, merge: bool) {
        let Some(Open { items, .. }) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        let (entries, seen, key, merged) = match items {
            Items::List(items) => return items.push(node),
            Items::Mapping { entries, seen, key, merged } => (entries, seen, key, merged),
        };
        match key.take() {
            None => {
                let at = node.at;
                let text = key_text(&node.value);
                *key = Some(Key { at, text: text.clone().unwrap_or_default(), merge });
                if text.is_none() {
                    self.problem(at, "a key that is no text", "write the key in quotes");
                }
            }
            Some(Key { merge: true, at, .. }) => match node.value {
                Value::Table(entries) => merged.extend(entries),
                Value::List(tables) if tables.iter().all(|table| matches!(table.value, Value::Table(_))) => {
                    for table in tables {
                        if let Value::Table(entries) = table.value {
                            merged.extend(entries);
                        }
                    }
                }
                _ => self.problem(at, "`<<` merges something that is no mapping", "write a mapping, or an alias of one"),
            },
            Some(Key { text, at, .. }) => {
                if seen.insert(text.clone()) {
                    if block {
                        node.at = at;
                    }
                    entries.push(Entry { key: text, at, node });
                } else {
                    let first = entries.iter().find(|entry| entry.key == text).map_or(at, |entry| entry.at);
                    self.problem(at, format!("duplicate key `{text}`"), format!("the first is on line {}", first.line));
                }
            }
        }
    }

    fn collection_tag(&mut self, at: Position, tag: Option<&Tag>, core: &str) {
        if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema_tag(core)) {
            self.problem(at, format!("the tag `{}` has no meaning in a manifest", tag.original()), "remove it");
        }
    }

    fn scalar(&mut self, at: Position, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
        let Some(tag) = tag else {
            let value = if style == ScalarStyle::Plain { resolve(text) } else { Some(Value::String(text.to_owned())) };
            return value.unwrap_or_else(|| {
                self.problem(at, format!("`{text}` is a number that JSON cannot hold"), "put it in quotes if text is meant");
                Value::Null
            });
        };
        let value = match tag.core_suffix() {
            Some("str" | "timestamp") => Some(Value::String(text.to_owned())),
            Some("int") => resolve(text).filter(|value| matches!(value, Value::Integer(_))),
            Some("float") => resolve(text).filter(|value| matches!(value, Value::Integer(_) | Value::Float(_))),
            Some("bool") => resolve(text).filter(|value| matches!(value, Value::Bool(_))),
            Some("null") => resolve(text).filter(|value| matches!(value, Value::Null)),
            _ if tag.original() == "!" => Some(Value::String(text.to_owned())),
            _ => {
                self.problem(at, format!("the tag `{}` has no meaning in a manifest", tag.original()), "remove it");
                return Value::Null;
            }
        };
        value.unwrap_or_else(|| {
            self.problem(at, format!("`{text}` is not what its tag `{}` says", tag.original()), "");
            Value::Null
        })
    }
}

/// The text of a key: JSON has only texts as keys.
fn key_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Integer(value) => Some(value.to_string()),
        Value::Float(value) => Some(value.to_string()),
        Value::Null | Value::List(_) | Value::Table(_) => None,
    }
}

/// The value of a plain scalar; `None` for infinities and NaN, which JSON does not have.
fn resolve(text: &str) -> Option<Value> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Value::Bool(false),
        _ => match text.trim_start_matches(['+', '-']) {
            ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" => return None,
            _ => number(text).unwrap_or_else(|| Value::String(text.to_owned())),
        },
    })
}

/// A number as Go parses it: underscores between digits, prefixes for the base, a leading zero for octal.
fn number(text: &str) -> Option<Value> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    let plain: String = if text.starts_with('.') { text.to_owned() } else { text.chars().filter(|&c| c != '_').collect() };
    let (sign, digits) = match plain.as_bytes().first()? {
        b'-' => (-1, &plain[1..]),
        b'+' => (1, &plain[1..]),
        _ => (1, plain.as_str()),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.starts_with(['+', '-'])
        && let Ok(value) = i128::from_str_radix(digits, base)
    {
        return Some(Value::Integer(sign * value));
    }
    if !plain.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E')) {
        return None;
    }
    let value: f64 = plain.parse().ok().filter(|value: &f64| value.is_finite())?;
    // Go writes such a number to JSON without a fraction, so `replicas: 3.0` is fine.
    Some(if value == value.trunc() && value.abs() < 1e21 { Value::Integer(value as i128) } else { Value::Float(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let (documents, problems) = documents("x.yaml", text);
        let mut lines: Vec<_> = documents.iter().map(|document| document.to_json().to_string()).collect();
        lines.extend(problems.iter().map(ToString::to_string));
        lines.join("\n")
    }

    #[test]
    fn plain_scalars_mean_what_they_mean_to_kubectl() {
        for (text, meaning) in [
            ("yes", "true"),
            ("y", "true"),
            ("Off", "false"),
            ("~", "null"),
            ("tRUE", "\"tRUE\""),
            ("010", "8"),
            ("08", "8"),
            ("0x1F", "31"),
            ("0o17", "15"),
            ("-0b11", "-3"),
            ("1_000", "1000"),
            ("+5", "5"),
            ("3.0", "3"),
            ("1e3", "1000"),
            (".5", "0.5"),
            ("1.5e-3", "0.0015"),
            ("1e999", "\"1e999\""),
            ("18446744073709551615", "18446744073709551615"),
            ("10.0.0.1", "\"10.0.0.1\""),
            ("00:1b:44", "\"00:1b:44\""),
            ("2024-01-01T00:00:00Z", "\"2024-01-01T00:00:00Z\""),
            ("1-2", "\"1-2\""),
            ("'yes'", "\"yes\""),
            ("\"5\"", "\"5\""),
            ("!!str 5", "\"5\""),
            ("!!float 5", "5"),
            ("! 5", "\"5\""),
            ("100m", "\"100m\""),
            ("--5", "\"--5\""),
            ("0x-5", "\"0x-5\""),
            ("_1", "\"_1\""),
        ] {
            let expected = format!("{{\"a\":{meaning}}}");
            assert_eq!(json(&format!("a: {text}")), expected, "{text}");
        }
    }

    #[test]
    fn anchors_and_merges_work() {
        assert_eq!(json("a: &a {x: 1, z: 2}\nb: {<<: *a, z: 3}\nc: *a"), r#"{"a":{"x":1,"z":2},"b":{"x":1,"z":3},"c":{"x":1,"z":2}}"#);
        assert_eq!(json("a: {<<: [{x: 1}, {x: 2, z: 3}]}"), r#"{"a":{"x":1,"z":3}}"#);
    }

    #[test]
    fn keys_become_text_as_kubectl_makes_them() {
        assert_eq!(json("{1: a, y: b, 0x10: c, 'y': d}"), r#"{"1":"a","16":"c","true":"b","y":"d"}"#);
    }

    #[test]
    fn each_document_has_its_own_problems() {
        let text = "a: [1\n---\nb: 1\nb: 2\n---\nok: yes\n---\n\n---\n# nothing\n---\nc: !secret x\nd: *none\n? [1]\n: 2\n---\ne: .inf\n\
                    f: &f [*f]\n---\ng:\n\t- 1\n...\n---\nh: 1\n";
        insta::assert_snapshot!(json(text), @r#"
        {"ok":true}
        {"h":1}
        x.yaml:1:4: not YAML: unclosed bracket '['
        x.yaml:4:1: duplicate key `b`; the first is on line 3
        x.yaml:12:12: the tag `!secret` has no meaning in a manifest; remove it
        x.yaml:13:4: the alias `*none` has no anchor; put `&none` before the value that is meant, above
        x.yaml:14:3: a key that is no text; write the key in quotes
        x.yaml:17:4: `.inf` is a number that JSON cannot hold; put it in quotes if text is meant
        x.yaml:18:8: an alias inside the value that it stands for
        x.yaml:21:2: not YAML: tabs disallowed within this context (block indentation)
        "#);
    }

    #[test]
    fn json_is_read_too() {
        assert_eq!(
            json("{\n\t\"a\": \"\\u00e9\\/\\ud83d\\ude00\",\n\t\"b\":[1,-2.5e1,true,null]}"),
            r#"{"a":"é/😀","b":[1,-25,true,null]}"#
        );
    }

    #[test]
    fn depth_and_size_are_bounded() {
        insta::assert_snapshot!(json(&"[".repeat(100_000)), @"x.yaml:1:101: not YAML: recursion limit exceeded");
        insta::assert_snapshot!(json(&"- ".repeat(100_000)), @"x.yaml:1:201: not YAML: recursion limit exceeded");
        insta::assert_snapshot!(json(&"{a: ".repeat(100_000)), @"x.yaml:1:401: not YAML: recursion limit exceeded");
        let bomb: String = (1..40).map(|i| format!("a{i}: &a{i} [*a{0}, *a{0}, *a{0}]\n", i - 1)).collect();
        assert!(json(&format!("a0: &a0 [x, x]\n{bomb}")).contains("aliases make this document too large"));
        let deep = "[".repeat(60);
        let close = "]".repeat(60);
        let chain: String = (1..40).map(|i| format!("a{i}: &a{i} {deep}*a{}{close}\n", i - 1)).collect();
        assert!(json(&format!("a0: &a0 1\n{chain}")).contains("aliases make this document too large"));
    }
}
