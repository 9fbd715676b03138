//! What the command line of `gate` says.

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
    /// How much real time there is; what does not fit is left out, and named
    #[arg(long, value_name = "TIME", default_value = "170s")]
    pub budget: Span,
    /// Run this many times as many seeds as the scenarios that must hold say
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 10)]
    pub times: u64,
    /// The first seed of each scenario that must hold
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub from: u64,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    pub jobs: Option<usize>,
    /// Do part K of N, K from 1; /N takes K from the job; join with `merge`
    #[arg(long, value_name = "K/N")]
    pub shard: Option<ShardChoice>,
    /// Turn on a mutation in every part that must hold; repeatable
    #[arg(long = "mutation", alias = "deviation", value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub mutation: Vec<String>,
    /// The behaviour that must hold: hardened, or as upstream is
    #[arg(long, value_name = "PROFILE", value_parser = profile())]
    pub profile: Option<Profile>,
    /// Where smoke, chaos and negative scenarios are
    #[arg(long, value_name = "DIR", default_value = "scenarios")]
    pub scenarios: PathBuf,
    /// Plans that once failed, if there are any
    #[arg(long, value_name = "DIR", default_value = "ci/regressions")]
    pub regressions: PathBuf,
    /// Plans with the digests they must give, if there are any
    #[arg(long, value_name = "DIR", default_value = "ci/digests")]
    pub digests: PathBuf,
    /// Which coverage points are rare: the others must be reached
    #[arg(long, value_name = "FILE", default_value = "ci/coverage.toml")]
    pub coverage: PathBuf,
    /// For other programs.
    #[command(flatten)]
    pub outputs: Outputs,
    /// Where to write plans of failing seeds [default: target/ipam-sim]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Use DIR though another process or sweep does
    #[arg(long, requires = "out")]
    pub force: bool,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
    /// What `shard` and the environment come to.
    #[arg(skip)]
    pub part: Option<Shard>,
}

impl GateArgs {
    /// Whether scenarios that must hold run as they are, without a mutation or a deviation of upstream.
    pub fn is_hardened(&self) -> bool {
        self.mutation.is_empty() && self.profile.is_none_or(|profile| profile == Profile::Hardened)
    }
}

const GATE_EXAMPLES: &str = "\
Examples:
  ipam-sim gate
  ipam-sim gate --budget 60s --junit gate.xml --summary gate.md --github
  ipam-sim gate --times 500 --budget 30m --shard 2/4 --format json > 2.json";
