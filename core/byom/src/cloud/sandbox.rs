//! A pod sandbox as identified by the shim.

use std::sync::Arc;

use thiserror::Error;

use crate::allocation::allocation_id;
use crate::decide::PodName;

/// A pod sandbox. A retry of the kubelet makes another one, of the same pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// The sandbox ID: 64 hexadecimal digits from containerd; never reused.
    pub id: Arc<str>,
    /// The pod of the sandbox. A later sandbox of the same pod has the same name.
    pub pod: PodName,
    /// The UID of the pod.
    pub pod_uid: Arc<str>,
    /// The user data with which the VM serves the sandbox.
    pub user_data: Arc<str>,
}

impl Sandbox {
    /// The allocation ID of its VM (B A1).
    pub fn allocation_id(&self) -> Arc<str> {
        allocation_id(&self.pod.name, &self.id)
    }
}

/// The error of StopVM for a sandbox that this process does not know: it was started by an earlier process, or never (B X1).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("sandbox `{0}` is unknown")]
pub struct UnknownSandbox(pub Arc<str>);
