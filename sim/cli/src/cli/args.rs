//! Arguments as plain data. Parsing never touches the disk: a path is only a path here.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use ipam_reports::matrix::FOUND_WITHIN;
use sim_config::time::Span;
use sim_harness::deviation::Profile;
use sim_harness::engine::Seeds;
use sim_harness::story::Subject;
use sim_spiderpool::input::cluster::DEFAULT_NAMESPACE;

use super::complete;
use super::report::args::ReportArgs;
use super::trace::TraceArgs;

pub use sim_config::Setting;
pub use sim_harness::engine::Shard;

/// Deterministic chaos testing of Kubernetes IP-address management.
/// Every run follows from one seed: what fails can be replayed bit for bit.
#[derive(Clone, Debug, PartialEq, Parser)]
#[command(name = "ipam-sim", version, verbatim_doc_comment, disable_help_subcommand = true, styles = STYLES, max_term_width = 100)]
#[command(after_help = TOP_EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// Colours: auto, always or never; auto heeds NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t, hide_default_value = true, hide_possible_values = true)]
    pub color: ColorChoice,
}

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default());

const TOP_EXAMPLES: &str = "\
Examples:
  ipam-sim run scenarios/smoke
  ipam-sim run scenarios/negative/counter-decides-once.toml
  ipam-sim replay target/ipam-sim/counter-decides-once-0.toml --trace

Exit codes: 0 all held, 1 violated, 2 bad input, 3 liveness claim violated,
4 vacuous, 5 nondeterministic, 6 incomplete, 70 bug of the harness, 130 or 143 interrupted.";

/// The verbs.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Verb {
    /// Run scenarios over many seeds and judge their claims
    Run(RunArgs),
    /// Run one plan or seed again and look closely
    Replay(ReplayArgs),
    /// Make a failing plan smaller, and say what its failure needs
    Shrink(ShrinkArgs),
    /// See how soon each known mutation is noticed: the kill matrix
    Selftest(SelftestArgs),
    /// Show what there is: scenarios, claims, faults, mutations
    List(ListArgs),
    /// Validate scenarios, plans and manifests without running them
    Check(CheckArgs),
    /// Everything CI needs, within a budget: what must hold, what must be found, what must repeat
    Gate(GateArgs),
    /// Join the JSON results of shards into one verdict
    Merge(MergeArgs),
    /// What the API server answers, beside what a real kube-apiserver answered
    Conformance(ConformanceArgs),
    /// Why a pod gets this pool and this address, or none
    Explain(ExplainArgs),
    /// What a planner asks: statistics, tables and plots
    Report(ReportArgs),
    /// What a cluster's pods did, as a trace: from its audit log, or from kubectl's output
    Trace(TraceArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

/// Arguments of `run`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(override_usage = "ipam-sim run [OPTIONS] <SCENARIO>...", after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Scenario files, or folders of them
    // Not simply required: `Cli::read` knows the likely reason when `--manifests` took them all.
    #[arg(value_name = "SCENARIO", required_unless_present = "manifests", add = ArgValueCompleter::new(complete::scenario_files))]
    pub scenarios: Vec<PathBuf>,
    /// Only the scenario, or the variant in a file, of this name
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::scenarios))]
    pub variant: Option<String>,
    /// How many seeds [default: what the scenario says]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub seeds: Option<u64>,
    /// The first seed [default: 0]
    #[arg(long, value_name = "S", value_parser = seed, allow_negative_numbers = true)]
    pub from: Option<u64>,
    /// Just this seed
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
    /// Your own cluster instead of the scenario's, as kubectl prints it
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub manifests: Vec<PathBuf>,
    /// Turn on a mutation of the system (see `list mutations`); repeatable
    #[arg(long = "mutation", alias = "deviation", value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub mutation: Vec<String>,
    /// Turn off a mutation that the scenario or profile turns on; repeatable
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub without: Vec<String>,
    /// The behaviour to run: hardened, or as upstream is
    #[arg(long, value_name = "PROFILE", value_parser = profile())]
    pub profile: Option<Profile>,
    /// Instead of seeds: a crash at each write of each process, in the plan of one seed
    #[arg(long, conflicts_with = "shard")]
    pub every_crash_point: bool,
    /// Instead of seeds: every placement of up to K disturbances, 1 to 3, at the requests of the plan of one seed
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=3), conflicts_with = "every_crash_point")]
    pub exhaustive: Option<u32>,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
    /// Where to write plans of failing seeds [default: target/ipam-sim], and runs.csv, calls.csv and reclaims.csv
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Use DIR though another process or sweep does
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Leave the plans of failing seeds as they are
    #[arg(long)]
    pub no_shrink: bool,
    /// Only count: explain no failure and write no plan. For the gate's fresh process.
    #[arg(long, hide = true)]
    pub no_plans: bool,
    /// What `shard` and the environment come to.
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
    /// Which variant of the scenario's file
    #[arg(long, value_name = "NAME", requires = "seed", add = ArgValueCandidates::new(complete::scenarios))]
    pub variant: Option<String>,
    /// Print every event
    #[arg(long)]
    pub trace: bool,
    /// Only what touched an address, pod:NS/NAME or object:KIND/NS/NAME, and why
    #[arg(long, value_name = "WHAT")]
    pub follow: Option<Subject>,
    /// Stop at this point in model time, e.g. 41.2s
    #[arg(long, value_name = "TIME")]
    pub until: Option<Span>,
    /// Draw the run as one HTML file: lanes, messages, writes, faults, states
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub html: Option<PathBuf>,
    /// Write the run as a trace that ui.perfetto.dev opens: processes, operations, requests, faults
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub perfetto: Option<PathBuf>,
    /// Write the history of operations for checkers such as Knossos: EDN, or JSON if FILE ends so
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub jepsen: Option<PathBuf>,
    /// Write every API object as YAML, as it is at the end or at --until
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub dump: Option<PathBuf>,
    /// Show where this run and that of another plan part
    #[arg(long, value_name = "PLAN")]
    pub against: Option<PathBuf>,
    /// Insist on the recorded digest, also if another build recorded it
    #[arg(long)]
    pub same_digest: bool,
    /// How to print the result; json has the history of the run
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

