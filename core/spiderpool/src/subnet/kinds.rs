//! The kinds of workloads that pools are made for (A §8.5).

use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::application::{Application, ApplicationName};
use super::demand::{Demand, demands};
use super::reclaim::Fate;
use crate::auto_pool::job_pod_number;
use crate::select::{SelectError, Settings};
use kube_machinery::api::{ApiError, Object, ObjectKey};
use kube_machinery::controller_of;
use kube_machinery::env::Env;

/// A built-in kind of workload, whose pools the leading controller makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
}

impl Kind {
    /// The built-in kind of a workload. `None` = a third-party kind, whose pools all agents make concurrently; pools of built-in kinds are
    /// made by the leader alone (A §8.5, §8.7).
    pub(super) fn of(name: &ApplicationName) -> Option<Self> {
        Some(match (name.api_version.as_str(), name.kind.as_str()) {
            ("apps/v1", "Deployment") => Self::Deployment,
            ("apps/v1", "ReplicaSet") => Self::ReplicaSet,
            ("apps/v1", "StatefulSet") => Self::StatefulSet,
            ("apps/v1", "DaemonSet") => Self::DaemonSet,
            ("batch/v1", "Job") => Self::Job,
            ("batch/v1", "CronJob") => Self::CronJob,
            _ => return None,
        })
    }
}

/// A built-in kind of workload.
pub trait AppKind: Object {
    /// The API version, `apps/v1` or `batch/v1`.
    const API_VERSION: &'static str;
    /// The kind, as in owner references.
    const KIND: &'static str;

    /// The template of its pods.
    fn template(&self) -> Option<&PodTemplateSpec>;

    /// The desired number of pods (A §8.3).
    fn pods(&self) -> i32;

    /// The kind of workload that replaces it if it controls it.
    const ABOVE: Option<&'static str> = None;

    /// The owner that controls it, of whichever kind.
    fn controller(&self) -> Option<&OwnerReference> {
        controller_of(self.meta())
    }

    /// Whether another workload stands for it: the Deployment of a ReplicaSet, the CronJob of a Job.
    fn is_part(&self) -> bool {
        self.controller().is_some_and(|owner| Some(owner.kind.as_str()) == Self::ABOVE)
    }

    /// The name and the incarnation of the workload.
    fn application(&self) -> Application {
        let meta = self.meta();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let name = ApplicationName {
            api_version: Self::API_VERSION.to_owned(),
            kind: Self::KIND.to_owned(),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
        };
        Application { name, uid: text(&meta.uid) }
    }

    /// The pools that the workload asks for.
    ///
    /// # Errors
    /// Its annotations cannot be read.
    fn demands(&self, settings: &Settings) -> Result<Vec<Demand>, SelectError> {
        let Some(template) = self.template().filter(|_| !self.is_part()) else { return Ok(Vec::new()) };
        demands(&self.application(), template, Some(self.pods().try_into().unwrap_or(0)), settings)
    }
}

impl AppKind for Deployment {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "Deployment";

    fn template(&self) -> Option<&PodTemplateSpec> {
        Some(&self.spec.template)
    }

    fn pods(&self) -> i32 {
        self.spec.replicas.unwrap_or(0)
    }
}

impl AppKind for ReplicaSet {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "ReplicaSet";
    const ABOVE: Option<&'static str> = Some("Deployment");

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.template.as_ref()
    }

    fn pods(&self) -> i32 {
        self.spec.replicas.unwrap_or(0)
    }
}

impl AppKind for StatefulSet {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "StatefulSet";

    fn template(&self) -> Option<&PodTemplateSpec> {
        Some(&self.spec.template)
    }

    fn pods(&self) -> i32 {
        self.spec.replicas.unwrap_or(0)
    }
}

impl AppKind for DaemonSet {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "DaemonSet";

    fn template(&self) -> Option<&PodTemplateSpec> {
        Some(&self.spec.template)
    }

    fn pods(&self) -> i32 {
        self.status.as_ref().map_or(0, |status| status.desired_number_scheduled)
    }
}

impl AppKind for Job {
    const API_VERSION: &'static str = "batch/v1";
    const KIND: &'static str = "Job";
    const ABOVE: Option<&'static str> = Some("CronJob");

    fn template(&self) -> Option<&PodTemplateSpec> {
        Some(&self.spec.as_ref()?.template)
    }

    fn pods(&self) -> i32 {
        let spec = self.spec.as_ref();
        job_pod_number(spec.and_then(|spec| spec.parallelism), spec.and_then(|spec| spec.completions))
    }
}

impl AppKind for CronJob {
    const API_VERSION: &'static str = "batch/v1";
    const KIND: &'static str = "CronJob";

    fn template(&self) -> Option<&PodTemplateSpec> {
        Some(&self.spec.job_template.spec.as_ref()?.template)
    }

    fn pods(&self) -> i32 {
        let spec = self.spec.job_template.spec.as_ref();
        job_pod_number(spec.and_then(|spec| spec.parallelism), spec.and_then(|spec| spec.completions))
    }
}

/// Access to workloads of kinds that Spiderpool does not know.
pub trait ThirdParty: Clone + Send + Sync + 'static {
    /// The fate of a workload, from the most recent read. The answer may lack the names of its pools.
    ///
    /// # Errors
    /// It could not be read.
    fn fate(&self, name: &ApplicationName) -> impl Future<Output = Result<Fate, ApiError>> + Send;

    /// Watches all workloads of the kind of `name` until the returned watch is dropped, and reports the key and the UID of each that has
    /// ended since the watch began. `None` if the kind is unknown.
    fn watch<V: Env>(
        &self,
        name: &ApplicationName,
        env: &V,
        ended: impl FnMut(ObjectKey, Arc<str>) + Send + 'static,
    ) -> Option<Box<dyn Watching>>;
}

/// A watch of the workloads of a kind, until it is dropped.
pub trait Watching: Send + Sync {
    /// Whether the watch has begun: from now on, the end of every workload that existed a moment before is reported.
    fn has_begun(&self) -> bool;
}

/// Knows no other kinds: their pools stay.
impl ThirdParty for () {
    async fn fate(&self, _: &ApplicationName) -> Result<Fate, ApiError> {
        Ok(Fate::Unknown)
    }

    fn watch<V: Env>(&self, _: &ApplicationName, _: &V, _: impl FnMut(ObjectKey, Arc<str>) + Send + 'static) -> Option<Box<dyn Watching>> {
        None
    }
}
