//! Answers to the caller.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use kube_machinery::api::WatchEvent;
use kube_machinery::{ApiError, Status};
use kube_sim::cluster::AnyWatch;
use kube_sim::kinds::TypeDef;
use kube_sim::object::AnyObject;
use serde_json::{Value, json};

use crate::object::{Form, event_value};

/// An answer: a body, or a stream of lines behind a header.
pub enum Response {
    /// The whole answer, whose body is complete.
    Whole(http::Response<Bytes>),
    /// A watch, whose lines come one after the other until it ends.
    Stream(http::Response<()>, Box<Lines>),
}

/// The lines of a watch, one event each. Dropping it hangs up.
pub struct Lines {
    watch: AnyWatch,
    api_version: String,
    kind: &'static str,
    form: Form,
}

impl Lines {
    pub(crate) fn new(watch: AnyWatch, def: &TypeDef, form: Form) -> Self {
        Self { watch, api_version: def.api_version(), kind: def.kind, form }
    }

    /// The next line with its line feed; `None` = the server has ended the stream, or the connection broke.
    pub async fn next(&mut self) -> Option<Bytes> {
        let event = self.watch.next().await?.ok()?;
        let value = self.value(&event);
        let mut line = value.to_string().into_bytes();
        line.push(b'\n');
        Some(line.into())
    }

    fn value(&self, event: &WatchEvent<dyn AnyObject>) -> Value {
        let of = |what: &str, object: Value| json!({"type": what, "object": object});
        match event {
            WatchEvent::Added(object) => of("ADDED", event_value(&**object, self.form)),
            WatchEvent::Modified(object) => of("MODIFIED", event_value(&**object, self.form)),
            WatchEvent::Deleted(object) => of("DELETED", event_value(&**object, self.form)),
            WatchEvent::Bookmark { resource_version, initial_events_end } => {
                let mut meta = json!({"resourceVersion": resource_version});
                if *initial_events_end {
                    meta["annotations"] = json!({"k8s.io/initial-events-end": "true"});
                }
                let (api_version, kind) = match self.form {
                    Form::Metadata => ("meta.k8s.io/v1", "PartialObjectMetadata"),
                    _ => (self.api_version.as_str(), self.kind),
                };
                of("BOOKMARK", json!({"apiVersion": api_version, "kind": kind, "metadata": meta}))
            }
            WatchEvent::Error(status) => of("ERROR", status_value(status)),
        }
    }
}

/// An answer with a JSON body and its content type.
pub(crate) fn json_response(code: u16, value: &Value) -> http::Response<Bytes> {
    let mut response = http::Response::new(Bytes::from(value.to_string()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A body of plain text.
pub(crate) fn text_response(code: u16, text: &'static str) -> http::Response<Bytes> {
    let mut response = http::Response::new(Bytes::from_static(text.as_bytes()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// A Status in its wire form.
pub(crate) fn status_value(status: &Status) -> Value {
    let mut value = serde_json::to_value(status.to_wire()).unwrap_or_else(|_| unreachable!("a Status serialises"));
    value["apiVersion"] = json!("v1");
    value["kind"] = json!("Status");
    if value["metadata"].is_null() {
        value["metadata"] = json!({});
    }
    value
}

/// Refusals that do not mention the object: they have details, but empty ones.
const GENERIC: [&str; 4] = [
    "415: Unsupported Media Type",
    "the server could not find the requested resource",
    "the server does not allow this method on the requested resource",
    "the server rejected our request due to an error in our request",
];

/// A refusal as the Status that clients read, with its code and its headers.
pub(crate) fn refusal(status: &Status) -> http::Response<Bytes> {
    if GENERIC.contains(&&*status.text) && status.details == kube_machinery::api::Details::default() {
        return bare_refusal(status);
    }
    let mut response = json_response(status.code, &status_value(status));
    if let Some(seconds) = status.retry_after_header() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A refusal with empty `details`, as sent before a type is known.
pub(crate) fn bare_refusal(status: &Status) -> http::Response<Bytes> {
    let mut value = status_value(status);
    value["details"] = json!({});
    json_response(status.code, &value)
}

/// The answer to a call that failed; `None` = there was no answer.
pub(crate) fn failure(error: &ApiError) -> Option<http::Response<Bytes>> {
    match error {
        ApiError::Status(status) => Some(refusal(status)),
        ApiError::Plain { code, text, retry_after } => {
            let mut response = text_response(*code, text);
            if let Some(seconds) = retry_after {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(*seconds));
            }
            Some(response)
        }
        ApiError::Transport(_) => None,
    }
}

/// Adds a warning for each ignored field.
pub(crate) fn warn(response: &mut http::Response<Bytes>, warnings: &[String]) {
    for warning in warnings {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {warning:?}")) {
            response.headers_mut().append(WARNING, value);
        }
    }
}
