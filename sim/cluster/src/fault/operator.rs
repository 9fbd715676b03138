//! Processes that faults add: another controller, an autoscaler, an operator with `kubectl`. Their requests take the same path as all
//! others.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube_machinery::ApiError;

use super::Target;
use super::effect::{Effect, Overlap};
use crate::cluster::Cluster;
use crate::rt::ProcessId;

/// The time after which an operator retries a failed request.
const RETRY: Duration = Duration::from_secs(1);

/// A process that works while its fault lasts.
#[derive(Debug)]
pub(super) struct Operator(ProcessId);

impl Operator {
    /// A process of this name, on its own host, that does `work` from its start. It starts when the effect is applied.
    pub(super) fn new<F, W>(cluster: &Arc<Cluster>, name: &str, work: F) -> Self
    where
        F: Fn(Arc<Cluster>, ProcessId) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        Self(add_process(cluster, name, work))
    }
}

impl Effect for Operator {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.start(self.0);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.crash(self.0);
        // After a crash the process may be restarted later: by then it has nothing to do.
        cluster.rt.set_main(self.0, |_| async {});
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}

/// Adds a process of this name, on its own host, that does `work` from its start. It is not started.
pub(super) fn add_process<F, W>(cluster: &Arc<Cluster>, name: &str, work: F) -> ProcessId
where
    F: Fn(Arc<Cluster>, ProcessId) -> W + Send + Sync + 'static,
    W: Future<Output = ()> + Send + 'static,
{
    let rt = &cluster.rt;
    let process = rt.find_process(name).unwrap_or_else(|| rt.add_process(rt.add_host(name), name));
    let shared = Arc::downgrade(cluster);
    rt.set_main(process, move |_| {
        let work = shared.upgrade().map(|cluster| work(cluster, process));
        async move {
            if let Some(work) = work {
                work.await;
            }
        }
    });
    process
}

/// Repeats `attempt` until it succeeds, or finds that its object is gone.
pub(super) async fn persist<W: Future<Output = Result<(), ApiError>>>(cluster: &Cluster, attempt: impl Fn() -> W) {
    while matches!(attempt().await, Err(error) if !error.is_not_found()) {
        cluster.rt.sleep(RETRY).await;
    }
}

/// The kubelets that the target matches, with the names of their Nodes.
pub(super) fn nodes(cluster: &Cluster, target: &Target) -> Vec<(ProcessId, Arc<str>)> {
    let runtimes = target.processes(&cluster.rt).into_iter().filter_map(|process| cluster.nodes.runtime_of(process));
    runtimes.map(|runtime| (runtime.kubelet(), runtime.node().clone())).collect()
}
