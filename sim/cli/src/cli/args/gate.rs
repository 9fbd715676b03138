//! The command line of `gate`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use sim_config::time::Span;
use sim_harness::deviation::Profile;
use sim_harness::engine::Shard;

use super::super::complete;
use super::format::Format;
use super::outputs::Outputs;
use super::shard::ShardChoice;
use super::value::{jobs, positive, profile};

/// Arguments of `gate`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = GATE_EXAMPLES)]
pub struct GateArgs {
    /// Take at most this much real time; name whatever is left out
    #[arg(long, value_name = "TIME", default_value = "170s")]
    pub budget: Span,
    /// Multiply the number of seeds of the scenarios that must hold by this
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 10)]
    pub times: u64,
    /// Start each scenario that must hold at this seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub from: u64,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    pub jobs: Option<usize>,
    /// Run part K of N, K from 1; /N takes K from the job; join with `merge`
    #[arg(long, value_name = "K/N")]
    pub shard: Option<ShardChoice>,
    /// Turn on a mutation in every part that must hold; repeatable
    #[arg(long = "mutation", alias = "deviation", value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub mutation: Vec<String>,
    /// Require this behaviour: hardened, or that of upstream
    #[arg(long, value_name = "PROFILE", value_parser = profile())]
    pub profile: Option<Profile>,
    /// Folder of the smoke, chaos and negative scenarios
    #[arg(long, value_name = "DIR", default_value = "scenarios")]
    pub scenarios: PathBuf,
    /// Folder of plans that once failed, if any
    #[arg(long, value_name = "DIR", default_value = "ci/regressions")]
    pub regressions: PathBuf,
    /// Folder of plans with the digests that they must give, if any
    #[arg(long, value_name = "DIR", default_value = "ci/digests")]
    pub digests: PathBuf,
    /// File that lists the rare coverage points: all others must be reached
    #[arg(long, value_name = "FILE", default_value = "ci/coverage.toml")]
    pub coverage: PathBuf,
    /// Result files for other programs.
    #[command(flatten)]
    pub outputs: Outputs,
    /// Write plans of failing seeds here [default: target/ipam-sim]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Use DIR although another process or sweep uses it
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
    /// The part that `shard` and the environment select.
    #[arg(skip)]
    pub part: Option<Shard>,
}

impl GateArgs {
    /// Whether scenarios that must hold run without a mutation or a deviation of upstream.
    pub fn is_hardened(&self) -> bool {
        self.mutation.is_empty() && self.profile.is_none_or(|profile| profile == Profile::Hardened)
    }
}

const GATE_EXAMPLES: &str = "\
Examples:
  ipam-sim gate
  ipam-sim gate --budget 60s --junit gate.xml --summary gate.md --github
  ipam-sim gate --times 500 --budget 30m --shard 2/4 --format json > 2.json";
