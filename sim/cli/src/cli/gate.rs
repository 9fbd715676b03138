//! `gate`, and the files that it and `merge` write for other programs.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::path::Path;

use ipam_reports::coverage::Ledger;
use ipam_reports::gate::{Story, annotations, junit, markdown};
use ipam_reports::{GateCase, GateReport, Verdict};
use sim_harness::engine::output;

use super::args::{Format, GateArgs, Outputs};
use super::interrupt::stop_on_signals;
use super::text::{self, Paint};
use super::{CliError, Console, LiveProgress, Verbs, print, tell_unwritten, watched, write_out};

/// The variable that names the file to which a job of GitHub Actions may add Markdown.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// Runs the gate, prints the result and writes its files.
pub(super) fn gate(args: &GateArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let progress = LiveProgress::default();
    if console.interrupts {
        stop_on_signals(&progress)?;
    }
    let mut report = watched(&progress, console, |progress| verbs.gate(args, progress))?;
    report.exit_code = progress.ending(report.exit_code);
    let printed = print(console, args.format, &report, text::gate);
    let code = tell_unwritten(console, report.exit_code, printed.err());
    Ok(write_outputs(&args.outputs, args.format, &report, code, console))
}

/// Writes the files for other programs, and returns the exit code of the process, given that of the verdict, `code`. The result is printed
/// first, and each file is attempted: a failed write must not hide the verdict.
pub(super) fn write_outputs(outputs: &Outputs, format: Format, report: &GateReport, code: u8, console: &mut Console<'_>) -> u8 {
    let mut refused = Vec::new();
    if let Some(file) = &outputs.junit {
        refused.extend(write_file(file, &told_once(|story| junit(report, story))).err());
    }
    if let Some(file) = &outputs.summary {
        refused.extend(write_file(file, &told_once(|story| markdown(report, story))).err());
    }
    if let Some(file) = &outputs.ledger {
        refused.extend(add_to_ledger(file, report).err());
    }
    if outputs.github {
        let lines: String = annotations(report).into_iter().map(|line| line + "\n").collect();
        match format {
            Format::Text => refused.extend(write_out(console, &lines).err()),
            // The runner reads both streams; with JSON, standard output is reserved for it.
            Format::Json => drop(console.err.write_all(lines.as_bytes())),
        }
        if let Some(file) = (console.env)(STEP_SUMMARY).filter(|file| !file.is_empty()) {
            let page = told_once(|story| markdown(report, story));
            let add = || output::append(&mut OpenOptions::new().create(true).append(true).open(&file)?, page.as_bytes());
            refused.extend(add().err().map(|error| unwritable(Path::new(&file), &error)));
        }
    }
    tell_unwritten(console, code, refused)
}

/// The output of `write` for the failure blocks of the cases. Each cause is described once per file.
fn told_once(write: impl FnOnce(Story<'_>) -> String) -> String {
    let told = RefCell::new(text::Told::default());
    write(&|case: &GateCase, verdict: Verdict| {
        let mut told = told.borrow_mut();
        told.enter(&format!("{} {}", case.part, case.name));
        text::findings(&case.result, verdict, &mut told, Paint::PLAIN)
    })
}

/// Adds the coverage of runs that must hold to a ledger, which is created if it does not exist.
fn add_to_ledger(file: &Path, report: &GateReport) -> Result<(), CliError> {
    let wrong = |what: String| CliError::usage(format!("cannot add to {}: {what}", file.display()));
    let mut ledger = match std::fs::read_to_string(file) {
        Ok(text) => Ledger::from_csv(&text).map_err(wrong)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ledger::default(),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let (reached, seeds) = report.reached();
    let known = report.expected.iter().flat_map(|expected| expected.points.iter().chain(&expected.rare)).map(String::as_str);
    ledger.add(known, &reached, seeds, report.build.as_deref().unwrap_or_default());
    write_file(file, &ledger.to_csv())
}

fn write_file(file: &Path, text: &str) -> Result<(), CliError> {
    output::write(file, text).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &std::io::Error) -> CliError {
    CliError::usage(format!("cannot write {}: {error}", file.display()))
}
