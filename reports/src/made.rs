//! The record of how a report was made.

use serde::{Deserialize, Serialize};

/// The record of how a report was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The question that the report answers.
    pub question: String,
    /// The command line that makes the same report, beginning with `ipam-sim`.
    pub command: String,
    /// The build of the program that simulated.
    pub build: String,
    /// A hash of everything but the seeds that went into the runs.
    pub config: String,
    /// The file from which the report was drawn again; unset = it was simulated.
    pub from: Option<String>,
    /// The assumptions of the answer, as the end of a sentence: the arrival of pods, and the size of the servers; empty = they are stated
    /// elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub assumed: String,
}
