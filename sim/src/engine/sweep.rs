//! `run`: many seeds of some scenarios, on several threads, and their verdicts.
//!
//! ```text
//!  scenario ─(seed)─► plan ─► run ─► record ─┐ per worker      ┌► first failures: run again, plan file, smaller plan
//!  seeds are handed out in chunks            └─► joined result ┘
//! ```
//! Workers share a counter of chunks and nothing else. Passing seeds build no text.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ipam_reports::finding::{Problem, ProblemKind};
use ipam_reports::rows::Rows;
use ipam_reports::run::{Allocations, Api, LISTED_MAX};
use ipam_reports::{RunReport, ScenarioResult, Seconds, SeedRange, SeedRecord, Shards};

use super::load::{self, Ready};
use super::shrink::Explainer;
use super::tables::{ReleaseOnPanic, Tables};
use super::thread_pool::spawn_worker;
use super::{BUILD, crash_points};
use crate::claim::ClaimName;
use crate::cli::args::RunArgs;
use crate::cli::{CliError, Progress, SeedCounter};
use crate::input::kinds::Kinds;
use crate::plan::{Plan, hash_text};
use crate::scenario::WorkloadDraft;
use crate::world::{Outcome, RunOptions, Stage, run as run_plan};

/// Where plans of failing seeds go unless `--out` says otherwise.
pub(crate) const OUT: &str = "target/ipam-sim";
/// How many seeds a worker takes at a time: enough that the shared counter is idle, few enough that a budget is kept.
const CHUNK: u64 = 8;

/// What a run of one seed gave, or that the harness itself failed.
pub(crate) fn run_seed(plan: &Plan, stage: &Stage, options: RunOptions) -> Result<Outcome, String> {
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| run_plan(plan, stage, options))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_else(|| "a panic without a message".to_owned())
    })?;
    match outcome.broken {
        Some(message) => Err(message),
        None => Ok(outcome),
    }
}

/// Sweeps every scenario of the command line.
pub(crate) fn run(args: &RunArgs, progress: &Progress) -> Result<RunReport, CliError> {
    let scenarios = load::scenarios(args)?;
    let jobs = jobs(args.jobs);
    let deadline = args.budget.map(|budget| Instant::now() + budget.0);
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(OUT));
    let mut explainer = Explainer::new(&out, progress, !args.no_shrink);
    // Only who asks for a folder gets tables: they cost a line for each run and for each call.
    let tables = args.out.as_ref().map(|out| Tables::create(out).map_err(|error| unwritable(out, &error))).transpose()?;
    let mut results = Vec::new();
    let total = scenarios.len() as u32;
    for (number, ready) in (0..).zip(&scenarios) {
        let range = args.seed_range(ready.scenario.seeds).map_err(CliError::usage)?;
        // What is left of the budget is shared by what is left to do.
        let until = deadline.map(|deadline| {
            let now = Instant::now();
            now + deadline.saturating_duration_since(now) / (total - number)
        });
        if args.every_crash_point {
            results.push(every_crash_point(ready, args, jobs, until, progress, &mut explainer)?);
            if progress.stop_requested() {
                break;
            }
            continue;
        }
        let mut result = sweep(ready, range, jobs, until, progress, tables.as_ref());
        if let (Some(tables), Some(out)) = (&tables, &args.out) {
            tables.finish_scenario().map_err(|error| unwritable(out, &error))?;
        }
        if !args.no_plans {
            write_failures(&mut result, ready, &out, &mut explainer);
        }
        results.push(result);
        if progress.stop_requested() {
            break;
        }
    }
    let shards = args.part.and_then(|part| Shards::one(part.index, part.total));
    let mut report = RunReport::of_shards(results, progress.stop_requested(), shards);
    report.build = Some(BUILD.to_owned());
    Ok(report)
}

