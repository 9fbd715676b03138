//! A search through the plans of a scenario, guided by the coverage of its runs.
//!
//! ```text
//!  seeds ──► plan ──┐                      ┌─ nothing new ──► forgotten
//!  corpus ─► edit ──┴─► run ──► features ──┼─ something new ► corpus: rarer features, more children
//!    ▲                                     └─ violated ─────► a find: explained, made smaller, written like a sweep's
//!    └──────────────────────────────────────────┘
//! ```
//! Runs are numbered, and come in batches: the plan of a run follows from its number, the seed of the search, and the plans kept before its
//! batch. So the number of workers changes nothing, and a search that ended between two batches continues as if it had not.

pub mod corpus;
pub mod disk;
pub mod edit;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipam_reports::hunt::{CurvePoint, EditCount, FeatureCount, Find, Hunt};
use ipam_reports::{Digest, RunReport, ScenarioResult, Seconds, SeedRange};
use parking_lot::Mutex;
use sim_config::draw::{Concern, Draw};

use self::corpus::{Corpus, Energies, Entry};
use self::disk::{Folder, Saved};
use self::edit::{Edit, Individual};
use super::disturbed::{Disturbed, on_workers, write_failures};
use super::load::Ready;
use super::progress::{Progress, Unit, WorkerCounter};
use super::run::{record_of, run_plan};
use super::shrink::Explainer;
use super::sweep::empty_result;
use super::{Error, build};
use crate::feature::FeatureKind;
use crate::plan::Plan;
use crate::system::{RunOptions, systems};

/// The number of runs that see the same corpus.
pub const BATCH: u64 = 32;
/// The share of the runs whose plans are drawn from seeds, whatever the corpus: they find what no edit leads to.
const DRAWN: f64 = 0.5;
/// The time after which a changed corpus is written to its folder.
const SAVE_EVERY: Duration = Duration::from_secs(5);
/// The reason why the excuses of a hunt are not weighed.
const WHY_EXCUSED: &str = "a hunt comes back to what is rare: their share says nothing";

/// The options of a search.
#[derive(Clone, Debug)]
pub struct HuntOptions {
    /// The first seed of the search; `None` = that of the corpus, or 0.
    pub seed: Option<u64>,
    /// The number of runs of each scenario; `None` = as long as there is time, or as many as the scenario has seeds.
    pub runs: Option<u64>,
    /// No run starts after this much real time; scenarios share it evenly.
    pub budget: Option<Duration>,
    /// The number of workers.
    pub jobs: usize,
    /// The folders of corpora: the search continues in the first, and takes over the plans of the others.
    pub corpus: Vec<PathBuf>,
    /// The folder for plans of finds.
    pub out: PathBuf,
    /// Whether plans of finds are also shrunk.
    pub shrink: bool,
    /// Whether only plans that reach something new are kept. Otherwise all passing plans are kept that no edit made, which shows the value
    /// of guidance.
    pub guided: bool,
    /// Whether a scenario ends with the batch that has the first find.
    pub first: bool,
}

/// Searches through scenarios, one after the other.
///
/// # Errors
/// Fails if a corpus is invalid, or belongs to something else. Files that cannot be written later on are named in the report.
pub fn run(scenarios: &[Ready], options: &HuntOptions, progress: &dyn Progress) -> Result<RunReport, Error> {
    let deadline = options.budget.map(|budget| Instant::now() + budget);
    options.corpus.iter().try_for_each(|dir| disk::check(dir))?;
    let mut searches = scenarios.iter().map(|ready| Search::begin(ready, options)).collect::<Result<Vec<_>, _>>()?;
    let mut explainer = Explainer::new(&options.out, progress, options.shrink);
    let (mut results, mut unwritten) = (Vec::new(), Vec::new());
    let total = scenarios.len() as u32;
    for (number, search) in (0..).zip(&mut searches) {
        // The remaining scenarios share the remaining budget.
        let until = deadline.map(|deadline| {
            let now = Instant::now();
            now + deadline.saturating_duration_since(now) / (total - number)
        });
        search.go_on(options, until, progress);
        let (mut result, failing) = search.finish();
        write_failures(&mut result, failing, &search.ready, &options.out, &mut explainer);
        unwritten.extend(search.unwritten.take());
        results.push(result);
        if progress.stop_requested() {
            break;
        }
    }
    let mut report = RunReport::new(results, progress.stop_requested());
    report.build = Some(build().to_owned());
    report.unwritten = unwritten;
    report.exit_code = report.judge();
    Ok(report)
}

