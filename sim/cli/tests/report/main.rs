//! `report`, as a planner runs it: figures that agree with an independent model, files that do not depend on how they were made, and a
//! sentence for each error.

#[path = "../support/install.rs"]
mod install;

mod advise;
mod against;
mod calibrate;
mod capacity;
mod columns;
mod conflicts;
mod demand;
mod metrics;
mod reclaim;
mod what_if;

use std::path::Path;
use std::process::{Command, Output};

use testkit::Folder;

/// Cuts a table off after this many lines, in the middle of the next one.
fn cut(folder: &Folder, name: &str, lines: usize) {
    let kept: String = folder.text(name).lines().take(lines).map(|line| format!("{line}\n")).collect();
    folder.file(name, &(kept + "ipam-sim/po"));
}

/// The path of a file in the repository.
fn file(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).display().to_string()
}

fn report(verb: &str, arguments: &str, out: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ipam-sim"))
        // In any folder: the reports need no files.
        .current_dir(std::env::temp_dir())
        .args(["report", verb, "--out"])
        .arg(out)
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
}

fn done(verb: &str, arguments: &str, out: &Path) -> String {
    let output = report(verb, arguments, out);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(verb: &str, arguments: &str, out: &Path, expected: &str) {
    let output = report(verb, arguments, out);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments}: {said}");
    assert!(said.contains(expected), "{arguments}: {said}");
}
