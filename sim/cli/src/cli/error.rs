//! The error of a verb that has no result, and the exit code of the process.

use ipam_reports::{exit, printable};
use sim_config::Problems;
use sim_harness::engine::{Error, HarnessBug};

/// The reason why a verb has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CliError {
    /// The exit code of the process; see [`exit`].
    pub exit_code: u8,
    /// The error, as a lower-case fragment with the wrong value. May have several lines.
    pub message: String,
    /// A next step that may solve the problem.
    pub hint: Option<String>,
}

impl CliError {
    /// An error of wrong usage or bad input (2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit_code: exit::USAGE, message: message.into(), hint: None }
    }

    /// An error for a bug of the harness (70).
    pub fn harness(message: impl Into<String>) -> Self {
        Self { exit_code: exit::HARNESS, message: message.into(), hint: None }
    }

    /// Adds a next step.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<Error> for CliError {
    fn from(error: Error) -> Self {
        match error {
            Error::Usage { message, hint } => Self { hint, ..Self::usage(message) },
            Error::BadInput(problems) => problems.into(),
            Error::Harness(bug) => bug.into(),
            error @ Error::Io { .. } => Self::usage(error.to_string()),
        }
    }
}

impl From<Problems> for CliError {
    /// An error of bad input that lists every problem, one per line.
    fn from(problems: Problems) -> Self {
        let more = problems.has_more().then_some("(there are more; these are the first)".into());
        let lines = problems.iter().map(|problem| printable::text(&problem.to_string()).into_owned()).chain(more);
        Self::usage(lines.collect::<Vec<String>>().join("\n"))
    }
}

impl From<HarnessBug> for CliError {
    fn from(HarnessBug(message): HarnessBug) -> Self {
        Self::harness(message)
    }
}
