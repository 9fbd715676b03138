//! `run`: scenarios swept over many seeds.

use std::path::PathBuf;

use ipam_reports::{Made, RunReport};
use sim_harness::engine::load::Ready;
use sim_harness::engine::load::{self, DeviationChange};
use sim_harness::engine::sweep;
use sim_harness::engine::thread_pool::jobs;
use sim_harness::engine::{LoadOptions, Progress, SweepOptions, build};
use sim_harness::plan::hash_text;

use super::out_folder::OutFolder;
use super::{OUT, deviations};
use crate::cli::CliError;
use crate::cli::args::RunArgs;

/// Sweeps every scenario of the command line.
pub(super) fn run(args: &RunArgs, progress: &dyn Progress) -> Result<RunReport, CliError> {
    let scenarios = load::scenarios(&load_options(args)?)?;
    // Without `--out` plans go to a folder that all share: the same seed of the same scenario has the same plan there.
    let _alone = args.out.as_ref().map(|out| OutFolder::claim(out, Some(&made(args, &scenarios)), args.force)).transpose()?;
    Ok(sweep::run(&scenarios, &sweep_options(args), progress)?)
}

/// What the tables of this sweep are made of: whatever decides what stands in them, but for how many workers there are and how long they have.
fn made(args: &RunArgs, scenarios: &[Ready]) -> Made {
    let configs: Vec<_> = scenarios.iter().map(|ready| sweep::empty_result(ready).config).collect();
    let files: Vec<_> = args.scenarios.iter().map(|file| format!(" {}", file.display())).collect();
    let exhaustive = args.exhaustive.map(|disturbances| format!(" {disturbances}")).unwrap_or_default();
    Made {
        command: format!("ipam-sim run{}", files.concat()),
        build: build().to_owned(),
        config: hash_text(&format!("{configs:?} {:?} {}{exhaustive}", args.seeds(), args.every_crash_point)),
        ..Made::default()
    }
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
        exhaustive: args.exhaustive,
        out: args.out.clone().unwrap_or_else(|| PathBuf::from(OUT)),
        // Only who asks for a folder gets tables.
        tables: args.out.clone(),
        plans: !args.no_plans,
        shrink: !args.no_shrink,
    }
}
