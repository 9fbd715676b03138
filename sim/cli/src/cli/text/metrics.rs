//! `report metrics`: a line per metric and point, then the answers.

use ipam_reports::MetricsReport;

use super::Paint;
use super::tabular::tabular;

/// A line for each metric at each point, between the headline and the answers.
pub fn metrics(report: &MetricsReport, paint: Paint) -> String {
    tabular(report, paint)
}
