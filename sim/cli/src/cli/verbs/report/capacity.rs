//! `report capacity`: finds the largest number of adaptors that meets all objectives, by bisection.

use std::path::Path;

use ipam_reports::against::Baseline;
use ipam_reports::capacity::{Capacity, Decision, Found, Objective, Open, known, largest, sentence};
use ipam_reports::conflicts::against::{OldConflicts, comparable};
use ipam_reports::conflicts::{Limit, Made, Metric, Point, Searched, Setting, System, answer, series, table};
use ipam_reports::demand::Wanted;
use ipam_reports::pool::PoolRun;
use ipam_reports::{ConflictsReport, TableError};
use sim_harness::engine::Progress;
use sim_harness::engine::build;
use sim_harness::engine::run::{run_plan, write_plan};
use sim_harness::engine::thread_pool::jobs;
use sim_harness::plan::hash_text;
use sim_harness::world::Stage;

use super::baseline;
use super::bursts::{self, Enough};
use super::drawings;
use super::ended::Ended;
use super::folder::{Again, Folder, may_draw_in};
use super::limits;
use super::points::{self, Line, Planned};
use crate::cli::CliError;
use crate::cli::report::args::{CAPACITY_BURSTS_MAX, CapacityArgs};

/// The number of bursts at the first look at a point: enough to state that an event that never happened affects fewer than 1 % of the
/// calls.
const FIRST_LOOK: u64 = 500;
/// The number of seeds that are searched for a burst that misses an objective.
const PROOF_SEEDS: u64 = 500;

/// Searches every curve and draws the results.
pub(super) fn report(
    args: &CapacityArgs,
    out: &Path,
    old: Option<&Baseline<OldConflicts>>,
    progress: &dyn Progress,
) -> Result<ConflictsReport, CliError> {
    let mut report = search(args, out, old, progress)?;
    if !report.interrupted {
        compare(&mut report, old)?;
    }
    report.unwritten = drawings::unwritten(drawings::write(&report, out))?;
    Ok(report)
}

/// Draws the same report from the `points.csv` of an earlier search, or of `report conflicts`.
pub(super) fn redraw(
    args: &CapacityArgs,
    again: &Again<'_>,
    out: &Path,
    old: Option<&Baseline<OldConflicts>>,
) -> Result<ConflictsReport, CliError> {
    let table = table::read(again.text).map_err(|error| match error {
        TableError::Foreign { .. } => again.refused_at(1, 1, &"it is no table of sizes and no table of points"),
        error => again.misread(&error),
    })?;
    let objectives = objectives(args)?;
    if objectives.is_empty() {
        return Err(again.refused(&"points do not say what was asked of them").hint("name what must hold with --objective"));
    }
    let system = table.points.first().map_or(args.sharing.system, |point| point.setting.system);
    let points = by_curve(table.points);
    let calm = points.iter().filter(|point| !point.setting.has_faults()).map(|point| &*point.setting.series);
    known_without_faults(&objectives, calm)?;
    let mut answers = Vec::new();
    let mut curves = Vec::new();
    for (series, points) in series(&points) {
        let tried = points.iter().map(|point| (point.setting.instances, meets(&objectives, point)));
        let capacity = match known(tried) {
            Ok(Some(capacity)) => capacity,
            Ok(None) => continue,
            Err(Open { fine, bad }) => {
                let (wanted, sharers) = (wanted(&objectives), system.sharers().1);
                answers.push(format!("{series}: {wanted} holds for {fine} {sharers} and not for {bad}; what lies between was not tried."));
                continue;
            }
        };
        let bad = match capacity {
            Capacity::All(_) => None,
            Capacity::UpTo(fine) => Some(fine + 1),
            Capacity::None(bad) => Some(bad),
        };
        let bad = points.iter().find(|point| Some(point.setting.instances) == bad);
        let seeds = bad.map_or(0..0, |point| point.first_seed..point.first_seed + PROOF_SEEDS.min(point.bursts));
        let plan = bad.and_then(|point| {
            let beginning = format!("{}-", proof_name(point.setting.instances));
            seeds.clone().find_map(|seed| again.plan(&beginning, seed))
        });
        curves.push(limit(series, capacity, &objectives, &points));
        answers.push(sentence(&Found { series: series.to_owned(), capacity, plan }, &objectives, &points));
        answers.extend(answer::of_shortage(series, &points));
    }
    answers.extend(limits_of(system));
    let made = Made {
        question: question(system, &objectives),
        command: args.command(),
        build: table.build,
        config: table.config,
        from: Some(again.name()),
        ..Made::default()
    };
    let searched = Searched { objectives: told(&objectives), curves };
    let mut report = ConflictsReport::searching(made, searched, answers, points, false);
    compare(&mut report, old)?;
    may_draw_in(out, args.output.force)?;
    report.unwritten = drawings::unwritten(drawings::write(&report, out))?;
    Ok(report)
}

