//! Arguments of `report`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ipam_reports::command::program;
use ipam_reports::demand::Wanted;
use sim_config::time::Span;

use super::output::Output;
use super::question::{Form, OtherTraces, Sharing, Trace};
use super::vary::Vary;
use crate::cli::args::{Format, positive};

/// Arguments of `report`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    /// The question to be answered.
    #[command(subcommand)]
    pub what: What,
}

/// The reports that exist.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum What {
    /// Measure how often adaptors that share one pool conflict with each other
    Conflicts(ConflictsArgs),
    /// Find the number of adaptors that one pool serves before an objective is missed
    Capacity(CapacityArgs),
    /// Measure the speed and concurrency of a real API server from its audit log
    Calibrate(CalibrateArgs),
    /// Measure how long leaked addresses stay recorded, and the margins of reclaim to addresses in use
    Reclaim(ReclaimArgs),
    /// Show what the metrics of any system count in a run, and what changes them
    Metrics(MetricsArgs),
}

const REPORT_EXAMPLES: &str = "\
Examples:
  ipam-sim report conflicts
  ipam-sim report capacity --objective 'exhausted<1%' --vary instances=2..256
  ipam-sim report reclaim
  ipam-sim report calibrate audit.log
  ipam-sim report metrics scenarios/smoke/counter-calm.toml
  ipam-sim report conflicts --help";

/// Arguments of `report conflicts`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = CONFLICTS_EXAMPLES)]
pub struct ConflictsArgs {
    /// The writers that share a pool: see [`Sharing`].
    #[command(flatten)]
    pub sharing: Sharing,
    /// Compare other retry policies at one point, best first: jitter, attempts, a lock, more pools
    #[arg(long, conflicts_with_all = ["from", "against"])]
    pub advise: bool,
    /// Half the width of the intervals of conflicts and exhaustion, as a fraction of the value
    #[arg(long, value_name = "PART", value_parser = precision, default_value = "2%", conflicts_with = "from")]
    pub precision: Part,
    /// Maximum number of bursts per point
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = BURSTS_MAX)]
    pub seeds: u64,
    /// The destination and the format: see [`Output`].
    #[command(flatten)]
    pub output: Output,
}

/// The default of `--seeds`: enough for two adaptors that rarely conflict.
pub const BURSTS_MAX: u64 = 32_000;

const CONFLICTS_EXAMPLES: &str = "\
Examples:
  ipam-sim report conflicts --vary instances=2..256 --vary retry=default-backoff,patient
  ipam-sim report conflicts --vary spread=0,50ms,250ms,1s --vary instances=16
  ipam-sim report conflicts --vary instances=8 --vary faults=none,mixed,hostile
  ipam-sim report conflicts --vary instances=8 --faults scenarios/chaos/byom-swarm.toml
  ipam-sim report conflicts --vary instances=8 --advise
  ipam-sim report conflicts --system spiderpool --vary nodes=2..32 --vary policy=hardened,upstream
  ipam-sim report conflicts --vary instances=8 --vary retry=patient --against old/conflicts
  ipam-sim report conflicts --from report/points.csv --out again

Unless something is varied: instances=2..64, or nodes=2..32, with all policies. A range of whole
numbers doubles: 2..64 is 2,4,8,16,32,64. Intervals are of 95 %; a point takes bursts until they
are as narrow as --precision asks, or a quarter of it for what is small. Faults begin while a
burst lasts, or as long before it.";

/// Arguments of `report capacity`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = CAPACITY_EXAMPLES, group = clap::ArgGroup::new("pods").multiple(true))]
pub struct CapacityArgs {
    /// Scenario of Spiderpool, e.g. with a trace; without one, bursts at a pool
    #[arg(value_name = "SCENARIO", group = "pods", conflicts_with_all = ["from", "system"])]
    pub scenario: Option<PathBuf>,
    /// The trace of pods: see [`Trace`].
    #[command(flatten)]
    pub trace: Trace,
    /// Traces in addition to the recorded one: with resampled arrivals, and with more or fewer pods.
    #[command(flatten)]
    pub others: OtherTraces,
    /// The form of the scenario: see [`Form`].
    #[command(flatten)]
    pub form: Form,
    /// Objective: 'exhausted<1%', 'allocate_p99<1s'; of pods 'refused<1%', 'wait_p99<30s'; repeatable; sizes.csv contains it
    #[arg(long, value_name = "METRIC<VALUE", required_unless_present = "from")]
    pub objective: Vec<Wanted>,
    /// The writers that share a pool: see [`Sharing`].
    #[command(flatten)]
    pub sharing: Sharing,
    /// Maximum bursts per point, or runs of a scenario; if undecided, it counts as missed [default: 4000; what the scenario says]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub seeds: Option<u64>,
    /// The destination and the format: see [`Output`].
    #[command(flatten)]
    pub output: Output,
}

