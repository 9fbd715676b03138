//! The input of a plan, that is, the wanted auto pool and the known state, and its possible results.

use std::sync::Arc;

use thiserror::Error;

use super::application::Application;
use super::demand::Demand;
use crate::SpiderSubnet;
use crate::ranges::{IpSet, IpVersion};
use crate::{Policy, SpiderIPPool};

/// A pool that a workload should have.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// The workload that should have it.
    pub application: &'a Application,
    /// The pool that it asks for.
    pub demand: &'a Demand,
}

impl Want<'_> {
    /// The name that the pool gets if it has to be made.
    pub fn pool_name(&self, policy: &Policy) -> String {
        self.application.pool_name(&self.demand.nic, self.demand.family, policy)
    }
}

/// The state of the cluster that was read.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The subnet, as it was just read.
    pub subnet: &'a SpiderSubnet,
    /// The pool, as it was just read, if there is one.
    pub pool: Option<&'a SpiderIPPool>,
    /// The pools of the same CIDR, including this one.
    pub neighbours: &'a [Arc<SpiderIPPool>],
    /// Reserved addresses of the family.
    pub reserved: &'a IpSet,
    /// A random number that selects the free address to start from. `None` = the lowest.
    pub draw: Option<u64>,
}

/// A write. Its resourceVersion is that of the copy that was decided on, so that it has no effect if another writer was faster.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// The status of the subnet.
    Subnet(Box<SpiderSubnet>),
    /// The metadata of the subnet, before a pool gets addresses that were pre-allocated for it already: a writer that is about to give them
    /// back, or whose write commits late (K114), has read an older version, and is refused from now on.
    Hold(Box<SpiderSubnet>),
    /// The whole of a pool that does not exist yet.
    Create(Box<SpiderIPPool>),
    /// The metadata and spec of a pool.
    Update(Box<SpiderIPPool>),
}

/// The writes, in order; each is sent only if those before it succeeded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The writes, at most one of each kind. Empty: all is well.
    pub writes: Vec<Write>,
    /// Whether more remains to be done after these writes: read and plan again.
    pub again: bool,
    /// The number of addresses by which the pool will exceed its desired size, because pods have them.
    pub surplus: u128,
}

/// The reason why nothing can be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The subnet is being deleted.
    #[error("subnet {0} is being deleted")]
    SubnetTerminating(String),
    /// The pool is being deleted; a new one can be made when it is gone.
    #[error("pool {0} is being deleted")]
    PoolTerminating(String),
    /// The pool has another CIDR than the subnet.
    #[error("pool {pool} is of {has}, not of {wants}")]
    OtherCidr {
        /// The name of the pool.
        pool: String,
        /// The CIDR of the pool.
        has: String,
        /// The CIDR of the subnet.
        wants: String,
    },
    /// The subnet is of the other family.
    #[error("subnet {subnet} has no {family} addresses")]
    OtherFamily {
        /// The name of the subnet.
        subnet: String,
        /// The family that is asked for.
        family: IpVersion,
    },
    /// Too few addresses are free.
    #[error("subnet {subnet} has {free} free addresses, and {missing} are missing")]
    Insufficient {
        /// The name of the subnet.
        subnet: String,
        /// The number of free addresses.
        free: u128,
        /// The number of addresses needed beyond those of the pool.
        missing: u128,
    },
    /// Too few addresses of the pool are free to make it smaller.
    #[error("pool {pool} cannot lose {excess} addresses; pods have too many of them")]
    InUse {
        /// The name of the pool.
        pool: String,
        /// The number of addresses too many.
        excess: u128,
    },
    /// Addresses of the pool are pre-allocated for another one.
    #[error("addresses of pool {0} are set aside for another one")]
    Contested(String),
    /// The pool of this name belongs to another workload, whose UID ends in the same way.
    #[error("pool name {0} is taken by another workload (UID suffix collision)")]
    NameTaken(String),
    /// Something cannot be read, so that the owner of the addresses is unknown.
    #[error("{0}")]
    Unreadable(String),
}

impl Refusal {
    /// Whether the result stays the same until somebody changes an object that is wrong.
    pub fn is_wrong_input(&self) -> bool {
        matches!(self, Self::SubnetTerminating(_) | Self::OtherCidr { .. } | Self::OtherFamily { .. } | Self::NameTaken(_))
    }

    /// Whether waiting may help: addresses may become free.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Insufficient { .. } | Self::InUse { .. } | Self::PoolTerminating(_))
    }
}