/// The points grouped by curve, in the order in which the curves were searched, with increasing numbers of adaptors.
fn by_curve(points: Vec<Point>) -> Vec<Point> {
    let mut curves: Vec<String> = Vec::new();
    for point in &points {
        if !curves.contains(&point.setting.series) {
            curves.push(point.setting.series.clone());
        }
    }
    let mut points = points;
    points.sort_by_key(|point| (curves.iter().position(|series| *series == point.setting.series), point.setting.instances));
    points
}

/// All objectives in one phrase.
fn wanted(objectives: &[Objective]) -> String {
    told(objectives).join(" and ")
}

/// The text of each objective.
fn told(objectives: &[Objective]) -> Vec<String> {
    objectives.iter().map(Objective::to_string).collect()
}

/// Compares a search with an earlier one, if there is one.
fn compare(report: &mut ConflictsReport, old: Option<&Baseline<OldConflicts>>) -> Result<(), CliError> {
    old.map_or(Ok(()), |old| report.compare(old).map_err(|why| baseline::refused(old, &why)))
}

/// The number that a curve's search found, as data: points that certainly miss an objective give an upper bound.
fn limit(series: &str, capacity: Capacity, objectives: &[Objective], points: &[&Point]) -> Limit {
    let misses = |point: &&&Point| objectives.iter().any(|objective| objective.judge(point.get(objective.metric)) == Decision::Missed);
    let missed = points.iter().filter(misses).map(|point| point.setting.instances).min();
    let holds_for = match capacity {
        Capacity::All(most) | Capacity::UpTo(most) => most,
        Capacity::None(_) => 0,
    };
    Limit { series: series.to_owned(), holds_for, at_most: missed.map(|missed| missed.saturating_sub(1)) }
}

/// The question at the beginning of the report, with all objectives.
fn question(system: System, objectives: &[Objective]) -> String {
    format!("How many {} can share one pool so that {} holds?", system.sharers().1, wanted(objectives))
}

fn limits_of(system: System) -> [String; 2] {
    match system {
        System::Byom => limits::of_pool(),
        System::Spiderpool => limits::of_agents(),
    }
}

/// Refuses objectives about faults for bursts without faults, which have no such figures: they would be reported as missed.
///
/// # Errors
/// There is such an objective, and one of `calm`, the curves without faults.
fn known_without_faults<'a>(objectives: &[Objective], mut calm: impl Iterator<Item = &'a str>) -> Result<(), CliError> {
    let of_faults = objectives.iter().find(|objective| Metric::OF_FAULTS.contains(&objective.metric));
    let (Some(objective), Some(series)) = (of_faults, calm.next()) else { return Ok(()) };
    let wrong = format!("`{}` is a figure of bursts with faults, and those of `{series}` have none", objective.name());
    Err(CliError::usage(wrong).hint("give faults to all by `--faults FILE` or e.g. `--vary faults=mixed,hostile`"))
}

/// Whether a point certainly meets all objectives.
fn meets(objectives: &[Objective], point: &Point) -> bool {
    objectives.iter().all(|objective| objective.judge(point.get(objective.metric)) == Decision::Met)
}

/// The name of the plan of a burst that misses an objective, without its seed.
fn proof_name(instances: u32) -> String {
    format!("capacity-{instances}")
}

