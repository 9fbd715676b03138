//! The mutation score of a gate: the mutations that scenarios which must hold notice.

use super::{GateReport, Part};
use crate::Verdict;

/// The number of runs of the scenarios of its system that a mutation is given.
pub const SCORE_RUNS: u64 = crate::matrix::MUST_HOLD_MEDIAN;
/// The least share of mutations to be noticed within [`SCORE_RUNS`], in percent. It is below the present share, since any change of a
/// scenario moves it a little; `selftest --must-hold` asks for half.
const SCORE_AT_LEAST: u64 = 40;

impl GateReport {
    /// The numbers of mutations that were noticed, and that were tried: those that were noticed or had all their runs.
    pub fn mutation_score(&self) -> (u64, u64) {
        let of_part = self.cases.iter().filter(|case| case.part == Part::MutationScore);
        of_part.fold((0, 0), |(noticed, tried), case| match case.result.verdict() {
            Verdict::Found => (noticed + 1, tried + 1),
            _ if case.result.seeds >= case.planned => (noticed, tried + 1),
            _ => (noticed, tried),
        })
    }

    /// Whether few enough mutations were not noticed. Without [`expected`](GateReport::expected), as where a user brings a few scenarios,
    /// there is no such limit.
    pub(super) fn notices_enough(&self) -> bool {
        let (noticed, tried) = self.mutation_score();
        self.expected.is_none() || noticed * 100 >= tried * SCORE_AT_LEAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Expected;
    use crate::finding::Kind;
    use crate::run::tests::record;
    use crate::{GateCase, ScenarioResult, exit};

    fn mutation(seeds: u64, noticed: bool) -> GateCase {
        let mut result = ScenarioResult { expect: Some("c".to_owned()), ..ScenarioResult::new("s", "s.toml", []) };
        for seed in 0..seeds {
            let found = noticed && seed + 1 == seeds;
            result.add(record(seed, found.then_some(("c", Kind::Always))));
        }
        GateCase { part: Part::MutationScore, name: "m".to_owned(), planned: SCORE_RUNS, result, ..GateCase::default() }
    }

    fn judged(cases: Vec<GateCase>) -> (Vec<Verdict>, u8) {
        let expected = Some(Expected { file: "coverage.toml".to_owned(), points: Vec::new(), rare: Vec::new() });
        let report = GateReport { cases, expected, ..GateReport::default() };
        (report.cases.iter().map(|case| report.verdict(case)).collect(), report.judge())
    }

    #[test]
    fn two_of_five_mutations_must_be_noticed() {
        let enough = vec![mutation(7, true), mutation(SCORE_RUNS, false)];
        assert_eq!(judged(enough), (vec![Verdict::Found, Verdict::NotNoticed], exit::HELD));
        let less = vec![mutation(7, true), mutation(SCORE_RUNS, false), mutation(SCORE_RUNS, false)];
        assert_eq!(judged(less), (vec![Verdict::Found, Verdict::NotFound, Verdict::NotFound], exit::VIOLATED));
    }

    #[test]
    fn scenarios_of_which_nobody_says_what_they_reach_need_notice_nothing() {
        let report = GateReport { cases: vec![mutation(SCORE_RUNS, false)], ..GateReport::default() };
        assert_eq!((report.verdict(&report.cases[0]), report.judge()), (Verdict::NotNoticed, exit::HELD));
    }

    #[test]
    fn what_the_budget_cut_off_is_not_judged() {
        assert_eq!(judged(vec![mutation(0, false), mutation(7, false)]), (vec![Verdict::LeftOut, Verdict::LeftOut], exit::HELD));
        let report = GateReport { cases: vec![mutation(7, true), mutation(7, false)], ..GateReport::default() };
        assert_eq!(report.mutation_score(), (1, 1));
    }
}
