//! Evictions: deletes of pods that ask disruption budgets first (K §2.8).
//!
//! A real server carries one out in the same steps, each of which commits by itself: take one from what the budget allows, mark the pod,
//! delete it.

use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_machinery::api::{Cause, DeleteOptions, Dry, ListOptions, Patch, Reason, Subresource};
use kube_machinery::label_selector::selects;
use kube_machinery::{ApiError, ObjectKey, Status};
use kube_sim::cluster::{ApiReply, Op, SimClient};
use kube_sim::kinds::KindId;
use serde_json::{Value, json};

use crate::body::bad;
use crate::delete_options;
use crate::response::json_response;

/// How long a caller waits for a budget that no controller has looked at yet, in seconds.
const UNSEEN_RETRY: u32 = 10;

/// Evicts the pod `key`. `asked`: the Eviction; `query_dry`: whether the query says that nothing is to be done.
///
/// # Errors
/// 429 where a budget does not allow it; whatever the delete is answered with.
pub(crate) async fn evict(
    client: &SimClient,
    pods: KindId,
    key: ObjectKey,
    asked: &Value,
    query_dry: Dry,
) -> Result<http::Response<Bytes>, ApiError> {
    let name = asked["metadata"]["name"].as_str().unwrap_or_default();
    if name != key.name() {
        return Err(ApiError::Status(bad("name in URL does not match name in Eviction object")));
    }
    check_namespace(client, &key)?;
    let mut options = delete_options::of_body(&asked["deleteOptions"]).0;
    if query_dry == Dry::Run {
        options.dry = Dry::Run;
    }
    let reply = client.call(pods, Op::Get { key: key.clone(), resource_version: None }).await?;
    let object = reply.object().ok_or_else(|| ApiError::Status(bad("the pod is gone")))?;
    let pod: &Pod = kube_sim::object::typed_ref(&**object);
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let needs_no_budget = matches!(phase, Some("Succeeded" | "Failed" | "Pending")) || pod.metadata.deletion_timestamp.is_some();
    if !needs_no_budget {
        ask_budgets(client, pod, &key, options.dry).await?;
    }
    carry_out(client, pods, key, options).await?;
    Ok(json_response(201, &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})))
}

/// An eviction is a POST: it creates something in the namespace, which one that is being deleted does not take (K066).
fn check_namespace(client: &SimClient, key: &ObjectKey) -> Result<(), ApiError> {
    let Some(namespace) = key.namespace() else { return Ok(()) };
    let cluster = client.cluster();
    let kind = cluster.registry.id::<Namespace>();
    let terminating = cluster.store(|store| {
        store.table(kind).get(&ObjectKey::cluster(namespace)).is_some_and(|found| found.meta().deletion_timestamp.is_some())
    });
    if !terminating {
        return Ok(());
    }
    let text = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated").into(),
        field: "metadata.namespace".into(),
    };
    Err(Status::about(Reason::Forbidden, "", "pods", key, text).cause(cause).into())
}

/// Takes one disruption from the budget that the pod belongs to, if there is one.
async fn ask_budgets(client: &SimClient, pod: &Pod, key: &ObjectKey, dry: Dry) -> Result<(), ApiError> {
    let budgets = client.cluster().registry.id::<PodDisruptionBudget>();
    let namespace: Option<Arc<str>> = key.namespace().map(Arc::from);
    let reply = client.call(budgets, Op::List { namespace, options: Box::new(ListOptions::default()) }).await?;
    let ApiReply::List { items, .. } = reply else { return Ok(()) };
    let budgets_of_pod: Vec<&PodDisruptionBudget> = items
        .iter()
        .map(|item| kube_sim::object::typed_ref::<PodDisruptionBudget>(&**item))
        .filter(|budget| {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            selector.is_some_and(|selector| selects(selector, pod.metadata.labels.as_ref()) == Ok(true))
        })
        .collect();
    let budget = match budgets_of_pod.as_slice() {
        [] => return Ok(()),
        [one] => *one,
        _ => {
            let text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::new(Reason::InternalError, text).into());
        }
    };
    let status = budget.status.clone().unwrap_or_default();
    let name = budget.metadata.name.as_deref().unwrap_or_default();
    let refuse = |text: String| {
        let refused = Status::new(Reason::TooManyRequests, "Cannot evict pod as it would violate the pod's disruption budget.");
        refused.cause(Cause { reason: "DisruptionBudget".into(), message: text.into(), field: "".into() })
    };
    if status.observed_generation.unwrap_or(0) < budget.metadata.generation.unwrap_or(0) {
        let text = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refuse(text).retry_after(UNSEEN_RETRY).into());
    }
    let allowed = status.disruptions_allowed.unwrap_or(0);
    if allowed <= 0 {
        let text = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            status.desired_healthy.unwrap_or(0),
            status.current_healthy.unwrap_or(0)
        );
        return Err(refuse(text).into());
    }
    let mut taken = budget.clone();
    let left = taken.status.get_or_insert_default();
    left.disruptions_allowed = Some(allowed - 1);
    let body = Arc::new(taken);
    let key = ObjectKey::of(budget);
    client.call(budgets, Op::Update { key, body, subresource: Some(Subresource::Status), dry }).await.map(drop)
}

/// Marks the pod as disrupted and deletes it.
async fn carry_out(client: &SimClient, pods: KindId, key: ObjectKey, options: DeleteOptions) -> Result<(), ApiError> {
    // What the delete would be refused for is not marked either.
    let check = DeleteOptions { dry: Dry::Run, ..options.clone() };
    client.call(pods, Op::Delete { key: key.clone(), options: Box::new(check) }).await?;
    if options.dry == Dry::Run {
        return Ok(());
    }
    let now = client.cluster().wall(client.process());
    let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
        "lastTransitionTime": now.to_string(), "lastProbeTime": null,
    });
    let patch = Patch::of(kube_machinery::api::PatchKind::Strategic, json!({"status": {"conditions": [condition]}}));
    client.call(pods, Op::Patch { key: key.clone(), patch, subresource: Some(Subresource::Status), dry: Dry::No }).await?;
    // The mark has given the pod another version.
    let mut options = options;
    options.preconditions.resource_version = None;
    client.call(pods, Op::Delete { key, options: Box::new(options) }).await.map(drop)
}
