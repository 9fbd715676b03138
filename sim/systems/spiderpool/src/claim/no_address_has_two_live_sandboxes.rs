//! A S1: no address has two live sandboxes.

use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::FxHashSet;
use kube_sim::node::PodNote;

use super::view::{EventMask, Place, Sandbox, Seen, View};
use super::{FORCED_SUCCESSOR, Findings, IpamClaim, WITHOUT_UID, violated};

/// No sandbox is attached with an address on which another live sandbox answers. A sandbox answers from its attachment until its interface
/// is to be taken down (its containers have stopped by then) or its network namespace is gone.
///
/// An address that was reclaimed from the older or the newer sandbox is excused by the documented hazard under which that happened:
/// `unreachable-node-release`, `force-delete-release`, `empty-pod-ips-release`, until the node must have ended that sandbox.
///
/// The source and the target of one VM's live migration may share an address, and so may two sandboxes of one pod, which are the business
/// of its node.
///
/// A successor that was forced on a pod of a StatefulSet or a VM (`forced-successor`) is entitled to the address and may give it back: when
/// it ends, or at once, if its pools have changed. A pod that gets the address next then meets the sandbox of the older pod by the same
/// hazard, which is excused until the node must have ended that sandbox. The same holds if the successor came as the target of a live
/// migration and the source was deleted by force while both answered.
///
/// Where a container runtime passes no UID, the sandbox of a gone pod may be answered with the addresses of the next pod of the name
/// (`runtime-without-uid`), until its node must have ended it.
///
/// Broken by `uid-from-cached-pod`, `reown-missing-record`, `del-adopts-current-uid`, `allocate-from-cached-pool`, `reown-ignores-owner`,
/// `adopt-stale-endpoint`, and of reclaim by `force-delete-frees-at-once`, `grace-counted-once` and `records-before-endpoint` with
/// `reown-missing-record`. It does not detect an address that is used outside the cluster.
#[derive(Default)]
pub(crate) struct NoAddressHasTwoLiveSandboxes {
    /// The sandboxes and addresses on which they have answered ever since their successor answered on the address or gave it back.
    outlived: FxHashSet<(Arc<str>, IpAddr)>,
}

impl NoAddressHasTwoLiveSandboxes {
    /// Forgets that a sandbox was outlived when it stops answering on a NIC, or on all: later answers are unrelated.
    fn forget(&mut self, view: &View, id: &str, nic: Option<&str>) {
        let Some(sandbox) = view.sandboxes.get(id).filter(|_| !self.outlived.is_empty()) else { return };
        for (_, _, addresses) in sandbox.nics.iter().filter(|(name, ..)| nic.is_none_or(|nic| **name == *nic)) {
            self.outlived.retain(|(known, address)| **known != *id || !addresses.contains(address));
        }
    }
}

