//! A §7.1: a completed DEL leaves nothing behind.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::ipam::DelOutcome;
use kube_machinery::FxHashMap;
use kube_sim::rt::ProcessId;

use super::view::{EventMask, Holder, Pod, Seen, Shown, View};
use super::{Findings, IpamClaim, violated};
use crate::workload::IpamNote;

/// The agent, the sandbox and the NIC of a DEL.
type Attachment = (ProcessId, Arc<str>, Arc<str>);

/// After a DEL that has given back the addresses of all NICs of a pod, or has found no endpoint of it, no record for the pod is left that
/// its agent had certainly been shown when the DEL began. A later scan of reclaim would find it; until then no other pod could have the
/// address.
///
/// It judges pools that the agent knew in their last version. It does not judge DELs that leave addresses to those of other NICs, or DELs
/// of a StatefulSet's or a VM's pod without an endpoint, whose addresses may be kept. Broken by `partial-failure-keeps-records`.
#[derive(Default)]
pub(crate) struct DeletesLeaveNothingBehind {
    /// The DELs in progress, with the records for the pod that were known when the last of them began.
    open: FxHashMap<Attachment, Vec<(Arc<str>, IpAddr)>>,
}

impl IpamClaim for DeletesLeaveNothingBehind {
    fn event_mask(&self) -> EventMask {
        EventMask::RELEASE
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Ipam(by, IpamNote::DelBegun { uid, container, nic, .. }) => {
                let shown = view.agents.shown(by, Shown::Pools);
                let is_known = |(pool, _): &&(Arc<str>, IpAddr)| view.pools.revision(pool) <= shown;
                let known = view.pools.of_uid(uid).iter().filter(is_known).cloned().collect();
                self.open.insert((by, container.clone(), nic.clone()), known);
            }
            Seen::Ipam(by, IpamNote::DelEnded { pod, uid, container, nic, outcome, .. }) => {
                let known = self.open.remove(&(by, container.clone(), nic.clone())).unwrap_or_default();
                let is_plain = || view.pods.get(uid).is_some_and(|pod| Pod::static_name(pod).is_none());
                let is_over = match outcome {
                    Some(DelOutcome::Released) => true,
                    Some(DelOutcome::NoEndpoint) => is_plain(),
                    _ => false,
                };
                if !is_over || known.is_empty() {
                    return;
                }
                findings.exercised();
                let is_there = |(pool, address): &&(Arc<str>, IpAddr)| {
                    let of_pod = |holder: &&Holder| holder.pool == *pool && *holder.record.pod_uid == **uid;
                    view.pools.holders(*address).filter(of_pod).any(|holder| *holder.record.pod == **pod)
                };
                let Some((pool, address)) = known.iter().find(is_there) else { return };
                let by_hand =
                    view.changes.touched(*address) || view.pools.get(pool).is_none_or(|pool| pool.garbled_until(view.at).is_some());
                violated(findings, by_hand, || {
                    let (by, whose) = (view.name(by), view.pod_of(uid));
                    vec![
                        format!("{by} has given back what {whose} had, and {address} of pool {pool} is still recorded for it"),
                        view.story_of(pool, *address),
                    ]
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderIPPool;

    use super::super::testing::on_stage;
    use crate::workload::Cause;

    const CLAIM: &str = "deletes-leave-nothing-behind";

    #[test]
    fn a_record_that_the_agent_knew_and_left_is_a_violation() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1")]);
            stage.del("ns/a", "a", true);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false), "the agent was not shown it");
            stage.deliver::<SpiderIPPool>(stage.agent);
            stage.del("ns/a", "a", false);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false), "it failed");
            stage.del("ns/a", "a", true);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
            stage.del_asked("ns/a", "a");
            stage.release("ns/a", "a", Cause::Del, &[("p", "10.0.0.1")]);
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            stage.del("ns/a", "a", true);
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
