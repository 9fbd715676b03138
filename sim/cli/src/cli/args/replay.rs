//! The command line of `replay`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use sim_config::time::Span;
use sim_harness::causality::Subject;

use super::super::complete;
use super::format::Format;
use super::value::{output_file, seed};

/// Arguments of `replay`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayArgs {
    /// A plan file; with --seed, a scenario file
    #[arg(value_name = "PLAN")]
    pub file: PathBuf,
    /// Run the plan that this seed gives for the scenario
    #[arg(long, value_name = "S", value_parser = seed, allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Use this variant of the scenario file
    #[arg(long, value_name = "NAME", requires = "seed", add = ArgValueCandidates::new(complete::scenarios))]
    pub variant: Option<String>,
    /// Print every event
    #[arg(long)]
    pub trace: bool,
    /// Print only what touched an address, pod:NS/NAME or object:KIND/NS/NAME, and why
    #[arg(long, value_name = "WHAT")]
    pub follow: Option<Subject>,
    /// Stop at this point in model time, e.g. 41.2s
    #[arg(long, value_name = "TIME")]
    pub until: Option<Span>,
    /// Draw the run as one HTML file: lanes, messages, writes, faults, states
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub html: Option<PathBuf>,
    /// Write the run as a trace for ui.perfetto.dev: processes, operations, requests, faults
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub perfetto: Option<PathBuf>,
    /// Write the history of operations for checkers such as Knossos: as EDN, or as JSON if FILE ends so
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub jepsen: Option<PathBuf>,
    /// Write every API object as YAML, in its state at the end or at --until
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub dump: Option<PathBuf>,
    /// Show where this run and that of another plan diverge
    #[arg(long, value_name = "PLAN")]
    pub against: Option<PathBuf>,
    /// Require the recorded digest, even if another build recorded it
    #[arg(long)]
    pub same_digest: bool,
    /// Print in this format; json has the history of the run
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  ipam-sim replay target/ipam-sim/counter-decides-once-0.toml --trace
  ipam-sim replay target/ipam-sim/byom-two-1.toml --follow 10.9.0.1 --html story.html
  ipam-sim replay scenarios/smoke/counter-calm.toml --seed 7 --until 12s --dump cluster.yaml
  ipam-sim replay broken.toml --against works.toml
  ipam-sim replay broken.toml --perfetto trace.json --jepsen history.edn";
