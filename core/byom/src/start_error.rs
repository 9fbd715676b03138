//! The reasons why a StartVM fails.

use thiserror::Error;

use super::error::PoolError;

/// The reason why a StartVM failed. In the hardened form everything that is left of the start will be released.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StartError {
    /// No VM could be allocated.
    #[error("cannot create an instance: {0}")]
    Instance(PoolError),
    /// The tunnel or the proxy could not be set up.
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
    /// The sandbox was stopped during the start.
    #[error("the sandbox was stopped while it was started")]
    Stopped,
}

/// The reason why the agent cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ProxyError(pub String);
