//! Shrinks a plan that violates a claim to a smaller one that violates the same claim, and finds the faults and mutations that it needs.
//!
//! ```text
//!  plan ──► faults ──► actors ──► calm ──► operations ──► values ──► times ──┐──► clip ──► needs
//!            ▲                                                               │
//!            └───────────────────── until nothing helps ─────────────────────┘
//! ```
//! Each candidate is a plan, valid by itself, and is judged by one run. The choice of candidates depends on the results of earlier ones
//! alone, so that the same plan and the same build give the same smaller plan, however many threads there are. Only a limit on time can cut
//! the list of candidates short, and then the result says so.
//!
//! A violation of the same *claim* need not have the same reason: the smaller plan shows one way to break the claim.

pub mod auto;
pub mod ddmin;
mod needs;
pub mod reduce;
pub mod trial;
pub mod watch;

use std::time::Instant;

use ipam_reports::finding::Violation;
use ipam_reports::shrink::{CutOff, Needs, Shrunk, Size};

use super::{HarnessBug, build};
use crate::check::ClaimName;
use crate::plan::Plan;
use crate::world::Stage;

pub use auto::Explainer;
pub use watch::{ProgressWatch, Watch};

/// The limits on the cost of shrinking one plan.
#[derive(Clone, Copy, Debug)]
pub struct ShrinkOptions {
    /// The largest number of runs. The needs of the failure are found in any case.
    pub runs: u64,
    /// The largest number of events of all these runs together: a measure of their cost that is the same on every machine.
    pub events: u64,
    /// The time after which no candidate is run; `None` = no limit. The result depends on the machine only with a limit on time.
    pub until: Option<Instant>,
}

/// The result of shrinking.
pub struct Found {
    /// The smaller plan, with the recorded result of its run.
    pub plan: Plan,
    /// The violation of the claim in its run.
    pub violation: Violation,
    /// The claims that its run violates without an excuse.
    pub violated: Vec<String>,
    /// The faults and mutations that it needs; `None` if shrinking was interrupted.
    pub needs: Option<Needs>,
    /// The cost of shrinking, and the sizes; without a file.
    pub shrunk: Shrunk,
    /// The number of events of all runs.
    pub events: u64,
}

/// Shrinks `plan`. `None` if it does not violate `claim` without an excuse.
///
/// # Errors
/// Reports a bug of the harness: the smaller plan gives another run when it is run again.
pub fn shrink(
    plan: &Plan,
    stage: &Stage,
    claim: &ClaimName,
    options: ShrinkOptions,
    watch: &dyn Watch,
) -> Result<Option<Found>, HarnessBug> {
    let Some(mut trial) = trial::Trial::new(plan, stage, claim, options, watch) else { return Ok(None) };
    reduce::reduce(&mut trial);
    // Needs are judged before the end is clipped: what merely makes the claim break sooner is not needed.
    let whole = trial.best().clone();
    reduce::clip(&mut trial);
    let needs = needs::needs(&mut trial, &whole);
    let outcome = trial.outcome()?;
    let Some(violation) = trial.violation(&outcome).cloned() else {
        return Err(HarnessBug(format!("the plan that was shrunk violates {claim} in one run and not in the next")));
    };
    let violated = outcome.violations.iter().filter(|violation| violation.excuse.is_none());
    let violated = violated.map(|violation| violation.claim.clone()).collect();
    let mut smaller = trial.best().clone();
    smaller.recorded = Some(outcome.recorded(&smaller, build()));
    let cut_off = if needs.is_none() { Some(CutOff::Interrupted) } else { trial.cut_off };
    let shrunk = Shrunk { plan: None, digest: outcome.digest, size: size(&smaller), from: size(plan), runs: trial.runs, cut_off };
    Ok(Some(Found { plan: smaller, violation, violated, needs, shrunk, events: trial.events }))
}

/// The needs of a violation of `claim` by `plan`, without shrinking the plan. `None` if it does not violate the claim, or if `watch` stops.
pub fn needs_of(plan: &Plan, stage: &Stage, claim: &ClaimName, watch: &dyn Watch) -> Option<Needs> {
    let options = ShrinkOptions { runs: u64::MAX, events: u64::MAX, until: None };
    let mut trial = trial::Trial::new(plan, stage, claim, options, watch)?;
    needs::needs(&mut trial, plan)
}

/// The size of a plan.
fn size(plan: &Plan) -> Size {
    Size {
        ops: plan.op.len() as u64,
        faults: plan.fault.len() as u64,
        actors: plan.process_names().len() as u64,
        deviations: plan.deviations.len() as u64,
        time: trial::seconds(plan.end_at),
    }
}
