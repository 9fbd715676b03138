//! Reads the bodies of requests: objects, options of a delete, patches (K §2.6 to §2.10).

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use kube_machinery::Status;
use kube_machinery::api::{Patch, PatchKind, Reason};
use kube_sim::kinds::TypeDef;
use serde_json::Value;

use crate::object::Form;

type Answer<T> = Result<T, Box<Status>>;

/// The media type of an apply patch.
const APPLY: &str = "application/apply-patch+yaml";
/// The largest body, in bytes (K017).
const BODY_MAX: usize = 3 << 20;

pub(crate) fn bad(text: impl Into<String>) -> Box<Status> {
    Box::new(Status::new(Reason::BadRequest, text.into()))
}

fn unsupported(accepted: &str) -> Box<Status> {
    let text = format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
    Box::new(Status::new(Reason::UnsupportedMediaType, text))
}

/// The media type without its parameters, in lower case.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or("").trim().to_ascii_lowercase())
}

/// Checks the size of a body: 413 if it is too large.
pub(crate) fn check_size(body: &[u8]) -> Answer<()> {
    if body.len() > BODY_MAX {
        return Err(Box::new(Status::new(Reason::RequestEntityTooLarge, format!("Request entity too large: limit is {BODY_MAX}"))));
    }
    Ok(())
}

/// The error of Go's decoder for a text that is not JSON.
fn go_error(text: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() || text.is_empty() {
        return "unexpected end of JSON input".to_owned();
    }
    let line = text.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let found = line.get(error.column().saturating_sub(1)).map_or('\u{fffd}', |byte| char::from(*byte));
    format!("invalid character {found:?} looking for beginning of value")
}

/// The beginning of a body, as errors show it.
fn beginning(text: &[u8]) -> String {
    let shown = String::from_utf8_lossy(text);
    match shown.chars().count() {
        0 => "<empty>".to_owned(),
        1..=30 => shown.into_owned(),
        _ => format!("{} ...", shown.chars().take(30).collect::<String>()),
    }
}

/// The object in a request.
pub(crate) fn object(def: &TypeDef, headers: &HeaderMap, body: &[u8]) -> Answer<Value> {
    check_size(body)?;
    let accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    match media_type(headers).as_deref() {
        None | Some("" | "application/json" | "*/*") => {}
        _ => return Err(unsupported(if def.custom { "application/json, application/yaml" } else { accepted })),
    }
    let unrecognized = |why: String| bad(format!("the object provided is unrecognized (must be of type {}): {why}", def.kind));
    let parse_error = |why: String| unrecognized(format!("couldn't get version/kind; json parse error: {why} ({})", beginning(body)));
    let value: Value = serde_json::from_slice(body).map_err(|error| parse_error(go_error(body, &error)))?;
    let Some(fields) = value.as_object() else {
        return Err(parse_error(format!("json: cannot unmarshal {} into Go value of type struct", go_type(&value))));
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (version, kind) = (text("apiVersion"), text("kind"));
    if def.custom {
        for (name, given) in [("Kind", kind), ("apiVersion", version)] {
            if given.is_none() {
                return Err(unrecognized(format!("Object '{name}' is missing in '{}'", String::from_utf8_lossy(body))));
            }
        }
    }
    let expected = def.api_version();
    if let Some(version) = version.filter(|version| *version != expected) {
        return Err(bad(format!("the API version in the data ({version}) does not match the expected API version ({expected})")));
    }
    if let Some(kind) = kind.filter(|kind| !def.custom && *kind != def.kind) {
        let (own, internal) = (def.version, if def.group.is_empty() { "core" } else { def.group.split('.').next().unwrap_or_default() });
        return Err(bad(format!(
            "{kind} in version {own:?} cannot be handled as a {}: converting ({own}.{kind}) to ({internal}.{}): unknown conversion",
            def.kind, def.kind
        )));
    }
    Ok(value)
}

/// The type of a value in the words of Go's decoder.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// 400 for an object that does not fit its type.
pub(crate) fn decode_error(def: &TypeDef, error: &str) -> Box<Status> {
    bad(format!("{} in version {:?} cannot be handled as a {}: {error}", def.kind, def.version, def.kind))
}

/// Whether a request carries an apply patch.
pub(crate) fn is_apply(headers: &HeaderMap) -> bool {
    media_type(headers).as_deref() == Some(APPLY)
}

/// The patch in a request, unless it is an apply patch.
pub(crate) fn patch(def: &TypeDef, headers: &HeaderMap, body: &[u8]) -> Answer<Patch> {
    let kind = match media_type(headers).as_deref() {
        Some("application/merge-patch+json") => PatchKind::Merge,
        Some("application/json-patch+json") => PatchKind::Json,
        Some("application/strategic-merge-patch+json") if !def.custom => PatchKind::Strategic,
        _ if def.custom => {
            return Err(unsupported("application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"));
        }
        _ => return Err(Box::new(Status::new(Reason::UnsupportedMediaType, "415: Unsupported Media Type"))),
    };
    check_size(body)?;
    let value: Value = serde_json::from_slice(body).map_err(|_| bad("invalid JSON patch"))?;
    if kind == PatchKind::Merge && !value.is_object() {
        return Err(bad(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(&value)
        )));
    }
    if kind == PatchKind::Json {
        let wrong = |value: &Value, of: &str| {
            bad(format!("error decoding patch: json: cannot unmarshal {} into Go value of type {of}", go_type(value)))
        };
        let operations = value.as_array().ok_or_else(|| wrong(&value, "[]handlers.jsonPatchOp"))?;
        if let Some(operation) = operations.iter().find(|operation| !operation.is_object()) {
            return Err(wrong(operation, "handlers.jsonPatchOp"));
        }
    }
    Ok(Patch::of(kind, value))
}

/// The options of a delete, if the request has a body.
pub(crate) fn delete_options(headers: &HeaderMap, body: &[u8]) -> Answer<Option<Value>> {
    check_size(body)?;
    if body.is_empty() {
        return Ok(None);
    }
    match media_type(headers).as_deref() {
        None | Some("" | "application/json" | "*/*") => {}
        _ => return Err(unsupported("application/json, application/yaml, application/vnd.kubernetes.protobuf")),
    }
    let unrecognized = |why: String| bad(format!("couldn't get version/kind; json parse error: {why}"));
    serde_json::from_slice(body).map(Some).map_err(|error| unrecognized(go_error(body, &error)))
}

/// The form in which the caller wants its answer; `None` = the server supports none of the accepted ones.
pub(crate) fn form(headers: &HeaderMap) -> Option<Form> {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    accept.split(',').find_map(|one| {
        let mut parts = one.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        if !matches!(media, "application/json" | "application/*" | "*/*" | "") {
            return None;
        }
        match parts.find_map(|part| part.strip_prefix("as=")) {
            None => Some(Form::Whole),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Form::Metadata),
            Some(_) => None,
        }
    })
}
