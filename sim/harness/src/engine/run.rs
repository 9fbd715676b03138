//! One run: from its plan to its record, or to the file that repeats it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Duration;

use ipam_reports::finding::{Problem, ProblemKind};
use ipam_reports::pool::{PoolRun, ServerQueue};
use ipam_reports::run::{Allocations, Api};
use ipam_reports::{Seconds, SeedRecord};
use kube_sim::fault::Fault;
use sim_config::kinds::Kinds;
use sim_config::time::{SimTime, Span};

use super::{HarnessBug, output, provenance};
use crate::deviation::Profile;
use crate::plan::Plan;
use crate::system::RunOptions;
use crate::world::{self, Outcome, Stage};

/// Runs a plan on this thread, which needs a stack of [`STACK_BYTES`](super::STACK_BYTES).
///
/// # Errors
/// Reports a panic outside the system under test, which does not leave this run.
pub fn run_plan(plan: &Plan, stage: &Stage, options: RunOptions) -> Result<Outcome, HarnessBug> {
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| world::run(plan, stage, options))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        HarnessBug(on_one_line(&text.unwrap_or_else(|| "a panic without a message".to_owned())))
    })?;
    match outcome.broken {
        Some(message) => Err(HarnessBug(on_one_line(&message))),
        None => Ok(outcome),
    }
}

/// A message as records need it: without line breaks, which would count as part of a name.
fn on_one_line(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Makes the record of a run under the number `seed`, for the result of its scenario, and passes it to `keep`.
pub fn record_of<T>(plan: &Plan, seed: u64, outcome: Result<Outcome, HarnessBug>, keep: impl FnOnce(SeedRecord<'_>) -> T) -> T {
    match outcome {
        Ok(outcome) => {
            let faults = fired_kinds(plan, &outcome);
            let coverage: Vec<_> = outcome.coverage.iter().map(|point| (point.group, point.name)).collect();
            let pool = outcome.figures.pool.as_ref().map(|pool| pool.counts).unwrap_or_default();
            keep(SeedRecord {
                seed,
                digest: outcome.digest,
                simulated: Seconds::from_micros(outcome.ended_at.as_micros()),
                api: Api {
                    requests: outcome.counts.requests,
                    writes: outcome.counts.writes,
                    conflicts: outcome.counts.conflicts,
                    retries_exhausted: outcome.counts.retries_exhausted + pool.exhausted + pool.other_exhausted,
                },
                allocations: Allocations {
                    attempted: pool.calls + outcome.counts.succeeded + outcome.counts.failed,
                    succeeded: pool.allocated + outcome.counts.succeeded,
                    failed: pool.calls.saturating_sub(pool.allocated) + outcome.counts.failed,
                },
                pool: outcome.figures.pool.map(|pool| PoolRun {
                    queue: outcome.waits.as_deref().map(|waits| queue_of(waits, &pool)),
                    met_fault: met_fault(&plan.fault, &outcome.fired, &pool),
                    ..pool
                }),
                reclaim: outcome.figures.reclaim,
                metrics: &outcome.figures.values,
                events: outcome.events,
                violations: outcome.violations,
                held: &outcome.held,
                faults: &faults,
                judged: &outcome.judged,
                awaited: &outcome.awaited,
                coverage: &coverage,
                ..SeedRecord::default()
            })
        }
        Err(HarnessBug(message)) => {
            let problem = Problem { seed, kind: ProblemKind::Harness, message, plan: None };
            keep(SeedRecord { seed, problems: vec![problem], ..SeedRecord::default() })
        }
    }
}

/// The time that requests waited for their servers while calls were in progress.
fn queue_of(waits: &[(SimTime, Duration)], pool: &PoolRun) -> ServerQueue {
    let during = |at: SimTime| (pool.began..=pool.began + pool.makespan).contains(&Seconds::from_micros(at.as_micros()));
    waits.iter().filter(|(at, _)| during(*at)).fold(ServerQueue::default(), |queue, (_, waited)| ServerQueue {
        requests: queue.requests + 1,
        waited: queue.waited + (*waited).into(),
    })
}

/// Whether one of the faults that took effect was active while calls were in progress. A fault that waits for a change or a request may
/// have begun at any time after its `at`.
fn met_fault(faults: &[Fault], fired: &BTreeSet<u32>, pool: &PoolRun) -> bool {
    let (first, last) = (pool.began.as_micros(), (pool.began + pool.makespan).as_micros());
    (0..).zip(faults).any(|(index, fault)| {
        let lasts = match fault.kind.recovers_after() {
            Some(down) => down,
            None if fault.kind.is_instant() => Span::micros(0),
            None => fault.common.lasts.unwrap_or(Span::FOREVER),
        };
        let at = fault.common.at;
        let waits = !fault.common.when.is_empty() || fault.kind.begins().is_request();
        fired.contains(&index) && at.as_micros() <= last && (waits || (at + lasts.0).as_micros() >= first)
    })
}

/// The kinds of faults of a plan, each once, and whether one of the kind took effect in the run.
fn fired_kinds(plan: &Plan, outcome: &Outcome) -> Vec<(&'static str, bool)> {
    let mut kinds: BTreeMap<&'static str, bool> = BTreeMap::new();
    for (index, fault) in (0..).zip(&plan.fault) {
        *kinds.entry(fault.kind.kind()).or_default() |= outcome.fired.contains(&index);
    }
    kinds.into_iter().collect()
}

/// Writes a plan, with its provenance, into the folder `out` and returns the path of its file, or `None` if the disk refuses: the verdict
/// stands without the file. `profile`: see [`provenance::of_run`].
pub fn write_plan(plan: &mut Plan, profile: Option<Profile>, out: &Path) -> Option<String> {
    let path = out.join(format!("{}-{}.toml", plan.scenario, plan.seed));
    let provenance = provenance::of_run(plan, profile, provenance::replay_of(&path));
    if let Some(recorded) = &mut plan.recorded {
        recorded.provenance = Some(provenance);
    }
    output::write(&path, plan.to_toml_at(&path)).ok()?;
    Some(path.display().to_string())
}
