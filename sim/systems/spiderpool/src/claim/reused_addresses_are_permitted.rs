//! A S7 for reused addresses.

use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::FxHashMap;
use kube_sim::rt::ProcessId;

use super::view::{EventMask, Place, Seen, View, addresses_of, uid_of};
use super::{Answered, Findings, IpamClaim};
use crate::oracle::refused;
use crate::workload::{How, IpamNote};

/// The agent, the UID and the NIC of the request for which a comparison is made.
type Request = (ProcessId, Arc<str>, Arc<str>);

/// The result of an agent's comparison.
struct Compared {
    /// The addresses that may not be reused, with their pools.
    refused: Vec<(Arc<str>, IpAddr)>,
    /// Whether another pod of the same VM existed, according to the API.
    migrating: bool,
}

/// A pod of a StatefulSet or a VM gets an address of its predecessor only if the rules would still give it that address: from a pool that
/// serves its NIC and still holds the address, and not a reserved one (D §0). What the agent's caches showed at the time of the comparison
/// counts. Besides allocated addresses, an answer may name addresses that were handed on, and so may the endpoint for a NIC whose request
/// is still to come.
///
/// The target of a live migration takes over the addresses that its source answers on, whatever has happened to the pool: the rules apply
/// to the VM's next start (A W28). The source may end while the target's request is in progress.
///
/// Broken by `static-reuse-skips-filter` and `static-reuse-before-gating`. It does not detect addresses that an agent does not compare with
/// the rules at all.
#[derive(Default)]
pub(crate) struct ReusedAddressesArePermitted {
    /// The addresses that the rules refuse in the last comparison of each request.
    compared: FxHashMap<Request, Compared>,
    /// The addresses that agents handed on to a pod that has no answer yet.
    handed_on: FxHashMap<Arc<str>, Vec<(Arc<str>, IpAddr)>>,
}

impl IpamClaim for ReusedAddressesArePermitted {
    fn event_mask(&self) -> EventMask {
        EventMask::CHOICE.and(EventMask::ANSWER).and(EventMask::POOL)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Ipam(process, IpamNote::Compared { uid, nic, question, entries, .. }) => {
                let refused = question.ask(|cluster, request, controller| refused(cluster, request, controller, entries));
                let compared = Compared { refused, migrating: is_migrating(view, uid) };
                self.compared.insert((process, uid.clone(), nic.clone()), compared);
            }
            Seen::Pool(ref change) => {
                for edit in &change.edits {
                    // An address that was taken back may be allocated again, once it is free.
                    if let Some((address, record)) = edit.taken()
                        && let Some(of_pod) = self.handed_on.get_mut(record.pod_uid.as_str())
                    {
                        of_pod.retain(|(pool, other)| *other != address || **pool != *change.pool);
                    }
                    if let Some((address, record)) = edit.given()
                        && change.by_agent
                        && edit.before.is_some()
                    {
                        let of_pod = self.handed_on.entry(record.pod_uid.as_str().into()).or_default();
                        of_pod.push((change.pool.clone(), address));
                    }
                }
            }
            Seen::Ipam(process, IpamNote::AddEnded { uid, nic, result, .. }) => {
                let handed_on = if result.is_ok() { self.handed_on.remove(uid) } else { None }.unwrap_or_default();
                let Some(Compared { refused, migrating }) = self.compared.remove(&(process, uid.clone(), nic.clone())) else { return };
                findings.exercised();
                let Some(answer) = Answered::of(seen).filter(|answer| answer.how != How::Existing) else { return };
                if migrating || is_migrating(view, answer.uid) {
                    return;
                }
                // An address in an earlier answer to this very pod for another of its NICs already belongs to the pod.
                let is_own = |pool: &str, address: IpAddr| {
                    let mut before = view.ledger.answers(answer.uid).iter().map(|answer| &answer.given);
                    before.any(|given| *given.pool == *pool && given.address == address)
                };
                let is_in =
                    |these: &[(Arc<str>, IpAddr)], pool: &str, address| these.iter().any(|(of, other)| **of == *pool && *other == address);
                // A newly allocated address may be one that was refused, once it is free.
                let is_reused = |pool: &str, address| answer.how == How::Reowned || is_in(&handed_on, pool, address);
                let is_refused = |pool: &str, address| is_in(&refused, pool, address) && is_reused(pool, address) && !is_own(pool, address);
                let given = answer.given.iter().map(|given| (&*given.nic, &*given.pool, given.address));
                // The addresses that the endpoint names for a NIC without an answer will be answered later.
                let endpoint = view.pods.get(answer.uid).and_then(|pod| view.endpoint_of(pod)).map(|(endpoint, _)| &**endpoint);
                let endpoint = endpoint.filter(|endpoint| !handed_on.is_empty() && uid_of(endpoint) == &**answer.uid);
                let named = endpoint.into_iter().flat_map(addresses_of).map(|(entry, pool, address)| (&*entry.interface, pool, address));
                let is_answered = |address| answer.given.iter().any(|given| given.address == address);
                let named = named.filter(|(_, pool, address)| !is_answered(*address) && is_in(&handed_on, pool, *address));
                for (nic, pool, address) in given.chain(named).filter(|(_, pool, address)| is_refused(pool, *address)) {
                    findings.violated(|| {
                        vec![
                            format!(
                                "{} leaves {nic} of {} with its predecessor's {address} of pool {pool}, \
                                 which the rules do not permit any more",
                                view.name(answer.by),
                                view.pod_of(answer.uid),
                            ),
                            view.story_of(pool, address),
                        ]
                    });
                }
            }
            _ => {}
        }
    }
}

