//! The cases of a gate, made of the files under its folders. Everything is read before anything runs, so that bad input is reported at
//! once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipam_reports::gate::{Part, SCORE_RUNS};
use ipam_reports::{GateCase, ScenarioResult, SeedRange};
use sim_config::{Problems, source};
use sim_harness::engine::LoadOptions;
use sim_harness::engine::load::{self, DeviationChange, Ready};
use sim_harness::engine::sweep::empty_result;
use sim_harness::plan::Plan;
use sim_harness::scenario::{self, Scenario};
use sim_harness::system::systems;
use sim_harness::world::Stage;

use crate::cli::CliError;
use crate::cli::args::{GateArgs, Shard};
use crate::cli::verbs::deviations;
use crate::cli::verbs::replay::read_plan;
use crate::cli::verbs::selftest::{self, Try};

/// The number of seeds of each negative scenario that must hold without the mutations that make it fail.
const CONTROL_SEEDS: u64 = 4;
/// The number of seeds of each scenario that run again in a fresh process. It equals the number of first seeds here, so that no seed runs
/// for this purpose alone.
pub(super) const DETERMINISM_SEEDS: u64 = 4;
/// The first seed of the kill matrix: far from the seeds with which the scenarios were developed.
const KILL_FIRST: u64 = 1_000_000;
/// The number of seeds within which a deviation must be found.
const KILL_SEEDS: u64 = 2_000;

/// A case with the work that it needs.
pub(super) struct Case {
    pub(super) is: GateCase,
    pub(super) job: Job,
}

/// The work that a case needs.
pub(super) enum Job {
    /// A sweep over seeds of a scenario.
    Sweep(Sweep),
    /// A run of a plan that must hold.
    Regression(Plan, Stage),
    /// A run of a plan that must give its digest.
    Digest(Plan, Stage),
    /// Seeds of a scenario that run here and in a fresh process.
    Fresh(Arc<Ready>),
    /// A mutation that is tried in scenarios that must hold.
    Mutation(Try),
}

/// A sweep over seeds of a scenario.
pub(super) struct Sweep {
    pub(super) ready: Arc<Ready>,
    /// The seeds that have not run yet.
    pub(super) left: Option<SeedRange>,
    /// Whether the sweep ends once the expected violation is found.
    pub(super) until_found: bool,
    /// The result of the first seeds.
    pub(super) first: Option<Box<ScenarioResult>>,
}

/// All cases of a gate.
pub(super) struct Cases {
    pub(super) cases: Vec<Case>,
    pub(super) remarks: Vec<String>,
}

/// Reads all cases. For a shard, these are only its own cases, with its own seeds.
pub(super) fn collect(args: &GateArgs) -> Result<Cases, CliError> {
    let change = DeviationChange { profile: args.profile, add: deviations(&args.mutation)?, without: Vec::new() };
    let mut all = Collector { args, change, numbers: Default::default(), found: Cases { cases: Vec::new(), remarks: Vec::new() } };
    for (file, plan) in plans(&args.regressions)? {
        all.regression(&file, plan)?;
    }
    for (file, plan) in plans(&args.digests)? {
        all.digest(&file, plan)?;
    }
    let smoke = all.scenarios("smoke", true)?;
    let chaos = all.scenarios("chaos", true)?;
    let negative = all.scenarios("negative", false)?;
    if [&smoke, &chaos, &negative].iter().all(|part| part.is_empty()) {
        let shown = args.scenarios.display();
        return Err(CliError::usage(format!("there is no scenario in {shown}/smoke, {shown}/chaos and {shown}/negative"))
            .hint("name the folder that holds these three with --scenarios"));
    }
    for ready in smoke.iter().chain(&chaos).chain(&negative) {
        all.fresh(ready);
    }
    for (part, scenarios) in [(Part::Smoke, &smoke), (Part::Chaos, &chaos), (Part::Negative, &negative)] {
        for ready in scenarios {
            // A negative scenario itself states the number of seeds within which it is found.
            let (first, times) = if part == Part::Negative { (0, 1) } else { (args.from, args.times) };
            all.sweep(part, &ready.scenario.name, Arc::clone(ready), first, ready.scenario.seeds.saturating_mul(times));
        }
    }
    for ready in negative.iter().filter(|ready| !ready.scenario.deviations.is_empty()) {
        all.control(ready);
    }
    let must_hold = [smoke, chaos].concat();
    all.kill_matrix(&negative, &must_hold);
    if args.is_hardened() {
        all.mutation_score(&must_hold);
    }
    Ok(all.found)
}