/// Bisects curve after curve; after an interruption, returns the points that were tried so far.
fn search(
    args: &CapacityArgs,
    out: &Path,
    old: Option<&Baseline<OldConflicts>>,
    progress: &dyn Progress,
) -> Result<ConflictsReport, CliError> {
    let (lines, least, most) = points::lines(&args.sharing)?;
    let objectives = objectives(args)?;
    known_without_faults(&objectives, lines.iter().filter(|line| !line.has_faults()).map(|line| &*line.series))?;
    if let Some(old) = old {
        let planned = lines.iter().map(|line| line.at(least)).collect::<Result<Vec<_>, _>>()?;
        let settings: Vec<&Setting> = planned.iter().map(|planned| &planned.setting).collect();
        comparable(old, &settings, Some(&told(&objectives))).map_err(|why| baseline::refused(old, &why))?;
    }
    let seeds = args.seeds.unwrap_or(CAPACITY_BURSTS_MAX);
    let ends = lines.iter().flat_map(|line| [line.at(least), line.at(most)]);
    let scenarios = ends.map(|planned| planned.map(|planned| toml::to_string(&planned.scenario).unwrap_or_default()));
    let scenarios = scenarios.collect::<Result<Vec<_>, _>>()?.concat();
    let wanted: Vec<String> = objectives.iter().map(Objective::to_string).collect();
    let config = hash_text(&format!("{wanted:?} {seeds} {scenarios}"));
    let (folder, known) = Folder::open(out, &config, args.output.force)?;
    let mut search = Search { args, objectives: &objectives, seeds, folder, known, tried: Vec::new(), progress };
    let mut answers = Vec::new();
    let mut curves = Vec::new();
    let mut interrupted = false;
    for line in &lines {
        match largest(least, most, |instances| search.holds(line, instances)) {
            Ok(capacity) => {
                let plan = match capacity {
                    Capacity::All(_) => None,
                    Capacity::UpTo(fine) => search.proof(&line.at(fine + 1)?, out),
                    Capacity::None(bad) => search.proof(&line.at(bad)?, out),
                };
                let found = Found { series: line.series.clone(), capacity, plan };
                let points: Vec<&Point> = search.tried.iter().filter(|point| point.setting.series == line.series).collect();
                curves.push(limit(&line.series, capacity, &objectives, &points));
                answers.push(sentence(&found, &objectives, &points));
                answers.extend(answer::of_shortage(&line.series, &points));
            }
            Err(Ended::Stopped) => {
                interrupted = true;
                break;
            }
            Err(Ended::Failed(error)) => return Err(error),
        }
    }
    answers.extend(limits_of(args.sharing.system));
    let points = by_curve(search.tried);
    let question = question(args.sharing.system, &objectives);
    let made = Made { question, command: args.command(), build: build().to_owned(), config, ..Made::default() };
    let searched = Searched { objectives: told(&objectives), curves };
    Ok(ConflictsReport::searching(made, searched, answers, points, interrupted))
}

/// The objectives, all of which are about bursts.
fn objectives(args: &CapacityArgs) -> Result<Vec<Objective>, CliError> {
    let objective = |wanted: &Wanted| match wanted {
        Wanted::Burst(objective) => Ok(*objective),
        Wanted::Pods(need) => Err(CliError::usage(format!("`{need}` is asked of the pods of a scenario, and none is named"))
            .hint("name a scenario file of Spiderpool, or pods with --trace")),
    };
    args.objective.iter().map(objective).collect()
}

/// A search in progress.
struct Search<'a> {
    args: &'a CapacityArgs,
    objectives: &'a [Objective],
    /// The maximum number of bursts per point.
    seeds: u64,
    folder: Folder,
    /// The points that an earlier search finished.
    known: Vec<Point>,
    tried: Vec<Point>,
    progress: &'a dyn Progress,
}

impl Search<'_> {
    /// Whether all objectives are met with this many adaptors.
    fn holds(&mut self, line: &Line, instances: u32) -> Result<bool, Ended> {
        let planned = line.at(instances)?;
        let point = match self.known.iter().find(|point| point.setting == planned.setting) {
            Some(known) => known.clone(),
            None => {
                let decided = |runs: &[PoolRun]| {
                    let point = Point::of(planned.setting.clone(), planned.first_seed, runs);
                    let decisions = || self.objectives.iter().map(|objective| objective.judge(point.get(objective.metric)));
                    decisions().any(|one| one == Decision::Missed) || decisions().all(|one| one == Decision::Met)
                };
                let enough = Enough { first: bursts::first_look(self.args.sharing.system, FIRST_LOOK), most: self.seeds, are: &decided };
                let label = format!("{}, {instances} {}", line.series, self.args.sharing.system.sharers().1);
                let finished = bursts::run(&planned, &enough, jobs(self.args.output.jobs), &label, self.progress)?.ok_or(Ended::Stopped)?;
                self.folder.keep(&finished)?;
                finished.point
            }
        };
        let met = meets(self.objectives, &point);
        self.tried.push(point);
        Ok(met)
    }

    /// Writes the plan of a single burst that misses an objective, if one of the first bursts does.
    fn proof(&self, planned: &Planned, out: &Path) -> Option<String> {
        let stage = Stage::new(Vec::new());
        (planned.first_seed..planned.first_seed + PROOF_SEEDS.min(self.seeds)).find_map(|seed| {
            let mut plan = planned.draw(seed);
            let outcome = run_plan(&plan, &stage, planned.options()).ok()?;
            let pool = outcome.figures.pool.as_ref()?;
            let alone = Point::of(planned.setting.clone(), seed, std::slice::from_ref(pool));
            let misses = |objective: &Objective| alone.get(objective.metric).is_none_or(|found| found.value >= objective.below);
            self.objectives.iter().any(misses).then(|| {
                plan.scenario = proof_name(planned.setting.instances);
                plan.recorded = Some(outcome.recorded(&plan, build()));
                write_plan(&mut plan, None, out)
            })?
        })
    }
}
