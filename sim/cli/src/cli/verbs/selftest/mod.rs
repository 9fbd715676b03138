//! `selftest`: the kill matrix. Each deviation is tried where it should be noticed, and the seeds until then are counted.
//!
//! ```text
//!  deviation ──► its negative scenario ─────────────┐  for each: disjoint ranges of seeds,     ┌► median, share, first claim
//!            ──► the same with a swarm of faults ───┼► each until the first violation ─────────┤
//!            ──► the swarm scenario of its system ──┘                                          └► the best one's failure, made small
//!  control group ──► scenarios that must hold ──────► any violation is a false alarm
//!
//!  with --must-hold:
//!  deviation ──► all smoke and chaos scenarios of its system, interleaved ──► the same
//!  with --manifests, too: the scenarios that are named, on the cluster of the manifests
//! ```
//! The first mode shows whether claims notice a deviation for which a scenario was written, the second what a sweep of the scenarios that
//! must hold would notice of it.
//!
//! One worker runs the seeds of a range in order, so that the result does not depend on the number of workers.

mod rotation;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use ipam_reports::command::{mutation_score_command, program};
use ipam_reports::matrix::{ControlRow, MatrixRow, Smallest, Trial};
use ipam_reports::schema::MatrixSchema;
use ipam_reports::shrink::CutOff;
use ipam_reports::{Made, MatrixReport, Seconds};
use parking_lot::Mutex;
use sim_config::Problems;
use sim_harness::check::ClaimName;
use sim_harness::deviation::{Deviation, DeviationName};
use sim_harness::engine::Progress;
use sim_harness::engine::ShrinkOptions;
use sim_harness::engine::load::{self, DeviationChange, LoadOptions, Ready};
use sim_harness::engine::progress::{Unit, WorkerCounter};
use sim_harness::engine::run::run_plan;
use sim_harness::engine::shrink::{Watch, shrink};
use sim_harness::engine::thread_pool::{jobs, spawn_worker};
use sim_harness::engine::{build, output};
use sim_harness::plan::{Plan, hash_text};
use sim_harness::scenario::{self, Scenario};
use sim_harness::swarm::Swarm;
use sim_harness::system::RunOptions;
use sim_harness::system::systems;
use sim_harness::workload::WorkloadDraft;

use self::rotation::{Rotation, Turn};
use super::gate::with_excuses_of;
use super::out_folder::OutFolder;
use crate::cli::CliError;
use crate::cli::args::SelftestArgs;

/// The divisor of the number of seeds for a scenario of the chaos kind, which is slow and finds by luck: it gets a tenth of the seeds.
const CHAOS_SHARE: u64 = 10;
/// The maximum number of runs for shrinking one failure.
const SHRINK_RUNS: u64 = 600;
/// The maximum number of events in the [`SHRINK_RUNS`]: some seconds of one core.
const SHRINK_EVENTS: u64 = 3_000_000;
/// The maximum number of seeds of each scenario in the control group.
const CONTROL_SEEDS: u64 = 200;

/// A deviation with the scenarios in which it is tried.
pub(super) struct Try {
    deviation: &'static Deviation,
    /// The deviation to switch on in addition to those of the scenarios.
    add: Option<DeviationName>,
    from: Arc<Rotation>,
    /// Whether a swarm was added to the scenario.
    swarm: bool,
    /// The maximum number of seeds in a range.
    seeds: u64,
}

impl Try {
    /// A deviation that is tried in one scenario.
    fn of_one(deviation: &'static Deviation, ready: Ready, swarm: bool, seeds: u64) -> Self {
        Self { deviation, add: None, from: Arc::new(Rotation::of_one(ready)), swarm, seeds }
    }

