//! Input that is wrong, never ends, or fails: positions of errors, budgets, smaller plans.

mod budget;
mod linear;
mod places;
mod smaller;
mod variants;

use std::path::{Path, PathBuf};

use crate::in_process::ipam_sim;

/// The path of a scenario file.
fn scenario(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name).canonicalize().unwrap().display().to_string()
}

/// A folder in which a test may write.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("input").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
