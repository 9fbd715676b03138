//! `report`: statistics, tables and plots for planners.

pub mod args;
mod output;
mod question;
pub mod vary;

use args::{ReportArgs, What};

use super::{CliError, Console, LiveProgress, Verbs, print_made, stop_on_interrupt, text, watched};

pub use output::Output;
pub use question::{Form, Sharing};

/// Answers the question and prints the answer; tables, plots and the page are written by [`Verbs`].
pub(super) fn report(args: &ReportArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let progress = LiveProgress::default();
    if console.interrupts {
        stop_on_interrupt(&progress)?;
    }
    match &args.what {
        What::Conflicts(args) => {
            let report = watched(&progress, console, |progress| verbs.conflicts(args, progress))?;
            print_made(console, args.output.format, &report, text::conflicts)?;
            Ok(report.exit_code)
        }
        What::Capacity(args) => {
            let report = watched(&progress, console, |progress| verbs.capacity(args, progress))?;
            print_made(console, args.output.format, &report, text::capacity)?;
            Ok(report.exit_code())
        }
        What::Reclaim(args) => {
            let report = watched(&progress, console, |progress| verbs.leaks(args, progress))?;
            print_made(console, args.output.format, &report, text::leaks)?;
            Ok(report.exit_code)
        }
    }
}
