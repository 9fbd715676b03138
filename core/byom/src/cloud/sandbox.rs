//! A pod sandbox as the shim names it, and how its VM starts and stops.

use std::sync::Arc;

use thiserror::Error;

use super::proxy::ProxyError;
use crate::allocate::allocation_id;
use crate::decide::PodName;
use crate::error::PoolError;

/// A pod sandbox. A retry of the kubelet is another one, of the same pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Its ID: 64 hexadecimal digits from containerd; never used twice.
    pub id: Arc<str>,
    /// The pod.
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

/// Why a StartVM failed. In the hardened form nothing is left of it that nobody would release.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StartError {
    /// There is no VM for it.
    #[error("cannot create an instance: {0}")]
    Instance(PoolError),
    /// There is no way to the VM.
    #[error("cannot set up the way to the VM: {0}")]
    SetUp(ProxyError),
    /// The agent in the VM will never be ready.
    #[error("the agent failed: {0}")]
    Agent(ProxyError),
    /// The agent was not ready within the limit.
    #[error("the agent was not ready in time")]
    AgentTimeout,
    /// The caller's deadline passed before the agent was ready.
    #[error("deadline exceeded")]
    CallerGone,
    /// The sandbox was stopped meanwhile.
    #[error("the sandbox was stopped while it was started")]
    Stopped,
}

/// StopVM of a sandbox that this process does not know: it was started by an earlier process, or never (B X1).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("sandbox `{0}` is unknown")]
pub struct UnknownSandbox(pub Arc<str>);
