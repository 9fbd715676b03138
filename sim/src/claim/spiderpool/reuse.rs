//! A S7, of addresses that are used again.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_core::FxHashMap;

use super::view::{Seen, Sights, View};
use super::{Answered, Findings, IpamClaim};
use crate::rt::ProcessId;
use crate::workload::spiderpool::{How, IpamNote};

/// Who compares for whom: the agent, the UID and the NIC of the request.
type Request = (ProcessId, Arc<str>, Arc<str>);

/// Addresses that may not be used again, with their pools.
type Refused = Arc<[(Arc<str>, IpAddr)]>;

/// A pod of a StatefulSet, or of a VM, is answered with an address of its predecessor only if the rules would still give it that one:
/// from a pool that serves its NIC, that still holds the address, and not a reserved one (D §0). What the agent's caches showed when
/// it compared counts.
///
/// Broken by `static-reuse-skips-filter` and `static-reuse-before-gating`. It does not see addresses that an agent does not compare
/// with the rules at all.
#[derive(Default)]
pub(in super::super) struct Permitted {
    /// What the rules refuse, of what was compared last.
    refused: FxHashMap<Request, Refused>,
}

impl IpamClaim for Permitted {
    fn sights(&self) -> Sights {
        Sights::CHOICE.and(Sights::ANSWER)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Ipam(process, IpamNote::Compared { uid, nic, refused }) => {
                self.refused.insert((process, uid.clone(), nic.clone()), refused.clone());
            }
            Seen::Ipam(process, IpamNote::AddEnded { uid, nic, .. }) => {
                let Some(refused) = self.refused.remove(&(process, uid.clone(), nic.clone())) else { return };
                findings.judged();
                let Some(answer) = Answered::of(seen).filter(|answer| answer.how == How::Reowned) else { return };
                // What an answer to this very pod named before, for another of its NICs, is its own by now.
                let is_own = |pool: &str, address: IpAddr| {
                    let mut before = view.ledger.answers(answer.uid).iter().map(|answer| &answer.given);
                    before.any(|given| *given.pool == *pool && given.address == address)
                };
                let is_refused = |pool: &str, address: IpAddr| {
                    refused.iter().any(|(of, other)| **of == *pool && *other == address) && !is_own(pool, address)
                };
                for given in answer.given.iter().filter(|given| is_refused(&given.pool, given.address)) {
                    findings.violated(|| {
                        vec![
                            format!(
                                "{} answers {} of {} with its predecessor's {} of pool {}, which the rules do not permit any more",
                                view.name(answer.by),
                                given.nic,
                                view.pod_of(answer.uid),
                                given.address,
                                given.pool
                            ),
                            view.story_of(&given.pool, given.address),
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
    use super::super::testing::on_stage;

    const CLAIM: &str = "reused-addresses-are-permitted";
    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];
    const OTHER: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.2")];

    #[test]
    fn a_predecessors_address_that_the_rules_refuse_is_a_violation() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.static_pod("ns/web-0", "a");
            stage.compare("a", "eth0", &[]);
            stage.answer_reowned("ns/web-0", "a", "eth0", FIRST);
            assert_eq!((stage.excuses(), stage.judged()), (vec![], true));
            stage.compare("a", "eth0", &[("p", "10.0.0.1")]);
            stage.answer_reowned("ns/web-0", "a", "eth0", OTHER);
            assert_eq!(stage.excuses(), []);
            stage.compare("a", "eth0", &[("p", "10.0.0.1")]);
            stage.answer_reowned("ns/web-0", "a", "eth0", FIRST);
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[0].contains("10.0.0.1 of pool p, which the rules do not permit"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn what_was_compared_for_one_request_does_not_count_for_the_next() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.static_pod("ns/web-0", "a");
            stage.compare("a", "eth0", &[("p", "10.0.0.1")]);
            stage.refuse("ns/web-0", "a", "eth0", crate::workload::spiderpool::Refusal::Api);
            stage.answer_reowned("ns/web-0", "a", "eth0", FIRST);
            stage.compare("a", "eth0", &[("p", "10.0.0.1")]);
            stage.answer("ns/web-0", "a", "eth0", FIRST);
            assert_eq!(stage.excuses(), []);
        });
    }
}
