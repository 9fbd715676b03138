//! The `ipam-sim` command.

use std::process::ExitCode;

use ipam_sim::cli;
use ipam_sim::engine::Simulator;

fn main() -> ExitCode {
    cli::main(&Simulator)
}
