//! The CNI plugin of a node, as the container runtime sees it (K §5.3).

use std::borrow::Cow;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::ObjectKey;
use thiserror::Error;

/// The name of the first interface of every pod.
pub const FIRST_NIC: &str = "eth0";

/// The arguments of a plugin call: one interface of one sandbox of a pod.
///
/// The identity of an attachment is the container and the interface; the pod's name and UID are arguments only (K §5.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The sandbox (`CNI_CONTAINERID`): unique in a run.
    pub container: Arc<str>,
    /// The name of the interface in the sandbox (`CNI_IFNAME`), such as [`FIRST_NIC`].
    pub nic: Arc<str>,
    /// Namespace and name of the pod: the arguments `K8S_POD_NAMESPACE` and `K8S_POD_NAME`.
    pub pod: ObjectKey,
    /// The UID of the pod, which all its sandboxes share: the argument `K8S_POD_UID`.
    pub pod_uid: Arc<str>,
    /// Whether there is a network namespace; without one `CNI_NETNS` is empty, as after a reboot.
    pub netns: bool,
}

/// The reason why a call of a plugin failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CniError {
    /// The plugin refuses, or cannot reach its daemon.
    #[error("{0}")]
    Refused(Cow<'static, str>),
    /// The plugin's process was killed before it could print a result. Its daemon may still carry out the call.
    #[error("the plugin was killed")]
    Killed,
    /// The kubelet waited no longer than the limit of RunPodSandbox (K §5.1).
    #[error("the sandbox was not ready in time")]
    TimedOut,
}

/// A plugin and its daemon.
///
/// The runtime guarantees the same as in K §5.3: ADD once for each attachment, no two calls for one container at the same time (only a DEL
/// that a fault delays or repeats may overlap with another one). DEL may be called any number of times, without an ADD before it, and after
/// the ADD of a successor (K131, K132).
pub trait Cni: Send + Sync + 'static {
    /// Sets an interface up. Returns its addresses, on which the sandbox answers from then on.
    ///
    /// Dropping the future kills the plugin's process: the daemon is not notified and goes on with the call.
    ///
    /// # Errors
    /// The sandbox has no network; the runtime calls DEL to clean up and tries again with another container.
    fn add(&self, attachment: Attachment) -> impl Future<Output = Result<Vec<IpAddr>, CniError>> + Send;

    /// The interfaces of a pod, in the order in which the plugin is called for them; `None` = its networks cannot be determined, so it gets
    /// none. A meta plugin such as Multus has more than the first one.
    fn nics(&self, pod: &Pod) -> Option<Vec<String>> {
        let _ = pod;
        Some(vec![FIRST_NIC.to_owned()])
    }

    /// Gives an interface up. Must end: if the daemon does not answer, with an error. Dropping the future has the effect described for
    /// [`Cni::add`].
    ///
    /// # Errors
    /// The runtime calls it again.
    fn del(&self, attachment: Attachment) -> impl Future<Output = Result<(), CniError>> + Send;
}
