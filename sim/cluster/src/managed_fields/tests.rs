//! Applies and updates by several managers, compared with a model that counts the owners of leaves.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A type with a map, a list whose items have a key, a set, and a list that is owned as a whole.
fn lamp() -> Fields {
    let text = json!({"type": "string"});
    let schema: JSONSchemaProps =
        serde_json::from_value(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "data": {"type": "object", "additionalProperties": text},
            "items": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": text, "count": {"type": "integer"}}},
            },
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "order": {"type": "array", "items": {"type": "integer"}},
        }}}}))
        .unwrap();
    let types = FieldTypes::of_schema(&schema);
    Fields::new("Lamp", "example.com/v1".to_owned(), Some(Some(&types)))
}

/// A part of an object with one value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leaf {
    Data(String),
    Item(String),
    Count(String),
    Tag(String),
    Order,
}

/// The leaves of an object, each with its value; an item and a tag have no value besides their existence.
type Leaves = BTreeMap<Leaf, u8>;

/// Adds the items of counts: a count is always in an item.
fn whole(mut leaves: Leaves) -> Leaves {
    let items: Vec<Leaf> =
        leaves.keys().filter_map(|leaf| if let Leaf::Count(name) = leaf { Some(Leaf::Item(name.clone())) } else { None }).collect();
    leaves.extend(items.into_iter().map(|item| (item, 0)));
    for (leaf, value) in &mut leaves {
        if matches!(leaf, Leaf::Item(_) | Leaf::Tag(_)) {
            *value = 0;
        }
    }
    leaves
}

