//! G GS4, GS5: places keep their records.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::select::is_auto_pool;
use ipam_spiderpool::{PoolIPAllocation, SpiderEndpoint, SpiderIPPool};
use sim_config::time::SimTime;

use super::super::view::{Announced, EventMask, Place, Pod, PoolChange, Seen, View, addresses_of, has_ips, is_of_set, sim_time, uid_of};
use super::super::{Findings, IpamClaim};
use super::{ends, is_marked, violated, without_ips};

/// While a StatefulSet covers an ordinal, or a VM is valid, no replica of the controller removes the record of that place or marks its
/// endpoint, whether its pod exists or not.
///
/// A place that was gone at some time since the replica asked for its owner keeps nothing (EX4: scaled down and up), nor does one whose
/// endpoint was marked while it was gone: that release is completed. A place whose later pod answers on other addresses, or did when the
/// replica asked for it, does not need the old one (U-1), and no later pod gets an address of an auto pool that is being deleted (S-4p).
/// Addresses that an orphan was given for the first time go with it, even if a StatefulSet has adopted it since: its endpoint says whose it
/// was then, and once the pod is gone a DEL and reclaim go by that (A §6.1, A §7.1, S-4, U-2i). A record that no endpoint keeps for a pod
/// of the set goes when an orphan or an ordinary pod has the name (U-3). Broken by `empty-pod-ips-means-gone`,
/// `static-uid-mismatch-frees`, `families-race-on-endpoint`, `endpoint-removed-after-failed-release`, `vm-record-without-owner-check` and
/// `scan-trusts-cached-pod`. It does not judge places that the settings treat as ordinary pods.
pub(crate) struct PlacesKeepTheirRecords;

impl IpamClaim for PlacesKeepTheirRecords {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL.and(EventMask::ENDPOINT)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match seen {
            Seen::Pool(change) if change.by_replica => {
                for (address, before) in change.edits.iter().filter_map(|edit| edit.taken()) {
                    let uid = &*before.pod_uid;
                    let Some(place) = place_of(view, uid) else { continue };
                    findings.exercised();
                    let announced = view.replicas.announced(change.said.by, &change.pool, address, uid).map(|announced| &**announced);
                    let endpoint = view.endpoints.get(&before.pod).filter(|endpoint| uid_of(endpoint) == uid);
                    let over = endpoint.is_some_and(|endpoint| is_marked(endpoint) || goes_with_orphan(view, uid, endpoint));
                    if over
                        || ends_with_its_pool(view, change, uid, place)
                        || !is_kept(view, place, announced)
                        || serves_otherwise(view, uid, place, address, read(announced))
                        || goes_to_namesake(view, before, place, address, read(announced))
                    {
                        continue;
                    }
                    violated(findings, without_ips(view, uid, announced), view.changes.touched(address), || {
                        vec![
                            format!("{address} of pool {} is reclaimed of {}, and {}", change.pool, view.pod_of(uid), told(place)),
                            view.story_of_write(change),
                            view.story_of(&change.pool, address),
                        ]
                    });
                }
            }
            Seen::Endpoint(change) if change.by_replica => {
                let (Some(before), Some(what)) = (&change.before, ends(change)) else { return };
                let uid = uid_of(before);
                let over = is_marked(before) || goes_with_orphan(view, uid, before);
                let Some(place) = place_of(view, uid).filter(|_| !over) else { return };
                findings.exercised();
                let announced = view.replicas.announced_endpoint(change.said.by, &change.key).map(|announced| &**announced);
                let mut addresses = addresses_of(before);
                let otherwise = |address| serves_otherwise(view, uid, place, address, read(announced));
                if !is_kept(view, place, announced) || addresses.all(|(.., address)| otherwise(address)) {
                    return;
                }
                violated(findings, without_ips(view, uid, announced), view.changes.touched_endpoint(&change.key), || {
                    vec![format!("endpoint {} of {} {what} {}, and {}", change.key, view.pod_of(uid), view.by(change.said), told(place))]
                });
            }
            _ => {}
        }
    }
}

