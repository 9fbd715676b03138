//! Facts about a pod's life and addresses in its object.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod as PodObject;

/// The default grace period of Kubernetes, in seconds.
pub(super) const DEFAULT_GRACE: i64 = 30;

/// Whether a pod runs and its status names no address.
pub(super) fn runs_without_ips(pod: &PodObject) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running") && !has_ips(pod)
}

/// Whether a pod has ended, by the phase in its status.
pub(in super::super) fn has_ended(pod: &PodObject) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether none of its containers runs any more, by its status. Garbage collection of the pods of a node that is gone marks them as failed,
/// whatever their containers do.
pub(in super::super) fn has_stopped(pod: &PodObject) -> bool {
    let mut statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    has_ended(pod) && statuses.all(|status| status.state.as_ref().is_some_and(|state| state.terminated.is_some()))
}

/// Whether its status names an address.
pub(in super::super) fn has_ips(pod: &PodObject) -> bool {
    pod.status.as_ref().and_then(|status| status.pod_ips.as_ref()).is_some_and(|ips| !ips.is_empty())
}

/// The grace period with which a pod ends.
pub(in super::super) fn grace(pod: &PodObject) -> SignedDuration {
    SignedDuration::from_secs(pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(DEFAULT_GRACE))
}

/// The time that containers get of a grace period: a kubelet leaves them at least 2 s (K §5.2).
pub(in super::super) fn of_containers(grace: SignedDuration) -> SignedDuration {
    grace.max(SignedDuration::from_secs(2))
}
