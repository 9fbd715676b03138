//! A S16: a repeated request gets the same addresses.

use super::view::{EventMask, Seen, View};
use super::{Answered, EMPTY_POD_IPS, Findings, IpamClaim, violated};

/// A request for a NIC that was answered before is answered with the same addresses, unless a release of them has begun in between. Only
/// the requested NIC counts, as the others may be named differently. Addresses that a setting permitted a scan to take in between are
/// excused (G EX3).
///
/// Broken by `nameless-nic-always-changed` and `lost-reply-takes-next-pool`. It does not judge requests that fail.
pub(crate) struct AskingAgainGivesTheSameAddress;

impl IpamClaim for AskingAgainGivesTheSameAddress {
    fn event_mask(&self) -> EventMask {
        EventMask::ANSWER
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Some(answer) = Answered::of(seen) else { return };
        for given in answer.given.iter().filter(|given| given.nic == *answer.nic) {
            let Some(before) = view.ledger.answers(answer.uid).iter().find(|before| before.is_for_same(given)) else { continue };
            findings.exercised();
            if before.given.address != given.address || before.given.pool != given.pool {
                let by_hand = view.changes.touched(given.address) || view.changes.touched(before.given.address);
                let detail = || {
                    let (by, whose) = (view.name(answer.by), view.pod_of(answer.uid));
                    vec![
                        format!("{by} answers {} of {whose} with {} of pool {}", given.nic, given.address, given.pool),
                        format!("it was told {} of pool {} {}", before.given.address, before.given.pool, view.by(before.said)),
                        view.story_of(&before.given.pool, before.given.address),
                    ]
                };
                if !by_hand && view.is_taken_by_setting(answer.uid, before.given.address, before.said) {
                    findings.violated_with(EMPTY_POD_IPS, detail);
                } else {
                    violated(findings, by_hand, detail);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::reclaim::ReclaimSettings;

    use super::super::testing::{on_stage, on_stage_with};
    use super::super::{BY_HAND, EMPTY_POD_IPS};
    use crate::workload::Cause;

    const CLAIM: &str = "asking-again-gives-the-same-address";

    #[test]
    fn another_answer_without_a_release_is_a_violation() {
        on_stage(CLAIM, |stage| {
            stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.1"), ("eth0", "q", "fd00::1")]);
            stage.answer("ns/a", "a", "net1", &[("eth0", "p", "10.0.0.9"), ("net1", "p", "10.0.0.2")]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
            stage.answer("ns/b", "b", "eth0", &[("eth0", "p", "10.0.0.3")]);
            stage.answer("ns/a", "a", "net1", &[("net1", "p", "10.0.0.2")]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.answer("ns/a", "a", "eth0", &[("eth0", "q", "fd00::2")]);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn another_answer_after_a_setting_let_reclaim_take_the_first_is_excused() {
        for (on, excuse) in [(true, Some(EMPTY_POD_IPS)), (false, None)] {
            let set = |settings: &mut ReclaimSettings| settings.running_without_ips = on;
            on_stage_with(CLAIM, set, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.pod_is("ns/a", "Running", None);
                stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1")]);
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.2")]);
                assert_eq!(stage.excuses(), [excuse]);
                stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.1")]);
                assert_eq!(stage.excuses(), [excuse, None], "nothing was taken since");
            });
        }
    }

    #[test]
    fn another_answer_after_a_release_is_none() {
        on_stage(CLAIM, |stage| {
            stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.1")]);
            stage.release("ns/a", "a", Cause::Conflict, &[("p", "10.0.0.1")]);
            stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.2")]);
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn a_record_removed_by_hand_excuses() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1")]);
            stage.unrecord(stage.person, "p", "10.0.0.1");
            stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.2")]);
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }
}
