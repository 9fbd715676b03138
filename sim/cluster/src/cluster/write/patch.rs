//! Patches: their result is the body of an update (K §2.9).

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::api::{Cause, Patch, PatchKind, Reason};
use kube_machinery::{ObjectKey, Status};
use serde_json::Value;

use super::metadata::check_key;
use super::{Answer, bad_request, check_body_size, field_invalid, strategic};
use crate::kinds::TypeDef;
use crate::object::{Obj, make_mut};

/// Makes the checks of a patch that need no stored state: its options, its media type and its size. Strategic merge patches of custom
/// resources are 415.
pub(crate) fn check_patch(def: &TypeDef, patch: &Patch) -> Answer<()> {
    check_options(patch)?;
    if patch.kind == PatchKind::Strategic && def.custom {
        let text = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
                    application/merge-patch+json, application/apply-patch+yaml";
        return Err(Box::new(Status::new(Reason::UnsupportedMediaType, text)));
    }
    check_body_size(json_size(&patch.body))
}

/// Checks that an apply names its manager, and that no other patch is forced (K092).
fn check_options(patch: &Patch) -> Answer<()> {
    let refused = |reason: &'static str, field: &'static str, message: &'static str| {
        let mut status = Status::new(Reason::Invalid, "");
        status.details.kind = "PatchOptions".into();
        status.details.group = "meta.k8s.io".into();
        Err(Box::new(status.cause(Cause { reason: reason.into(), message: message.into(), field: field.into() })))
    };
    /// The longest name of a manager, in bytes.
    const MANAGER_MAX: usize = 128;
    if patch.manager.as_ref().is_some_and(|manager| manager.len() > MANAGER_MAX) {
        return refused("FieldValueTooLong", "fieldManager", "Too long: may not be more than 128 bytes");
    }
    match patch.kind {
        PatchKind::Apply if patch.manager.as_deref().is_none_or(str::is_empty) => {
            refused("FieldValueRequired", "fieldManager", "Required value: is required for apply patch")
        }
        PatchKind::Apply => Ok(()),
        _ if patch.force => refused("FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch"),
        _ => Ok(()),
    }
}

/// The length of a JSON text without whitespace, without building the text.
fn json_size(value: &serde_json::Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).unwrap_or_else(|_| unreachable!("counting does not fail"));
    count.0
}

/// Applies a merge patch of metadata alone, as most are, without converting the rest of the object. `None` = it is another patch, or its
/// result is not valid metadata.
fn patch_metadata(patch: &Patch, current: &Obj) -> Option<Obj> {
    if patch.kind != PatchKind::Merge {
        return None;
    }
    let body = patch.body.as_object().filter(|body| body.len() == 1)?;
    let change = body.get("metadata")?;
    let fields = change.as_object()?;
    let mut patched = current.deep_copy();
    let (meta, mut part) = (make_mut(&mut patched).meta_mut(), ObjectMeta::default());
    // Most patches need no merging. What is set before that turns out is merged once more, with the same result.
    if fields.iter().all(|(name, value)| set_plainly(meta, name, value).is_some()) {
        return Some(patched);
    }
    // For most patches two fields are converted instead of all.
    let usual = fields.keys().all(|name| usual_field(name).is_some());
    let swap = |meta: &mut ObjectMeta, part: &mut ObjectMeta| {
        if usual {
            fields.keys().filter_map(|name| usual_field(name)).for_each(|swap| swap(meta, part));
        } else {
            std::mem::swap(meta, part);
        }
    };
    swap(meta, &mut part);
    let mut value = serde_json::to_value(&part).ok()?;
    json_patch::merge(&mut value, change);
    part = serde_json::from_value(value).ok()?;
    swap(meta, &mut part);
    Some(patched)
}

/// Sets a field of metadata to a value that replaces the present one as it is. `None` = the value has to be merged or converted, or is of
/// another type.
fn set_plainly(meta: &mut ObjectMeta, name: &str, value: &Value) -> Option<()> {
    let text = || match value {
        Value::Null => Some(None),
        Value::String(text) => Some(Some(text.clone())),
        _ => None,
    };
    let texts = || match value {
        Value::Null => Some(None),
        Value::Array(all) => all.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<_>>().map(Some),
        _ => None,
    };
    match name {
        "finalizers" => meta.finalizers = texts()?,
        "resourceVersion" => meta.resource_version = text()?,
        "uid" => meta.uid = text()?,
        _ => return None,
    }
    Some(())
}

