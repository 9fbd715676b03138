//! Notes the actions of adaptors and PeerPod controllers in the trace.

use std::sync::Weak;

use ipam_byom::{Observer, Step};
use kube_sim::cluster::Cluster;
use kube_sim::rt::ProcessId;

use crate::coverage;

use super::super::{Failure, PoolNote};

/// The observer of one process.
#[derive(Clone)]
pub(super) struct TraceObserver {
    pub cluster: Weak<Cluster>,
    pub process: ProcessId,
}

impl Observer for TraceObserver {
    fn observe(&self, step: Step<'_>) {
        let Some(cluster) = self.cluster.upgrade() else { return };
        coverage::of_step(&cluster, &step);
        let told = match step {
            Step::Asked { id, .. } => PoolNote::Asked { id: id.clone() },
            Step::Told { id, address, effort, took } => {
                PoolNote::Allocated { id: id.clone(), address: address.clone(), effort: *effort, took }
            }
            Step::NotAllocated { id, error, effort, took } => {
                PoolNote::Refused { id: id.clone(), why: Failure::of(error, effort), effort: *effort, took }
            }
            Step::Ready { id, address } => PoolNote::Told { id: id.clone(), address: address.clone() },
            Step::ReleaseBegun { id: Some(id), by, .. } => PoolNote::ReleaseBegun { id: id.clone(), by },
            Step::ReleaseEnded { id: Some(id), by, result, effort, took } => {
                let failure = result.err().map(|error| Failure::of(error, effort));
                PoolNote::ReleaseEnded { id: id.clone(), by, failure, effort: *effort, took }
            }
            Step::RecoverBegun => PoolNote::RecoverBegun,
            Step::RecoverEnded { result, effort, of_call, .. } => {
                let result = result.copied().map_err(|error| Failure::of(error, effort));
                PoolNote::RecoverEnded { result, effort: *effort, of_call }
            }
            // The kubelet notes the outcome of a start; PeerPods are seen in the API.
            Step::ReleaseBegun { id: None, .. }
            | Step::ReleaseEnded { id: None, .. }
            | Step::StartFailed { .. }
            | Step::Running { .. }
            | Step::PeerPodWritten { .. }
            | Step::PeerPodReleased { .. }
            | Step::PeerPodMarked { .. } => return,
        };
        cluster.note(self.process, &told);
    }
}
