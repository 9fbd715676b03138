//! A L1: pods get addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use kube_machinery::FxHashSet;

use super::view::{Last, Pod, View, addresses_of, uid_of};
use super::{IpamClaim, told};
use crate::workload::Refusal;

/// The time difference after which a pool is certainly younger: no write is carried out so long after it was sent.
const SURELY_OLDER: SignedDuration = SignedDuration::from_secs(60);

/// Eventually every pod that is alive, bound and not on the network of its node has a live sandbox with an address. A pod that has ended is
/// not alive, even where Spiderpool considers it so (A §7.2): no kubelet restarts its containers, whatever its restartPolicy says. The
/// claim does not wait for pods on nodes that are down or partitioned permanently, nor for pods that cannot be served: the last request
/// found no pool by the rules, the workload does not exist, the pools have too few free addresses for the NICs, or one NIC has only pools
/// that overlap others and are not certainly the older ones: such pools are withheld until one of them is removed (A W18). Nor does it wait
/// for a pod whose predecessor's endpoint is being deleted while addresses are recorded for the predecessor, which is gone: its DEL was
/// lost, and without reclaim it is unknown whether its sandbox exists.
///
/// Broken by `foreign-record-blocks`, `partial-pool-change-recreates`, `conflict-returns-same-address`, `wildcard-duplicates-fail`,
/// `multus-always-resolved` and `late-endpoint-create-fails`. It does not examine why a pool is full: leaked records are the business of
/// `records-equal-endpoints`.
pub(crate) struct PodsGetAddresses;

impl IpamClaim for PodsGetAddresses {
    fn pending(&self, view: &View) -> Option<String> {
        let served: FxHashSet<&Arc<str>> =
            view.sandboxes.iter().filter(|(_, sandbox)| !sandbox.nics.is_empty()).map(|(_, sandbox)| &sandbox.uid).collect();
        let waits = |(uid, pod): &(&Arc<str>, &Pod)| {
            let lives = pod.is_alive() && pod.since.ended.is_none();
            lives && !pod.is_on_host_network() && is_in_reach(view, pod) && !served.contains(uid) && can_be_served(view, uid, pod)
        };
        let waiting = view.pods.present().filter(waits).map(|(uid, pod)| {
            let last = view.ledger.last(uid);
            let last = last.map_or("no agent answered a request for it".to_owned(), |last| match last.refusal {
                Some(refusal) => format!("last refused {}: {refusal}", view.by(last.said)),
                None => format!("last answered {}", view.by(last.said)),
            });
            format!("{} ({last})", pod.key)
        });
        told(["pod has no address", "pods have no address"], waiting.collect())
    }
}

/// Whether a pod's node exists and can be reached, so that the pod can be served.
pub(super) fn is_in_reach(view: &View, pod: &Pod) -> bool {
    let lost: &BTreeSet<String> = &view.out_of_reach.names;
    pod.node().is_some_and(|node| !lost.contains(node)) && !view.out_of_reach.pods.contains(&*pod.key)
}

/// Whether a pod could be served when it asked last. If one NIC was just answered, another may have been refused before, and is asked for
/// next.
pub(super) fn can_be_served(view: &View, uid: &str, pod: &Pod) -> bool {
    let Some(last) = view.ledger.last(uid) else { return true };
    let is_under_way = last.refusal.is_none();
    let refused = view.ledger.refused(uid).iter().filter(|_| is_under_way);
    [last].into_iter().chain(refused).all(|last| could_be_served(view, uid, pod, last))
}

fn could_be_served(view: &View, uid: &str, pod: &Pod, last: &Last) -> bool {
    match last.refusal {
        // If the selection agreed with the rules, these leave the pod without a pool.
        Some(Refusal::NoPool | Refusal::WrongInput) => !last.agreed && !is_orphan(view, pod),
        Some(Refusal::UsedOut) if !last.tried.is_empty() => {
            let (reserved, candidates) = (view.reservations.now(), Candidates::of(view, last));
            let is_free = |pool: &str| view.pools.get(pool).is_some_and(|pool| pool.free(&reserved, 1) > 0);
            // Each NIC needs one address of each family; if one cannot get any, all others are given back.
            candidates.each_has(is_free) && [4, 6].into_iter().all(|version| candidates.are_enough(view, version))
        }
        Some(Refusal::Blocked) => Candidates::of(view, last).each_has(|pool| !is_withheld(view, pool)),
        Some(Refusal::Predecessor) => !waits_for_reclaim(view, uid, pod),
        _ => true,
    }
}

