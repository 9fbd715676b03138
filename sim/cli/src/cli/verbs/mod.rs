//! The verbs, a file or a folder each: they take files and arguments, and return the record that is printed.
//!
//! Arguments are resolved here into the input of the harness, [`sim_harness::engine`], which knows no command line.

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

/// The default folder for plans of failing seeds and for results, unless `--out` is given.
const OUT: &str = "target/ipam-sim";

/// The implementation of the verbs, without their printing: arguments in, a record out. It prints nothing and never ends the process.
///
/// [`Simulator`] is the real implementation; tests of the command line answer from prepared records.
///
/// Reports are returned with their exit code set: [`RunReport::new`], [`ReplayReport::judge`].
pub trait Verbs: Sync {
    /// Sweeps seeds. Called on a separate thread. It polls [`Progress::stop_requested`] between seeds; when that is true it returns the
    /// results so far, marked as interrupted.
    fn run(&self, args: &RunArgs, progress: &LiveProgress) -> Result<RunReport, CliError>;

    /// Searches through the plans of scenarios. Called on a separate thread; when [`Progress::stop_requested`] it returns the results so
    /// far, marked as interrupted.
    fn hunt(&self, args: &HuntArgs, progress: &LiveProgress) -> Result<RunReport, CliError>;

    /// Runs one plan with recording. With `args.trace` or `args.follow`, each requested event goes to `trace` as it happens or afterwards;
    /// `Break` means that the reader has stopped and no more events are needed.
    fn replay(&self, args: &ReplayArgs, trace: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError>;

    /// Makes a failing plan smaller and writes it. Called on a separate thread; when [`Progress::stop_requested`] it ends with the smallest
    /// plan found.
    fn shrink(&self, args: &ShrinkArgs, progress: &LiveProgress) -> Result<ShrinkReport, CliError>;

    /// Runs everything that CI needs within a budget. Called on a separate thread; when [`Progress::stop_requested`] it ends with the
    /// results so far, marked as interrupted.
    fn gate(&self, args: &GateArgs, progress: &LiveProgress) -> Result<GateReport, CliError>;

    /// Tries every deviation and the control group. Called on a separate thread; when [`Progress::stop_requested`] it ends with the results
    /// so far.
    fn selftest(&self, args: &SelftestArgs, progress: &LiveProgress) -> Result<MatrixReport, CliError>;

    /// Lists the parts for which [`ListArgs::wants`] is true. A scenario file that cannot be read is an error.
    fn list(&self, args: &ListArgs) -> Result<ListReport, CliError>;

    /// Checks files; findings are part of the report, not errors.
    fn check(&self, args: &CheckArgs) -> Result<CheckReport, CliError>;

    /// Compares answers with those of a real API server, and writes them. A difference is a result, not an error.
    fn conformance(&self, args: &ConformanceArgs) -> Result<ConformanceReport, CliError>;

    /// Simulates the points of `report conflicts`, or reads them, and writes tables, plots and the page. Called on a separate thread; when
    /// [`Progress::stop_requested`] it ends with the finished points, marked as interrupted.
    fn conflicts(&self, args: &ConflictsArgs, progress: &LiveProgress) -> Result<ConflictsReport, CliError>;

    /// Searches for the largest numbers of adaptors that meet objectives, or for the smallest pool that meets the objectives for the pods
    /// of a scenario; otherwise like [`Verbs::conflicts`].
    fn capacity(&self, args: &CapacityArgs, progress: &LiveProgress) -> Result<CapacityReport, CliError>;

    /// Simulates scenarios that reclaim addresses, or reads the results of an earlier report; otherwise like [`Verbs::conflicts`].
    fn leaks(&self, args: &ReclaimArgs, progress: &LiveProgress) -> Result<LeaksReport, CliError>;

    /// Simulates scenarios of any system, or reads the metrics of an earlier report; otherwise like [`Verbs::conflicts`].
    fn metrics(&self, args: &MetricsArgs, progress: &LiveProgress) -> Result<MetricsReport, CliError>;

    /// Fits a queue to the latencies of an audit log, and writes settings, the plot of the fit, tables and the page.
    fn calibrate(&self, args: &CalibrateArgs) -> Result<CalibrateReport, CliError>;

    /// Explains a decision of the system that has an explainer. If a pod gets no address, that is an answer, not an error.
    fn explain(&self, args: &ExplainArgs) -> Result<Explanation, CliError>;
}

/// The verbs as implemented with the harness, [`sim_harness::engine`].
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

/// Writes a file that the user named, in a folder that must exist: a misspelt one is not created.
pub(super) fn write_named(file: &Path, text: &str) -> io::Result<()> {
    match file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        Some(folder) => Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no folder {}", folder.display()))),
        None => output::write(file, text),
    }
}

/// Resolves the names of deviations.
fn deviations(names: &[String]) -> Result<Vec<DeviationName>, CliError> {
    let find = |name: &String| {
        let unknown = || CliError::usage(format!("there is no mutation `{name}`")).hint(DeviationName::advice(name));
        DeviationName::new(name).ok_or_else(unknown)
    };
    names.iter().map(find).collect()
}
