//! Decodes a tree of values into a type and finds everything that does not fit.
//!
//! Serde stops at the first error. So an error is noted together with the value that caused it, that value is hidden, and the tree is
//! decoded again, until it fits or all errors that are left follow from hidden values. In the same way a stand-in replaces a missing value,
//! so that the next missing one shows.
//!
//! Generic code here is compiled for each of hundreds of Kubernetes types. So it only delegates: code that does not depend on the type,
//! above all for errors, is in separate functions.

mod error;
mod key;
mod stand_in;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};

use super::expected::{Language, advice, meant};
use super::node::{Entry, Node, Step, Value, path_text};
use super::problem::{Problem, Problems};
use error::{Place, none_of, too_long, unfit, value_before_key};
use key::Key;
use stand_in::StandIn;

pub(super) use error::{Error, What};

/// The struct name by which [`super::kinds`] asks for the key `kind` first.
pub(super) const KIND_TABLE: &str = "$ipam-sim kind";
/// The tuple struct name by which [`super::kinds::With`] asks for one table in two parts.
pub(super) const SHARED_TABLE: &str = "$ipam-sim shared";
/// The key that chooses the struct.
pub(super) const KIND: &str = "kind";

/// A decoded value, and the fields that the type ignored.
pub struct Decoded<T> {
    /// The whole document as a value of the type.
    pub value: T,
    /// Fields that the type does not know but permits.
    pub ignored: Problems,
}

