//! What is wrong in an input, with its place.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;

/// What is wrong in a file of cases, recorded answers or allowed differences: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{place}: {wrong}")]
pub struct Problem {
    /// The file as the user named it.
    pub file: String,
    /// Where in the file: line and column, or case and step; empty where the file as a whole is wrong.
    pub place: String,
    /// What was found and what would be right: a lower-case fragment.
    pub wrong: String,
}

impl Problem {
    /// The file as a whole.
    pub(crate) fn file(file: &Path, wrong: impl fmt::Display) -> Self {
        Self { file: file.display().to_string(), place: String::new(), wrong: wrong.to_string() }
    }

    /// A line of the file, counted from 1.
    pub(crate) fn line(file: &Path, line: usize, wrong: impl fmt::Display) -> Self {
        Self { place: format!(":{line}"), ..Self::file(file, wrong) }
    }

    /// The place at which a document stops being what it should be; the document begins at line `first`.
    pub(crate) fn document(file: &Path, first: usize, error: &serde_json::Error) -> Self {
        let (line, column) = (first + error.line().max(1) - 1, error.column().max(1));
        Self { place: format!(":{line}:{column}"), ..Self::file(file, words(error)) }
    }

    /// A case, by its id or as the n-th.
    pub(crate) fn case(file: &Path, case: impl fmt::Display, wrong: impl fmt::Display) -> Self {
        Self { place: format!(": case {case}"), ..Self::file(file, wrong) }
    }

    /// A step of a case, counted from 1.
    pub(crate) fn step(file: &Path, case: &str, step: usize, wrong: impl fmt::Display) -> Self {
        Self::case(file, format!("{case}, step {step}"), wrong)
    }
}

/// What the decoder says, without its place.
pub(crate) fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(words, _)| words.to_owned())
}

/// A file that is one document.
pub(crate) fn document<T: DeserializeOwned>(file: &Path) -> Result<T, Problem> {
    let text = fs::read(file).map_err(|error| Problem::file(file, format!("cannot be read: {error}")))?;
    serde_json::from_slice(&text).map_err(|error| Problem::document(file, 1, &error))
}
