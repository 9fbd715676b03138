//! `report capacity` of a scenario: how large a pool its pods need, with and without the delay of reclaim.

use std::path::Path;

use ipam_reports::addresses::AddressRun;
use ipam_reports::capacity::smallest;
use ipam_reports::demand::{self, DemandReport, Form, Need, Trial, Usage, Wanted};
use ipam_reports::leaks::{self, Found};
use ipam_reports::rows::Rows;
use ipam_reports::{Made, TableError};

use super::crew::Crew;
use super::drawings;
use super::ledger::{Ledger, Sheet};
use super::limits;
use crate::cli::args::RunArgs;
use crate::cli::report::args::CapacityArgs;
use crate::cli::{CliError, Progress};
use crate::engine::BUILD;
use crate::engine::load::{self, Ready};
use crate::engine::sweep::{jobs, record_of, run_seed, write_plan};
use crate::input::Choice;
use crate::plan::{Checks, hash_text};
use crate::scenario::{Scenario, WorkloadDraft};
use crate::world::Wish;

/// How many runs are started at a time before it is looked whether one misses a need.
const BATCH: u64 = 8;

/// The forms of a scenario: with what it does to DELs, and without.
const FORMS: [&str; 2] = ["as it is", "every DEL arrives"];

/// A search under way.
struct Search<'a> {
    args: &'a CapacityArgs,
    needs: Vec<Need>,
    ready: Ready,
    seeds: u64,
    config: String,
    ledger: Ledger,
    known: Vec<Trial>,
    trials: Vec<Trial>,
    progress: &'a Progress,
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

/// What one run gave: what it held, and its rows.
type Ran = (AddressRun, Rows);

