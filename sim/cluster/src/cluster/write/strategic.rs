//! Strategic merge patches: merge patches that know which lists are maps (K §2.9).
//!
//! The type in the real API declares whether a list is replaced, merged by the key of its items, or merged as a set. A table of field names
//! covers the declarations of the served types.

use kube_machinery::Status;
use kube_machinery::api::Reason;
use serde_json::{Map, Value};

use super::Answer;

/// The operation on a map or an item of a list, instead of a merge.
const DIRECTIVE: &str = "$patch";
/// The keys of a map that are kept.
const RETAIN: &str = "$retainKeys";
/// The order of the items of a list.
const ORDER: &str = "$setElementOrder/";
/// The items of a set that are removed.
const DELETE: &str = "$deleteFromPrimitiveList/";

/// The way a list is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    /// The list of the patch replaces the stored one.
    Atomic,
    /// Items with the same value under this key are the same.
    ByKey(&'static str),
    /// Items are texts, each at most once.
    Set,
}

/// The strategy of the list `name` below the field `parent`.
fn strategy(parent: &str, name: &str) -> Strategy {
    match name {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "schedulingGates"
        | "resourceClaims"
        | "secrets" => Strategy::ByKey("name"),
        "volumeMounts" => Strategy::ByKey("mountPath"),
        "volumeDevices" => Strategy::ByKey("devicePath"),
        // A Service's ports are in its spec, those of a container in an item of a list.
        "ports" if parent == "spec" => Strategy::ByKey("port"),
        "ports" => Strategy::ByKey("containerPort"),
        "hostAliases" | "podIPs" | "hostIPs" => Strategy::ByKey("ip"),
        "topologySpreadConstraints" => Strategy::ByKey("topologyKey"),
        "conditions" | "addresses" => Strategy::ByKey("type"),
        "ownerReferences" => Strategy::ByKey("uid"),
        "podCIDRs" => Strategy::Set,
        // The finalizers of a Namespace's spec are replaced.
        "finalizers" if parent == "metadata" => Strategy::Set,
        _ => Strategy::Atomic,
    }
}

fn bad(text: String) -> Box<Status> {
    Box::new(Status::new(Reason::Unknown, text))
}

/// Applies a strategic merge patch to an object.
///
/// # Errors
/// The 500 for an item without its key or for an unknown directive.
pub(super) fn merge(object: &mut Value, patch: &Value) -> Answer<()> {
    match (object.as_object_mut(), patch.as_object()) {
        (Some(object), Some(patch)) => merge_map(object, patch, ""),
        _ => {
            *object = patch.clone();
            Ok(())
        }
    }
}

/// Merges a patch into a map. `parent`: the name of the field that is patched.
fn merge_map(object: &mut Map<String, Value>, patch: &Map<String, Value>, parent: &str) -> Answer<()> {
    match patch.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("delete") => {
            object.clear();
            return Ok(());
        }
        Some("replace") => {
            object.clear();
            object.extend(patch.iter().filter(|(name, _)| *name != DIRECTIVE).map(|(name, value)| (name.clone(), value.clone())));
            return Ok(());
        }
        Some(other) => return Err(bad(format!("unknown patch type {other:?} in map"))),
    }
    if let Some(retained) = patch.get(RETAIN).and_then(Value::as_array) {
        object.retain(|name, _| retained.iter().any(|one| one == name));
    }
    for (name, value) in patch {
        if name == DIRECTIVE || name == RETAIN || name.starts_with(ORDER) {
            continue;
        }
        if let Some(list) = name.strip_prefix(DELETE) {
            let gone = value.as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(items) = object.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        match value {
            Value::Null => {
                object.remove(name);
            }
            // A directive for a missing field does nothing.
            Value::Object(patch) if patch.contains_key(DIRECTIVE) && !object.contains_key(name) => {}
            Value::Object(patch) => {
                let field = object.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
                if !field.is_object() {
                    *field = Value::Object(Map::new());
                }
                if let Some(field) = field.as_object_mut() {
                    merge_map(field, patch, name)?;
                }
            }
            Value::Array(items) => {
                let order = patch.get(&format!("{ORDER}{name}")).and_then(Value::as_array);
                let before = object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let merged = merge_list(before, items, order, strategy(parent, name), name)?;
                object.insert(name.clone(), Value::Array(merged));
            }
            other => {
                object.insert(name.clone(), other.clone());
            }
        }
    }
    Ok(())
}

fn merge_list(before: &[Value], patch: &[Value], order: Option<&Vec<Value>>, strategy: Strategy, name: &str) -> Answer<Vec<Value>> {
    match strategy {
        Strategy::Atomic => Ok(patch.to_vec()),
        Strategy::Set => {
            let mut patched: Vec<Value> = Vec::new();
            patch.iter().for_each(|item| {
                if !patched.contains(item) {
                    patched.push(item.clone());
                }
            });
            Ok(interleave(before, patched, order, &|item| item.clone()))
        }
        Strategy::ByKey(key) => merge_items(before, patch, order, key, name),
    }
}

