//! `report capacity` of a scenario: the size of the pool that its pods need, with and without the delay of reclaim.

mod cases;
mod resamples;

use std::path::Path;

use ipam_reports::addresses::AddressRun;
use ipam_reports::against::Baseline;
use ipam_reports::capacity::smallest;
use ipam_reports::demand::against::{OldDemand, comparable};
use ipam_reports::demand::{self, Asked, DemandReport, EVERY_DEL_ARRIVES, Form, Need, Resampled, Trial, Usage, Wanted};
use ipam_reports::leaks::{self, Found};
use ipam_reports::rows::Rows;
use ipam_reports::{Made, TableError};
use sim_harness::engine::Progress;
use sim_harness::engine::build;
use sim_harness::engine::load::Ready;
use sim_harness::engine::run::{record_of, run_plan, write_plan};
use sim_harness::engine::thread_pool::{ThreadPool, jobs};
use sim_harness::plan::hash_text;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;

use self::cases::{Case, compression, given, step, total, with_addresses};
use self::resamples::{RESAMPLES, Resampling};
use super::assumed;
use super::baseline;
use super::drawings;
use super::ended::Ended;
use super::folder::{Again, may_draw_in};
use super::ledger::{Ledger, Sheet};
use super::limits;
use super::unfinished::{Ran, Unfinished};
use crate::cli::CliError;
use crate::cli::report::args::CapacityArgs;
use crate::cli::verbs::out_folder::MADE;

/// The tables: the sizes that were tried, and the usage and reclaims of the runs with the given pool.
const SIZES: &str = "sizes.csv";
const USAGE: &str = "usage.csv";
const RECLAIMS: &str = "reclaims.csv";

/// The number of runs that start before it is checked whether one of them misses an objective.
const BATCH: u64 = 8;

/// A search in progress.
struct Search<'a> {
    args: &'a CapacityArgs,
    asked: Asked,
    cases: &'a [Case],
    seeds: u64,
    ledger: Ledger,
    unfinished: Unfinished,
    /// The trials that an earlier search finished.
    known: Vec<Trial>,
    trials: Vec<Trial>,
    progress: &'a dyn Progress,
}

/// Answers `report capacity` of a scenario.
pub(super) fn report(
    args: &CapacityArgs,
    out: &Path,
    old: Option<&Baseline<OldDemand>>,
    progress: &dyn Progress,
) -> Result<DemandReport, CliError> {
    let needs = needs(args)?;
    let cases = cases::all(args)?;
    let scenario = &cases[0].ready.scenario;
    let wanted: Vec<String> = needs.iter().map(Need::to_string).collect();
    if let Some(old) = old {
        comparable(&old.report, &wanted, compression(scenario)).map_err(|why| baseline::refused(old, &why))?;
    }
    let resampling = Resampling::of(&args.others, scenario)?;
    let seeds = args.seeds.unwrap_or(scenario.seeds);
    let plan = toml::to_string(&scenario.draw(0)).unwrap_or_default();
    let others: Vec<String> =
        cases[1..].iter().map(|case| format!("{} {}", case.name, toml::to_string(&case.ready.scenario).unwrap_or_default())).collect();
    let text = toml::to_string(scenario).unwrap_or_default();
    let config = hash_text(&format!("{wanted:?} {seeds} {plan} {text} {others:?} {:?}", resampling.as_ref().map(Resampling::key)));
    let made = Made {
        question: demand::QUESTION.to_owned(),
        command: args.command(),
        build: build().to_owned(),
        config: config.clone(),
        from: None,
        assumed: assumed::of(scenario),
    };
    let heads = Rows::heads();
    let sheets = [
        Sheet { name: USAGE, head: demand::usage_head().into_bytes() },
        Sheet { name: RECLAIMS, head: heads.reclaims },
        Sheet { name: "runs.csv", head: heads.runs },
        Sheet { name: SIZES, head: demand::sizes_head().into_bytes() },
    ];
    let (ledger, _) = Ledger::open(out, &made, &sheets, &["scenario"], args.output.force)?;
    if resampling.is_none() {
        // It belongs to another report, which --force discards, and must not be read as a part of this one.
        let _ = std::fs::remove_file(out.join(RESAMPLES));
    }
    let unfinished = Unfinished::open(out, args.output.force)?;
    let known = read(out, SIZES, demand::sizes_of)?.trials;
    let (compression, step) = (compression(scenario), step(scenario));
    let asked = Asked { build: build().to_owned(), config, needs, compression, step };
    let mut search = Search { args, asked, cases: &cases, seeds, ledger, unfinished, known, trials: Vec::new(), progress };
    let mut forms = Vec::new();
    let mut interrupted = false;
    for number in 0..cases.len() {
        match search.form(number, out) {
            Ok((form, whole)) => {
                forms.push(form);
                interrupted = !whole;
            }
            Err(Ended::Stopped) => interrupted = true,
            Err(Ended::Failed(error)) => return Err(error),
        }
        if interrupted {
            break;
        }
    }
    if !interrupted {
        match search.cross(&forms) {
            Ok(()) => {}
            Err(Ended::Stopped) => interrupted = true,
            Err(Ended::Failed(error)) => return Err(error),
        }
    }
    let mut resampled: Option<Resampled> = None;
    if let Some(resampling) = resampling.filter(|_| !interrupted) {
        let search = resamples::Search {
            ready: &cases[0].ready,
            needs: &search.asked.needs,
            most: given(scenario),
            step,
            config: &search.asked.config,
            pool: ThreadPool { jobs: jobs(args.output.jobs), chunk: 1, label: "", progress },
        };
        resampled = resampling.find(&search, out, args.output.force)?;
        interrupted = resampled.is_none();
    }
    let found: Vec<Found> = read(out, RECLAIMS, leaks::read)?.into_iter().filter_map(named).collect();
    let Search { asked, trials, unfinished, .. } = search;
    if !interrupted {
        unfinished.end();
    }
    let left_out = scenario.left_out().ok().flatten().map(|sentence| format!("{sentence}."));
    let remarks = left_out.into_iter().chain(limits::of_agents());
    let mut report = DemandReport::new(made, &asked.needs, forms, trials, compression, step, resampled, remarks, interrupted);
    report.settings = baseline::settings(scenario);
    compare(&mut report, old)?;
    report.unwritten = drawings::unwritten(draw(&report, &found, out))?;
    Ok(report)
}

