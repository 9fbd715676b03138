//! `gate`: everything that a change must pass, within a budget.
//!
//! ```text
//!  read everything ─► kept plans ─► first seeds ─► a tenth of each sample ─► what is required ─► more of the samples ─► the rest ─► explain failures
//!                                   measures                                what fits, evenly   a quarter of the time   what fits   what is left
//! ```
//! If there is enough time, the seeds that run depend only on files and flags, so that two merged shards give the same result as one
//! machine. Otherwise required seeds come first, and the report lists what did not run.

mod budget;
mod cases;
mod expected;
mod fresh;
mod kept;
mod score;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ipam_reports::command::program;
use ipam_reports::gate::Part;
use ipam_reports::{GateCase, GateReport, Seconds, SeedRange, Shards, Verdict, exit, human};
use sim_harness::engine::Progress;
use sim_harness::engine::build;
use sim_harness::engine::shrink::Explainer;
use sim_harness::engine::sweep;
use sim_harness::engine::thread_pool::jobs;

use self::budget::Need;
use self::cases::{Case, Cases, DETERMINISM_SEEDS, Job, Sweep, count};
use crate::cli::CliError;
use crate::cli::args::GateArgs;
use crate::cli::verbs::out_folder::{OutFolder, UsualFolder};

pub(super) use self::cases::with_excuses_of;

/// The number of seeds that a case runs before its speed is known, and that it starts with while its violation is not found.
const FIRST: u64 = DETERMINISM_SEEDS;

/// One in this many cases of a sample runs before everything that is optional.
const SAMPLE: usize = 10;
/// The fraction of the budget that is reserved so that the last seeds end within it.
const TO_END: f64 = 0.03;
/// The fraction of the budget that is reserved for explaining failures, once there are any.
const TO_EXPLAIN: f64 = 0.15;

/// The time of a gate, divided into parts.
struct Clock {
    until: Instant,
    budget: Duration,
    began: Instant,
    /// Whether a failure has to be explained.
    failed: Cell<bool>,
}

impl Clock {
    fn new(budget: Duration) -> Self {
        let began = Instant::now();
        Self { began, budget, until: began + budget, failed: Cell::new(false) }
    }

    /// The latest start of a seed.
    fn work_until(&self) -> Instant {
        self.until - self.budget.mul_f64(if self.failed.get() { TO_EXPLAIN } else { TO_END })
    }

    fn work_left(&self) -> Duration {
        self.work_until().saturating_duration_since(Instant::now())
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Runs everything that CI needs.
pub(super) fn gate(args: &GateArgs, progress: &dyn Progress) -> Result<GateReport, CliError> {
    let clock = Clock::new(args.budget.0);
    let Cases { mut cases, remarks } = cases::collect(args)?;
    // The coverage file does not apply to runs with mutations.
    let expected = if args.is_hardened() { expected::read(&args.coverage)? } else { None };
    let _alone = args.out.as_ref().map(|out| OutFolder::claim(out, None, args.force)).transpose()?;
    let usual = args.out.is_none().then(UsualFolder::take);
    let out = args.out.clone().or_else(|| Some(usual.as_ref()?.path.clone())).unwrap_or_default();
    let gate = Gate { args, progress, clock, jobs: jobs(args.jobs), out };
    gate.run_kept_plans(&mut cases);
    gate.run_first_seeds(&mut cases, |part| !part.is_sample());
    gate.run_a_tenth_of_samples(&mut cases);
    gate.run_up_to(&mut cases, required);
    gate.run_first_seeds(&mut cases, Part::is_sample);
    gate.compare_with_fresh_processes(&mut cases, gate.clock.work_left() / 4, |_| true);
    gate.try_mutations(&mut cases, gate.clock.work_left() / 2);
    gate.run_up_to(&mut cases, |is| is.planned);
    gate.compare_with_fresh_processes(&mut cases, gate.clock.work_left(), |_| true);
    gate.try_mutations(&mut cases, gate.clock.work_left());

    let mut report = GateReport {
        build: Some(build().to_owned()),
        interrupted: progress.stop_requested(),
        shards: args.part.and_then(|part| Shards::one(part.index, part.total)),
        budget: Seconds::from(args.budget.0),
        expected,
        remarks,
        ..GateReport::default()
    };
    cases.sort_by_key(|case| (case.is.part, case.is.number));
    let mut given_up = 0;
    for mut case in cases {
        if gate.needs_explaining(&report, &case) {
            given_up += gate.explain(&mut case);
        }
        if !case.is.part.must_hold() {
            case.is.result.coverage.clear();
        }
        report.cases.push(case.is);
    }
    report.judge_coverage();
    if given_up > 0 {
        let plans = human::plural(given_up, "smaller plan was", "smaller plans were");
        report.remarks.push(format!("{plans} not made, as the budget ended: `{} shrink` makes one of a plan that is named", program()));
    }
    report.wall = Seconds::from(gate.clock.began.elapsed());
    report.exit_code = report.judge();
    Ok(report)
}

struct Gate<'a> {
    args: &'a GateArgs,
    progress: &'a dyn Progress,
    clock: Clock,
    jobs: usize,
    out: PathBuf,
}

impl Gate<'_> {
    fn is_over(&self) -> bool {
        self.progress.stop_requested() || self.clock.work_left().is_zero()
    }

