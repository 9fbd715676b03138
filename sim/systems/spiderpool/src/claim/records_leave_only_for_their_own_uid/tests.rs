//! What may leave a pool, and what may not.

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
    for (place, gone, answers, excuses) in
        [(false, true, false, vec![]), (false, true, true, vec![None]), (false, false, false, vec![None]), (true, true, false, vec![None])]
    {
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
fn a_nic_that_the_next_pod_lacks_is_given_up_as_a_whole_once_somebody_else_has_an_address_of_it() {
    const PAIR: &[(&str, &str, &str)] = &[("net1", "p", "10.0.0.1"), ("net1", "q", "fd00::1")];
    for (nic, taken, excuses) in [("net1", true, vec![]), ("net1", false, vec![None]), ("eth0", true, vec![None])] {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pool("q", &["fd00::1-fd00::9"]);
            stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
            stage.stateful_set("ns/web", 3);
            stage.static_pod("ns/web-0", "a");
            let pair: Vec<_> = PAIR.iter().map(|&(_, pool, address)| (nic, pool, address)).collect();
            stage.add("ns/web-0", "a", &pair);
            stage.pod_gone("ns/web-0");
            stage.static_pod("ns/web-0", "b");
            stage.pod("ns/other", "other");
            if taken {
                stage.release("ns/web-0", "a", Cause::Del, WHAT);
                stage.unrecord(stage.agent, "p", "10.0.0.1");
                stage.record(stage.agent, "p", "10.0.0.1", "ns/other", "other");
            }
            stage.release_for("ns/web-0", "a", "b", Cause::PoolChange, &[("p", "10.0.0.1"), ("q", "fd00::1")]);
            assert_eq!(stage.excuses(), excuses, "{nic}, taken: {taken}");
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
    // The source goes before the target asks, between the record and the answer for the target, or after that.
    for (goes, migrated) in [("before", false), ("between", true), ("after", true)] {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.change_pool(stage.person, "p", |pool| pool.spec.node_name = Some(vec!["node-1".to_owned()]));
            stage.deliver::<ipam_spiderpool::SpiderIPPool>(stage.agent);
            stage.vm_pod("ns/virt-1", "source", "vm");
            let key = kube_machinery::ObjectKey::namespaced("ns", "virt-1");
            stage.change::<k8s_openapi::api::core::v1::Pod>(stage.kubelet, &key, |pod| {
                pod.spec.as_mut().unwrap().node_name = Some("node-1".to_owned());
            });
            let add = |stage: &mut Stage, pod: &str, uid: &str, source_goes: bool| {
                stage.ask(pod, uid, "eth0");
                stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", uid);
                if source_goes {
                    stage.pass(Duration::from_secs(1));
                    stage.pod_gone("ns/virt-1");
                }
                stage.pass(Duration::from_secs(1));
                stage.answer(pod, uid, "eth0", FIRST);
            };
            add(stage, "ns/virt-1", "source", false);
            if goes == "before" {
                stage.pod_gone("ns/virt-1");
            }
            stage.vm_pod("ns/virt-2", "target", "vm");
            add(stage, "ns/virt-2", "target", goes == "between");
            stage.pod_gone("ns/virt-2");
            stage.vm_pod("ns/virt-3", "next", "vm");
            stage.release_for("ns/vm", "target", "next", Cause::PoolChange, WHAT);
            assert_eq!(stage.excuses().is_empty(), migrated, "{goes}");
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
