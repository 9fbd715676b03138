//! CronJobs: Jobs that are made on a schedule (K §7.3).
//!
//! ```text
//!   schedule ─► the latest time that is due ─► Job NAME-SECONDS ─► status.lastScheduleTime
//! ```
//! Only schedules of the form `@every 90s` are modelled; missed times are made up for by one late Job. The name of a Job contains its time,
//! so that no Job is made twice: to the second, where Kubernetes writes the minute, as schedules here may be closer. Not modelled: starting
//! deadlines and time zones.

mod schedule;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube_machinery::api::{DeleteOptions, Preconditions, ignore_not_found};
use kube_machinery::informer::StoreReader;
use kube_machinery::{ApiError, ClientExt, Env, ObjectKey};

use super::shared::Shared;
use super::{Item, OWNER, batch, template};

/// The annotation of a Job with the time that it was made for.
const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub(super) struct CronJobs {
    pub(super) shared: Arc<Shared>,
    pub(super) cron_jobs: StoreReader<CronJob>,
    pub(super) jobs: StoreReader<Job>,
}

/// The state of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Runs,
    Complete,
    Failed,
}

fn stand(job: &Job) -> Stand {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ended = conditions.filter(|condition| condition.status == "True").filter_map(|condition| match condition.type_.as_str() {
        "Complete" => Some(Stand::Complete),
        "Failed" => Some(Stand::Failed),
        _ => None,
    });
    ended.next().unwrap_or(Stand::Runs)
}

impl CronJobs {
    pub(super) async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        let Some(cron_job) = self.cron_jobs.get(&item.key) else {
            self.shared.forget(item);
            return Ok(());
        };
        if cron_job.metadata.deletion_timestamp.is_some() || self.shared.is_behind(item, &cron_job.metadata) {
            return Ok(());
        }
        let mut jobs = Vec::new();
        self.jobs.by_index(OWNER, cron_job.metadata.uid.as_deref().unwrap_or(""), |job| jobs.push(Arc::clone(job)));
        jobs.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let mut active = self.active(&cron_job, &jobs).await?;
        let mut status = cron_job.status.clone().unwrap_or_default();
        self.clean_up(&cron_job, &jobs).await?;
        let made = self.make_what_is_due(item, &cron_job, &mut active, &mut status).await;
        status.active = Some(active).filter(|active| !active.is_empty());
        if cron_job.status.clone().unwrap_or_default() != status {
            let mut cron_job = CronJob::clone(&cron_job);
            cron_job.status = Some(status);
            self.shared.write_status(item, cron_job).await?;
        }
        made
    }

    /// The Jobs that run, including one that was just made and may not be in the cache yet.
    async fn active(&self, cron_job: &CronJob, jobs: &[Arc<Job>]) -> Result<Vec<ObjectReference>, ApiError> {
        let mut active: Vec<ObjectReference> = jobs.iter().filter(|job| stand(job) == Stand::Runs).map(|job| reference(job)).collect();
        let known: BTreeSet<Option<&str>> = jobs.iter().map(|job| job.metadata.uid.as_deref()).collect();
        for told in cron_job.status.iter().flat_map(|status| status.active.iter().flatten()) {
            if known.contains(&told.uid.as_deref()) {
                continue;
            }
            let key = template::beside(cron_job, told.name.as_deref().unwrap_or(""));
            match self.shared.client.get::<Job>(&key).await {
                Err(error) if error.is_not_found() => {}
                job => {
                    let job = job?;
                    if job.metadata.uid == told.uid && stand(&job) == Stand::Runs {
                        active.push(reference(&job));
                    }
                }
            }
        }
        Ok(active)
    }

    /// Makes the Job of the latest time that is due, and queues the CronJob again for the next one.
    async fn make_what_is_due(
        &self,
        item: &Item,
        cron_job: &CronJob,
        active: &mut Vec<ObjectReference>,
        status: &mut CronJobStatus,
    ) -> Result<(), ApiError> {
        let spec = &cron_job.spec;
        let Some(every) = schedule::every(&spec.schedule).filter(|_| spec.suspend != Some(true)) else { return Ok(()) };
        let created = cron_job.metadata.creation_timestamp.as_ref();
        let Some(Time(since)) = status.last_schedule_time.as_ref().or(created) else { return Ok(()) };
        let (due, next) = schedule::due(every, *since, self.shared.env.wall());
        self.shared.queue.add_after(item.clone(), next);
        let Some(at) = due else { return Ok(()) };
        match spec.concurrency_policy.as_deref() {
            // The Job is made when the active one has ended.
            Some("Forbid") if !active.is_empty() => return Ok(()),
            Some("Replace") => {
                for job in active.drain(..) {
                    let key = template::beside(cron_job, job.name.as_deref().unwrap_or(""));
                    ignore_not_found(self.shared.client.delete::<Job>(&key, of_uid(job.uid)).await)?;
                }
            }
            _ => {}
        }
        match self.shared.client.create::<Job>(job_of(cron_job, at)).await {
            // The Job was made before a crash, or the reply was lost: the cache will show its state.
            Err(error) if error.is_already_exists() => {}
            job => active.push(reference(&*job?)),
        }
        status.last_schedule_time = Some(Time(at));
        Ok(())
    }

    /// Deletes the oldest Jobs that have ended, beyond the history limits.
    async fn clean_up(&self, cron_job: &CronJob, jobs: &[Arc<Job>]) -> Result<(), ApiError> {
        let spec = &cron_job.spec;
        let keep = |limit: Option<i32>, default: usize| limit.map_or(default, |limit| limit.max(0) as usize);
        let limits =
            [(Stand::Complete, keep(spec.successful_jobs_history_limit, 3)), (Stand::Failed, keep(spec.failed_jobs_history_limit, 1))];
        for (how, limit) in limits {
            let ended: Vec<&Arc<Job>> = jobs.iter().filter(|job| stand(job) == how && job.metadata.deletion_timestamp.is_none()).collect();
            let delete = |index: usize| {
                let (key, options) = (ObjectKey::of(&**ended[index]), of_uid(ended[index].metadata.uid.clone()));
                async move { ignore_not_found(self.shared.client.delete::<Job>(&key, options).await) }
            };
            batch::all(ended.len().saturating_sub(limit), delete).await.1?;
        }
        Ok(())
    }
}

fn of_uid(uid: Option<String>) -> DeleteOptions {
    DeleteOptions { preconditions: Preconditions { uid, ..Preconditions::default() }, ..DeleteOptions::default() }
}

fn reference(job: &Job) -> ObjectReference {
    let ObjectMeta { name, namespace, uid, .. } = job.metadata.clone();
    let (api_version, kind) = (Some("batch/v1".to_owned()), Some("Job".to_owned()));
    ObjectReference { api_version, kind, name, namespace, uid, ..ObjectReference::default() }
}

/// The Job of a time.
fn job_of(cron_job: &CronJob, at: Timestamp) -> Job {
    let template = &cron_job.spec.job_template;
    let own = template.metadata.clone().unwrap_or_default();
    let mut annotations = own.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED_AT.to_owned(), at.to_string());
    let metadata = ObjectMeta {
        name: Some(format!("{}-{}", cron_job.metadata.name.as_deref().unwrap_or(""), at.as_second())),
        namespace: cron_job.metadata.namespace.clone(),
        labels: own.labels,
        annotations: Some(annotations),
        owner_references: Some(vec![template::reference(cron_job)]),
        ..ObjectMeta::default()
    };
    Job { metadata, spec: template.spec.clone(), status: None }
}
