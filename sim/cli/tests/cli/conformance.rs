//! Compares the simulated API server with the recorded answers of a real one.

use std::path::{Path, PathBuf};
use std::process::Command;

use api_conformance::{Allowed, Kit, Outcome, Record, Recording, Verdict, compare};
use testkit::Folder;

use super::{run, text};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/conformance")
}

fn read(name: &str) -> (PathBuf, String) {
    let file = folder().join(name);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    (file, text)
}

fn recorded() -> Recording {
    let (file, text) = read("recorded.jsonl");
    Recording::read(&file, &text).unwrap()
}

fn allowed() -> Allowed {
    let (file, text) = read("allow.txt");
    Allowed::read(&file, &text).unwrap()
}

fn as_recording(records: &[Record]) -> Recording {
    let lines: Vec<String> = records.iter().map(Record::line).collect();
    Recording::read(Path::new("simulated"), &lines.join("\n")).unwrap()
}

#[test]
fn every_case_is_answered_as_a_real_server_answers_it_but_for_what_is_left_out_by_name() {
    let kit = Kit::read(&folder().join("cases")).unwrap();
    let (records, wrong) = ipam_sim::simulated_server::record(&kit);
    assert_eq!(wrong, Vec::<String>::new());
    let suspect: Vec<&Record> = records.iter().filter(|record| !record.suspect.is_empty()).collect();
    let actual = as_recording(&records);
    let (recorded, allowed) = (recorded(), allowed());
    let comparison = compare(&kit, &recorded, &actual, &allowed);
    assert!(comparison.unneeded.is_empty(), "no difference needs these lines of allow.txt any more: {:?}", comparison.unneeded);
    let differing: Vec<String> = comparison
        .cases
        .iter()
        .filter_map(|case| match &case.verdict {
            Verdict::Differs(places) => Some(format!("{}: {:?}", case.case.id, places.first())),
            _ => None,
        })
        .collect();
    assert!(differing.is_empty(), "{} cases differ:\n{}\nsuspect: {suspect:?}", differing.len(), differing.join("\n"));
}

const SHARED: &str = r#"{"paths": {"cm": "/api/v1/namespaces/${ns}/configmaps"}, "templates": {}, "ignore": {}, "loose": [], "crds": []}"#;
const CASES: &str = r#"{"theme": "mine", "cases": [{"id": "my-own", "why": "A case that nobody recorded.", "steps": [
    {"method": "POST", "path": "${cm}", "body": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}},
    {"path": "${cm}/none"}
]}]}"#;

/// A folder outside the repository that holds only cases: none of the default files exists there.
fn away(shared: &str) -> Folder {
    let folder = Folder::new("away");
    std::fs::create_dir(folder.0.join("cases")).unwrap();
    folder.file("cases/_shared.json", shared);
    folder.file("cases/01-mine.json", CASES);
    folder
}

/// Runs in a folder, and returns exit code, standard output and standard error.
fn ran_in(folder: &Folder, line: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ipam-sim"));
    let output = command.current_dir(&folder.0).env("NO_COLOR", "1").args(line.split_whitespace()).output().unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// The statuses in a file for the case of [`away`].
fn statuses(folder: &Folder, file: &str) -> Vec<String> {
    let recording = Recording::read(Path::new(file), &folder.text(file)).unwrap();
    let Some(Record { outcome: Outcome::Steps(steps), .. }) = recording.get("my-own") else { panic!("{recording:?}") };
    steps.iter().map(|step| step.get("status").unwrap().compact()).collect()
}

#[test]
fn cases_of_which_nothing_is_recorded_are_answered_into_a_file() {
    let folder = away(SHARED);
    let (code, out, err) = ran_in(&folder, "conformance --cases cases --out answers.jsonl");
    let told = "error: nothing was compared: there is no ci/conformance/recorded.jsonl; name what a real server answered with `--recorded \
                FILE`; the answers are in answers.jsonl\n";
    assert_eq!((code, out.as_str(), err.as_str()), (2, "", told));
    assert_eq!(statuses(&folder, "answers.jsonl"), ["201", "404"]);

    let (cases, answers) = (folder.path("cases"), folder.path("again.jsonl"));
    let (code, out, err) = run(&["conformance", "--cases", &cases, "--out", &answers]);
    let told = format!(
        "error: nothing was compared: ci/conformance/recorded.jsonl and the simulated server have no answers to the same case of \
         {cases}; the answers are in {answers}\n"
    );
    assert_eq!((code, out.as_str(), err), (2, "", told));
    assert_eq!(folder.text("again.jsonl"), folder.text("answers.jsonl"));

    let (code, _, err) = ran_in(&folder, "conformance --cases cases --out none/answers.jsonl");
    assert_eq!(code, 2);
    assert!(err.ends_with("; cannot write none/answers.jsonl: there is no folder none\n"), "{err}");
}

#[test]
fn cases_are_compared_where_no_default_file_is_and_answers_that_differ_are_written_too() {
    let folder = away(SHARED);
    assert_eq!(ran_in(&folder, "conformance --cases cases --out answers.jsonl").0, 2);
    let (code, out, err) = ran_in(&folder, "conformance --cases cases --recorded answers.jsonl");
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.ends_with("\nConforms: 1 case as recorded.\n"), "{out}");

    folder.file("other.jsonl", &folder.text("answers.jsonl").replace("\"status\": 201", "\"status\": 200"));
    let (code, out, err) = ran_in(&folder, "conformance --cases cases --recorded other.jsonl --out again.jsonl");
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.contains("    status\n      recorded  200\n      actual    201\n"), "{out}");
    assert_eq!(folder.text("again.jsonl"), folder.text("answers.jsonl"));
}

#[test]
fn a_file_that_is_named_has_to_be_there() {
    let folder = away(SHARED);
    for flags in ["--allow none.txt", "--recorded none.txt", "--against none.txt"] {
        let (code, out, err) = ran_in(&folder, &format!("conformance --cases cases --out answers.jsonl {flags}"));
        let told = "error: none.txt: cannot be read: no such file or directory\n";
        assert_eq!((code, out.as_str(), err.as_str()), (2, "", told), "{flags}");
        assert!(!folder.0.join("answers.jsonl").exists(), "{flags}");
    }
}

#[test]
fn cases_whose_definitions_are_refused_are_answered_into_a_file() {
    let thing = r#""crds": [{"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "things.example.com"}}]"#;
    let folder = away(&SHARED.replace(r#""crds": []"#, thing));
    let (code, out, err) = ran_in(&folder, "conformance --cases cases --out answers.jsonl");
    assert_eq!((code, out.as_str()), (2, ""));
    let told = "error: the simulated server cannot be prepared for the cases: the definition of things was refused: 400 ";
    assert!(err.starts_with(told) && err.ends_with("; the answers are in answers.jsonl\n"), "{err}");
    assert_eq!(statuses(&folder, "answers.jsonl"), ["201", "404"]);
}