/// Arguments of `shrink`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = SHRINK_EXAMPLES)]
pub struct ShrinkArgs {
    /// A plan file that violates a claim
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// The claim that must stay violated [default: the one violated first]
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::claims))]
    pub claim: Option<String>,
    /// Where to write the smaller plan [default: PLAN with -min in its name]
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub out: Option<PathBuf>,
    /// Run this many candidates at most [default: 20000, of 50 million events in all]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub runs: Option<u64>,
    /// Stop after this much real time with what there is
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

const SHRINK_EXAMPLES: &str = "\
Examples:
  ipam-sim shrink target/ipam-sim/counter-decides-once-0.toml
  ipam-sim shrink old.toml --claim no-increment-is-lost --out small.toml --budget 5m

The same plan gives the same smaller plan, unless --budget cuts it off.";

/// Arguments of `selftest`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = SELFTEST_EXAMPLES)]
pub struct SelftestArgs {
    /// Scenario files, or folders of them: negative ones, swarms and the folder `control`
    #[arg(value_name = "PATH", default_value = "scenarios")]
    pub paths: Vec<PathBuf>,
    /// Only this mutation, and no control group; repeatable
    #[arg(long = "mutation", alias = "deviation", value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub mutation: Vec<String>,
    /// Try each in scenarios that must hold, not in those about it
    #[arg(long)]
    pub must_hold: bool,
    /// In your own cluster instead of the scenarios': what would a sweep of it notice?
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "must_hold")]
    pub manifests: Vec<PathBuf>,
    /// The most seeds of a range; each ends with its first find
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = FOUND_WITHIN)]
    pub seeds: u64,
    /// How many disjoint ranges of seeds
    #[arg(long, value_name = "R", value_parser = positive, default_value_t = 3)]
    pub ranges: u64,
    /// Stop after this much real time; what did not run is not judged
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    pub jobs: Option<usize>,
    /// Where to write the table as CSV [default: target/ipam-sim]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Use DIR though another process or sweep does
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Leave the failures as large as they are
    #[arg(long)]
    pub no_shrink: bool,
    /// How to print the result
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

