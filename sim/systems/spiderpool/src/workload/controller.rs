//! The process of a replica of Spiderpool's controller.

use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::controller::{ControllerSettings, PoolController};
use ipam_spiderpool::reclaim::ReclaimConfig;
use ipam_spiderpool::subnet::{Live, SubnetController};
use ipam_spiderpool::{Policy, SpiderpoolController};
use kube_machinery::leader::ElectionConfig;
use kube_machinery::{Env, ObjectKey};
use kube_sim::cluster::Cluster;
use kube_sim::env::SimEnv;
use kube_sim::kinds::kruise::CloneSet;
use kube_sim::rt::ProcessId;

use super::first_use::FirstUse;
use super::hooks;
use super::plan::controller_settings_of;
use super::reclaim_trace_observer::ReclaimTraceObserver;
use super::site::{ApiClient, Site};

/// The time until a replica starts again: the first backoff of a kubelet.
const BACK_OFF: Duration = Duration::from_secs(10);

/// The lease of the leader.
pub(super) fn lease() -> ObjectKey {
    ObjectKey::namespaced("kube-system", "spiderpool-controller-leader")
}

/// Runs a replica once, from its start to its end.
pub(super) async fn run(site: Arc<Site>, cluster: Arc<Cluster>, process: ProcessId) {
    let name = cluster.rt.process_name(process);
    let env = site.env(&cluster, process);
    let client = site.controller_client(&cluster, process, &env);
    let policy = site.policy(&cluster, process);
    if site.plan.reclaim {
        return reclaiming(&site, &cluster, process, client, env).await;
    }
    // A replica that loses its leadership ends and is started anew.
    loop {
        let election = (site.plan.controllers > 1).then(|| ElectionConfig::new(lease(), &*name));
        let settings = ControllerSettings { election, ..settings(&site, policy) };
        let controller = PoolController::new(client.clone(), env.clone(), settings);
        // A configuration that cannot work would fail in each turn.
        let work = async {
            if site.plan.serves_subnets() {
                let subnets = subnets(&site, policy, client.clone(), env.clone());
                controller.run_with(subnets.work()).await
            } else {
                controller.run().await
            }
        };
        let _ = hooks::beside(&site, &cluster, process, client.clone(), env.clone(), work).await;
        env.sleep(BACK_OFF).await;
    }
}

/// The settings of every replica, without the election.
fn settings(site: &Site, policy: Policy) -> ControllerSettings {
    controller_settings_of(&site.settings.lock(), policy).unwrap_or_else(|_| unreachable!("the plan was checked"))
}

/// The part of a replica that creates auto pools and manages subnets, while it leads (A §8).
///
/// Kinds that it does not know are read live; the CloneSet is one of them.
fn subnets(
    site: &Site,
    policy: Policy,
    client: ApiClient,
    env: SimEnv,
) -> SubnetController<ApiClient, SimEnv, (), Live<ApiClient, CloneSet>> {
    let select = site.agent_settings(&policy).select;
    let settings = settings(site, policy);
    let third_party = Live::new(client.clone(), settings.request_timeout);
    SubnetController::new(client, env, (), third_party, settings, select)
}

/// Runs a replica that reclaims once, from its start to its end. It runs for leader again and again without end (G §8).
async fn reclaiming(site: &Site, cluster: &Arc<Cluster>, process: ProcessId, client: ApiClient, env: SimEnv) {
    let policy = site.policy(cluster, process);
    let settings = site.reclaim_settings(&policy);
    let reclaim = ReclaimConfig { settings, policy };
    let election = (site.plan.controllers > 1).then(|| reclaim.election(lease(), &*cluster.rt.process_name(process)));
    let pools = ControllerSettings { election, ..self::settings(site, policy) };
    let raw = site.raw_client(cluster, process, &env);
    let observer = ReclaimTraceObserver { cluster: Arc::downgrade(cluster), process };
    let controller = SpiderpoolController::new(client.clone(), raw, env.clone(), observer, pools, reclaim);
    let controller = controller.reading_by(|caches| FirstUse::new(caches, cluster, process));
    let work = async {
        if site.plan.serves_subnets() {
            controller.with_subnets(subnets(site, policy, client.clone(), env.clone())).run().await
        } else {
            controller.run().await
        }
    };
    if hooks::beside(site, cluster, process, client.clone(), env.clone(), work).await.is_err() {
        // With an election that cannot work client-go ends the process, again and again.
        env.sleep(BACK_OFF).await;
    }
}
