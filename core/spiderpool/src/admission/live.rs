//! The existing objects, as the judging process knows them.

use std::sync::Arc;

use crate::address_set::shares_addresses;
use crate::ranges::{IpRange, IpSet};
use crate::{Policy, SpiderIPPool, SpiderSubnet};

/// The existing objects that a request is compared with. A reservation is compared with nothing (A §9.3).
pub trait Live {
    /// All pools, in the order of their names.
    fn pools(&self) -> &[Arc<SpiderIPPool>];

    /// All subnets, in the order of their names.
    fn subnets(&self) -> &[Arc<SpiderSubnet>];

    /// The subnets among which defaulting finds the owner of a pool. Upstream reads them from a cache, which may lag.
    fn subnets_for_defaults(&self) -> &[Arc<SpiderSubnet>] {
        self.subnets()
    }

    /// The addresses that one of [`pools`](Self::pools) shares with `mine`, if any. An implementation that serves many requests on the same
    /// pools can cache their ranges.
    fn shared_addresses(&self, mine: &IpSet, pool: &SpiderIPPool, policy: &Policy) -> Option<IpRange> {
        shares_addresses(mine, &pool.spec, policy)
    }
}

/// A list that was read.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The pools, in the order of their names.
    pub pools: Vec<Arc<SpiderIPPool>>,
    /// The subnets, in the order of their names.
    pub subnets: Vec<Arc<SpiderSubnet>>,
}

impl Live for Listed {
    fn pools(&self) -> &[Arc<SpiderIPPool>] {
        &self.pools
    }

    fn subnets(&self) -> &[Arc<SpiderSubnet>] {
        &self.subnets
    }
}
