//! A S9: records are removed only for their own UID.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::SpiderEndpoint;
use ipam_spiderpool::select::nics;
use kube_sim::rt::ProcessId;

use super::given_back::{self, GivenBack};
use super::view::{Answer, EventMask, Place, Seen, View, is_migration, uid_of};
use super::{Findings, IpamClaim, violated};
use crate::workload::{Cause, Given, IpamNote};

/// An agent removes a record only after it has announced the release for the UID in the record. It announces a release only for a pod that
/// is not alive or may not keep the address, or for leftovers of a pod that has ended, whose sandboxes are gone and whose address no place
/// keeps. A pod may not keep an address in these cases: its pool, a reservation, its namespace, its node or its wishes have changed since
/// it was answered; another pod has the address by now, or another address of a NIC that the pod lacks; a host outside the cluster uses it;
/// an ADD takes back an address that was never answered, or one that its plugin has given back since: the batch release has removed it from
/// the endpoint, and the agent ended before it got to the pool, whatever has happened to the endpoint since; or the DEL of a VM's other pod
/// has released it for both. A record is handed on only under its own name and from a pod that is not alive; the two pods of a VM's live
/// migration may hand it to each other.
///
/// Broken by `del-adopts-current-uid`, `reown-ignores-owner` and `stateful-conflict-released`. It trusts an agent's report of a conflict
/// with a host outside the cluster; the addresses of StatefulSets and VMs stay even so.
#[derive(Default)]
pub(crate) struct RecordsLeaveOnlyForTheirOwnUid {
    given_back: GivenBack,
}

impl IpamClaim for RecordsLeaveOnlyForTheirOwnUid {
    fn event_mask(&self) -> EventMask {
        EventMask::RELEASE.and(EventMask::POOL).and(EventMask::ENDPOINT)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Endpoint(ref change) => self.given_back.observe(change),
            Seen::Pool(ref change) if change.by_agent => {
                for edit in &change.edits {
                    let Some((address, before)) = edit.taken() else { continue };
                    findings.exercised();
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
            Seen::Ipam(process, IpamNote::ReleaseBegun { uid, asked, cause, what, .. }) => {
                findings.exercised();
                let is_given_back = |address: IpAddr| self.given_back.contains(uid, address);
                if let Some(wrong) = not_justified(view, process, uid, asked, *cause, what, is_given_back) {
                    let by_hand = what.iter().any(|(_, address)| view.changes.touched(*address));
                    violated(findings, by_hand, || {
                        let mut lines = vec![format!(
                            "{} releases addresses of {} ({}): {wrong}",
                            view.name(process),
                            view.pod_of(uid),
                            cause.sentence()
                        )];
                        lines.extend(what.iter().map(|(pool, address)| view.story_of(pool, *address)));
                        lines
                    });
                }
            }
            _ => {}
        }
    }
}

fn not_announced(view: &View, by: ProcessId, uid: &str, pool: &str, address: IpAddr) -> Option<&'static str> {
    let said = view.ledger.releases(uid).iter().any(|release| release.said.by == by && release.covers(pool, address));
    (!said).then_some("no release was announced before")
}

