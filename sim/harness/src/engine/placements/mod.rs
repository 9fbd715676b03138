//! Every placement of a few disturbances at the requests and deliveries of a plan, one run each (K §2.13, §9.1).
//!
//! ```text
//!  plan of a seed ── run ──► its requests ──► the plan with one disturbance ── run ──► the requests after it ──► with two ── …
//!                            and deliveries    each at each of them                    of *this* run
//! ```
//! Nothing is drawn. Placements of one length run before longer ones. Of runs with the same digest only the first is continued: the same
//! can follow each. Nothing is placed after a run that fails.

mod disturbance;
mod journal;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use ipam_reports::placements::{Level, Placements};
use ipam_reports::{Digest, ScenarioResult, Seconds, SeedRange};
use kube_sim::fault::Window;
use parking_lot::Mutex;
use sim_config::With;
use sim_config::time::SimTime;

use self::disturbance::{Disturbance, disturbances};
use self::journal::{Earlier, Journal, Tried, Whose};
use super::disturbed::{Disturbed, on_workers};
use super::load::Ready;
use super::progress::{Progress, Unit};
use super::run::{record_of, run_plan};
use super::seeds::Shard;
use super::{Error, build};
use crate::plan::Plan;
use crate::system::{RunOptions, systems};
use crate::world::Outcome;

/// The number of placements between two writes to the journal: a second or so.
const PART: usize = 1_000;

/// A plan without disturbances, and the processes whose requests are disturbed.
struct Base {
    plan: Plan,
    processes: Vec<String>,
}

/// A placement: one disturbance more than its parent has.
#[derive(Clone, Copy)]
struct Placement {
    base: u32,
    last: Option<(u32, Disturbance)>,
}

struct Search<'a> {
    ready: &'a Ready,
    bases: Vec<Base>,
    /// All placements, those with fewer disturbances first.
    placements: Vec<Placement>,
}

impl Search<'_> {
    /// The disturbances of a placement, in the order of their requests.
    fn path(&self, mut number: usize) -> Vec<Disturbance> {
        let mut path = Vec::new();
        while let Some((parent, disturbance)) = self.placements[number].last {
            path.push(disturbance);
            number = parent as usize;
        }
        path.reverse();
        path
    }

    fn base(&self, number: usize) -> &Base {
        &self.bases[self.placements[number].base as usize]
    }

    /// The plan of a placement: its disturbances are added as faults.
    fn plan(&self, number: usize) -> Plan {
        let Base { plan, processes } = self.base(number);
        let mut plan = plan.clone();
        let fault = |disturbance: Disturbance| With { common: Window::new(SimTime::ZERO, None), kind: disturbance.fault(processes) };
        plan.fault.extend(self.path(number).into_iter().map(fault));
        plan
    }

    /// Runs a placement and counts it. `goes_on`: another disturbance may follow.
    fn run(&self, number: usize, goes_on: bool, counts: bool, result: &Mutex<ScenarioResult>) -> Tried {
        let Base { plan: base, processes } = self.base(number);
        let plan = self.plan(number);
        let mut outcome = run_plan(&plan, &self.ready.stage, RunOptions { requests: goes_on, ..RunOptions::default() });
        let failed = |outcome: &Outcome| outcome.violations.iter().any(|violation| violation.excuse.is_none());
        let tried = match &mut outcome {
            Ok(outcome) => {
                let requests = std::mem::take(&mut outcome.requests);
                Tried { digest: outcome.digest, failed: failed(outcome), next: disturbances(&requests, processes, base.heal_at) }
            }
            Err(_) => Tried { digest: Digest::default(), failed: true, next: Vec::new() },
        };
        if counts {
            record_of(&plan, number as u64, outcome, |record| result.lock().add(record));
        }
        tried
    }
}

/// The limits of a search.
pub(super) struct Limits<'a> {
    /// The largest number of disturbances of a placement.
    pub disturbances: u32,
    /// The shard of the first disturbances to search; `None` = all.
    pub shard: Option<Shard>,
    pub jobs: usize,
    pub until: Option<Instant>,
    /// The folder of the journal, and whether to resume from it; `None` = no journal.
    pub journal: Option<(&'a Path, bool)>,
}

/// The ranges of a level's numbers, a part each.
fn parts(level: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    level.clone().step_by(PART).map(move |first| first..level.end.min(first + PART))
}

