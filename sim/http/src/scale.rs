//! The scale of a workload: its number of replicas as a separate object (K §2.8).

use bytes::Bytes;
use kube_machinery::api::{Cause, Dry, Patch, PatchKind, Reason};
use kube_machinery::{ApiError, ObjectKey, Status};
use kube_sim::cluster::{Op, SimClient};
use kube_sim::kinds::KindId;
use kube_sim::object::AnyObject;
use serde_json::{Value, json};

use crate::body::bad;
use crate::response::json_response;

/// Whether a type has a scale.
pub(crate) fn has(plural: &str) -> bool {
    matches!(plural, "statefulsets" | "deployments" | "replicasets")
}

/// The scale of a workload.
fn scale_of(object: &dyn AnyObject) -> Value {
    let value = object.to_value();
    let meta = &value["metadata"];
    let labels = value["spec"]["selector"]["matchLabels"].as_object();
    let terms: Vec<String> =
        labels.into_iter().flatten().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    let picked = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    // A number of 0 is omitted.
    let replicas = value["spec"]["replicas"].as_i64().unwrap_or(1);
    let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
    let kept: serde_json::Map<String, Value> =
        picked.iter().filter(|name| !meta[**name].is_null()).map(|name| ((*name).to_owned(), meta[*name].clone())).collect();
    json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": kept,
        "spec": spec,
        "status": {"replicas": value["status"]["replicas"].as_i64().unwrap_or(0), "selector": terms.join(",")},
    })
}

/// The change of a scale.
pub(crate) enum Change {
    /// Nothing: it is only read.
    None,
    /// The number of replicas is replaced by that of a Scale.
    Put(Value),
    /// The present Scale is patched and written back.
    Patch(Patch),
}

/// Reads or writes the scale of the workload `key`.
///
/// # Errors
/// Returns 422 for a number below 0, and 409 for a version that is not the workload's.
pub(crate) async fn serve(
    client: &SimClient,
    kind: KindId,
    key: ObjectKey,
    change: Change,
    dry: Dry,
) -> Result<http::Response<Bytes>, ApiError> {
    let reply = client.call(kind, Op::Get { key: key.clone(), resource_version: None }).await?;
    let object = reply.object().ok_or_else(|| ApiError::Status(bad("the workload is gone")))?;
    let current = scale_of(&**object);
    let mut wanted = current.clone();
    match change {
        Change::None => return Ok(json_response(200, &current)),
        Change::Put(sent) => wanted = sent,
        Change::Patch(patch) if patch.kind == PatchKind::Json => {
            let rejected = || Status::new(Reason::Invalid, "the server rejected our request due to an error in our request");
            let operations: json_patch::Patch = serde::Deserialize::deserialize(&*patch.body).map_err(|_| rejected())?;
            json_patch::patch(&mut wanted, &operations).map_err(|_| rejected())?;
        }
        // A scale has no lists: strategic merge and merge are the same.
        Change::Patch(patch) => json_patch::merge(&mut wanted, &patch.body),
    }
    let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {replicas}: must be greater than or equal to 0").into(),
            field: "spec.replicas".into(),
        };
        return Err(Status::about(Reason::Invalid, "autoscaling", "Scale", &key, "").cause(cause).into());
    }
    if let Some(uid) = wanted["metadata"]["uid"].as_str().filter(|uid| current["metadata"]["uid"].as_str() != Some(uid)) {
        let def = client.cluster().registry.get(kind);
        let text = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             UID in precondition: {uid}, UID in object meta: {}",
            def.plural,
            current["metadata"]["uid"].as_str().unwrap_or_default()
        );
        return Err(Status::about(Reason::Conflict, def.group, def.plural, &key, text).into());
    }
    let mut change = json!({"spec": {"replicas": replicas}});
    if let Some(version) = wanted["metadata"]["resourceVersion"].as_str().filter(|version| !version.is_empty()) {
        change["metadata"] = json!({"resourceVersion": version});
    }
    let patch = Patch::merge(change);
    let reply = client.call(kind, Op::Patch { key, patch, subresource: None, dry }).await?;
    let object = reply.object().ok_or_else(|| ApiError::Status(bad("the workload is gone")))?;
    Ok(json_response(200, &scale_of(&**object)))
}
