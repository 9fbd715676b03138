//! Creates (K §2.6).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_machinery::api::{Cause, Reason};
use kube_machinery::{ObjectKey, Status};
use sim_config::draw::Draw;

use super::metadata::{named_version, normalise};
use super::validate::{validate_meta, validate_name};
use super::{Answer, bad_request, check_body_size, check_etcd_size, invalid, size_of, whole_seconds};
use crate::cluster::Knobs;
use crate::kinds::TypeDef;
use crate::object::{Obj, make_mut};

/// The longest name of a generated object before its suffix (K064).
const GENERATE_BASE_MAX: usize = 58;
/// The characters of a generated suffix (K §2.6).
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The number of generated names that the server tries (KEP-4420).
const GENERATE_ATTEMPTS: usize = 8;

/// The key under which a create is stored; unset while the name is yet to be generated.
fn create_key(def: &TypeDef, namespace: Option<&str>, body: &ObjectMeta) -> Answer<Option<ObjectKey>> {
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

/// Makes the checks of a create that precede mutating admission. Drops the fields that only the server sets.
pub(crate) fn load_create(def: &TypeDef, namespace: Option<&str>, body: &mut Obj) -> Answer<()> {
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

/// Sets what the server owns, applies the type's defaults and validates (K §2.6). `exists` returns whether a key is taken.
pub(crate) fn prepare_create(
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
    if def.has_generation {
        meta.generation = Some(1);
    } else if !def.keeps_generation {
        meta.generation = None;
    }
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
    (def.fill_defaults)(object);
    (def.on_create)(object);
    let mut causes = validate_name(def.kind, &key, object.meta());
    causes.extend(validate_meta(def.custom, object.meta()));
    causes.extend((def.validate)(object));
    if !causes.is_empty() {
        return Err(invalid(def, &key, causes));
    }
    Ok(key)
}

/// Completes an object that is in the store from the beginning and returns its key.
pub(crate) fn preload(def: &TypeDef, object: &mut Obj, now: Timestamp, names: &mut Draw) -> ObjectKey {
    let fresh = object.meta().uid.is_none();
    let target = make_mut(object);
    (def.fill_defaults)(target);
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
pub(crate) fn finish_create(def: &TypeDef, key: &ObjectKey, existing: Option<&Obj>, body: &Obj) -> Answer<()> {
    // Only a number above 0 counts: anything else is ignored (K062).
    if named_version(body).is_some_and(|version| version.parse::<u64>().is_ok()) {
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

/// Replaces the end of the UID of an object to be created.
pub(crate) fn end_uid(object: &mut Obj, end: &str) {
    if let Some(uid) = &mut make_mut(object).meta_mut().uid {
        uid.truncate(uid.len().saturating_sub(end.len()));
        uid.push_str(end);
    }
}

/// A random UUID (version 4).
fn new_uid(names: &mut Draw) -> String {
    let (high, low) = (names.u64() & !0xf000 | 0x4000, names.u64() & !(0b11 << 62) | 0b10 << 62);
    uuid_text(high, low)
}

/// A UUID as its text. Formatting five numbers costs three times as much, and every create that is tried makes one.
fn uuid_text(high: u64, low: u64) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = Vec::with_capacity(36);
    for (at, byte) in high.to_be_bytes().into_iter().chain(low.to_be_bytes()).enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push(b'-');
        }
        text.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    String::from_utf8(text).unwrap_or_else(|_| unreachable!("digits are ASCII"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_in_five_groups_of_digits() {
        assert_eq!(uuid_text(0x0123_4567_89ab_4def, 0x8123_0000_00ff_cdef), "01234567-89ab-4def-8123-000000ffcdef");
        assert_eq!(uuid_text(0, 0), "00000000-0000-0000-0000-000000000000");
    }
}
