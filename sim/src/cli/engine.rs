//! What the command line needs from the simulator: one method a verb, records back.

use std::ops::ControlFlow;

use super::args::{CheckArgs, ExplainArgs, GateArgs, ListArgs, ReplayArgs, RunArgs, SelftestArgs, ShrinkArgs};
use super::progress::Progress;
use super::report::args::{CapacityArgs, ConflictsArgs, ReclaimArgs};
use ipam_reports::replay::TraceLine;
use ipam_reports::{
    CapacityReport, CheckReport, ConflictsReport, ExplainReclaimReport, ExplainReport, GateReport, LeaksReport, ListReport, MatrixReport,
    ReplayReport, RunReport, ShrinkReport, exit,
};

/// Does what the verbs ask for. It prints nothing and never ends the process.
///
/// Reports come back with their exit code set: [`RunReport::new`], [`ReplayReport::judge`].
pub trait Engine: Sync {
    /// Sweeps seeds. Called on a thread of its own. It polls [`Progress::stop_requested`] between seeds; when that is true it
    /// returns what it has, marked as interrupted.
    fn run(&self, args: &RunArgs, progress: &Progress) -> Result<RunReport, CliError>;

    /// Runs one plan with recording. With `args.trace` or `args.follow`, each event that is wanted goes to `trace` as it happens or afterwards;
    /// `Break` means that nobody reads on and no more events are wanted.
    fn replay(&self, args: &ReplayArgs, trace: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError>;

    /// Makes a failing plan smaller and writes it. Called on a thread of its own; when [`Progress::stop_requested`] it ends with what it has.
    fn shrink(&self, args: &ShrinkArgs, progress: &Progress) -> Result<ShrinkReport, CliError>;

    /// Does everything that CI needs within a budget. Called on a thread of its own; when [`Progress::stop_requested`] it ends with what
    /// it has, marked as interrupted.
    fn gate(&self, args: &GateArgs, progress: &Progress) -> Result<GateReport, CliError>;

    /// Tries every deviation and the control group. Called on a thread of its own; when [`Progress::stop_requested`] it ends with what it has.
    fn selftest(&self, args: &SelftestArgs, progress: &Progress) -> Result<MatrixReport, CliError>;

    /// Lists what [`ListArgs::wants`].
    fn list(&self, args: &ListArgs) -> Result<ListReport, CliError>;

    /// Checks files; findings are part of the report, not errors.
    fn check(&self, args: &CheckArgs) -> Result<CheckReport, CliError>;

    /// Simulates the points of `report conflicts`, or reads them, and writes tables, plots and the page. Called on a thread of its own; when
    /// [`Progress::stop_requested`] it ends with the points that are finished, marked as interrupted.
    fn conflicts(&self, args: &ConflictsArgs, progress: &Progress) -> Result<ConflictsReport, CliError>;

    /// Searches for the largest numbers of adaptors that meet objectives, or for the smallest pool that meets what is asked for the pods of a
    /// scenario; otherwise like [`Engine::conflicts`].
    fn capacity(&self, args: &CapacityArgs, progress: &Progress) -> Result<CapacityReport, CliError>;

    /// Simulates scenarios that reclaim addresses, or reads what an earlier report found; otherwise like [`Engine::conflicts`].
    fn leaks(&self, args: &ReclaimArgs, progress: &Progress) -> Result<LeaksReport, CliError>;

    /// Explains a decision. That a pod gets no address is an answer, not an error.
    fn explain(&self, args: &ExplainArgs) -> Result<ExplainReport, CliError>;

    /// Explains what reclaim would do with each address of a cluster.
    fn explain_reclaim(&self, args: &ExplainArgs) -> Result<ExplainReclaimReport, CliError>;
}

/// Why a verb has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CliError {
    /// What the process exits with; see [`exit`].
    pub exit_code: u8,
    /// What was wrong: a lower-case fragment with the value that was wrong. May have several lines.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl CliError {
    /// Wrong usage or bad input (2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit_code: exit::USAGE, message: message.into(), hint: None }
    }

    /// A bug of the harness (70).
    pub fn harness(message: impl Into<String>) -> Self {
        Self { exit_code: exit::HARNESS, message: message.into(), hint: None }
    }

    /// With a next step.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}
