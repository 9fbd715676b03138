//! Deviations: each is described in the reference, under its name.

use std::collections::BTreeSet;

use regex::Regex;

use crate::repository::{Finding, Repository};

/// The document that describes them.
const DOCUMENT: &str = "docs/reference/deviations.md";

/// Switches without a row in the reference, and rows without a switch of that name in the code.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let switch = Regex::new(r#"(?m)^\s*"([a-z0-9-]+)" (?:true|false) \w+;"#).expect("a constant");
    let row = Regex::new(r#"(?m)^\| <a id="([a-z0-9-]+)"></a>`([a-z0-9-]+)` \|"#).expect("a constant");
    let Some(document) = repository.file(DOCUMENT) else {
        return vec![Finding::of_file(DOCUMENT, "does not exist; it is to describe every deviation")];
    };
    let described: BTreeSet<&str> = row.captures_iter(&document.text).filter_map(|row| Some(row.get(2)?.as_str())).collect();
    let mut findings = Vec::new();
    for file in repository.files_of(&["rs"]).filter(|file| file.text.contains("deviations! {")) {
        for switch in switch.captures_iter(&file.text) {
            let name = switch.get(1).expect("a switch has a name");
            if !described.contains(name.as_str()) {
                let message = format!("`{0}` is not described; give it a row and the anchor `{0}` in {DOCUMENT}", name.as_str());
                findings.push(file.finding(name.start(), message));
            }
        }
    }
    for row in row.captures_iter(&document.text) {
        let (anchor, name) = (&row[1], row.get(2).expect("a row has a name"));
        let quoted = format!("\"{}\"", name.as_str());
        if !repository.files_of(&["rs"]).any(|file| file.text.contains(&quoted)) {
            findings.push(document.finding(name.start(), format!("no deviation is called `{}`; name it as the code does", name.as_str())));
        } else if anchor != name.as_str() {
            findings.push(document.finding(name.start(), format!("the anchor of `{0}` is `{anchor}`; name it `{0}`", name.as_str())));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rows: &str) -> Vec<String> {
        let code = "deviations! {\n    \"first\" true first;\n    \"second\" false second;\n}\n";
        check(&Repository::of(&[("a.rs", code), (DOCUMENT, rows)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn every_deviation_is_described_under_its_name() {
        let row = |anchor: &str, name: &str| format!("| <a id=\"{anchor}\"></a>`{name}` | yes |\n");
        let both = row("first", "first") + &row("second", "second");
        assert_eq!(findings(&both), [""; 0]);
        let missing = "a.rs:3:6: `second` is not described; give it a row and the anchor `second` in docs/reference/deviations.md";
        assert_eq!(findings(&row("first", "first")), [missing]);
        assert!(findings(&(both.clone() + &row("third", "third")))[0].contains("no deviation is called `third`"));
        assert!(findings(&both.replace("id=\"second\"", "id=\"2nd\""))[0].contains("the anchor of `second` is `2nd`"));
    }
}
