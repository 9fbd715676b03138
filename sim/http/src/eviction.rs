//! Evictions (K110): reads their requests; the API server executes them.

use bytes::Bytes;
use kube_machinery::api::Dry;
use kube_machinery::{ApiError, ObjectKey};
use kube_sim::cluster::SimClient;
use serde_json::{Value, json};

use crate::body::bad;
use crate::delete_options;
use crate::response::json_response;

/// Evicts the pod `key`. `asked`: the Eviction; `query_dry`: whether the query asks for a dry run.
///
/// # Errors
/// Returns 429 if a budget does not permit it, and the errors of the delete.
pub(crate) async fn evict(client: &SimClient, key: ObjectKey, asked: &Value, query_dry: Dry) -> Result<http::Response<Bytes>, ApiError> {
    let name = asked["metadata"]["name"].as_str().unwrap_or_default();
    if name != key.name() {
        return Err(ApiError::Status(bad("name in URL does not match name in Eviction object")));
    }
    let mut options = delete_options::of_body(&asked["deleteOptions"]).0;
    if query_dry == Dry::Run {
        options.dry = Dry::Run;
    }
    client.evict(&key, options).await?;
    Ok(json_response(201, &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})))
}
