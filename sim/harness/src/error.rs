//! Reasons why the harness has no result.

use std::io;

use sim_config::Problems;

/// The reason why the harness has no result. A violated claim is a result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request names something that does not exist, or its parts do not fit together.
    #[error("{message}")]
    Usage {
        /// The problem: a lower-case fragment with the value that was found.
        message: String,
        /// The remedy, as advice.
        hint: Option<String>,
    },
    /// Scenarios, plans or manifests are wrong: all problems, a line each, with their places.
    #[error(transparent)]
    BadInput(#[from] Problems),
    /// The harness itself failed.
    #[error(transparent)]
    Harness(#[from] HarnessBug),
    /// The operating system refused to read or to write.
    #[error("cannot {action}: {source}")]
    Io {
        /// The action that was tried: `write plan.toml`.
        action: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Error {
    /// The request names something that does not exist, or its parts do not fit together.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: None }
    }

    /// Adds a remedy to an error of usage.
    #[must_use]
    pub fn hint(self, step: impl Into<String>) -> Self {
        match self {
            Self::Usage { message, .. } => Self::Usage { message, hint: Some(step.into()) },
            other => other,
        }
    }

    /// The error of the operating system at `action`, such as `write plan.toml`.
    pub fn io(action: impl Into<String>, source: io::Error) -> Self {
        Self::Io { action: action.into(), source }
    }
}

/// The harness itself failed: a panic outside the system under test, or a run that is not the same when it is run again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HarnessBug(pub String);

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn a_next_step_is_for_who_asked_for_something_wrong() {
        let hint = |error: Error| match error.hint("ask for y") {
            Error::Usage { hint, .. } => hint,
            _ => None,
        };
        assert_eq!(hint(Error::usage("there is no claim `x`")).as_deref(), Some("ask for y"));
        assert_eq!(hint(Error::io("write a.toml", io::Error::from(io::ErrorKind::StorageFull))), None);
    }

    #[test]
    fn what_the_operating_system_said_is_kept_as_the_source() {
        let error = Error::io("write a.toml", io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(error.to_string(), format!("cannot write a.toml: {}", error.source().unwrap()));
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
        assert_eq!(source, Some(io::ErrorKind::StorageFull));
        assert!(Error::usage("there is no claim `x`").source().is_none());
    }
}