/// Arguments of `list`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = "Examples:\n  ipam-sim list\n  ipam-sim list scenarios my-scenarios\n  ipam-sim list claims -o name")]
pub struct ListArgs {
    /// What to list [default: everything]
    #[arg(value_enum, value_name = "WHAT")]
    pub what: Option<What>,
    /// Where to look for scenarios
    #[arg(value_name = "PATH", default_value = "scenarios")]
    pub paths: Vec<PathBuf>,
    /// The form of the list: for people, for programs, or only names as WHAT/NAME
    #[arg(short, long, value_enum, value_name = "FORM", conflicts_with = "format")]
    pub output: Option<ListForm>,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

impl ListArgs {
    /// Whether this part was asked for.
    pub fn wants(&self, what: What) -> bool {
        self.what.is_none_or(|asked| asked == what)
    }
}

/// How Spiderpool is set up, and which form of it: for verbs that ask what it would say of manifests.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct FormArgs {
    /// Spiderpool's settings, in TOML or as its ConfigMap in YAML
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// The form of Spiderpool: hardened, or as upstream is
    #[arg(long, value_name = "PROFILE", value_parser = profile(), default_value = HARDENED)]
    pub profile: Profile,
    /// With this mutation of Spiderpool, too; repeatable
    #[arg(long = "mutation", alias = "deviation", value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub mutation: Vec<String>,
    /// Without this mutation of the profile; repeatable
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub without: Vec<String>,
}

impl Default for FormArgs {
    fn default() -> Self {
        Self { settings: None, profile: Profile::Hardened, mutation: Vec::new(), without: Vec::new() }
    }
}

/// Arguments of `check`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArgs {
    /// Scenario, plan and manifest files, or folders of them
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// The Spiderpool whose webhooks judge the manifests
    #[command(flatten)]
    pub form: FormArgs,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  ipam-sim check scenarios
  kubectl get pods -A -o yaml > pods.yaml && ipam-sim check pods.yaml
  kubectl get ss,sp,sr -o yaml | ipam-sim check -
  ipam-sim check manifests --settings spiderpool-conf.yaml --profile upstream

Settings and form are for the pools, subnets and reservations of manifests. Exits 0 if nothing is wrong, else 2.";