/// Whether the workload that a pod names as its owner is gone: its entitlements are then unknown (A A2), and garbage collection deletes the
/// pod if the cluster knows the kind.
fn is_orphan(view: &View, pod: &Pod) -> bool {
    let mut owners = pod.object.metadata.owner_references.iter().flatten();
    let Some(owner) = owners.find(|owner| owner.controller == Some(true)) else { return false };
    let is_kubernetes = matches!(owner.api_version.as_str(), "apps/v1" | "batch/v1");
    is_kubernetes && view.applications.knows(&owner.api_version, &owner.kind) && view.applications.of_uid(&owner.uid).is_none()
}

/// The pools from which the last request for a pod could be served, by NIC and family: those that were selected, tried or not.
#[derive(Default)]
struct Candidates<'a>(BTreeMap<(&'a str, i64), OfNic<'a>>);

/// The candidates for one NIC and family.
#[derive(Default)]
struct OfNic<'a> {
    pools: BTreeSet<&'a str>,
    /// Whether one of them gave an address, which was given back if another NIC got none.
    served: bool,
}

impl<'a> Candidates<'a> {
    fn of(view: &View, last: &'a Last) -> Self {
        let mut candidates = Self::default();
        let version = |pool: &str| view.pools.get(pool).and_then(|pool| pool.object.spec.ip_version);
        for order in last.order.iter() {
            for pool in order.pools.iter().filter_map(|pool| pool.metadata.name.as_deref()) {
                if let Some(version) = version(pool) {
                    candidates.0.entry((&order.nic, version)).or_default().pools.insert(pool);
                }
            }
        }
        for tried in &last.tried {
            if let Some(version) = version(&tried.pool) {
                let of_nic = candidates.0.entry((&tried.nic, version)).or_default();
                of_nic.pools.insert(&tried.pool);
                of_nic.served |= tried.outcome.is_ok();
            }
        }
        candidates
    }

    /// Whether each NIC has, for each family, a pool that can serve it, or has been served.
    fn each_has(&self, can_serve: impl Fn(&str) -> bool) -> bool {
        self.0.values().all(|of_nic| of_nic.served || of_nic.pools.iter().any(|pool| can_serve(pool)))
    }

    /// Whether the pools of a family have an address for each NIC that needs one.
    fn are_enough(&self, view: &View, version: i64) -> bool {
        let of_family = || self.0.iter().filter(|((_, other), _)| *other == version);
        let pools: BTreeSet<&str> = of_family().flat_map(|(_, of_nic)| of_nic.pools.iter().copied()).collect();
        let (reserved, nics) = (view.reservations.now(), of_family().count());
        let free = |pool: &str| view.pools.get(pool).map_or(0, |pool| pool.free(&reserved, nics));
        pools.into_iter().map(free).sum::<usize>() >= nics
    }
}

/// Whether a pool overlaps a pool than which it is not certainly older: it was created later, or not long enough before it, or its own
/// ranges were changed since its creation. API servers set the creation time before they store the object, which can take long.
fn is_withheld(view: &View, pool: &str) -> bool {
    let made = |name: &str| Some(view.pools.get(name)?.object.metadata.creation_timestamp.as_ref()?.0);
    let (Some(own), Some(info)) = (made(pool), view.pools.get(pool)) else { return false };
    let is_changed = info.object.metadata.generation != Some(1);
    view.pools.overlaps.with(pool).filter_map(|other| made(other)).any(|other| is_changed || other.duration_since(own) <= SURELY_OLDER)
}

