//! The objects of the server, and what it makes of a request: the rules of K §2 that Spiderpool's programs meet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipam_spiderpool::names;
use kube_machinery::api::{
    ApiError, Call, Cause, DeleteOptions, List, Object, ObjectKey, Patch, PatchKind, Reason, Reply, Status, Subresource,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

#[derive(Default)]
pub(super) struct Db {
    pub(super) objects: BTreeMap<(String, ObjectKey), Value>,
    pub(super) revision: u64,
    /// What has happened, and who watches.
    pub(super) history: Vec<Happened>,
    pub(super) watchers: Vec<mpsc::UnboundedSender<Happened>>,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(super) revision: u64,
    pub(super) kind: String,
    pub(super) what: What,
    pub(super) value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Added,
    Modified,
    Deleted,
}

/// What is refused when a body names a version that is not the stored one.
const MODIFIED: &str = "the object has been modified; please apply your changes to the latest version and try again";

/// Fields of metadata that no write of a client changes.
const KEPT: [&str; 6] = ["uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];

pub(super) fn kind<K: Object>() -> String {
    K::kind(&()).into_owned()
}

pub(super) fn read<K: Object>(value: &Value) -> K {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

pub(super) fn key_of(value: &Value) -> ObjectKey {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    match value["metadata"]["namespace"].as_str() {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(name),
    }
}

/// An error about an object, which most call by its resource and some by its Kind.
fn about<K: Object>(reason: Reason, key: &ObjectKey, text: impl Into<String>) -> Status {
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

fn is_custom<K: Object>() -> bool {
    K::group(&()) == names::GROUP
}

/// Whether `/status` is a resource of its own.
fn has_status<K: Object>() -> bool {
    !matches!(&*K::kind(&()), "ConfigMap" | "SpiderEndpoint" | "SpiderReservedIP")
}

fn has_generation<K: Object>() -> bool {
    !matches!(&*K::kind(&()), "ConfigMap" | "Namespace" | "Node")
}

fn finalizers(value: &Value) -> BTreeSet<&str> {
    value["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn is_terminating(value: &Value) -> bool {
    !value["metadata"]["deletionTimestamp"].is_null()
}

/// Takes a field of `from`, or takes it away if there is none.
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

/// The object as it is written: of metadata the wire does not tell what is empty from what is not there.
fn written<K: Object>(value: &Value) -> Value {
    let mut value = serde_json::to_value(read::<K>(value)).unwrap();
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(|map| map.is_empty());
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if is_empty(&value["metadata"][field]) {
            value["metadata"].as_object_mut().unwrap().remove(field);
        }
    }
    value
}

/// What an update of an object counts a generation for.
fn spec_of<K: Object>(value: &Value) -> Value {
    let mut value = written::<K>(value);
    let fields = value.as_object_mut().unwrap();
    fields.remove("metadata");
    if has_status::<K>() {
        fields.remove("status");
    }
    value
}

/// A PUT of another object is a conflict.
fn check_uid<K: Object>(key: &ObjectKey, before: &Value, body: &Value) -> Result<(), ApiError> {
    let (Some(asked), stored) = (body["metadata"]["uid"].as_str(), before["metadata"]["uid"].as_str().unwrap_or_default()) else {
        return Ok(());
    };
    if asked == stored {
        return Ok(());
    }
    let group = if is_custom::<K>() { format!("{}/", names::GROUP) } else { String::new() };
    let text = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: {asked}, UID in object meta: {stored}",
        K::plural(&())
    );
    Err(about::<K>(Reason::Conflict, key, text).into())
}

/// A body may name the version that it changes; that of a custom resource has to.
fn check_version<K: Object>(key: &ObjectKey, before: &Value, body: &Value) -> Result<(), ApiError> {
    let version = &body["metadata"]["resourceVersion"];
    if version.is_null() && is_custom::<K>() {
        let cause = cause("FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update");
        return Err(about::<K>(Reason::Invalid, key, "").cause(cause).into());
    }
    let is_right = version.is_null() || *version == before["metadata"]["resourceVersion"];
    if is_right { Ok(()) } else { Err(about::<K>(Reason::Conflict, key, MODIFIED).into()) }
}

/// A type without a status of its own has no such URL.
fn check_part<K: Object>(part: Option<Subresource>) -> Result<(), ApiError> {
    match part {
        None => Ok(()),
        Some(Subresource::Status) if has_status::<K>() => Ok(()),
        Some(Subresource::Status) => Err(Status::new(Reason::NotFound, "the server could not find the requested resource").into()),
        Some(Subresource::Binding | Subresource::Finalize) => unreachable!("nobody binds a pod or ends a namespace"),
    }
}

/// What a write must not try to change.
fn check_change<K: Object>(key: &ObjectKey, before: &Value, after: &Value) -> Result<(), ApiError> {
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
    if is_custom::<K>() {
        // A custom resource's rules look at it once more.
        causes.extend_from_within(..);
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(causes.into_iter().fold(about_kind::<K>(Reason::Invalid, key, ""), Status::cause).into())
}

impl Db {
    fn tell(&mut self, kind: &str, what: What, value: &Value) {
        let happened = Happened { revision: self.revision, kind: kind.to_owned(), what, value: value.clone() };
        self.watchers.retain(|watcher| watcher.send(happened.clone()).is_ok());
        self.history.push(happened);
    }

    /// Takes an object away.
    pub(super) fn remove(&mut self, kind: &str, key: &ObjectKey) {
        let Some(mut value) = self.objects.remove(&(kind.to_owned(), key.clone())) else { return };
        self.revision += 1;
        value["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.tell(kind, What::Deleted, &value);
    }

    /// Stores an object as it is; one that is marked for deletion and has no finalizer vanishes.
    pub(super) fn store(&mut self, kind: &str, key: &ObjectKey, mut value: Value) -> Value {
        let place = (kind.to_owned(), key.clone());
        let before = self.objects.get(&place);
        let what = if before.is_some() { What::Modified } else { What::Added };
        if let Some(before) = before {
            value["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
            if *before == value {
                return value;
            }
        }
        self.revision += 1;
        value["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        // The pods of tests stay until they are taken away.
        if is_terminating(&value) && finalizers(&value).is_empty() && kind != "Pod" {
            self.objects.remove(&place);
            self.tell(kind, What::Deleted, &value);
        } else {
            self.objects.insert(place, value.clone());
            self.tell(kind, what, &value);
        }
        value
    }

    fn stored<K: Object>(&self, key: &ObjectKey) -> Result<Value, ApiError> {
        let found = self.objects.get(&(kind::<K>(), key.clone())).cloned();
        found.ok_or_else(|| about::<K>(Reason::NotFound, key, "").into())
    }

    pub(super) fn serve<K: Object>(&mut self, call: &Call<K>) -> Result<Reply<K>, ApiError> {
        let kind = kind::<K>();
        let object = |value: &Value| Ok(Reply::Object(Arc::new(read(value))));
        match call {
            Call::Get { key, .. } => object(&self.stored::<K>(key)?),
            Call::List { namespace, options } => {
                assert!(options.field_selector.is_none(), "nobody selects by fields");
                let label = options.label_selector.as_ref().map(|selector| selector.split_once('=').expect("one label and its value"));
                let is_wanted = |key: &ObjectKey, value: &Value| {
                    namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
                        && label.is_none_or(|(label, wanted)| value["metadata"]["labels"][label] == json!(wanted))
                };
                let of_kind = self.objects.iter().filter(|((of, key), value)| *of == kind && is_wanted(key, value));
                let items = of_kind.map(|(_, value)| Arc::new(read(value))).collect();
                Ok(Reply::List(List { resource_version: self.revision.to_string(), items, continue_token: None, remaining: None }))
            }
            Call::Create { body, .. } => {
                let key = ObjectKey::of(&**body);
                if body.meta().resource_version.is_some() {
                    return Err(Status::new(Reason::Unknown, "resourceVersion should not be set on objects to be created").into());
                }
                if let Ok(existing) = self.stored::<K>(&key) {
                    let text = if is_terminating(&existing) { "object is being deleted: " } else { "" };
                    return Err(about::<K>(Reason::AlreadyExists, &key, text).into());
                }
                let mut value = written::<K>(&serde_json::to_value(&**body).unwrap());
                value["metadata"]["uid"] = json!(format!("uid-{}", self.revision + 1));
                if has_generation::<K>() {
                    value["metadata"]["generation"] = json!(1);
                }
                // What a new object is like is not for its creator to say.
                match &*kind {
                    "Pod" => value["status"] = json!({"phase": "Pending"}),
                    _ if has_status::<K>() => drop(value.as_object_mut().unwrap().remove("status")),
                    _ => {}
                }
                object(&self.store(&kind, &key, value))
            }
            Call::Update { key, body, subresource, .. } => {
                check_part::<K>(*subresource)?;
                let before = self.stored::<K>(key)?;
                let body = serde_json::to_value(&**body).unwrap();
                check_uid::<K>(key, &before, &body)?;
                check_version::<K>(key, &before, &body)?;
                object(&self.write::<K>(key, &before, body, *subresource)?)
            }
            Call::Patch { key, patch: Patch { kind: PatchKind::Merge, body, .. }, subresource, .. } => {
                check_part::<K>(*subresource)?;
                let before = self.stored::<K>(key)?;
                let mut value = before.clone();
                merge(&mut value, body);
                check_version::<K>(key, &before, &value)?;
                object(&self.write::<K>(key, &before, value, *subresource)?)
            }
            Call::Patch { .. } => unreachable!("a merge patch"),
            Call::Delete { key, options } => self.delete::<K>(key, options),
        }
    }

    /// Stores what a client makes of an object.
    fn write<K: Object>(&mut self, key: &ObjectKey, before: &Value, body: Value, part: Option<Subresource>) -> Result<Value, ApiError> {
        let mut value = if part.is_some() { before.clone() } else { body.clone() };
        if part.is_some() {
            take(&mut value, &body, "status");
            if !is_custom::<K>() {
                for field in ["uid", "labels", "annotations", "finalizers"] {
                    take(&mut value["metadata"], &body["metadata"], field);
                }
            }
        } else if has_status::<K>() {
            take(&mut value, before, "status");
        }
        check_change::<K>(key, before, &value)?;
        for field in KEPT {
            take(&mut value["metadata"], &before["metadata"], field);
        }
        if has_generation::<K>() && spec_of::<K>(&value) != spec_of::<K>(before) {
            value["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
        }
        let value = written::<K>(&value);
        // It is gone, and not changed first: who watches is told of what was stored, the writer of what would be.
        if is_terminating(&value) && finalizers(&value).is_empty() && kind::<K>() != "Pod" {
            self.remove(&kind::<K>(), key);
            return Ok(value);
        }
        Ok(if value == written::<K>(before) { before.clone() } else { self.store(&kind::<K>(), key, value) })
    }

    fn delete<K: Object>(&mut self, key: &ObjectKey, options: &DeleteOptions) -> Result<Reply<K>, ApiError> {
        assert_ne!(kind::<K>(), "Pod", "a pod ends as its test says");
        let mut value = self.stored::<K>(key)?;
        let DeleteOptions { preconditions, .. } = options;
        for (name, field, asked, why) in [
            ("UID", "uid", &preconditions.uid, "The object might have been deleted and then recreated"),
            ("ResourceVersion", "resourceVersion", &preconditions.resource_version, "The object might have been modified"),
        ] {
            let stored = value["metadata"][field].as_str().unwrap_or_default();
            if let Some(asked) = asked.as_deref().filter(|asked| *asked != stored) {
                let text = format!("the {name} in the precondition ({asked}) does not match the {name} in record ({stored}). {why}");
                return Err(about_kind::<K>(Reason::Conflict, key, text).into());
            }
        }
        if finalizers(&value).is_empty() {
            self.remove(&kind::<K>(), key);
            return Ok(Reply::Deleted { uid: value["metadata"]["uid"].as_str().unwrap_or_default().to_owned() });
        }
        if !is_terminating(&value) {
            value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            value["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            if let Some(generation) = value["metadata"]["generation"].as_i64() {
                value["metadata"]["generation"] = json!(generation + 1);
            }
            value = self.store(&kind::<K>(), key, value);
        }
        Ok(Reply::Object(Arc::new(read(&value))))
    }
}
