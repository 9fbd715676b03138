//! `report capacity`: of bursts, or of a trace of pods.

use ipam_reports::CapacityReport;

use super::{Paint, conflicts, demand};

/// Prints a search among bursts like `report conflicts`, and one among sizes of pools as a table of them.
pub fn capacity(report: &CapacityReport, paint: Paint) -> String {
    match report {
        CapacityReport::Bursts(report) => conflicts(report, paint),
        CapacityReport::Pods(report) => demand(report, paint),
    }
}
