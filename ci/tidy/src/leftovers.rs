//! Leftovers: paths of one machine, notes to oneself, tests that are switched off.

use regex::Regex;

use crate::repository::{Finding, Repository};

/// The patterns: each with the files in which it counts, and what to do instead.
const LEFTOVERS: [(&str, &[&str], &str); 4] = [
    (
        r#"(?:^|[\s"'`(=])(/(?:home|Users|root|work|tmp)/[\w.-]+)"#,
        &["rs", "toml", "md", "yml", "yaml", "sh"],
        "is a path of one machine; write one relative to the repository, or take it from the environment",
    ),
    (r"\b((?:TODO|FIXME|XXX|HACK)\b)", &["rs", "toml", "md", "yml", "yaml", "sh"], "is a note to oneself; do it, or open an issue"),
    (r"\b((?:todo|unimplemented)!)", &["rs"], "is code that is missing; write it"),
    (r"(#\[ignore\b)", &["rs"], "switches a test off; mend it or remove it"),
];

/// Leftovers in the files of the repository.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (pattern, extensions, remedy) in LEFTOVERS {
        let pattern = Regex::new(&format!("(?m){pattern}")).expect("a constant");
        // The table above and its tests contain the patterns.
        for file in repository.files_of(extensions).filter(|file| !file.path.starts_with("ci/tidy/")) {
            for found in pattern.captures_iter(&file.text) {
                let found = found.get(1).expect("what is looked for");
                findings.push(file.finding(found.start(), format!("`{}` {remedy}", found.as_str())));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Repository::of(&[(path, text)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn leftovers_are_found() {
        assert_eq!(findings("a.rs", "fn a() {\n    todo!()\n}\n"), ["a.rs:2:5: `todo!` is code that is missing; write it"]);
        assert!(findings("a.md", "See `/home/me/x`.\n")[0].starts_with("a.md:1:6: `/home/me` is a path of one machine"));
        assert_eq!(findings("a.toml", "# FIXME\n").len(), 1);
        assert_eq!(findings("a.rs", "#[ignore]\nfn a() {}\n").len(), 1);
        assert!(findings("a.md", "Copy it to `target/work/`, https://example.com/home/x.\n").is_empty());
    }
}
