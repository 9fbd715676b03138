//! `report metrics`: values of the system's metrics per run, over the seeds of each point.
//!
//! ```text
//!  runs of scenarios ─► Value … ─► values.csv ─► the same again
//!                         └─► summaries: metric × point ─► sentences, tables, figures
//! ```
//! The simulation supplies the values of each run; everything else follows from them.

pub mod against;
mod answer;
mod figures;
mod page;
mod summary;
pub(crate) mod table;
mod value;

use std::collections::BTreeMap;

use serde::Serialize;

pub use figures::{Plate, plates};
pub use page::page;
pub use summary::Summary;
pub use table::{head, read, rows, value_rows, values_head};
pub use value::{Source, Value};

use crate::against::{Against, Baseline, Incomparable, Settings};
use crate::column::Column;
use crate::exit;
use crate::report::Tabular;
use crate::schema::MetricsReportSchema;
use crate::{Made, Report};

/// The question that `report metrics` answers.
pub const QUESTION: &str = "What do the metrics of the system count in a run, and what changes them?";

/// The report of `report metrics`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricsReport {
    schema: MetricsReportSchema,
    /// The way in which it was made.
    pub made: Made,
    /// The headline: one number, its confidence and its assumptions, in a sentence.
    pub headline: String,
    /// The results of the metrics, a sentence each.
    pub answers: Vec<String>,
    /// The number of runs; unset = a table was drawn again, which does not have it.
    pub runs: Option<u64>,
    /// Each metric at each point: metrics of the system first, each in the order of the points.
    pub summaries: Vec<Summary>,
    /// The settings of each point; empty = a table was drawn again, which does not have them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Settings>,
    /// The changes since an earlier report; unset = there is none to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// Whether the user stopped it before its last run.
    pub interrupted: bool,
    /// Sentences on what could not be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<String>,
    /// The exit code of the process, one of the codes of [`exit`].
    pub exit_code: u8,
}

impl MetricsReport {
    /// The report of these values, of `runs` runs if that is known. Only the `wanted` metrics are in it, if any are named.
    pub fn new(made: Made, values: &[Value], wanted: &[String], runs: Option<u64>, interrupted: bool) -> Self {
        let summaries = summary::summaries(values, wanted);
        let answers = answer::sentences(&summaries);
        let headline = answer::headline(&summaries, &made.assumed);
        let exit_code = if interrupted { exit::INTERRUPTED } else { exit::HELD };
        Self {
            schema: MetricsReportSchema,
            made,
            headline,
            answers,
            runs,
            summaries,
            settings: BTreeMap::new(),
            against: None,
            interrupted,
            unwritten: Vec::new(),
            exit_code,
        }
    }

    /// Compares the report with an earlier one.
    ///
    /// # Errors
    /// They have no point in common.
    pub fn compare(&mut self, old: &Baseline<against::OldMetrics>) -> Result<(), Incomparable> {
        let pairs = against::compare(&old.report, self)?;
        self.against = Some(Against::new(&old.from, &old.report.made, &self.made, pairs));
        Ok(())
    }
}

impl Report for MetricsReport {
    fn made(&self) -> &Made {
        &self.made
    }

    fn headline(&self) -> Option<&str> {
        Some(&self.headline)
    }

    fn answers(&self) -> &[String] {
        &self.answers
    }

    fn against(&self) -> Option<&Against> {
        self.against.as_ref()
    }

    fn interrupted(&self) -> bool {
        self.interrupted
    }
}

impl Tabular for MetricsReport {
    type Row<'a> = (&'a Made, &'a Summary);

    const CONSOLE: &'static [&'static str] = &["metric", "scenario", "runs", "mean", "min", "p50", "p90", "p99", "max", "sum"];

    fn columns<'a>() -> Vec<Column<Self::Row<'a>>> {
        table::columns()
    }

    fn rows(&self) -> Vec<Self::Row<'_>> {
        self.summaries.iter().map(|summary| (&self.made, summary)).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Values of `seeds` runs with two nodes and with four: a metric of the system, and one of the harness.
    pub(crate) fn values(seeds: u64) -> Vec<Value> {
        let one = |nodes: u64, seed: u64, source, metric: &str, value: f64| Value {
            scenario: format!("swarm, nodes {nodes}"),
            varied: format!("workload.nodes={nodes}"),
            seed,
            source,
            metric: metric.to_owned(),
            value,
        };
        let of_run = |nodes: u64, seed: u64| {
            let given = (nodes * 3 + seed % nodes) as f64;
            [one(nodes, seed, Source::Run, "requests", 10.0 * given), one(nodes, seed, Source::System, "given", given)]
        };
        [2, 4].into_iter().flat_map(|nodes| (0..seeds).flat_map(move |seed| of_run(nodes, seed))).collect()
    }

    fn report(seeds: u64) -> MetricsReport {
        MetricsReport::new(Made::default(), &values(seeds), &[], Some(2 * seeds), false)
    }

    #[test]
    fn a_metric_has_its_distribution_at_each_point_and_those_of_the_system_come_first() {
        let report = report(40);
        let names: Vec<(&str, &str)> = report.summaries.iter().map(|one| (&*one.metric, &*one.varied)).collect();
        let (two, four) = ("workload.nodes=2", "workload.nodes=4");
        assert_eq!(names, [("given", two), ("given", four), ("requests", two), ("requests", four)]);
        let given = &report.summaries[1];
        // 12, 13, 14 and 15, ten times each.
        assert_eq!((given.runs, given.min, given.max, given.sum, given.mean.value), (40, 12.0, 15.0, 540.0, 13.5));
        assert_eq!([given.p50, given.p90, given.p99].map(|found| found.value), [13.0, 15.0, 15.0]);
        assert!(given.mean.low.unwrap() < 13.5 && given.p50.low.unwrap() <= 13.0);
    }

    #[test]
    fn the_order_of_seeds_does_not_matter_and_what_is_not_wanted_is_left_out() {
        let mut turned = values(40);
        turned.sort_by_key(|value| (value.scenario.clone(), std::cmp::Reverse(value.seed)));
        assert_eq!(MetricsReport::new(Made::default(), &turned, &[], Some(80), false), report(40));
        let wanted = ["requests".to_owned()];
        let only = MetricsReport::new(Made::default(), &values(40), &wanted, Some(80), false);
        assert!(only.summaries.iter().all(|one| one.metric == "requests") && only.summaries.len() == 2);
    }

    #[test]
    fn the_sentences_say_what_changes_a_metric() {
        let made = Made { assumed: "without faults".to_owned(), ..Made::default() };
        let report = MetricsReport::new(made, &values(40), &[], Some(80), false);
        insta::assert_snapshot!([vec![report.headline.clone()], report.answers.clone()].concat().join("\n"));
        let alone = MetricsReport::new(Made::default(), &values(1)[..2], &[], Some(1), false);
        insta::assert_snapshot!("alone", [vec![alone.headline.clone()], alone.answers.clone()].concat().join("\n"));
        assert_eq!(MetricsReport::new(Made::default(), &[], &[], Some(3), false).headline, "No metric gave a number.");
    }
}
