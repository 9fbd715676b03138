//! A value that a metric has in a run.

use serde::{Deserialize, Serialize};

/// The source of a value: the system or the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A metric of the system.
    System,
    /// The harness, for runs of any system: a column of `runs.csv`.
    Run,
}

impl Source {
    /// Both sources, in the order of reports.
    pub const ALL: [Source; 2] = [Source::System, Source::Run];

    /// The name of the source in tables.
    pub fn name(self) -> &'static str {
        match self {
            Source::System => "system",
            Source::Run => "run",
        }
    }
}

/// A value that a metric has in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The point: the scenario, and what is varied in it.
    pub scenario: String,
    /// The settings that are varied, as `KEY=VALUE`; empty = the scenario is unchanged.
    pub varied: String,
    /// The seed from which the plan of the run was drawn.
    pub seed: u64,
    /// The source of the value: the system or the harness.
    pub source: Source,
    /// The name of the metric. A name that ends in `_s` is that of a time in seconds.
    pub metric: String,
    /// The number; it is finite.
    pub value: f64,
}