fn object(leaves: &Leaves) -> Value {
    let mut value = json!({"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "a"}});
    for (leaf, number) in leaves {
        let spec = &mut value["spec"];
        match leaf {
            Leaf::Data(name) => spec["data"][name] = json!(number.to_string()),
            Leaf::Order => spec["order"] = json!([number]),
            Leaf::Tag(_) | Leaf::Item(_) => {
                let (list, item) = match leaf {
                    Leaf::Tag(name) => ("tags", json!(name)),
                    Leaf::Item(name) => match leaves.get(&Leaf::Count(name.clone())) {
                        Some(count) => ("items", json!({"name": name, "count": count})),
                        None => ("items", json!({"name": name})),
                    },
                    _ => unreachable!("matched above"),
                };
                match spec[list].as_array_mut() {
                    Some(items) => items.push(item),
                    None => spec[list] = json!([item]),
                }
            }
            Leaf::Count(_) => {}
        }
    }
    value
}

/// The leaves of an object, read from its JSON.
fn leaves(value: &Value) -> Leaves {
    let spec = &value["spec"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut found = Leaves::new();
    for (name, value) in spec["data"].as_object().into_iter().flatten() {
        found.insert(Leaf::Data(name.clone()), text(value).parse().unwrap());
    }
    for item in spec["items"].as_array().into_iter().flatten() {
        let name = text(&item["name"]);
        if let Some(count) = item["count"].as_u64() {
            found.insert(Leaf::Count(name.clone()), count as u8);
        }
        assert_eq!(found.insert(Leaf::Item(name), 0), None, "an item stands twice");
    }
    for tag in spec["tags"].as_array().into_iter().flatten() {
        assert_eq!(found.insert(Leaf::Tag(text(tag)), 0), None, "a tag stands twice");
    }
    if let Some(order) = spec["order"].as_array() {
        found.insert(Leaf::Order, order[0].as_u64().unwrap() as u8);
    }
    found
}

/// The leaf that a path of `fieldsV1` leads to; `None` = it is one of the maps and lists around them, or the key of an item.
fn leaf(path: &[String]) -> Option<Leaf> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let name = |element: &str| serde_json::from_str::<Value>(&element[2..]).unwrap();
    Some(match path[..] {
        ["f:spec", "f:data", entry] => Leaf::Data(entry[2..].to_owned()),
        ["f:spec", "f:items", item] => Leaf::Item(name(item)["name"].as_str().unwrap().to_owned()),
        ["f:spec", "f:items", item, "f:count"] => Leaf::Count(name(item)["name"].as_str().unwrap().to_owned()),
        ["f:spec", "f:tags", tag] => Leaf::Tag(name(tag).as_str().unwrap().to_owned()),
        ["f:spec", "f:order"] => Leaf::Order,
        _ => return None,
    })
}

/// The name of a manager, and whether it applies.
type Who = (String, bool);

/// The leaves that each manager owns.
type Owners = BTreeMap<Who, BTreeSet<Leaf>>;

fn owners(managers: &Managers) -> Owners {
    let of = |manager: &Manager| {
        let key = (manager.identity.name.clone(), manager.identity.operation == Operation::Apply);
        (key, manager.fields.paths().iter().filter_map(|path| leaf(path)).collect::<BTreeSet<_>>())
    };
    managers.0.iter().map(of).filter(|(_, owned)| !owned.is_empty()).collect()
}

/// An object and its owners, by the rules as a person would state them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    object: Leaves,
    owners: Owners,
}

impl Model {
    /// Takes leaves from their owners if their values have changed, or if they are gone.
    fn lose(&mut self, before: &Leaves) {
        let now = &self.object;
        self.owners.values_mut().for_each(|owned| owned.retain(|leaf| before.get(leaf).is_some() && now.get(leaf) == before.get(leaf)));
    }

    fn update(&mut self, name: &str, object: Leaves) {
        let before = std::mem::replace(&mut self.object, object);
        self.lose(&before);
        let written = self.object.iter().filter(|(leaf, value)| before.get(leaf) != Some(value)).map(|(leaf, _)| leaf.clone());
        self.owners.entry((name.to_owned(), false)).or_default().extend(written);
        self.owners.retain(|_, owned| !owned.is_empty());
    }

    /// The leaves in conflict, each with its owner.
    fn apply(&mut self, name: &str, applied: &Leaves, force: bool) -> Result<(), BTreeSet<(Who, Leaf)>> {
        let own = (name.to_owned(), true);
        let differs = |leaf: &Leaf| applied.get(leaf).is_some_and(|value| self.object.get(leaf) != Some(value));
        let others = self.owners.iter().filter(|(manager, _)| **manager != own);
        let taken: BTreeSet<(Who, Leaf)> = others
            .clone()
            .flat_map(|(manager, owned)| owned.iter().filter(|leaf| differs(leaf)).map(|leaf| (manager.clone(), leaf.clone())))
            .collect();
        if !force && !taken.is_empty() {
            return Err(taken);
        }
        let shared: BTreeSet<Leaf> = others.flat_map(|(_, owned)| owned.iter().cloned()).collect();
        let dropped =
            self.owners.remove(&own).unwrap_or_default().into_iter().filter(|leaf| !applied.contains_key(leaf) && !shared.contains(leaf));
        let before = self.object.clone();
        for leaf in dropped.collect::<Vec<_>>() {
            // An item is removed with everything in it, even if another manager owns a part of it.
            if let Leaf::Item(name) = &leaf {
                self.object.remove(&Leaf::Count(name.clone()));
            }
            self.object.remove(&leaf);
        }
        self.object.extend(applied.clone());
        self.lose(&before);
        self.owners.insert(own, applied.keys().cloned().collect());
        self.owners.retain(|_, owned| !owned.is_empty());
        Ok(())
    }
}

/// One write of an object.
#[derive(Clone, Debug)]
enum Write {
    /// A PATCH by server-side apply.
    Apply { name: String, leaves: Leaves, force: bool },
    /// A PUT of the object with some leaves set and some gone.
    Update { name: String, set: Leaves, gone: BTreeSet<Leaf> },
}

fn any_leaf() -> impl Strategy<Value = Leaf> {
    let name = || "[abc]".prop_map(String::from);
    prop_oneof![
        3 => name().prop_map(Leaf::Data),
        2 => name().prop_map(Leaf::Item),
        3 => name().prop_map(Leaf::Count),
        2 => name().prop_map(Leaf::Tag),
        1 => Just(Leaf::Order),
    ]
}

fn any_leaves() -> impl Strategy<Value = Leaves> {
    prop::collection::btree_map(any_leaf(), 1..4u8, 0..5).prop_map(whole)
}

fn any_write() -> impl Strategy<Value = Write> {
    let apply = ("[pqr]", any_leaves(), prop::bool::weighted(0.3));
    let update = ("[qu]", any_leaves(), prop::collection::btree_set(any_leaf(), 0..3));
    prop_oneof![
        3 => apply.prop_map(|(name, leaves, force)| Write::Apply { name, leaves, force }),
        1 => update.prop_map(|(name, set, gone)| Write::Update { name, set, gone }),
    ]
}

fn time(second: usize) -> Timestamp {
    Timestamp::from_second(second as i64).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn k166_applies_and_updates_own_drop_and_refuse_what_a_count_by_hand_says(
        first in any_leaves(),
        writes in prop::collection::vec(any_write(), 1..12),
    ) {
        let fields = lamp();
        let (mut live, mut managers, mut model) = (object(&first), Managers::default(), Model::default());
        fields.update(&fields.nothing(), &live, &mut managers, "maker", time(0));
        model.update("maker", first);
        for (second, write) in writes.into_iter().enumerate() {
            let now = time(second + 1);
            match write {
                Write::Update { name, set, gone } => {
                    let mut next = leaves(&live);
                    next.retain(|leaf, _| !gone.contains(leaf));
                    next.retain(|leaf, _| !matches!(leaf, Leaf::Count(item) if gone.contains(&Leaf::Item(item.clone()))));
                    next.extend(set);
                    fields.update(&live, &object(&next), &mut managers, &name, now);
                    live = object(&next);
                    model.update(&name, next);
                }
                Write::Apply { name, leaves: applied, force } => {
                    let body = object(&applied);
                    prop_assert_eq!(fields.fault(&body), None);
                    let was_empty = managers.is_empty();
                    let outcome = fields.apply(&live, &body, managers.clone(), &name, force, now);
                    if was_empty {
                        let all = std::mem::take(&mut model.object);
                        model.update("before-first-apply", all);
                    }
                    match (outcome, model.apply(&name, &applied, force)) {
                        (Ok(done), Ok(())) => {
                            managers = done.managers;
                            live = done.object.unwrap_or(live);
                            let again = fields.apply(&live, &body, managers.clone(), &name, false, time(1_000)).unwrap();
                            prop_assert!(again.object.is_none_or(|again| leaves(&again) == leaves(&live)));
                            prop_assert_eq!(owners(&again.managers), owners(&managers));
                        }
                        (Err(conflicts), Err(taken)) => {
                            let shown = |(name, applies): &Who| {
                                if *applies { format!("{name:?}") } else { format!("{name:?} using example.com/v1") }
                            };
                            let told: BTreeSet<String> = conflicts.iter().map(|conflict| conflict.manager.clone()).collect();
                            prop_assert_eq!(told, taken.iter().map(|(manager, _)| shown(manager)).collect());
                            prop_assert_eq!(conflicts.len(), taken.len());
                            if was_empty {
                                // Nothing was stored, so there are no owners yet.
                                model.owners.clear();
                            }
                        }
                        (outcome, expected) => prop_assert!(false, "{:?} instead of {:?}", outcome, expected),
                    }
                }
            }
            prop_assert_eq!(&leaves(&live), &model.object);
            prop_assert_eq!(&owners(&managers), &model.owners);
        }
    }
}
