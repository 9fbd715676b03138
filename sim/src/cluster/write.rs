//! What an API server does with a write (K §1, §2.6 to §2.10), as functions from the stored state to a [`Step`].
//!
//! ```text
//!   load ─► (mutating webhooks) ─► prepare ─► (validating webhooks) ─► commit, if nothing changed since load
//! ```
//! Nothing here touches the store, the network or a clock: the caller passes state in and carries the step out.

use std::borrow::Cow;

use ipam_core::api::{Cause, DeleteOptions, Patch, PatchKind, Preconditions, Reason, Subresource};
use ipam_core::{ObjectKey, Status};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::{Knobs, later};
use crate::draw::Draw;
use crate::kinds::TypeDef;
use crate::object::{Obj, make_mut, resource_version};

/// The largest request body, in bytes; more is 413 (K §1.3).
const BODY_MAX: usize = 3 << 20;
/// The largest etcd transaction, in bytes (K §1.3).
const ETCD_REQUEST_MAX: usize = 3 << 19;
/// The longest name of a generated object before its suffix (K064).
const GENERATE_BASE_MAX: usize = 58;
/// What a generated suffix is made of (K §2.6).
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// How often the server tries another generated name (KEP-4420).
const GENERATE_ATTEMPTS: usize = 8;

/// What a write comes to.
#[derive(Debug)]
pub(super) enum Step {
    /// Store this object if the key is free.
    Create(Obj),
    /// Store this object.
    Put(Obj),
    /// Store this object, then remove it: the two phases of a pod's deletion without grace (K099).
    PutThenRemove(Obj),
    /// Remove the stored object; an update that did so answers with the body as sent (K080).
    Remove {
        /// The answer of an update; a delete answers with a Status.
        answer: Option<Obj>,
    },
    /// Nothing changes: 200 with the stored object, no revision, no event (K075).
    Keep(Obj),
}

/// Errors of this module are answers of the API server.
pub(super) type Answer<T> = Result<T, Box<Status>>;

fn invalid(def: &TypeDef, key: &ObjectKey, causes: Vec<Cause>) -> Box<Status> {
    let mut status = Status::about(Reason::Invalid, def.group, def.kind, key, "");
    status.details.causes = causes;
    Box::new(status)
}

fn field_invalid(field: &'static str, message: impl Into<Cow<'static, str>>) -> Cause {
    Cause { reason: "FieldValueInvalid".into(), message: message.into(), field: field.into() }
}

fn conflict(def: &TypeDef, key: &ObjectKey, text: impl Into<Cow<'static, str>>) -> Box<Status> {
    Box::new(Status::about(Reason::Conflict, def.group, def.plural, key, text))
}

/// 409: changed since it was read.
fn modified(def: &TypeDef, key: &ObjectKey) -> Box<Status> {
    conflict(def, key, "the object has been modified; please apply your changes to the latest version and try again")
}

/// 404.
pub(super) fn not_found(def: &TypeDef, key: &ObjectKey) -> Box<Status> {
    Box::new(Status::about(Reason::NotFound, def.group, def.plural, key, ""))
}

/// 400.
pub(super) fn bad_request(text: impl Into<Cow<'static, str>>) -> Box<Status> {
    Box::new(Status::new(Reason::BadRequest, text))
}

/// About how many bytes an object takes: the parts of its type that can grow, and its annotations.
fn size_of(def: &TypeDef, object: &Obj) -> usize {
    (def.size)(&**object) + annotations_size(object.meta())
}

/// Keys and values of all annotations together.
fn annotations_size(meta: &ObjectMeta) -> usize {
    meta.annotations.iter().flatten().map(|(key, value)| key.len() + value.len()).sum()
}

/// The size limit of request bodies, before anything else is looked at (K017).
fn check_body_size(size: usize) -> Answer<()> {
    if size > BODY_MAX {
        return Err(Box::new(Status::new(Reason::RequestEntityTooLarge, "Request entity too large: limit is 3145728")));
    }
    Ok(())
}

/// The size limit of etcd itself, after validation and admission.
pub(super) fn check_etcd_size(def: &TypeDef, object: &Obj) -> Answer<()> {
    if size_of(def, object) > ETCD_REQUEST_MAX {
        return Err(Box::new(Status::new(Reason::Unknown, "etcdserver: request is too large")));
    }
    Ok(())
}

