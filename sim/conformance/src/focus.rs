//! The compared parts of an object.

use std::collections::BTreeMap;

use crate::json::{Json, Map};

/// The fields that are not compared, by kind: names from the object on, `*` for every member or item.
pub(crate) type Ignored = BTreeMap<String, Vec<Vec<String>>>;

/// A copy without the ignored fields. An item without a kind has the kind that the list around it implies.
pub(crate) fn focus(value: &Json, ignored: &Ignored, kind: Option<&str>) -> Json {
    match value {
        Json::Array(items) => Json::Array(items.iter().map(|item| focus(item, ignored, kind)).collect()),
        Json::Object(members) => {
            let kind = members.get("kind").and_then(Json::as_str).or(kind);
            let of_items = kind.and_then(|kind| kind.strip_suffix("List"));
            let member = |(name, item): (&String, &Json)| (name.clone(), focus(item, ignored, of_items.filter(|_| name == "items")));
            let mut copy: Map = members.iter().map(member).collect();
            if members.contains_key("metadata")
                && let Some(paths) = kind.and_then(|kind| ignored.get(kind))
            {
                paths.iter().for_each(|path| remove(&mut copy, path));
            }
            Json::Object(copy)
        }
        other => other.clone(),
    }
}

fn remove(members: &mut Map, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    if first != "*" && rest.is_empty() {
        members.shift_remove(first);
    } else if rest.is_empty() {
        members.clear();
    } else {
        members.iter_mut().filter(|(name, _)| first == "*" || *name == first).for_each(|(_, item)| inside(item, rest));
    }
}

/// In a list, only `*` continues a path.
fn inside(value: &mut Json, path: &[String]) {
    match value {
        Json::Object(members) => remove(members, path),
        Json::Array(items) if path[0] == "*" && path.len() > 1 => items.iter_mut().for_each(|item| inside(item, &path[1..])),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_left_out_by_the_kind_of_their_object() {
        let path = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
        let ignored =
            Ignored::from([("Pod".to_owned(), vec![path("spec/containers/*/image"), path("status/qosClass"), path("spec/labels/*")])]);
        let pod =
            r#"{"metadata": {}, "spec": {"containers": [{"image": "i", "name": "c"}], "labels": {"a": 1}}, "status": {"qosClass": "x"}}"#;
        let left = r#"{"metadata": {}, "spec": {"containers": [{"name": "c"}], "labels": {}}, "status": {}}"#;
        let focused = |text: &str| focus(&Json::read(text.as_bytes()).unwrap(), &ignored, None).line();
        let of = |kind: &str, items: &str| format!(r#"{{"items": [{items}], "kind": "{kind}"}}"#);
        assert_eq!(focused(&of("PodList", pod)), of("PodList", left));
        assert_eq!(focused(&of("NodeList", pod)), of("NodeList", pod));
        let event = |pod: &str| format!(r#"{{"object": {{"kind": "Pod", {}, "type": "ADDED"}}"#, &pod[1..]);
        assert_eq!(focused(&event(pod)), event(left));
        // A reference to a Pod is not a Pod.
        let reference = r#"{"kind": "Pod", "status": {"qosClass": "x"}}"#;
        assert_eq!(focused(reference), reference);
    }
}
