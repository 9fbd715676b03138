//! Every placement of a few disturbances at the requests of a plan, one run each (K §2.13, §9.1).
//!
//! ```text
//!  plan of a seed ── run ──► its requests ──► the plan with one disturbance ── run ──► the requests after it ──► with two ── …
//!                                              each at each request                     of *this* run
//! ```
//! Nothing is drawn. Placements of one length run before longer ones. A run that another placement has given already, by its digest, is
//! continued once: what can follow is the same. Nothing is placed after a run that fails.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ipam_reports::placements::{Level, Placements};
use ipam_reports::{Digest, ScenarioResult, Seconds, SeedRange};
use kube_machinery::api::Verb;
use kube_sim::cluster::SentRequest;
use kube_sim::cluster::server::Failure;
use kube_sim::fault::{FaultKind, RequestEffect, RequestFault, RequestVerb, Target, Window};
use parking_lot::Mutex;
use sim_config::With;
use sim_config::time::{SimTime, Span};

use super::disturbed::{Disturbed, in_parallel};
use super::load::Ready;
use super::progress::Progress;
use super::run::{record_of, run_plan};
use super::seeds::Shard;
use crate::plan::Plan;
use crate::system::{RunOptions, systems};
use crate::world::Outcome;

/// How long a process that crashed is down.
const DOWN: Span = Span::secs(1);
/// What waits for writes of others waits no longer: until after the deadlines of its caller.
const LATE_MOST: Span = Span::secs(20);
/// How soon an error comes.
const SOON: Span = Span::millis(1);

/// What befalls one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Disturbance {
    /// The position of the process among those that are disturbed.
    process: u16,
    nth: u32,
    effect: RequestEffect,
    writes: u32,
}

impl Disturbance {
    fn fault(self, processes: &[String]) -> FaultKind {
        let after = match self.effect {
            RequestEffect::Late | RequestEffect::LateAfterReset | RequestEffect::ReplyLate => LATE_MOST,
            _ => SOON,
        };
        FaultKind::RequestFault(RequestFault {
            process: Target::from_text(&processes[usize::from(self.process)]),
            verb: RequestVerb::Any,
            resource: "*".to_owned(),
            nth: self.nth,
            effect: self.effect,
            after,
            writes: self.writes,
            error: Failure::Reset,
            down: DOWN,
        })
    }

    fn text(self, processes: &[String]) -> String {
        let until = match self.effect {
            RequestEffect::Late | RequestEffect::LateAfterReset | RequestEffect::ReplyLate => {
                format!(" until write {} of others", self.writes)
            }
            _ => String::new(),
        };
        format!("{}{until} at request {} of {}", self.effect.name(), self.nth, processes[usize::from(self.process)])
    }

    /// Part of the name of a file.
    fn file(self, processes: &[String]) -> String {
        let writes = if self.writes > 0 { format!("-{}", self.writes) } else { String::new() };
        format!("{}-{}-{}{writes}", processes[usize::from(self.process)], self.nth, self.effect.name())
    }
}

/// What can befall a request, each once. Reads change nothing: of them only answers matter.
fn effects(request: &SentRequest) -> Vec<(RequestEffect, u32)> {
    use RequestEffect::{
        CrashAfter, CrashBefore, Late, LateAfterReset, LateCommit, ReplyLate, ReplyLost, RequestLost, ServerError, Stale, TooManyRequests,
    };
    let at_once = |effects: &[RequestEffect]| effects.iter().map(|&effect| (effect, 0)).collect::<Vec<_>>();
    let until_each = |effect: RequestEffect| (1..=request.later_writes).map(move |writes| (effect, writes));
    match request.verb {
        Verb::Watch => at_once(&[RequestLost, TooManyRequests]),
        verb if verb.is_write() => {
            let mut effects = at_once(&[CrashBefore, CrashAfter, RequestLost, ReplyLost, ServerError, TooManyRequests, LateCommit]);
            effects.extend(until_each(Late));
            effects.extend(until_each(LateAfterReset));
            effects
        }
        _ => {
            let mut effects = at_once(&[RequestLost, ServerError, TooManyRequests]);
            effects.extend(until_each(ReplyLate));
            effects.extend(request.from_cache.then_some((Stale, 1)));
            effects
        }
    }
}

/// What can come after the last disturbance of a run: everything at each later request of these processes. When faults have healed there is
/// none any more.
fn disturbances(requests: &[(std::sync::Arc<str>, SentRequest)], processes: &[String], heal_at: SimTime) -> Vec<Disturbance> {
    let after = requests.iter().rposition(|(_, request)| request.struck).map_or(0, |position| position + 1);
    let mut found = Vec::new();
    for (process, request) in requests[after..].iter().filter(|(_, request)| request.at < heal_at) {
        let Some(number) = processes.iter().position(|known| **known == **process) else { continue };
        let of = |(effect, writes)| Disturbance { process: number as u16, nth: request.nth, effect, writes };
        found.extend(effects(request).into_iter().map(of));
    }
    found
}

/// A plan without disturbances, and the processes at whose requests they are placed.
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

/// What a placement gave.
struct Tried {
    digest: Digest,
    failed: bool,
    /// What can be placed after it.
    next: Vec<Disturbance>,
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

