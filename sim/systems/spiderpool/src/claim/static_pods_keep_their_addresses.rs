//! A S10: static pods keep their addresses.

use super::view::{Answer, EventMask, Place, Pod, Pool, Seen, Shown, ShownUpTo, View, Written};
use super::{Answered, Findings, IpamClaim, violated};
use crate::workload::Cause;

/// A pod of a StatefulSet or a VM is answered for the requested NIC with the address that its predecessor in the same place had.
///
/// A roll-out does not matter unless it changes what decides: the pools that the pod names for this NIC and family, the network of the NIC,
/// or labels where they count. Nor does a pool matter that shrinks or grows but keeps the address. Another address is permitted if the
/// place was gone when the predecessor's end began or later (scaled down, deleted), if the rules of the pool, the namespace or the node
/// changed meanwhile, if the pool lost the address or it was reserved for a time, if it was given up because a host outside the cluster
/// uses it, or if the predecessor had it although the rules no longer permitted it; or if any of that was so for a pod of the place between
/// the two.
///
/// An orphaned pod is a predecessor like any other, whether or not another set adopted it, unless it was given the address, or the endpoint
/// that names it, as an orphan. It is not a successor if it was orphaned before its first request.
///
/// "Meanwhile" is the time since the address was recorded for the predecessor. That may have been in an ADD of another NIC, which takes
/// over for all (A §6.3), long before the ADD that was answered with it.
///
/// After a list it is unknown what an agent knows until its watch delivers more, within a minute (K §3): until then any change of this run
/// counts.
///
/// An address that a replica of the controller reclaimed while the place existed counts as lost nevertheless (G GS4). Broken by
/// `static-uid-mismatch-frees`, `empty-pod-ips-means-gone`, `nameless-nic-always-changed`, `reown-foreign-endpoint`,
/// `stateful-conflict-released`, `wishes-of-the-template`, `ordinals-from-zero`, `reuse-in-first-range-only`, `dropped-nic-frees-all` and
/// `re-add-changes-owner`. It does not detect an address that was lost while its place was gone.
pub(crate) struct StaticPodsKeepTheirAddresses;

