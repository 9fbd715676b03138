//! Updates of the object, of its status, and of a pod's node (K §2.7, §2.8).

use jiff::Timestamp;
use kube_machinery::api::{Reason, Subresource};
use kube_machinery::{ObjectKey, Status};

use super::apply::ignore_times;
use super::metadata::{check_key, checked_version, precondition_failed, restore_meta};
use super::validate::validate_meta;
use super::{Answer, Step, check_body_size, field_invalid, invalid, is_held, modified, no_subresource, not_found, size_of, whole_seconds};
use crate::cluster::Knobs;
use crate::kinds::TypeDef;
use crate::object::{Obj, make_mut, resource_version};

/// Makes the checks of an update that precede mutating admission: existence and UID (K §2.7 steps 1 to 3). `Ok(true)` = the object exists;
/// `Ok(false)` = the update creates it.
pub(crate) fn load_update(def: &TypeDef, knobs: &Knobs, key: &ObjectKey, body: &Obj, current: Option<&Obj>) -> Answer<bool> {
    check_body_size(size_of(def, body))?;
    let meta = body.meta();
    check_key(key, meta)?;
    let uid = meta.uid.as_deref().filter(|uid| !uid.is_empty());
    let uid_mismatch = |stored: &str| precondition_failed(def, key, "UID", uid.unwrap_or(""), stored);
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

/// Makes the checks from the resourceVersion check to the decision (K §2.7 steps 5 to 9).
pub(crate) fn prepare_update(
    def: &TypeDef,
    key: &ObjectKey,
    mut body: Obj,
    subresource: Option<Subresource>,
    current: &Obj,
) -> Answer<Step> {
    let stored = current.meta();
    match checked_version(&body)? {
        None if def.unconditional_update => {}
        None => {
            let cause = field_invalid("metadata.resourceVersion", "Invalid value: 0: must be specified for an update");
            // Only this error gives the plural as the kind.
            return Err(Box::new(Status::about(Reason::Invalid, def.group, def.plural, key, "").cause(cause)));
        }
        Some(version) if version != resource_version(&**current) => return Err(modified(def, key)),
        Some(_) => {}
    }
    if subresource == Some(Subresource::Status) {
        body = status_body(def, &body, current);
    }
    // The deadline is not changed, but the attempt counts as a write (K009), for its new manager. If managers are kept, they decide.
    let moves_deadline = subresource.is_none()
        && stored.managed_fields.is_none()
        && stored.deletion_timestamp.is_some()
        && body.meta().deletion_timestamp.as_ref().is_some_and(|asked| Some(asked) != stored.deletion_timestamp.as_ref());
    let object = make_mut(&mut body);
    let main = subresource.is_none();
    let of_status = subresource == Some(Subresource::Status);
    let mut of_change = restore_meta(object.meta_mut(), stored, !of_status, !of_status || def.graceful);
    if main {
        (def.fill_defaults)(object);
        (def.keep)(object, &**current);
    }
    if def.has_status && !of_status {
        (def.copy_status)(object, &**current);
    }
    let spec_differs = !of_status && def.has_generation && (def.spec_differs)(object, &**current);
    if spec_differs {
        let meta = object.meta_mut();
        meta.generation = Some(meta.generation.unwrap_or(0).saturating_add(1));
    }
    let mut causes = validate_meta(def.custom, object.meta());
    if def.custom {
        // For custom resources, the schema repeats rules that every update is checked for.
        of_change.extend_from_within(..);
    }
    causes.extend(of_change);
    causes.extend((def.validate)(object));
    causes.extend(if of_status { (def.validate_status_update)(object, &**current) } else { (def.validate_update)(object, &**current) });
    if !causes.is_empty() {
        return Err(invalid(def, key, causes));
    }
    let terminating_without_grace = stored.deletion_timestamp.is_some() && stored.deletion_grace_period_seconds.unwrap_or(0) == 0;
    if terminating_without_grace && !is_held(def, &body) {
        return Ok(Step::Remove { answer: Some(body) });
    }
    ignore_times(&mut body, current);
    // An update of the status mostly differs in it.
    let differs = of_status && (def.status_differs)(&*body, &**current);
    if !differs && body.same(&**current) && !moves_deadline { Ok(Step::Keep(current.clone())) } else { Ok(Step::Put(body)) }
}

/// Binds a pod: it is bound only once, and not while it is being deleted (K126). Without a version the server retries until the binding
/// applies to the present state.
pub(crate) fn prepare_binding(def: &TypeDef, key: &ObjectKey, body: &Obj, current: &Obj, now: Timestamp) -> Answer<Step> {
    let stored = resource_version(&**current);
    if let Some(version) = checked_version(body)?.filter(|version| *version != stored) {
        return Err(precondition_failed(def, key, "ResourceVersion", version, stored));
    }
    let mut bound = current.deep_copy();
    match (def.bind)(make_mut(&mut bound), &**body, whole_seconds(now)) {
        Some(Ok(())) => Ok(Step::Put(bound)),
        Some(Err(text)) => Err(Box::new(Status::about(Reason::Conflict, def.group, "pods/binding", key, text))),
        None => Err(no_subresource()),
    }
}

/// The object stored by an update of `/status`: the stored object with the body's status; pods and other built-in types also keep labels,
/// annotations and finalizers of the body, custom resources do not (K078). The UID of a built-in type is checked, which makes it a
/// precondition of status patches (K088).
fn status_body(def: &TypeDef, body: &Obj, current: &Obj) -> Obj {
    /// Copies a value if it differs, as it rarely does.
    fn take<T: Clone + PartialEq>(own: &mut T, sent: &T) {
        if own != sent {
            own.clone_from(sent);
        }
    }
    let mut result = (def.with_status_of)(&**current, &**body);
    if current.meta().managed_fields != body.meta().managed_fields {
        make_mut(&mut result).meta_mut().managed_fields.clone_from(&body.meta().managed_fields);
    }
    if !def.custom {
        let (meta, sent) = (make_mut(&mut result).meta_mut(), body.meta());
        take(&mut meta.labels, &sent.labels);
        take(&mut meta.annotations, &sent.annotations);
        take(&mut meta.finalizers, &sent.finalizers);
        take(&mut meta.uid, &sent.uid);
        if sent.deletion_grace_period_seconds.is_some() {
            meta.deletion_grace_period_seconds = sent.deletion_grace_period_seconds;
        }
    }
    result
}
