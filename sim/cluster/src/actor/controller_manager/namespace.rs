//! Namespaces: a namespace that is deleted is emptied, and then its name is free again (K §1.3).
//!
//! Pods go first, then everything else. If objects are left (pods with a grace period, objects with finalizers), the namespace is looked at
//! again after a while, as in Kubernetes: after half of the longest grace period and a second, or after 8 s.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_machinery::Object;
use kube_machinery::api::{Call, DeleteOptions, Dry, ListOptions, Subresource, ignore_not_found};
use kube_machinery::informer::StoreReader;
use kube_machinery::kubevirt::{VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration};
use kube_machinery::{ApiError, Client, ClientExt, ObjectKey};
use parking_lot::Mutex;

use super::Item;
use super::batch;
use super::shared::Shared;
use crate::actor::ApiClient;
use crate::kinds::Registry;
use crate::kinds::kruise::CloneSet;

/// The time, in seconds, that objects with finalizers are assumed to need.
const FINALIZERS_TAKE: i64 = 15;

/// Deletes the objects of one type in a namespace. Returns the number of seconds that the remaining objects are assumed to need; `None` =
/// nothing is left.
pub(super) type Empty = for<'a> fn(&'a ApiClient, &'a str) -> Pin<Box<dyn Future<Output = Result<Option<i64>, ApiError>> + Send + 'a>>;

/// The way to empty a namespace of a type that is not built into Kubernetes: an extension of its registration
/// ([`TypeDef::with`](crate::kinds::TypeDef::with)).
#[derive(Clone, Copy)]
pub struct NamespaceContent(Empty);

impl NamespaceContent {
    /// Deletes the objects of `K` in the namespace one by one, except those that are terminating already.
    pub fn of<K: Object>() -> Self {
        Self(|client, namespace| Box::pin(empty::<K>(client, namespace)))
    }
}

/// The built-in namespaced types; pods come first. Other registered types follow.
const BUILTIN: [(&str, Empty); 11] = [
    ("pods", |client, namespace| Box::pin(empty::<Pod>(client, namespace))),
    ("configmaps", |client, namespace| Box::pin(empty::<ConfigMap>(client, namespace))),
    ("leases", |client, namespace| Box::pin(empty::<Lease>(client, namespace))),
    ("statefulsets", |client, namespace| Box::pin(empty::<StatefulSet>(client, namespace))),
    ("replicasets", |client, namespace| Box::pin(empty::<ReplicaSet>(client, namespace))),
    ("deployments", |client, namespace| Box::pin(empty::<Deployment>(client, namespace))),
    ("daemonsets", |client, namespace| Box::pin(empty::<DaemonSet>(client, namespace))),
    ("jobs", |client, namespace| Box::pin(empty::<Job>(client, namespace))),
    ("cronjobs", |client, namespace| Box::pin(empty::<CronJob>(client, namespace))),
    ("clonesets", |client, namespace| Box::pin(empty::<CloneSet>(client, namespace))),
    ("controllerrevisions", |client, namespace| Box::pin(empty::<ControllerRevision>(client, namespace))),
];

/// Disruption budgets, a type that exists only with its controller.
const BUDGETS: (&str, Empty) = ("poddisruptionbudgets", |client, namespace| Box::pin(empty::<PodDisruptionBudget>(client, namespace)));

/// The types of operators, which come last.
const OPERATORS: [(&str, Empty); 3] = [
    ("virtualmachines", |client, namespace| Box::pin(empty::<VirtualMachine>(client, namespace))),
    ("virtualmachineinstances", |client, namespace| Box::pin(empty::<VirtualMachineInstance>(client, namespace))),
    ("virtualmachineinstancemigrations", |client, namespace| Box::pin(empty::<VirtualMachineInstanceMigration>(client, namespace))),
];

pub(super) struct Namespaces {
    pub(super) shared: Arc<Shared>,
    pub(super) namespaces: StoreReader<Namespace>,
    /// The functions that empty a namespace of each type, in this order: see [`content`].
    pub(super) content: Vec<Empty>,
}

impl Namespaces {
    pub(super) async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        let Some(namespace) = self.namespaces.get(&item.key) else { return Ok(()) };
        if namespace.metadata.deletion_timestamp.is_none() {
            return Ok(());
        }
        let mut left = None;
        for (index, empty) in self.content.iter().enumerate() {
            left = left.max(empty(&self.shared.client, item.key.name()).await?);
            // Everything that a pod needs for its end has to exist until it has ended.
            if index == 0 && left.is_some() {
                break;
            }
        }
        if let Some(seconds) = left {
            let wait = Duration::from_secs(seconds.max(0) as u64 / 2 + 1);
            self.shared.queue.add_after(item.clone(), wait);
            return Ok(());
        }
        let mut namespace = Namespace::clone(&namespace);
        if let Some(spec) = &mut namespace.spec {
            spec.finalizers = None;
        }
        let (key, body) = (ObjectKey::of(&namespace), Arc::new(namespace));
        let call = Call::Update { key, body, subresource: Some(Subresource::Finalize), dry: Dry::No };
        ignore_not_found(self.shared.client.send(call.into()).await.map(drop))
    }
}

/// The functions that empty a namespace, type by type. `budgets`: whether there may be disruption budgets.
pub(super) fn content(registry: &Registry, budgets: bool) -> Vec<Empty> {
    let extended = registry.iter().filter_map(|(_, def)| def.extension::<NamespaceContent>()).map(|content| content.0);
    let builtin = BUILTIN.iter().chain(budgets.then_some(&BUDGETS)).map(|(_, empty)| *empty);
    builtin.chain(extended).chain(OPERATORS.iter().map(|(_, empty)| *empty)).collect()
}

/// Deletes everything of one type.
async fn empty<K: Object>(client: &ApiClient, namespace: &str) -> Result<Option<i64>, ApiError> {
    let objects = client.list::<K>(Some(namespace), ListOptions::default()).await?.items;
    let left = Mutex::new(None);
    let delete = |index: usize| {
        let (object, left) = (&objects[index], &left);
        async move {
            let seconds = match object.meta().deletion_timestamp {
                Some(_) => Some(seconds_of(&**object)),
                None => match client.delete::<K>(&ObjectKey::of(&**object), DeleteOptions::default()).await {
                    Err(error) if error.is_not_found() => None,
                    result => result?.map(|object| seconds_of(&*object)),
                },
            };
            let mut left = left.lock();
            *left = (*left).max(seconds);
            Ok(())
        }
    };
    batch::all(objects.len(), delete).await.1?;
    Ok(left.into_inner())
}

/// The number of seconds that a terminating object is assumed to need.
fn seconds_of<K: Object>(object: &K) -> i64 {
    object.meta().deletion_grace_period_seconds.filter(|seconds| *seconds > 0).unwrap_or(FINALIZERS_TAKE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    #[test]
    fn every_type_in_namespaces_is_deleted_with_its_namespace() {
        let mut served: Vec<&str> = kinds::all([]).iter().filter(|def| def.namespaced).map(|def| def.plural).collect();
        let mut emptied: Vec<&str> = BUILTIN.iter().chain([&BUDGETS]).chain(&OPERATORS).map(|(plural, _)| *plural).collect();
        served.sort_unstable();
        emptied.sort_unstable();
        assert_eq!(emptied, served);
        assert_eq!(BUILTIN[0].0, "pods");
    }
}
