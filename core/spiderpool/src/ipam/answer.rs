//! The answers of the agent.

use std::sync::Arc;

use ipnet::IpNet;

use crate::Route;
use crate::ranges::IpVersion;

/// The addresses of a pod, as reported to the plugin. The NICs that it covers depend on [`how`](Self::how) (A §14.20).
#[derive(Clone, Debug, PartialEq)]
pub struct AddAnswer {
    /// One entry for each address; a NIC with both families has two.
    pub ips: Vec<NicAddress>,
    /// The routes, default routes included.
    pub routes: Vec<NicRoute>,
    /// The origin of the addresses.
    pub how: How,
}

/// One address of one NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicAddress {
    /// The NIC; may be an index, or empty, for NICs without a name (A §2.4).
    pub nic: String,
    /// The address, with the prefix of the pool's subnet.
    pub address: IpNet,
    /// The name of the pool that has the record.
    pub pool: Arc<str>,
    /// The gateway of the pool, even where its default route is left out; `None` = the pool has none.
    pub gateway: Option<String>,
    /// The VLAN; other than 0 only with an IaaS provider.
    pub vlan: i64,
}

impl NicAddress {
    /// The family of the address; an IPv4-mapped one counts as IPv4.
    pub fn family(&self) -> IpVersion {
        IpVersion::of(self.address.addr())
    }
}

/// One route of one NIC.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NicRoute {
    /// The NIC, named as in [`NicAddress::nic`].
    pub nic: String,
    /// Destination and gateway: a route of the pool or of the pod, or the default route by the pool's gateway.
    pub route: Route,
}

/// The origin of an ADD's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// Allocated from pools now, or for an earlier try of the same pod (A §5.4).
    Fresh,
    /// Already named by the pod's endpoint (A §5.3).
    Existing,
    /// Taken over from the pod's predecessor (A §6.2).
    Reowned,
}

impl How {
    /// The origin of the addresses, as half a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            How::Fresh => "from the pools",
            How::Existing => "its own already",
            How::Reowned => "its predecessor's",
        }
    }
}

/// The outcome of a DEL (A §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DelOutcome {
    /// The pod is alive: everything is kept for its next sandbox (A D2).
    Alive,
    /// The request has no UID, and no existing pod is known to be the one meant: left to reclaim (A D3).
    NoUid,
    /// There is no endpoint (A D4). The hardened form has then released the records of the pod that it knows of.
    NoEndpoint,
    /// The pod's place still exists: its addresses are kept for the next pod of that name (A D5).
    StillValid,
    /// The endpoint is not this pod's, or has no such NIC: nothing was done (A D7).
    NotOurs,
    /// Another sandbox of the pod is not torn down yet: the addresses are released with the last one.
    Shared,
    /// The addresses of this NIC are released, and others still have theirs: the last DEL of the pod is yet to come.
    ReleasedNic,
    /// The addresses of all NICs are released (A D10).
    Released,
}
