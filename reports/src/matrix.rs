//! The result of `selftest`: the kill matrix. The JSON form is `ipam-sim/selftest/1`; [`MatrixReport::csv`] is the table.
//!
//! A *deviation* is a way in which the system under test is made to misbehave. The matrix has the number of seeds until a claim notices
//! each one, and whether claims do not report harmless changes (the control group).

use serde::{Deserialize, Serialize};

use crate::schema::MatrixSchema;
use crate::shrink::Size;
use crate::{Seconds, exit};

/// The largest median number of seeds at which a deviation that a claim or a crash must find counts as found.
pub const FOUND_WITHIN: u64 = 2_000;
/// The number of seeds within which two thirds of them must be found.
pub const MOSTLY_WITHIN: u64 = 200;
/// The least share of deviations that scenarios which must hold are to find, in percent, in a matrix of these.
pub const MUST_HOLD_SCORE: usize = 90;
/// The number of runs within which half of the deviations must be found, in a matrix of scenarios that must hold.
pub const MUST_HOLD_MEDIAN: u64 = 100;

/// The kill matrix: the number of seeds until each deviation is noticed, and the claims that report the control group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixReport {
    /// The mark of the format, always `ipam-sim/selftest/1`; reading anything else is an error.
    pub schema: MatrixSchema,
    /// The build of the program that ran.
    pub build: String,
    /// The most seeds of a range.
    pub seeds: u64,
    /// The number of disjoint ranges of seeds in each trial.
    pub ranges: u64,
    /// Whether each deviation was tried in turn in all scenarios of its system that must hold, and not in those written for it. A range
    /// then counts the runs of all of them together, and a trial names the scenario that found the deviation first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_hold: bool,
    /// The deviations, in the order of the catalogue.
    pub deviations: Vec<MatrixRow>,
    /// The control group: changes that must not be reported.
    pub control: Vec<ControlRow>,
    /// The number of seeds that ran.
    pub seeds_run: u64,
    /// The real time of the whole selftest, shrinking included.
    #[serde(rename = "wall_s")]
    pub wall: Seconds,
    /// Whether the budget or the user cut it short: trials that did not run are not judged.
    pub cut_short: bool,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Sentences on what could not be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<String>,
    /// The exit code of the process.
    pub exit_code: u8,
}

/// One deviation, with the results of the scenarios that try it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixRow {
    /// The name of the deviation, as in `list mutations`.
    pub deviation: String,
    /// Whether upstream behaves so.
    pub upstream: bool,
    /// The means by which it is found: `claim`, `crash`, `figure`, `control` or `test`.
    pub how: String,
    /// The scenarios in which it was tried.
    pub trials: Vec<Trial>,
    /// A failure of the best trial, shrunk; unset = none was found, or shrinking was not asked for.
    pub smallest: Option<Smallest>,
}

/// A deviation tried in a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The scenario; of [`MatrixReport::must_hold`] the one that found it first, or the number of those that did not.
    pub scenario: String,
    /// Whether a swarm of faults was added to it.
    pub swarm: bool,
    /// The most seeds of each range.
    pub seeds: u64,
    /// For each range that ran to its end or to a find: the number of the seed that found it, counted from 1 in the range; null = none.
    pub found: Vec<Option<u64>>,
    /// The claim that was violated first, in the first range that found it.
    pub claim: Option<String>,
}

/// A failure whose plan was shrunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Smallest {
    /// The name of the claim that the smaller plan violates.
    pub claim: String,
    /// The scenario, in the form of [`Trial::label`].
    pub scenario: String,
    /// The seed from which the plan was drawn.
    pub seed: u64,
    /// The size of the smaller plan.
    #[serde(flatten)]
    pub size: Size,
    /// The needs of the failure, in words.
    pub needs: String,
}

/// A change that no claim may report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlRow {
    /// The name of the scenario, which holds the change.
    pub scenario: String,
    /// The number of seeds that ran.
    pub seeds: u64,
    /// The claims that were violated, with their first seeds.
    pub violated: Vec<(String, u64)>,
}

impl Trial {
    /// The median of the ranges, where those without a find count as larger than all others; unset = half of them or more have no find.
    pub fn median(&self) -> Option<u64> {
        let mut found: Vec<u64> = self.found.iter().map(|found| found.unwrap_or(u64::MAX)).collect();
        found.sort_unstable();
        // The lower of the two in the middle would be too optimistic.
        let middle = *found.get(found.len() / 2)?;
        (middle != u64::MAX).then_some(middle)
    }

    /// The number of ranges that found it.
    pub fn found_in(&self) -> u64 {
        self.found.iter().flatten().count() as u64
    }
}

impl MatrixRow {
    /// Whether a claim or a crash must find it.
    pub fn must_be_found(&self) -> bool {
        matches!(self.how.as_str(), "claim" | "crash")
    }

    /// The trial with the smallest median, if any found it.
    pub fn best(&self) -> Option<&Trial> {
        self.trials.iter().filter(|trial| trial.median().is_some()).min_by_key(|trial| trial.median())
    }