/// The plan files in a folder, which need not exist.
fn plans(folder: &Path) -> Result<Vec<(PathBuf, Plan)>, CliError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = source::entries(folder).map_err(Problems::from)?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.into_iter().map(|file| read_plan(&file).map(|plan| (file, plan))).collect()
}

struct Collector<'a> {
    args: &'a GateArgs,
    /// The mutations for everything that must hold.
    change: DeviationChange,
    /// The number of cases collected so far in each part, including those of other shards.
    numbers: std::collections::BTreeMap<Part, u32>,
    found: Cases,
}

impl Collector<'_> {
    /// Adds a case. One that is not divided by seeds belongs to one shard: these are dealt out in turn. `seeds` is the number of planned
    /// and of required seeds.
    fn add(&mut self, part: Part, name: &str, seeds: (u64, u64), result: ScenarioResult, job: impl FnOnce() -> Job) {
        let next = self.numbers.entry(part).or_default();
        let number = *next;
        *next += 1;
        let elsewhere = |Shard { index, total }: Shard| !part.is_cut_by_seeds() && number % total != index - 1;
        if !self.args.part.is_some_and(elsewhere) {
            let (planned, required) = seeds;
            let is = GateCase { part, number, name: name.to_owned(), planned, required, skipped: None, result };
            self.found.cases.push(Case { is, job: job() });
        }
    }

    /// The scenarios in a folder, which need not exist.
    fn scenarios(&mut self, folder: &str, must_hold: bool) -> Result<Vec<Arc<Ready>>, CliError> {
        let path = self.args.scenarios.join(folder);
        if !path.is_dir() || scenario::files_below(&path).map_err(Problems::from)?.is_empty() {
            self.found.remarks.push(format!("there is no scenario in {}", path.display()));
            return Ok(Vec::new());
        }
        let deviations = if must_hold { self.change.clone() } else { DeviationChange::default() };
        let options = LoadOptions { scenarios: vec![path], deviations, ..LoadOptions::default() };
        Ok(load::scenarios(&options)?.into_iter().map(Arc::new).collect())
    }

    fn regression(&mut self, file: &Path, mut plan: Plan) -> Result<(), CliError> {
        self.change.apply(&mut plan.deviations);
        let (name, result, stage) = about(file, &plan)?;
        self.add(Part::Regressions, &name, (1, 1), result, || Job::Regression(plan, stage));
        Ok(())
    }

    fn digest(&mut self, file: &Path, plan: Plan) -> Result<(), CliError> {
        let (name, result, stage) = about(file, &plan)?;
        self.add(Part::Digests, &name, (1, 1), result, || Job::Digest(plan, stage));
        Ok(())
    }

    fn fresh(&mut self, ready: &Arc<Ready>) {
        let Scenario { name, .. } = &ready.scenario;
        let result = ScenarioResult { config: empty_result(ready).config, ..ScenarioResult::new(&**name, &*ready.file, []) };
        self.add(Part::Determinism, name, (DETERMINISM_SEEDS, DETERMINISM_SEEDS), result, || Job::Fresh(Arc::clone(ready)));
    }

    fn sweep(&mut self, part: Part, name: &str, ready: Arc<Ready>, first: u64, seeds: u64) {
        let shard = self.args.part.filter(|shard| part.is_cut_by_seeds() && shard.total > 1);
        let whole = |seeds: u64| SeedRange::new(first, seeds.max(1));
        let of_shard = |seeds: u64| match (whole(seeds), shard) {
            (Some(whole), Some(Shard { index, total })) => whole.shard(index, total),
            (whole, _) => whole,
        };
        let left = of_shard(seeds);
        let required = match part {
            // The number that the scenario itself states, whatever the factor.
            Part::Smoke | Part::Chaos => of_shard(ready.scenario.seeds.min(seeds)).map_or(0, count),
            Part::Negative => left.map_or(0, count),
            // No seed of a sample is required.
            _ => 0,
        };
        let planned = left.map_or(0, count);
        let until_found = ready.scenario.expect.is_some() && !part.is_cut_by_seeds();
        let result = ScenarioResult { shard_of: shard.and(whole(seeds)), ..empty_result(&ready) };
        self.add(part, name, (planned, required), result, || Job::Sweep(Sweep { ready, left, until_found, first: None }));
    }

    /// Adds a negative scenario without the mutations that make it fail.
    fn control(&mut self, ready: &Ready) {
        let mut scenario = ready.scenario.clone();
        scenario.deviations.clear();
        scenario.expect = None;
        // Its `sometimes` claims may hold only with its deviations.
        scenario.check.sometimes.clear();
        self.change.apply(&mut scenario.deviations);
        let name = scenario.name.clone();
        self.sweep(Part::Control, &name, Arc::new(Ready { scenario, ..ready.clone() }), 0, CONTROL_SEEDS);
    }

    /// Adds each deviation in its negative scenario: the one of its name, otherwise the one with the fewest other deviations. Every excuse
    /// is allowed: a deviation that only changes the number of excused seeds is not found.
    fn kill_matrix(&mut self, negative: &[Arc<Ready>], must_hold: &[Arc<Ready>]) {
        let mut without = Vec::new();
        for name in systems().mutations().iter().map(|deviation| deviation.name) {
            let has = |ready: &&Arc<Ready>| ready.scenario.deviations.iter().any(|one| one.as_str() == name);
            let rows = negative.iter().filter(has).filter(|ready| ready.scenario.expect.is_some());
            let row = rows.min_by_key(|ready| (ready.scenario.name != name, ready.scenario.deviations.len()));
            match row {
                Some(ready) => {
                    let ready = with_excuses_of(ready, must_hold.iter().map(|ready| &ready.scenario));
                    self.sweep(Part::KillMatrix, name, Arc::new(ready), KILL_FIRST, KILL_SEEDS);
                }
                None => without.push(name),
            }
        }
        if !without.is_empty() && !negative.is_empty() {
            self.found.remarks.push(format!("no negative scenario is about {}", without.join(", ")));
        }
    }

    /// Adds each deviation in the scenarios of its system that must hold, not in its negative scenarios.
    fn mutation_score(&mut self, must_hold: &[Arc<Ready>]) {
        let all: Vec<Ready> = must_hold.iter().map(|ready| (**ready).clone()).collect();
        let wanted: Vec<_> = systems().mutations().iter().collect();
        for trying in selftest::must_hold(&all, &wanted, SCORE_RUNS) {
            let name = trying.name();
            self.add(Part::MutationScore, name, (SCORE_RUNS, 0), ScenarioResult::new(name, "", []), || Job::Mutation(trying));
        }
    }
}

/// The scenario with all excuses of the `known` scenarios that must hold: violations that these excuse would go unnoticed there.
pub(in super::super) fn with_excuses_of<'a>(ready: &Ready, known: impl Iterator<Item = &'a Scenario>) -> Ready {
    let must_hold = known.filter(|scenario| scenario.expect.is_none());
    let admitted: BTreeSet<&String> = must_hold.flat_map(|scenario| &scenario.excuses).collect();
    let mut ready = ready.clone();
    ready.scenario.excuses = admitted.into_iter().cloned().collect();
    ready
}

/// The number of seeds in a range.
pub(super) fn count(range: SeedRange) -> u64 {
    u64::try_from(range.count()).unwrap_or(u64::MAX)
}

/// The name of a kept plan, an empty result for it, and the objects that exist at its start.
fn about(file: &Path, plan: &Plan) -> Result<(String, ScenarioResult, Stage), CliError> {
    let name = file.file_stem().map_or_else(|| plan.scenario.clone(), |stem| stem.to_string_lossy().into_owned());
    let result = ScenarioResult::new(&*plan.scenario, file.display().to_string(), []);
    let stage = load::stage_of_plan(plan)?;
    Ok((name, result, stage))
}
