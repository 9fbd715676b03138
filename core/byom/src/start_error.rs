//! Why a StartVM failed.

use thiserror::Error;

use super::error::PoolError;

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

/// Why there is no way to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ProxyError(pub String);
