//! The kubelet of a node with the container runtime under it: pods become sandboxes, sandboxes get networks (K §5).
//!
//! ```text
//!   pods of the node (informer) ──► one piece of work per UID ──► ContainerRuntime ──► Cni
//!                                        └──► PUT status: Running, terminal; final DELETE
//! ```
mod config;

use std::sync::Arc;

use crate::cluster::Fabric;
use crate::node::{Cni, ContainerRuntime};
use crate::rt::ProcessId;

pub use config::{Behave, Behaviour, KubeletConfig, KubeletDelays};

/// Gives `process` the life of a kubelet, and its host a container runtime. The caller starts it (`fabric.start`).
pub fn install<C: Cni>(fabric: &Arc<Fabric>, process: ProcessId, cni: Arc<C>, config: KubeletConfig) -> Arc<ContainerRuntime> {
    let _ = (cni, config);
    let runtime = Arc::new(ContainerRuntime::new(fabric, process));
    fabric.nodes.add(runtime.clone());
    runtime
}
