//! A number that a metric gave for a run.

use serde::{Deserialize, Serialize};

/// Who counts: the system or the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A metric of the system.
    System,
    /// The harness, for runs of any system: a column of `runs.csv`.
    Run,
}

impl Source {
    /// Both, in the order in which they are told.
    pub const ALL: [Source; 2] = [Source::System, Source::Run];

    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Source::System => "system",
            Source::Run => "run",
        }
    }
}

/// A number that a metric gave for a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The point: the scenario, and what is varied in it.
    pub scenario: String,
    /// The settings that are varied, as `KEY=VALUE`; empty = the scenario as its file says.
    pub varied: String,
    /// The seed that the plan of the run was drawn from.
    pub seed: u64,
    /// Who counts: the system or the harness.
    pub source: Source,
    /// What the metric is called. A name that ends in `_s` is that of a time in seconds.
    pub metric: String,
    /// The number; it is finite.
    pub value: f64,
}
