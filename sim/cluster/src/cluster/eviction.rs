//! Evictions: deletes of pods that ask disruption budgets first (K §6.5, K110).
//!
//! ```text
//!   POST …/eviction ─► the pod ─► its budget: one disruption taken ─► the pod: DisruptionTarget ─► the pod: deleted
//!                                      └ none left: 429
//! ```
//! An eviction is one request to the client, and several writes to the server that carries it out, each of which commits separately: if the
//! server dies between two of them, those already done remain. The budget then lacks a disruption until its controller counts again.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_machinery::api::{Cause, DeleteOptions, Dry, ListOptions, Patch, PatchKind, Reason, Subresource};
use kube_machinery::label_selector::selects;
use kube_machinery::{ApiError, ObjectKey, Status};
use serde_json::json;

use super::request::{ApiReply, ApiRequest, Op};
use super::serve::{Ending, Work};
use super::write::not_found;
use super::{Cluster, SimClient};
use crate::kinds::KindId;
use crate::object::typed_ref;

/// The time, in seconds, that a caller waits for a budget that its controller has not processed yet.
const UNSEEN_RETRY: u32 = 10;
/// The number of reads of a budget that was written concurrently, and the time between them.
const TRIES: u32 = 20;
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// The condition of a pod that is being evicted.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// The reason of that condition if the eviction API set it.
pub const EVICTED_BY_API: &str = "EvictionByEvictionAPI";

impl SimClient {
    /// Evicts a pod, and returns when its deletion has begun.
    ///
    /// # Errors
    /// 429 with the cause `DisruptionBudget` if a budget does not allow it; the error of the delete; or an error on the way.
    pub async fn evict(&self, key: &ObjectKey, options: DeleteOptions) -> Result<(), ApiError> {
        let pods = self.cluster.registry.id::<Pod>();
        self.call(pods, Op::Evict { key: key.clone(), options: Box::new(options) }).await.map(drop)
    }
}

impl Cluster {
    /// Carries an eviction out.
    pub(super) async fn evict(self: &Arc<Self>, work: &Work, request: ApiRequest) -> Result<ApiReply, ApiError> {
        let ApiRequest { client, kind, op, call, .. } = request;
        let Op::Evict { key, options } = op else { unreachable!("it is an eviction") };
        // Etcd's result shows at the last write.
        let before = Work { ticket: work.ticket, server: work.server, deadline: work.deadline, ending: Ending::Commits };
        Eviction { cluster: self, before: &before, last: work, client, pods: kind, call, key }.carry_out(*options).await
    }
}

/// An eviction in progress at a server.
struct Eviction<'a> {
    cluster: &'a Arc<Cluster>,
    /// The context of all writes but the last.
    before: &'a Work,
    last: &'a Work,
    client: crate::rt::ProcessId,
    pods: KindId,
    call: u64,
    key: ObjectKey,
}

