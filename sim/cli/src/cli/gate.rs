//! `gate`, and what it and `merge` write for other programs.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use ipam_reports::gate::{annotations, junit, markdown};
use ipam_reports::{GateCase, GateReport, Verdict};

use super::args::{Format, GateArgs, Outputs};
use super::text::{self, Paint};
use super::{CliError, Console, LiveProgress, Verbs, print, stop_on_interrupt, watched, write_out};

/// The file to which a job of GitHub Actions may add Markdown.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// Runs the gate, prints it and writes its files.
pub(super) fn gate(args: &GateArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let progress = LiveProgress::default();
    if console.interrupts {
        stop_on_interrupt(&progress)?;
    }
    let report = watched(&progress, console, |progress| verbs.gate(args, progress))?;
    print(console, args.format, &report, text::gate)?;
    write_outputs(&args.outputs, args.format, &report, console)?;
    Ok(report.exit_code)
}

/// Writes what other programs read. What is printed comes first: a disk that says no must not cost the verdict.
pub(super) fn write_outputs(outputs: &Outputs, format: Format, report: &GateReport, console: &mut Console<'_>) -> Result<(), CliError> {
    let story = |case: &GateCase, verdict: Verdict| text::findings(&case.result, verdict, Paint::PLAIN);
    if let Some(file) = &outputs.junit {
        write_file(file, &junit(report, &story))?;
    }
    if let Some(file) = &outputs.summary {
        write_file(file, &markdown(report, &story))?;
    }
    if outputs.github {
        let lines: String = annotations(report).into_iter().map(|line| line + "\n").collect();
        match format {
            Format::Text => drop(write_out(console, &lines)?),
            // The runner listens to both streams, and one of them is for JSON alone.
            Format::Json => drop(console.err.write_all(lines.as_bytes())),
        }
        if let Some(file) = (console.env)(STEP_SUMMARY).filter(|file| !file.is_empty()) {
            let add = || OpenOptions::new().create(true).append(true).open(&file)?.write_all(markdown(report, &story).as_bytes());
            add().map_err(|error| unwritable(Path::new(&file), &error))?;
        }
    }
    Ok(())
}

fn write_file(file: &Path, text: &str) -> Result<(), CliError> {
    let write = || {
        if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, text)
    };
    write().map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &std::io::Error) -> CliError {
    CliError::usage(format!("cannot write {}: {error}", file.display()))
}
