//! `merge`: the files of shards, read and joined.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use ipam_reports::merge::missing_seeds;
use ipam_reports::{ReadError, RunReport, human};

use super::CliError;

/// The joined result, and what the reader should know about it.
pub(super) struct Merged {
    pub(super) report: RunReport,
    pub(super) notes: Vec<String>,
}

/// Reads and joins the results of shards; `-` is `stdin`.
pub(super) fn merge_files(files: &[PathBuf], stdin: &mut dyn Read) -> Result<Merged, CliError> {
    let reports = files.iter().map(|file| read(file, stdin)).collect::<Result<Vec<_>, _>>()?;
    let report = ipam_reports::merge(reports).map_err(|error| {
        let name = |index: usize| files[index].display().to_string();
        CliError::usage(format!("the results do not fit together: {}", error.explain(name)))
    })?;
    let holes = report.scenarios.iter().filter_map(|scenario| {
        let missing = missing_seeds(scenario);
        let first = missing.first()?;
        let seeds: u128 = missing.iter().map(|range| range.count()).sum();
        let seeds = human::plural(u64::try_from(seeds).unwrap_or(u64::MAX), "seed", "seeds");
        Some(format!("no result has {seeds} of {} (the first is {}): is a shard missing?", scenario.name, first.first))
    });
    let notes = holes.collect();
    Ok(Merged { report, notes })
}

fn read(file: &Path, stdin: &mut dyn Read) -> Result<RunReport, CliError> {
    let shown = file.display();
    let text = if file == Path::new("-") {
        let mut text = String::new();
        stdin.read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    let text = text.map_err(|error| CliError::usage(format!("failed to read {shown}: {error}")))?;
    RunReport::from_json(&text).map_err(|ReadError { line, column, reason }| {
        let position = if line == 0 { String::new() } else { format!(":{line}:{column}") };
        CliError::usage(format!("{shown}{position}: {reason}")).hint("merge takes files that `ipam-sim run --format json` has printed")
    })
}
