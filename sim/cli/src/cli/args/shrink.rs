//! The command line of `shrink`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use sim_config::time::Span;

use super::super::complete;
use super::format::Format;
use super::value::{output_file, positive};

/// Arguments of `shrink`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = SHRINK_EXAMPLES)]
pub struct ShrinkArgs {
    /// A plan file that violates a claim
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Claim that must stay violated [default: the one violated first]
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::claims))]
    pub claim: Option<String>,
    /// Write the smaller plan here [default: PLAN with -min in its name]
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub out: Option<PathBuf>,
    /// Run this many candidates at most [default: 20000, of 50 million events in all]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub runs: Option<u64>,
    /// Stop after this much real time with the smallest plan found
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

const SHRINK_EXAMPLES: &str = "\
Examples:
  ipam-sim shrink target/ipam-sim/counter-decides-once-0.toml
  ipam-sim shrink old.toml --claim no-increment-is-lost --out small.toml --budget 5m

The same plan gives the same smaller plan, unless --budget cuts it off.";
