//! `report capacity` of a scenario: how large a pool its pods need, with and without the delay of reclaim.

use std::path::Path;

use ipam_reports::addresses::AddressRun;
use ipam_reports::against::Baseline;
use ipam_reports::capacity::smallest;
use ipam_reports::demand::against::{OldDemand, comparable};
use ipam_reports::demand::{self, Asked, DemandReport, Form, Need, Trial, Usage, Wanted};
use ipam_reports::leaks::{self, Found};
use ipam_reports::rows::Rows;
use ipam_reports::{Made, TableError};
use sim_byom::workload::burst::ADDRESSES_MAX;
use sim_config::{Choice, Setting, Source};
use sim_harness::check::Checks;
use sim_harness::engine::Progress;
use sim_harness::engine::build;
use sim_harness::engine::load::{self, Ready};
use sim_harness::engine::run::{record_of, run_plan, write_plan};
use sim_harness::engine::thread_pool::{ThreadPool, jobs};
use sim_harness::plan::hash_text;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_spiderpool::workload::{TraceRows, TraceSize};

use super::baseline;
use super::drawings;
use super::folder::{Again, may_draw_in};
use super::ledger::{Ledger, Sheet};
use super::limits;
use super::unfinished::{Ran, Unfinished};
use crate::cli::CliError;
use crate::cli::report::args::CapacityArgs;

/// The tables: the sizes that were tried, and what the runs with the given pool held and reclaimed.
const SIZES: &str = "sizes.csv";
const USAGE: &str = "usage.csv";
const RECLAIMS: &str = "reclaims.csv";

/// The scenario of who brings only a trace, whatever folder the user is in.
const TRACE_FILE: &str = "scenarios/capacity/trace-hour.toml";
const TRACE: &str = include_str!("../../../../assets/trace-hour.toml");

/// How many pods a node is to take at most, so that none of a trace waits for a node: fewer than kubelets allow.
const PODS_OF_A_NODE: u64 = 50;

/// How many runs are started at a time before it is looked whether one misses a need.
const BATCH: u64 = 8;

/// The forms of a scenario: with what it does to DELs, and without.
const FORMS: [&str; 2] = ["as it is", "every DEL arrives"];

/// A search under way.
struct Search<'a> {
    args: &'a CapacityArgs,
    asked: Asked,
    ready: Ready,
    seeds: u64,
    ledger: Ledger,
    unfinished: Unfinished,
    /// What an earlier search finished.
    known: Vec<Trial>,
    trials: Vec<Trial>,
    progress: &'a dyn Progress,
}

/// Why a search ends early.
enum Ended {
    Stopped,
    Failed(CliError),
}

impl From<CliError> for Ended {
    fn from(error: CliError) -> Self {
        Ended::Failed(error)
    }
}

