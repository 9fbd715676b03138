//! An in-memory API server for one ADD: it serves the requests of one agent in turn, and is thrown away.
//!
//! It does what an agent relies on (K §2): resourceVersions, preconditions, finalizers. There are no other writers, no admission and no
//! watches.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_machinery::api::{
    ApiError, Call, DeleteOptions, List, Object, ObjectKey, Patch, Reason, Reply, Request, Status, WatchEvent, WatchOptions,
};
use kube_machinery::client::{Client, WatchStream};
use parking_lot::Mutex;
use serde_json::Value;

/// An object of the type that belongs to the kind under which it is stored.
type Stored = Arc<dyn Any + Send + Sync>;

/// The server; clones share their state.
#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<Db>>);

#[derive(Default)]
struct Db {
    /// The objects by kind and key.
    objects: BTreeMap<(String, ObjectKey), Stored>,
    writes: u64,
}

/// The resourceVersion of objects that were written without one.
const UNWRITTEN: &str = "0";

fn kind<K: Object>() -> String {
    K::kind(&()).into_owned()
}

fn refused<K: Object>(reason: Reason, key: &ObjectKey) -> ApiError {
    Status::new(reason, format!("{} {key}", kind::<K>())).into()
}

impl Server {
    /// Stores an object unchanged.
    pub(super) fn put<K: Object>(&self, mut object: K) {
        object.meta_mut().resource_version.get_or_insert_with(|| UNWRITTEN.to_owned());
        let key = ObjectKey::of(&object);
        self.0.lock().objects.insert((kind::<K>(), key), Arc::new(object));
    }

    /// The current state of an object.
    pub(super) fn find<K: Object>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.0.lock().find(key)
    }
}

impl Db {
    fn find<K: Object>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.objects.get(&(kind::<K>(), key.clone())).cloned().and_then(|stored| stored.downcast().ok())
    }

    fn known<K: Object>(&self, key: &ObjectKey) -> Result<Arc<K>, ApiError> {
        self.find(key).ok_or_else(|| refused::<K>(Reason::NotFound, key))
    }

    /// The object that a write replaces, if the writer has seen its latest version.
    fn guarded<K: Object>(&self, key: &ObjectKey, version: Option<&String>) -> Result<Arc<K>, ApiError> {
        let known = self.known::<K>(key)?;
        let seen = version.is_none_or(|version| known.meta().resource_version.as_ref() == Some(version));
        if seen { Ok(known) } else { Err(refused::<K>(Reason::Conflict, key)) }
    }

    /// Stores the new state of an object; an object that is being deleted and has no finalizer vanishes.
    fn store<K: Object>(&mut self, key: &ObjectKey, mut object: K) -> Arc<K> {
        if self.find::<K>(key).is_some_and(|before| *before == object) {
            return Arc::new(object);
        }
        self.writes += 1;
        object.meta_mut().resource_version = Some(format!("after {}", self.writes));
        let meta = object.meta();
        let ends = meta.deletion_timestamp.is_some() && meta.finalizers.as_ref().is_none_or(Vec::is_empty);
        let object = Arc::new(object);
        let place = (kind::<K>(), key.clone());
        if ends {
            self.objects.remove(&place);
        } else {
            self.objects.insert(place, Arc::<K>::clone(&object));
        }
        object
    }

    fn serve<K: Object>(&mut self, call: Call<K>) -> Result<Reply<K>, ApiError> {
        match call {
            Call::Get { key, .. } => self.known(&key).map(Reply::Object),
            Call::List { .. } => {
                let kind = kind::<K>();
                let of_kind = self.objects.iter().filter(|((of, _), _)| *of == kind);
                let items = of_kind.filter_map(|(_, stored)| Arc::clone(stored).downcast().ok()).collect();
                Ok(Reply::List(List { resource_version: self.writes.to_string(), items, continue_token: None, remaining: None }))
            }
            Call::Create { body, .. } => {
                let key = ObjectKey::of(&*body);
                if self.find::<K>(&key).is_some() {
                    return Err(refused::<K>(Reason::AlreadyExists, &key));
                }
                let mut object = K::clone(&body);
                object.meta_mut().uid = Some(format!("made {}", self.writes + 1));
                Ok(Reply::Object(self.store(&key, object)))
            }
            Call::Update { key, body, .. } => {
                let before = self.guarded::<K>(&key, body.meta().resource_version.as_ref())?;
                let mut object = K::clone(&body);
                let (meta, before) = (object.meta_mut(), before.meta());
                (meta.uid, meta.deletion_timestamp) = (before.uid.clone(), before.deletion_timestamp.clone());
                meta.resource_version.clone_from(&before.resource_version);
                Ok(Reply::Object(self.store(&key, object)))
            }
            Call::Patch { key, patch: Patch { body, .. }, .. } => {
                let version = body["metadata"]["resourceVersion"].as_str().map(str::to_owned);
                let before = self.guarded::<K>(&key, version.as_ref())?;
                let unreadable = |_| refused::<K>(Reason::Invalid, &key);
                let mut value = serde_json::to_value(&*before).map_err(unreadable)?;
                merge(&mut value, &body);
                let object = serde_json::from_value(value).map_err(unreadable)?;
                Ok(Reply::Object(self.store(&key, object)))
            }
            Call::Delete { key, options: DeleteOptions { preconditions, .. } } => {
                let before = self.guarded::<K>(&key, preconditions.resource_version.as_ref())?;
                if preconditions.uid.is_some_and(|uid| before.meta().uid.as_ref() != Some(&uid)) {
                    return Err(refused::<K>(Reason::Conflict, &key));
                }
                let mut object = K::clone(&before);
                object.meta_mut().deletion_timestamp.get_or_insert(Time(jiff::Timestamp::UNIX_EPOCH));
                let uid = before.meta().uid.clone().unwrap_or_default();
                let left = self.store(&key, object);
                Ok(if self.find::<K>(&key).is_some() { Reply::Object(left) } else { Reply::Deleted { uid } })
            }
        }
    }
}

/// Applies a JSON merge patch to a value.
fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(known), Value::Object(members)) => {
            for (name, member) in members {
                if member.is_null() {
                    known.remove(name);
                } else {
                    merge(known.entry(name.as_str()).or_insert(Value::Null), member);
                }
            }
        }
        (into, patch) => into.clone_from(patch),
    }
}

impl Client for Server {
    type Watch<K: Object> = Silence;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        self.0.lock().serve(request.call)
    }

    async fn watch<K: Object>(&self, _: Option<Arc<str>>, _: WatchOptions) -> Result<Silence, ApiError> {
        Ok(Silence)
    }
}

/// A watch that never delivers an event.
pub(super) struct Silence;

impl<K: Object> WatchStream<K> for Silence {
    async fn next(&mut self) -> Option<Result<WatchEvent<K>, ApiError>> {
        pending().await
    }
}
