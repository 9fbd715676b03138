//! The earlier report of `--against`, which is read before any simulation, and the copy of this one for a later comparison.

use std::path::Path;

use ipam_reports::against::{Baseline, Incomparable, Kind, Settings};
use serde::Serialize;
use sim_config::{Problem, source};
use sim_harness::engine::output;
use sim_harness::plan::hash_text;
use sim_harness::scenario::Scenario;

use crate::cli::CliError;

/// The file name of the report as JSON in its folder.
const REPORT: &str = "report.json";

/// Reads the earlier report, if the user names one: a folder that a report wrote, or its JSON.
///
/// # Errors
/// It cannot be read, or it is no report of this kind.
pub(super) fn read<T: Kind>(path: Option<&Path>) -> Result<Option<Baseline<T>>, CliError> {
    let Some(path) = path else { return Ok(None) };
    let file = if path.is_dir() { path.join(REPORT) } else { path.to_owned() };
    let name = source::name(&file);
    let unreadable = |problem: Problem| CliError::usage(problem.to_string());
    if path.is_dir() && !file.exists() {
        return Err(CliError::usage(format!("{}: there is no {REPORT} in it", path.display()))
            .hint("name the --out folder of a report that came to its end, or what it printed with --format json"));
    }
    let bytes = source::read(&file).map_err(unreadable)?;
    let text = source::text(&name, &bytes).map_err(unreadable)?;
    match Baseline::read(&path.display().to_string(), text) {
        Ok(baseline) => Ok(Some(baseline)),
        Err(error) if error.line > 0 => {
            Err(CliError::usage(format!("{name}:{}:{}: cannot be compared with: {}", error.line, error.column.max(1), error.reason)))
        }
        Err(error) => Err(CliError::usage(format!("{name}: cannot be compared with: {}", error.reason))),
    }
}

/// The error if an earlier report cannot be compared with this one.
pub(super) fn refused<T>(old: &Baseline<T>, why: &Incomparable) -> CliError {
    CliError::usage(format!("{}: cannot be compared with: {why}", old.from)).hint("ask both for the same, but for what is to be compared")
}

/// Writes a report into its folder, in the form of `--format json`.
///
/// # Errors
/// Writing the file fails.
pub(super) fn keep<T: Serialize>(report: &T, folder: &Path) -> Result<(), CliError> {
    let json = serde_json::to_string_pretty(report).map_err(|error| CliError::harness(error.to_string()))?;
    let refused = |error: std::io::Error| CliError::usage(format!("cannot write in {}: {error}", folder.display()));
    output::write(&folder.join(REPORT), json + "\n").map_err(refused)
}

/// The settings of a scenario by their names.
pub(super) fn settings(scenario: &Scenario) -> Settings {
    let mut settings = Settings::new();
    if let Ok(table) = toml::Table::try_from(scenario) {
        flatten("", &toml::Value::Table(table), &mut settings);
    }
    settings
}

/// The length above which values, such as the scripted operations of a scenario, are represented by a hash.
const LONG: usize = 120;

fn flatten(name: &str, value: &toml::Value, settings: &mut Settings) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, settings);
            }
        }
        value => {
            let text = value.to_string();
            let text = if text.len() > LONG { format!("a list of {} characters, {}", text.len(), hash_text(&text)) } else { text };
            settings.insert(name.to_owned(), text);
        }
    }
}
