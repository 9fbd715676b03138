//! `merge`: reads and joins the result files of shards.

use std::path::Path;

use ipam_reports::command::program;
use ipam_reports::merge::missing_seeds;
use ipam_reports::schema::{GateSchema, of};
use ipam_reports::{GateReport, MergeError, ReadError, RunReport, human, merge as merge_runs, merge_gates, printable};

use sim_config::{Problems, source};

use super::args::MergeArgs;
use super::gate::write_outputs;
use super::{CliError, Console, print, say, tell_unwritten, text};

/// Joins the files, prints the result in the form of its verb, and writes its files.
pub(super) fn merge(args: &MergeArgs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let texts = args.results.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let named = || args.results.iter().map(std::path::PathBuf::as_path).zip(&texts);
    let gates = named().map(|(file, text)| schema(file, text).map(|schema| schema.as_deref() == Some(GateSchema::NAME)));
    let gates = gates.collect::<Result<Vec<_>, _>>()?;
    if gates.iter().any(|gate| *gate) {
        if let Some(run) = gates.iter().position(|gate| !gate) {
            let name = args.results[run].display();
            return Err(CliError::usage(format!("{name} is not the result of a gate, but others are: they do not fit together")));
        }
        let reports = named().map(|(file, text)| parse(file, GateReport::from_shard(text))).collect::<Result<Vec<_>, _>>()?;
        let report = merge_gates(reports).map_err(|error| mismatch(args, &error))?;
        let printed = print(console, args.format, &report, text::gate);
        let code = tell_unwritten(console, report.exit_code, printed.err());
        return Ok(write_outputs(&args.outputs, args.format, &report, code, console));
    }
    let reports = named().map(|(file, text)| parse(file, RunReport::from_shard(text))).collect::<Result<Vec<_>, _>>()?;
    let report = merge_runs(reports).map_err(|error| mismatch(args, &error))?;
    for note in notes(&report) {
        say(console, &format!("note: {}\n", printable::text(&note)));
    }
    let printed = print(console, args.format, &report, text::run);
    let code = tell_unwritten(console, report.exit_code, printed.err());
    Ok(write_outputs(&args.outputs, args.format, &GateReport::from(report), code, console))
}

/// Notes for the reader of a joined result.
fn notes(report: &RunReport) -> Vec<String> {
    if report.shards.is_some() {
        return GateReport::from(report.clone()).left_out_lines().into_iter().map(|left| format!("not in the result: {left}")).collect();
    }
    // These results do not name their shard: only gaps between them can be detected.
    let holes = report.scenarios.iter().filter_map(|scenario| {
        let missing = missing_seeds(scenario);
        let first = missing.first()?;
        let seeds: u128 = missing.iter().map(|range| range.count()).sum();
        let seeds = human::plural(u64::try_from(seeds).unwrap_or(u64::MAX), "seed", "seeds");
        Some(format!("no result has {seeds} of {} (the first is {}): is a shard missing?", scenario.name, first.first))
    });
    holes.collect()
}

fn mismatch(args: &MergeArgs, error: &MergeError) -> CliError {
    let name = |index: usize| args.results[index].display().to_string();
    CliError::usage(format!("the results do not fit together: {}", error.explain(name)))
}

/// Reads a file, or standard input for `-`.
fn read(file: &Path) -> Result<String, CliError> {
    let bytes = source::read(file).map_err(Problems::from)?;
    Ok(source::text(&source::name(file), &bytes).map_err(Problems::from)?.to_owned())
}

fn schema(file: &Path, text: &str) -> Result<Option<String>, CliError> {
    parse(file, of(text))
}

fn parse<T>(file: &Path, read: Result<T, ReadError>) -> Result<T, CliError> {
    read.map_err(|ReadError { line, column, reason }| {
        // For empty input the reader has not reached a first column.
        let position = if line == 0 { String::new() } else { format!(":{line}:{}", column.max(1)) };
        CliError::usage(format!("{}{position}: {reason}", file.display()))
            .hint(format!("merge takes files that `{0} run --format json` or `{0} gate --format json` has printed", program()))
    })
}
