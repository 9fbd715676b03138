//! Explains the listed failures of a sweep: finds their causes, and writes a smaller plan for each cause.
//!
//! ```text
//!  first failure of each claim ──► made smaller ──► what it needs: its cause
//!  every other listed failure ──► does it go when that is left out? ──yes──► the same cause
//!                                                                   └─no──► another one: made smaller, too
//! ```
//! Claims that break for one reason share its plan: a claim that the smaller plan of the same seed violates, too, is not shrunk again, and
//! of smaller plans with the same needs only the first is kept.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ipam_reports::finding::Failure;
use ipam_reports::shrink::{CutOff, Needs, Shrunk, cause_class};

use super::trial::first_violation;
use super::{Found, ProgressWatch, ShrinkOptions, needs_of, shrink};
use crate::check::ClaimName;
use crate::engine::load::Ready;
use crate::engine::progress::{Progress, Unit};
use crate::engine::run::run_plan;
use crate::engine::{HarnessBug, output, provenance};
use crate::fault_text;
use crate::plan::Plan;
use crate::system::{RunOptions, systems};

/// The limit on the work for one failure: some ten seconds of one core. Runs and events are the same on every machine, and so are the
/// smaller plans.
const EACH: Work = Work { runs: 2_000, events: 4_000_000 };
/// The limit on the work for all failures of a sweep together.
const TOTAL: Work = Work { runs: 6_000, events: 12_000_000 };

/// The cost of shrinking, the same on every machine.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Work {
    runs: u64,
    events: u64,
}

impl Work {
    fn min(self, other: Work) -> Work {
        Work { runs: self.runs.min(other.runs), events: self.events.min(other.events) }
    }

    fn is_done(self) -> bool {
        self.runs == 0 || self.events == 0
    }
}

/// The known cause of a failure.
enum Known {
    /// The failure has this cause.
    Cause(String),
    /// The failure has none of the known causes.
    Another,
    /// No known cause can be compared.
    Unknown,
}

/// The smaller plan of a cause.
struct Smaller<'a> {
    /// The plan that was shrunk.
    from: &'a Plan,
    /// The claims that the smaller plan violates.
    violated: Vec<String>,
    needs: Needs,
    shrunk: Shrunk,
}

impl Smaller<'_> {
    /// Whether another smaller plan shows the same cause: its run has the same digest, or it has the same needs.
    fn is_cause_of(&self, shrunk: &Shrunk, cause: Option<&str>) -> bool {
        self.shrunk.digest == shrunk.digest || (cause.is_some() && self.needs.cause().as_deref() == cause)
    }
}

/// The cause that was found for a failure of a claim.
struct Explained {
    claim: String,
    cause: Option<String>,
    /// The classes of the faults that it needs, and the deviations. The claim holds without all of either list, unless that list is empty.
    without: Option<(Vec<String>, Vec<String>)>,
}

impl Explained {
    fn new(claim: &str, needs: &Needs) -> Self {
        let classes = |faults: Vec<&str>| faults.into_iter().map(cause_class).collect();
        let names = |deviations: Vec<&str>| deviations.into_iter().map(str::to_owned).collect();
        let without = needs.parts().map(|(faults, deviations)| (classes(faults), names(deviations)));
        Self { claim: claim.to_owned(), cause: needs.cause(), without }
    }

    /// Plans that hold if their failure has this cause, too; none if the cause names nothing that can be left out.
    fn trials(&self, plan: &Plan) -> Vec<Plan> {
        let Some((classes, names)) = &self.without else { return Vec::new() };
        let mut trials = Vec::new();
        if !classes.is_empty() {
            let mut without = plan.clone();
            without.fault.retain(|fault| !classes.contains(&cause_class(&fault_text::name(fault))));
            trials.push(without);
        }
        if !names.is_empty() {
            let mut without = plan.clone();
            without.deviations.retain(|deviation| names.iter().all(|name| name != deviation.as_str()));
            trials.push(without);
        }
        trials
    }
}

/// Explains failures, one after the other, whatever the number of workers.
pub struct Explainer<'a> {
    out: &'a Path,
    progress: &'a dyn Progress,
    shrinks: bool,
    left: Work,
    /// The time at which the caller's time is up.
    until: Option<Instant>,
    /// The number of smaller plans that were not made because of that.
    given_up: u64,
}

