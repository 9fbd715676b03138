//! `report reclaim`: a line a way, then what they say.

use ipam_reports::LeaksReport;

use super::Paint;
use super::tabular::tabular;

/// A line for each scenario and way, between the headline and the answers.
pub fn leaks(report: &LeaksReport, paint: Paint) -> String {
    tabular(report, paint)
}
