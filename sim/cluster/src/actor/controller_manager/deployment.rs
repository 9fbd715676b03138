//! Deployments: roll-outs from one ReplicaSet to the next (K §7.2).
//!
//! ```text
//!   template ─► hash ─► ReplicaSet NAME-HASH   grows within maxSurge
//!                       older ReplicaSets      shrink as far as maxUnavailable allows
//! ```
//! One step at a time: scale the new set, or else the old ones, then wait for the result. `Recreate` shrinks the old ones to nothing, waits
//! until their last pod is gone, and only then makes the new one.
//!
//! Not modelled: proportional scaling in the middle of a roll-out (the new set gets all the room that is left), progress deadlines, and
//! template changes while `paused` (a paused Deployment does nothing).

mod plan;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::api::ignore_not_found;
use kube_machinery::informer::StoreReader;
use kube_machinery::{ApiError, ClientExt, ObjectKey, controller_of};
use plan::{Limits, Size, old_sizes, size_of_new};

use super::names::{ROLL_OUT, TEMPLATE_HASH_LABEL};
use super::shared::Shared;
use super::{Item, Kind, template};

pub(super) use plan::share;

pub(super) struct Deployments {
    pub(super) shared: Arc<Shared>,
    pub(super) deployments: StoreReader<Deployment>,
    pub(super) sets: StoreReader<ReplicaSet>,
}

/// The Deployment that owns a set.
pub(super) fn deployment_of(set: &ReplicaSet) -> Option<Item> {
    let owner = controller_of(&set.metadata).filter(|owner| owner.kind == "Deployment")?;
    Some(Kind::Deployment.item(ObjectKey::namespaced(set.metadata.namespace.as_deref().unwrap_or(""), &owner.name)))
}

/// A ReplicaSet of the Deployment, with its progress.
#[derive(Clone)]
struct Owned {
    set: Arc<ReplicaSet>,
    revision: i64,
    size: Size,
}

impl Owned {
    fn of(set: &Arc<ReplicaSet>) -> Self {
        let annotations = set.metadata.annotations.as_ref();
        let revision = annotations.and_then(|annotations| annotations.get(ROLL_OUT)?.parse().ok()).unwrap_or(0);
        let available = set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
        let wanted = set.spec.replicas.unwrap_or(1);
        // A stale status still counts pods that are about to go: do not rely on those.
        let size = Size { wanted, available: available.min(wanted) };
        Self { set: set.clone(), revision, size }
    }
}

