//! The lives of a workload's processes.

use std::future::Future;
use std::sync::Arc;

use kube_sim::cluster::{Cluster, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::rt::ProcessId;
use kube_sim::trace::Note;

use super::RunContext;
use crate::deviation::DeviationName;

/// Sets the program that a process runs in each of its lives, with `site`, which it shares with its neighbours.
pub fn live<S: Send + Sync + 'static, F: Future<Output = ()> + Send + 'static>(
    site: &Arc<S>,
    cluster: &Arc<Cluster>,
    process: ProcessId,
    main: impl Fn(Arc<S>, Arc<Cluster>) -> F + Send + Sync + 'static,
) {
    let (site, shared) = (site.clone(), Arc::downgrade(cluster));
    cluster.rt.set_main(process, move |_| {
        let life = shared.upgrade().map(|cluster| main(site.clone(), cluster));
        async move {
            if let Some(life) = life {
                life.await;
            }
        }
    });
}

/// One life of a process, with the parts of the run that its program needs.
pub struct Life {
    /// The cluster of the process, with its runtime.
    pub cluster: Arc<Cluster>,
    /// Its number in the run, the same in each life.
    pub process: ProcessId,
    seed: u64,
    deviations: Arc<[DeviationName]>,
}

impl Life {
    /// Its clocks, tasks and randomness.
    pub fn env(&self) -> SimEnv {
        SimEnv::new(&self.cluster.rt, self.seed, self.process)
    }

    /// A new client of the API, of the kind that was drawn for the process.
    pub fn client(&self) -> SimClient {
        SimClient::of_program(&self.cluster, self.process)
    }

    /// The name of the process.
    pub fn name(&self) -> Arc<str> {
        self.cluster.rt.process_name(self.process)
    }

    /// Records in the trace that the process said `note`, now.
    pub fn note(&self, note: &dyn Note) {
        self.cluster.note(self.process, note);
    }

    /// Whether the system under test has the deviation of this name.
    pub fn deviates(&self, name: &str) -> bool {
        self.deviations.iter().any(|deviation| deviation.as_str() == name)
    }
}

impl RunContext<'_> {
    /// Adds a process called `name` on its own host with the same name, sets the program that it runs in each of its lives, with `site`,
    /// which survives its crashes, and starts it.
    pub fn start_alone<S: Send + Sync + 'static, F: Future<Output = ()> + Send + 'static>(
        &self,
        cluster: &Arc<Cluster>,
        name: &str,
        site: &Arc<S>,
        main: impl Fn(Arc<S>, Life) -> F + Send + Sync + 'static,
    ) {
        let process = cluster.rt.add_process(cluster.rt.add_host(name), name);
        let (seed, version) = (self.seed, self.version_of(name).map(|deviations| Arc::<[DeviationName]>::from(*deviations)));
        live(site, cluster, process, move |site, cluster| {
            let deviations = version.at(cluster.rt.now()).clone();
            main(site, Life { cluster, process, seed, deviations })
        });
        cluster.start(process);
    }
}