/// A search through one scenario.
struct Search {
    ready: Ready,
    folder: Option<Folder>,
    saved: Saved,
    hunt: Hunt,
    edits: BTreeMap<Edit, EditCount>,
    result: ScenarioResult,
    /// The plans of the listed failures, by the number of their run, with their origin.
    failing: BTreeMap<u64, (Plan, String)>,
    wall: Duration,
    /// The reason why the corpus on disk is not up to date.
    unwritten: Option<String>,
}

/// The plan of a run.
struct Attempt {
    individual: Individual,
    /// The index in the corpus of the plan that was edited, and the edits; `None` = the plan was drawn or taken over.
    made: Option<(usize, Vec<Edit>)>,
    taken_over: bool,
}

/// The result of an attempt.
struct Tried {
    attempt: Attempt,
    features: Vec<String>,
    digest: Digest,
    /// The claims that it violated without an excuse.
    violated: Vec<String>,
    broken: bool,
}

impl Search {
    fn begin(ready: &Ready, options: &HuntOptions) -> Result<Self, Error> {
        let mut ready = ready.clone();
        let result = empty_result(&ready);
        // These claims are about whole sweeps; no run may name any then.
        ready.scenario.check.sometimes.clear();
        let (name, config) = (&*ready.scenario.name, result.config.clone().unwrap_or_default());
        let mut folders = options.corpus.iter().map(|dir| Folder::new(dir, name));
        let mut folder = folders.next();
        let former = folder.as_mut().map(|folder| folder.read(name, &config)).transpose()?.flatten();
        let runs_before = former.as_ref().map_or(0, |saved| saved.runs);
        let mut saved = match (former, options.seed) {
            (Some(saved), Some(seed)) if saved.seed != seed => {
                let message = format!("the corpus of `{name}` was begun with --seed {}, not {seed}", saved.seed);
                return Err(Error::Usage { message, hint: Some("leave --seed out, or take another folder".to_owned()) });
            }
            (Some(saved), _) if saved.build == build() => saved,
            // Other code reaches other features: kept plans run again.
            (Some(Saved { corpus, waiting, seed, runs, finds, config, .. }), _) => {
                let waiting = corpus.entries.into_iter().map(|entry| entry.individual).chain(waiting).collect();
                Saved { build: build().to_owned(), config, seed, runs, finds, waiting, ..Saved::default() }
            }
            (None, seed) => Saved { build: build().to_owned(), config: config.clone(), seed: seed.unwrap_or(0), ..Saved::default() },
        };
        for mut folder in folders {
            let Some(Saved { corpus, waiting, .. }) = folder.read(name, &config)? else {
                let message = format!("{} holds no corpus of `{name}`", folder.path().display());
                return Err(Error::usage(message));
            };
            let theirs = corpus.entries.into_iter().map(|entry| entry.individual).chain(waiting);
            saved.waiting.extend(theirs);
        }
        let hunt = Hunt { seed: saved.seed, runs_before, ..Hunt::default() };
        let (edits, failing) = (BTreeMap::new(), BTreeMap::new());
        let result = ScenarioResult { sometimes: Vec::new(), ..result };
        Ok(Self { ready, folder, saved, hunt, edits, result, failing, wall: Duration::ZERO, unwritten: None })
    }

    /// Runs batches until there were enough, time is up, or the user stops the search.
    fn go_on(&mut self, options: &HuntOptions, until: Option<Instant>, progress: &dyn Progress) {
        let began = Instant::now();
        let mut left = match (options.runs, options.budget) {
            (Some(runs), _) => runs,
            (None, Some(_)) => u64::MAX,
            (None, None) => self.ready.scenario.seeds,
        };
        let workers = options.jobs.min(usize::try_from(left.min(BATCH)).unwrap_or(usize::MAX)).max(1);
        let total = (left < u64::MAX).then_some(left);
        let counters = progress.begin(&self.ready.scenario.name, Unit::Seeds, total, workers);
        let mut saved_at = Instant::now();
        let is_over = || progress.stop_requested() || until.is_some_and(|until| Instant::now() >= until);
        while left > 0 && !is_over() {
            if options.first && !self.result.claims.is_empty() {
                break;
            }
            let batch = left.min(BATCH);
            left -= batch;
            self.batch(batch, options.guided, &counters, until, progress);
            progress.say(format!("{} features, {} plans kept", self.saved.corpus.features.len(), self.saved.corpus.entries.len()));
            if saved_at.elapsed() >= SAVE_EVERY {
                self.save();
                saved_at = Instant::now();
            }
        }
        self.save();
        self.wall = began.elapsed().max(Duration::from_micros(1));
    }

    fn save(&mut self) {
        let Some(folder) = &mut self.folder else { return };
        if let Err(error) = folder.write(&self.ready.scenario.name, &self.saved) {
            self.unwritten.get_or_insert_with(|| error.to_string());
        }
    }