impl<'a> Explainer<'a> {
    /// Writes smaller plans into the folder `out`, if it `shrinks` at all.
    pub fn new(out: &'a Path, progress: &'a dyn Progress, shrinks: bool) -> Self {
        Self { out, progress, shrinks, left: TOTAL, until: None, given_up: 0 }
    }

    /// Limits the total time. A plan that is not fully shrunk by then is not kept, so that no plan depends on the machine:
    /// [`Explainer::given_up`].
    pub fn within(self, time: Duration) -> Self {
        Self { until: Some(Instant::now() + time), ..self }
    }

    /// The number of smaller plans that were not made for lack of time.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Explains the listed failures of a scenario: the first of each claim before the others, and of those the ones that hurt users most
    /// before the rest. `plans`: the plan of each failure, if it has one.
    ///
    /// # Errors
    /// Returns a bug of the harness for each seed that has one.
    pub fn explain(&mut self, failures: &mut [Failure], plans: &[Option<Plan>], ready: &Ready) -> Vec<(u64, HarnessBug)> {
        let is_first = |index: usize, failures: &[Failure]| failures[..index].iter().all(|earlier| earlier.claim != failures[index].claim);
        let (mut firsts, others): (Vec<usize>, Vec<usize>) = (0..failures.len()).partition(|&index| is_first(index, failures));
        firsts.sort_by_key(|&index| systems().rank(&failures[index].claim).unwrap_or(u32::MAX));
        let (mut known, mut explained, mut bugs) = (Vec::new(), Vec::new(), Vec::new());
        for index in firsts {
            let plan = plans.get(index).and_then(Option::as_ref);
            match self.explain_one(&mut failures[index], plan, ready, &mut known) {
                Ok(found) => explained.extend(found),
                Err(bug) => bugs.push((failures[index].seed, bug)),
            }
        }
        // A negative scenario is meant to fail: further causes do not matter.
        if ready.scenario.expect.is_some() {
            return bugs;
        }
        for index in others {
            if self.progress.stop_requested() || self.left.is_done() || self.is_late() {
                break;
            }
            let Some(plan) = plans.get(index).and_then(Option::as_ref) else { continue };
            match self.cause_among(&explained, &failures[index].claim, plan, ready) {
                Known::Cause(cause) => failures[index].cause = Some(cause),
                Known::Unknown => {}
                Known::Another => match self.explain_one(&mut failures[index], Some(plan), ready, &mut known) {
                    Ok(found) => explained.extend(found),
                    Err(bug) => bugs.push((failures[index].seed, bug)),
                },
            }
        }
        bugs
    }

    /// Finds the known cause of another failure of a claim: without the needs of that cause, the claim holds.
    fn cause_among(&mut self, explained: &[Explained], claim: &str, plan: &Plan, ready: &Ready) -> Known {
        let Some(name) = ClaimName::new(claim) else { return Known::Unknown };
        let mut compared = false;
        for known in explained.iter().filter(|known| known.claim == claim) {
            let (Some(cause), trials) = (&known.cause, known.trials(plan)) else { continue };
            compared |= !trials.is_empty();
            if !trials.is_empty() && trials.iter().all(|trial| self.holds(trial, &name, ready)) {
                return Known::Cause(cause.clone());
            }
        }
        if compared { Known::Another } else { Known::Unknown }
    }

    fn holds(&mut self, plan: &Plan, claim: &ClaimName, ready: &Ready) -> bool {
        let Ok(outcome) = run_plan(plan, &ready.stage, RunOptions::default()) else { return false };
        self.spend(1, outcome.events);
        first_violation(&outcome, claim).is_none()
    }

    fn spend(&mut self, runs: u64, events: u64) {
        self.left = Work { runs: self.left.runs.saturating_sub(runs), events: self.left.events.saturating_sub(events) };
    }

