//! `report reclaim`: runs of scenarios that reclaim addresses, until all are finished.

use std::collections::BTreeSet;
use std::path::Path;

use ipam_reports::Made;
use ipam_reports::leaks::against::{OldLeaks, comparable};
use ipam_reports::leaks::{self, Found, LeaksReport};
use ipam_reports::rows::Rows;
use sim_config::{Setting, Source};
use sim_harness::check::Checks;
use sim_harness::engine::build;
use sim_harness::engine::load::{self, LoadOptions, Ready};
use sim_harness::engine::run::{record_of, run_plan};
use sim_harness::engine::thread_pool::{ThreadPool, jobs};
use sim_harness::engine::{Progress, output};
use sim_harness::plan::hash_text;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;

use super::assumed;
use super::baseline;
use super::demand;
use super::drawings;
use super::folder::{Again, may_draw_in};
use super::ledger::{Ledger, Sheet};
use super::what_if::{self, Change};
use crate::cli::CliError;
use crate::cli::report::args::ReclaimArgs;

/// The default scenario, built in, so that it works in any folder.
const DEFAULT_FILE: &str = "scenarios/capacity/reclaim-leaks.toml";
const DEFAULT: &str = include_str!("../../../../assets/reclaim-leaks.toml");

/// The number of runs that are stored at a time: an interruption loses no more.
const BATCH: u64 = 64;

/// The file of the summary of each way of reclaiming.
const PATHS: &str = "paths.csv";

/// Answers `report reclaim`: simulates scenarios or draws a table again, and writes figures, page and `paths.csv` into `out`.
pub(super) fn report(args: &ReclaimArgs, out: &Path, progress: &dyn Progress) -> Result<LeaksReport, CliError> {
    let made = Made { question: leaks::QUESTION.to_owned(), command: args.command(), build: build().to_owned(), ..Made::default() };
    let old = baseline::read::<OldLeaks>(args.output.against.as_deref())?;
    let compare = |report: &mut LeaksReport| match &old {
        Some(old) => report.compare(old).map_err(|why| baseline::refused(old, &why)),
        None => Ok(()),
    };
    let (mut report, found) = match &args.output.from {
        Some(from) => Again::read(from, |again| {
            let found = leaks::read(again.text).map_err(|error| again.misread(&error))?;
            let assumed = demand::assumed(&again)?;
            let made = Made { from: Some(again.name()), config: "that of the table".to_owned(), assumed, ..made };
            let mut report = LeaksReport::new(made, &found, None, false);
            compare(&mut report)?;
            may_draw_in(out, args.output.force)?;
            Ok((report, found))
        })?,
        None => {
            let ready = scenarios(args)?;
            if let Some(old) = &old {
                let names = ready.iter().map(|ready| &*ready.scenario.name).collect();
                comparable(&old.report, &names).map_err(|why| baseline::refused(old, &why))?;
            }
            let (mut report, found) = simulate(args, &ready, made, out, progress)?;
            compare(&mut report)?;
            (report, found)
        }
    };
    let plates = leaks::plates(&found);
    let figures: Vec<_> = plates.iter().map(|plate| &plate.figure).collect();
    let page = leaks::page(&report, &plates).map_err(|error| CliError::harness(error.to_string()))?;
    let refused = |error: std::io::Error| CliError::usage(format!("cannot write in {}: {error}", out.display()));
    let written = drawings::write_all(&figures, &page, out)
        .and_then(|()| output::write(&out.join(PATHS), leaks::head() + &leaks::rows(&report)).map_err(refused))
        .and_then(|()| baseline::keep(&report, out));
    report.unwritten = drawings::unwritten(written)?;
    Ok(report)
}

