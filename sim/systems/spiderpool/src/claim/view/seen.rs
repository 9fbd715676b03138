//! The meaning of an event for the claims, and the choice of the claims that are asked about it.

use std::sync::Arc;

use kube_sim::node::PodNote;
use kube_sim::rt::ProcessId;
use kube_sim::trace::{Outcome, ProcessChange};

use super::endpoints::EndpointChange;
use super::pools::PoolChange;
use super::subnets::SubnetChange;
use crate::oracle::Opinion;
use crate::workload::{HookNote, InOrder, IpamNote, ReclaimNote};

/// The meaning of an event for Spiderpool.
#[derive(Debug)]
pub(crate) enum Seen<'a> {
    /// A write of a pool took effect.
    Pool(Box<PoolChange>),
    /// A write of a subnet took effect.
    Subnet(Box<SubnetChange>),
    /// A write of an endpoint took effect.
    Endpoint(Box<EndpointChange>),
    /// An agent learned the outcome of its write of a pool.
    Wrote(Outcome),
    /// A writer learned that admission, or the API server's own rules, refused its write of a pool.
    PoolRefused,
    /// An agent sent a note.
    Ipam(ProcessId, &'a IpamNote),
    /// An agent has selected pools; with the opinion of an independent implementation of the rules.
    Selected {
        /// The process of the agent.
        by: ProcessId,
        /// The UID of the pod.
        uid: &'a Arc<str>,
        /// The NIC of the request.
        nic: &'a Arc<str>,
        /// The pools that can serve each NIC and family in the order in which they are to be tried, as in [`IpamNote::Selected`].
        order: &'a Arc<[InOrder]>,
        /// The opinion of the rules on the choice.
        opinion: Opinion,
    },
    /// A node sent a note.
    Pod(ProcessId, &'a PodNote),
    /// A replica of the controller sent a note about reclaim.
    Reclaim(ProcessId, &'a ReclaimNote),
    /// A webhook of a replica of the controller sent a note about an update.
    Hook(ProcessId, &'a HookNote),
    /// A pod, given by its UID, is nearer to its end: it is terminating, has ended or is gone.
    Life(Arc<str>),
    /// The places of a StatefulSet or a VM that keep their addresses have changed.
    Places,
    /// The state of a node has changed.
    Node,
    /// The writer has made itself the holder of the lease of Spiderpool's controller.
    Lease(ProcessId),
    /// A replica started or stopped running.
    Process(ProcessId, ProcessChange),
    /// A replica lists the pods again, and these vanished without a watch event that it saw.
    Relisted(ProcessId, Vec<Arc<str>>),
}

impl Seen<'_> {
    /// The number of its kind, which is the number of its bit in [`EventMask`].
    pub(crate) fn kind(&self) -> usize {
        match self {
            Seen::Pool(_) => 0,
            Seen::Subnet(_) => 1,
            Seen::Endpoint(_) => 2,
            Seen::Wrote(_) => 3,
            Seen::PoolRefused => 4,
            Seen::Ipam(_, note) => match note {
                IpamNote::AddEnded { .. } => 5,
                IpamNote::Selected { .. } | IpamNote::Compared { .. } | IpamNote::Tried { .. } => 6,
                IpamNote::DelBegun { .. } | IpamNote::DelEnded { .. } | IpamNote::ReleaseBegun { .. } | IpamNote::ReleaseEnded { .. } => 7,
                IpamNote::AddBegun { .. } | IpamNote::Queued { .. } | IpamNote::Unqueued { .. } => 8,
            },
            Seen::Selected { .. } => 6,
            Seen::Pod(..) => 9,
            Seen::Reclaim(..) => 10,
            Seen::Hook(..) => 11,
            Seen::Life(_) => 12,
            Seen::Places => 13,
            Seen::Node => 14,
            Seen::Lease(_) => 15,
            Seen::Process(..) => 16,
            Seen::Relisted(..) => 17,
        }
    }
}

/// The kinds of [`Seen`] that a claim wants to see, as a set of bits: most events mean nothing to most claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventMask(u32);

impl EventMask {
    /// The number of kinds.
    pub(crate) const KINDS: usize = 18;

    /// No kind: a claim with this mask is asked about no event.
    pub(in super::super) const NONE: EventMask = EventMask(0);
    /// Commits of pools, by any process ([`Seen::Pool`]).
    pub(in super::super) const POOL: EventMask = EventMask(1);
    /// Commits of subnets, by any process ([`Seen::Subnet`]).
    pub(in super::super) const SUBNET: EventMask = EventMask(1 << 1);
    /// Commits of endpoints, by any process ([`Seen::Endpoint`]).
    pub(in super::super) const ENDPOINT: EventMask = EventMask(1 << 2);
    /// Answers to agents that wrote a pool ([`Seen::Wrote`]).
    pub(in super::super) const WROTE: EventMask = EventMask(1 << 3);
    /// Writes of pools that the rules refused, by any process ([`Seen::PoolRefused`]).
    pub(in super::super) const POOL_REFUSED: EventMask = EventMask(1 << 4);
    /// [`Seen::Ipam`]: a request for addresses is answered.
    pub(in super::super) const ANSWER: EventMask = EventMask(1 << 5);
    /// [`Seen::Selected`], and the comparisons and attempts of agents in [`Seen::Ipam`].
    pub(in super::super) const CHOICE: EventMask = EventMask(1 << 6);
    /// [`Seen::Ipam`]: requests to release, and releases for any cause.
    pub(in super::super) const RELEASE: EventMask = EventMask(1 << 7);
    /// [`Seen::Ipam`]: a request for addresses is received, or waits for its pools.
    pub(in super::super) const ASKED: EventMask = EventMask(1 << 8);
    /// Notes of kubelets about sandboxes and their NICs ([`Seen::Pod`]).
    pub(in super::super) const POD: EventMask = EventMask(1 << 9);
    /// Notes of replicas of the controller about reclaim ([`Seen::Reclaim`]).
    pub(in super::super) const RECLAIM: EventMask = EventMask(1 << 10);
    /// Notes of webhooks about updates ([`Seen::Hook`]).
    pub(in super::super) const HOOK: EventMask = EventMask(1 << 11);
    /// Pods that are nearer to their end ([`Seen::Life`]).
    pub(in super::super) const LIFE: EventMask = EventMask(1 << 12);
    /// Changes of the places that keep addresses: StatefulSets and VMs ([`Seen::Places`]).
    pub(in super::super) const PLACES: EventMask = EventMask(1 << 13);
    /// Changes of the states of nodes ([`Seen::Node`]).
    pub(in super::super) const NODE: EventMask = EventMask(1 << 14);
    /// New holders of the controller's lease ([`Seen::Lease`]).
    pub(in super::super) const LEASE: EventMask = EventMask(1 << 15);
    /// Replicas that start or stop running ([`Seen::Process`]).
    pub(in super::super) const PROCESS: EventMask = EventMask(1 << 16);
    /// Lists by which replicas learn which pods they missed ([`Seen::Relisted`]).
    pub(in super::super) const RELISTED: EventMask = EventMask(1 << 17);

    /// The kinds that are in at least one of two sets.
    pub(in super::super) const fn and(self, other: EventMask) -> EventMask {
        EventMask(self.0 | other.0)
    }

    /// Whether the set contains the kind with this number.
    pub(crate) fn has(self, kind: usize) -> bool {
        self.0 >> kind & 1 == 1
    }
}