/// Runs every placement in the plans of some seeds. The result counts runs where it says seeds; its ranges are those of the plans.
///
/// # Errors
/// Fails if the journal is of other runs, or cannot be written.
pub(super) fn sweep(
    ready: &Ready,
    mut result: ScenarioResult,
    range: SeedRange,
    limits: &Limits<'_>,
    progress: &dyn Progress,
) -> Result<(ScenarioResult, Vec<Disturbed>), Error> {
    // One plan need not show everything that a whole sweep must.
    result.sometimes.clear();
    let bases = (range.first..=range.last).map(|seed| {
        let plan = ready.scenario.draw(seed);
        let processes = plan.workload.work().fault_targets(&plan.op).processes;
        Base { plan, processes }
    });
    let bases: Vec<Base> = bases.collect();
    let placements = (0..bases.len() as u32).map(|base| Placement { base, last: None }).collect();
    let mut search = Search { ready, bases, placements };
    let mut summary = Placements { disturbances: limits.disturbances, complete: true, ..Placements::default() };
    summary.parts.extend(limits.shard.map(|shard| shard.index));
    let whose = Whose::new(build(), result.config.clone(), range, limits.shard);
    let opened = limits.journal.map(|(folder, resume)| Journal::open(folder, &ready.scenario.name, &whose, resume)).transpose()?;
    let (mut journal, Earlier { tried: mut earlier, results }) = match opened {
        Some((journal, earlier)) => (Some(journal), earlier),
        None => (None, Earlier::default()),
    };
    let none_yet = result.clone();
    results.into_iter().for_each(|part| result.join(part));
    let mut seen: BTreeSet<(u32, Digest)> = BTreeSet::new();
    let mut first = 0;
    for disturbances in 0..=limits.disturbances {
        let level = first..search.placements.len();
        first = level.end;
        let goes_on = disturbances < limits.disturbances;
        // The placement without disturbances is counted by the first shard.
        let counts = disturbances > 0 || limits.shard.is_none_or(|shard| shard.index == 1);
        let name = format!("{} +{disturbances}", ready.scenario.name);
        let jobs = limits.jobs.min(level.len()).max(1);
        let counters = progress.begin(&name, Unit::Seeds, Some(level.len() as u64), jobs);
        let mut tried: Vec<Option<Tried>> = Vec::with_capacity(level.len());
        for part in parts(level.clone()) {
            let known: Vec<Option<Tried>> = part.clone().map(|number| earlier.remove(&number)).collect();
            known.iter().flatten().for_each(|tried| counters[0].count(tried.failed));
            let missing: Vec<usize> = part.clone().zip(&known).filter(|(_, known)| known.is_none()).map(|(number, _)| number).collect();
            let (began, of_part) = (Instant::now(), Mutex::new(none_yet.clone()));
            let gave = on_workers(&counters, missing.len(), limits.until, progress, |index, counter| {
                let tried = search.run(missing[index], goes_on, counts, &of_part);
                counter.count(tried.failed);
                tried
            });
            let mut of_part = of_part.into_inner();
            of_part.wall = Seconds::from(began.elapsed());
            if let Some(journal) = &mut journal
                && gave.iter().any(Option::is_some)
            {
                let tried = missing.iter().zip(&gave).filter_map(|(&number, tried)| Some((number, tried.clone()?)));
                journal.keep(tried.collect(), of_part.clone());
            }
            result.join(of_part);
            let mut gave = gave.into_iter();
            tried.extend(known.into_iter().map(|known| known.or_else(|| gave.next().flatten())));
            if tried.iter().any(Option::is_none) {
                break;
            }
        }
        tried.resize_with(level.len(), || None);
        let mut told = Level { disturbances, placements: level.len() as u64, ..Level::default() };
        let mut number_of_first = 0;
        for (number, tried) in level.clone().zip(tried) {
            let Some(Tried { digest, failed, next }) = tried else {
                summary.complete = false;
                continue;
            };
            let Placement { base, last } = search.placements[number];
            told.tried += 1;
            told.violated += u64::from(failed);
            if let Some((_, last)) = last {
                summary.count(last.name(), failed);
            }
            if !seen.insert((base, digest)) {
                told.equivalent += 1;
                continue;
            }
            if failed {
                continue;
            }
            for disturbance in next {
                number_of_first += 1;
                let mine = |shard: Shard| (number_of_first - 1) % u64::from(shard.total) == u64::from(shard.index - 1);
                if disturbances > 0 || limits.shard.is_none_or(mine) {
                    search.placements.push(Placement { base, last: Some((number as u32, disturbance)) });
                }
            }
        }
        if counts {
            summary.levels.push(told);
        }
        if !summary.complete {
            break;
        }
    }
    if let Some(journal) = journal.take_if(|_| summary.complete) {
        journal.done();
    }
    // Failures were counted by the number of the placement; they are reported with the seed of its plan.
    let mut failing = Vec::new();
    for failure in &mut result.failures {
        let number = failure.seed as usize;
        let (plan, processes, path) = (search.plan(number), &search.base(number).processes, search.path(number));
        failure.seed = plan.seed;
        let said: Vec<String> = path.iter().map(|disturbance| disturbance.text(processes)).collect();
        if !said.is_empty() {
            failure.detail.insert(0, said.join(", then "));
        }
        let names: Vec<String> = path.iter().map(|disturbance| disturbance.file(processes)).collect();
        let name = [vec![format!("{}-{}", plan.scenario, plan.seed)], names].concat().join("_");
        failing.push(Disturbed { plan, file: format!("{name}.toml") });
    }
    for problem in &mut result.problems {
        problem.seed = search.base(problem.seed as usize).plan.seed;
    }
    for count in &mut result.claims {
        count.seed_ranges.clear();
        systems().weigh(count);
    }
    result.seed_ranges = vec![range];
    result.placements = Some(summary);
    result.wall = result.wall.max(Seconds::from_micros(1));
    Ok((result, failing))
}
