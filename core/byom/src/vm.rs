//! The pool's interface to its VMs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::address::Address;

/// Access to the VMs of a pool by address. In reality a TCP connect to port 22 and files sent by SFTP (B §2.1, §3.2).
///
/// The hardened protocol is safe because the *VM* knows the allocation under which it was handed out: user data is kept in memory, next to
/// the allocation ID it came with, and is gone after a boot.
///
/// ```text
///   clean ── user data for X ──► held under X ── reboot for X ──► down ──► clean
///     │                            │
///     └ reboot for X: clean        └ reboot for Y, user data for Y: refused
/// ```
pub trait VmAccess: Clone + Send + Sync + 'static {
    /// Tries once to connect. Ends within `timeout`.
    ///
    /// # Errors
    /// The VM does not answer.
    fn probe(&self, address: &Address, timeout: Duration) -> impl Future<Output = Result<(), VmError>> + Send;

    /// Sends the VM the data it needs to serve the pod of `allocation_id`. `timeout` is the caller's remaining time (`None` = no limit);
    /// upstream heeds it only while connecting, so this may hang (B C2, W25).
    ///
    /// # Errors
    /// The VM does not answer, or it is held under another allocation.
    fn send_user_data(
        &self,
        address: &Address,
        allocation_id: &str,
        data: &Arc<str>,
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<(), VmError>> + Send;

    /// Asks the VM to reboot, on behalf of the allocation `fence`. It reboots only if it is held under that allocation; without a fence it
    /// always reboots, like upstream's VMs. Asking again while it goes down changes nothing.
    ///
    /// # Errors
    /// The VM does not answer.
    fn reboot(&self, address: &Address, fence: Option<&str>) -> impl Future<Output = Result<Reboot, VmError>> + Send;
}

/// A VM's answer to a request to reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reboot {
    /// It goes down now.
    Started,
    /// It has booted since it was held under that allocation, or was never held under it, and is not held under another one. From now on it
    /// refuses user data of that allocation, including any still on its way.
    Clean,
    /// It is held under this other allocation, and stays up.
    Refused(Arc<str>),
}

/// The reason why a VM did not carry out a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VmError {
    /// The connection is refused: the VM is going down, coming up or dead.
    #[error("connection refused")]
    Refused,
    /// No answer in time.
    #[error("no answer in time")]
    Timeout,
    /// It is held under this other allocation.
    #[error("the VM is held under allocation `{0}`")]
    Held(Arc<str>),
}
