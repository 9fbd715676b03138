//! Documentation of public items that says next to nothing: its number in each folder may only fall.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;

use crate::repository::{Finding, Repository};

/// The number of words up to which documentation counts as short.
const SHORT: usize = 3;

/// The contents of `short-docs.toml`: numbers that may only fall.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShortDocs {
    /// The number of short documentation comments in each folder; a file counts for its longest matching folder.
    pub folders: BTreeMap<String, usize>,
}

/// Reads the table.
///
/// # Errors
///
/// Says what is wrong with the table.
pub fn read(text: &str) -> Result<ShortDocs, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// Folders whose number of short documentation comments differs from the table.
pub fn check(repository: &Repository, table: &ShortDocs) -> Vec<Finding> {
    let mut found: BTreeMap<&str, Vec<Finding>> = table.folders.keys().map(|folder| (folder.as_str(), Vec::new())).collect();
    let mut findings = Vec::new();
    for file in repository.files_of(&["rs"]) {
        let mut short = Vec::new();
        for (at, text) in short_docs(&file.text) {
            short.push(file.finding(at, format!("`{text}` says next to nothing; say meaning, unit, range or errors")));
        }
        let folder = table.folders.keys().filter(|folder| is_below(&file.path, folder)).max_by_key(|folder| folder.len());
        match folder {
            Some(folder) => found.entry(folder).or_default().extend(short),
            None => findings.extend(short),
        }
    }
    for (folder, short) in found {
        let allowed = table.folders[folder];
        if short.len() < allowed {
            let message =
                format!("{} short documentation comments, and ci/tidy/short-docs.toml says {allowed}; lower the number", short.len());
            findings.push(Finding::of_file(folder, message));
        } else if short.len() > allowed {
            let message =
                format!("{} short documentation comments, and ci/tidy/short-docs.toml allows {allowed}; say more in as many:", short.len());
            findings.push(Finding::of_file(folder, message));
            findings.extend(short);
        }
    }
    findings
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Documentation comments of one line that have no more than [`SHORT`] words, with their offsets.
fn short_docs(text: &str) -> Vec<(usize, &str)> {
    let comment = Regex::new(r"(?m)^[ \t]*(///[^\n]*)\n(?P<item>[ \t]*[^\n]*)").expect("a constant");
    let public = Regex::new(r"^(?:#|pub |\w+\s*[,({=:]|\w+$|fn |type |const |async )").expect("a constant");
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = comment.captures_at(text, at) {
        let (doc, item) = (next.get(1).expect("a comment"), next.name("item").expect("a line"));
        at = item.start();
        let before = text[..next.get(0).expect("a match").start()].lines().next_back().unwrap_or_default();
        let alone = !before.trim_start().starts_with("///") && !item.as_str().trim_start().starts_with("///");
        let words = doc.as_str().trim_start_matches('/').split_whitespace().count();
        if alone && words <= SHORT && public.is_match(item.as_str().trim_start()) {
            found.push((doc.start(), doc.as_str()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "/// Who.\npub struct A {\n    /// Which.\n    pub a: u8,\n    /// How many of them there are.\n    pub b: u8,\n\
                        }\n\n/// One\n/// two.\nfn c() {}\n";

    fn findings(table: &str) -> Vec<String> {
        check(&Repository::of(&[("x/a.rs", TEXT)]), &read(table).unwrap()).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn the_number_may_not_grow() {
        let grown = findings("[folders]\nx = 1\n");
        assert_eq!(grown.len(), 3);
        assert_eq!(grown[0], "x: 2 short documentation comments, and ci/tidy/short-docs.toml allows 1; say more in as many:");
        assert_eq!(grown[1], "x/a.rs:1:1: `/// Who.` says next to nothing; say meaning, unit, range or errors");
        assert!(findings("[folders]\nx = 2\n").is_empty());
    }

    #[test]
    fn a_number_that_shrank_is_lowered() {
        assert_eq!(
            findings("[folders]\nx = 3\n"),
            ["x: 2 short documentation comments, and ci/tidy/short-docs.toml says 3; lower the number"]
        );
    }

    #[test]
    fn a_folder_without_a_number_has_none() {
        assert_eq!(findings("[folders]\ny = 0\n").len(), 2);
        assert!(findings("[folders]\nx = 9\n\"x/z\" = 0\n")[0].contains("lower the number"));
    }
}
