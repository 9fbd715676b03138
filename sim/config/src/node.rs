//! A document as a tree of values with their places, the same for TOML and YAML.

use std::fmt::Write;
use std::ops::Range;

use super::problem::Position;

/// A value and its place. The numbers are given in document order by [`Node::number`]: a node's descendants are `id + 1..end`.
#[derive(Clone, Debug)]
pub struct Node {
    /// The beginning of the value, or of its key if it is a block of YAML; [`Position::START`] if it was made from JSON.
    pub at: Position,
    /// The value without its place; values below it have their own places.
    pub value: Value,
    /// Its number in document order, from 0 at the root; 0 everywhere before [`Node::number`].
    pub id: u32,
    /// True for a value of a merged table that comes only from the shared part of the file.
    pub(crate) inherited: bool,
    end: u32,
}

/// The value of a node. TOML has no null.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing, as `null` of YAML and JSON, or a key of YAML without a value.
    Null,
    /// A boolean; a value in quotes is a text.
    Bool(bool),
    /// A number without a fraction.
    Integer(i128),
    /// Any other number: with a fraction or too large, or in TOML written as a float.
    Float(f64),
    /// A text; also a date of TOML.
    String(String),
    /// The elements of a list or an array, in order.
    List(Vec<Node>),
    /// Keys with their values, in the order of the file.
    Table(Vec<Entry>),
}

/// A key of a table with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key without its quotes; unique in its table.
    pub key: String,
    /// The beginning of the key.
    pub at: Position,
    /// The value of the key, with its own place.
    pub node: Node,
}

/// One step from a node to a child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// To the value of a key of a table.
    Key(&'a str),
    /// To an element of a list, counted from 0.
    Index(usize),
}

impl Node {
    /// A value at `at`, not numbered yet.
    pub fn new(at: Position, value: Value) -> Self {
        Self { at, value, id: 0, inherited: false, end: 0 }
    }

    /// Numbers the tree; needed once after it was built or changed.
    pub fn number(&mut self) {
        self.number_from(0);
    }

    fn number_from(&mut self, id: u32) -> u32 {
        self.id = id;
        self.end = self.children_mut().fold(id + 1, |next, child| child.number_from(next));
        self.end
    }

    /// The numbers of everything below this node.
    pub fn below(&self) -> Range<u32> {
        self.id + 1..self.end
    }

    fn children_mut(&mut self) -> Box<dyn Iterator<Item = &mut Node> + '_> {
        match &mut self.value {
            Value::List(items) => Box::new(items.iter_mut()),
            Value::Table(entries) => Box::new(entries.iter_mut().map(|entry| &mut entry.node)),
            _ => Box::new(std::iter::empty()),
        }
    }

    pub(crate) fn children(&self) -> Box<dyn Iterator<Item = (Step<'_>, &Node)> + '_> {
        match &self.value {
            Value::List(items) => Box::new(items.iter().enumerate().map(|(i, node)| (Step::Index(i), node))),
            Value::Table(entries) => Box::new(entries.iter().map(|entry| (Step::Key(&entry.key), &entry.node))),
            _ => Box::new(std::iter::empty()),
        }
    }

    /// The entry of a table.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The value of a key of a table.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The entries, if it is a table.
    pub fn entries_mut(&mut self) -> Option<&mut Vec<Entry>> {
        match &mut self.value {
            Value::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// Sets the place of the value and of all values in it to `at`.
    pub fn move_to(&mut self, at: Position) {
        self.at = at;
        if let Value::Table(entries) = &mut self.value {
            entries.iter_mut().for_each(|entry| entry.at = at);
        }
        self.children_mut().for_each(|child| child.move_to(at));
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// True for values that never have children.
    pub fn is_scalar(&self) -> bool {
        !matches!(self.value, Value::List(_) | Value::Table(_))
    }

    /// The nodes from this one (first) down to number `id` (last), each with the step that leads to it.
    pub fn trail(&self, id: u32) -> Vec<(Option<Step<'_>>, &Node)> {
        let mut trail = vec![(None, self)];
        let mut node = self;
        while node.id != id {
            let Some((step, child)) = node.children().find(|(_, child)| (child.id..child.end).contains(&id)) else { break };
            trail.push((Some(step), child));
            node = child;
        }
        trail
    }

    /// The number of levels of the tree.
    pub fn depth(&self) -> usize {
        1 + self.children().map(|(_, child)| child.depth()).max().unwrap_or(0)
    }

    /// The number of nodes of the tree.
    pub fn size(&self) -> usize {
        1 + self.children().map(|(_, child)| child.size()).sum::<usize>()
    }

    /// The tree of a JSON value, which has no places.
    pub fn from_json(value: serde_json::Value) -> Self {
        use serde_json::Value as Json;
        let value = match value {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Value::Integer(value.into()),
                (_, Some(value)) => Value::Integer(value.into()),
                _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::String(text),
            Json::Array(items) => Value::List(items.into_iter().map(Node::from_json).collect()),
            Json::Object(entries) => {
                let entry = |(key, value)| Entry { key, at: Position::START, node: Node::from_json(value) };
                Value::Table(entries.into_iter().map(entry).collect())
            }
        };
        Node::new(Position::START, value)
    }

    /// The tree as a JSON value.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => serde_json::Number::from_f64(*value as f64).into(),
            },
            Value::Float(value) => serde_json::Number::from_f64(*value).into(),
            Value::String(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Table(entries) => entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect(),
        }
    }
}

/// A path as Kubernetes prints it: `fault[2].delay`, `metadata.annotations[ipam.spidernet.io/subnet]`.
pub fn path_text<'a>(steps: impl IntoIterator<Item = Step<'a>>) -> String {
    let mut text = String::new();
    for step in steps {
        // Writing to a string cannot fail.
        let _ = match step {
            Step::Index(i) => write!(text, "[{i}]"),
            Step::Key(key) if key.contains(['.', '[', ']', '/']) => write!(text, "[{key}]"),
            Step::Key(key) if text.is_empty() => write!(text, "{key}"),
            Step::Key(key) => write!(text, ".{key}"),
        };
    }
    text
}
