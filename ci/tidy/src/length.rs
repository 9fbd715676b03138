//! Long files, each with a reason.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::repository::{Finding, Repository};

/// The contents of `long-files.toml`: the limit, and the files that may exceed it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongFiles {
    /// The number of lines that a file may have without a reason.
    pub limit: usize,
    /// The reasons why files are longer, by path.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// Reads the table.
///
/// # Errors
///
/// Says what is wrong with the table.
pub fn read(text: &str) -> Result<LongFiles, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// Files of Rust over the limit without a reason, and reasons of files that are not over it.
pub fn check(repository: &Repository, table: &LongFiles) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.files_of(&["rs"]) {
        let lines = file.text.lines().count();
        let reason = table.files.get(&file.path);
        if lines > table.limit && reason.is_none_or(|reason| reason.trim().is_empty()) {
            let message = format!(
                "{lines} lines; look for the second noun and give it a file, or state a reason in ci/tidy/long-files.toml (over {})",
                table.limit
            );
            findings.push(Finding::of_file(&file.path, message));
        }
        if lines <= table.limit && reason.is_some() {
            findings
                .push(Finding::of_file(&file.path, format!("{lines} lines need no reason; remove its line from ci/tidy/long-files.toml")));
        }
    }
    let gone = table.files.keys().filter(|path| repository.file(path).is_none());
    findings.extend(gone.map(|path| Finding::of_file(path, "does not exist; remove its line from ci/tidy/long-files.toml")));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(table: &str) -> Vec<String> {
        let repository = Repository::of(&[("a.rs", "1\n2\n3\n"), ("b.rs", "1\n"), ("c.md", "1\n2\n3\n")]);
        check(&repository, &read(table).unwrap()).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_long_file_needs_a_reason() {
        assert!(findings("limit = 2\n")[0].starts_with("a.rs: 3 lines; look for the second noun"));
        assert!(findings("limit = 2\n[files]\n\"a.rs\" = \"\"\n")[0].starts_with("a.rs: 3 lines"));
        assert!(findings("limit = 2\n[files]\n\"a.rs\" = \"one table\"\n").is_empty());
    }

    #[test]
    fn a_reason_that_is_not_needed_goes() {
        assert_eq!(
            findings("limit = 3\n[files]\n\"b.rs\" = \"x\"\n"),
            ["b.rs: 1 lines need no reason; remove its line from ci/tidy/long-files.toml"]
        );
        assert!(findings("limit = 3\n[files]\n\"z.rs\" = \"x\"\n")[0].starts_with("z.rs: does not exist"));
    }
}