/// `report capacity` of a scenario.
pub(super) fn report(
    args: &CapacityArgs,
    out: &Path,
    old: Option<&Baseline<OldDemand>>,
    progress: &dyn Progress,
) -> Result<DemandReport, CliError> {
    let needs = needs(args)?;
    let ready = scenario(args)?;
    if let Some(old) = old {
        let wanted: Vec<String> = needs.iter().map(Need::to_string).collect();
        comparable(&old.report, &wanted, compression(&ready.scenario)).map_err(|why| baseline::refused(old, &why))?;
    }
    let seeds = args.seeds.unwrap_or(ready.scenario.seeds);
    let wanted: Vec<String> = needs.iter().map(Need::to_string).collect();
    let plan = toml::to_string(&ready.scenario.draw(0)).unwrap_or_default();
    let config = hash_text(&format!("{wanted:?} {seeds} {} {plan}", toml::to_string(&ready.scenario).unwrap_or_default()));
    let made = Made {
        question: demand::QUESTION.to_owned(),
        command: args.command(),
        build: build().to_owned(),
        config: config.clone(),
        from: None,
    };
    let heads = Rows::heads();
    let sheets = [
        Sheet { name: USAGE, head: demand::usage_head().into_bytes() },
        Sheet { name: RECLAIMS, head: heads.reclaims },
        Sheet { name: "runs.csv", head: heads.runs },
        Sheet { name: SIZES, head: demand::sizes_head().into_bytes() },
    ];
    let (ledger, _) = Ledger::open(out, &made, &sheets, &["scenario"], args.output.force)?;
    let unfinished = Unfinished::open(out, args.output.force)?;
    let known = read(out, SIZES, demand::sizes_of)?.trials;
    let compression = compression(&ready.scenario);
    let asked = Asked { build: build().to_owned(), config, needs, compression, step: step(&ready.scenario) };
    let mut search = Search { args, asked, ready, seeds, ledger, unfinished, known, trials: Vec::new(), progress };
    let mut forms = Vec::new();
    let mut interrupted = false;
    for (number, name) in FORMS.iter().enumerate() {
        if number > 0 && search.ready.scenario.fault.is_empty() && search.ready.scenario.swarm.is_none() {
            break;
        }
        match search.form(name, out) {
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
    let found: Vec<Found> = read(out, RECLAIMS, leaks::read)?.into_iter().filter_map(named).collect();
    let Search { ready, asked, trials, unfinished, .. } = search;
    if !interrupted {
        unfinished.end();
    }
    let left_out = ready.scenario.left_out().ok().flatten().map(|sentence| format!("{sentence}."));
    let remarks = left_out.into_iter().chain(limits::of_agents());
    let mut report = DemandReport::new(made, &asked.needs, forms, trials, compression, remarks, interrupted);
    report.step = asked.step;
    report.settings = baseline::settings(&ready.scenario);
    compare(&mut report, old)?;
    report.unwritten = drawings::unwritten(draw(&report, &found, out))?;
    Ok(report)
}

/// The same from the `sizes.csv` of an earlier search and the tables beside it.
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
        let less = form.smallest.map(|addresses| addresses - sizes.asked.step);
        let missed = sizes.trials.iter().find(|trial| trial.form == name && Some(trial.addresses) == less);
        form.plan = missed.and_then(|trial| again.plan(&format!("demand-{}-{}-", number + 1, trial.addresses), trial.missed_seed?));
        forms.push(form);
    }
    let found: Vec<Found> = found.into_iter().filter_map(named).collect();
    let Asked { build, config, needs, compression, step } = sizes.asked;
    let made = Made { question: demand::QUESTION.to_owned(), command: args.command(), build, config, from: Some(again.name()) };
    let mut report = DemandReport::new(made, &needs, forms, sizes.trials, compression, limits::of_agents(), false);
    report.step = step;
    compare(&mut report, old)?;
    may_draw_in(out, args.output.force)?;
    report.unwritten = drawings::unwritten(draw(&report, &found, out))?;
    Ok(report)
}

/// Compares a report with an earlier one, if there is one.
fn compare(report: &mut DemandReport, old: Option<&Baseline<OldDemand>>) -> Result<(), CliError> {
    old.map_or(Ok(()), |old| report.compare(old).map_err(|why| baseline::refused(old, &why)))
}

/// Plots, the page, and the report as JSON.
fn draw(report: &DemandReport, found: &[Found], out: &Path) -> Result<(), CliError> {
    let plates = demand::plates(report, found);
    let figures: Vec<_> = plates.iter().map(|plate| &plate.figure).collect();
    let page = demand::page(report, &plates).map_err(|error| CliError::harness(error.to_string()))?;
    drawings::write_all(&figures, &page, out)?;
    baseline::keep(report, out)
}

/// A row of `reclaims.csv` under the name of its form.
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

