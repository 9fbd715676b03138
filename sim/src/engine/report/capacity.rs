//! `report capacity`: the largest number of adaptors that meets all objectives, by bisection.

use std::path::Path;

use ipam_reports::ConflictsReport;
use ipam_reports::capacity::{Capacity, Decision, Found, Objective, largest, sentence};
use ipam_reports::conflicts::{Made, Point, System};
use ipam_reports::demand::Wanted;
use ipam_reports::pool::PoolRun;

use super::bursts::{self, Enough};
use super::folder::Folder;
use super::limits;
use super::points::{self, Line, Planned};
use crate::cli::report::args::{CAPACITY_BURSTS_MAX, CapacityArgs};
use crate::cli::{CliError, Progress};
use crate::engine::BUILD;
use crate::engine::sweep::{jobs, run_seed, write_plan};
use crate::plan::hash_text;
use crate::world::Stage;

/// The first look at a point: enough to say that what never happened happens to fewer than 1 % of the calls.
const FIRST_LOOK: u64 = 500;
/// How many seeds are looked through for a burst that misses an objective.
const PROOF_SEEDS: u64 = 500;

/// Why a search ends early.
enum Ended {
    Stopped,
    Failed(CliError),
}

impl From<CliError> for Ended {
    fn from(error: CliError) -> Self {
        Ended::Failed(error)
    }
}

/// Searches every curve.
pub(super) fn search(args: &CapacityArgs, out: &Path, progress: &Progress) -> Result<ConflictsReport, CliError> {
    let (lines, least, most) = points::lines(args.system, &args.vary)?;
    let objectives = objectives(args)?;
    let seeds = args.seeds.unwrap_or(CAPACITY_BURSTS_MAX);
    let ends = lines.iter().flat_map(|line| [line.at(least), line.at(most)]);
    let scenarios = ends.map(|planned| planned.map(|planned| toml::to_string(&planned.scenario).unwrap_or_default()));
    let scenarios = scenarios.collect::<Result<Vec<_>, _>>()?.concat();
    let wanted: Vec<String> = objectives.iter().map(Objective::to_string).collect();
    let config = hash_text(&format!("{wanted:?} {seeds} {scenarios}"));
    let (folder, known) = Folder::open(out, &config, args.output.force)?;
    let mut search = Search { args, objectives: &objectives, seeds, folder, known, tried: Vec::new(), progress };
    let mut answers = Vec::new();
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
                answers.push(sentence(&found, &objectives, &points));
            }
            Err(Ended::Stopped) => {
                interrupted = true;
                break;
            }
            Err(Ended::Failed(error)) => return Err(error),
        }
    }
    answers.extend(match args.system {
        System::Byom => limits::of_pool(),
        System::Spiderpool => limits::of_agents(),
    });
    let mut points = search.tried;
    let order = |point: &Point| lines.iter().position(|line| line.series == point.setting.series);
    points.sort_by_key(|point| (order(point), point.setting.instances));
    let sharers = args.system.sharers().1;
    let question = format!("How many {sharers} can share one pool so that {} holds?", wanted.join(" and "));
    let made = Made { question, command: args.command(), build: BUILD.to_owned(), config, from: None };
    Ok(ConflictsReport::with_answers(made, answers, points, interrupted))
}

/// The objectives, all of which are about bursts.
fn objectives(args: &CapacityArgs) -> Result<Vec<Objective>, CliError> {
    let objective = |wanted: &Wanted| match wanted {
        Wanted::Burst(objective) => Ok(*objective),
        Wanted::Pods(need) => Err(CliError::usage(format!("`{need}` is asked of the pods of a scenario, and none is named"))
            .hint("name a scenario file of Spiderpool")),
    };
    args.objective.iter().map(objective).collect()
}

/// A search under way.
struct Search<'a> {
    args: &'a CapacityArgs,
    objectives: &'a [Objective],
    /// The most bursts of a point.
    seeds: u64,
    folder: Folder,
    /// What an earlier search finished.
    known: Vec<Point>,
    tried: Vec<Point>,
    progress: &'a Progress,
}

impl Search<'_> {
    /// Whether all objectives are met with so many adaptors.
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
                let enough = Enough { first: bursts::first_look(self.args.system, FIRST_LOOK), most: self.seeds, are: &decided };
                let label = format!("{}, {instances} {}", line.series, self.args.system.sharers().1);
                let finished = bursts::run(&planned, &enough, jobs(self.args.output.jobs), &label, self.progress)?.ok_or(Ended::Stopped)?;
                self.folder.keep(&finished)?;
                finished.point
            }
        };
        let met = self.objectives.iter().all(|objective| objective.judge(point.get(objective.metric)) == Decision::Met);
        self.tried.push(point);
        Ok(met)
    }

    /// Writes the plan of a burst that misses an objective by itself, if one of the first does.
    fn proof(&self, planned: &Planned, out: &Path) -> Option<String> {
        let stage = Stage::new(Vec::new());
        (planned.first_seed..planned.first_seed + PROOF_SEEDS.min(self.seeds)).find_map(|seed| {
            let mut plan = planned.scenario.draw(seed);
            let outcome = run_seed(&plan, &stage, planned.wish()).ok()?;
            let pool = outcome.pool.as_ref()?;
            let alone = Point::of(planned.setting.clone(), seed, std::slice::from_ref(pool));
            let misses = |objective: &Objective| alone.get(objective.metric).is_none_or(|found| found.value >= objective.below);
            self.objectives.iter().any(misses).then(|| {
                plan.scenario = format!("capacity-{}", planned.setting.instances);
                plan.recorded = Some(outcome.recorded(&plan, BUILD));
                write_plan(&plan, out)
            })?
        })
    }
}
