//! `shrink`: makes the plan of a file smaller, and writes it into another file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ipam_reports::ShrinkReport;
use ipam_reports::finding::Violation;
use ipam_reports::schema::ShrinkSchema;
use sim_harness::check::ClaimName;
use sim_harness::engine::progress::Unit;
use sim_harness::engine::run::run_plan;
use sim_harness::engine::shrink::{Found, ProgressWatch, shrink as shrink_plan};
use sim_harness::engine::{Progress, ShrinkOptions, load, provenance};
use sim_harness::system::RunOptions;
use sim_harness::world::Outcome;

use super::replay::read_plan;
use super::write_named;
use crate::cli::CliError;
use crate::cli::args::ShrinkArgs;

/// The maximum number of runs, unless `--runs` is given.
const RUNS: u64 = 20_000;
/// The maximum number of events in these runs, unless `--runs` is given: some minutes of one core, and the same on every machine.
const EVENTS: u64 = 50_000_000;

/// Shrinks the plan of the command line.
pub(super) fn shrink(args: &ShrinkArgs, progress: &dyn Progress) -> Result<ShrinkReport, CliError> {
    let plan = read_plan(&args.plan)?;
    let file = args.plan.display().to_string();
    let stage = load::stage_of_plan(&plan)?;
    let until = args.budget.map(|budget| Instant::now() + budget.0);
    let options = ShrinkOptions { runs: args.runs.unwrap_or(RUNS), events: if args.runs.is_some() { u64::MAX } else { EVENTS }, until };
    let outcome = run_plan(&plan, &stage, RunOptions::default())?;
    let claim = claim(args, &file, &outcome)?;
    let counters = progress.begin(claim.as_str(), Unit::Candidates, None, 1);
    let watch = ProgressWatch { progress, counter: &counters[0] };
    let found = shrink_plan(&plan, &stage, &claim, options, &watch)?;
    let Some(Found { plan: mut smaller, violation, needs, mut shrunk, .. }) = found else {
        return Err(CliError::harness(format!("{file} violates {claim} in one run and not in the next")));
    };
    let out = args.out.clone().unwrap_or_else(|| beside(&args.plan));
    let provenance = provenance::of_smaller(&smaller, &plan, Some(file.clone()), provenance::replay_of(&out));
    smaller.recorded.iter_mut().for_each(|recorded| recorded.provenance = Some(provenance.clone()));
    write_named(&out, &smaller.to_toml_at(&out)).map_err(|error| CliError::usage(format!("cannot write {}: {error}", out.display())))?;
    shrunk.plan = Some(out.display().to_string());
    let mut report = ShrinkReport {
        schema: ShrinkSchema,
        scenario: plan.scenario,
        seed: plan.seed,
        plan: file,
        claim: violation.claim,
        kind: violation.kind,
        at: violation.at,
        detail: violation.detail,
        needs,
        shrunk,
        exit_code: 0,
    };
    report.exit_code = report.judge();
    Ok(report)
}

/// The requested claim, or the one that is violated first.
fn claim(args: &ShrinkArgs, file: &str, outcome: &Outcome) -> Result<ClaimName, CliError> {
    let violated: Vec<&Violation> = outcome.violations.iter().filter(|violation| violation.excuse.is_none()).collect();
    let mut names: Vec<&str> = violated.iter().map(|violation| violation.claim.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    match (&args.claim, violated.first()) {
        (None, None) => Err(CliError::usage(format!("{file} does not fail: every claim of its plan holds, or has an excuse"))
            .hint("shrink takes a plan that `run` has written for a failing seed")),
        (None, Some(first)) => ClaimName::new(&first.claim)
            .ok_or_else(|| CliError::harness(format!("a claim that does not exist is violated: {}", first.claim))),
        (Some(asked), first) => match ClaimName::new(asked) {
            None => Err(CliError::usage(format!("there is no claim `{asked}`")).hint(ClaimName::advice(asked))),
            Some(claim) if names.contains(&claim.as_str()) => Ok(claim),
            Some(_) if first.is_none() => {
                Err(CliError::usage(format!("{file} does not fail: {asked} holds, and so does every other claim")))
            }
            Some(_) => Err(CliError::usage(format!("{file} does not violate {asked}, but {}", names.join(", ")))),
        },
    }
}

/// The default path of the smaller plan, next to the other one: `a/b-7.toml` becomes `a/b-7-min.toml`.
fn beside(plan: &Path) -> PathBuf {
    let stem = plan.file_stem().map_or_else(|| "plan".to_owned(), |stem| stem.to_string_lossy().into_owned());
    plan.with_file_name(format!("{stem}-min.toml"))
}