/// Decodes `root`, or returns all problems.
pub fn decode<T: DeserializeOwned>(file: &str, root: &Node, language: Language) -> Result<Decoded<T>, Problems> {
    let mut problems = Problems::new();
    let mut context =
        Context { language, hidden: BTreeSet::new(), missing: Vec::new(), ignored: RefCell::default(), noted: RefCell::default() };
    // Misspelt keys that are therefore missing: the table and the correct name.
    let mut misspelt: Vec<(u32, &'static str)> = Vec::new();
    while !problems.is_full() {
        context.ignored.borrow_mut().clear();
        context.noted.take();
        let error = match T::deserialize(De { node: root, context: &context, part: Part::Whole }) {
            Ok(value) => {
                problems.sort();
                let ignored = ignored(file, root, &context);
                return problems.or(Decoded { value, ignored });
            }
            Err(error) => *error.0,
        };
        let place = error.place.unwrap_or(Place::Value(root.id));
        let id = place.id();
        let trail = root.trail(id);
        let node = trail[trail.len() - 1].1;
        match (place, &error.what) {
            // No stand-in suits the type: the table has to be hidden.
            (Place::StandIn(_), _) => {}
            (Place::Value(_), What::Missing(key)) => {
                let known = misspelt.contains(&(id, key)) || node.get(key).is_some_and(|value| context.hidden.contains(&value.id));
                let first_time = !context.missing.contains(&(id, key));
                if first_time && !known {
                    problems.push(report(file, root, place, &error.what, language));
                }
                if first_time {
                    context.missing.push((id, key));
                    continue;
                }
            }
            (Place::Value(_), What::Unfit { .. } | What::Other(_)) if context.touched(node) => {}
            (_, what) => {
                if let (What::UnknownKey { known }, [.., (_, table), (Some(Step::Key(key)), _)]) = (what, trail.as_slice()) {
                    misspelt.extend(meant(key, known).map(|name| (table.id, name)));
                }
                problems.push(report(file, root, place, what, language));
            }
        }
        if id == root.id || !context.hidden.insert(id) {
            break;
        }
    }
    problems.sort();
    Err(problems)
}

/// The problem that an error becomes.
fn report(file: &str, root: &Node, place: Place, what: &What, language: Language) -> Problem {
    let mut trail = root.trail(place.id());
    let mut by_its_name = false;
    if let (What::Unfit { found: Some(found), .. }, Value::Table(entries)) = (what, &trail[trail.len() - 1].1.value) {
        // The type checked a value of the table before it complained about the table, as k8s-openapi does with `kind`.
        let culprit = entries.iter().find(|entry| entry.node.is_scalar() && language.found(&entry.node) == *found);
        by_its_name = culprit.is_some();
        trail.extend(culprit.map(|entry| (Some(Step::Key(&entry.key)), &entry.node)));
    }
    let node = trail[trail.len() - 1].1;
    let path = path_text(trail.iter().filter_map(|(step, _)| *step));
    let parent = trail.len().checked_sub(2).map(|i| trail[i].1);
    let last_key = match trail[trail.len() - 1].0 {
        Some(Step::Key(key)) => key,
        _ => "",
    };
    let at = match (place, parent) {
        (Place::Key(_), Some(parent)) => parent.entry(last_key).map_or(node.at, |entry| entry.at),
        _ => node.at,
    };
    let subject = if path.is_empty() { "the document".to_owned() } else { format!("`{path}`") };
    let (wrong, right) = match what {
        What::Missing(key) => {
            let inside = if path.is_empty() { String::new() } else { format!(" in {subject}") };
            (format!("missing {} `{key}`{inside}", language.key()), String::new())
        }
        What::UnknownKey { known } => (format!("unknown {} `{last_key}`", language.key()), advice(last_key, known, language.key())),
        What::UnknownName { found, known } if last_key == KIND => (format!("unknown kind `{found}`"), advice(found, known, "kind")),
        What::UnknownName { found, known } => (format!("{subject} cannot be `{found}`"), advice(found, known, "value")),
        What::Unfit { found, expected } => {
            let found = match found {
                _ if matches!(place, Place::Key(_)) => "a key".to_owned(),
                Some(found) => found.clone(),
                None => language.found(node),
            };
            let expected = if by_its_name { format!("`{expected}`") } else { language.expected(expected) };
            (format!("{subject} is {found}"), format!("expected {expected}"))
        }
        What::Other(text) if path.is_empty() => (text.clone(), String::new()),
        // The sentence does not show the value.
        What::Other(text) if node.is_scalar() && !node.as_str().is_some_and(|value| text.contains(value)) => {
            (format!("{subject} is {}: {}", language.found(node), text.trim_end_matches('.')), String::new())
        }
        What::Other(text) => (format!("{subject}: {text}"), String::new()),
    };
    Problem::at(file, at, wrong, right)
}

/// The fields that were ignored.
fn ignored(file: &str, root: &Node, context: &Context) -> Problems {
    let mut problems = Problems::new();
    for &id in context.ignored.borrow().iter() {
        let trail = root.trail(id);
        let path = path_text(trail.iter().filter_map(|(step, _)| *step));
        let at = match trail.as_slice() {
            [.., (_, table), (Some(Step::Key(key)), node)] => table.entry(key).map_or(node.at, |entry| entry.at),
            _ => root.at,
        };
        problems.push(Problem::at(file, at, format!("unknown {} `{path}`", context.language.key()), ""));
    }
    problems.sort();
    problems
}

/// The shared state of one pass.
struct Context {
    language: Language,
    /// Values that caused an error in an earlier pass.
    hidden: BTreeSet<u32>,
    /// Keys that have a stand-in, with their table.
    missing: Vec<(u32, &'static str)>,
    ignored: RefCell<Vec<u32>>,
    /// The last error, while it propagates.
    noted: RefCell<Option<Error>>,
}

impl Context {
    /// The error as it was before it passed a type-erased deserializer, which keeps only its text.
    fn recalled(&self, error: Error) -> Error {
        let noted = self.noted.take().filter(|noted| error.0.place.is_none() && noted.to_string() == error.to_string());
        noted.unwrap_or(error)
    }

    /// Keeps an error while it propagates, with its place.
    fn note(&self, error: Error) -> Error {
        self.noted.replace(Some(error.clone()));
        error
    }

    /// True when something in `node` is hidden or a stand-in, so that an error of the whole may be caused by that.
    fn touched(&self, node: &Node) -> bool {
        self.hidden.range(node.below()).next().is_some() || self.missing.iter().any(|(id, _)| *id == node.id || node.below().contains(id))
    }
}

/// The part of a table that a type gets when two types share the table.
#[derive(Clone, Copy)]
enum Part<'c> {
    Whole,
    /// No keys: the type is only asked for the keys that it knows.
    Asked(&'c Cell<&'static [&'static str]>),
    /// The keys that the type knows.
    Known,
    /// All keys but these, which the other type knows.
    Rest(&'static [&'static str]),
}

/// A value during deserialization.
#[derive(Clone, Copy)]
struct De<'c, 'de> {
    node: &'de Node,
    context: &'c Context,
    part: Part<'c>,
}

impl<'c, 'de> De<'c, 'de> {
    /// Adds this value as the place of an error that has none yet. An error that passed a type-erased deserializer has lost all but its
    /// text: the last noted error replaces it.
    fn place<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => Err(self.placed(error)),
        }
    }

    #[cold]
    fn placed(self, error: Error) -> Error {
        self.context.note(self.context.recalled(error).at(Place::Value(self.node.id)))
    }

    fn child(self, node: &'de Node) -> Self {
        Self { node, part: Part::Whole, ..self }
    }

    fn in_sight(self, node: &Node) -> bool {
        !self.context.hidden.contains(&node.id)
    }

    /// The entries of this table that the type gets.
    fn table(self, entries: &'de [Entry], wanted: Wanted) -> Table<'c, 'de> {
        let also_known = if let Part::Rest(keys) = self.part { keys } else { &[] };
        let asked = matches!(self.part, Part::Asked(_));
        let is_meant = |key: &str, node: Option<&Node>| !asked && !also_known.contains(&key) && wanted.takes(key, node);
        let entries = entries
            .iter()
            .filter(|entry| self.in_sight(&entry.node) && is_meant(&entry.key, Some(&entry.node)))
            .map(|entry| (entry.key.as_str(), Some(&entry.node)));
        let missing = self.context.missing.iter().filter(|(id, key)| *id == self.node.id && is_meant(key, None));
        let mut entries: Vec<_> = entries.chain(missing.map(|&(_, key)| (key as &'de str, None))).collect();
        if wanted.kind_first {
            entries.sort_by_key(|(key, _)| *key != KIND);
        }
        Table { de: self, entries: entries.into_iter(), value: None, also_known }
    }

    fn list(self, items: &'de [Node]) -> List<'c, 'de> {
        let items = items.iter().filter(|item| self.in_sight(item)).collect::<Vec<_>>();
        List { de: self, items: items.into_iter() }
    }

    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => match whole_number(*value) {
                Some(Whole::Unsigned(value)) => visitor.visit_u64(value),
                Some(Whole::Signed(value)) => visitor.visit_i64(value),
                None => Err(unfit(&Unprinted(visitor))),
            },
            Value::Float(value) => visitor.visit_f64(*value),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => {
                let mut list = self.list(items);
                let count = list.items.len();
                let value = visitor.visit_seq(&mut list)?;
                match list.items.len() {
                    0 => Ok(value),
                    rest => Err(too_long(count, rest)),
                }
            }
            Value::Table(entries) => visitor.visit_map(self.table(entries, Wanted::ALL)),
        }
    }

    /// The entries that a struct with these fields gets.
    fn fields(self, entries: &'de [Entry], name: &str, fields: &'static [&'static str]) -> Table<'c, 'de> {
        let wanted = Wanted {
            // As in Go, null in place of a field's value is the same as no value.
            null_is_absent: self.context.language == Language::Yaml,
            among: matches!(self.part, Part::Known).then_some(fields),
            kind_first: name == KIND_TABLE,
        };
        self.table(entries, wanted)
    }
}

/// The selection of a table's entries for a type.
#[derive(Clone, Copy)]
struct Wanted {
    null_is_absent: bool,
    among: Option<&'static [&'static str]>,
    /// Whether the key `kind` comes first.
    kind_first: bool,
}

impl Wanted {
    const ALL: Self = Self { null_is_absent: false, among: None, kind_first: false };

    fn takes(&self, key: &str, node: Option<&Node>) -> bool {
        let absent = self.null_is_absent && node.is_some_and(|node| matches!(node.value, Value::Null));
        !absent && self.among.is_none_or(|fields| fields.contains(&key))
    }
}

enum Whole {
    Unsigned(u64),
    Signed(i64),
}

/// The number as serde_json represents it: unsigned unless it is negative.
fn whole_number(value: i128) -> Option<Whole> {
    u64::try_from(value).map(Whole::Unsigned).or_else(|_| i64::try_from(value).map(Whole::Signed)).ok()
}

/// Displays the expectation of a visitor.
struct Unprinted<V>(V);

impl<'de, V: Visitor<'de>> fmt::Display for Unprinted<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }
}

