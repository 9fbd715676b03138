//! Requests and replies between clients and API servers, with the object's type erased.

#![expect(missing_docs, reason = "the fields are those of the typed forms that each variant names")]

use std::sync::Arc;
use std::time::Duration;

use kube_machinery::api::{Call, DeleteOptions, Dry, List, ListOptions, Patch, Reply, Subresource, Verb};
use kube_machinery::{Object, ObjectKey};

use crate::kinds::{KindId, Served};
use crate::object::Obj;
use crate::rt::ProcessId;

/// The deadline of a mutating request (K §2.11).
pub(super) const MUTATING_DEADLINE: Duration = Duration::from_secs(34);
/// The deadline of any other request (K §2.11).
pub(super) const READ_DEADLINE: Duration = Duration::from_secs(60);

/// [`Call`] for an object of any type.
#[derive(Clone, Debug)]
pub enum Op {
    /// A read of one object: [`Call::Get`].
    Get { key: ObjectKey, resource_version: Option<String> },
    /// A read of all objects of a type or of one namespace: [`Call::List`].
    List { namespace: Option<Arc<str>>, options: Box<ListOptions> },
    /// A POST of an object, perhaps with a generated name: [`Call::Create`].
    Create { namespace: Option<Arc<str>>, body: Obj, dry: Dry },
    /// A PUT of a whole object, or of a subresource of it: [`Call::Update`].
    Update { key: ObjectKey, body: Obj, subresource: Option<Subresource>, dry: Dry },
    /// A change of the object or a subresource by a patch: [`Call::Patch`].
    Patch { key: ObjectKey, patch: Patch, subresource: Option<Subresource>, dry: Dry },
    /// A delete of one object, with grace and preconditions: [`Call::Delete`].
    Delete { key: ObjectKey, options: Box<DeleteOptions> },
    /// A POST of an Eviction to a pod: a delete that asks disruption budgets first (K110).
    Evict { key: ObjectKey, options: Box<DeleteOptions> },
}

impl Op {
    /// The call without its type, with its body in the stored type.
    pub fn of<K: Object>(call: Call<K>, served: Served<K>) -> Self {
        match call {
            Call::Get { key, resource_version } => Op::Get { key, resource_version },
            Call::List { namespace, options } => Op::List { namespace, options: Box::new(options) },
            Call::Create { namespace, body, dry } => Op::Create { namespace, body: served.body(body), dry },
            Call::Update { key, body, subresource, dry } => Op::Update { key, body: served.body(body), subresource, dry },
            Call::Patch { key, patch, subresource, dry } => Op::Patch { key, patch, subresource, dry },
            Call::Delete { key, options } => Op::Delete { key, options: Box::new(options) },
        }
    }

    /// The verb of the request.
    pub fn verb(&self) -> Verb {
        match self {
            Op::Get { .. } => Verb::Get,
            Op::List { .. } => Verb::List,
            Op::Create { .. } | Op::Evict { .. } => Verb::Create,
            Op::Update { .. } => Verb::Update,
            Op::Patch { .. } => Verb::Patch,
            Op::Delete { .. } => Verb::Delete,
        }
    }

    /// The namespace of the URL; unset for cluster-scoped types and for lists over all namespaces.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Op::List { namespace, .. } | Op::Create { namespace, .. } => namespace.as_deref(),
            Op::Get { key, .. } | Op::Update { key, .. } | Op::Patch { key, .. } | Op::Delete { key, .. } | Op::Evict { key, .. } => {
                key.namespace()
            }
        }
    }

    /// The namespace of a list; unset for all namespaces, and for other requests.
    pub(super) fn list_namespace(&self) -> Option<&Arc<str>> {
        match self {
            Op::List { namespace, .. } => namespace.as_ref(),
            _ => None,
        }
    }

    /// The part of the object that it writes, if not the whole.
    pub fn subresource(&self) -> Option<Subresource> {
        match self {
            Op::Update { subresource, .. } | Op::Patch { subresource, .. } => *subresource,
            Op::Get { .. } | Op::List { .. } | Op::Create { .. } | Op::Delete { .. } | Op::Evict { .. } => None,
        }
    }

    /// The part of its URL after the name.
    pub(super) fn subresource_name(&self) -> Option<&'static str> {
        match self {
            Op::Evict { .. } => Some("eviction"),
            op => op.subresource().map(Subresource::as_str),
        }
    }

    /// The object it names; unset for lists and creates.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Op::Get { key, .. } | Op::Update { key, .. } | Op::Patch { key, .. } | Op::Delete { key, .. } | Op::Evict { key, .. } => {
                Some(key)
            }
            Op::List { .. } | Op::Create { .. } => None,
        }
    }
}

/// A request on its way.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// The process that makes the request and gets the answer.
    pub client: ProcessId,
    /// The type that the request is about.
    pub kind: KindId,
    /// The operation, with the body if there is one.
    pub op: Op,
    /// The number of the call in the run: its request, its commits and its answer share it.
    pub call: u64,
    /// The manager of the fields that it writes; unset = the client, by its name. The manager of a [`Patch`] takes precedence.
    pub manager: Option<Arc<str>>,
}

/// [`Reply`] for an object of any type.
#[derive(Clone, Debug)]
pub enum ApiReply {
    /// The object as it is stored: [`Reply::Object`].
    Object(Obj),
    /// A page of objects and where the next one starts: [`Reply::List`].
    List { resource_version: String, items: Vec<Obj>, continue_token: Option<String>, remaining: Option<u64> },
    /// Success of a delete that has removed the object with this UID: [`Reply::Deleted`].
    Deleted { uid: String },
}

impl ApiReply {
    /// The object of a reply that has one.
    pub fn object(&self) -> Option<&Obj> {
        match self {
            ApiReply::Object(object) => Some(object),
            ApiReply::List { .. } | ApiReply::Deleted { .. } => None,
        }
    }

    /// The reply with the type that its client uses.
    pub fn typed<K: Object>(self, served: Served<K>) -> Reply<K> {
        match self {
            ApiReply::Object(object) => Reply::Object(served.typed(object)),
            ApiReply::List { resource_version, items, continue_token, remaining } => {
                let items = items.into_iter().map(|object| served.typed(object)).collect();
                Reply::List(List { resource_version, items, continue_token, remaining })
            }
            ApiReply::Deleted { uid } => Reply::Deleted { uid },
        }
    }
}
