//! `report metrics`: runs of scenarios of any system, with varied settings, until each point has its seeds.

use std::collections::BTreeSet;
use std::path::Path;

use ipam_reports::metrics::against::{OldMetrics, comparable};
use ipam_reports::metrics::{self, Source, Value};
use ipam_reports::rows::{self, Rows};
use ipam_reports::{Made, MetricsReport, SeedRecord, TableError};
use sim_config::{Setting, nearest};
use sim_harness::check::Checks;
use sim_harness::engine::build;
use sim_harness::engine::load::{self, LoadOptions, Ready};
use sim_harness::engine::run::{record_of, run_plan};
use sim_harness::engine::thread_pool::{ThreadPool, jobs};
use sim_harness::engine::{Progress, output};
use sim_harness::plan::hash_text;
use sim_harness::system::RunOptions;

use super::folder::{Again, may_draw_in};
use super::ledger::{Ledger, Sheet};
use super::{assumed, baseline, demand, drawings, what_if};
use crate::cli::CliError;
use crate::cli::report::args::MetricsArgs;

/// The number of runs that are stored at a time: an interruption loses no more.
const BATCH: usize = 64;

/// The file of each value of each run.
const VALUES: &str = "values.csv";
/// The file of the summary of each metric at each point.
const METRICS: &str = "metrics.csv";

/// A scenario with varied settings.
struct Point {
    ready: Ready,
    /// The varied settings, as `KEY=VALUE`.
    varied: String,
}

/// Answers `report metrics`: simulates the points or draws a table again, and writes figures, page and `metrics.csv` into `out`.
pub(super) fn report(args: &MetricsArgs, out: &Path, progress: &dyn Progress) -> Result<MetricsReport, CliError> {
    let made = Made { question: metrics::QUESTION.to_owned(), command: args.command(), build: build().to_owned(), ..Made::default() };
    let old = baseline::read::<OldMetrics>(args.output.against.as_deref())?;
    let compare = |report: &mut MetricsReport| match &old {
        Some(old) => report.compare(old).map_err(|why| baseline::refused(old, &why)),
        None => Ok(()),
    };
    let (mut report, values) = match &args.output.from {
        Some(from) => Again::read(from, |again| {
            let values = metrics::read(again.text).map_err(|error| again.misread(&error))?;
            wanted_are_known(args, values.iter().map(|value| &*value.metric))?;
            let assumed = demand::assumed(&again)?;
            let made = Made { from: Some(again.name()), config: "that of the table".to_owned(), assumed, ..made };
            let mut report = MetricsReport::new(made, &values, &args.metric, None, false);
            compare(&mut report)?;
            may_draw_in(out, args.output.force)?;
            Ok((report, values))
        })?,
        None => {
            let points = points(args)?;
            if let Some(old) = &old {
                let names = points.iter().map(|point| &*point.ready.scenario.name).collect();
                comparable(&old.report, &names).map_err(|why| baseline::refused(old, &why))?;
            }
            named_ones_are_counted(args, &points)?;
            let (mut report, values) = simulate(args, &points, made, out, progress)?;
            compare(&mut report)?;
            (report, values)
        }
    };
    let plates = metrics::plates(&values, &args.metric);
    let figures: Vec<_> = plates.iter().map(|plate| &plate.figure).collect();
    let page = metrics::page(&report, &plates).map_err(|error| CliError::harness(error.to_string()))?;
    let refused = |error: std::io::Error| CliError::usage(format!("cannot write in {}: {error}", out.display()));
    let written = drawings::write_all(&figures, &page, out)
        .and_then(|()| output::write(&out.join(METRICS), metrics::head() + &metrics::rows(&report)).map_err(refused))
        .and_then(|()| baseline::keep(&report, out));
    report.unwritten = drawings::unwritten(written)?;
    Ok(report)
}

fn simulate(
    args: &MetricsArgs,
    points: &[Point],
    made: Made,
    out: &Path,
    progress: &dyn Progress,
) -> Result<(MetricsReport, Vec<Value>), CliError> {
    let texts: Vec<String> = points.iter().map(|point| toml::to_string(&point.ready.scenario).unwrap_or_default()).collect();
    let config = hash_text(&format!("{:?} {}", args.seeds, texts.concat()));
    // The assumptions of all points, if they are the same.
    let mut assumed: Vec<String> = points.iter().map(|point| assumed::of(&point.ready.scenario)).collect();
    assumed.dedup();
    let assumed = if assumed.len() == 1 { assumed.remove(0) } else { String::new() };
    let made = Made { config, assumed, ..made };
    let sheets = [Sheet { name: VALUES, head: metrics::values_head().into_bytes() }, Sheet { name: "runs.csv", head: Rows::heads().runs }];
    let (mut ledger, known) = Ledger::open(out, &made, &sheets, &["scenario", "seed"], args.output.force)?;
    let done: BTreeSet<(&str, &str)> = known[1].iter().filter_map(|row| Some((row.get(1)?, row.get(2)?))).collect();
    let mut runs = 0;
    let mut interrupted = false;
    'all: for point in points {
        let name = &*point.ready.scenario.name;
        let seeds = args.seeds.unwrap_or(point.ready.scenario.seeds);
        let left: Vec<u64> = (0..seeds).filter(|seed| !done.contains(&(name, &seed.to_string()))).collect();
        runs += seeds - left.len() as u64;
        for batch in left.chunks(BATCH) {
            let label = format!("{name}, {seeds} seeds");
            let pool = ThreadPool { jobs: jobs(args.output.jobs), chunk: 4, label: &label, progress };
            let work = |(): &(), number: u64| run(point, batch[number as usize], both_tables);
            let Some(parts) = pool.each(0..batch.len() as u64, || (), work)? else {
                interrupted = true;
                break 'all;
            };
            let (values, rows): (Vec<String>, Vec<Vec<u8>>) = parts.into_iter().unzip();
            ledger.keep(&[values.concat().as_bytes(), &rows.concat()])?;
            runs += batch.len() as u64;
        }
    }
    // The report is made from the table, so that it is the same when it is drawn again.
    let text = std::fs::read_to_string(out.join(VALUES)).map_err(|error| CliError::usage(error.to_string()))?;
    let values = match metrics::read(&text) {
        Ok(values) => values,
        Err(TableError::Empty(_)) => Vec::new(),
        Err(error) => return Err(CliError::harness(format!("{VALUES} does not read back: {error}"))),
    };
    let mut report = MetricsReport::new(made, &values, &args.metric, Some(runs), interrupted);
    let settings = |point: &Point| (point.ready.scenario.name.clone(), baseline::settings(&point.ready.scenario));
    report.settings = points.iter().map(settings).collect();
    Ok((report, values))
}

