//! The verbs, a file or a folder each: files and arguments in, the record that is printed out.
//!
//! Arguments are resolved here into what the harness of [`sim_harness::engine`] takes, which knows no command line.

mod check;
mod conformance;
mod gate;
mod hunt;
mod list;
mod out_folder;
mod replay;
mod report;
mod run;
mod selftest;
mod shrink;

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use ipam_reports::replay::TraceLine;
use ipam_reports::{
    CalibrateReport, CapacityReport, CheckReport, ConflictsReport, ConformanceReport, GateReport, LeaksReport, ListReport, MatrixReport,
    MetricsReport, ReplayReport, RunReport, ShrinkReport,
};
use sim_harness::deviation::DeviationName;
use sim_harness::engine::output;
use sim_harness::explainer::Explanation;
use sim_harness::system::systems;

use super::CliError;
use super::args::{CheckArgs, ConformanceArgs, ExplainArgs, GateArgs, HuntArgs, ListArgs, ReplayArgs, RunArgs, SelftestArgs, ShrinkArgs};
use super::progress::LiveProgress;
use super::report::args::{CalibrateArgs, CapacityArgs, ConflictsArgs, MetricsArgs, ReclaimArgs};
#[cfg(doc)]
use sim_harness::engine::Progress;

/// Where plans of failing seeds and results go unless `--out` says otherwise.
const OUT: &str = "target/ipam-sim";

/// What the verbs do, without their printing: arguments in, a record out. It prints nothing and never ends the process.
///
/// [`Simulator`] is the real one; tests of the command line answer from prepared records.
///
/// Reports come back with their exit code set: [`RunReport::new`], [`ReplayReport::judge`].
pub trait Verbs: Sync {
    /// Sweeps seeds. Called on a thread of its own. It polls [`Progress::stop_requested`] between seeds; when that is true it
    /// returns what it has, marked as interrupted.
    fn run(&self, args: &RunArgs, progress: &LiveProgress) -> Result<RunReport, CliError>;

    /// Searches through the plans of scenarios. Called on a thread of its own; when [`Progress::stop_requested`] it returns what it has,
    /// marked as interrupted.
    fn hunt(&self, args: &HuntArgs, progress: &LiveProgress) -> Result<RunReport, CliError>;

    /// Runs one plan with recording. With `args.trace` or `args.follow`, each event that is wanted goes to `trace` as it happens or
    /// afterwards; `Break` means that nobody reads on and no more events are wanted.
    fn replay(&self, args: &ReplayArgs, trace: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError>;

    /// Makes a failing plan smaller and writes it. Called on a thread of its own; when [`Progress::stop_requested`] it ends with what it
    /// has.
    fn shrink(&self, args: &ShrinkArgs, progress: &LiveProgress) -> Result<ShrinkReport, CliError>;

    /// Does everything that CI needs within a budget. Called on a thread of its own; when [`Progress::stop_requested`] it ends with what
    /// it has, marked as interrupted.
    fn gate(&self, args: &GateArgs, progress: &LiveProgress) -> Result<GateReport, CliError>;

    /// Tries every deviation and the control group. Called on a thread of its own; when [`Progress::stop_requested`] it ends with what it
    /// has.
    fn selftest(&self, args: &SelftestArgs, progress: &LiveProgress) -> Result<MatrixReport, CliError>;

    /// Lists the parts that [`ListArgs::wants`]. A scenario file that cannot be read is an error.
    fn list(&self, args: &ListArgs) -> Result<ListReport, CliError>;

    /// Checks files; findings are part of the report, not errors.
    fn check(&self, args: &CheckArgs) -> Result<CheckReport, CliError>;

    /// Compares answers with those of a real API server, and writes them. That they differ is a result, not an error.
    fn conformance(&self, args: &ConformanceArgs) -> Result<ConformanceReport, CliError>;

    /// Simulates the points of `report conflicts`, or reads them, and writes tables, plots and the page. Called on a thread of its own;
    /// when [`Progress::stop_requested`] it ends with the points that are finished, marked as interrupted.
    fn conflicts(&self, args: &ConflictsArgs, progress: &LiveProgress) -> Result<ConflictsReport, CliError>;

    /// Searches for the largest numbers of adaptors that meet objectives, or for the smallest pool that meets what is asked for the pods of
    /// a scenario; otherwise like [`Verbs::conflicts`].
    fn capacity(&self, args: &CapacityArgs, progress: &LiveProgress) -> Result<CapacityReport, CliError>;

    /// Simulates scenarios that reclaim addresses, or reads what an earlier report found; otherwise like [`Verbs::conflicts`].
    fn leaks(&self, args: &ReclaimArgs, progress: &LiveProgress) -> Result<LeaksReport, CliError>;

    /// Simulates scenarios of any system, or reads what an earlier report counted; otherwise like [`Verbs::conflicts`].
    fn metrics(&self, args: &MetricsArgs, progress: &LiveProgress) -> Result<MetricsReport, CliError>;

    /// Fits a queue to the latencies of an audit log, and writes settings, the picture of the fit, tables and the page.
    fn calibrate(&self, args: &CalibrateArgs) -> Result<CalibrateReport, CliError>;

    /// Explains a decision of the system that has an explainer. That a pod gets no address is an answer, not an error.
    fn explain(&self, args: &ExplainArgs) -> Result<Explanation, CliError>;
}

/// The verbs as the harness of [`sim_harness::engine`] carries them out.
pub struct Simulator;

impl Verbs for Simulator {
    fn run(&self, args: &RunArgs, progress: &LiveProgress) -> Result<RunReport, CliError> {
        run::run(args, progress)
    }

