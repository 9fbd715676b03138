//! A L3: records and endpoints agree.

use std::net::IpAddr;

use ipam_spiderpool::ipam::PATIENCE;
use kube_machinery::ObjectKey;

use super::pods_get_addresses::waits_for_reclaim;
use super::view::{Pod, Release, View, addresses_of, is_migration, uid_of};
use super::{IpamClaim, told};
use crate::workload::Refusal;

/// Eventually every record of an existing pod is in its endpoint, and every address in the endpoint of a live pod is recorded for it.
///
/// Not judged are pods that are terminating or have an open request, and records of pods whose last request the rules left without a pool
/// or found the predecessor's endpoint waiting for reclaim: what an earlier life of the agent recorded for such a pod (A W1) is found by
/// the request that finally serves it, or by its DEL. The record of a VM may name another pod of it whose migration failed (A W28), and so
/// may its endpoint: both are under the VM's name, and the address is not allocated while the VM exists. The record of a pod that was
/// refused when it asked last may be in the endpoint of its gone predecessor. Inconsistencies from before the run, as in a dump, end with
/// their pods. So do records that were made unreadable by hand while the pod's last request looked: an agent that has restarted cannot know
/// of them, and nothing takes back a record of a live pod (G P-6). The same holds for addresses that a request had no time left to take
/// back when it answered the pod: the pod's DEL finds them.
///
/// Broken by `lost-reply-takes-next-pool`, `partial-failure-keeps-records`, `limiter-ignores-deadline`, `endpoint-delete-by-name`,
/// `partial-pool-change-recreates` and `nameless-entry-lost`. Records of pods that are gone are the business of reclaim.
pub(crate) struct RecordsEqualEndpoints;

impl IpamClaim for RecordsEqualEndpoints {
    fn pending(&self, view: &View) -> Option<String> {
        let mut wrong = Vec::new();
        for (name, pool) in view.pools.iter() {
            for (key, record) in pool.records().iter() {
                let Some(pod) = view
                    .pods
                    .get(&record.pod_uid)
                    .filter(|pod| is_settled(view, &record.pod_uid, pod) && !is_refused(view, &record.pod_uid, pod))
                else {
                    continue;
                };
                let Some(address) = key.address() else { continue };
                let endpoint = view.endpoint_of(pod).map(|(endpoint, _)| endpoint);
                let own = endpoint.filter(|endpoint| {
                    let of = uid_of(endpoint);
                    of == record.pod_uid || is_migration(view, &record.pod_uid, of) || waits_for_the_rest(view, &record.pod_uid, pod, of)
                });
                // Nearly all records are listed. Whether the others are judged is asked last, because it costs most.
                let is_listed = own.is_some_and(|own| addresses_of(own).any(|(_, pool, other)| *pool == **name && other == address));
                let is_judged = || {
                    !view.changes.touched(address)
                        && !view.began_unnamed(name, address)
                        && !view.is_hidden_since_answered(name, address, &record.pod_uid)
                        && !is_left_to_del(view, &record.pod_uid, name, address)
                };
                if !is_listed && is_judged() {
                    wrong.push(format!("{address} of {name} is recorded for {} and not in its endpoint", pod.key));
                }
            }
        }
        for (uid, pod) in view.pods.present().filter(|(uid, pod)| pod.is_alive() && is_settled(view, uid, pod)) {
            let Some((endpoint, touched)) = view.endpoint_of(pod) else { continue };
            if touched || uid_of(endpoint) != &**uid {
                continue;
            }
            for (_, pool, address) in addresses_of(endpoint).filter(|(.., address)| !view.changes.touched(*address)) {
                let own = |of: &str| *of == **uid || is_migration(view, uid, of);
                let is_held = view.pools.holder(pool, address).is_some_and(|holder| own(&holder.record.pod_uid));
                if !is_held && !view.began_unrecorded(ObjectKey::of(&**endpoint).as_str(), pool, address) {
                    wrong.push(format!("{address} of {pool} is in the endpoint of {} and not recorded for it", pod.key));
                }
            }
        }
        told(["address is only recorded, or only in an endpoint", "addresses are only recorded, or only in an endpoint"], wrong)
    }
}

fn is_settled(view: &View, uid: &str, pod: &Pod) -> bool {
    let on_lost_node = pod.node().is_some_and(|node| view.out_of_reach.names.contains(node));
    !pod.gone && !pod.is_terminating() && !on_lost_node && !view.agents.is_asked(uid)
}

