//! `select!` with `biased`: without it, a random number decides which branch is polled first, and runs would not repeat.

use regex::Regex;

use crate::repository::{Finding, Repository};
use crate::source;

/// Every `select!` that does not begin with `biased;`.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let select = Regex::new(r"\bselect(?:_biased)?!\s*[({]\s*").expect("a constant");
    let mut findings = Vec::new();
    for file in repository.files_of(&["rs"]) {
        // Comments between the brace and `biased` do not matter.
        let text = source::code(&file.text);
        for found in select.find_iter(&text) {
            if !found.as_str().contains("_biased") && !text[found.end()..].starts_with("biased;") {
                let message = "`select!` polls in a random order; begin it with `biased;`, most urgent branch first";
                findings.push(file.finding(found.start(), message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_select_without_biased_is_found() {
        let bad = "fn a() {\n    tokio::select! {\n        _ = b => {}\n    }\n}\n";
        let findings = check(&Repository::of(&[("a.rs", bad)]));
        assert!(findings[0].to_string().starts_with("a.rs:2:12: `select!` polls in a random order"), "{findings:?}");
        let good = "tokio::select! {\n    // first\n    biased;\n    _ = b => {}\n}\n// select! { x }\n";
        assert!(check(&Repository::of(&[("a.rs", good)])).is_empty());
    }
}
