//! Draining nodes: what `kubectl drain` and `kubectl uncordon` ask for (K §6.5).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube_machinery::api::{DeleteOptions, ListOptions, Patch, Reason, ignore_already_exists, ignore_not_found};
use kube_machinery::{ApiError, ClientExt, Env, ObjectKey};
use serde_json::json;

use super::operator::Operator;
use super::ops::{ApplyApp, DrainNode};

/// How long after an eviction that a budget refused it is asked for again.
const REFUSED_AGAIN: Duration = Duration::from_secs(5);
/// How often it is looked whether pods are gone.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Whether a DaemonSet controls a pod: it would only make another one for the node.
fn is_of_daemon_set(pod: &Pod) -> bool {
    pod.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet")
}

impl Operator {
    /// Whether a node takes no new pods.
    pub(super) async fn cordon(&self, node: &str, cordoned: bool) -> Result<(), ApiError> {
        let patch = Patch::merge(json!({"spec": {"unschedulable": cordoned.then_some(true)}}));
        ignore_not_found(self.client.patch::<Node>(&ObjectKey::cluster(node), patch).await)
    }

    /// Cordons a node and evicts the pods that are there now, by name: one that is bound to it meanwhile stays. What is refused for another
    /// reason than a budget ends the attempt, as it ends kubectl.
    pub(super) async fn drain(&self, op: &DrainNode) -> Result<(), ApiError> {
        self.cordon(&op.node, true).await?;
        let of_node = ListOptions { field_selector: Some(format!("spec.nodeName={}", op.node)), ..ListOptions::default() };
        let mut left = self.client.list::<Pod>(None, of_node).await?.items;
        left.retain(|pod| !is_of_daemon_set(pod));
        let (mut leaving, until) = (Vec::new(), self.env.monotonic() + op.timeout.0);
        loop {
            for pod in std::mem::take(&mut left) {
                match self.client.evict(&ObjectKey::of(&*pod), DeleteOptions::default()).await {
                    Ok(()) => leaving.push(pod),
                    Err(error) if error.is_not_found() => {}
                    Err(error) if may_be_asked_again(&error) => left.push(pod),
                    Err(error) => return Err(error),
                }
            }
            let again = self.env.monotonic() + if left.is_empty() { LOOK_AGAIN } else { REFUSED_AGAIN };
            while self.env.monotonic() < again {
                self.env.sleep(LOOK_AGAIN).await;
                if left.is_empty() && self.are_gone(&mut leaving).await? || self.env.monotonic() >= until {
                    return Ok(());
                }
            }
        }
    }

    /// Whether nothing is left of these pods. Those of which nothing is are forgotten.
    async fn are_gone(&self, pods: &mut Vec<Arc<Pod>>) -> Result<bool, ApiError> {
        while let Some(pod) = pods.last() {
            match self.client.get::<Pod>(&ObjectKey::of(&**pod)).await {
                Ok(there) if there.metadata.uid == pod.metadata.uid => return Ok(false),
                Err(error) if !error.is_not_found() => return Err(error),
                _ => drop(pods.pop()),
            }
        }
        Ok(true)
    }

    /// Creates the budget of an application, unless there is one of its name.
    pub(super) async fn create_budget(&self, apply: &ApplyApp) -> Result<(), ApiError> {
        let Some(budget) = apply.budget() else { return Ok(()) };
        ignore_already_exists(self.client.create(budget).await)
    }
}

/// Whether an eviction was refused by a budget, or because the namespace of the pod is being emptied.
fn may_be_asked_again(error: &ApiError) -> bool {
    let causes = error.status().map(|status| status.details.causes.as_slice()).unwrap_or_default();
    error.reason() == Some(Reason::TooManyRequests) || causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}
