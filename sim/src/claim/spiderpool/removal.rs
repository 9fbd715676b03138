//! A S9: a record goes for the sake of its own pod.

use super::view::{Place, Seen, View};
use super::{Findings, IpamClaim, violated};
use crate::rt::ProcessId;
use crate::workload::spiderpool::{Cause, IpamNote};

/// An agent removes a record only after it has said that it would, for the UID in the record; and it says so only of a pod that is
/// not alive, or that lost its claim: its pool, a reservation, its namespace, its node or its wishes changed since it was answered,
/// somebody outside uses the address, or an ADD takes back what was never answered. A record is handed on only under its own name,
/// from a pod that is not alive; the two pods of a VM's live migration may hand it to each other.
///
/// Broken by `del-adopts-current-uid`, `reown-ignores-owner` and `stateful-conflict-released`. It takes an agent's word for a conflict
/// with somebody outside.
pub(in super::super) struct OwnUidOnly;

impl IpamClaim for OwnUidOnly {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Pool(ref change) if change.by_agent => {
                for edit in &change.edits {
                    let Some((address, before)) = edit.taken() else { continue };
                    findings.judged();
                    let wrong = match &edit.after {
                        None => not_announced(view, change.said.by, &before.pod_uid, &change.pool, address),
                        Some(after) if after.pod != before.pod => Some("it is handed to a pod of another name"),
                        Some(after) => view
                            .pods
                            .is_alive(&before.pod_uid)
                            .then_some("its pod is alive")
                            .filter(|_| !is_migration(view, &before.pod_uid, &after.pod_uid)),
                    };
                    let Some(wrong) = wrong else { continue };
                    violated(findings, view.changes.touched(address), || {
                        let line = format!("{address} of pool {} is taken from {}: {wrong}", change.pool, view.pod_of(&before.pod_uid));
                        vec![line, view.story_of_write(change), view.story_of(&change.pool, address)]
                    });
                }
            }
            Seen::Ipam(process, IpamNote::ReleaseBegun { uid, cause, what, .. }) => {
                findings.judged();
                if let Some(wrong) = not_justified(view, uid, *cause, what) {
                    let by_hand = what.iter().any(|(_, address)| view.changes.touched(*address));
                    violated(findings, by_hand, || {
                        let mut lines =
                            vec![format!("{} releases addresses of {} ({cause:?}): {wrong}", view.name(process), view.pod_of(uid))];
                        lines.extend(what.iter().map(|(pool, address)| view.story_of(pool, *address)));
                        lines
                    });
                }
            }
            _ => {}
        }
    }
}

fn not_announced(view: &View, by: ProcessId, uid: &str, pool: &str, address: std::net::IpAddr) -> Option<&'static str> {
    let said = view.ledger.releases(uid).iter().any(|release| release.said.by == by && release.covers(pool, address));
    (!said).then_some("nobody said so before")
}

/// Why an agent may not release these addresses.
fn not_justified(view: &View, uid: &str, cause: Cause, what: &[(std::sync::Arc<str>, std::net::IpAddr)]) -> Option<&'static str> {
    let answers = view.ledger.answers(uid).iter();
    let mut answered = answers.filter(|answer| what.iter().any(|(pool, address)| *pool == answer.given.pool && *address == answer.given.address));
    match cause {
        Cause::Del | Cause::Predecessor => view.pods.is_alive(uid).then_some("the pod is alive"),
        Cause::Reown => {
            let is_vm = view.pods.get(uid).is_some_and(|pod| matches!(pod.place, Some(Place::Vm(_))));
            (view.pods.is_alive(uid) && !is_vm).then_some("the pod is alive")
        }
        Cause::Conflict => None,
        Cause::RollBack => answered.next().map(|_| "an earlier request was answered with one of them"),
        Cause::PoolChange => {
            let pod = view.pods.get(uid)?;
            let successor = view.pods.named(&pod.key).map_or(pod, |(_, successor)| successor);
            let mut answered = answered.peekable();
            answered.peek()?;
            answered.all(|answer| !view.may_have_changed(answer, successor)).then_some("nothing changed since they were given")
        }
    }
}

fn is_migration(view: &View, one: &str, other: &str) -> bool {
    let vm = |uid: &str| view.pods.get(uid).and_then(|pod| pod.place.as_ref()).filter(|place| matches!(place, Place::Vm(_)));
    vm(one).is_some_and(|place| vm(other) == Some(place))
}