impl IpamClaim for NoAddressHasTwoLiveSandboxes {
    fn event_mask(&self) -> EventMask {
        EventMask::POD.and(EventMask::POOL)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let (id, nic, addresses) = match seen {
            Seen::Pod(_, PodNote::Attached { sandbox, nic, addresses }) => (sandbox, nic, addresses),
            Seen::Pod(_, PodNote::DelAsked { sandbox, nic, .. } | PodNote::InterfaceDown { sandbox, nic }) => {
                return self.forget(view, sandbox, Some(nic));
            }
            Seen::Pod(_, PodNote::SandboxGone { sandbox }) => return self.forget(view, sandbox, None),
            Seen::Pool(change) => {
                for (address, before) in change.edits.iter().filter_map(|edit| edit.taken()) {
                    let answers = view.sandboxes.answering(address);
                    // A replica knows the grace period of the pod whose record it takes (G §6).
                    let forced = answers.filter(|(_, sandbox)| match *sandbox.uid == *before.pod_uid {
                        true => change.by_agent && view.is_succeeded(&sandbox.uid),
                        false => view.succeeds(&before.pod_uid, &sandbox.uid),
                    });
                    self.outlived.extend(forced.map(|(id, _)| (id.clone(), address)));
                }
                return;
            }
            _ => return,
        };
        let Some(sandbox) = view.sandboxes.get(id) else { return };
        findings.exercised();
        for address in addresses.iter() {
            let others = view.sandboxes.answering(*address).filter(|(other, _)| *other != id);
            for (older, other) in others.filter(|(_, other)| !may_share(view, sandbox, other)) {
                let detail = || {
                    let line = format!("{nic} of {} answers on {address}", view.pod_of(&sandbox.uid));
                    let since = other.nics.iter().find(|(.., addresses)| addresses.contains(address));
                    let since = since.map_or(String::new(), |(_, said, _)| format!(", attached {}", view.by(*said)));
                    let pools: Vec<_> = view.pools.holders(*address).map(|holder| holder.pool.clone()).collect();
                    let pool = pools.first().map_or("", |pool| pool);
                    vec![line, format!("so does {}{since}", view.pod_of(&other.uid)), view.story_of(pool, *address)]
                };
                let reclaimed = view.excuse_of(&other.uid, *address).or_else(|| view.excuse_of(&sandbox.uid, *address));
                let is_successor = other.pod == sandbox.pod && view.succeeds(&sandbox.uid, &other.uid);
                if is_successor {
                    self.outlived.insert((older.clone(), *address));
                }
                if self.outlived.contains(&(older.clone(), *address)) && view.may_outlive(&other.uid) {
                    findings.violated_with(FORCED_SUCCESSOR, detail);
                } else if let Some(excuse) = reclaimed {
                    findings.violated_with(excuse, detail);
                } else if [sandbox, other].into_iter().any(|one| passes_for_another(view, one, *address)) {
                    findings.violated_with(WITHOUT_UID, detail);
                } else {
                    violated(findings, view.changes.touched(*address), detail);
                }
            }
        }
    }
}

/// Whether the address on which a sandbox answers may be that of another pod, because nothing distinguished the two.
fn passes_for_another(view: &View, sandbox: &Sandbox, address: IpAddr) -> bool {
    let answered = sandbox.nics.iter().find(|(.., addresses)| addresses.contains(&address)).map_or(view.at, |(_, said, _)| said.at);
    view.may_pass_for_another(sandbox, answered)
}