    /// The folder for plans of a part: scenarios of several parts have the same names.
    fn folder(&self, part: Part) -> PathBuf {
        self.out.join(part.name())
    }

    fn run_kept_plans(&self, cases: &mut [Case]) {
        for case in cases {
            let out = self.folder(case.is.part);
            match &case.job {
                _ if self.is_over() => return,
                Job::Regression(plan, stage) => kept::regression(&mut case.is, plan, stage, &out),
                Job::Digest(plan, stage) => kept::digest(&mut case.is, plan, stage),
                Job::Sweep(_) | Job::Fresh(_) | Job::Mutation(_) => {}
            }
        }
    }

    fn run_first_seeds(&self, cases: &mut [Case], of: impl Fn(Part) -> bool) {
        for (is, sweep) in cases.iter_mut().filter_map(sweeping).filter(|(is, _)| of(is.part) && is.result.seeds == 0) {
            self.run_seeds(is, sweep, FIRST);
        }
    }

    /// Completes every tenth case of each sample, so that they are spread over the sample.
    fn run_a_tenth_of_samples(&self, cases: &mut [Case]) {
        self.compare_with_fresh_processes(cases, self.clock.work_left(), |place| place.is_multiple_of(SAMPLE));
        for part in [Part::Control, Part::KillMatrix] {
            let of_part = cases.iter_mut().filter_map(sweeping).filter(|(is, _)| is.part == part);
            for (is, sweep) in of_part.step_by(SAMPLE) {
                while sweep.left.is_some() && !self.is_over() {
                    let next = need(is, sweep, is.planned).seeds;
                    self.run_seeds(is, sweep, next);
                }
            }
        }
    }

    /// Runs cases until each has as many seeds as `wanted`, or time is up.
    ///
    /// The remaining time is divided again before each case: the others ran faster or slower than measured, or found what they had to find.
    fn run_up_to(&self, cases: &mut [Case], wanted: impl Fn(&GateCase) -> u64) {
        let wants = |is: &GateCase, sweep: &Sweep| sweep.left.is_some() && is.result.seeds < wanted(is);
        let mut waiting: Vec<_> = cases.iter_mut().filter_map(sweeping).filter(|(is, sweep)| wants(is, sweep)).collect();
        // Cases that must be found mostly end at once, and leave their time to the others.
        waiting.sort_by_key(|(_, sweep)| !sweep.until_found);
        while !waiting.is_empty() && !self.is_over() {
            let needs: Vec<_> = waiting.iter().map(|(is, sweep)| need(is, sweep, wanted(is))).collect();
            // If a share is close to zero, every case gets a few seeds in turn, so that the time is used.
            let seeds = budget::share(self.clock.work_left(), &needs)[0].max(FIRST).min(needs[0].seeds);
            let (is, sweep) = &mut waiting[0];
            self.run_seeds(is, sweep, seeds);
            if !wants(is, sweep) {
                waiting.remove(0);
            } else if seeds < needs[0].seeds {
                // Once the others are done there may be time for the rest of this case.
                waiting.rotate_left(1);
            }
        }
    }

