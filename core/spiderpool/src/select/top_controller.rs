//! The top controller of a pod (A §6.1).

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::cluster::Cluster;
use super::error::SelectError;
use crate::auto_pool::job_pod_number;
use kube_machinery::controller_of;

const APPS: &str = "apps/v1";
const BATCH: &str = "batch/v1";
const CORE: &str = "v1";

/// The controller at the top of a pod's chain of owners; for an orphan the pod itself.
#[derive(Clone, Debug, PartialEq)]
pub struct TopController {
    /// The API version in the object or in the reference to it: `apps/v1`, `batch/v1`, `v1` of an orphan, or any other.
    pub api_version: String,
    /// Its kind; `Pod` of an orphan.
    pub kind: String,
    /// Its namespace: that of the pod.
    pub namespace: String,
    /// Its name, as in `metadata.name`.
    pub name: String,
    /// Its UID: that of the known object, or for a third party that in the reference.
    pub uid: String,
    /// The known object, by kind.
    pub workload: Workload,
}

/// A controller of a kind that Spiderpool knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Nothing controls the pod.
    Orphan,
    /// A Deployment, which controls the pod through a ReplicaSet.
    Deployment(Arc<Deployment>),
    /// A ReplicaSet without a Deployment.
    ReplicaSet(Arc<ReplicaSet>),
    /// A StatefulSet, which controls the pod itself.
    StatefulSet(Arc<StatefulSet>),
    /// A DaemonSet, which controls the pod itself.
    DaemonSet(Arc<DaemonSet>),
    /// A Job without a CronJob.
    Job(Arc<Job>),
    /// A CronJob, which controls the pod through a Job.
    CronJob(Arc<CronJob>),
    /// A controller of any other kind; only the reference to it was read.
    ThirdParty,
}

impl Workload {
    /// The desired number of pods, if it is known (A §8.3).
    pub fn pods(&self) -> Option<u64> {
        let count = match self {
            Self::Orphan => 1,
            Self::Deployment(it) => it.spec.replicas.unwrap_or(0),
            Self::ReplicaSet(it) => it.spec.replicas.unwrap_or(0),
            Self::StatefulSet(it) => it.spec.replicas.unwrap_or(0),
            Self::DaemonSet(it) => it.status.as_ref().map_or(0, |status| status.desired_number_scheduled),
            Self::Job(it) => pods_of_job(it.spec.as_ref()),
            Self::CronJob(it) => pods_of_job(it.spec.job_template.spec.as_ref()),
            Self::ThirdParty => return None,
        };
        Some(count.try_into().unwrap_or(0))
    }
}

fn pods_of_job(spec: Option<&JobSpec>) -> i32 {
    job_pod_number(spec.and_then(|spec| spec.parallelism), spec.and_then(|spec| spec.completions))
}

impl TopController {
    /// Follows the owners of a pod by their names, as upstream does.
    ///
    /// # Errors
    /// [`SelectError::MissingOwner`]: one of them is not known.
    pub fn of<C: Cluster + ?Sized>(cluster: &C, pod: &Pod) -> Result<Self, SelectError> {
        Self::follow(cluster, pod, &|_, _| true)
    }

    /// Follows the owners of a pod by their UIDs: another object of the same name that a cache shows still, or already, is not the owner,
    /// and has other pools.
    ///
    /// # Errors
    /// [`SelectError::MissingOwner`]: one of them is not known.
    pub fn of_uid<C: Cluster + ?Sized>(cluster: &C, pod: &Pod) -> Result<Self, SelectError> {
        Self::follow(cluster, pod, &|reference, meta| meta.uid.as_ref() == Some(&reference.uid))
    }

    /// Follows the owners of a pod. `is`: whether an object of the name in a reference is the one that the reference means.
    fn follow<C: Cluster + ?Sized>(cluster: &C, pod: &Pod, is: &dyn Fn(&OwnerReference, &ObjectMeta) -> bool) -> Result<Self, SelectError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let Some(owner) = controller_of(&pod.metadata) else {
            return Ok(Self::new(CORE, "Pod", namespace, &pod.metadata, Workload::Orphan));
        };
        let by_reference = || Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            workload: Workload::ThirdParty,
        };
        if ![CORE, APPS, BATCH].contains(&owner.api_version.as_str()) {
            return Ok(by_reference());
        }
        let missing = |reference: &OwnerReference| SelectError::MissingOwner { kind: reference.kind.clone(), name: reference.name.clone() };
        match owner.kind.as_str() {
            "ReplicaSet" => {
                let set =
                    cluster.replica_set(namespace, &owner.name).filter(|found| is(owner, &found.metadata)).ok_or_else(|| missing(owner))?;
                match controller_of(&set.metadata).filter(|above| above.api_version == APPS && above.kind == "Deployment") {
                    Some(above) => {
                        let deployment = cluster
                            .deployment(namespace, &above.name)
                            .filter(|found| is(above, &found.metadata))
                            .ok_or_else(|| missing(above))?;
                        let meta = deployment.metadata.clone();
                        Ok(Self::new(APPS, "Deployment", namespace, &meta, Workload::Deployment(deployment)))
                    }
                    None => Ok(Self::new(APPS, "ReplicaSet", namespace, &set.metadata.clone(), Workload::ReplicaSet(set))),
                }
            }
            "Job" => {
                let job = cluster.job(namespace, &owner.name).filter(|found| is(owner, &found.metadata)).ok_or_else(|| missing(owner))?;
                match controller_of(&job.metadata).filter(|above| above.api_version == BATCH && above.kind == "CronJob") {
                    Some(above) => {
                        let cron_job = cluster
                            .cron_job(namespace, &above.name)
                            .filter(|found| is(above, &found.metadata))
                            .ok_or_else(|| missing(above))?;
                        let meta = cron_job.metadata.clone();
                        Ok(Self::new(BATCH, "CronJob", namespace, &meta, Workload::CronJob(cron_job)))
                    }
                    None => Ok(Self::new(BATCH, "Job", namespace, &job.metadata.clone(), Workload::Job(job))),
                }
            }
            "StatefulSet" => {
                let set = cluster
                    .stateful_set(namespace, &owner.name)
                    .filter(|found| is(owner, &found.metadata))
                    .ok_or_else(|| missing(owner))?;
                Ok(Self::new(APPS, "StatefulSet", namespace, &set.metadata.clone(), Workload::StatefulSet(set)))
            }
            "DaemonSet" => {
                let set =
                    cluster.daemon_set(namespace, &owner.name).filter(|found| is(owner, &found.metadata)).ok_or_else(|| missing(owner))?;
                Ok(Self::new(APPS, "DaemonSet", namespace, &set.metadata.clone(), Workload::DaemonSet(set)))
            }
            _ => Ok(by_reference()),
        }
    }

    fn new(api_version: &str, kind: &str, namespace: &str, meta: &ObjectMeta, workload: Workload) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            workload,
        }
    }

    /// Whether nothing controls the pod.
    pub fn is_orphan(&self) -> bool {
        self.workload == Workload::Orphan
    }
}

/// Whether a pod may get and keep addresses (A §7.2).
pub fn is_alive(pod: &Pod) -> bool {
    if pod.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let status = pod.status.as_ref();
    let restarts = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    match status.and_then(|status| status.phase.as_deref()) {
        Some("Succeeded") => restarts == Some("Always"),
        Some("Failed") => restarts != Some("Never") && status.and_then(|status| status.reason.as_deref()) != Some("Evicted"),
        _ => true,
    }
}
