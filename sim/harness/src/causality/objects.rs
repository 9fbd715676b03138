//! The content of an object, and the changes of a commit, as far as an operator follows them.
//!
//! Systems describe their own types by [`System::touches`](crate::system::System::touches) and
//! [`System::fields`](crate::system::System::fields); pods and all other types are described here.

use ipam_reports::human;
use k8s_openapi::api::core::v1::Pod;
use kube_sim::object::Obj;
use kube_sim::trace::entity::{Entity, Touch};
use serde_json::Value;

use crate::system::systems;

/// The longest value that is shown; longer values are cut, since they are there to be looked at.
const VALUE_MAX: usize = 160;

/// The changes of a commit to addresses, allocations and pods.
pub(super) fn touches(before: Option<&Obj>, after: Option<&Obj>) -> Vec<Touch> {
    let Some(object) = after.or(before) else { return Vec::new() };
    if let Some(touches) = systems().iter().find_map(|system| system.touches(before, after)) {
        return touches;
    }
    if !object.as_any().is::<Pod>() {
        return Vec::new();
    }
    let meta = object.meta();
    let pod = Entity::pod_of(meta.namespace.as_deref().unwrap_or(""), meta.name.as_deref().unwrap_or(""));
    let phase = after.and_then(|after| after.as_any().downcast_ref::<Pod>()?.status.as_ref()?.phase.clone());
    let change = match after {
        _ if before.is_none() => "",
        None => "gone: ",
        Some(after) if after.meta().deletion_timestamp.is_some() => "being deleted: ",
        Some(_) => "",
    };
    let says = format!("{change}{}", phase.unwrap_or_default());
    vec![Touch { entities: vec![pod], says: says.trim_end_matches(": ").to_owned() }]
}

/// The state of an object as names and short values, in the order in which they are shown.
pub(super) fn fields(object: &Obj) -> Vec<(String, String)> {
    let meta = object.meta();
    let mut fields = systems().iter().find_map(|system| system.fields(object)).unwrap_or_else(|| plain_fields(object));
    if meta.deletion_timestamp.is_some() {
        fields.push(("deletion".to_owned(), "has begun".to_owned()));
    }
    if let Some(finalizers) = meta.finalizers.as_ref().filter(|finalizers| !finalizers.is_empty()) {
        fields.push(("finalizers".to_owned(), finalizers.join(", ")));
    }
    let owners: Vec<String> =
        meta.owner_references.iter().flatten().map(|owner| format!("{} {}", owner.kind.to_lowercase(), owner.name)).collect();
    if !owners.is_empty() {
        fields.push(("owner".to_owned(), owners.join(", ")));
    }
    for (_, value) in &mut fields {
        if value.chars().count() > VALUE_MAX && !value.contains(" more") {
            *value = value.chars().take(VALUE_MAX).chain("…".chars()).collect();
        }
    }
    fields
}

/// The fields of an object of a type that no system describes.
fn plain_fields(object: &Obj) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    if let Some(pod) = object.as_any().downcast_ref::<Pod>() {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let uid = pod.metadata.uid.clone();
        let known = [("phase", phase), ("node", node), ("uid", uid)];
        fields.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        return fields;
    }
    let value = object.to_value();
    for part in ["spec", "status", "data"] {
        if let Some(value) = value.get(part) {
            leaves(value, part, &mut fields);
        }
    }
    fields
}

/// The values of a JSON tree under dotted names, without the fields that every object of a type has.
fn leaves(value: &Value, path: &str, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| leaves(value, &format!("{path}.{key}"), fields)),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            fields.push((path.to_owned(), items.join(", ")));
        }
        Value::Array(items) => fields.push((path.to_owned(), human::plural(items.len() as u64, "entry", "entries"))),
        Value::Null => {}
        value => fields.push((path.to_owned(), plain(value))),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
