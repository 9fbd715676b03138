//! Parts of a large document.

use crate::json::{Json, Map};

/// The value in place of an absent part.
pub(crate) const ABSENT: &str = "<absent>";

/// The parts of a body by their paths: names with `/` between them; `list[name=x]` is the first item whose name is x, `list[=x]` the item
/// x, `list[*]` all of them.
pub(crate) fn picked(body: &Json, paths: &[String]) -> Json {
    let parts = paths.iter().map(|path| (path.clone(), part(body, &path.split('/').collect::<Vec<_>>())));
    Json::Object(Map::from([("picked".to_owned(), parts.collect())]))
}

fn part(value: &Json, names: &[&str]) -> Json {
    let Some((first, rest)) = names.split_first() else { return value.clone() };
    let (name, selector) = first.split_once('[').unwrap_or((first, ""));
    let found = if name.is_empty() { Some(value) } else { value.get(name) };
    let Some(value) = found else { return ABSENT.into() };
    if selector.is_empty() {
        return part(value, rest);
    }
    let Some(items) = value.as_array() else { return "<no list>".into() };
    let selector = selector.trim_end_matches(']');
    if selector == "*" {
        return Json::Array(items.iter().map(|item| part(item, rest)).collect());
    }
    let (key, wanted) = selector.split_once('=').unwrap_or((selector, ""));
    let is_wanted = |item: &&Json| {
        let own = if key.is_empty() { Some(*item) } else { item.get(key) };
        own.is_some_and(|own| own.as_str().map_or_else(|| own.compact() == wanted, |own| own == wanted))
    };
    items.iter().find(is_wanted).map_or(ABSENT.into(), |item| part(item, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_name_and_by_item() {
        let body = Json::read(br#"{"a": {"b": 1}, "l": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "s": ["p", "q"]}"#).unwrap();
        for (path, expected) in [
            ("a/b", "1"),
            ("a/c", "\"<absent>\""),
            ("a/b/c", "\"<absent>\""),
            ("l[name=y]/v", "2"),
            ("l[name=z]/v", "\"<absent>\""),
            ("l[*]/v", "[1,2]"),
            ("s[=q]", "\"q\""),
            ("a[*]", "\"<no list>\""),
        ] {
            let found = picked(&body, &[path.to_owned()]);
            assert_eq!(found.get("picked").unwrap().get(path).unwrap().compact(), expected, "{path}");
        }
    }
}