/// The function that swaps a field of metadata that patches often name.
fn usual_field(name: &str) -> Option<fn(&mut ObjectMeta, &mut ObjectMeta)> {
    use std::mem::swap;
    Some(match name {
        "finalizers" => |a, b| swap(&mut a.finalizers, &mut b.finalizers),
        "labels" => |a, b| swap(&mut a.labels, &mut b.labels),
        "annotations" => |a, b| swap(&mut a.annotations, &mut b.annotations),
        "ownerReferences" => |a, b| swap(&mut a.owner_references, &mut b.owner_references),
        "resourceVersion" => |a, b| swap(&mut a.resource_version, &mut b.resource_version),
        "uid" => |a, b| swap(&mut a.uid, &mut b.uid),
        _ => return None,
    })
}

/// 422 for a patch that does not fit: the real server does not say which operation failed, and why (K090).
fn rejected() -> Box<Status> {
    Box::new(Status::new(Reason::Invalid, "the server rejected our request due to an error in our request"))
}

/// Applies one operation of a JSON patch, with the real server's extensions of the standard: `replace` adds a missing member, `test` of a
/// missing member succeeds for null, and a negative index of a list counts from its end (K089).
fn apply_operation(value: &mut Value, operation: PatchOperation) -> Result<(), ()> {
    let absent = |value: &Value, path: &PointerBuf| {
        let parent = path.parent().and_then(|parent| parent.resolve(value).ok());
        parent.is_some_and(Value::is_object) && path.resolve(value).is_err()
    };
    let from_end = |value: &Value, path: PointerBuf| -> PointerBuf {
        let length = path.parent().and_then(|parent| parent.resolve(value).ok()).and_then(Value::as_array).map(Vec::len);
        let back = path.back().and_then(|token| token.decoded().strip_prefix('-')?.parse::<usize>().ok());
        match (length, back, path.parent()) {
            (Some(length), Some(back), Some(parent)) if (1..=length).contains(&back) => {
                let mut path = parent.to_buf();
                path.push_back(length - back);
                path
            }
            _ => path,
        }
    };
    let operation = match operation {
        PatchOperation::Replace(ReplaceOperation { path, value: new }) if absent(value, &path) => {
            PatchOperation::Add(AddOperation { path, value: new })
        }
        PatchOperation::Test(TestOperation { path, value: Value::Null }) if absent(value, &path) => return Ok(()),
        PatchOperation::Remove(RemoveOperation { path }) => PatchOperation::Remove(RemoveOperation { path: from_end(value, path) }),
        other => other,
    };
    json_patch::patch(value, &[operation]).map_err(drop)
}

/// Applies a patch to the current object (K §2.9). The result is then treated like the body of an update: it names the
/// current version unless the patch itself names another.
pub(crate) fn apply_patch(def: &TypeDef, key: &ObjectKey, patch: &Patch, current: &Obj) -> Answer<Obj> {
    /// The most operations of a patch; more are 413.
    const OPERATIONS_MAX: usize = 10_000;
    if let Some(patched) = patch_metadata(patch, current) {
        check_key(key, patched.meta())?;
        return Ok(patched);
    }
    let mut value = current.to_value();
    if patch.kind == PatchKind::Json {
        if !patch.body.is_array() {
            return Err(bad_request("error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"));
        }
        let operations: json_patch::Patch = serde::Deserialize::deserialize(&*patch.body).map_err(|_| rejected())?;
        if operations.len() > OPERATIONS_MAX {
            let text = format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}", operations.len());
            return Err(Box::new(Status::new(Reason::RequestEntityTooLarge, text)));
        }
        for operation in operations.0 {
            apply_operation(&mut value, operation).map_err(|()| rejected())?;
        }
    } else if patch.kind == PatchKind::Strategic {
        strategic::merge(&mut value, &patch.body)?;
    } else {
        if !patch.body.is_object() {
            return Err(bad_request("error decoding patch: a merge patch is a JSON object"));
        }
        json_patch::merge(&mut value, &patch.body);
    }
    let patched = (def.decode_like)(value, &**current).map_err(|error| {
        let cause = field_invalid("patch", format!("Invalid value: {error}"));
        Box::new(Status::new(Reason::Invalid, format!(" \"\" is invalid: patch: {}", cause.message)).cause(cause))
    })?;
    check_key(key, patched.meta())?;
    Ok(patched)
}
