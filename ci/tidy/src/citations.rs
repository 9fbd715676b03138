//! Citations of the behavioural reference: each has an existing place, and names its document.

use std::collections::BTreeSet;
use std::ops::Range;

use ipam_reports::reference::{self, Document};
use regex::Regex;

use crate::repository::{File, Finding, Repository};
use crate::source::{self, Part};

/// The folder of the reference.
const REFERENCE: &str = "docs/reference/";

/// Citations without an existing place, and places without a document.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let known = anchors(repository);
    let bare = Regex::new(r"§\d+(?:\.\d+)*|\b(?:[WRSLIPDXCUTHA]|RO)\d{1,2}\b").expect("a constant");
    let mut findings = Vec::new();
    // Generated tables repeat the citations of sources, cut into links.
    let is_checked = |path: &str| !path.ends_with("Cargo.lock") && !path.starts_with("docs/tables/");
    for file in repository.files_of(&["rs", "toml", "md"]).filter(|file| is_checked(&file.path)) {
        // The tests of this package cite places that do not exist.
        if file.path.starts_with("ci/tidy/") {
            continue;
        }
        for (start, text) in texts(file) {
            let places = reference::places(&text);
            for place in &places {
                if !known.contains(&(place.document.file(), place.anchor.clone())) {
                    let cited = text[place.span.clone()].split_whitespace().collect::<Vec<_>>().join(" ");
                    let message = format!(
                        "`{cited}` is cited, but {} has no anchor `{}`; cite a place that exists",
                        place.document.file(),
                        place.anchor
                    );
                    findings.push(file.finding(start + place.span.start, message));
                }
            }
            // Within the reference, numbers without a letter refer to the same file.
            if file.path.starts_with(REFERENCE) {
                continue;
            }
            for found in bare.find_iter(&text) {
                let is_cited = places.iter().any(|place| place.span.contains(&found.start()));
                if !is_cited && !is_within(&text, found.range()) {
                    let message = format!("`{0}` is of no document; write its letter, as in `A {0}`", found.as_str());
                    findings.push(file.finding(start + found.start(), message));
                }
            }
        }
    }
    findings
}

/// Whether a match that looks like a number of the reference is part of a name, a path, a value or a row of a table.
fn is_within(text: &str, found: Range<usize>) -> bool {
    let (before, after) = (&text[..found.start], &text[found.end..]);
    before.ends_with(['-', '_', '.', ':', '/', '`', '"', '\'', '<', '=', '{', '#', '$', ','])
        || after.starts_with(['-', '`', '"', '\'', '=', '}', '('])
        || after.starts_with("::")
}

/// The anchors of the reference: file and name.
fn anchors(repository: &Repository) -> BTreeSet<(&'static str, String)> {
    let anchor = Regex::new(r#"<a id="([^"]+)"></a>"#).expect("a constant");
    let of = |document: Document| {
        let text = repository.file(document.file()).map_or("", |file| &file.text);
        anchor.captures_iter(text).map(move |found| (document.file(), found[1].to_owned())).collect::<Vec<_>>()
    };
    Document::ALL.into_iter().flat_map(of).collect()
}

/// The texts of a file that can contain citations, each with its offset: in Rust its comments and literals.
fn texts(file: &File) -> Vec<(usize, String)> {
    if !file.is(&["rs"]) {
        return vec![(0, source::running(&file.text))];
    }
    let parts = source::parts(&file.text).into_iter().filter(|(part, _)| *part != Part::Code);
    parts.map(|(_, range)| (range.start, source::running(&file.text[range]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOCATION: (&str, &str) = ("docs/reference/allocation.md", "<a id=\"a-5-4\"></a>\n\n## 5.4\n\n| <a id=\"a-w13\"></a>W13 |\n");

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Repository::of(&[ALLOCATION, (path, text)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn what_has_a_place_may_be_cited() {
        assert!(findings("a.rs", "/// So it is (A §5.4,\n/// W13).\nfn a() {}\n").is_empty());
        assert!(findings("a.toml", "why = \"so (A 5.4, W13)\"\n").is_empty());
    }

    #[test]
    fn a_place_that_does_not_exist_is_found() {
        let message = "a.rs:2:9: `A §5.5` is cited, but docs/reference/allocation.md has no anchor `a-5-5`; cite a place that exists";
        assert_eq!(findings("a.rs", "//! One.\n/// So (A §5.5).\n"), [message]);
        assert_eq!(findings("a.md", "as in K999\n").len(), 1);
        assert_eq!(findings("a.rs", "const A: &str = \"see (B W13)\";\n").len(), 1);
    }

    #[test]
    fn a_place_without_its_document_is_found() {
        assert_eq!(findings("a.rs", "// So (W13).\n"), ["a.rs:1:8: `W13` is of no document; write its letter, as in `A W13`"]);
        assert_eq!(findings("a.rs", "// So (§5.4).\n").len(), 1);
        assert!(findings("a.rs", "const P4: u8 = W13;\n").is_empty(), "code cites nothing");
    }
}
