//! The fate of workloads, by the caches and by the API server.

use super::watch::Seen;
use super::{AppKey, SubnetController};
use crate::select::SelectError;
use crate::subnet::application::{Application, ApplicationName};
use crate::subnet::demand::Demand;
use crate::subnet::kinds::{AppKind, Kind, ThirdParty};
use crate::subnet::observer::Observer;
use crate::subnet::reclaim::Fate;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube_machinery::api::{ApiError, ObjectKey};
use kube_machinery::client::{Client, ClientExt};
use kube_machinery::env::Env;

/// A workload and the pools it asks for.
pub(super) type Asked = (Application, Result<Vec<Demand>, SelectError>);

impl<C: Client, V: Env, O: Observer, T: ThirdParty> SubnetController<C, V, O, T> {
    fn asked_by<K: AppKind>(&self, object: &K) -> Asked {
        (object.application(), object.demands(&self.select))
    }

    /// The workload as the cache shows it, whichever incarnation.
    pub(super) fn cached(&self, kind: Kind, key: &ObjectKey, seen: &Seen<V>) -> Option<Asked> {
        match kind {
            Kind::Deployment => seen.deployments.store.get(key).map(|object| self.asked_by(&*object)),
            Kind::ReplicaSet => seen.replica_sets.store.get(key).map(|object| self.asked_by(&*object)),
            Kind::StatefulSet => seen.stateful_sets.store.get(key).map(|object| self.asked_by(&*object)),
            Kind::DaemonSet => seen.daemon_sets.store.get(key).map(|object| self.asked_by(&*object)),
            Kind::Job => seen.jobs.store.get(key).map(|object| self.asked_by(&*object)),
            Kind::CronJob => seen.cron_jobs.store.get(key).map(|object| self.asked_by(&*object)),
        }
    }

    /// The workload as the cache shows it, if it is the incarnation of `app`.
    pub(super) fn cached_app(&self, app: &AppKey, seen: &Seen<V>) -> Option<Asked> {
        self.cached(app.kind?, &app.key, seen).filter(|(application, _)| application.uid == *app.uid)
    }

    /// The workload as the API server has it now.
    async fn live(&self, kind: Kind, key: &ObjectKey) -> Result<Option<Asked>, ApiError> {
        match kind {
            Kind::Deployment => self.live_of::<Deployment>(key).await,
            Kind::ReplicaSet => self.live_of::<ReplicaSet>(key).await,
            Kind::StatefulSet => self.live_of::<StatefulSet>(key).await,
            Kind::DaemonSet => self.live_of::<DaemonSet>(key).await,
            Kind::Job => self.live_of::<Job>(key).await,
            Kind::CronJob => self.live_of::<CronJob>(key).await,
        }
    }

    async fn live_of<K: AppKind>(&self, key: &ObjectKey) -> Result<Option<Asked>, ApiError> {
        match self.auto_pools.client.get::<K>(key).await {
            Ok(object) => Ok(Some(self.asked_by(&*object))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn fate_of(asked: Option<Asked>) -> Fate {
        let Some((application, demands)) = asked else { return Fate::Gone };
        // A workload whose annotations cannot be read may ask for anything.
        Fate::There { uid: application.uid, wants: demands.ok() }
    }

    /// The fate of a workload by the caches. Only built-in kinds are cached.
    pub(super) fn cached_fate(&self, name: &ApplicationName, seen: &Seen<V>) -> Fate {
        let Some(kind) = Kind::of(name) else { return Fate::Unknown };
        Self::fate_of(self.cached(kind, &ObjectKey::namespaced(&name.namespace, &name.name), seen))
    }

    /// The fate for a first check that decides whether the API server is asked at all: an uncached workload counts as gone, as otherwise
    /// nobody would ever ask for its fate.
    pub(super) fn presumed_fate(&self, name: &ApplicationName, seen: &Seen<V>) -> Fate {
        match self.cached_fate(name, seen) {
            Fate::Unknown => Fate::Gone,
            known => known,
        }
    }

    /// The fate of a workload by the API server.
    pub(super) async fn live_fate(&self, name: &ApplicationName) -> Result<Fate, ApiError> {
        let Some(kind) = Kind::of(name) else { return self.third_party.fate(name).await };
        let asked = self.live(kind, &ObjectKey::namespaced(&name.namespace, &name.name)).await?;
        Ok(Self::fate_of(asked))
    }
}
