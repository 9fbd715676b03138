//! `report reclaim`: a line per scenario and way of reclaiming, then the answers.

use ipam_reports::LeaksReport;

use super::Paint;
use super::tabular::tabular;

/// A line for each scenario and way of reclaiming, between the headline and the answers.
pub fn leaks(report: &LeaksReport, paint: Paint) -> String {
    tabular(report, paint)
}
