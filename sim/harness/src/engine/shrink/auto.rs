//! What a sweep does with the first failure of each claim: it says what the failure needs and writes a smaller plan.
//!
//! Claims that break by one cause share its plan: one that the smaller plan of the same seed violates, too, is not shrunk again, and a smaller plan
//! that needs what another one needs is not kept beside it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ipam_reports::finding::Failure;
use ipam_reports::shrink::{Needs, Shrunk};

use super::{Found, ProgressWatch, ShrinkOptions, needs_of, shrink};
use crate::check::ClaimName;
use crate::engine::load::Ready;
use crate::engine::progress::{Progress, Unit};
use crate::engine::{HarnessBug, output, provenance};
use crate::plan::Plan;
use crate::system::systems;

/// What one failure may cost. Runs and events are the same on every machine, and so are the smaller plans: some ten seconds of one core.
const EACH: Work = Work { runs: 2_000, events: 4_000_000 };
/// What all failures of a sweep may cost together.
const TOTAL: Work = Work { runs: 6_000, events: 12_000_000 };

/// What shrinking costs, the same on every machine.
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

/// A cause that has a smaller plan.
struct Known<'a> {
    /// The plan that it was made from.
    from: &'a Plan,
    /// The claims that the smaller plan violates.
    violated: Vec<String>,
    needs: String,
    cause: Option<String>,
    shrunk: Shrunk,
}

impl Known<'_> {
    /// Whether another smaller plan shows the same: it gives the same run, or needs the same.
    fn is_cause_of(&self, shrunk: &Shrunk, cause: Option<&str>) -> bool {
        self.shrunk.digest == shrunk.digest || (cause.is_some() && self.cause.as_deref() == cause)
    }
}

/// Explains failures, one after the other, whatever the number of workers.
pub struct Explainer<'a> {
    out: &'a Path,
    progress: &'a dyn Progress,
    shrinks: bool,
    left: Work,
    /// When who asked has no time left.
    until: Option<Instant>,
}

impl<'a> Explainer<'a> {
    /// Writes into the folder `out`, if it `shrinks` at all.
    pub fn new(out: &'a Path, progress: &'a dyn Progress, shrinks: bool) -> Self {
        Self { out, progress, shrinks, left: TOTAL, until: None }
    }

    /// For this long in all, at most. How small plans get depends on the machine then.
    pub fn within(self, time: Duration) -> Self {
        Self { until: Some(Instant::now() + time), ..self }
    }

    fn is_over(&self) -> bool {
        self.left.is_done() || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Explains the first failure of each claim of a scenario, those that hurt users before the others. `plans`: the plan of each failure, as far as
    /// there is one.
    ///
    /// # Errors
    /// A bug of the harness, for each seed that has one.
    pub fn explain(&mut self, failures: &mut [Failure], plans: &[Option<Plan>], ready: &Ready) -> Vec<(u64, HarnessBug)> {
        let mut firsts: Vec<usize> =
            (0..failures.len()).filter(|&index| failures[..index].iter().all(|earlier| earlier.claim != failures[index].claim)).collect();
        firsts.sort_by_key(|&index| !systems().hurts(&failures[index].claim));
        let mut known: Vec<Known<'_>> = Vec::new();
        let mut bugs = Vec::new();
        for index in firsts {
            let (failure, plan) = (&mut failures[index], plans.get(index).and_then(Option::as_ref));
            let Some((from, claim)) = plan.zip(ClaimName::new(&failure.claim)) else { continue };
            if self.progress.stop_requested() {
                continue;
            }
            if let Some(same) = known.iter().find(|known| known.from == from && known.violated.contains(&failure.claim)) {
                (failure.needs, failure.cause) = (Some(same.needs.clone()), same.cause.clone());
                failure.shrunk = Some(same.shrunk.clone());
                continue;
            }
            // A negative scenario fails as it must: nobody waits for a smaller plan.
            if !self.shrinks || ready.scenario.expect.is_some() || self.is_over() {
                let needs = needs_of(from, &ready.stage, &claim);
                failure.cause = needs.as_ref().and_then(Needs::cause);
                failure.needs = needs.map(|needs| needs.to_string());
                continue;
            }
            let Work { runs, events } = EACH.min(self.left);
            let options = ShrinkOptions { runs, events, until: self.until };
            let counters = self.progress.begin(&failure.claim, Unit::Candidates, None, 1);
            let watch = ProgressWatch { progress: self.progress, counter: &counters[0] };
            match shrink(from, &ready.stage, &claim, options, &watch) {
                Ok(Some(Found { mut plan, violated, needs, mut shrunk, events, .. })) => {
                    let left = self.left;
                    self.left = Work { runs: left.runs.saturating_sub(shrunk.runs), events: left.events.saturating_sub(events) };
                    (failure.needs, failure.cause) = (Some(needs.to_string()), needs.cause());
                    let same = known.iter().find(|known| known.is_cause_of(&shrunk, failure.cause.as_deref()));
                    if let Some(same) = same {
                        // The plan that is kept may end before this claim breaks.
                        let shows = same.shrunk.digest == shrunk.digest || same.violated.contains(&failure.claim);
                        failure.shrunk = shows.then(|| same.shrunk.clone());
                        continue;
                    }
                    let first = known.iter().all(|known| known.from.seed != from.seed);
                    shrunk.plan = self.write(&mut plan, (from, failure.plan.clone()), (!first).then_some(&claim));
                    failure.shrunk = Some(shrunk.clone());
                    let (needs, cause) = (needs.to_string(), failure.cause.clone());
                    known.push(Known { from, violated, needs, cause, shrunk });
                }
                // It failed in the sweep and does not now: that is told as nondeterminism.
                Ok(None) => {}
                Err(bug) => bugs.push((failure.seed, bug)),
            }
        }
        bugs
    }

    /// Writes a smaller plan beside the plan that it was made from. Further claims of one seed have their name in the file's.
    fn write(&self, plan: &mut Plan, (from, file): (&Plan, Option<String>), claim: Option<&ClaimName>) -> Option<String> {
        let claim = claim.map(|claim| format!("-{claim}")).unwrap_or_default();
        let path: PathBuf = self.out.join(format!("{}-{}{claim}-min.toml", plan.scenario, plan.seed));
        let provenance = provenance::of_smaller(plan, from, file, provenance::replay_of(&path));
        plan.recorded.iter_mut().for_each(|recorded| recorded.provenance = Some(provenance.clone()));
        output::write(&path, plan.to_toml_at(&path)).ok()?;
        Some(path.display().to_string())
    }
}
