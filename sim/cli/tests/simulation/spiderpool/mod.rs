//! Spiderpool's allocation in the world, as users of the program meet it: their own cluster, traces of production, and `explain`
//! beside what a run does.

mod admission;
mod dumps;
mod explained;
mod manifests;
mod margins;
mod names;
mod reach;
mod third_party;
mod traces;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ipam_sim::cli::text::Paint;
use ipam_sim::cli::{Console, Simulator, dispatch};
use sim_harness::scenario::Scenario;

/// The folder of scenarios.
fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Where tests may write.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spiderpool").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A scenario of this text.
fn scenario(name: &str, text: &str) -> Scenario {
    let file = scratch(name).join("scenario.toml");
    std::fs::write(&file, text).unwrap();
    Scenario::read(&file).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Exit code, standard output and standard error of `ipam-sim` with these arguments.
fn ipam_sim(args: &[&str]) -> (u8, String, String) {
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
    let args = ["ipam-sim"].into_iter().chain(args.iter().copied()).map(OsString::from);
    let code = dispatch(args, &Simulator, &mut console);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}
