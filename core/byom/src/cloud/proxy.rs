//! The adaptor's interface to the connection with the agent in a VM.

use std::future::Future;

use super::sandbox::Sandbox;
use crate::address::Address;
use crate::start_error::ProxyError;

/// The pod network tunnel and the agent proxy of one adaptor process (B S3, S4, X2, X5). Cheap to clone.
pub trait AgentProxy: Clone + Send + Sync + 'static {
    /// Sets up the tunnel between the pod's network and the VM, and starts the proxy.
    ///
    /// # Errors
    /// The set-up failed; nothing is left of it.
    fn set_up(&self, sandbox: &Sandbox, address: &Address) -> impl Future<Output = Result<(), ProxyError>> + Send;

    /// Completes when the agent in the VM answers. The caller drops it when it has waited long enough.
    ///
    /// # Errors
    /// The agent will never answer.
    fn ready(&self, sandbox: &Sandbox, address: &Address) -> impl Future<Output = Result<(), ProxyError>> + Send;

    /// Ends the proxy and takes down the tunnel, if there are any.
    fn shut_down(&self, sandbox: &Sandbox) -> impl Future<Output = ()> + Send;
}
