//! StatefulSets: pods with names by ordinal (K §7.1).
//!
//! ```text
//!   create the lowest that is missing ─► wait until it is ready ─► … ─► delete the highest too many ─► replace the highest outdated
//!                (OrderedReady: one step at a time; Parallel: all at once, but for the last)
//! ```
//! A pod that is to be replaced is deleted first; its successor is made when the informer has reported the deletion (K141). Each template
//! is kept as a ControllerRevision as long as its set exists, whatever revisionHistoryLimit says: pods below a partition are made from the
//! previous one.
//!
//! Pods that an orphaning deletion left behind without a controller become the pods of the next set of the name that selects them (K154).

mod plan;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube_machinery::api::{Patch, ignore_already_exists, ignore_not_found};
use kube_machinery::informer::StoreReader;
use kube_machinery::label_selector::selects;
use kube_machinery::{ApiError, ClientExt, Env, Object, ObjectKey, controller_of};
use plan::{Plan, plan};

pub(super) use plan::place_of;
use serde_json::json;

use super::Item;
use super::batch;
use super::names::{POD_INDEX_LABEL, POD_NAME_LABEL, REVISION_LABEL};
use super::shared::Shared;
use super::template;

/// The name of the index of pods without a controller, by the StatefulSet that could adopt them.
pub(super) const ORPHANS: &str = "orphans";

pub(super) struct StatefulSets {
    pub(super) shared: Arc<Shared>,
    pub(super) sets: StoreReader<StatefulSet>,
    pub(super) revisions: StoreReader<ControllerRevision>,
    pub(super) pods: StoreReader<Pod>,
}

impl StatefulSets {
    pub(super) async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        let Some(set) = self.sets.get(&item.key) else {
            self.shared.forget(item);
            return Ok(());
        };
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let behind = self.shared.is_behind(item, &set.metadata);
        let wanted = &set.spec.template;
        let update = format!("{}-{}", item.key.name(), self.shared.hash_of(item, &*set, wanted));
        self.keep(&set, &update, wanted).await?;
        if self.adopt(&set).await? {
            // The informer has yet to report their new owner.
            return Ok(());
        }
        let now = self.shared.env.wall();
        let Plan { current, create, delete, status, available_in } =
            self.shared.family(set.metadata.uid.as_deref(), |family| plan(&set, family, &update, now));
        if let Some(wait) = available_in {
            self.shared.queue.add_after(item.clone(), wait);
        }
        let old = (!create.is_empty() && current != update).then(|| self.revisions.get(&template::beside(&*set, &current))).flatten();
        let old = old.as_deref().and_then(template_of);
        let create_one = |index: usize| {
            let (ordinal, outdated) = create[index];
            let (template, revision) = match &old {
                Some(old) if outdated => (old, &current),
                _ => (wanted, &update),
            };
            self.create(pod(&set, template, revision, ordinal))
        };
        let mut done = batch::slow_start(create.len(), create_one).await.1;
        let deleted = batch::all(delete.len(), |index| self.delete(&delete[index])).await.1;
        done = done.and(deleted);
        if !behind && set.status.as_ref() != Some(&status) && self.shared.may_write_status(item) {
            let mut set = StatefulSet::clone(&set);
            set.status = Some(status);
            self.shared.write_status(item, set).await?;
        }
        done
    }

    /// Adopts the pods without a controller that have names of the set's ordinals and labels that it selects, and that are not terminating
    /// (K154). Returns whether there were any.
    async fn adopt(&self, set: &StatefulSet) -> Result<bool, ApiError> {
        let mut orphans: Vec<Arc<Pod>> = Vec::new();
        let key = ObjectKey::of(set);
        self.pods.by_index(ORPHANS, key.as_str(), |pod| {
            let is_selected = selects(&set.spec.selector, pod.metadata.labels.as_ref()).unwrap_or(false);
            if is_selected && pod.metadata.deletion_timestamp.is_none() {
                orphans.push(pod.clone());
            }
        });
        if orphans.is_empty() {
            return Ok(false);
        }
        // The informer may not have reported yet that the set is terminating or gone: then its pods must stay orphans.
        let live = self.shared.client.get::<StatefulSet>(&key).await?;
        if live.metadata.uid == set.metadata.uid && live.metadata.deletion_timestamp.is_none() {
            let adopt = |index: usize| self.own::<Pod>(set, &orphans[index]);
            batch::all(orphans.len(), adopt).await.1?;
        }
        Ok(true)
    }

    /// Makes the set the controller of an object that has none.
    async fn own<K: Object>(&self, set: &StatefulSet, object: &K) -> Result<(), ApiError> {
        let meta = object.meta();
        let mut owners = meta.owner_references.clone().unwrap_or_default();
        owners.push(template::reference(set));
        let patch = json!({"metadata": {"uid": meta.uid, "ownerReferences": owners}});
        self.shared.client.patch::<K>(&ObjectKey::of(object), Patch::merge(patch)).await.map(drop)
    }

    async fn create(&self, pod: Pod) -> Result<(), ApiError> {
        // AlreadyExists: the informer has yet to report the pod, or its predecessor still exists. The create is retried.
        self.shared.create_pod(Arc::new(pod)).await
    }

    async fn delete(&self, pod: &Pod) -> Result<(), ApiError> {
        ignore_not_found(self.shared.client.delete::<Pod>(&ObjectKey::of(pod), Default::default()).await)
    }

    /// Keeps a template, so that pods can still be made from it when the set has another one.
    async fn keep(&self, set: &StatefulSet, name: &str, template: &PodTemplateSpec) -> Result<(), ApiError> {
        let is_own = |revision: &ControllerRevision| controller_of(&revision.metadata).map(|owner| &owner.uid) == set.metadata.uid.as_ref();
        match self.revisions.get(&template::beside(set, name)) {
            Some(kept) if is_own(&kept) => return Ok(()),
            Some(kept) if controller_of(&kept.metadata).is_none() => return self.own::<ControllerRevision>(set, &kept).await,
            _ => {}
        }
        let mut revision = 1;
        self.revisions.by_index(super::OWNER, set.metadata.uid.as_deref().unwrap_or(""), |other| {
            revision = revision.max(other.revision.unwrap_or(0) + 1)
        });
        let template = serde_json::to_value(template).unwrap_or_else(|error| panic!("a template does not serialise: {error}"));
        let body = ControllerRevision {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: set.metadata.namespace.clone(),
                labels: set.spec.selector.match_labels.clone(),
                owner_references: Some(vec![template::reference(set)]),
                ..ObjectMeta::default()
            },
            revision: Some(revision),
            data: RawExtension(json!({"spec": {"template": template}})),
        };
        ignore_already_exists(self.shared.client.create(body).await)
    }
}

/// The template that a revision keeps.
fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    serde_json::from_value(revision.data.0.get("spec")?.get("template")?.clone()).ok()
}

/// The pod with this ordinal.
fn pod(set: &StatefulSet, template: &PodTemplateSpec, revision: &str, ordinal: i64) -> Pod {
    let base = set.metadata.name.as_deref().unwrap_or("");
    let mut pod = template::pod(template, set, base);
    let name = format!("{base}-{ordinal}");
    let meta = &mut pod.metadata;
    template::set_label(meta, POD_NAME_LABEL, &name);
    template::set_label(meta, POD_INDEX_LABEL, &ordinal.to_string());
    template::set_label(meta, REVISION_LABEL, revision);
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name.clone());
    spec.subdomain = set.spec.service_name.clone().filter(|service| !service.is_empty());
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name);
    pod
}