/// The version that a body names; 0 counts as none (K §1.1).
fn named_version(object: &Obj) -> Option<&str> {
    Some(resource_version(&**object)).filter(|version| !matches!(*version, "" | "0"))
}

/// What the wire format does not tell from an absent value.
fn normalise(meta: &mut ObjectMeta) {
    meta.labels.take_if(|labels| labels.is_empty());
    meta.annotations.take_if(|annotations| annotations.is_empty());
    meta.finalizers.take_if(|finalizers| finalizers.is_empty());
    meta.owner_references.take_if(|owners| owners.is_empty());
}

// ---------------------------------------------------------------------------------------------------------------- create

/// The key under which a create is stored; unset while the name is yet to be generated.
pub(super) fn create_key(def: &TypeDef, namespace: Option<&str>, body: &ObjectMeta) -> Answer<Option<ObjectKey>> {
    if def.namespaced {
        let Some(namespace) = namespace else {
            return Err(bad_request(format!("an empty namespace may not be set during creation of {}", def.plural)));
        };
        if body.namespace.as_deref().is_some_and(|own| own != namespace) {
            return Err(bad_request("the namespace of the provided object does not match the namespace sent on the request"));
        }
        Ok(body.name.as_deref().filter(|name| !name.is_empty()).map(|name| ObjectKey::namespaced(namespace, name)))
    } else {
        if namespace.is_some() || body.namespace.is_some() {
            return Err(bad_request("namespace may not be set on a cluster-scoped object"));
        }
        Ok(body.name.as_deref().filter(|name| !name.is_empty()).map(ObjectKey::cluster))
    }
}

/// The checks of a create that come before mutating admission. Throws away what only the server sets.
pub(super) fn load_create(def: &TypeDef, namespace: Option<&str>, body: &mut Obj) -> Answer<()> {
    check_body_size(size_of(def, body))?;
    create_key(def, namespace, body.meta())?;
    let meta = make_mut(body).meta_mut();
    meta.uid = None;
    meta.creation_timestamp = None;
    meta.deletion_timestamp = None;
    meta.deletion_grace_period_seconds = None;
    meta.self_link = None;
    Ok(())
}

/// Sets what the server owns, applies the type's defaults and validates (K §2.6). `exists` tells whether a key is taken.
pub(super) fn prepare_create(
    def: &TypeDef,
    knobs: &Knobs,
    namespace: Option<&str>,
    body: &mut Obj,
    now: Timestamp,
    names: &mut Draw,
    exists: impl Fn(&ObjectKey) -> bool,
) -> Answer<ObjectKey> {
    let object = make_mut(body);
    let meta = object.meta_mut();
    meta.uid = Some(new_uid(names));
    meta.creation_timestamp = Some(Time(whole_seconds(now)));
    meta.generation = def.has_generation.then_some(1);
    normalise(meta);
    if let Some(namespace) = namespace {
        meta.namespace = Some(namespace.to_owned());
    }
    let key = match create_key(def, namespace, meta)? {
        Some(key) => key,
        None => {
            let base = meta.generate_name.clone().unwrap_or_default();
            if base.is_empty() {
                let cause = Cause {
                    reason: "FieldValueRequired".into(),
                    message: "Required value: name or generateName is required".into(),
                    field: "metadata.name".into(),
                };
                return Err(invalid(def, &ObjectKey::cluster(""), vec![cause]));
            }
            let key = generate_key(def, namespace, &base, knobs, names, &exists)?;
            meta.name = Some(key.name().to_owned());
            key
        }
    };
    if def.has_status && !def.keeps_status_on_create {
        (def.reset_status)(object);
    }
    (def.on_create)(object);
    let mut causes = validate_name(def, &key);
    causes.extend(validate_meta(object.meta()));
    causes.extend((def.validate)(object));
    if !causes.is_empty() {
        return Err(invalid(def, &key, causes));
    }
    Ok(key)
}

