//! A pod sandbox as the shim names it, and how its VM starts and stops.

use std::sync::Arc;

use thiserror::Error;

use crate::allocation::allocation_id;
use crate::decide::PodName;

/// A pod sandbox. A retry of the kubelet is another one, of the same pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Its ID: 64 hexadecimal digits from containerd; never used twice.
    pub id: Arc<str>,
    /// The pod that the sandbox is of. A later sandbox of the same pod has the same name.
    pub pod: PodName,
    /// The UID of the pod.
    pub pod_uid: Arc<str>,
    /// What the VM needs to serve it.
    pub user_data: Arc<str>,
}

impl Sandbox {
    /// The ID under which its VM is allocated (B A1).
    pub fn allocation_id(&self) -> Arc<str> {
        allocation_id(&self.pod.name, &self.id)
    }
}

/// StopVM of a sandbox that this process does not know: it was started by an earlier process, or never (B X1).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("sandbox `{0}` is unknown")]
pub struct UnknownSandbox(pub Arc<str>);