    fn batch(&mut self, runs: u64, guided: bool, counters: &[Arc<WorkerCounter>], until: Option<Instant>, progress: &dyn Progress) {
        let first = self.saved.runs;
        let corpus = &self.saved.corpus;
        let energies = if guided { corpus.energies() } else { corpus.equal_energies() };
        let result = Mutex::new(std::mem::take(&mut self.result));
        let (ready, saved) = (&self.ready, &self.saved);
        let tried = on_workers(counters, runs as usize, until, progress, |place, counter| {
            let number = first + place as u64;
            let attempt = attempt(ready, saved, &energies, place, number);
            let tried = try_out(ready, attempt, number, &result);
            counter.count(!tried.violated.is_empty() || tried.broken);
            tried
        });
        self.result = result.into_inner();
        let waited = self.saved.waiting.len().min(tried.iter().take_while(|tried| tried.is_some()).count());
        for (number, tried) in (first..).zip(tried) {
            // When time was up, later numbers did not run.
            let Some(tried) = tried else { continue };
            self.take(number, tried, guided);
        }
        self.saved.waiting.drain(..waited);
        let listed: Vec<u64> = self.result.failures.iter().map(|failure| failure.seed).collect();
        self.failing.retain(|number, _| listed.contains(number));
    }

    /// Takes in the result of a run.
    fn take(&mut self, number: u64, tried: Tried, guided: bool) {
        let Tried { attempt: Attempt { individual, made, taken_over }, features, digest, violated, broken } = tried;
        self.saved.runs = number + 1;
        let mut parent = None;
        let edits = made.as_ref().map(|(_, edits)| edits.clone()).unwrap_or_default();
        match &made {
            Some((place, _)) => {
                let entry = &mut self.saved.corpus.entries[*place];
                entry.chosen += 1;
                parent = Some(entry.number);
                let of_parent = entry.individual.plan.recorded.as_ref().map(|recorded| recorded.digest);
                self.hunt.unchanged += u64::from(of_parent == Some(digest));
                self.hunt.edited += 1;
            }
            None if taken_over => self.hunt.taken_over += 1,
            None => self.hunt.drawn += 1,
        }
        let names: Vec<String> = edits.iter().map(|edit| edit.name().to_owned()).collect();
        let is_find = !violated.is_empty();
        for claim in violated {
            if !self.saved.finds.iter().any(|find| find.claim == claim) {
                self.saved.finds.push(Find { claim, run: number, edits: names.clone() });
            }
        }
        let (numbers, new) = if is_find || broken { Default::default() } else { self.saved.corpus.count(&features) };
        let is_kept = if guided { !new.is_empty() } else { made.is_none() && !is_find && !broken };
        for edit in &edits {
            let count = self.edits.entry(*edit).or_insert_with(|| EditCount { edit: edit.name().to_owned(), ..EditCount::default() });
            count.tried += 1;
            count.kept += u64::from(is_kept);
        }
        if is_find {
            let of = parent.map_or_else(String::new, |parent| format!(", run {parent} with {}", names.join(", ")));
            self.failing.insert(number, (individual.plan, format!("run {number} of the hunt{of}")));
        } else if is_kept {
            let entry = Entry { number, individual, parent, edits: names, features: numbers, kept_for: new, chosen: 0 };
            self.saved.corpus.entries.push(entry);
        }
        if is_told(self.saved.runs) {
            self.saved.curve.push(self.now());
        }
    }

    fn now(&self) -> CurvePoint {
        CurvePoint { runs: self.saved.runs, features: self.saved.corpus.features.len() as u64 }
    }

    /// The result of the search, and the plans of the listed failures.
    fn finish(&mut self) -> (ScenarioResult, Vec<Disturbed>) {
        let mut result = std::mem::take(&mut self.result);
        let name = &self.ready.scenario.name;
        let mut failing = Vec::new();
        let mut seeds = BTreeSet::new();
        for failure in &mut result.failures {
            let number = failure.seed;
            let Some((plan, of)) = self.failing.get(&number) else { unreachable!("run {number} failed, and its plan is kept") };
            failure.seed = plan.seed;
            failure.detail.insert(0, of.clone());
            seeds.insert(plan.seed);
            failing.push(Disturbed { plan: plan.clone(), file: format!("{name}-hunt-{number}.toml") });
        }
        result.seed_ranges = seeds.into_iter().map(|seed| SeedRange { first: seed, last: seed }).collect();
        for count in &mut result.claims {
            count.seed_ranges.clear();
            systems().weigh(count);
        }
        result.why_excused.get_or_insert_with(|| WHY_EXCUSED.to_owned());
        result.wall = Seconds::from(self.wall);
        let Saved { corpus, curve, finds, .. } = &self.saved;
        let mut curve = curve.clone();
        if curve.last().is_none_or(|last| last.runs != self.saved.runs) {
            curve.push(self.now());
        }
        let never = self.never(&result);
        // These would be reported as never reached; a hunt does not have to reach them.
        result.always.retain(|count| count.judged_in > 0);
        result.eventually.retain(|count| count.judged_in > 0);
        result.faults.retain(|count| count.fired_in > 0);
        result.hunt = Some(Hunt {
            corpus: corpus.entries.len() as u64,
            folder: self.folder.as_ref().map(|folder| folder.path().display().to_string()),
            features: features_by_kind(corpus),
            curve,
            edits: self.edits.values().cloned().collect(),
            never,
            finds: finds.clone(),
            ..self.hunt.clone()
        });
        (result, failing)
    }