/// The one scenario that is asked for. Its claims are the business of `run`.
fn scenario(args: &CapacityArgs) -> Result<Ready, CliError> {
    let (mut all, name) = match &args.scenario {
        Some(file) => {
            let mut options = args.form.load_options(file);
            options.set.splice(0..0, args.trace.settings());
            (load::scenarios(&options)?, file.display().to_string())
        }
        None => (vec![of_trace(args)?], "the trace".to_owned()),
    };
    if all.len() > 1 {
        let names: Vec<&str> = all.iter().map(|ready| &*ready.scenario.name).collect();
        return Err(CliError::usage(format!("{name} holds several scenarios: {}", names.join(", "))).hint("choose one with --variant"));
    }
    let mut ready = all.pop().ok_or_else(|| CliError::usage(format!("{name} holds no scenario")))?;
    let Some(draft) = ready.scenario.workload.get_mut::<sim_spiderpool::Drafts>().map(sim_spiderpool::Drafts::cluster_mut) else {
        return Err(CliError::usage(format!("{name}: the pods of `{}` get no addresses from Spiderpool", ready.scenario.name))
            .hint("without a scenario, `report capacity` is about bursts at one BYOM pool"));
    };
    draft.addresses = Choice::Is(*draft.addresses.bounds().1);
    draft.pools = Choice::Is(*draft.pools.bounds().1);
    if *draft.addresses.bounds().1 == 0 {
        return Err(CliError::usage(format!("{name}: a pool without addresses is enough for nothing"))
            .hint("`workload.addresses` is the largest size that is tried: more than are needed"));
    }
    ready.scenario.check = Checks::default();
    Ok(ready)
}

/// The scenario of who brings only a trace: the built-in one, with room for all pods and time for all that happens to them.
fn of_trace(args: &CapacityArgs) -> Result<Ready, CliError> {
    let none = || CliError::usage("no trace is named".to_owned());
    let trace = args.trace.trace.as_deref().ok_or_else(none)?;
    let names = args.trace.columns.clone().unwrap_or_default().0;
    let TraceSize { peak, lasts, .. } = TraceRows::read(trace, &names)?.size();
    let peak = u64::try_from(peak).unwrap_or(u64::MAX);
    // Leaks and pods on their way out come on top of the living.
    let addresses = (3 * peak + 20).min(u64::from(ADDRESSES_MAX));
    let nodes = peak.div_ceil(PODS_OF_A_NODE).max(3);
    let set = |key: &str, value: String| Setting { key: key.to_owned(), value };
    let mut settings = vec![
        set("name", "trace".to_owned()),
        set("workload.addresses", addresses.to_string()),
        set("workload.nodes", nodes.to_string()),
        set("phases.safety", format!("{}s", lasts.as_secs() + 60)),
    ];
    settings.extend(args.trace.settings());
    settings.extend(args.form.set.iter().cloned());
    // Beside nothing: the trace is where the program runs.
    let scenario = Scenario::parse(Path::new("trace.toml"), Source::new(TRACE_FILE, TRACE).with(&settings))?;
    Ok(Ready::new("trace.toml", scenario)?)
}

fn with_addresses(scenario: &Scenario, addresses: u32) -> Scenario {
    let mut scenario = scenario.clone();
    if let Some(draft) = scenario.workload.get_mut::<sim_spiderpool::Drafts>().map(sim_spiderpool::Drafts::cluster_mut) {
        draft.addresses = Choice::Is(addresses);
    }
    scenario
}

/// How many addresses there are in total.
fn total(scenario: &Scenario) -> u64 {
    scenario.draw(0).workload.get().map_or(0, |plans: &sim_spiderpool::Plans| plans.cluster().addresses())
}

/// How many more there are in total when each pool has one more.
fn step(scenario: &Scenario) -> u64 {
    total(&with_addresses(scenario, 2)).saturating_sub(total(&with_addresses(scenario, 1))).max(1)
}

fn compression(scenario: &Scenario) -> u32 {
    let draft = scenario.workload.get().map(sim_spiderpool::Drafts::cluster);
    draft.filter(|draft| draft.trace.is_some()).map_or(1, |draft| draft.trace_compression)
}

