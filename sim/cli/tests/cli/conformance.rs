//! The simulated API server against what a real one was recorded to answer.

use std::path::{Path, PathBuf};

use api_conformance::{Allowed, Kit, Record, Recording, Verdict, compare};

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