impl IpamClaim for StaticPodsKeepTheirAddresses {
    fn event_mask(&self) -> EventMask {
        EventMask::ANSWER
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Some(answer) = Answered::of(seen) else { return };
        let Some(pod) = view.pods.get(answer.uid) else { return };
        let Some(name) = pod.static_name() else { return };
        let shown = view.agents.all_shown_before_add(answer.by, answer.uid);
        for given in answer.given.iter().filter(|given| given.nic == *answer.nic) {
            let Some(before) = view.ledger.kept(name).iter().find(|before| before.is_for_same(given)) else { continue };
            if before.uid == *answer.uid || !had_to_be_kept(view, (answer.uid, pod), before, &shown) {
                continue;
            }
            findings.exercised();
            if before.given.address != given.address && !was_given_up_between(view, pod, before, &shown) {
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

fn had_to_be_kept(view: &View, (uid, pod): (&str, &Pod), before: &Answer, shown: &ShownUpTo) -> bool {
    let predecessor = view.pods.get(&before.uid);
    // Addresses that an orphan is given for the first time go with it (A §6.1), and so do those added to its endpoint once a set has
    // adopted it: an endpoint keeps the owner that it was written for (A §5.7). Addresses that it had as a pod of the set are kept if it
    // ends as an orphan (A §7.1).
    let is_orphans =
        |pod: &Pod, written: Option<Written>| written.is_some_and(|written| pod.may_have_seemed_orphan(written.at, written.shown_pods));
    let shown_pods = before.basis.shown[Shown::Pods as usize];
    let goes = |pod: &Pod| pod.may_have_seemed_orphan(before.said.at, shown_pods) || is_orphans(pod, before.basis.endpoint);
    if predecessor.is_some_and(goes) {
        return false;
    }
    // The same holds for the addresses of this pod: its set may have orphaned it before its first request.
    if pod.may_have_seemed_orphan(view.at, shown[Shown::Pods as usize]) || is_orphans(pod, view.endpoint_written(uid)) {
        return false;
    }
    // While a pod is alive, nothing asks for its place. The next pod gets its addresses if the place exists when its end begins.
    let ends = predecessor.and_then(Pod::ends_since).filter(|ends| *ends > before.said.at);
    let was_there = |place: &Place| match ends {
        Some(ends) => view.places.were_there_from(place, ends),
        None => view.places.were_there_since(place, before.basis.began),
    };
    let place = pod.place.as_ref().is_some_and(|place| view.keeps_places(place) && was_there(place));
    let mut releases = view.ledger.releases(&before.uid).iter();
    let given_up = releases.any(|release| release.cause == Cause::Conflict && release.covers(&before.given.pool, before.given.address));
    place && !given_up && !view.may_have_changed(before, pod, shown) && was_permitted(view, before)
}

/// Whether a pod of the place between the two may have given the address up because it was not permitted to have it.
fn was_given_up_between(view: &View, pod: &Pod, before: &Answer, shown: &ShownUpTo) -> bool {
    let Some(predecessor) = view.pods.get(&before.uid) else { return false };
    view.pods.between(predecessor, pod).any(|other| {
        // The agent that served that pod may have been shown less.
        let uid = other.object.metadata.uid.as_deref().unwrap_or_default();
        view.may_have_changed(before, other, &view.agents.least_shown_for(uid, shown))
    })
}

/// Whether the rules still permitted an address when it was answered. A repeated ADD is answered with the addresses that its first attempt
/// recorded, even if they have been reserved or removed from their pool since (A §5.4), or the pool is being deleted; the next pod of the
/// place gives them up (A §6.3, §8.6).
fn was_permitted(view: &View, before: &Answer) -> bool {
    let address = before.given.address;
    let pool = view.pools.get(&before.given.pool);
    let in_pool = pool.and_then(|pool| pool.addresses.as_ref()).is_none_or(|addresses| addresses.contains(address));
    // The mark of a pool stays, and any change of it since the answer counts anyway.
    in_pool
        && !pool.is_some_and(Pool::is_terminating)
        && !view.reservations.is_surely_reserved(address, before.basis.shown[Shown::Reservations as usize])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ipam_spiderpool::names::{ANNOTATION_IPPOOL, ANNOTATION_MULTUS_DEFAULT_NETWORK, ANNOTATION_MULTUS_NETWORKS};
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Pod as PodObject;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
    use kube_machinery::ObjectKey;

    use super::super::BY_HAND;
    use super::super::testing::{Stage, on_stage};
    use crate::workload::{Cause, IpamNote};

    const CLAIM: &str = "static-pods-keep-their-addresses";
    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];
    const OTHER: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.2")];

    /// An agent that was shown the pools answers a pod with the first address, `between` happens, and its successor is answered with
    /// another address.
    fn restarts(stage: &mut Stage, between: impl FnOnce(&mut Stage)) {
        stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
        stage.stateful_set("ns/web", 2);
        stage.static_pod("ns/web-1", "old");
        stage.add("ns/web-1", "old", FIRST);
        between(stage);
        stage.pod_gone("ns/web-1");
        stage.static_pod("ns/web-1", "new");
        stage.add("ns/web-1", "new", OTHER);
    }

    /// Like `restarts`, with a pool that has not changed.
    fn restarted(between: impl FnOnce(&mut Stage), judge: impl FnOnce(&mut Stage)) {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            restarts(stage, between);
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
    fn a_place_keeps_nothing_that_is_gone_after_the_end_of_its_pod_began() {
        restarted(
            |stage| {
                stage.terminate("ns/web-1");
                stage.stateful_set("ns/web", 1);
                stage.stateful_set("ns/web", 2);
            },
            |stage| assert_eq!((stage.excuses(), stage.exercised()), (vec![], false)),
        );
        restarted(
            |stage| {
                stage.stateful_set("ns/web", 1);
                stage.terminate("ns/web-1");
                stage.stateful_set("ns/web", 2);
            },
            |stage| assert_eq!((stage.excuses(), stage.exercised()), (vec![], false)),
        );
        // Nothing asks for the place of a live pod.
        restarted(
            |stage| {
                stage.stateful_set("ns/web", 1);
                stage.stateful_set("ns/web", 2);
            },
            |stage| assert_eq!(stage.excuses(), [None]),
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

    #[test]
    fn a_pool_that_changes_and_has_the_address_all_the_time_keeps_it() {
        let ranges = |ips: &'static [&'static str]| {
            move |stage: &mut Stage| {
                let ips = ips.iter().map(|range| (*range).to_owned()).collect();
                stage.change_pool(stage.person, "p", |pool| pool.spec.ips = Some(ips));
            }
        };
        restarted(ranges(&["10.0.0.1-10.0.0.2"]), |stage| assert_eq!(stage.excuses(), [None]));
        restarted(ranges(&["10.0.0.2-10.0.0.9"]), |stage| assert_eq!((stage.excuses(), stage.exercised()), (vec![], false)));
        let there_and_back = |stage: &mut Stage| {
            ranges(&["10.0.0.2-10.0.0.9"])(stage);
            ranges(&["10.0.0.1-10.0.0.9"])(stage);
        };
        restarted(there_and_back, |stage| assert_eq!((stage.excuses(), stage.exercised()), (vec![], false)));
        restarted(|stage| stage.reserve("r", &["10.0.0.7"]), |stage| assert_eq!(stage.excuses(), [None]));
    }

    /// A pool had no addresses for a time before the predecessor was answered, and then `between` happened.
    fn after_a_change_that_is_over(between: impl FnOnce(&mut Stage), judge: impl FnOnce(&mut Stage)) {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            for ips in [None, Some(vec!["10.0.0.1-10.0.0.9".to_owned()])] {
                stage.change_pool(stage.person, "p", |pool| pool.spec.ips = ips);
            }
            restarts(stage, between);
            judge(stage);
        });
    }

    #[test]
    fn what_an_agent_knows_is_open_from_a_list_until_its_watch_tells_more_and_no_longer() {
        after_a_change_that_is_over(|_| (), |stage| assert_eq!(stage.excuses(), [None]));
        after_a_change_that_is_over(
            |stage| stage.lists::<ipam_spiderpool::SpiderIPPool>(stage.agent),
            |stage| assert_eq!((stage.excuses(), stage.exercised()), (vec![], false)),
        );
        after_a_change_that_is_over(
            |stage| {
                stage.lists::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
            },
            |stage| assert_eq!(stage.excuses(), [None]),
        );
    }

    #[test]
    fn an_orphan_hands_on_what_it_was_given_before_and_an_adopted_pod_does_too() {
        restarted(
            |stage| {
                stage.is_of("ns/web-1", None);
                stage.stateful_set("ns/web", 0);
                stage.stateful_set("ns/web", 2);
                stage.is_of("ns/web-1", Some("next"));
            },
            |stage| assert_eq!(stage.excuses(), [None]),
        );
        restarted(|stage| stage.is_of("ns/web-1", None), |stage| assert_eq!(stage.excuses(), [None]));
        restarted(
            |stage| {
                stage.is_of("ns/web-1", None);
                stage.stateful_set("ns/web", 0);
                stage.terminate("ns/web-1");
                stage.stateful_set("ns/web", 2);
            },
            |stage| assert_eq!((stage.excuses(), stage.exercised()), (vec![], false)),
        );
    }

    #[test]
    fn a_pod_between_the_two_that_wanted_something_else_gave_the_address_up() {
        for (pool, excuses) in [("p", vec![None]), ("q", vec![])] {
            restarted(
                |stage| {
                    stage.pod_gone("ns/web-1");
                    stage.static_pod("ns/web-1", "between");
                    stage.change::<PodObject>(stage.kubelet, &ObjectKey::namespaced("ns", "web-1"), |pod| {
                        let wish = format!(r#"{{"ipv4":["{pool}"]}}"#);
                        pod.metadata.annotations.get_or_insert_default().insert(ANNOTATION_IPPOOL.to_owned(), wish);
                    });
                },
                |stage| assert_eq!(stage.excuses(), excuses, "{pool}"),
            );
        }
    }

    #[test]
    fn an_agent_that_knew_less_and_served_a_pod_between_the_two_may_have_given_the_address_up() {
        for (served, excuses) in [(false, vec![None]), (true, vec![])] {
            after_a_change_that_is_over(
                |stage| {
                    stage.pod_gone("ns/web-1");
                    stage.static_pod("ns/web-1", "between");
                    if served {
                        let (pod, uid, container, nic) = ("ns/web-1".into(), "between".into(), "between".into(), "eth0".into());
                        stage.say(stage.other_agent, IpamNote::AddBegun { pod, uid, container, nic });
                    }
                },
                |stage| assert_eq!(stage.excuses(), excuses, "{served}"),
            );
        }
    }

    #[test]
    fn what_a_pod_was_given_as_an_orphan_goes_with_it() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
            stage.stateful_set("ns/web", 2);
            stage.static_pod("ns/web-1", "old");
            stage.is_of("ns/web-1", None);
            stage.add("ns/web-1", "old", FIRST);
            stage.is_of("ns/web-1", Some("next"));
            stage.pod_gone("ns/web-1");
            stage.static_pod("ns/web-1", "new");
            stage.add("ns/web-1", "new", OTHER);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }

    #[test]
    fn what_is_added_to_the_endpoint_of_an_orphan_goes_with_it() {
        const OF_NET1: [&[(&str, &str, &str)]; 2] =
            [&[("net1", "p", "10.0.0.3"), ("eth0", "p", "10.0.0.1")], &[("net1", "p", "10.0.0.4"), ("eth0", "p", "10.0.0.1")]];
        for (as_orphan, excuses) in [(true, vec![]), (false, vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.stateful_set("ns/web", 2);
                stage.static_pod("ns/web-1", "old");
                stage.is_of("ns/web-1", None);
                if as_orphan {
                    stage.add("ns/web-1", "old", FIRST);
                }
                stage.is_of("ns/web-1", Some("next"));
                stage.deliver::<PodObject>(stage.agent);
                stage.add("ns/web-1", "old", OF_NET1[0]);
                stage.pod_gone("ns/web-1");
                stage.static_pod("ns/web-1", "new");
                stage.add("ns/web-1", "new", OF_NET1[1]);
                assert_eq!((stage.excuses(), stage.exercised()), (excuses, !as_orphan));
            });
        }
    }

    #[test]
    fn a_pod_that_its_set_left_behind_before_it_asked_is_given_what_goes_with_it() {
        for (left, excuses) in [(true, vec![]), (false, vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.stateful_set("ns/web", 2);
                stage.static_pod("ns/web-1", "old");
                stage.add("ns/web-1", "old", FIRST);
                stage.pod_gone("ns/web-1");
                stage.static_pod("ns/web-1", "new");
                if left {
                    stage.is_of("ns/web-1", None);
                }
                stage.add("ns/web-1", "new", OTHER);
                assert_eq!((stage.excuses(), stage.exercised()), (excuses, !left));
            });
        }
    }

    /// Like `restarted`, where the predecessor was of another revision of its StatefulSet, as in a roll-out.
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
        let network = |_: &mut BTreeMap<String, String>, annotations: &mut BTreeMap<String, String>| {
            annotations.insert(ANNOTATION_MULTUS_DEFAULT_NETWORK.to_owned(), "net".to_owned());
        };
        rolled_out(network, |stage| assert_eq!((stage.excuses(), stage.exercised()), (vec![], false)));
        let another_nic = |_: &mut BTreeMap<String, String>, annotations: &mut BTreeMap<String, String>| {
            annotations.insert(ANNOTATION_MULTUS_NETWORKS.to_owned(), "net".to_owned());
        };
        rolled_out(another_nic, |stage| assert_eq!(stage.excuses(), [None]));
    }

