//! Findings: the failures of a sweep grouped by cause, each cause with everything that it breaks.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::command::replay_command;
use crate::finding::{ClaimCount, Failure};
use crate::shrink::cause_class;
use crate::{ScenarioResult, SeedRange, seeds};

/// A cause of failures: the claims that it breaks, the seeds that showed it, and the plan to look at.
///
/// Failures have one cause if their smaller plans give the same run, or if their needs are the same: [`Failure::cause`]. Only the listed
/// failures are examined; further seeds are only counted, without a statement about their cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The cause: faults and deviations; unset where it is unknown, or nothing in particular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The parts of its plan that the failure needs, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// The claims that it breaks, each with the seeds in which this is known to be the cause; the claim of the reported failure comes
    /// first.
    pub claims: Vec<ClaimCount>,
    /// The number of seeds in which any of them was violated by this cause.
    pub seeds: u64,
    /// These seeds, as far as they are known: ascending, neighbours joined.
    pub seed_ranges: Vec<SeedRange>,
    /// The number of further seeds in which these claims were violated, without an examination of the cause. A claim with several causes
    /// counts at the first of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unexamined: u64,
    /// These further seeds, as far as they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unexamined_ranges: Vec<SeedRange>,
    /// The seed of the reported failure.
    pub seed: u64,
    /// The plan to look at: the smaller one, if there is one.
    pub plan: Option<String>,
    /// The command that runs it again.
    pub replay: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Finding {
    /// The reported failure: the first of the first claim.
    pub fn failure<'a>(&self, scenario: &'a ScenarioResult) -> Option<&'a Failure> {
        let told = self.claims.first()?;
        let is_it = |failure: &&Failure| failure.claim == told.claim && failure.seed == self.seed && failure.cause == self.cause;
        scenario.failures.iter().find(is_it)
    }
}

impl ScenarioResult {
    /// Stores the result of [`ScenarioResult::sorted_findings`] in `findings`.
    pub fn tell_findings(&mut self) {
        self.findings = self.sorted_findings();
    }

    /// The violations, grouped by cause. The claim that a negative scenario must violate comes first, then claims that hurt users, the
    /// worst first, then the rest, each in the order of seeds and times.
    pub fn sorted_findings(&self) -> Vec<Finding> {
        let count_of = |failure: &Failure| self.claims.iter().find(|count| count.claim == failure.claim);
        let mut known: Vec<(&ClaimCount, &Failure)> = Vec::new();
        for failure in &self.failures {
            let Some(count) = count_of(failure) else { continue };
            let is_first = known.iter().all(|(other, _)| other.claim != count.claim);
            if is_first || failure.cause.is_some() || failure.shrunk.is_some() {
                known.push((count, failure));
            }
        }
        let expected = |claim: &str| self.expect.as_deref() == Some(claim);
        let rank = |count: &ClaimCount| count.rank.unwrap_or(u32::MAX);
        known.sort_by_key(|(count, failure)| (!expected(&count.claim), !count.hurts, rank(count), failure.seed, failure.at));
        let mut groups: Vec<Vec<(&ClaimCount, &Failure)>> = Vec::new();
        for one in &known {
            match groups.iter_mut().find(|group| group.iter().any(|(_, known)| have_one_cause(known, one.1))) {
                Some(group) => group.push(*one),
                None => groups.push(vec![*one]),
            }
        }
        // The failure that was explained is the one to report; those that were only found to have the same cause come after it.
        groups.iter_mut().for_each(|group| group.sort_by_key(|(_, failure)| failure.needs.is_none()));
        let mut findings: Vec<Finding> = groups.into_iter().map(|group| finding(&self.file, &group)).collect();
        for index in 0..findings.len() {
            let (before, rest) = findings.split_at_mut(index);
            let is_told = |count: &ClaimCount| before.iter().any(|finding| finding.claims.iter().any(|told| told.claim == count.claim));
            let new = self.claims.iter().filter(|count| rest[0].claims.iter().any(|told| told.claim == count.claim) && !is_told(count));
            (rest[0].unexamined, rest[0].unexamined_ranges) = unexamined(new, &known);
        }
        findings
    }
}

