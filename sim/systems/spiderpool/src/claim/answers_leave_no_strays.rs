//! A S15: an agent that allocates an address for a NIC takes back the NIC's other addresses.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::PoolIPAllocation;
use ipam_spiderpool::ranges::IpVersion;
use kube_machinery::FxHashMap;
use kube_sim::rt::ProcessId;

use super::view::{EventMask, Seen, Shown, View};
use super::{Findings, IpamClaim, violated};
use crate::workload::{Given, How, IpamNote};

/// The agent, the sandbox and the NIC of an ADD.
type Attachment = (ProcessId, Arc<str>, Arc<str>);

/// A record that the agent knew: pool, address and NIC.
type Known = (Arc<str>, IpAddr, Arc<str>);

/// A request that is answered from the pools leaves its NICs no other record of the same family that its agent had certainly been shown
/// when the request began: no sandbox would ever answer on that address, and only reclaim would find it, once the pod is gone.
///
/// It judges pools that the agent knew in their last version, and records that name the NIC, except those that were made unreadable by hand
/// for a while. Broken by `partial-failure-keeps-records`.
#[derive(Default)]
pub(crate) struct AnswersLeaveNoStrays {
    /// The ADDs in progress, with the records for the pod that were known when the last of them began.
    open: FxHashMap<Attachment, Vec<Known>>,
}

impl IpamClaim for AnswersLeaveNoStrays {
    fn event_mask(&self) -> EventMask {
        EventMask::ASKED.and(EventMask::ANSWER)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Ipam(by, IpamNote::AddBegun { pod, uid, container, nic, .. }) => {
                let shown = view.agents.shown(by, Shown::Pools);
                let is_readable = |pool: &str| view.pools.get(pool).is_some_and(|pool| pool.garbled_until(view.at) != Some(view.at));
                let is_known = |(pool, _): &&(Arc<str>, IpAddr)| view.pools.revision(pool) <= shown && is_readable(pool);
                let known = |(pool, address): &(Arc<str>, IpAddr)| {
                    let nic = record(view, pool, *address, uid, pod)?.interface.as_deref()?;
                    Some((pool.clone(), *address, nic.into()))
                };
                let known = view.pools.of_uid(uid).iter().filter(is_known).filter_map(known).collect();
                self.open.insert((by, container.clone(), nic.clone()), known);
            }
            Seen::Ipam(by, IpamNote::AddEnded { pod, uid, container, nic, result, how, .. }) => {
                let known = self.open.remove(&(by, container.clone(), nic.clone())).unwrap_or_default();
                let (Ok(given), How::Fresh) = (result, how) else { return };
                // An answered address may be one of the known ones.
                let is_given = |address: IpAddr| given.iter().any(|given| given.address == address);
                for (pool, address, nic) in known.iter().filter(|(_, address, _)| !is_given(*address)) {
                    let is_for_same = |given: &&Given| given.nic == *nic && IpVersion::of(given.address) == IpVersion::of(*address);
                    let Some(given) = given.iter().find(is_for_same) else { continue };
                    findings.exercised();
                    if record(view, pool, *address, uid, pod).is_none_or(|record| record.interface.as_deref() != Some(nic)) {
                        continue;
                    }
                    violated(findings, view.changes.touched(*address), || {
                        let (by, whose) = (view.name(by), view.pod_of(uid));
                        vec![
                            format!("{by} gives {nic} of {whose} {}, and leaves it {address} of pool {pool}", given.address),
                            view.story_of(pool, *address),
                        ]
                    });
                }
            }
            _ => {}
        }
    }
}

/// The record of an address in a pool, if it is for this pod.
fn record<'a>(view: &'a View, pool: &Arc<str>, address: IpAddr, uid: &str, pod: &str) -> Option<&'a PoolIPAllocation> {
    let holder = view.pools.holders(address).find(|holder| holder.pool == *pool)?;
    (holder.record.pod_uid == uid && holder.record.pod == pod).then_some(&*holder.record)
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderIPPool;
    use kube_machinery::json_text::JsonText;

    use super::super::testing::on_stage;

    const CLAIM: &str = "answers-leave-no-strays";

    #[test]
    fn another_record_of_the_nic_that_the_agent_knew_is_a_violation() {
        on_stage(CLAIM, |stage| {
            let agent = stage.agent;
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.record_for(agent, "p", "10.0.0.1", "a", "eth0");
            stage.record_for(agent, "p", "10.0.0.2", "a", "eth0");
            stage.ask("ns/a", "a", "eth0");
            stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.2")]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false), "the agent was not shown it");
            stage.deliver::<SpiderIPPool>(agent);
            stage.ask("ns/a", "a", "net1");
            stage.answer("ns/a", "a", "net1", &[("net1", "p", "10.0.0.3")]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false), "another NIC");
            stage.ask("ns/a", "a", "eth0");
            stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.2")]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
        });
    }

    #[test]
    fn what_people_have_made_unreadable_is_not_known() {
        for (readable, excuses) in [(true, vec![None]), (false, vec![])] {
            on_stage(CLAIM, |stage| {
                let agent = stage.agent;
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pool("q", &["10.0.1.1-10.0.1.9"]);
                stage.record_for(agent, "p", "10.0.0.1", "a", "eth0");
                if !readable {
                    stage.change_pool(stage.person, "p", |pool| {
                        pool.status.get_or_insert_default().allocated_ips = JsonText::verbatim("{".to_owned());
                    });
                }
                stage.deliver::<SpiderIPPool>(agent);
                stage.ask("ns/a", "a", "eth0");
                stage.answer("ns/a", "a", "eth0", &[("eth0", "q", "10.0.1.1")]);
                assert_eq!(stage.excuses(), excuses);
            });
        }
    }
}