impl<'de> de::Deserializer<'de> for De<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.place(self.visit(visitor))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.place(if matches!(self.node.value, Value::Null) { visitor.visit_none() } else { visitor.visit_some(self) })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.place(visitor.visit_newtype_struct(self))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Part::Asked(cell) = self.part {
            cell.set(fields);
        }
        match &self.node.value {
            Value::Table(entries) => self.place(visitor.visit_map(self.fields(entries, name, fields))),
            // A derived type would accept a list as its fields in order.
            Value::List(_) => self.place(Err(unfit(&Unprinted(visitor)))),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, name: &'static str, _: usize, visitor: V) -> Result<V::Value, Error> {
        if name != SHARED_TABLE {
            return self.deserialize_any(visitor);
        }
        if !matches!(self.node.value, Value::Table(_)) {
            return self.place(Err(unfit(&"a map")));
        }
        let known = Cell::default();
        self.place(visitor.visit_seq(Shared { de: self, known: &known, taken: 0, failed: None }))
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, variants: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        let result = match &self.node.value {
            Value::String(name) => visitor.visit_enum(Variant { name, content: None }),
            Value::Table(entries) => match chosen(entries) {
                Some(Entry { key, node, .. }) => visitor.visit_enum(Variant { name: key, content: Some(self.child(node)) }),
                None => Err(none_of(variants)),
            },
            _ => Err(none_of(variants)),
        };
        self.place(result)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.context.ignored.borrow_mut().push(self.node.id);
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple map identifier
    }
}

