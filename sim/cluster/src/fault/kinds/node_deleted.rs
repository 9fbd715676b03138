//! A Node object that is deleted while its machine runs.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube_machinery::api::DeleteOptions;
use kube_machinery::{ClientExt, ObjectKey};

use crate::cluster::{Cluster, SimClient};
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::operator::{Operator, nodes, persist};
use crate::fault::parameters::{parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::rt::ProcessId;

parameters! {
    /// An operator deletes a Node; its kubelet does not register again before the fault ends.
    pub struct NodeDeleted / NodeDeletedDraft {
        /// The Node, by its host.
        node: Target = target("one:node-*"),
    }
}

impl Inject for NodeDeleted {
    const EVENT: &'static str = "an autoscaler or an operator that removes a Node while its machine runs (K §6.3, K §6.5)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<NodeDeletedDraft>> = Drawn::ByDefault(|targeting| Some(NodeDeletedDraft { node: targeting.node()? }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.node])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Nothing
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        let (kubelets, nodes): (Vec<ProcessId>, Vec<Arc<str>>) = nodes(cluster, &self.node).into_iter().unzip();
        let mut effects: Vec<ActiveEffect> = kubelets.into_iter().map(|kubelet| Deregistered(kubelet).into()).collect();
        if !nodes.is_empty() {
            let nodes: Arc<[Arc<str>]> = nodes.into();
            let work = move |cluster, process| delete(cluster, process, nodes.clone());
            effects.push(Operator::new(cluster, &format!("node-deleter-{}", injection.index), work).into());
        }
        effects
    }
}

/// A kubelet that does not register its Node.
#[derive(Debug)]
struct Deregistered(ProcessId);

impl Effect for Deregistered {
    fn apply(&self, cluster: &Arc<Cluster>) {
        if let Some(runtime) = cluster.nodes.runtime_of(self.0) {
            runtime.hold_registration();
        }
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        if let Some(runtime) = cluster.nodes.runtime_of(self.0) {
            runtime.release_registration();
        }
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}

async fn delete(cluster: Arc<Cluster>, process: ProcessId, nodes: Arc<[Arc<str>]>) {
    let client = SimClient::new(&cluster, process);
    for node in nodes.iter() {
        let key = ObjectKey::cluster(node);
        persist(&cluster, || async { client.delete::<Node>(&key, DeleteOptions::default()).await.map(drop) }).await;
    }
}
