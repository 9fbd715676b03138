//! `trace`: the events of a cluster, as the CSV that a scenario accepts as a trace.

use ipam_reports::{exit, printable};
use sim_spiderpool::workload::trace::{from_audit, from_pods};

use super::args::{TraceArgs, TraceOf};
use super::verbs::write_named;
use super::{CliError, Console, say, write_out};

/// Reads the input, writes the trace, and reports what the trace cannot contain.
pub(super) fn trace(args: &TraceArgs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let (files, lives) = match &args.of {
        TraceOf::FromPods(files) => (files, from_pods(&files.files)?),
        TraceOf::FromAudit(files) => (files, from_audit(&files.files)?),
    };
    let csv = lives.to_csv();
    match &files.out {
        None => drop(write_out(console, &csv)?),
        Some(file) => {
            write_named(file, &csv).map_err(|error| CliError::usage(format!("cannot write {}: {error}", file.display())))?;
        }
    }
    for note in &lives.notes {
        say(console, &format!("note: {}\n", printable::text(note)));
    }
    Ok(exit::HELD)
}