/// Draws the same report from the `sizes.csv` of an earlier search and the tables next to it.
pub(super) fn redraw(
    args: &CapacityArgs,
    again: &Again<'_>,
    out: &Path,
    old: Option<&Baseline<OldDemand>>,
) -> Result<DemandReport, CliError> {
    let sizes = demand::sizes_of(again.text).map_err(|error| again.misread(&error))?;
    if let Some(other) = needs(args)?.iter().find(|need| !sizes.asked.needs.contains(need)) {
        let wanted: Vec<String> = sizes.asked.needs.iter().map(Need::to_string).collect();
        let wrong = format!("its sizes were searched for {}, which says nothing of {other}", wanted.join(" and "));
        return Err(again.refused(&wrong).hint("leave --objective out, or simulate"));
    }
    let usage = again.beside(USAGE)?;
    let found = match again.beside(RECLAIMS)?.map(|text| leaks::read(&text)) {
        None | Some(Err(TableError::Empty(_))) => Vec::new(),
        Some(found) => found.map_err(|error| again.refused(&format_args!("{RECLAIMS} beside it: {error}")))?,
    };
    let mut forms = Vec::new();
    for (number, name) in sizes.forms().into_iter().enumerate() {
        let Some(given) = sizes.given(name) else { continue };
        let scenario = format!("{name}/{}", given.addresses);
        let usage = match usage.as_ref().map(|text| demand::usage_of(text, &scenario)) {
            None | Some(Err(TableError::Empty(_))) => Usage::default(),
            Some(usage) => usage.map_err(|error| again.refused(&format_args!("{USAGE} beside it: {error}")))?,
        };
        let of_form: Vec<Found> = found.iter().filter(|one| one.scenario == scenario).cloned().filter_map(named).collect();
        let mut form = Form::new(name, given.clone(), usage, &of_form);
        form.smallest = sizes.smallest(name);
        form.step = sizes.steps.get(name).copied().unwrap_or_default();
        let less = form.smallest.map(|addresses| addresses - sizes.step(name));
        let missed = sizes.trials.iter().find(|trial| trial.form == name && Some(trial.addresses) == less);
        form.plan = missed.and_then(|trial| again.plan(&format!("demand-{}-{}-", number + 1, trial.addresses), trial.missed_seed?));
        forms.push(form);
    }
    let found: Vec<Found> = found.into_iter().filter_map(named).collect();
    let Asked { build, config, needs, compression, step } = sizes.asked;
    let resampled = match again.beside(RESAMPLES)?.map(|text| demand::resamples_of(&text)) {
        None | Some(Err(TableError::Empty(_))) => None,
        Some(traces) => {
            let (drawn, traces) = traces.map_err(|error| again.refused(&format_args!("{RESAMPLES} beside it: {error}")))?;
            Resampled::new(drawn, traces)
        }
    };
    let assumed = assumed(again)?;
    let made = Made { question: demand::QUESTION.to_owned(), command: args.command(), build, config, from: Some(again.name()), assumed };
    let limits = limits::of_agents();
    let mut report = DemandReport::new(made, &needs, forms, sizes.trials, compression, step, resampled, limits, false);
    compare(&mut report, old)?;
    may_draw_in(out, args.output.force)?;
    report.unwritten = drawings::unwritten(draw(&report, &found, out))?;
    Ok(report)
}

