//! The claims about Spiderpool.

mod allocation;
mod reclaim;
mod subnets;

use sim_harness::claim::ClaimSuite;

/// Former names of claims, and their present ones.
pub(crate) const RENAMED: &[(&str, &str)] = &[("waiting-requests-get-their-turn", "queued-requests-are-served")];

/// All claims by subject, in the order in which they are listed.
pub(crate) fn suites() -> Vec<ClaimSuite> {
    vec![
        ClaimSuite { name: "spiderpool/allocation", claims: allocation::CLAIMS },
        ClaimSuite { name: "spiderpool/reclaim", claims: reclaim::CLAIMS },
        ClaimSuite { name: "spiderpool/subnets", claims: subnets::CLAIMS },
    ]
}

#[cfg(test)]
mod tests {
    use sim_harness::check::ClaimName;

    use super::{RENAMED, suites};

    #[test]
    fn former_names_of_claims_are_read_as_the_present_ones() {
        for &(former, present) in RENAMED {
            assert!(suites().iter().flat_map(|suite| suite.claims).all(|claim| claim.name != former), "{former}");
            let name = ClaimName::new(former).expect("the former name is known");
            assert_eq!((name.as_str(), name.known().name), (present, present));
        }
    }
}
