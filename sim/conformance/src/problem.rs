//! Problems of an input, with their places.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;

/// A problem of a file of cases, recorded answers or allowed differences: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{place}: {wrong}")]
pub struct Problem {
    /// The file as the user named it.
    pub file: String,
    /// The place in the file: line and column, or case and step; empty for the file as a whole.
    pub place: String,
    /// The finding and the correction: a lower-case fragment.
    pub wrong: String,
}

impl Problem {
    /// A problem of the file as a whole.
    pub(crate) fn file(file: &Path, wrong: impl fmt::Display) -> Self {
        Self { file: file.display().to_string(), place: String::new(), wrong: wrong.to_string() }
    }

    /// A problem of a line of the file, counted from 1.
    pub(crate) fn line(file: &Path, line: usize, wrong: impl fmt::Display) -> Self {
        Self { place: format!(":{line}"), ..Self::file(file, wrong) }
    }

    /// A problem of a document, at the place where it becomes invalid; the document begins at line `first`.
    pub(crate) fn document(file: &Path, first: usize, error: &serde_json::Error) -> Self {
        let (line, column) = (first + error.line().max(1) - 1, error.column().max(1));
        Self { place: format!(":{line}:{column}"), ..Self::file(file, words(error)) }
    }

    /// A problem of a case, by its id or number.
    pub(crate) fn case(file: &Path, case: impl fmt::Display, wrong: impl fmt::Display) -> Self {
        Self { place: format!(": case {case}"), ..Self::file(file, wrong) }
    }

    /// A problem of a step of a case, counted from 1.
    pub(crate) fn step(file: &Path, case: &str, step: usize, wrong: impl fmt::Display) -> Self {
        Self::case(file, format!("{case}, step {step}"), wrong)
    }
}

/// The message of the decoder, without its place.
pub(crate) fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(words, _)| words.to_owned())
}

/// Reads a file that is one document.
pub(crate) fn document<T: DeserializeOwned>(file: &Path) -> Result<T, Problem> {
    let text = fs::read(file).map_err(|error| Problem::file(file, format!("cannot be read: {error}")))?;
    serde_json::from_slice(&text).map_err(|error| Problem::document(file, 1, &error))
}
