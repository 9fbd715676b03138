//! What happened in one run, as data for other programs: operations, requests, faults and outages as spans, every event, and the verdict of
//! each claim.
//!
//! Spans refer to events by their numbers, which are those of the trace. [`perfetto`](crate::perfetto) and [`jepsen`](crate::jepsen) say
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
    /// What actors were asked to do, from beginning to end; by their beginnings.
    pub operations: Vec<Operation>,
    /// The requests to API servers, by the moment at which they were sent.
    pub requests: Vec<Request>,
    /// The times in which faults held on, by their beginnings.
    pub faults: Vec<Fault>,
    /// The times in which processes were down or stood still, by their beginnings.
    pub outages: Vec<Outage>,
    /// Every event, in order.
    pub events: Vec<Event>,
    /// What became of each claim of the plan.
    pub claims: Vec<ClaimVerdict>,
}

/// An operation of an actor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// The process that does it, by number.
    pub process: u32,
    /// What it is: `allocate`, `release`, `increment`.
    pub f: String,
    /// What it was asked with.
    pub input: Value,
    /// When it began, in seconds of model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The event with which it began.
    pub event: u64,
    /// When it ended; null = it did not before the run was over.
    #[serde(rename = "ended_s")]
    #[schemars(with = "Option<f64>")]
    pub ended: Option<Seconds>,
    /// The event with which it ended.
    pub ended_event: Option<u64>,
    /// How it ended: for certain, or not.
    pub outcome: OperationOutcome,
    /// What it gave: the addresses, the number.
    pub output: Value,
    /// Why it gave nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How an operation ended, in the words of Jepsen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperationOutcome {
    /// It took place, and gave its output.
    Ok,
    /// It did not take place, and never will.
    Fail,
    /// Nobody knows whether it took place, or will: its process crashed, an answer was lost, the run ended.
    Info,
}

/// A request to an API server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// Who sent it, by number.
    pub client: u32,
    /// To whom, by number.
    pub server: u32,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    /// The plural of the type.
    pub resource: String,
    /// `NAMESPACE/NAME` or `NAME`; null for lists and watches.
    pub object: Option<String>,
    /// When it was sent.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The event with which it was sent.
    pub event: u64,
    /// What it committed: none of a read or a refused write, several of one that was applied twice.
    pub commits: Vec<Commit>,
    /// When its sender learned how it ended; null = never.
    #[serde(rename = "answered_s")]
    #[schemars(with = "Option<f64>")]
    pub answered: Option<Seconds>,
    /// The event with which it did.
    pub answer_event: Option<u64>,
    /// How it ended; null = nobody learned it.
    pub ending: Option<Ending>,
    /// The same in words: `ok`, `409 Conflict`, `timeout`.
    pub status: Option<String>,
    /// The faults that hit it, by their positions in the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hit_by: Vec<u32>,
}

/// A write that took a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Commit {
    /// When the write was applied, in seconds of model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The number of the event of the commit.
    pub event: u64,
    /// The resourceVersion that it gave the object.
    pub revision: u64,
}

/// A time in which a fault held on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// Its position in the plan.
    pub index: u32,
    /// Its kind, as in scenarios: `partition`, `crash`.
    pub kind: String,
    /// The fault in words: kind, targets, time.
    pub about: String,
    /// When it took hold, in seconds of model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The event with which it began.
    pub event: u64,
    /// When it ended; null = it lasted to the end of the run.
    #[serde(rename = "ended_s")]
    #[schemars(with = "Option<f64>")]
    pub ended: Option<Seconds>,
    /// The event with which it ended.
    pub ended_event: Option<u64>,
    /// How often it took hold of something meanwhile.
    pub fired: u64,
}

/// A time in which a process did nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outage {
    /// The process, by number.
    pub process: u32,
    /// Whether it kept its memory: it was paused, not crashed.
    pub paused: bool,
    /// When the process stopped, in seconds of model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The event with which it began.
    pub event: u64,
    /// When it ended; null = it lasted to the end of the run.
    #[serde(rename = "ended_s")]
    #[schemars(with = "Option<f64>")]
    pub ended: Option<Seconds>,
}

/// An event of the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number, from 0.
    pub event: u64,
    /// When it happened, in seconds of model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// What kind of event it is.
    pub kind: Mark,
    /// The process in which it happened, by number; null for faults.
    pub process: Option<u32>,
    /// What happened, as `replay --trace` says it.
    pub what: String,
    /// The request that it is a part of, by its position in `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<usize>,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimVerdict {
    /// Its name, as `list claims` has it.
    pub claim: String,
    /// Whether it is about every step, the end, or the whole sweep.
    pub kind: Kind,
    /// What became of it.
    pub verdict: ClaimEnding,
    /// When it was violated first.
    #[serde(rename = "at_s", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub at: Option<Seconds>,
}

/// What can become of a claim in one run.
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
