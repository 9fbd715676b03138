//! The audit log of an API server: JSON lines of `audit.k8s.io` events about any objects.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use sim_config::{Position, Problem, Problems};

/// An audit event, with the fields that are used.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    kind: Option<String>,
    /// The ID of the request, the same at each of its stages.
    #[serde(rename = "auditID")]
    pub audit_id: Option<String>,
    /// The stage of the request: `RequestReceived`, `ResponseStarted`, `ResponseComplete` or `Panic`.
    pub stage: Option<String>,
    /// The verb of the request: `get`, `list`, `watch`, `create`, `update` and so on.
    pub verb: Option<String>,
    /// The path and the query.
    #[serde(rename = "requestURI")]
    pub request_uri: Option<String>,
    /// The object of the request; unset for paths that are no resources, such as `/readyz`.
    pub object_ref: Option<ObjectRef>,
    /// The status of the response.
    pub response_status: Option<Status>,
    /// The object of the request body, at the level `Request` and above.
    pub request_object: Option<Value>,
    /// The object of the response, at the level `RequestResponse`.
    pub response_object: Option<Value>,
    request_received_timestamp: Option<String>,
    stage_timestamp: Option<String>,
    /// The events of an `EventList`, as webhooks receive them.
    #[serde(default)]
    items: Vec<Event>,
}

/// The object of a request.
#[derive(Debug, Deserialize)]
pub struct ObjectRef {
    /// The plural name of the resource: `pods`.
    pub resource: Option<String>,
    /// Unset for cluster-scoped objects.
    pub namespace: Option<String>,
    /// Unset if the server generates the name, and for collections.
    pub name: Option<String>,
    /// The UID of the object, if the server knew it.
    pub uid: Option<String>,
    /// `status`, `binding`, `eviction` and so on.
    pub subresource: Option<String>,
}

/// The status of a response.
#[derive(Debug, Deserialize)]
pub struct Status {
    /// The HTTP status code.
    pub code: Option<u32>,
}

/// The place of an event.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    file: &'a str,
    /// The line, from 1.
    pub line: usize,
    text: &'a str,
}

impl Place<'_> {
    /// A problem at a column of the line.
    pub fn problem(&self, column: usize, wrong: impl Into<String>, right: impl Into<String>) -> Problem {
        Problem::at(self.file, position(self.line, column), wrong, right)
    }
}

fn position(line: usize, column: usize) -> Position {
    let number = |number: usize| u32::try_from(number.max(1)).unwrap_or(u32::MAX);
    Position { line: number(line), column: number(column) }
}

impl Event {
    /// The time at which the request arrived, and the time at which it reached the stage of the event.
    ///
    /// # Errors
    /// One of them is no date.
    pub fn times(&self, place: Place<'_>) -> Result<(Option<Timestamp>, Option<Timestamp>), Problem> {
        let time = |text: &Option<String>| {
            let Some(text) = text else { return Ok(None) };
            text.parse::<Timestamp>().map(Some).map_err(|_| {
                let column = place.text.find(text.as_str()).map_or(1, |at| place.text[..at].chars().count() + 1);
                place.problem(column, format!("`{text}` is no date"), "RFC 3339, such as 2026-01-15T12:00:00.000000Z")
            })
        };
        Ok((time(&self.request_received_timestamp)?, time(&self.stage_timestamp)?))
    }
}

/// Passes each event of a log to `see`, in the order of the file. Returns the number of the last line if it is cut off, and was skipped.
///
/// # Errors
/// A line that is no event, with its place, or an error of `see`.
pub fn events(file: &str, text: &str, mut see: impl FnMut(&Event, Place<'_>) -> Result<(), Problems>) -> Result<Option<usize>, Problems> {
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = Place { file, line: number + 1, text: line };
        let event: Event = match serde_json::from_str(line) {
            Ok(event) => event,
            // If the server was stopped, or the log was copied while growing, the last line is incomplete.
            Err(error) if error.is_eof() && number + 1 == lines.len() && number > 0 => return Ok(Some(number + 1)),
            Err(error) => {
                let message = error.to_string();
                let wrong = message.split(" at line ").next().unwrap_or_default();
                let column = line.get(..error.column()).map_or(error.column(), |before| before.chars().count());
                let right = "an event of audit.k8s.io on each line, as JSON";
                return Err(place.problem(column, format!("no audit event: {wrong}"), right).into());
            }
        };
        let events = match event.kind.as_deref() {
            Some("Event") => vec![event],
            Some("EventList") => event.items,
            other => {
                let found = other.map_or_else(|| "missing".to_owned(), |kind| format!("`{kind}`"));
                let wrong = format!("no audit event: its kind is {found}");
                return Err(place.problem(1, wrong, "`Event` or `EventList` of audit.k8s.io").into());
            }
        };
        for event in &events {
            see(event, place)?;
        }
    }
    Ok(None)
}
