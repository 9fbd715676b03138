//! Small changes that make a valid input almost valid: to its bytes, its tokens, its lines, and its tree.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

/// Values that users may write in place of a valid one.
const HOSTILE: [&str; 28] = [
    "0",
    "-1",
    "1e400",
    "18446744073709551616",
    "9223372036854775807",
    "0.1",
    "nan",
    "true",
    "null",
    "\"\"",
    "[]",
    "{}",
    "\"never\"",
    "\"1000000h\"",
    "\"0s\"",
    "\"9..1\"",
    "\"\u{1b}[2J\u{7}\"",
    "\"a\\n::error file=x::y\"",
    "\"\u{9b}31m\u{202e}\"",
    "\"../../x\"",
    "\"10.0.0.0/0\"",
    "\"::/0\"",
    "\"10.0.0.1-9.0.0.1\"",
    "\"fd00::1-ffff::\"",
    "\"=cmd|x\"",
    "\"UPPER case!\"",
    "&a [*a]",
    "'\u{feff}'",
];

/// A change. Positions are relative, so that it applies to any input.
#[derive(Clone, Debug)]
pub(crate) enum Mutation {
    /// Replaces the byte at a position.
    Byte(Index, u8),
    /// Inserts a byte before a position.
    Insert(Index, u8),
    /// Removes this many bytes from a position on.
    Cut(Index, usize),
    /// Removes everything after a position.
    End(Index),
    /// Removes the line at a position.
    WithoutLine(Index),
    /// Duplicates the line at a position.
    TwiceLine(Index),
    /// Swaps the lines at two positions.
    SwapLines(Index, Index),
    /// Replaces a token by another one of the same input.
    Token(Index, Index),
    /// Replaces a token by one of the hostile values.
    Hostile(Index, Index),
    /// Replaces a node of the tree by a hostile value.
    Node(Index, Index),
    /// Replaces a node of the tree by another one of the same input.
    Graft(Index, Index),
    /// Removes a member of the tree.
    Prune(Index),
    /// Renames a member of the tree.
    Rename(Index),
    /// Repeats the items of a list in the tree many times.
    Repeat(Index),
}

impl Mutation {
    /// Any change: those that leave the input readable more often than the others.
    pub(crate) fn any() -> impl Strategy<Value = Self> {
        let at = || any::<Index>();
        prop_oneof![
            1 => (at(), any::<u8>()).prop_map(|(at, byte)| Self::Byte(at, byte)),
            1 => (at(), any::<u8>()).prop_map(|(at, byte)| Self::Insert(at, byte)),
            1 => (at(), 1..40usize).prop_map(|(at, length)| Self::Cut(at, length)),
            1 => at().prop_map(Self::End),
            1 => at().prop_map(Self::WithoutLine),
            1 => at().prop_map(Self::TwiceLine),
            1 => (at(), at()).prop_map(|(one, other)| Self::SwapLines(one, other)),
            3 => (at(), at()).prop_map(|(one, other)| Self::Token(one, other)),
            4 => (at(), at()).prop_map(|(at, value)| Self::Hostile(at, value)),
            4 => (at(), at()).prop_map(|(at, value)| Self::Node(at, value)),
            2 => (at(), at()).prop_map(|(one, other)| Self::Graft(one, other)),
            2 => at().prop_map(Self::Prune),
            1 => at().prop_map(Self::Rename),
            1 => at().prop_map(Self::Repeat),
        ]
    }

