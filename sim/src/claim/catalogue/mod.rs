//! Which claims there are: a table for each system.

mod allocation;
mod byom;
mod common;
mod reclaim;
mod subnets;

use super::ClaimDef;

/// Claims about any run.
pub(crate) const COMMON: &[ClaimDef] = common::CLAIMS;
/// Claims about the BYOM pool.
pub(crate) const BYOM: &[ClaimDef] = byom::CLAIMS;
/// Claims about Spiderpool.
pub(crate) const SPIDERPOOL: [&[ClaimDef]; 3] = [allocation::CLAIMS, reclaim::CLAIMS, subnets::CLAIMS];
