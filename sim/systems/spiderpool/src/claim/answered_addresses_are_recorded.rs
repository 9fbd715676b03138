//! A S3: answered addresses are recorded.

use super::view::{EventMask, Seen, View};
use super::{Answered, BY_HAND, Findings, IpamClaim, WITHOUT_UID};

/// Each address of an answer is recorded in the pool that the answer names, under the name of the pod (or of its VM) and the UID of the
/// request, or of another pod of its VM or the next pod of its place that has taken the record over meanwhile, unless it is being taken
/// back at the same time. Addresses that reclaim took under one of its documented hazards are excused by it, and so are those recorded for
/// the next pod of the name where the container runtime passes no UID (`runtime-without-uid`).
///
/// Broken by `reown-missing-record`, `failure-cache-unchecked`, `reown-foreign-endpoint` and `unrecorded-answer`. It does not detect later
/// changes of the record: these are the business of `records-leave-only-for-their-own-uid`.
pub(crate) struct AnsweredAddressesAreRecorded;

impl IpamClaim for AnsweredAddressesAreRecorded {
    fn event_mask(&self) -> EventMask {
        EventMask::ANSWER
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Some(answer) = Answered::of(seen) else { return };
        for given in answer.given {
            findings.exercised();
            let holder = view.pools.holder(&given.pool, given.address);
            let fits = holder.is_some_and(|holder| {
                let uid = &*holder.record.pod_uid;
                let handed_on = || holder.since.is_some_and(|since| answer.was_handed_on(view, uid, since.moment));
                let fits_uid = answer.uid.is_empty() || *uid == **answer.uid || handed_on();
                fits_uid && answer.is_name(view, &holder.record.pod)
            });
            if !fits && !answer.is_taken_back(view, &given.pool, given.address) {
                let by_hand = view.changes.touched(given.address).then_some(BY_HAND);
                let sandbox = view.sandboxes.get(answer.container);
                let of_name = holder.and_then(|holder| view.pods.get(&holder.record.pod_uid)).is_some_and(|pod| pod.key == *answer.pod);
                let passes = of_name && sandbox.is_some_and(|sandbox| view.may_pass_for_another(sandbox, view.at));
                let excuse = view.excuse_of(answer.uid, given.address).or(passes.then_some(WITHOUT_UID)).or(by_hand);
                let detail = || {
                    vec![
                        format!(
                            "{} answers {} of {} with {} of pool {}, which is not recorded for it",
                            view.name(answer.by),
                            given.nic,
                            view.pod_of(answer.uid),
                            given.address,
                            given.pool
                        ),
                        view.story_of(&given.pool, given.address),
                    ]
                };
                match excuse {
                    Some(excuse) => findings.violated_with(excuse, detail),
                    None => findings.violated(detail),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{on_stage, on_stage_under};
    use super::super::{BY_HAND, WITHOUT_UID};
    use crate::workload::Cause;

    const CLAIM: &str = "answered-addresses-are-recorded";
    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    #[test]
    fn an_answer_needs_a_record_of_its_name_and_uid_in_its_pool() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", FIRST);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.ask("ns/a", "a", "net1");
            stage.answer("ns/a", "a", "net1", &[("net1", "p", "10.0.0.2")]);
            assert_eq!(stage.excuses(), [None]);
            stage.answer("ns/b", "b", "eth0", FIRST);
            stage.record(stage.agent, "p", "10.0.0.3", "ns/other", "a");
            stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.3")]);
            assert_eq!(stage.excuses(), [None; 3]);
        });
    }

    #[test]
    fn the_record_of_a_vm_bears_the_name_of_its_instance() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.vm_pod("ns/virt-1", "a", "vm");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "a");
            stage.answer("ns/virt-1", "a", "eth0", FIRST);
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn the_other_pod_of_a_migration_may_come_by_a_record_while_a_request_is_under_way_and_not_before() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.vm_pod("ns/virt-1", "source", "vm");
            stage.vm_pod("ns/virt-2", "target", "vm");
            stage.ask("ns/virt-1", "source", "eth0");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "target");
            stage.answer("ns/virt-1", "source", "eth0", FIRST);
            assert_eq!(stage.excuses(), []);
            stage.ask("ns/virt-1", "source", "eth0");
            stage.answer("ns/virt-1", "source", "eth0", FIRST);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn the_next_pod_of_a_place_may_come_by_a_record_while_a_request_of_one_that_is_gone_is_under_way() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.static_pod("ns/db-0", "a");
            stage.add("ns/db-0", "a", FIRST);
            stage.ask("ns/db-0", "a", "net1");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/db-0", "b");
            stage.answer("ns/db-0", "a", "net1", FIRST);
            assert_eq!(stage.excuses(), [None], "it is there still");
            stage.pod_gone("ns/db-0");
            stage.static_pod("ns/db-0", "b");
            stage.answer("ns/db-0", "a", "net1", FIRST);
            assert_eq!(stage.excuses(), [None]);
            stage.ask("ns/db-0", "a", "net1");
            stage.answer("ns/db-0", "a", "net1", FIRST);
            assert_eq!(stage.excuses(), [None, None], "it was the next pod's when the request came");
        });
    }

    #[test]
    fn what_is_recorded_for_the_next_pod_of_the_name_is_excused_where_no_uid_tells_it_from_one_that_is_gone() {
        for (gone, namesake, excuse) in [(true, "ns/a", Some(WITHOUT_UID)), (false, "ns/a", None), (true, "ns/b", None)] {
            on_stage_under(
                CLAIM,
                |terms| terms.without_uid.extend(["node-0".to_owned()]),
                |stage| {
                    stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                    stage.pod("ns/a", "old");
                    stage.sandbox("old", "ns/a", "old");
                    stage.ask("ns/a", "old", "eth0");
                    if gone {
                        stage.pod_gone("ns/a");
                    }
                    stage.pod(namesake, "new");
                    stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "new");
                    stage.answer("ns/a", "old", "eth0", FIRST);
                    assert_eq!(stage.excuses(), [excuse], "gone: {gone}, {namesake}");
                },
            );
        }
    }

    #[test]
    fn what_is_taken_back_from_the_next_pod_of_the_name_need_not_be_there_where_no_uid_tells_the_two_apart() {
        for (node, excuses) in [("node-0", vec![]), ("node-1", vec![None])] {
            on_stage_under(
                CLAIM,
                |terms| terms.without_uid.extend([node.to_owned()]),
                |stage| {
                    stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                    stage.pod("ns/a", "old");
                    stage.pod_gone("ns/a");
                    stage.pod("ns/a", "new");
                    stage.ask("ns/a", "old", "eth0");
                    stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "new");
                    stage.release("ns/a", "new", Cause::Del, &[("p", "10.0.0.1")]);
                    stage.unrecord(stage.agent, "p", "10.0.0.1");
                    stage.answer("ns/a", "old", "eth0", FIRST);
                    assert_eq!(stage.excuses(), excuses, "{node} passes no UID");
                },
            );
        }
    }

    #[test]
    fn what_is_being_taken_back_need_not_be_there_and_what_was_taken_before_must() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", FIRST);
            stage.ask("ns/a", "a", "eth0");
            stage.terminate("ns/a");
            stage.release("ns/a", "a", Cause::Del, &[("p", "10.0.0.1")]);
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            stage.released("ns/a", "a", Cause::Del, true);
            stage.answer("ns/a", "a", "eth0", FIRST);
            assert_eq!(stage.excuses(), []);
            stage.ask("ns/a", "a", "eth0");
            stage.answer("ns/a", "a", "eth0", FIRST);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_record_removed_by_hand_excuses() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.add("ns/a", "a", FIRST);
            stage.unrecord(stage.person, "p", "10.0.0.1");
            stage.answer("ns/a", "a", "eth0", FIRST);
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }
}