    /// The name of the deviation.
    pub(super) fn name(&self) -> &'static str {
        self.deviation.name
    }

    /// The scenario in which a violation was found, and its file.
    pub(super) fn found_by(&self, hit: &Hit) -> (&str, &str) {
        let ready = self.from.ready(hit.turn);
        (&ready.scenario.name, &ready.file)
    }

    /// The plan of a turn.
    fn plan(&self, turn: Turn) -> (&Ready, Plan) {
        let ready = self.from.ready(turn);
        let mut plan = ready.scenario.draw(turn.seed);
        let change = DeviationChange { add: self.add.iter().cloned().collect(), ..DeviationChange::default() };
        change.apply(&mut plan.deviations);
        (ready, plan)
    }
}

/// The result of a range of seeds.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The first violation; `None` = nothing was found.
    pub(super) hit: Option<Hit>,
}

/// The violation that ended a range of runs.
#[derive(Clone, Debug)]
pub(super) struct Hit {
    /// The number of the run in its range, from 1.
    pub(super) nth: u64,
    turn: Turn,
    pub(super) claim: String,
}

/// Runs the matrix and writes it as CSV; a failed write is reported in the result, not as an error.
pub(super) fn selftest(args: &SelftestArgs, progress: &dyn Progress) -> Result<MatrixReport, CliError> {
    let began = Instant::now();
    let until = args.budget.map(|budget| began + budget.0);
    let jobs = jobs(args.jobs);
    let wanted = deviations(&args.mutation)?;
    let known = read(&args.paths)?;
    let tries = match args.must_hold {
        true if args.manifests.is_empty() => must_hold(&of_gate(&known)?, &wanted, args.seeds),
        true => must_hold(&of_own_cluster(args)?, &wanted, args.seeds),
        false => tries(&known, &wanted, args.seeds)?,
    };
    let asks_for_controls = args.mutation.is_empty() && !args.must_hold;
    let controls = if asks_for_controls { controls(&known, args.seeds)? } else { Vec::new() };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(super::OUT));

    let _alone = args.out.as_ref().map(|out| OutFolder::claim(out, Some(&made(args, &known)), args.force)).transpose()?;

    let run = Run::new(progress, until);
    let ranges = usize::try_from(args.ranges).unwrap_or(usize::MAX);
    let found = run.in_parallel("mutations", jobs, tries.len() * ranges, |task, counter| {
        run.search(&tries[task / ranges], (task % ranges) as u64, counter)
    });
    let violated = run.in_parallel("control group", jobs, controls.len(), |task, counter| {
        let (ready, seeds) = &controls[task];
        Some(run.control(ready, *seeds, counter))
    });
    let mut rows: Vec<MatrixRow> = wanted.iter().map(|deviation| row(deviation, &tries, &found, ranges)).collect();
    if !args.manifests.is_empty() {
        // The user's cluster tells nothing about other systems.
        rows.retain(|row| !row.trials.is_empty());
    }
    if !args.no_shrink {
        let smallest = run.in_parallel("smaller plans", jobs, rows.len(), |task, _| run.smallest(&rows[task], &tries, &found, ranges));
        rows.iter_mut().zip(smallest).for_each(|(row, smallest)| row.smallest = smallest);
    }
    let mut report = MatrixReport {
        schema: MatrixSchema,
        build: build().to_owned(),
        seeds: args.seeds,
        ranges: args.ranges,
        must_hold: args.must_hold,
        cut_short: found.iter().any(Option::is_none) || violated.iter().any(Option::is_none),
        deviations: rows,
        control: violated.into_iter().flatten().collect(),
        seeds_run: run.seeds_run.into_inner(),
        wall: Seconds::from(began.elapsed()),
        interrupted: progress.stop_requested(),
        unwritten: Vec::new(),
        exit_code: 0,
    };
    report.exit_code = report.judge();
    let file = out.join(if args.must_hold { "must-hold-matrix.csv" } else { "kill-matrix.csv" });
    // Hours of work are reported even if the table cannot be written.
    report.unwritten.extend(output::write(&file, report.csv()).err().map(|error| format!("cannot write {}: {error}", file.display())));
    Ok(report)
}

