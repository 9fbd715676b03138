//! The ways in which a search ends before it has its answer.

use crate::cli::CliError;

/// The reason why a search ends early.
pub(super) enum Ended {
    /// The user stopped it: the results so far are reported.
    Stopped,
    /// A run or a table failed, and so does the report.
    Failed(CliError),
}

impl From<CliError> for Ended {
    fn from(error: CliError) -> Self {
        Ended::Failed(error)
    }
}
