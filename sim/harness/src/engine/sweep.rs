//! Runs many seeds of some scenarios, on several threads, and gives verdicts.
//!
//! ```text
//!  scenario ─(seed)─► plan ─► run ─► record ─┐ per worker      ┌► first failures: run again, plan file, smaller plan
//!  seeds are handed out in chunks            └─► joined result ┘
//! ```
//! Workers share a counter of chunks and nothing else. Passing seeds build no text.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ipam_reports::finding::{Problem, ProblemKind};
use ipam_reports::rows::Rows;
use ipam_reports::{RunReport, ScenarioResult, Seconds, SeedRange, Shards};

use super::load::Ready;
use super::progress::{Progress, Unit, WorkerCounter};
use super::run::{record_of, run_plan, write_plan};
use super::seeds::Seeds;
use super::shrink::Explainer;
use super::tables::{ReleaseOnPanic, Tables};
use super::thread_pool::spawn_worker;
use super::{Error, HarnessBug, build, crash_points, disturbed, placements};
use crate::check::ClaimName;
use crate::plan::{Plan, hash_text};
use crate::system::{RunOptions, systems};

/// The number of seeds that a worker takes at a time: a few, so that none waits long for the last of another at the end.
const CHUNK: u64 = 2;

/// The options of a sweep, and of the treatment of failing seeds.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// The seeds of each scenario that run.
    pub seeds: Seeds,
    /// The number of workers.
    pub jobs: usize,
    /// No seed starts after this much real time; scenarios share it evenly. `None` = no limit.
    pub budget: Option<Duration>,
    /// Instead of seeds: a crash at each write of each process, in the plan of one seed, unless [`Seeds::count`] says more.
    pub every_crash_point: bool,
    /// Instead of seeds: every placement of up to this many disturbances at the requests of the plan of one seed, unless [`Seeds::count`]
    /// says more. A shard has a part of the placements.
    pub exhaustive: Option<u32>,
    /// With [`exhaustive`](Self::exhaustive) and [`tables`](Self::tables): resume from the placements that an earlier, interrupted sweep
    /// has tried.
    pub resume: bool,
    /// The folder for plans of failing seeds.
    pub out: PathBuf,
    /// The folder for `runs.csv`, `calls.csv` and `reclaims.csv`, which get a line for each run and for each call, and for the journal that
    /// can be resumed; `None` = no tables.
    pub tables: Option<PathBuf>,
    /// Whether failures are explained and their plans written at all; otherwise they are only counted.
    pub plans: bool,
    /// Whether plans of failures are also shrunk.
    pub shrink: bool,
}

/// Sweeps scenarios, one after the other.
///
/// # Errors
/// Fails if the last seed would exceed `u64::MAX`, the folder of the tables is not writable, or a journal to resume is of other runs.
/// Tables that cannot be finished are named in the report.
pub fn run(scenarios: &[Ready], options: &SweepOptions, progress: &dyn Progress) -> Result<RunReport, Error> {
    let deadline = options.budget.map(|budget| Instant::now() + budget);
    let mut explainer = Explainer::new(&options.out, progress, options.shrink);
    let unwritable = |folder: &Path, error| Error::io(format!("write the tables in {}", folder.display()), error);
    let tables = match &options.tables {
        Some(folder) => Some((Tables::create(folder).map_err(|error| unwritable(folder, error))?, folder)),
        None => None,
    };
    let mut results = Vec::new();
    let total = scenarios.len() as u32;
    for (number, ready) in (0..).zip(scenarios) {
        let range = options.seeds.range(ready.scenario.seeds)?;
        // The remaining scenarios share the remaining budget.
        let until = deadline.map(|deadline| {
            let now = Instant::now();
            now + deadline.saturating_duration_since(now) / (total - number)
        });
        if options.every_crash_point {
            results.push(every_crash_point(ready, options, until, progress, &mut explainer)?);
            if progress.stop_requested() {
                break;
            }
            continue;
        }
        if let Some(disturbances) = options.exhaustive {
            results.push(every_placement(ready, options, disturbances, until, progress, &mut explainer)?);
            if progress.stop_requested() {
                break;
            }
            continue;
        }
        let mut result = sweep(ready, range, options.jobs, until, progress, tables.as_ref().map(|(tables, _)| tables));
        result.shard_of = options.seeds.shard_of(ready.scenario.seeds)?;
        if let Some((tables, _)) = &tables {
            tables.finish_scenario();
        }
        if options.plans {
            write_failures(&mut result, ready, &options.out, &mut explainer);
        }
        results.push(result);
        if progress.stop_requested() {
            break;
        }
    }
    let shards = options.seeds.shard.and_then(|shard| Shards::one(shard.index, shard.total));
    let mut report = RunReport::of_shards(results, progress.stop_requested(), shards);
    report.build = Some(build().to_owned());
    // A full disk must not cost the verdict of hours.
    let unwritten = tables.and_then(|(tables, folder)| tables.finish().err().map(|error| unwritable(folder, error).to_string()));
    report.unwritten.extend(unwritten);
    report.exit_code = report.judge();
    Ok(report)
}

