//! A machine that is off, and an operator who marks its Node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube_machinery::{ApiError, ClientExt, ObjectKey};
use sim_config::time::Span;

use super::host_down::power_off;
use crate::cluster::{Cluster, SimClient};
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::operator::{add_process, nodes, persist};
use crate::fault::parameters::{between, parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::node::taints::{NO_EXECUTE, OUT_OF_SERVICE, taints_of};
use crate::rt::ProcessId;

parameters! {
    /// A machine goes down, and an operator marks its Node with the out-of-service taint; both end together.
    pub struct NodeOutOfService / NodeOutOfServiceDraft {
        /// The Node, by its host.
        node: Target = target("one:node-*"),
        /// The time after that until the operator adds the taint.
        after: Span = between(Span::secs(10), Span::secs(120)),
    }
}

impl Inject for NodeOutOfService {
    const EVENT: &'static str = "a machine that died and was fenced by an operator (K §6.3, KEP-2268)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<NodeOutOfServiceDraft>> =
        Drawn::ByDefault(|targeting| Some(NodeOutOfServiceDraft { node: targeting.node()?, ..NodeOutOfServiceDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.node])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Processes(self.node.clone())
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let nodes: Vec<Arc<str>> = nodes(injection.cluster, &self.node).into_iter().map(|(_, node)| node).collect();
        let down = power_off(injection, &self.node);
        // The taint is removed before the machine is up again.
        let fence = (!nodes.is_empty()).then(|| Fence::new(injection, nodes, self.after.0).into());
        fence.into_iter().chain(down).collect()
    }
}

/// A process that marks Nodes as out of service, and removes the mark when it starts after the fault.
#[derive(Debug)]
struct Fence {
    process: ProcessId,
    fences: Arc<AtomicBool>,
}

impl Fence {
    /// A process that marks the Nodes `after` its start.
    fn new(injection: &Injection<'_>, nodes: Vec<Arc<str>>, after: Duration) -> Self {
        let (nodes, fences): (Arc<[Arc<str>]>, _) = (nodes.into(), Arc::new(AtomicBool::new(false)));
        let shared = fences.clone();
        let name = format!("node-fence-{}", injection.index);
        let process = add_process(injection.cluster, &name, move |cluster, process| {
            let (nodes, fences) = (nodes.clone(), shared.load(Ordering::Relaxed));
            async move {
                if fences {
                    cluster.rt.sleep(after).await;
                }
                let client = SimClient::new(&cluster, process);
                for node in nodes.iter() {
                    persist(&cluster, || set_out_of_service(&client, node, fences)).await;
                }
            }
        });
        Self { process, fences }
    }
}

impl Effect for Fence {
    fn apply(&self, cluster: &Arc<Cluster>) {
        self.fences.store(true, Ordering::Relaxed);
        cluster.start(self.process);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        self.fences.store(false, Ordering::Relaxed);
        cluster.crash(self.process);
        cluster.start(self.process);
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}

async fn set_out_of_service(client: &SimClient, node: &str, is: bool) -> Result<(), ApiError> {
    let mut node = Node::clone(&*client.get::<Node>(&ObjectKey::cluster(node)).await?);
    let mut taints = taints_of(&node).to_vec();
    taints.retain(|taint| taint.key != OUT_OF_SERVICE);
    if is {
        let value = Some("nodeshutdown".to_owned());
        taints.push(Taint { key: OUT_OF_SERVICE.to_owned(), value, effect: NO_EXECUTE.to_owned(), ..Taint::default() });
    }
    if taints == taints_of(&node) {
        return Ok(());
    }
    node.spec.get_or_insert_default().taints = Some(taints).filter(|taints| !taints.is_empty());
    client.update(node).await.map(drop)
}