/// The entries of a table.
struct Table<'c, 'de> {
    de: De<'c, 'de>,
    /// Keys with their values; `None` = a stand-in for a missing value.
    entries: std::vec::IntoIter<(&'de str, Option<&'de Node>)>,
    value: Option<Option<&'de Node>>,
    also_known: &'static [&'static str],
}

impl Table<'_, '_> {
    #[cold]
    fn wrong_key(&self, value: Option<&Node>, error: Error) -> Error {
        let context = self.de.context;
        let mut error = context.recalled(error);
        if let What::UnknownKey { known } = &mut error.0.what {
            known.extend(self.also_known);
        }
        context.note(error.at(value.map_or(Place::StandIn(self.de.node.id), |node| Place::Key(node.id))))
    }

    #[cold]
    fn wrong_stand_in(&self, error: Error) -> Error {
        self.de.context.note(error.at(Place::StandIn(self.de.node.id)))
    }
}

impl<'de> de::MapAccess<'de> for Table<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(value);
        match seed.deserialize(Key { text: key, context: self.de.context }) {
            Ok(key) => Ok(Some(key)),
            Err(error) => Err(self.wrong_key(value, error)),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match self.value.take() {
            Some(Some(node)) => seed.deserialize(self.de.child(node)),
            Some(None) => match seed.deserialize(StandIn) {
                Ok(value) => Ok(value),
                Err(error) => Err(self.wrong_stand_in(error)),
            },
            None => Err(value_before_key()),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// The items of a list.
struct List<'c, 'de> {
    de: De<'c, 'de>,
    items: std::vec::IntoIter<&'de Node>,
}

impl<'de> de::SeqAccess<'de> for List<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.items.next() {
            Some(item) => seed.deserialize(self.de.child(item)).map(Some),
            None => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// One table for two types. First the type of the shared keys is asked for them; then the other type gets the rest, in which every misspelt
/// key is; at last the first type is read.
struct Shared<'c, 'de> {
    de: De<'c, 'de>,
    known: &'c Cell<&'static [&'static str]>,
    taken: usize,
    /// The error of the type that gets the rest.
    failed: Option<Error>,
}

impl<'de> de::SeqAccess<'de> for Shared<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let part = match self.taken {
            0 => Part::Asked(self.known),
            1 => Part::Rest(self.known.get()),
            2 => Part::Known,
            _ => return Ok(None),
        };
        self.taken += 1;
        let result = seed.deserialize(De { part, ..self.de });
        match part {
            Part::Rest(_) => result.map(Some).map_err(|error| {
                self.failed = Some(error);
                Error::new(What::Other("the other type sharing the table has more to say".to_owned()))
            }),
            // An error about one value has precedence over one about the table, which ends the search for problems in it.
            _ => match (result, self.failed.take()) {
                (Ok(_), Some(failed)) => Err(failed),
                (Err(error), Some(failed)) if error.0.place == Some(Place::Value(self.de.node.id)) => Err(failed),
                (result, _) => result.map(Some),
            },
        }
    }
}

/// The entry of a table that chooses a variant of an enum: the only one. In a merged table the variant's own entry replaces the inherited
/// one, like any value that is not a table.
fn chosen(entries: &[Entry]) -> Option<&Entry> {
    let only = |mut entries: Box<dyn Iterator<Item = _> + '_>| entries.next().filter(|_| entries.next().is_none());
    only(Box::new(entries.iter())).or_else(|| only(Box::new(entries.iter().filter(|entry| !entry.node.inherited))))
}

/// A name that chooses a variant of an enum, and the content of the variant.
struct Variant<'c, 'de> {
    name: &'de str,
    content: Option<De<'c, 'de>>,
}

impl<'c, 'de> de::EnumAccess<'de> for Variant<'c, 'de> {
    type Error = Error;
    type Variant = Content<'c, 'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self::Variant), Error> {
        match seed.deserialize(self.name.into_deserializer()) {
            Ok(variant) => Ok((variant, Content(self.content))),
            Err(error) => Err(self.wrong_name(error)),
        }
    }
}

impl Variant<'_, '_> {
    #[cold]
    fn wrong_name(&self, error: Error) -> Error {
        match self.content {
            Some(content) => content.context.note(content.context.recalled(error).at(Place::Key(content.node.id))),
            None => error,
        }
    }
}

/// The content of a variant.
struct Content<'c, 'de>(Option<De<'c, 'de>>);

impl<'c, 'de> Content<'c, 'de> {
    fn required(self) -> Result<De<'c, 'de>, Error> {
        self.0.ok_or_else(|| unfit(&"a map"))
    }
}

impl<'de> de::VariantAccess<'de> for Content<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.0 {
            None => Ok(()),
            Some(content) => de::Deserialize::deserialize(content),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.required()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_any(self.required()?, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_struct(self.required()?, "", fields, visitor)
    }
}
