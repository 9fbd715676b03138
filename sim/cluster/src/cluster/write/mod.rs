//! The handling of writes by an API server (K §1, §2.6 to §2.10), as functions from the stored state to a [`Step`].
//!
//! ```text
//!   load ─► (mutating webhooks) ─► prepare ─► (validating webhooks) ─► commit, if nothing changed since load
//! ```
//! Nothing here accesses the store, the network or a clock: the caller passes the state in and carries the step out.

mod apply;
mod create;
mod delete;
mod metadata;
mod patch;
mod propagation;
mod strategic;
mod update;
mod validate;

use std::borrow::Cow;

use jiff::Timestamp;
use kube_machinery::api::{Cause, Reason};
use kube_machinery::json_text::escaped_len;
use kube_machinery::{ObjectKey, Status};
use metadata::annotations_size;

use crate::kinds::TypeDef;
use crate::managed_fields;
use crate::object::Obj;

pub(super) use apply::{Complete, Writer, apply, completed, fitting, track};
pub(super) use create::{end_uid, finish_create, load_create, preload, prepare_create};
pub(super) use delete::{check_preconditions, prepare_delete};
pub(super) use patch::{apply_patch, check_patch};
pub(super) use update::{load_update, prepare_binding, prepare_update};

/// The largest request body, in bytes; more is 413 (K §1.3).
const BODY_MAX: usize = 3 << 20;
/// The largest etcd transaction, in bytes (K §1.3).
const ETCD_REQUEST_MAX: usize = 3 << 19;
/// The largest message that the client of etcd sends, in bytes.
const ETCD_MESSAGE_MAX: usize = 2 << 20;

/// The outcome of a write.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Store this object if the key is free.
    Create(Obj),
    /// Store this object in place of the one that was loaded.
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

impl Step {
    /// Whether etcd is asked to store something.
    pub(super) fn stores(&self) -> bool {
        matches!(self, Step::Create(_) | Step::Put(_) | Step::PutThenRemove(_))
    }
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

/// 404 NotFound: there is no object called `key`.
pub(super) fn not_found(def: &TypeDef, key: &ObjectKey) -> Box<Status> {
    Box::new(Status::about(Reason::NotFound, def.group, def.plural, key, ""))
}

/// 400 BadRequest, with `text` as its message.
pub(super) fn bad_request(text: impl Into<Cow<'static, str>>) -> Box<Status> {
    Box::new(Status::new(Reason::BadRequest, text))
}

/// The approximate size of an object in bytes: the parts of its type that can grow, its annotations, and its field managers. Custom
/// resources are stored as JSON, other types as protobuf, in which the size of a text is its length.
pub(super) fn size_of(def: &TypeDef, object: &Obj) -> usize {
    let annotations = if def.custom {
        let text = |text: &String| escaped_len(text.as_bytes());
        object.meta().annotations.iter().flatten().map(|(key, value)| text(key) + text(value)).sum()
    } else {
        annotations_size(object.meta())
    };
    let managers = object.meta().managed_fields.as_ref().map_or(0, |entries| managed_fields::size(entries));
    (def.size)(&**object) + annotations + managers
}

/// Checks the size limit of request bodies, before any other check (K017).
fn check_body_size(size: usize) -> Answer<()> {
    if size > BODY_MAX {
        return Err(Box::new(Status::new(Reason::RequestEntityTooLarge, "Request entity too large: limit is 3145728")));
    }
    Ok(())
}

/// Checks the size limit of etcd itself, after validation and admission.
pub(super) fn check_etcd_size(def: &TypeDef, object: &Obj) -> Answer<()> {
    let size = size_of(def, object);
    if size > ETCD_MESSAGE_MAX {
        let text =
            format!("rpc error: code = ResourceExhausted desc = trying to send message larger than max ({size} vs. {ETCD_MESSAGE_MAX})");
        return Err(Box::new(Status::new(Reason::Unknown, text)));
    }
    if size > ETCD_REQUEST_MAX {
        return Err(Box::new(Status::new(Reason::Unknown, "etcdserver: request is too large")));
    }
    Ok(())
}

/// The answer of etcd once its database has reached its quota, before it checks the condition of a transaction (K163).
pub(super) fn out_of_space() -> Box<Status> {
    Box::new(Status::new(Reason::Unknown, "etcdserver: mvcc: database space exceeded"))
}

/// 404 for a path that the type does not have.
pub(super) fn no_subresource() -> Box<Status> {
    Box::new(Status::new(Reason::NotFound, "the server could not find the requested resource"))
}

/// Whether a terminating object may not be removed yet.
fn is_held(def: &TypeDef, object: &Obj) -> bool {
    object.meta().finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty()) || (def.is_held)(&**object)
}

/// Truncates to whole seconds, as in the wire format.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
