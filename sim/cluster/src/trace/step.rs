//! Steps of actors' operations, for histories that external checkers read.

use serde_json::Value;

/// The beginning or end of an actor's operation. It is reported outside the digest, and changes nothing in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The kind of operation: `allocate`, `release`, `increment`.
    pub f: &'static str,
    /// Distinguishes it from others that its process does at the same time: its end has the same key as its beginning.
    pub key: String,
    /// The beginning of the operation, or its outcome.
    pub phase: Phase,
}

/// The beginning of an operation, or its end in the words of Jepsen.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// It begins. An operation without a reported beginning begins with the first request of its process since that one's last operation.
    Invoke(Value),
    /// It took place, with this result.
    Ok(Value),
    /// It did not take place, and never will, for this reason.
    Fail(String),
    /// It is unknown whether it took place, for this reason.
    Info(String),
}

impl Step {
    /// The beginning of an operation with this input.
    pub fn invoke(f: &'static str, key: impl Into<String>, input: impl Into<Value>) -> Self {
        Self { f, key: key.into(), phase: Phase::Invoke(input.into()) }
    }

    /// The end of an operation that took place.
    pub fn ok(f: &'static str, key: impl Into<String>, output: impl Into<Value>) -> Self {
        Self { f, key: key.into(), phase: Phase::Ok(output.into()) }
    }

    /// The end of an operation that failed: it is `certain` that it did not take place, or unknown.
    pub fn failed(f: &'static str, key: impl Into<String>, certain: bool, why: impl Into<String>) -> Self {
        Self { f, key: key.into(), phase: if certain { Phase::Fail(why.into()) } else { Phase::Info(why.into()) } }
    }
}