impl Deployments {
    pub(super) async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        let Some(deployment) = self.deployments.get(&item.key) else {
            self.shared.forget(item);
            return Ok(());
        };
        if deployment.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let spec = &deployment.spec;
        let mut old = Vec::new();
        self.sets.by_index(super::OWNER, deployment.metadata.uid.as_deref().unwrap_or(""), |set| old.push(Owned::of(set)));
        old.sort_by(|a, b| (a.revision, &a.set.metadata.name).cmp(&(b.revision, &b.set.metadata.name)));
        let template = &spec.template;
        let hash = self.shared.hash_of(item, &*deployment, template);
        let is_new = |owned: &Owned| {
            owned.set.metadata.labels.as_ref().and_then(|labels| labels.get(TEMPLATE_HASH_LABEL)).is_some_and(|of| **of == *hash)
        };
        let new = old.iter().position(is_new).map(|index| old.remove(index));
        let done =
            if spec.paused == Some(true) { Ok(false) } else { self.roll(item, &deployment, new.as_ref(), &old, &hash, template).await };
        self.report(item, &deployment, new.as_ref(), &old).await?;
        if !done? && spec.paused != Some(true) {
            self.clean_up(&deployment, &old).await?;
        }
        Ok(())
    }

    /// Takes one step, if there is one. Returns whether it did.
    async fn roll(
        &self,
        item: &Item,
        deployment: &Deployment,
        new: Option<&Owned>,
        old: &[Owned],
        hash: &str,
        template: &PodTemplateSpec,
    ) -> Result<bool, ApiError> {
        let limits = Limits::of(deployment);
        let revision = old.last().map_or(0, |last| last.revision) + 1;
        let recreates = limits.recreates;
        if recreates {
            if old.iter().any(|owned| owned.size.wanted > 0) {
                for owned in old.iter().filter(|owned| owned.size.wanted > 0) {
                    self.scale(owned, 0, None).await?;
                }
                return Ok(true);
            }
            let runs = |owned: &Owned| {
                let uid = owned.set.metadata.uid.as_deref();
                self.shared.family(uid, |family| family.is_some_and(|family| family.members().any(|member| !member.view.ended())))
            };
            // The end of a pod queues the Deployment of its set.
            if old.iter().any(runs) {
                return Ok(true);
            }
        }
        let old_sizes_now: Vec<Size> = old.iter().map(|owned| owned.size).collect();
        let Some(new) = new else {
            let size = size_of_new(&limits, None, &old_sizes_now);
            self.create(item, deployment, hash, template, size, revision).await?;
            return Ok(true);
        };
        let size = size_of_new(&limits, Some(new.size), &old_sizes_now);
        // A set that is used again belongs to the latest roll-out.
        let again = (new.revision < revision).then_some(revision);
        if size != new.size.wanted || again.is_some() {
            self.scale(new, size, again).await?;
            return Ok(true);
        }
        let mut stepped = false;
        for (owned, size) in old.iter().zip(old_sizes(&limits, new.size, &old_sizes_now)) {
            if size != owned.size.wanted {
                self.scale(owned, size, None).await?;
                stepped = true;
            }
        }
        Ok(stepped)
    }

    async fn scale(&self, owned: &Owned, size: i32, revision: Option<i64>) -> Result<(), ApiError> {
        let mut set = ReplicaSet::clone(&owned.set);
        set.spec.replicas = Some(size);
        if let Some(revision) = revision {
            set.metadata.annotations.get_or_insert_default().insert(ROLL_OUT.to_owned(), revision.to_string());
        }
        ignore_not_found(self.shared.client.update(set).await)
    }

    async fn create(
        &self,
        item: &Item,
        deployment: &Deployment,
        hash: &str,
        template: &PodTemplateSpec,
        size: i32,
        revision: i64,
    ) -> Result<(), ApiError> {
        let spec = &deployment.spec;
        let mut template = template.clone();
        template::set_label(template.metadata.get_or_insert_default(), TEMPLATE_HASH_LABEL, hash);
        let mut selector = spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(TEMPLATE_HASH_LABEL.to_owned(), hash.to_owned());
        let annotations = [(ROLL_OUT.to_owned(), revision.to_string())].into();
        let set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{}-{hash}", item.key.name())),
                namespace: deployment.metadata.namespace.clone(),
                labels: template.metadata.as_ref().and_then(|meta| meta.labels.clone()),
                annotations: Some(annotations),
                owner_references: Some(vec![template::reference(deployment)]),
                ..ObjectMeta::default()
            },
            spec: ReplicaSetSpec { replicas: Some(size), min_ready_seconds: spec.min_ready_seconds, selector, template: Some(template) },
            status: None,
        };
        // AlreadyExists: a reply was lost, or the set of a predecessor of this name is about to be collected. The create is retried.
        self.shared.client.create(set).await.map(drop)
    }

    async fn report(&self, item: &Item, deployment: &Deployment, new: Option<&Owned>, old: &[Owned]) -> Result<(), ApiError> {
        let status = plan::status(deployment, new.map(|new| &*new.set), old.iter().map(|old| &*old.set));
        let behind = self.shared.is_behind(item, &deployment.metadata);
        if behind || deployment.status.as_ref() == Some(&status) || !self.shared.may_write_status(item) {
            return Ok(());
        }
        let mut deployment = deployment.clone();
        deployment.status = Some(status);
        self.shared.write_status(item, deployment).await
    }

    /// Deletes the oldest sets without pods, down to the revision history limit.
    async fn clean_up(&self, deployment: &Deployment, old: &[Owned]) -> Result<(), ApiError> {
        let limit = deployment.spec.revision_history_limit.unwrap_or(10).max(0) as usize;
        let over = |owned: &&Owned| {
            let meta = &owned.set.metadata;
            let status = owned.set.status.as_ref();
            owned.size.wanted == 0 && meta.deletion_timestamp.is_none() && status.is_some_and(|status| status.replicas == 0)
        };
        for owned in old.iter().take(old.len().saturating_sub(limit)).filter(over) {
            let key = kube_machinery::ObjectKey::of(&*owned.set);
            ignore_not_found(self.shared.client.delete::<ReplicaSet>(&key, Default::default()).await)?;
        }
        Ok(())
    }
}