/// How many workers: those asked for, or one per core.
pub(crate) fn jobs(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Runs every crash point of a scenario, in the plan of its first seed unless the user asks for more.
fn every_crash_point(
    ready: &Ready,
    args: &RunArgs,
    jobs: usize,
    until: Option<Instant>,
    progress: &Progress,
    explainer: &mut Explainer<'_>,
) -> Result<ScenarioResult, CliError> {
    let mut result = empty_result(ready);
    // `sometimes` claims are about whole sweeps; runs must not name any then.
    let Some(range) = args.seed_range(1).map_err(CliError::usage)? else { return Ok(result) };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(OUT));
    let mut scenario = ready.scenario.clone();
    scenario.check.sometimes.clear();
    let ready = Ready { file: ready.file.clone(), stage: ready.stage.clone(), scenario, brought: ready.brought };
    result.sometimes.clear();
    let (mut result, plans) = crash_points::sweep(&ready, result, range, jobs, until, progress);
    crash_points::write_failures(&mut result, plans, &ready, &out, explainer);
    Ok(result)
}

fn unwritable(out: &Path, error: &std::io::Error) -> CliError {
    CliError::usage(format!("cannot write the tables in {}: {error}", out.display()))
}

pub(crate) fn empty_result(ready: &Ready) -> ScenarioResult {
    let check = &ready.scenario.check;
    let sometimes = check.sometimes.iter().map(|name| (name.to_string(), name.def().kind));
    let mut result = ScenarioResult::new(&*ready.scenario.name, &*ready.file, sometimes);
    result.expect = ready.scenario.expect.as_ref().map(ClaimName::to_string);
    result.config = Some(config_hash(ready));
    result.brought = ready.brought;
    result.wants_addresses = ready.brought && matches!(ready.scenario.workload, WorkloadDraft::Spiderpool(_));
    result.left_out.extend(ready.scenario.left_out().ok().flatten());
    result
}

/// Identifies everything but the seeds that goes into the runs of a scenario.
fn config_hash(ready: &Ready) -> String {
    let mut text = toml::to_string(&ready.scenario).unwrap_or_default();
    for (_, object) in &ready.stage.objects {
        text.push_str(&object.to_value().to_string());
    }
    hash_text(&text)
}

