//! The `ipam-sim` command.

use std::process::ExitCode;

/// A simulated request allocates some hundred small objects; no allocator changes what a run does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ipam_sim::cli::main()
}
