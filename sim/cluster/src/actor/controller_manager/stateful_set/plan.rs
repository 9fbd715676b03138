//! The next work for a StatefulSet, from what is known of its pods.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;

use super::super::families::{Family, Member};
use super::super::names::REVISION_LABEL;
use super::super::replica_set::available_in;
use super::super::view::{label, name_of};

/// The work to do for a set.
#[derive(Debug)]
pub(super) struct Plan {
    /// The revision that pods below the partition have.
    pub(super) current: String,
    /// The ordinals of the pods to make, and whether each is below the partition.
    pub(super) create: Vec<(i64, bool)>,
    pub(super) delete: Vec<Arc<Pod>>,
    pub(super) status: StatefulSetStatus,
    /// The time until a pod has been ready for long enough.
    pub(super) available_in: Option<Duration>,
}

/// The name of the StatefulSet that a pod could belong to, and its ordinal, taken from its name.
pub(in super::super) fn place_of(pod: &Pod) -> Option<(&str, i64)> {
    let (set, ordinal) = name_of(pod).rsplit_once('-')?;
    Some((set, ordinal.parse().ok()?))
}

fn revision_of(pod: &Pod) -> &str {
    label(pod, REVISION_LABEL).unwrap_or("")
}

pub(super) fn plan(set: &StatefulSet, family: Option<&Family>, update: &str, now: Timestamp) -> Plan {
    let spec = &set.spec;
    let known = set.status.as_ref();
    let current = known.and_then(|status| status.current_revision.clone()).unwrap_or_else(|| update.to_owned());
    let start = spec.ordinals.as_ref().map_or(0, |ordinals| i64::from(ordinals.start.unwrap_or(0)));
    let wanted = i64::from(spec.replicas.unwrap_or(1).max(0));
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let strategy = spec.update_strategy.as_ref();
    let partition = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.partition).unwrap_or(0);
    let rolls = strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete");

    let mut replicas: Vec<Option<&Member>> = vec![None; wanted as usize];
    let mut condemned: Vec<(i64, &Member)> = Vec::new();
    let (mut ready, mut available, mut next) = (0, 0, None::<Duration>);
    let (mut on_current, mut on_update) = (0, 0);
    for member in family.into_iter().flat_map(Family::members) {
        let Some((_, ordinal)) = place_of(&member.pod) else { continue };
        match ordinal.checked_sub(start).filter(|index| (0..wanted).contains(index)) {
            Some(index) => replicas[index as usize] = Some(member),
            None => condemned.push((ordinal, member)),
        }
        if member.view.serves() {
            ready += 1;
            match available_in(&member.pod, min_ready, now) {
                None => available += 1,
                Some(left) => next = Some(next.map_or(left, |next| next.min(left))),
            }
        }
        if !member.view.terminating {
            let revision = revision_of(&member.pod);
            on_current += i32::from(revision == current);
            on_update += i32::from(revision == update);
        }
    }
    condemned.sort_by_key(|(ordinal, _)| Reverse(*ordinal));
    let is_available = |member: &Member| member.view.healthy() && available_in(&member.pod, min_ready, now).is_none();
    let next_step = Steps {
        ordered: spec.pod_management_policy.as_deref() != Some("Parallel"),
        start,
        partition: i64::from(partition),
        outdated: current != update,
        rolls,
        update,
    };
    let (mut create, mut delete) = (Vec::new(), Vec::new());
    next_step.take(&replicas, &condemned, is_available, &mut create, &mut delete);

    let total = family.map_or(0, |family| family.len() as i32);
    let some = |count: i32| (count > 0).then_some(count);
    let rolled = rolls && on_update == total && ready == total;
    let status = StatefulSetStatus {
        replicas: total,
        ready_replicas: some(ready),
        available_replicas: Some(available),
        current_replicas: some(if rolled { on_update } else { on_current }),
        updated_replicas: some(on_update),
        current_revision: Some(if rolled { update.to_owned() } else { current.clone() }),
        update_revision: Some(update.to_owned()),
        observed_generation: set.metadata.generation,
        collision_count: known.map_or(Some(0), |status| status.collision_count),
        conditions: known.and_then(|status| status.conditions.clone()),
    };
    Plan { current, create, delete, status, available_in: next }
}

/// The rules by which a set proceeds.
struct Steps<'s> {
    /// Whether the set is OrderedReady: one step at a time.
    ordered: bool,
    start: i64,
    partition: i64,
    /// Whether the set is between two revisions.
    outdated: bool,
    rolls: bool,
    update: &'s str,
}

impl Steps<'_> {
    fn take(
        &self,
        replicas: &[Option<&Member>],
        condemned: &[(i64, &Member)],
        is_available: impl Fn(&Member) -> bool,
        create: &mut Vec<(i64, bool)>,
        delete: &mut Vec<Arc<Pod>>,
    ) {
        let mut ended = false;
        for (index, replica) in (0..).zip(replicas) {
            match replica {
                None => {
                    create.push((self.start + index, self.outdated && self.rolls && index < self.partition));
                    if self.ordered {
                        return;
                    }
                }
                Some(member) if member.view.ended() => {
                    // Its successor is made when it is gone.
                    if !member.view.terminating {
                        delete.push(member.pod.clone());
                    }
                    ended = true;
                    if self.ordered {
                        return;
                    }
                }
                Some(member) if self.ordered && !is_available(member) => return,
                Some(_) => {}
            }
        }
        if ended {
            return;
        }
        // Of the pods that are not healthy, only the lowest may be deleted.
        let lowest_unhealthy = condemned.iter().filter(|(_, member)| !member.view.healthy()).map(|(ordinal, _)| *ordinal).min();
        for (ordinal, member) in condemned {
            if member.view.terminating {
                if self.ordered {
                    return;
                }
                continue;
            }
            if self.ordered && !member.view.serves() && lowest_unhealthy != Some(*ordinal) {
                return;
            }
            delete.push(member.pod.clone());
            if self.ordered {
                return;
            }
        }
        if !self.rolls {
            return;
        }
        let partition = self.partition.clamp(0, replicas.len() as i64) as usize;
        for replica in replicas[partition..].iter().rev() {
            let Some(member) = replica else { return };
            if revision_of(&member.pod) != self.update && !member.view.terminating {
                delete.push(member.pod.clone());
                return;
            }
            if !is_available(member) {
                return;
            }
        }
    }
}