/// Runs the seeds of one scenario.
pub(crate) fn sweep(
    ready: &Ready,
    range: Option<SeedRange>,
    jobs: usize,
    until: Option<Instant>,
    progress: &Progress,
    tables: Option<&Tables>,
) -> ScenarioResult {
    let Some(range) = range else { return empty_result(ready) };
    let began = Instant::now();
    let jobs = jobs.min(usize::try_from(range.count().div_ceil(u128::from(CHUNK))).unwrap_or(usize::MAX)).max(1);
    let counters = progress.begin(&ready.scenario.name, u64::try_from(range.count()).ok(), jobs);
    let next_chunk = AtomicU64::new(0);
    let work = &|counter: &SeedCounter| {
        let _others_go_on = ReleaseOnPanic(tables);
        let mut result = empty_result(ready);
        loop {
            let chunk = next_chunk.fetch_add(1, Ordering::Relaxed);
            let Some(first) =
                chunk.checked_mul(CHUNK).and_then(|offset| range.first.checked_add(offset)).filter(|&first| first <= range.last)
            else {
                return result;
            };
            let mut rows = tables.map(|_| Rows::default());
            let mut stopped = false;
            for seed in first..=range.last.min(first.saturating_add(CHUNK - 1)) {
                stopped = progress.stop_requested() || until.is_some_and(|until| Instant::now() >= until);
                if stopped {
                    break;
                }
                let violated = add_seed(&mut result, ready, seed, rows.as_mut());
                counter.count(violated);
            }
            if let (Some(tables), Some(rows)) = (tables, rows) {
                if stopped {
                    tables.release();
                }
                tables.put(chunk, rows);
            }
            if stopped {
                return result;
            }
        }
    };
    let mut result = if jobs == 1 {
        work(&counters[0])
    } else {
        std::thread::scope(|scope| {
            let workers: Vec<_> = counters.iter().map(|counter| spawn_worker(scope, || work(counter))).collect();
            let mut whole = empty_result(ready);
            for worker in workers {
                match worker.join() {
                    Ok(part) => whole.join(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            whole
        })
    };
    result.wall = Seconds::from(began.elapsed().max(Duration::from_micros(1)));
    result
}

/// Runs one seed and counts it. Returns whether something was violated.
fn add_seed(result: &mut ScenarioResult, ready: &Ready, seed: u64, mut rows: Option<&mut Rows>) -> bool {
    let plan = ready.scenario.draw(seed);
    let options = RunOptions { calls: rows.is_some(), ..RunOptions::default() };
    let outcome = run_seed(&plan, &ready.stage, options);
    record_of(&plan, seed, outcome, |record| {
        let violated = record.violations.iter().any(|violation| violation.excuse.is_none()) || !record.problems.is_empty();
        if let Some(rows) = rows.as_mut().filter(|_| record.problems.is_empty()) {
            let workload = serde_json::to_string(&plan.workload).unwrap_or_default();
            rows.add(&ready.scenario.name, &workload, &record);
        }
        result.add(record);
        violated
    })
}

/// What a run tells the result of its scenario, under the number `seed`, handed to `keep`.
pub(crate) fn record_of<T>(plan: &Plan, seed: u64, outcome: Result<Outcome, String>, keep: impl FnOnce(SeedRecord<'_>) -> T) -> T {
    match outcome {
        Ok(outcome) => {
            let faults = fired_kinds(plan, &outcome);
            let pool = outcome.pool.as_ref().map(|pool| pool.counts).unwrap_or_default();
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
                    attempted: pool.calls + outcome.counts.adds + outcome.counts.failed_adds,
                    succeeded: pool.allocated + outcome.counts.adds,
                    failed: pool.calls.saturating_sub(pool.allocated) + outcome.counts.failed_adds,
                },
                pool: outcome.pool,
                reclaim: outcome.reclaim,
                events: outcome.events,
                violations: outcome.violations,
                held: &outcome.held,
                faults: &faults,
                judged: &outcome.judged,
                ..SeedRecord::default()
            })
        }
        Err(message) => {
            let problem = Problem { seed, kind: ProblemKind::Harness, message, plan: None };
            keep(SeedRecord { seed, problems: vec![problem], ..SeedRecord::default() })
        }
    }
}

/// The kinds of faults of a plan, each once, and whether one of the kind took hold of something in its run.
fn fired_kinds(plan: &Plan, outcome: &Outcome) -> Vec<(&'static str, bool)> {
    let mut kinds: BTreeMap<&'static str, bool> = BTreeMap::new();
    for (index, fault) in (0..).zip(&plan.fault) {
        *kinds.entry(fault.kind.kind()).or_default() |= outcome.fired.contains(&index);
    }
    kinds.into_iter().collect()
}

/// Runs each listed failure again, writes its plan, and has the first failure of each claim explained.
pub(crate) fn write_failures(result: &mut ScenarioResult, ready: &Ready, out: &Path, explainer: &mut Explainer<'_>) {
    let mut plans = Vec::new();
    let mut problems = Vec::new();
    for failure in result.failures.iter_mut().take(LISTED_MAX) {
        let mut plan = ready.scenario.draw(failure.seed);
        let Ok(outcome) = run_seed(&plan, &ready.stage, RunOptions::default()) else {
            plans.push(None);
            continue;
        };
        plan.recorded = Some(outcome.recorded(&plan, BUILD));
        failure.plan = write_plan(&plan, out);
        if failure.digest.is_some_and(|digest| digest != outcome.digest) {
            problems.push(Problem {
                seed: failure.seed,
                kind: ProblemKind::Nondeterminism,
                message: format!(
                    "the digest was {} in the sweep and {} when the seed was run again",
                    failure.digest.unwrap_or_default(),
                    outcome.digest
                ),
                plan: failure.plan.clone(),
            });
        }
        plans.push(Some(plan));
    }
    result.nondeterministic += problems.len() as u64;
    for (seed, message) in explainer.explain(&mut result.failures, &plans, ready) {
        problems.push(Problem { seed, kind: ProblemKind::Harness, message, plan: None });
        result.broken += 1;
    }
    result.problems.extend(problems);
}

/// Writes a plan file and returns its path; a disk that says no costs the file, not the verdict.
pub(crate) fn write_plan(plan: &Plan, out: &Path) -> Option<String> {
    std::fs::create_dir_all(out).ok()?;
    let path = out.join(format!("{}-{}.toml", plan.scenario, plan.seed));
    std::fs::write(&path, plan.to_toml()).ok()?;
    Some(path.display().to_string())
}