/// Whether the pod could not be served when it asked last.
fn is_refused(view: &View, uid: &str, pod: &Pod) -> bool {
    view.ledger.last(uid).is_some_and(|last| match last.refusal {
        Some(Refusal::NoPool | Refusal::WrongInput) => last.agreed,
        Some(Refusal::Predecessor) => waits_for_reclaim(view, uid, pod),
        _ => false,
    })
}

/// Whether a pod that was refused when it asked last may have taken over the records of its gone predecessor, whose endpoint it takes over
/// with them once it gets everything that it asks for (A §6.3).
fn waits_for_the_rest(view: &View, uid: &str, pod: &Pod, predecessor: &str) -> bool {
    let is_refused = view.ledger.last(uid).is_some_and(|last| last.refusal.is_some());
    is_refused && pod.place.is_some() && view.pods.get(predecessor).is_some_and(|before| before.gone && before.place == pod.place)
}

/// Whether the last answered request for the pod was out of time when it reported that it could not take this back.
fn is_left_to_del(view: &View, uid: &str, pool: &str, address: IpAddr) -> bool {
    view.ledger.last(uid).is_some_and(|last| {
        // The clock of an agent may run a tenth faster.
        let is_out_of_time = last.refusal.is_none() && last.said.at - last.began >= PATIENCE * 9 / 10;
        let fails =
            |release: &Release| release.said.at >= last.began && release.ended.is_some() && !release.ok && release.covers(pool, address);
        is_out_of_time && view.ledger.releases(uid).iter().any(fails)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_spiderpool::SpiderEndpoint;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube_machinery::ObjectKey;
    use kube_machinery::json_text::JsonText;

    use super::super::testing::{Stage, on_stage};
    use crate::workload::{Cause, Refusal};

    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    fn with_pod(test: impl FnOnce(&mut Stage)) {
        on_stage("records-equal-endpoints", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", FIRST);
            assert_eq!(stage.pending(), None);
            test(stage);
        });
    }

    #[test]
    fn a_record_that_is_in_no_endpoint_is_a_leak_while_its_pod_exists() {
        with_pod(|stage| {
            stage.record(stage.agent, "p", "10.0.0.2", "ns/a", "a");
            assert!(stage.pending().unwrap().contains("10.0.0.2 of p is recorded for ns/a and not in its endpoint"));
            stage.ask("ns/a", "a", "eth0");
            assert_eq!(stage.pending(), None, "a request is open");
            stage.answer("ns/a", "a", "eth0", FIRST);
            assert!(stage.pending().is_some());
            stage.pod_gone("ns/a");
            assert_eq!(stage.pending(), None);
        });
    }

    #[test]
    fn what_a_request_has_no_time_left_to_take_back_is_left_to_del() {
        // The duration of the request, and whether it finally manages to release the record.
        for (seconds, released, is_leak) in [(100, false, false), (20, false, true), (100, true, true)] {
            with_pod(|stage| {
                stage.ask("ns/a", "a", "eth0");
                stage.record(stage.agent, "p", "10.0.0.2", "ns/a", "a");
                stage.pass(Duration::from_secs(seconds));
                stage.release("ns/a", "a", Cause::PoolChange, &[("p", "10.0.0.2")]);
                stage.released("ns/a", "a", Cause::PoolChange, released);
                stage.answer("ns/a", "a", "eth0", FIRST);
                assert_eq!(stage.pending().is_some(), is_leak, "{seconds} s, released: {released}");
                // Another request had the time.
                stage.ask("ns/a", "a", "eth0");
                stage.answer("ns/a", "a", "eth0", FIRST);
                assert!(stage.pending().is_some());
            });
        }
    }

    #[test]
    fn a_record_that_hands_hid_when_its_pod_was_answered_is_a_leak_once_it_is_asked_about_again() {
        for (hidden, is_leak) in [(true, false), (false, true)] {
            on_stage("records-equal-endpoints", |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pool("q", &["10.0.1.1-10.0.1.9"]);
                stage.pod("ns/a", "a");
                // An earlier life of the agent left it.
                stage.record_for(stage.agent, "p", "10.0.0.1", "a", "eth0");
                let text = |stage: &mut Stage, change: fn(&str) -> String| {
                    stage.pass(Duration::from_secs(1));
                    stage.change_pool(stage.person, "p", |pool| {
                        let status = pool.status.as_mut().unwrap();
                        status.allocated_ips = JsonText::verbatim(change(status.allocated_ips.text()));
                    });
                    stage.pass(Duration::from_secs(1));
                };
                let second = &[("eth0", "q", "10.0.1.1")];
                text(stage, |records| format!("~{records}"));
                if hidden {
                    stage.add("ns/a", "a", second);
                }
                text(stage, |records| records.trim_start_matches('~').to_owned());
                if !hidden {
                    stage.add("ns/a", "a", second);
                }
                assert_eq!(stage.pending().is_some(), is_leak, "{:?}", stage.pending());
                // A repeated request can see it.
                stage.ask("ns/a", "a", "eth0");
                stage.answer("ns/a", "a", "eth0", second);
                assert!(stage.pending().unwrap().contains("10.0.0.1 of p is recorded for ns/a and not in its endpoint"));
            });
        }
    }

    #[test]
    fn an_address_of_an_endpoint_that_is_not_recorded_is_missed() {
        with_pod(|stage| {
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert!(stage.pending().unwrap().contains("10.0.0.1 of p is in the endpoint of ns/a and not recorded for it"));
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.endpoint_gone(stage.agent, "ns/a");
            assert!(stage.pending().is_some());
        });
    }

    #[test]
    fn the_record_of_a_vm_may_say_another_pod_of_it_and_no_other() {
        on_stage("records-equal-endpoints", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            for uid in ["source", "target"] {
                stage.vm_pod(&format!("ns/{uid}"), uid, "vm");
            }
            stage.endpoint(stage.agent, "ns/vm", "source", FIRST);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "target");
            stage.pod_gone("ns/target");
            assert_eq!(stage.pending(), None);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/b", "b");
            assert!(stage.pending().unwrap().contains("10.0.0.1 of p is in the endpoint of ns/source and not recorded for it"));
        });
        on_stage("records-equal-endpoints", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            for uid in ["source", "target"] {
                stage.vm_pod(&format!("ns/{uid}"), uid, "vm");
            }
            stage.endpoint(stage.agent, "ns/vm", "target", FIRST);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "source");
            stage.pod_gone("ns/target");
            assert_eq!(stage.pending(), None, "the endpoint says the other one");
            stage.record(stage.agent, "p", "10.0.0.2", "ns/vm", "source");
            assert!(stage.pending().unwrap().contains("10.0.0.2 of p is recorded for ns/source and not in its endpoint"));
        });
    }

    #[test]
    fn what_is_recorded_for_a_pod_that_waits_for_reclaim_is_no_leak_as_long_as_it_waits() {
        with_pod(|stage| {
            stage.pod_gone("ns/a");
            stage.pod("ns/a", "b");
            stage.record(stage.agent, "p", "10.0.0.2", "ns/a", "b");
            stage.refuse("ns/a", "b", "eth0", Refusal::Predecessor);
            assert!(stage.pending().is_some(), "the predecessor's endpoint is not being deleted");
            stage.change::<SpiderEndpoint>(stage.kubelet, &ObjectKey::namespaced("ns", "a"), |endpoint| {
                endpoint.metadata.finalizers = Some(vec!["f".to_owned()]);
                endpoint.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            });
            assert_eq!(stage.pending(), None);
            stage.refuse("ns/a", "b", "eth0", Refusal::Blocked);
            assert!(stage.pending().is_some(), "it was refused for another reason");
            stage.refuse("ns/a", "b", "eth0", Refusal::Predecessor);
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert!(stage.pending().is_some(), "nothing is left to release");
        });
    }

    #[test]
    fn what_a_refused_pod_took_over_is_in_its_predecessors_endpoint_and_is_no_leak() {
        // Whether the address is one of the predecessor's, and whether the pod is refused.
        for (inherited, refused, is_leak) in [(true, true, false), (false, true, true), (true, false, true)] {
            on_stage("records-equal-endpoints", |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.stateful_set("ns/web", 1);
                stage.static_pod("ns/web-0", "old");
                stage.add("ns/web-0", "old", FIRST);
                stage.pod_gone("ns/web-0");
                stage.static_pod("ns/web-0", "new");
                stage.ask("ns/web-0", "new", "eth0");
                let address = if inherited { "10.0.0.1" } else { "10.0.0.2" };
                stage.record(stage.agent, "p", address, "ns/web-0", "new");
                if refused {
                    stage.refuse("ns/web-0", "new", "eth0", Refusal::UsedOut);
                } else {
                    stage.answer("ns/web-0", "new", "eth0", FIRST);
                }
                assert_eq!(stage.pending().is_some(), is_leak, "inherited: {inherited}, refused: {refused}");
            });
        }
    }

    #[test]
    fn what_a_person_touched_is_not_judged() {
        with_pod(|stage| {
            stage.unrecord(stage.person, "p", "10.0.0.1");
            assert_eq!(stage.pending(), None);
        });
    }
}