fn may_share(view: &View, one: &Sandbox, other: &Sandbox) -> bool {
    let vm =
        |sandbox: &Sandbox| view.pods.get(&sandbox.uid).and_then(|pod| pod.place.clone()).filter(|place| matches!(place, Place::Vm(_)));
    one.uid == other.uid || vm(one).is_some_and(|place| vm(other) == Some(place))
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::reclaim::ReclaimSettings;

    use super::super::testing::{Stage, on_stage, on_stage_under, on_stage_with};
    use super::super::view::{EMPTY_POD_IPS, FORCE_DELETE, UNREACHABLE_NODE};
    use super::super::{BY_HAND, FORCED_SUCCESSOR, WITHOUT_UID};
    use kube_sim::node::PodNote;
    use kube_sim::trace::ProcessChange;
    use std::time::Duration;

    const CLAIM: &str = "no-address-has-two-live-sandboxes";

    #[test]
    fn two_live_sandboxes_on_an_address_are_a_violation_and_one_after_the_other_is_not() {
        on_stage(CLAIM, |stage| {
            for (pod, uid) in [("ns/a", "a"), ("ns/b", "b"), ("ns/c", "c")] {
                stage.pod(pod, uid);
                stage.sandbox(uid, pod, uid);
            }
            stage.attach("a", "eth0", &["10.0.0.1"]);
            stage.node(PodNote::DelAsked { sandbox: "a".into(), nic: "eth0".into(), netns: true });
            stage.attach("b", "eth0", &["10.0.0.1"]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.attach("c", "eth0", &["10.0.0.1"]);
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[1].starts_with("so does ns/b (uid b, alive, on node-0), attached by kubelet-0"), "{:?}", stage.detail());
            for gone in ["b", "c"] {
                stage.node(PodNote::SandboxGone { sandbox: gone.into() });
            }
            stage.attach("a", "eth0", &["10.0.0.1"]);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    /// Makes a pod answer whose object is gone.
    fn outlives_its_object(stage: &mut Stage) {
        stage.static_pod("ns/web-0", "old");
        stage.sandbox("old", "ns/web-0", "old");
        stage.attach("old", "eth0", &["10.0.0.1"]);
        stage.pod_gone("ns/web-0");
    }

    /// Makes a pod answer on the same address.
    fn answers(stage: &mut Stage, pod: &str, uid: &str) {
        if pod == "ns/web-0" {
            stage.static_pod(pod, uid)
        } else {
            stage.pod(pod, uid)
        }
        stage.sandbox(uid, pod, uid);
        stage.attach(uid, "eth0", &["10.0.0.1"]);
    }

    #[test]
    fn a_successor_of_a_pod_whose_object_is_gone_is_excused_and_one_of_another_name_is_not() {
        on_stage(CLAIM, |stage| {
            outlives_its_object(stage);
            answers(stage, "ns/b", "b");
            assert_eq!(stage.excuses(), [None]);
        });
        on_stage(CLAIM, |stage| {
            outlives_its_object(stage);
            answers(stage, "ns/web-0", "new");
            assert_eq!(stage.excuses(), [Some(FORCED_SUCCESSOR)]);
        });
        // A bare pod leaves nothing to the next pod of its name.
        on_stage(CLAIM, |stage| {
            for uid in ["old", "new"] {
                answers(stage, "ns/a", uid);
                stage.pod_gone("ns/a");
            }
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_successor_that_is_gone_itself_by_then_is_excused_and_a_predecessor_that_comes_after_it_is_not() {
        for (first, second, excuse) in [("old", "new", Some(FORCED_SUCCESSOR)), ("new", "old", None)] {
            on_stage(CLAIM, |stage| {
                for uid in ["old", "new"] {
                    stage.static_pod("ns/web-0", uid);
                    stage.sandbox(uid, "ns/web-0", uid);
                    stage.pod_gone("ns/web-0");
                }
                for uid in [first, second] {
                    stage.attach(uid, "eth0", &["10.0.0.1"]);
                }
                assert_eq!(stage.excuses(), [excuse], "{second} after {first}");
            });
        }
    }

    #[test]
    fn a_successor_is_excused_until_its_predecessor_must_be_gone() {
        for (seconds, excuse) in [(34, Some(FORCED_SUCCESSOR)), (36, None)] {
            on_stage(CLAIM, |stage| {
                outlives_its_object(stage);
                stage.pass(Duration::from_secs(seconds));
                answers(stage, "ns/web-0", "new");
                assert_eq!(stage.excuses(), [excuse], "after {seconds} s");
            });
        }
        // A paused kubelet gets the time of its pause, and the grace period once more.
        for (seconds, excuse) in [(34, Some(FORCED_SUCCESSOR)), (36, None)] {
            on_stage(CLAIM, |stage| {
                outlives_its_object(stage);
                stage.process_changes(stage.kubelet, ProcessChange::Paused);
                stage.pass(Duration::from_secs(600));
                answers(stage, "ns/web-0", "new");
                assert_eq!(stage.excuses(), [Some(FORCED_SUCCESSOR)]);
                stage.process_changes(stage.kubelet, ProcessChange::Resumed);
                stage.node(PodNote::SandboxGone { sandbox: "new".into() });
                stage.pass(Duration::from_secs(seconds));
                answers(stage, "ns/b", "b");
                assert_eq!(stage.excuses(), [Some(FORCED_SUCCESSOR), excuse], "after {seconds} s");
            });
        }
    }

    #[test]
    fn whoever_has_the_address_after_a_forced_successor_is_excused_while_the_same_sandbox_outlives_it() {
        on_stage(CLAIM, |stage| {
            outlives_its_object(stage);
            answers(stage, "ns/web-0", "new");
            stage.node(PodNote::SandboxGone { sandbox: "new".into() });
            answers(stage, "ns/b", "b");
            assert_eq!(stage.excuses(), [Some(FORCED_SUCCESSOR); 2]);
            // The pod that has the address now is not a forced successor.
            answers(stage, "ns/c", "c");
            assert_eq!(stage.excuses().iter().filter(|excuse| excuse.is_none()).count(), 1, "{:?}", stage.detail());
        });
        on_stage(CLAIM, |stage| {
            outlives_its_object(stage);
            answers(stage, "ns/web-0", "new");
            stage.node(PodNote::SandboxGone { sandbox: "new".into() });
            stage.node(PodNote::SandboxGone { sandbox: "old".into() });
            answers(stage, "ns/b", "b");
            assert_eq!(stage.excuses(), [Some(FORCED_SUCCESSOR)], "there is no conflict any more");
            stage.attach("old", "eth0", &["10.0.0.1"]);
            stage.node(PodNote::SandboxGone { sandbox: "b".into() });
            answers(stage, "ns/c", "c");
            assert_eq!(stage.excuses(), [Some(FORCED_SUCCESSOR), None, None], "what began after it had gone is another matter");
        });
    }

    #[test]
    fn what_an_agent_gives_back_for_a_forced_successor_is_excused_and_what_a_replica_takes_is_not() {
        for (successor, by_agent, seconds, excuse) in
            [(true, true, 34, Some(FORCED_SUCCESSOR)), (true, true, 36, None), (false, true, 1, None), (true, false, 1, None)]
        {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.static_pod("ns/web-0", "old");
                stage.pod_is_shown("ns/web-0");
                stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "old");
                stage.sandbox("old", "ns/web-0", "old");
                stage.attach("old", "eth0", &["10.0.0.1"]);
                stage.pod_gone("ns/web-0");
                if successor {
                    stage.static_pod("ns/web-0", "new");
                }
                let by = if by_agent { stage.agent } else { stage.replicas[0] };
                stage.unrecord(by, "p", "10.0.0.1");
                stage.pass(Duration::from_secs(seconds));
                answers(stage, "ns/b", "b");
                assert_eq!(stage.excuses(), [excuse], "successor: {successor}, by an agent: {by_agent}, after {seconds} s");
            });
        }
    }

    #[test]
    fn what_the_target_of_a_migration_leaves_is_excused_where_the_source_was_deleted_by_force() {
        for (forced, by_agent, seconds, excuse) in [
            (true, true, 34, Some(FORCED_SUCCESSOR)),
            (true, false, 34, Some(FORCED_SUCCESSOR)),
            (true, true, 36, None),
            (true, false, 36, None),
            (false, true, 1, None),
            (false, false, 1, None),
        ] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                for (pod, uid) in [("ns/virt-1", "source"), ("ns/virt-2", "target")] {
                    stage.vm_pod(pod, uid, "vm");
                    stage.pod_is_shown(pod);
                    stage.sandbox(uid, pod, uid);
                    stage.attach(uid, "eth0", &["10.0.0.1"]);
                }
                stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "target");
                if forced {
                    stage.pod_gone("ns/virt-1");
                }
                stage.node(PodNote::DelAsked { sandbox: "target".into(), nic: "eth0".into(), netns: true });
                let by = if by_agent { stage.agent } else { stage.replicas[0] };
                stage.unrecord(by, "p", "10.0.0.1");
                stage.pass(Duration::from_secs(seconds));
                answers(stage, "ns/b", "b");
                assert_eq!(stage.excuses(), [excuse], "forced: {forced}, by an agent: {by_agent}, after {seconds} s");
            });
        }
    }

    #[test]
    fn a_live_migration_and_a_second_sandbox_of_a_pod_may_share() {
        on_stage(CLAIM, |stage| {
            for (pod, uid) in [("ns/virt-1", "source"), ("ns/virt-2", "target")] {
                stage.vm_pod(pod, uid, "vm");
                stage.sandbox(uid, pod, uid);
                stage.attach(uid, "eth0", &["10.0.0.1"]);
            }
            stage.sandbox("again", "ns/virt-2", "target");
            stage.attach("again", "eth0", &["10.0.0.1"]);
            assert_eq!(stage.excuses(), []);
            stage.vm_pod("ns/virt-3", "other", "other-vm");
            stage.sandbox("other", "ns/virt-3", "other");
            stage.attach("other", "eth0", &["10.0.0.1"]);
            assert_eq!(stage.excuses(), [None; 3]);
        });
    }

    /// Makes a pod answer on an address, applies `end` to it, makes a replica reclaim the address, and another pod answer on it.
    fn given_on(set: impl FnOnce(&mut ReclaimSettings), end: impl FnOnce(&mut Stage)) -> Vec<Option<&'static str>> {
        let mut excuses = Vec::new();
        on_stage_with(CLAIM, set, |stage| {
            stage.pool("p", &["10.0.0.1"]);
            stage.node_is_shown("node-0", true);
            for (pod, uid) in [("ns/a", "a"), ("ns/b", "b")] {
                stage.pod(pod, uid);
                stage.sandbox(uid, pod, uid);
            }
            stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1")]);
            stage.attach("a", "eth0", &["10.0.0.1"]);
            end(stage);
            stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
            stage.attach("b", "eth0", &["10.0.0.1"]);
            excuses = stage.excuses();
        });
        excuses
    }

    fn pass(stage: &mut Stage, seconds: u64) {
        stage.pass(Duration::from_secs(seconds));
    }

    /// Pauses the kubelet, so that nothing ends a sandbox.
    fn freeze(stage: &mut Stage) {
        stage.process_changes(stage.kubelet, ProcessChange::Paused);
    }

    #[test]
    fn a_forced_deletion_excuses_nothing_before_the_grace_it_skipped() {
        let forced = |freezes: bool, seconds: u64| {
            move |stage: &mut Stage| {
                stage.pod_is_shown("ns/a");
                if freezes {
                    freeze(stage);
                }
                stage.pod_gone("ns/a");
                pass(stage, seconds);
            }
        };
        assert_eq!(given_on(|_| (), forced(true, 59)), [None], "twice the grace of the spec is not over");
        assert_eq!(given_on(|_| (), forced(true, 61)), [Some(FORCE_DELETE)]);
        assert_eq!(given_on(|_| (), forced(false, 61)), [None], "its kubelet has ended it long ago");
        // An earlier request to delete the pod has set the time of its end.
        let asked = |seconds: u64| {
            move |stage: &mut Stage| {
                stage.pod_is_shown("ns/a");
                freeze(stage);
                stage.terminate_with("ns/a", 5);
                stage.pod_gone("ns/a");
                pass(stage, seconds);
            }
        };
        assert_eq!(given_on(|_| (), asked(9)), [None]);
        assert_eq!(given_on(|_| (), asked(11)), [Some(FORCE_DELETE)]);
    }

    #[test]
    fn a_replica_that_never_saw_the_pod_knows_of_no_grace_that_it_skipped() {
        assert_eq!(given_on(|_| (), |stage| stage.pod_gone("ns/a")), [Some(FORCE_DELETE)]);
        let restarted = |stage: &mut Stage| {
            stage.pod_is_shown("ns/a");
            stage.pod_gone("ns/a");
            for change in [ProcessChange::Crashed, ProcessChange::Started] {
                stage.process_changes(stage.replicas[0], change);
            }
        };
        assert_eq!(given_on(|_| (), restarted), [Some(FORCE_DELETE)]);
    }

    #[test]
    fn a_node_that_is_cut_off_excuses_nothing_before_the_bound_or_after_it_must_have_ended_the_sandbox() {
        let terminating = |freezes: bool, ready: bool, seconds: u64| {
            move |stage: &mut Stage| {
                if freezes {
                    freeze(stage);
                }
                stage.terminate_with("ns/a", 30);
                stage.node_is_shown("node-0", ready);
                pass(stage, seconds);
            }
        };
        assert_eq!(given_on(|_| (), terminating(true, false, 61)), [Some(UNREACHABLE_NODE)]);
        assert_eq!(given_on(|_| (), terminating(true, true, 61)), [Some(UNREACHABLE_NODE)]);
        assert_eq!(given_on(|_| (), terminating(true, false, 59)), [None], "its grace is not over");
        assert_eq!(given_on(|_| (), terminating(false, true, 61)), [None], "its node is well");
        assert_eq!(given_on(|_| (), terminating(false, false, 61)), [None], "its kubelet was told in time, and runs");
        let thawed = |seconds: u64| {
            move |stage: &mut Stage| {
                terminating(true, false, 61)(stage);
                stage.process_changes(stage.kubelet, ProcessChange::Resumed);
                pass(stage, seconds);
            }
        };
        assert_eq!(given_on(|_| (), thawed(34)), [Some(UNREACHABLE_NODE)]);
        assert_eq!(given_on(|_| (), thawed(36)), [None], "it has had its grace once more");
    }

    #[test]
    fn a_node_that_came_back_has_the_grace_twice_before_it_excuses() {
        let returned = |seconds: u64| {
            move |stage: &mut Stage| {
                stage.node_is_shown("node-0", false);
                freeze(stage);
                stage.terminate_with("ns/a", 30);
                pass(stage, 300);
                stage.node_returns("node-0");
                pass(stage, seconds);
            }
        };
        assert_eq!(given_on(|_| (), returned(59)), [None]);
        assert_eq!(given_on(|_| (), returned(61)), [Some(UNREACHABLE_NODE)]);
    }

    #[test]
    fn a_pod_that_runs_without_addresses_is_excused_where_a_setting_wants_it() {
        let without_ips = |stage: &mut Stage| stage.pod_is("ns/a", "Running", None);
        let with_ips = |stage: &mut Stage| stage.pod_is("ns/a", "Running", Some("10.0.0.1"));
        assert_eq!(given_on(|settings| settings.running_without_ips = true, without_ips), [Some(EMPTY_POD_IPS)]);
        assert_eq!(given_on(|settings| settings.running_without_ips = true, with_ips), [None]);
        assert_eq!(given_on(|_| (), without_ips), [None]);
    }

    #[test]
    fn a_sandbox_that_no_uid_tells_from_the_next_pod_of_the_name_is_excused_if_that_was_there_when_it_was_answered() {
        for (told, answered_late, namesake, seconds, excuse) in [
            (false, true, "ns/a", 0, Some(WITHOUT_UID)),
            (false, true, "ns/a", 40, None),
            (true, true, "ns/a", 0, None),
            (false, false, "ns/a", 0, None),
            (false, true, "ns/b", 0, None),
        ] {
            let without_uid = |terms: &mut super::super::view::Terms| terms.without_uid.extend((!told).then(|| "node-0".to_owned()));
            on_stage_under(CLAIM, without_uid, |stage| {
                stage.pod("ns/a", "old");
                stage.sandbox("old", "ns/a", "old");
                let answer = |stage: &mut Stage| stage.attach("old", "eth0", &["10.0.0.1"]);
                if !answered_late {
                    answer(stage);
                }
                stage.pod_gone("ns/a");
                if answered_late {
                    answer(stage);
                }
                stage.pod(namesake, "new");
                stage.sandbox("new", namesake, "new");
                stage.pass(Duration::from_secs(seconds));
                stage.attach("new", "eth0", &["10.0.0.1"]);
                assert_eq!(stage.excuses(), [excuse], "told: {told}, late: {answered_late}, {namesake}, after {seconds} s");
            });
        }
    }

    #[test]
    fn a_record_removed_by_hand_excuses_until_the_address_is_recorded_anew_for_somebody() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1"]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.unrecord(stage.person, "p", "10.0.0.1");
            for (pod, uid) in [("ns/a", "a"), ("ns/b", "b")] {
                stage.pod(pod, uid);
                stage.sandbox(uid, pod, uid);
            }
            stage.attach("a", "eth0", &["10.0.0.1"]);
            // Another sandbox still answers on it.
            stage.record(stage.agent, "p", "10.0.0.1", "ns/b", "b");
            stage.attach("b", "eth0", &["10.0.0.1"]);
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
            for gone in ["a", "b"] {
                stage.node(PodNote::SandboxGone { sandbox: gone.into() });
            }
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/c", "c");
            for (pod, uid) in [("ns/c", "c"), ("ns/d", "d")] {
                stage.pod(pod, uid);
                stage.sandbox(uid, pod, uid);
                stage.attach(uid, "eth0", &["10.0.0.1"]);
            }
            assert_eq!(stage.excuses(), [Some(BY_HAND), None]);
        });
    }
}