/// Completes an object that is in the store from the beginning and returns its key.
pub(super) fn preload(def: &TypeDef, object: &mut Obj, now: Timestamp, names: &mut Draw) -> ObjectKey {
    let fresh = object.meta().uid.is_none();
    let target = make_mut(object);
    if fresh {
        let meta = target.meta_mut();
        meta.uid = Some(new_uid(names));
        meta.creation_timestamp.get_or_insert(Time(whole_seconds(now)));
        if def.has_generation {
            meta.generation.get_or_insert(1);
        }
        (def.on_create)(target);
    }
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or("");
    if def.namespaced { ObjectKey::namespaced(meta.namespace.as_deref().unwrap_or("default"), name) } else { ObjectKey::cluster(name) }
}

/// The last checks of a create, after validating admission: it names no version and the key is free.
pub(super) fn finish_create(def: &TypeDef, key: &ObjectKey, existing: Option<&Obj>, body: &Obj) -> Answer<()> {
    if named_version(body).is_some() {
        return Err(Box::new(Status::new(Reason::Unknown, "resourceVersion should not be set on objects to be created")));
    }
    if let Some(existing) = existing {
        let text = if existing.meta().deletion_timestamp.is_some() { "object is being deleted: " } else { "" };
        return Err(Box::new(Status::about(Reason::AlreadyExists, def.group, def.plural, key, text)));
    }
    check_etcd_size(def, body)
}

fn generate_key(
    def: &TypeDef,
    namespace: Option<&str>,
    base: &str,
    knobs: &Knobs,
    names: &mut Draw,
    exists: &impl Fn(&ObjectKey) -> bool,
) -> Answer<ObjectKey> {
    let base: String = base.chars().take(GENERATE_BASE_MAX).collect();
    let attempts = if knobs.generate_name_retries { GENERATE_ATTEMPTS } else { 1 };
    let mut last = None;
    for _ in 0..attempts {
        let suffix: String = (0..5).map(|_| char::from(*names.pick(SUFFIX_ALPHABET))).collect();
        let name = format!("{base}{suffix}");
        let key = namespace.map_or_else(|| ObjectKey::cluster(&name), |namespace| ObjectKey::namespaced(namespace, &name));
        if !exists(&key) {
            return Ok(key);
        }
        last = Some(key);
    }
    let key = last.unwrap_or_else(|| unreachable!("at least one attempt"));
    let text = ", the server was not able to generate a unique name for the object";
    Err(Box::new(Status::about(Reason::AlreadyExists, def.group, def.plural, &key, text).retry_after(1)))
}

/// Gives the UID of an object that is about to be made another end.
pub(super) fn end_uid(object: &mut Obj, end: &str) {
    if let Some(uid) = &mut make_mut(object).meta_mut().uid {
        uid.truncate(uid.len().saturating_sub(end.len()));
        uid.push_str(end);
    }
}

/// A random UUID (version 4).
fn new_uid(names: &mut Draw) -> String {
    let (high, low) = (names.u64() & !0xf000 | 0x4000, names.u64() & !(0b11 << 62) | 0b10 << 62);
    format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48, low & 0xffff_ffff_ffff)
}

/// Cut to whole seconds, as the wire format has them.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

// ---------------------------------------------------------------------------------------------------------------- update

