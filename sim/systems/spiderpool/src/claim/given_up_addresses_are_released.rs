//! A §6.3: addresses that a pod of a place does not take over from its predecessor are released.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::SpiderEndpoint;
use kube_machinery::FxHashMap;
use kube_sim::rt::ProcessId;

use super::view::{EndpointChange, EventMask, Place, Seen, Shown, View, addresses_of, uid_of};
use super::{Findings, IpamClaim, violated};
use crate::workload::IpamNote;

/// An address that an agent has removed from an endpoint: the pool, the address, and the UID of the predecessor that it is recorded for.
#[derive(Debug)]
struct GivenUp {
    pool: Arc<str>,
    address: IpAddr,
    key: Arc<str>,
    uid: Arc<str>,
}

/// An agent that takes over the endpoint of a predecessor without one of its addresses has released that address when it answers the pod
/// with another: no endpoint names the address any more, so that without reclaim nothing would ever find it.
///
/// It judges addresses that were recorded for the predecessor when the endpoint was written, in places of StatefulSets that are kept and
/// whose pods were certainly no orphans, once no other request for the pod is open at the agent. A release that was announced and failed is
/// left to reclaim, and so is an address given up by an agent that crashed before it could release it.
#[derive(Default)]
pub(crate) struct GivenUpAddressesAreReleased {
    /// The addresses by agent and the UID of the pod that takes over.
    given_up: FxHashMap<(ProcessId, Arc<str>), Vec<GivenUp>>,
}

impl IpamClaim for GivenUpAddressesAreReleased {
    fn event_mask(&self) -> EventMask {
        EventMask::ENDPOINT.and(EventMask::ASKED).and(EventMask::ANSWER)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Endpoint(ref change) => self.taken_over(change, view),
            // Addresses that an earlier life of the agent gave up are forgotten; without reclaim they stay, as after any crash (A W1).
            Seen::Ipam(by, IpamNote::AddBegun { uid, .. }) if view.agents.asked(by, uid).next().is_none() => {
                self.given_up.remove(&(by, uid.clone()));
            }
            Seen::Ipam(by, IpamNote::AddEnded { uid, result, .. }) => {
                if result.is_ok() && view.agents.asked(by, uid).count() > 1 {
                    return;
                }
                let given_up = self.given_up.remove(&(by, uid.clone())).unwrap_or_default();
                for GivenUp { pool, address, key, uid: before } in given_up.iter().filter(|_| result.is_ok()) {
                    findings.exercised();
                    let is_named = || {
                        let endpoint = view.endpoints.get(key);
                        endpoint.is_some_and(|endpoint| addresses_of(endpoint).any(|(_, of, named)| *of == **pool && named == *address))
                    };
                    let last = || view.ledger.releases(before).iter().rev().find(|release| release.covers(pool, *address));
                    let has_failed = || last().is_some_and(|release| !release.ok);
                    if !is_recorded(view, pool, *address, key, before) || is_named() || has_failed() {
                        continue;
                    }
                    violated(findings, view.changes.touched(*address) || view.changes.touched_endpoint(key), || {
                        vec![
                            format!(
                                "{} answers {} and leaves {address} of pool {pool} recorded for its predecessor {}",
                                view.name(by),
                                view.pod_of(uid),
                                view.pod_of(before)
                            ),
                            view.story_of(pool, *address),
                        ]
                    });
                }
            }
            _ => {}
        }
    }
}

impl GivenUpAddressesAreReleased {
    /// Notes the addresses that are left out by a write which makes an endpoint that of another pod.
    fn taken_over(&mut self, change: &EndpointChange, view: &View) {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { return };
        let (of, now) = (uid_of(before), uid_of(after));
        if of == now || !view.agents.is_agent(change.said.by) {
            return;
        }
        // An orphan is served as a pod without an owner (A §6.1), and the endpoint of another owner is not inherited (A §5.7). The request
        // decides by what the agent was shown before it.
        let (at, shown) = (change.said.at, view.agents.shown_before_add(change.said.by, now, Shown::Pods));
        let has_its_place = |uid: &str| {
            let pod = view.pods.get(uid).filter(|pod| !pod.may_have_seemed_orphan(at, shown));
            pod.and_then(|pod| pod.place.as_ref()).is_some_and(|place| view.keeps_places(place) && is_of_the_set(before, place))
        };
        if !has_its_place(of) || !has_its_place(now) {
            return;
        }
        let is_left_out = |address: IpAddr| !addresses_of(after).any(|(.., named)| named == address);
        let is_recorded = |pool: &str, address| is_recorded(view, pool, address, &change.key, of);
        let left_out = addresses_of(before).filter(|(_, pool, address)| is_left_out(*address) && is_recorded(pool, *address));
        let given_up: Vec<GivenUp> =
            left_out.map(|(_, pool, address)| GivenUp { pool: pool.into(), address, key: change.key.clone(), uid: of.into() }).collect();
        if !given_up.is_empty() {
            self.given_up.entry((change.said.by, now.into())).or_default().extend(given_up);
        }
    }
}

/// Whether an endpoint names the StatefulSet of a place as the owner of its pod.
fn is_of_the_set(endpoint: &SpiderEndpoint, place: &Place) -> bool {
    let (Place::Ordinal(set, _), Some(status)) = (place, &endpoint.status) else { return false };
    status.owner_controller_type == "StatefulSet" && set.rsplit('/').next() == Some(&*status.owner_controller_name)
}

