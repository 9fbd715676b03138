//! `report conflicts`: the frequency of conflicts between adaptors that share one pool document (B §8).
//!
//! ```text
//!  setting ─(bursts, one a seed)─► PoolRun … ─► Point ─┬─► points.csv ─► the same points again
//!                                                      ├─► sentences, tables, figures
//!  B §8.2 closed forms, B §8.3 independent model ──────┘
//! ```
//! The simulation supplies [`Point`]s; everything else follows from them.

pub mod advice;
pub mod against;
pub mod answer;
pub mod closed_form;
pub mod figures;
mod headline;
mod json;
pub mod metric;
pub mod model;
pub mod page;
mod point;
mod regime;
mod searched;
mod setting;
pub mod table;

use serde::Serialize;

pub use metric::Metric;
pub use point::{DECIDING, Point, Precision, USUAL, precise};
pub use regime::Regime;
pub use searched::{Limit, Searched};
pub use setting::{BY_KUBELETS, DECIDES_AGAIN, DECIDES_ONCE, IN_LOOPS, OF_SCENARIO, RESTARTED, Setting, System, TOGETHER};

use self::advice::{Advice, Tried};
use crate::Report;
use crate::against::{Against, Baseline, Incomparable};
use crate::exit;
pub use crate::made::Made;
use crate::schema::ConflictsSchema;

/// The report of `report conflicts`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConflictsReport {
    schema: ConflictsSchema,
    /// The way in which it was made.
    pub made: Made,
    /// The headline: one number, its confidence and its assumptions, in a sentence.
    pub headline: String,
    /// The results of the points, a sentence each.
    pub answers: Vec<String>,
    /// The points, in the order of their curves.
    #[serde(serialize_with = "json::points")]
    pub points: Vec<Point>,
    /// The objectives and results of the search of `report capacity`; unset = there was no search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searched: Option<Searched>,
    /// The gains of other retry policies; unset = the user did not ask for advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// The changes since an earlier report; unset = there is none to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// Whether the user stopped it before its last point.
    pub interrupted: bool,
    /// Sentences on what could not be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<String>,
    /// The exit code of the process, one of the codes of [`exit`].
    pub exit_code: u8,
}

impl ConflictsReport {
    /// The report of these points.
    pub fn new(made: Made, points: Vec<Point>, interrupted: bool) -> Self {
        let answers = answer::sentences(&points);
        let headline = headline::of_points(&points);
        Self { headline, ..Self::with_answers(made, answers, points, interrupted) }
    }

    /// The report of a search, with its own sentences on the points.
    pub fn searching(made: Made, searched: Searched, answers: Vec<String>, points: Vec<Point>, interrupted: bool) -> Self {
        let headline = headline::of_search(&searched, &points).unwrap_or_else(|| "Nothing was searched to its end.".to_owned());
        Self { headline, searched: Some(searched), ..Self::with_answers(made, answers, points, interrupted) }
    }

    fn with_answers(made: Made, answers: Vec<String>, points: Vec<Point>, interrupted: bool) -> Self {
        let exit_code = if interrupted { exit::INTERRUPTED } else { exit::HELD };
        Self {
            schema: ConflictsSchema,
            made,
            headline: String::new(),
            answers,
            points,
            searched: None,
            advice: None,
            against: None,
            interrupted,
            unwritten: Vec::new(),
            exit_code,
        }
    }

    /// The report of the alternatives to today's policy.
    pub fn advising(made: Made, advice: Advice, tried: Vec<Tried>, interrupted: bool) -> Self {
        let mut answers = advice.answers();
        let headline = match (answers.first_mut(), tried.first()) {
            (Some(first), Some(today)) => {
                *first = headline::resting_on(first, &today.point);
                first.clone()
            }
            _ => String::new(),
        };
        let points = tried.into_iter().map(|tried| tried.point).collect();
        Self { advice: Some(advice), headline, ..Self::with_answers(made, answers, points, interrupted) }
    }