/// The identity of the matrix's table.
fn made(args: &SelftestArgs, known: &[(String, Scenario)]) -> Made {
    let texts: Vec<String> = known.iter().map(|(_, scenario)| toml::to_string(scenario).unwrap_or_default()).collect();
    Made {
        command: format!("{} selftest", program()),
        build: build().to_owned(),
        config: hash_text(&format!(
            "{:?} {} {} {} {:?} {}",
            args.mutation,
            args.seeds,
            args.ranges,
            args.must_hold,
            args.manifests,
            texts.concat()
        )),
        ..Made::default()
    }
}

fn deviations(names: &[String]) -> Result<Vec<&'static Deviation>, CliError> {
    if names.is_empty() {
        return Ok(systems().mutations().iter().collect());
    }
    let find = |name: &String| {
        let found = systems().mutations().iter().find(|deviation| deviation.name == name);
        found.ok_or_else(|| CliError::usage(format!("there is no mutation `{name}`")).hint(DeviationName::advice(name)))
    };
    names.iter().map(find).collect()
}

/// Every scenario under `paths`, with its file.
fn read(paths: &[PathBuf]) -> Result<Vec<(String, Scenario)>, Problems> {
    let mut problems = Problems::new();
    let mut all = Vec::new();
    for file in scenario::find(paths)? {
        let name = file.display().to_string();
        all.extend(problems.collect(Scenario::read_each(&file)).into_iter().flatten().map(|scenario| (name.clone(), scenario)));
    }
    problems.or(all)
}