/// `report capacity` of a scenario.
pub(super) fn report(args: &CapacityArgs, file: &Path, out: &Path, progress: &Progress) -> Result<DemandReport, CliError> {
    let needs = needs(args)?;
    let ready = scenario(args, file)?;
    let seeds = args.seeds.unwrap_or(ready.scenario.seeds);
    let wanted: Vec<String> = needs.iter().map(Need::to_string).collect();
    let plan = toml::to_string(&ready.scenario.draw(0)).unwrap_or_default();
    let config = hash_text(&format!("{wanted:?} {seeds} {} {plan}", toml::to_string(&ready.scenario).unwrap_or_default()));
    let made = Made {
        question: demand::QUESTION.to_owned(),
        command: args.command(),
        build: BUILD.to_owned(),
        config: config.clone(),
        from: None,
    };
    let heads = Rows::heads();
    let sheets = [
        Sheet { name: "usage.csv", head: demand::usage_head().into_bytes() },
        Sheet { name: "reclaims.csv", head: heads.reclaims },
        Sheet { name: "runs.csv", head: heads.runs },
        Sheet { name: "sizes.csv", head: demand::sizes_head().into_bytes() },
    ];
    let (ledger, _) = Ledger::open(out, &made, &sheets, &["scenario"], args.output.force)?;
    let known = read(out, "sizes.csv", demand::size_of)?;
    let compression = compression(&ready.scenario);
    let mut search = Search { args, needs, ready, seeds, config, ledger, known, trials: Vec::new(), progress };
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
    let found = read(out, "reclaims.csv", leaks::read)?;
    let found: Vec<Found> = found.into_iter().filter_map(named).collect();
    let report = DemandReport::new(made, &search.needs, forms, search.trials, compression, limits::of_agents(), interrupted);
    let plates = demand::plates(&report, &found);
    let figures: Vec<_> = plates.iter().map(|plate| &plate.figure).collect();
    let page = demand::page(&report, &plates).map_err(|error| CliError::harness(error.to_string()))?;
    drawings::write_all(&figures, &page, out)?;
    Ok(report)
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
fn scenario(args: &CapacityArgs, file: &Path) -> Result<Ready, CliError> {
    let run = RunArgs { scenarios: vec![file.to_owned()], variant: args.variant.clone(), set: args.set.clone(), ..RunArgs::default() };
    let mut all = load::scenarios(&run)?;
    if all.len() > 1 {
        let names: Vec<&str> = all.iter().map(|ready| &*ready.scenario.name).collect();
        return Err(
            CliError::usage(format!("{} holds several scenarios: {}", file.display(), names.join(", "))).hint("choose one with --variant")
        );
    }
    let mut ready = all.pop().ok_or_else(|| CliError::usage(format!("{} holds no scenario", file.display())))?;
    let WorkloadDraft::Spiderpool(draft) = &mut ready.scenario.workload else {
        return Err(CliError::usage(format!("{}: the pods of `{}` get no addresses from Spiderpool", file.display(), ready.scenario.name))
            .hint("without a scenario, `report capacity` is about bursts at one BYOM pool"));
    };
    draft.addresses = Choice::Is(*draft.addresses.bounds().1);
    draft.pools = Choice::Is(*draft.pools.bounds().1);
    ready.scenario.check = Checks::default();
    Ok(ready)
}

fn compression(scenario: &Scenario) -> u32 {
    match &scenario.workload {
        WorkloadDraft::Spiderpool(draft) if draft.trace.is_some() => draft.trace_compression,
        _ => 1,
    }
}

/// A table of the folder, empty if nothing is in it yet.
fn read<T>(out: &Path, name: &str, of: impl Fn(&str) -> Result<Vec<T>, TableError>) -> Result<Vec<T>, CliError> {
    let text = std::fs::read_to_string(out.join(name)).map_err(|error| CliError::usage(format!("cannot read {name}: {error}")))?;
    match of(&text) {
        Err(TableError::Empty(_)) => Ok(Vec::new()),
        found => found.map_err(|error| CliError::harness(format!("{name} does not read back: {error}"))),
    }
}

impl Search<'_> {
    /// The scenario in a form, with so many addresses a pool, and how many that are in total.
    fn at(&self, form: &str, addresses: u32) -> (Scenario, u64) {
        let mut scenario = self.ready.scenario.clone();
        if form != FORMS[0] {
            scenario.fault.clear();
            scenario.swarm = None;
        }
        if let WorkloadDraft::Spiderpool(draft) = &mut scenario.workload {
            draft.addresses = Choice::Is(addresses);
        }
        let total = scenario.draw(0).workload.work().addresses().unwrap_or_default();
        (scenario, total)
    }

    /// What a form needs, and whether that was found to the end.
    fn form(&mut self, name: &str, out: &Path) -> Result<(Form, bool), Ended> {
        let given = match &self.ready.scenario.workload {
            WorkloadDraft::Spiderpool(draft) => *draft.addresses.bounds().1,
            _ => 0,
        };
        let (_, total) = self.at(name, given);
        let pools = (total / u64::from(given.max(1))).max(1);
        let trial = self.trial(name, given, true)?;
        let scenario = format!("{name}/{total}");
        let text =
            std::fs::read_to_string(out.join("usage.csv")).map_err(|error| CliError::usage(format!("cannot read usage.csv: {error}")))?;
        let usage = match demand::usage_of(&text, &scenario) {
            Err(TableError::Empty(_)) => Usage::default(),
            found => found.map_err(|error| CliError::harness(format!("usage.csv does not read back: {error}")))?,
        };
        let found: Vec<Found> =
            read(out, "reclaims.csv", leaks::read)?.into_iter().filter(|one| one.scenario == scenario).filter_map(named).collect();
        let guess = u32::try_from(trial.peak.div_ceil(pools)).unwrap_or(given);
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

    /// Runs of a form with so many addresses a pool. With `all`, every seed runs, and what happens over time is kept; otherwise the first that
    /// misses a need ends it.
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
            let crew = Crew { jobs: jobs(self.args.output.jobs), chunk: 1, label: &label, progress: self.progress };
            let ready = &self.ready;
            let range = first..self.seeds.min(first + batch);
            let parts = crew.each(range, || (), |(), seed| run(&scenario, ready, &name, seed))?.ok_or(Ended::Stopped)?;
            for (seed, (held, more)) in (first..).zip(parts) {
                runs.push((seed, held));
                rows.runs.extend(more.runs);
                rows.reclaims.extend(more.reclaims);
            }
            if !all && !Trial::of(form, total, &self.needs, &runs).met {
                break;
            }
        }
        let trial = Trial::of(form, total, &self.needs, &runs);
        let usage = if all { demand::usage_rows(&name, &Usage::of(&runs)) } else { String::new() };
        let reclaims: &[u8] = if all { &rows.reclaims } else { &[] };
        let size = demand::size_row(BUILD, &self.config, &name, &trial);
        self.ledger.keep(&[usage.as_bytes(), reclaims, &rows.runs, size.as_bytes()])?;
        self.trials.push(trial.clone());
        Ok(trial)
    }

    /// Writes the plan of the run that misses a need with so many addresses a pool.
    fn proof(&self, form: &str, addresses: u32, out: &Path) -> Option<String> {
        let (scenario, total) = self.at(form, addresses);
        let missed = self.trials.iter().find(|trial| trial.form == form && trial.addresses == total)?.missed_seed?;
        let mut plan = scenario.draw(missed);
        let outcome = run_seed(&plan, &self.ready.stage, Wish::default()).ok()?;
        let number = FORMS.iter().position(|one| *one == form).unwrap_or_default() + 1;
        plan.scenario = format!("demand-{number}-{total}");
        plan.recorded = Some(outcome.recorded(&plan, BUILD));
        write_plan(&plan, out)
    }
}

/// One run, called `name` in the tables.
fn run(scenario: &Scenario, ready: &Ready, name: &str, seed: u64) -> Result<Ran, String> {
    let plan = scenario.draw(seed);
    let wish = Wish { planner: true, ..Wish::default() };
    let mut outcome = run_seed(&plan, &ready.stage, wish).map_err(|message| format!("seed {seed}: {message}"))?;
    let held = outcome.addresses.take().ok_or_else(|| "a run of Spiderpool has addresses".to_owned())?;
    record_of(&plan, seed, Ok(outcome), |record| {
        let mut rows = Rows::default();
        rows.add(name, "", &record);
        Ok((held, rows))
    })
}
