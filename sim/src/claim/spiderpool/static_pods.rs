//! A S10: places keep their addresses.

use super::view::{Answer, Pod, Seen, View};
use super::{Answered, Findings, IpamClaim, violated};
use crate::workload::spiderpool::Cause;

/// A pod of a StatefulSet, or of a VM, is answered for the NIC that it asks for with the address that its predecessor of the same
/// place had.
///
/// It need not be the same if the place was gone for a time (scaled down, deleted), if the pool, a reservation, the namespace, the
/// node or the pod's wishes changed meanwhile, or if the address was given up because of that or because somebody outside uses it.
///
/// Broken by `nameless-nic-always-changed`, `reown-foreign-endpoint` and `stateful-conflict-released`. It does not see an address
/// that was lost while its place was gone.
pub(in super::super) struct KeptAddresses;

impl IpamClaim for KeptAddresses {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Some(answer) = Answered::of(seen) else { return };
        let Some(pod) = view.pods.get(answer.uid) else { return };
        let Some(name) = pod.static_name() else { return };
        for given in answer.given.iter().filter(|given| given.nic == *answer.nic) {
            let Some(before) = view.ledger.kept(name).iter().find(|before| before.is_for_same(given)) else { continue };
            if before.uid == *answer.uid || !had_to_be_kept(view, pod, before) {
                continue;
            }
            findings.judged();
            if before.given.address != given.address {
                violated(findings, view.changes.touched(before.given.address) || view.changes.touched_endpoint(name), || {
                    let (by, whose) = (view.name(answer.by), view.pod_of(answer.uid));
                    vec![
                        format!("{by} answers {} of {whose} with {} of pool {}", given.nic, given.address, given.pool),
                        format!(
                            "its predecessor {} was told {} of pool {} {}",
                            view.pod_of(&before.uid),
                            before.given.address,
                            before.given.pool,
                            view.by(before.said)
                        ),
                        view.story_of(&before.given.pool, before.given.address),
                    ]
                });
            }
        }
    }
}

fn had_to_be_kept(view: &View, pod: &Pod, before: &Answer) -> bool {
    let place = pod.place.as_ref().is_some_and(|place| view.places.were_there_since(place, before.said.moment));
    let mut releases = view.ledger.releases(&before.uid).iter();
    let given_up = releases.any(|release| {
        matches!(release.cause, Cause::Conflict | Cause::PoolChange) && release.covers(&before.given.pool, before.given.address)
    });
    place && !given_up && !view.may_have_changed(before, pod)
}
