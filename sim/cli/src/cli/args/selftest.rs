//! The command line of `selftest`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use ipam_reports::matrix::FOUND_WITHIN;
use sim_config::time::Span;

use super::super::complete;
use super::format::Format;
use super::value::{jobs, positive};

/// Arguments of `selftest`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = SELFTEST_EXAMPLES)]
pub struct SelftestArgs {
    /// Scenario files, or folders of them: negative ones, swarms and the folder `control`
    #[arg(value_name = "PATH", default_value = "scenarios")]
    pub paths: Vec<PathBuf>,
    /// Try only this mutation, without the control group; repeatable
    #[arg(long = "mutation", alias = "deviation", value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub mutation: Vec<String>,
    /// Try each mutation in scenarios that must hold, not in negative ones
    #[arg(long)]
    pub must_hold: bool,
    /// Use your own cluster instead of the scenarios': what would a sweep of it notice?
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "must_hold")]
    pub manifests: Vec<PathBuf>,
    /// Run at most this many seeds of a range; each range ends with its first find
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = FOUND_WITHIN)]
    pub seeds: u64,
    /// Number of disjoint ranges of seeds
    #[arg(long, value_name = "R", value_parser = positive, default_value_t = 3)]
    pub ranges: u64,
    /// Stop after this much real time; what did not run is not judged
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    pub jobs: Option<usize>,
    /// Write the table as CSV here [default: target/ipam-sim]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Use DIR although another process or sweep uses it
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Do not shrink the failures
    #[arg(long)]
    pub no_shrink: bool,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

impl Default for SelftestArgs {
    fn default() -> Self {
        Self {
            paths: vec![PathBuf::from("scenarios")],
            mutation: Vec::new(),
            must_hold: false,
            manifests: Vec::new(),
            seeds: FOUND_WITHIN,
            ranges: 3,
            budget: None,
            jobs: None,
            out: None,
            force: false,
            no_shrink: false,
            format: Format::Text,
        }
    }
}

const SELFTEST_EXAMPLES: &str = "\
Examples:
  ipam-sim selftest
  ipam-sim selftest --mutation byom-decide-once --seeds 200 --ranges 10
  ipam-sim selftest --must-hold --ranges 1 --budget 60s --format json > matrix.json
  ipam-sim selftest scenarios/chaos/spiderpool-swarm.toml --must-hold --manifests cluster.yaml

Fails (1) if a mutation that a claim or a crash must find is not found within 2000 seeds, if fewer
than two thirds of them are found within 200, or if a claim reports one of the control group. With
--must-hold, if fewer than nine of ten are found, or half of them not within 100 runs.";
