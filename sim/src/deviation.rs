//! Named deviations: what the system under test can be told to do differently, one switch each.
//!
//! A deviation shows that the claims find what they are there for, and lets upstream's behaviour be run as it is.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A deviation.
#[derive(Clone, Copy, Debug)]
pub struct Deviation {
    /// Its public name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// Whether upstream behaves like this.
    pub upstream: bool,
}

/// The counter's clients decide on what they read first and only refresh the version when they retry.
pub const COUNTER_DECIDES_ONCE: &str = "counter-decides-once";

/// Every deviation.
pub const ALL: &[Deviation] = &[Deviation {
    name: COUNTER_DECIDES_ONCE,
    about: "clients of the counter decide on their first read; a retry only refreshes the resourceVersion",
    upstream: false,
}];

/// The name of a deviation that exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct DeviationName(String);

impl DeviationName {
    /// The deviation called `name`, if there is one.
    pub fn new(name: &str) -> Option<Self> {
        ALL.iter().any(|deviation| deviation.name == name).then(|| Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DeviationName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|deviation| deviation.name).collect();
            serde::de::Error::custom(format!("there is no deviation `{name}`; there are {}", known.join(", ")))
        })
    }
}
