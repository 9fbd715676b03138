//! `report`: statistics, tables and plots for planners.

pub mod args;
mod output;
mod question;
pub mod vary;

use args::{ReportArgs, What};
use ipam_reports::CapacityReport;

use super::interrupt::stop_on_signals;
use super::{CliError, Console, LiveProgress, Verbs, conclude, print_made, text, watched};

pub use output::Output;
pub use question::{Columns, Form, Growth, OtherTraces, Sharing, Trace};

/// Computes the answer and prints it; [`Verbs`] write tables, plots and the page.
pub(super) fn report(args: &ReportArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let progress = LiveProgress::default();
    if console.interrupts {
        stop_on_signals(&progress)?;
    }
    match &args.what {
        What::Conflicts(args) => {
            let report = watched(&progress, console, |progress| verbs.conflicts(args, progress))?;
            Ok(conclude(
                console,
                args.output.format,
                &progress,
                report,
                |report| (&mut report.exit_code, &report.unwritten),
                |console, format, report| print_made(console, format, report, text::conflicts),
            ))
        }
        What::Capacity(args) => {
            let report = watched(&progress, console, |progress| verbs.capacity(args, progress))?;
            Ok(conclude(console, args.output.format, &progress, report, CapacityReport::ending, |console, format, report| {
                print_made(console, format, report, text::capacity)
            }))
        }
        What::Calibrate(args) => {
            let report = watched(&progress, console, |_| verbs.calibrate(args))?;
            Ok(conclude(
                console,
                args.format,
                &progress,
                report,
                |report| (&mut report.exit_code, &report.unwritten),
                |console, format, report| print_made(console, format, report, text::calibrate),
            ))
        }
        What::Metrics(args) => {
            let report = watched(&progress, console, |progress| verbs.metrics(args, progress))?;
            Ok(conclude(
                console,
                args.output.format,
                &progress,
                report,
                |report| (&mut report.exit_code, &report.unwritten),
                |console, format, report| print_made(console, format, report, text::metrics),
            ))
        }
        What::Reclaim(args) => {
            let report = watched(&progress, console, |progress| verbs.leaks(args, progress))?;
            Ok(conclude(
                console,
                args.output.format,
                &progress,
                report,
                |report| (&mut report.exit_code, &report.unwritten),
                |console, format, report| print_made(console, format, report, text::leaks),
            ))
        }
    }
}
