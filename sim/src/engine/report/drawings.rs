//! Plots and the page of a report, on the disk.

use std::path::Path;

use ipam_reports::ConflictsReport;
use ipam_reports::conflicts::{figures, page};

use crate::cli::CliError;

/// Writes a plot of each figure as SVG and PNG, and `index.html`. A report without points has nothing to draw.
///
/// # Errors
/// The disk says no.
pub(super) fn write(report: &ConflictsReport, folder: &Path) -> Result<(), CliError> {
    if report.points.is_empty() {
        return Ok(());
    }
    let refused = |error: std::io::Error| CliError::usage(format!("cannot write in {}: {error}", folder.display()));
    let failed = |error: ipam_reports::figure::DrawError| CliError::harness(error.to_string());
    std::fs::create_dir_all(folder).map_err(refused)?;
    let plates = figures::plates(report);
    for plate in &plates {
        let file = |ending: &str| folder.join(format!("{}.{ending}", plate.figure.id));
        std::fs::write(file("svg"), plate.figure.svg().map_err(failed)?).map_err(refused)?;
        std::fs::write(file("png"), plate.figure.png().map_err(failed)?).map_err(refused)?;
    }
    std::fs::write(folder.join("index.html"), page::page(report, &plates).map_err(failed)?).map_err(refused)
}
