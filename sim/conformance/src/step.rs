//! The steps of a case.

use std::time::Duration;

use indexmap::IndexMap;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};

use crate::json::Json;
use crate::problem::words;
use crate::server::Identity;

/// One step of a case. Durations are on the server's clock.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Sends a request and records the answer.
    Request(Request),
    /// Opens a watch and records the answer.
    Watch(Watch),
    /// Waits for events of a watch and records them.
    Collect(Collect),
    /// Hangs up a watch, by its name.
    Close(String),
    /// Sends requests at once, and records their statuses and reasons in sorted order.
    Parallel(Vec<Request>),
    /// Repeats a request until it has the wanted answer.
    Poll(Poll),
    /// Waits for this duration.
    Sleep(Duration),
    /// Compacts the history of the store.
    Compact(Compact),
}

/// A request, with its values still to be filled in.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The method of HTTP.
    #[serde(default = "get")]
    pub method: String,
    /// The path, with references.
    pub path: String,
    /// Parameters; a list repeats one, null leaves it out.
    #[serde(default)]
    pub query: IndexMap<String, Json>,
    /// Headers in addition to the usual ones, or replacing them; null removes one.
    #[serde(default)]
    pub headers: IndexMap<String, Option<String>>,
    /// The body, with its forms.
    #[serde(default, deserialize_with = "given")]
    pub body: Option<Json>,
    /// The identity of the caller.
    #[serde(default, rename = "as")]
    pub identity: Identity,
    /// The name under which the answer's body is kept.
    pub capture: Option<String>,
    /// Whether any answer, even a refusal, may be captured.
    #[serde(default)]
    pub any_status: bool,
    /// The parts of the body that are recorded, as paths; `None` = all.
    pub pick: Option<Vec<String>>,
    /// The way in which the version of the list is determined.
    pub exact: Option<Exact>,
}

/// The way in which the version of a list is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exact {
    /// It is the version of an object.
    Version,
    /// It is the version of an earlier page.
    Page,
}

/// The opening of a watch.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// The name of the watch.
    #[serde(rename = "watch")]
    pub name: String,
    /// The path, with references.
    pub path: String,
    /// Parameters; `watch=true` is added.
    #[serde(default)]
    pub query: IndexMap<String, Json>,
    /// Headers in addition to the usual ones, or replacing them; null removes one.
    #[serde(default)]
    pub headers: IndexMap<String, Option<String>>,
    /// The identity of the caller.
    #[serde(default, rename = "as")]
    pub identity: Identity,
}

/// The wait for events.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collect {
    /// The name of the watch.
    #[serde(rename = "collect")]
    pub name: String,
    /// The number of events to wait for. Bookmarks do not count, except the one that ends the initial events.
    #[serde(default)]
    pub count: usize,
    /// Something else to wait for.
    pub until: Option<Until>,
    /// The longest time to wait.
    #[serde(default = "collect_max", deserialize_with = "seconds")]
    pub max: Duration,
    /// The time to listen for further events, afterwards.
    #[serde(default = "quiet", deserialize_with = "seconds")]
    pub quiet: Duration,
    /// Whether a bookmark that comes last is recorded.
    #[serde(default)]
    pub bookmark: bool,
    /// The number of first events that are in random order, and are sorted by name.
    #[serde(default)]
    pub sort_first: usize,
    /// The name under which the events are kept.
    pub capture: Option<String>,
}

/// A condition to wait for instead of a number of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Until {
    /// The end of the stream.
    End,
}

/// The repetition of a request.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// The request that is repeated.
    #[serde(rename = "poll")]
    pub request: Request,
    /// The answer to wait for.
    pub until: Wanted,
    /// The longest time to repeat it.
    #[serde(default = "poll_max", deserialize_with = "seconds")]
    pub max: Duration,
    /// The name under which the last answer's body is kept.
    pub capture: Option<String>,
}

/// An answer to wait for.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Its status; `None` = any.
    pub status: Option<u16>,
    /// Values that its body contains.
    #[serde(default, deserialize_with = "given")]
    pub body: Option<Json>,
}

