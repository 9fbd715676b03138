//! The evidence for the statements about Kubernetes: each has a test with its number, and each correction by a recording names its
//! evidence.

use std::collections::BTreeSet;

use regex::Regex;

use crate::repository::{File, Finding, Repository};

/// The document of the statements.
const DOCUMENT: &str = "docs/reference/kubernetes.md";
/// The anchor of its corrections.
const CORRECTIONS: &str = "<a id=\"k-13\"></a>";
/// The last column of their table.
const COLUMN: &str = "held by";
/// The beginning of a cell that names nothing, followed by the reason.
const LEFT_OUT: &str = "left out: ";
/// The folder of the recorded cases.
const CASES: &str = "ci/conformance/cases/";

/// Statements without a test, and corrections that name no existing test or case.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let Some(document) = repository.file(DOCUMENT) else {
        return vec![Finding::of_file(DOCUMENT, "does not exist; it is to hold the statements")];
    };
    let (tests, cases) = (tests(repository), cases(repository));
    let mut findings = statements(document, &tests);
    let Some(start) = document.text.find(CORRECTIONS) else {
        findings.push(Finding::of_file(DOCUMENT, format!("has no `{CORRECTIONS}`; the corrections stand there")));
        return findings;
    };
    let quoted = Regex::new("`([^`]+)`").expect("a constant");
    let mut at = start;
    let mut rows = 0;
    for line in document.text[start..].split_inclusive('\n') {
        let begins = at;
        at += line.len();
        let Some(row) = line.trim_end().strip_prefix('|').and_then(|row| row.strip_suffix('|')) else { continue };
        rows += 1;
        let (before, cell) = row.rsplit_once('|').unwrap_or(("", row));
        let cell_at = begins + 1 + if before.is_empty() { 0 } else { before.len() + 1 };
        match rows {
            1 if cell.trim() != COLUMN => findings.push(document.finding(cell_at, format!("the last column is to be `{COLUMN}`"))),
            1 | 2 => continue,
            _ => {}
        }
        let names: Vec<_> = quoted.captures_iter(cell).filter_map(|name| name.get(1)).collect();
        if names.is_empty() && !cell.trim().starts_with(LEFT_OUT) {
            let message = format!("nothing is named that holds this; name a test or a case, or write `{LEFT_OUT}` and why");
            findings.push(document.finding(cell_at, message));
        }
        for name in names.into_iter().filter(|name| !tests.contains(name.as_str()) && !cases.contains(name.as_str())) {
            let message = format!("no test and no case is called `{}`; name one that exists", name.as_str());
            findings.push(document.finding(cell_at + name.start(), message));
        }
    }
    if rows == 0 {
        findings.push(document.finding(start, "has no table; each correction is a row"));
    }
    findings
}

/// The statements whose number is in no test's name, as in `k070_of_concurrent_puts`.
fn statements(document: &File, tests: &BTreeSet<&str>) -> Vec<Finding> {
    let statement = Regex::new(r"\*\*K(\d{3})\*\* \[\d\]").expect("a constant");
    let tested: BTreeSet<&str> = tests.iter().flat_map(|test| test.split('_').map_while(|word| word.strip_prefix('k'))).collect();
    let untested = statement.captures_iter(&document.text).filter(|found| !tested.contains(&found[1]));
    untested
        .map(|found| {
            let at = found.get(0).map_or(0, |whole| whole.start());
            document.finding(at, format!("no test is called `k{}_...`; write one, and name it after the statement", &found[1]))
        })
        .collect()
}

/// The names of functions with the attribute `#[test]`.
fn tests(repository: &Repository) -> BTreeSet<&str> {
    let test = Regex::new(r"#\[test\]\s+fn (\w+)\(").expect("a constant");
    // The tests of this package make up names.
    let files = repository.files_of(&["rs"]).filter(|file| !file.path.starts_with("ci/tidy/"));
    files.flat_map(|file| test.captures_iter(&file.text).filter_map(|found| Some(found.get(1)?.as_str())).collect::<Vec<_>>()).collect()
}

/// The ids of the recorded cases.
fn cases(repository: &Repository) -> BTreeSet<&str> {
    let id = Regex::new(r#""id": "([^"]+)""#).expect("a constant");
    let files = repository.files_of(&["json"]).filter(|file| file.path.starts_with(CASES));
    files.flat_map(|file| id.captures_iter(&file.text).filter_map(|found| Some(found.get(1)?.as_str())).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: (&str, &str) = ("ci/conformance/cases/a.json", r#"{"cases": [{"id": "K001-a", "steps": []}]}"#);
    const TEST: (&str, &str) = ("sim/a.rs", "#[test]\nfn k001_k002_a_create() {}\nfn k003_helper() {}\n");

    fn findings(statements: &str, rows: &str) -> Vec<String> {
        let text = format!("{statements}\n{CORRECTIONS}\n\n| | is so | held by |\n|---|---|---|\n{rows}");
        check(&Repository::of(&[CASE, TEST, (DOCUMENT, &text)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_statement_has_a_test_with_its_number() {
        assert_eq!(findings("- **K001** [1] A.\n- **K002** [2] B.", ""), [""; 0]);
        let message = "docs/reference/kubernetes.md:1:3: no test is called `k003_...`; write one, and name it after the statement";
        assert_eq!(findings("- **K003** [1] C.", ""), [message]);
    }

    #[test]
    fn a_correction_names_tests_and_cases_that_exist() {
        assert_eq!(findings("", "| K001 | `so` | `K001-a`, `k001_k002_a_create` |\n| K001 | so | left out: nobody asks |\n"), [""; 0]);
        let message = "docs/reference/kubernetes.md:6:16: no test and no case is called `K001-b`; name one that exists";
        assert_eq!(findings("", "| K001 | so | `K001-b` |\n"), [message]);
        assert!(findings("", "| K001 | `so` | a test |\n")[0].contains("nothing is named that holds this"));
        assert!(findings("", "| K001 | so | `k003_helper` |\n")[0].contains("`k003_helper`"), "not a test");
    }
}
