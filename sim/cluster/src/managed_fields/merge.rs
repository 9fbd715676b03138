//! The merge of an applied object into the stored one, and the removal of fields no longer applied (K166).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::items;
use super::path_set::{self, Element, PathSet};
use super::schema::{Items, ListType, MapType, Rules, TypeRef};

/// `object` with every field of `applied` set to the value there.
pub(super) fn merge(of: &TypeRef, object: &Value, applied: &Value) -> Value {
    merged(of, Some(object), Some(applied)).unwrap_or(Value::Null)
}

/// Merges two values, of which at least one is present; unset = nothing is left.
fn merged(of: &TypeRef, object: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let atom = of.atom();
    let value = applied.or(object)?;
    match atom.rules(atom.shape(value)) {
        Rules::Scalar(_) => Some(value.clone()),
        Rules::List(list) => {
            let items = |value: Option<&'_ Value>| value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().to_vec();
            let (ours, theirs) = (items(object), items(applied));
            if list.items == Items::Atomic || ours.is_empty() && theirs.is_empty() {
                return Some(value.clone());
            }
            let all = merged_items(list, &ours, &theirs);
            (!all.is_empty()).then_some(Value::Array(all))
        }
        Rules::Map(map) => {
            let entries = |value: Option<&'_ Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
            let (ours, theirs) = (entries(object), entries(applied));
            if map.atomic || ours.is_empty() && theirs.is_empty() {
                return Some(value.clone());
            }
            let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            let any = TypeRef::any();
            let entry = |name: &String| Some((name.clone(), merged(map.entry(name).unwrap_or(&any), ours.get(name), theirs.get(name))?));
            let all: Map<String, Value> = names.into_iter().filter_map(entry).collect();
            (!all.is_empty()).then_some(Value::Object(all))
        }
    }
}

/// The items of both lists. Applied items keep their order among each other, and other items stay after those that they followed, as far as
/// both is possible.
fn merged_items(list: &ListType, ours: &[Value], theirs: &[Value]) -> Vec<Value> {
    let elements = |items: &[Value]| items.iter().filter_map(|item| items::element(list, item).ok()).collect::<Vec<Element>>();
    let (left, right) = (elements(ours), elements(theirs));
    let values = |items: &[Value]| -> BTreeMap<Element, Value> {
        // Items that occur more than once are not merged, but replaced.
        let one = |(element, items): (Element, Vec<&Value>)| (element, if items.len() == 1 { items[0].clone() } else { Value::Null });
        items::by_element(list, items).into_iter().map(one).collect()
    };
    let (of_left, of_right) = (values(ours), values(theirs));
    let mut shared = right.iter().filter(|element| of_left.contains_key(*element));
    let mut next = shared.next();
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let mut out = Vec::with_capacity(left.len().max(right.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if l < left.len() && r < right.len() {
            let element = &left[l];
            if *element == right[r] {
                done.insert(element);
                out.extend(merged(&list.element, of_left.get(element), of_right.get(element)));
                (l, r, next) = (l + 1, r + 1, shared.next());
                continue;
            }
            // The item is applied, too, but another one comes before it.
            if of_right.contains_key(element) && next.is_some_and(|next| next != element) {
                l += 1;
                continue;
            }
        }
        if l < left.len() {
            let element = &left[l];
            if !of_right.contains_key(element) {
                out.extend(merged(&list.element, ours.get(l), None));
                l += 1;
                continue;
            } else if done.contains(element) {
                l += 1;
            }
        }
        if r < right.len() {
            let element = &right[r];
            done.insert(element);
            out.extend(merged(&list.element, of_left.get(element), of_right.get(element)));
            r += 1;
            if next == Some(element) {
                next = shared.next();
            }
        }
    }
    out
}

/// `value` without the parts at `paths`. A map or list with nothing left is null.
pub(super) fn without(of: &TypeRef, value: &Value, paths: &PathSet) -> Value {
    let atom = of.atom();
    match (atom.rules(atom.shape(value)), value) {
        (Rules::List(ListType { items: Items::Atomic, .. }) | Rules::Map(MapType { atomic: true, .. }), _) => Value::Null,
        (Rules::List(list), Value::Array(items)) => {
            let keep = |item: &Value| {
                let element = items::element(list, item).unwrap_or_default();
                if paths.has(&element) {
                    return None;
                }
                Some(paths.below(&element).map_or_else(|| item.clone(), |below| without(&list.element, item, below)))
            };
            let kept: Vec<Value> = items.iter().filter_map(keep).collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Rules::Map(map), Value::Object(fields)) => {
            let any = TypeRef::any();
            let keep = |(name, field): (&String, &Value)| {
                let element = path_set::field(name);
                if paths.has(&element) {
                    return None;
                }
                let of = map.entry(name).unwrap_or(&any);
                Some((name.clone(), paths.below(&element).map_or_else(|| field.clone(), |below| without(of, field, below))))
            };
            let kept: Map<String, Value> = fields.iter().filter_map(keep).collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Rules::Scalar(_), _) => value.clone(),
        _ => Value::Null,
    }
}

/// The set, with every declared field that is a prefix of one of its paths added: such fields exist only for their content.
pub(super) fn with_named_fields(of: &TypeRef, set: &PathSet) -> PathSet {
    let atom = of.atom();
    let declared = |element: &Element| {
        let map = atom.map.as_ref()?;
        map.fields.get(element.strip_prefix("f:")?)
    };
    let named: Vec<Element> =
        set.parents().filter(|(element, _)| declared(element).is_some()).map(|(element, _)| element.clone()).collect();
    let any = TypeRef::any();
    let type_below = |element: &Element| match (element.split_at_checked(2), &atom.map, &atom.list) {
        (Some(("f:", name)), Some(map), _) => map.entry(name).cloned(),
        (Some(("k:", _)), _, Some(list)) => Some(list.element.clone()),
        _ => None,
    };
    set.rebuilt(named.into_iter(), |element, below| with_named_fields(&type_below(element).unwrap_or_else(|| any.clone()), below))
}

/// `merged` without the fields that the manager applied last time, no longer applies, and no other manager owns.
///
/// `last`: the fields it applied last time; `owned`: the fields that any manager owns now, including those it applies.
pub(super) fn prune(of: &TypeRef, merged: &Value, last: &PathSet, owned: &PathSet) -> Value {
    let all = |value: &Value| with_named_fields(of, &super::owned::paths(of, value));
    let last = with_named_fields(of, last);
    let everything = all(merged);
    let pruned = without(of, merged, &last);
    // Owned fields come back, with the parts that contain them.
    let kept = all(&pruned).union(&with_named_fields(of, owned));
    let pruned = without(of, merged, &everything.difference(&kept));
    // So do the fields that the manager did not apply last time.
    without(of, merged, &everything.difference(&all(&pruned)).intersection(&last))
}