/// Whether a record goes with its pod because its auto pool is being deleted and no pod gets an address of it any more (A §8.6).
fn ends_with_its_pool(view: &View, change: &PoolChange, uid: &str, place: &Place) -> bool {
    let is_ending = |pool: &Arc<SpiderIPPool>| pool.metadata.deletion_timestamp.is_some() && is_auto_pool(pool);
    matches!(place, Place::Ordinal(..)) && change.before.as_ref().is_some_and(is_ending) && view.pods.get(uid).is_none_or(|pod| pod.gone)
}

/// The place of a pod. `None` for an orphan: the write under judgement may be the one that removes the evidence.
fn place_of<'a>(view: &'a View, uid: &str) -> Option<&'a Place> {
    view.keeping_place(view.pods.get(uid).filter(|pod| !pod.is_orphan())?)
}

/// Whether an endpoint belongs to a gone pod that was an orphan when it was given the addresses in the endpoint.
fn goes_with_orphan(view: &View, uid: &str, endpoint: &SpiderEndpoint) -> bool {
    let was_orphan = |pod: &Pod| pod.gone && matches!(pod.place, Some(Place::Ordinal(..))) && pod.was_orphan_since(SimTime::ZERO);
    !is_of_set(endpoint) && view.pods.get(uid).is_some_and(was_orphan)
}

/// Whether a place has existed at all times since the replica can have asked for it for a release.
fn is_kept(view: &View, place: &Place, announced: Option<&Announced>) -> bool {
    let since = announced.map_or(u64::MAX, |announced| announced.decided);
    view.places.is_there(place) && view.places.were_there_since(place, since)
}

/// The time since which a replica can have known the pods for a release.
fn read(announced: Option<&Announced>) -> SimTime {
    announced.map_or(SimTime::NEVER, |announced| announced.read)
}

/// Whether a later pod of the place answers only on other addresses than this one, now or at some time since `since`.
fn serves_otherwise(view: &View, uid: &str, place: &Place, address: IpAddr, since: SimTime) -> bool {
    view.pods.present_since(since).any(|(other, pod)| {
        let ips = pod.object.status.as_ref().and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
        let mut read = ips.filter_map(|shown| shown.ip.parse::<IpAddr>().ok());
        **other != *uid && pod.place.as_ref() == Some(place) && has_ips(&pod.object) && read.all(|shown| shown != address)
    })
}

/// Whether a pod that is not the set's has the name of a record, or had it at a time since `since`, and no endpoint lets a pod of the set
/// inherit the address. An endpoint of the set does, unless it is that pod's own and names other addresses.
fn goes_to_namesake(view: &View, record: &PoolIPAllocation, place: &Place, address: IpAddr, since: SimTime) -> bool {
    let endpoint = view.endpoints.get(&record.pod).filter(|endpoint| is_of_set(endpoint));
    let is_kept = |other: &str| {
        endpoint.is_some_and(|endpoint| uid_of(endpoint) != other || addresses_of(endpoint).any(|(.., named)| named == address))
    };
    let is_namesake = |pod: &Pod| *pod.key == *record.pod && (pod.place.is_none() || pod.was_orphan_since(since));
    let mut others = view.pods.present_since(since).filter(|(other, _)| ***other != *record.pod_uid);
    matches!(place, Place::Ordinal(..)) && others.any(|(other, pod)| is_namesake(pod) && !is_kept(other))
}

/// The time since which a later pod of the ordinal has run and answered only on other addresses, by its status: a pod that left Spiderpool
/// or was given another address. `None` = there is none, or the place is not that of an ordinal.
pub(super) fn served_otherwise_since(view: &View, uid: &str, address: IpAddr) -> Option<SimTime> {
    let own = view.keeping_place(view.pods.get(uid)?);
    let place = own.filter(|place| matches!(place, Place::Ordinal(..)) && serves_otherwise(view, uid, place, address, SimTime::NEVER))?;
    let ready = |pod: &Pod| {
        let conditions = pod.object.status.as_ref()?.conditions.as_ref()?;
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
        Some(sim_time(ready.last_transition_time.as_ref()?.0))
    };
    view.pods.present().filter(|(other, pod)| ***other != *uid && pod.place.as_ref() == Some(place)).find_map(|(_, pod)| ready(pod))
}