/// Whether two failures have one cause. The node or client makes no difference: shards examine their failures separately.
fn have_one_cause(one: &Failure, other: &Failure) -> bool {
    let class = |failure: &Failure| failure.cause.as_deref().map(cause_class);
    let same_run = one.shrunk.as_ref().zip(other.shrunk.as_ref()).is_some_and(|(one, other)| one.digest == other.digest);
    same_run || class(one).is_some_and(|one| Some(one) == class(other))
}

/// The number of seeds in which some claims were violated without a failure of known cause, and those seeds.
fn unexamined<'a>(claims: impl Iterator<Item = &'a ClaimCount>, known: &[(&ClaimCount, &Failure)]) -> (u64, Vec<SeedRange>) {
    let (mut seeds, mut unnamed) = (BTreeSet::<u64>::new(), 0);
    for claim in claims {
        let examined: BTreeSet<u64> =
            known.iter().filter(|(count, _)| count.claim == claim.claim).map(|(_, failure)| failure.seed).collect();
        let number = known.iter().filter(|(count, _)| count.claim == claim.claim).count() as u64;
        let named: BTreeSet<u64> = claim.seed_ranges.iter().flat_map(|range| range.first..=range.last).collect();
        unnamed = claim.seeds.saturating_sub(number.max(named.len() as u64)).max(unnamed);
        seeds.extend(named.difference(&examined));
    }
    let mut ranges = Vec::new();
    seeds.iter().for_each(|seed| seeds::insert(&mut ranges, *seed));
    ((seeds.len() as u64).saturating_add(unnamed), ranges)
}

