//! One cause and everything that it breaks: failures of a sweep are told by what they come of, and each of these once.

use serde::{Deserialize, Serialize};

use crate::command::replay_command;
use crate::finding::{ClaimCount, Failure};
use crate::{ScenarioResult, SeedRange, seeds};

/// A cause of failures: the claims that it breaks, the seeds that showed it, and the plan to look at.
///
/// Failures have one cause if their smaller plans give the same run, or if what they need is the same: [`Failure::cause`]. Of each claim the first
/// failure is explained; that another seed breaks the same claim is taken for the same cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What it comes of: faults and deviations; unset where that is not known, or nothing in particular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What of its plan it needs, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// The claims that it breaks, each with its seeds; that of the failure that is told in front.
    pub claims: Vec<ClaimCount>,
    /// In how many seeds any of them was violated; at least, where not all seeds are known.
    pub seeds: u64,
    /// Which ones, as far as they are known: ascending, neighbours joined.
    pub seed_ranges: Vec<SeedRange>,
    /// The seed of the failure that is told.
    pub seed: u64,
    /// The plan to look at: the smaller one, if there is one.
    pub plan: Option<String>,
    /// The command that runs it again.
    pub replay: String,
}

impl Finding {
    /// The failure that is told: the first of the first claim.
    pub fn failure<'a>(&self, scenario: &'a ScenarioResult) -> Option<&'a Failure> {
        let told = self.claims.first()?;
        scenario.failures.iter().find(|failure| failure.claim == told.claim)
    }
}

impl ScenarioResult {
    /// Keeps what [`ScenarioResult::sorted_findings`] says.
    pub fn tell_findings(&mut self) {
        self.findings = self.sorted_findings();
    }

    /// What was violated, by what it comes of. What a negative scenario must violate comes first, then what hurts users, then the rest, each in the
    /// order of seeds and times.
    pub fn sorted_findings(&self) -> Vec<Finding> {
        let mut firsts: Vec<(&ClaimCount, &Failure)> = self
            .claims
            .iter()
            .filter_map(|count| Some((count, self.failures.iter().find(|failure| failure.claim == count.claim)?)))
            .collect();
        let expected = |claim: &str| self.expect.as_deref() == Some(claim);
        firsts.sort_by_key(|(count, failure)| (!expected(&count.claim), !count.hurts, failure.seed, failure.at));
        let mut groups: Vec<Vec<(&ClaimCount, &Failure)>> = Vec::new();
        for first in firsts {
            match groups.iter_mut().find(|group| group.iter().any(|(_, known)| have_one_cause(known, first.1))) {
                Some(group) => group.push(first),
                None => groups.push(vec![first]),
            }
        }
        groups.into_iter().map(|group| finding(&self.file, &group)).collect()
    }
}

fn have_one_cause(one: &Failure, other: &Failure) -> bool {
    let same_run = one.shrunk.as_ref().zip(other.shrunk.as_ref()).is_some_and(|(one, other)| one.digest == other.digest);
    same_run || (one.cause.is_some() && one.cause == other.cause)
}

fn finding(file: &str, group: &[(&ClaimCount, &Failure)]) -> Finding {
    let told = group[0].1;
    let mut seed_ranges = Vec::new();
    for range in group.iter().flat_map(|(count, _)| &count.seed_ranges) {
        seeds::insert_range(&mut seed_ranges, *range);
    }
    let named = u64::try_from(seed_ranges.iter().map(|range| range.count()).sum::<u128>()).unwrap_or(u64::MAX);
    let plan = told.shrunk.as_ref().and_then(|shrunk| shrunk.plan.clone()).or_else(|| told.plan.clone());
    Finding {
        cause: told.cause.clone(),
        needs: told.needs.clone(),
        claims: group.iter().map(|(count, _)| (*count).clone()).collect(),
        seeds: group.iter().map(|(count, _)| count.seeds).fold(named, u64::max),
        seed_ranges,
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

    /// Seeds that violate claims, and what each first failure comes of: its cause, or the digest of its smaller plan.
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
        scenario.claims.iter_mut().for_each(|count| count.hurts = hurts.contains(&&*count.claim));
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
        let ranges = [SeedRange { first: 1, last: 4 }];
        assert_eq!((findings[0].seeds, &findings[0].seed_ranges[..]), (4, &ranges[..]));
        assert_eq!((findings[0].seed, findings[0].plan.as_deref()), (1, Some("1.toml")));
        assert_eq!(findings[0].replay, "ipam-sim replay 1.toml --trace");
        assert_eq!(findings[1].replay, "ipam-sim replay s.toml --seed 5 --trace");
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
