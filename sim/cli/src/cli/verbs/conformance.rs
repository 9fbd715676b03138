//! `conformance`: compares the answers of an API server with those of a real one.

use std::path::Path;

use api_conformance::{Allowed, CaseResult, Comparison, Counts, Difference, Json, Kit, Problem, Record, Recording, Verdict, compare};
use ipam_reports::ConformanceReport;
use ipam_reports::conformance::{CaseCounts, DifferingCase, DifferingPlace, LeftCase, ThemeResult, UnneededLine};
use regex::Regex;
use sim_config::{Problems, source};

use super::write_named;
use crate::cli::CliError;
use crate::cli::args::{ALLOW, ConformanceArgs, RECORDED};
use crate::simulated_server;

/// Compares the answers to the cases, and writes them if requested.
///
/// # Errors
/// An input cannot be read, or there is nothing to compare; in the second case the answers are written nevertheless.
pub(super) fn conformance(args: &ConformanceArgs) -> Result<ConformanceReport, CliError> {
    let mut kit = Kit::read(&args.cases).map_err(wrong)?;
    if let Some(only) = &args.only {
        let pattern = Regex::new(only).map_err(|error| CliError::usage(error.to_string()))?;
        kit.only(|id| pattern.is_match(id));
        if kit.cases.is_empty() {
            return Err(CliError::usage(format!("no case of {} has an id that matches `{only}`", args.cases.display())));
        }
    }
    let recorded_file = given(args.recorded.as_deref(), RECORDED);
    let recorded = recorded_file.map(recording).transpose()?.unwrap_or_default();
    let allow_file = given(args.allow.as_deref(), ALLOW);
    let allowed = allow_file.map(|file| Allowed::read(file, &text(file)?).map_err(wrong)).transpose()?.unwrap_or_default();
    let (actual, wrong_before) = match &args.against {
        Some(file) => (recording(file)?, Vec::new()),
        None => simulated(&kit)?,
    };
    // Written before the comparison: the answers are useful even if it fails.
    let unwritten = args.out.as_deref().and_then(|out| write_answers(out, &kit, &actual).err());
    if !wrong_before.is_empty() {
        let wrong = format!("the simulated server cannot be prepared for the cases: {}", wrong_before.join("; "));
        return Err(without_report(wrong, args, unwritten));
    }
    let comparison = compare(&kit, &recorded, &actual, &allowed);
    if comparison.total().compared() == 0 {
        return Err(without_report(nothing_compared(args, recorded_file), args, unwritten));
    }
    let mut report = report(&comparison, allow_file.unwrap_or(Path::new(ALLOW)));
    report.unwritten.extend(unwritten);
    Ok(report)
}

/// The file of an option, if there is one: a named file has to exist, the default one exists only in a checkout of the repository.
fn given<'a>(named: Option<&'a Path>, default: &'static str) -> Option<&'a Path> {
    // If it cannot be determined whether the file exists, it is read, and the reader reports the error.
    named.or_else(|| Some(Path::new(default)).filter(|file| !matches!(file.try_exists(), Ok(false))))
}

/// The answers of the simulated server, and the errors before the first case.
fn simulated(kit: &Kit) -> Result<(Recording, Vec<String>), CliError> {
    let (records, wrong_before) = simulated_server::record(kit);
    let lines: Vec<String> = records.iter().map(Record::line).collect();
    let recording = Recording::read(Path::new("the simulated server"), &lines.join("\n")).map_err(wrong)?;
    Ok((recording, wrong_before))
}

/// Writes the answers in the order of the cases, or returns the error.
fn write_answers(out: &Path, kit: &Kit, actual: &Recording) -> Result<(), String> {
    let lines: String = kit.cases.iter().filter_map(|case| actual.get(&case.id)).map(|record| record.line() + "\n").collect();
    write_named(out, &lines).map_err(|error| format!("cannot write {}: {error}", out.display()))
}

fn nothing_compared(args: &ConformanceArgs, recorded: Option<&Path>) -> String {
    let Some(recorded) = recorded else {
        return format!("nothing was compared: there is no {RECORDED}; name what a real server answered with `--recorded FILE`");
    };
    let actual = args.against.as_deref().map_or_else(|| "the simulated server".to_owned(), source::name);
    let (recorded, cases) = (source::name(recorded), args.cases.display());
    format!("nothing was compared: {recorded} and {actual} have no answers to the same case of {cases}")
}

/// The error for a missing report, and the location of the answers.
fn without_report(wrong: String, args: &ConformanceArgs, unwritten: Option<String>) -> CliError {
    let answers = unwritten.or_else(|| args.out.as_ref().map(|out| format!("the answers are in {}", out.display())));
    CliError::usage([Some(wrong), answers].into_iter().flatten().collect::<Vec<_>>().join("; "))
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
