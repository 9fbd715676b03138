//! Runs one candidate after the other, and keeps the last that still violates the claim.

use std::collections::BTreeMap;
use std::time::Instant;

use ipam_reports::Seconds;
use ipam_reports::finding::{Kind, Violation};
use ipam_reports::shrink::CutOff;
use sim_config::Source;
use sim_config::time::SimTime;

use super::{ShrinkOptions, Watch};
use crate::check::ClaimName;
use crate::engine::HarnessBug;
use crate::engine::run::run_plan;
use crate::plan::Plan;
use crate::system::RunOptions;
use crate::world::{Outcome, Stage};

/// A claim, the smallest plan so far that violates it, and everything that was tried.
pub(super) struct Trial<'a> {
    stage: &'a Stage,
    pub(super) claim: &'a ClaimName,
    options: ShrinkOptions,
    watch: &'a dyn Watch,
    best: Plan,
    /// The time at which the best plan violates the claim.
    at: SimTime,
    /// The time at which each plan violates the claim, by its fingerprint; `None` = it does not.
    known: BTreeMap<String, Option<SimTime>>,
    pub(super) runs: u64,
    /// The number of events of these runs.
    pub(super) events: u64,
    pub(super) cut_off: Option<CutOff>,
    /// Whether the operations made sense together at the beginning, and whether all of them came before the faults healed.
    sensible: bool,
    in_time: bool,
}

impl<'a> Trial<'a> {
    /// Begins with `plan`. `None` if it does not violate the claim.
    pub(super) fn new(plan: &Plan, stage: &'a Stage, claim: &'a ClaimName, options: ShrinkOptions, watch: &'a dyn Watch) -> Option<Self> {
        let mut trial = Self {
            stage,
            claim,
            options,
            watch,
            best: Plan { recorded: None, ..plan.clone() },
            at: SimTime::ZERO,
            known: BTreeMap::new(),
            runs: 0,
            events: 0,
            cut_off: None,
            sensible: plan.workload.work().sensible(&plan.op),
            in_time: in_time(plan),
        };
        trial.at = trial.violated_at(plan)?;
        Some(trial)
    }

    /// The smallest plan so far that violates the claim.
    pub(super) fn best(&self) -> &Plan {
        &self.best
    }

    /// The time at which the best plan so far violates the claim, in model time of its run.
    pub(super) fn at(&self) -> SimTime {
        self.at
    }

    pub(super) fn kind(&self) -> Kind {
        self.claim.known().kind
    }

    /// Replaces the best plan so far by `candidate` if that violates the same claim. Rejects a plan that makes no sense, and every plan
    /// when the limits are reached.
    pub(super) fn accept(&mut self, candidate: Plan) -> bool {
        if candidate == self.best {
            return true;
        }
        if self.is_over() || !self.is_fair(&candidate) {
            return false;
        }
        let Some(at) = self.violated_at(&candidate) else { return false };
        self.best = candidate;
        self.at = at;
        self.watch.smaller(&self.best);
        true
    }

    /// Whether the observer wants to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.watch.stop()
    }

    fn is_over(&mut self) -> bool {
        if self.cut_off.is_none() {
            self.cut_off = if self.is_stopped() {
                Some(CutOff::Interrupted)
            } else if self.runs >= self.options.runs {
                Some(CutOff::Runs)
            } else if self.events >= self.options.events {
                Some(CutOff::Events)
            } else if self.options.until.is_some_and(|until| Instant::now() >= until) {
                Some(CutOff::Time)
            } else {
                None
            };
        }
        self.cut_off.is_some()
    }

    /// Whether a violation in `candidate` can be the one that is looked for.
    fn is_fair(&self, candidate: &Plan) -> bool {
        // An operation after the faults healed leaves less time than the bound.
        let eventually = self.kind() == Kind::Eventually;
        let attended = |plan: &Plan| plan.workload.work().has_controllers();
        (!eventually || !self.in_time || in_time(candidate))
            && (!eventually || attended(candidate) || !attended(&self.best))
            && (!self.sensible || candidate.workload.work().sensible(&candidate.op))
            && candidate.problems(Source::new("", "")).is_empty()
    }

    /// The time at which `plan` violates the claim. Runs it unless that is known.
    pub(super) fn violated_at(&mut self, plan: &Plan) -> Option<SimTime> {
        let fingerprint = plan.fingerprint();
        if let Some(known) = self.known.get(&fingerprint) {
            return *known;
        }
        self.runs += 1;
        let outcome = run_plan(plan, self.stage, RunOptions::default()).ok();
        self.events += outcome.as_ref().map_or(0, |outcome| outcome.events);
        let at = outcome.and_then(|outcome| self.violation(&outcome).map(|violation| SimTime::from_micros(violation.at.as_micros())));
        self.known.insert(fingerprint, at);
        self.watch.ran(at.is_some());
        at
    }

    /// The first violation of the claim without an excuse.
    pub(super) fn violation<'o>(&self, outcome: &'o Outcome) -> Option<&'o Violation> {
        first_violation(outcome, self.claim)
    }

    /// Runs the best plan once more, for the result that its file records.
    pub(super) fn outcome(&self) -> Result<Outcome, HarnessBug> {
        run_plan(&self.best, self.stage, RunOptions::default())
    }
}

/// The first violation of `claim` without an excuse.
pub fn first_violation<'o>(outcome: &'o Outcome, claim: &ClaimName) -> Option<&'o Violation> {
    let same = |violation: &&Violation| violation.claim == claim.as_str() && violation.excuse.is_none();
    outcome.violations.iter().find(same)
}

/// Whether every operation comes before the faults heal.
fn in_time(plan: &Plan) -> bool {
    plan.op.iter().all(|op| op.common.at <= plan.heal_at)
}

/// A point in model time, as in reports.
pub(super) fn seconds(at: SimTime) -> Seconds {
    Seconds::from_micros(at.as_micros())
}
