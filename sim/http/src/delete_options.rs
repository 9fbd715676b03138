//! The options of a delete, from its body or its query (K §2.10).

use http::HeaderMap;
use kube_machinery::Status;
use kube_machinery::api::{Cause, DeleteOptions, Dry, Preconditions, Propagation};
use serde_json::Value;

use crate::body;
use crate::query::{Query, invalid_options, not_supported};

type Answer<T> = Result<T, Box<Status>>;

/// The options of a delete.
pub(crate) struct Asked {
    pub(crate) options: DeleteOptions,
    /// `orphanDependents=false`, the older way to delete dependents, too; the answer is then 202 if the object stays for now.
    pub(crate) takes_dependents: bool,
}

/// Reads the options. Those of the query count only if there is no body.
pub(crate) fn read(query: &Query, headers: &HeaderMap, text: &[u8]) -> Answer<Asked> {
    let (options, policy, orphan) = match body::delete_options(headers, text)? {
        Some(value) => of_body(&value),
        None => {
            let options =
                DeleteOptions { grace_period_seconds: query.grace()?, dry: query.dry("DeleteOptions")?, ..DeleteOptions::default() };
            (
                options,
                query.get("propagationPolicy").map(str::to_owned),
                query.get("orphanDependents").map(|_| query.is("orphanDependents")),
            )
        }
    };
    let propagation = match (policy.as_deref().filter(|policy| !policy.is_empty()), orphan) {
        (Some(policy), Some(_)) => {
            let message = format!("Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set");
            let cause = Cause { reason: "FieldValueInvalid".into(), message: message.into(), field: "propagationPolicy".into() };
            return Err(invalid_options("DeleteOptions", vec![cause]));
        }
        (Some("Background"), None) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), None) => Some(Propagation::Foreground),
        (Some("Orphan"), None) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some(other), None) => {
            let supported = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
            return Err(not_supported("DeleteOptions", "propagationPolicy", &format!("{other:?}"), supported));
        }
        (None, None) => None,
    };
    Ok(Asked { options: DeleteOptions { propagation, ..options }, takes_dependents: orphan == Some(false) })
}

/// The content of a body: options, policy, orphanDependents.
pub(crate) fn of_body(value: &Value) -> (DeleteOptions, Option<String>, Option<bool>) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let dry = value["dryRun"].as_array().is_some_and(|values| values.iter().any(|value| value == "All"));
    let preconditions = &value["preconditions"];
    let options = DeleteOptions {
        grace_period_seconds: value["gracePeriodSeconds"].as_i64(),
        preconditions: Preconditions { uid: text(&preconditions["uid"]), resource_version: text(&preconditions["resourceVersion"]) },
        dry: if dry { Dry::Run } else { Dry::No },
        ..DeleteOptions::default()
    };
    (options, text(&value["propagationPolicy"]), value["orphanDependents"].as_bool())
}