/// Whether a pool has an address recorded for the pod of this key and UID.
fn is_recorded(view: &View, pool: &str, address: IpAddr, key: &str, uid: &str) -> bool {
    view.pools.holder(pool, address).is_some_and(|holder| holder.record.pod == key && holder.record.pod_uid == uid)
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderEndpoint;
    use k8s_openapi::api::core::v1::Pod;
    use kube_machinery::ObjectKey;
    use kube_sim::trace::ProcessChange;

    use super::super::testing::{Addresses, Stage, on_stage};
    use crate::workload::{Cause, Refusal};

    const OLD: Addresses<'static> = &[("eth0", "p", "10.0.0.1")];
    const NEW: Addresses<'static> = &[("eth0", "q", "10.0.1.1")];

    /// The next pod of a place takes over its predecessor's endpoint with another address.
    fn taken_over(test: impl FnOnce(&mut Stage)) {
        taken_over_from("web", test);
    }

    /// Like `taken_over`, where the endpoint names this owner.
    fn taken_over_from(owner: &str, test: impl FnOnce(&mut Stage)) {
        taken_over_after(owner, |_| {}, |_| {}, test);
    }

    /// Like `taken_over_from`, where something happens before the request for the next pod, and during it.
    fn taken_over_after(owner: &str, before: fn(&mut Stage), during: fn(&mut Stage), test: impl FnOnce(&mut Stage)) {
        on_stage("given-up-addresses-are-released", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pool("q", &["10.0.1.1-10.0.1.9"]);
            stage.static_pod("ns/web-0", "a");
            stage.add("ns/web-0", "a", OLD);
            stage.change::<SpiderEndpoint>(stage.agent, &ObjectKey::namespaced("ns", "web-0"), |endpoint| {
                let status = endpoint.status.get_or_insert_default();
                (status.owner_controller_type, status.owner_controller_name) = ("StatefulSet".to_owned(), owner.to_owned());
            });
            stage.pod_gone("ns/web-0");
            stage.static_pod("ns/web-0", "b");
            before(stage);
            stage.ask("ns/web-0", "b", "eth0");
            during(stage);
            stage.record(stage.agent, "q", "10.0.1.1", "ns/web-0", "b");
            stage.endpoint(stage.agent, "ns/web-0", "b", NEW);
            test(stage);
        });
    }

    #[test]
    fn what_is_left_out_of_the_endpoint_and_stays_recorded_is_a_violation() {
        taken_over(|stage| {
            stage.answer("ns/web-0", "b", "eth0", NEW);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
            assert!(stage.detail()[0].contains("leaves 10.0.0.1 of pool p recorded for its predecessor"), "{:?}", stage.detail());
        });
        taken_over(|stage| {
            stage.release("ns/web-0", "a", Cause::PoolChange, &[("p", "10.0.0.1")]);
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            stage.released("ns/web-0", "a", Cause::PoolChange, true);
            stage.answer("ns/web-0", "b", "eth0", NEW);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn a_release_that_failed_is_left_to_reclaim() {
        taken_over(|stage| {
            stage.release("ns/web-0", "a", Cause::PoolChange, &[("p", "10.0.0.1")]);
            stage.released("ns/web-0", "a", Cause::PoolChange, false);
            stage.answer("ns/web-0", "b", "eth0", NEW);
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn the_endpoint_of_another_owner_gives_nothing_up() {
        taken_over_from("web-0", |stage| {
            stage.answer("ns/web-0", "b", "eth0", NEW);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }

    #[test]
    fn an_orphan_that_is_adopted_during_its_request_gives_nothing_up() {
        let orphaned = |stage: &mut Stage| {
            stage.is_of("ns/web-0", None);
            stage.deliver::<Pod>(stage.agent);
        };
        let adopted = |stage: &mut Stage| {
            stage.is_of("ns/web-0", Some("next"));
            stage.deliver::<Pod>(stage.agent);
        };
        taken_over_after("web", orphaned, adopted, |stage| {
            stage.answer("ns/web-0", "b", "eth0", NEW);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
        let both = |stage: &mut Stage| {
            stage.is_of("ns/web-0", None);
            stage.is_of("ns/web-0", Some("next"));
            stage.deliver::<Pod>(stage.agent);
        };
        taken_over_after(
            "web",
            both,
            |_| {},
            |stage| {
                stage.answer("ns/web-0", "b", "eth0", NEW);
                assert_eq!(stage.excuses(), [None]);
            },
        );
    }

    #[test]
    fn what_an_agent_gave_up_before_it_crashed_is_left_to_reclaim() {
        taken_over(|stage| {
            stage.process_changes(stage.agent, ProcessChange::Crashed);
            stage.process_changes(stage.agent, ProcessChange::Started);
            stage.ask("ns/web-0", "b", "eth0");
            stage.answer("ns/web-0", "b", "eth0", NEW);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }

    #[test]
    fn a_refused_request_and_one_beside_another_are_not_judged() {
        taken_over(|stage| {
            stage.refuse("ns/web-0", "b", "eth0", Refusal::Api);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
        taken_over(|stage| {
            stage.ask("ns/web-0", "b", "net1");
            stage.answer("ns/web-0", "b", "net1", NEW);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
            stage.answer("ns/web-0", "b", "eth0", NEW);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
        });
    }
}
