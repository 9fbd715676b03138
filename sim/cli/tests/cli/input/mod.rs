//! What the program makes of input that is wrong, that never ends, or that fails: places, budgets, smaller plans.

mod budget;
mod linear;
mod places;
mod smaller;
mod variants;

use std::path::{Path, PathBuf};

use crate::in_process::ipam_sim;

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
