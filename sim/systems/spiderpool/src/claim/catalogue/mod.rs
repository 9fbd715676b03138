//! Which claims there are about Spiderpool.

mod allocation;
mod reclaim;
mod subnets;

use sim_harness::claim::ClaimDef;

/// All of them, in the order in which they are listed.
pub(crate) fn all() -> Vec<ClaimDef> {
    [allocation::CLAIMS, reclaim::CLAIMS, subnets::CLAIMS].concat()
}
