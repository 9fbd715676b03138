//! The audit log of an API server: JSON lines of `audit.k8s.io` events, whatever they are about.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use sim_config::{Position, Problem, Problems};

/// An event, as far as it is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    kind: Option<String>,
    /// Which request it is about: the same at each of its stages.
    #[serde(rename = "auditID")]
    pub audit_id: Option<String>,
    /// How far the request was: `RequestReceived`, `ResponseStarted`, `ResponseComplete` or `Panic`.
    pub stage: Option<String>,
    /// What is asked for: `get`, `list`, `watch`, `create`, `update` and so on.
    pub verb: Option<String>,
    /// The path and the query.
    #[serde(rename = "requestURI")]
    pub request_uri: Option<String>,
    /// What it was about; unset for paths that are no resources, such as `/readyz`.
    pub object_ref: Option<ObjectRef>,
    /// How it was answered.
    pub response_status: Option<Status>,
    /// The object that was sent, at the level `Request` and above.
    pub request_object: Option<Value>,
    /// The object of the answer, at the level `RequestResponse`.
    pub response_object: Option<Value>,
    request_received_timestamp: Option<String>,
    stage_timestamp: Option<String>,
    /// The events of an `EventList`, as webhooks get them.
    #[serde(default)]
    items: Vec<Event>,
}

/// What a request is about.
#[derive(Debug, Deserialize)]
pub struct ObjectRef {
    /// In the plural: `pods`.
    pub resource: Option<String>,
    /// Unset for what has none.
    pub namespace: Option<String>,
    /// Unset where the server makes the name up, and for collections.
    pub name: Option<String>,
    /// The UID of the object, where the server knew it.
    pub uid: Option<String>,
    /// `status`, `binding`, `eviction` and so on.
    pub subresource: Option<String>,
}

/// How a request was answered.
#[derive(Debug, Deserialize)]
pub struct Status {
    /// The code of HTTP.
    pub code: Option<u32>,
}

/// Where an event stands.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    file: &'a str,
    /// The line, from 1.
    pub line: usize,
    text: &'a str,
}

impl Place<'_> {
    /// What is wrong at a column of its line.
    pub fn problem(&self, column: usize, wrong: impl Into<String>, right: impl Into<String>) -> Problem {
        Problem::at(self.file, position(self.line, column), wrong, right)
    }
}

fn position(line: usize, column: usize) -> Position {
    let number = |number: usize| u32::try_from(number.max(1)).unwrap_or(u32::MAX);
    Position { line: number(line), column: number(column) }
}

impl Event {
    /// When its request came, and when it reached the stage of the event.
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

/// Shows each event of a log to `see`, in the order of the file. Gives the number of the last line if that is cut, and was left out.
///
/// # Errors
/// A line that is no event, with its place, or what `see` says.
pub fn events(file: &str, text: &str, mut see: impl FnMut(&Event, Place<'_>) -> Result<(), Problems>) -> Result<Option<usize>, Problems> {
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = Place { file, line: number + 1, text: line };
        let event: Event = match serde_json::from_str(line) {
            Ok(event) => event,
            // A server that is stopped, or a copy of a log that grows, ends within a line.
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
