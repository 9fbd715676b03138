//! What is wanted of an auto pool, what is known about it, and what a plan can answer.

use std::sync::Arc;

use thiserror::Error;

use super::application::Application;
use super::demand::Demand;
use crate::SpiderSubnet;
use crate::ranges::{IpSet, IpVersion};
use crate::{Policy, SpiderIPPool};

/// The pool that a workload is to have.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// The workload that is to have it.
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

/// What was read of the cluster.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The subnet, as it was just read.
    pub subnet: &'a SpiderSubnet,
    /// The pool, as it was just read, if there is one.
    pub pool: Option<&'a SpiderIPPool>,
    /// The pools of the same CIDR; also this one.
    pub neighbours: &'a [Arc<SpiderIPPool>],
    /// Reserved addresses of the family.
    pub reserved: &'a IpSet,
    /// A random number: from which free address on addresses are taken. `None` = the lowest.
    pub draw: Option<u64>,
}

/// A write. Its resourceVersion is that of the copy that was decided on, so that it does nothing if somebody was faster.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// The status of the subnet.
    Subnet(Box<SpiderSubnet>),
    /// The metadata of the subnet, before a pool gets what was set aside for it already: whoever is about to give that back, or whose
    /// write commits late (K114), has read an older version, and is refused from now on.
    Hold(Box<SpiderSubnet>),
    /// The whole of a pool that does not exist yet.
    Create(Box<SpiderIPPool>),
    /// The metadata and spec of a pool.
    Update(Box<SpiderIPPool>),
}

/// What to write, in this order; each write only if those before it went well.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// At most one of each kind. None: all is well.
    pub writes: Vec<Write>,
    /// Whether there is more to be done after these: read and plan again.
    pub again: bool,
    /// How many addresses the pool will have more than it should, because pods have them.
    pub surplus: u128,
}

/// Why nothing can be written.
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
        /// That of the subnet.
        wants: String,
    },
    /// The subnet is of the other family.
    #[error("subnet {subnet} has no {family} addresses")]
    OtherFamily {
        /// The name of the subnet.
        subnet: String,
        /// What is asked for.
        family: IpVersion,
    },
    /// Too few addresses are free.
    #[error("subnet {subnet} has {free} free addresses, and {missing} are missing")]
    Insufficient {
        /// The name of the subnet.
        subnet: String,
        /// How many are free.
        free: u128,
        /// How many more than the pool has are needed.
        missing: u128,
    },
    /// Too few addresses of the pool are free to make it smaller.
    #[error("pool {pool} cannot lose {excess} addresses; pods have too many of them")]
    InUse {
        /// The name of the pool.
        pool: String,
        /// How many it has too many.
        excess: u128,
    },
    /// Addresses of the pool are set aside for another one.
    #[error("addresses of pool {0} are set aside for another one")]
    Contested(String),
    /// The pool of this name belongs to another workload whose UID ends alike.
    #[error("pool name {0} is taken by another workload (UID suffix collision)")]
    NameTaken(String),
    /// Something cannot be read, so that nobody knows whose the addresses are.
    #[error("{0}")]
    Unreadable(String),
}

impl Refusal {
    /// Whether the same question will have the same answer until somebody changes an object that is wrong.
    pub fn is_wrong_input(&self) -> bool {
        matches!(self, Self::SubnetTerminating(_) | Self::OtherCidr { .. } | Self::OtherFamily { .. } | Self::NameTaken(_))
    }

    /// Whether waiting may help: addresses may become free.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Insufficient { .. } | Self::InUse { .. } | Self::PoolTerminating(_))
    }
}