fn merge_items(before: &[Value], patch: &[Value], order: Option<&Vec<Value>>, key: &'static str, name: &str) -> Answer<Vec<Value>> {
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|item| directive(item).as_deref() == Some("replace")) {
        return Ok(patch.iter().filter(|item| item.get(DIRECTIVE).is_none()).cloned().collect());
    }
    let mut before = before.to_vec();
    let mut patched = Vec::new();
    for item in patch {
        let Some(fields) = item.as_object() else { return Err(bad(format!("expected an object in the list {name:?}, found {item}"))) };
        let Some(own) = item.get(key) else {
            let shown: Vec<String> = fields.iter().map(|(name, value)| format!("{name}:{}", go_value(value))).collect();
            return Err(bad(format!("map: map[{}] does not contain declared merge key: {key}", shown.join(" "))));
        };
        let there = before.iter().position(|other| other.get(key) == Some(own));
        if directive(item).as_deref() == Some("delete") {
            if let Some(index) = there {
                before.remove(index);
            }
            continue;
        }
        let mut merged = there.map_or_else(Map::new, |index| before[index].as_object().cloned().unwrap_or_default());
        merge_map(&mut merged, fields, name)?;
        patched.push(Value::Object(merged));
    }
    Ok(interleave(&before, patched, order, &|item| item.get(key).cloned().unwrap_or(Value::Null)))
}

/// A value as Go prints it inside a map.
fn go_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Merges the items that only the object has into the patched ones. The patch's own order holds; items of the object that it does not name
/// stay before the items that they preceded.
fn interleave(before: &[Value], mut patched: Vec<Value>, order: Option<&Vec<Value>>, key: &dyn Fn(&Value) -> Value) -> Vec<Value> {
    let place = |list: &[Value], item: &Value| list.iter().position(|other| key(other) == key(item));
    if let Some(order) = order {
        // An item that only the order names stays unchanged.
        for one in order {
            if let Some(index) = place(before, one).filter(|_| place(&patched, one).is_none()) {
                patched.push(before[index].clone());
            }
        }
        patched.sort_by_key(|item| place(order, item).unwrap_or(usize::MAX));
    }
    let mut only: Vec<&Value> = before.iter().filter(|item| place(&patched, item).is_none()).collect();
    only.reverse();
    let mut merged = Vec::with_capacity(before.len() + patched.len());
    for item in patched {
        while let Some(next) = only.last() {
            let stands_before = place(before, &item).is_some_and(|at| place(before, next).is_some_and(|own| own < at));
            if !stands_before {
                break;
            }
            merged.extend(only.pop().cloned());
        }
        merged.push(item);
    }
    merged.extend(only.into_iter().rev().cloned());
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(object: Value, patch: &Value) -> Value {
        let mut object = object;
        merge(&mut object, patch).unwrap();
        object
    }

    #[test]
    fn lists_with_a_key_are_merged_by_it_and_others_replaced() {
        let pod =
            json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "tolerations": [{"key": "x"}]}});
        let patch = json!({"spec": {"containers": [{"name": "b", "image": "2"}], "tolerations": [{"key": "y"}]}});
        let expected =
            json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}], "tolerations": [{"key": "y"}]}});
        assert_eq!(patched(pod, &patch), expected);
    }

    #[test]
    fn what_is_new_comes_first_unless_the_order_is_given() {
        let object = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        let patch = json!({"metadata": {"finalizers": ["example.com/other"]}});
        assert_eq!(patched(object.clone(), &patch)["metadata"]["finalizers"], json!(["example.com/other", "example.com/hold"]));
        let patch = json!({"metadata": {
            "$setElementOrder/finalizers": ["example.com/hold", "example.com/other"],
            "finalizers": ["example.com/other"],
        }});
        assert_eq!(patched(object, &patch)["metadata"]["finalizers"], json!(["example.com/hold", "example.com/other"]));
    }

    #[test]
    fn directives_delete_replace_and_retain() {
        let object =
            json!({"metadata": {"ownerReferences": [{"uid": "x"}, {"uid": "y"}], "labels": {"a": "1", "b": "1"}}, "data": {"a": "1"}});
        let patch =
            json!({"metadata": {"ownerReferences": [{"uid": "x", "$patch": "delete"}], "labels": {"$retainKeys": ["b"], "b": "2"}}});
        let expected = json!({"metadata": {"ownerReferences": [{"uid": "y"}], "labels": {"b": "2"}}, "data": {"a": "1"}});
        assert_eq!(patched(object.clone(), &patch), expected);
        assert_eq!(patched(object.clone(), &json!({"data": {"$patch": "replace", "z": "1"}}))["data"], json!({"z": "1"}));
        assert_eq!(patched(object.clone(), &json!({"$patch": "delete"})), json!({}));
        assert_eq!(patched(object, &json!({"data": {"a": null}}))["data"], json!({}));
        let set = json!({"metadata": {"finalizers": ["a", "b"]}});
        assert_eq!(
            patched(set, &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}))["metadata"]["finalizers"],
            json!(["b"])
        );
    }

    #[test]
    fn an_item_without_its_key_is_refused() {
        let mut object = json!({"spec": {}});
        let error = merge(&mut object, &json!({"spec": {"containers": [{"image": "x"}]}})).unwrap_err();
        assert_eq!(error.message(), "map: map[image:x] does not contain declared merge key: name");
    }

    #[test]
    fn the_finalizers_of_a_namespaces_spec_are_replaced() {
        let namespace = json!({"spec": {"finalizers": ["kubernetes"]}});
        assert_eq!(patched(namespace, &json!({"spec": {"finalizers": ["x"]}}))["spec"]["finalizers"], json!(["x"]));
    }
}
