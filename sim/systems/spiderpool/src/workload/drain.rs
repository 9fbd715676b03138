//! Draining of nodes: the requests of `kubectl drain` and `kubectl uncordon` (K §6.5).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube_machinery::api::{DeleteOptions, ListOptions, Patch, Reason, ignore_already_exists, ignore_not_found};
use kube_machinery::{ApiError, ClientExt, Env, ObjectKey};
use serde_json::json;

use super::operator::Operator;
use super::ops::{ApplyApp, DrainNode};

/// The time until an eviction that a budget refused is tried again.
const REFUSED_AGAIN: Duration = Duration::from_secs(5);
/// The interval at which the drain checks whether pods are gone.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Whether a DaemonSet controls a pod: it would only create another one on the node.
fn is_of_daemon_set(pod: &Pod) -> bool {
    pod.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet")
}

impl Operator {
    /// Cordons a node, so that it takes no new pods, or uncordons it.
    pub(super) async fn cordon(&self, node: &str, cordoned: bool) -> Result<(), ApiError> {
        let patch = Patch::merge(json!({"spec": {"unschedulable": cordoned.then_some(true)}}));
        ignore_not_found(self.client.patch::<Node>(&ObjectKey::cluster(node), patch).await)
    }

    /// Cordons a node and evicts, by name, the pods that are on it now: a pod that is bound to it meanwhile stays. A refusal for another
    /// reason than a budget ends the attempt, as in kubectl.
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

    /// Whether all of these pods are gone. Pods that are gone are removed from the list.
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

    /// Creates the budget of an application, unless one of this name exists.
    pub(super) async fn create_budget(&self, apply: &ApplyApp) -> Result<(), ApiError> {
        let Some(budget) = apply.budget() else { return Ok(()) };
        ignore_already_exists(self.client.create(budget).await)
    }
}

/// Whether an eviction may be retried: a budget refused it, or the namespace of the pod is being emptied.
fn may_be_asked_again(error: &ApiError) -> bool {
    let causes = error.status().map(|status| status.details.causes.as_slice()).unwrap_or_default();
    error.reason() == Some(Reason::TooManyRequests) || causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}
