//! A fixed number of pods with random names: the common part of ReplicaSets and CloneSets (K §7.2).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube_machinery::ApiError;

use super::Item;
use super::families::{Family, Member};
use super::names::DELETION_COST;
use super::shared::Shared;
use super::view::{Phase, name_of, node_of, ready_since};

/// The most pods that are created in one go, and the most surplus pods that are deleted in one go.
const BURST: usize = 500;

/// A change to the pods of an owner.
#[derive(Debug, Default)]
pub(super) enum Change {
    #[default]
    Nothing,
    /// Create this many pods; only [`BURST`] of them in one go.
    Create(usize),
    /// Delete these, if there are any.
    Delete(Vec<Arc<Pod>>),
}

impl Change {
    /// The change that leads to `wanted` active pods.
    pub(super) fn towards(wanted: i32, family: Option<&Family>, now: Timestamp) -> Self {
        let active = family.map_or(0, |family| family.tally.active);
        match family {
            _ if active < wanted => Self::Create((wanted - active) as usize),
            Some(family) if active > wanted => Self::Delete(superfluous(family, (active - wanted) as usize, now)),
            _ => Self::Nothing,
        }
    }

    /// Creates pods like `pod`, or deletes the surplus ones, and waits to see the result.
    pub(super) async fn carry_out(self, shared: &Shared, item: &Item, pod: impl FnOnce() -> Pod) -> Result<(), ApiError> {
        match self {
            Self::Create(count) => shared.create_pods(item, pod(), count.min(BURST)).await,
            Self::Delete(pods) if !pods.is_empty() => shared.delete_pods(item, &pods).await,
            Self::Nothing | Self::Delete(_) => Ok(()),
        }
    }
}

/// The `count` pods that are deleted first: Pending, not ready, cheap, crowded, newest.
fn superfluous(family: &Family, count: usize, now: Timestamp) -> Vec<Arc<Pod>> {
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
        // Ages are compared by orders of magnitude, so that an old pod is not deleted because another one is a little older.
        let ready_for = ready_since(pod).map_or(0, |since| magnitude(now, since));
        let age = pod.metadata.creation_timestamp.as_ref().map_or(0, |time| magnitude(now, time.0));
        (view.scheduled, phase, view.ready, cost, Reverse(crowd), ready_for, age)
    };
    let mut pods: Vec<&Member> = active().collect();
    // Kubernetes orders equal pods at random.
    pods.sort_by_cached_key(|member| (rank(member), Reverse(name_of(&member.pod).to_owned())));
    pods.into_iter().take(count.min(BURST)).map(|member| member.pod.clone()).collect()
}

/// The order of magnitude of an age.
fn magnitude(now: Timestamp, since: Timestamp) -> u32 {
    let seconds = now.duration_since(since).as_secs().max(0);
    64 - (seconds as u64).leading_zeros()
}
