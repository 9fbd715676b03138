//! `gate`: everything that a change must pass, within a budget.
//!
//! ```text
//!  read everything ─► kept plans ─► first seeds of each case ─► same seeds in a fresh process ─► the rest ─► explain failures
//!                                   measures seeds per second    a quarter of the time at most    what fits   what is left
//! ```
//! Where the time suffices, which seeds run depends on files and flags alone, so that two shards merged are what one machine would
//! give. Where it does not, cases are cut short, and the report names them.

mod budget;
mod cases;
mod fresh;
mod kept;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ipam_reports::gate::Part;
use ipam_reports::{GateReport, Seconds, SeedRange, Shards, Verdict};
use sim_harness::engine::Progress;
use sim_harness::engine::build;
use sim_harness::engine::shrink::Explainer;
use sim_harness::engine::sweep;
use sim_harness::engine::thread_pool::jobs;

use self::budget::Need;
use self::cases::{Case, Cases, Job, Sweep};
use crate::cli::CliError;
use crate::cli::args::GateArgs;
use crate::cli::verbs::OUT;

/// How many seeds a case runs before it is known how fast it is, and while its violation is not found: two chunks of a sweep.
const FIRST: u64 = 16;

/// The time of a gate, cut into parts.
struct Clock {
    began: Instant,
    /// No seed starts later.
    work_until: Instant,
    /// No explanation starts later.
    until: Instant,
}

impl Clock {
    fn new(budget: Duration) -> Self {
        let began = Instant::now();
        // What is kept back explains failures, and lets the last seeds end.
        Self { began, work_until: began + budget.mul_f64(0.85), until: began + budget }
    }

    fn work_left(&self) -> Duration {
        self.work_until.saturating_duration_since(Instant::now())
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Does everything that CI needs.
pub(super) fn gate(args: &GateArgs, progress: &dyn Progress) -> Result<GateReport, CliError> {
    let clock = Clock::new(args.budget.0);
    let Cases { mut cases, remarks } = cases::collect(args)?;
    let gate = Gate { args, progress, clock, jobs: jobs(args.jobs), out: args.out.clone().unwrap_or_else(|| PathBuf::from(OUT)) };
    gate.run_kept_plans(&mut cases);
    gate.run_first_seeds(&mut cases);
    gate.compare_with_fresh_processes(&mut cases);
    gate.run_the_rest(&mut cases);

    let mut report = GateReport {
        build: Some(build().to_owned()),
        interrupted: progress.stop_requested(),
        shards: args.part.and_then(|part| Shards::one(part.index, part.total)),
        budget: Seconds::from(args.budget.0),
        remarks,
        ..GateReport::default()
    };
    cases.sort_by_key(|case| (case.is.part, case.is.number));
    for mut case in cases {
        if gate.needs_explaining(&report, &case) {
            gate.explain(&mut case);
        }
        report.cases.push(case.is);
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

    /// Where plans of a part go: scenarios of several parts have the same names.
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
                Job::Sweep(_) | Job::Fresh(_) => {}
            }
        }
    }

    fn run_first_seeds(&self, cases: &mut [Case]) {
        for (is, sweep) in cases.iter_mut().filter_map(sweeping) {
            self.run_seeds(is, sweep, FIRST);
        }
    }

    fn compare_with_fresh_processes(&self, cases: &mut [Case]) {
        let until = Instant::now() + self.clock.work_left() / 4;
        for case in cases {
            if let Job::Fresh(ready) = &case.job {
                if self.is_over() || Instant::now() >= until {
                    return;
                }
                fresh::compare(&mut case.is, ready, self.args, self.progress);
            }
        }
    }

    /// Shares the time that is left anew before each case: the others ran faster or slower than they were measured, or found what they
    /// had to find.
    fn run_the_rest(&self, cases: &mut [Case]) {
        let mut waiting: Vec<_> = cases.iter_mut().filter_map(sweeping).filter(|(_, sweep)| sweep.left.is_some()).collect();
        // What must be found is mostly over at once, and leaves its time to the others.
        waiting.sort_by_key(|(_, sweep)| !sweep.until_found);
        while !waiting.is_empty() && !self.is_over() {
            let needs: Vec<_> = waiting.iter().map(|(is, sweep)| need(is, sweep)).collect();
            let seeds = budget::share(self.clock.work_left(), &needs)[0];
            let (is, sweep) = &mut waiting[0];
            let in_full = seeds == needs[0].seeds;
            self.run_seeds(is, sweep, seeds);
            if sweep.left.is_none() || (!in_full && seeds < FIRST) {
                waiting.remove(0);
            } else if !in_full {
                // Once the others are done there may be time for the rest of it.
                waiting.rotate_left(1);
            }
        }
    }

    /// Runs the next seeds of a case.
    fn run_seeds(&self, is: &mut ipam_reports::GateCase, sweep: &mut Sweep, seeds: u64) {
        let Some(left) = sweep.left.filter(|_| !self.is_over()) else { return };
        let Some(next) = SeedRange::new(left.first, seeds.min(count(left))) else { return };
        is.result.join(sweep::sweep(&sweep.ready, Some(next), self.jobs, Some(self.clock.work_until), self.progress, None));
        sweep.left = next.last.checked_add(1).filter(|&first| first <= left.last).map(|first| SeedRange { first, ..left });
        if sweep.until_found && matches!(is.result.verdict(), Verdict::Found | Verdict::Broken | Verdict::Nondeterministic) {
            sweep.left = None;
        }
    }

    /// Whether somebody will ask why: a scenario that must hold and does not.
    fn needs_explaining(&self, report: &GateReport, case: &Case) -> bool {
        let verdict = report.verdict(&case.is);
        matches!(case.job, Job::Sweep(_)) && case.is.result.expect.is_none() && verdict.exit_code() != 0 && verdict != Verdict::NotRun
    }

    fn explain(&self, case: &mut Case) {
        let Job::Sweep(sweep) = &case.job else { return };
        let out: &Path = &self.folder(case.is.part);
        let mut explainer = Explainer::new(out, self.progress, true).within(self.clock.left());
        sweep::write_failures(&mut case.is.result, &sweep.ready, out, &mut explainer);
    }
}

fn sweeping(case: &mut Case) -> Option<(&mut ipam_reports::GateCase, &mut Sweep)> {
    match &mut case.job {
        Job::Sweep(sweep) => Some((&mut case.is, sweep)),
        _ => None,
    }
}

fn count(range: SeedRange) -> u64 {
    u64::try_from(range.count()).unwrap_or(u64::MAX)
}

/// What a case would run next. What ends with a violation doubles its seeds from [`FIRST`] on, so that the same seeds run however many
/// workers there are and however fast they are. A case that could not even begin is taken for as fast as a seed per second.
fn need(is: &ipam_reports::GateCase, sweep: &Sweep) -> Need {
    let left = sweep.left.map_or(0, count);
    let seeds = if sweep.until_found { is.result.seeds.max(FIRST).min(left) } else { left };
    Need { seeds, per_second: is.result.seeds_per_second().filter(|rate| *rate > 0.0).unwrap_or(1.0) }
}