fn finding(file: &str, group: &[(&ClaimCount, &Failure)]) -> Finding {
    let told = group[0].1;
    let mut claims: Vec<ClaimCount> = Vec::new();
    let mut seed_ranges = Vec::new();
    for (count, failure) in group {
        let named = SeedRange { first: failure.seed, last: failure.seed };
        // Seeds of crash points and placements, which share seeds, are not named.
        let is_named = !count.seed_ranges.is_empty();
        let known = match claims.iter_mut().find(|known| known.claim == count.claim) {
            Some(known) => known,
            None => {
                claims.push(ClaimCount { seeds: 0, seed_ranges: Vec::new(), ..(*count).clone() });
                claims.last_mut().expect("one was just pushed")
            }
        };
        known.seeds += 1;
        if is_named {
            seeds::insert_range(&mut known.seed_ranges, named);
            seeds::insert_range(&mut seed_ranges, named);
        }
    }
    let named = u64::try_from(seed_ranges.iter().map(|range| range.count()).sum::<u128>()).unwrap_or(u64::MAX);
    let plan = told.shrunk.as_ref().and_then(|shrunk| shrunk.plan.clone()).or_else(|| told.plan.clone());
    Finding {
        cause: told.cause.clone(),
        needs: told.needs.clone(),
        seeds: claims.iter().map(|count| count.seeds).fold(named, u64::max),
        claims,
        seed_ranges,
        unexamined: 0,
        unexamined_ranges: Vec::new(),
        seed: told.seed,
        replay: replay_command(plan.as_deref(), file, told.seed),
        plan,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;
    use crate::finding::Kind;

    use crate::run::tests::record;
    use crate::shrink::{Shrunk, Size};

    /// The findings of seeds that violate claims; the first failure of each claim has a cause, or the digest of its smaller plan.
    fn told(violated: &[(u64, &str)], causes: &[(&str, Option<&str>, Option<u128>)], hurts: &[&str]) -> Vec<Finding> {
        let mut scenario = ScenarioResult::new("s", "s.toml", []);
        for &(seed, claim) in violated {
            scenario.add(record(seed, Some((claim, Kind::Always))));
        }
        for (claim, cause, digest) in causes {
            let failure = scenario.failures.iter_mut().find(|failure| failure.claim == *claim).unwrap();
            failure.cause = cause.map(str::to_owned);
            let of = |digest: &u128| Shrunk {
                plan: Some(format!("{digest}.toml")),
                digest: Digest(*digest),
                size: Size::default(),
                from: Size::default(),
                runs: 1,
                cut_off: None,
            };
            failure.shrunk = digest.as_ref().map(of);
        }
        scenario.claims.iter_mut().for_each(|count| {
            let place = hurts.iter().position(|claim| *claim == count.claim);
            (count.hurts, count.rank) = (place.is_some(), place.map(|place| place as u32));
        });
        scenario.tell_findings();
        scenario.findings
    }

    fn claims(findings: &[Finding]) -> Vec<Vec<&str>> {
        findings.iter().map(|finding| finding.claims.iter().map(|count| &*count.claim).collect()).collect()
    }

    #[test]
    fn one_cause_is_one_finding_with_its_claims_and_seeds() {
        let violated = [(1, "a"), (2, "b"), (3, "a"), (4, "c"), (5, "d"), (6, "d")];
        let causes = [("a", Some("cut(x)"), Some(1)), ("b", Some("cut(x)"), Some(2)), ("c", Some("d"), Some(1)), ("d", None, None)];
        let findings = told(&violated, &causes, &[]);
        assert_eq!(claims(&findings), [vec!["a", "b", "c"], vec!["d"]], "by what they need, and by the run of the smaller plan");
        let ranges = [SeedRange { first: 1, last: 2 }, SeedRange { first: 4, last: 4 }];
        assert_eq!((findings[0].seeds, &findings[0].seed_ranges[..]), (3, &ranges[..]));
        let unexamined = findings.iter().map(|finding| (finding.unexamined, &finding.unexamined_ranges[..])).collect::<Vec<_>>();
        let one = |seed| [SeedRange { first: seed, last: seed }];
        assert_eq!(unexamined, [(1, &one(3)[..]), (1, &one(6)[..])], "nobody looked into seeds 3 and 6");
        assert_eq!((findings[0].seed, findings[0].plan.as_deref()), (1, Some("1.toml")));
        assert_eq!(findings[0].replay, "ipam-sim replay 1.toml --trace");
        assert_eq!(findings[1].replay, "ipam-sim replay s.toml --seed 5 --trace");
    }

    #[test]
    fn a_claim_with_two_causes_is_two_findings() {
        let mut scenario = ScenarioResult::new("s", "s.toml", []);
        for seed in 1..=6 {
            scenario.add(record(seed, Some(("a", Kind::Always))));
        }
        let causes = ["cut(x)", "crash(y)", "cut(x)", "crash(y)", "cut(x)"];
        for (failure, cause) in scenario.failures.iter_mut().zip(causes) {
            failure.cause = Some(cause.to_owned());
        }
        // The first failure of each cause is the explained one.
        scenario.failures[..2].iter_mut().for_each(|failure| failure.needs = failure.cause.clone());
        scenario.tell_findings();
        let told = |finding: &Finding| (finding.cause.clone().unwrap(), finding.seed, finding.seeds, finding.unexamined);
        let findings: Vec<_> = scenario.findings.iter().map(told).collect();
        assert_eq!(findings, [("cut(x)".to_owned(), 1, 3, 1), ("crash(y)".to_owned(), 2, 2, 0)]);
        let failures: Vec<_> = scenario.findings.iter().map(|finding| finding.failure(&scenario).unwrap().seed).collect();
        assert_eq!(failures, [1, 2], "each tells its own failure");
    }

    #[test]
    fn what_is_not_known_to_be_one_cause_is_told_apart() {
        assert_eq!(claims(&told(&[(1, "a"), (1, "b")], &[("a", None, Some(1)), ("b", None, Some(2))], &[])), [["a"], ["b"]]);
    }

    #[test]
    fn what_hurts_users_comes_before_what_breaks_a_rule_earlier() {
        assert_eq!(claims(&told(&[(1, "rule"), (9, "doubled")], &[], &["doubled"])), [["doubled"], ["rule"]]);
        assert_eq!(claims(&told(&[(1, "rule"), (9, "doubled")], &[], &[])), [["rule"], ["doubled"]]);
    }
}
