//! How a report was made.

use serde::{Deserialize, Serialize};

/// How a report was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The question that is answered.
    pub question: String,
    /// The command line that asks for the same, beginning with `ipam-sim`.
    pub command: String,
    /// The build that simulated.
    pub build: String,
    /// Identifies everything but the seeds that went into the runs.
    pub config: String,
    /// The file that was drawn again; unset = it was simulated.
    pub from: Option<String>,
    /// What the answer rests on, as it ends a sentence: how pods come, and the size of the servers; empty = that is said elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub assumed: String,
}
