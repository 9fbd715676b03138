//! A S9: records are removed only for their own UID.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::SpiderEndpoint;
use kube_sim::rt::ProcessId;

use super::given_back::{self, GivenBack};
use super::view::{Answer, EventMask, Place, Seen, View, is_migration, uid_of};
use super::{Findings, IpamClaim, violated};
use crate::workload::{Cause, IpamNote};

/// An agent removes a record only after it has announced the release for the UID in the record. It announces a release only for a pod that
/// is not alive or may not keep the address, or for leftovers of a pod that has ended, whose sandboxes are gone and whose address no place
/// keeps. A pod may not keep an address in these cases: its pool, a reservation, its namespace, its node or its wishes have changed since
/// it was answered; another pod has the address by now; a host outside the cluster uses it; an ADD takes back an address that was never
/// answered, or one that its plugin has given back since: the batch release has removed it from the endpoint, and the agent ended before it
/// got to the pool, whatever has happened to the endpoint since; or the DEL of a VM's other pod has released it for both. A record is
/// handed on only under its own name and from a pod that is not alive; the two pods of a VM's live migration may hand it to each other.
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
            let is_anothers = |answer: &&Answer| {
                let holder = view.pools.holder(&answer.given.pool, answer.given.address);
                holder.is_some_and(|holder| holder.record.pod_uid != uid && holder.record.pod_uid != asked)
            };
            let mut answered = answered.filter(|answer| !is_anothers(answer)).peekable();
            answered.peek()?;
            answered.all(|answer| !may_have_changed(answer)).then_some("nothing changed since they were given")
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
mod tests {
    use std::time::Duration;

    use super::super::BY_HAND;
    use super::super::testing::{Stage, on_stage};
    use crate::workload::Cause;

