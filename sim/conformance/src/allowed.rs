//! Known differences between two recordings.

use std::path::Path;

use crate::glob::Glob;
use crate::place::Place;
use crate::problem::Problem;

/// Known differences, in the order of their file.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// The allowances, one for each line.
    pub lines: Vec<Allowance>,
}

/// Differences of some cases at some places, with their reason: a line `CASE STEP:PATH  # reason`.
#[derive(Clone, Debug)]
pub struct Allowance {
    /// The line of its file, from 1.
    pub line: usize,
    /// The cases, with the wildcards of a shell.
    pub case: String,
    /// The places in their records.
    pub place: Place,
    /// The reason of the difference.
    pub reason: String,
    cases: Glob,
}

impl Allowed {
    /// Reads the lines of a file; `file` names it in errors. Empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    ///
    /// Fails at a line without case, place or reason, and at a duplicate line.
    pub fn read(file: &Path, text: &str) -> Result<Self, Problem> {
        let mut lines: Vec<Allowance> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let allowance = Allowance::read(index + 1, line).map_err(|wrong| Problem::line(file, index + 1, wrong))?;
            if let Some(twin) = lines.iter().find(|other| (&other.case, &other.place) == (&allowance.case, &allowance.place)) {
                return Err(Problem::line(file, index + 1, format!("line {} allows the same", twin.line)));
            }
            lines.push(allowance);
        }
        Ok(Self { lines })
    }
}

impl Allowance {
    fn read(number: usize, line: &str) -> Result<Self, String> {
        let expected = "expected CASE STEP:PATH  # reason, e.g. K060-existing 2:body.message  # another text";
        let (rule, reason) = line.split_once(" #").map(|(rule, reason)| (rule.trim(), reason.trim())).unwrap_or((line.trim(), ""));
        if reason.is_empty() {
            return Err(format!("the reason is missing; {expected}"));
        }
        let (case, place) = rule.split_once(' ').ok_or_else(|| format!("the place is missing; {expected}"))?;
        let place = Place::read(place.trim())?;
        Ok(Self { line: number, case: case.to_owned(), place, reason: reason.to_owned(), cases: Glob::new(case) })
    }

    /// Whether it applies to a case.
    pub fn is_about(&self, case: &str) -> bool {
        self.cases.matches(case)
    }

    /// Whether it allows a difference at a path of a step.
    pub fn covers(&self, case: &str, step: usize, path: &str) -> bool {
        self.is_about(case) && self.place.covers(step, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Allowed, String> {
        Allowed::read(Path::new("allow.txt"), text).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_line_has_case_place_and_reason() {
        let allowed = read("# known\n\nK078-* 2:body.metadata.*   # not modelled # yet\nlist-table *:*  # no tables\n").unwrap();
        let told = allowed.lines.iter().map(|line| (line.line, line.case.as_str(), line.place.text.as_str(), line.reason.as_str()));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [(3, "K078-*", "2:body.metadata.*", "not modelled # yet"), (4, "list-table", "*:*", "no tables")]
        );
        assert!(allowed.lines[0].covers("K078-a", 2, "body.metadata.uid") && !allowed.lines[0].covers("K078-a", 1, "body.metadata.uid"));
        assert!(allowed.lines[1].covers("list-table", 9, "") && !allowed.lines[1].covers("list-tables", 9, ""));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, error) in [
            ("a 1:body", "allow.txt:1: the reason is missing; expected CASE STEP:PATH"),
            ("\na  # why", "allow.txt:2: the place is missing; expected CASE STEP:PATH"),
            ("a body  # why", "allow.txt:1: `body` is no place; expected STEP:PATH"),
            ("a 1:body  # why\na 1:body  # else", "allow.txt:2: line 1 allows the same"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