/// Name and namespace of a body must be those of the URL (K015).
fn check_key(key: &ObjectKey, meta: &ObjectMeta) -> Answer<()> {
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

/// The checks of an update that come before mutating admission: existence and UID (K §2.7 steps 1 to 3).
/// `Ok(true)` = the object exists; `Ok(false)` = the update creates it.
pub(super) fn load_update(def: &TypeDef, knobs: &Knobs, key: &ObjectKey, body: &Obj, current: Option<&Obj>) -> Answer<bool> {
    check_body_size(size_of(def, body))?;
    let meta = body.meta();
    check_key(key, meta)?;
    let uid = meta.uid.as_deref().filter(|uid| !uid.is_empty());
    let uid_mismatch = |stored: &str| {
        let uid = uid.unwrap_or("");
        conflict(def, key, format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}"))
    };
    match current {
        Some(current) => {
            let stored = current.meta().uid.as_deref().unwrap_or("");
            if uid.is_some_and(|uid| uid != stored) { Err(uid_mismatch(stored)) } else { Ok(true) }
        }
        None if def.create_on_update => {
            if uid.is_some() {
                Err(uid_mismatch(""))
            } else {
                Ok(false)
            }
        }
        None if uid.is_some() && knobs.missing_put_with_uid_conflicts => Err(uid_mismatch("")),
        None => Err(not_found(def, key)),
    }
}

/// The checks of a patch that need no stored state: its media type and its size.
///
/// Of the four media types of K §2.9 the simulated server knows two. Strategic merge and apply patches are 415 for
/// every type: for custom resources and strategic merge as on a real server, for the rest as one that lacks them.
pub(super) fn check_patch(patch: &Patch) -> Answer<()> {
    if matches!(patch.kind, PatchKind::Strategic | PatchKind::Apply) {
        let text = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
                    application/merge-patch+json";
        return Err(Box::new(Status::new(Reason::UnsupportedMediaType, text)));
    }
    check_body_size(json_size(&patch.body))
}

/// The length of a JSON text without blanks, without making it.
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

/// Applies a merge patch of metadata alone, which most are, without converting the rest of the object. `None` = it is another
/// patch, or its result is no metadata.
fn patch_metadata(patch: &Patch, current: &Obj) -> Option<Obj> {
    if patch.kind == PatchKind::Json {
        return None;
    }
    let body = patch.body.as_object().filter(|body| body.len() == 1)?;
    let change = body.get("metadata")?;
    let fields = change.as_object()?;
    let mut patched = current.deep_copy();
    let (meta, mut part) = (make_mut(&mut patched).meta_mut(), ObjectMeta::default());
    // Of most patches two fields are converted instead of all.
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

/// What swaps a field of metadata that patches often name.
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

/// Applies a patch to the current object (K §2.9). The result is then treated like the body of an update: it names the
/// current version unless the patch itself names another.
pub(super) fn apply_patch(def: &TypeDef, key: &ObjectKey, patch: &Patch, current: &Obj) -> Answer<Obj> {
    /// More operations than this are 413.
    const OPERATIONS_MAX: usize = 10_000;
    if let Some(patched) = patch_metadata(patch, current) {
        check_key(key, patched.meta())?;
        return Ok(patched);
    }
    let mut value = current.to_value();
    if patch.kind == PatchKind::Json {
        let operations: json_patch::Patch =
            serde::Deserialize::deserialize(&*patch.body).map_err(|error| bad_request(format!("error decoding patch: {error}")))?;
        if operations.len() > OPERATIONS_MAX {
            let text = format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}", operations.len());
            return Err(Box::new(Status::new(Reason::RequestEntityTooLarge, text)));
        }
        // The real server keeps to itself which operation failed, and why.
        json_patch::patch(&mut value, &operations)
            .map_err(|_| Box::new(Status::new(Reason::Invalid, "the server rejected our request due to an error in our request")))?;
    } else {
        if !patch.body.is_object() {
            return Err(bad_request("error decoding patch: a merge patch is a JSON object"));
        }
        json_patch::merge(&mut value, &patch.body);
    }
    let patched = (def.from_value)(value).map_err(|error| {
        let cause = field_invalid("patch", format!("Invalid value: {error}"));
        Box::new(Status::new(Reason::Invalid, format!(" \"\" is invalid: patch: {}", cause.message)).cause(cause))
    })?;
    check_key(key, patched.meta())?;
    Ok(patched)
}

/// From the RV check to the decision (K §2.7 steps 5 to 9).
pub(super) fn prepare_update(
    def: &TypeDef,
    key: &ObjectKey,
    mut body: Obj,
    subresource: Option<Subresource>,
    current: &Obj,
) -> Answer<Step> {
    let stored = current.meta();
    match named_version(&body) {
        None if def.unconditional_update => {}
        None => {
            let cause = field_invalid("metadata.resourceVersion", "Invalid value: 0: must be specified for an update");
            // This one error calls the plural a kind.
            return Err(Box::new(Status::about(Reason::Invalid, def.group, def.plural, key, "").cause(cause)));
        }
        Some(version) if version != resource_version(&**current) => return Err(modified(def, key)),
        Some(_) => {}
    }
    if subresource == Some(Subresource::Status) {
        body = status_body(def, &body, current);
    }
    let object = make_mut(&mut body);
    let mut causes = restore_meta(object.meta_mut(), stored, subresource.is_none());
    if def.has_status && subresource.is_none() {
        (def.copy_status)(object, &**current);
    }
    let spec_differs = def.has_generation && (def.spec_differs)(object, &**current);
    if spec_differs {
        let meta = object.meta_mut();
        meta.generation = Some(meta.generation.unwrap_or(0).saturating_add(1));
    }
    causes.extend(validate_meta(object.meta()));
    causes.extend((def.validate)(object));
    causes.extend((def.validate_update)(object, &**current));
    if !causes.is_empty() {
        return Err(invalid(def, key, causes));
    }
    let terminating_without_grace = stored.deletion_timestamp.is_some() && stored.deletion_grace_period_seconds.unwrap_or(0) == 0;
    if terminating_without_grace && !is_held(def, &body) {
        return Ok(Step::Remove { answer: Some(body) });
    }
    if body.same(&**current) { Ok(Step::Keep(current.clone())) } else { Ok(Step::Put(body)) }
}

/// The pod as a binding makes it: it is bound once, and not while it is being deleted (K126). Without a version the server tries again
/// until it holds for the present state.
pub(super) fn prepare_binding(def: &TypeDef, key: &ObjectKey, body: &Obj, current: &Obj, now: Timestamp) -> Answer<Step> {
    if named_version(body).is_some_and(|version| version != resource_version(&**current)) {
        return Err(modified(def, key));
    }
    let mut bound = current.deep_copy();
    match (def.bind)(make_mut(&mut bound), &**body, whole_seconds(now)) {
        Some(Ok(())) => Ok(Step::Put(bound)),
        Some(Err(text)) => Err(Box::new(Status::about(Reason::Conflict, def.group, "pods/binding", key, text))),
        None => Err(no_subresource()),
    }
}

/// 404 for a path that the type does not have.
pub(super) fn no_subresource() -> Box<Status> {
    Box::new(Status::new(Reason::NotFound, "the server could not find the requested resource"))
}

/// What an update of `/status` stores: the stored object with the body's status; pods and other built-in types also
/// keep labels, annotations and finalizers of the body, custom resources do not (K078). The UID of a built-in type is
/// looked at, which makes it a precondition of status patches (K088).
fn status_body(def: &TypeDef, body: &Obj, current: &Obj) -> Obj {
    /// Most bodies say what is there already.
    fn take<T: Clone + PartialEq>(own: &mut T, sent: &T) {
        if own != sent {
            own.clone_from(sent);
        }
    }
    let mut result = (def.with_status_of)(&**current, &**body);
    if !def.custom {
        let (meta, sent) = (make_mut(&mut result).meta_mut(), body.meta());
        take(&mut meta.labels, &sent.labels);
        take(&mut meta.annotations, &sent.annotations);
        take(&mut meta.finalizers, &sent.finalizers);
        take(&mut meta.uid, &sent.uid);
    }
    result
}

/// Puts back what an update must not change and reports what it must not try (K §1.1, §1.2).
fn restore_meta(meta: &mut ObjectMeta, stored: &ObjectMeta, main: bool) -> Vec<Cause> {
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

/// Whether something keeps a terminating object from being removed.
fn is_held(def: &TypeDef, object: &Obj) -> bool {
    object.meta().finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty()) || (def.is_held)(&**object)
}

// ---------------------------------------------------------------------------------------------------------------- delete

/// The checks of a delete that come before admission (K094).
pub(super) fn check_preconditions(def: &TypeDef, key: &ObjectKey, preconditions: &Preconditions, current: &Obj) -> Answer<()> {
    let meta = current.meta();
    if let Some(uid) = &preconditions.uid {
        let stored = meta.uid.as_deref().unwrap_or("");
        if uid != stored {
            let text = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({stored}). The object might have been deleted and then recreated"
            );
            return Err(conflict(def, key, text));
        }
    }
    if let Some(version) = &preconditions.resource_version {
        let stored = resource_version(&**current);
        if version != stored {
            let text = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({stored}). The object might have been modified"
            );
            return Err(conflict(def, key, text));
        }
    }
    Ok(())
}