/// Arguments of `explain`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = EXPLAIN_EXAMPLES, group = clap::ArgGroup::new("which").required(true).args(["pod", "pod_file", "reclaim"]))]
pub struct ExplainArgs {
    /// The cluster as kubectl prints it: files or folders; - is standard input
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub manifests: Vec<PathBuf>,
    /// The pod, one of those in the manifests
    #[arg(long, value_name = "NS/NAME")]
    pub pod: Option<PodKey>,
    /// A file with the pod, which need not be in the cluster yet
    #[arg(long, value_name = "FILE")]
    pub pod_file: Option<PathBuf>,
    /// Instead: what reclaim would do with each address of the cluster, and why
    #[arg(long, conflicts_with_all = ["node", "cni_config", "master"])]
    pub reclaim: bool,
    /// The time of the scan, e.g. 2026-01-01T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME", conflicts_with_all = ["pod", "pod_file"])]
    pub now: Option<jiff::Timestamp>,
    /// The NIC of the ADD
    #[arg(long, value_name = "NAME", value_parser = nic, default_value = ipam_spiderpool::select::FIRST_NIC)]
    pub nic: String,
    /// The node [default: the one in the pod's spec]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// The network configuration (.conf or .conflist) of the ADD
    #[arg(long, value_name = "FILE")]
    pub cni_config: Option<PathBuf>,
    /// An address of the NIC's physical function, for match_master_subnet; repeatable
    #[arg(long, value_name = "ADDRESS")]
    pub master: Vec<std::net::IpAddr>,
    /// The cluster's Spiderpool
    #[command(flatten)]
    pub form: FormArgs,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  ipam-sim explain --manifests scenarios/manifests --pod shop/reasons
  kubectl get ns,no,sp,sr,ss,deploy,rs,po -A -o yaml | ipam-sim explain --manifests - --pod a/b
  ipam-sim explain --manifests cluster.yaml --pod-file new.yaml --node n1 --format json
  kubectl get po,no,sp,se,sts -A -o yaml | ipam-sim explain --reclaim --manifests -

Exits 0 with an answer, also if the answer is that the pod gets no address; 2 on bad input.";

/// `namespace/name` of a pod; `default` if only the name is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl FromStr for PodKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, name) = text.split_once('/').unwrap_or((DEFAULT_NAMESPACE, text));
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err("expected NS/NAME, e.g. default/web-0".to_owned());
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

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

const GATE_EXAMPLES: &str = "\
Examples:
  ipam-sim gate
  ipam-sim gate --budget 60s --junit gate.xml --summary gate.md --github
  ipam-sim gate --times 500 --budget 30m --shard 2/4 --format json > 2.json";

/// Results for other programs, besides what is printed.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Outputs {
    /// Write JUnit XML
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub junit: Option<PathBuf>,
    /// Add to this CSV in how many runs each coverage point was reached
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub ledger: Option<PathBuf>,
    /// Write a summary in Markdown
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub summary: Option<PathBuf>,
    /// Annotate files for GitHub Actions, and add to its job summary
    #[arg(long)]
    pub github: bool,
}

/// Arguments of `merge`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = "Examples:\n  ipam-sim merge 1.json 2.json 3.json 4.json")]
pub struct MergeArgs {
    /// Files with the output of `run` or `gate` with `--format json`; - is standard input
    #[arg(value_name = "RESULT", required = true)]
    pub results: Vec<PathBuf>,
    /// For other programs.
    #[command(flatten)]
    pub outputs: Outputs,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

/// What the command line of `conformance` says.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = CONFORMANCE_EXAMPLES)]
pub struct ConformanceArgs {
    /// Judge these answers, recorded elsewhere, instead of the simulated server's; - is standard input
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Only cases whose id this regular expression matches
    #[arg(long, value_name = "REGEX", value_parser = pattern)]
    pub only: Option<String>,
    /// The folder of the cases
    #[arg(long, value_name = "DIR", default_value = "ci/conformance/cases")]
    pub cases: PathBuf,
    /// What a real server answered
    #[arg(long, value_name = "FILE", default_value = "ci/conformance/recorded.jsonl")]
    pub recorded: PathBuf,
    /// Differences that are known
    #[arg(long, value_name = "FILE", default_value = "ci/conformance/allow.txt")]
    pub allow: PathBuf,
    /// Write the answers that were judged, in the form of a recording
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub out: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

const CONFORMANCE_EXAMPLES: &str = "\
Examples:
  ipam-sim conformance
  ipam-sim conformance --only ^K06 --out answers.jsonl
  ipam-sim conformance --against answers.jsonl

Exits 0 if all answers are as recorded or differ as is known, 1 if others differ, 2 on bad input.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  ipam-sim completions bash > ~/.local/share/bash-completion/completions/ipam-sim

`source <(COMPLETE=bash ipam-sim)` asks the program at each key: it knows the names of scenarios, claims,
faults and mutations, too. COMPLETE may be bash, elvish, fish, powershell or zsh.";

/// Arguments of `completions`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

// `help = None` below: a value with a help text of its own makes clap print the long, spread-out form of `--help`.

/// For whom a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    #[value(help = None)]
    Text,
    /// For programs.
    #[value(help = None)]
    Json,
}

/// The form of a list, as kubectl has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListForm {
    /// A table for people: what `--format text` prints.
    #[value(help = None)]
    Table,
    /// One object for programs: what `--format json` prints.
    #[value(help = None)]
    Json,
    /// A name on each line, for shells.
    #[value(help = None)]
    Name,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Scenario files.
    #[value(help = None)]
    Scenarios,
    /// Claims.
    #[value(help = None)]
    Claims,
    /// Faults.
    #[value(help = None)]
    Faults,
    /// Mutations.
    #[value(help = None, alias = "deviations")]
    Mutations,
}

