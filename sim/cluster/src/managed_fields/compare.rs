//! The differences between two states of an object, as sets of paths (K165).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::items;
use super::path_set::{self, Element, PathSet};
use super::schema::{Items, ListType, MapType, Rules, TypeRef};

/// The differences between two states of an object. No path is in two of the sets.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Comparison {
    pub(super) removed: PathSet,
    pub(super) modified: PathSet,
    pub(super) added: PathSet,
}

impl Comparison {
    /// The differences from `before` to `after`.
    pub(super) fn of(of: &TypeRef, before: &Value, after: &Value) -> Self {
        let mut walk = Walk { path: Vec::new(), found: Self::default() };
        walk.compare(of, Some(before), Some(after));
        walk.found
    }

    /// The same differences without those at or below `paths`.
    #[must_use]
    pub(super) fn without(self, paths: &PathSet) -> Self {
        Self {
            removed: self.removed.without_below(paths),
            modified: self.modified.without_below(paths),
            added: self.added.without_below(paths),
        }
    }

    /// The paths whose values were changed or added.
    pub(super) fn written(&self) -> PathSet {
        self.modified.union(&self.added)
    }
}

struct Walk {
    path: Vec<Element>,
    found: Comparison,
}

impl Walk {
    /// Compares two values, of which at least one is present.
    fn compare(&mut self, of: &TypeRef, before: Option<&Value>, after: Option<&Value>) {
        let atom = of.atom();
        let shape = |value: Option<&Value>| value.map(|value| atom.shape(value));
        let is_leaf = match (shape(before), shape(after)) {
            (Some(was), Some(is)) if was != is => {
                self.visit(atom.rules(was), before, after);
                self.visit(atom.rules(is), before, after)
            }
            (was, is) => is.or(was).is_none_or(|shape| self.visit(atom.rules(shape), before, after)),
        };
        if !is_leaf {
            match (before, after) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Compares by the rules of one shape. Returns whether the values were compared as wholes.
    fn visit(&mut self, rules: Rules<'_>, before: Option<&Value>, after: Option<&Value>) -> bool {
        match rules {
            Rules::Scalar(_) => self.whole(before, after),
            Rules::List(list) => {
                let items = |value: Option<&'_ Value>| value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().to_vec();
                let (was, is) = (items(before), items(after));
                // Two empty values differ if only one is present.
                if list.items == Items::Atomic || was.is_empty() && is.is_empty() {
                    return self.whole(before, after);
                }
                self.list(list, &was, &is);
                false
            }
            Rules::Map(map) => {
                let none = Map::new();
                let entries = |value: Option<&'_ Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
                let (was, is) = (entries(before), entries(after));
                if map.atomic || was == none && is == none {
                    return self.whole(before, after);
                }
                self.map(map, &was, &is);
                false
            }
        }
    }

    fn whole(&mut self, before: Option<&Value>, after: Option<&Value>) -> bool {
        match (before, after) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (before, after) if before != after => self.found.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn below(&mut self, element: Element, of: &TypeRef, before: Option<&Value>, after: Option<&Value>) {
        self.path.push(element);
        self.compare(of, before, after);
        self.path.pop();
    }

    fn map(&mut self, map: &MapType, before: &Map<String, Value>, after: &Map<String, Value>) {
        let any = TypeRef::any();
        let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            self.below(path_set::field(name), map.entry(name).unwrap_or(&any), before.get(name), after.get(name));
        }
    }

    fn list(&mut self, list: &ListType, before: &[Value], after: &[Value]) {
        let (was, is) = (items::by_element(list, before), items::by_element(list, after));
        let new: BTreeMap<&Element, &Vec<&Value>> = is.iter().map(|(element, items)| (element, items)).collect();
        let old: BTreeMap<&Element, &Vec<&Value>> = was.iter().map(|(element, items)| (element, items)).collect();
        let elements =
            was.iter().map(|(element, _)| element).chain(is.iter().map(|(element, _)| element).filter(|one| !old.contains_key(*one)));
        for element in elements {
            let items = |of: &BTreeMap<&Element, &Vec<&'_ Value>>| {
                of.get(element).map(|items| items.iter().map(|item| (*item).clone()).collect::<Vec<_>>())
            };
            let (was, is) = (items(&old).unwrap_or_default(), items(&new).unwrap_or_default());
            // If an item is in the list twice, only the item is owned, with all of its copies.
            let at = [self.path.as_slice(), std::slice::from_ref(element)].concat();
            match (was.len(), is.len()) {
                (0 | 1, 0 | 1) => self.below(element.clone(), &list.element, was.first(), is.first()),
                (2.., 2..) if was != is => self.found.modified.insert(&at),
                (2.., 2..) => {}
                (2.., _) => {
                    if let Some(first) = is.first() {
                        self.below(element.clone(), &list.element, None, Some(first));
                    }
                    self.found.removed.insert(&at);
                }
                (_, 2..) => {
                    if let Some(first) = was.first() {
                        self.below(element.clone(), &list.element, Some(first), None);
                    }
                    self.found.added.insert(&at);
                }
            }
        }
    }
}
