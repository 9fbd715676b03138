//! Kept plans: those that once failed are judged by their claims, those with digests by their digests.

use std::path::Path;
use std::time::Instant;

use ipam_reports::finding::{Problem, ProblemKind};
use ipam_reports::{GateCase, Seconds, SeedRecord};
use sim_harness::engine::run::{run_plan, write_plan};
use sim_harness::engine::{HarnessBug, build};
use sim_harness::plan::Plan;
use sim_harness::system::RunOptions;
use sim_harness::world::Stage;

/// The mark of a plan whose digest is valid for every build, until it is recorded again.
const KEPT: &str = "kept";

/// The end of the message about a digest that differs from the kept one, but is reproducible.
const CHANGED: &str = ", and so did the next: either its behaviour changed, and the plan is to be recorded anew if that is meant, or this \
                       machine behaves otherwise than the one that recorded it";

/// Runs a plan that once failed.
pub(super) fn regression(case: &mut GateCase, plan: &Plan, stage: &Stage, out: &Path) {
    let began = Instant::now();
    let record = ran(case, plan, stage);
    case.result.add(record);
    if !case.result.failures.is_empty() {
        // The file has the plan, unless flags changed the plan that ran.
        let same = Plan::read(Path::new(&case.result.file)).is_ok_and(|kept| kept.deviations == plan.deviations);
        let file = if same { Some(case.result.file.clone()) } else { write_plan(&mut plan.clone(), None, out) };
        case.result.failures.iter_mut().for_each(|failure| failure.plan.clone_from(&file));
    }
    case.result.wall = Seconds::from(began.elapsed());
}

/// Runs a plan and compares its digest with the kept one, if that applies to this build.
pub(super) fn digest(case: &mut GateCase, plan: &Plan, stage: &Stage) {
    let Some(recorded) = &plan.recorded else {
        case.skipped = Some("no digest is recorded".to_owned());
        return;
    };
    if recorded.build != KEPT && recorded.build != build() {
        case.skipped = Some(format!("recorded by build {}, this is build {}", recorded.build, build()));
        return;
    }
    // A digest that is kept for every build stays valid when the plan's format changes.
    if recorded.build != KEPT && !recorded.plan.is_empty() && recorded.plan != plan.fingerprint() {
        case.skipped = Some("edited after its digest was recorded".to_owned());
        return;
    }
    let began = Instant::now();
    let mut record = ran(case, plan, stage);
    // Its claims are not judged: some plans were kept because they violate claims.
    record.violations.clear();
    if record.problems.is_empty() && record.digest != recorded.digest {
        let again = run_plan(plan, stage, RunOptions::default()).is_ok_and(|again| again.digest == record.digest);
        let message =
            format!("the kept digest is {}, this run gave {}{}", recorded.digest, record.digest, if again { CHANGED } else { "" });
        record.problems = vec![problem(case, plan, ProblemKind::Nondeterminism, message)];
    }
    case.result.add(record);
    case.result.wall = Seconds::from(began.elapsed());
}

fn ran(case: &GateCase, plan: &Plan, stage: &Stage) -> SeedRecord<'static> {
    let mut record = SeedRecord { seed: plan.seed, ..SeedRecord::default() };
    match run_plan(plan, stage, RunOptions::default()) {
        Ok(outcome) => {
            record.digest = outcome.digest;
            record.simulated = Seconds::from_micros(outcome.ended_at.as_micros());
            record.events = outcome.events;
            record.violations = outcome.violations;
        }
        Err(HarnessBug(message)) => record.problems = vec![problem(case, plan, ProblemKind::Harness, message)],
    }
    record
}

fn problem(case: &GateCase, plan: &Plan, kind: ProblemKind, message: String) -> Problem {
    Problem { seed: plan.seed, kind, message, plan: Some(case.result.file.clone()) }
}
