//! `conformance`: the answers of an API server beside those that a real one gave.

use std::path::Path;

use api_conformance::{Allowed, CaseResult, Comparison, Counts, Difference, Json, Kit, Problem, Record, Recording, Verdict, compare};
use ipam_reports::ConformanceReport;
use ipam_reports::conformance::{CaseCounts, DifferingCase, DifferingPlace, LeftCase, ThemeResult, UnneededLine};
use regex::Regex;
use sim_config::{Problems, source};

use super::write_named;
use crate::cli::CliError;
use crate::cli::args::ConformanceArgs;
use crate::simulated_server;

/// Compares the answers to the cases, and writes them if asked.
///
/// # Errors
/// An input cannot be read, or there is nothing to compare.
pub(super) fn conformance(args: &ConformanceArgs) -> Result<ConformanceReport, CliError> {
    let mut kit = Kit::read(&args.cases).map_err(wrong)?;
    if let Some(only) = &args.only {
        let pattern = Regex::new(only).map_err(|error| CliError::usage(error.to_string()))?;
        kit.only(|id| pattern.is_match(id));
        if kit.cases.is_empty() {
            return Err(CliError::usage(format!("no case of {} has an id that matches `{only}`", args.cases.display())));
        }
    }
    let recorded = recording(&args.recorded)?;
    let allowed = Allowed::read(&args.allow, &text(&args.allow)?).map_err(wrong)?;
    let (actual, name) = match &args.against {
        Some(file) => (recording(file)?, file.display().to_string()),
        None => (simulated(&kit)?, args.cases.display().to_string()),
    };
    let comparison = compare(&kit, &recorded, &actual, &allowed);
    if comparison.total().compared() == 0 {
        let wrong = format!("nothing was compared: {} and {name} have no case in common", args.recorded.display());
        return Err(CliError::usage(wrong));
    }
    let mut report = report(&comparison, &args.allow);
    if let Some(out) = &args.out {
        let lines: String = kit.cases.iter().filter_map(|case| actual.get(&case.id)).map(|record| record.line() + "\n").collect();
        let written = write_named(out, &lines);
        report.unwritten.extend(written.err().map(|error| format!("cannot write {}: {error}", out.display())));
    }
    Ok(report)
}

/// What the simulated server answers.
fn simulated(kit: &Kit) -> Result<Recording, CliError> {
    let (records, wrong_before) = simulated_server::record(kit);
    if !wrong_before.is_empty() {
        return Err(CliError::usage(format!("the simulated server cannot be prepared for the cases: {}", wrong_before.join("; "))));
    }
    let lines: Vec<String> = records.iter().map(Record::line).collect();
    Recording::read(Path::new("the simulated server"), &lines.join("\n")).map_err(wrong)
}

fn report(comparison: &Comparison<'_>, allow: &Path) -> ConformanceReport {
    let theme = |(theme, counts): (&str, Counts)| ThemeResult { theme: theme.to_owned(), counts: counted(counts) };
    let unneeded = comparison.unneeded.iter().map(|line| UnneededLine {
        file: source::name(allow),
        line: line.line as u64,
        allows: format!("{} {}", line.case, line.place.text),
    });
    let mut report = ConformanceReport {
        themes: comparison.themes().into_iter().map(theme).collect(),
        unneeded: unneeded.collect(),
        ..ConformanceReport::default()
    };
    for CaseResult { case, verdict } in &comparison.cases {
        match verdict {
            Verdict::Agrees | Verdict::Allowed => {}
            Verdict::NotCompared(why) => report.not_compared.push(LeftCase { case: case.id.clone(), why: why.clone() }),
            Verdict::Differs(places) => {
                let does = |step: usize| step.checked_sub(1).and_then(|index| case.steps.get(index)).map(|step| step.title());
                let place = |Difference { step, path, recorded, actual }: &Difference| DifferingPlace {
                    step: *step as u64,
                    does: does(*step).unwrap_or_default(),
                    path: path.clone(),
                    recorded: value(recorded),
                    actual: value(actual),
                };
                report.differing.push(DifferingCase {
                    case: case.id.clone(),
                    theme: case.theme.clone(),
                    why: case.why.clone(),
                    places: places.iter().map(place).collect(),
                });
            }
        }
    }
    report.exit_code = report.judge();
    report
}

fn counted(counts: Counts) -> CaseCounts {
    let Counts { agreed, differing, allowed, not_compared } = counts;
    let [agreed, differing, allowed, not_compared] = [agreed, differing, allowed, not_compared].map(|count| count as u64);
    CaseCounts { agreed, differing, allowed, not_compared }
}

fn value(json: &Json) -> serde_json::Value {
    serde_json::from_str(&json.compact()).unwrap_or_else(|error| unreachable!("it was written as JSON: {error}"))
}

fn recording(file: &Path) -> Result<Recording, CliError> {
    Recording::read(Path::new(&source::name(file)), &text(file)?).map_err(wrong)
}

fn text(file: &Path) -> Result<String, CliError> {
    let bytes = source::read(file).map_err(Problems::from)?;
    Ok(source::text(&source::name(file), &bytes).map_err(Problems::from)?.to_owned())
}

fn wrong(problem: Problem) -> CliError {
    CliError::usage(problem.to_string())
}
