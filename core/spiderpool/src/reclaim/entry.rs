//! A pod that is traced until its deadline, and the calculation of deadlines (G §1.3, §3.1).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::settings::ReclaimSettings;
use crate::validity::may_run;
use crate::{Keeper, Policy};
use kube_machinery::api::ObjectKey;

/// The reason why a pod is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tracing {
    /// It has a deletionTimestamp.
    Terminating,
    /// Its phase is Succeeded.
    Succeeded,
    /// Its phase is Failed.
    Failed,
    /// Its object is gone.
    Deleted,
}

impl Tracing {
    /// The public name, as upstream writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminating => "Terminating",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Deleted => "Deleted",
        }
    }
}

/// The time for which a pod keeps its addresses; on the wall clock, as the API server's times are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// deletionTimestamp, the latest end of a container, or the time of the event.
    pub start: Timestamp,
    /// The grace period from `start` on, with the additional delay.
    pub grace: SignedDuration,
    /// The deadline: reclaim acts strictly after it.
    pub stop: Timestamp,
}

impl Term {
    /// Creates a term from `start` with `grace` and the additional delay; a deadline beyond the calendar is its end.
    pub(super) fn new(start: Timestamp, grace: SignedDuration, settings: &ReclaimSettings) -> Self {
        let grace = grace.saturating_add(settings.grace_delay);
        let stop = start.checked_add(grace).unwrap_or(if grace.is_negative() { Timestamp::MIN } else { Timestamp::MAX });
        Self { start, grace, stop }
    }

    /// The term of a terminating pod; `None` = it states no grace period, and Kubernetes' default is not used here.
    pub(super) fn of_terminating(pod: &Pod, settings: &ReclaimSettings, policy: &Policy) -> Option<Self> {
        let start = pod.metadata.deletion_timestamp.as_ref()?.0;
        let stated = pod.metadata.deletion_grace_period_seconds.or((!policy.reclaim.nil_fields_crash).then_some(DEFAULT_GRACE))?;
        // deletionTimestamp already includes the stated grace period, which may be shorter than the containers' actual one; the second one
        // in the documents is the margin.
        let grace = in_truth(stated, policy);
        let margin = if policy.reclaim.grace_counted_once { 0 } else { grace };
        Some(Self::new(start, SignedDuration::from_secs(grace.saturating_sub(stated).saturating_add(margin)), settings))
    }

    /// The term of a pod that has ended, from the latest end of a container; `Err(true)` = it names none, `Err(false)` = no grace period.
    pub(super) fn of_ended(pod: &Pod, settings: &ReclaimSettings, policy: &Policy) -> Result<Self, bool> {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        let ended = statuses.into_iter().flatten().filter_map(|status| {
            let terminated = status.state.as_ref()?.terminated.as_ref()?;
            Some(terminated.finished_at.as_ref()?.0)
        });
        let start = ended.max().ok_or(true)?;
        Ok(Self::new(start, termination_grace(pod, policy).ok_or(false)?, settings))
    }

    /// The term of an ended pod that was first seen so at `now`; without a stated grace period Kubernetes' default.
    pub(super) fn of_ended_unseen(pod: &Pod, now: Timestamp, settings: &ReclaimSettings, policy: &Policy) -> Self {
        let grace = termination_grace(pod, policy).unwrap_or(SignedDuration::from_secs(DEFAULT_GRACE));
        Self::new(now, grace, settings)
    }

    /// Whether reclaim may act.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now > self.stop
    }
}

/// Kubernetes' default for a pod's grace period.
pub(super) const DEFAULT_GRACE: i64 = 30;

/// The minimum that a kubelet gives to containers, in seconds: with a grace period of 0, and after a hook that used the grace period up (K
/// §5.2).
const LEAST_GRACE: i64 = 2;

/// The time that a pod's containers really have if the pod is asked to end within `stated` seconds.
pub(super) fn in_truth(stated: i64, policy: &Policy) -> i64 {
    if policy.reclaim.grace_floor_ignored { stated } else { stated.max(LEAST_GRACE) }
}

fn termination_grace(pod: &Pod, policy: &Policy) -> Option<SignedDuration> {
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    grace.or((!policy.reclaim.nil_fields_crash).then_some(DEFAULT_GRACE)).map(SignedDuration::from_secs)
}

/// The term in which the containers of a pod may run whose object was gone at `now`; `None` = they have ended, or never started.
pub(super) fn end_of_grace(pod: &Pod, now: Timestamp, settings: &ReclaimSettings, policy: &Policy) -> Option<Term> {
    if !may_run(pod) {
        return None;
    }
    // A pod that never got a deletionTimestamp, or was forced to a grace period of 0, counts as deleted when it vanished: its containers
    // have the grace period of its spec, and it gets that twice, like any other.
    let forced = pod.metadata.deletion_grace_period_seconds == Some(0);
    let term = Term::of_terminating(pod, settings, policy).filter(|_| !forced).unwrap_or_else(|| {
        let stated = termination_grace(pod, policy).map_or(DEFAULT_GRACE, |grace| grace.as_secs());
        let times = if policy.reclaim.grace_counted_once { 1 } else { 2 };
        Term::new(now, SignedDuration::from_secs(in_truth(stated, policy).saturating_mul(times)), settings)
    });
    (term.stop > now).then_some(term)
}

/// A pod that is traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEntry {
    /// Namespace and name of the pod, which may be gone.
    pub pod: ObjectKey,
    /// The UID of the pod, which distinguishes it from others of its name.
    pub uid: Arc<str>,
    /// Its node; empty if it has none.
    pub node: Arc<str>,
    /// The name of its endpoint and its records: the pod's, or that of its VM.
    pub key: ObjectKey,
    /// The owner that could have kept its addresses.
    pub keeper: Keeper,
    /// The reason why it is traced.
    pub tracing: Tracing,
    /// The time for which it keeps its addresses.
    pub term: Term,
    /// The time when the entry was made or last changed.
    pub entered: Timestamp,
    /// The number of failed releases.
    pub requeues: u32,
}

/// An entry on its way to an executor.
#[derive(Clone, Debug)]
pub(super) struct Fired {
    pub(super) entry: PodEntry,
    /// The term in which the deadline passed.
    pub(super) term: u64,
}