/// The scenarios in which each deviation is tried.
fn tries(known: &[(String, Scenario)], wanted: &[&'static Deviation], seeds: u64) -> Result<Vec<Try>, Problems> {
    let mut tries = Vec::new();
    for &deviation in wanted {
        let Some(name) = DeviationName::new(deviation.name) else { continue };
        for (file, scenario) in known.iter().filter(|(_, scenario)| scenario.expect.is_some() && scenario.deviations.first() == Some(&name))
        {
            let swarmed = Scenario { swarm: Some(scenario.swarm.clone().unwrap_or_else(Swarm::default)), ..scenario.clone() };
            // A deviation that only changes the number of excused seeds is not found.
            for (scenario, swarm) in [(scenario.clone(), false), (swarmed, true)] {
                tries.push(Try::of_one(
                    deviation,
                    with_excuses_of(&Ready::new(file, scenario)?, known.iter().map(|(_, scenario)| scenario)),
                    swarm,
                    seeds,
                ));
            }
        }
        for (file, scenario) in known.iter().filter(|(_, scenario)| scenario.expect.is_none() && scenario.swarm.is_some()) {
            if is_about(deviation, &scenario.workload) {
                let deviating = Scenario { deviations: vec![name.clone()], ..scenario.clone() };
                tries.push(Try::of_one(deviation, Ready::new(file, deviating)?, false, (seeds / CHAOS_SHARE).max(1)));
            }
        }
    }
    Ok(tries)
}

/// The scenarios that must hold and that the gate runs.
fn of_gate(known: &[(String, Scenario)]) -> Result<Vec<Ready>, Problems> {
    let of_gate = |file: &str| ["smoke", "chaos"].iter().any(|folder| is_in_folder(file, folder));
    let all = known.iter().filter(|(file, scenario)| of_gate(file) && scenario.expect.is_none());
    all.map(|(file, scenario)| Ready::new(file, scenario.clone())).collect()
}

/// The scenarios that must hold, as in `run --manifests`. A scenario without a cluster, or with its own one, tells nothing about the
/// user's.
fn of_own_cluster(args: &SelftestArgs) -> Result<Vec<Ready>, CliError> {
    let options = LoadOptions { scenarios: args.paths.clone(), manifests: args.manifests.clone(), ..LoadOptions::default() };
    let mut all = load::scenarios(&options)?;
    all.retain(|ready| ready.brought && ready.scenario.expect.is_none());
    if all.is_empty() {
        let wrong = "no scenario of these must hold and runs on a cluster of the user's";
        let command = mutation_score_command("scenarios/chaos/spiderpool-swarm.toml");
        return Err(CliError::usage(wrong).hint(format!("try `{command}`")));
    }
    Ok(all)
}

/// Each deviation, tried in all scenarios of its system.
pub(super) fn must_hold(all: &[Ready], wanted: &[&'static Deviation], seeds: u64) -> Vec<Try> {
    let mut rotations: BTreeMap<&str, Arc<Rotation>> = BTreeMap::new();
    let mut tries = Vec::new();
    for &deviation in wanted.iter().filter(|deviation| matches!(deviation.how.word(), "claim" | "crash")) {
        let system = systems().of_mutation(deviation.name).map_or("", |system| system.name());
        let of_system = || all.iter().filter(|ready| is_about(deviation, &ready.scenario.workload)).cloned().collect();
        let from = Arc::clone(rotations.entry(system).or_insert_with(|| Arc::new(Rotation::new(of_system()))));
        if !from.is_empty() {
            tries.push(Try { deviation, add: DeviationName::new(deviation.name), from, swarm: false, seeds });
        }
    }
    tries
}

/// Whether a workload uses the system of a deviation.
fn is_about(deviation: &Deviation, workload: &WorkloadDraft) -> bool {
    let (has, is_under_test) = (systems().of_mutation(deviation.name), systems().of_workload(workload));
    has.map(|system| system.name()) == is_under_test.map(|system| system.name())
}

/// The control group: the scenarios in a folder `control`.
fn controls(known: &[(String, Scenario)], seeds: u64) -> Result<Vec<(Ready, u64)>, Problems> {
    let group = known.iter().filter(|(file, _)| is_in_folder(file, "control"));
    group.map(|(file, scenario)| Ok((Ready::new(file, scenario.clone())?, seeds.min(CONTROL_SEEDS)))).collect()
}

/// Whether a file is in a folder of this name.
fn is_in_folder(file: &str, name: &str) -> bool {
    Path::new(file).parent().is_some_and(|folder| folder.ends_with(name))
}

/// The row of a deviation.
fn row(deviation: &Deviation, tries: &[Try], found: &[Option<Found>], ranges: usize) -> MatrixRow {
    let of_this = tries.iter().enumerate().filter(|(_, trying)| trying.deviation.name == deviation.name);
    let trial = |(number, trying): (usize, &Try)| {
        let of_ranges: Vec<&Found> = found[number * ranges..(number + 1) * ranges].iter().flatten().collect();
        let first = of_ranges.iter().find_map(|found| found.hit.as_ref());
        Trial {
            scenario: trying.from.name(first.map(|hit| hit.turn)),
            swarm: trying.swarm,
            seeds: trying.seeds,
            found: of_ranges.iter().map(|found| found.hit.as_ref().map(|hit| hit.nth)).collect(),
            claim: first.map(|hit| hit.claim.clone()),
        }
    };
    MatrixRow {
        deviation: deviation.name.to_owned(),
        upstream: deviation.upstream,
        how: deviation.how.to_string(),
        trials: of_this.map(trial).collect(),
        smallest: None,
    }
}

/// State that all workers share.
pub(super) struct Run<'a> {
    progress: &'a dyn Progress,
    until: Option<Instant>,
    seeds_run: AtomicU64,
}

impl<'a> Run<'a> {
    /// Creates the state of a run in which nothing begins after `until`.
    pub(super) fn new(progress: &'a dyn Progress, until: Option<Instant>) -> Self {
        Self { progress, until, seeds_run: AtomicU64::new(0) }
    }

    fn is_over(&self) -> bool {
        self.progress.stop_requested() || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// The results of `count` tasks, in their order; `None` for tasks that were not completed.
    pub(super) fn in_parallel<T: Send>(
        &self,
        what: &str,
        jobs: usize,
        count: usize,
        work: impl Fn(usize, &WorkerCounter) -> Option<T> + Sync,
    ) -> Vec<Option<T>> {
        let jobs = jobs.min(count).max(1);
        let counters = self.progress.begin(what, Unit::Seeds, None, jobs);
        let (next, results) = (AtomicUsize::new(0), Mutex::new((0..count).map(|_| None).collect::<Vec<Option<T>>>()));
        std::thread::scope(|scope| {
            for counter in &counters {
                let (next, results, work) = (&next, &results, &work);
                spawn_worker(scope, move || {
                    loop {
                        let task = next.fetch_add(1, Ordering::Relaxed);
                        if task >= count || self.is_over() {
                            return;
                        }
                        let result = work(task, counter);
                        results.lock()[task] = result;
                    }
                });
            }
        });
        results.into_inner()
    }

    /// The first run of a range that violates a claim; `None` if time was up before that was decided. Each trial has consecutive ranges of
    /// its own length.
    pub(super) fn search(&self, trying: &Try, range: u64, counter: &WorkerCounter) -> Option<Found> {
        let turns = trying.from.turns().skip(usize::try_from(range * trying.seeds).ok()?);
        for (nth, turn) in (1..=trying.seeds).zip(turns) {
            if self.is_over() {
                return None;
            }
            let (ready, plan) = trying.plan(turn);
            let claim = self.first_violation(&plan, ready);
            counter.count(claim.is_some());
            if let Some(claim) = claim {
                return Some(Found { hit: Some(Hit { nth, turn, claim }) });
            }
        }
        Some(Found { hit: None })
    }

    /// The first claim that a run violates without an excuse; a bug of the harness counts as a violation, too.
    fn first_violation(&self, plan: &Plan, ready: &Ready) -> Option<String> {
        self.seeds_run.fetch_add(1, Ordering::Relaxed);
        match run_plan(plan, &ready.stage, RunOptions::default()) {
            Ok(outcome) => outcome.violations.into_iter().find(|violation| violation.excuse.is_none()).map(|violation| violation.claim),
            Err(bug) => Some(format!("the harness failed: {bug}")),
        }
    }

    fn control(&self, ready: &Ready, seeds: u64, counter: &WorkerCounter) -> ControlRow {
        let mut row = ControlRow { scenario: ready.scenario.name.clone(), seeds: 0, violated: Vec::new() };
        for seed in 0..seeds {
            if self.is_over() {
                break;
            }
            let claim = self.first_violation(&ready.scenario.draw(seed), ready);
            counter.count(claim.is_some());
            row.seeds += 1;
            if let Some(claim) = claim.filter(|claim| row.violated.iter().all(|(known, _)| known != claim)) {
                row.violated.push((claim, seed));
            }
        }
        row
    }

    /// The shrunk failure of the trial that finds a deviation soonest.
    fn smallest(&self, row: &MatrixRow, tries: &[Try], found: &[Option<Found>], ranges: usize) -> Option<Smallest> {
        let best = row.best()?;
        let of_this = tries.iter().enumerate().filter(|(_, trying)| trying.deviation.name == row.deviation && trying.swarm == best.swarm);
        let mut hits = of_this.filter_map(|(number, trying)| {
            let of_ranges = &found[number * ranges..(number + 1) * ranges];
            Some((trying, of_ranges.iter().flatten().find_map(|found| found.hit.as_ref())?))
        });
        let (trying, hit) = hits.find(|(trying, hit)| trying.from.ready(hit.turn).scenario.name == best.scenario)?;
        let ((ready, plan), claim) = (trying.plan(hit.turn), ClaimName::new(&hit.claim)?);
        let options = ShrinkOptions { runs: SHRINK_RUNS, events: SHRINK_EVENTS, until: self.until };
        let smaller = shrink(&plan, &ready.stage, &claim, options, self).ok()??;
        // The size reached by then depends on the machine.
        if smaller.shrunk.cut_off == Some(CutOff::Time) {
            return None;
        }
        // After an interruption its needs are not known either.
        let needs = smaller.needs?;
        Some(Smallest {
            claim: claim.to_string(),
            scenario: best.label(),
            seed: hit.turn.seed,
            size: smaller.shrunk.size,
            needs: needs.to_string(),
        })
    }
}

impl Watch for Run<'_> {
    fn stop(&self) -> bool {
        self.progress.stop_requested()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_harness::engine::progress::Unobserved;

    fn args(line: &str) -> SelftestArgs {
        let paths = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"))];
        let mutation = line.split_whitespace().map(str::to_owned).collect();
        let out = std::env::temp_dir().join(format!("ipam-sim-selftest-{}-{}", std::process::id(), line.len()));
        SelftestArgs { paths, mutation, seeds: 20, ranges: 3, out: Some(out), no_shrink: true, ..SelftestArgs::default() }
    }

    #[test]
    fn a_deviation_is_found_in_its_scenario_whatever_the_number_of_workers() {
        let matrix = |jobs| {
            let args = SelftestArgs { jobs: Some(jobs), ..args("counter-decides-once") };
            let report = selftest(&args, &Unobserved).unwrap();
            let csv = args.out.unwrap();
            assert!(csv.join("kill-matrix.csv").exists());
            std::fs::remove_dir_all(csv).unwrap();
            report
        };
        let one = matrix(1);
        assert_eq!(one.deviations, matrix(3).deviations);
        let row = &one.deviations[0];
        assert_eq!((row.deviation.as_str(), row.how.as_str()), ("counter-decides-once", "claim"));
        let own = &row.trials[0];
        assert_eq!((own.scenario.as_str(), own.swarm, own.found.len(), own.found_in()), ("counter-decides-once", false, 3, 3));
        assert!(row.trials[1].swarm && row.trials.iter().any(|trial| trial.scenario == "counter-swarm" && trial.seeds == 2));
        assert_eq!(one.exit_code, 0);
        assert!(one.control.is_empty(), "who asks for single deviations gets no control group");
    }

    #[test]
    fn on_a_cluster_of_the_users_only_what_can_show_there_is_tried() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
        let with = |scenario: &str, deviation: &str| SelftestArgs {
            paths: vec![root.join(scenario)],
            manifests: vec![root.join("dumps/reclaim.yaml")],
            must_hold: true,
            seeds: 2,
            ..args(deviation)
        };
        let own = with("chaos/spiderpool-swarm.toml", "node-judged-once byom-decide-once");
        let report = selftest(&own, &Unobserved).unwrap();
        let rows: Vec<_> = report.deviations.iter().map(|row| (row.deviation.as_str(), row.trials[0].scenario.as_str())).collect();
        assert_eq!(rows, [("node-judged-once", "spiderpool-swarm")]);
        assert_eq!((report.seeds_run, report.exit_code), (6, 1), "three ranges of two seeds find nothing");
        std::fs::remove_dir_all(own.out.unwrap()).unwrap();
        // Pools and pods do not apply to a counter.
        let error = selftest(&with("smoke/counter-calm.toml", "counter-decides-once"), &Unobserved).unwrap_err();
        assert!(error.message.contains("no scenario of these"), "{}", error.message);
    }

    #[test]
    fn every_deviation_that_a_claim_must_find_has_a_negative_scenario() {
        let known = read(&args("").paths).unwrap_or_else(|problems| panic!("{problems}"));
        for deviation in systems().mutations().iter().filter(|deviation| matches!(deviation.how.word(), "claim" | "crash")) {
            let tries = tries(&known, &[deviation], 10).unwrap_or_else(|problems| panic!("{problems}"));
            assert!(tries.iter().any(|trying| trying.from.has(|scenario| scenario.expect.is_some())), "{}", deviation.name);
            assert!(tries.iter().any(|trying| trying.from.has(|scenario| scenario.expect.is_none())), "{}: no swarm", deviation.name);
        }
        assert!(controls(&known, 10).unwrap_or_else(|problems| panic!("{problems}")).len() >= 5);
    }
}