/// Runs every crash point of a scenario, in the plan of its first seed unless more are wanted.
fn every_crash_point(
    ready: &Ready,
    options: &SweepOptions,
    until: Option<Instant>,
    progress: &dyn Progress,
    explainer: &mut Explainer<'_>,
) -> Result<ScenarioResult, Error> {
    let mut result = empty_result(ready);
    // `sometimes` claims are about whole sweeps; no run may name any then.
    let Some(range) = options.seeds.range(1)? else { return Ok(result) };
    let mut ready = ready.clone();
    ready.scenario.check.sometimes.clear();
    result.sometimes.clear();
    let (mut result, failing) = crash_points::sweep(&ready, result, range, options.jobs, until, progress);
    disturbed::write_failures(&mut result, failing, &ready, &options.out, explainer);
    Ok(result)
}

/// Runs every placement of some disturbances, in the plan of a scenario's first seed unless more are wanted.
fn every_placement(
    ready: &Ready,
    options: &SweepOptions,
    disturbances: u32,
    until: Option<Instant>,
    progress: &dyn Progress,
    explainer: &mut Explainer<'_>,
) -> Result<ScenarioResult, Error> {
    let mut result = empty_result(ready);
    // Shards divide placements, not seeds.
    let Some(range) = Seeds { shard: None, ..options.seeds }.range(1)? else { return Ok(result) };
    let mut ready = ready.clone();
    ready.scenario.check.sometimes.clear();
    // Parts of other placements cannot be joined.
    result.config = result.config.map(|config| hash_text(&format!("{config} {disturbances}")));
    let journal = options.tables.as_deref().map(|folder| (folder, options.resume));
    let limits = placements::Limits { disturbances, shard: options.seeds.shard, jobs: options.jobs, until, journal };
    let (mut result, failing) = placements::sweep(&ready, result, range, &limits, progress)?;
    if options.plans {
        disturbed::write_failures(&mut result, failing, &ready, &options.out, explainer);
    }
    Ok(result)
}

/// The result of a scenario of which no seed has run yet.
pub fn empty_result(ready: &Ready) -> ScenarioResult {
    let check = &ready.scenario.check;
    let sometimes = check.sometimes.iter().map(|name| (name.to_string(), name.known().kind));
    let mut result = ScenarioResult::new(&*ready.scenario.name, &*ready.file, sometimes);
    result.expect = ready.scenario.expect.as_ref().map(ClaimName::to_string);
    result.config = Some(config_hash(ready));
    result.why_excused.clone_from(&ready.scenario.why_excused);
    result.brought = ready.brought;
    result.wants_addresses = ready.brought && ready.scenario.workload.draft().wants_addresses();
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

/// Runs the seeds of one scenario, on `jobs` workers; none starts after `until`. `None` as the range = no seeds.
pub fn sweep(
    ready: &Ready,
    range: Option<SeedRange>,
    jobs: usize,
    until: Option<Instant>,
    progress: &dyn Progress,
    tables: Option<&Tables>,
) -> ScenarioResult {
    let Some(range) = range else { return empty_result(ready) };
    let began = Instant::now();
    let jobs = jobs.min(usize::try_from(range.count().div_ceil(u128::from(CHUNK))).unwrap_or(usize::MAX)).max(1);
    let counters = progress.begin(&ready.scenario.name, Unit::Seeds, u64::try_from(range.count()).ok(), jobs);
    let next_chunk = AtomicU64::new(0);
    let work = &|counter: &WorkerCounter| {
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
    let outcome = run_plan(&plan, &ready.stage, options);
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

/// Runs each listed failure again, writes its plan, and has the first failure of each claim explained.
pub fn write_failures(result: &mut ScenarioResult, ready: &Ready, out: &Path, explainer: &mut Explainer<'_>) {
    result.claims.iter_mut().for_each(|count| systems().weigh(count));
    let mut plans: Vec<Option<Plan>> = Vec::new();
    let mut problems = Vec::new();
    // Failures of one seed are adjacent, and share its plan.
    let mut last: Option<(u64, Option<String>)> = None;
    for failure in &mut result.failures {
        if let Some((_, file)) = last.as_ref().filter(|(seed, _)| *seed == failure.seed) {
            failure.plan.clone_from(file);
            plans.push(plans.last().cloned().flatten());
            continue;
        }
        let mut plan = ready.scenario.draw(failure.seed);
        let Ok(outcome) = run_plan(&plan, &ready.stage, RunOptions::default()) else {
            plans.push(None);
            continue;
        };
        plan.recorded = Some(outcome.recorded(&plan, build()));
        failure.plan = write_plan(&mut plan, ready.profile, out);
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
        last = Some((failure.seed, failure.plan.clone()));
        plans.push(Some(plan));
    }
    result.nondeterministic += problems.len() as u64;
    for (seed, HarnessBug(message)) in explainer.explain(&mut result.failures, &plans, ready) {
        problems.push(Problem { seed, kind: ProblemKind::Harness, message, plan: None });
        result.broken += 1;
    }
    result.problems.extend(problems);
    result.tell_findings();
}
