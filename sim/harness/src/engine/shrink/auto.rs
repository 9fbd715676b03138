//! What a sweep does with the first failure of each claim: it says what the failure needs and writes a smaller plan.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ipam_reports::finding::Failure;

use super::{Found, ProgressWatch, ShrinkOptions, needs_of, shrink};
use crate::claim::ClaimName;
use crate::engine::HarnessBug;
use crate::engine::load::Ready;
use crate::engine::progress::{Progress, Unit};
use crate::plan::Plan;

/// How many plans are run for one failure. Reached long before the time is where runs are short, so that results seldom depend on time.
const RUNS: u64 = 2_000;
/// How long one failure may take.
const BUDGET: Duration = Duration::from_secs(10);
/// How long all failures of a sweep may take together.
const TOTAL: Duration = Duration::from_secs(30);

/// Explains failures, one after the other, whatever the number of workers.
pub struct Explainer<'a> {
    out: &'a Path,
    progress: &'a dyn Progress,
    shrinks: bool,
    left: Duration,
}

impl<'a> Explainer<'a> {
    /// Writes into the folder `out`, if it `shrinks` at all.
    pub fn new(out: &'a Path, progress: &'a dyn Progress, shrinks: bool) -> Self {
        Self { out, progress, shrinks, left: TOTAL }
    }

    /// For this long in all, at most.
    pub fn within(self, time: Duration) -> Self {
        Self { left: self.left.min(time), ..self }
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
            if !self.shrinks || ready.scenario.expect.is_some() || self.left.is_zero() {
                failure.needs = needs_of(plan, &ready.stage, &claim).map(|needs| needs.to_string());
                continue;
            }
            let began = Instant::now();
            let options = ShrinkOptions { runs: RUNS, until: Some(began + BUDGET.min(self.left)) };
            let counters = self.progress.begin(&failure.claim, Unit::Candidates, None, 1);
            let watch = ProgressWatch { progress: self.progress, counter: &counters[0] };
            match shrink(plan, &ready.stage, &claim, options, &watch) {
                Ok(Some(Found { plan, needs, mut shrunk, .. })) => {
                    let first = files.insert(failure.seed);
                    shrunk.plan = self.write(&plan, (!first).then_some(&claim));
                    failure.needs = Some(needs.to_string());
                    failure.shrunk = Some(shrunk);
                }
                // It failed in the sweep and does not now: that is told as nondeterminism.
                Ok(None) => {}
                Err(bug) => bugs.push((failure.seed, bug)),
            }
            self.left = self.left.saturating_sub(began.elapsed());
        }
        bugs
    }

    /// Writes a smaller plan beside the plan that it was made from. Further claims of one seed have their name in the file's.
    fn write(&self, plan: &Plan, claim: Option<&ClaimName>) -> Option<String> {
        let claim = claim.map(|claim| format!("-{claim}")).unwrap_or_default();
        let path: PathBuf = self.out.join(format!("{}-{}{claim}-min.toml", plan.scenario, plan.seed));
        plan.write(&path).ok()?;
        Some(path.display().to_string())
    }
}