/// Whether the endpoint under a pod's name is being deleted and belongs to a gone pod that still has records.
pub(super) fn waits_for_reclaim(view: &View, uid: &str, pod: &Pod) -> bool {
    let Some((endpoint, _)) = view.endpoint_of(pod) else { return false };
    let predecessor = uid_of(endpoint);
    let is_gone = predecessor != uid && view.pods.get(predecessor).is_none_or(|pod| pod.gone);
    let is_recorded = |(_, pool, address)| view.pools.holder(pool, address).is_some_and(|holder| holder.record.pod_uid == predecessor);
    is_gone && endpoint.metadata.deletion_timestamp.is_some() && addresses_of(endpoint).any(is_recorded)
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderEndpoint;
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Pod as PodObject;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube_machinery::ObjectKey;

    use super::super::testing::{Stage, on_stage};
    use super::*;
    use crate::oracle::Opinion;
    use crate::workload::IpamNote;
    use kube_sim::node::PodNote;

    fn with_pod(test: impl FnOnce(&mut Stage)) {
        on_stage("pods-get-addresses", |stage| {
            stage.pool("p", &["10.0.0.1"]);
            stage.pod("ns/a", "a");
            test(stage);
        });
    }

    #[test]
    fn a_pod_waits_until_a_sandbox_of_it_answers() {
        with_pod(|stage| {
            assert_eq!(stage.pending().unwrap(), "1 pod has no address: ns/a (no agent answered a request for it)");
            stage.sandbox("s", "ns/a", "a");
            assert!(stage.pending().is_some());
            stage.attach("s", "eth0", &["10.0.0.1"]);
            assert_eq!(stage.pending(), None);
            stage.node(PodNote::SandboxGone { sandbox: "s".into() });
            stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.1")]);
            assert!(stage.pending().unwrap().contains("last answered by agent-0"));
            stage.terminate("ns/a");
            assert_eq!(stage.pending(), None);
        });
    }

    #[test]
    fn a_pod_of_the_host_network_or_without_a_node_needs_none() {
        with_pod(|stage| {
            let key = ObjectKey::namespaced("ns", "a");
            stage.change::<PodObject>(stage.kubelet, &key, |pod| pod.spec.as_mut().unwrap().host_network = Some(true));
            assert_eq!(stage.pending(), None);
            stage.change::<PodObject>(stage.kubelet, &key, |pod| {
                let spec = pod.spec.as_mut().unwrap();
                (spec.host_network, spec.node_name) = (None, None);
            });
            assert_eq!(stage.pending(), None);
        });
    }

    #[test]
    fn whom_nothing_can_serve_is_not_waited_for() {
        with_pod(|stage| {
            stage.record(stage.agent, "p", "10.0.0.1", "ns/b", "b");
            stage.pool("q", &["10.0.0.9"]);
            for (selected, waits) in [(&["p", "q"][..], true), (&["p"], false)] {
                stage.ask("ns/a", "a", "eth0");
                stage.select("a", Opinion::Agrees, selected, 0);
                stage.try_pool("a", "p", Err(Refusal::UsedOut));
                stage.refuse("ns/a", "a", "eth0", Refusal::UsedOut);
                assert_eq!(stage.pending().is_some(), waits, "{selected:?}");
            }
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert!(stage.pending().is_some());
            stage.reserve("r", &["10.0.0.1"]);
            assert_eq!(stage.pending(), None);
            stage.refuse("ns/a", "a", "eth0", Refusal::Blocked);
            assert!(stage.pending().is_some());
        });
    }

    #[test]
    fn a_pod_whose_only_pool_overlaps_one_that_may_be_as_old_is_not_waited_for_and_others_are() {
        with_pod(|stage| {
            let refused = |stage: &mut Stage| {
                stage.ask("ns/a", "a", "eth0");
                stage.try_pool("a", "p", Err(Refusal::Blocked));
                stage.refuse("ns/a", "a", "eth0", Refusal::Blocked);
                stage.pending().is_none()
            };
            let made = |stage: &mut Stage, pool: &str, second: i64, generation: i64| {
                stage.change_pool(stage.person, pool, |pool| {
                    pool.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
                    pool.metadata.generation = Some(generation);
                });
            };
            made(stage, "p", 1_000, 1);
            assert!(!refused(stage), "nothing overlaps");
            stage.pool("twin", &["10.0.0.1-10.0.0.2"]);
            for (second, generation, withheld) in [(900, 1, true), (1_000, 1, true), (1_060, 1, true), (1_061, 1, false), (1_061, 2, true)]
            {
                made(stage, "twin", second, 1);
                made(stage, "p", 1_000, generation);
                assert_eq!(refused(stage), withheld, "the other one is made at {second}, and p is at generation {generation}");
            }
            made(stage, "p", 1_000, 1);
            made(stage, "twin", 900, 1);
            stage.pool("alone", &["10.0.0.7"]);
            stage.ask("ns/a", "a", "eth0");
            stage.select("a", Opinion::Agrees, &["p", "alone"], 0);
            stage.try_pool("a", "p", Err(Refusal::Blocked));
            stage.refuse("ns/a", "a", "eth0", Refusal::Blocked);
            assert!(stage.pending().is_some(), "another pool was selected and not tried");
            stage.ask("ns/a", "a", "eth0");
            stage.try_pool("a", "p", Err(Refusal::Blocked));
            stage.try_pool("a", "alone", Err(Refusal::Blocked));
            stage.refuse("ns/a", "a", "eth0", Refusal::Blocked);
            assert!(stage.pending().is_some(), "another pool of the NIC could serve");
        });
    }

    #[test]
    fn a_family_without_a_free_address_is_enough_to_wait_for_nothing() {
        with_pod(|stage| {
            stage.record(stage.agent, "p", "10.0.0.1", "ns/b", "b");
            stage.pool("six", &["fd00::1", "fd00::2"]);
            stage.ask("ns/a", "a", "eth0");
            stage.try_pool("a", "six", Ok("fd00::1"));
            stage.try_pool("a", "p", Err(Refusal::UsedOut));
            stage.refuse("ns/a", "a", "eth0", Refusal::UsedOut);
            assert_eq!(stage.pending(), None);
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert!(stage.pending().is_some());
        });
    }

    #[test]
    fn a_pod_needs_an_address_for_each_of_its_nics() {
        for (last, waits) in [(1, false), (2, true)] {
            on_stage("pods-get-addresses", |stage| {
                stage.pool("p", &[&format!("10.0.0.1-10.0.0.{last}")]);
                stage.pod("ns/a", "a");
                stage.ask("ns/a", "a", "eth0");
                stage.try_pool("a", "p", Ok("10.0.0.1"));
                let tried =
                    |nic: &str| IpamNote::Tried { uid: "a".into(), nic: nic.into(), pool: "p".into(), outcome: Err(Refusal::UsedOut) };
                stage.say(stage.agent, tried("net1"));
                stage.refuse("ns/a", "a", "eth0", Refusal::UsedOut);
                assert_eq!(stage.pending().is_some(), waits, "{last}");
            });
        }
    }

    #[test]
    fn who_waits_for_what_its_predecessor_has_waits_for_reclaim() {
        on_stage("pods-get-addresses", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1")]);
            stage.pod_gone("ns/a");
            stage.pod("ns/a", "b");
            stage.refuse("ns/a", "b", "eth0", Refusal::Predecessor);
            assert!(stage.pending().is_some(), "the endpoint is not being deleted");
            let key = ObjectKey::namespaced("ns", "a");
            stage.change::<SpiderEndpoint>(stage.kubelet, &key, |endpoint| {
                endpoint.metadata.finalizers = Some(vec!["f".to_owned()]);
                endpoint.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            });
            assert_eq!(stage.pending(), None);
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert!(stage.pending().is_some(), "nothing is left to release");
        });
    }

    #[test]
    fn a_nic_that_the_rules_leave_without_a_pool_is_not_waited_for_while_another_is_answered() {
        with_pod(|stage| {
            stage.ask("ns/a", "a", "eth0");
            stage.select("a", Opinion::Agrees, &[], 0);
            stage.refuse("ns/a", "a", "eth0", Refusal::NoPool);
            assert_eq!(stage.pending(), None);
            stage.add("ns/a", "a", &[("net1", "p", "10.0.0.1")]);
            assert_eq!(stage.pending(), None, "the next request is for the other NIC");
            stage.ask("ns/a", "a", "eth0");
            stage.answer("ns/a", "a", "eth0", &[("eth0", "p", "10.0.0.2")]);
            assert!(stage.pending().unwrap().contains("last answered by agent-0"));
        });
    }

    #[test]
    fn whom_the_rules_leave_without_a_pool_is_not_waited_for() {
        with_pod(|stage| {
            for (opinion, waits) in [(Opinion::Agrees, false), (Opinion::Differs("why".into()), true)] {
                stage.ask("ns/a", "a", "eth0");
                stage.select("a", opinion, &[], 0);
                stage.refuse("ns/a", "a", "eth0", Refusal::NoPool);
                assert_eq!(stage.pending().is_some(), waits);
            }
        });
    }
}