    /// Whether any trial ran.
    pub fn was_tried(&self) -> bool {
        self.trials.iter().any(|trial| !trial.found.is_empty())
    }

    fn is_found_within(&self, seeds: u64) -> bool {
        self.best().and_then(Trial::median).is_some_and(|median| median <= seeds)
    }
}

impl MatrixReport {
    /// The deviations that must be found and were not.
    pub fn missed(&self) -> impl Iterator<Item = &MatrixRow> {
        self.must().filter(|row| !row.is_found_within(FOUND_WITHIN))
    }

    /// The number of deviations that must be found, and the number of those that are found soon.
    pub fn soon(&self) -> (usize, usize) {
        (self.must().count(), self.must().filter(|row| row.is_found_within(MOSTLY_WITHIN)).count())
    }

    fn must(&self) -> impl Iterator<Item = &MatrixRow> {
        self.deviations.iter().filter(|row| row.must_be_found() && row.was_tried())
    }

    /// The median number of runs until a deviation is found, over all that must be; unset = half of them are not found.
    pub fn median(&self) -> Option<u64> {
        let within = |row: &MatrixRow| row.best().and_then(Trial::median).unwrap_or(u64::MAX);
        let mut all: Vec<u64> = self.must().map(within).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().filter(|median| *median != u64::MAX)
    }

    /// Whether deviations that were tried are not found often or soon enough.
    fn is_too_weak(&self) -> bool {
        let (must, soon) = self.soon();
        let missed = self.missed().count();
        match self.must_hold {
            true => {
                (must - missed) * 100 < must * MUST_HOLD_SCORE || must > 0 && self.median().is_none_or(|median| median > MUST_HOLD_MEDIAN)
            }
            false => missed > 0 || soon * 3 < must * 2,
        }
    }

    /// The exit code that follows from the rows.
    pub fn judge(&self) -> u8 {
        let wrong = self.is_too_weak() || self.control.iter().any(|row| !row.violated.is_empty());
        let nothing_ran = self.seeds_run == 0;
        let codes = [(wrong, exit::VIOLATED), (self.interrupted, exit::INTERRUPTED), (nothing_ran, exit::VACUOUS)];
        exit::worst(codes.into_iter().filter(|(is, _)| *is).map(|(_, code)| code))
    }

    /// Writes the matrix as CSV: a row for each trial, then a row for each control. The columns:
    ///
    /// | column | meaning |
    /// |---|---|
    /// | `schema` | always `ipam-sim/selftest/1` |
    /// | `deviation`, `upstream`, `how` | the deviation, whether upstream has it, how it is found (`must-hold` for a control) |
    /// | `scenario`, `swarm` | the scenario of the trial or control, and whether a swarm of faults was added |
    /// | `seeds` | the most seeds of a range |
    /// | `ranges`, `found_in` | the number of ranges tried, and the number of those that found it |
    /// | `median`, `worst` | seeds until the first find; empty = not found in half of the ranges or more, in some range |
    /// | `claim` | the claim that was violated first |
    /// | `faults`, `operations`, `actors`, `simulated_s`, `needs` | the smaller plan; only in the row of its trial |
    pub fn csv(&self) -> Vec<u8> {
        let mut csv = Vec::new();
        let mut line = |cells: &[String]| {
            let quoted: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
            csv.extend((quoted.join(",") + "\n").into_bytes());
        };
        line(&COLUMNS.map(str::to_owned));
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        for row in &self.deviations {
            for trial in &row.trials {
                let worst = trial.found.iter().copied().collect::<Option<Vec<u64>>>().and_then(|found| found.into_iter().max());
                let smallest = row.smallest.as_ref().filter(|smallest| smallest.scenario == trial.label());
                let size = smallest.map(|smallest| smallest.size);
                line(&[
                    MatrixSchema::NAME.to_owned(),
                    row.deviation.clone(),
                    row.upstream.to_string(),
                    row.how.clone(),
                    trial.scenario.clone(),
                    trial.swarm.to_string(),
                    trial.seeds.to_string(),
                    trial.found.len().to_string(),
                    trial.found_in().to_string(),
                    number(trial.median()),
                    number(worst),
                    trial.claim.clone().unwrap_or_default(),
                    number(size.map(|size| size.faults)),
                    number(size.map(|size| size.ops)),
                    number(size.map(|size| size.actors)),
                    size.map(|size| size.time.as_f64().to_string()).unwrap_or_default(),
                    smallest.map(|smallest| smallest.needs.clone()).unwrap_or_default(),
                ]);
            }
        }
        for row in &self.control {
            let first = row.violated.first();
            let mut cells = vec![MatrixSchema::NAME.to_owned(), String::new(), String::new(), "must-hold".to_owned()];
            cells.extend([row.scenario.clone(), String::new(), row.seeds.to_string(), "1".to_owned()]);
            cells.extend([u64::from(first.is_some()).to_string(), number(first.map(|(_, seed)| *seed + 1)), String::new()]);
            cells.push(first.map(|(claim, _)| claim.clone()).unwrap_or_default());
            cells.resize(COLUMNS.len(), String::new());
            line(&cells);
        }
        csv
    }
}