    /// Applies the change to an input. An input that has no tree in this language is unchanged by changes to the tree.
    pub(crate) fn apply(&self, input: Vec<u8>, language: Language) -> Vec<u8> {
        let text = || String::from_utf8_lossy(&input).into_owned();
        match self {
            _ if input.is_empty() => input,
            Self::Byte(at, byte) => {
                let mut input = input;
                let at = at.index(input.len());
                input[at] = *byte;
                input
            }
            Self::Insert(at, byte) => {
                let mut input = input;
                input.insert(at.index(input.len()), *byte);
                input
            }
            Self::Cut(at, length) => {
                let mut input = input;
                let from = at.index(input.len());
                input.drain(from..(from + length).min(input.len()));
                input
            }
            Self::End(at) => input[..at.index(input.len())].to_vec(),
            Self::WithoutLine(at) => lines(&text(), |lines| {
                let _ = lines.remove(at.index(lines.len()));
            }),
            Self::TwiceLine(at) => lines(&text(), |lines| {
                let at = at.index(lines.len());
                lines.insert(at, lines[at]);
            }),
            Self::SwapLines(one, other) => lines(&text(), |lines| {
                let count = lines.len();
                lines.swap(one.index(count), other.index(count));
            }),
            Self::Token(one, other) => tokens(&text(), |tokens| {
                let count = tokens.len();
                tokens[one.index(count)] = tokens[other.index(count)];
            }),
            Self::Hostile(at, value) => tokens(&text(), |tokens| {
                let count = tokens.len();
                tokens[at.index(count)] = hostile(value);
            }),
            Self::Node(at, value) => tree(input, language, |tree, paths| {
                let value = hostile(value);
                let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
                set(tree, pick(at, paths), |node| *node = value);
            }),
            Self::Graft(one, other) => tree(input, language, |tree, paths| {
                let grafted = tree.pointer(pick(other, paths)).cloned().unwrap_or_default();
                set(tree, pick(one, paths), |node| *node = grafted);
            }),
            Self::Prune(at) => tree(input, language, |tree, paths| {
                let Some((parent, key)) = pick(at, paths).rsplit_once('/') else { return };
                set(tree, parent, |node| match node {
                    Value::Object(members) => drop(members.remove(key)),
                    Value::Array(items) => drop(key.parse().ok().filter(|at| *at < items.len()).map(|at: usize| items.remove(at))),
                    _ => {}
                });
            }),
            Self::Rename(at) => tree(input, language, |tree, paths| {
                let Some((parent, key)) = pick(at, paths).rsplit_once('/') else { return };
                set(tree, parent, |node| {
                    if let Value::Object(members) = node
                        && let Some(member) = members.remove(key)
                    {
                        members.insert(format!("{key}x\u{1b}[1m"), member);
                    }
                });
            }),
            Self::Repeat(at) => tree(input, language, |tree, paths| {
                let lists: Vec<&String> = paths.iter().filter(|path| tree.pointer(path).is_some_and(Value::is_array)).collect();
                if let Some(path) = (!lists.is_empty()).then(|| lists[at.index(lists.len())].clone()) {
                    set(tree, &path, |node| {
                        if let Value::Array(items) = node {
                            *items = items.iter().cycle().take(items.len() * 7).cloned().collect();
                        }
                    });
                }
            }),
        }
    }
}

/// The language of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// TOML: scenarios, plans and settings.
    Toml,
    /// YAML: manifests and settings.
    Yaml,
    /// JSON: results and CNI configurations.
    Json,
    /// Tables and values, which have no tree.
    Text,
}

fn hostile(at: &Index) -> &'static str {
    HOSTILE[at.index(HOSTILE.len())]
}

fn pick<'a>(at: &Index, paths: &'a [String]) -> &'a str {
    &paths[at.index(paths.len())]
}

fn lines(text: &str, change: impl FnOnce(&mut Vec<&str>)) -> Vec<u8> {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    if !lines.is_empty() {
        change(&mut lines);
    }
    lines.concat().into_bytes()
}

/// Changes the tokens of a text: words, quoted texts, and everything between.
fn tokens(text: &str, change: impl FnOnce(&mut Vec<&str>)) -> Vec<u8> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || "._-/:".contains(c);
        let end = match first {
            '"' => rest[1..].find(['"', '\n']).map_or(rest.len(), |at| at + 2),
            first if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    change(&mut tokens);
    tokens.concat().into_bytes()
}

/// Changes the tree of an input, given the paths of all nodes below its root.
fn tree(input: Vec<u8>, language: Language, change: impl FnOnce(&mut Value, &[String])) -> Vec<u8> {
    let text = String::from_utf8_lossy(&input);
    let parsed: Option<Value> = match language {
        Language::Toml => toml::from_str(&text).ok(),
        Language::Json => serde_json::from_str(&text).ok(),
        Language::Yaml => sim_config::manifest::parse("x", &input).ok().map(|objects| {
            let items: Vec<Value> = objects.into_iter().map(|object| object.value).collect();
            serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items})
        }),
        Language::Text => None,
    };
    let Some(mut tree) = parsed else { return input };
    let mut paths = Vec::new();
    places(&tree, "", &mut paths);
    if paths.is_empty() {
        return input;
    }
    change(&mut tree, &paths);
    // JSON is valid YAML; TOML has no null.
    let written = if language == Language::Toml { toml::to_string(&tree).ok() } else { Some(tree.to_string()) };
    written.map_or(input, String::into_bytes)
}

fn places(node: &Value, path: &str, found: &mut Vec<String>) {
    let mut visit = |key: &str, child: &Value| {
        let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        found.push(path.clone());
        places(child, &path, found);
    };
    match node {
        Value::Array(items) => items.iter().enumerate().for_each(|(at, item)| visit(&at.to_string(), item)),
        Value::Object(members) => members.iter().for_each(|(key, member)| visit(key, member)),
        _ => {}
    }
}

fn set(tree: &mut Value, path: &str, change: impl FnOnce(&mut Value)) {
    if let Some(node) = tree.pointer_mut(path) {
        change(node);
    }
}
