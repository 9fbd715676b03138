//! The part `mutation-score`: the mutations that sweeps notice without the negative scenarios.

use std::time::{Duration, Instant};

use ipam_reports::finding::{ClaimCount, Kind};
use ipam_reports::gate::{Part, SCORE_RUNS};
use ipam_reports::{GateCase, ScenarioResult, Seconds, SeedRange};
use sim_harness::check::ClaimName;

use super::Gate;
use super::cases::{Case, Job};
use crate::cli::verbs::selftest::{Found, Run, Try};

/// The expected claim of a case while it is unknown which one will be violated.
const ANY_CLAIM: &str = "a claim";

impl Gate<'_> {
    /// Tries the mutations that were not tried yet, for at most `within`. A mutation that is cut off counts as not tried.
    pub(super) fn try_mutations(&self, cases: &mut [Case], within: Duration) {
        let (mut results, tries): (Vec<&mut GateCase>, Vec<&Try>) = cases.iter_mut().filter_map(untried).unzip();
        let run = Run::new(self.progress, Some(Instant::now() + within));
        let found = run.in_parallel(Part::MutationScore.name(), self.jobs, tries.len(), |task, counter| {
            let began = Instant::now();
            let found = run.search(tries[task], 0, counter)?;
            Some((found, began.elapsed()))
        });
        for ((is, trying), (found, wall)) in results.iter_mut().zip(tries).zip(found).filter_map(|(case, found)| Some((case, found?))) {
            // This many mutations run in parallel, and a part shows real time.
            is.result = ScenarioResult { wall: Seconds::from(wall.div_f64(self.jobs.max(1) as f64)), ..result(trying, &found) };
        }
    }
}

fn untried(case: &mut Case) -> Option<(&mut GateCase, &Try)> {
    match &case.job {
        Job::Mutation(trying) if case.is.result.seeds == 0 => Some((&mut case.is, trying)),
        _ => None,
    }
}

/// The result of the runs of a mutation, as a result of the scenario that noticed it.
fn result(trying: &Try, Found { hit }: &Found) -> ScenarioResult {
    let (name, file) = hit.as_ref().map_or((trying.name(), ""), |hit| trying.found_by(hit));
    let seeds = hit.as_ref().map_or(SCORE_RUNS, |hit| hit.nth);
    let violated = hit.iter().map(|hit| {
        let kind = ClaimName::new(&hit.claim).map_or(Kind::Always, |claim| claim.known().kind);
        ClaimCount::of(hit.claim.clone(), kind)
    });
    ScenarioResult {
        expect: Some(hit.as_ref().map_or_else(|| ANY_CLAIM.to_owned(), |hit| hit.claim.clone())),
        seeds,
        seed_ranges: SeedRange::new(0, seeds).into_iter().collect(),
        violated: u64::from(hit.is_some()),
        claims: violated.collect(),
        ..ScenarioResult::new(name, file, [])
    }
}
