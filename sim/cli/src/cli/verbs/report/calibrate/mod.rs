//! `report calibrate`: the latencies and the queue of a real API server, derived from its audit log, and the settings that represent it.

mod fit;
mod queue;
mod requests;
pub(super) mod settings;
mod times;

use ipam_reports::CalibrateReport;
use ipam_reports::Made;
use ipam_reports::calibrate::{self, Fit, levels_csv};
use sim_config::source;
use sim_harness::engine::{build, output};
use sim_harness::plan::hash_text;

use super::baseline;
use super::drawings;
use super::folder::may_draw_in;
use crate::cli::CliError;
use crate::cli::report::args::CalibrateArgs;
use crate::cli::verbs::out_folder::mark;

/// The file name of the settings in the folder of the report.
const SETTINGS: &str = "settings.toml";

/// Reads the logs, fits the server and writes the folder of the report.
///
/// # Errors
/// A log without usable events, a resource that is in no log, or a folder with other results.
pub(super) fn report(args: &CalibrateArgs) -> Result<CalibrateReport, CliError> {
    let log = requests::read(&args.logs)?;
    if let Some(resource) = args.resource.as_deref()
        && !log.classes.iter().any(|(_, known)| known == resource)
    {
        let mut known: Vec<&str> = log.classes.iter().map(|(_, resource)| &**resource).collect();
        known.sort_unstable();
        known.dedup();
        let names: Vec<String> = args.logs.iter().map(|path| source::name(path)).collect();
        return Err(CliError::usage(format!("{}: no request is about `{resource}`; there are {}", names.join(", "), known.join(", "))));
    }
    let times = times::Times::of(&log, args.resource.as_deref());
    let (levels, width, width_at_least) = fit::fit(&log, &times);
    let seconds = |micros: f64| micros / 1e6;
    let fit = Fit { read: times.read, write: times.write, conflict_s: times.conflict.map(seconds), width, width_at_least };
    let out = args.folder();
    may_draw_in(&out, args.force)?;
    let names: Vec<String> = args.logs.iter().map(|path| source::name(path)).collect();
    let settings = settings::text(&fit, args.network, &names.join(", "));
    let made = Made {
        question: calibrate::QUESTION.to_owned(),
        command: args.command(),
        build: build().to_owned(),
        config: hash_text(&settings),
        ..Made::default()
    };
    let file = out.join(SETTINGS).display().to_string();
    let mut report = CalibrateReport::new(made, log.facts.clone(), fit, times::groups(&log), levels, args.network.is_some(), &file);
    report.settings = settings;
    let page = calibrate::page(&report).map_err(|error| CliError::harness(error.to_string()))?;
    let figures = calibrate::figures(&report);
    let all: Vec<_> = figures.iter().collect();
    let refused = |error: std::io::Error| CliError::usage(format!("cannot write in {}: {error}", out.display()));
    let written = std::fs::create_dir_all(&out)
        .map_err(refused)
        .and_then(|()| mark(&out, &report.made).map_err(refused))
        .and_then(|()| output::write(&out.join(SETTINGS), &report.settings).map_err(refused))
        .and_then(|()| output::write(&out.join("levels.csv"), levels_csv(&report)).map_err(refused))
        .and_then(|()| drawings::write_all(&all, &page, &out))
        .and_then(|()| baseline::keep(&report, &out));
    report.unwritten = drawings::unwritten(written)?;
    Ok(report)
}
