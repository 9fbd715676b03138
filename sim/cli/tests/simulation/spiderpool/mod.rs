//! Spiderpool's allocation in the simulated cluster, as users of the program meet it: their own cluster, traces of production, and
//! `explain` compared with a run.

mod admission;
mod closed_loops;
mod drain;
mod dumps;
mod explained;
mod manifests;
mod margins;
mod names;
mod reach;
mod third_party;
mod traces;

use std::path::{Path, PathBuf};

use sim_harness::scenario::Scenario;

use crate::in_process::ipam_sim;

/// The folder of scenarios.
fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// A folder in which tests may write.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spiderpool").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A scenario with this text.
fn scenario(name: &str, text: &str) -> Scenario {
    let file = scratch(name).join("scenario.toml");
    std::fs::write(&file, text).unwrap();
    Scenario::read(&file).unwrap_or_else(|problems| panic!("{problems}"))
}