    /// Shrinks the plan of a failure and finds what it needs. `None` if that stays unknown.
    fn explain_one<'p>(
        &mut self,
        failure: &mut Failure,
        plan: Option<&'p Plan>,
        ready: &Ready,
        known: &mut Vec<Smaller<'p>>,
    ) -> Result<Option<Explained>, HarnessBug> {
        let Some((from, claim)) = plan.zip(ClaimName::new(&failure.claim)) else { return Ok(None) };
        if self.progress.stop_requested() {
            return Ok(None);
        }
        if let Some(same) = known.iter().find(|known| known.from == from && known.violated.contains(&failure.claim)) {
            (failure.needs, failure.cause) = (Some(same.needs.to_string()), same.needs.cause());
            failure.shrunk = Some(same.shrunk.clone());
            return Ok(Some(Explained::new(&failure.claim, &same.needs)));
        }
        // A negative scenario is meant to fail: no smaller plan is needed.
        let wanted = self.shrinks && ready.scenario.expect.is_none();
        let smaller = if wanted && !self.left.is_done() { self.make_smaller(from, &claim, ready)? } else { None };
        let smaller = smaller.and_then(|found| Some((found.needs?, found.plan, found.violated, found.shrunk)));
        let Some((needs, mut plan, violated, mut shrunk)) = smaller else {
            // The needs are found in any case, unless the user stops the harness.
            let Some(needs) = self.needs_of(from, &claim, ready) else { return Ok(None) };
            (failure.needs, failure.cause) = (Some(needs.to_string()), needs.cause());
            return Ok(Some(Explained::new(&failure.claim, &needs)));
        };
        (failure.needs, failure.cause) = (Some(needs.to_string()), needs.cause());
        let explained = Explained::new(&failure.claim, &needs);
        if let Some(same) = known.iter().find(|known| known.is_cause_of(&shrunk, failure.cause.as_deref())) {
            // The plan that is kept may end before this claim breaks.
            let shows = same.shrunk.digest == shrunk.digest || same.violated.contains(&failure.claim);
            failure.shrunk = shows.then(|| same.shrunk.clone());
            return Ok(Some(explained));
        }
        let first = known.iter().all(|known| known.from.seed != from.seed);
        let taken: Vec<&str> = known.iter().filter_map(|known| known.shrunk.plan.as_deref()).collect();
        shrunk.plan = self.write(&mut plan, (from, failure.plan.clone()), (!first).then_some(&claim), &taken);
        failure.shrunk = Some(shrunk.clone());
        known.push(Smaller { from, violated, needs, shrunk });
        Ok(Some(explained))
    }

    fn needs_of(&self, plan: &Plan, claim: &ClaimName, ready: &Ready) -> Option<Needs> {
        let counters = self.progress.begin(claim.as_str(), Unit::Candidates, None, 1);
        needs_of(plan, &ready.stage, claim, &ProgressWatch { progress: self.progress, counter: &counters[0] })
    }

    /// Shrinks a plan. `None` if time did not suffice to shrink it fully, or if the plan does not fail now: that is reported as
    /// nondeterminism.
    fn make_smaller(&mut self, from: &Plan, claim: &ClaimName, ready: &Ready) -> Result<Option<Found>, HarnessBug> {
        if self.is_late() {
            self.given_up += 1;
            return Ok(None);
        }
        let Work { runs, events } = EACH.min(self.left);
        let options = ShrinkOptions { runs, events, until: self.until };
        let counters = self.progress.begin(claim.as_str(), Unit::Candidates, None, 1);
        let watch = ProgressWatch { progress: self.progress, counter: &counters[0] };
        let Some(found) = shrink(from, &ready.stage, claim, options, &watch)? else { return Ok(None) };
        self.spend(found.shrunk.runs, found.events);
        if found.shrunk.cut_off == Some(CutOff::Time) {
            self.given_up += 1;
            return Ok(None);
        }
        Ok(Some(found))
    }

    /// Writes a smaller plan beside the plan that it was made from. File names contain the claim for further claims of one seed, and a
    /// number for further causes of one claim.
    fn write(&self, plan: &mut Plan, (from, file): (&Plan, Option<String>), claim: Option<&ClaimName>, taken: &[&str]) -> Option<String> {
        let claim = claim.map(|claim| format!("-{claim}")).unwrap_or_default();
        let name = |number: u32| {
            let number = if number > 1 { format!("-{number}") } else { String::new() };
            self.out.join(format!("{}-{}{claim}{number}-min.toml", plan.scenario, plan.seed))
        };
        let path: PathBuf = (1..).map(name).find(|path| !taken.contains(&&*path.display().to_string()))?;
        let provenance = provenance::of_smaller(plan, from, file, provenance::replay_of(&path));
        plan.recorded.iter_mut().for_each(|recorded| recorded.provenance = Some(provenance.clone()));
        output::write(&path, plan.to_toml_at(&path)).ok()?;
        Some(path.display().to_string())
    }
}
