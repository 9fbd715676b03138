//! The process of an agent: it fills its caches (upstream fills those of pods and endpoints in its first ADD), then serves the plugins of
//! its node until it ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipam_spiderpool::ipam::{Agent, AgentConfig, InformerCaches, IpamError, LateKind, Unanswered};
use kube_machinery::Env;
use kube_sim::cluster::Cluster;
use kube_sim::env::SimEnv;
use kube_sim::rt::{ProcessId, boxed};
use tokio::sync::mpsc;

use super::ops::AppKind;
use super::site::{AgentCall, ApiClient, Site};
use super::trace_observer::TraceObserver;

/// Runs the agent of node `number` once, from its start to its end.
pub(super) async fn run(site: Arc<Site>, cluster: Arc<Cluster>, number: usize, process: ProcessId) {
    let node = &site.nodes[number];
    let env = site.env(&cluster, process);
    let client = site.agent_client(&cluster, process, &env);
    let policy = site.policy(&cluster, process);
    let config = AgentConfig { node: node.name.clone(), settings: site.agent_settings(&policy), policy };
    let caches: InformerCaches<ApiClient, SimEnv> = InformerCaches::start(client.clone(), env.clone(), &config);
    caches.warm(needed(&site.plan.kinds));
    caches.synced().await;
    let observer = TraceObserver {
        cluster: site.cluster.clone(),
        process,
        node: node.name.clone(),
        settings: Arc::new(config.settings.select.clone()),
        caches: Arc::new(caches.as_last_read()),
        site: site.clone(),
    };
    let detects_conflicts = config.settings.enable_ip_conflict_detection;
    let agent = Agent::new(client, env.clone(), caches, observer, config);
    let (socket, mut calls) = mpsc::unbounded_channel();
    node.listen(socket, detects_conflicts);
    while let Some(call) = calls.recv().await {
        let agent = agent.clone();
        // If the caller has gone, nobody receives the answer; the agent goes on. Each call has a box of its own: an ADD is several times as
        // large as the others, and too large to be moved about.
        drop(match call {
            AgentCall::Add(request, reply) => env.spawn(boxed(|| async move {
                drop(reply.send(agent.add(&request).await.map_err(|error| told(&error))));
            })),
            AgentCall::Del(request, reply) => env.spawn(boxed(|| async move {
                drop(reply.send(agent.del(&request).await.map(drop).map_err(|error| told(&error))));
            })),
            AgentCall::Release(request, reply) => env.spawn(boxed(|| async move {
                drop(reply.send(agent.release_ips(&request).await.map_err(|error| told(&error))));
            })),
        });
    }
}

/// The types that agents need to find the top controllers of pods of these kinds (A §6.1): a watch of anything else would only cost time.
/// If a pod needs another kind all the same, its informer starts then.
fn needed(kinds: &BTreeSet<AppKind>) -> BTreeSet<LateKind> {
    let of = |kind: &AppKind| -> &[LateKind] {
        match kind {
            // For a kind that is not known only the owner reference is read.
            AppKind::Pod | AppKind::VirtualMachine | AppKind::CloneSet | AppKind::CustomResource => &[],
            AppKind::StatefulSet => &[LateKind::StatefulSets],
            AppKind::Deployment => &[LateKind::ReplicaSets, LateKind::Deployments],
            AppKind::ReplicaSet => &[LateKind::ReplicaSets],
            AppKind::DaemonSet => &[LateKind::DaemonSets],
            AppKind::Job | AppKind::CronJob => &[LateKind::Jobs, LateKind::CronJobs],
        }
    };
    kinds.iter().flat_map(of).copied().chain([LateKind::Subnets]).collect()
}

fn told(error: &IpamError) -> Unanswered {
    Unanswered(error.to_string().into())
}
