//! A crash at each write of each process, one run each (K §9.1, intermediate state).
//!
//! ```text
//!  plan of a seed ── dry run ──► writes of each process ──► before and after each commit: the plan with that one crash more
//! ```
//! Nothing is drawn: for a small scenario this visits every state between two writes.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ipam_reports::run::{CrashPoints, ProcessPoints};
use ipam_reports::{ScenarioResult, Seconds, SeedRange};
use kube_sim::fault::{CrashAtWrite, FaultKind, Target, Window};
use parking_lot::Mutex;
use sim_config::With;
use sim_config::time::{SimTime, Span};

use super::load::Ready;
use super::progress::{Progress, Unit};
use super::run::{record_of, run_plan};
use super::shrink::Explainer;
use super::thread_pool::spawn_worker;
use super::{HarnessBug, build, output, provenance};
use crate::plan::Plan;
use crate::system::{RunOptions, systems};
use crate::world::Outcome;

/// How long a process that crashed is down.
const DOWN: Span = Span::secs(1);

/// A place to crash.
struct Point {
    /// The seed of the plan that it is in.
    seed: u64,
    process: String,
    nth: u32,
    after_commit: bool,
    plan: Plan,
}

impl Point {
    fn text(&self) -> String {
        let when = if self.after_commit { "after" } else { "before" };
        format!("{} crashes {when} the commit of its write {}", self.process, self.nth)
    }

    /// What its plan's file is called.
    fn file(&self) -> String {
        let when = if self.after_commit { "after" } else { "before" };
        format!("{}-{}-{}-{}-{when}.toml", self.plan.scenario, self.seed, self.process, self.nth)
    }

    /// Whether the crash took place.
    fn is_reached(&self, outcome: &Outcome) -> bool {
        outcome.fired.contains(&(self.plan.fault.len() as u32 - 1))
    }
}

/// Runs every crash point of the plans of some seeds. The result counts runs where it says seeds; its ranges are those of the plans.
pub(super) fn sweep(
    ready: &Ready,
    mut result: ScenarioResult,
    range: SeedRange,
    jobs: usize,
    until: Option<Instant>,
    progress: &dyn Progress,
) -> (ScenarioResult, Vec<Plan>) {
    let began = Instant::now();
    // One plan need not show what a whole sweep does.
    result.sometimes.clear();
    let mut points = Vec::new();
    let mut processes: Vec<ProcessPoints> = Vec::new();
    for seed in range.first..=range.last {
        let plan = ready.scenario.draw(seed);
        let Ok(dry) = run_plan(&plan, &ready.stage, RunOptions::default()) else { continue };
        let targets = plan.workload.work().fault_targets(&plan.op);
        for process in targets.processes {
            let writes = dry.writes.iter().find(|(name, _)| **name == *process).map_or(0, |(_, writes)| *writes);
            match processes.iter_mut().find(|known| known.process == process) {
                Some(known) => known.writes += u64::from(writes),
                None => processes.push(ProcessPoints { process: process.clone(), writes: u64::from(writes), reached: 0, failed: 0 }),
            }
            for (nth, after_commit) in (1..=writes).flat_map(|nth| [(nth, false), (nth, true)]) {
                let crash = CrashAtWrite { process: Target::from_text(&process), nth, after_commit, down: DOWN };
                let mut plan = plan.clone();
                plan.fault.push(With { common: Window { at: SimTime::ZERO, lasts: None }, kind: FaultKind::CrashAtWrite(crash) });
                points.push(Point { seed, process: process.clone(), nth, after_commit, plan });
            }
        }
    }
    let outcomes = run_all(ready, &points, jobs, until, progress);
    let mut summary = CrashPoints { points: points.len() as u64, tried: 0, reached: 0, processes };
    for (number, (point, outcome)) in (0..).zip(points.iter().zip(outcomes)) {
        let Some(outcome) = outcome else { continue };
        summary.tried += 1;
        if let Ok(outcome) = &outcome {
            let reached = point.is_reached(outcome);
            let failed = outcome.violations.iter().any(|violation| violation.excuse.is_none());
            summary.reached += u64::from(reached);
            if let Some(of_process) = summary.processes.iter_mut().find(|known| known.process == point.process) {
                of_process.reached += u64::from(reached);
                of_process.failed += u64::from(failed);
            }
        }
        record_of(&point.plan, number, outcome, |record| result.add(record));
    }
    // What was counted by the number of the point is told by the seed of its plan.
    let mut plans = Vec::new();
    for failure in &mut result.failures {
        let point = &points[failure.seed as usize];
        failure.seed = point.seed;
        failure.detail.insert(0, point.text());
        plans.push(point.plan.clone());
    }
    result.claims.iter_mut().for_each(|count| (count.seed_ranges, count.hurts) = (Vec::new(), systems().hurts(&count.claim)));
    result.seed_ranges = vec![range];
    result.crash_points = Some(summary);
    result.wall = Seconds::from(began.elapsed().max(Duration::from_micros(1)));
    (result, plans)
}

/// What each point gave; `None` = time was up.
fn run_all(
    ready: &Ready,
    points: &[Point],
    jobs: usize,
    until: Option<Instant>,
    progress: &dyn Progress,
) -> Vec<Option<Result<Outcome, HarnessBug>>> {
    let jobs = jobs.min(points.len()).max(1);
    let counters = progress.begin(&ready.scenario.name, Unit::Seeds, Some(points.len() as u64), jobs);
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new((0..points.len()).map(|_| None).collect::<Vec<_>>()));
    std::thread::scope(|scope| {
        for counter in &counters {
            let (next, outcomes) = (&next, &outcomes);
            spawn_worker(scope, move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(number) else { return };
                    if progress.stop_requested() || until.is_some_and(|until| Instant::now() >= until) {
                        return;
                    }
                    let outcome = run_plan(&point.plan, &ready.stage, RunOptions::default());
                    counter.count(outcome.as_ref().map_or(true, |outcome| !outcome.violations.is_empty()));
                    outcomes.lock()[number] = Some(outcome);
                }
            });
        }
    });
    outcomes.into_inner()
}

/// Writes the plans of the listed failures and has the first of each claim explained.
pub(super) fn write_failures(result: &mut ScenarioResult, plans: Vec<Plan>, ready: &Ready, out: &Path, explainer: &mut Explainer<'_>) {
    let mut kept = Vec::new();
    for (failure, mut plan) in result.failures.iter_mut().zip(plans) {
        if let Ok(outcome) = run_plan(&plan, &ready.stage, RunOptions::default()) {
            plan.recorded = Some(outcome.recorded(&plan, build()));
        }
        let crash = plan.fault.last().map(|fault| &fault.kind);
        if let Some(FaultKind::CrashAtWrite(crash)) = crash {
            let (seed, process, nth, after_commit) = (plan.seed, crash.process.to_string(), crash.nth, crash.after_commit);
            let file = out.join(Point { seed, process, nth, after_commit, plan: plan.clone() }.file());
            let provenance = provenance::of_run(&plan, ready.profile, provenance::replay_of(&file));
            plan.recorded.iter_mut().for_each(|recorded| recorded.provenance = Some(provenance.clone()));
            let written = output::write(&file, plan.to_toml_at(&file));
            failure.plan = written.is_ok().then(|| file.display().to_string());
        }
        kept.push(Some(plan));
    }
    explainer.explain(&mut result.failures, &kept, ready);
    result.tell_findings();
}
