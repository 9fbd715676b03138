//! CloneSets: the pods of a controller that is not part of Kubernetes.
//!
//! It makes and deletes pods as a ReplicaSet does (K §7.2). Pods of an older template are deleted a few at a time, and their replacements
//! have the new one. Not modelled from OpenKruise: in-place updates, partitions, volumes and lifecycle hooks.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube_machinery::informer::StoreReader;
use kube_machinery::{ApiError, Env};

use super::families::{Family, Member};
use super::names::REVISION_LABEL;
use super::replicas::Change;
use super::shared::Shared;
use super::view::label;
use super::{Item, template};
use crate::kinds::kruise::{CloneSet, CloneSetStatus};

/// The number of pods for each one that may be missing during a roll-out (`maxUnavailable`: 20 %).
const PODS_FOR_ONE_MISSING: i32 = 5;

pub(super) struct CloneSets {
    pub(super) shared: Arc<Shared>,
    pub(super) sets: StoreReader<CloneSet>,
}

/// The work to do for a set.
#[derive(Debug, Default)]
struct Plan {
    change: Change,
    status: CloneSetStatus,
}

impl CloneSets {
    pub(super) async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        let Some(set) = self.sets.get(&item.key) else {
            self.shared.forget(item);
            return Ok(());
        };
        let behind = self.shared.is_behind(item, &set.metadata);
        let acts = set.metadata.deletion_timestamp.is_none() && !self.shared.waits(item);
        let hash = self.shared.hash_of(item, &*set, &set.spec.template);
        let now = self.shared.env.wall();
        let uid = set.metadata.uid.as_deref();
        let Plan { change, status } = self.shared.family(uid, |family| plan(&set, family, &hash, acts, now));
        let pod = || {
            let mut pod = template::pod(&set.spec.template, &*set, item.key.name());
            template::set_label(&mut pod.metadata, REVISION_LABEL, &hash);
            pod
        };
        let done = change.carry_out(&self.shared, item, pod).await;
        if !behind && set.status.as_ref() != Some(&status) && self.shared.may_write_status(item) {
            let mut set = CloneSet::clone(&set);
            set.status = Some(status);
            self.shared.write_status(item, set).await?;
        }
        done
    }
}

fn plan(set: &CloneSet, family: Option<&Family>, hash: &str, acts: bool, now: Timestamp) -> Plan {
    let wanted = set.spec.replicas.unwrap_or(1).max(0);
    let tally = family.map(|family| family.tally).unwrap_or_default();
    let active = || family.into_iter().flat_map(Family::members).filter(|member| member.view.active());
    let is_old = |member: &&Member| label(&member.pod, REVISION_LABEL) != Some(hash);
    let mut plan = Plan::default();
    if acts {
        plan.change = Change::towards(wanted, family, now);
    }
    if acts && tally.active == wanted {
        let missing = (wanted - tally.ready).max(0);
        let room = ((wanted / PODS_FOR_ONE_MISSING).max(1) - missing).max(0) as usize;
        // Deleting a pod that is not ready makes no further pod unavailable.
        let (ready, unready): (Vec<&Member>, Vec<&Member>) = active().filter(is_old).partition(|member| member.view.ready);
        let outdated = unready.into_iter().chain(ready.into_iter().take(room));
        plan.change = Change::Delete(outdated.map(|member| member.pod.clone()).collect());
    }
    plan.status = CloneSetStatus {
        observed_generation: set.metadata.generation,
        replicas: tally.active,
        ready_replicas: tally.ready,
        updated_replicas: active().filter(|member| !is_old(member)).count() as i32,
    };
    plan
}
