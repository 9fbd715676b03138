//! Kinds of claims: those that hold at every step, those that come true in time, and those that come true once.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// True at every step.
    Always,
    /// True within its bound after the faults healed.
    Eventually,
    /// True at least once in the sweep.
    Sometimes,
    /// A point passed at least once in the sweep.
    Reachable,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Always => "always",
            Kind::Eventually => "eventually",
            Kind::Sometimes => "sometimes",
            Kind::Reachable => "reachable",
        })
    }
}