    /// Runs the next seeds of a case.
    fn run_seeds(&self, is: &mut GateCase, sweep: &mut Sweep, seeds: u64) {
        let Some(left) = sweep.left.filter(|_| !self.is_over()) else { return };
        let Some(next) = SeedRange::new(left.first, seeds.min(count(left))) else { return };
        let before = is.result.seeds;
        let result = sweep::sweep(&sweep.ready, Some(next), self.jobs, Some(self.clock.work_until()), self.progress, None);
        if before == 0 {
            sweep.first = Some(Box::new(result.clone()));
        }
        is.result.join(result);
        sweep.left = next.last.checked_add(1).filter(|&first| first <= left.last).map(|first| SeedRange { first, ..left });
        let verdict = is.result.verdict();
        let stopped_short = is.result.seeds - before < count(next);
        if stopped_short || sweep.until_found && matches!(verdict, Verdict::Found | Verdict::Broken | Verdict::Nondeterministic) {
            sweep.left = None;
        }
        let failed = !matches!(verdict, Verdict::Vacuous | Verdict::NotRun | Verdict::NotFound | Verdict::ExcusedTooOften)
            && verdict.exit_code() != exit::HELD;
        if failed && is.result.expect.is_none() {
            self.clock.failed.set(true);
        }
    }

    /// Whether a case needs an explanation: its scenario must hold and does not.
    fn needs_explaining(&self, report: &GateReport, case: &Case) -> bool {
        let verdict = report.verdict(&case.is);
        matches!(case.job, Job::Sweep(_))
            && case.is.result.expect.is_none()
            && verdict.exit_code() != exit::HELD
            && verdict != Verdict::Incomplete
    }

    /// Explains the failures of a case. Returns the number of smaller plans that were not made for lack of time.
    fn explain(&self, case: &mut Case) -> u64 {
        let Job::Sweep(sweep) = &case.job else { return 0 };
        let out: &Path = &self.folder(case.is.part);
        let mut explainer = Explainer::new(out, self.progress, true).within(self.clock.left());
        sweep::write_failures(&mut case.is.result, &sweep.ready, out, &mut explainer);
        explainer.given_up()
    }
}

/// Seeds per second of scenarios, by file and name.
type Rates = BTreeMap<(String, String), f64>;

/// The rates measured so far.
fn rates(cases: &[Case]) -> Rates {
    let measured = cases.iter().filter(|case| matches!(case.is.part, Part::Smoke | Part::Chaos | Part::Negative));
    let rate = |case: &Case| {
        Some(((case.is.result.file.clone(), case.is.result.name.clone()), case.is.result.seeds_per_second().filter(|rate| *rate > 0.0)?))
    };
    measured.filter_map(rate).collect()
}

/// The number of seeds that a case must run.
fn required(is: &GateCase) -> u64 {
    is.required
}

fn sweeping(case: &mut Case) -> Option<(&mut GateCase, &mut Sweep)> {
    match &mut case.job {
        Job::Sweep(sweep) => Some((&mut case.is, sweep)),
        _ => None,
    }
}

/// The next seeds of a case, up to `wanted` seeds in all. A case that ends with a violation doubles its seeds, starting at [`FIRST`], so
/// that the same seeds run whatever the number and speed of the workers. A case that has not started is assumed to run a seed per second.
fn need(is: &GateCase, sweep: &Sweep, wanted: u64) -> Need {
    let left = sweep.left.map_or(0, count).min(wanted.saturating_sub(is.result.seeds));
    let seeds = if sweep.until_found { is.result.seeds.max(FIRST).min(left) } else { left };
    Need { seeds, per_second: is.result.seeds_per_second().filter(|rate| *rate > 0.0).unwrap_or(1.0) }
}
