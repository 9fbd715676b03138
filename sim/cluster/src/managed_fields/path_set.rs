//! Sets of paths to fields, in the form of `fieldsV1` (K164).
//!
//! An element of a path is its text there: `f:name` is a field, `k:{"name":"a"}` the item of a list with these keys, `v:"a"` a member of a
//! set.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// One step of a path.
pub(crate) type Element = String;

/// The element of a field.
pub(super) fn field(name: &str) -> Element {
    format!("f:{name}")
}

/// The element of an item with these keys.
pub(super) fn item(keys: &BTreeMap<&str, &Value>) -> Element {
    let fields: Vec<String> = keys.iter().map(|(name, value)| format!("{}:{value}", Value::from(*name))).collect();
    format!("k:{{{}}}", fields.join(","))
}

/// The element of a member of a set.
pub(super) fn member(value: &Value) -> Element {
    format!("v:{value}")
}

/// An element with its JSON in the form that this program writes.
fn canonical(element: &str) -> Element {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    let rewritten = match element.split_at_checked(2) {
        Some(("v:", text)) => parsed(text).map(|value| member(&value)),
        Some(("k:", text)) => parsed(text).and_then(|value| {
            let keys = value.as_object()?.iter().map(|(name, value)| (name.as_str(), value)).collect();
            Some(item(&keys))
        }),
        _ => None,
    };
    rewritten.unwrap_or_else(|| element.to_owned())
}

/// An element as shown in messages: `.name`, `[name="a"]`, `[="a"]`.
pub(super) fn show_element(element: &str) -> String {
    match element.split_at_checked(2) {
        Some(("f:", name)) => format!(".{name}"),
        Some(("v:", value)) => format!("[={value}]"),
        Some(("k:", keys)) => {
            let keys: BTreeMap<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        _ => element.to_owned(),
    }
}

/// A path as messages show it.
pub(super) fn show(path: &[Element]) -> String {
    path.iter().map(|element| show_element(element)).collect()
}

/// A set of paths. A path in it does not imply the prefixes of that path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathSet {
    members: BTreeSet<Element>,
    children: BTreeMap<Element, PathSet>,
}

