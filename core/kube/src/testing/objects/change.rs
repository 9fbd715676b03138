//! The effect of a write on an object, and the changes that are rejected.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::traits::Traits;
use super::{kind, read};
use crate::api::{ApiError, Cause, DeleteOptions, Object, ObjectKey, Patch, PatchKind, Reason, Status, Subresource};

/// The fields of metadata that no write of a client changes.
const KEPT: [&str; 6] = ["uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];

/// An error about an object, which most errors identify by its resource and some by its Kind.
pub(super) fn about<K: Object>(reason: Reason, key: &ObjectKey, text: impl Into<String>) -> Status {
    let mut status = Status::new(reason, text.into());
    status.details.name = Some(key.name().to_owned().into());
    status.details.group = K::group(&()).into_owned().into();
    status.details.kind = K::plural(&()).into_owned().into();
    status
}

fn about_kind<K: Object>(reason: Reason, key: &ObjectKey, text: impl Into<String>) -> Status {
    let mut status = about::<K>(reason, key, text);
    status.details.kind = kind::<K>().into();
    status
}

fn cause(reason: &'static str, field: &'static str, message: impl Into<String>) -> Cause {
    Cause { reason: reason.into(), message: message.into().into(), field: field.into() }
}

fn finalizers(value: &Value) -> BTreeSet<&str> {
    value["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

pub(super) fn is_held(value: &Value) -> bool {
    !finalizers(value).is_empty()
}

pub(super) fn is_terminating(value: &Value) -> bool {
    !value["metadata"]["deletionTimestamp"].is_null()
}

fn grace(value: &Value) -> Option<i64> {
    value["metadata"]["deletionGracePeriodSeconds"].as_i64()
}

/// Whether an object can be removed: its delete has begun, its grace period is over, and it has no finalizer.
pub(super) fn is_over(value: &Value) -> bool {
    is_terminating(value) && grace(value).unwrap_or(0) == 0 && !is_held(value)
}

/// Copies a field from `from`, or removes it if `from` lacks it.
fn take(into: &mut Value, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => into[field] = value.clone(),
        None => drop(into.as_object_mut().unwrap().remove(field)),
    }
}

fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, member) in members {
        if member.is_null() {
            into.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut into[name], member);
        }
    }
}

/// Carries out a JSON patch, of which only removals of members are supported; `None` = there is nothing to remove.
fn remove_each(from: &mut Value, patch: &Value) -> Option<()> {
    for operation in patch.as_array().expect("a JSON patch is a list") {
        assert_eq!(operation["op"], json!("remove"), "nobody asks for anything else");
        let (parent, member) = operation["path"].as_str()?.rsplit_once('/')?;
        from.pointer_mut(parent)?.as_object_mut()?.remove(member)?;
    }
    Some(())
}

/// The result of a patch on an object.
pub(super) fn patched<K: Object>(before: &Value, patch: &Patch) -> Result<Value, ApiError> {
    let mut value = before.clone();
    match patch.kind {
        PatchKind::Merge => merge(&mut value, &patch.body),
        PatchKind::Json => {
            // The server does not say which operation failed (K090).
            let refused = || Status::new(Reason::Invalid, "the server rejected our request due to an error in our request");
            remove_each(&mut value, &patch.body).ok_or_else(refused)?;
        }
        PatchKind::Strategic | PatchKind::Apply => unreachable!("nobody sends such a patch"),
    }
    Ok(written(&read::<K>(&value)))
}

/// An object as it is stored: the wire format does not distinguish empty fields of metadata from missing ones.
pub(super) fn written<K: Object>(object: &K) -> Value {
    let mut value = serde_json::to_value(object).unwrap();
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(|map| map.is_empty());
    let meta = value["metadata"].as_object_mut().expect("an object has metadata");
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if meta.get(field).is_some_and(is_empty) {
            meta.remove(field);
        }
    }
    value
}

/// A new object, without the fields that its creator must not set.
pub(super) fn created<K: Object>(body: &K, of: Traits) -> Value {
    let mut value = written(body);
    let meta = value["metadata"].as_object_mut().unwrap();
    // A type without a generation keeps the one that it is created with (K010).
    for field in KEPT.into_iter().filter(|field| *field != "resourceVersion" && (of.has_generation || *field != "generation")) {
        meta.remove(field);
    }
    if of.has_generation {
        value["metadata"]["generation"] = json!(1);
    }
    match &*K::kind(&()) {
        "Pod" => value["status"] = json!({"phase": "Pending"}),
        _ if of.has_status => drop(value.as_object_mut().unwrap().remove("status")),
        _ => {}
    }
    value
}

/// Whether two states of an object differ in a way that changes the generation.
fn spec_differs(one: &Value, other: &Value, of: Traits) -> bool {
    let is_spec = |(name, _): &(&String, &Value)| *name != "metadata" && (*name != "status" || !of.has_status);
    let spec = |value: &'_ Value| value.as_object().into_iter().flatten().filter(is_spec).count();
    let is_same = |(name, value): (&String, &Value)| other.get(name) == Some(value);
    spec(one) != spec(other) || !one.as_object().into_iter().flatten().filter(is_spec).all(is_same)
}

/// Rejects a PUT of an object with another UID as a conflict.
pub(super) fn check_uid<K: Object>(key: &ObjectKey, stored: &str, body: &Value, of: Traits) -> Result<(), ApiError> {
    let Some(asked) = body["metadata"]["uid"].as_str().filter(|asked| *asked != stored) else { return Ok(()) };
    let group = if of.is_custom { format!("{}/", K::group(&())) } else { String::new() };
    let text = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: {asked}, UID in object meta: {stored}",
        K::plural(&())
    );
    Err(about::<K>(Reason::Conflict, key, text).into())
}

