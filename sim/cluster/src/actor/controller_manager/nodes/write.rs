//! The writes of the node controllers: the condition Ready, taints, and the status and deletion of pods.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, PodCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube_machinery::api::{DeleteOptions, Patch, ignore_not_found};
use kube_machinery::{ApiError, ClientExt, Env, ObjectKey};
use serde_json::json;

use crate::actor::ApiClient;
use crate::env::SimEnv;
use crate::node::taints::taints_of;

/// The number of tries of a write that meets a conflict.
const TRIES: u32 = 5;

/// A client of the controller, and the environment whose wall clock dates its writes.
#[derive(Clone)]
pub(in super::super) struct Writer {
    pub(in super::super) client: ApiClient,
    pub(in super::super) env: SimEnv,
}

impl Writer {
    pub(in super::super) fn now(&self) -> Time {
        let wall = self.env.wall();
        Time(Timestamp::from_second(wall.as_second()).unwrap_or(wall))
    }

    /// Applies `change` to a Node, or after a conflict to its current state, and writes the result; writes nothing if `change` returns
    /// false. Returns the stored Node.
    async fn change_node(&self, node: &Arc<Node>, status: bool, change: impl Fn(&mut Node) -> bool) -> Result<Arc<Node>, ApiError> {
        let mut base = node.clone();
        for _ in 1..TRIES {
            match self.try_change(&base, status, &change).await {
                Err(error) if error.is_conflict() => base = self.client.get::<Node>(&ObjectKey::of(&*base)).await?,
                result => return result,
            }
        }
        self.try_change(&base, status, &change).await
    }

    async fn try_change(&self, base: &Arc<Node>, status: bool, change: &impl Fn(&mut Node) -> bool) -> Result<Arc<Node>, ApiError> {
        let mut body = Node::clone(base);
        if !change(&mut body) {
            return Ok(base.clone());
        }
        if status { self.client.update_status(body).await } else { self.client.update(body).await }
    }

    /// Sets the condition Ready to Unknown, unless a conflict shows that the node has posted meanwhile.
    pub(super) async fn set_unknown(&self, node: &Arc<Node>) -> Result<Arc<Node>, ApiError> {
        let posted = |node: &Node| {
            let conditions = node.status.as_ref()?.conditions.as_ref()?;
            conditions.iter().find(|condition| condition.type_ == "Ready")?.last_heartbeat_time.clone()
        };
        let (now, known) = (self.now(), posted(node));
        self.change_node(node, true, |node| {
            if posted(node) != known {
                return false;
            }
            let conditions = node.status.get_or_insert_default().conditions.get_or_insert_default();
            let known = conditions.iter_mut().find(|condition| condition.type_ == "Ready");
            let (reason, unknown) = (if known.is_some() { "NodeStatusUnknown" } else { "NodeStatusNeverUpdated" }, "Unknown".to_owned());
            let ready = match known {
                Some(ready) if ready.status == unknown => return false,
                Some(ready) => ready,
                None => {
                    conditions.push(NodeCondition { type_: "Ready".to_owned(), ..NodeCondition::default() });
                    let last = conditions.len() - 1;
                    &mut conditions[last]
                }
            };
            (ready.status, ready.reason, ready.last_transition_time) = (unknown, Some(reason.to_owned()), Some(now.clone()));
            true
        })
        .await
    }

    /// Adds these taints, and removes those with these keys and effects.
    pub(super) async fn retaint(&self, node: &Arc<Node>, add: &[(&str, &str)], remove: &[(&str, &str)]) -> Result<Arc<Node>, ApiError> {
        let now = self.now();
        self.change_node(node, false, |node| {
            let is = |taint: &Taint, (key, effect): (&str, &str)| taint.key == key && taint.effect == effect;
            let mut taints = taints_of(node).to_vec();
            taints.retain(|taint| !remove.iter().any(|&one| is(taint, one)));
            for &(key, effect) in add {
                if !taints.iter().any(|taint| is(taint, (key, effect))) {
                    let time_added = Some(now.clone());
                    taints.push(Taint { key: key.to_owned(), effect: effect.to_owned(), time_added, ..Taint::default() });
                }
            }
            if taints == taints_of(node) {
                return false;
            }
            node.spec.get_or_insert_default().taints = Some(taints).filter(|taints| !taints.is_empty());
            true
        })
        .await
    }

    /// Marks the pod as not ready, because its node is not.
    pub(super) async fn set_pod_unready(&self, pod: &Arc<Pod>) -> Result<(), ApiError> {
        let mut base = pod.clone();
        for _ in 0..TRIES {
            let mut body = Pod::clone(&base);
            let Some(ready) = ready_condition(&mut body).filter(|ready| ready.status == "True") else { return Ok(()) };
            (ready.status, ready.reason, ready.last_transition_time) =
                ("False".to_owned(), Some("NodeNotReady".to_owned()), Some(self.now()));
            match self.client.update_status(body).await {
                Err(error) if error.is_conflict() => {
                    base = match self.client.get::<Pod>(&ObjectKey::of(&**pod)).await {
                        Ok(now) if now.metadata.uid == pod.metadata.uid => now,
                        result => return ignore_not_found(result),
                    }
                }
                result => return ignore_not_found(result),
            }
        }
        Ok(())
    }

    /// Patches the status of the pod with the UID of `pod`: a condition DisruptionTarget, and the phase if there is one.
    ///
    /// A merge patch, which repeats the other conditions from `pod`: kube-controller-manager's strategic merge patch names only the one
    /// condition, and leaves a kubelet's concurrent writes alone. No system under test reads conditions of pods.
    pub(in super::super) async fn disrupt(&self, pod: &Pod, reason: &str, phase: Option<&str>) -> Result<(), ApiError> {
        let mut conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions.retain(|condition| condition.type_ != "DisruptionTarget");
        conditions.push(PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            last_transition_time: Some(self.now()),
            ..PodCondition::default()
        });
        let mut status = json!({"conditions": conditions});
        if let Some(phase) = phase {
            status["phase"] = phase.into();
        }
        let patch = Patch::merge(json!({"metadata": {"uid": pod.metadata.uid}, "status": status}));
        self.client.patch_status::<Pod>(&ObjectKey::of(pod), patch).await.map(drop)
    }

    /// Deletes whichever pod has this name: the request names no UID (K144). `grace` unset = the pod's own.
    pub(in super::super) async fn delete_by_name(&self, key: &ObjectKey, grace: Option<i64>) -> Result<(), ApiError> {
        let options = DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
        ignore_not_found(self.client.delete::<Pod>(key, options).await)
    }

    pub(super) async fn sleep(&self, duration: Duration) {
        self.env.sleep(duration).await;
    }
}

fn ready_condition(pod: &mut Pod) -> Option<&mut PodCondition> {
    pod.status.as_mut()?.conditions.as_mut()?.iter_mut().find(|condition| condition.type_ == "Ready")
}
