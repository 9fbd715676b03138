//! The verdict on a scenario, from its record alone.

use super::{ENOUGH, ScenarioResult};
use crate::Verdict;
use crate::finding::Kind;
use crate::statistics::wilson;

/// The share of the seeds that may be excused without a reason given.
pub const EXCUSED_AT_MOST: f64 = 0.1;

impl ScenarioResult {
    /// The verdict over all seeds of this record. A shard is judged by its own seeds only: its verdict may change when it is merged.
    ///
    /// A negative scenario that violated its claim is right, whatever else it violated or missed: coverage is not required of a sweep that
    /// was made to fail.
    pub fn verdict(&self) -> Verdict {
        if self.broken > 0 {
            return Verdict::Broken;
        }
        if self.nondeterministic > 0 {
            return Verdict::Nondeterministic;
        }
        let is_cut = self.placements.as_ref().is_some_and(|placements| !placements.complete);
        if self.seeds == 0 {
            return if is_cut { Verdict::Incomplete } else { Verdict::NotRun };
        }
        if let Some(expected) = &self.expect {
            return if self.violated_claims().any(|(claim, _)| claim == expected) { Verdict::Found } else { Verdict::NotFound };
        }
        if self.violated > 0 {
            // A record that counts violations without naming them gets the graver verdict.
            let late_only = self.violated_claims().all(|(_, kind)| kind == Kind::Eventually) && self.violated_claims().next().is_some();
            return if late_only { Verdict::NotEventually } else { Verdict::Violated };
        }
        if self.is_excused_too_often() {
            return Verdict::ExcusedTooOften;
        }
        if is_cut {
            return Verdict::Incomplete;
        }
        let unseen = self.never_held().next().is_some() || self.never_fired().next().is_some() || self.never_judged().next().is_some();
        let none_given = self.no_address_given && self.seeds >= ENOUGH;
        if (unseen && !self.brought) || none_given { Verdict::Vacuous } else { Verdict::Held }
    }

    /// The verdict over one shard. What only the whole can tell is open: whether a `sometimes` claim is seen, whether a claim that must be
    /// violated is, and the share of excused seeds.
    pub fn verdict_of_shard(&self) -> Verdict {
        match self.verdict() {
            Verdict::Vacuous | Verdict::NotRun | Verdict::NotFound | Verdict::ExcusedTooOften => Verdict::Open,
            verdict => verdict,
        }
    }

    /// Whether more than [`EXCUSED_AT_MOST`] of all seeds would be excused, and the scenario does not say why: claims that hold mostly by
    /// excuses prove little. The seeds that ran, at least [`ENOUGH`], must show it beyond chance: the limit lies below Wilson's interval of
    /// 95 %.
    pub fn is_excused_too_often(&self) -> bool {
        let share = wilson(self.excused as f64, self.seeds as f64).and_then(|share| share.low);
        self.expect.is_none() && self.why_excused.is_none() && self.seeds >= ENOUGH && share.is_some_and(|low| low > EXCUSED_AT_MOST)
    }