/// The assumptions of an earlier report, if they are stored next to its table.
pub(super) fn assumed(again: &Again<'_>) -> Result<String, CliError> {
    let made = again.beside(MADE)?.and_then(|text| serde_json::from_str::<Made>(&text).ok());
    Ok(made.map_or_else(String::new, |made| made.assumed))
}

/// Compares a report with an earlier one, if there is one.
fn compare(report: &mut DemandReport, old: Option<&Baseline<OldDemand>>) -> Result<(), CliError> {
    old.map_or(Ok(()), |old| report.compare(old).map_err(|why| baseline::refused(old, &why)))
}

/// Writes the plots, the page, and the report as JSON.
fn draw(report: &DemandReport, found: &[Found], out: &Path) -> Result<(), CliError> {
    let plates = demand::plates(report, found);
    let figures: Vec<_> = plates.iter().map(|plate| &plate.figure).collect();
    let page = demand::page(report, &plates).map_err(|error| CliError::harness(error.to_string()))?;
    drawings::write_all(&figures, &page, out)?;
    baseline::keep(report, out)
}

/// Renames a row of `reclaims.csv` to the name of its form.
fn named(found: Found) -> Option<Found> {
    let (form, _) = found.scenario.rsplit_once('/')?;
    Some(Found { scenario: form.to_owned(), ..found })
}

fn needs(args: &CapacityArgs) -> Result<Vec<Need>, CliError> {
    let need = |wanted: &Wanted| match wanted {
        Wanted::Pods(need) => Ok(*need),
        Wanted::Burst(objective) => Err(CliError::usage(format!("`{objective}` is asked of bursts, not of the pods of a scenario"))
            .hint("ask for refused, unserved, wait_p50 or wait_p99; or name no scenario")),
    };
    args.objective.iter().map(need).collect()
}

/// Reads a table of the folder; it is empty if it has no rows yet.
fn read<T: Default>(out: &Path, name: &str, of: impl Fn(&str) -> Result<T, TableError>) -> Result<T, CliError> {
    let text = std::fs::read_to_string(out.join(name)).map_err(|error| CliError::usage(format!("cannot read {name}: {error}")))?;
    match of(&text) {
        Err(TableError::Empty(_)) => Ok(T::default()),
        found => found.map_err(|error| CliError::harness(format!("{name} does not read back: {error}"))),
    }
}

