//! The command line of `run`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use sim_config::Setting;
use sim_config::time::Span;
use sim_harness::deviation::Profile;
use sim_harness::engine::Seeds;
use sim_harness::engine::Shard;

use super::super::complete;
use super::format::Format;
use super::shard::ShardChoice;
use super::value::{jobs, positive, profile, seed, setting};

/// The usage line for a program of this name: clap would not show that a scenario is needed, which may come from `--manifests`.
pub(super) fn usage(program: &str) -> String {
    format!("{program} run [OPTIONS] <SCENARIO>...")
}

/// Arguments of `run`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(override_usage = usage("ipam-sim"), after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Scenario files, or folders of them
    // Not simply `required`: `Cli::read` can explain the likely reason when `--manifests` took all the values.
    #[arg(value_name = "SCENARIO", required_unless_present = "manifests", add = ArgValueCompleter::new(complete::scenario_files))]
    pub scenarios: Vec<PathBuf>,
    /// Run only the scenario, or the variant in a file, of this name
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::scenarios))]
    pub variant: Option<String>,
    /// Number of seeds [default: what the scenario says]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub seeds: Option<u64>,
    /// First seed [default: 0]
    #[arg(long, value_name = "S", value_parser = seed, allow_negative_numbers = true)]
    pub from: Option<u64>,
    /// Run only this seed
    #[arg(long, value_name = "S", value_parser = seed, allow_negative_numbers = true, conflicts_with_all = ["seeds", "from", "shard"])]
    pub seed: Option<u64>,
    /// Stop starting seeds after this much real time, e.g. 60s
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    pub jobs: Option<usize>,
    /// Run part K of N of the seeds, K from 1; /N takes K from the job; join with `merge`
    #[arg(long, value_name = "K/N")]
    pub shard: Option<ShardChoice>,
    /// Change a setting of the scenario; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting, add = ArgValueCandidates::new(complete::settings))]
    pub set: Vec<Setting>,
    /// Use your own cluster instead of the scenario's, as kubectl prints it
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub manifests: Vec<PathBuf>,
    /// Turn on a mutation of the system (see `list mutations`); repeatable
    #[arg(long = "mutation", alias = "deviation", value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub mutation: Vec<String>,
    /// Turn off a mutation that the scenario or profile turns on; repeatable
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub without: Vec<String>,
    /// Run this behaviour: hardened, or that of upstream
    #[arg(long, value_name = "PROFILE", value_parser = profile())]
    pub profile: Option<Profile>,
    /// Instead of seeds: crash at each write of each process, in the plan of one seed
    #[arg(long, conflicts_with = "shard")]
    pub every_crash_point: bool,
    /// Instead of seeds: try every placement of up to K disturbances, 1 to 3, at the requests of the plan of one seed
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=3), conflicts_with = "every_crash_point")]
    pub exhaustive: Option<u32>,
    /// With --exhaustive and --out: continue the same run where it was cut off
    #[arg(long, requires_all = ["exhaustive", "out"])]
    pub resume: bool,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
    /// Write plans of failing seeds here [default: target/ipam-sim], and runs.csv, calls.csv and reclaims.csv
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Use DIR although another process or sweep uses it
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Do not shrink the plans of failing seeds
    #[arg(long)]
    pub no_shrink: bool,
    /// Only count: explain no failure and write no plan. For the gate's fresh process.
    #[arg(long, hide = true)]
    pub no_plans: bool,
    /// The part that `shard` and the environment select.
    #[arg(skip)]
    pub part: Option<Shard>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  ipam-sim run scenarios/smoke
  ipam-sim run scenarios/chaos --budget 60s --jobs 8
  ipam-sim run scenarios/smoke --seeds 1000 --shard 2/4 --format json > 2.json";

impl RunArgs {
    /// The seeds to run.
    pub fn seeds(&self) -> Seeds {
        match self.seed {
            Some(seed) => Seeds::only(seed),
            None => Seeds { first: self.from.unwrap_or(0), count: self.seeds, shard: self.part },
        }
    }
}
