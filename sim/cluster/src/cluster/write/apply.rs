//! Server-side apply, and the ownership of an object's fields after any write (K §2.9).
//!
//! Most runs never read field managers, so they cost nothing there: a cluster keeps those of an object from its first apply on, or of all
//! objects from their creation ([`Knobs::managed_fields`](crate::cluster::Knobs)).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube_machinery::api::{Cause, Patch, Reason, Subresource};
use kube_machinery::{ObjectKey, Status};
use serde_json::Value;

use super::metadata::{check_key, normalise};
use super::{Answer, bad_request, check_etcd_size, conflict, field_invalid, whole_seconds};
use crate::kinds::{AppliedType, TypeDef};
use crate::managed_fields::{self, FieldTypes, Fields, Managers, conflict_message};
use crate::object::{Obj, make_mut};

/// Adds the defaults of a built-in Kind to an object, as decoding does.
pub(crate) type Complete = fn(&str, &mut Value);

/// The field manager of a write, and its time.
pub(crate) struct Writer {
    /// The name of its field manager.
    pub(crate) manager: String,
    /// The time of the server.
    pub(crate) now: Timestamp,
}

/// The types of the fields of `def`, for a write of `subresource`.
fn fields(def: &TypeDef, subresource: Option<Subresource>) -> Fields {
    let declared = def.extension::<AppliedType>().map(|applied| (applied.fields)());
    let custom = def.custom.then(|| declared.as_ref().or_else(|| def.extension::<FieldTypes>()));
    let ignored: &[&[&str]] = match subresource {
        None if def.has_status => &[&["status"]],
        None | Some(Subresource::Binding) => &[],
        Some(Subresource::Finalize) => &[&["status"]],
        Some(Subresource::Status) if def.custom => &[&["spec"], &["metadata"]],
        Some(Subresource::Status) if def.graceful => &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
        Some(Subresource::Status) => &[&["spec"]],
    };
    Fields::new(def.kind, def.api_version(), custom).writing(subresource.map_or("", Subresource::as_str), ignored)
}

/// An object without its managers, as JSON.
fn bare(object: &Obj) -> Value {
    let mut value = object.to_value();
    if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    value
}

fn managers_of(entries: Option<&Vec<ManagedFieldsEntry>>) -> Managers {
    entries.and_then(|entries| Managers::decode(entries)).unwrap_or_default()
}

/// Makes the manager of a write other than an apply own the fields that the write changes. `everywhere`: also for objects without an apply
/// so far.
///
/// The managers in the body count if it has any, and if the write is not of a subresource: an empty list makes the object forget them.
pub(crate) fn track(
    def: &TypeDef,
    everywhere: bool,
    subresource: Option<Subresource>,
    current: Option<&Obj>,
    body: &mut Obj,
    by: impl FnOnce() -> Writer,
) {
    let (sent, stored) = (body.meta().managed_fields.as_ref(), current.and_then(|current| current.meta().managed_fields.as_ref()));
    if sent.is_none() && stored.is_none() && !(everywhere && current.is_none()) {
        return;
    }
    let mut managers = match sent.filter(|_| subresource.is_none()) {
        Some(sent) if managed_fields::resets(sent) => Managers::default(),
        Some(sent) => Managers::decode(sent).filter(|managers| !managers.is_empty()).unwrap_or_else(|| managers_of(stored)),
        None => managers_of(stored),
    };
    if managers.is_empty() && (current.is_some() || !everywhere) {
        make_mut(body).meta_mut().managed_fields = None;
        return;
    }
    // Empty maps and lists count as absent.
    normalise(make_mut(body).meta_mut());
    let fields = fields(def, subresource);
    let before = current.map_or_else(|| fields.nothing(), bare);
    let by = by();
    fields.update(&before, &bare(body), &mut managers, &by.manager, whole_seconds(by.now));
    make_mut(body).meta_mut().managed_fields = managers.encode();
}

/// Undoes a change of nothing but the managers' times (K075). Fields that the server has already reset do not count: an apply to the object
/// that sets only parts of its status is no write.
pub(super) fn ignore_times(body: &mut Obj, current: &Obj) {
    let (sent, stored) = (&body.meta().managed_fields, &current.meta().managed_fields);
    if sent == stored {
        return;
    }
    if let (Some(sent), Some(stored)) = (sent, stored)
        && managed_fields::same_but_times(sent, stored)
    {
        let mut timeless = body.deep_copy();
        make_mut(&mut timeless).meta_mut().managed_fields = Some(stored.clone());
        if timeless.same(&**current) {
            *body = timeless;
        }
    }
}

