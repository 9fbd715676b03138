//! The program as its users meet it: verdicts, exit codes, replays, exports, the gate, signals, and its messages about bad input.

#[path = "../support/in_process.rs"]
mod in_process;
#[path = "../support/install.rs"]
mod install;

mod conformance;
mod exports;
mod gate;
mod hunt;
mod input;
mod placements;
mod refusals;
mod replays;
mod shrinking;
mod signals;
mod terminal;
mod vacuous;
mod verdicts;

use std::path::Path;
use std::process::{Command, Output};

use testkit::Folder;

fn ipam_sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ipam-sim"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("NO_COLOR", "1")
        // In one of several parallel jobs, these variables would select a part of the seeds.
        .env_remove("CI_NODE_INDEX")
        .env_remove("CI_NODE_TOTAL")
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a command, and returns exit code, standard output and standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    let output = ipam_sim(args);
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

const SMALL: &str = r#"
name = "small"
why = "a test"
seeds = 5
[phases]
safety = "5s"
liveness = "20s"
[workload]
kind = "counter"
clients = 2
increments = 3
[check]
always = ["no-increment-is-lost"]
"#;

/// Runs a command, and returns its exit code and the JSON on standard output.
fn json(args: &[&str]) -> (i32, serde_json::Value) {
    let (code, out, err) = run(args);
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}
