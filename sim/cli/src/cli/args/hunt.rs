//! What the command line of `hunt` says.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use sim_config::Setting;
use sim_config::time::Span;

use super::super::complete;
use super::format::Format;
use super::value::{jobs, positive, seed, setting};

/// Arguments of `hunt`: where it searches, how long, and what it keeps.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = HUNT_EXAMPLES)]
pub struct HuntArgs {
    /// Scenario files, or folders of them
    #[arg(value_name = "SCENARIO", required = true, add = ArgValueCompleter::new(complete::scenario_files))]
    pub scenarios: Vec<PathBuf>,
    /// Only the scenario, or the variant in a file, of this name
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::scenarios))]
    pub variant: Option<String>,
    /// Keep plans here and go on with those that are there; further folders are taken over
    #[arg(long, value_name = "DIR")]
    pub corpus: Vec<PathBuf>,
    /// What the search draws from [default: that of the corpus, or 0]
    #[arg(long, value_name = "S", value_parser = seed, allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// How many runs of each scenario [default: as many as it has seeds]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub runs: Option<u64>,
    /// Stop starting runs after this much real time, e.g. 10m
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    pub jobs: Option<usize>,
    /// Stop with the first find of each scenario
    #[arg(long)]
    pub first: bool,
    /// Change a setting of the scenario; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting, add = ArgValueCandidates::new(complete::settings))]
    pub set: Vec<Setting>,
    /// Turn on a mutation of the system (see `list mutations`); repeatable
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub mutation: Vec<String>,
    /// Make plans of any that seeds drew, whatever they reached: to see what guidance is worth
    #[arg(long)]
    pub unguided: bool,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
    /// Where to write plans of finds [default: target/ipam-sim]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Leave the plans of finds as they are
    #[arg(long)]
    pub no_shrink: bool,
}

const HUNT_EXAMPLES: &str = "\
Examples:
  ipam-sim hunt scenarios/chaos/byom-swarm.toml --budget 10m --corpus corpus
  ipam-sim hunt scenarios/chaos/byom-swarm.toml --runs 1000 --corpus corpus --corpus theirs
  ipam-sim hunt scenarios/smoke/counter-faults.toml --mutation counter-decides-once --first

The same seed and number of runs give the same result, with any number of threads.";
