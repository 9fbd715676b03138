//! One run as a picture: the messages between processes, the writes, and the faults and violations meanwhile. [`page`] makes a file of it
//! that needs nothing but a browser.
//!
//! The names in JSON are short, because a run has thousands of events. Lanes, objects and events refer to each other by their positions in
//! the lists of the [`Timeline`].

mod page;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::Violation;
use crate::{Digest, Provenance, Seconds};

pub use page::page;

/// A run as a picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The name of the scenario from which the plan was drawn.
    pub scenario: String,
    /// The seed from which the plan was drawn.
    pub seed: u64,
    /// The digest of the run.
    pub digest: Digest,
    /// The command that runs it again.
    pub replay: String,
    /// The origin of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The end of the run.
    #[serde(rename = "simulated_s")]
    pub simulated: Seconds,
    /// The time of the heal, if that was before the end.
    #[serde(rename = "healed_s", skip_serializing_if = "Option::is_none")]
    pub healed: Option<Seconds>,
    /// The number of events of the run; the picture may have fewer.
    pub total: u64,
    /// The number of the first event of the picture.
    pub first: u64,
    /// Remarks for the reader, a sentence each.
    pub remarks: Vec<String>,
    /// The address, pod or object that is followed: events marked as followed touched it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<String>,
    /// The processes and the store, from left to right.
    pub lanes: Vec<Lane>,
    /// The events by time, numbered from [`Timeline::first`] on.
    pub events: Vec<Event>,
    /// The calls of clients, by their requests.
    pub calls: Vec<Call>,
    /// The faults, in the order of their beginnings.
    pub faults: Vec<FaultSpan>,
    /// The times in which processes were down or paused, in the order of their beginnings.
    pub outages: Vec<Outage>,
    /// The objects that were written.
    pub objects: Vec<ObjectHistory>,
    /// The violations, by time.
    pub violations: Vec<Violated>,
}

/// A column of the picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// The name of the process, or of the store.
    pub name: String,
    /// The role: a server, the store or an actor.
    pub role: Role,
}

/// The role of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// An actor: a client of the API, or the process that keeps the VMs.
    Actor,
    /// One of the API servers.
    Server,
    /// The store that the API servers share.
    Store,
}

/// Kind of an event, which determines its drawing and its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "they are those of the trace, by their names")]
pub enum Mark {
    Start,
    Crash,
    Pause,
    Resume,
    Panic,
    Request,
    Commit,
    Answer,
    Deliver,
    Begin,
    End,
    Fire,
    Note,
}

/// Ending of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// Success: the server did what it was asked for.
    Ok,
    /// An error that the server sent, or a connection that nobody accepted.
    Refused,
    /// No answer: it is unknown how the call ended.
    Lost,
}

/// An event. Its number is that of its position, counted from [`Timeline::first`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The time of the event, in microseconds since the beginning of the run.
    #[serde(rename = "t")]
    pub micros: u64,
    /// The kind of the event, which determines its drawing and its filter.
    #[serde(rename = "k")]
    pub mark: Mark,
    /// The lane of the event; unset for faults.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<u32>,
    /// The other end of its arrow.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
    /// A description in a line.
    #[serde(rename = "x")]
    pub text: String,
    /// Details that the line does not have.
    #[serde(rename = "d", default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The revision that a write took.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// The object of the event, if it was written in this run.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub object: Option<u32>,
    /// The ending of the call, for an answer.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// The causes of the event, with numbers of events that the picture has.
    #[serde(rename = "b", default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<Because>,
    /// Whether it touched what is followed.
    #[serde(rename = "f", default, skip_serializing_if = "std::ops::Not::not")]
    pub followed: bool,
}

/// A call, from its request to its answer. All three are numbers of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The lane of the client, a position in [`Timeline::lanes`].
    #[serde(rename = "l")]
    pub lane: u32,
    /// The event with which the client sent it.
    #[serde(rename = "q")]
    pub request: u64,
    /// The events in which its writes were committed; empty = there was none, or none is in the picture.
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<u64>,
    /// The event of its answer; unset = none came.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<u64>,
}

