//! What a sweep does with the first failure of each claim: it says what the failure needs and writes a smaller plan.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ipam_reports::finding::Failure;

use super::{Found, ProgressWatch, ShrinkOptions, needs_of, shrink};
use crate::check::ClaimName;
use crate::engine::load::Ready;
use crate::engine::progress::{Progress, Unit};
use crate::engine::{HarnessBug, output};
use crate::plan::Plan;

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

    /// Explains the first failure of each claim of a scenario. `plans`: the plan of each failure, as far as there is one.
    ///
    /// # Errors
    /// A bug of the harness, for each seed that has one.
    pub fn explain(&mut self, failures: &mut [Failure], plans: &[Option<Plan>], ready: &Ready) -> Vec<(u64, HarnessBug)> {
        let mut claims = BTreeSet::new();
        let mut files = BTreeSet::new();
        let mut bugs = Vec::new();
        for (failure, plan) in failures.iter_mut().zip(plans) {
            let Some((plan, claim)) = plan.as_ref().zip(ClaimName::new(&failure.claim)) else { continue };
            if !claims.insert(claim.clone()) || self.progress.stop_requested() {
                continue;
            }
            // A negative scenario fails as it must: nobody waits for a smaller plan.
            if !self.shrinks || ready.scenario.expect.is_some() || self.is_over() {
                failure.needs = needs_of(plan, &ready.stage, &claim).map(|needs| needs.to_string());
                continue;
            }
            let Work { runs, events } = EACH.min(self.left);
            let options = ShrinkOptions { runs, events, until: self.until };
            let counters = self.progress.begin(&failure.claim, Unit::Candidates, None, 1);
            let watch = ProgressWatch { progress: self.progress, counter: &counters[0] };
            match shrink(plan, &ready.stage, &claim, options, &watch) {
                Ok(Some(Found { plan, needs, mut shrunk, events, .. })) => {
                    let left = self.left;
                    self.left = Work { runs: left.runs.saturating_sub(shrunk.runs), events: left.events.saturating_sub(events) };
                    let first = files.insert(failure.seed);
                    shrunk.plan = self.write(&plan, (!first).then_some(&claim));
                    failure.needs = Some(needs.to_string());
                    failure.shrunk = Some(shrunk);
                }
                // It failed in the sweep and does not now: that is told as nondeterminism.
                Ok(None) => {}
                Err(bug) => bugs.push((failure.seed, bug)),
            }
        }
        bugs
    }

    /// Writes a smaller plan beside the plan that it was made from. Further claims of one seed have their name in the file's.
    fn write(&self, plan: &Plan, claim: Option<&ClaimName>) -> Option<String> {
        let claim = claim.map(|claim| format!("-{claim}")).unwrap_or_default();
        let path: PathBuf = self.out.join(format!("{}-{}{claim}-min.toml", plan.scenario, plan.seed));
        output::write(&path, plan.to_toml_at(&path)).ok()?;
        Some(path.display().to_string())
    }
}
