//! The rules of metadata that hold for every type (K §1.1, §1.2): what is kept, what may not change, what is valid.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::ObjectKey;
use kube_machinery::api::Cause;

use super::{Answer, bad_request, field_invalid};
use crate::kinds::TypeDef;
use crate::kinds::naming::name_fault;
use crate::object::{Obj, resource_version};

/// Keys and values of all annotations together.
pub(super) fn annotations_size(meta: &ObjectMeta) -> usize {
    meta.annotations.iter().flatten().map(|(key, value)| key.len() + value.len()).sum()
}

/// The version that a body names; 0 counts as none (K §1.1).
pub(super) fn named_version(object: &Obj) -> Option<&str> {
    Some(resource_version(&**object)).filter(|version| !matches!(*version, "" | "0"))
}

/// What the wire format does not tell from an absent value.
pub(super) fn normalise(meta: &mut ObjectMeta) {
    meta.labels.take_if(|labels| labels.is_empty());
    meta.annotations.take_if(|annotations| annotations.is_empty());
    meta.finalizers.take_if(|finalizers| finalizers.is_empty());
    meta.owner_references.take_if(|owners| owners.is_empty());
}

/// Name and namespace of a body must be those of the URL (K015).
pub(super) fn check_key(key: &ObjectKey, meta: &ObjectMeta) -> Answer<()> {
    if meta.name.as_deref() != Some(key.name()) {
        return Err(bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            meta.name.as_deref().unwrap_or(""),
            key.name()
        )));
    }
    if meta.namespace.is_some() && meta.namespace.as_deref() != key.namespace() {
        return Err(bad_request(format!(
            "the namespace of the object ({}) does not match the namespace on the request ({})",
            meta.namespace.as_deref().unwrap_or(""),
            key.namespace().unwrap_or("")
        )));
    }
    Ok(())
}

/// Puts back what an update must not change and reports what it must not try (K §1.1, §1.2).
pub(super) fn restore_meta(meta: &mut ObjectMeta, stored: &ObjectMeta, main: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    normalise(meta);
    if main {
        match &stored.deletion_timestamp {
            // A terminating object stays terminating, whatever the body says.
            Some(_) if meta.deletion_grace_period_seconds.is_none() => {
                meta.deletion_grace_period_seconds = stored.deletion_grace_period_seconds;
            }
            None if meta.deletion_timestamp.is_some() => {
                causes.push(field_invalid("metadata.deletionTimestamp", "Invalid value: field is immutable"));
            }
            _ => {}
        }
        if meta.deletion_grace_period_seconds != stored.deletion_grace_period_seconds {
            causes.push(field_invalid("metadata.deletionGracePeriodSeconds", "Invalid value: field is immutable"));
        }
    }
    // A PUT with another UID or name was refused before; a patch or a webhook can get here.
    if meta.uid != stored.uid {
        if let Some(uid) = meta.uid.as_deref().filter(|uid| !uid.is_empty()) {
            causes.push(field_invalid("metadata.uid", format!("Invalid value: {uid:?}: field is immutable")));
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
        let added: Vec<&str> = meta.finalizers.iter().flatten().filter(|finalizer| !had.contains(finalizer)).map(String::as_str).collect();
        if !added.is_empty() {
            causes.push(Cause {
                reason: "FieldValueForbidden".into(),
                message: format!(
                    "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
                )
                .into(),
                field: "metadata.finalizers".into(),
            });
        }
    }
    causes
}

/// Whether an object may be called so (K §1.1).
pub(super) fn validate_name(def: &TypeDef, key: &ObjectKey) -> Vec<Cause> {
    let name = key.name();
    let fault = name_fault(def.kind, name);
    fault.map(|form| field_invalid("metadata.name", format!("Invalid value: {name:?}: {form}"))).into_iter().collect()
}

/// Rules of metadata that hold for every type (K014, K016).
pub(super) fn validate_meta(meta: &ObjectMeta) -> Vec<Cause> {
    /// Keys and values of all annotations together.
    const ANNOTATIONS_MAX: usize = 256 << 10;
    let mut causes = Vec::new();
    if annotations_size(meta) > ANNOTATIONS_MAX {
        let message = format!("Too long: may not be more than {ANNOTATIONS_MAX} bytes");
        causes.push(Cause { reason: "FieldValueTooLong".into(), message: message.into(), field: "metadata.annotations".into() });
    }
    if meta.owner_references.iter().flatten().filter(|owner| owner.controller == Some(true)).count() > 1 {
        causes.push(field_invalid("metadata.ownerReferences", "Invalid value: Only one reference can have Controller set to true"));
    }
    let both = ["orphan", "foregroundDeletion"];
    if both.iter().all(|name| meta.finalizers.iter().flatten().any(|finalizer| finalizer == name)) {
        causes.push(field_invalid("metadata.finalizers", "Invalid value: finalizer orphan and foregroundDeletion cannot be both set"));
    }
    causes
}
