//! `explain`, and `check` of manifests, as their users meet them, on the manifests in `scenarios/manifests` and on wrong ones.

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

use std::ffi::OsString;

use ipam_reports::ExplainReport;
use ipam_sim::cli::text::Paint;
use ipam_sim::cli::{Console, Simulator, dispatch};

/// Where the manifests are, from the folder in which tests run.
const MANIFESTS: &str = "../../scenarios/manifests";

/// Exit code, standard output and standard error of `ipam-sim explain` with these arguments.
fn explain(args: &str) -> (u8, String, String) {
    run("explain", args)
}

/// The same of any verb.
fn run(verb: &str, args: &str) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        paint_out: Paint::PLAIN,
        paint_err: Paint::PLAIN,
        width: None,
        width_err: None,
        progress_bar: false,
        interrupts: false,
        env: &|_| None,
    };
    let args = ["ipam-sim", verb].into_iter().chain(args.split_whitespace()).map(OsString::from);
    let code = dispatch(args, &Simulator, &mut console);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// The record of an answer.
fn record(args: &str) -> ExplainReport {
    let (code, out, err) = explain(&format!("{args} --format json"));
    assert_eq!(code, 0, "{err}");
    ExplainReport::from_json(&out).unwrap()
}
