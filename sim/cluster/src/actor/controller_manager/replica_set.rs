//! ReplicaSets: a fixed number of pods with random names (K §7.2).
//!
//! A pod that terminates or has ended is no replica: its successor is made at once (K142). Pods are found by the UID of their owner; pods
//! without one are left alone: adoption is not modelled.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::jiff::Timestamp;
use kube_machinery::informer::StoreReader;
use kube_machinery::{ApiError, Env};

use super::deployment::deployment_of;
use super::families::{Family, Member};
use super::replicas::Change;
use super::shared::Shared;
use super::view::ready_since;
use super::{Item, template};

pub(super) struct ReplicaSets {
    pub(super) shared: Arc<Shared>,
    pub(super) sets: StoreReader<ReplicaSet>,
}

/// The work to do for a set.
#[derive(Debug, Default)]
struct Plan {
    change: Change,
    status: ReplicaSetStatus,
    /// The time until a pod has been ready for long enough.
    available_in: Option<Duration>,
}

impl ReplicaSets {
    pub(super) async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        let Some(set) = self.sets.get(&item.key) else {
            self.shared.forget(item);
            return Ok(());
        };
        let behind = self.shared.is_behind(item, &set.metadata);
        let acts = set.metadata.deletion_timestamp.is_none() && !self.shared.waits(item);
        let now = self.shared.env.wall();
        let (gone, plan) = self.shared.family(set.metadata.uid.as_deref(), |family| (family.is_none(), plan(&set, family, acts, now)));
        let Plan { change, status, available_in } = plan;
        let gone = gone && !matches!(change, Change::Create(_));
        if let Some(wait) = available_in {
            self.shared.queue.add_after(item.clone(), wait);
        }
        // A Deployment with strategy Recreate waits until the last pod is gone, which the status does not show.
        if gone && let Some(deployment) = deployment_of(&set).filter(|deployment| self.shared.runs(deployment)) {
            self.shared.queue.add(deployment);
        }
        let pod = || {
            let empty = PodTemplateSpec::default();
            template::pod(set.spec.template.as_ref().unwrap_or(&empty), &*set, item.key.name())
        };
        let done = change.carry_out(&self.shared, item, pod).await;
        if !behind && set.status.as_ref() != Some(&status) && self.shared.may_write_status(item) {
            let mut set = ReplicaSet::clone(&set);
            set.status = Some(status);
            self.shared.write_status(item, set).await?;
        }
        done
    }
}

fn plan(set: &ReplicaSet, family: Option<&Family>, acts: bool, now: Timestamp) -> Plan {
    let wanted = set.spec.replicas.unwrap_or(1).max(0);
    let min_ready = set.spec.min_ready_seconds.unwrap_or(0);
    let tally = family.map(|family| family.tally).unwrap_or_default();
    let mut plan = Plan::default();
    if acts {
        plan.change = Change::towards(wanted, family, now);
    }
    let (available, wait) = match family {
        Some(family) if min_ready > 0 => available(family.members().filter(|member| member.view.active()), min_ready, now),
        _ => (tally.ready, None),
    };
    plan.available_in = wait;
    let some = |count: i32| (count > 0).then_some(count);
    plan.status = ReplicaSetStatus {
        replicas: tally.active,
        fully_labeled_replicas: some(tally.active),
        ready_replicas: some(tally.ready),
        available_replicas: some(available),
        observed_generation: set.metadata.generation,
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
        terminating_replicas: set.status.as_ref().and_then(|status| status.terminating_replicas),
    };
    plan
}

/// The number of these pods that have been ready for `min_ready` seconds, and the time until the next one has.
pub(super) fn available<'m>(members: impl Iterator<Item = &'m Member>, min_ready: i32, now: Timestamp) -> (i32, Option<Duration>) {
    let (mut count, mut next) = (0, None::<Duration>);
    for member in members.filter(|member| member.view.ready) {
        match available_in(&member.pod, min_ready, now) {
            None => count += 1,
            Some(left) => next = Some(next.map_or(left, |next| next.min(left))),
        }
    }
    (count, next)
}

/// The time until a ready pod has been ready for `min_ready` seconds; `None` = it has.
pub(super) fn available_in(pod: &Pod, min_ready: i32, now: Timestamp) -> Option<Duration> {
    if min_ready <= 0 {
        return None;
    }
    let ready_for = ready_since(pod).map_or(0, |since| now.duration_since(since).as_millis().max(0));
    let left = i128::from(min_ready) * 1_000 - ready_for;
    // On a clock that counts whole seconds, a moment that has come may be up to one second away.
    (left > 0).then(|| Duration::from_millis(left as u64))
}
