//! The process of a PeerPod controller.

use std::sync::Arc;

use ipam_byom::{ControllerSettings, PeerPodController, PoolConfig};
use kube_machinery::leader::ElectionConfig;
use kube_machinery::{Env, ObjectKey};
use kube_sim::cluster::Cluster;
use kube_sim::rt::ProcessId;
use kube_sim::trace::Unhashed;
use parking_lot::Mutex;

use super::super::PoolNote;
use super::site::{BACK_OFF, Site};
use super::trace_observer::TraceObserver;

/// Runs one life of replica `number`. A replica that loses its leadership ends and is restarted, like upstream's.
pub(super) async fn run(site: Arc<Site>, cluster: Arc<Cluster>, number: usize, process: ProcessId) {
    let name: Arc<str> = cluster.rt.process_name(process);
    let policy = site.policy(&cluster, process);
    loop {
        let env = site.env(&cluster, process);
        let client = site.client(&cluster, process, &env);
        let (shared, weak, node) = (site.clone(), site.cluster.clone(), name.clone());
        let said: Mutex<Option<Arc<str>>> = Mutex::new(None);
        let pool = move || {
            let (setting, config) = shared.configuration(&policy);
            let config = config?;
            let mut said = said.lock();
            if said.as_ref() != Some(&setting) {
                *said = Some(setting.clone());
                let cluster = weak.upgrade()?;
                cluster.note(process, &PoolNote::Configured { setting, config: Unhashed(config.clone()) });
            }
            Some(shared.pool_settings(config, &node, policy))
        };
        let election = (site.controllers.len() > 1)
            .then(|| ElectionConfig::new(ObjectKey::namespaced("default", "peerpod-ctrl"), format!("{name}-{number}")));
        let settings = ControllerSettings {
            pool: Arc::new(pool),
            initial: site.pool_settings(PoolConfig::default(), &name, policy),
            election,
            reclaim_every: site.plan.reclaim_every.0,
        };
        let observer = TraceObserver { cluster: site.cluster.clone(), process };
        let controller = PeerPodController::new(client, env.clone(), site.machines.seen_from(process), observer, settings);
        // An invalid configuration would fail in each round.
        let _ = controller.run().await;
        env.sleep(BACK_OFF).await;
    }
}
