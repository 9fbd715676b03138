//! What the plugin asks the agent for.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::select::IpamConfig;
use kube_machinery::api::ObjectKey;

/// ADD: addresses for one NIC of a pod (A §1.5, §5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddRequest {
    /// The sandbox that is to be answered. The hardened form notes it in the endpoint; with `sandbox-not-asked` nothing depends on it.
    pub container_id: Arc<str>,
    /// The NIC, by its name in the sandbox.
    pub nic: Arc<str>,
    /// Namespace and name of the pod.
    pub pod: ObjectKey,
    /// The UID of the pod; may be empty, then it is that of the pod on this node which has the name. Upstream only logs it (A W6).
    pub pod_uid: Arc<str>,
    /// The part of the network configuration that is for address management.
    pub cni: Arc<IpamConfig>,
    /// The addresses of the physical function behind the NIC (`match_master_subnet`).
    pub master: Arc<[IpAddr]>,
    /// When the caller gives up, by the monotonic clock of the agent's process; `None` = never. The plugin waits for 100 s.
    pub deadline: Option<Duration>,
}

/// DEL: a NIC of a pod is gone. With `first-del-releases-all` the first one gives back the addresses of all NICs (A §7.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelRequest {
    /// The sandbox that is torn down. The hardened form asks whether another one still answers; with `sandbox-not-asked` nothing depends on
    /// it.
    pub container_id: Arc<str>,
    /// The NIC, by its name in the sandbox.
    pub nic: Arc<str>,
    /// Namespace and name of the pod, which may be gone.
    pub pod: ObjectKey,
    /// The UID of the pod; may be empty, then it is left to reclaim unless a pod of the name is still there whose sandbox it is.
    pub pod_uid: Arc<str>,
    /// When the caller gives up, as in [`AddRequest::deadline`].
    pub deadline: Option<Duration>,
}

/// Batch release: the plugin found that an address of the pod does not work (A §5.1 P7, §7.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRequest {
    /// Namespace and name of the pod, and so of its endpoint.
    pub pod: ObjectKey,
    /// The UID of the pod; may be empty, then it is that of the pod which has the name.
    pub pod_uid: Arc<str>,
    /// Whether the reason is an address conflict (`isReleaseConflictIPs`). Today's plugin never says so.
    pub conflict: bool,
    /// The addresses that somebody else answers on; empty = it may be any of the pod's. The hardened form gives this pod
    /// none of them again. Upstream's plugin does not say.
    pub conflicting: Arc<[IpAddr]>,
    /// As in [`AddRequest::deadline`]; upstream's plugin sets none.
    pub deadline: Option<Duration>,
}
