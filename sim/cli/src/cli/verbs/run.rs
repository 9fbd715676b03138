//! `run`: sweeps scenarios over many seeds.

use std::path::{Path, PathBuf};

use ipam_reports::command::program;
use ipam_reports::{Made, RunReport};
use sim_config::problem::Problems;
use sim_config::source::{self, STANDARD_INPUT};
use sim_harness::engine::load::Ready;
use sim_harness::engine::load::{self, DeviationChange};
use sim_harness::engine::output;
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
    let mut scenarios = load::scenarios(&load_options(args)?)?;
    let _alone = args.out.as_ref().map(|out| OutFolder::claim(out, Some(&made(args, &scenarios)), args.force)).transpose()?;
    // The fresh process of a gate writes nothing, and the gate has locked the folder.
    let usual = (args.out.is_none() && !args.no_plans).then(UsualFolder::take);
    let out = args.out.clone().or_else(|| Some(usual.as_ref()?.path.clone())).unwrap_or_default();
    if !args.no_plans {
        keep_standard_input(&mut scenarios, &out)?;
    }
    Ok(sweep::run(&scenarios, &sweep_options(args, out), progress)?)
}

/// Writes manifests that came from standard input next to the plans, and makes the plans name that file: the same input cannot be piped
/// again. If writing fails, no plan can be written either.
fn keep_standard_input(scenarios: &mut [Ready], out: &Path) -> Result<(), CliError> {
    let all = scenarios.iter_mut().flat_map(|ready| &mut ready.scenario.cluster.manifests);
    let piped: Vec<&mut String> = all.filter(|manifest| *manifest == STANDARD_INPUT).collect();
    if piped.is_empty() {
        return Ok(());
    }
    let bytes = source::read(Path::new(STANDARD_INPUT)).map_err(Problems::from)?;
    let file = out.join(format!("manifests-{}.yaml", hash_text(&String::from_utf8_lossy(&bytes))));
    if output::write(&file, &bytes).is_ok() {
        for manifest in piped {
            *manifest = file.display().to_string();
        }
    }
    Ok(())
}

/// The identity of the tables of this sweep: everything that determines their content, except the number of workers and their time.
fn made(args: &RunArgs, scenarios: &[Ready]) -> Made {
    let configs: Vec<_> = scenarios.iter().map(|ready| sweep::empty_result(ready).config).collect();
    let files: Vec<_> = args.scenarios.iter().map(|file| format!(" {}", file.display())).collect();
    let exhaustive = args.exhaustive.map(|disturbances| format!(" {disturbances}")).unwrap_or_default();
    Made {
        command: format!("{} run{}", program(), files.concat()),
        build: build().to_owned(),
        config: hash_text(&format!("{configs:?} {:?} {}{exhaustive}", args.seeds(), args.every_crash_point)),
        ..Made::default()
    }
}

/// The options that select the scenarios of the flags.
fn load_options(args: &RunArgs) -> Result<LoadOptions, CliError> {
    let deviations = DeviationChange { profile: args.profile, add: deviations(&args.mutation)?, without: deviations(&args.without)? };
    Ok(LoadOptions {
        scenarios: args.scenarios.clone(),
        variant: args.variant.clone(),
        set: args.set.clone(),
        manifests: args.manifests.clone(),
        deviations,
    })
}

/// The options of the sweep that the flags request.
fn sweep_options(args: &RunArgs, out: PathBuf) -> SweepOptions {
    SweepOptions {
        seeds: args.seeds(),
        jobs: jobs(args.jobs),
        budget: args.budget.map(|budget| budget.0),
        every_crash_point: args.every_crash_point,
        exhaustive: args.exhaustive,
        resume: args.resume,
        out,
        // Tables are written only to a folder that was named.
        tables: args.out.clone(),
        plans: !args.no_plans,
        shrink: !args.no_shrink,
    }
}
