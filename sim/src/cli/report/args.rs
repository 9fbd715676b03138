//! Arguments of `report`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use ipam_reports::conflicts::System;
use ipam_reports::demand::Wanted;

use super::output::Output;
use super::vary::Vary;
use crate::cli::args::{Setting, positive};

/// Arguments of `report`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    /// The question.
    #[command(subcommand)]
    pub what: What,
}

/// What can be reported.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum What {
    /// How often adaptors that share one pool get in each other's way
    Conflicts(ConflictsArgs),
    /// How many adaptors one pool serves before an objective is missed
    Capacity(CapacityArgs),
    /// How long leaked addresses stay recorded, and how far reclaim keeps from addresses in use
    Reclaim(ReclaimArgs),
}

const REPORT_EXAMPLES: &str = "\
Examples:
  ipam-sim report conflicts
  ipam-sim report capacity --objective exhausted<1% --vary instances=2..256
  ipam-sim report reclaim
  ipam-sim report conflicts --help";

/// Arguments of `report conflicts`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = CONFLICTS_EXAMPLES)]
pub struct ConflictsArgs {
    /// Who shares the pool: byom (adaptors) or spiderpool (nodes with an agent each)
    #[arg(long, value_name = "SYSTEM", value_parser = system, default_value = "byom", conflicts_with = "from")]
    pub system: System,
    /// What to vary: instances, pool, fill, spread, latency, think (times); retry, update, selection,
    /// throttle (names); of spiderpool nodes, pods, pool, spread, latency, policy; repeatable
    /// [default: instances=2..64, or nodes=2..32, with all policies]
    #[arg(long, value_name = "KEY=VALUES")]
    pub vary: Vec<Vary>,
    /// Half the width of the intervals of conflicts and exhaustion, as a part of the value
    #[arg(long, value_name = "PART", value_parser = precision, default_value = "2%")]
    pub precision: Part,
    /// The most bursts of a point
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = BURSTS_MAX)]
    pub seeds: u64,
    /// Draw this points.csv again instead of simulating
    #[arg(long, value_name = "FILE", conflicts_with_all = ["vary", "precision", "seeds", "jobs"])]
    pub from: Option<PathBuf>,
    /// See [`Output`].
    #[command(flatten)]
    pub output: Output,
}

/// Unless `--seeds` says otherwise: enough for two adaptors that rarely meet.
pub const BURSTS_MAX: u64 = 32_000;

const CONFLICTS_EXAMPLES: &str = "\
Examples:
  ipam-sim report conflicts --out report
  ipam-sim report conflicts --vary instances=2..256 --vary retry=default-backoff,patient
  ipam-sim report conflicts --vary spread=0,50ms,250ms,1s --vary instances=16
  ipam-sim report conflicts --system spiderpool --vary nodes=2..32 --vary policy=hardened,upstream
  ipam-sim report conflicts --from report/points.csv --out again

A range of whole numbers doubles: 2..64 is 2,4,8,16,32,64. Intervals are of 95 %; a point takes
bursts until they are as narrow as --precision asks, or a quarter of it for what is small.";

/// Arguments of `report capacity`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = CAPACITY_EXAMPLES)]
pub struct CapacityArgs {
    /// A scenario of Spiderpool whose pods need a pool, e.g. of a trace; without one, bursts at a pool
    #[arg(value_name = "SCENARIO")]
    pub scenario: Option<PathBuf>,
    /// Only the variant of this name
    #[arg(long, value_name = "NAME", requires = "scenario")]
    pub variant: Option<String>,
    /// Change a setting of the scenario; repeatable
    #[arg(long, value_name = "KEY=VALUE", requires = "scenario")]
    pub set: Vec<Setting>,
    /// What must hold: 'exhausted<1%', 'allocate_p99<1s'; of pods 'refused<1%', 'wait_p99<30s'; repeatable
    #[arg(long, value_name = "METRIC<VALUE", required = true)]
    pub objective: Vec<Wanted>,
    /// Who shares the pool: byom (adaptors) or spiderpool (nodes with an agent each)
    #[arg(long, value_name = "SYSTEM", value_parser = system, default_value = "byom", conflicts_with = "scenario")]
    pub system: System,
    /// The range of adaptors or nodes, and what to vary besides, as for `report conflicts`
    /// [default: instances=2..256, nodes=2..64]
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "scenario")]
    pub vary: Vec<Vary>,
    /// The most bursts of a point; what they leave open counts as missed; of a scenario its runs
    /// [default: 4000; what the scenario says]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub seeds: Option<u64>,
    /// See [`Output`].
    #[command(flatten)]
    pub output: Output,
}

/// Of bursts, unless `--seeds` says otherwise: a number that more than these do not decide is close enough to the largest.
pub const CAPACITY_BURSTS_MAX: u64 = 4_000;

