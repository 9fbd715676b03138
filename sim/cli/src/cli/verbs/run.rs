//! `run`: scenarios swept over many seeds.

use std::path::PathBuf;

use ipam_reports::RunReport;
use sim_harness::engine::load::{self, DeviationChange};
use sim_harness::engine::sweep;
use sim_harness::engine::thread_pool::jobs;
use sim_harness::engine::{LoadOptions, Progress, SweepOptions};

use super::{OUT, deviations};
use crate::cli::CliError;
use crate::cli::args::RunArgs;

/// Sweeps every scenario of the command line.
pub(super) fn run(args: &RunArgs, progress: &dyn Progress) -> Result<RunReport, CliError> {
    let scenarios = load::scenarios(&load_options(args)?)?;
    Ok(sweep::run(&scenarios, &sweep_options(args), progress)?)
}

/// Which scenarios the flags mean.
fn load_options(args: &RunArgs) -> Result<LoadOptions, CliError> {
    let deviations = DeviationChange { profile: args.profile, add: deviations(&args.deviation)?, without: deviations(&args.without)? };
    Ok(LoadOptions {
        scenarios: args.scenarios.clone(),
        variant: args.variant.clone(),
        set: args.set.clone(),
        manifests: args.manifests.clone(),
        deviations,
    })
}

/// How the flags want them swept.
fn sweep_options(args: &RunArgs) -> SweepOptions {
    SweepOptions {
        seeds: args.seeds(),
        jobs: jobs(args.jobs),
        budget: args.budget.map(|budget| budget.0),
        every_crash_point: args.every_crash_point,
        out: args.out.clone().unwrap_or_else(|| PathBuf::from(OUT)),
        // Only who asks for a folder gets tables.
        tables: args.out.clone(),
        plans: !args.no_plans,
        shrink: !args.no_shrink,
    }
}