/// A table of the folder, empty if nothing is in it yet.
fn read<T: Default>(out: &Path, name: &str, of: impl Fn(&str) -> Result<T, TableError>) -> Result<T, CliError> {
    let text = std::fs::read_to_string(out.join(name)).map_err(|error| CliError::usage(format!("cannot read {name}: {error}")))?;
    match of(&text) {
        Err(TableError::Empty(_)) => Ok(T::default()),
        found => found.map_err(|error| CliError::harness(format!("{name} does not read back: {error}"))),
    }
}

impl Search<'_> {
    /// The scenario in a form, with so many addresses a pool, and how many that are in total.
    fn at(&self, form: &str, addresses: u32) -> (Scenario, u64) {
        let mut scenario = with_addresses(&self.ready.scenario, addresses);
        if form != FORMS[0] {
            scenario.fault.clear();
            scenario.swarm = None;
        }
        let total = total(&scenario);
        (scenario, total)
    }

    /// What a form needs, and whether that was found to the end.
    fn form(&mut self, name: &str, out: &Path) -> Result<(Form, bool), Ended> {
        let draft = self.ready.scenario.workload.get().map(sim_spiderpool::Drafts::cluster);
        let given = draft.map_or(0, |draft| *draft.addresses.bounds().1);
        let (_, total) = self.at(name, given);
        let trial = self.trial(name, given, true)?;
        let scenario = format!("{name}/{total}");
        let usage = read(out, USAGE, |text| demand::usage_of(text, &scenario))?;
        let found: Vec<Found> =
            read(out, RECLAIMS, leaks::read)?.into_iter().filter(|one| one.scenario == scenario).filter_map(named).collect();
        let guess = u32::try_from(trial.peak.div_ceil(self.asked.step)).unwrap_or(given);
        if trial.asked == 0 {
            let wrong =
                format!("no pod of `{}` asks for an address, so there is nothing of which to find the size", self.ready.scenario.name);
            return Err(Ended::Failed(CliError::usage(wrong).hint("pods have to come within `phases`, and on nodes that take them")));
        }
        let met = trial.met;
        let mut form = Form::new(name, trial, usage, &found);
        if !met {
            return Ok((form, true));
        }
        match smallest(1, given, guess, |addresses| Ok(self.trial(name, addresses, false)?.met)) {
            Ok(found) => {
                form.smallest = found.map(|addresses| self.at(name, addresses).1);
                form.plan = found.filter(|addresses| *addresses > 1).and_then(|addresses| self.proof(name, addresses - 1, out));
                Ok((form, true))
            }
            Err(Ended::Stopped) => Ok((form, false)),
            Err(error) => Err(error),
        }
    }

    /// Runs of a form with so many addresses a pool. With `all`, every seed runs, and what happens over time is kept; otherwise the first
    /// that misses a need ends it.
    fn trial(&mut self, form: &str, addresses: u32, all: bool) -> Result<Trial, Ended> {
        let (scenario, total) = self.at(form, addresses);
        if let Some(done) = self.trials.iter().chain(&self.known).find(|trial| trial.form == form && trial.addresses == total) {
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
            let (ready, unfinished) = (&self.ready, &self.unfinished);
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
        let size = demand::size_row(&self.asked, &name, &trial);
        self.ledger.keep(&[usage.as_bytes(), reclaims, &rows.runs, size.as_bytes()])?;
        self.unfinished.clear()?;
        self.trials.push(trial.clone());
        Ok(trial)
    }

    /// Writes the plan of the run that misses a need with so many addresses a pool.
    fn proof(&self, form: &str, addresses: u32, out: &Path) -> Option<String> {
        let (scenario, total) = self.at(form, addresses);
        let missed = self.trials.iter().find(|trial| trial.form == form && trial.addresses == total)?.missed_seed?;
        let mut plan = scenario.draw(missed);
        let outcome = run_plan(&plan, &self.ready.stage, RunOptions::default()).ok()?;
        let number = FORMS.iter().position(|one| *one == form).unwrap_or_default() + 1;
        plan.scenario = format!("demand-{number}-{total}");
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