/// The default of `--seeds` for bursts: a number that is still undecided after this many is close enough to the largest one.
pub const CAPACITY_BURSTS_MAX: u64 = 4_000;

const CAPACITY_EXAMPLES: &str = "\
Examples:
  ipam-sim report capacity --objective 'exhausted<1%' --vary retry=default-backoff,twelve,patient
  ipam-sim report capacity --objective 'allocate_p99<1s' --system spiderpool --vary pods=8
  ipam-sim report capacity scenarios/capacity/trace-hour.toml --objective 'refused<1%' --growth 2
  ipam-sim report capacity scenarios/capacity/trace-hour.toml --objective 'refused<1%' --resample 60
  ipam-sim report capacity --trace pods.csv --columns arrival=created --objective 'refused<1%'
  ipam-sim report capacity --from report/sizes.csv --out again

Unless something is varied: instances=2..256, or nodes=2..64. A number of adaptors meets an
objective when the whole interval of 95 % does; a size of the pool, when each run of the pods does.
The search takes it that more adaptors never meet an objective that fewer miss. Of a scenario keys
of its file are varied, e.g. workload.nodes=6,12.";

impl CapacityArgs {
    /// The command line that asks the same question, for readers of the report.
    pub fn command(&self) -> String {
        let scenario = self.scenario.iter().map(|file| file.display().to_string());
        let objectives = self.objective.iter().map(|objective| format!("--objective '{}'", objective.to_string().replace(' ', "")));
        let seeds = self.seeds.iter().map(|seeds| format!("--seeds {seeds}"));
        let words = scenario
            .chain(self.trace.words())
            .chain(self.others.words())
            .chain(self.form.words())
            .chain(objectives)
            .chain(self.sharing.words())
            .chain(seeds);
        command("capacity", words.chain(self.output.words()))
    }
}

/// Arguments of `report reclaim`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = RECLAIM_EXAMPLES)]
pub struct ReclaimArgs {
    /// Scenario file with `reclaim = true`, each variant separately [default: reclaim-leaks, built in]
    #[arg(value_name = "SCENARIO", group = "pods", conflicts_with = "from")]
    pub scenario: Option<PathBuf>,
    /// The form of the scenario: see [`Form`].
    #[command(flatten)]
    pub form: Form,
    /// Also use other values, e.g. workload.grace=5,30; repeatable
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "from")]
    pub vary: Vec<Vary>,
    /// Number of seeds of each form [default: what the scenario says]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub seeds: Option<u64>,
    /// The destination and the format: see [`Output`].
    #[command(flatten)]
    pub output: Output,
}

const RECLAIM_EXAMPLES: &str = "\
Examples:
  ipam-sim report reclaim --out report
  ipam-sim report reclaim scenarios/smoke/unreachable-node.toml --seeds 200
  ipam-sim report reclaim --vary workload.settings.SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY=0,30
  ipam-sim report reclaim --from report/reclaims.csv --out again

Delays count from the end of the pod's right to its address, margins from its last answer on it.";

impl ReclaimArgs {
    /// The command line that asks the same question, for readers of the report.
    pub fn command(&self) -> String {
        let scenario = self.scenario.iter().map(|file| file.display().to_string());
        let seeds = self.seeds.iter().map(|seeds| format!("--seeds {seeds}"));
        let vary = self.vary.iter().map(|vary| format!("--vary {vary}"));
        command("reclaim", scenario.chain(self.form.words()).chain(vary).chain(seeds).chain(self.output.words()))
    }
}

