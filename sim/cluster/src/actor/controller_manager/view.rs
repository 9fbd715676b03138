//! What controllers read of a pod.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;

/// How far a pod has come (K §5.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Pending,
    /// Not heard of; no kubelet of today writes it.
    Unknown,
    Running,
    Succeeded,
    Failed,
}

/// A pod in a few words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) phase: Phase,
    /// The condition `Ready` is `True`; without the condition it is not.
    pub(super) ready: bool,
    /// It has a deletion timestamp.
    pub(super) terminating: bool,
    /// It has a node.
    pub(super) scheduled: bool,
    /// It has finalizers, so that it stays after its deletion until they are taken away.
    pub(super) held: bool,
}

impl View {
    pub(super) fn of(pod: &Pod) -> Self {
        let phase = match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Running") => Phase::Running,
            Some("Succeeded") => Phase::Succeeded,
            Some("Failed") => Phase::Failed,
            Some("Unknown") => Phase::Unknown,
            _ => Phase::Pending,
        };
        Self {
            phase,
            ready: condition(pod, "Ready").is_some_and(|(is, _)| is),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            scheduled: node_of(pod).is_some(),
            held: pod.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty()),
        }
    }

    /// Its phase is Succeeded or Failed: its containers do not run again.
    pub(super) fn ended(self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Counts as a replica of a ReplicaSet: neither ended nor terminating (K142).
    pub(super) fn active(self) -> bool {
        !self.ended() && !self.terminating
    }

    /// Runs and is ready, terminating or not.
    pub(super) fn serves(self) -> bool {
        self.phase == Phase::Running && self.ready
    }

    /// Runs, is ready, and is to stay so.
    pub(super) fn healthy(self) -> bool {
        self.serves() && !self.terminating
    }
}

/// Whether a condition holds, and since when.
fn condition(pod: &Pod, name: &str) -> Option<(bool, Option<Timestamp>)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == name)?;
    Some((found.status == "True", found.last_transition_time.as_ref().map(|time| time.0)))
}

/// Since when a pod is ready; `None` = it is not, or does not say since when.
pub(super) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    condition(pod, "Ready").filter(|(is, _)| *is)?.1
}

/// The node a pod is bound to.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

/// The name of a pod.
pub(super) fn name_of(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or("")
}

/// The UID of a pod.
pub(super) fn uid_of(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or("")
}

/// A label of a pod.
pub(super) fn label<'p>(pod: &'p Pod, name: &str) -> Option<&'p str> {
    pod.metadata.labels.as_ref()?.get(name).map(String::as_str)
}
