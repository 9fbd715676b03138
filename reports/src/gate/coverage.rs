//! Checks that the runs of a gate that must hold reached all expected coverage points.

use std::collections::BTreeMap;

use super::{GateCase, GateReport, Part};
use crate::coverage::{CLAIMS, EXCUSES, PointCount, join};
use crate::finding::Kind;
use crate::{ScenarioResult, SeedRange};

/// The share of its seeds in which some chaos scenario has to judge a claim: one that hardly ever has something to judge notices little.
const JUDGED_AT_LEAST: f64 = 0.05;

impl GateReport {
    /// The coverage points, judged claims and excuses that runs which must hold reached, and the number of those runs.
    pub fn reached(&self) -> (Vec<PointCount>, u64) {
        let (mut reached, mut seeds) = (Vec::new(), 0u64);
        for case in self.cases.iter().filter(|case| case.part.must_hold()) {
            join(&mut reached, &case.result.coverage);
            join(&mut reached, &claims_of(&case.result));
            join(&mut reached, &excuses_of(&case.result));
            seeds = seeds.saturating_add(case.result.seeds);
        }
        (reached, seeds)
    }

    /// Whether some chaos scenario judges the claim in [`JUDGED_AT_LEAST`] of its seeds.
    fn is_judged_often(&self, claim: &str) -> bool {
        let judging = |case: &&GateCase| {
            let counts = case.result.always.iter().chain(&case.result.eventually);
            let judged = counts.filter(|count| count.claim == claim).map(|count| count.judged_in).max().unwrap_or_default();
            judged > 0 && judged as f64 >= JUDGED_AT_LEAST * case.result.seeds as f64
        };
        self.cases.iter().filter(|case| case.part == Part::Chaos).any(|case| judging(&case))
    }

    /// Adds the case of [`Part::Coverage`], which only a whole gate can have. It replaces an earlier one.
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
        for count in reached.iter().filter(|count| count.group != CLAIMS || self.is_judged_often(&count.name)) {
            let point = count.point();
            result.sometimes.iter_mut().filter(|known| known.claim == point).for_each(|known| known.held_in = count.seeds);
        }
        let name = result.name.clone();
        self.cases.push(GateCase { part: Part::Coverage, name, planned, result, ..GateCase::default() });
    }
}

/// The claims that a scenario judged, or that held in it, each with the number of seeds.
fn claims_of(result: &ScenarioResult) -> Vec<PointCount> {
    let judged = result.always.iter().chain(&result.eventually).map(|count| (&count.claim, count.judged_in));
    let held = result.sometimes.iter().map(|claim| (&claim.claim, claim.held_in));
    counted(CLAIMS, judged.chain(held))
}

/// The excuses used in runs of a scenario, each with the number of seeds in which it excused a claim.
fn excuses_of(result: &ScenarioResult) -> Vec<PointCount> {
    counted(EXCUSES, result.excuses.iter().map(|count| (&count.excuse, count.seeds)))
}

/// Counts sorted by name, with the largest count for each name.
fn counted<'a>(group: &str, counts: impl Iterator<Item = (&'a String, u64)>) -> Vec<PointCount> {
    let mut most = BTreeMap::new();
    for (name, seeds) in counts.filter(|(_, seeds)| *seeds > 0) {
        let known = most.entry(name).or_insert(0);
        *known = seeds.max(*known);
    }
    most.into_iter().map(|(name, seeds)| PointCount { group: group.to_owned(), name: name.clone(), seeds }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Expected;
    use crate::finding::{ExcuseCount, JudgedCount};
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
    fn a_claim_that_no_chaos_scenario_judges_in_one_seed_of_twenty_makes_the_gate_vacuous() {
        let judging = |part, judged_in: u64| {
            let mut case = case(part, 40, 40);
            case.result.always.push(JudgedCount { claim: "c".to_owned(), judged_in });
            gate(&["claim/c"], vec![case])
        };
        for (part, judged_in, expected) in [
            (Part::Chaos, 2, Verdict::Held),
            (Part::Chaos, 1, Verdict::Vacuous),
            (Part::Chaos, 0, Verdict::Vacuous),
            (Part::Smoke, 40, Verdict::Vacuous),
        ] {
            assert_eq!(verdict(&judging(part, judged_in)), Some(expected), "{part} judges it in {judged_in} of 40");
        }
    }

    #[test]
    fn claims_and_excuses_are_reached_like_points() {
        let mut case = case(Part::Chaos, 4, 4);
        case.result.eventually.push(JudgedCount { claim: "later".to_owned(), judged_in: 3 });
        let excused = |claim: &str, seeds| ExcuseCount { excuse: "hazard".to_owned(), claim: claim.to_owned(), seeds, first_seed: 0 };
        case.result.excuses = vec![excused("a", 2), excused("b", 1)];
        let report = gate(&[], vec![case]);
        let reached: Vec<_> = report.reached().0.iter().map(|count| (count.point(), count.seeds)).collect();
        let expected = [("claim/later", 3), ("excuse/hazard", 2), ("g/a", 4), ("g/b", 4)];
        assert_eq!(reached, expected.map(|(point, seeds)| (point.to_owned(), seeds)));
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