    /// Claims violated without an excuse. The listed failures are included, in case a record has no complete count.
    fn violated_claims(&self) -> impl Iterator<Item = (&str, Kind)> {
        let counted = self.claims.iter().map(|claim| (claim.claim.as_str(), claim.kind));
        counted.chain(self.failures.iter().map(|failure| (failure.claim.as_str(), failure.kind)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Problem, ProblemKind};
    use crate::run::Allocations;
    use crate::run::tests::{record, violation};
    use crate::{RunReport, SeedRecord, exit};

    const ALWAYS: Option<(&str, Kind)> = Some(("no-address-has-two-owners", Kind::Always));
    const EVENTUALLY: Option<(&str, Kind)> = Some(("every-pod-has-an-address", Kind::Eventually));

    fn scenario(runs: &[Option<(&str, Kind)>]) -> ScenarioResult {
        let mut scenario = ScenarioResult::new("s", "f", []);
        (0..).zip(runs).for_each(|(seed, &claim)| scenario.add(record(seed, claim)));
        scenario
    }

    #[test]
    fn verdicts_follow_from_what_was_violated() {
        for (runs, verdict) in [
            (&[None, None][..], Verdict::Held),
            (&[], Verdict::NotRun),
            (&[None, ALWAYS], Verdict::Violated),
            (&[EVENTUALLY, None], Verdict::NotEventually),
            (&[EVENTUALLY, ALWAYS], Verdict::Violated),
        ] {
            assert_eq!(scenario(runs).verdict(), verdict, "{runs:?}");
        }
    }

    #[test]
    fn a_negative_scenario_is_right_when_its_claim_is_violated() {
        let expect = Some("no-address-has-two-owners".to_owned());
        for (runs, verdict) in [
            (&[None, ALWAYS][..], Verdict::Found),
            (&[EVENTUALLY, ALWAYS], Verdict::Found),
            (&[None, None], Verdict::NotFound),
            (&[EVENTUALLY], Verdict::NotFound),
            (&[], Verdict::NotRun),
        ] {
            assert_eq!(ScenarioResult { expect: expect.clone(), ..scenario(runs) }.verdict(), verdict, "{runs:?}");
        }
    }

    #[test]
    fn an_excused_violation_neither_fails_a_scenario_nor_satisfies_a_negative_one() {
        let mut excused = scenario(&[]);
        let violations = vec![violation("c", Kind::Always, Some("unreachable-node-release"))];
        excused.add(SeedRecord { violations, ..record(0, None) });
        assert_eq!(excused.verdict(), Verdict::Held);
        assert_eq!(ScenarioResult { expect: Some("c".into()), ..excused }.verdict(), Verdict::NotFound);
    }

    #[test]
    fn more_than_one_excused_seed_of_ten_fails_a_scenario_that_does_not_say_why() {
        let sweep = |excused, seeds| {
            let mut sweep = scenario(&[]);
            for seed in 0..seeds {
                let excuse = violation("c", Kind::Always, Some("unreachable-node-release"));
                sweep.add(SeedRecord { violations: (seed < excused).then_some(excuse).into_iter().collect(), ..record(seed, None) });
            }
            sweep
        };
        assert_eq!(sweep(60, 300).verdict(), Verdict::ExcusedTooOften);
        assert_eq!(sweep(30, 300).verdict(), Verdict::Held);
        assert_eq!(sweep(35, 300).verdict(), Verdict::Held, "that may be chance");
        assert_eq!(sweep(ENOUGH - 1, ENOUGH - 1).verdict(), Verdict::Held, "so few seeds prove nothing");
        assert_eq!(sweep(60, 300).verdict_of_shard(), Verdict::Open);
        let mut whole = sweep(60, 300);
        whole.join(scenario(&[None]));
        assert_eq!(whole.verdict(), Verdict::ExcusedTooOften);
        assert_eq!(ScenarioResult { why_excused: Some("by design".into()), ..sweep(60, 300) }.verdict(), Verdict::Held);
        assert_eq!(ScenarioResult { expect: Some("c".into()), ..sweep(60, 300) }.verdict(), Verdict::NotFound);
    }

    #[test]
    fn a_claim_that_held_in_no_seed_makes_the_sweep_vacuous() {
        let mut sweep = ScenarioResult::new("s", "f", [("a".to_owned(), Kind::Sometimes), ("b".to_owned(), Kind::Reachable)]);
        sweep.add(SeedRecord { held: &["b".to_owned()], ..record(0, None) });
        assert_eq!(sweep.verdict(), Verdict::Vacuous);
        assert_eq!(sweep.never_held().map(|claim| claim.claim.as_str()).collect::<Vec<_>>(), ["a"]);
        sweep.add(SeedRecord { held: &["a".to_owned()], ..record(1, None) });
        assert_eq!(sweep.verdict(), Verdict::Held);
        // A violation takes precedence.
        sweep.sometimes[0].held_in = 0;
        sweep.add(record(2, EVENTUALLY));
        assert_eq!(sweep.verdict(), Verdict::NotEventually);
    }

    #[test]
    fn a_sweep_in_which_no_address_is_given_is_vacuous_once_it_is_long_enough() {
        let refused =
            |seed, attempted| SeedRecord { allocations: Allocations { attempted, succeeded: 0, failed: attempted }, ..record(seed, None) };
        let sweep = |seeds, attempted, wants_addresses| {
            let mut sweep = ScenarioResult { wants_addresses, ..scenario(&[]) };
            (0..seeds).for_each(|seed| sweep.add(refused(seed, attempted)));
            (sweep.no_address_given, sweep.verdict())
        };
        assert_eq!(sweep(ENOUGH, 3, false), (true, Verdict::Vacuous));
        assert_eq!(sweep(ENOUGH - 1, 3, false), (true, Verdict::Held));
        // A scenario without requests for addresses may test something else, unless the user brought a cluster so that its pods ask.
        assert_eq!(sweep(ENOUGH, 0, false), (false, Verdict::Held));
        assert_eq!(sweep(ENOUGH, 0, true), (true, Verdict::Vacuous));
        let mut whole = ScenarioResult::new("s", "f", []);
        (0..ENOUGH).for_each(|seed| whole.add(refused(seed, 3)));
        whole.join(scenario(&[None]));
        assert_eq!((whole.no_address_given, whole.verdict()), (false, Verdict::Held));
    }

    #[test]
    fn a_bug_of_the_harness_outranks_every_finding() {
        let problem = |kind| Problem { seed: 9, kind, message: "m".into(), plan: None };
        let mut sweep = ScenarioResult { expect: Some("no-address-has-two-owners".into()), ..scenario(&[ALWAYS]) };
        sweep.add(SeedRecord { problems: vec![problem(ProblemKind::Nondeterminism)], ..record(9, None) });
        assert_eq!(sweep.verdict(), Verdict::Nondeterministic);
        sweep.add(SeedRecord { problems: vec![problem(ProblemKind::Harness)], ..record(10, None) });
        assert_eq!(sweep.verdict(), Verdict::Broken);
    }

    #[test]
    fn a_run_exits_with_its_worst_scenario() {
        let (held, late, failed) = (scenario(&[None]), scenario(&[EVENTUALLY]), scenario(&[ALWAYS]));
        let code = |scenarios: &[&ScenarioResult]| RunReport::new(scenarios.iter().map(|&s| s.clone()).collect(), false).exit_code;
        assert_eq!(code(&[&held]), exit::HELD);
        assert_eq!(code(&[&held, &late]), exit::NOT_EVENTUALLY);
        assert_eq!(code(&[&late, &failed, &held]), exit::VIOLATED);
        assert_eq!(code(&[]), exit::VACUOUS);
        assert_eq!(RunReport::new(vec![failed], true).exit_code, exit::INTERRUPTED);
    }
}
