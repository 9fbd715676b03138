//! What happens in some runs, so that scenarios test what they are meant to.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_core::FxHashMap;
use ipam_core::api::Reason;
use ipam_core::spiderpool::PoolIPAllocation;

use super::view::{Seen, View};
use super::{Answered, Findings, IpamClaim};
use crate::trace::Outcome;
use crate::workload::spiderpool::{Cause, How, IpamNote, Refusal};

/// What a single event shows.
#[derive(Clone, Copy)]
pub(in super::super) enum Sight {
    /// An agent writes a pool and meets a conflict.
    PoolConflict,
    /// A static pod gets the address of its predecessor.
    KeptOverRestart,
    /// A pool has nothing to give, and another one serves.
    LaterPoolServes,
    /// A DEL for a UID comes after the ADD of its successor was answered.
    LateDelete,
    /// A request that fails takes back what it recorded.
    RolledBack,
    /// A request is answered with what the pod has already.
    Existing,
    /// An answer has addresses of both families for one NIC.
    DualStack,
    /// An answer has addresses for several NICs.
    SeveralNics,
    /// An address is given up because somebody outside uses it.
    OutsideConflict,
}

impl IpamClaim for Sight {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if self.is_in(seen, view) {
            findings.held();
        }
    }
}

impl Sight {
    fn is_in(self, seen: &Seen<'_>, view: &View) -> bool {
        match self {
            Sight::PoolConflict => matches!(seen, Seen::Wrote(Outcome::Http(_, Reason::Conflict))),
            Sight::RolledBack => matches!(seen, Seen::Ipam(_, IpamNote::ReleaseEnded { cause: Cause::RollBack, ok: true, .. })),
            Sight::OutsideConflict => matches!(seen, Seen::Ipam(_, IpamNote::ReleaseBegun { cause: Cause::Conflict, .. })),
            Sight::LateDelete => match seen {
                Seen::Ipam(_, IpamNote::DelBegun { pod, uid, .. }) if !uid.is_empty() => {
                    view.pods.named(pod).is_some_and(|(successor, _)| successor != uid && !view.ledger.answers(successor).is_empty())
                }
                _ => false,
            },
            Sight::LaterPoolServes => match seen {
                Seen::Ipam(process, IpamNote::Tried { uid, nic, outcome: Ok(address), .. }) => {
                    view.agents.asked(*process, uid).any(|asked| {
                        let full = asked.order.iter().any(|order| {
                            order.nic == *nic && order.pools.iter().all(|pool| is_of(pool.spec.ip_version, *address)) && order.full > 0
                        });
                        let used_out = asked.tried.iter().any(|tried| tried.nic == *nic && tried.outcome == Err(Refusal::UsedOut));
                        full || used_out
                    })
                }
                _ => false,
            },
            Sight::KeptOverRestart | Sight::Existing | Sight::DualStack | Sight::SeveralNics => {
                Answered::of(seen).is_some_and(|answer| self.is_in_answer(&answer, view))
            }
        }
    }

    fn is_in_answer(self, answer: &Answered<'_>, view: &View) -> bool {
        let first = answer.given.first();
        let differs = |other: fn(&super::Given, &super::Given) -> bool| first.is_some_and(|first| answer.given.iter().any(|given| other(first, given)));
        match self {
            Sight::Existing => answer.how == How::Existing && first.is_some(),
            Sight::DualStack => differs(|one, other| one.nic == other.nic && one.address.is_ipv4() != other.address.is_ipv4()),
            Sight::SeveralNics => differs(|one, other| one.nic != other.nic),
            Sight::KeptOverRestart => {
                let name = view.pods.get(answer.uid).and_then(|pod| pod.static_name());
                let kept = name.map_or(&[][..], |name| view.ledger.kept(name));
                kept.iter().any(|before| before.uid != *answer.uid && answer.given.contains(&before.given))
            }
            _ => false,
        }
    }
}

fn is_of(version: Option<i64>, address: IpAddr) -> bool {
    version == Some(if address.is_ipv4() { 4 } else { 6 })
}

/// An address goes from one pod to a pod of another name.
#[derive(Default)]
pub(in super::super) struct ChangesHands {
    last: FxHashMap<IpAddr, Arc<PoolIPAllocation>>,
}

impl IpamClaim for ChangesHands {
    fn observe(&mut self, seen: &Seen<'_>, _: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        for (address, record) in change.edits.iter().filter_map(|edit| edit.given()) {
            if self.last.insert(address, record.clone()).is_some_and(|before| before.pod != record.pod) {
                findings.held();
            }
        }
    }
}
