//! The process of a replica of Spiderpool's controller.

use std::sync::Arc;
use std::time::Duration;

use ipam_core::leader::ElectionConfig;
use ipam_core::spiderpool::controller::{ControllerSettings, PoolController};
use ipam_core::{Env, ObjectKey};

use super::site::Site;
use crate::cluster::Fabric;
use crate::rt::ProcessId;

/// How long a replica waits before it starts again: the first back-off of a kubelet.
const BACK_OFF: Duration = Duration::from_secs(10);

/// The lease of the leader.
pub(super) fn lease() -> ObjectKey {
    ObjectKey::namespaced("kube-system", "spiderpool-controller-leader")
}

/// One life of a replica. One that loses its leadership ends and is started anew, as upstream's does.
pub(super) async fn run(site: Arc<Site>, fabric: Arc<Fabric>, process: ProcessId) {
    let name = fabric.rt.process_name(process);
    loop {
        let env = site.env(&fabric, process);
        let client = site.controller_client(&fabric, process, &env);
        let election = (site.plan.controllers > 1).then(|| ElectionConfig::new(lease(), &*name));
        let settings = ControllerSettings { election, ..ControllerSettings::new(site.policy) };
        let controller = PoolController::new(client, env.clone(), settings);
        // A configuration that cannot work would say so at each turn.
        let _ = controller.run().await;
        env.sleep(BACK_OFF).await;
    }
}
