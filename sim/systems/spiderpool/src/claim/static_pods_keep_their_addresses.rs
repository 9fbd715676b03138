//! A S10: places keep their addresses.

use super::view::{Answer, EventMask, Pod, Seen, Shown, View};
use super::{Answered, Findings, IpamClaim, violated};
use crate::workload::Cause;

/// A pod of a StatefulSet, or of a VM, is answered for the NIC that it asks for with the address that its predecessor of the same
/// place had.
///
/// A roll-out does not matter unless it changes what decides: the pools that the pod names for this NIC and family, the networks or labels where
/// they count. It need not be the same if the place was gone for a time (scaled down, deleted), if the pool, a reservation, the namespace or the
/// node changed meanwhile, if the address was given up because somebody outside uses it, or if the predecessor had it
/// though the rules did not permit it any more.
///
/// An address that a replica of the controller reclaimed while the place was there is lost all the same (G GS4). Broken by
/// `static-uid-mismatch-frees`, `empty-pod-ips-means-gone`, `nameless-nic-always-changed`, `reown-foreign-endpoint` and `stateful-conflict-released`. It does not see an address
/// that was lost while its place was gone.
pub(crate) struct StaticPodsKeepTheirAddresses;

impl IpamClaim for StaticPodsKeepTheirAddresses {
    fn event_mask(&self) -> EventMask {
        EventMask::ANSWER
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Some(answer) = Answered::of(seen) else { return };
        let Some(pod) = view.pods.get(answer.uid) else { return };
        let Some(name) = pod.static_name() else { return };
        for given in answer.given.iter().filter(|given| given.nic == *answer.nic) {
            let Some(before) = view.ledger.kept(name).iter().find(|before| before.is_for_same(given)) else { continue };
            if before.uid == *answer.uid || !had_to_be_kept(view, pod, before) {
                continue;
            }
            findings.exercised();
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
    let place = pod.place.as_ref().is_some_and(|place| view.keeps_places(place) && view.places.were_there_since(place, before.basis.began));
    let mut releases = view.ledger.releases(&before.uid).iter();
    let given_up = releases.any(|release| release.cause == Cause::Conflict && release.covers(&before.given.pool, before.given.address));
    place && !given_up && !view.may_have_changed(before, pod) && was_permitted(view, before)
}

/// Whether the rules still permitted an address when it was told. An ADD that is asked again is answered with what its first try recorded, although
/// that has been reserved or taken out of its pool since (A §5.4); the next pod of the place gives it up (A §6.3).
fn was_permitted(view: &View, before: &Answer) -> bool {
    let address = before.given.address;
    let in_pool =
        view.pools.get(&before.given.pool).and_then(|pool| pool.addresses.as_ref()).is_none_or(|addresses| addresses.contains(address));
    in_pool && !view.reservations.is_surely_reserved(address, before.basis.shown[Shown::Reservations as usize])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ipam_spiderpool::names::{ANNOTATION_IPPOOL, ANNOTATION_MULTUS_NETWORKS};
    use k8s_openapi::api::core::v1::Pod as PodObject;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use kube_machinery::ObjectKey;

    use super::super::BY_HAND;
    use super::super::testing::{Stage, on_stage};
    use crate::workload::Cause;

    const CLAIM: &str = "static-pods-keep-their-addresses";
    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];
    const OTHER: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.2")];

    /// A pod was answered with the first address, `between` happened, and its successor is answered with another one.
    fn restarted(between: impl FnOnce(&mut Stage), judge: impl FnOnce(&mut Stage)) {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
            stage.stateful_set("ns/web", 2);
            stage.static_pod("ns/web-1", "old");
            stage.add("ns/web-1", "old", FIRST);
            between(stage);
            stage.pod_gone("ns/web-1");
            stage.static_pod("ns/web-1", "new");
            stage.add("ns/web-1", "new", OTHER);
            judge(stage);
        });
    }

    #[test]
    fn another_address_after_a_restart_is_a_violation_and_the_same_one_is_not() {
        restarted(
            |stage| {
                stage.pod_gone("ns/web-1");
                stage.static_pod("ns/web-1", "same");
                stage.add("ns/web-1", "same", FIRST);
                assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            },
            |stage| assert_eq!(stage.excuses(), [None]),
        );
    }

    #[test]
    fn a_place_that_was_gone_for_a_time_keeps_nothing() {
        restarted(
            |stage| {
                stage.stateful_set("ns/web", 1);
                stage.stateful_set("ns/web", 2);
            },
            |stage| assert_eq!((stage.excuses(), stage.exercised()), (vec![], false)),
        );
        restarted(|stage| stage.stateful_set("ns/web", 3), |stage| assert_eq!(stage.excuses(), [None]));
    }

    #[test]
    fn what_changed_may_lead_to_another_address() {
        restarted(|stage| stage.change_pool(stage.person, "p", |pool| pool.spec.disable = true), |stage| assert_eq!(stage.excuses(), []));
        restarted(|stage| stage.reserve("r", &["10.0.0.1"]), |stage| assert_eq!(stage.excuses(), []));
        restarted(|stage| stage.release("ns/web-1", "old", Cause::Conflict, &[("p", "10.0.0.1")]), |stage| assert_eq!(stage.excuses(), []));
        restarted(|stage| stage.release("ns/web-1", "old", Cause::Del, &[("p", "10.0.0.1")]), |stage| assert_eq!(stage.excuses(), [None]));
    }

    /// The predecessor was of another revision of its StatefulSet, as in a roll-out.
    fn rolled_out(change: impl Fn(&mut BTreeMap<String, String>, &mut BTreeMap<String, String>), judge: impl FnOnce(&mut Stage)) {
        let change_pod = |stage: &mut Stage| {
            stage.change::<PodObject>(stage.kubelet, &ObjectKey::namespaced("ns", "web-1"), |pod| {
                let meta = &mut pod.metadata;
                change(meta.labels.get_or_insert_default(), meta.annotations.get_or_insert_default());
            });
        };
        restarted(change_pod, judge);
    }

    #[test]
    fn a_roll_out_is_judged_by_what_decides_on_addresses() {
        let revision = |labels: &mut BTreeMap<String, String>, annotations: &mut BTreeMap<String, String>| {
            labels.insert("controller-revision-hash".to_owned(), "1".to_owned());
            annotations.insert("kubectl.kubernetes.io/restartedAt".to_owned(), "now".to_owned());
        };
        rolled_out(revision, |stage| assert_eq!(stage.excuses(), [None]));
        let wish = |_: &mut BTreeMap<String, String>, annotations: &mut BTreeMap<String, String>| {
            annotations.insert(ANNOTATION_IPPOOL.to_owned(), r#"{"ipv4":["p"]}"#.to_owned());
        };
        rolled_out(wish, |stage| assert_eq!((stage.excuses(), stage.exercised()), (vec![], false)));
        let networks = |_: &mut BTreeMap<String, String>, annotations: &mut BTreeMap<String, String>| {
            annotations.insert(ANNOTATION_MULTUS_NETWORKS.to_owned(), "net".to_owned());
        };
        rolled_out(networks, |stage| assert_eq!((stage.excuses(), stage.exercised()), (vec![], false)));
    }

    #[test]
    fn the_labels_of_pods_count_where_their_pool_looks_at_them() {
        for (looks, excuses) in [(true, vec![]), (false, vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                if looks {
                    stage.change_pool(stage.person, "p", |pool| pool.spec.pod_affinity = Some(LabelSelector::default()));
                }
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.stateful_set("ns/web", 2);
                stage.static_pod("ns/web-1", "old");
                stage.change::<PodObject>(stage.kubelet, &ObjectKey::namespaced("ns", "web-1"), |pod| {
                    pod.metadata.labels.get_or_insert_default().insert("of".to_owned(), "old".to_owned());
                });
                stage.add("ns/web-1", "old", FIRST);
                stage.pod_gone("ns/web-1");
                stage.static_pod("ns/web-1", "new");
                stage.add("ns/web-1", "new", OTHER);
                assert_eq!(stage.excuses(), excuses);
            });
        }
    }

    #[test]
    fn what_was_reserved_before_it_was_told_is_not_kept() {
        for reserved in [true, false] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.stateful_set("ns/web", 2);
                stage.static_pod("ns/web-1", "old");
                if reserved {
                    stage.reserve("r", &["10.0.0.1"]);
                    stage.deliver::<ipam_spiderpool::SpiderReservedIP>(stage.agent);
                }
                stage.add("ns/web-1", "old", FIRST);
                stage.pod_gone("ns/web-1");
                stage.static_pod("ns/web-1", "new");
                stage.add("ns/web-1", "new", OTHER);
                assert_eq!((stage.excuses().len(), stage.exercised()), (usize::from(!reserved), !reserved));
            });
        }
    }

    #[test]
    fn what_reclaim_took_from_a_place_that_was_there_is_missed_and_from_one_that_was_gone_is_not() {
        restarted(
            |stage| stage.reclaim(stage.replicas[0], "ns/web-1", "old", "p", "10.0.0.1"),
            |stage| assert_eq!(stage.excuses(), [None]),
        );
        restarted(
            |stage| {
                stage.stateful_set("ns/web", 1);
                stage.reclaim(stage.replicas[0], "ns/web-1", "old", "p", "10.0.0.1");
                stage.stateful_set("ns/web", 2);
            },
            |stage| assert_eq!(stage.excuses(), []),
        );
    }

    #[test]
    fn a_record_that_a_person_removed_excuses_and_a_bare_pod_keeps_nothing() {
        restarted(|stage| stage.unrecord(stage.person, "p", "10.0.0.1"), |stage| assert_eq!(stage.excuses(), [Some(BY_HAND)]));
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "old");
            stage.add("ns/a", "old", FIRST);
            stage.pod_gone("ns/a");
            stage.pod("ns/a", "new");
            stage.add("ns/a", "new", OTHER);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }
}
