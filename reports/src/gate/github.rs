//! A gate as workflow commands, by which a GitHub Actions job annotates files.
//!
//! The form is `::error file={file},title={title}::{message}`, one line each. A page shows ten at most of each kind and step, so only one
//! is written for each cause.

use super::GateReport;
use super::cause::{Told, named};
use crate::printable;

/// For each cause of failures, the line that names a failure, its file and the command that replays it; and one for each part of which the
/// budget left too much out.
pub fn annotations(report: &GateReport) -> Vec<String> {
    let report = &*printable::record(report);
    let line = |Told { case, verdict, same }: Told<'_>| {
        let title = format!("{} {}: {}", case.part, case.name, super::word(verdict));
        let mut message = case.message(verdict);
        if !same.is_empty() {
            message += &format!("\nThe same cause: {}", named(&same));
        }
        if let Some(replay) = case.replay() {
            message += "\n";
            message += &replay;
        }
        format!("::error file={},title={}::{}", property(&case.result.file), property(&title), data(&message))
    };
    let incomplete = report.incomplete().into_iter();
    let incomplete =
        incomplete.map(|(part, sentence)| format!("::error title={}::{}", property(&format!("{part}: not judged")), data(&sentence)));
    report.failures_by_cause().into_iter().map(line).chain(incomplete).collect()
}

/// Escapes the message of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