/// A compaction of the history.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compact {
    control: Control,
    /// The revision up to which the history is removed, with references.
    pub revision: Json,
    /// Whether the API servers are told.
    #[serde(default)]
    pub announce: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Control {
    Compact,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CloseForm {
    close: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ParallelForm {
    parallel: Vec<Request>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SleepForm {
    #[serde(deserialize_with = "seconds")]
    sleep: Duration,
}

impl Step {
    /// Reads a step from its JSON form.
    ///
    /// # Errors
    ///
    /// Names an unknown, missing or invalid member of the step.
    pub fn read(value: &Json) -> Result<Self, String> {
        let members = value.as_object().ok_or("a step has to be an object")?;
        // A note is for the reader of the case.
        let text = members.iter().filter(|(name, _)| *name != "note").map(|(name, item)| (name.clone(), item.clone())).collect::<Json>();
        let text = text.compact();
        let step = if members.contains_key("sleep") {
            Step::Sleep(decoded::<SleepForm>(&text)?.sleep)
        } else if members.contains_key("watch") {
            Step::Watch(decoded(&text)?)
        } else if members.contains_key("collect") {
            Step::Collect(decoded(&text)?)
        } else if members.contains_key("close") {
            Step::Close(decoded::<CloseForm>(&text)?.close)
        } else if members.contains_key("parallel") {
            Step::Parallel(decoded::<ParallelForm>(&text)?.parallel)
        } else if members.contains_key("poll") {
            Step::Poll(decoded(&text)?)
        } else if members.contains_key("control") {
            Step::Compact(decoded(&text)?)
        } else {
            Step::Request(decoded(&text)?)
        };
        step.check()?;
        Ok(step)
    }

    /// Checks that a request within a step has no members that only a single request can have.
    fn check(&self) -> Result<(), String> {
        let (requests, what, pick) = match self {
            Step::Parallel(requests) => (requests.as_slice(), "parallel", false),
            Step::Poll(poll) => (std::slice::from_ref(&poll.request), "polled", true),
            _ => return Ok(()),
        };
        for request in requests {
            let of = [
                ("capture", request.capture.is_some()),
                ("any_status", request.any_status),
                ("exact", request.exact.is_some()),
                ("pick", request.pick.is_some() && !pick),
            ];
            if let Some((member, _)) = of.into_iter().find(|(_, there)| *there) {
                return Err(format!("a {what} request has no `{member}`"));
            }
        }
        if requests.is_empty() { Err("`parallel` has to have requests".to_owned()) } else { Ok(()) }
    }

    /// The name under which the step keeps a value.
    pub fn capture(&self) -> Option<&str> {
        match self {
            Step::Request(Request { capture, .. }) | Step::Collect(Collect { capture, .. }) | Step::Poll(Poll { capture, .. }) => {
                capture.as_deref()
            }
            _ => None,
        }
    }

    /// The step in a line for people.
    pub fn title(&self) -> String {
        match self {
            Step::Request(request) => request.title(),
            Step::Watch(watch) => format!("watch {} {}", watch.name, with_query(&watch.path, &watch.query)),
            Step::Collect(collect) => format!("collect {}", collect.name),
            Step::Close(name) => format!("close {name}"),
            Step::Parallel(requests) => format!("{} requests at once, the first {}", requests.len(), requests[0].title()),
            Step::Poll(poll) => format!("poll {}", poll.request.title()),
            Step::Sleep(duration) => format!("sleep {} s", duration.as_secs_f64()),
            Step::Compact(_) => "compact".to_owned(),
        }
    }
}

impl Request {
    fn title(&self) -> String {
        format!("{} {}", self.method, with_query(&self.path, &self.query))
    }
}

fn with_query(path: &str, query: &IndexMap<String, Json>) -> String {
    let text = |value: &Json| value.as_str().map_or_else(|| value.compact(), str::to_owned);
    let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

pub(crate) fn decoded<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| words(&error))
}

fn get() -> String {
    "GET".to_owned()
}

fn collect_max() -> Duration {
    Duration::from_secs(8)
}

fn quiet() -> Duration {
    Duration::from_millis(400)
}

fn poll_max() -> Duration {
    Duration::from_secs(10)
}

/// A number of seconds.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(deserializer)?)
        .map_err(|_| D::Error::custom("a time has to be a number of seconds from 0 on"))
}

/// A member that is present, even if it is null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Step, String> {
        Step::read(&Json::read(text.as_bytes()).unwrap())
    }

    #[test]
    fn members_that_no_step_of_the_form_has_are_refused() {
        for (wrong, member) in [
            (r#"{"path": "/a", "bdoy": {}}"#, "`bdoy`"),
            (r#"{"watch": "w", "path": "/a", "capture": "x"}"#, "`capture`"),
            (r#"{"collect": "w", "path": "/a"}"#, "`path`"),
            (r#"{"close": "w", "count": 1}"#, "`count`"),
            (r#"{"parallel": [{"path": "/a", "capture": "x"}]}"#, "`capture`"),
            (r#"{"poll": {"path": "/a", "exact": "page"}, "until": {}}"#, "`exact`"),
            (r#"{"poll": {"path": "/a"}, "until": {"code": 3}}"#, "`code`"),
            (r#"{"sleep": 1, "max": 3}"#, "`max`"),
            (r#"{"control": "compact", "revision": 3, "path": "/a"}"#, "`path`"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(member), "{wrong}: {error}");
        }
    }

    #[test]
    fn members_that_are_missing_or_of_another_type_are_refused() {
        for (wrong, part) in [
            (r#"{"method": "GET"}"#, "missing field `path`"),
            (r#"{"poll": {"path": "/a"}}"#, "missing field `until`"),
            (r#"{"path": "/a", "as": "root"}"#, "unknown variant `root`"),
            (r#"{"collect": "w", "until": "start"}"#, "unknown variant `start`"),
            (r#"{"sleep": -1}"#, "seconds from 0 on"),
            (r#"{"control": "defrag", "revision": 1}"#, "unknown variant `defrag`"),
            (r#"{"parallel": []}"#, "has to have requests"),
            (r#"[]"#, "has to be an object"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_note_is_for_the_reader_and_a_body_may_be_null() {
        let Step::Request(request) = read(r#"{"path": "/a", "note": "why", "body": null}"#).unwrap() else { panic!("a request") };
        assert_eq!((request.method.as_str(), request.body), ("GET", Some(Json::Null)));
        let Step::Request(request) = read(r#"{"path": "/a"}"#).unwrap() else { panic!("a request") };
        assert_eq!(request.body, None);
    }
}
