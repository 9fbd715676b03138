//! From a plan that violates a claim to a smaller one that violates the same claim, and to what of it is needed.
//!
//! ```text
//!  plan ──► faults ──► actors ──► calm ──► operations ──► values ──► times ──┐──► clip ──► needs
//!            ▲                                                               │
//!            └───────────────────── until nothing helps ─────────────────────┘
//! ```
//! Each candidate is a plan, valid by itself, and is judged by one run. Which candidates are tried follows from the answers, so that the
//! same plan and the same build give the same smaller plan, however many threads there are. Only a limit on time can cut the list of
//! candidates short, and then the result says so.
//!
//! That the same *claim* is violated does not mean that it is for the same reason: the smaller plan shows one way to break the claim.

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

/// What shrinking one plan may cost.
#[derive(Clone, Copy, Debug)]
pub struct ShrinkOptions {
    /// How many plans are run at most. What a failure needs is found out in any case.
    pub runs: u64,
    /// How many events these runs have at most, all together: a measure of what they cost that is the same on every machine.
    pub events: u64,
    /// No candidate is run later; `None` = as long as it takes. Only with a limit on time the result depends on the machine.
    pub until: Option<Instant>,
}

/// What came of it.
pub struct Found {
    /// The smaller plan, with what its run gave.
    pub plan: Plan,
    /// How the claim is violated in its run.
    pub violation: Violation,
    /// Every claim that its run violates without an excuse.
    pub violated: Vec<String>,
    /// What it needs; `None` if making it smaller was interrupted.
    pub needs: Option<Needs>,
    /// What it took; without a file.
    pub shrunk: Shrunk,
    /// How many events all runs had.
    pub events: u64,
}

/// Makes `plan` smaller. `None` if it does not violate `claim` without an excuse.
///
/// # Errors
/// A bug of the harness: the smaller plan gives another run when it is run again.
pub fn shrink(
    plan: &Plan,
    stage: &Stage,
    claim: &ClaimName,
    options: ShrinkOptions,
    watch: &dyn Watch,
) -> Result<Option<Found>, HarnessBug> {
    let Some(mut trial) = trial::Trial::new(plan, stage, claim, options, watch) else { return Ok(None) };
    reduce::reduce(&mut trial);
    // What only makes the claim break sooner is not needed: it is judged before the end is clipped.
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

/// What a violation of `claim` by `plan` needs, without making the plan smaller. `None` if it does not violate it, or if `watch` has
/// enough.
pub fn needs_of(plan: &Plan, stage: &Stage, claim: &ClaimName, watch: &dyn Watch) -> Option<Needs> {
    let options = ShrinkOptions { runs: u64::MAX, events: u64::MAX, until: None };
    let mut trial = trial::Trial::new(plan, stage, claim, options, watch)?;
    needs::needs(&mut trial, plan)
}

/// How large a plan is.
fn size(plan: &Plan) -> Size {
    Size {
        ops: plan.op.len() as u64,
        faults: plan.fault.len() as u64,
        actors: plan.process_names().len() as u64,
        deviations: plan.deviations.len() as u64,
        time: trial::seconds(plan.end_at),
    }
}
