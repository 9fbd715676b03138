//! A S4: sandbox, record and endpoint agree.

use super::view::{Pod, Seen, View, addresses_of, uid_of};
use super::{Answered, Findings, IpamClaim, violated};
use crate::workload::spiderpool::Given;

/// When a request is answered, the UID in it is that of its sandbox; and while its pod is alive, its endpoint is there, is not being
/// deleted, bears the same UID and names for the NIC the same address of the same pool, and the record bears the UID, too. A NIC
/// without a name may stand in the endpoint under any that has none.
///
/// What is being taken back at the same time is not judged. Broken by `uid-from-cached-pod`, `endpoint-delete-by-name`,
/// `mark-before-uid-check`, `answer-not-as-stored` and `terminating-endpoint-reused`. It does not see NICs that are not in the
/// answer.
pub(in super::super) struct ThreeAgree;

impl IpamClaim for ThreeAgree {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Some(answer) = Answered::of(seen) else { return };
        findings.judged();
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
            if !answer.is_taken_back(view, &given.pool, given.address) {
                violated(findings, by_hand, || {
                    let (by, whose) = (view.name(answer.by), view.pod_of(answer.uid));
                    vec![
                        format!("{by} answers {} of {whose} with {} of pool {}", given.nic, given.address, given.pool),
                        wrong,
                        view.story_of(&given.pool, given.address),
                    ]
                });
            }
        }
    }
}

/// What does not agree.
fn wrong(view: &View, answer: &Answered<'_>, pod: &Pod, given: &Given) -> Option<String> {
    let uid = answer.uid;
    if let Some(holder) = view.pools.holder(&given.pool, given.address)
        && *holder.record.pod_uid != **uid
    {
        return Some(format!("it is recorded for {}", view.pod_of(&holder.record.pod_uid)));
    }
    let Some((endpoint, _)) = view.endpoint_of(pod) else { return Some("there is no endpoint".to_owned()) };
    if uid_of(endpoint) != &**uid {
        return Some(format!("the endpoint is that of {}", view.pod_of(uid_of(endpoint))));
    }
    if endpoint.metadata.deletion_timestamp.is_some() {
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
