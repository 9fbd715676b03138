//! The properties of a pod that controllers read.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;

/// The phase of a pod (K §5.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Pending,
    /// Not known; no current kubelet writes it.
    Unknown,
    Running,
    Succeeded,
    Failed,
}

/// A summary of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) phase: Phase,
    /// Whether the condition `Ready` is `True`; without the condition it is not.
    pub(super) ready: bool,
    /// Whether it has a deletion timestamp.
    pub(super) terminating: bool,
    /// Whether it has a node.
    pub(super) scheduled: bool,
    /// Whether it has finalizers, so that it stays after its deletion until they are removed.
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

    /// Whether its phase is Succeeded or Failed: its containers do not run again.
    pub(super) fn ended(self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether it counts as a replica of a ReplicaSet: neither ended nor terminating (K142).
    pub(super) fn active(self) -> bool {
        !self.ended() && !self.terminating
    }

    /// Whether it runs and is ready, terminating or not.
    pub(super) fn serves(self) -> bool {
        self.phase == Phase::Running && self.ready
    }

    /// Whether it runs, is ready, and is not terminating.
    pub(super) fn healthy(self) -> bool {
        self.serves() && !self.terminating
    }
}

/// The value of a condition, as True or not, and the time since which it has it.
fn condition(pod: &Pod, name: &str) -> Option<(bool, Option<Timestamp>)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == name)?;
    Some((found.status == "True", found.last_transition_time.as_ref().map(|time| time.0)))
}

/// The time since which a pod has been ready; `None` = it is not, or the condition has no time.
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

/// The value of a label of a pod.
pub(super) fn label<'p>(pod: &'p Pod, name: &str) -> Option<&'p str> {
    pod.metadata.labels.as_ref()?.get(name).map(String::as_str)
}
