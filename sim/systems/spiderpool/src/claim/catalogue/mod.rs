//! Which claims there are about Spiderpool.

mod allocation;
mod reclaim;
mod subnets;

use sim_harness::claim::ClaimDef;

/// Former names of claims, and the present ones.
pub(crate) const RENAMED: &[(&str, &str)] = &[("waiting-requests-get-their-turn", "queued-requests-are-served")];

/// All of them, in the order in which they are listed.
pub(crate) fn all() -> Vec<ClaimDef> {
    [allocation::CLAIMS, reclaim::CLAIMS, subnets::CLAIMS].concat()
}

#[cfg(test)]
mod tests {
    use sim_harness::claim::ClaimName;

    use super::{RENAMED, all};

    #[test]
    fn former_names_of_claims_are_read_as_the_present_ones() {
        for &(former, present) in RENAMED {
            assert!(all().iter().all(|claim| claim.name != former), "{former}");
            let name = ClaimName::new(former).expect("the former name is known");
            assert_eq!((name.as_str(), name.def().name), (present, present));
        }
    }
}