/// The reason why an agent may not release these addresses of `uid` at the request of `asked`; `None` = it may.
fn not_justified(
    view: &View,
    by: ProcessId,
    uid: &str,
    asked: &str,
    cause: Cause,
    what: &[(Arc<str>, IpAddr)],
    is_given_back: impl Fn(IpAddr) -> bool,
) -> Option<&'static str> {
    let answers = view.ledger.answers(uid).iter();
    let mut answered =
        answers.filter(|answer| what.iter().any(|(pool, address)| *pool == answer.given.pool && *address == answer.given.address));
    match cause {
        Cause::Del | Cause::Marked => view.pods.is_alive(uid).then_some("the pod is alive"),
        // The address of a place is part of its configuration (A §7.3: 522), where the settings say so.
        Cause::Conflict => {
            let place = view.pods.get(uid).filter(|pod| !view.was_orphan_lately(pod)).and_then(|pod| view.keeping_place(pod));
            place.map(|_| "a place keeps its address even if another host answers on it")
        }
        Cause::RollBack | Cause::Superseded => {
            // An address that was reclaimed since the answer no longer counts as answered: whether it might be reclaimed is the business of
            // other claims.
            let reclaimed = |answer: &Answer| {
                view.reclaimed_of(uid, answer.given.address).is_some_and(|reclaimed| reclaimed.said.moment > answer.said.moment)
            };
            let stands = |answer: &Answer| {
                let address = answer.given.address;
                !is_given_back(address)
                    && !is_recorded_anew(view, uid, answer)
                    && !reclaimed(answer)
                    && !has_ended(view, uid, address)
                    && !given_back::by_another_of_its_vm(view, uid, answer)
            };
            answered.any(stands).then_some("an earlier request was answered with one of them")
        }
        Cause::PoolChange => {
            let pod = view.pods.get(uid)?;
            let shown = view.shown_for_place_of(by, pod);
            let may_have_changed = |answer: &Answer| match &pod.place {
                // The wishes are those of the pod that asked; it may be gone when its ADD gets to the release, and the next pod may have
                // other wishes.
                _ if let Some(asking) = view.pods.get(asked) => view.may_have_changed(answer, asking, &shown),
                // Each pod of a VM has its own name.
                Some(place @ Place::Vm(_)) => {
                    let mut of_vm = view.pods.present().filter(|(_, other)| other.place.as_ref() == Some(place));
                    of_vm.any(|(_, other)| view.may_have_changed(answer, other, &shown))
                }
                _ => view.may_have_changed(answer, view.pods.named(&pod.key).map_or(pod, |(_, successor)| successor), &shown),
            };
            // The pod's successor could not keep an address that another pod has by now, and releasing it takes nothing from that pod.
            let is_anothers = |pool: &str, address: IpAddr| {
                let holder = view.pools.holder(pool, address);
                holder.is_some_and(|holder| holder.record.pod_uid != uid && holder.record.pod_uid != asked)
            };
            // A NIC that the successor lacks gives up the rest of its addresses once somebody else has that of the other family (A §6.3).
            let nics = view.pods.get(asked).and_then(|pod| nics(&pod.object));
            let lacks = |nic: &str| nics.as_ref().is_some_and(|nics| nics.iter().all(|has| has != nic));
            let is_rest = |given: &Given| {
                let mut others = what.iter().filter(|(_, other)| other.is_ipv4() != given.address.is_ipv4());
                lacks(&given.nic) && others.any(|(pool, other)| is_anothers(pool, *other))
            };
            let mut answered = answered.filter(|answer| !is_anothers(&answer.given.pool, answer.given.address)).peekable();
            answered.peek()?;
            answered.all(|answer| !is_rest(&answer.given) && !may_have_changed(answer)).then_some("nothing changed since they were given")
        }
    }
}

/// Whether a pod is not alive, none of its sandboxes answers on an address any more, and no place keeps the address.
fn has_ended(view: &View, uid: &str, address: IpAddr) -> bool {
    let Some(pod) = view.pods.get(uid).filter(|pod| !pod.is_alive()) else { return false };
    view.keeping_place(pod).is_none() && view.sandboxes.answering(address).all(|(_, sandbox)| *sandbox.uid != *uid)
}

/// Whether an answered address was taken back and recorded anew by a later request, for a pod whose endpoint is gone or is its successor's:
/// the report of the conflict was lost with the pod's own endpoint.
fn is_recorded_anew(view: &View, uid: &str, answer: &Answer) -> bool {
    let own = |(endpoint, _): (&Arc<SpiderEndpoint>, bool)| uid_of(endpoint) == uid;
    let has_endpoint = view.pods.get(uid).and_then(|pod| view.endpoint_of(pod)).is_some_and(own);
    let since = view.pools.holder(&answer.given.pool, answer.given.address).filter(|holder| holder.record.pod_uid == uid);
    !has_endpoint && since.and_then(|holder| holder.since).is_some_and(|made| made.moment > answer.said.moment)
}

#[cfg(test)]
mod tests;
