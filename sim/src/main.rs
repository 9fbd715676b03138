//! The `ipam-sim` command.

use std::ops::ControlFlow;
use std::process::ExitCode;

use ipam_reports::replay::TraceLine;
use ipam_reports::{CheckReport, ListReport, ReplayReport, RunReport};
use ipam_sim::cli::args::{CheckArgs, ListArgs, ReplayArgs, RunArgs};
use ipam_sim::cli::{self, CliError, Engine, Progress};

fn main() -> ExitCode {
    cli::main(&NoEngine)
}

/// Stands in until the sweep module brings the real one: every verb that simulates says that this build cannot.
struct NoEngine;

impl NoEngine {
    fn missing<T>(&self) -> Result<T, CliError> {
        Err(CliError::harness("this build holds no simulation engine"))
    }
}

impl Engine for NoEngine {
    fn run(&self, _: &RunArgs, _: &Progress) -> Result<RunReport, CliError> {
        self.missing()
    }

    fn replay(&self, _: &ReplayArgs, _: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError> {
        self.missing()
    }

    fn list(&self, _: &ListArgs) -> Result<ListReport, CliError> {
        self.missing()
    }

    fn check(&self, _: &CheckArgs) -> Result<CheckReport, CliError> {
        self.missing()
    }
}
