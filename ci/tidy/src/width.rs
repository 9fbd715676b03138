//! Lines that rustfmt leaves wider than its limit: comments, literals, and code within macros.

use std::ops::Range;

use regex::Regex;

use crate::repository::{Finding, Repository};
use crate::source::{self, Part};

/// Lines of Rust wider than `max_width` of `rustfmt.toml`.
///
/// Lines that cannot be wrapped are left out: raw strings, snapshots that insta writes, and rows of tables and fenced text in
/// documentation.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let setting = Regex::new(r"(?m)^max_width\s*=\s*(\d+)").expect("a constant");
    let stated = repository.file("rustfmt.toml").and_then(|file| setting.captures(&file.text)?[1].parse().ok());
    let limit: usize = stated.unwrap_or(100);
    let mut findings = Vec::new();
    for file in repository.files_of(&["rs"]) {
        let mut wide = Vec::new();
        let mut at = 0;
        for line in file.text.split_inclusive('\n') {
            let width = line.trim_end().chars().count();
            if width > limit {
                wide.push((at..at + line.len(), width));
            }
            at += line.len();
        }
        if wide.is_empty() {
            continue;
        }
        let whole = unwrappable(&file.text);
        wide.retain(|(line, _)| !whole.iter().any(|part| part.start < line.end && line.start < part.end));
        findings.extend(wide.into_iter().map(|(line, width)| {
            file.finding(line.start, format!("the line has {width} characters; wrap it at {limit}, the limit of rustfmt.toml"))
        }));
    }
    findings
}

/// The parts of Rust text whose meaning an added line end would change.
fn unwrappable(text: &str) -> Vec<Range<usize>> {
    let mut whole = Vec::new();
    for (part, range) in source::parts(text) {
        match part {
            // In a literal that is not raw, a backslash ends the line; but insta writes a snapshot in its own format.
            Part::Literal if !text[range.clone()].starts_with('"') || text[..range.start].ends_with('@') => whole.push(range),
            Part::Comment => whole.extend(drawn(&text[range.clone()]).map(|line| range.start + line.start..range.start + line.end)),
            Part::Code | Part::Literal => {}
        }
    }
    whole
}

/// The lines of documentation that are rows of tables or fenced.
fn drawn(comment: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    let mut fenced = false;
    comment.split_inclusive('\n').filter_map(move |line| {
        let range = at..at + line.len();
        at = range.end;
        let mark = line.trim_start();
        let Some(doc) = mark.strip_prefix("///").or_else(|| mark.strip_prefix("//!")) else {
            fenced = false;
            return None;
        };
        let doc = doc.trim_start();
        let is_fence = doc.starts_with("```");
        fenced ^= is_fence;
        (fenced && !is_fence || doc.starts_with('|')).then_some(range)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the lines that are too wide at 20.
    fn wide(text: &str) -> Vec<usize> {
        let repository = Repository::of(&[("rustfmt.toml", "max_width = 20\n"), ("a.rs", text)]);
        check(&repository).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_line_over_the_limit_is_found() {
        let wide = format!("fn a() {{}}\n// {}\n", "ä".repeat(20));
        let repository = Repository::of(&[("rustfmt.toml", "max_width = 20\n"), ("a.rs", &wide)]);
        let findings = check(&repository);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].to_string(), "a.rs:2:1: the line has 23 characters; wrap it at 20, the limit of rustfmt.toml");
        assert!(check(&Repository::of(&[("a.rs", &wide)])).is_empty(), "rustfmt's own limit is 100");
    }

    #[test]
    fn code_comments_and_plain_strings_are_wrapped() {
        assert_eq!(wide("fn a() {\n    json!({\"a\": [1, 2]})\n}\n"), [2]);
        assert_eq!(wide("// short\n// longer than it may be\n/// longer than it may be\n"), [2, 3]);
        assert_eq!(wide("let a = \"long enough\";\nlet b = \"one \\\n         two and three\";\n"), [1, 3]);
        assert_eq!(wide("let a = \"\n\"; // r\"is no literal here\n"), [2]);
    }

    #[test]
    fn raw_strings_stay_as_they_are() {
        assert!(wide("let a = r\"long enough\";\nlet b = br#\"\"long\" enough\"#;\n").is_empty());
        assert_eq!(wide("let a = r#\"\nlonger than it may be\n\"#;\nlet b = \"long enough\";\n"), [4]);
    }

    #[test]
    fn inline_snapshots_stay_as_insta_writes_them() {
        assert!(wide("assert_snapshot!(a, @\"long enough\");\n").is_empty());
        assert!(wide("assert_snapshot!(a, @r\"\nlonger than it may be\n\");\n").is_empty());
        assert_eq!(wide("assert_snapshot!(\"long enough\", a);\n"), [1]);
    }

    #[test]
    fn tables_and_what_is_fenced_stay_as_they_are_drawn() {
        assert!(wide("//! | a | longer than it may be |\nfn a() {}\n/// | a | longer than it may be |\n").is_empty());
        assert_eq!(wide("/// ```text\n/// a ─► longer than it may be\n/// ```\n/// longer than it may be\n"), [4]);
        assert_eq!(wide("// | a | in no documentation |\n// ```\n// longer than it may be\n"), [1, 3]);
        assert_eq!(wide("/// ```text\nfn a() {}\n/// longer than it may be\n"), [3]);
    }
}