/// The object as it is stored: without its managers, if it is too large with them.
pub(crate) fn fitting(def: &TypeDef, mut object: Obj) -> Obj {
    if object.meta().managed_fields.is_some() && check_etcd_size(def, &object).is_err() {
        make_mut(&mut object).meta_mut().managed_fields = None;
    }
    object
}

/// The result of an apply to the current object, or to none. It is then treated like the body of an update or a create.
///
/// # Errors
/// 400 for another type, or for managers in the body; 500 for fields that do not fit the type; 409 for fields of others, each a cause.
pub(crate) fn apply(
    def: &TypeDef,
    key: &ObjectKey,
    patch: &Patch,
    subresource: Option<Subresource>,
    current: Option<&Obj>,
    complete: Option<Complete>,
    by: &Writer,
) -> Answer<Obj> {
    let body = &*patch.body;
    check_type(def, body)?;
    if !body["metadata"]["managedFields"].is_null() {
        return Err(bad_request("metadata.managedFields must be nil"));
    }
    let fields = fields(def, subresource);
    if let Some(fault) = fields.fault(body) {
        let text = |name: &str| body["metadata"][name].as_str().unwrap_or_default();
        let place = format!("{}/{}; {}", text("namespace"), text("name"), type_text(body));
        return Err(Box::new(Status::new(Reason::Unknown, format!("failed to create typed patch object ({place}): {fault}"))));
    }
    let managers = managers_of(current.and_then(|current| current.meta().managed_fields.as_ref()));
    let live = current.map_or_else(|| fields.nothing(), bare);
    let applied = fields.apply(&live, body, managers, &by.manager, patch.force, whole_seconds(by.now)).map_err(|conflicts| {
        let cause = |conflict: &managed_fields::Conflict| Cause {
            reason: "FieldManagerConflict".into(),
            message: format!("conflict with {}", conflict.manager).into(),
            field: conflict.field.clone().into(),
        };
        let mut status = Status::new(Reason::Conflict, conflict_message(&conflicts));
        status.details.causes = conflicts.iter().map(cause).collect();
        Box::new(status)
    })?;
    let mut object = match (applied.object, current) {
        (None, Some(current)) => current.deep_copy(),
        (changed, _) => decode(def, changed.unwrap_or(live), current, complete)?,
    };
    make_mut(&mut object).meta_mut().managed_fields = applied.managers.encode();
    if current.is_none()
        && let Some(uid) = object.meta().uid.as_deref().filter(|uid| !uid.is_empty())
    {
        let text = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
        return Err(conflict(def, key, text));
    }
    check_key(key, object.meta())?;
    Ok(object)
}

/// Adds the defaults of the parts that a patch has added to an object of a built-in type.
pub(crate) fn completed(def: &TypeDef, body: Obj, complete: Complete) -> Answer<Obj> {
    if def.custom {
        return Ok(body);
    }
    let current = body.clone();
    decode(def, body.to_value(), Some(&current), Some(complete))
}

/// Group, version and Kind as Go prints them.
fn type_text(body: &Value) -> String {
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    format!("{group}/{version}, Kind={}", text("kind"))
}

fn check_type(def: &TypeDef, body: &Value) -> Answer<()> {
    if body["kind"] == def.kind && body["apiVersion"] == def.api_version() {
        return Ok(());
    }
    Err(bad_request(format!("invalid object type: {}", type_text(body))))
}

fn decode(def: &TypeDef, mut value: Value, current: Option<&Obj>, complete: Option<Complete>) -> Answer<Obj> {
    if let Some(complete) = complete.filter(|_| !def.custom) {
        complete(def.kind, &mut value);
    }
    let decoded = match (current, def.extension::<AppliedType>()) {
        (_, Some(applied)) => (applied.decode)(value),
        (Some(current), None) => (def.decode_like)(value, &**current),
        (None, None) => (def.from_value)(value),
    };
    decoded.map_err(|error| {
        let cause = field_invalid("patch", format!("Invalid value: {error}"));
        Box::new(Status::new(Reason::Invalid, format!(" \"\" is invalid: patch: {}", cause.message)).cause(cause))
    })
}
