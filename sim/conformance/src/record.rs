//! Recordings: the answers of a server, one JSON object a line.

use std::collections::BTreeMap;
use std::path::Path;

use crate::json::{Json, Map};
use crate::problem::Problem;

/// The answers of a server to one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The id of the case.
    pub id: String,
    /// The theme of the case.
    pub theme: String,
    /// The outcome of the case.
    pub outcome: Outcome,
    /// Requests that were refused although later steps use their answers.
    pub suspect: Vec<String>,
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The records of the steps.
    Steps(Vec<Json>),
    /// The case was left out, with the reason.
    Skipped(String),
    /// The case broke off, with the reason.
    Failed(String),
}

impl Record {
    /// The record as a line of a recording, without its end.
    pub fn line(&self) -> String {
        let mut members = Map::from([("id".to_owned(), self.id.as_str().into()), ("theme".to_owned(), self.theme.as_str().into())]);
        let (name, value) = match &self.outcome {
            Outcome::Steps(steps) => ("steps", Json::Array(steps.clone())),
            Outcome::Skipped(why) => ("skipped", why.as_str().into()),
            Outcome::Failed(why) => ("failed", why.as_str().into()),
        };
        members.insert(name.to_owned(), value);
        if !self.suspect.is_empty() {
            let suspect = self.suspect.iter().map(|text| text.as_str().into()).collect();
            members.insert("suspect".to_owned(), Json::Array(suspect));
        }
        Json::Object(members).line()
    }

    fn of(value: &Json) -> Result<Self, String> {
        let text = |name: &str| value.get(name).and_then(Json::as_str).map(str::to_owned);
        let (id, theme) = (text("id").ok_or("a record has to have a text `id`")?, text("theme").unwrap_or_default());
        let steps = value.get("steps").and_then(Json::as_array).map(|steps| Outcome::Steps(steps.to_vec()));
        let outcome = steps.or_else(|| text("skipped").map(Outcome::Skipped)).or_else(|| text("failed").map(Outcome::Failed));
        let outcome = outcome.ok_or_else(|| format!("the record of {id} has neither a list `steps` nor a text `skipped` or `failed`"))?;
        let suspect = value.get("suspect").and_then(Json::as_array).unwrap_or_default();
        let suspect = suspect.iter().filter_map(Json::as_str).map(str::to_owned).collect();
        Ok(Self { id, theme, outcome, suspect })
    }
}

/// Records by the id of their case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    records: BTreeMap<String, Record>,
}

impl Recording {
    /// Reads the lines of a file; `file` names it in errors.
    ///
    /// # Errors
    ///
    /// Fails at a line that is not a record, and at a second record of a case.
    pub fn read(file: &Path, text: &str) -> Result<Self, Problem> {
        let mut records = BTreeMap::new();
        // Only `\n` ends a line: texts contain other separators of Unicode.
        for (index, line) in text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let value = Json::read(line.as_bytes()).map_err(|error| Problem::document(file, index + 1, &error))?;
            let record = Record::of(&value).map_err(|wrong| Problem::line(file, index + 1, wrong))?;
            let id = record.id.clone();
            if records.insert(id.clone(), record).is_some() {
                return Err(Problem::line(file, index + 1, format!("a line before has a record of {id}, too")));
            }
        }
        Ok(Self { records })
    }

    /// The record of a case.
    pub fn get(&self, id: &str) -> Option<&Record> {
        self.records.get(id)
    }
}

impl FromIterator<Record> for Recording {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        Self { records: records.into_iter().map(|record| (record.id.clone(), record)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Recording, String> {
        Recording::read(Path::new("r.jsonl"), text).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for line in [
            "{\"id\": \"a\", \"steps\": [{\"status\": 200, \"text\": \"x\u{2028}\u{85}y\"}], \"theme\": \"t\"}",
            r#"{"id": "a", "skipped": "needs auth", "theme": "t"}"#,
            r#"{"failed": "why", "id": "a", "suspect": ["step 1: 409"], "theme": "t"}"#,
        ] {
            assert_eq!(read(&format!("{line}\n\n")).unwrap().get("a").unwrap().line(), line);
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, error) in [
            ("\n{\"id\": 3}", "r.jsonl:2: a record has to have a text `id`"),
            ("{\"id\": \"a\"}", "r.jsonl:1: the record of a has neither a list `steps` nor a text `skipped` or `failed`"),
            ("{\"id\": \"a\", \"failed\": \"x\"}\n{\"id\": \"a\", \"failed\": \"x\"}", "r.jsonl:2: a line before has a record of a, too"),
        ] {
            assert_eq!(read(text).unwrap_err(), error);
        }
        assert!(read("\n\n{,}").unwrap_err().starts_with("r.jsonl:3:2: "));
    }
}
