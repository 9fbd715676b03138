//! The process of an adaptor (CAA): it recovers, then serves the shims of its node until it ends.

use std::sync::Arc;

use ipam_byom::{Adaptor, AdaptorSettings, Address, AgentProxy, NodeSources, ProxyError, Sandbox};
use kube_machinery::Env;
use kube_sim::cluster::Cluster;
use kube_sim::env::SimEnv;
use kube_sim::rt::ProcessId;
use kube_sim::trace::Unhashed;
use tokio::sync::mpsc;

use super::super::PoolNote;
use super::machines::Machines;
use super::plan::NodeNameSource;
use super::site::{ApiClient, BACK_OFF, ShimCall, Site};
use super::trace_observer::TraceObserver;
use crate::coverage;

type SimAdaptor = Adaptor<ApiClient, SimEnv, Machines, Proxies, TraceObserver>;

/// The connections to the agents: the tunnel and the proxy are on the node and always work, the agent is in the VM.
#[derive(Clone)]
pub(super) struct Proxies {
    machines: Machines,
}

impl AgentProxy for Proxies {
    async fn set_up(&self, _: &Sandbox, _: &Address) -> Result<(), ProxyError> {
        Ok(())
    }

    async fn ready(&self, sandbox: &Sandbox, address: &Address) -> Result<(), ProxyError> {
        self.machines.agent_answers(address, &sandbox.allocation_id()).await.map_err(|error| ProxyError(error.to_string()))
    }

    async fn shut_down(&self, _: &Sandbox) {}
}

/// Runs one life of adaptor `slot` of node `number`.
pub(super) async fn run(site: Arc<Site>, cluster: Arc<Cluster>, number: usize, slot: usize, process: ProcessId) {
    let node = &site.nodes[number];
    if !node.wants(slot) {
        return;
    }
    let env = site.env(&cluster, process);
    let policy = site.policy(&cluster, process);
    let config = loop {
        if let (setting, Some(config)) = site.configuration(&policy) {
            cluster.note(process, &PoolNote::Configured { setting, config: Unhashed(config.clone()) });
            break config;
        }
        env.sleep(BACK_OFF).await;
    };
    let machines = site.machines.seen_from(process);
    let by = *site.named.lock();
    let found = |source| (by == Some(source)).then_some(&*node.name);
    let sources = NodeSources {
        env: found(NodeNameSource::NodeName),
        podinfo: found(NodeNameSource::Podinfo),
        hostname: found(NodeNameSource::Hostname),
    };
    let mut pool = site.pool_settings(config, &node.name, policy);
    pool.node = sources.resolve(&policy).ok().map(Arc::from);
    coverage::of_node_name(&cluster, &sources);
    let settings = AdaptorSettings { agent_timeout: site.plan.agent_timeout.0, ..AdaptorSettings::new(pool) };
    let observer = TraceObserver { cluster: site.cluster.clone(), process };
    let client = site.client(&cluster, process, &env);
    let adaptor: SimAdaptor = Adaptor::new(client, env.clone(), machines.clone(), Proxies { machines }, observer, settings);
    // Errors are only logged (B R5).
    let _ = adaptor.start().await;
    let (socket, mut calls) = mpsc::unbounded_channel();
    node.listen(socket);
    while let Some(call) = calls.recv().await {
        let adaptor = adaptor.clone();
        env.spawn(async move {
            // A shim that has gone does not get the answer.
            match call {
                ShimCall::Start { sandbox, context, reply } => {
                    let started = adaptor.start_vm(&sandbox, context).await;
                    let _ = reply.send(started.map(|instance| instance.address));
                }
                ShimCall::Stop { sandbox, context, reply } => {
                    let _ = reply.send(adaptor.stop_vm(&sandbox, context).await);
                }
            }
        });
    }
}
