//! `run`: scenarios swept over many seeds.

use std::path::PathBuf;

use ipam_reports::{Made, RunReport};
use sim_harness::engine::load::Ready;
use sim_harness::engine::load::{self, DeviationChange};
use sim_harness::engine::sweep;
use sim_harness::engine::thread_pool::jobs;
use sim_harness::engine::{LoadOptions, Progress, SweepOptions, build};
use sim_harness::plan::hash_text;

use super::deviations;
use super::out_folder::{OutFolder, UsualFolder};
use crate::cli::CliError;
use crate::cli::args::RunArgs;

/// Sweeps every scenario of the command line.
pub(super) fn run(args: &RunArgs, progress: &dyn Progress) -> Result<RunReport, CliError> {
    let scenarios = load::scenarios(&load_options(args)?)?;
    let _alone = args.out.as_ref().map(|out| OutFolder::claim(out, Some(&made(args, &scenarios)), args.force)).transpose()?;
    // The fresh process of a gate writes nothing, and the gate has the folder.
    let usual = (args.out.is_none() && !args.no_plans).then(UsualFolder::take);
    let out = args.out.clone().or_else(|| Some(usual.as_ref()?.path.clone())).unwrap_or_default();
    Ok(sweep::run(&scenarios, &sweep_options(args, out), progress)?)
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
fn sweep_options(args: &RunArgs, out: PathBuf) -> SweepOptions {
    SweepOptions {
        seeds: args.seeds(),
        jobs: jobs(args.jobs),
        budget: args.budget.map(|budget| budget.0),
        every_crash_point: args.every_crash_point,
        exhaustive: args.exhaustive,
        out,
        // Only who asks for a folder gets tables.
        tables: args.out.clone(),
        plans: !args.no_plans,
        shrink: !args.no_shrink,
    }
}
