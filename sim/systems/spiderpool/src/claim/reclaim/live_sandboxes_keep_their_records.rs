//! G GS2: addresses that answer are recorded.

use std::net::IpAddr;

use ipam_spiderpool::PoolIPAllocation;
use kube_sim::node::PodNote;

use super::super::view::{EventMask, Seen, View, is_migration};
use super::super::{FORCED_SUCCESSOR, Findings, IpamClaim, WITHOUT_UID};
use super::violated;

/// While a sandbox answers on an address, its pool records the address for the sandbox's UID: from its attachment until its interface is to
/// be taken down, or it is gone. An agent or a replica of the controller that removes the record breaks the claim. The pods of a VM may
/// hand a record to each other, and it stays as long as one of them answers.
///
/// Excused by the documented hazards of reclaim within their bounds, even where another NIC of the pod got the address that a hazard took
/// from this one, and an agent takes it back; by edits by hand; where the next pod of its place takes over the addresses of a pod that was
/// deleted by force, until the node must have ended its sandbox; and where no UID distinguishes the sandbox of a gone pod from the next pod
/// of its name, which has the record. Broken by `force-delete-frees-at-once`, `returned-node-frees-at-once`, `records-before-endpoint` with
/// `reown-missing-record`, `vm-record-without-owner-check`, `scan-trusts-cached-pod` and `scan-trusts-cached-endpoint`. It does not see
/// which pool an address was taken from if it is in a second pool as well.
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
                    // An address on which one pod of a VM answers may be recorded for the other pod.
                    let is_of = |uid: &str| *uid == *before.pod_uid || is_migration(view, &before.pod_uid, uid);
                    let Some((_, sandbox)) = view.sandboxes.answering(address).find(|(_, sandbox)| is_of(&sandbox.uid)) else {
                        continue;
                    };
                    let successor = edit.after.as_ref().filter(|after| after.pod == before.pod);
                    if successor.is_some_and(|after| is_migration(view, &before.pod_uid, &after.pod_uid)) {
                        continue;
                    }
                    // If the record is that of the VM's other pod, it is the successor's, which a replica may legitimately reclaim; that
                    // pod may be gone, too.
                    let of_successor = *sandbox.uid != *before.pod_uid;
                    let succeeded = || view.is_succeeded(&sandbox.uid) && view.may_outlive(&sandbox.uid);
                    let forced = (change.by_agent || of_successor) && succeeded();
                    let forced = forced.then_some(FORCED_SUCCESSOR);
                    let hazard = || view.excuse_of(&sandbox.uid, address);
                    let excuse = match () {
                        () if change.by_replica => forced.or_else(hazard),
                        () if is_of_a_silent_nic(view, address, before) => forced.or_else(hazard),
                        () => forced,
                    };
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
                    // The sandbox's ADD was in progress when the next pod of its place took the record over.
                    let taken_over = view.pools.holders(*address).any(|holder| view.succeeds(&holder.record.pod_uid, &sandbox.uid));
                    let forced = taken_over && view.may_outlive(&sandbox.uid);
                    let of_name = |uid: &str| view.pods.get(uid).is_some_and(|pod| *pod.key == *sandbox.pod.as_str());
                    let of_namesake = view.pools.holders(*address).any(|holder| of_name(&holder.record.pod_uid));
                    let without_uid = of_namesake && view.may_pass_for_another(sandbox, view.at);
                    let excuse = view.excuse_of(&sandbox.uid, *address).or(forced.then_some(FORCED_SUCCESSOR));
                    let excuse = excuse.or(without_uid.then_some(WITHOUT_UID));
                    violated(findings, excuse, view.changes.touched(*address), || {
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

/// Whether a record is that of a NIC which does not answer on the address: the NIC that does got the address before. A NIC without a name,
/// which may be any, is recorded without a name or with a number (A §2.4).
fn is_of_a_silent_nic(view: &View, address: IpAddr, record: &PoolIPAllocation) -> bool {
    let of_pod = view.sandboxes.answering(address).filter(|(_, sandbox)| *sandbox.uid == *record.pod_uid);
    let mut answering = of_pod.flat_map(|(_, sandbox)| &sandbox.nics).filter(|(.., addresses)| addresses.contains(&address));
    let named = record.interface.as_deref().filter(|nic| !nic.bytes().all(|byte| byte.is_ascii_digit()));
    named.is_some_and(|nic| answering.all(|(name, ..)| **name != *nic))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Stage, on_stage, on_stage_with};
    use super::super::super::view::{EMPTY_POD_IPS, FORCE_DELETE, UNREACHABLE_NODE};
    use super::super::super::{BY_HAND, FORCED_SUCCESSOR};
    use super::*;
    use ipam_spiderpool::reclaim::ReclaimSettings;
    use kube_sim::trace::ProcessChange;
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
        // A DEL that is lost takes the interface down all the same.
        for down in [
            PodNote::DelAsked { sandbox: "a".into(), nic: "eth0".into(), netns: true },
            PodNote::InterfaceDown { sandbox: "a".into(), nic: "eth0".into() },
        ] {
            with_pod(|stage| {
                stage.node(down);
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            });
        }
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
    fn what_another_nic_drew_after_a_hazard_took_it_may_be_given_back_and_what_the_same_nic_has_may_not() {
        for (on, nic, excuses) in [
            (true, "net1", vec![Some(EMPTY_POD_IPS); 2]),
            (true, "eth0", vec![Some(EMPTY_POD_IPS), None]),
            (true, "", vec![Some(EMPTY_POD_IPS), None]),
            (true, "0", vec![Some(EMPTY_POD_IPS), None]),
            (false, "net1", vec![None; 2]),
        ] {
            let set = |settings: &mut ReclaimSettings| settings.running_without_ips = on;
            on_stage_with(CLAIM, set, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.pod_is("ns/a", "Running", None);
                stage.sandbox("a", "ns/a", "a");
                stage.add("ns/a", "a", FIRST);
                stage.attach("a", "eth0", &["10.0.0.1"]);
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                stage.record_for(stage.agent, "p", "10.0.0.1", "a", nic);
                stage.unrecord(stage.agent, "p", "10.0.0.1");
                assert_eq!(stage.excuses(), excuses, "{nic}, set: {on}");
            });
        }
        with_pod(|stage| {
            stage.attach("a", "net1", &["10.0.0.2"]);
            stage.record_for(stage.agent, "p", "10.0.0.2", "a", "net2");
            stage.unrecord(stage.agent, "p", "10.0.0.2");
            assert_eq!(stage.excuses(), [None; 2], "no hazard took it");
        });
    }

    #[test]
    fn a_pod_that_is_gone_by_force_is_excused_when_its_grace_is_over_and_its_kubelet_is_out_of_reach() {
        for (seconds, excuse) in [(59, None), (61, Some(FORCE_DELETE))] {
            with_pod(|stage| {
                stage.pod_is_shown("ns/a");
                stage.process_changes(stage.kubelet, ProcessChange::Paused);
                stage.pod_gone("ns/a");
                stage.pass(Duration::from_secs(seconds));
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                assert_eq!(stage.excuses(), [excuse], "after {seconds} s");
            });
        }
    }

    #[test]
    fn a_sandbox_that_comes_up_after_its_forced_successor_took_the_record_is_excused_and_no_other_is() {
        for (static_pod, taken_by, excuse) in
            [(true, Some("later"), Some(FORCED_SUCCESSOR)), (true, Some("other"), None), (true, None, None), (false, Some("later"), None)]
        {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                for uid in ["a", "later"] {
                    if static_pod {
                        stage.static_pod("ns/a-0", uid)
                    } else {
                        stage.pod("ns/a-0", uid)
                    }
                    if uid == "a" {
                        stage.sandbox("a", "ns/a-0", "a");
                        stage.add("ns/a-0", "a", FIRST);
                        stage.pod_gone("ns/a-0");
                    }
                }
                stage.pod("ns/b", "other");
                match taken_by {
                    Some("other") => stage.record(stage.agent, "p", "10.0.0.1", "ns/b", "other"),
                    Some(uid) => stage.record(stage.agent, "p", "10.0.0.1", "ns/a-0", uid),
                    None => stage.unrecord(stage.agent, "p", "10.0.0.1"),
                }
                stage.attach("a", "eth0", &["10.0.0.1"]);
                assert_eq!(stage.excuses(), [excuse], "static: {static_pod}, taken by {taken_by:?}");
            });
        }
    }

    #[test]
    fn an_agent_may_take_what_a_forced_pod_had_for_its_successor_and_for_nobody_else() {
        for (static_pod, successor, seconds, excuse) in
            [(true, true, 34, Some(FORCED_SUCCESSOR)), (true, true, 36, None), (true, false, 1, None), (false, true, 1, None)]
        {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                let make = |stage: &mut Stage, uid: &str| {
                    if static_pod { stage.static_pod("ns/a-0", uid) } else { stage.pod("ns/a-0", uid) }
                };
                make(stage, "a");
                stage.sandbox("a", "ns/a-0", "a");
                stage.add("ns/a-0", "a", FIRST);
                stage.attach("a", "eth0", &["10.0.0.1"]);
                stage.pod_gone("ns/a-0");
                if successor {
                    make(stage, "later");
                }
                stage.pass(Duration::from_secs(seconds));
                stage.record(stage.agent, "p", "10.0.0.1", "ns/a-0", "later");
                assert_eq!(stage.excuses(), [excuse], "static: {static_pod}, successor: {successor}, after {seconds} s");
            });
        }
    }

    #[test]
    fn a_successor_that_was_deleted_by_force_during_its_add_takes_over_all_the_same_and_its_predecessor_does_not() {
        for (from, to, excuse) in [("a", "later", Some(FORCED_SUCCESSOR)), ("later", "a", None)] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                for uid in ["a", "later"] {
                    stage.static_pod("ns/a-0", uid);
                    if uid == from {
                        stage.sandbox(uid, "ns/a-0", uid);
                        stage.add("ns/a-0", uid, FIRST);
                        stage.attach(uid, "eth0", &["10.0.0.1"]);
                    }
                    stage.pod_gone("ns/a-0");
                }
                stage.record(stage.agent, "p", "10.0.0.1", "ns/a-0", to);
                assert_eq!(stage.excuses(), [excuse], "from {from} to {to}");
            });
        }
    }

    #[test]
    fn a_successor_that_was_deleted_by_force_during_its_add_may_release_what_its_predecessor_had() {
        for (successor, seconds, excuse) in [(true, 34, Some(FORCED_SUCCESSOR)), (true, 36, None), (false, 1, None)] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.static_pod("ns/a-0", "a");
                stage.sandbox("a", "ns/a-0", "a");
                stage.add("ns/a-0", "a", FIRST);
                stage.attach("a", "eth0", &["10.0.0.1"]);
                stage.pod_gone("ns/a-0");
                if successor {
                    stage.static_pod("ns/a-0", "later");
                    stage.pod_gone("ns/a-0");
                }
                stage.pass(Duration::from_secs(seconds));
                stage.unrecord(stage.agent, "p", "10.0.0.1");
                assert_eq!(stage.excuses(), [excuse], "successor: {successor}, after {seconds} s");
            });
        }
    }

    #[test]
    fn a_forced_successor_takes_over_also_what_was_recorded_for_another_nic() {
        for nic in ["eth0", "net1", "0"] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.static_pod("ns/a-0", "a-0");
                stage.sandbox("a", "ns/a-0", "a-0");
                stage.record_for(stage.agent, "p", "10.0.0.1", "a-0", nic);
                stage.attach("a", "eth0", &["10.0.0.1"]);
                stage.pod_gone("ns/a-0");
                stage.static_pod("ns/a-0", "later");
                stage.record(stage.agent, "p", "10.0.0.1", "ns/a-0", "later");
                assert_eq!(stage.excuses(), [Some(FORCED_SUCCESSOR)], "{nic}");
            });
        }
    }

    #[test]
    fn whoever_is_forced_when_its_grace_is_over_has_no_other_and_whoever_is_forced_before_has_the_rest() {
        // The pod has 8 s, and another 8 s.
        for (forced, seconds, excuse) in [(10, 1, None), (10, 7, Some(FORCE_DELETE)), (17, 1, Some(FORCE_DELETE))] {
            with_pod(|stage| {
                stage.pod_is_shown("ns/a");
                stage.process_changes(stage.kubelet, ProcessChange::Paused);
                stage.terminate_with("ns/a", 8);
                stage.pass(Duration::from_secs(forced));
                stage.terminate_with("ns/a", 0);
                stage.pod_gone("ns/a");
                stage.pass(Duration::from_secs(seconds));
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                assert_eq!(stage.excuses(), [excuse], "forced after {forced} s, and {seconds} s later");
            });
        }
    }

    #[test]
    fn a_kubelet_out_of_reach_excuses_once_the_grace_is_over_and_one_that_was_told_does_not() {
        for (paused, seconds, excuse) in [(true, 61, Some(UNREACHABLE_NODE)), (true, 59, None), (false, 61, None)] {
            with_pod(|stage| {
                stage.terminate_with("ns/a", 30);
                if paused {
                    stage.process_changes(stage.kubelet, ProcessChange::Paused);
                }
                stage.pass(Duration::from_secs(seconds));
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                assert_eq!(stage.excuses(), [excuse], "paused: {paused}, after {seconds} s");
            });
        }
    }

    #[test]
    fn a_kubelet_that_crashed_is_told_anew() {
        for (seconds, excuse) in [(34, Some(UNREACHABLE_NODE)), (36, None)] {
            with_pod(|stage| {
                stage.terminate_with("ns/a", 30);
                stage.process_changes(stage.kubelet, ProcessChange::Crashed);
                stage.pass(Duration::from_secs(61));
                stage.process_changes(stage.kubelet, ProcessChange::Started);
                stage.pass(Duration::from_secs(seconds));
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                assert_eq!(stage.excuses(), [excuse], "after {seconds} s");
            });
        }
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
    fn a_sandbox_of_which_a_del_failed_is_out_of_reach_although_that_of_another_nic_went_well() {
        for (again, excuse) in [(None, Some(UNREACHABLE_NODE)), (Some(true), Some(UNREACHABLE_NODE)), (Some(false), None)] {
            with_pod(|stage| {
                stage.terminate_with("ns/a", 30);
                // The DEL of eth0 is lost: it answers until the network namespace is gone.
                for (nic, failed) in [("net2", true), ("net1", false)].into_iter().chain(again.map(|failed| ("net2", failed))) {
                    stage.node(PodNote::DelAsked { sandbox: "a".into(), nic: nic.into(), netns: true });
                    stage.node(PodNote::DelDone { sandbox: "a".into(), nic: nic.into(), failed });
                }
                stage.pass(Duration::from_secs(61));
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                assert_eq!(stage.excuses(), [excuse], "net2 again: {again:?}");
            });
        }
    }

    #[test]
    fn a_repeated_del_of_a_sandbox_that_is_gone_excuses_no_other_one() {
        with_pod(|stage| {
            stage.sandbox("earlier", "ns/a", "a");
            stage.node(PodNote::SandboxGone { sandbox: "earlier".into() });
            stage.terminate_with("ns/a", 30);
            stage.node(PodNote::DelAsked { sandbox: "earlier".into(), nic: "eth0".into(), netns: false });
            stage.node(PodNote::DelDone { sandbox: "earlier".into(), nic: "eth0".into(), failed: true });
            stage.pass(Duration::from_secs(61));
            stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [None]);
        });
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

    #[test]
    fn a_replica_may_take_what_the_forced_successor_of_a_vms_pod_had_although_that_is_gone_too() {
        for (forced, seconds, excuse) in [(true, 34, Some(FORCED_SUCCESSOR)), (true, 36, None), (false, 1, None)] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                for uid in ["earlier", "later"] {
                    let pod = format!("ns/{uid}");
                    stage.vm_pod(&pod, uid, "vm");
                    stage.pod_is_shown(&pod);
                    if uid == "earlier" {
                        stage.sandbox(uid, &pod, uid);
                        stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", uid);
                        stage.attach(uid, "eth0", &["10.0.0.1"]);
                    }
                    if forced && uid == "earlier" {
                        stage.pod_gone(&pod);
                    }
                }
                stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "later");
                stage.pod_gone("ns/later");
                stage.pass(Duration::from_secs(seconds));
                stage.reclaim(stage.replicas[0], "ns/vm", "later", "p", "10.0.0.1");
                assert_eq!(stage.excuses(), [excuse], "forced: {forced}, after {seconds} s");
            });
        }
    }

    #[test]
    fn what_the_target_of_a_migration_that_failed_has_recorded_stays_while_its_source_answers() {
        for (source_answers, excuses) in [(true, vec![None]), (false, vec![])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                for uid in ["source", "target"] {
                    stage.vm_pod(&format!("ns/{uid}"), uid, "vm");
                    stage.sandbox(uid, &format!("ns/{uid}"), uid);
                    stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", uid);
                    stage.attach(uid, "eth0", &["10.0.0.1"]);
                }
                stage.node(PodNote::SandboxGone { sandbox: "target".into() });
                if !source_answers {
                    stage.node(PodNote::SandboxGone { sandbox: "source".into() });
                }
                stage.unrecord(stage.agent, "p", "10.0.0.1");
                assert_eq!((stage.excuses(), stage.exercised()), (excuses, true), "the source answers: {source_answers}");
            });
        }
    }
}