/// Whether another pod of the same VM exists, or its instance still says so: a source that was deleted by force goes first.
fn is_migrating(view: &View, uid: &str) -> bool {
    let Some(place @ Place::Vm(vm)) = view.pods.get(uid).and_then(|pod| pod.place.as_ref()) else { return false };
    if view.places.has_other_active_pod(vm, uid) {
        return true;
    }
    view.pods.present().any(|(other, pod)| **other != *uid && pod.place.as_ref() == Some(place))
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
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
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
    fn the_target_of_a_migration_takes_over_what_its_source_answers_on() {
        for (source_is_there, source_ends, excuses) in [(true, false, vec![]), (true, true, vec![]), (false, false, vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.vm_pod("ns/source", "source", "vm");
                stage.vm_pod("ns/target", "target", "vm");
                if !source_is_there {
                    stage.pod_gone("ns/source");
                }
                stage.compare("target", "eth0", &[("p", "10.0.0.1")]);
                if source_ends {
                    stage.pod_gone("ns/source");
                }
                stage.answer_reowned("ns/target", "target", "eth0", FIRST);
                assert_eq!((stage.excuses(), stage.exercised()), (excuses, true));
            });
        }
    }

    #[test]
    fn a_source_that_was_deleted_by_force_is_there_as_long_as_its_instance_says_so() {
        for (active, excuses) in [(&["source", "target"][..], vec![]), (&["target"][..], vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.vm_pod("ns/source", "source", "vm");
                stage.vm_pod("ns/target", "target", "vm");
                stage.vm_instance("ns/vm", active);
                stage.pod_gone("ns/source");
                stage.compare("target", "eth0", &[("p", "10.0.0.1")]);
                stage.answer_reowned("ns/target", "target", "eth0", FIRST);
                assert_eq!((stage.excuses(), stage.exercised()), (excuses, true), "{active:?}");
            });
        }
    }

    #[test]
    fn what_was_compared_for_one_request_does_not_count_for_the_next() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.static_pod("ns/web-0", "a");
            stage.compare("a", "eth0", &[("p", "10.0.0.1")]);
            stage.refuse("ns/web-0", "a", "eth0", crate::workload::Refusal::Api);
            stage.answer_reowned("ns/web-0", "a", "eth0", FIRST);
            stage.compare("a", "eth0", &[("p", "10.0.0.1")]);
            stage.answer("ns/web-0", "a", "eth0", FIRST);
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn what_was_handed_on_counts_beside_what_was_drawn() {
        for (handed_on, excuses) in [(false, vec![]), (true, vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.static_pod("ns/web-0", "a");
                stage.compare("a", "eth0", &[("p", "10.0.0.1")]);
                if handed_on {
                    stage.record(stage.person, "p", "10.0.0.1", "ns/web-0", "before");
                }
                stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "a");
                stage.answer("ns/web-0", "a", "eth0", FIRST);
                assert_eq!((stage.excuses(), stage.exercised()), (excuses, true));
            });
        }
    }

    #[test]
    fn what_was_handed_on_and_taken_back_may_be_drawn() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.static_pod("ns/web-0", "a");
            stage.record(stage.person, "p", "10.0.0.1", "ns/web-0", "before");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "a");
            stage.compare("a", "eth0", &[("p", "10.0.0.1")]);
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "a");
            stage.answer("ns/web-0", "a", "eth0", FIRST);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }
}
