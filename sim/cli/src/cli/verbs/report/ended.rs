//! How a search comes to an end before it has its answer.

use crate::cli::CliError;

/// Why a search ends early.
pub(super) enum Ended {
    /// Somebody stopped it: what it has so far is told.
    Stopped,
    /// A run or a table went wrong, and so does the report.
    Failed(CliError),
}

impl From<CliError> for Ended {
    fn from(error: CliError) -> Self {
        Ended::Failed(error)
    }
}
