//! `report reclaim`: the time for which addresses whose DEL never came stay recorded, and the margin between their last use and their
//! removal (G §10).
//!
//! ```text
//!  runs of scenarios ─► Reclaimed … ─► reclaims.csv ─► the same again
//!                            └─► groups: scenario × way ─► sentences, tables, figures
//! ```
//! The simulation supplies the reclaimed addresses; everything else follows from them.

pub mod against;
pub(crate) mod answer;
mod figures;
pub(crate) mod group;
mod page;
pub(crate) mod table;
mod what_if;

use serde::Serialize;

pub(crate) use figures::distribution;
pub use figures::{Plate, plates};
pub use group::Group;
pub use page::page;
pub use table::{head, read, rows};
pub use what_if::changed_name;

use std::collections::BTreeMap;

use crate::against::{Against, Baseline, Compared, Incomparable, Settings};
use crate::column::Column;
use crate::exit;
use crate::reclaim::Reclaimed;
use crate::schema::ReclaimReportSchema;
use crate::{Made, Report, Tabular};

/// The question that `report reclaim` answers.
pub const QUESTION: &str = "How long do leaked addresses stay recorded, and how far does reclaim keep from addresses in use?";

/// One address that was reclaimed in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The name of the scenario that the run is of.
    pub scenario: String,
    /// The seed that the plan of the run was drawn from.
    pub seed: u64,
    /// The reclaimed address, with its times.
    pub reclaimed: Reclaimed,
}

/// The report of `report reclaim`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeaksReport {
    schema: ReclaimReportSchema,
    /// The way in which it was made.
    pub made: Made,
    /// The headline: one number, its confidence and its assumptions, in a sentence.
    pub headline: String,
    /// The results of the groups, a sentence each.
    pub answers: Vec<String>,
    /// The number of runs; unset = a table was drawn again, which does not have it.
    pub runs: Option<u64>,
    /// The addresses, grouped by scenario and way.
    pub groups: Vec<Group>,
    /// The changes under what-if questions, if any: figures of a scenario as given, and with something changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<Compared>,
    /// The settings of each scenario; empty = a table was drawn again, which does not have them.
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

impl LeaksReport {
    /// The report of these addresses, of `runs` runs if that is known.
    pub fn new(made: Made, found: &[Found], runs: Option<u64>, interrupted: bool) -> Self {
        let groups = group::groups(found);
        let answers = answer::sentences(&groups);
        let headline = answer::headline(&groups, &group::of_all_ways(found), &made.assumed);
        let what_if = what_if::changes(&groups);
        let exit_code = if interrupted { exit::INTERRUPTED } else { exit::HELD };
        Self {
            schema: ReclaimReportSchema,
            made,
            headline,
            answers,
            runs,
            groups,
            what_if,
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
    /// Their figures are incomparable.
    pub fn compare(&mut self, old: &Baseline<against::OldLeaks>) -> Result<(), Incomparable> {
        let pairs = against::compare(&old.report, self)?;
        self.against = Some(Against::new(&old.from, &old.report.made, &self.made, pairs));
        Ok(())
    }
}

impl Report for LeaksReport {
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

    fn what_if(&self) -> &[Compared] {
        &self.what_if
    }

    fn interrupted(&self) -> bool {
        self.interrupted
    }
}

impl Tabular for LeaksReport {
    type Row<'a> = (&'a Made, &'a Group);

    const CONSOLE: &'static [&'static str] = &[
        "scenario",
        "path",
        "addresses",
        "runs",
        "delay_p50_s",
        "delay_p99_s",
        "delay_max_s",
        "bound_max_s",
        "late",
        "margin_min_s",
        "margin_p50_s",
        "answered",
    ];

    fn columns<'a>() -> Vec<Column<Self::Row<'a>>> {
        table::columns()
    }

    fn rows(&self) -> Vec<Self::Row<'_>> {
        self.groups.iter().map(|group| (&self.made, group)).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Seconds;
    use crate::reclaim::{ReclaimPath, RightEnd};
    use crate::spread::Margin;

    /// Addresses of `seeds` runs: two per run that were traced, and one found by a scan, on which a sandbox still answered in the first
    /// run.
    pub(crate) fn found(seeds: u64) -> Vec<Found> {
        let one = |seed: u64, path, margin: i64, delay: i64, bound: u64| Found {
            scenario: "leaks".to_owned(),
            seed,
            reclaimed: Reclaimed {
                at: Seconds::from_micros(90_000_000 + seed),
                path,
                row: "G-over".into(),
                pool: "v4-0".into(),
                address: "10.0.0.1".parse().unwrap(),
                pod: "default/web-0".into(),
                margin: Some(Margin::from_micros(margin)),
                answered: margin < 0,
                delay: Some(Margin::from_micros(delay)),
                end: Some(RightEnd::Gone),
                bound: Some(Seconds::from_micros(bound)),
            },
        };
        let of_run = |seed: u64| {
            let step = seed as i64 * 100_000;
            [
                one(seed, ReclaimPath::Trace, 40_000_000 + step, 2_000_000 + step, 15_000_000),
                one(seed, ReclaimPath::Trace, 50_000_000 + step, 3_000_000 + step, 15_000_000),
                one(seed, ReclaimPath::Scan, if seed == 0 { -5_000_000 } else { 90_000_000 }, 60_000_000 + step, 72_000_000),
            ]
        };
        (0..seeds).flat_map(of_run).collect()
    }

    #[test]
    fn groups_count_what_was_late_and_what_was_answered_on() {
        let mut all = found(30);
        all[0].reclaimed.bound = Some(Seconds::from_micros(1_999_999));
        let report = LeaksReport::new(Made::default(), &all, Some(30), false);
        let [trace, scan] = &report.groups[..] else { panic!("{:?}", report.groups) };
        assert_eq!((trace.path, trace.addresses, trace.runs, trace.late), (ReclaimPath::Trace, 60, 30, 1));
        assert_eq!((scan.path, scan.addresses, scan.late, scan.answered), (ReclaimPath::Scan, 30, 0, 1));
        assert_eq!((trace.delay_max_s, scan.margin_min_s), (Some(5.9), Some(-5.0)));
        let half = trace.delay_p50_s.unwrap();
        assert!((3.5..4.5).contains(&half.value) && half.low.unwrap() < half.value && half.high.unwrap() > half.value, "{half:?}");
    }

    #[test]
    fn the_sentences_say_what_a_planner_asks() {
        let mut all = found(30);
        all[0].reclaimed.bound = Some(Seconds::from_micros(1_999_999));
        insta::assert_snapshot!(LeaksReport::new(Made::default(), &all, Some(30), false).answers.join("\n"));
        assert_eq!(LeaksReport::new(Made::default(), &[], Some(3), false).answers, ["No address was reclaimed."]);
    }
}
