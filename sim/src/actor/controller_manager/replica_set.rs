//! ReplicaSets: so many pods with random names (K §7.2).
//!
//! A pod that terminates or has ended is no replica: its successor is made at once (K142). Pods are found by the UID of
//! their owner; pods without one are left alone: adoption is not modelled.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ipam_core::informer::StoreReader;
use ipam_core::{ApiError, Env};
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::jiff::Timestamp;

use super::families::{Family, Member};
use super::listen::deployment_of;
use super::names::DELETION_COST;
use super::shared::Shared;
use super::view::{Phase, name_of, node_of, ready_since};
use super::{Item, template};

/// The most pods that are made or deleted in one go.
const BURST: usize = 500;

pub(super) struct ReplicaSets {
    pub(super) shared: Arc<Shared>,
    pub(super) sets: StoreReader<ReplicaSet>,
}

/// What is to be done for a set.
#[derive(Debug, Default)]
struct Plan {
    create: usize,
    delete: Vec<Arc<Pod>>,
    status: ReplicaSetStatus,
    /// When a pod will have been ready for long enough.
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
        let Plan { create, delete, status, available_in } = plan;
        let gone = gone && create == 0;
        if let Some(wait) = available_in {
            self.shared.queue.add_after(item.clone(), wait);
        }
        // A Deployment that makes its pods anew waits until the last one is gone, which the status does not tell.
        if gone && let Some(deployment) = deployment_of(&set).filter(|deployment| self.shared.runs(deployment)) {
            self.shared.queue.add(deployment);
        }
        let mut done = Ok(());
        if create > 0 {
            let empty = PodTemplateSpec::default();
            let template = set.spec.template.as_ref().unwrap_or(&empty);
            let pod = template::pod(template, &*set, item.key.name());
            done = self.shared.create_pods(item, pod, create.min(BURST)).await;
        } else if !delete.is_empty() {
            done = self.shared.delete_pods(item, &delete).await;
        }
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
    if acts && tally.active < wanted {
        plan.create = (wanted - tally.active) as usize;
    } else if acts && tally.active > wanted {
        plan.delete = family.map_or_else(Vec::new, |family| superfluous(family, (tally.active - wanted) as usize, now));
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

/// How many of these pods have been ready for `min_ready` seconds, and when the next one will have been.
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

/// How long until a ready pod has been ready for `min_ready` seconds; `None` = it has.
pub(super) fn available_in(pod: &Pod, min_ready: i32, now: Timestamp) -> Option<Duration> {
    if min_ready <= 0 {
        return None;
    }
    let ready_for = ready_since(pod).map_or(0, |since| now.duration_since(since).as_millis().max(0));
    let left = i128::from(min_ready) * 1_000 - ready_for;
    // A moment that has come by a clock that counts whole seconds may be up to one away.
    (left > 0).then(|| Duration::from_millis(left as u64))
}

/// The `count` pods that are deleted first: Pending, not ready, cheap, crowded, newest.
pub(super) fn superfluous(family: &Family, count: usize, now: Timestamp) -> Vec<Arc<Pod>> {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    let active = || family.members().filter(|member| member.view.active());
    for member in active() {
        *on_node.entry(node_of(&member.pod).unwrap_or("")).or_default() += 1;
    }
    let rank = |member: &&Member| {
        let (pod, view) = (&member.pod, member.view);
        let phase = match view.phase {
            Phase::Pending => 0,
            Phase::Running => 2,
            _ => 1,
        };
        let annotations = pod.metadata.annotations.as_ref();
        let cost = annotations.and_then(|annotations| annotations.get(DELETION_COST)?.parse::<i32>().ok()).unwrap_or(0);
        let crowd = on_node.get(node_of(pod).unwrap_or("")).copied().unwrap_or(0);
        // Ages are compared by orders of magnitude, so that an old pod does not go because another one is a little older.
        let ready_for = ready_since(pod).map_or(0, |since| magnitude(now, since));
        let age = pod.metadata.creation_timestamp.as_ref().map_or(0, |time| magnitude(now, time.0));
        (view.scheduled, phase, view.ready, cost, Reverse(crowd), ready_for, age)
    };
    let mut pods: Vec<&Member> = active().collect();
    // Kubernetes leaves equals to chance.
    pods.sort_by_cached_key(|member| (rank(member), Reverse(name_of(&member.pod).to_owned())));
    pods.into_iter().take(count.min(BURST)).map(|member| member.pod.clone()).collect()
}

/// The order of magnitude of an age.
fn magnitude(now: Timestamp, since: Timestamp) -> u32 {
    let seconds = now.duration_since(since).as_secs().max(0);
    64 - (seconds as u64).leading_zeros()
}
