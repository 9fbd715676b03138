//! The verbs of the command line, carried out.

mod check;
mod crash_points;
mod explain;
mod form;
mod gate;
mod list;
mod load;
mod replay;
mod report;
mod selftest;
mod shrink;
mod sweep;
mod tables;

use std::ops::ControlFlow;

use crate::cli::args::{CheckArgs, ExplainArgs, GateArgs, ListArgs, ReplayArgs, RunArgs, SelftestArgs, ShrinkArgs};
use crate::cli::report::args::{CapacityArgs, ConflictsArgs, ReclaimArgs};
use crate::cli::{CliError, Engine, Progress};
use crate::input::Problems;
use ipam_reports::replay::TraceLine;
use ipam_reports::{
    CapacityReport, CheckReport, ConflictsReport, ExplainReclaimReport, ExplainReport, GateReport, LeaksReport, ListReport, MatrixReport,
    ReplayReport, RunReport, ShrinkReport,
};

/// Which build this is: digests are comparable within one build.
pub const BUILD: &str = env!("IPAM_SIM_BUILD");

/// The stack of a thread that runs plans: a process of the system under test is a dozen futures deep, and without optimisation each of
/// them takes kilobytes.
pub(crate) const STACK_BYTES: usize = 32 << 20;

/// Starts a thread with room for running plans.
fn spawn_worker<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> std::thread::ScopedJoinHandle<'scope, T> {
    let started = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
    started.unwrap_or_else(|error| panic!("failed to start a thread: {error}"))
}

/// The simulator behind the command line.
pub struct Simulator;

impl Engine for Simulator {
    fn run(&self, args: &RunArgs, progress: &Progress) -> Result<RunReport, CliError> {
        sweep::run(args, progress)
    }

    fn replay(&self, args: &ReplayArgs, trace: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError> {
        replay::replay(args, trace)
    }

    fn shrink(&self, args: &ShrinkArgs, progress: &Progress) -> Result<ShrinkReport, CliError> {
        shrink::verb(args, progress)
    }

    fn gate(&self, args: &GateArgs, progress: &Progress) -> Result<GateReport, CliError> {
        gate::gate(args, progress)
    }

    fn selftest(&self, args: &SelftestArgs, progress: &Progress) -> Result<MatrixReport, CliError> {
        selftest::selftest(args, progress)
    }

    fn list(&self, args: &ListArgs) -> Result<ListReport, CliError> {
        list::list(args)
    }

    fn check(&self, args: &CheckArgs) -> Result<CheckReport, CliError> {
        check::check(args)
    }

    fn conflicts(&self, args: &ConflictsArgs, progress: &Progress) -> Result<ConflictsReport, CliError> {
        report::conflicts(args, progress)
    }

    fn capacity(&self, args: &CapacityArgs, progress: &Progress) -> Result<CapacityReport, CliError> {
        report::capacity(args, progress)
    }

    fn leaks(&self, args: &ReclaimArgs, progress: &Progress) -> Result<LeaksReport, CliError> {
        report::leaks(args, progress)
    }

    fn explain(&self, args: &ExplainArgs) -> Result<ExplainReport, CliError> {
        explain::explain(args)
    }

    fn explain_reclaim(&self, args: &ExplainArgs) -> Result<ExplainReclaimReport, CliError> {
        explain::explain_reclaim(args)
    }
}

/// Bad input: everything that is wrong, a line each.
fn bad_input(problems: Problems) -> CliError {
    CliError::usage(problems.to_string().trim_end().to_owned())
}