impl Eviction<'_> {
    /// Sends a request from the server to itself. Boxed, because it is served like any other request, evictions among them.
    fn send<'a>(&self, work: &'a Work, kind: KindId, op: Op) -> Pin<Box<dyn Future<Output = Result<ApiReply, ApiError>> + Send + 'a>> {
        let request = ApiRequest { client: self.client, kind, op, call: self.call, manager: None };
        let cluster = self.cluster.clone();
        Box::pin(async move { cluster.work(work, request).await })
    }

    /// Sleeps for the time of one more transaction.
    async fn next_transaction(&self) {
        let takes = self.cluster.lock().next_transaction(self.before.server);
        self.cluster.rt.sleep(takes).await;
    }

    async fn carry_out(self, options: DeleteOptions) -> Result<ApiReply, ApiError> {
        let def = self.cluster.registry.get(self.pods);
        if let Some(namespace) = self.key.namespace() {
            self.cluster.lock().check_namespace(def, namespace, self.key.name()).map_err(ApiError::Status)?;
        }
        let reply = self.send(self.before, self.pods, Op::Get { key: self.key.clone(), resource_version: None }).await?;
        let object = reply.object().ok_or_else(|| ApiError::Status(not_found(def, &self.key)))?;
        let pod: &Pod = typed_ref(&**object);
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let needs_no_budget = matches!(phase, Some("Succeeded" | "Failed" | "Pending")) || pod.metadata.deletion_timestamp.is_some();
        if !needs_no_budget {
            self.take_disruption(pod, options.dry).await?;
        }
        self.delete(options).await
    }

    /// Takes one disruption from the budget that the pod belongs to, if there is one.
    async fn take_disruption(&self, pod: &Pod, dry: Dry) -> Result<(), ApiError> {
        let Some(budgets) = self.cluster.registry.find("policy/v1", "PodDisruptionBudget") else { return Ok(()) };
        let mut tries = 0;
        loop {
            let Some(budget) = self.budget_of(budgets, pod).await? else { return Ok(()) };
            if !is_ready(pod) && spares_unready(&budget) {
                return Ok(());
            }
            let mut taken = with_disruption_taken(&budget).map_err(ApiError::Status)?;
            let now = self.cluster.wall(self.cluster.lock().servers[self.before.server].process);
            let disrupted = taken.status.get_or_insert_default().disrupted_pods.get_or_insert_default();
            disrupted.insert(self.key.name().to_owned(), Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now)));
            let (key, body) = (ObjectKey::of(&budget), Arc::new(taken));
            let update = Op::Update { key, body, subresource: Some(Subresource::Status), dry };
            tries += 1;
            match self.send(self.before, budgets, update).await {
                Err(error) if error.is_conflict() && tries < TRIES => self.cluster.rt.sleep(TRY_AGAIN).await,
                result => {
                    result?;
                    self.next_transaction().await;
                    return Ok(());
                }
            }
        }
    }

    /// The budget that the pod belongs to.
    async fn budget_of(&self, budgets: KindId, pod: &Pod) -> Result<Option<PodDisruptionBudget>, ApiError> {
        let namespace: Option<Arc<str>> = self.key.namespace().map(Arc::from);
        let reply = self.send(self.before, budgets, Op::List { namespace, options: Box::new(ListOptions::default()) }).await?;
        let ApiReply::List { items, .. } = reply else { return Ok(None) };
        let is_its = |budget: &&PodDisruptionBudget| {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            selector.is_some_and(|selector| selects(selector, pod.metadata.labels.as_ref()) == Ok(true))
        };
        let mut all = items.iter().map(|item| typed_ref::<PodDisruptionBudget>(&**item)).filter(is_its);
        let (one, another) = (all.next(), all.next());
        if another.is_some() {
            let text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::new(Reason::InternalError, text).into());
        }
        Ok(one.cloned())
    }

    /// Marks the pod as disrupted and deletes it.
    async fn delete(&self, mut options: DeleteOptions) -> Result<ApiReply, ApiError> {
        let delete = |options: &DeleteOptions| Op::Delete { key: self.key.clone(), options: Box::new(options.clone()) };
        // If the delete would be refused, the pod is not marked either.
        let tried = self.send(self.before, self.pods, delete(&DeleteOptions { dry: Dry::Run, ..options.clone() })).await?;
        if options.dry == Dry::Run {
            return Ok(tried);
        }
        let now = self.cluster.wall(self.cluster.lock().servers[self.before.server].process);
        let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        let condition = json!({
            "type": DISRUPTION_TARGET, "status": "True", "reason": EVICTED_BY_API, "message": "Eviction API: evicting",
            "lastTransitionTime": now.to_string(), "lastProbeTime": null,
        });
        let patch = Patch::of(PatchKind::Strategic, json!({"status": {"conditions": [condition]}}));
        let mark = Op::Patch { key: self.key.clone(), patch, subresource: Some(Subresource::Status), dry: Dry::No };
        self.send(self.before, self.pods, mark).await?;
        self.next_transaction().await;
        // The condition has given the pod another version.
        options.preconditions.resource_version = None;
        self.send(self.last, self.pods, delete(&options)).await
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether a pod that is not ready may go without a disruption (`unhealthyPodEvictionPolicy`).
fn spares_unready(budget: &PodDisruptionBudget) -> bool {
    let policy = budget.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
    let healthy = budget.status.as_ref().is_some_and(|status| {
        let (current, desired) = (status.current_healthy.unwrap_or(0), status.desired_healthy.unwrap_or(0));
        desired > 0 && current >= desired
    });
    policy == Some("AlwaysAllow") || healthy
}

/// The budget with one disruption less, or the error if it allows none.
fn with_disruption_taken(budget: &PodDisruptionBudget) -> Result<PodDisruptionBudget, Box<Status>> {
    let status = budget.status.clone().unwrap_or_default();
    let name = budget.metadata.name.as_deref().unwrap_or_default();
    let refuse = |text: String| {
        let refused = Status::new(Reason::TooManyRequests, "Cannot evict pod as it would violate the pod's disruption budget.");
        refused.cause(Cause { reason: "DisruptionBudget".into(), message: text.into(), field: "".into() })
    };
    if status.observed_generation.unwrap_or(0) < budget.metadata.generation.unwrap_or(0) {
        let text = format!("The disruption budget {name} is still being processed by the server.");
        return Err(Box::new(refuse(text).retry_after(UNSEEN_RETRY)));
    }
    let allowed = status.disruptions_allowed.unwrap_or(0);
    if allowed <= 0 {
        let (needed, healthy) = (status.desired_healthy.unwrap_or(0), status.current_healthy.unwrap_or(0));
        return Err(Box::new(refuse(format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"))));
    }
    let mut taken = budget.clone();
    taken.status.get_or_insert_default().disruptions_allowed = Some(allowed - 1);
    Ok(taken)
}
