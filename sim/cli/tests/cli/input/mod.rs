//! What the program makes of input that is wrong, that never ends, or that fails: places, budgets, smaller plans.

mod budget;
mod linear;
mod places;
mod smaller;
mod variants;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ipam_sim::cli::text::Paint;
use ipam_sim::cli::{Console, Simulator, dispatch};

/// A file of the scenarios.
fn scenario(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name).canonicalize().unwrap().display().to_string()
}

/// Where a test may write.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("input").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Exit code, standard output and standard error of `ipam-sim` with these arguments.
fn ipam_sim(args: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (paint_out, paint_err) = (Paint::PLAIN, Paint::PLAIN);
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        paint_out,
        paint_err,
        width: None,
        width_err: None,
        progress_bar: false,
        interrupts: false,
        env: &|_| None,
    };
    let code = dispatch(["ipam-sim"].iter().chain(args).map(OsString::from), &Simulator, &mut console);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}
