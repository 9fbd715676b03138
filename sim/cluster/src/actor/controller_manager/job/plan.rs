//! The next work for a Job, from its status and from what is known of its pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::super::families::{Family, Member};
use super::super::names::JOB_INDEX;
use super::super::view::{Phase, label, uid_of};
use super::{indexes, is_tracked};

/// The work to do for a Job.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The pods to make, each with its index in an Indexed Job.
    pub(super) create: Vec<Option<i32>>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// The pods whose finalizer is to be removed once the status is written.
    pub(super) untrack: Vec<Arc<Pod>>,
    pub(super) status: JobStatus,
    /// Whether the status says more than the number of pods that exist.
    pub(super) counts: bool,
    /// The numbers of all pods that succeeded and that failed, counted or not.
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    /// The time after which the Job is to be looked at again.
    pub(super) look_again: Option<Duration>,
    /// Whether the Job ended long enough ago.
    pub(super) expired: bool,
}

/// The time at which a Job ended, if it has.
fn ended_at(status: &JobStatus) -> Option<Timestamp> {
    let ends = |condition: &&JobCondition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True";
    let condition = status.conditions.iter().flatten().find(ends)?;
    Some(condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

/// Whether a Job has ended.
pub(super) fn ends(status: &JobStatus) -> bool {
    ended_at(status).is_some()
}

/// The outcome of a Job that is over.
enum Verdict {
    Complete,
    Failed(&'static str),
}

pub(super) fn plan(job: &Job, family: Option<&Family>, now: Timestamp) -> Plan {
    let empty = JobSpec::default();
    let spec = job.spec.as_ref().unwrap_or(&empty);
    let known = job.status.clone().unwrap_or_default();
    let members = || family.into_iter().flat_map(Family::members);
    let mut plan = Plan::default();
    let is_terminating = job.metadata.deletion_timestamp.is_some();
    if let Some(at) = ended_at(&known) {
        plan.untrack = members().filter(|member| is_tracked(&member.pod)).map(|member| member.pod.clone()).collect();
        if let Some(ttl) = spec.ttl_seconds_after_finished.filter(|_| !is_terminating) {
            plan.look_again = until(at, i64::from(ttl), now);
            plan.expired = plan.look_again.is_none();
        }
        plan.status = known;
        return plan;
    }
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let mut status = known.clone();
    status.start_time.get_or_insert(Time(whole(now)));
    let mut completed = indexed.then(|| indexes::parse(known.completed_indexes.as_deref().unwrap_or("")));
    count(&mut status, &mut plan, members(), completed.as_mut());
    let verdict = judge(spec, &mut plan, &status, completed.as_ref(), members(), now);
    let active: Vec<&Member> = members().filter(|member| member.view.active()).collect();
    let terminating = members().filter(|member| member.view.terminating && !member.view.ended()).count() as i32;
    match verdict {
        Some(verdict) => {
            plan.delete = active.iter().map(|member| member.pod.clone()).collect();
            let uncounted = status.uncounted_terminated_pods.is_some() || members().any(|member| is_tracked(&member.pod));
            if active.is_empty() && !uncounted {
                end(&mut status, &verdict, now);
            }
        }
        None if is_terminating => {}
        None => manage(spec, &mut plan, &active, terminating, completed.as_ref()),
    }
    let ready = active.iter().filter(|member| member.view.ready).count() as i32;
    status.active = (!active.is_empty()).then_some(active.len() as i32);
    status.ready = Some(ready);
    status.terminating = Some(terminating);
    status.completed_indexes = completed.filter(|completed| !completed.is_empty()).map(|completed| indexes::print(&completed));
    plan.counts = status.uncounted_terminated_pods != known.uncounted_terminated_pods
        || (status.succeeded, status.failed) != (known.succeeded, known.failed)
        || ends(&status);
    plan.status = status;
    plan
}

/// Moves pods that have ended from untracked to uncounted to counted.
fn count<'m>(status: &mut JobStatus, plan: &mut Plan, members: impl Iterator<Item = &'m Member>, completed: Option<&mut BTreeSet<i32>>) {
    let of = |uids: Option<Vec<String>>| uids.unwrap_or_default().into_iter().collect::<BTreeSet<String>>();
    let UncountedTerminatedPods { succeeded, failed } = status.uncounted_terminated_pods.take().unwrap_or_default();
    let (mut succeeded, mut failed) = (of(succeeded), of(failed));
    let mut tracked: BTreeSet<&str> = BTreeSet::new();
    let mut done = BTreeSet::new();
    for member in members.filter(|member| is_tracked(&member.pod)) {
        let (pod, uid) = (&member.pod, uid_of(&member.pod));
        tracked.insert(uid);
        if !succeeded.contains(uid) && !failed.contains(uid) {
            match member.view.phase {
                Phase::Succeeded => {
                    done.extend(index_of(pod));
                    succeeded.insert(uid.to_owned());
                }
                // A terminating pod counts as failed, since its success might never be seen.
                Phase::Failed => drop(failed.insert(uid.to_owned())),
                _ if member.view.terminating => drop(failed.insert(uid.to_owned())),
                _ => continue,
            }
        }
        plan.untrack.push(pod.clone());
    }
    if let Some(completed) = completed {
        completed.extend(done);
    }
    let counted = |uncounted: &mut BTreeSet<String>, counter: &mut Option<i32>| {
        let before = uncounted.len();
        uncounted.retain(|uid| tracked.contains(uid.as_str()));
        let counted = (before - uncounted.len()) as i32;
        if counted > 0 {
            *counter = Some(counter.unwrap_or(0) + counted);
        }
        counter.unwrap_or(0) + uncounted.len() as i32
    };
    plan.succeeded = counted(&mut succeeded, &mut status.succeeded);
    plan.failed = counted(&mut failed, &mut status.failed);
    if !succeeded.is_empty() || !failed.is_empty() {
        let list = |uids: BTreeSet<String>| (!uids.is_empty()).then(|| uids.into_iter().collect());
        status.uncounted_terminated_pods = Some(UncountedTerminatedPods { succeeded: list(succeeded), failed: list(failed) });
    }
}

fn index_of(pod: &Pod) -> Option<i32> {
    label(pod, JOB_INDEX)?.parse().ok()
}

/// The verdict on a Job if it is over, except that pods may still be running.
fn judge<'m>(
    spec: &JobSpec,
    plan: &mut Plan,
    status: &JobStatus,
    completed: Option<&BTreeSet<i32>>,
    mut members: impl Iterator<Item = &'m Member>,
    now: Timestamp,
) -> Option<Verdict> {
    if plan.failed > spec.backoff_limit.unwrap_or(6) {
        return Some(Verdict::Failed("BackoffLimitExceeded"));
    }
    if let (Some(limit), Some(start)) = (spec.active_deadline_seconds, &status.start_time) {
        match until(start.0, limit, now) {
            None => return Some(Verdict::Failed("DeadlineExceeded")),
            left => plan.look_again = left,
        }
    }
    let complete = match (completed, spec.completions) {
        (Some(completed), completions) => completed.len() as i32 >= completions.unwrap_or(1),
        (None, Some(completions)) => plan.succeeded >= completions,
        // The first pod that succeeds shows that the work is done; the others finish theirs.
        (None, None) => plan.succeeded > 0 && !members.any(|member| member.view.active()),
    };
    complete.then_some(Verdict::Complete)
}

/// Brings the number of active pods to what the Job wants.
fn manage(spec: &JobSpec, plan: &mut Plan, active: &[&Member], terminating: i32, completed: Option<&BTreeSet<i32>>) {
    if spec.suspend == Some(true) {
        return;
    }
    let parallelism = spec.parallelism.unwrap_or(1).max(0);
    let count = active.len() as i32;
    let wanted = match (completed, spec.completions) {
        (Some(completed), completions) => parallelism.min(completions.unwrap_or(1) - completed.len() as i32),
        (None, Some(completions)) => parallelism.min(completions - plan.succeeded),
        (None, None) if plan.succeeded > 0 => count.min(parallelism),
        (None, None) => parallelism,
    };
    if count > wanted {
        // Pods that have made the least progress go first.
        let mut surplus: Vec<&&Member> = active.iter().collect();
        surplus.sort_by_key(|member| (member.view.scheduled, member.view.phase, member.view.ready));
        plan.delete = surplus.into_iter().take((count - wanted) as usize).map(|member| member.pod.clone()).collect();
        return;
    }
    let held = if spec.pod_replacement_policy.as_deref() == Some("Failed") { terminating } else { 0 };
    let missing = (wanted - count - held).max(0) as usize;
    plan.create = match completed {
        None => vec![None; missing],
        Some(completed) => {
            let taken: BTreeSet<i32> = active.iter().filter_map(|member| index_of(&member.pod)).collect();
            let free = (0..spec.completions.unwrap_or(1)).filter(|index| !completed.contains(index) && !taken.contains(index));
            free.take(missing).map(Some).collect()
        }
    };
}

fn end(status: &mut JobStatus, verdict: &Verdict, now: Timestamp) {
    let at = Time(whole(now));
    let (kind, reason) = match verdict {
        Verdict::Complete => ("Complete", "CompletionsReached"),
        Verdict::Failed(reason) => ("Failed", *reason),
    };
    let condition = JobCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        last_transition_time: Some(at.clone()),
        last_probe_time: Some(at.clone()),
        ..JobCondition::default()
    };
    status.conditions.get_or_insert_default().push(condition);
    if matches!(verdict, Verdict::Complete) {
        status.completion_time = Some(at);
    }
}

/// The time left until `seconds` after `start`; `None` = it has passed.
fn until(start: Timestamp, seconds: i64, now: Timestamp) -> Option<Duration> {
    let left = SignedDuration::from_secs(seconds) - now.duration_since(start);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// Truncates to whole seconds, as in the wire format.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
