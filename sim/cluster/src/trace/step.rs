//! What actors say of their operations, for histories that outside checkers read.

use serde_json::Value;

/// That an operation of an actor begins or ends. It is told beside the digest, and changes nothing in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What the operation is: `allocate`, `release`, `increment`.
    pub f: &'static str,
    /// Tells it from others that its process does at the same time: what ends it has the same as what began it.
    pub key: String,
    /// Whether it begins or how it ends.
    pub phase: Phase,
}

/// The beginning of an operation, or its end in the words of Jepsen.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// It begins. An operation whose beginning nobody tells begins with the first request of its process since that one's last operation.
    Invoke(Value),
    /// It took place, and gave this.
    Ok(Value),
    /// It did not take place, and never will, for this reason.
    Fail(String),
    /// Nobody knows whether it took place, for this reason.
    Info(String),
}

impl Step {
    /// An operation begins, asked with this input.
    pub fn invoke(f: &'static str, key: impl Into<String>, input: impl Into<Value>) -> Self {
        Self { f, key: key.into(), phase: Phase::Invoke(input.into()) }
    }

    /// An operation took place.
    pub fn ok(f: &'static str, key: impl Into<String>, output: impl Into<Value>) -> Self {
        Self { f, key: key.into(), phase: Phase::Ok(output.into()) }
    }

    /// An operation came to nothing: it is `certain` that it did not take place, or nobody knows.
    pub fn failed(f: &'static str, key: impl Into<String>, certain: bool, why: impl Into<String>) -> Self {
        Self { f, key: key.into(), phase: if certain { Phase::Fail(why.into()) } else { Phase::Info(why.into()) } }
    }
}
