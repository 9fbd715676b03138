//! The plugin's requests to the agent.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::select::IpamConfig;
use kube_machinery::api::ObjectKey;

/// ADD: addresses for one NIC of a pod (A §1.5, §5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddRequest {
    /// The sandbox that is set up. The hardened form notes it in the endpoint; with `sandbox-not-asked` it is ignored.
    pub container_id: Arc<str>,
    /// The NIC, by its name in the sandbox.
    pub nic: Arc<str>,
    /// Namespace and name of the pod.
    pub pod: ObjectKey,
    /// The UID of the pod; may be empty, then the pod on this node that has the name is meant. Upstream only logs it (A W6).
    pub pod_uid: Arc<str>,
    /// The part of the network configuration for address management.
    pub cni: Arc<IpamConfig>,
    /// The addresses of the physical function behind the NIC (`match_master_subnet`).
    pub master: Arc<[IpAddr]>,
    /// The time when the caller gives up, by the monotonic clock of the agent's process; `None` = never. The plugin waits for 100 s.
    pub deadline: Option<Duration>,
}

/// DEL: a NIC of a pod is gone. With `first-del-releases-all` the first one releases the addresses of all NICs (A §7.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelRequest {
    /// The sandbox that is torn down. The hardened form checks whether another one still answers; with `sandbox-not-asked` it is ignored.
    pub container_id: Arc<str>,
    /// The NIC, by its name in the sandbox.
    pub nic: Arc<str>,
    /// Namespace and name of the pod, which may be gone.
    pub pod: ObjectKey,
    /// The UID of the pod; may be empty, then the release is left to reclaim unless a pod of the name still exists whose sandbox it is.
    pub pod_uid: Arc<str>,
    /// The time when the caller gives up, as in [`AddRequest::deadline`].
    pub deadline: Option<Duration>,
}

/// Batch release: the plugin found that an address of the pod does not work (A §5.1 P7, §7.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRequest {
    /// Namespace and name of the pod, and so of its endpoint.
    pub pod: ObjectKey,
    /// The UID of the pod; may be empty, then the pod that has the name is meant.
    pub pod_uid: Arc<str>,
    /// Whether the reason is an address conflict (`isReleaseConflictIPs`). Today's plugin never sets it.
    pub conflict: bool,
    /// The addresses on which another host answers; empty = any of the pod's addresses may be concerned. The hardened form gives this pod
    /// none of them again. Upstream's plugin does not pass them.
    pub conflicting: Arc<[IpAddr]>,
    /// The time when the caller gives up, as in [`AddRequest::deadline`]; upstream's plugin sets none.
    pub deadline: Option<Duration>,
}
