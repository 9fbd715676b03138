//! The rules of metadata for every type (K §1.1, §1.2): fields that are kept, fields that may not change, valid values.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_machinery::api::{Cause, Reason};
use kube_machinery::{ObjectKey, Status};

use super::{Answer, bad_request, conflict, field_invalid};
use crate::kinds::TypeDef;
use crate::object::{Obj, resource_version};

/// The size of all keys and values of annotations together.
pub(super) fn annotations_size(meta: &ObjectMeta) -> usize {
    meta.annotations.iter().flatten().map(|(key, value)| key.len() + value.len()).sum()
}

/// The version that a body names; 0 counts as none (K §1.1).
pub(super) fn named_version(object: &Obj) -> Option<&str> {
    Some(resource_version(&**object)).filter(|version| !matches!(*version, "" | "0"))
}

/// Like [`named_version`], but a version that is not a number is 500 (K071, K111).
pub(super) fn checked_version(object: &Obj) -> Answer<Option<&str>> {
    match named_version(object) {
        Some(version) if version.parse::<u64>().is_err() => {
            Err(Box::new(Status::new(Reason::Unknown, format!("strconv.ParseUint: parsing {version:?}: invalid syntax"))))
        }
        version => Ok(version),
    }
}

/// 409 for a UID or version that is not the stored one, in the words of the storage.
pub(super) fn precondition_failed(def: &TypeDef, key: &ObjectKey, what: &str, asked: &str, stored: &str) -> Box<Status> {
    let group = if def.custom { format!("{}/", def.group) } else { String::new() };
    let text = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: {what} in precondition: {asked}, {what} in object meta: {stored}",
        def.plural
    );
    conflict(def, key, text)
}

/// Removes values that the wire format does not distinguish from absent ones.
pub(super) fn normalise(meta: &mut ObjectMeta) {
    meta.labels.take_if(|labels| labels.is_empty());
    meta.annotations.take_if(|annotations| annotations.is_empty());
    meta.finalizers.take_if(|finalizers| finalizers.is_empty());
    meta.owner_references.take_if(|owners| owners.is_empty());
}

/// Checks that name and namespace of a body are those of the URL (K015).
pub(super) fn check_key(key: &ObjectKey, meta: &ObjectMeta) -> Answer<()> {
    match meta.name.as_deref().unwrap_or("") {
        "" => {
            let url = key.name();
            return Err(bad_request(format!("the name of the object ({url} based on URL) was undeterminable: name must be provided")));
        }
        name if name != key.name() => {
            return Err(bad_request(format!("the name of the object ({name}) does not match the name on the URL ({})", key.name())));
        }
        _ => {}
    }
    if meta.namespace.is_some() && meta.namespace.as_deref() != key.namespace() {
        return Err(bad_request("the namespace of the provided object does not match the namespace sent on the request"));
    }
    Ok(())
}

/// Resets the fields that an update must not change and reports those that it must not even try to change (K §1.1, §1.2). `deadline`:
/// whether it may not change the deadline of a deletion, either; a write of a pod's status may.
pub(super) fn restore_meta(meta: &mut ObjectMeta, stored: &ObjectMeta, deadline: bool, grace: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    normalise(meta);
    if deadline {
        match &stored.deletion_timestamp {
            // A terminating object stays terminating, whatever the body says.
            Some(_) if meta.deletion_grace_period_seconds.is_none() => {
                meta.deletion_grace_period_seconds = stored.deletion_grace_period_seconds;
            }
            None => {
                if let Some(Time(time)) = &meta.deletion_timestamp {
                    causes.push(immutable("metadata.deletionTimestamp", format_args!("{:?}", time.to_string())));
                }
            }
            _ => {}
        }
    }
    if grace && meta.deletion_grace_period_seconds != stored.deletion_grace_period_seconds {
        let grace = meta.deletion_grace_period_seconds.map_or("null".to_owned(), |grace| grace.to_string());
        causes.push(immutable("metadata.deletionGracePeriodSeconds", format_args!("{grace}")));
    }
    // A PUT with another UID or name was refused before; a patch or a webhook can lead here.
    if meta.uid != stored.uid {
        if let Some(uid) = meta.uid.as_deref().filter(|uid| !uid.is_empty()) {
            causes.push(immutable("metadata.uid", format_args!("{uid:?}")));
        }
        meta.uid.clone_from(&stored.uid);
    }
    if meta.name != stored.name {
        let name = meta.name.as_deref().unwrap_or("");
        causes.push(field_invalid("metadata.name", format!("Invalid value: {name:?}: field is immutable")));
        meta.name.clone_from(&stored.name);
    }
    if meta.namespace != stored.namespace {
        meta.namespace.clone_from(&stored.namespace);
    }
    if meta.resource_version != stored.resource_version {
        meta.resource_version.clone_from(&stored.resource_version);
    }
    meta.creation_timestamp.clone_from(&stored.creation_timestamp);
    meta.deletion_timestamp.clone_from(&stored.deletion_timestamp);
    meta.deletion_grace_period_seconds = stored.deletion_grace_period_seconds;
    meta.generation = stored.generation;
    meta.self_link = None;
    if stored.deletion_timestamp.is_some() {
        let had = stored.finalizers.as_deref().unwrap_or_default();
        let added = meta.finalizers.iter().flatten().filter(|finalizer| !had.contains(finalizer));
        let added: std::collections::BTreeSet<String> = added.map(|finalizer| format!("{finalizer:?}")).collect();
        if !added.is_empty() {
            causes.push(Cause {
                reason: "FieldValueForbidden".into(),
                message: format!(
                    "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.into_iter().collect::<Vec<_>>().join(", ")
                )
                .into(),
                field: "metadata.finalizers".into(),
            });
        }
    }
    causes
}

fn immutable(field: &'static str, value: std::fmt::Arguments<'_>) -> Cause {
    field_invalid(field, format!("Invalid value: {value}: field is immutable"))
}
