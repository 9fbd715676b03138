//! The history of one run, as data for other programs: operations, requests, faults and outages as spans, every event, and the verdict of
//! each claim.
//!
//! Spans refer to events by their numbers, which are those of the trace. [`perfetto`](crate::perfetto) and [`jepsen`](crate::jepsen) write
//! the same in the formats of other tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Seconds;
use crate::finding::Kind;
use crate::timeline::{Ending, Mark};

/// A run as data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The names of the processes, by their numbers.
    pub processes: Vec<String>,
    /// The operations that actors were asked to do, from beginning to end, in the order of their beginnings.
    pub operations: Vec<Operation>,
    /// The requests to API servers, by the moment at which they were sent.
    pub requests: Vec<Request>,
    /// The times in which faults were active, in the order of their beginnings.
    pub faults: Vec<Fault>,
    /// The times in which processes were down or paused, in the order of their beginnings.
    pub outages: Vec<Outage>,
    /// Every event, in order.
    pub events: Vec<Event>,
    /// The result of each claim of the plan.
    pub claims: Vec<ClaimVerdict>,
}

/// An operation of an actor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// The process that does it, by number.
    pub process: u32,
    /// The name of the operation: `allocate`, `release`, `increment`.
    pub f: String,
    /// The input of the operation.
    pub input: Value,
    /// The beginning, in seconds of model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The event with which it began.
    pub event: u64,
    /// The end; null = it did not end before the run was over.
    #[serde(rename = "ended_s")]
    #[schemars(with = "Option<f64>")]
    pub ended: Option<Seconds>,
    /// The event with which it ended.
    pub ended_event: Option<u64>,
    /// The outcome: certain, or not.
    pub outcome: OperationOutcome,
    /// The output: the addresses, the number.
    pub output: Value,
    /// The reason why there is no output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The outcome of an operation, in the words of Jepsen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperationOutcome {
    /// It took place, and gave its output.
    Ok,
    /// It did not take place, and never will.
    Fail,
    /// It is unknown whether it took place, or will: its process crashed, an answer was lost, the run ended.
    Info,
}

/// A request to an API server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// The process that sent it, by number.
    pub client: u32,
    /// The process that it was sent to, by number.
    pub server: u32,
    /// The verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    /// The resource: the plural of the type.
    pub resource: String,
    /// `NAMESPACE/NAME` or `NAME`; null for lists and watches.
    pub object: Option<String>,
    /// The time at which it was sent.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The event with which it was sent.
    pub event: u64,
    /// The commits of the request: none for a read or a refused write, several for one that was applied twice.
    pub commits: Vec<Commit>,
    /// The time at which its sender learned the ending; null = never.
    #[serde(rename = "answered_s")]
    #[schemars(with = "Option<f64>")]
    pub answered: Option<Seconds>,
    /// The event with which its sender learned it.
    pub answer_event: Option<u64>,
    /// The ending; null = its sender never learned it.
    pub ending: Option<Ending>,
    /// The ending in words: `ok`, `409 Conflict`, `timeout`.
    pub status: Option<String>,
    /// The faults that hit it, by their positions in the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hit_by: Vec<u32>,
}

/// A write that took a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Commit {
    /// The time at which the write was applied, in seconds of model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The number of the event of the commit.
    pub event: u64,
    /// The resourceVersion that it gave the object.
    pub revision: u64,
}

/// A time in which a fault was active.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// Its position in the plan.
    pub index: u32,
    /// Its kind, as in scenarios: `partition`, `crash`.
    pub kind: String,
    /// The fault in words: kind, targets, time.
    pub about: String,
    /// The time at which it took hold, in seconds of model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The event with which it began.
    pub event: u64,
    /// The end; null = it lasted to the end of the run.
    #[serde(rename = "ended_s")]
    #[schemars(with = "Option<f64>")]
    pub ended: Option<Seconds>,
    /// The event with which it ended.
    pub ended_event: Option<u64>,
    /// The number of times that it took hold of something meanwhile.
    pub fired: u64,
}

/// A time in which a process did nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outage {
    /// The process, by number.
    pub process: u32,
    /// Whether it kept its memory: it was paused, not crashed.
    pub paused: bool,
    /// The time at which the process stopped, in seconds of model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The event with which it began.
    pub event: u64,
    /// The end; null = it lasted to the end of the run.
    #[serde(rename = "ended_s")]
    #[schemars(with = "Option<f64>")]
    pub ended: Option<Seconds>,
}

/// An event of the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number, from 0.
    pub event: u64,
    /// The time of the event, in seconds of model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The kind of event.
    pub kind: Mark,
    /// The process in which it happened, by number; null for faults.
    pub process: Option<u32>,
    /// The event in words, as `replay --trace` prints it.
    pub what: String,
    /// The request that it is a part of, by its position in `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<usize>,
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimVerdict {
    /// Its name, as in `list claims`.
    pub claim: String,
    /// The kind of claim: about every step, the end, or the whole sweep.
    pub kind: Kind,
    /// The result of the claim.
    pub verdict: ClaimEnding,
    /// The time of its first violation.
    #[serde(rename = "at_s", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub at: Option<Seconds>,
}

/// The possible results of a claim in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimEnding {
    /// It was true; a `sometimes` or `reachable` claim was seen.
    Held,
    /// It was false without an excuse.
    Violated,
    /// It was false, and each time for a documented reason.
    Excused,
    /// Nothing happened that could have made it false, or the run ended before it had to be true.
    NotJudged,
    /// A `sometimes` or `reachable` claim was not seen in this run.
    NotSeen,
}