/// What a delete comes to (K §2.10).
pub(super) fn prepare_delete(def: &TypeDef, options: &DeleteOptions, current: &Obj, now: Timestamp) -> Step {
    if def.graceful { graceful_delete(def, options, current, now) } else { plain_delete(def, current, now) }
}

/// A delete of a type without grace.
fn plain_delete(def: &TypeDef, current: &Obj, now: Timestamp) -> Step {
    if !is_held(def, current) {
        return Step::Remove { answer: None };
    }
    if current.meta().deletion_timestamp.is_some() {
        return Step::Keep(current.clone());
    }
    Step::Put(terminating(def, current, now, 0))
}

/// A delete of a pod.
fn graceful_delete(def: &TypeDef, options: &DeleteOptions, current: &Obj, now: Timestamp) -> Step {
    let meta = current.meta();
    let asked = options.grace_period_seconds.map(|grace| if grace < 0 { 1 } else { grace });
    let held = is_held(def, current);
    let without_grace = |object: Obj| if held { Step::Put(object) } else { Step::PutThenRemove(object) };
    let Some(Time(deadline)) = meta.deletion_timestamp else {
        let at_once = (def.deletes_at_once)(&**current);
        let grace = if at_once { 0 } else { asked.unwrap_or_else(|| (def.default_grace_seconds)(&**current)) };
        let object = terminating(def, current, now, grace);
        return if grace == 0 { without_grace(object) } else { Step::Put(object) };
    };
    let recorded = meta.deletion_grace_period_seconds.unwrap_or(0);
    if recorded == 0 {
        // An earlier delete got no further than its first phase (K102), or finalizers hold the pod.
        return if held { Step::Keep(current.clone()) } else { Step::Remove { answer: None } };
    }
    // Only a shorter grace counts now, and only one that was asked for: the phase no longer matters.
    let Some(mut grace) = asked.filter(|&grace| grace < recorded) else {
        return Step::Keep(current.clone());
    };
    // The new deadline counts from the original request, but does not lie in the past.
    let mut until = later(deadline, jiff::SignedDuration::from_secs(grace - recorded));
    let now = whole_seconds(now);
    if until < now {
        until = now;
        grace = grace.min(1);
    }
    let mut object = current.deep_copy();
    let meta = make_mut(&mut object).meta_mut();
    meta.deletion_timestamp = Some(Time(until));
    meta.deletion_grace_period_seconds = Some(grace);
    if grace == 0 { without_grace(object) } else { Step::Put(object) }
}