/// A fault from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSpan {
    /// Its position in the plan.
    pub index: u32,
    /// The kind of fault, as in `kind` of the plan.
    pub name: String,
    /// Its parameters, in a line.
    pub about: String,
    /// The lanes that it names; none = it is about all, or none in particular.
    pub lanes: Vec<u32>,
    /// The number of the event with which it began.
    pub from: u64,
    /// The number of the event with which it ended; unset = it lasts to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

/// A time in which a process did nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// The lane of the process, a position in [`Timeline::lanes`].
    pub lane: u32,
    /// Whether the process kept its memory.
    pub paused: bool,
    /// The number of the event with which it began.
    pub from: u64,
    /// The number of the event with which it ended; unset = it lasts to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

/// An object through the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectHistory {
    /// Kind of the object, as in `kind`: `Pod`.
    pub kind: String,
    /// The namespace, or an empty string.
    pub namespace: String,
    /// The name, as in `metadata.name` of the object.
    pub name: String,
    /// The states that it went through, by time.
    pub versions: Vec<ObjectVersion>,
}

impl ObjectHistory {
    /// Adds a state, kept as the difference from the previous one. `fields`: all fields that are shown, in order; `None` = the object is
    /// gone.
    pub fn push(&mut self, event: Option<u64>, revision: u64, known: &[(String, String)], fields: Option<&[(String, String)]>) {
        let gone = fields.is_none();
        let fields = fields.unwrap_or_default();
        let set = fields.iter().filter(|field| !known.contains(field)).cloned().collect();
        let is_left = |name: &String| fields.iter().any(|(left, _)| left == name);
        let del = known.iter().map(|(name, _)| name).filter(|name| !is_left(name)).cloned().collect();
        self.versions.push(ObjectVersion { event, revision, gone, set, del });
    }
}

/// A state of an object, as the difference from the previous one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectVersion {
    /// The number of the event that made it; unset = it was there before the first event.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// The revision of the store at which it began.
    #[serde(rename = "r")]
    pub revision: u64,
    /// Whether the object is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// Fields that are new or have a new value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<(String, String)>,
    /// Fields that are no longer present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub del: Vec<String>,
}

/// A violation, and the events between which it arose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violated {
    /// The violated claim, the time, and the details; in JSON beside `from` and `to`.
    #[serde(flatten)]
    pub violation: Violation,
    /// The number of the event with which the violation began, such as the read before the write that broke the claim.
    pub from: u64,
    /// The number of the event that broke the claim.
    pub to: u64,
}

/// A cause of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Because {
    /// The number of the event that is the cause, from 0.
    pub event: u64,
    /// Relation of the two, in words that the number completes: `answers`, `last read revision 7 in`.
    pub how: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_history_keeps_what_differs() {
        let mut history = ObjectHistory { kind: "Pod".into(), namespace: "a".into(), name: "b".into(), versions: vec![] };
        let (first, second) = (fields(&[("phase", "Pending"), ("node", "n1")]), fields(&[("phase", "Running")]));
        history.push(Some(3), 7, &[], Some(&first));
        history.push(Some(5), 8, &first, Some(&second));
        history.push(Some(6), 9, &second, None);
        assert_eq!(history.versions[0].set, first);
        assert_eq!((&history.versions[1].set, &history.versions[1].del), (&second, &vec!["node".to_owned()]));
        assert!(history.versions[2].gone);
        assert_eq!(history.versions[2].del, ["phase"]);
    }

    #[test]
    fn a_timeline_survives_its_json() {
        let event = Event {
            micros: 5,
            mark: Mark::Commit,
            lane: Some(1),
            peer: Some(2),
            text: "r7 </script>".into(),
            detail: String::new(),
            revision: Some(7),
            object: None,
            ending: None,
            because: vec![Because { event: 0, how: "asked for in".into() }],
            followed: true,
        };
        let timeline = Timeline { scenario: "s".into(), events: vec![event], ..Timeline::default() };
        let text = serde_json::to_string(&timeline).unwrap();
        assert_eq!(serde_json::from_str::<Timeline>(&text).unwrap(), timeline);
    }
}