/// Checks the version that a body names. Some types require one.
pub(super) fn check_version<K: Object>(key: &ObjectKey, before: &Value, body: &Value, of: Traits) -> Result<(), ApiError> {
    let version = &body["metadata"]["resourceVersion"];
    if version.is_null() && of.needs_version {
        let cause = cause("FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update");
        return Err(about::<K>(Reason::Invalid, key, "").cause(cause).into());
    }
    let is_right = version.is_null() || *version == before["metadata"]["resourceVersion"];
    let modified = "the object has been modified; please apply your changes to the latest version and try again";
    if is_right { Ok(()) } else { Err(about::<K>(Reason::Conflict, key, modified).into()) }
}

/// Rejects a subresource that the type does not have.
pub(super) fn check_part(part: Option<Subresource>, of: Traits) -> Result<(), ApiError> {
    match part {
        None => Ok(()),
        Some(Subresource::Status) if of.has_status => Ok(()),
        Some(Subresource::Status) => Err(Status::new(Reason::NotFound, "the server could not find the requested resource").into()),
        Some(Subresource::Binding | Subresource::Finalize) => unreachable!("nobody binds a pod or ends a namespace"),
    }
}

/// Checks a delete's preconditions: the UID and the version of the object.
pub(super) fn check_preconditions<K: Object>(key: &ObjectKey, stored: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let DeleteOptions { preconditions, .. } = options;
    for (name, field, asked, why) in [
        ("UID", "uid", &preconditions.uid, "The object might have been deleted and then recreated"),
        ("ResourceVersion", "resourceVersion", &preconditions.resource_version, "The object might have been modified"),
    ] {
        let stored = stored["metadata"][field].as_str().unwrap_or_default();
        if let Some(asked) = asked.as_deref().filter(|asked| *asked != stored) {
            let text = format!("the {name} in the precondition ({asked}) does not match the {name} in record ({stored}). {why}");
            return Err(about_kind::<K>(Reason::Conflict, key, text).into());
        }
    }
    Ok(())
}

/// Rejects changes that a write must not make.
fn check_change<K: Object>(key: &ObjectKey, before: &Value, after: &Value, of: Traits) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    let uid = &after["metadata"]["uid"];
    if !uid.is_null() && *uid != before["metadata"]["uid"] {
        causes.push(cause("FieldValueInvalid", "metadata.uid", format!("Invalid value: {uid}: field is immutable")));
    }
    if is_terminating(before) {
        let had = finalizers(before);
        let added: Vec<_> = finalizers(after).difference(&had).map(|finalizer| format!("{finalizer:?}")).collect();
        if !added.is_empty() {
            let message = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string";
            causes.push(cause("FieldValueForbidden", "metadata.finalizers", format!("{message}{{{}}}", added.join(", "))));
        }
    }
    if of.is_custom {
        // The validation of custom resources repeats the causes.
        causes.extend_from_within(..);
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(causes.into_iter().fold(about_kind::<K>(Reason::Invalid, key, ""), Status::cause).into())
}

/// The result of a client's write on an object, before admission.
pub(super) fn changed<K: Object>(
    key: &ObjectKey,
    before: &Value,
    body: Value,
    part: Option<Subresource>,
    of: Traits,
) -> Result<Value, ApiError> {
    let mut value = if part.is_some() {
        let mut value = before.clone();
        take(&mut value, &body, "status");
        if !of.is_custom {
            for field in ["uid", "labels", "annotations", "finalizers"] {
                take(&mut value["metadata"], &body["metadata"], field);
            }
        }
        value
    } else {
        let mut value = body;
        if of.has_status {
            take(&mut value, before, "status");
        }
        value
    };
    check_change::<K>(key, before, &value, of)?;
    for field in KEPT {
        take(&mut value["metadata"], &before["metadata"], field);
    }
    Ok(value)
}

/// Increments the generation if the spec has changed.
pub(super) fn count_generation(value: &mut Value, before: &Value, of: Traits) {
    if of.has_generation && spec_differs(value, before, of) {
        value["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
    }
}

/// The grace period of a delete in seconds; `None` = the delete changes nothing.
pub(super) fn grace_of(stored: &Value, options: &DeleteOptions, of: Traits) -> Option<i64> {
    if !of.is_graceful {
        return (!is_terminating(stored)).then_some(0);
    }
    let asked = options.grace_period_seconds.map(|asked| if asked < 0 { 1 } else { asked });
    if is_terminating(stored) {
        // The grace period can only be shortened.
        return asked.filter(|asked| *asked < grace(stored).unwrap_or(0));
    }
    // Nothing of the Pod runs.
    let is_idle =
        stored["spec"]["nodeName"].is_null() || ["Succeeded", "Failed"].map(|phase| json!(phase)).contains(&stored["status"]["phase"]);
    let own = stored["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    Some(if is_idle { 0 } else { asked.unwrap_or(own) })
}

/// An object whose deletion has begun, or is hastened.
pub(super) fn terminating(stored: &Value, seconds: i64, now: Timestamp) -> Value {
    let mut value = stored.clone();
    let began = match (stored["metadata"]["deletionTimestamp"].as_str(), grace(stored)) {
        (Some(end), Some(grace)) => end.parse::<Timestamp>().unwrap() - SignedDuration::from_secs(grace),
        _ => now,
    };
    value["metadata"]["deletionTimestamp"] = json!((began + SignedDuration::from_secs(seconds)).to_string());
    value["metadata"]["deletionGracePeriodSeconds"] = json!(seconds);
    if let (false, Some(generation)) = (is_terminating(stored), stored["metadata"]["generation"].as_i64()) {
        value["metadata"]["generation"] = json!(generation + 1);
    }
    value
}
