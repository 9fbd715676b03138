//! Merges one tree over another: a variant of a scenario over the rest of its file.

use super::decode::KIND;
use super::node::{Entry, Node, Value};
use super::problem::Position;

/// The places of a merged table: of its shared part and of its own part.
pub(super) type Both = (Position, Position);

/// Merges `own` over `shared`: tables are merged key by key, at any depth; everything else replaces the shared value. A table with another
/// `kind` replaces the table, too, because its keys have other meanings.
///
/// Each value keeps its place. A merged table gets the place of its shared part, so that a key that is missing from that part is reported
/// in one place for all variants; `both` records its other place.
pub(super) fn merge(shared: &Node, own: &Node, both: &mut Vec<Both>) -> Node {
    let (Value::Table(known), Value::Table(entries)) = (&shared.value, &own.value) else { return own.clone() };
    if let (Some(known), Some(kind)) = (shared.get(KIND), own.get(KIND))
        && known.to_json() != kind.to_json()
    {
        return own.clone();
    }
    both.push((shared.at, own.at));
    let over = |entry: &Entry| {
        let Some(known) = shared.entry(&entry.key) else { return entry.clone() };
        let before = both.len();
        let node = merge(&known.node, &entry.node, both);
        let merged = both.len() > before;
        if merged {
            both.push((known.at, entry.at));
        }
        Entry { key: entry.key.clone(), at: if merged { known.at } else { entry.at }, node }
    };
    // Own entries come first: a search for a text finds that of the variant before that of the file.
    let mut merged: Vec<Entry> = entries.iter().map(over).collect();
    for entry in known.iter().filter(|entry| own.entry(&entry.key).is_none()) {
        let mut entry = entry.clone();
        entry.node.inherited = true;
        merged.push(entry);
    }
    Node::new(shared.at, Value::Table(merged))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Map, Value as Json, json};

    use super::*;
    use crate::toml;

    fn merged(shared: &str, own: &str) -> Json {
        let parse = |text| toml::parse("x.toml", text).unwrap();
        merge(&parse(shared), &parse(own), &mut Vec::new()).to_json()
    }

    #[test]
    fn tables_merge_by_key_at_any_depth() {
        let all = merged("a.b = { c = 1, d = 2 }\na.e = 3\nf = 4", "a.b = { d = 5, g = 6 }\nh = 7");
        assert_eq!(all, json!({ "a": { "b": { "c": 1, "d": 5, "g": 6 }, "e": 3 }, "f": 4, "h": 7 }));
    }

    #[test]
    fn everything_else_replaces() {
        assert_eq!(merged("a = [1, 2]\nb = 1", "a = [3]\nb = 'x'"), json!({ "a": [3], "b": "x" }));
        assert_eq!(merged("a = [{ b = 1 }]", "a = [{ c = 2 }]"), json!({ "a": [{ "c": 2 }] }));
        assert_eq!(merged("a = { b = 1 }\nc = 1", "a = 2\nc = { d = 3 }"), json!({ "a": 2, "c": { "d": 3 } }));
        assert_eq!(merged("a = { b = 1 }", "a = {}"), json!({ "a": { "b": 1 } }));
    }

    #[test]
    fn a_table_of_another_kind_replaces() {
        assert_eq!(merged("w = { kind = 'a', x = 1 }", "w = { kind = 'b', y = 2 }"), json!({ "w": { "kind": "b", "y": 2 } }));
        assert_eq!(merged("w = { kind = 'a', x = 1 }", "w = { kind = 'a', y = 2 }"), json!({ "w": { "kind": "a", "x": 1, "y": 2 } }));
        assert_eq!(merged("w = { kind = 'a', x = 1 }", "w = { y = 2 }"), json!({ "w": { "kind": "a", "x": 1, "y": 2 } }));
    }

    /// Any value of TOML, with few keys, so that both sides often hold the same.
    fn any_value() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            (0..3).prop_map(Json::from),
            "[xy]".prop_map(Json::from),
            proptest::collection::vec(0..3, 0..3).prop_map(Json::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| any_table(inner).boxed())
    }

    fn any_table(inner: impl Strategy<Value = Json>) -> impl Strategy<Value = Json> {
        proptest::collection::btree_map("a|b|c|kind", inner, 0..4).prop_map(|table| Json::Object(table.into_iter().collect()))
    }

    /// The content of a table as paths: each value that is not a table, and each table with its kind.
    fn paths(value: &Json, path: &[String], all: &mut BTreeMap<Vec<String>, Option<Json>>) {
        let Json::Object(table) = value else {
            all.insert(path.to_vec(), Some(value.clone()));
            return;
        };
        all.insert(path.to_vec(), None);
        for (key, value) in table {
            paths(value, &[path, std::slice::from_ref(key)].concat(), all);
        }
    }

    /// The merge by its definition, path for path: the shared value holds unless the own part has another one for the path or for a table
    /// around it.
    fn by_paths(shared: &Json, own: &Json) -> Json {
        let (mut of_shared, mut of_own) = (BTreeMap::new(), BTreeMap::new());
        paths(shared, &[], &mut of_shared);
        paths(own, &[], &mut of_own);
        let kind = |all: &BTreeMap<Vec<String>, Option<Json>>, path: &[String]| {
            let within = [path, &["kind".to_owned()]].concat();
            all.contains_key(&within).then(|| {
                all.iter()
                    .filter(|(path, _)| path.starts_with(&within))
                    .map(|(path, value)| (path.clone(), value.clone()))
                    .collect::<Vec<_>>()
            })
        };
        let gives_way = |path: &[String]| {
            (0..=path.len()).any(|length| {
                let within = &path[..length];
                let (known, said) = (&of_shared[within], of_own.get(within));
                let another_kind = || matches!((kind(&of_shared, within), kind(&of_own, within)), (Some(one), Some(other)) if one != other);
                said.is_some_and(|said| said.is_some() || known.is_some() || another_kind())
            })
        };
        let mut all: BTreeMap<_, _> =
            of_shared.iter().filter(|(path, _)| !gives_way(path)).map(|(path, value)| (path.clone(), value.clone())).collect();
        all.extend(of_own);
        let mut root = Json::Object(Map::new());
        for (path, value) in all {
            let place = path.iter().fold(&mut root, |table, key| table.as_object_mut().unwrap().entry(key.clone()).or_insert(Json::Null));
            *place = value.unwrap_or_else(|| Json::Object(Map::new()));
        }
        root
    }

    proptest! {
        #[test]
        fn a_merge_is_what_each_path_says(shared in any_table(any_value()), own in any_table(any_value())) {
            let merged = merge(&Node::from_json(shared.clone()), &Node::from_json(own.clone()), &mut Vec::new());
            prop_assert_eq!(merged.to_json(), by_paths(&shared, &own));
        }

        #[test]
        fn nothing_said_changes_nothing(shared in any_table(any_value())) {
            let empty = Node::from_json(json!({}));
            let node = Node::from_json(shared.clone());
            prop_assert_eq!(merge(&node, &empty, &mut Vec::new()).to_json(), shared.clone());
            prop_assert_eq!(merge(&empty, &node, &mut Vec::new()).to_json(), shared.clone());
            prop_assert_eq!(merge(&node, &node, &mut Vec::new()).to_json(), shared);
        }
    }
}
