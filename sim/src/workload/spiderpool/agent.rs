//! The process of an agent: it fills its caches, then serves the plugins of its node until it ends.

use std::sync::Arc;

use ipam_core::Env;
use ipam_core::spiderpool::ipam::{Agent, AgentConfig, InformerCaches, IpamError, Unanswered};
use tokio::sync::mpsc;

use super::eye::Eye;
use super::site::{AgentCall, ApiClient, Site};
use crate::cluster::Fabric;
use crate::env::SimEnv;
use crate::rt::ProcessId;

/// One life of the agent of node `number`.
pub(super) async fn run(site: Arc<Site>, fabric: Arc<Fabric>, number: usize, process: ProcessId) {
    let node = &site.nodes[number];
    let env = site.env(&fabric, process);
    let client = site.agent_client(&fabric, process, &env);
    let caches: InformerCaches<ApiClient, SimEnv> = InformerCaches::start(client.clone(), env.clone(), Some(&node.name));
    caches.warm();
    caches.synced().await;
    let config = AgentConfig { node: node.name.clone(), settings: site.settings.lock().clone(), policy: site.policy };
    let eye = Eye { fabric: site.fabric.clone(), process };
    let agent = Agent::new(client, env.clone(), caches, eye, config);
    let (socket, mut calls) = mpsc::unbounded_channel();
    node.listen(socket);
    while let Some(call) = calls.recv().await {
        let agent = agent.clone();
        // A caller that has gone does not hear the answer; the agent goes on.
        drop(env.spawn(async move {
            match call {
                AgentCall::Add(request, reply) => drop(reply.send(agent.add(&request).await.map_err(|error| told(&error)))),
                AgentCall::Del(request, reply) => drop(reply.send(agent.del(&request).await.map(drop).map_err(|error| told(&error)))),
                AgentCall::Release(request, reply) => drop(reply.send(agent.release_ips(&request).await.map_err(|error| told(&error)))),
            }
        }));
    }
}

fn told(error: &IpamError) -> Unanswered {
    Unanswered(error.to_string().into())
}