impl Search<'_> {
    /// Finds the size that a form needs; the second value tells whether the search was completed.
    fn form(&mut self, number: usize, out: &Path) -> Result<(Form, bool), Ended> {
        let Case { name, ready } = &self.cases[number];
        let (given, step) = (given(&ready.scenario), step(&ready.scenario));
        let total_of = |addresses| total(&with_addresses(&ready.scenario, addresses));
        let trial = self.trial(number, given, true)?;
        let scenario = format!("{name}/{}", total_of(given));
        let usage = read(out, USAGE, |text| demand::usage_of(text, &scenario))?;
        let found: Vec<Found> =
            read(out, RECLAIMS, leaks::read)?.into_iter().filter(|one| one.scenario == scenario).filter_map(named).collect();
        let guess = u32::try_from(trial.peak.div_ceil(step)).unwrap_or(given);
        if trial.asked == 0 {
            let wrong = format!("no pod of `{}` asks for an address, so there is nothing of which to find the size", ready.scenario.name);
            return Err(Ended::Failed(CliError::usage(wrong).hint("pods have to come within `phases`, and on nodes that take them")));
        }
        let met = trial.met;
        let mut form = Form::new(name, trial, usage, &found);
        form.step = if step == self.asked.step { 0 } else { step };
        if !met {
            return Ok((form, true));
        }
        match smallest(1, given, guess, |addresses| Ok(self.trial(number, addresses, false)?.met)) {
            Ok(found) => {
                form.smallest = found.map(total_of);
                form.plan = found.filter(|addresses| *addresses > 1).and_then(|addresses| self.proof(number, addresses - 1, out));
                Ok((form, true))
            }
            Err(Ended::Stopped) => Ok((form, false)),
            Err(error) => Err(error),
        }
    }

    /// Tries the smaller of two pools where the larger one is needed, for the unchanged scenario and for each changed one: the number of
    /// runs that miss an objective there separates the effect of a change from chance.
    fn cross(&mut self, forms: &[Form]) -> Result<(), Ended> {
        let Some(base) = forms[0].smallest else { return Ok(()) };
        for (number, form) in forms.iter().enumerate().skip(1).filter(|(_, form)| form.name != EVERY_DEL_ARRIVES) {
            let Some(smallest) = form.smallest else { continue };
            let larger = if smallest > base { number } else { 0 };
            let addresses = base.min(smallest) / step(&self.cases[larger].ready.scenario);
            if smallest != base && addresses > 0 {
                self.trial(larger, u32::try_from(addresses).unwrap_or(u32::MAX), false)?;
            }
        }
        Ok(())
    }

    /// Runs a form with this many addresses per pool. With `all`, every seed runs, and data over time is kept; otherwise the first run that
    /// misses an objective ends it.
    fn trial(&mut self, number: usize, addresses: u32, all: bool) -> Result<Trial, Ended> {
        let Case { name: form, ready } = &self.cases[number];
        let scenario = with_addresses(&ready.scenario, addresses);
        let total = total(&scenario);
        if let Some(done) = self.trials.iter().chain(&self.known).find(|trial| trial.form == *form && trial.addresses == total) {
            let done = done.clone();
            if !self.trials.contains(&done) {
                self.trials.push(done.clone());
            }
            return Ok(done);
        }
        let name = format!("{form}/{total}");
        let mut runs: Vec<(u64, AddressRun)> = Vec::new();
        let mut rows = Rows::default();
        let batch = if all { self.seeds } else { BATCH };
        while (runs.len() as u64) < self.seeds {
            let first = runs.len() as u64;
            let label = format!("{form}, {total} addresses");
            let pool = ThreadPool { jobs: jobs(self.args.output.jobs), chunk: 1, label: &label, progress: self.progress };
            let unfinished = &self.unfinished;
            let one = |seed| match unfinished.find(&name, seed) {
                Some(known) => Ok(known),
                None => run(&scenario, ready, &name, seed)
                    .and_then(|ran| unfinished.keep(&name, seed, &ran).map(|()| ran))
                    .map_err(CliError::harness),
            };
            let range = first..self.seeds.min(first + batch);
            let parts = pool.each(range, || (), |(), seed| one(seed))?.ok_or(Ended::Stopped)?;
            for (seed, (held, more)) in (first..).zip(parts) {
                runs.push((seed, held));
                rows.runs.extend(more.runs);
                rows.reclaims.extend(more.reclaims);
            }
            if !all && !Trial::of(form, total, &self.asked.needs, &runs).met {
                break;
            }
        }
        let trial = Trial::of(form, total, &self.asked.needs, &runs);
        let usage = if all { demand::usage_rows(&name, &Usage::of(&runs)) } else { String::new() };
        let reclaims: &[u8] = if all { &rows.reclaims } else { &[] };
        let asked = Asked { step: step(&ready.scenario), ..self.asked.clone() };
        let size = demand::size_row(&asked, &name, &trial);
        self.ledger.keep(&[usage.as_bytes(), reclaims, &rows.runs, size.as_bytes()])?;
        self.unfinished.clear()?;
        self.trials.push(trial.clone());
        Ok(trial)
    }

    /// Writes the plan of the run that misses an objective with this many addresses per pool.
    fn proof(&self, number: usize, addresses: u32, out: &Path) -> Option<String> {
        let Case { name: form, ready } = &self.cases[number];
        let scenario = with_addresses(&ready.scenario, addresses);
        let total = total(&scenario);
        let missed = self.trials.iter().find(|trial| trial.form == *form && trial.addresses == total)?.missed_seed?;
        let mut plan = scenario.draw(missed);
        let outcome = run_plan(&plan, &ready.stage, RunOptions::default()).ok()?;
        plan.scenario = format!("demand-{}-{total}", number + 1);
        plan.recorded = Some(outcome.recorded(&plan, build()));
        write_plan(&mut plan, None, out)
    }
}

/// One run, called `name` in the tables.
fn run(scenario: &Scenario, ready: &Ready, name: &str, seed: u64) -> Result<Ran, String> {
    let plan = scenario.draw(seed);
    let options = RunOptions { planner: true, ..RunOptions::default() };
    let mut outcome = run_plan(&plan, &ready.stage, options).map_err(|message| format!("seed {seed}: {message}"))?;
    let held = outcome.figures.addresses.take().ok_or_else(|| "a run of Spiderpool has addresses".to_owned())?;
    record_of(&plan, seed, Ok(outcome), |record| {
        let mut rows = Rows::default();
        rows.add(name, "", &record);
        Ok((held, rows))
    })
}
