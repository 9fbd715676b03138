//! A S4: sandbox, record and endpoint agree.

use ipam_spiderpool::SpiderEndpoint;

use super::view::{EventMask, Pod, Seen, View, addresses_of, uid_of};
use super::{Answered, BY_HAND, EMPTY_POD_IPS, Findings, IpamClaim};
use crate::workload::Given;

/// An answer has the UID of its sandbox. While its pod is alive, its endpoint exists, is not being deleted, has the same UID and names the
/// same address of the same pool for the NIC, and the record has the UID as well. An endpoint that another client deletes during the
/// request may be being deleted. A NIC without a name matches any entry of the endpoint, and an entry without a name matches any NIC.
///
/// Addresses that are being taken back at the same time are not judged, and are excused where a setting permits a scan to take them (G
/// EX3). If another pod of the VM has taken over meanwhile, only the addresses are judged. Broken by `uid-from-cached-pod`,
/// `endpoint-delete-by-name`, `mark-before-uid-check`, `answer-not-as-stored` and `terminating-endpoint-reused`. It does not detect NICs
/// that are not in the answer.
pub(crate) struct AnswerEndpointAndRecordAgree;

impl IpamClaim for AnswerEndpointAndRecordAgree {
    fn event_mask(&self) -> EventMask {
        EventMask::ANSWER
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Some(answer) = Answered::of(seen) else { return };
        findings.exercised();
        if let Some(sandbox) = view.sandboxes.get(answer.container)
            && !answer.uid.is_empty()
            && sandbox.uid != *answer.uid
        {
            findings.violated(|| {
                vec![
                    format!("{} answers {} of {}", view.name(answer.by), answer.nic, view.pod_of(answer.uid)),
                    format!("the sandbox is of {}", view.pod_of(&sandbox.uid)),
                ]
            });
        }
        let Some(pod) = view.pods.get(answer.uid).filter(|pod| pod.is_alive()) else { return };
        for given in answer.given {
            let Some(wrong) = wrong(view, &answer, pod, given) else { continue };
            let touched = view.endpoint_of(pod).is_some_and(|(_, touched)| touched);
            let by_hand = touched || view.changes.touched(given.address) || view.changes.touched_endpoint(answer.pod);
            if answer.is_taken_back(view, &given.pool, given.address) {
                continue;
            }
            let by_setting = || view.is_being_taken_by_setting(answer.uid, &given.pool, given.address, answer.began(view));
            let excuse = if by_hand { Some(BY_HAND) } else { by_setting().then_some(EMPTY_POD_IPS) };
            let detail = || {
                let (by, whose) = (view.name(answer.by), view.pod_of(answer.uid));
                vec![
                    format!("{by} answers {} of {whose} with {} of pool {}", given.nic, given.address, given.pool),
                    wrong,
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

/// The disagreement, if there is one.
fn wrong(view: &View, answer: &Answered<'_>, pod: &Pod, given: &Given) -> Option<String> {
    let uid = answer.uid;
    if let Some(holder) = view.pools.holder(&given.pool, given.address)
        && *holder.record.pod_uid != **uid
        && !holder.since.is_some_and(|since| answer.was_handed_on(view, &holder.record.pod_uid, since.moment))
    {
        return Some(format!("it is recorded for {}", view.pod_of(&holder.record.pod_uid)));
    }
    let Some((endpoint, _)) = view.endpoint_of(pod) else { return Some("there is no endpoint".to_owned()) };
    if uid_of(endpoint) != &**uid && !answer.was_handed_on(view, uid_of(endpoint), view.endpoints.of_pod_since(endpoint)) {
        return Some(format!("the endpoint is that of {}", view.pod_of(uid_of(endpoint))));
    }
    if endpoint.metadata.deletion_timestamp.is_some() && !is_marked_by_another_client(view, answer, endpoint) {
        return Some("the endpoint is being deleted".to_owned());
    }
    let nameless = |nic: &str| nic.is_empty() || nic.bytes().all(|byte| byte.is_ascii_digit());
    let is_nic = |interface: &str| *interface == *given.nic || interface.is_empty() || nameless(&given.nic);
    let mut entries = addresses_of(endpoint);
    let found = entries.any(|(entry, pool, address)| is_nic(&entry.interface) && *pool == *given.pool && address == given.address);
    (!found).then(|| {
        let entries = addresses_of(endpoint).map(|(entry, pool, address)| format!("{} {address} ({pool})", entry.interface));
        format!("the endpoint has {}", entries.collect::<Vec<_>>().join(", "))
    })
}

/// Whether a client that is neither an agent nor a replica marked an endpoint for deletion during the request: the agent could not know,
/// and the pod's next request replaces the endpoint.
fn is_marked_by_another_client(view: &View, answer: &Answered<'_>, endpoint: &SpiderEndpoint) -> bool {
    let is_other = |by| !view.agents.is_agent(by) && !view.replicas.is_one(by);
    view.endpoints.marked(endpoint).is_some_and(|marked| marked.moment >= answer.began(view) && is_other(marked.by))
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderEndpoint;
    use kube_machinery::ObjectKey;
    use serde_json::json;

    use ipam_spiderpool::reclaim::ReclaimSettings;

    use super::super::testing::{Stage, on_stage, on_stage_with};
    use super::super::{BY_HAND, EMPTY_POD_IPS};

    const CLAIM: &str = "answer-endpoint-and-record-agree";
    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    fn with_pod(test: impl FnOnce(&mut Stage)) {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.sandbox("a", "ns/a", "a");
            test(stage);
        });
    }

    #[test]
    fn an_answer_that_its_record_and_endpoint_have_agrees() {
        with_pod(|stage| {
            stage.add("ns/a", "a", FIRST);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn another_uid_in_the_record_or_the_endpoint_does_not_agree() {
        with_pod(|stage| {
            stage.add("ns/a", "a", FIRST);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "old");
            stage.answer("ns/a", "a", "eth0", FIRST);
            assert!(stage.detail()[1].starts_with("it is recorded for"), "{:?}", stage.detail());
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.endpoint(stage.agent, "ns/a", "old", FIRST);
            stage.answer("ns/a", "a", "eth0", FIRST);
            assert!(stage.detail()[1].starts_with("the endpoint is that of"), "{:?}", stage.detail());
            assert_eq!(stage.excuses(), [None, None]);
        });
    }

    #[test]
    fn an_endpoint_that_is_gone_going_or_other_does_not_agree() {
        with_pod(|stage| {
            stage.add("ns/a", "a", FIRST);
            stage.change::<SpiderEndpoint>(stage.agent, &ObjectKey::namespaced("ns", "a"), |endpoint| {
                endpoint.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-05T09:00:00Z")).unwrap();
            });
            stage.answer("ns/a", "a", "eth0", FIRST);
            assert_eq!(stage.detail()[1], "the endpoint is being deleted");
            stage.endpoint_gone(stage.agent, "ns/a");
            stage.answer("ns/a", "a", "eth0", FIRST);
            assert_eq!(stage.detail()[1], "there is no endpoint");
            stage.endpoint(stage.agent, "ns/a", "a", &[("eth0", "p", "10.0.0.2")]);
            stage.answer("ns/a", "a", "eth0", FIRST);
            assert_eq!(stage.detail()[1], "the endpoint has eth0 10.0.0.2 (p)");
            assert_eq!(stage.excuses(), [None; 3]);
        });
    }

    #[test]
    fn an_endpoint_that_another_client_deletes_during_the_request_is_no_fault_of_the_agent() {
        for (by_person, marked_first, excuses) in [(true, false, vec![]), (true, true, vec![None]), (false, false, vec![None])] {
            with_pod(|stage| {
                stage.add("ns/a", "a", FIRST);
                let by = if by_person { stage.person } else { stage.agent };
                if marked_first {
                    stage.mark(by, "ns/a");
                }
                stage.ask("ns/a", "a", "eth0");
                if !marked_first {
                    stage.mark(by, "ns/a");
                }
                stage.answer("ns/a", "a", "eth0", FIRST);
                assert_eq!(stage.excuses(), excuses, "by a person: {by_person}, marked first: {marked_first}");
            });
        }
    }

    #[test]
    fn what_a_setting_lets_a_scan_take_while_it_is_answered_is_excused_and_what_was_marked_before_is_not() {
        for (on, marked_first, goes_on, excuse) in [
            (true, false, false, Some(EMPTY_POD_IPS)),
            (true, false, true, Some(EMPTY_POD_IPS)),
            (true, true, false, None),
            (false, false, false, None),
            (false, false, true, None),
        ] {
            let set = |settings: &mut ReclaimSettings| settings.running_without_ips = on;
            on_stage_with(CLAIM, set, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.sandbox("a", "ns/a", "a");
                stage.add("ns/a", "a", FIRST);
                stage.pod_is("ns/a", "Running", None);
                let replica = stage.replicas[0];
                stage.announce(replica, "ns/a", "a", &[("p", "10.0.0.1")]);
                if marked_first {
                    stage.mark(replica, "ns/a");
                }
                stage.ask("ns/a", "a", "net1");
                if !marked_first {
                    stage.mark(replica, "ns/a");
                }
                if goes_on {
                    stage.unrecord(replica, "p", "10.0.0.1");
                    stage.endpoint_gone(replica, "ns/a");
                }
                stage.answer("ns/a", "a", "net1", FIRST);
                assert_eq!(stage.excuses(), [excuse], "set: {on}, marked first: {marked_first}, goes on: {goes_on}");
            });
        }
    }

    #[test]
    fn a_nic_without_a_name_agrees_with_an_entry_without_one() {
        with_pod(|stage| {
            stage.ask("ns/a", "a", "eth0");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.record(stage.agent, "p", "10.0.0.2", "ns/a", "a");
            stage.endpoint(stage.agent, "ns/a", "a", &[("eth0", "p", "10.0.0.1"), ("", "p", "10.0.0.2")]);
            stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.1"), ("1", "p", "10.0.0.2")]);
            stage.answer("ns/a", "a", "net1", &[("net1", "p", "10.0.0.2")]);
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn the_uid_of_the_sandbox_is_that_of_the_request() {
        with_pod(|stage| {
            stage.pod_gone("ns/a");
            stage.pod("ns/a", "b");
            stage.sandbox("b", "ns/a", "new");
            stage.add("ns/a", "b", FIRST);
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[1].starts_with("the sandbox is of"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn a_pod_that_is_not_alive_has_no_endpoint_to_agree_with_and_hands_excuse() {
        with_pod(|stage| {
            stage.add("ns/a", "a", FIRST);
            stage.endpoint(stage.person, "ns/a", "a", &[]);
            stage.answer("ns/a", "a", "eth0", FIRST);
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
            stage.terminate("ns/a");
            stage.answer("ns/a", "a", "eth0", FIRST);
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }
}
