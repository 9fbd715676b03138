//! Explanations of a system's decisions without a run, for the verb `explain`.

use std::fmt;
use std::sync::Arc;

use clap::{ArgMatches, Command};
use ipam_reports::printable;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};

use crate::error::Error;
use crate::text::Paint;

/// Explains what a system would do in a cluster that manifests describe.
pub trait Explainer: Sync {
    /// Adds the arguments of the question to the command line: manifests, object, settings of the system. Examples for the help come after
    /// them ([`Command::after_help`]); the program is called `ipam-sim` there. `explain` adds its own arguments: `--format` and `--color`.
    fn args(&self, command: Command) -> Command;

    /// Reads the input that the command line names, and answers. `args` has the arguments that [`Explainer::args`] added.
    ///
    /// # Errors
    /// Fails if the question is wrong. A refusal by the system is an answer, not an error.
    fn explain(&self, args: &ArgMatches) -> Result<Explanation, Error>;
}

/// An answer: a record for programs, and its text for people.
#[derive(Clone)]
pub struct Explanation {
    answer: Arc<dyn Answer>,
    warnings: Vec<String>,
}

impl Explanation {
    /// The answer in `record`, with its text by `text`. Names in a record may come from anywhere: `text` gets a record in which all
    /// characters are printable. `warnings` are sentences about the input, for standard error.
    pub fn new<T>(record: T, text: fn(&T, Paint) -> String, warnings: Vec<String>) -> Self
    where
        T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        Self { answer: Arc::new(Told { record, text }), warnings }
    }

    /// Remarks on the input, a sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The answer for people.
    pub fn text(&self, paint: Paint) -> String {
        self.answer.text(paint)
    }
}

/// The answer for programs: the record.
impl Serialize for Explanation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(&*self.answer, serializer)
    }
}

impl fmt::Debug for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Explanation").field(&self.text(Paint::PLAIN)).field(&self.warnings).finish()
    }
}

/// A record of any type.
trait Answer: erased_serde::Serialize + Send + Sync {
    fn text(&self, paint: Paint) -> String;
}

struct Told<T> {
    record: T,
    text: fn(&T, Paint) -> String,
}

impl<T: Serialize> Serialize for Told<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.record.serialize(serializer)
    }
}

impl<T: Serialize + DeserializeOwned + Clone + Send + Sync> Answer for Told<T> {
    fn text(&self, paint: Paint) -> String {
        (self.text)(&printable::record(&self.record), paint)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn programs_get_the_record_as_it_is_and_people_what_can_be_printed() {
        let record = BTreeMap::from([("pod".to_owned(), "a\u{1b}[31m/b".to_owned())]);
        let explanation = Explanation::new(record, |record, paint| paint.bold(&record["pod"]), vec!["odd".to_owned()]);
        assert_eq!(explanation.text(Paint::PLAIN), "a\\u{1b}[31m/b");
        assert_eq!(explanation.text(Paint::COLOURED), "\u{1b}[1ma\\u{1b}[31m/b\u{1b}[0m");
        assert_eq!(serde_json::to_string(&explanation).unwrap(), r#"{"pod":"a\u001b[31m/b"}"#);
        assert_eq!(explanation.warnings(), ["odd"]);
    }
}
