//! Each deviation of the agent: without it a promise holds, with it alone the promise is broken.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::api_server::Deed;
use crate::promise::promises;
use crate::scene::{Owner, Scene, addresses, ippools};
use crate::shown_elsewhere::SHOWN_ELSEWHERE;
use ipam_spiderpool::Policy;
use ipam_spiderpool::ipam::DelOutcome;
use kube_machinery::api::ObjectKey;
use serde_json::json;

/// One NIC and both families.
const BOTH: &str = r#"[{"interface":"eth0","ipv4":["p4"],"ipv6":["p6"]}]"#;
/// One NIC, IPv4 only.
const ONE: &str = r#"[{"interface":"eth0","ipv4":["p4"]}]"#;

/// All addresses that an answer names are recorded for the pod.
fn is_recorded(scene: &Scene, uid: &str, addresses: &[String]) -> bool {
    let of = scene.of(uid);
    !addresses.is_empty() && addresses.iter().all(|ip| of.contains(ip))
}

promises! {
    every: every_deviation_of_the_agent_has_a_promise_here_or_elsewhere, of: Policy::DEVIATIONS, elsewhere: SHOWN_ELSEWHERE;

    pools_that_overlap_give_no_address_twice, "overlap-admitted-forever", |scene| {
        scene.world.put(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "o4"},
            "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.3"], "ipVersion": 4},
        }));
        let mut given = Vec::new();
        for (name, pool) in [("a", "p4"), ("b", "o4")] {
            scene.pod(name, name, Owner::Nobody, &ippools(&[("eth0", &[pool], &[])]));
            given.extend(scene.add(name, name, "eth0").iter().flat_map(addresses));
        }
        given.iter().collect::<BTreeSet<_>>().len() == given.len()
    };
    equal_pools_keep_their_order, "ties-in-any-order", |scene| {
        (0..20).all(|at| {
            let (name, uid) = (format!("a{at}"), format!("u{at}"));
            scene.pod(&name, &uid, Owner::Nobody, &ippools(&[("eth0", &["q4", "p4"], &[])]));
            let answer = scene.add(&name, &uid, "eth0").unwrap();
            scene.terminate(&name);
            scene.del(&name, &uid, "eth0").unwrap();
            &*answer.ips[0].pool == "q4"
        })
    };
    two_nics_have_two_addresses, "one-record-per-pod", |scene| {
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["p4"], &[])]));
        let answer = scene.add("a", "u", "eth0").unwrap();
        let distinct: BTreeSet<_> = addresses(&answer).into_iter().collect();
        distinct.len() == 2 && scene.of("u").len() == 2
    };
    a_pattern_may_name_a_pool_again, "wildcard-duplicates-fail", |scene| {
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "p*"], &[])]));
        scene.add("a", "u", "eth0").is_ok()
    };
    a_full_pool_is_filtered_out, "capacity-not-filtered", |scene| {
        scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["ips"] = json!([]));
        scene.pod("a", "u", Owner::Nobody, ONE);
        scene.add("a", "u", "eth0").unwrap_err().class() == "all-filtered"
    };
    a_pool_that_names_no_network_needs_none, "multus-always-resolved", |scene| {
        scene.config.settings.set("MULTUS_CLUSTER_NETWORK", "").unwrap();
        let caches = scene.world.clone();
        scene.restart(&caches);
        scene.pod("a", "u", Owner::Nobody, ONE);
        scene.add("a", "u", "eth0").is_ok()
    };
    outdated_keys_of_namespaces_are_read, "outdated-keys-ignored", |scene| {
        let annotations = json!({"ipam.spidernet.io/defaultv4ippool": "[\"q4\"]"});
        scene.world.change("Namespace", &ObjectKey::cluster("ns"), |namespace| namespace["metadata"]["annotations"] = annotations);
        scene.pod("a", "u", Owner::Nobody, ONE);
        scene.change("Pod", "a", |pod| pod["metadata"]["annotations"] = json!({}));
        scene.add("a", "u", "eth0").is_ok_and(|answer| &*answer.ips[0].pool == "q4")
    };
    addresses_are_tried_from_the_lowest_up, "upstream-ranges", |scene| {
        scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["ips"] = json!(["10.0.0.9", "10.0.0.2"]));
        scene.pod("a", "u", Owner::Nobody, ONE);
        addresses(&scene.add("a", "u", "eth0").unwrap()) == ["10.0.0.2"]
    };
    a_nic_without_a_name_keeps_its_address, "nameless-nic-always-changed", |scene| {
        scene.record("p4", "10.0.0.1", "ns/x", "x");
        scene.pod("db-0", "u1", Owner::StatefulSet, &ippools(&[("", &["p4"], &[])]));
        let first = addresses(&scene.add("db-0", "u1", "eth0").unwrap());
        scene.forget_record("p4", "10.0.0.1");
        scene.pod("db-0", "u2", Owner::StatefulSet, &ippools(&[("", &["p4"], &[])]));
        scene.add("db-0", "u2", "eth0").is_ok_and(|answer| addresses(&answer) == first)
    };
    a_partial_change_of_pools_leaves_an_endpoint_that_serves, "partial-pool-change-recreates", |scene| {
        scene.pod("db-0", "u1", Owner::StatefulSet, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.record("q4", "10.0.1.9", "ns/x", "x");
        scene.pod("db-0", "u2", Owner::StatefulSet, &ippools(&[("eth0", &["q4"], &[]), ("net1", &["q4"], &[])]));
        let Ok(answer) = scene.add("db-0", "u2", "eth0") else { return false };
        scene.of("u1").is_empty() && scene.of("u2").len() == 2 && is_recorded(scene, "u2", &addresses(&answer)) && {
            let answer = scene.add("db-0", "u2", "net1").unwrap();
            addresses(&answer).contains(&"10.0.1.1".to_owned())
        }
    };
    an_inherited_address_is_recorded, "reown-missing-record", |scene| {
        scene.pod("db-0", "u1", Owner::StatefulSet, BOTH);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.forget_record("p4", "10.0.0.1");
        scene.pod("db-0", "u2", Owner::StatefulSet, BOTH);
        let answer = scene.add("db-0", "u2", "eth0").unwrap();
        is_recorded(scene, "u2", &addresses(&answer)) && scene.of("u1").is_empty()
    };
    an_address_that_somebody_else_has_is_given_up, "foreign-record-blocks", |scene| {
        scene.pod("db-0", "u1", Owner::StatefulSet, ONE);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.record("p4", "10.0.0.1", "ns/x", "x");
        scene.pod("db-0", "u2", Owner::StatefulSet, ONE);
        scene.add("db-0", "u2", "eth0").is_ok_and(|answer| is_recorded(scene, "u2", &addresses(&answer))) && scene.of("x").len() == 1
    };
    a_late_del_leaves_the_successor_its_addresses, "del-adopts-current-uid", |scene| {
        scene.pod("a", "u1", Owner::Nobody, ONE);
        scene.add("a", "u1", "eth0").unwrap();
        scene.terminate("a");
        scene.del("a", "u1", "eth0").unwrap();
        scene.pod("a", "u2", Owner::Nobody, ONE);
        scene.add("a", "u2", "eth0").unwrap();
        scene.terminate("a");
        scene.del("a", "u1", "eth0").unwrap();
        scene.of("u2").len() == 1
    };
    a_late_del_takes_what_its_pod_has_left, "partial-failure-keeps-records", |scene| {
        scene.pod("a", "u1", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
        scene.change("SpiderIPPool", "q4", |pool| pool["status"]["allocatedIPs"] = json!("broken"));
        assert!(scene.add("a", "u1", "eth0").is_err());
        scene.change("SpiderIPPool", "q4", |pool| pool["status"] = json!({}));
        scene.of("u1").is_empty()
    };
    a_failed_add_gives_back_what_it_found_recorded, "partial-failure-keeps-records", |scene| {
        let mut lost = false;
        scene.world.script(move |name, _| {
            let first = name == "update SpiderIPPool/status" && !std::mem::replace(&mut lost, true);
            if first { Deed::LoseReply } else { Deed::Serve }
        });
        scene.pod("a", "u1", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
        scene.change("SpiderIPPool", "q4", |pool| pool["status"]["allocatedIPs"] = json!("broken"));
        assert!(scene.add("a", "u1", "eth0").is_err());
        scene.change("SpiderIPPool", "q4", |pool| pool["status"] = json!({}));
        scene.of("u1").is_empty()
    };
    records_carry_the_uid_of_the_request, "uid-from-cached-pod", |scene| {
        scene.pod("a", "u1", Owner::Nobody, ONE);
        let old = scene.world.frozen();
        scene.restart(&old);
        scene.pod("a", "u2", Owner::Nobody, ONE);
        scene.add("a", "u2", "eth0").unwrap();
        scene.of("u2").len() == 1 && scene.of("u1").is_empty()
    };
    an_add_without_a_uid_is_for_the_pod_that_is_there, "add-without-uid-from-cache", |scene| {
        scene.pod("a", "u1", Owner::Nobody, ONE);
        let old = scene.world.frozen();
        scene.restart(&old);
        scene.pod("a", "u2", Owner::Nobody, ONE);
        scene.add("a", "", "eth0").is_ok() && scene.of("u2").len() == 1 && scene.of("u1").is_empty()
    };
    a_del_without_a_uid_takes_nothing_for_a_sandbox_that_is_not_known, "del-without-uid-adopts-pod", |scene| {
        scene.pod("a", "u", Owner::Nobody, ONE);
        scene.add("a", "u", "eth0").unwrap();
        scene.world.vanish("SpiderEndpoint", &ObjectKey::namespaced("ns", "a"));
        scene.terminate("a");
        scene.in_sandbox("former").del("a", "", "eth0").unwrap();
        scene.of("u").len() == 1
    };
    a_dead_pod_gets_nothing_though_the_cache_shows_it_alive, "liveness-from-cache", |scene| {
        scene.pod("a", "u", Owner::Nobody, ONE);
        let old = scene.world.frozen();
        scene.restart(&old);
        scene.terminate("a");
        scene.add("a", "u", "eth0").is_err_and(|error| error.class() == "dead-pod") && scene.of("u").is_empty()
    };
    a_stale_cache_does_not_cost_the_first_nic_its_entry, "endpoint-delete-by-name", |scene| {
        let (one, both) = (ippools(&[("eth0", &["p4"], &[])]), ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
        scene.pod("a", "u1", Owner::Nobody, &one);
        scene.add("a", "u1", "eth0").unwrap();
        let old = scene.world.frozen();
        scene.world.vanish("SpiderEndpoint", &ObjectKey::namespaced("ns", "a"));
        scene.pod("a", "u2", Owner::Nobody, &one);
        scene.add("a", "u2", "eth0").unwrap();
        scene.pod("a", "u2", Owner::Nobody, &both);
        old.vanish("Pod", &ObjectKey::namespaced("ns", "a"));
        let pod = scene.world.find::<k8s_openapi::api::core::v1::Pod>(&ObjectKey::namespaced("ns", "a")).unwrap();
        let mut pod = serde_json::to_value(&*pod).unwrap();
        pod["kind"] = json!("Pod");
        old.put(pod);
        scene.restart(&old);
        let first = scene.of("u2");
        let _ = scene.add("a", "u2", "net1");
        first.iter().all(|ip| scene.stored("a").contains(ip))
    };
    a_lost_answer_leaves_one_record, "lost-reply-takes-next-pool", |scene| {
        let mut lost = false;
        scene.world.script(move |name, _| {
            let first = name == "update SpiderIPPool/status" && !std::mem::replace(&mut lost, true) && name.contains("status");
            if first { Deed::LoseReply } else { Deed::Serve }
        });
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[])]));
        scene.add("a", "u", "eth0").is_ok() && scene.of("u").len() == 1
    };
    an_address_that_does_not_work_is_not_given_again, "conflict-returns-same-address", |scene| {
        scene.pod("a", "u", Owner::Nobody, ONE);
        let first = addresses(&scene.add("a", "u", "eth0").unwrap());
        scene.release("a", "u").unwrap();
        assert!(scene.of("u").is_empty());
        let answer = scene.add("a", "u", "eth0").unwrap();
        addresses(&answer) != first && is_recorded(scene, "u", &addresses(&answer))
    };
    an_address_that_did_not_work_is_tried_again_once_no_other_is_left, "conflict-avoided-forever", |scene| {
        scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["ips"] = json!(["10.0.0.1-10.0.0.2"]));
        scene.pod("a", "u", Owner::Nobody, ONE);
        let first = addresses(&scene.add("a", "u", "eth0").unwrap());
        scene.release("a", "u").unwrap();
        let second = addresses(&scene.add("a", "u", "eth0").unwrap());
        scene.release("a", "u").unwrap();
        let Ok(third) = scene.add("a", "u", "eth0") else { return false };
        scene.release("a", "u").unwrap();
        // All are tried again: each has its turn, and none is tried twice in a row.
        let fourth = addresses(&scene.add("a", "u", "eth0").unwrap());
        first != second && addresses(&third) == first && fourth == second && is_recorded(scene, "u", &fourth)
    };
    a_static_pod_leaves_a_pool_that_was_disabled, "static-reuse-skips-filter", |scene| {
        let pools = ippools(&[("eth0", &["p4", "q4"], &[])]);
        scene.pod("db-0", "u1", Owner::StatefulSet, &pools);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["disable"] = json!(true));
        scene.pod("db-0", "u2", Owner::StatefulSet, &pools);
        let answer = scene.add("db-0", "u2", "eth0").unwrap();
        addresses(&answer) == ["10.0.1.1"] && scene.records().len() == 1
    };
    nobody_allocates_after_the_deadline, "limiter-ignores-deadline", |scene| {
        scene.pod("a", "u", Owner::Nobody, ONE);
        let mut request = scene.add_request("a", "u", "eth0");
        let env = scene.env.clone();
        request.deadline = Some(kube_machinery::env::Env::monotonic(&env) + Duration::from_secs(1));
        scene.world.script(move |name, _| {
            if name == "get Pod" {
                env.pass(Duration::from_secs(2));
            }
            Deed::Serve
        });
        crate::api_server::run(scene.agent.add(&request)).unwrap().is_err() && scene.of("u").is_empty()
    };
    what_is_remembered_is_looked_up_before_it_is_answered, "failure-cache-unchecked", |scene| {
        fail_and_remember(scene, Owner::Nobody);
        scene.forget_record("p4", "10.0.0.1");
        let answer = scene.add("a-0", "u", "eth0").unwrap();
        is_recorded(scene, "u", &addresses(&answer))
    };
    an_answer_of_any_kind_ends_the_memory, "failure-cache-kept-by-reuse", |scene| {
        fail_and_remember(scene, Owner::StatefulSet);
        scene.world.put(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
            "metadata": {"namespace": "ns", "name": "a-0", "finalizers": ["spiderpool.spidernet.io"]},
            "status": {
                "ownerControllerType": "StatefulSet", "ownerControllerName": "db",
                "current": {"uid": "u", "node": "n", "ips": [{"interface": "eth0", "ipv4": "10.0.0.1/24", "ipv4Pool": "p4"}]},
            },
        }));
        scene.add("a-0", "u", "eth0").unwrap();
        scene.agent.remembered().is_empty()
    };
    a_del_of_another_uid_marks_nothing, "mark-before-uid-check", |scene| {
        scene.pod("db-2", "u1", Owner::StatefulSet, ONE);
        scene.add("db-2", "u1", "eth0").unwrap();
        scene.change("StatefulSet", "db", |set| set["spec"]["replicas"] = json!(1));
        scene.world.vanish("Pod", &ObjectKey::namespaced("ns", "db-2"));
        assert_eq!(scene.del("db-2", "u0", "eth0"), Ok(DelOutcome::NotOurs));
        scene.endpoint("db-2").unwrap().metadata.deletion_timestamp.is_none()
    };
    a_finalizer_is_removed_in_the_end, "finalizer-left-behind", |scene| {
        scene.pod("a", "u", Owner::Nobody, ONE);
        scene.add("a", "u", "eth0").unwrap();
        scene.terminate("a");
        let mut refused = false;
        scene.world.script(move |name, _| {
            if name == "patch SpiderEndpoint" && !std::mem::replace(&mut refused, true) { Deed::Refuse } else { Deed::Serve }
        });
        let _ = scene.del("a", "u", "eth0");
        scene.endpoint("a").is_none_or(|endpoint| endpoint.metadata.finalizers.as_ref().is_none_or(Vec::is_empty))
    };
    all_nics_without_a_name_are_stored, "nameless-entry-lost", |scene| {
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("", &["p4"], &[]), ("", &["p4"], &[]), ("", &["q4"], &[])]));
        scene.add("a", "u", "eth0").unwrap();
        scene.release("a", "u").unwrap();
        scene.add("a", "u", "eth0").unwrap();
        scene.stored("a").len() == 3
    };
    the_endpoint_of_a_bare_namesake_is_not_inherited, "reown-foreign-endpoint", |scene| {
        scene.pod("db-0", "u1", Owner::Nobody, ONE);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.pod("db-0", "u2", Owner::StatefulSet, ONE);
        scene.add("db-0", "u2", "eth0").unwrap();
        let endpoint = scene.endpoint("db-0").unwrap();
        endpoint.metadata.owner_references.as_ref().is_none_or(Vec::is_empty) && scene.of("u1").len() == 1
    };
    the_answer_is_what_is_stored, "answer-not-as-stored", |scene| {
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[])]));
        scene.add("a", "u", "eth0").unwrap();
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["q4"], &[]), ("net1", &["q4"], &[])]));
        let answer = scene.add("a", "u", "net1").unwrap();
        addresses(&answer).iter().all(|ip| scene.stored("a").contains(ip))
    };
    a_family_that_is_off_is_not_answered, "static-reuse-before-gating", |scene| {
        scene.pod("db-0", "u1", Owner::StatefulSet, BOTH);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.config.settings.set("enableIPv6", "false").unwrap();
        let caches = scene.world.clone();
        scene.restart_long_ago(&caches);
        scene.pod("db-0", "u2", Owner::StatefulSet, BOTH);
        addresses(&scene.add("db-0", "u2", "eth0").unwrap()) == ["10.0.0.1"]
    };
    pools_are_read_live, "allocate-from-cached-pool", |scene| {
        scene.pod("a", "u1", Owner::Nobody, ONE);
        scene.pod("b", "u2", Owner::Nobody, ONE);
        let old = scene.world.frozen();
        scene.restart_long_ago(&old);
        let (first, second) = (scene.add("a", "u1", "eth0").unwrap(), scene.add("b", "u2", "eth0").unwrap());
        addresses(&first) != addresses(&second)
    };
    nobody_loses_a_record_to_an_heir, "reown-ignores-owner", |scene| {
        scene.pod("db-0", "u1", Owner::StatefulSet, ONE);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.record("p4", "10.0.0.1", "ns/x", "x");
        scene.pod("db-0", "u2", Owner::StatefulSet, ONE);
        scene.add("db-0", "u2", "eth0").unwrap();
        scene.of("x").len() == 1
    };
    a_namesake_inherits_nothing, "adopt-stale-endpoint", |scene| {
        scene.pod("a", "u1", Owner::Nobody, ONE);
        let first = addresses(&scene.add("a", "u1", "eth0").unwrap());
        scene.pod("a", "u2", Owner::Nobody, ONE);
        addresses(&scene.add("a", "u2", "eth0").unwrap()) != first
    };
    every_request_has_an_end, "waits-without-end", |scene| {
        scene.pod("a", "u", Owner::Nobody, ONE);
        let mut request = scene.add_request("a", "u", "eth0");
        request.deadline = None;
        crate::api_server::run(scene.agent.add(&request)).unwrap().unwrap();
        scene.world.endless() == 0
    };
    a_marked_endpoint_is_ended_and_not_used, "terminating-endpoint-reused", |scene| {
        scene.pod("db-0", "u1", Owner::StatefulSet, ONE);
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.change("SpiderEndpoint", "db-0", |endpoint| endpoint["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
        scene.pod("db-0", "u2", Owner::StatefulSet, ONE);
        let answer = scene.add("db-0", "u2", "eth0").unwrap();
        let marked = scene.endpoint("db-0").unwrap().metadata.deletion_timestamp.is_some();
        !marked && is_recorded(scene, "u2", &addresses(&answer)) && scene.of("u1").is_empty()
    };
    an_endpoint_that_the_cache_does_not_show_is_found, "late-endpoint-create-fails", |scene| {
        let both = ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]);
        scene.pod("a", "u", Owner::Nobody, &both);
        let old = scene.world.frozen();
        scene.add("a", "u", "eth0").unwrap();
        scene.restart_long_ago(&old);
        scene.add("a", "u", "net1").is_ok() && scene.of("u").len() == 2
    };
    an_existing_address_is_recorded, "unrecorded-answer", |scene| {
        scene.pod("a", "u", Owner::Nobody, ONE);
        scene.add("a", "u", "eth0").unwrap();
        scene.record("p4", "10.0.0.1", "ns/x", "x");
        let answer = scene.add("a", "u", "eth0").unwrap();
        is_recorded(scene, "u", &addresses(&answer))
    };
    a_static_address_is_not_released_for_a_conflict, "stateful-conflict-released", |scene| {
        scene.pod("db-0", "u", Owner::StatefulSet, ONE);
        scene.add("db-0", "u", "eth0").unwrap();
        scene.release("db-0", "u").is_err_and(|error| error.class() == "forbid-stateful") && scene.of("u").len() == 1
    };
    a_statefulset_of_a_third_party_keeps_nothing, "static-by-kind-only", |scene| {
        scene.pod("db-0", "u", Owner::ThirdParty, ONE);
        scene.add("db-0", "u", "eth0").unwrap();
        scene.terminate("db-0");
        scene.del("db-0", "u", "eth0").unwrap();
        scene.of("u").is_empty()
    };
    a_conflict_costs_no_other_nic_its_address, "conflict-releases-all-nics", |scene| {
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
        scene.add("a", "u", "eth0").unwrap();
        scene.add("a", "u", "net1").unwrap();
        scene.conflict("a", "u", "10.0.1.1").unwrap();
        let kept = scene.of("u") == ["10.0.0.1"];
        let again = scene.add("a", "u", "net1").unwrap();
        assert!(again.ips.iter().any(|ip| &*ip.nic == "net1" && ip.address.addr().to_string() != "10.0.1.1"), "{again:?}");
        kept
    };
    an_address_stays_recorded_until_the_del_of_its_own_nic, "first-del-releases-all", |scene| {
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
        scene.add("a", "u", "eth0").unwrap();
        scene.terminate("a");
        scene.del("a", "u", "net1").unwrap();
        let kept = scene.of("u") == ["10.0.0.1"];
        scene.del("a", "u", "eth0").unwrap();
        assert_eq!(scene.records(), []);
        kept
    };
    an_address_stays_recorded_after_the_del_of_a_nic_that_got_none, "first-del-releases-all", |scene| {
        scene.pod("a", "u", Owner::Nobody, ONE);
        scene.add("a", "u", "eth0").unwrap();
        scene.terminate("a");
        scene.add("a", "u", "net1").unwrap_err();
        scene.del("a", "u", "net1").unwrap();
        let kept = scene.of("u") == ["10.0.0.1"];
        scene.del("a", "u", "eth0").unwrap();
        assert_eq!(scene.records(), []);
        kept
    };
    an_address_stays_recorded_although_the_first_nics_del_came_before_its_own, "first-del-releases-all", |scene| {
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
        scene.add("a", "u", "eth0").unwrap();
        scene.add("a", "u", "net1").unwrap();
        scene.terminate("a");
        scene.del("a", "u", "eth0").unwrap();
        let kept = scene.of("u") == ["10.0.1.1"] && scene.endpoint("a").unwrap().metadata.finalizers.is_some();
        scene.del("a", "u", "net1").unwrap();
        assert_eq!((scene.records(), scene.endpoint("a").unwrap().metadata.finalizers.clone()), (vec![], None));
        kept
    };
    a_further_nic_finds_the_endpoint_of_the_first_though_the_cache_does_not_show_it, "further-nic-draws-again", |scene| {
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4", "q4"], &[]), ("net1", &["q4"], &[])]));
        let old = scene.world.frozen();
        scene.add("a", "u", "eth0").unwrap();
        // A second allocation comes to another pool.
        old.change("SpiderIPPool", &ObjectKey::cluster("p4"), |pool| pool["spec"]["disable"] = json!(true));
        scene.restart_long_ago(&old);
        scene.world.log();
        scene.add("a", "u", "net1").unwrap();
        assert_eq!(scene.of("u"), ["10.0.0.1", "10.0.1.1"]);
        !scene.world.log().iter().any(|request| request.starts_with("update SpiderIPPool/status"))
    };
    a_repeated_del_of_an_older_sandbox_leaves_what_the_newer_one_has, "sandbox-not-asked", |scene| {
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[])]));
        scene.in_sandbox("first").add("a", "u", "eth0").unwrap();
        scene.del("a", "u", "eth0").unwrap();
        scene.in_sandbox("second").add("a", "u", "eth0").unwrap();
        scene.terminate("a");
        scene.in_sandbox("first").del("a", "u", "eth0").unwrap();
        let kept = scene.of("u") == ["10.0.0.1"];
        scene.in_sandbox("second").del("a", "u", "eth0").unwrap();
        assert_eq!(scene.records(), []);
        kept
    };
    a_deleted_vm_keeps_its_address_while_a_pod_of_it_runs, "migration-ends-with-one-del", |scene| {
        scene.vm_pod("virt-1", "a", "vm");
        scene.vm_pod("virt-2", "b", "vm");
        scene.add("virt-1", "a", "eth0").unwrap();
        scene.add("virt-2", "b", "eth0").unwrap();
        let vmi = |active: serde_json::Value| {
            scene.world.put(json!({
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
                "metadata": {
                    "name": "vm", "namespace": "ns", "uid": "vm", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"],
                },
                "spec": {}, "status": {"activePods": active},
            }));
        };
        vmi(json!({"a": "n", "b": "m"}));
        scene.terminate("virt-2");
        scene.del("virt-2", "b", "eth0").unwrap();
        let kept = scene.of("b") == ["10.0.0.1"];
        vmi(json!({"b": "m"}));
        scene.world.vanish("Pod", &ObjectKey::namespaced("ns", "virt-1"));
        scene.del("virt-2", "b", "eth0").unwrap();
        assert_eq!(scene.records(), []);
        kept
    };
    requests_about_one_pod_take_turns, "pod-operations-overlap", |scene| {
        scene.pod("a", "u", Owner::Nobody, ONE);
        let mut hung = false;
        scene.world.script(move |name, _| {
            if name == "create SpiderEndpoint" && !std::mem::replace(&mut hung, true) { Deed::Hang } else { Deed::Serve }
        });
        let request = scene.add_request("a", "u", "eth0");
        let mut first = pin!(scene.agent.add(&request));
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        scene.try_add("a", "u", "eth0").is_none_or(|second| second.is_err())
    };
    a_late_roll_back_takes_nothing_that_was_answered, "unfenced-own-record", |scene| {
        // The first process crashes while it removes its records; the write arrives after the next process has answered.
        scene.pod("a", "u", Owner::Nobody, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
        scene.change("SpiderIPPool", "q4", |pool| pool["status"]["allocatedIPs"] = json!("broken"));
        let mut writes = 0;
        scene.world.script(move |name, _| {
            writes += u32::from(name == "update SpiderIPPool/status");
            match (name, writes) {
                ("update SpiderIPPool/status", 2) => Deed::Later,
                (_, 0 | 1) => Deed::Serve,
                _ => Deed::Hang,
            }
        });
        assert!(scene.try_add("a", "u", "eth0").is_none());
        scene.world.serve_all();
        scene.change("SpiderIPPool", "q4", |pool| pool["status"] = json!({}));
        let caches = scene.world.clone();
        scene.restart(&caches);
        let answer = scene.add("a", "u", "eth0").unwrap();
        scene.world.deliver();
        is_recorded(scene, "u", &addresses(&answer)) && scene.of("u").len() == 2
    };
    a_read_without_an_answer_is_made_again, "reads-once", |scene| {
        scene.pod("a", "u", Owner::Nobody, ONE);
        let mut refused = false;
        scene.world.script(move |name, _| {
            if name == "get SpiderIPPool" && !std::mem::replace(&mut refused, true) { Deed::Refuse } else { Deed::Serve }
        });
        scene.add("a", "u", "eth0").is_ok()
    };
    the_gateway_is_left_out_whichever_family_has_one, "random-clean-gateway", |scene| {
        scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["gateway"] = json!("10.0.0.254"));
        (0..6).all(|at| {
            let (name, uid) = (format!("a{at}"), format!("u{at}"));
            let pools = json!([{"interface": "eth0", "ipv4": ["p4"], "ipv6": ["p6"], "cleangateway": true}]).to_string();
            scene.pod(&name, &uid, Owner::Nobody, &pools);
            scene.add(&name, &uid, "eth0").unwrap().routes.is_empty()
        })
    };
    a_pod_below_the_partition_keeps_what_its_own_template_names, "wishes-of-the-template", |scene| {
        let template = json!({"metadata": {"annotations": {"ipam.spidernet.io/ippools": ippools(&[("eth0", &["q4"], &[])])}}});
        scene.change("StatefulSet", "db", |set| set["spec"]["template"] = template);
        for uid in ["u1", "u2"] {
            scene.pod("db-0", uid, Owner::StatefulSet, ONE);
            if addresses(&scene.add("db-0", uid, "eth0").unwrap()) != ["10.0.0.1"] {
                return false;
            }
        }
        true
    };
    ordinals_count_from_where_the_set_begins, "ordinals-from-zero", |scene| {
        scene.change("StatefulSet", "db", |set| set["spec"]["ordinals"] = json!({"start": 5}));
        scene.pod("db-6", "u", Owner::StatefulSet, ONE);
        scene.add("db-6", "u", "eth0").unwrap();
        scene.terminate("db-6");
        scene.del("db-6", "u", "eth0") == Ok(DelOutcome::StillValid)
    };
    an_address_of_any_range_of_a_pool_is_used_again, "reuse-in-first-range-only", |scene| {
        scene.change("SpiderIPPool", "p4", |pool| pool["spec"]["ips"] = json!(["10.0.0.1", "10.0.0.4-10.0.0.6"]));
        scene.record("p4", "10.0.0.1", "ns/b", "b");
        ["u1", "u2"].into_iter().all(|uid| {
            scene.pod("db-0", uid, Owner::StatefulSet, ONE);
            addresses(&scene.add("db-0", uid, "eth0").unwrap()) == ["10.0.0.4"]
        })
    };
    the_nics_that_a_pod_still_has_keep_their_addresses, "dropped-nic-frees-all", |scene| {
        scene.pod("db-0", "u1", Owner::StatefulSet, &ippools(&[("eth0", &["p4"], &[]), ("net1", &["q4"], &[])]));
        scene.add("db-0", "u1", "eth0").unwrap();
        scene.pod("db-0", "u2", Owner::StatefulSet, ONE);
        scene.change("Pod", "db-0", |pod| pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!(""));
        addresses(&scene.add("db-0", "u2", "eth0").unwrap()) == ["10.0.0.1"]
    };
    an_orphan_in_another_sandbox_keeps_the_place_that_its_endpoint_names, "re-add-changes-owner", |scene| {
        scene.pod("db-0", "u", Owner::StatefulSet, ONE);
        scene.in_sandbox("first").add("db-0", "u", "eth0").unwrap();
        scene.change("Pod", "db-0", |pod| pod["metadata"]["ownerReferences"] = json!([]));
        scene.in_sandbox("second").add("db-0", "u", "eth0").unwrap();
        let owner = scene.endpoint("db-0").unwrap().status.clone().unwrap().owner_controller_type;
        owner == "StatefulSet" && scene.endpoint("db-0").unwrap().metadata.owner_references.is_none()
    };
    a_pool_that_is_gone_keeps_no_endpoint, "missing-pool-keeps-endpoint", |scene| {
        scene.pod("a", "u", Owner::Nobody, BOTH);
        scene.add("a", "u", "eth0").unwrap();
        scene.world.vanish("SpiderIPPool", &ObjectKey::cluster("p4"));
        scene.terminate("a");
        scene.del("a", "u", "eth0").is_ok() && scene.endpoint("a").is_some_and(|endpoint| endpoint.metadata.finalizers.is_none())
    };
}

/// An ADD of `a-0` whose endpoint cannot be written, and whose record cannot be removed.
fn fail_and_remember(scene: &Scene, owner: Owner) {
    scene.pod("a-0", "u", owner, ONE);
    let mut recorded = false;
    scene.world.script(move |name, _| match name {
        "update SpiderIPPool/status" if !std::mem::replace(&mut recorded, true) => Deed::Serve,
        "update SpiderIPPool/status" | "create SpiderEndpoint" => Deed::Refuse,
        _ => Deed::Serve,
    });
    assert!(scene.add("a-0", "u", "eth0").is_err());
    scene.world.serve_all();
    assert_eq!((scene.of("u").len(), scene.agent.remembered().len()), (1, 1));
}