    /// Compares the report with an earlier one.
    ///
    /// # Errors
    /// Their figures are incomparable.
    pub fn compare(&mut self, old: &Baseline<against::OldConflicts>) -> Result<(), Incomparable> {
        let pairs = against::compare(old, &self.points, self.searched.as_ref())?;
        self.against = Some(Against::new(&old.from, &old.report.made, &self.made, pairs));
        Ok(())
    }

    /// The panels that have points, in the order in which they first appear.
    pub fn panels(&self) -> Vec<&str> {
        let mut panels: Vec<&str> = Vec::new();
        for panel in self.points.iter().flat_map(|point| point.setting.panels.split('+')) {
            if !panels.contains(&panel) {
                panels.push(panel);
            }
        }
        panels
    }
}

impl Report for ConflictsReport {
    fn made(&self) -> &Made {
        &self.made
    }

    fn headline(&self) -> Option<&str> {
        // Advice begins with its headline.
        self.advice.is_none().then_some(&self.headline)
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

/// Groups points by their series, in the order in which these first appear.
pub fn series<'a>(points: impl IntoIterator<Item = &'a Point>) -> Vec<(&'a str, Vec<&'a Point>)> {
    let mut series: Vec<(&str, Vec<&Point>)> = Vec::new();
    for point in points {
        match series.iter_mut().find(|(name, _)| *name == point.setting.series) {
            Some((_, points)) => points.push(point),
            None => series.push((&point.setting.series, vec![point])),
        }
    }
    series
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Seconds;
    use crate::pool::{PoolCounts, PoolRun};

    /// A setting of B §8.3's first table.
    pub(crate) fn setting(instances: u32, spread_ms: u64) -> Setting {
        Setting {
            panels: "retries".to_owned(),
            series: "in use".to_owned(),
            instances,
            addresses: 2 * instances,
            taken: 0,
            spread: Seconds::from_micros(spread_ms * 1_000),
            read: Seconds::from_micros(4_000),
            write: Seconds::from_micros(10_000),
            think: Seconds::from_micros(500),
            dial: Seconds::ZERO,
            retry: "default-backoff".to_owned(),
            update: DECIDES_AGAIN.to_owned(),
            selection: "hash".to_owned(),
            throttle: "none".to_owned(),
            system: System::Byom,
            pods: 1,
            ..Setting::default()
        }
    }

    /// Bursts in which all but four calls give up after four conflicts, with times that follow from their numbers.
    pub(crate) fn bursts(instances: u32, count: u64) -> Vec<PoolRun> {
        let calls = u64::from(instances);
        let of = |number: u64| {
            let allocated = calls.min(4);
            let conflicts = 4 * (calls - allocated) + allocated * (allocated - 1) / 2 + number % 2;
            PoolRun {
                counts: PoolCounts {
                    calls,
                    allocated,
                    refused: calls - allocated,
                    attempts: conflicts + allocated,
                    conflicts,
                    exhausted: calls - allocated,
                    ..PoolCounts::default()
                },
                took: (0..allocated).map(|winner| Seconds::from_micros(14_000 + 60_000 * winner + 37 * (number % 50))).collect(),
                mutex_wait: Seconds::ZERO,
                began: Seconds::ZERO,
                makespan: Seconds::from_micros(350_000 + number % 1_000),
                calls: Vec::new(),
                queue: None,
                met_fault: false,
            }
        };
        (0..count).map(of).collect()
    }

    /// A point of a thousand such bursts.
    pub(crate) fn point(instances: u32, spread_ms: u64) -> Point {
        Point::of(setting(instances, spread_ms), 0, &bursts(instances, 1_000))
    }

    #[test]
    fn a_point_counts_what_its_bursts_did() {
        let point = point(8, 0);
        let value = |metric| point.value(metric);
        assert_eq!((point.bursts, point.calls, point.allocated, point.reached), (1_000, 8_000, 4_000, true));
        assert_eq!((value(Metric::ConflictsPerCall), value(Metric::Exhausted)), (22.5 / 8.0, 0.5));
        assert_eq!(value(Metric::ConflictRate), 22.5 / 26.5);
        assert_eq!(value(Metric::WastedWrites), value(Metric::ConflictRate), "nothing was overwritten");
        assert_eq!(value(Metric::RetriesPerSuccess), (22.5 - 4.0) / 4.0);
        assert_eq!((value(Metric::Granted), value(Metric::SomeExhausted), value(Metric::Lost)), (4.0, 1.0, 0.0));
        assert!((value(Metric::AllocateP50) - 0.075).abs() < 0.002, "{}", value(Metric::AllocateP50));
    }

    #[test]
    fn lost_acknowledgements_are_wasted_writes() {
        let mut runs = bursts(2, 100);
        runs.iter_mut().for_each(|run| run.counts.lost_at_end = 1);
        let point = Point::of(setting(2, 0), 0, &runs);
        assert_eq!((point.value(Metric::Lost), point.value(Metric::LostRate)), (1.0, 0.5));
        assert!(point.value(Metric::WastedWrites) > point.value(Metric::ConflictRate));
    }

    #[test]
    fn what_releases_meet_is_theirs_and_without_any_there_is_no_figure() {
        let mut runs = bursts(8, 100);
        assert_eq!(Point::of(setting(8, 0), 0, &runs).get(Metric::ReleaseConflicts), None);
        let calls = Metric::ALL.map(|metric| Point::of(setting(8, 0), 0, &runs).get(metric));
        runs.iter_mut().for_each(|run| (run.counts.releases, run.counts.other_conflicts, run.counts.other_exhausted) = (8, 6, 1));
        let point = Point::of(setting(8, 0), 0, &runs);
        assert_eq!((point.value(Metric::ReleaseConflicts), point.value(Metric::ReleaseExhausted)), (0.75, 0.125));
        let apart = Metric::ALL.into_iter().zip(calls).filter(|(metric, call)| point.get(*metric) != *call);
        assert_eq!(apart.map(|(metric, _)| metric).collect::<Vec<_>>(), [Metric::ReleaseConflicts, Metric::ReleaseExhausted]);
    }

    #[test]
    fn calls_that_faults_leave_without_an_address_are_told_apart_from_those_that_give_up() {
        let mut runs = bursts(8, 100);
        // Of eight calls four get an address and four give up. Now one of these is refused by a server, and another one is never answered.
        runs.iter_mut().for_each(|run| {
            run.counts.exhausted -= 2;
            run.counts.refused -= 1;
        });
        runs.iter_mut().take(25).for_each(|run| run.met_fault = true);
        let hostile = Setting { faults: "hostile".to_owned(), ..setting(8, 0) };
        let point = Point::of(hostile, 0, &runs);
        let shares = [Metric::Exhausted, Metric::RefusedOtherwise, Metric::Unanswered, Metric::MetFault].map(|metric| point.value(metric));
        assert_eq!((shares, point.calls), ([0.25, 0.125, 0.125, 0.25], 800));
        assert!(point.closed_form().is_none() && point.modelled().is_none(), "neither knows faults");
        let calm = Point::of(setting(8, 0), 0, &runs);
        assert!(Metric::OF_FAULTS.into_iter().all(|metric| calm.get(metric).is_none()));
        assert!(calm.closed_form().is_some() && calm.modelled().is_some());
    }

    #[test]
    fn few_bursts_are_not_precise() {
        assert!(!precise(&bursts(8, 1), USUAL));
        assert!(precise(&bursts(8, 1_000), USUAL));
        assert!(!precise(&bursts(2, 300), USUAL), "no call has given up in 300 bursts, which does not bound it to 0.005");
    }
}
