//! The `$` forms of bodies.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Number;

use crate::json::{Json, Map};

/// The references in a text, which are replaced by values.
pub(crate) static REFERENCE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\$\{([^}]*)\}").expect("a constant"));

/// The form of an object in a body.
#[derive(Debug)]
pub(crate) enum Form<'a> {
    /// A text, repeated this many times.
    Repeat(&'a str, usize),
    /// Entries with `{i}` in their keys for their number.
    Map { count: usize, key: &'a str, value: &'a Json },
    /// Items with `{i}` for their number.
    List { count: usize, item: &'a Json },
    /// A handmade continue token.
    Token(&'a Json),
    /// A template with the rest merged in.
    Use(&'a str, Map),
    /// A captured value, with changes merged in.
    From(&'a str, Option<&'a Json>),
    /// An object as it is.
    Plain,
}

/// The form that an object has.
///
/// # Errors
///
/// Names the missing or invalid part of a form.
pub(crate) fn form(members: &Map) -> Result<Form<'_>, String> {
    let text = |name: &str| members[name].as_str().ok_or_else(|| format!("`{name}` has to be a text"));
    let form = if let Some(repeat) = members.get("$repeat") {
        match repeat.as_array() {
            Some([Json::String(text), count]) if number(count).is_some() => Form::Repeat(text, number(count).unwrap_or_default()),
            _ => return Err("`$repeat` has to be a list of a text and a number".to_owned()),
        }
    } else if let Some(map) = members.get("$map") {
        match (map.get("count").and_then(number), map.get("key").and_then(Json::as_str), map.get("value")) {
            (Some(count), Some(key), Some(value)) => Form::Map { count, key, value },
            _ => return Err("`$map` needs `count`, `key` and `value`".to_owned()),
        }
    } else if let Some(list) = members.get("$list") {
        match (list.get("count").and_then(number), list.get("item")) {
            (Some(count), Some(item)) => Form::List { count, item },
            _ => return Err("`$list` needs `count` and `item`".to_owned()),
        }
    } else if let Some(token) = members.get("$token") {
        Form::Token(token)
    } else if members.contains_key("$use") {
        let rest = members.iter().filter(|(name, _)| *name != "$use").map(|(name, item)| (name.clone(), item.clone()));
        Form::Use(text("$use")?, rest.collect())
    } else if members.contains_key("$from") {
        Form::From(text("$from")?, members.get("$merge"))
    } else {
        Form::Plain
    };
    Ok(form)
}

fn number(value: &Json) -> Option<usize> {
    if let Json::Number(number) = value { number.as_u64().and_then(|number| usize::try_from(number).ok()) } else { None }
}

/// A JSON merge patch: `null` removes, objects are merged, everything else replaces.
pub(crate) fn merge(target: Option<Json>, patch: Json) -> Json {
    let Json::Object(patch) = patch else { return patch };
    let mut result = if let Some(Json::Object(members)) = target { members } else { Map::new() };
    for (name, value) in patch {
        if value == Json::Null {
            result.shift_remove(&name);
        } else {
            // An existing member keeps its place.
            let merged = merge(result.get(&name).cloned(), value);
            result.insert(name, merged);
        }
    }
    Json::Object(result)
}

/// The value with `{i}` in all texts and names replaced.
pub(crate) fn numbered(value: &Json, index: usize) -> Json {
    let text = |text: &str| text.replace("{i}", &index.to_string());
    match value {
        Json::String(own) => Json::String(text(own)),
        Json::Array(items) => Json::Array(items.iter().map(|item| numbered(item, index)).collect()),
        Json::Object(members) => members.iter().map(|(name, item)| (text(name), numbered(item, index))).collect(),
        other => other.clone(),
    }
}

/// The value of a number or of a text of digits.
pub(crate) fn integer(value: &Json) -> Option<i128> {
    match value {
        Json::Number(number) => number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A value as part of a text.
pub(crate) fn plain(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(Number::to_string(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_merge_patch_removes_merges_and_replaces() {
        let target = json(r#"{"a": 1, "b": {"c": [1, 2], "d": 3}, "e": "x"}"#);
        let merged = merge(Some(target), json(r#"{"b": {"d": null, "c": [null]}, "a": null, "e": {"f": null, "g": 4}, "h": 5}"#));
        assert_eq!(merged.compact(), r#"{"b":{"c":[null]},"e":{"g":4},"h":5}"#);
    }

    #[test]
    fn a_form_that_lacks_something_is_refused() {
        for (wrong, needed) in [
            (r#"{"$repeat": ["x"]}"#, "a text and a number"),
            (r#"{"$map": {"count": 3, "key": "k{i}"}}"#, "`value`"),
            (r#"{"$list": {"count": -3, "item": 1}}"#, "`count` and `item`"),
            (r#"{"$use": 7}"#, "`$use` has to be a text"),
        ] {
            let value = json(wrong);
            let error = form(value.as_object().unwrap()).unwrap_err();
            assert!(error.contains(needed), "{wrong}: {error}");
        }
    }
}