const COLUMNS: [&str; 17] = [
    "schema",
    "deviation",
    "upstream",
    "how",
    "scenario",
    "swarm",
    "seeds",
    "ranges",
    "found_in",
    "median",
    "worst",
    "claim",
    "faults",
    "operations",
    "actors",
    "simulated_s",
    "needs",
];

impl Trial {
    /// The scenario, with a mark where a swarm was added to it.
    pub fn label(&self) -> String {
        if self.swarm { format!("{} + swarm", self.scenario) } else { self.scenario.clone() }
    }
}

/// A cell of CSV (RFC 4180).
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(found: &[Option<u64>]) -> Trial {
        Trial { scenario: "s".into(), swarm: false, seeds: 2_000, found: found.to_vec(), claim: Some("c".into()) }
    }

    fn row(how: &str, found: &[Option<u64>]) -> MatrixRow {
        MatrixRow { deviation: "d".into(), upstream: true, how: how.into(), trials: vec![trial(found)], smallest: None }
    }

    fn report(deviations: Vec<MatrixRow>, violated: &[(&str, u64)]) -> MatrixReport {
        let violated = violated.iter().map(|&(claim, seed)| (claim.to_owned(), seed)).collect();
        MatrixReport {
            schema: MatrixSchema,
            build: "b".into(),
            seeds: 2_000,
            ranges: 3,
            must_hold: false,
            deviations,
            control: vec![ControlRow { scenario: "calm, or not".into(), seeds: 100, violated }],
            seeds_run: 1,
            wall: Seconds::ZERO,
            cut_short: false,
            interrupted: false,
            unwritten: Vec::new(),
            exit_code: 0,
        }
    }

    #[test]
    fn a_range_that_finds_nothing_counts_above_all_others() {
        assert_eq!(trial(&[Some(9), None, Some(3)]).median(), Some(9));
        assert_eq!(trial(&[Some(3), None, None]).median(), None);
        assert_eq!(trial(&[Some(3), None]).median(), None);
        assert_eq!(trial(&[]).median(), None);
    }

    #[test]
    fn what_must_be_found_and_is_not_fails() {
        let (soon, late, never) = ([Some(200)], [Some(201)], [None]);
        let code = |rows: &[(&str, &[Option<u64>])]| report(rows.iter().map(|(how, found)| row(how, found)).collect(), &[]).judge();
        assert_eq!(code(&[("claim", &soon), ("crash", &soon), ("claim", &late), ("figure", &never)]), exit::HELD);
        assert_eq!(code(&[("claim", &soon), ("claim", &late)]), exit::VIOLATED, "half of them are found late");
        assert_eq!(code(&[("claim", &soon), ("claim", &soon), ("claim", &never)]), exit::VIOLATED);
        assert_eq!(code(&[("claim", &soon), ("claim", &[])]), exit::HELD, "what was not tried is not judged");
        assert_eq!(report(vec![row("claim", &soon)], &[("c", 7)]).judge(), exit::VIOLATED, "a control is reported");
    }

    #[test]
    fn scenarios_that_must_hold_are_judged_by_their_score() {
        let code = |medians: &[Option<u64>]| {
            let rows = medians.iter().map(|median| row("claim", &[*median])).collect();
            MatrixReport { must_hold: true, control: Vec::new(), ..report(rows, &[]) }.judge()
        };
        let ten = |last: [Option<u64>; 2]| [[Some(100); 8].as_slice(), &last].concat();
        assert_eq!(code(&ten([Some(2_000), None])), exit::HELD, "nine of ten are found, most of them soon");
        assert_eq!(code(&ten([None, None])), exit::VIOLATED, "two of ten are missed");
        assert_eq!(code(&[Some(100), Some(101), Some(101)]), exit::VIOLATED, "half of them are found late");
        assert_eq!(code(&[]), exit::HELD);
    }

    #[test]
    fn the_table_has_a_row_for_each_trial_and_control() {
        let csv = String::from_utf8(report(vec![row("claim", &[Some(9), None, Some(3)])], &[("c", 7)]).csv()).unwrap();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[1], "ipam-sim/selftest/1,d,true,claim,s,false,2000,3,2,9,,c,,,,,");
        assert_eq!(lines[2], "ipam-sim/selftest/1,,,must-hold,\"calm, or not\",,100,1,1,8,,c,,,,,");
        assert!(lines.iter().all(|line| line.replace("calm, or", "").matches(',').count() + 1 == COLUMNS.len()));
    }

    #[test]
    fn what_is_written_reads_back() {
        let report = report(vec![row("claim", &[Some(9), None])], &[]);
        assert_eq!(serde_json::from_str::<MatrixReport>(&serde_json::to_string(&report).unwrap()).unwrap(), report);
    }
}
