//! `report`: the sweep of points behind a report, and the files that it writes.
//!
//! ```text
//!  --vary ─► points ─(bursts, until precise)─► Point ─┬─► points.csv, runs.csv, as each is finished
//!  --from points.csv ─────────────────────────────────┴─► plots, index.html
//!  SCENARIO ─(runs, one a seed)─► reclaims.csv, runs.csv ───► the same
//! ```

mod agents;
mod bursts;
mod capacity;
mod crew;
mod demand;
mod drawings;
mod folder;
mod ledger;
mod limits;
mod place;
mod points;
mod reclaim;

use ipam_reports::conflicts::{Made, Point, Precision, USUAL, page, precise, table};
use std::path::Path;

use ipam_reports::{ConflictsReport, DemandReport, LeaksReport};

use self::bursts::Enough;
use self::folder::Folder;
use super::BUILD;
use super::sweep::jobs;
use crate::cli::report::args::{CapacityArgs, ConflictsArgs, ReclaimArgs};
use crate::cli::{CliError, Progress};
use crate::plan::hash_text;

/// `report capacity`.
pub(super) fn capacity(args: &CapacityArgs, progress: &Progress) -> Result<ConflictsReport, CliError> {
    let out = args.output.folder("capacity");
    let report = capacity::search(args, &out, progress)?;
    drawings::write(&report, &out)?;
    Ok(report)
}

/// `report reclaim`.
pub(super) fn leaks(args: &ReclaimArgs, progress: &Progress) -> Result<LeaksReport, CliError> {
    reclaim::report(args, &args.output.folder("reclaim"), progress)
}

/// `report conflicts`.
pub(super) fn conflicts(args: &ConflictsArgs, progress: &Progress) -> Result<ConflictsReport, CliError> {
    let out = args.output.folder("conflicts");
    let made =
        Made { question: page::question(args.system).to_owned(), command: args.command(), build: BUILD.to_owned(), ..Made::default() };
    match &args.from {
        Some(from) => {
            let refused = |what: &dyn std::fmt::Display| CliError::usage(format!("cannot draw {} again: {what}", from.display()));
            let text = std::fs::read_to_string(from).map_err(|error| refused(&error))?;
            let table = table::read(&text).map_err(|error| refused(&error))?;
            let from = Some(from.display().to_string());
            let system = table.points.first().map_or(args.system, |point| point.setting.system);
            let question = page::question(system).to_owned();
            let made = Made { question, build: table.build, config: table.config, from, ..made };
            folder::may_draw_in(&out, args.output.force)?;
            let report = ConflictsReport::new(made, table.points, false);
            drawings::write(&report, &out)?;
            Ok(report)
        }
        None => {
            let report = simulate(args, made, &out, progress)?;
            drawings::write(&report, &out)?;
            Ok(report)
        }
    }
}

fn simulate(args: &ConflictsArgs, made: Made, out: &std::path::Path, progress: &Progress) -> Result<ConflictsReport, CliError> {
    let planned = points::plan(args.system, &args.vary)?;
    let precision = Precision { relative: args.precision.0, absolute: args.precision.0 * USUAL.absolute / USUAL.relative };
    let scenarios: Vec<String> = planned.iter().map(|point| toml::to_string(&point.scenario).unwrap_or_default()).collect();
    let config = hash_text(&format!("{precision:?} {} {}", args.seeds, scenarios.concat()));
    let (mut folder, finished) = Folder::open(out, &config, args.output.force)?;
    let total = planned.len();
    let are = |runs: &[_]| precise(runs, precision);
    let enough = Enough { first: bursts::first_look(args.system, bursts::FIRST_LOOK), most: args.seeds, are: &are };
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
    Ok(ConflictsReport::new(Made { config, ..made }, points, interrupted))
}

/// `report capacity` of a scenario.
pub(super) fn demand(args: &CapacityArgs, scenario: &Path, progress: &Progress) -> Result<DemandReport, CliError> {
    demand::report(args, scenario, &args.output.folder("demand"), progress)
}
