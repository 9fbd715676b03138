//! Variants of one plan with additional faults: run on several threads, and written to files if they fail.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ipam_reports::ScenarioResult;
use parking_lot::Mutex;

use super::load::Ready;
use super::progress::{Progress, Unit, WorkerCounter};
use super::run::run_plan;
use super::shrink::Explainer;
use super::thread_pool::spawn_worker;
use super::{build, output, provenance};
use crate::plan::Plan;
use crate::system::RunOptions;

/// A plan that failed.
pub(super) struct Disturbed {
    pub plan: Plan,
    /// The name of its file.
    pub file: String,
}

/// The results of `total` runs, in their order; `None` = time was up.
pub(super) fn in_parallel<T: Send>(
    total: usize,
    stage: &str,
    jobs: usize,
    until: Option<Instant>,
    progress: &dyn Progress,
    run: impl Fn(usize, &WorkerCounter) -> T + Sync,
) -> Vec<Option<T>> {
    let jobs = jobs.min(total).max(1);
    let counters = progress.begin(stage, Unit::Seeds, Some(total as u64), jobs);
    on_workers(&counters, total, until, progress, run)
}

/// The same on workers that have begun, one for each counter.
pub(super) fn on_workers<T: Send>(
    counters: &[Arc<WorkerCounter>],
    total: usize,
    until: Option<Instant>,
    progress: &dyn Progress,
    run: impl Fn(usize, &WorkerCounter) -> T + Sync,
) -> Vec<Option<T>> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new((0..total).map(|_| None).collect::<Vec<_>>()));
    std::thread::scope(|scope| {
        for counter in counters {
            let (next, outcomes, run) = (&next, &outcomes, &run);
            spawn_worker(scope, move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total || progress.stop_requested() || until.is_some_and(|until| Instant::now() >= until) {
                        return;
                    }
                    let outcome = run(number, counter);
                    outcomes.lock()[number] = Some(outcome);
                }
            });
        }
    });
    outcomes.into_inner()
}

/// Writes the plans of the listed failures and has the first failure of each claim explained.
pub(super) fn write_failures(
    result: &mut ScenarioResult,
    failing: Vec<Disturbed>,
    ready: &Ready,
    out: &Path,
    explainer: &mut Explainer<'_>,
) {
    let mut kept = Vec::new();
    for (failure, Disturbed { mut plan, file }) in result.failures.iter_mut().zip(failing) {
        if let Ok(outcome) = run_plan(&plan, &ready.stage, RunOptions::default()) {
            plan.recorded = Some(outcome.recorded(&plan, build()));
        }
        let file = out.join(file);
        let provenance = provenance::of_run(&plan, ready.profile, provenance::replay_of(&file));
        plan.recorded.iter_mut().for_each(|recorded| recorded.provenance = Some(provenance.clone()));
        let written = output::write(&file, plan.to_toml_at(&file));
        failure.plan = written.is_ok().then(|| file.display().to_string());
        kept.push(Some(plan));
    }
    explainer.explain(&mut result.failures, &kept, ready);
    result.tell_findings();
}
