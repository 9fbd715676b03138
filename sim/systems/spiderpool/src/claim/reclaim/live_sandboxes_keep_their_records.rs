//! G GS2: what answers is recorded.

use kube_sim::node::PodNote;

use super::super::records_leave_only_for_their_own_uid::is_migration;
use super::super::view::{EventMask, Seen, View};
use super::super::{FORCED_SUCCESSOR, Findings, IpamClaim};
use super::violated;

/// While a sandbox answers on an address, its pool records the address for the sandbox's UID: from its attachment until its interface is
/// to be taken down, or it is gone. Whoever removes the record breaks it, an agent or a replica of the controller. The pods of a VM may
/// hand a record to each other.
///
/// Excused by the documented hazards of reclaim, by hands, and where a namesake takes over what a pod had that was deleted by force.
/// Broken by `records-before-endpoint` with `reown-missing-record`, `vm-record-without-owner-check`, `scan-trusts-cached-pod` and
/// `scan-trusts-cached-endpoint`. It does not see which pool an address of a second pool was taken from.
pub(crate) struct LiveSandboxesKeepTheirRecords;

impl IpamClaim for LiveSandboxesKeepTheirRecords {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL.and(EventMask::POD)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match seen {
            Seen::Pool(change) => {
                for edit in &change.edits {
                    let Some((address, before)) = edit.taken() else { continue };
                    findings.exercised();
                    let Some((_, sandbox)) = view.sandboxes.answering(address).find(|(_, sandbox)| *sandbox.uid == *before.pod_uid) else {
                        continue;
                    };
                    let successor = edit.after.as_ref().filter(|after| after.pod == before.pod);
                    if successor.is_some_and(|after| is_migration(view, &before.pod_uid, &after.pod_uid)) {
                        continue;
                    }
                    let is_gone = view.pods.get(&sandbox.uid).is_none_or(|pod| pod.gone);
                    let forced = (change.by_agent && is_gone).then_some(FORCED_SUCCESSOR);
                    let excuse = if change.by_replica { view.excuse_of(&sandbox.uid, address) } else { forced };
                    violated(findings, excuse, view.changes.touched(address), || {
                        let whose = view.pod_of(&sandbox.uid);
                        vec![
                            format!("{address} of pool {} is recorded for {whose} no more, which answers on it", change.pool),
                            view.story_of_write(change),
                            view.story_of(&change.pool, address),
                        ]
                    });
                }
            }
            Seen::Pod(_, PodNote::Attached { sandbox, addresses, nic }) => {
                let Some(sandbox) = view.sandboxes.get(sandbox) else { return };
                for address in addresses.iter() {
                    findings.exercised();
                    let own = |uid: &str| *sandbox.uid == *uid || is_migration(view, &sandbox.uid, uid);
                    if view.pools.holders(*address).any(|holder| own(&holder.record.pod_uid)) {
                        continue;
                    }
                    violated(findings, view.excuse_of(&sandbox.uid, *address), view.changes.touched(*address), || {
                        vec![
                            format!("{nic} of {} answers on {address}, which is not recorded for it", view.pod_of(&sandbox.uid)),
                            view.story_of("", *address),
                        ]
                    });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Stage, on_stage};
    use super::super::super::view::{FORCE_DELETE, UNREACHABLE_NODE};
    use super::super::super::{BY_HAND, FORCED_SUCCESSOR};
    use super::*;
    use std::time::Duration;

    const CLAIM: &str = "live-sandboxes-keep-their-records";
    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    fn with_pod(test: impl FnOnce(&mut Stage)) {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.node_is_shown("node-0", true);
            stage.pod("ns/a", "a");
            stage.sandbox("a", "ns/a", "a");
            stage.add("ns/a", "a", FIRST);
            stage.attach("a", "eth0", &["10.0.0.1"]);
            test(stage);
        });
    }

    #[test]
    fn a_record_goes_when_its_sandbox_is_silent_and_not_before() {
        with_pod(|stage| {
            stage.node(PodNote::DelAsked { sandbox: "a".into(), nic: "eth0".into(), netns: true });
            stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
        with_pod(|stage| {
            stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[0].starts_with("10.0.0.1 of pool p is recorded for ns/a"), "{:?}", stage.detail());
        });
        with_pod(|stage| {
            stage.unrecord(stage.person, "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }

    #[test]
    fn a_sandbox_that_answers_on_what_is_not_recorded_is_a_violation() {
        with_pod(|stage| {
            stage.attach("a", "net1", &["10.0.0.2"]);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_pod_that_is_gone_by_force_is_excused() {
        with_pod(|stage| {
            stage.pod_gone("ns/a");
            stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [Some(FORCE_DELETE)]);
        });
        with_pod(|stage| {
            stage.pod_gone("ns/a");
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [Some(FORCED_SUCCESSOR)]);
        });
    }

    #[test]
    fn a_node_that_is_not_ready_excuses_once_the_grace_is_over_and_a_ready_one_does_not() {
        for (ready, seconds, excuse) in [(false, 61, Some(UNREACHABLE_NODE)), (false, 59, None), (true, 61, None)] {
            with_pod(|stage| {
                stage.terminate_with("ns/a", 30);
                stage.node_is("node-0", ready);
                stage.pass(Duration::from_secs(seconds));
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                assert_eq!(stage.excuses(), [excuse], "ready: {ready}, after {seconds} s");
            });
        }
    }

    #[test]
    fn a_kubelet_that_is_down_or_was_not_told_in_time_is_out_of_reach() {
        use kube_sim::trace::ProcessChange;
        for change in [ProcessChange::Crashed, ProcessChange::Paused] {
            with_pod(|stage| {
                stage.terminate_with("ns/a", 30);
                stage.process_changes(stage.kubelet, change);
                stage.pass(Duration::from_secs(61));
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                assert_eq!(stage.excuses(), [Some(UNREACHABLE_NODE)]);
            });
        }
        with_pod(|stage| {
            stage.terminate("ns/a");
            stage.pass(Duration::from_secs(5 * 24 * 3600));
            stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [Some(UNREACHABLE_NODE)]);
        });
    }

    #[test]
    fn a_sandbox_that_waits_for_its_agent_is_out_of_reach_until_the_agent_answers() {
        for (failed, excuse) in [(None, Some(UNREACHABLE_NODE)), (Some(true), Some(UNREACHABLE_NODE)), (Some(false), None)] {
            with_pod(|stage| {
                stage.terminate_with("ns/a", 30);
                stage.node_is("node-0", true);
                stage.node(PodNote::DelAsked { sandbox: "a".into(), nic: "net1".into(), netns: true });
                if let Some(failed) = failed {
                    stage.node(PodNote::DelDone { sandbox: "a".into(), nic: "net1".into(), failed });
                }
                stage.pass(Duration::from_secs(61));
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                assert_eq!(stage.excuses(), [excuse], "failed: {failed:?}");
            });
        }
    }

    #[test]
    fn a_migration_hands_a_record_on_while_its_source_answers() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            for uid in ["source", "target"] {
                stage.vm_pod(&format!("ns/{uid}"), uid, "vm");
                stage.sandbox(uid, &format!("ns/{uid}"), uid);
                stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", uid);
                stage.attach(uid, "eth0", &["10.0.0.1"]);
            }
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.record(stage.agent, "p", "10.0.0.1", "ns/b", "b");
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