    /// The plan of a placement: its disturbances are faults like others.
    fn plan(&self, number: usize) -> Plan {
        let Base { plan, processes } = self.base(number);
        let mut plan = plan.clone();
        let fault = |disturbance: Disturbance| With { common: Window::new(SimTime::ZERO, None), kind: disturbance.fault(processes) };
        plan.fault.extend(self.path(number).into_iter().map(fault));
        plan
    }

    /// Runs a placement and counts it. `goes_on`: another disturbance may come after it.
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

/// What limits a search.
pub(super) struct Limits {
    /// How many disturbances a placement has at most.
    pub disturbances: u32,
    /// Only this part of the first disturbances.
    pub shard: Option<Shard>,
    pub jobs: usize,
    pub until: Option<Instant>,
}

/// Runs every placement in the plans of some seeds. The result counts runs where it says seeds; its ranges are those of the plans.
pub(super) fn sweep(
    ready: &Ready,
    mut result: ScenarioResult,
    range: SeedRange,
    limits: &Limits,
    progress: &dyn Progress,
) -> (ScenarioResult, Vec<Disturbed>) {
    let began = Instant::now();
    // One plan need not show what a whole sweep does.
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
    let result = Mutex::new(result);
    let mut seen: BTreeSet<(u32, Digest)> = BTreeSet::new();
    let mut first = 0;
    for disturbances in 0..=limits.disturbances {
        let level = first..search.placements.len();
        first = level.end;
        let goes_on = disturbances < limits.disturbances;
        // What has no disturbance is the first part's to tell.
        let counts = disturbances > 0 || limits.shard.is_none_or(|shard| shard.index == 1);
        let name = format!("{} +{disturbances}", ready.scenario.name);
        let tried = in_parallel(level.len(), &name, limits.jobs, limits.until, progress, |index, counter| {
            let tried = search.run(level.start + index, goes_on, counts, &result);
            counter.count(tried.failed);
            tried
        });
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
                summary.count(last.effect.name(), failed);
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
    let mut result = result.into_inner();
    // What was counted by the number of the placement is told by the seed of its plan.
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
    result.wall = Seconds::from(began.elapsed().max(Duration::from_micros(1)));
    (result, failing)
}

#[cfg(test)]
mod tests {
    use kube_sim::rt::ProcessId;

    use super::*;

    fn request(process: &str, nth: u32, verb: Verb, later_writes: u32) -> (std::sync::Arc<str>, SentRequest) {
        let (client, at) = (ProcessId(0), SimTime::from_secs(u64::from(nth)));
        (process.into(), SentRequest { client, nth, at, verb, from_cache: false, later_writes, struck: false })
    }

    #[test]
    fn a_request_is_late_until_each_later_write_and_only_a_cached_read_is_stale() {
        let count = |request: &SentRequest, effect| effects(request).iter().filter(|(known, _)| *known == effect).count();
        let (_, write) = request("p", 1, Verb::Update, 3);
        assert_eq!(count(&write, RequestEffect::Late), 3);
        assert_eq!(count(&write, RequestEffect::LateAfterReset), 3);
        assert_eq!(count(&write, RequestEffect::CrashBefore) + count(&write, RequestEffect::CrashAfter), 2);
        assert_eq!(count(&write, RequestEffect::Stale), 0);
        let (_, quorum) = request("p", 1, Verb::Get, 2);
        assert_eq!((count(&quorum, RequestEffect::ReplyLate), count(&quorum, RequestEffect::Stale)), (2, 0));
        assert_eq!(count(&quorum, RequestEffect::CrashBefore), 0, "what only reads leaves nothing half done");
        let cached = SentRequest { from_cache: true, ..quorum };
        assert_eq!(count(&cached, RequestEffect::Stale), 1);
        let (_, watch) = request("p", 1, Verb::Watch, 2);
        assert_eq!(effects(&watch).len(), 2);
    }

    #[test]
    fn disturbances_are_placed_after_the_last_one_before_the_heal_and_at_processes_under_test() {
        let processes = ["a".to_owned(), "b".to_owned()];
        let mut requests = vec![
            request("a", 1, Verb::Get, 0),
            request("b", 1, Verb::Get, 0),
            request("apart", 1, Verb::Get, 0),
            request("a", 2, Verb::Get, 0),
            request("b", 9, Verb::Get, 0),
        ];
        let places = |requests: &[_]| {
            let found = disturbances(requests, &processes, SimTime::from_secs(9));
            found.iter().map(|found| (found.process, found.nth)).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(places(&requests), [(0, 1), (0, 2), (1, 1)]);
        requests[1].1.struck = true;
        assert_eq!(places(&requests), [(0, 2)], "what comes before a disturbance was placed without it");
    }

    #[test]
    fn a_disturbance_becomes_a_fault_that_a_plan_can_hold() {
        let processes = ["a".to_owned()];
        let late = Disturbance { process: 0, nth: 4, effect: RequestEffect::Late, writes: 2 };
        assert_eq!(late.text(&processes), "late until write 2 of others at request 4 of a");
        assert_eq!(late.file(&processes), "a-4-late-2");
        let fault = With { common: Window::new(SimTime::ZERO, None), kind: late.fault(&processes) };
        let text = toml::to_string(&fault).unwrap();
        let back: kube_sim::fault::Fault = sim_config::toml::from_str("plan.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(back, fault);
    }
}