fn simulate(
    args: &ReclaimArgs,
    ready: &[Ready],
    made: Made,
    out: &Path,
    progress: &dyn Progress,
) -> Result<(LeaksReport, Vec<Found>), CliError> {
    let texts: Vec<String> = ready.iter().map(|ready| toml::to_string(&ready.scenario).unwrap_or_default()).collect();
    let config = hash_text(&format!("{:?} {}", args.seeds, texts.concat()));
    // The assumptions of all scenarios, if they are the same.
    let mut assumed: Vec<String> = ready.iter().map(|ready| assumed::of(&ready.scenario)).collect();
    assumed.dedup();
    let assumed = if assumed.len() == 1 { assumed.remove(0) } else { String::new() };
    let made = Made { config, assumed, ..made };
    let heads = Rows::heads();
    let sheets = [Sheet { name: "reclaims.csv", head: heads.reclaims }, Sheet { name: "runs.csv", head: heads.runs }];
    let (mut ledger, known) = Ledger::open(out, &made, &sheets, &["scenario", "seed"], args.output.force)?;
    let done: BTreeSet<(&str, &str)> = known[1].iter().filter_map(|row| Some((row.get(1)?, row.get(2)?))).collect();
    let mut runs = 0;
    let mut interrupted = false;
    'all: for ready in ready {
        let seeds = args.seeds.unwrap_or(ready.scenario.seeds);
        let left: Vec<u64> = (0..seeds).filter(|seed| !done.contains(&(&ready.scenario.name, &seed.to_string()))).collect();
        runs += seeds - left.len() as u64;
        for batch in left.chunks(BATCH as usize) {
            let label = format!("{}, {seeds} seeds", ready.scenario.name);
            let pool = ThreadPool { jobs: jobs(args.output.jobs), chunk: 4, label: &label, progress };
            let work = |(): &(), number: u64| run(ready, batch[number as usize]).map_err(CliError::harness);
            let Some(parts) = pool.each(0..batch.len() as u64, || (), work)? else {
                interrupted = true;
                break 'all;
            };
            let joined = |of: fn(&Rows) -> &Vec<u8>| parts.iter().flat_map(|rows| of(rows).iter().copied()).collect::<Vec<u8>>();
            ledger.keep(&[&joined(|rows| &rows.reclaims), &joined(|rows| &rows.runs)])?;
            runs += batch.len() as u64;
        }
    }
    // The report is made from the table, so that it is the same when it is drawn again.
    let text = std::fs::read_to_string(out.join("reclaims.csv")).map_err(|error| CliError::usage(error.to_string()))?;
    let found = match leaks::read(&text) {
        Ok(found) => found,
        Err(ipam_reports::TableError::Empty(_)) => Vec::new(),
        Err(error) => return Err(CliError::harness(format!("reclaims.csv does not read back: {error}"))),
    };
    let mut report = LeaksReport::new(made, &found, Some(runs), interrupted);
    report.settings = ready.iter().map(|ready| (ready.scenario.name.clone(), baseline::settings(&ready.scenario))).collect();
    Ok((report, found))
}

/// The rows of one run.
fn run(ready: &Ready, seed: u64) -> Result<Rows, String> {
    let plan = ready.scenario.draw(seed);
    let outcome = run_plan(&plan, &ready.stage, RunOptions::default()).map_err(|message| format!("seed {seed}: {message}"))?;
    Ok(record_of(&plan, seed, Ok(outcome), |record| {
        let mut rows = Rows::default();
        rows.add(&ready.scenario.name, "", &record);
        rows
    }))
}

/// The requested scenarios, each unchanged and with the varied settings. Their claims are removed: `run` judges them.
fn scenarios(args: &ReclaimArgs) -> Result<Vec<Ready>, CliError> {
    let base = loaded(args, &args.form.set)?;
    let mut changed: Vec<Vec<(Change, Ready)>> = base.iter().map(|_| Vec::new()).collect();
    for change in what_if::changes(&args.vary)? {
        let set = change.with(&args.form.set);
        for ((mut ready, of), original) in loaded(args, &set).map_err(|error| change.told(error))?.into_iter().zip(&mut changed).zip(&base)
        {
            ready.scenario.name = leaks::changed_name(&original.scenario.name, &change.name);
            of.push((change.clone(), ready));
        }
    }
    let mut all = Vec::new();
    for (original, changed) in base.into_iter().zip(changed) {
        let file = Path::new(&original.file).to_owned();
        let changed = what_if::effective(&file, &original.scenario, changed, |ready| &ready.scenario)?;
        all.push(original);
        all.extend(changed.into_iter().map(|(_, ready)| ready));
    }
    for ready in &mut all {
        if ready.scenario.draw(0).workload.get().and_then(|plans: &sim_spiderpool::Plans| plans.cluster().reclaims()).is_none() {
            let wrong = format!("{}: nothing in `{}` reclaims addresses", ready.file, ready.scenario.name);
            return Err(CliError::usage(wrong).hint("set `reclaim = true` in the workload of Spiderpool"));
        }
        ready.scenario.check = Checks::default();
    }
    Ok(all)
}

/// The scenarios of the file, or the default ones, with these settings.
fn loaded(args: &ReclaimArgs, set: &[Setting]) -> Result<Vec<Ready>, CliError> {
    match &args.scenario {
        Some(file) => Ok(load::scenarios(&LoadOptions { set: set.to_vec(), ..args.form.load_options(file) })?),
        None => {
            let source = Source::new(DEFAULT_FILE, DEFAULT).with(set);
            let each = Scenario::parse_each(Path::new(DEFAULT_FILE), source, |_| true)?;
            each.into_iter().map(|(_, one)| Ready::new(DEFAULT_FILE, one).map_err(CliError::from)).collect()
        }
    }
}
