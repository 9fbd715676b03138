//! Nodes below the kubelet: the data plane, and the container runtime of each node. Parts of the world, not actors: they have no code of
//! their own that runs, outlive the crash of any process, and die with the machine.
//!
//! ```text
//!   kubelet-N ──► ContainerRuntime (on the disk of node-N) ── calls ──► Cni (plugin and daemon)
//!                        └── which sandbox answers where ──► DataPlane ◄── conflict probes, claims, hosts outside
//! ```
//! Kubelets (`actor::kubelet`) carry out what a runtime does; faults use the controls of [`Nodes`] and [`ContainerRuntime`].

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
    /// Who answers on which address.
    pub data_plane: DataPlane,
    /// What kubelets tell of themselves.
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

    /// `host` loses its power: the network namespaces on it are gone, what is on its disk stays (K §5.5).
    pub fn host_lost(&self, cluster: &Cluster, host: HostId) {
        for runtime in self.runtimes() {
            if runtime.host == host {
                runtime.lose_power(cluster);
            }
        }
    }
}
