//! `conformance`: its output, and its use of the files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use ipam_reports::conformance::{CaseCounts, DifferingCase, DifferingPlace, LeftCase, ThemeResult, UnneededLine};
use tempfile::TempDir;

use super::*;

fn counts(agreed: u64, differing: u64, allowed: u64, not_compared: u64) -> CaseCounts {
    CaseCounts { agreed, differing, allowed, not_compared }
}

fn theme(theme: &str, counts: CaseCounts) -> ThemeResult {
    ThemeResult { theme: theme.to_owned(), counts }
}

fn printed(report: &ConformanceReport) -> Ran {
    ran(&Prepared { conformance: Some(Ok(report.clone())), ..Prepared::default() }, "conformance")
}

#[test]
fn what_differs_is_told_place_by_place_within_limits() {
    let place = |step: u64, path: &str, actual: &str| DifferingPlace {
        step,
        does: "POST ${cm}".to_owned(),
        path: path.to_owned(),
        recorded: "<absent>".into(),
        actual: serde_json::from_str(actual).unwrap(),
    };
    let case = |case: String, places: Vec<DifferingPlace>| DifferingCase {
        case,
        theme: "create".to_owned(),
        why: "A name that exists.".to_owned(),
        places,
    };
    let long = format!("\"{}\"", "é".repeat(200));
    let places =
        (1..=8).map(|number| place(number / 3, &format!("body.p{number}"), if number == 2 { &long } else { "{\"a\": [1, null]}" }));
    let mut differing = vec![case("K060-existing".to_owned(), places.collect())];
    differing.extend((1..12).map(|number| case(format!("case-{number}"), vec![place(1, "status", "200")])));
    let mut report = ConformanceReport {
        themes: vec![theme("create", counts(1_200, 12, 0, 0)), theme("watch", counts(3, 0, 2, 14))],
        differing,
        not_compared: (1..=14).map(|number| LeftCase { case: format!("w-{number}"), why: "not run: needs etcd".to_owned() }).collect(),
        unneeded: vec![UnneededLine { file: "allow.txt".to_owned(), line: 7, allows: "K0* *:*".to_owned() }],
        ..ConformanceReport::default()
    };
    report.exit_code = report.judge();
    let ran = printed(&report);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    insta::assert_snapshot!("conformance-differs", ran.out);
}

#[test]
fn agreement_is_a_table_and_a_line_and_what_could_not_be_written_is_an_error() {
    let mut report = ConformanceReport { themes: vec![theme("get", counts(1, 0, 1, 0))], ..ConformanceReport::default() };
    let ran = printed(&report);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    insta::assert_snapshot!("conformance-agrees", ran.out);
    report.unwritten = vec!["cannot write x: full".to_owned()];
    let ran = printed(&report);
    assert_eq!((ran.code, ran.err.as_str()), (2, "error: cannot write x: full\n"));
    assert!(ran.out.contains("Conforms: 1 case as recorded, 1 with known differences."), "{}", ran.out);
}

/// The files of the repository, and a folder for changed ones.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn kept(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/conformance").join(name)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// The recording with one occurrence of a text replaced.
    fn changed(&self, from: &str, to: &str) -> String {
        let text = fs::read_to_string(Self::kept("recorded.jsonl")).unwrap();
        assert!(text.contains(from), "{from}");
        self.file("actual.jsonl", &text.replacen(from, to, 1))
    }

    fn ran(&self, flags: &str) -> Ran {
        let kept = |name: &str| Self::kept(name).display().to_string();
        let allow = if flags.contains("--allow") { String::new() } else { format!("--allow {}", kept("allow.txt")) };
        ran(&Simulator, &format!("conformance --cases {} --recorded {} {allow} {flags}", kept("cases"), kept("recorded.jsonl")))
    }
}

#[test]
fn the_recording_conforms_to_itself() {
    let files = Files::new();
    let out = files.path("out.jsonl");
    let ran = files.ran(&format!("--against {} --out {out}", Files::kept("recorded.jsonl").display()));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let cases = fs::read_to_string(Files::kept("recorded.jsonl")).unwrap().lines().count();
    assert!(ran.out.ends_with(&format!("\nConforms: {cases} cases as recorded.\n")), "{}", ran.out);
    assert_eq!(fs::read_to_string(out).unwrap(), fs::read_to_string(Files::kept("recorded.jsonl")).unwrap());
}

const EXISTING: &str = r#""message": "configmaps \"a\" already exists", "metadata": {}, "reason": "AlreadyExists""#;

#[test]
fn a_difference_is_found_and_can_be_allowed() {
    let files = Files::new();
    let actual = files.changed(EXISTING, &EXISTING.replace("AlreadyExists", "Conflict"));
    let only = format!("--against {actual} --only ^K060");
    let ran = files.ran(&only);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let told = "  step 3  POST ${cm}\n    body.reason\n      recorded  \"AlreadyExists\"\n      actual    \"Conflict\"\n";
    assert!(ran.out.contains(told), "{}", ran.out);
    let json = files.ran(&format!("{only} --format json"));
    let report: ConformanceReport = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, report.exit_code, report.differing.len()), (1, 1, 1));
    assert_eq!((report.differing[0].places[0].path.as_str(), report.differing[0].places[0].step), ("body.reason", 3));
    let allow = files
        .file("allow.txt", "# known\nK060-* 3:body.reason  # told elsewhere\nK060-* 1:status  # not needed\nK100-* 1:status  # others\n");
    let ran = files.ran(&format!("{only} --allow {allow}"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains(&format!("not needed  {allow}:3: K060-* 1:status\n\nConforms: ")), "{}", ran.out);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let files = Files::new();
    let kept = Files::kept("recorded.jsonl").display().to_string();
    let empty = files.file("empty.jsonl", "");
    let broken = files.file("broken.jsonl", "\n{\"id\": 3}\n");
    let allow = files.file("allow.txt", "K060-* body.reason  # told elsewhere\n");
    for (flags, wrong) in [
        (format!("--against {empty}"), "nothing was compared: ".to_owned()),
        (format!("--against {kept} --only ^nothing"), "no case of ".to_owned()),
        (format!("--against {broken}"), format!("{broken}:2: a record has to have a text `id`")),
        (format!("--against {kept} --allow {allow}"), format!("{allow}:1: `body.reason` is no place; expected STEP:PATH")),
        (format!("--against {}", files.path("none")), format!("{}: cannot be read: no such file", files.path("none"))),
        (format!("--against {kept} --cases {}", files.path("none")), "cannot be used multiple times".to_owned()),
    ] {
        let ran = files.ran(&flags);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{flags}: {}", ran.err);
        assert!(ran.err.contains(&wrong), "{flags}: {}", ran.err);
    }
    let unwritten = files.ran(&format!("--against {kept} --out {}", files.path("none/out.jsonl")));
    assert_eq!(unwritten.code, 2);
    assert!(unwritten.out.contains("Conforms: ") && unwritten.err.starts_with("error: cannot write "), "{}", unwritten.err);
}
