//! An object type as the collector uses it, with the Rust type erased.

use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use std::any::TypeId;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kube_machinery::Object;
use kube_machinery::api::{DeleteOptions, Patch, Preconditions, Propagation};
use kube_machinery::informer::Notification;
use kube_machinery::{ApiError, ClientExt, ObjectKey};
use serde_json::json;

use super::super::informers::Informers;
use super::graph::{Item, Policy};
use super::{ApiClient, Collector};
use crate::object::Obj;

type Call<T> = Pin<Box<dyn Future<Output = Result<T, ApiError>> + Send>>;

/// A type whose objects own others or are owned.
#[derive(Clone)]
pub struct Collected {
    pub(super) api_version: String,
    pub(super) kind: String,
    namespaced: bool,
    /// Registers the collector for the objects of this type, under the index that it gives the type.
    pub(super) listen: fn(&mut Informers, &Arc<Collector>, usize),
    /// An object, by a quorum read; `None` = there is no such object.
    pub(super) read: fn(&ApiClient, &ObjectKey) -> Call<Option<Obj>>,
    /// Deletes an object, unless it has been replaced or has other owners by now (K156).
    pub(super) delete: fn(&ApiClient, &ObjectKey, &ObjectMeta, Propagation) -> Call<()>,
    /// Sets the finalizers of an object to these, if it is still in this state.
    pub(super) release: fn(&ApiClient, &ObjectKey, &ObjectMeta, Vec<String>) -> Call<()>,
    /// Sets the owners of an object to these, if it is still in this state.
    pub(super) disown: fn(&ApiClient, &ObjectKey, &ObjectMeta, &[&OwnerReference]) -> Call<()>,
}

impl Collected {
    /// The type `K`, whose objects can own and be owned.
    pub fn of<K: Object>() -> Self {
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespaced: TypeId::of::<<K as Resource>::Scope>() == TypeId::of::<NamespaceResourceScope>(),
            listen: listen::<K>,
            read: |client, key| {
                let (client, key) = (client.clone(), key.clone());
                Box::pin(async move { found(client.get::<K>(&key).await.map(|object| object as Obj)) })
            },
            delete: |client, key, meta, policy| {
                let (client, key, meta) = (client.clone(), key.clone(), meta.clone());
                Box::pin(async move { found(delete::<K>(&client, &key, meta, policy).await).map(drop) })
            },
            release: |client, key, meta, finalizers| {
                let (client, key) = (client.clone(), key.clone());
                let finalizers = (!finalizers.is_empty()).then_some(finalizers);
                let meta = json!({"resourceVersion": meta.resource_version, "uid": meta.uid, "finalizers": finalizers});
                let patch = Patch::merge(json!({"metadata": meta}));
                Box::pin(async move { found(client.patch::<K>(&key, patch).await).map(drop) })
            },
            disown: |client, key, meta, owners| {
                let (client, key) = (client.clone(), key.clone());
                let meta = json!({"resourceVersion": meta.resource_version, "uid": meta.uid, "ownerReferences": owners});
                let patch = Patch::merge(json!({"metadata": meta}));
                Box::pin(async move { found(client.patch::<K>(&key, patch).await).map(drop) })
            },
        }
    }

    /// Whether both are the same type.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.kind == other.kind && self.api_version == other.api_version
    }

    /// The key of an object of this type to which one in `namespace` refers by name.
    pub(super) fn key(&self, namespace: Option<&str>, name: &str) -> Option<ObjectKey> {
        if self.namespaced { Some(ObjectKey::namespaced(namespace?, name)) } else { Some(ObjectKey::cluster(name)) }
    }
}

/// Deletes the object that `judged` was read from, if it still has the owners that it had then.
async fn delete<K: Object>(client: &ApiClient, key: &ObjectKey, judged: ObjectMeta, policy: Propagation) -> Result<(), ApiError> {
    let options = |resource_version: Option<&String>| DeleteOptions {
        preconditions: Preconditions { uid: judged.uid.clone(), resource_version: resource_version.cloned() },
        propagation: Some(policy),
        ..DeleteOptions::default()
    };
    let conflict = match client.delete::<K>(key, options(judged.resource_version.as_ref())).await {
        Err(error) if error.is_conflict() => error,
        other => return other.map(drop),
    };
    let now = client.get::<K>(key).await?;
    let now = now.meta();
    if now.uid != judged.uid || now.resource_version == judged.resource_version || now.owner_references != judged.owner_references {
        return Err(conflict);
    }
    // The object was changed in ways that do not matter here. Frequent changes must not keep garbage alive.
    client.delete::<K>(key, options(None)).await.map(drop)
}

/// Turns NotFound into `None`.
fn found<T>(result: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match result {
        Err(error) if error.is_not_found() => Ok(None),
        other => other.map(Some),
    }
}

fn listen<K: Object>(informers: &mut Informers, collector: &Arc<Collector>, number: usize) {
    let told = collector.clone();
    informers.tell::<K>(move |notification| {
        let item = || Item { number, key: notification.key() };
        match notification {
            Notification::Updated { old, new } if old.meta().uid == new.meta().uid && old.owner_references() == new.owner_references() => {
                // A deletion that needs preparation has to be handled.
                if Policy::of(old.meta()) != Policy::of(new.meta()) {
                    told.observe(item(), Some(new.meta()));
                } else if !new.owner_references().is_empty() {
                    // An object without owners cannot lose one.
                    told.observe_change(item());
                }
            }
            Notification::Added { object, .. } | Notification::Updated { new: object, .. } => told.observe(item(), Some(object.meta())),
            Notification::Deleted { .. } | Notification::DeletedFinalStateUnknown { .. } => told.observe(item(), None),
        }
    });
}
