//! A crash at each write of each process, one run each (K §9.1, intermediate state).
//!
//! ```text
//!  plan of a seed ── dry run ──► writes of each process ──► before and after each commit: the plan with that one crash more
//! ```
//! Nothing is drawn: for a small scenario this visits every state between two writes.

use std::time::{Duration, Instant};

use ipam_reports::run::{CrashPoints, ProcessPoints};
use ipam_reports::{ScenarioResult, Seconds, SeedRange};
use kube_sim::fault::{CrashAtWrite, FaultKind, Target, Window};
use sim_config::With;
use sim_config::time::{SimTime, Span};

use super::disturbed::{Disturbed, in_parallel};
use super::load::Ready;
use super::progress::Progress;
use super::run::{record_of, run_plan};
use crate::plan::Plan;
use crate::system::{RunOptions, systems};
use crate::world::Outcome;

/// The downtime of a process that crashed.
const DOWN: Span = Span::secs(1);

/// A crash before or after the commit of one write.
struct Point {
    /// The seed of its plan.
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

    /// The name of its plan's file.
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
) -> (ScenarioResult, Vec<Disturbed>) {
    let began = Instant::now();
    // One plan need not show everything that a whole sweep must.
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
                plan.fault.push(With { common: Window::new(SimTime::ZERO, None), kind: FaultKind::CrashAtWrite(crash) });
                points.push(Point { seed, process: process.clone(), nth, after_commit, plan });
            }
        }
    }
    let outcomes = in_parallel(points.len(), &ready.scenario.name, jobs, until, progress, |number, counter| {
        let outcome = run_plan(&points[number].plan, &ready.stage, RunOptions::default());
        counter.count(outcome.as_ref().map_or(true, |outcome| !outcome.violations.is_empty()));
        outcome
    });
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
    // Failures were counted by the number of the point; they are reported with the seed of its plan.
    let mut failing = Vec::new();
    for failure in &mut result.failures {
        let point = &points[failure.seed as usize];
        failure.seed = point.seed;
        failure.detail.insert(0, point.text());
        failing.push(Disturbed { plan: point.plan.clone(), file: point.file() });
    }
    for count in &mut result.claims {
        count.seed_ranges.clear();
        systems().weigh(count);
    }
    result.seed_ranges = vec![range];
    result.crash_points = Some(summary);
    result.wall = Seconds::from(began.elapsed().max(Duration::from_micros(1)));
    (result, failing)
}
