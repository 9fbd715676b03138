//! The output of `list` and `check`, and the exit code of `check`.

use ipam_reports::finding::Kind;
use ipam_reports::listing::{CheckedFile, ClaimEntry, DeviationEntry, FaultEntry, Finding, Parameter, ScenarioEntry, Severity};

use super::*;

#[test]
fn lists_are_tables() {
    let scenario = |name: &str, expect: Option<&str>, why: &str| ScenarioEntry {
        name: name.into(),
        file: format!("scenarios/{name}.toml"),
        seeds: 100,
        expect: expect.map(str::to_owned),
        why: why.into(),
    };
    let claim = |name: &str, kind, about: &str, reference: Option<&str>| ClaimEntry {
        suite: "counter".to_owned(),
        name: name.into(),
        kind,
        about: about.into(),
        reference: reference.map(str::to_owned),
        reference_url: None,
    };
    let delay = Parameter { name: "delay".into(), default: "2s..8s".into() };
    let report = ListReport {
        scenarios: Some(vec![
            scenario("counter", None, "several clients count in one ConfigMap"),
            scenario("lost-update", Some("no-increment-is-lost"), "a client writes without reading again"),
        ]),
        claims: Some(vec![
            claim("no-address-has-two-owners", Kind::Always, "two live sandboxes never answer on one address", Some("B I1")),
            claim("a-write-conflicts", Kind::Sometimes, "a write is refused with 409", None),
        ]),
        faults: Some(vec![FaultEntry {
            name: "watch-lag".into(),
            about: "Changes reach caches late.".into(),
            parameters: vec![delay],
            event: "an API server falls behind".into(),
            reference_url: None,
        }]),
        deviations: Some(vec![DeviationEntry {
            name: "no-reread".into(),
            about: "writes again what it read first".into(),
            how: "claim".into(),
            reference_url: None,
        }]),
        ..ListReport::default()
    };
    let verbs = Prepared { list: Some(Ok(report)), ..Prepared::default() };
    let table = ran(&verbs, "list");
    assert_eq!(table.code, 0);
    insta::assert_snapshot!("list", table.out);
    assert_eq!(ran(&verbs, "list -o table").out, table.out);
    assert_eq!(ran(&verbs, "list --output json").out, ran(&verbs, "list --format json").out);
    let names = "scenario/counter\nscenario/lost-update\nclaim/no-address-has-two-owners\nclaim/a-write-conflicts\n\
                 fault/watch-lag\nmutation/no-reread\n";
    assert_eq!(ran(&verbs, "list -o name").out, names);
    assert_eq!(ran(&verbs, "list -o name --format json").code, 2);
}

#[test]
fn an_empty_list_says_so() {
    let report = ListReport { faults: Some(vec![]), ..ListReport::default() };
    assert_eq!(ran(&Prepared { list: Some(Ok(report)), ..Prepared::default() }, "list faults").out, "Faults\n  none\n");
}

#[test]
fn findings_have_the_form_that_editors_jump_to() {
    let finding = |severity, line, column, found: &str, hint: Option<&str>| Finding {
        severity,
        line,
        column,
        found: found.into(),
        hint: hint.map(str::to_owned),
        rule: None,
    };
    let files = vec![
        CheckedFile { file: "a.toml".into(), kind: "scenario".into(), findings: vec![] },
        CheckedFile {
            file: "b.toml".into(),
            kind: "scenario".into(),
            findings: vec![
                finding(Severity::Error, Some(3), Some(7), "unknown key `sedes`", Some("did you mean `seeds`?")),
                finding(Severity::Warning, Some(9), None, "no claim is checked", None),
                finding(Severity::Error, None, None, "the manifest `pods.yaml` does not exist", None),
            ],
        },
    ];
    let check = |files| Prepared { check: Some(Ok(CheckReport { files, ..CheckReport::default() })), ..Prepared::default() };
    let wrong = ran(&check(files.clone()), "check .");
    assert_eq!(wrong.code, 2);
    insta::assert_snapshot!("check", wrong.out);
    let right = ran(&check(vec![files[0].clone()]), "check a.toml");
    assert_eq!((right.code, right.out.as_str()), (0, "1 file: no problem\n"));
    assert_eq!(ran(&check(vec![]), "check empty").code, 2);
}
