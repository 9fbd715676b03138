//! Lines that rustfmt leaves wider than its limit: comments and literals.

use regex::Regex;

use crate::repository::{Finding, Repository};

/// Lines of Rust wider than `max_width` of `rustfmt.toml`.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let setting = Regex::new(r"(?m)^max_width\s*=\s*(\d+)").expect("a constant");
    let stated = repository.file("rustfmt.toml").and_then(|file| setting.captures(&file.text)?[1].parse().ok());
    let limit: usize = stated.unwrap_or(100);
    let mut findings = Vec::new();
    for file in repository.files_of(&["rs"]) {
        let mut at = 0;
        for line in file.text.split_inclusive('\n') {
            let width = line.trim_end().chars().count();
            if width > limit {
                findings.push(file.finding(at, format!("the line has {width} characters; wrap it at {limit}, the limit of rustfmt.toml")));
            }
            at += line.len();
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_over_the_limit_is_found() {
        let wide = format!("fn a() {{}}\n// {}\n", "ä".repeat(20));
        let repository = Repository::of(&[("rustfmt.toml", "max_width = 20\n"), ("a.rs", &wide)]);
        let findings = check(&repository);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].to_string(), "a.rs:2:1: the line has 23 characters; wrap it at 20, the limit of rustfmt.toml");
        assert!(check(&Repository::of(&[("a.rs", &wide)])).is_empty(), "rustfmt's own limit is 100");
    }
}
