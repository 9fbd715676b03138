//! `explain`, and `check` of manifests, as users run them, on the manifests in `scenarios/manifests` and on wrong ones.

#[path = "../support/in_process.rs"]
mod in_process;
#[path = "../support/install.rs"]
mod install;

mod adds;
mod check;
mod reclaim;
#[path = "../../../../core/spiderpool/tests/recorded/mod.rs"]
mod recorded;
mod recorded_scans;
mod recorded_selections;
mod selection_oracle;
mod stories;
mod wrong_input;

use ipam_reports::ExplainReport;

use in_process::ipam_sim;

/// The folder of the manifests, relative to the one in which tests run.
const MANIFESTS: &str = "../../scenarios/manifests";

/// Exit code, standard output and standard error of `ipam-sim explain` with these arguments.
fn explain(args: &str) -> (u8, String, String) {
    run("explain", args)
}

/// Exit code, standard output and standard error of any verb with these arguments.
fn run(verb: &str, args: &str) -> (u8, String, String) {
    ipam_sim(&std::iter::once(verb).chain(args.split_whitespace()).collect::<Vec<_>>())
}

/// The record of an answer.
fn record(args: &str) -> ExplainReport {
    let (code, out, err) = explain(&format!("{args} --format json"));
    assert_eq!(code, 0, "{err}");
    ExplainReport::from_json(&out).unwrap()
}