/// Arguments of `report metrics`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = METRICS_EXAMPLES)]
pub struct MetricsArgs {
    /// Scenario files of any system, or folders of them, each variant separately
    #[arg(value_name = "SCENARIO", group = "pods", required_unless_present = "from", conflicts_with = "from")]
    pub scenario: Vec<PathBuf>,
    /// The form of the scenarios: see [`Form`].
    #[command(flatten)]
    pub form: Form,
    /// Count with each of these values, e.g. workload.nodes=2,4; with several axes, every combination
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "from")]
    pub vary: Vec<Vary>,
    /// Report only this metric; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    pub metric: Vec<String>,
    /// Number of seeds of each point [default: what the scenario says]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub seeds: Option<u64>,
    /// The destination and the format: see [`Output`].
    #[command(flatten)]
    pub output: Output,
}

const METRICS_EXAMPLES: &str = "\
Examples:
  ipam-sim report metrics scenarios/smoke/counter-calm.toml --vary workload.clients=2,4,8
  ipam-sim report metrics scenarios/smoke --metric conflicts --out report
  ipam-sim report metrics --from report/values.csv --out again

Metrics are those that the system counts, and the columns of runs.csv. Claims are not judged: run does.";

impl MetricsArgs {
    /// The command line that asks the same question, for readers of the report.
    pub fn command(&self) -> String {
        let scenarios = self.scenario.iter().map(|file| file.display().to_string());
        let vary = self.vary.iter().map(|vary| format!("--vary {vary}"));
        let metrics = self.metric.iter().map(|metric| format!("--metric {metric}"));
        let seeds = self.seeds.iter().map(|seeds| format!("--seeds {seeds}"));
        command("metrics", scenarios.chain(self.form.words()).chain(vary).chain(metrics).chain(seeds).chain(self.output.words()))
    }
}

/// Arguments of `report calibrate`: the logs, and values that logs do not contain.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = CALIBRATE_EXAMPLES)]
pub struct CalibrateArgs {
    /// Audit logs of one API server, in JSON lines; - is standard input
    #[arg(value_name = "AUDIT-LOG", required = true)]
    pub logs: Vec<PathBuf>,
    /// Take service times from this resource only, e.g. configmaps; other requests still count as load
    #[arg(long, value_name = "RESOURCE")]
    pub resource: Option<String>,
    /// One-way delay between a client and the server, e.g. 300us, which no audit log has [default: the usual links]
    #[arg(long, value_name = "DURATION", value_parser = one_way)]
    pub network: Option<Span>,
    /// Write settings.toml, the plot of the fit, tables and index.html here [default: target/ipam-sim/…]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Overwrite other results in DIR
    #[arg(long)]
    pub force: bool,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

const CALIBRATE_EXAMPLES: &str = "\
Examples:
  ipam-sim report calibrate audit.log --out server
  ipam-sim report calibrate audit.log --network 300us --out server
  ipam-sim report conflicts --servers server/settings.toml --vary instances=8

The audit policy needs the level Metadata or above, and the stage ResponseComplete.";

impl CalibrateArgs {
    /// The command line that asks the same question, for readers of the report.
    pub fn command(&self) -> String {
        let logs = self.logs.iter().map(|file| file.display().to_string());
        let resource = self.resource.iter().map(|resource| format!("--resource {resource}"));
        let network = self.network.iter().map(|span| format!("--network {span}"));
        command("calibrate", logs.chain(resource).chain(network))
    }

    /// The folder into which the report is written, named or by default.
    pub fn folder(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from("target/ipam-sim/calibrate"))
    }
}

/// Parses the one-way delay of a message that a client waits for.
fn one_way(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    if span <= Span::secs(10) { Ok(span) } else { Err(format!("`{text}` is longer than 10s, and no request waits for that")) }
}

/// Composes the command line of a report.
fn command(verb: &str, words: impl Iterator<Item = String>) -> String {
    [format!("{} report", program()), verb.to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// A fraction, above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part(pub f64);

impl Default for Part {
    fn default() -> Self {
        Self(0.02)
    }
}

/// Parses a fraction written as `2%` or as `0.02`, from 0.1 % to 50 %; the error is a sentence.
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
    /// The command line that asks the same question, for readers of the report.
    pub fn command(&self) -> String {
        let advise = self.advise.then(|| "--advise".to_owned());
        let precision = (self.precision != Part::default()).then(|| format!("--precision {}", self.precision.0));
        let seeds = (self.seeds != BURSTS_MAX && self.output.from.is_none()).then(|| format!("--seeds {}", self.seeds));
        command("conflicts", self.sharing.words().chain(advise).chain(precision).chain(seeds).chain(self.output.words()))
    }
}
