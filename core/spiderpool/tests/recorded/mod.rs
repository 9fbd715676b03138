//! Recorded answers of upstream's code: their location, and the report of differences.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The cases of a file: from the folder that `IPAM_VECTORS` names, else from `core/spiderpool/tests/data`. If the folder lacks the file,
/// this is reported and there is nothing to test. A line that is no case counts as an empty case, so that the others still count.
pub(crate) fn cases(file: &str) -> Option<Vec<Value>> {
    let folder = match std::env::var_os("IPAM_VECTORS") {
        Some(folder) => PathBuf::from(folder),
        // Tests of other packages read them, too.
        None => {
            let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
            above
                .map(|folder| folder.join("core/spiderpool/tests/data"))
                .find(|data| data.is_dir())
                .expect("the package is in the workspace")
        }
    };
    let path = folder.join(file);
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
        return None;
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let read = |(at, line): (usize, &str)| {
        let unreadable = |error| json!({"id": format!("line {}", at + 1), "unreadable": format!("{error}")});
        serde_json::from_str(line).unwrap_or_else(unreadable)
    };
    // Windows and editors add meaningless parts: a byte order mark, line ends of two characters, blank lines.
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let cases: Vec<Value> = lines.map(read).collect();
    assert!(!cases.is_empty(), "{} is empty", path.display());
    Some(cases)
}

/// Whether [`cases`] reads the copy in `core/spiderpool/tests/data`, whose contents a test may rely on.
pub(crate) fn is_own_copy() -> bool {
    std::env::var_os("IPAM_VECTORS").is_none()
}

/// The differences in all cases.
pub(crate) struct Mismatches {
    file: String,
    ids: BTreeSet<String>,
    texts: Vec<String>,
}

impl Mismatches {
    /// No differences yet for this file.
    pub(crate) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), ids: BTreeSet::new(), texts: Vec::new() }
    }

    /// Compares an answer with the recorded one, member by member.
    pub(crate) fn compare(&mut self, id: &str, at: &str, expected: &Value, answer: &Value) {
        match (expected, answer) {
            (Value::Object(of_expected), Value::Object(of_answer)) => {
                let keys: BTreeSet<_> = of_expected.keys().chain(of_answer.keys()).collect();
                for key in keys {
                    let member = |members: &serde_json::Map<String, Value>| members.get(key).cloned().unwrap_or_default();
                    self.compare(id, &format!("{at}/{key}"), &member(of_expected), &member(of_answer));
                }
            }
            (Value::Array(of_expected), Value::Array(of_answer)) if of_expected.len() == of_answer.len() => {
                for (index, (expected, answer)) in of_expected.iter().zip(of_answer).enumerate() {
                    self.compare(id, &format!("{at}/{index}"), expected, answer);
                }
            }
            _ if expected != answer => {
                self.ids.insert(id.to_owned());
                self.texts.push(format!("{} {id}{at}: recorded {expected}, answered {answer}", self.file));
            }
            _ => {}
        }
    }

    /// Answers one case and compares. If the form of the case is unknown here, that is a difference of this case and does not end the count
    /// of the others.
    pub(crate) fn attempt(&mut self, case: &Value, answer: impl FnOnce(&mut Self, &str)) {
        let id = case["id"].as_str().map_or_else(|| case["id"].to_string(), str::to_owned);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| answer(self, &id))) {
            let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
            let unreadable = case.get("unreadable").and_then(Value::as_str);
            self.texts.push(format!("{} {id}: no answer: {}", self.file, unreadable.or(text).unwrap_or("?")));
            self.ids.insert(id);
        }
    }

    /// Whether a case differs.
    #[allow(dead_code, reason = "only sequences ask")]
    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Ends the test if anything differs.
    pub(crate) fn none_in(self, cases: usize) {
        let differ = self.ids.len();
        println!("{}: {} of {cases} cases agree", self.file, cases - differ);
        assert!(self.texts.is_empty(), "{differ} of {cases} cases differ:\n{}", self.texts.join("\n"));
    }
}

#[test]
fn a_case_of_an_unknown_form_is_one_difference() {
    let mut mismatches = Mismatches::new("file");
    for case in [json!({"id": "good", "n": 1}), json!({"id": "odd"}), json!({"id": "line 3", "unreadable": "not JSON"})] {
        mismatches.attempt(&case, |mismatches, id| {
            let answer = json!(case["n"].as_i64().expect("a number"));
            mismatches.compare(id, "", &json!(1), &answer);
        });
    }
    assert_eq!(mismatches.ids, BTreeSet::from(["odd".to_owned(), "line 3".to_owned()]));
    assert_eq!(mismatches.texts, ["file odd: no answer: a number", "file line 3: no answer: not JSON"]);
}
