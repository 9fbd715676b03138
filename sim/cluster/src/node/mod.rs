//! Nodes below the kubelet: the data plane, and the container runtime of each node. They are parts of the world, not actors: they run no
//! code by themselves, outlive the crash of any process, and are lost with the machine.
//!
//! ```text
//!   kubelet-N ──► ContainerRuntime (on the disk of node-N) ── calls ──► Cni (plugin and daemon)
//!                        └── which sandbox answers where ──► DataPlane ◄── conflict probes, claims, hosts outside
//! ```
//! Kubelets (`actor::kubelet`) carry out the work of a runtime; faults use the controls of [`Nodes`] and [`ContainerRuntime`].

mod cni;
mod cni_fault;
mod data_plane;
pub mod heartbeat;
pub mod heartbeat_schedule;
mod pod_note;
mod runtime;
pub mod taints;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::cluster::Cluster;
use crate::rt::{HostId, ProcessId};

pub use cni::{Attachment, Cni, CniError, FIRST_NIC};
pub use cni_fault::CniFault;
pub use data_plane::DataPlane;
pub use heartbeat::Heartbeats;
pub use pod_note::{AddFailure, PodNote};
pub use runtime::{ContainerRuntime, Sandbox, SandboxState};
pub use runtime::{GC_EVERY, Owed, SandboxNumber};

/// The nodes of a cluster.
#[derive(Debug, Default)]
pub struct Nodes {
    /// The sandboxes and hosts that answer on each address.
    pub data_plane: DataPlane,
    /// The heartbeats of kubelets.
    pub heartbeats: Heartbeats,
    runtimes: Mutex<Vec<Arc<ContainerRuntime>>>,
}

impl Nodes {
    /// Adds the container runtime of a node.
    pub fn add(&self, runtime: Arc<ContainerRuntime>) {
        self.runtimes.lock().push(runtime);
    }

    /// The runtimes, in the order in which they were added.
    pub fn runtimes(&self) -> Vec<Arc<ContainerRuntime>> {
        self.runtimes.lock().clone()
    }

    /// The runtime whose kubelet is `process`.
    pub fn runtime_of(&self, process: ProcessId) -> Option<Arc<ContainerRuntime>> {
        self.runtimes.lock().iter().find(|runtime| runtime.kubelet == process).cloned()
    }

    /// Takes the power from `host`: the network namespaces on it are gone, the data on its disk remains (K §5.5).
    pub fn host_lost(&self, cluster: &Cluster, host: HostId) {
        for runtime in self.runtimes() {
            if runtime.host == host {
                runtime.lose_power(cluster);
            }
        }
    }
}