    const CLAIM: &str = "records-leave-only-for-their-own-uid";
    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];
    const WHAT: &[(&str, &str)] = &[("p", "10.0.0.1")];

    #[test]
    fn an_orphan_may_lose_an_address_to_somebody_outside_and_a_pod_that_was_one_long_ago_may_not() {
        for (adopted, excuses) in [(None, vec![]), (Some(Duration::from_secs(50)), vec![]), (Some(Duration::from_secs(101)), vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.stateful_set("ns/web", 2);
                stage.static_pod("ns/web-1", "u");
                stage.add("ns/web-1", "u", FIRST);
                stage.is_of("ns/web-1", None);
                if let Some(since) = adopted {
                    stage.is_of("ns/web-1", Some("next"));
                    stage.pass(since);
                }
                stage.release("ns/web-1", "u", Cause::Conflict, WHAT);
                assert_eq!(stage.excuses(), excuses, "{adopted:?}");
            });
        }
    }

    fn with_pod(test: impl FnOnce(&mut Stage)) {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
            stage.stateful_set("ns/web", 3);
            stage.static_pod("ns/web-0", "a");
            stage.add("ns/web-0", "a", FIRST);
            test(stage);
        });
    }

    #[test]
    fn a_record_goes_after_its_release_was_said_by_whoever_removes_it() {
        with_pod(|stage| {
            stage.terminate("ns/web-0");
            stage.release("ns/web-0", "a", Cause::Del, WHAT);
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.record(stage.agent, "p", "10.0.0.2", "ns/web-0", "a");
            stage.unrecord(stage.agent, "p", "10.0.0.2");
            assert_eq!(stage.excuses(), [None]);
            let other = stage.process("agent-1");
            stage.say(other, crate::workload::IpamNote::Unqueued { ticket: 0 });
            stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "a");
            stage.unrecord(other, "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [None, None]);
        });
    }

    #[test]
    fn nothing_of_a_pod_that_is_alive_is_released_by_a_delete_or_a_successor() {
        for cause in [Cause::Del, Cause::Marked] {
            with_pod(|stage| {
                stage.release("ns/web-0", "a", cause, WHAT);
                assert_eq!(stage.excuses(), [None], "{cause:?}");
                stage.terminate("ns/web-0");
                stage.release("ns/web-0", "a", cause, WHAT);
                assert_eq!(stage.excuses(), [None], "{cause:?}");
            });
        }
    }

    #[test]
    fn a_roll_back_spares_what_was_answered() {
        with_pod(|stage| {
            stage.release("ns/web-0", "a", Cause::RollBack, &[("p", "10.0.0.2")]);
            assert_eq!(stage.excuses(), []);
            stage.release("ns/web-0", "a", Cause::RollBack, WHAT);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_roll_back_may_take_what_a_pod_was_answered_that_is_not_alive_once_no_sandbox_of_it_answers() {
        for (place, gone, answers, excuses) in [
            (false, true, false, vec![]),
            (false, true, true, vec![None]),
            (false, false, false, vec![None]),
            (true, true, false, vec![None]),
        ] {
            on_stage("records-leave-only-for-their-own-uid", |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                if place {
                    stage.static_pod("ns/web-0", "a");
                } else {
                    stage.pod("ns/web-0", "a");
                }
                stage.sandbox("a", "ns/web-0", "a");
                stage.add("ns/web-0", "a", FIRST);
                stage.attach("a", "eth0", &["10.0.0.1"]);
                if !answers {
                    stage.node(kube_sim::node::PodNote::SandboxGone { sandbox: "a".into() });
                }
                if gone {
                    stage.pod_gone("ns/web-0");
                }
                stage.release("ns/web-0", "a", Cause::RollBack, WHAT);
                assert_eq!(stage.excuses(), excuses, "place {place}, gone {gone}, answers {answers}");
            });
        }
    }

    /// Makes an agent write the endpoint, with or without a report of a conflict, and with or without the address.
    fn give_back(stage: &mut Stage, tells: bool, names: bool) {
        let key = kube_machinery::ObjectKey::namespaced("ns", "web-0");
        stage.change::<ipam_spiderpool::SpiderEndpoint>(stage.agent, &key, |endpoint| {
            if tells {
                endpoint
                    .metadata
                    .annotations
                    .get_or_insert_default()
                    .insert(crate::claim::given_back::CONFLICTING.to_owned(), "10.0.0.1".to_owned());
            }
            if !names {
                endpoint.status.as_mut().unwrap().current.ips.clear();
            }
        });
    }

    #[test]
    fn a_roll_back_may_take_what_the_plugin_has_given_back() {
        for (tells, names, excuses) in [(true, false, vec![]), (true, true, vec![None]), (false, false, vec![None])] {
            with_pod(|stage| {
                give_back(stage, tells, names);
                stage.release("ns/web-0", "a", Cause::RollBack, WHAT);
                assert_eq!(stage.excuses(), excuses, "told {tells}, named {names}");
            });
        }
    }

    #[test]
    fn a_roll_back_may_take_what_the_plugin_has_given_back_once_the_endpoint_is_gone_unless_it_was_named_again() {
        let (gone, anothers) = (None, Some("b"));
        for (tells, again, endpoint, excuses) in [
            (true, false, gone, vec![]),
            (true, false, anothers, vec![]),
            (true, true, gone, vec![None]),
            (true, true, anothers, vec![None]),
            (false, false, gone, vec![None]),
            (false, false, anothers, vec![None]),
        ] {
            with_pod(|stage| {
                give_back(stage, tells, false);
                if again {
                    stage.endpoint(stage.agent, "ns/web-0", "a", FIRST);
                }
                stage.endpoint_gone(stage.agent, "ns/web-0");
                if endpoint == anothers {
                    stage.endpoint(stage.agent, "ns/web-0", "b", &[("eth0", "p", "10.0.0.2")]);
                }
                stage.release("ns/web-0", "a", Cause::RollBack, WHAT);
                assert_eq!(stage.excuses(), excuses, "told {tells}, named again {again}, the endpoint is that of {endpoint:?}");
            });
        }
    }

    #[test]
    fn what_a_later_write_takes_out_of_an_endpoint_that_tells_of_a_conflict_is_not_given_back() {
        with_pod(|stage| {
            give_back(stage, true, true);
            give_back(stage, true, false);
            stage.release("ns/web-0", "a", Cause::RollBack, WHAT);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_roll_back_may_take_what_was_recorded_anew_once_the_endpoint_is_gone() {
        let (kept, gone, anothers) = (Some("a"), None, Some("b"));
        for (anew, endpoint, excuses) in [
            (true, gone, vec![]),
            (true, anothers, vec![]),
            (false, gone, vec![None]),
            (false, anothers, vec![None]),
            (true, kept, vec![Some(BY_HAND)]),
        ] {
            with_pod(|stage| {
                if anew {
                    stage.unrecord(stage.person, "p", "10.0.0.1");
                    stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "a");
                }
                if endpoint != kept {
                    stage.endpoint_gone(stage.agent, "ns/web-0");
                }
                if endpoint == anothers {
                    stage.endpoint(stage.agent, "ns/web-0", "b", &[("eth0", "p", "10.0.0.2")]);
                }
                stage.release("ns/web-0", "a", Cause::RollBack, WHAT);
                assert_eq!(stage.excuses(), excuses, "anew {anew}, the endpoint is that of {endpoint:?}");
            });
        }
    }

    #[test]
    fn only_pods_without_a_place_give_an_address_up_because_somebody_else_answers() {
        with_pod(|stage| {
            stage.pod("ns/b", "b");
            stage.add("ns/b", "b", &[("eth0", "p", "10.0.0.2")]);
            stage.release("ns/b", "b", Cause::Conflict, &[("p", "10.0.0.2")]);
            assert_eq!(stage.excuses(), []);
            stage.release("ns/web-0", "a", Cause::Conflict, WHAT);
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[0].ends_with("a place keeps its address even if another host answers on it"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn a_changed_pool_is_one_that_changed() {
        with_pod(|stage| {
            stage.change_pool(stage.agent, "p", |_| {});
            stage.release("ns/web-0", "a", Cause::PoolChange, WHAT);
            assert_eq!(stage.excuses(), [None]);
        });
        with_pod(|stage| {
            stage.change_pool(stage.person, "p", |pool| pool.spec.disable = true);
            stage.release("ns/web-0", "a", Cause::PoolChange, WHAT);
            assert_eq!(stage.excuses(), []);
        });
        with_pod(|stage| {
            stage.reserve("r", &["10.0.0.1"]);
            stage.release("ns/web-0", "a", Cause::PoolChange, WHAT);
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn what_somebody_else_has_by_now_is_given_up() {
        for (by_now, excuses) in [("other", vec![]), ("b", vec![None]), ("a", vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.stateful_set("ns/web", 3);
                stage.static_pod("ns/web-0", "a");
                stage.add("ns/web-0", "a", FIRST);
                stage.pod_gone("ns/web-0");
                stage.static_pod("ns/web-0", "b");
                stage.pod("ns/other", "other");
                match by_now {
                    "other" => {
                        stage.release("ns/web-0", "a", Cause::Del, WHAT);
                        stage.unrecord(stage.agent, "p", "10.0.0.1");
                        stage.record(stage.agent, "p", "10.0.0.1", "ns/other", "other");
                    }
                    "b" => stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "b"),
                    _ => {}
                }
                stage.release_for("ns/web-0", "a", "b", Cause::PoolChange, WHAT);
                assert_eq!(stage.excuses(), excuses, "recorded for {by_now}");
            });
        }
    }

    #[test]
    fn a_pool_that_goes_with_the_set_before_is_not_for_the_pods_of_this_one() {
        for (set, excuses) in [("set", vec![None]), ("next", vec![])] {
            on_stage(CLAIM, |stage| {
                stage.subnet("s", &["10.0.0.1-10.0.0.9"]);
                stage.auto_pool(stage.replicas[0], "p", "set", &["10.0.0.1-10.0.0.9"]);
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.stateful_set("ns/web", 3);
                stage.static_pod("ns/web-0", "a");
                stage.add("ns/web-0", "a", FIRST);
                stage.pod_gone("ns/web-0");
                stage.static_pod_of("ns/web-0", "b", set);
                stage.release_for("ns/web-0", "a", "b", Cause::PoolChange, WHAT);
                assert_eq!(stage.excuses(), excuses, "{set}");
            });
        }
    }

    #[test]
    fn the_wishes_are_those_of_the_pod_that_asked_though_another_has_its_name_by_now() {
        let with = |stage: &mut Stage, uid: &str, wish: &str| {
            stage.static_pod("ns/web-0", uid);
            let key = kube_machinery::ObjectKey::namespaced("ns", "web-0");
            stage.change::<k8s_openapi::api::core::v1::Pod>(stage.person, &key, |pod| {
                let wish = format!(r#"{{"ipv4":["{wish}"]}}"#);
                pod.metadata.annotations.get_or_insert_default().insert("ipam.spidernet.io/ippool".to_owned(), wish);
            });
        };
        // A request for the pod that wishes for another pool may give up the address of this one; the other requests may not.
        for (asked, excuses) in [("other", vec![]), ("same", vec![None]), ("", vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pool("q", &["10.0.1.1-10.0.1.9"]);
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.stateful_set("ns/web", 3);
                with(stage, "a", "p");
                stage.add("ns/web-0", "a", FIRST);
                stage.pod_gone("ns/web-0");
                with(stage, "other", "q");
                stage.pod_gone("ns/web-0");
                with(stage, "same", "p");
                stage.release_for("ns/web-0", "a", asked, Cause::PoolChange, WHAT);
                assert_eq!(stage.excuses(), excuses, "{asked:?}");
            });
        }
    }

    #[test]
    fn what_a_nic_without_a_name_had_is_for_a_pod_that_has_a_nic_without_one_at_its_place() {
        let nameless = |wish| ("ipam.spidernet.io/ippools", wish);
        let two = nameless(r#"[{"ipv4":["p"]},{"ipv4":["p"]}]"#);
        let with = |stage: &mut Stage, uid: &str, (key, wish): (&str, &str)| {
            stage.static_pod("ns/web-0", uid);
            let of = kube_machinery::ObjectKey::namespaced("ns", "web-0");
            stage.change::<k8s_openapi::api::core::v1::Pod>(stage.person, &of, |pod| {
                pod.metadata.annotations.get_or_insert_default().insert(key.to_owned(), wish.to_owned());
            });
        };
        for (wish, excuses) in [
            (two, vec![None]),
            (nameless(r#"[{"ipv4":["q"]},{"ipv4":["p"]},{"ipv4":["p"]}]"#), vec![None]),
            (nameless(r#"[{"ipv4":["p"]},{"ipv4":["q"]}]"#), vec![]),
            (nameless(r#"[{"ipv4":["p"]}]"#), vec![]),
            (("ipam.spidernet.io/ippool", r#"{"ipv4":["p"]}"#), vec![]),
        ] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.stateful_set("ns/web", 3);
                with(stage, "a", two);
                stage.add("ns/web-0", "a", &[("eth0", "p", "10.0.0.1"), ("", "p", "10.0.0.2")]);
                stage.pod_gone("ns/web-0");
                with(stage, "b", wish);
                stage.release_for("ns/web-0", "a", "b", Cause::PoolChange, &[("p", "10.0.0.2")]);
                assert_eq!(stage.excuses(), excuses, "{wish:?}");
            });
        }
    }

    #[test]
    fn what_changed_for_a_vm_is_asked_of_its_next_pod_whatever_its_name() {
        for moved in [false, true] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.change_pool(stage.person, "p", |pool| pool.spec.node_name = Some(vec!["node-0".to_owned()]));
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.vm_pod("ns/virt-1", "a", "vm");
                stage.add("ns/virt-1", "a", FIRST);
                stage.pod_gone("ns/virt-1");
                stage.vm_pod("ns/virt-2", "b", "vm");
                if moved {
                    let key = kube_machinery::ObjectKey::namespaced("ns", "virt-2");
                    stage.change::<k8s_openapi::api::core::v1::Pod>(stage.kubelet, &key, |pod| {
                        pod.spec.as_mut().unwrap().node_name = Some("node-1".to_owned());
                    });
                }
                stage.release_for("ns/vm", "a", "b", Cause::PoolChange, WHAT);
                assert_eq!(stage.excuses().is_empty(), moved);
            });
        }
    }

    #[test]
    fn what_a_vm_brought_along_from_another_node_may_be_given_up_by_the_next_pod_there() {
        let add = |stage: &mut Stage, pod: &str, uid: &str| {
            stage.ask(pod, uid, "eth0");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", uid);
            stage.answer(pod, uid, "eth0", FIRST);
        };
        for migrated in [false, true] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.change_pool(stage.person, "p", |pool| pool.spec.node_name = Some(vec!["node-1".to_owned()]));
                stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
                stage.vm_pod("ns/virt-1", "source", "vm");
                let key = kube_machinery::ObjectKey::namespaced("ns", "virt-1");
                stage.change::<k8s_openapi::api::core::v1::Pod>(stage.kubelet, &key, |pod| {
                    pod.spec.as_mut().unwrap().node_name = Some("node-1".to_owned());
                });
                add(stage, "ns/virt-1", "source");
                if !migrated {
                    stage.pod_gone("ns/virt-1");
                }
                stage.vm_pod("ns/virt-2", "target", "vm");
                add(stage, "ns/virt-2", "target");
                stage.pod_gone("ns/virt-2");
                stage.vm_pod("ns/virt-3", "next", "vm");
                stage.release_for("ns/vm", "target", "next", Cause::PoolChange, WHAT);
                assert_eq!(stage.excuses().is_empty(), migrated);
            });
        }
    }

    #[test]
    fn a_record_is_handed_on_under_its_name_from_a_pod_that_is_not_alive() {
        with_pod(|stage| {
            stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "b");
            assert_eq!(stage.excuses(), [None]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "a");
            stage.pod_gone("ns/web-0");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "b");
            assert_eq!(stage.excuses(), [None]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/web-1", "c");
            assert_eq!(stage.excuses(), [None, None]);
            assert!(stage.detail()[0].ends_with("it is handed to a pod of another name"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn the_pods_of_a_migration_hand_their_records_to_each_other() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.vm_pod("ns/virt-1", "source", "vm");
            stage.vm_pod("ns/virt-2", "target", "vm");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "source");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "target");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn a_record_that_a_person_changed_excuses() {
        with_pod(|stage| {
            stage.record(stage.person, "p", "10.0.0.1", "ns/web-0", "b");
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }
}
