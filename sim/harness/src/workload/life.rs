//! What processes of a workload do in each of their lives.

use std::future::Future;
use std::sync::Arc;

use kube_sim::cluster::Fabric;
use kube_sim::rt::ProcessId;

/// Says what a process does in each of its lives, with `site`, which its neighbours share.
pub fn live<S: Send + Sync + 'static, F: Future<Output = ()> + Send + 'static>(
    site: &Arc<S>,
    fabric: &Arc<Fabric>,
    process: ProcessId,
    main: impl Fn(Arc<S>, Arc<Fabric>) -> F + Send + Sync + 'static,
) {
    let (site, shared) = (site.clone(), Arc::downgrade(fabric));
    fabric.rt.set_main(process, move |_| {
        let life = shared.upgrade().map(|fabric| main(site.clone(), fabric));
        async move {
            if let Some(life) = life {
                life.await;
            }
        }
    });
}

/// Adds a process called `name` on a host of its own with the same name, says what it does in each of its lives, with `site`, which
/// survives its crashes, and starts it.
pub fn start_alone<S: Send + Sync + 'static, F: Future<Output = ()> + Send + 'static>(
    site: &Arc<S>,
    fabric: &Arc<Fabric>,
    name: &str,
    main: impl Fn(Arc<S>, Arc<Fabric>, ProcessId) -> F + Send + Sync + 'static,
) {
    let process = fabric.rt.add_process(fabric.rt.add_host(name), name);
    live(site, fabric, process, move |site, fabric| main(site, fabric, process));
    fabric.start(process);
}
