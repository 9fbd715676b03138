//! The paths in an object, and its errors by its type (K165).

use std::collections::BTreeSet;

use serde_json::Value;

use super::items;
use super::path_set::{self, Element, PathSet, show_element};
use super::schema::{Items, Rules, Scalar, TypeRef};

/// All paths that an applier of `value` owns.
pub(super) fn paths(of: &TypeRef, value: &Value) -> PathSet {
    let mut set = PathSet::default();
    walk(of, value, &mut Vec::new(), &mut set);
    set
}

fn walk(of: &TypeRef, value: &Value, path: &mut Vec<Element>, set: &mut PathSet) {
    let atom = of.atom();
    match atom.rules(atom.shape(value)) {
        Rules::Scalar(_) => set.insert(path),
        Rules::List(list) => {
            if list.items == Items::Atomic {
                return set.insert(path);
            }
            let Some(items) = value.as_array() else { return };
            for (element, items) in items::by_element(list, items) {
                path.push(element);
                if let [item] = items[..] {
                    walk(&list.element, item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        Rules::Map(map) => {
            if map.atomic {
                return set.insert(path);
            }
            for (name, value) in value.as_object().into_iter().flatten() {
                path.push(path_set::field(name));
                walk(map.entry(name).unwrap_or(&TypeRef::any()), value, path, set);
                let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                if is_empty || !map.fields.contains_key(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
    }
}

/// The errors of an applied object, in the words of the real server; unset = it is valid.
pub(super) fn fault(of: &TypeRef, value: &Value) -> Option<String> {
    let mut faults = Vec::new();
    check(of, value, "", &mut faults);
    let told = |(path, text): &(String, String)| if path.is_empty() { text.clone() } else { format!("{path}: {text}") };
    match &faults[..] {
        [] => None,
        [one] => Some(told(one)),
        several => Some(format!("errors:\n{}", several.iter().map(|one| format!("  {}", told(one))).collect::<Vec<_>>().join("\n"))),
    }
}

fn check(of: &TypeRef, value: &Value, path: &str, faults: &mut Vec<(String, String)>) {
    let atom = of.atom();
    if value.is_null() {
        return;
    }
    let mut wrong = |path: &str, text: String| faults.push((path.to_owned(), text));
    match atom.rules(atom.shape(value)) {
        Rules::Scalar(scalar) => {
            if let Some(text) = type_error(scalar, value) {
                wrong(path, text);
            }
        }
        Rules::List(list) => {
            let Some(items) = value.as_array() else { return wrong(path, format!("expected list, got {}", pointer(value))) };
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let place = if list.items == Items::Atomic {
                    format!("{path}[{index}]")
                } else {
                    match items::element(list, item) {
                        Err(text) => return faults.push((path.to_owned(), format!("element {index}: {text}"))),
                        Ok(element) => {
                            let shown = show_element(&element);
                            if !seen.insert(element) {
                                faults.push((path.to_owned(), format!("duplicate entries for key {shown}")));
                            }
                            format!("{path}{shown}")
                        }
                    }
                };
                check(&list.element, item, &place, faults);
            }
        }
        Rules::Map(map) => {
            let Some(fields) = value.as_object() else { return wrong(path, format!("expected map, got {}", pointer(value))) };
            for (name, field) in fields {
                let place = format!("{path}.{name}");
                match map.entry(name) {
                    Some(of) => check(of, field, &place, faults),
                    // Only the first error is reported.
                    None => return faults.push((place, "field not declared in schema".to_owned())),
                }
            }
        }
    }
}

fn type_error(scalar: Scalar, value: &Value) -> Option<String> {
    let kind = match value {
        Value::String(_) => Scalar::Text,
        Value::Number(_) => Scalar::Number,
        Value::Bool(_) => Scalar::Truth,
        _ => Scalar::Any,
    };
    if scalar == kind || scalar == Scalar::Any && kind != Scalar::Any {
        return None;
    }
    Some(match scalar {
        Scalar::Text => format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value)),
        Scalar::Number => format!("expected numeric (int or float), got {}", go_type(value)),
        Scalar::Truth => format!("expected boolean, got {}", pointer(value)),
        Scalar::Any => format!("expected any scalar, got {}", pointer(value)),
    })
}

/// The type of a decoded value in Go.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value in the syntax of Go.
fn go_syntax(value: &Value) -> String {
    let list = |values: Vec<String>| format!("{}{{{}}}", go_type(value), values.join(", "));
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => list(items.iter().map(go_syntax).collect()),
        Value::Object(fields) => list(fields.iter().map(|(name, field)| format!("{name:?}:{}", go_syntax(field))).collect()),
        other => other.to_string(),
    }
}

/// A pointer to a value as Go prints it.
fn pointer(value: &Value) -> String {
    fn plain(value: &Value) -> String {
        match value {
            Value::Null => "<nil>".to_owned(),
            Value::String(text) => text.clone(),
            Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
            Value::Object(fields) => {
                format!("map[{}]", fields.iter().map(|(name, field)| format!("{name}:{}", plain(field))).collect::<Vec<_>>().join(" "))
            }
            other => other.to_string(),
        }
    }
    format!("&{{{}}}", plain(value))
}