/// Passes one run to `keep`, and returns the result.
fn run<T>(point: &Point, seed: u64, keep: impl FnOnce(&Point, &SeedRecord<'_>) -> T) -> Result<T, CliError> {
    let plan = point.ready.scenario.draw(seed);
    let outcome = run_plan(&plan, &point.ready.stage, RunOptions::default());
    let outcome = outcome.map_err(|message| CliError::harness(format!("{}, seed {seed}: {message}", point.ready.scenario.name)))?;
    Ok(record_of(&plan, seed, Ok(outcome), |record| keep(point, &record)))
}

/// The rows of a run: of the values and of `runs.csv`.
fn both_tables(point: &Point, record: &SeedRecord<'_>) -> (String, Vec<u8>) {
    let mut rows = Rows::default();
    rows.add(&point.ready.scenario.name, "", record);
    (metrics::value_rows(&values(point, record)), rows.runs)
}

/// The numbers of a run: the values of its system's metrics, and its columns in `runs.csv`. Other values are left out.
fn values(point: &Point, record: &SeedRecord<'_>) -> Vec<Value> {
    let of = |source: Source, (metric, value): (&str, f64)| Value {
        scenario: point.ready.scenario.name.clone(),
        varied: point.varied.clone(),
        seed: record.seed,
        source,
        metric: metric.to_owned(),
        value,
    };
    let own = record.metrics.iter().filter(|(_, value)| value.is_finite()).map(|one| of(Source::System, *one));
    own.chain(rows::figures(record).into_iter().map(|one| of(Source::Run, one))).collect()
}

/// Refuses a metric that nothing counts, before the points are simulated: one run of each point shows what its system counts.
fn named_ones_are_counted(args: &MetricsArgs, points: &[Point]) -> Result<(), CliError> {
    if args.metric.iter().all(|name| rows::is_figure(name)) {
        return Ok(());
    }
    let mut known: BTreeSet<String> = BTreeSet::new();
    for point in points {
        known.extend(run(point, 0, |_, record| record.metrics.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>())?);
    }
    wanted_are_known(args, known.iter().map(String::as_str))
}

/// Refuses a metric that is neither among the `known` ones nor a column of `runs.csv`.
fn wanted_are_known<'a>(args: &MetricsArgs, known: impl Iterator<Item = &'a str>) -> Result<(), CliError> {
    let known: BTreeSet<&str> = known.collect();
    let Some(unknown) = args.metric.iter().find(|name| !known.contains(name.as_str()) && !rows::is_figure(name)) else { return Ok(()) };
    let columns = rows::columns().filter(|column| rows::is_figure(column)).map(|column| -> &'a str { column });
    let near = nearest(unknown, known.iter().copied().chain(columns));
    let error = CliError::usage(format!("nothing counts `{unknown}` in these runs"));
    Err(error.hint(format!("the nearest is `{near}`; without --metric the report has all")))
}

/// The requested scenarios, with each combination of the varied settings. Their claims are removed: `run` judges them.
fn points(args: &MetricsArgs) -> Result<Vec<Point>, CliError> {
    let mut points: Vec<Point> = Vec::new();
    let changes = what_if::changes(&args.vary)?;
    if changes.is_empty() {
        points.extend(loaded(args, &args.form.set)?.into_iter().map(|ready| Point { ready, varied: String::new() }));
    }
    let mut by_change = Vec::new();
    for change in &changes {
        let ready = loaded(args, &change.with(&args.form.set)).map_err(|error| change.told(error))?;
        by_change.push(ready.into_iter().map(|mut ready| {
            ready.scenario.name = ipam_reports::leaks::changed_name(&ready.scenario.name, &change.name);
            Point { ready, varied: change.settings() }
        }));
    }
    // The points of a scenario follow one another.
    loop {
        let before = points.len();
        points.extend(by_change.iter_mut().filter_map(Iterator::next));
        if points.len() == before {
            break;
        }
    }
    for point in &mut points {
        point.ready.scenario.check = Checks::default();
    }
    Ok(points)
}

/// The scenarios of the files, with these settings.
fn loaded(args: &MetricsArgs, set: &[Setting]) -> Result<Vec<Ready>, CliError> {
    let options =
        LoadOptions { scenarios: args.scenario.clone(), variant: args.form.variant.clone(), set: set.to_vec(), ..LoadOptions::default() };
    Ok(load::scenarios(&options)?)
}