    #[test]
    fn the_labels_of_pods_count_where_their_pool_does_not_select_them_any_more() {
        let old = LabelSelector { match_labels: Some([("of".to_owned(), "old".to_owned())].into()), ..LabelSelector::default() };
        for (selector, excuses) in [(Some(old), vec![]), (Some(LabelSelector::default()), vec![None]), (None, vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.change_pool(stage.person, "p", |pool| pool.spec.pod_affinity = selector);
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
    fn what_is_told_of_a_pool_that_is_being_deleted_is_not_kept() {
        for deleted in [true, false] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.stateful_set("ns/web", 2);
                stage.static_pod("ns/web-1", "old");
                if deleted {
                    let now = Timestamp::constant(1_767_225_600, 0);
                    stage.change_pool(stage.person, "p", |pool| pool.metadata.deletion_timestamp = Some(Time(now)));
                }
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.add("ns/web-1", "old", FIRST);
                stage.pod_gone("ns/web-1");
                stage.static_pod("ns/web-1", "new");
                stage.add("ns/web-1", "new", OTHER);
                assert_eq!((stage.excuses().len(), stage.exercised()), (usize::from(!deleted), !deleted));
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
    fn what_was_taken_over_before_its_pool_was_closed_is_not_kept_though_it_was_told_later() {
        const OF_NET1: [&[(&str, &str, &str)]; 2] = [&[("net1", "p", "10.0.0.2")], &[("net1", "p", "10.0.0.3")]];
        for (closed, excuses) in [(true, vec![]), (false, vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.stateful_set("ns/web", 2);
                stage.static_pod("ns/web-1", "old");
                // The ADD of its first NIC records the address of the second one, which lacks an address of the other family.
                stage.ask("ns/web-1", "old", "eth0");
                stage.record(stage.agent, "p", "10.0.0.2", "ns/web-1", "old");
                stage.answer("ns/web-1", "old", "eth0", FIRST);
                stage.change_pool(stage.person, "p", |pool| pool.spec.disable = closed);
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.ask("ns/web-1", "old", "net1");
                stage.answer("ns/web-1", "old", "net1", OF_NET1[0]);
                stage.pod_gone("ns/web-1");
                stage.static_pod("ns/web-1", "new");
                stage.ask("ns/web-1", "new", "net1");
                stage.answer("ns/web-1", "new", "net1", OF_NET1[1]);
                assert_eq!((stage.excuses(), stage.exercised()), (excuses, !closed));
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
                stage.terminate("ns/web-1");
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
