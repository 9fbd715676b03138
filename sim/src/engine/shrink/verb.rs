//! `shrink`: the plan of a file made smaller, into another file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ipam_reports::ShrinkReport;
use ipam_reports::finding::Violation;
use ipam_reports::schema::ShrinkSchema;

use super::super::sweep::run_seed;
use super::super::{bad_input, load, replay};
use super::{Found, Limits, Watch, shrink as shrink_plan, size};
use crate::claim::ClaimName;
use crate::cli::args::ShrinkArgs;
use crate::cli::{CliError, Progress, SeedCounter};
use crate::plan::Plan;
use crate::time::Span;
use crate::world::{Outcome, RunOptions};

/// How many plans are run at most, unless `--runs` says otherwise.
const RUNS: u64 = 20_000;
/// How long it may take, unless `--budget` says otherwise.
const BUDGET: Span = Span::secs(60);

/// Shows how far it is, and hears Ctrl-C.
pub(crate) struct Bar<'a> {
    pub(crate) progress: &'a Progress,
    pub(crate) counter: &'a SeedCounter,
}

impl Watch for Bar<'_> {
    fn stop(&self) -> bool {
        self.progress.stop_requested()
    }

    fn ran(&self, failed: bool) {
        self.counter.count(failed);
    }

    fn smaller(&self, plan: &Plan) {
        self.progress.say(size(plan).to_string());
    }
}

/// Shrinks the plan of the command line.
pub(crate) fn shrink(args: &ShrinkArgs, progress: &Progress) -> Result<ShrinkReport, CliError> {
    let plan = replay::read_plan(&args.plan)?;
    let file = args.plan.display().to_string();
    let stage = load::stage(&plan.cluster.manifests).map_err(bad_input)?;
    let until = Instant::now() + args.budget.unwrap_or(BUDGET).0;
    let limits = Limits { runs: args.runs.unwrap_or(RUNS), until: Some(until) };
    let outcome = run_seed(&plan, &stage, RunOptions::default()).map_err(CliError::harness)?;
    let claim = claim(args, &file, &outcome)?;
    let counters = progress.begin_runs(claim.as_str(), 1);
    let bar = Bar { progress, counter: &counters[0] };
    let found = shrink_plan(&plan, &stage, &claim, limits, &bar).map_err(CliError::harness)?;
    let Some(Found { plan: smaller, violation, needs, mut shrunk }) = found else {
        return Err(CliError::harness(format!("{file} violates {claim} in one run and not in the next")));
    };
    let out = args.out.clone().unwrap_or_else(|| beside(&args.plan));
    std::fs::write(&out, smaller.to_toml()).map_err(|error| CliError::usage(format!("cannot write {}: {error}", out.display())))?;
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

/// The claim that was asked for, or the one that is violated first.
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

/// `a/b-7.toml` becomes `a/b-7-min.toml`.
fn beside(plan: &Path) -> PathBuf {
    let stem = plan.file_stem().map_or_else(|| "plan".to_owned(), |stem| stem.to_string_lossy().into_owned());
    plan.with_file_name(format!("{stem}-min.toml"))
}
