//! The differences between types (K §1.3).

use crate::api::Object;

/// The rules of one type.
#[derive(Clone, Copy)]
pub(super) struct Traits {
    /// Whether it is a custom resource.
    pub(super) is_custom: bool,
    /// Whether `/status` is a separate subresource.
    pub(super) has_status: bool,
    /// Whether the server counts a generation.
    pub(super) has_generation: bool,
    /// Whether an update must name the version that it changes.
    pub(super) needs_version: bool,
    /// Whether an update of a missing object creates it.
    pub(super) is_created_by_update: bool,
    /// Whether a delete leaves the object for a grace period.
    pub(super) is_graceful: bool,
}

impl Traits {
    /// The rules of `K`. The custom resources of the kinds `without_status` have a status that is a field like any other.
    pub(super) fn of<K: Object>(without_status: &[&str]) -> Self {
        let (group, kind) = (K::group(&()), K::kind(&()));
        let is_custom = group.contains('.') && !group.ends_with(".k8s.io");
        let (has_status, has_generation) = match &*kind {
            kind if is_custom => (!without_status.contains(&kind), true),
            "ConfigMap" | "Lease" => (false, false),
            "Pod" | "ReplicationController" | "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet" | "CronJob" | "Job" => (true, true),
            kind => panic!("what K §1.3 says of a {kind} is not said here yet"),
        };
        let is_lease = &*kind == "Lease";
        Self {
            is_custom,
            has_status,
            has_generation,
            needs_version: is_custom || is_lease,
            is_created_by_update: is_lease,
            is_graceful: &*kind == "Pod",
        }
    }
}