impl PathSet {
    /// A set of these paths of fields.
    pub(super) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        paths.iter().for_each(|path| set.insert(&path.iter().map(|name| field(name)).collect::<Vec<_>>()));
        set
    }

    /// Adds a path; the empty path of the whole object is ignored.
    pub(super) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => drop(self.members.insert(last.clone())),
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether the set has no path.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// Whether the path of one element is in it.
    pub(super) fn has(&self, element: &str) -> bool {
        self.members.contains(element)
    }

    /// The rest of the paths that begin with `element`, unless there are none.
    pub(super) fn below(&self, element: &str) -> Option<&Self> {
        self.children.get(element).filter(|set| !set.is_empty())
    }

    /// The elements with which paths of this set begin and do not end.
    pub(super) fn parents(&self) -> impl Iterator<Item = (&Element, &Self)> {
        self.children.iter()
    }

    /// Every path of either.
    #[must_use]
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.members.extend(other.members.iter().cloned());
        for (element, set) in &other.children {
            let own = all.children.entry(element.clone()).or_default();
            *own = own.union(set);
        }
        all
    }

    /// Every path of both.
    #[must_use]
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let both = |(element, set): (&Element, &Self)| Some((element.clone(), set.intersection(other.children.get(element)?)));
        let children = self.children.iter().filter_map(both).filter(|(_, set)| !set.is_empty());
        Self { members: self.members.intersection(&other.members).cloned().collect(), children: children.collect() }
    }

    /// Every path that is not one of `other`.
    #[must_use]
    pub(super) fn difference(&self, other: &Self) -> Self {
        let rest = |(element, set): (&Element, &Self)| {
            (element.clone(), other.children.get(element).map_or_else(|| set.clone(), |gone| set.difference(gone)))
        };
        let children = self.children.iter().map(rest).filter(|(_, set)| !set.is_empty());
        Self { members: self.members.difference(&other.members).cloned().collect(), children: children.collect() }
    }

    /// Every path that neither is in `other` nor is below one of its paths.
    #[must_use]
    pub(super) fn without_below(&self, other: &Self) -> Self {
        let rest = |(element, set): (&Element, &Self)| {
            (element.clone(), other.children.get(element).map_or_else(|| set.clone(), |gone| set.without_below(gone)))
        };
        let children = self.children.iter().filter(|(element, _)| !other.members.contains(*element)).map(rest);
        let children = children.filter(|(_, set)| !set.is_empty()).collect();
        Self { members: self.members.difference(&other.members).cloned().collect(), children }
    }

    /// This set with `members` added and other sets below its elements.
    pub(super) fn rebuilt(&self, more: impl Iterator<Item = Element>, below: impl Fn(&Element, &Self) -> Self) -> Self {
        let members = self.members.iter().cloned().chain(more).collect();
        Self { members, children: self.children.iter().map(|(element, set)| (element.clone(), below(element, set))).collect() }
    }

    /// The paths of the set, shorter ones first.
    pub(super) fn paths(&self) -> Vec<Vec<Element>> {
        fn walk(set: &PathSet, path: &mut Vec<Element>, found: &mut Vec<Vec<Element>>) {
            found.extend(set.members.iter().map(|last| [path.as_slice(), std::slice::from_ref(last)].concat()));
            for (element, below) in &set.children {
                path.push(element.clone());
                walk(below, path, found);
                path.pop();
            }
        }
        let mut found = Vec::new();
        walk(self, &mut Vec::new(), &mut found);
        found
    }

    /// The form of `fieldsV1`.
    pub(super) fn to_value(&self) -> Value {
        let mut fields: Map<String, Value> = self.members.iter().map(|element| (element.clone(), Value::Object(Map::new()))).collect();
        for (element, set) in self.children.iter().filter(|(_, set)| !set.is_empty()) {
            let mut below = set.to_value();
            if self.members.contains(element) {
                below["."] = Value::Object(Map::new());
            }
            fields.insert(element.clone(), below);
        }
        Value::Object(fields)
    }

    /// The set described by `fieldsV1`.
    pub(super) fn of_value(value: &Value) -> Self {
        let mut set = Self::default();
        for (element, below) in value.as_object().into_iter().flatten().filter(|(element, _)| *element != ".") {
            let element = canonical(element);
            let is_member = below.get(".").is_some() || below.as_object().is_none_or(Map::is_empty);
            let below = Self::of_value(below);
            if !below.is_empty() {
                set.children.insert(element.clone(), below);
            }
            if is_member {
                set.members.insert(element);
            }
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn set(value: Value) -> PathSet {
        PathSet::of_value(&value)
    }

    #[test]
    fn a_set_is_read_and_written_as_fields_v1_has_it() {
        let fields = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}}, "f:data": {}});
        let owned = set(fields.clone());
        assert_eq!(owned.to_value(), fields);
        let shown: Vec<String> = owned.paths().iter().map(|path| show(path)).collect();
        assert_eq!(shown, [".data", ".spec.containers[name=\"c\"]", ".spec.containers[name=\"c\"].image"]);
        assert_eq!(set(json!({"k:{\"b\": 1, \"a\": \"x\"}": {}})).to_value(), json!({"k:{\"a\":\"x\",\"b\":1}": {}}));
        assert_eq!(show(&["v:\"a\"".to_owned()]), "[=\"a\"]");
    }

    #[test]
    fn a_path_and_what_it_begins_with_are_two() {
        let both = set(json!({"f:a": {".": {}, "f:b": {}}}));
        assert_eq!(both.difference(&set(json!({"f:a": {}}))), set(json!({"f:a": {"f:b": {}}})));
        assert!(both.without_below(&set(json!({"f:a": {}}))).is_empty());
        assert_eq!(both.intersection(&set(json!({"f:a": {"f:b": {}, "f:c": {}}}))), set(json!({"f:a": {"f:b": {}}})));
    }

    fn paths() -> impl Strategy<Value = Vec<Vec<Element>>> {
        prop::collection::vec(prop::collection::vec("[ab]".prop_map(|name| field(&name)), 1..4), 0..6)
    }

    proptest! {
        #[test]
        fn operations_are_those_of_sets_of_paths(a in paths(), b in paths()) {
            let set = |paths: &[Vec<Element>]| { let mut set = PathSet::default(); paths.iter().for_each(|path| set.insert(path)); set };
            let plain = |paths: &[Vec<Element>]| paths.iter().cloned().collect::<BTreeSet<_>>();
            let of = |set: &PathSet| plain(&set.paths());
            let (x, y, p, q) = (set(&a), set(&b), plain(&a), plain(&b));
            prop_assert_eq!(of(&x.union(&y)), &p | &q);
            prop_assert_eq!(of(&x.intersection(&y)), &p & &q);
            prop_assert_eq!(of(&x.difference(&y)), &p - &q);
            let below = p.iter().filter(|path| !(1..=path.len()).any(|end| q.contains(&path[..end]))).cloned().collect::<BTreeSet<_>>();
            prop_assert_eq!(of(&x.without_below(&y)), below);
            prop_assert_eq!(PathSet::of_value(&x.to_value()), x);
        }
    }
}