/// What `--shard` says: the part itself, or only how many there are, while the job's environment knows which one this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardChoice {
    /// `2/4`
    Is(Shard),
    /// `/4`
    Of(u32),
}

impl FromStr for ShardChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('/').map(|total| total.parse()) {
            Some(Ok(total)) if total > 0 => Ok(Self::Of(total)),
            _ => text.parse().map(Self::Is),
        }
    }
}

/// `KEY=VALUE` of `--set`.
pub(super) fn setting(text: &str) -> Result<Setting, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok(Setting { key: key.trim().to_owned(), value: value.to_owned() }),
        _ => Err("expected KEY=VALUE, e.g. cluster.nodes=5".to_owned()),
    }
}

/// The names of the profiles on the command line.
const HARDENED: &str = "hardened";
const UPSTREAM: &str = "upstream";

/// The name of a profile.
fn profile() -> impl TypedValueParser<Value = Profile> {
    let profile = |name: String| if name == UPSTREAM { Profile::Upstream } else { Profile::Hardened };
    PossibleValuesParser::new([HARDENED, UPSTREAM]).map(profile)
}

/// A seed, decimal or with `0x`.
fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16),
        _ => text.parse(),
    };
    parsed.map_err(|_| format!("expected a seed from 0 to {}", u64::MAX))
}

/// A file that is written: the result goes to standard output, and nothing else does.
pub(super) fn output_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("expected a file, and `-` is none: ./- is a file of that name, /dev/stdout what is printed".to_owned()),
        "" => Err("expected a file".to_owned()),
        file => Ok(file.into()),
    }
}

/// The name of a network interface, as far as Linux and CNI ask for one.
fn nic(text: &str) -> Result<String, String> {
    let fine = (1..16).contains(&text.len()) && !text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace());
    if fine { Ok(text.to_owned()) } else { Err("expected the name of an interface, e.g. eth0".to_owned()) }
}

/// A text that is a regular expression.
fn pattern(text: &str) -> Result<String, String> {
    regex::Regex::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(super) fn positive(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| "expected a number from 1 on".to_owned())
}

pub(super) fn jobs(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| (1..=4_096).contains(number)).ok_or_else(|| "expected a number from 1 to 4096".to_owned())
}

impl Cli {
    /// Reads a command line, the program's name first.
    pub fn read(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(args)?;
        let cli = Self::from_arg_matches(&matches)?;
        let list_of = matches.subcommand_matches("list").filter(|list| list.value_source("paths") == Some(ValueSource::CommandLine));
        match &cli.verb {
            Verb::Run(run) if run.scenarios.is_empty() => {
                let message = "no SCENARIO is left: `--manifests` takes every path that follows it, so name the scenario before it";
                Err(command
                    .find_subcommand_mut("run")
                    .expect("run is a verb")
                    .error(clap::error::ErrorKind::MissingRequiredArgument, message))
            }
            Verb::List(list) if list_of.is_some() && !list.wants(What::Scenarios) => {
                let message = "a PATH says where to look for scenarios, and those are not listed";
                Err(command.find_subcommand_mut("list").expect("list is a verb").error(clap::error::ErrorKind::ArgumentConflict, message))
            }
            _ => Ok(cli),
        }
    }
}
