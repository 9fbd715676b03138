//! Jobs: pods that run to their end, each counted exactly once (K §7.3).
//!
//! ```text
//!   pod with finalizer ends ─► its UID into status.uncountedTerminatedPods ─► finalizer off ─► seen: UID out, counter up
//! ```
//! So the object of a pod stays, terminating and ended, until it is counted. A pod that terminates counts as failed, and its successor is
//! made at once, unless podReplacementPolicy is `Failed`.
//!
//! A Job is Complete or Failed only when its last pod is counted. Not modelled: pod failure policies, limits per index, success policies; a
//! suspended Job makes no pods, but those it has go on.
//!
//! A Job that is deleted in the foreground still counts its pods: otherwise their finalizers would keep them, and they would keep the Job.

mod indexes;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube_machinery::api::{DeleteOptions, Preconditions, ignore_not_found};
use kube_machinery::informer::StoreReader;
use kube_machinery::{ApiError, ClientExt, Env};
use parking_lot::Mutex;
use plan::{Plan, ends, plan};

use super::names::{JOB_FINALIZER, JOB_INDEX, JOB_NAME_LABEL, JOB_UID_LABEL};
use super::shared::Shared;
use super::{Item, batch, template};

/// The wait before the successor of the first pod that failed; it doubles with each further failure.
const BACK_OFF: Duration = Duration::from_secs(10);
/// The longest such wait.
const BACK_OFF_MAX: Duration = Duration::from_secs(600);

pub(super) struct Jobs {
    pub(super) shared: Arc<Shared>,
    pub(super) jobs: StoreReader<Job>,
    pub(super) failures: Mutex<BTreeMap<Item, Failures>>,
}

/// The failures of a Job's pods, as far as this process has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures {
    succeeded: i32,
    failed: i32,
    /// The number of failures since the last success.
    in_a_row: u32,
    last: Duration,
}

impl Failures {
    /// Takes in the current counts. Returns the time that successors have to wait.
    fn wait(&mut self, succeeded: i32, failed: i32, now: Duration) -> Duration {
        if succeeded > self.succeeded {
            self.in_a_row = 0;
        }
        if failed > self.failed {
            self.in_a_row += (failed - self.failed) as u32;
            self.last = now;
        }
        (self.succeeded, self.failed) = (succeeded, failed);
        let Some(doublings) = self.in_a_row.checked_sub(1) else { return Duration::ZERO };
        let wait = BACK_OFF.saturating_mul(1 << doublings.min(16)).min(BACK_OFF_MAX);
        wait.saturating_sub(now.saturating_sub(self.last))
    }
}

/// Whether a pod is still to be counted.
fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == JOB_FINALIZER)
}