    fn hunt(&self, args: &HuntArgs, progress: &LiveProgress) -> Result<RunReport, CliError> {
        hunt::hunt(args, progress)
    }

    fn replay(&self, args: &ReplayArgs, trace: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError> {
        replay::replay(args, trace)
    }

    fn shrink(&self, args: &ShrinkArgs, progress: &LiveProgress) -> Result<ShrinkReport, CliError> {
        shrink::shrink(args, progress)
    }

    fn gate(&self, args: &GateArgs, progress: &LiveProgress) -> Result<GateReport, CliError> {
        gate::gate(args, progress)
    }

    fn selftest(&self, args: &SelftestArgs, progress: &LiveProgress) -> Result<MatrixReport, CliError> {
        selftest::selftest(args, progress)
    }

    fn list(&self, args: &ListArgs) -> Result<ListReport, CliError> {
        list::list(args)
    }

    fn check(&self, args: &CheckArgs) -> Result<CheckReport, CliError> {
        check::check(args)
    }

    fn conformance(&self, args: &ConformanceArgs) -> Result<ConformanceReport, CliError> {
        conformance::conformance(args)
    }

    fn conflicts(&self, args: &ConflictsArgs, progress: &LiveProgress) -> Result<ConflictsReport, CliError> {
        report::conflicts(args, progress)
    }

    fn capacity(&self, args: &CapacityArgs, progress: &LiveProgress) -> Result<CapacityReport, CliError> {
        report::capacity(args, progress)
    }

    fn leaks(&self, args: &ReclaimArgs, progress: &LiveProgress) -> Result<LeaksReport, CliError> {
        report::leaks(args, progress)
    }

    fn metrics(&self, args: &MetricsArgs, progress: &LiveProgress) -> Result<MetricsReport, CliError> {
        report::metrics(args, progress)
    }

    fn calibrate(&self, args: &CalibrateArgs) -> Result<CalibrateReport, CliError> {
        report::calibration(args)
    }

    fn explain(&self, args: &ExplainArgs) -> Result<Explanation, CliError> {
        let nobody = || CliError::usage("no system of this program explains its decisions");
        Ok(systems().explainer().ok_or_else(nobody)?.explain(&args.question.0)?)
    }
}

/// Writes a file that the user named, in a folder that must be there: a misspelt one is not made.
pub(super) fn write_named(file: &Path, text: &str) -> io::Result<()> {
    match file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        Some(folder) => Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no folder {}", folder.display()))),
        None => output::write(file, text),
    }
}

/// The deviations of these names.
fn deviations(names: &[String]) -> Result<Vec<DeviationName>, CliError> {
    let find = |name: &String| {
        let unknown = || CliError::usage(format!("there is no mutation `{name}`")).hint(DeviationName::advice(name));
        DeviationName::new(name).ok_or_else(unknown)
    };
    names.iter().map(find).collect()
}
