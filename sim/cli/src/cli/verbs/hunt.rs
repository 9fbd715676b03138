//! `hunt`: a search through the plans of scenarios, guided by the coverage of its runs.

use ipam_reports::RunReport;
use sim_harness::engine::load::{self, DeviationChange};
use sim_harness::engine::thread_pool::jobs;
use sim_harness::engine::{HuntOptions, LoadOptions, Progress, hunt as engine};

use super::deviations;
use super::out_folder::{OutFolder, UsualFolder};
use crate::cli::CliError;
use crate::cli::args::HuntArgs;

/// Searches through every scenario of the command line.
pub(super) fn hunt(args: &HuntArgs, progress: &dyn Progress) -> Result<RunReport, CliError> {
    let scenarios = load::scenarios(&load_options(args)?)?;
    // Errors in them are reported before a folder is created.
    args.corpus.iter().try_for_each(|dir| engine::disk::check(dir))?;
    if let Some(missing) = args.corpus.iter().skip(1).find(|dir| !dir.is_dir()) {
        return Err(CliError::usage(format!("there is no corpus {}", missing.display())).hint("only the first --corpus is made"));
    }
    let _corpus = args.corpus.first().map(|dir| OutFolder::lock(dir, false)).transpose().map_err(of_corpus)?;
    let _alone = args.out.as_ref().map(|out| OutFolder::lock(out, false)).transpose()?;
    let usual = args.out.is_none().then(UsualFolder::take);
    let out = args.out.clone().or_else(|| Some(usual.as_ref()?.path.clone())).unwrap_or_default();
    let options = HuntOptions {
        seed: args.seed,
        runs: args.runs,
        budget: args.budget.map(|budget| budget.0),
        jobs: jobs(args.jobs),
        corpus: args.corpus.clone(),
        out,
        shrink: !args.no_shrink,
        guided: !args.unguided,
        first: args.first,
    };
    Ok(engine::run(&scenarios, &options, progress)?)
}

/// Adds the hint for a folder that another process uses.
fn of_corpus(error: CliError) -> CliError {
    CliError { hint: error.hint.map(|_| "wait for its end, or give another folder with --corpus".to_owned()), ..error }
}

/// The options that select the scenarios of the flags.
fn load_options(args: &HuntArgs) -> Result<LoadOptions, CliError> {
    let deviations = DeviationChange { add: deviations(&args.mutation)?, ..DeviationChange::default() };
    Ok(LoadOptions {
        scenarios: args.scenarios.clone(),
        variant: args.variant.clone(),
        set: args.set.clone(),
        deviations,
        ..LoadOptions::default()
    })
}
