//! The repository passes the checks.

use std::sync::LazyLock;

use tidy::{
    Finding, Repository, circles, citations, deviations, held, leftovers, length, links, selects, short_docs, switches, width, words,
};

static REPOSITORY: LazyLock<Repository> = LazyLock::new(|| Repository::read(&Repository::root()));

fn table(path: &str) -> &'static str {
    &REPOSITORY.file(path).unwrap_or_else(|| panic!("{path} is missing")).text
}

#[track_caller]
fn none(mut findings: Vec<Finding>) {
    findings.sort();
    findings.dedup();
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{} to mend:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn every_citation_has_its_place_in_the_reference() {
    none(citations::check(&REPOSITORY));
}

#[test]
fn every_deviation_is_described() {
    none(deviations::check(&REPOSITORY));
}

#[test]
fn no_function_reads_many_switches() {
    none(switches::check(&REPOSITORY));
}

#[test]
fn every_statement_about_kubernetes_is_held_by_something() {
    none(held::check(&REPOSITORY));
}

#[test]
fn every_link_leads_somewhere() {
    none(links::check(&REPOSITORY));
}

#[test]
fn lines_of_rust_are_as_wide_as_rustfmt_lets_them_be() {
    none(width::check(&REPOSITORY));
}

#[test]
fn retired_words_stay_away() {
    let path = "ci/tidy/words.toml";
    let words = words::read(table(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    none(words::check(&REPOSITORY, &words).unwrap_or_else(|error| panic!("{path}: {error}")));
}

#[test]
fn long_files_have_a_reason() {
    let path = "ci/tidy/long-files.toml";
    none(length::check(&REPOSITORY, &length::read(table(path)).unwrap_or_else(|error| panic!("{path}: {error}"))));
}

#[test]
fn documentation_says_something() {
    let path = "ci/tidy/short-docs.toml";
    none(short_docs::check(&REPOSITORY, &short_docs::read(table(path)).unwrap_or_else(|error| panic!("{path}: {error}"))));
}

#[test]
fn nothing_is_left_behind() {
    none(leftovers::check(&REPOSITORY));
}

#[test]
fn modules_import_each_other_one_way() {
    let path = "ci/tidy/circles.toml";
    none(circles::check(&REPOSITORY, &circles::read(table(path)).unwrap_or_else(|error| panic!("{path}: {error}"))));
}

#[test]
fn every_select_is_biased() {
    none(selects::check(&REPOSITORY));
}
