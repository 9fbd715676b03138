//! The identity of list items (K165).

use std::collections::BTreeMap;

use serde_json::Value;

use super::path_set::{self, Element};
use super::schema::{Items, ListType};

/// The element of a path that leads to an item of a list.
///
/// # Errors
/// The reason why the item has none: its list is atomic, or a key is missing.
pub(super) fn element(list: &ListType, child: &Value) -> Result<Element, String> {
    match &list.items {
        Items::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        Items::Set => match child {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            _ => Ok(path_set::member(child)),
        },
        Items::Keys(keys) => keyed(list, keys, child),
    }
}

fn keyed(list: &ListType, keys: &[String], child: &Value) -> Result<Element, String> {
    let fields = match child {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let declared = list.element.atom().map.as_ref().map(|map| &map.fields);
    let default = |key: &String| declared.and_then(|fields| fields.get(key)?.default.as_ref());
    let found = keys.iter().filter_map(|key| Some((key.as_str(), fields.get(key).or_else(|| default(key))?)));
    let found: BTreeMap<&str, &Value> = found.collect();
    if found.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        let keys = keys.join(" ");
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{keys}] (and doesn't have default values for any key \
             fields)"
        ));
    }
    Ok(path_set::item(&found))
}

/// The items of a list by their elements, in the order in which each element first occurs. Items without an element are left out.
pub(super) fn by_element<'a>(list: &ListType, items: &'a [Value]) -> Vec<(Element, Vec<&'a Value>)> {
    let mut found: Vec<(Element, Vec<&Value>)> = Vec::new();
    let mut places: BTreeMap<Element, usize> = BTreeMap::new();
    for child in items {
        let Ok(element) = element(list, child) else { continue };
        match places.get(&element) {
            Some(&place) => found[place].1.push(child),
            None => {
                places.insert(element.clone(), found.len());
                found.push((element, vec![child]));
            }
        }
    }
    found
}
