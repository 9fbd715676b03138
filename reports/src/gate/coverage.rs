//! Whether the runs of a gate that must hold reached what they have to.

use super::{GateCase, GateReport, Part};
use crate::coverage::{PointCount, join};
use crate::finding::Kind;
use crate::{ScenarioResult, SeedRange};

impl GateReport {
    /// What runs that must hold reached, and how many there were.
    pub fn reached(&self) -> (Vec<PointCount>, u64) {
        let (mut reached, mut seeds) = (Vec::new(), 0u64);
        for case in self.cases.iter().filter(|case| case.part.must_hold()) {
            join(&mut reached, &case.result.coverage);
            seeds = seeds.saturating_add(case.result.seeds);
        }
        (reached, seeds)
    }

    /// Adds the case of [`Part::Coverage`], which only the whole can have. It takes the place of one that is there.
    pub fn judge_coverage(&mut self) {
        self.cases.retain(|case| case.part != Part::Coverage);
        let Some(expected) = self.expected.as_ref().filter(|_| self.shards.is_none()) else { return };
        let (reached, seeds) = self.reached();
        let planned = self.cases.iter().filter(|case| case.part.must_hold()).fold(0u64, |sum, case| sum.saturating_add(case.planned));
        if planned == 0 {
            return;
        }
        let points = expected.points.iter().map(|point| (point.clone(), Kind::Reachable));
        let mut result = ScenarioResult::new("points", &*expected.file, points);
        result.seeds = seeds;
        result.seed_ranges = SeedRange::new(0, seeds).into_iter().collect();
        for count in &reached {
            let point = count.point();
            result.sometimes.iter_mut().filter(|known| known.claim == point).for_each(|known| known.held_in = count.seeds);
        }
        let name = result.name.clone();
        self.cases.push(GateCase { part: Part::Coverage, name, planned, result, ..GateCase::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Expected;
    use crate::run::tests::record;
    use crate::{SeedRecord, Shards, Verdict, exit};

    fn case(part: Part, seeds: u64, planned: u64) -> GateCase {
        let mut result = ScenarioResult::new("s", "s.toml", []);
        for seed in 0..seeds {
            result.add(SeedRecord { coverage: &[("g", "a"), ("g", "b")], ..record(seed, None) });
        }
        GateCase { part, name: "s".to_owned(), planned, result, ..GateCase::default() }
    }

    fn gate(points: &[&str], cases: Vec<GateCase>) -> GateReport {
        let points = points.iter().map(|&point| point.to_owned()).collect();
        let expected = Expected { file: "coverage.toml".to_owned(), points, rare: Vec::new() };
        let mut report = GateReport { expected: Some(expected), cases, ..GateReport::default() };
        report.judge_coverage();
        report
    }

    fn verdict(report: &GateReport) -> Option<Verdict> {
        report.cases.iter().find(|case| case.part == Part::Coverage).map(|case| report.verdict(case))
    }

    #[test]
    fn a_point_that_no_run_reaches_makes_the_gate_vacuous() {
        let report = gate(&["g/a", "g/b"], vec![case(Part::Chaos, 4, 4)]);
        assert_eq!((verdict(&report), report.judge()), (Some(Verdict::Held), exit::HELD));
        let report = gate(&["g/a", "g/c"], vec![case(Part::Chaos, 4, 4)]);
        assert_eq!((verdict(&report), report.judge()), (Some(Verdict::Vacuous), exit::VACUOUS));
        let never: Vec<_> = report.cases[1].result.never_held().map(|one| &*one.claim).collect();
        assert_eq!(never, ["g/c"]);
    }

    #[test]
    fn only_runs_that_must_hold_count() {
        let report = gate(&["g/a"], vec![case(Part::Negative, 4, 4), case(Part::KillMatrix, 4, 4)]);
        assert_eq!((report.reached(), verdict(&report)), ((Vec::new(), 0), None));
    }

    #[test]
    fn what_a_budget_cut_off_is_not_held_against_it() {
        let report = gate(&["g/c"], vec![case(Part::Smoke, 4, 40)]);
        assert_eq!(verdict(&report), Some(Verdict::Incomplete));
    }

    #[test]
    fn only_the_whole_is_judged_and_its_seeds_count_once() {
        let mut report = gate(&["g/a"], vec![case(Part::Smoke, 4, 4)]);
        assert_eq!(report.seeds(), 4);
        report.judge_coverage();
        assert_eq!(report.cases.len(), 2, "it is judged anew");
        report.shards = Shards::one(1, 2);
        report.judge_coverage();
        assert_eq!(verdict(&report), None);
    }
}
