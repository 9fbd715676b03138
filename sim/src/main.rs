//! The `ipam-sim` command.

use std::process::ExitCode;

use ipam_sim::cli;
use ipam_sim::engine::Simulator;

/// A simulated request allocates some hundred small objects; no allocator changes what a run does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main(&Simulator)
}
