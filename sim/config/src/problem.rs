//! Problems of an input, a sentence for each, with its place.

use std::fmt;

/// A place in a text; both numbers count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line of the text, counted from 1.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

impl Position {
    /// The first character of a text.
    pub const START: Position = Position { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One problem of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file as the user named it.
    pub file: String,
    /// The place in the file; absent only if the file itself is the problem (it cannot be read).
    pub at: Option<Position>,
    /// The finding: a lower-case fragment.
    pub wrong: String,
    /// The correction: a lower-case fragment, empty if `wrong` says it all.
    pub right: String,
}

impl Problem {
    /// A problem at a place in a file.
    pub fn at(file: &str, at: Position, wrong: impl Into<String>, right: impl Into<String>) -> Self {
        Self { file: file.to_owned(), at: Some(at), wrong: wrong.into(), right: right.into() }
    }

    /// A problem with a file as a whole.
    pub fn of_file(file: &str, wrong: impl Into<String>, right: impl Into<String>) -> Self {
        Self { file: file.to_owned(), at: None, wrong: wrong.into(), right: right.into() }
    }
}

impl fmt::Display for Problem {
    /// `scenarios/x.toml:12:7: unknown key `duratoin`; did you mean `duration`?`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(at) = self.at {
            write!(f, ":{at}")?;
        }
        write!(f, ": {}", self.wrong)?;
        if !self.right.is_empty() {
            write!(f, "; {}", self.right)?;
        }
        Ok(())
    }
}

/// The problems of one or more inputs. The caller prints them and exits with code 2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
    more: bool,
}

impl Problems {
    /// The number of problems after which the search in a file ends: it is probably not of the kind that its reader expects.
    pub const MAX: usize = 50;

    /// No problems, so that [`Problems::or`] returns its value.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a problem; beyond [`Problems::MAX`] only the fact that there are more is kept.
    pub fn push(&mut self, problem: Problem) {
        if self.list.len() < Self::MAX { self.list.push(problem) } else { self.more = true }
    }

    /// Adds the problems of another input, all of them.
    pub fn append(&mut self, other: Problems) {
        self.list.extend(other.list);
        self.more |= other.more;
    }

    /// Adds those problems of the same input that are not known yet: several readings of it may find the same ones.
    pub fn merge(&mut self, other: &Problems) {
        for problem in other {
            if !self.list.contains(problem) {
                self.push(problem.clone());
            }
        }
        self.more |= other.more;
    }

    /// True when no problem was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// True when there are more problems than are kept.
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// True when no further problem would be kept.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= Self::MAX
    }

    /// The problems in the order of files and lines.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.list.iter()
    }

    /// Adds the problems of `result` to these, or returns its value.
    pub fn collect<T>(&mut self, result: Result<T, Problems>) -> Option<T> {
        result.map_err(|problems| self.append(problems)).ok()
    }

    /// Returns `value` if there is no problem.
    pub fn or<T>(self, value: T) -> Result<T, Problems> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Puts the problems of one file in the order of its lines.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|problem| problem.at);
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self { list: vec![problem], more: false }
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    /// One line for each problem, and a last one if there are more than are kept.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.list.iter().enumerate() {
            write!(f, "{}{problem}", if i == 0 { "" } else { "\n" })?;
        }
        if self.more {
            f.write_str("\n(there are more; these are the first)")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