/// The object with its deletion begun (K011, K096, K097).
fn terminating(def: &TypeDef, current: &Obj, now: Timestamp, grace: i64) -> Obj {
    let mut object = current.deep_copy();
    let target = make_mut(&mut object);
    (def.on_deletion)(target);
    let meta = target.meta_mut();
    meta.deletion_timestamp = Some(Time(whole_seconds(later(now, jiff::SignedDuration::from_secs(grace)))));
    meta.deletion_grace_period_seconds = Some(grace);
    if let Some(generation) = meta.generation.filter(|&generation| generation > 0) {
        meta.generation = Some(generation.saturating_add(1));
    }
    object
}

// ------------------------------------------------------------------------------------------------------------ validation

/// Names are DNS subdomains, namespaces DNS labels (K §1.1).
fn validate_name(def: &TypeDef, key: &ObjectKey) -> Vec<Cause> {
    let name = key.name();
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |part: &str| part.starts_with(edge) && part.ends_with(edge) && part.chars().all(|c| edge(c) || c == '-');
    let (right, form) = if def.kind == "Namespace" {
        let form = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
                    alphanumeric character, and be no more than 63 characters";
        (name.len() <= 63 && is_label(name), form)
    } else {
        let form = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end \
                    with an alphanumeric character, and be no more than 253 characters";
        (name.len() <= 253 && name.split('.').all(is_label), form)
    };
    if right { Vec::new() } else { vec![field_invalid("metadata.name", format!("Invalid value: {name:?}: {form}"))] }
}

/// Rules of metadata that hold for every type (K014, K016).
fn validate_meta(meta: &ObjectMeta) -> Vec<Cause> {
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