    /// The points, claims and faults that no run has reached.
    fn never(&self, result: &ScenarioResult) -> Vec<String> {
        let corpus = &self.saved.corpus;
        let system = systems().of_workload(&self.ready.scenario.workload);
        let mut points: Vec<String> =
            system.into_iter().flat_map(|system| system.coverage()).map(|point| format!("point {point}")).collect();
        points.sort_unstable();
        points.retain(|point| !corpus.has(point));
        let judged = |claim: &str| {
            let (claim, under) = (format!("claim {claim} under "), corpus.features.iter());
            under.map(|known| &known.text).any(|text| text.starts_with(&claim))
        };
        let claims = result.always.iter().filter(|count| !judged(&count.claim)).map(|count| format!("claim {}", count.claim));
        let faults = result.faults.iter().filter(|count| count.fired_in == 0).map(|count| format!("fault {}", count.fault));
        let rest: Vec<String> = claims.chain(faults).collect();
        points.into_iter().chain(rest).collect()
    }
}

/// The plan of the run with this number: a waiting one, one drawn from a seed, or an edited one of the corpus.
fn attempt(ready: &Ready, saved: &Saved, energies: &Energies, place: usize, number: u64) -> Attempt {
    if let Some(individual) = saved.waiting.get(place) {
        let mut individual = individual.clone();
        individual.plan.recorded = None;
        return Attempt { individual, made: None, taken_over: true };
    }
    let mut draw = Draw::new(saved.seed, Concern::Search, number);
    let (is_drawn, parent, mate) = (draw.chance(DRAWN), energies.pick(&mut draw), energies.pick(&mut draw));
    let child = parent.zip(mate).filter(|_| !is_drawn).and_then(|(parent, mate)| {
        let of = |place: usize| &saved.corpus.entries[place].individual;
        let (individual, edits) = edit::child(&ready.scenario, of(parent), of(mate), &mut draw)?;
        Some(Attempt { individual, made: Some((parent, edits)), taken_over: false })
    });
    let drawn = || {
        let seed = saved.seed.wrapping_add(number);
        Attempt { individual: Individual::drawn(&ready.scenario, seed), made: None, taken_over: false }
    };
    child.unwrap_or_else(drawn)
}

/// Runs a plan and counts it under its number.
fn try_out(ready: &Ready, mut attempt: Attempt, number: u64, result: &Mutex<ScenarioResult>) -> Tried {
    let plan = &mut attempt.individual.plan;
    let mut outcome = run_plan(plan, &ready.stage, RunOptions { features: true, ..RunOptions::default() });
    let (mut features, mut violated, mut digest) = (Vec::new(), Vec::new(), Digest::default());
    let mut recorded = None;
    if let Ok(outcome) = &mut outcome {
        features = std::mem::take(&mut outcome.features);
        digest = outcome.digest;
        let without_excuse = outcome.violations.iter().filter(|violation| violation.excuse.is_none());
        violated = without_excuse.map(|violation| violation.claim.clone()).collect();
        recorded = Some(outcome.recorded(plan, build()));
    }
    let broken = outcome.is_err();
    record_of(plan, number, outcome, |record| result.lock().add(record));
    plan.recorded = recorded;
    Tried { attempt, features, digest, violated, broken }
}

/// Whether the curve has a point after this many runs: 10, 20, 40 and so on.
fn is_told(runs: u64) -> bool {
    runs.is_multiple_of(10) && (runs / 10).is_power_of_two()
}

fn features_by_kind(corpus: &Corpus) -> Vec<FeatureCount> {
    let of = |kind: FeatureKind| {
        let reached = corpus.features.iter().filter(|known| FeatureKind::of(&known.text) == Some(kind)).count() as u64;
        FeatureCount { kind: kind.name().to_owned(), reached }
    };
    FeatureKind::ALL.into_iter().map(of).collect()
}
