//! The checks of a run: claims by name, as scenarios and plans list them. [`crate::claim`] has their code.

pub mod budget;
pub mod claim_name;
pub mod excuse;
pub mod pattern;

use ipam_reports::finding::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::time::Span;
use sim_config::{Problems, Source};

pub use budget::RequestBudget;
pub use claim_name::{ClaimName, KnownClaim};
pub use excuse::{COMMON_EXCUSES, Excuse, OLDER_VERSION, problems_of_excuses};
pub use pattern::ClaimPattern;

/// The suite of the claims that hold for any system.
pub const COMMON_SUITE: &str = "common";

/// The claims that a run checks. `ipam-sim list claims` prints the names of claims and suites.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Checks {
    /// Claims that hold at every step: a claim by its name, which must then judge something in a sweep, or all claims of a suite
    /// (`SYSTEM/SUBJECT/*`) or system (`SYSTEM/*`), which may also judge nothing.
    pub always: Vec<ClaimPattern>,
    /// Claims of the suites in `always` that this run leaves out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<ClaimName>,
    /// Claims that hold when their bound has passed after the faults healed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub eventually: Vec<Eventually>,
    /// Claims that hold at least once in the whole sweep; also points that must be reached.
    pub sometimes: Vec<ClaimName>,
    /// Limits on the number of requests that processes send in a run; judged by `requests-stay-within-budget`, which belongs to each run
    /// that has such a budget.
    #[serde(skip_serializing_if = "RequestBudget::is_empty")]
    pub budget: RequestBudget,
}

impl Checks {
    /// The claims of `always` in the order in which they are named, and whether each has to judge something in a sweep.
    pub fn always_claims(&self) -> Vec<(&'static KnownClaim, bool)> {
        let mut claims: Vec<(&'static KnownClaim, bool)> = Vec::new();
        for pattern in &self.always {
            let by_name = matches!(pattern, ClaimPattern::Name(_));
            for claim in pattern.claims() {
                match claims.iter_mut().find(|(known, _)| known.name == claim.name) {
                    Some((_, required)) => *required |= by_name,
                    None if !by_name && self.excepts(claim) => {}
                    None => claims.push((claim, by_name)),
                }
            }
        }
        claims
    }

    fn excepts(&self, claim: &KnownClaim) -> bool {
        self.except.iter().any(|name| name.as_str() == claim.name)
    }

    /// Whether the run judges `claim`.
    pub fn judges(&self, claim: &ClaimName) -> bool {
        let bounded = self.eventually.iter().any(|eventually| eventually.claim == *claim);
        bounded || self.always_claims().iter().any(|(def, _)| def.name == claim.as_str())
    }

    /// Claims in a list that is not for their kind: they would never be judged.
    pub fn problems(&self, source: Source<'_>) -> Problems {
        let mut problems = self.budget.problems(source);
        let bounded: Vec<&ClaimName> = self.eventually.iter().map(|eventually| &eventually.claim).collect();
        let named = self.always.iter().filter_map(|pattern| match pattern {
            ClaimPattern::Name(name) => Some(name),
            ClaimPattern::Suites(_) => None,
        });
        let named: Vec<&ClaimName> = named.collect();
        for name in &self.except {
            let brings = |pattern: &ClaimPattern| pattern.claims().iter().any(|def| def.name == name.as_str());
            if named.contains(&name) {
                let wrong = format!("`check.always` names `{name}`, and `check.except` leaves it out");
                problems.push(source.problem("check.except", wrong, "one of the two"));
            } else if !self.always.iter().any(brings) {
                let wrong = format!("`check.except` leaves out `{name}`, which no suite of `check.always` has");
                problems.push(source.problem_of_text(name, wrong, "a claim of such a suite"));
            }
        }
        for (list, names, kinds) in [
            ("always", named, &[Kind::Always][..]),
            ("sometimes", self.sometimes.iter().collect(), &[Kind::Sometimes, Kind::Reachable]),
            ("eventually", bounded, &[Kind::Eventually]),
        ] {
            for (name, kind) in
                names.into_iter().map(|name: &ClaimName| (name, name.known().kind)).filter(|(_, kind)| !kinds.contains(kind))
            {
                let wrong = format!("`check.{list}` names `{name}`, which is of kind `{kind}`");
                problems.push(source.problem_of_text(name, wrong, format!("a claim of kind `{}`", kinds[0])));
            }
        }
        problems
    }
}

/// A claim with a bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Eventually {
    /// Name of a claim of kind `eventually`, as `ipam-sim list claims` has it.
    pub claim: ClaimName,
    /// The bound: the longest time that it may take after the faults healed.
    pub within: Span,
}
