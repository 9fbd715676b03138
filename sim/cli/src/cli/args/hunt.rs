//! The command line of `hunt`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use sim_config::Setting;
use sim_config::time::Span;

use super::super::complete;
use super::format::Format;
use super::value::{jobs, positive, seed, setting};

/// Arguments of `hunt`: where and how long it searches, and what it keeps.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = HUNT_EXAMPLES)]
pub struct HuntArgs {
    /// Scenario files, or folders of them
    #[arg(value_name = "SCENARIO", required = true, add = ArgValueCompleter::new(complete::scenario_files))]
    pub scenarios: Vec<PathBuf>,
    /// Run only the scenario, or the variant in a file, of this name
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::scenarios))]
    pub variant: Option<String>,
    /// Keep plans here and start from those already there; plans of further folders are added
    #[arg(long, value_name = "DIR")]
    pub corpus: Vec<PathBuf>,
    /// Seed of the search [default: that of the corpus, or 0]
    #[arg(long, value_name = "S", value_parser = seed, allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Number of runs of each scenario [default: as many as it has seeds]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub runs: Option<u64>,
    /// Stop starting runs after this much real time, e.g. 10m
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    pub jobs: Option<usize>,
    /// Stop at the first find of each scenario
    #[arg(long)]
    pub first: bool,
    /// Change a setting of the scenario; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting, add = ArgValueCandidates::new(complete::settings))]
    pub set: Vec<Setting>,
    /// Turn on a mutation of the system (see `list mutations`); repeatable
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub mutation: Vec<String>,
    /// Edit any plans drawn from seeds, whatever they reached: a baseline for guidance
    #[arg(long)]
    pub unguided: bool,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
    /// Write plans of finds here [default: target/ipam-sim]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Do not shrink the plans of finds
    #[arg(long)]
    pub no_shrink: bool,
}

const HUNT_EXAMPLES: &str = "\
Examples:
  ipam-sim hunt scenarios/chaos/byom-swarm.toml --budget 10m --corpus corpus
  ipam-sim hunt scenarios/chaos/byom-swarm.toml --runs 1000 --corpus corpus --corpus theirs
  ipam-sim hunt scenarios/smoke/counter-faults.toml --mutation counter-decides-once --first

The same seed and number of runs give the same result, with any number of threads.";
