//! Command-line arguments as plain data. Parsing never touches the disk: a path is not opened here.

mod check;
mod completions;
mod conformance;
mod explain;
mod format;
mod gate;
mod hunt;
mod list;
mod merge;
mod outputs;
mod replay;
mod run;
mod selftest;
mod shard;
mod shrink;
mod trace;
mod value;

use clap::builder::styling::{AnsiColor, Styles};
use clap::parser::ValueSource;
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use ipam_reports::command::program;
use sim_harness::system::systems;

use super::report::args::ReportArgs;

pub use check::{CheckArgs, WebhookArgs};
pub use completions::CompletionsArgs;
pub use conformance::{ALLOW, ConformanceArgs, RECORDED};
pub use explain::{ExplainArgs, QuestionArgs};
pub use format::Format;
pub use gate::GateArgs;
pub use hunt::HuntArgs;
pub use list::{ListArgs, ListForm, What};
pub use merge::MergeArgs;
pub use outputs::Outputs;
pub use replay::ReplayArgs;
pub use run::RunArgs;
pub use selftest::SelftestArgs;
pub use shard::ShardChoice;
pub use shrink::ShrinkArgs;
pub use trace::{TraceArgs, TraceFiles, TraceOf};
pub(super) use value::{jobs, positive, setting};

pub use sim_config::Setting;
pub use sim_harness::engine::Shard;

/// Deterministic chaos testing of Kubernetes IP-address management.
/// Every run follows from one seed: what fails can be replayed bit for bit.
#[derive(Clone, Debug, PartialEq, Parser)]
#[command(name = "ipam-sim", version, verbatim_doc_comment, disable_help_subcommand = true, styles = STYLES, max_term_width = 100)]
#[command(after_help = TOP_EXAMPLES)]
pub struct Cli {
    /// The verb and its arguments.
    #[command(subcommand)]
    pub verb: Verb,
    /// Colours: auto, always or never; auto heeds NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t, hide_default_value = true, hide_possible_values = true)]
    pub color: ColorChoice,
}

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default());

const TOP_EXAMPLES: &str = "\
Examples:
  ipam-sim run scenarios/smoke
  ipam-sim run scenarios/negative/counter-decides-once.toml
  ipam-sim replay target/ipam-sim/counter-decides-once-0.toml --trace

Exit codes: 0 all held, 1 violated, 2 bad input, 3 liveness claim violated,
4 vacuous, 5 nondeterministic, 6 incomplete, 70 bug of the harness, 130 or 143 interrupted.";

/// The verbs of the command line, each with its arguments.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Verb {
    /// Run scenarios over many seeds and judge their claims
    Run(RunArgs),
    /// Search scenarios by plans that reach something new, guided by coverage
    Hunt(HuntArgs),
    /// Run one plan or seed again and look closely
    Replay(ReplayArgs),
    /// Make a failing plan smaller, and show which faults and mutations its failure needs
    Shrink(ShrinkArgs),
    /// Measure how soon each known mutation is noticed: the kill matrix
    Selftest(SelftestArgs),
    /// List scenarios, claims, faults and mutations
    List(ListArgs),
    /// Validate scenarios, plans and manifests without running them
    Check(CheckArgs),
    /// Run everything CI needs, within a budget: what must hold, what must be found, what must repeat
    Gate(GateArgs),
    /// Join the JSON results of shards into one verdict
    Merge(MergeArgs),
    /// Compare the answers of the simulated API server with those of a real kube-apiserver
    Conformance(ConformanceArgs),
    /// Explain why a pod gets this pool and this address, or none
    Explain(ExplainArgs),
    /// Answer planning questions with statistics, tables and plots
    Report(ReportArgs),
    /// Make a trace of a cluster's pods from its audit log or from kubectl's output
    Trace(TraceArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

/// The definition of the command line. A program that adds systems appears under its own name, also in the examples.
pub fn command() -> clap::Command {
    let (shipped, name) = (Cli::command(), program());
    let shipped_name = shipped.get_name().to_owned();
    if name == shipped_name { shipped } else { called(shipped.name(name), &shipped_name, name) }
}

fn called(command: clap::Command, shipped: &str, name: &str) -> clap::Command {
    let examples = command.get_after_help().map(|help| help.to_string().replace(&format!("{shipped} "), &format!("{name} ")));
    let command = if let Some(examples) = examples { command.after_help(examples) } else { command };
    let command = if command.get_name() == "run" { command.override_usage(run::usage(name)) } else { command };
    command.mut_subcommands(|verb| called(verb, shipped, name))
}

impl Cli {
    /// Parses a command line, whose first word is the program's name.
    pub fn read(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, clap::Error> {
        let mut command = command();
        let matches = command.try_get_matches_from_mut(args)?;
        let cli = Self::from_arg_matches(&matches)?;
        let list_of = matches.subcommand_matches("list").filter(|list| list.value_source("paths") == Some(ValueSource::CommandLine));
        match &cli.verb {
            Verb::Run(run) if run.scenarios.is_empty() => {
                let message = "no SCENARIO is left: `--manifests` takes every path that follows it, so name the scenario before it";
                Err(command
                    .find_subcommand_mut("run")
                    .expect("run is a verb")
                    .error(clap::error::ErrorKind::MissingRequiredArgument, message))
            }
            Verb::Explain(_) if systems().explainer().is_none() => Err(explain::nobody_explains(&mut command)),
            Verb::List(list) if list_of.is_some() && !list.wants(What::Scenarios) => {
                let message = "a PATH says where to look for scenarios, and those are not listed";
                Err(command.find_subcommand_mut("list").expect("list is a verb").error(clap::error::ErrorKind::ArgumentConflict, message))
            }
            _ => Ok(cli),
        }
    }
}
