//! `report`: the sweep of points behind a report, and the files that it writes.
//!
//! ```text
//!  --vary ─► points ─(bursts, until precise)─► Point ─┬─► points.csv, runs.csv, as each is finished
//!  --from points.csv ─────────────────────────────────┴─► plots, index.html
//!  --against OLD ─► what changed
//!  --advise ─► today's policy and others, on the same bursts ─► bursts.csv, advice.csv
//!  AUDIT LOG ─(fit)─► settings.toml ─► --servers
//!  SCENARIO ─(runs, one a seed)─► reclaims.csv, values.csv, sizes.csv … ─► the same, and --from one of these, too
//! ```

mod advise;
mod agents;
mod assumed;
mod baseline;
mod bursts;
mod calibrate;
mod capacity;
mod demand;
mod drawings;
mod ended;
mod faults;
mod folder;
mod ledger;
mod limits;
mod metrics;
mod points;
mod reclaim;
mod servers;
mod sweep_point;
mod unfinished;
mod what_if;

use ipam_reports::against::Baseline;
use ipam_reports::conflicts::against::{OldConflicts, comparable};
use ipam_reports::conflicts::{Made, Point, Precision, Setting, USUAL, page, precise, table};
use ipam_reports::demand::sizes_of;
use ipam_reports::{CalibrateReport, CapacityReport, ConflictsReport, LeaksReport, MetricsReport, TableError};
use sim_harness::engine::Progress;
use sim_harness::engine::build;
use sim_harness::engine::thread_pool::jobs;
use sim_harness::plan::hash_text;

use self::bursts::Enough;
use self::folder::{Again, Folder};
use crate::cli::CliError;
use crate::cli::report::args::{CalibrateArgs, CapacityArgs, ConflictsArgs, MetricsArgs, ReclaimArgs};

/// Answers `report capacity`: about pods if a scenario or a trace is named, else about bursts; with `--from`, about the content of the
/// table.
pub(super) fn capacity(args: &CapacityArgs, progress: &dyn Progress) -> Result<CapacityReport, CliError> {
    let (of_bursts, of_pods) = (args.output.folder("capacity"), args.output.folder("demand"));
    let against = args.output.against.as_deref();
    if let Some(from) = &args.output.from {
        // The content of the table decides, not the name of its file.
        return Again::read(from, |again| match sizes_of(again.text) {
            Err(TableError::Foreign { .. }) => {
                capacity::redraw(args, &again, &of_bursts, baseline::read(against)?.as_ref()).map(CapacityReport::Bursts)
            }
            _ => demand::redraw(args, &again, &of_pods, baseline::read(against)?.as_ref()).map(CapacityReport::Pods),
        });
    }
    let of_pods_asked = args.scenario.is_some() || args.trace.trace.is_some();
    let asked = [("--resample", args.others.resample.is_some()), ("--growth", args.others.growth.is_some())];
    if let Some((option, _)) = asked.into_iter().find(|(_, asked)| *asked && !of_pods_asked) {
        return Err(CliError::usage(format!("{option} is about the pods of a trace, and none is named"))
            .hint("name one with --trace, or a scenario with `workload.trace`"));
    }
    match of_pods_asked {
        true => demand::report(args, &of_pods, baseline::read(against)?.as_ref(), progress).map(CapacityReport::Pods),
        false => capacity::report(args, &of_bursts, baseline::read(against)?.as_ref(), progress).map(CapacityReport::Bursts),
    }
}

/// `report calibrate`: reads audit logs, and simulates only a queue.
pub(super) fn calibration(args: &CalibrateArgs) -> Result<CalibrateReport, CliError> {
    calibrate::report(args)
}

/// Answers `report reclaim`, in the folder of `--out` or else `target/ipam-sim/reclaim`.
pub(super) fn leaks(args: &ReclaimArgs, progress: &dyn Progress) -> Result<LeaksReport, CliError> {
    reclaim::report(args, &args.output.folder("reclaim"), progress)
}

