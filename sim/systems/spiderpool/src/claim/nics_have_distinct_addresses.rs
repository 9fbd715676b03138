//! A S15: NICs have distinct addresses.

use kube_sim::node::PodNote;

use super::view::{EventMask, Seen, View};
use super::{Answered, EMPTY_POD_IPS, Findings, IpamClaim};

/// No answer gives one address to two NICs, and no sandbox answers on one address with two NICs.
///
/// An address that is taken back during the request is free for the pod's next NIC: such an answer is not judged if the pod's entitlement
/// had ended, and excused if a setting permitted a scan to take the address (G EX3).
///
/// Broken by `one-record-per-pod` and `nameless-entry-lost`. An address that occurs twice in the answer for one NIC is a violation as well.
pub(crate) struct NicsHaveDistinctAddresses;

impl IpamClaim for NicsHaveDistinctAddresses {
    fn event_mask(&self) -> EventMask {
        EventMask::ANSWER.and(EventMask::POD)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if let Some(answer) = Answered::of(seen) {
            findings.exercised();
            for (at, given) in answer.given.iter().enumerate() {
                let Some(other) = answer.given[..at].iter().find(|other| other.address == given.address) else { continue };
                if answer.is_taken_back(view, &given.pool, given.address) {
                    continue;
                }
                let detail = || {
                    let (by, whose) = (view.name(answer.by), view.pod_of(answer.uid));
                    vec![
                        format!("{by} gives {} to {} and to {} of {whose}", given.address, other.nic, given.nic),
                        view.story_of(&given.pool, given.address),
                    ]
                };
                if view.is_being_taken_by_setting(answer.uid, &given.pool, given.address, answer.began(view)) {
                    findings.violated_with(EMPTY_POD_IPS, detail);
                } else {
                    findings.violated(detail);
                }
            }
        }
        let Seen::Pod(_, PodNote::Attached { sandbox, nic, addresses }) = seen else { return };
        findings.exercised();
        let Some(this) = view.sandboxes.get(sandbox) else { return };
        for (other, _, held) in this.nics.iter().filter(|(other, ..)| other != nic) {
            if let Some(&address) = addresses.iter().find(|address| held.contains(address)) {
                let detail = || vec![format!("{other} and {nic} of sandbox {sandbox} answer on {address}")];
                if view.is_taken_by_setting(&this.uid, address, this.said) {
                    findings.violated_with(EMPTY_POD_IPS, detail);
                } else {
                    findings.violated(detail);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::reclaim::ReclaimSettings;

    use super::super::EMPTY_POD_IPS;
    use super::super::testing::{on_stage, on_stage_with};

    const CLAIM: &str = "nics-have-distinct-addresses";

    #[test]
    fn an_address_twice_in_an_answer_is_a_violation() {
        on_stage(CLAIM, |stage| {
            stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.1"), ("eth0", "q", "fd00::1"), ("net1", "p", "10.0.0.2")]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.1"), ("net1", "p", "10.0.0.1")]);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn an_address_that_is_taken_back_during_the_request_may_go_to_the_next_nic() {
        for (taken, is_gone, excuses) in [(true, true, vec![]), (true, false, vec![None]), (false, true, vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.ask("ns/a", "a", "eth0");
                stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
                if is_gone {
                    stage.pod_gone("ns/a");
                }
                if taken {
                    stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                }
                stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.1"), ("net1", "p", "10.0.0.1")]);
                assert_eq!(stage.excuses(), excuses, "taken: {taken}, its pod is gone: {is_gone}");
            });
        }
    }

    #[test]
    fn an_address_that_a_setting_lets_reclaim_take_between_two_nics_is_excused() {
        for (on, excuse) in [(true, Some(EMPTY_POD_IPS)), (false, None)] {
            let set = |settings: &mut ReclaimSettings| settings.running_without_ips = on;
            on_stage_with(CLAIM, set, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.pod_is("ns/a", "Running", None);
                stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
                stage.sandbox("s", "ns/a", "a");
                stage.attach("s", "eth0", &["10.0.0.1"]);
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                stage.attach("s", "net1", &["10.0.0.1"]);
                assert_eq!(stage.excuses(), [excuse]);
            });
        }
    }

    #[test]
    fn an_address_on_two_nics_of_a_sandbox_is_a_violation() {
        on_stage(CLAIM, |stage| {
            stage.sandbox("a", "ns/a", "a");
            stage.attach("a", "eth0", &["10.0.0.1", "fd00::1"]);
            stage.attach("a", "net1", &["10.0.0.2"]);
            stage.sandbox("b", "ns/a", "a");
            stage.attach("b", "eth0", &["10.0.0.1"]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.attach("a", "net2", &["10.0.0.3", "fd00::1"]);
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "eth0 and net2 of sandbox a answer on fd00::1");
        });
    }
}