impl Jobs {
    pub(super) async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        let job = self.jobs.get(&item.key);
        let orphans = self.shared.strangers(item, job.as_ref().and_then(|job| job.metadata.uid.as_deref()), is_tracked);
        let let_go = self.untrack(&orphans).await;
        let Some(job) = job else {
            self.shared.forget(item);
            self.failures.lock().remove(item);
            return let_go;
        };
        // The counts and the number of pods of the Job would be wrong. Kubernetes does the same (KEP-5647).
        if self.shared.is_behind(item, &job.metadata) {
            return let_go;
        }
        let (now, clock) = (self.shared.env.monotonic(), self.shared.env.wall());
        let acts = !self.shared.waits(item);
        let mut plan = self.shared.family(job.metadata.uid.as_deref(), |family| plan(&job, family, clock));
        if let Some(wait) = plan.look_again {
            self.shared.queue.add_after(item.clone(), wait);
        }
        let mut done = let_go;
        if plan.expired {
            let preconditions = Preconditions { uid: job.metadata.uid.clone(), ..Preconditions::default() };
            let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
            return ignore_not_found(self.shared.client.delete::<Job>(&item.key, options).await);
        }
        if !plan.create.is_empty() {
            let mut failures = self.failures.lock();
            let wait = failures.entry(item.clone()).or_default().wait(plan.succeeded, plan.failed, now);
            if !wait.is_zero() {
                plan.create.clear();
                self.shared.queue.add_after(item.clone(), wait);
            }
        }
        if acts && !plan.delete.is_empty() {
            done = done.and(self.shared.delete_pods(item, &plan.delete).await);
        } else if acts && !plan.create.is_empty() {
            done = done.and(self.create(item, &job, &plan).await);
        }
        self.report(item, &job, plan).await?;
        done
    }

    async fn create(&self, item: &Item, job: &Job, plan: &Plan) -> Result<(), ApiError> {
        let empty = PodTemplateSpec::default();
        let template = job.spec.as_ref().map_or(&empty, |spec| &spec.template);
        let name = item.key.name();
        let mut base = template::pod(template, job, name);
        base.metadata.finalizers.get_or_insert_default().push(JOB_FINALIZER.to_owned());
        let uid = job.metadata.uid.as_deref().unwrap_or("");
        for (label, value) in [(JOB_UID_LABEL, uid), (JOB_NAME_LABEL, name), ("controller-uid", uid), ("job-name", name)] {
            template::set_label(&mut base.metadata, label, value);
        }
        if plan.create.first().is_some_and(Option::is_none) {
            return self.shared.create_pods(item, base, plan.create.len()).await;
        }
        let indexed = |position: usize| {
            let mut pod = base.clone();
            if let Some(index) = plan.create[position] {
                let index = index.to_string();
                pod.metadata.generate_name = Some(format!("{name}-{index}-"));
                pod.spec.get_or_insert_default().hostname = Some(format!("{name}-{index}"));
                template::set_label(&mut pod.metadata, JOB_INDEX, &index);
                pod.metadata.annotations.get_or_insert_default().insert(JOB_INDEX.to_owned(), index);
            }
            Arc::new(pod)
        };
        self.shared.create_each_pod(item, plan.create.len(), indexed).await
    }

    /// Writes the counts, and then removes the finalizers of the pods counted.
    async fn report(&self, item: &Item, job: &Arc<Job>, plan: Plan) -> Result<(), ApiError> {
        let Plan { status, untrack, counts, .. } = plan;
        if job.status.as_ref() != Some(&status) {
            if !counts && !self.shared.may_write_status(item) {
                return Ok(());
            }
            let ended = ends(&status);
            let time_to_live = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
            let mut job = Job::clone(job);
            job.status = Some(status);
            self.shared.write_status(item, job).await?;
            if ended {
                self.failures.lock().remove(item);
                if let Some(seconds) = time_to_live {
                    self.shared.queue.add_after(item.clone(), Duration::from_secs(seconds.max(0) as u64));
                }
            }
        }
        self.untrack(&untrack).await
    }

    /// Removes the finalizer from these pods.
    async fn untrack(&self, pods: &[Arc<Pod>]) -> Result<(), ApiError> {
        let untrack = |index: usize| async move {
            let mut pod = Pod::clone(&pods[index]);
            if let Some(finalizers) = &mut pod.metadata.finalizers {
                finalizers.retain(|finalizer| finalizer != JOB_FINALIZER);
            }
            // Another pod of this name has nothing to do with this one.
            ignore_not_found(self.shared.client.update(pod).await)
        };
        batch::all(pods.len(), untrack).await.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_double_the_wait_and_a_success_ends_it() {
        let second = Duration::from_secs(1);
        let mut failures = Failures::default();
        assert_eq!(failures.wait(0, 0, second), Duration::ZERO);
        assert_eq!(failures.wait(0, 1, second * 10), second * 10);
        assert_eq!(failures.wait(0, 1, second * 14), second * 6);
        assert_eq!(failures.wait(0, 3, second * 30), second * 40);
        assert_eq!(failures.wait(0, 20, second * 30), BACK_OFF_MAX);
        assert_eq!(failures.wait(1, 20, second * 30), Duration::ZERO);
    }
}
