//! Decisions of a system explained without a run, for the verb `explain`.

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
    /// The command line with the arguments of the question: which manifests, which object, how the system is set up. Examples for the help
    /// come after them ([`Command::after_help`]); the program is called `ipam-sim` there. `explain` has arguments of its own: `--format`
    /// and `--color`.
    fn args(&self, command: Command) -> Command;

    /// Reads what the command line names, and answers. `args` has what [`Explainer::args`] has added.
    ///
    /// # Errors
    /// What is wrong with the question. That something is refused is an answer.
    fn explain(&self, args: &ArgMatches) -> Result<Explanation, Error>;
}

/// An answer: a record for programs, and how it is told to people.
#[derive(Clone)]
pub struct Explanation {
    answer: Arc<dyn Answer>,
    warnings: Vec<String>,
}

impl Explanation {
    /// The answer in `record`, which `text` tells. Names in a record may be anybody's: `text` is given one in which all is printable.
    /// `warnings` are sentences about the input, which are for standard error.
    pub fn new<T>(record: T, text: fn(&T, Paint) -> String, warnings: Vec<String>) -> Self
    where
        T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        Self { answer: Arc::new(Told { record, text }), warnings }
    }

    /// What is odd about the input, a sentence each.
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

/// A record of whatever type.
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