fn told(place: &Place) -> String {
    match place {
        Place::Ordinal(set, ordinal) => format!("StatefulSet {set} wants ordinal {ordinal}"),
        Place::Vm(vmi) => format!("VM {vmi} is there"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_spiderpool::SpiderEndpoint;
    use ipam_spiderpool::names::LABEL_OWNER_APPLICATION_NAME;
    use k8s_openapi::api::apps::v1::StatefulSet;
    use kube_machinery::ObjectKey;
    use serde_json::json;

    use super::super::super::testing::{Stage, on_stage, on_stage_with};

    const CLAIM: &str = "places-keep-their-records";
    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    fn set_up(stage: &mut Stage) {
        stage.pool("p", &["10.0.0.1-10.0.0.9"]);
        stage.stateful_set("ns/web", 2);
        stage.static_pod("ns/web-1", "a");
        stage.add("ns/web-1", "a", FIRST);
    }

    fn asks(stage: &mut Stage, replica: usize) {
        stage.asks::<StatefulSet>(stage.replicas[replica], &ObjectKey::namespaced("ns", "web"));
    }

    fn reclaim(stage: &mut Stage, replica: usize) {
        stage.reclaim(stage.replicas[replica], "ns/web-1", "a", "p", "10.0.0.1");
    }

    #[test]
    fn a_place_that_is_there_loses_neither_endpoint_nor_record() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.pod_gone("ns/web-1");
            stage.endpoint_gone(stage.kubelet, "ns/web-1");
            asks(stage, 0);
            reclaim(stage, 0);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
            assert!(stage.detail()[0].ends_with("and StatefulSet ns/web wants ordinal 1"), "{:?}", stage.detail());
        });
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.pod_gone("ns/web-1");
            reclaim(stage, 0);
            assert_eq!(stage.excuses(), [None], "the mark, and then what follows from it");
            assert!(stage.detail()[0].contains("is marked by spiderpool-controller-0"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn a_place_keeps_nothing_in_an_auto_pool_that_is_being_deleted() {
        for (is_auto, ends, excuses) in [(true, true, vec![]), (true, false, vec![None]), (false, true, vec![None])] {
            on_stage(CLAIM, |stage| {
                set_up(stage);
                stage.pod_gone("ns/web-1");
                stage.endpoint_gone(stage.kubelet, "ns/web-1");
                if is_auto {
                    stage.change_pool(stage.replicas[0], "p", |pool| {
                        pool.metadata.labels.get_or_insert_default().insert(LABEL_OWNER_APPLICATION_NAME.to_owned(), "web".to_owned());
                    });
                }
                if ends {
                    stage.terminate_pool(stage.person, "p");
                }
                reclaim(stage, 0);
                assert_eq!(stage.excuses(), excuses, "auto pool: {is_auto}, being deleted: {ends}");
            });
        }
    }

    #[test]
    fn a_place_that_is_gone_loses_them() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.stateful_set("ns/web", 1);
            stage.pod_gone("ns/web-1");
            asks(stage, 0);
            reclaim(stage, 0);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn scaled_up_again_after_it_was_asked_for_is_no_violation_and_without_asking_it_is() {
        for (asked, excuses) in [(true, vec![]), (false, vec![None])] {
            on_stage(CLAIM, |stage| {
                set_up(stage);
                stage.stateful_set("ns/web", 1);
                stage.pod_gone("ns/web-1");
                if asked {
                    asks(stage, 0);
                }
                stage.stateful_set("ns/web", 2);
                reclaim(stage, 0);
                assert_eq!(stage.excuses(), excuses);
            });
        }
    }

    #[test]
    fn what_was_asked_for_an_earlier_release_does_not_count() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.stateful_set("ns/web", 1);
            stage.pod_gone("ns/web-1");
            asks(stage, 0);
            stage.announce(stage.replicas[0], "ns/web-1", "a", &[("p", "10.0.0.1")]);
            stage.endpoint_gone(stage.replicas[0], "ns/web-1");
            stage.stateful_set("ns/web", 2);
            assert_eq!(stage.excuses(), []);
            reclaim(stage, 0);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_marked_endpoint_is_finished_by_anybody() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.stateful_set("ns/web", 1);
            stage.pod_gone("ns/web-1");
            asks(stage, 0);
            stage.announce(stage.replicas[0], "ns/web-1", "a", &[("p", "10.0.0.1")]);
            stage.mark(stage.replicas[0], "ns/web-1");
            stage.stateful_set("ns/web", 2);
            reclaim(stage, 1);
            stage.let_go(stage.replicas[1], "ns/web-1");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn a_later_pod_with_other_addresses_does_not_need_them_and_one_without_does() {
        for (address, excuses) in [(Some("10.9.9.9"), vec![]), (None, vec![None]), (Some("10.0.0.1"), vec![None])] {
            on_stage(CLAIM, |stage| {
                set_up(stage);
                stage.pod_gone("ns/web-1");
                stage.static_pod("ns/web-1", "b");
                stage.pod_is("ns/web-1", "Running", address);
                reclaim(stage, 0);
                assert_eq!(stage.excuses(), excuses, "{address:?}");
            });
        }
    }

    #[test]
    fn a_later_pod_counts_that_goes_between_the_look_at_it_and_the_release() {
        for (looked, excuses) in [(true, vec![]), (false, vec![None])] {
            on_stage(CLAIM, |stage| {
                set_up(stage);
                stage.pod_gone("ns/web-1");
                stage.endpoint_gone(stage.kubelet, "ns/web-1");
                stage.static_pod("ns/web-1", "b");
                stage.pod_is("ns/web-1", "Running", Some("10.9.9.9"));
                if looked {
                    stage.asks::<k8s_openapi::api::core::v1::Pod>(stage.replicas[0], &ObjectKey::namespaced("ns", "web-1"));
                }
                stage.pass(Duration::from_millis(10));
                stage.pod_gone("ns/web-1");
                stage.pass(Duration::from_millis(10));
                reclaim(stage, 0);
                assert_eq!(stage.excuses(), excuses, "looked: {looked}");
            });
        }
    }

    #[test]
    fn what_no_endpoint_keeps_for_the_set_goes_when_another_pod_has_the_name() {
        let orphan: fn(&mut Stage) = |stage| {
            stage.static_pod("ns/web-1", "b");
            stage.is_of("ns/web-1", None);
        };
        let ordinary: fn(&mut Stage) = |stage| stage.pod("ns/web-1", "b");
        let successor: fn(&mut Stage) = |stage| stage.static_pod("ns/web-1", "b");
        let nobody: fn(&mut Stage) = |_| ();
        for (index, (comes, endpoint, kept)) in [
            (orphan, None, false),
            (ordinary, None, false),
            (successor, None, true),
            (nobody, None, true),
            (orphan, Some(("Pod", "a", "10.0.0.1")), false),
            (orphan, Some(("StatefulSet", "a", "10.0.0.1")), true),
            (ordinary, Some(("StatefulSet", "a", "10.0.0.1")), true),
            (orphan, Some(("StatefulSet", "a", "10.0.0.2")), true),
            (orphan, Some(("StatefulSet", "b", "10.0.0.2")), false),
            (orphan, Some(("StatefulSet", "b", "10.0.0.1")), true),
        ]
        .into_iter()
        .enumerate()
        {
            on_stage(CLAIM, |stage| {
                set_up(stage);
                stage.pod_gone("ns/web-1");
                stage.endpoint_gone(stage.kubelet, "ns/web-1");
                comes(stage);
                if let Some((kind, uid, address)) = endpoint {
                    stage.endpoint(stage.agent, "ns/web-1", uid, &[("eth0", "p", address)]);
                    stage.change::<SpiderEndpoint>(stage.agent, &ObjectKey::namespaced("ns", "web-1"), |endpoint| {
                        endpoint.status.as_mut().unwrap().owner_controller_type = kind.to_owned();
                    });
                }
                stage.unrecord(stage.replicas[0], "p", "10.0.0.1");
                assert_eq!(stage.excuses(), if kept { vec![None] } else { vec![] }, "case {index}: {endpoint:?}");
                assert!(stage.exercised());
            });
        }
    }

    #[test]
    fn an_orphan_that_has_the_name_counts_until_the_look_at_it() {
        for (looked, excuses) in [(true, vec![]), (false, vec![None])] {
            on_stage(CLAIM, |stage| {
                set_up(stage);
                stage.pod_gone("ns/web-1");
                stage.endpoint_gone(stage.kubelet, "ns/web-1");
                stage.static_pod("ns/web-1", "b");
                stage.is_of("ns/web-1", None);
                if looked {
                    stage.asks::<k8s_openapi::api::core::v1::Pod>(stage.replicas[0], &ObjectKey::namespaced("ns", "web-1"));
                }
                stage.pass(Duration::from_millis(10));
                stage.is_of("ns/web-1", Some("next"));
                stage.pass(Duration::from_millis(10));
                reclaim(stage, 0);
                assert_eq!(stage.excuses(), excuses, "looked: {looked}");
            });
        }
    }

    #[test]
    fn what_an_orphan_was_given_goes_with_it_once_it_is_gone_and_what_it_had_before_does_not() {
        for (was_orphan, of_set, gone, excuses) in [
            (true, false, true, vec![]),
            (true, false, false, vec![None, None]),
            (true, true, true, vec![None, None]),
            (false, false, true, vec![None, None]),
        ] {
            on_stage(CLAIM, |stage| {
                set_up(stage);
                if was_orphan {
                    stage.is_of("ns/web-1", None);
                    stage.is_of("ns/web-1", Some("next"));
                }
                if of_set {
                    stage.change::<SpiderEndpoint>(stage.agent, &ObjectKey::namespaced("ns", "web-1"), |endpoint| {
                        endpoint.status.as_mut().unwrap().owner_controller_type = "StatefulSet".to_owned();
                    });
                }
                if gone {
                    stage.pod_gone("ns/web-1");
                }
                stage.unrecord(stage.replicas[0], "p", "10.0.0.1");
                stage.endpoint_gone(stage.replicas[0], "ns/web-1");
                assert_eq!(stage.excuses(), excuses, "an orphan: {was_orphan}, as one of the set's: {of_set}, gone: {gone}");
                assert!(stage.exercised() || excuses.is_empty());
            });
        }
    }

    #[test]
    fn settings_may_take_a_place_for_an_ordinary_pod() {
        on_stage_with(
            CLAIM,
            |settings| settings.enable_stateful_set = false,
            |stage| {
                set_up(stage);
                stage.pod_gone("ns/web-1");
                reclaim(stage, 0);
                assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
            },
        );
    }

    #[test]
    fn a_vm_that_is_stopped_keeps_what_it_has() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            let machine = json!({"metadata": {"name": "vm", "namespace": "ns"}, "spec": {"running": true, "template": {}}});
            stage.write::<kube_machinery::kubevirt::VirtualMachine>(stage.person, machine);
            stage.vm_pod("ns/virt-1", "a", "vm");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "a");
            stage.pod_gone("ns/virt-1");
            stage.reclaim(stage.replicas[0], "ns/vm", "a", "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [None]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "a");
            stage.put::<kube_machinery::kubevirt::VirtualMachine>(stage.person, &ObjectKey::namespaced("ns", "vm"), None);
            stage.reclaim(stage.replicas[0], "ns/vm", "a", "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_vm_keeps_what_it_has_although_another_pod_has_its_name() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            let machine = json!({"metadata": {"name": "vm", "namespace": "ns"}, "spec": {"running": true, "template": {}}});
            stage.write::<kube_machinery::kubevirt::VirtualMachine>(stage.person, machine);
            stage.vm_pod("ns/virt-1", "a", "vm");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "a");
            stage.pod_gone("ns/virt-1");
            stage.pod("ns/vm", "b");
            stage.reclaim(stage.replicas[0], "ns/vm", "a", "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn an_endpoint_that_the_pod_has_left_is_not_looked_at() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.change::<SpiderEndpoint>(stage.agent, &ObjectKey::namespaced("ns", "web-1"), |endpoint| {
                endpoint.status.as_mut().unwrap().current.uid = "nobody".to_owned();
            });
            stage.mark(stage.replicas[0], "ns/web-1");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }
}