const CAPACITY_EXAMPLES: &str = "\
Examples:
  ipam-sim report capacity --objective 'exhausted<1%' --objective 'allocate_p99<1s'
  ipam-sim report capacity --objective 'exhausted<1%' --vary retry=default-backoff,twelve,patient
  ipam-sim report capacity --objective 'exhausted<1%' --system spiderpool --vary pods=8
  ipam-sim report capacity scenarios/capacity/trace-hour.toml --objective 'refused<1%'

A number of adaptors meets an objective when the whole interval of 95 % does. The search takes it
that more adaptors never meet one that fewer miss.";

impl CapacityArgs {
    /// The command line that asks for the same, for whoever reads the report.
    pub fn command(&self) -> String {
        let objectives = self.objective.iter().map(|objective| format!(" --objective '{}'", objective.to_string().replace(' ', "")));
        let vary = self.vary.iter().map(|vary| format!(" --vary {vary}"));
        let seeds = self.seeds.iter().map(|seeds| format!(" --seeds {seeds}"));
        let scenario = self.scenario.iter().map(|file| format!(" {}", file.display()));
        let variant = self.variant.iter().map(|name| format!(" --variant {name}"));
        let set = self.set.iter().map(|setting| format!(" --set '{}={}'", setting.key, setting.value));
        let verb = std::iter::once("ipam-sim report capacity".to_owned());
        verb.chain(scenario).chain(variant).chain(set).chain(objectives).chain(of_system(self.system)).chain(vary).chain(seeds).collect()
    }
}

/// Arguments of `report reclaim`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = RECLAIM_EXAMPLES)]
pub struct ReclaimArgs {
    /// A scenario file with `reclaim = true`, each variant for itself [default: reclaim-leaks, built in]
    #[arg(value_name = "SCENARIO")]
    pub scenario: Option<PathBuf>,
    /// Only the variant of this name
    #[arg(long, value_name = "NAME", requires = "scenario")]
    pub variant: Option<String>,
    /// How many seeds of each [default: what the scenario says]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub seeds: Option<u64>,
    /// Change a setting of the scenario; repeatable
    #[arg(long, value_name = "KEY=VALUE", requires = "scenario")]
    pub set: Vec<Setting>,
    /// Draw this reclaims.csv again instead of simulating
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "seeds", "jobs"])]
    pub from: Option<PathBuf>,
    /// See [`Output`].
    #[command(flatten)]
    pub output: Output,
}

const RECLAIM_EXAMPLES: &str = "\
Examples:
  ipam-sim report reclaim --out report
  ipam-sim report reclaim scenarios/smoke/unreachable-node.toml --seeds 200
  ipam-sim report reclaim scenarios/smoke/reclaim-calm.toml --set workload.controllers=1
  ipam-sim report reclaim --from report/reclaims.csv --out again

Delays count from the end of the pod's right to its address, margins from its last answer on it.";

impl ReclaimArgs {
    /// The command line that asks for the same, for whoever reads the report.
    pub fn command(&self) -> String {
        let scenario = self.scenario.iter().map(|file| format!(" {}", file.display()));
        let variant = self.variant.iter().map(|name| format!(" --variant {name}"));
        let seeds = self.seeds.iter().map(|seeds| format!(" --seeds {seeds}"));
        let set = self.set.iter().map(|setting| format!(" --set '{}={}'", setting.key, setting.value));
        let from = self.from.iter().map(|file| format!(" --from {}", file.display()));
        std::iter::once("ipam-sim report reclaim".to_owned()).chain(scenario).chain(variant).chain(seeds).chain(set).chain(from).collect()
    }
}

/// `byom` or `spiderpool`.
fn system(text: &str) -> Result<System, String> {
    [System::Byom, System::Spiderpool]
        .into_iter()
        .find(|system| system.name() == text)
        .ok_or_else(|| format!("there is no system `{text}`; there are byom, spiderpool"))
}

/// What a command line says of the system, if it is not the usual one.
fn of_system(system: System) -> Option<String> {
    (system != System::default()).then(|| format!(" --system {}", system.name()))
}

/// A part of a whole, above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part(pub f64);

impl Default for Part {
    fn default() -> Self {
        Self(0.02)
    }
}

/// `2%` or `0.02`.
fn precision(text: &str) -> Result<Part, String> {
    let part = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match part {
        Ok(part) if (0.001..=0.5).contains(&part) => Ok(Part(part)),
        _ => Err("expected a part from 0.1% to 50%, e.g. 2% or 0.02".to_owned()),
    }
}

impl ConflictsArgs {
    /// The command line that asks for the same, for whoever reads the report.
    pub fn command(&self) -> String {
        let mut command = "ipam-sim report conflicts".to_owned();
        command.extend(of_system(self.system));
        for vary in &self.vary {
            command.push_str(&format!(" --vary {vary}"));
        }
        if self.precision != Part::default() {
            command.push_str(&format!(" --precision {}", self.precision.0));
        }
        if self.seeds != BURSTS_MAX && self.from.is_none() {
            command.push_str(&format!(" --seeds {}", self.seeds));
        }
        if let Some(from) = &self.from {
            command.push_str(&format!(" --from {}", from.display()));
        }
        command
    }
}