/// Answers `report metrics`, in the folder of `--out` or else `target/ipam-sim/metrics`.
pub(super) fn metrics(args: &MetricsArgs, progress: &dyn Progress) -> Result<MetricsReport, CliError> {
    metrics::report(args, &args.output.folder("metrics"), progress)
}

/// Answers `report conflicts`: simulates points or draws them again; with `--advise`, tries other policies.
pub(super) fn conflicts(args: &ConflictsArgs, progress: &dyn Progress) -> Result<ConflictsReport, CliError> {
    if args.advise {
        return advise::report(args, progress);
    }
    let out = args.output.folder("conflicts");
    let made = Made { command: args.command(), ..Made::default() };
    let old = baseline::read::<OldConflicts>(args.output.against.as_deref())?;
    let mut report = match &args.output.from {
        Some(from) => Again::read(from, |again| {
            let table = table::read(again.text).map_err(|error| again.misread(&error))?;
            let system = table.points.first().map_or(args.sharing.system, |point| point.setting.system);
            let question = page::question(system).to_owned();
            let made = Made { question, build: table.build, config: table.config, from: Some(again.name()), ..made };
            let mut report = ConflictsReport::new(made, table.points, false);
            compare(&mut report, old.as_ref())?;
            folder::may_draw_in(&out, args.output.force)?;
            Ok(report)
        }),
        None => {
            let made = Made { question: page::question(args.sharing.system).to_owned(), build: build().to_owned(), ..made };
            simulate(args, made, &out, old.as_ref(), progress)
        }
    }?;
    report.unwritten = drawings::unwritten(drawings::write(&report, &out))?;
    Ok(report)
}

/// Compares points with those of an earlier report, if there is one.
fn compare(report: &mut ConflictsReport, old: Option<&Baseline<OldConflicts>>) -> Result<(), CliError> {
    old.map_or(Ok(()), |old| report.compare(old).map_err(|why| baseline::refused(old, &why)))
}

fn simulate(
    args: &ConflictsArgs,
    made: Made,
    out: &std::path::Path,
    old: Option<&Baseline<OldConflicts>>,
    progress: &dyn Progress,
) -> Result<ConflictsReport, CliError> {
    let planned = points::plan(&args.sharing)?;
    if let Some(old) = old {
        let settings: Vec<&Setting> = planned.iter().map(|planned| &planned.setting).collect();
        comparable(old, &settings, None).map_err(|why| baseline::refused(old, &why))?;
    }
    let precision = Precision { relative: args.precision.0, absolute: args.precision.0 * USUAL.absolute / USUAL.relative };
    let scenarios: Vec<String> = planned.iter().map(|point| toml::to_string(&point.scenario).unwrap_or_default()).collect();
    let config = hash_text(&format!("{precision:?} {} {}", args.seeds, scenarios.concat()));
    let (mut folder, finished) = Folder::open(out, &config, args.output.force)?;
    let total = planned.len();
    let are = |runs: &[_]| precise(runs, precision);
    let enough = Enough { first: bursts::first_look(args.sharing.system, bursts::FIRST_LOOK), most: args.seeds, are: &are };
    let mut points: Vec<Point> = Vec::new();
    let mut interrupted = false;
    for (number, planned) in planned.iter().enumerate() {
        if let Some(known) = finished.iter().find(|point| point.setting == planned.setting) {
            points.push(known.clone());
            continue;
        }
        let label = format!("point {} of {total}", number + 1);
        match bursts::run(planned, &enough, jobs(args.output.jobs), &label, progress)? {
            Some(finished) => {
                folder.keep(&finished)?;
                points.push(finished.point);
            }
            None => {
                interrupted = true;
                break;
            }
        }
    }
    let mut report = ConflictsReport::new(Made { config, ..made }, points, interrupted);
    // After an interruption before the first point there is nothing to compare.
    if !report.points.is_empty() || !interrupted {
        compare(&mut report, old)?;
    }
    Ok(report)
}
