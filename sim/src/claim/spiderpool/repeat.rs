//! A S16: whoever asks again is told the same.

use super::view::{Seen, View};
use super::{Answered, Findings, IpamClaim, violated};

/// A request for a NIC of a pod that was answered before is answered with the same addresses, unless a release of them has begun
/// in between. Only the NIC that is asked for counts: the others may be named otherwise.
///
/// Broken by `nameless-nic-always-changed` and `lost-reply-takes-next-pool`. It does not see a request that fails.
pub(in super::super) struct SameAnswer;

impl IpamClaim for SameAnswer {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Some(answer) = Answered::of(seen) else { return };
        for given in answer.given.iter().filter(|given| given.nic == *answer.nic) {
            let Some(before) = view.ledger.answers(answer.uid).iter().find(|before| before.is_for_same(given)) else { continue };
            findings.judged();
            if before.given.address != given.address || before.given.pool != given.pool {
                let by_hand = view.changes.touched(given.address) || view.changes.touched(before.given.address);
                violated(findings, by_hand, || {
                    let (by, whose) = (view.name(answer.by), view.pod_of(answer.uid));
                    vec![
                        format!("{by} answers {} of {whose} with {} of pool {}", given.nic, given.address, given.pool),
                        format!("it was told {} of pool {} {}", before.given.address, before.given.pool, view.by(before.said)),
                        view.story_of(&before.given.pool, before.given.address),
                    ]
                });
            }
        }
    }
}
