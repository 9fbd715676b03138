//! Writing of a report's plots and page.

use std::path::Path;

use ipam_reports::conflicts::{figures, page};
use ipam_reports::figure::Figure;
use ipam_reports::{ConflictsReport, exit};
use sim_harness::engine::output;

use super::baseline;
use crate::cli::CliError;

/// Writes a plot of each figure as SVG and PNG, and `index.html`. A report without points has nothing to draw.
///
/// # Errors
/// Writing a file fails.
pub(super) fn write(report: &ConflictsReport, folder: &Path) -> Result<(), CliError> {
    if report.points.is_empty() {
        return Ok(());
    }
    baseline::keep(report, folder)?;
    let plates = figures::plates(report);
    let page = page::page(report, &plates).map_err(|error| CliError::harness(error.to_string()))?;
    let all: Vec<&Figure> = plates.iter().map(|plate| &plate.figure).collect();
    write_all(&all, &page, folder)
}

/// Writes these plots as SVG and PNG, and this page as `index.html`.
///
/// # Errors
/// Writing a file fails.
pub(super) fn write_all(figures: &[&Figure], page: &str, folder: &Path) -> Result<(), CliError> {
    let refused = |error: std::io::Error| CliError::usage(format!("cannot write in {}: {error}", folder.display()));
    let failed = |error: ipam_reports::figure::DrawError| CliError::harness(error.to_string());
    for figure in figures {
        let file = |ending: &str| folder.join(format!("{}.{ending}", figure.id));
        output::write(&file("svg"), figure.svg().map_err(failed)?).map_err(refused)?;
        output::write(&file("png"), figure.png().map_err(failed)?).map_err(refused)?;
    }
    output::write(&folder.join("index.html"), page).map_err(refused)
}

/// The failed writes that a report mentions: they must not hide the answer.
///
/// # Errors
/// Any other error.
pub(super) fn unwritten(written: Result<(), CliError>) -> Result<Vec<String>, CliError> {
    match written {
        Ok(()) => Ok(Vec::new()),
        Err(error) if error.exit_code == exit::USAGE => Ok(vec![error.message]),
        Err(error) => Err(error),
    }
}
