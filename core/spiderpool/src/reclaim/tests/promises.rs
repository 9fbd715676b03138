//! Each deviation of reclaim: without it a promise holds, with it alone the promise is broken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::api_server::Deed;
use super::promise::promises;
use super::scene::{Owner, Scene, inherit, record};
use crate::Policy;
use crate::leadership::LeadershipTeller;
use crate::reclaim::{Event, ReclaimPolicy, Row, Tracing};
use kube_machinery::api::ObjectKey;
use kube_machinery::env::Env;
use kube_machinery::race::{Either, race};

/// Whether a story crashes the process.
fn crashes(story: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(story)).is_err()
}

/// `db-0` is gone, with an address of `p4`, and its StatefulSet no longer wants it.
fn scaled_down(scene: &Scene) {
    scene.stateful_set(0);
    scene.endpoint("db-0", "u1", Owner::StatefulSet, &[("p4", "10.0.0.1")]);
}

promises! {
    every: every_deviation_of_reclaim_has_a_promise_here_or_elsewhere, of: ReclaimPolicy::DEVIATIONS, elsewhere: super::replica::SHOWN_HERE;

    /// G R2: a scale-up concurrent with the release leaves the new pod with record and endpoint.
    a_pod_that_inherits_during_a_release_keeps_its_record, "records-before-endpoint", |scene| {
        scaled_down(scene);
        scene.before_first("delete SpiderEndpoint", |world| {
            world.change("StatefulSet", &ObjectKey::namespaced("ns", "db"), |set| set["spec"]["replicas"] = json!(1));
            inherit(world, "db-0", "u2");
            world.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
                "name": "db-0", "namespace": "ns", "uid": "u2",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db", "controller": true}],
            }, "spec": {"nodeName": "n", "containers": []}, "status": {"phase": "Pending"}}));
        });
        scene.scan();
        scene.records() == ["u2"] && scene.is_served("db-0", "u2")
    };
    /// G R6, R8: an endpoint that was transferred to another pod between decision and write is left alone.
    an_endpoint_that_changed_hands_is_left_alone, "finalizer-patch-by-name", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.gone("a");
        scene.before_first("delete SpiderEndpoint", |world| {
            // The agent takes the endpoint over for the next pod of the name.
            world.change("SpiderEndpoint", &ObjectKey::namespaced("ns", "a"), |endpoint| {
                endpoint["status"]["current"] = json!({"uid": "u2", "node": "n", "ips": []});
            });
            world.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "ns", "uid": "u2"},
                             "spec": {"nodeName": "n", "containers": []}, "status": {"phase": "Pending"}}));
        });
        scene.scan();
        scene.records().is_empty() && scene.is_served("a", "u2")
    };
    /// G R6: the endpoint of a static pod is updated in place, so its own UID protects nothing.
    the_endpoint_of_the_next_pod_of_a_stateful_set_is_not_marked, "endpoint-uid-precondition-only", |scene| {
        scaled_down(scene);
        scene.before_first("delete SpiderEndpoint", |world| {
            world.change("StatefulSet", &ObjectKey::namespaced("ns", "db"), |set| set["spec"]["replicas"] = json!(1));
            inherit(world, "db-0", "u2");
        });
        scene.scan();
        scene.is_served("db-0", "u2")
    };
    /// G R3: the pod cache lags, the pool cache does not.
    a_record_of_a_pod_that_the_cache_does_not_know_yet_stays, "scan-trusts-cached-pod", |scene| {
        scene.pod("a", "u1", Owner::Nobody);
        scene.views.pods = scene.world.frozen();
        scene.restart();
        scene.whole_pod("a", "u2", Owner::Nobody, "10.0.0.1");
        scene.scan();
        scene.records() == ["u2"] && scene.is_served("a", "u2")
    };
    /// G R4: the endpoint cache lags.
    a_record_of_a_live_pod_stays_whatever_its_endpoint_says, "scan-trusts-cached-endpoint", |scene| {
        scene.endpoint("a", "u1", Owner::Nobody, &[]);
        scene.views.endpoints = scene.world.frozen();
        scene.restart();
        scene.world.vanish("SpiderEndpoint", &ObjectKey::namespaced("ns", "a"));
        scene.whole_pod("a", "u2", Owner::Nobody, "10.0.0.1");
        scene.scan();
        scene.records() == ["u2"] && scene.is_served("a", "u2")
    };
    /// G R5: a VM boots, and its endpoint is not written yet; nor does the cache show its pod.
    the_record_of_a_vm_that_boots_stays, "vm-record-without-owner-check", |scene| {
        scene.vm("vm");
        scene.record("p4", "10.0.0.1", "ns/vm", "u1");
        scene.scan();
        scene.records() == ["u1"]
    };
    /// G R7: after a reboot of its node a static pod within its grace period has no podIPs.
    a_static_pod_without_ips_keeps_its_address_within_its_grace, "empty-pod-ips-means-gone", |scene| {
        scene.stateful_set(1);
        scene.whole_pod("db-0", "u1", Owner::StatefulSet, "10.0.0.1");
        scene.terminate("db-0", 5, 30);
        scene.change("Pod", "db-0", |pod| pod["status"]["podIPs"] = json!([]));
        scene.scan();
        scene.records() == ["u1"] && scene.is_served("db-0", "u1")
    };
    /// G R9: the object is gone, the containers may have their grace period.
    a_forced_deletion_leaves_the_containers_their_grace, "force-delete-frees-at-once", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.deleted("a").unwrap();
        scene.fire_after(55);
        let within = scene.records();
        scene.fire_after(6);
        within == ["u1"] && scene.records().is_empty()
    };
    /// G R9: the deadline passes just when somebody deletes the pod by force, and the cache does not show that yet.
    a_pod_that_is_gone_while_the_cache_shows_it_running_keeps_all, "force-delete-frees-at-once", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 0, 30);
        scene.views.pods = scene.world.frozen();
        scene.restart();
        scene.added("a").unwrap();
        scene.gone("a");
        scene.fire_after(61);
        let kept = scene.records();
        scene.views.pods = scene.world.frozen();
        scene.restart();
        scene.scan();
        kept == ["u1"] && scene.records().is_empty()
    };
    /// G R9: the pod as an API server shows it last.
    a_grace_of_nothing_is_not_that_of_the_containers, "force-delete-frees-at-once", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 0, 0);
        scene.deleted("a").unwrap();
        scene.fire_after(55);
        let within = scene.records();
        scene.fire_after(6);
        within == ["u1"] && scene.records().is_empty()
    };
    /// G R10: the node fails after the pod began to terminate.
    a_node_that_fails_within_the_grace_counts, "node-judged-once", |scene| {
        scene.config.settings.on_not_ready_node = false;
        scene.restart();
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 0, 30);
        scene.added("a").unwrap();
        scene.change("Node", "n", |node| node["status"]["conditions"] = json!([{"type": "Ready", "status": "Unknown"}]));
        scene.fire_after(61);
        let held = scene.records() == ["u1"] && scene.traced().len() == 1;
        scene.change("Node", "n", |node| node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]));
        scene.fire_after(5);
        held && scene.records().is_empty()
    };
    /// Rule G: the node was lost when the pod was asked to end, and comes back after the pod's grace period.
    a_node_that_comes_back_has_the_grace_to_end_its_pods, "returned-node-frees-at-once", |scene| {
        scene.config.settings.on_not_ready_node = false;
        scene.restart();
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        let ready = |scene: &Scene, status: &str| {
            let now = scene.time(0);
            scene.change("Node", "n", |node| {
                node["status"]["conditions"] = json!([{"type": "Ready", "status": status, "lastTransitionTime": now}]);
            });
        };
        ready(scene, "Unknown");
        scene.terminate("a", 0, 30);
        scene.added("a").unwrap();
        scene.fire_after(200);
        ready(scene, "True");
        scene.fire_after(59);
        let held = scene.records() == ["u1"];
        scene.fire_after(3);
        held && scene.records().is_empty()
    };
    /// G R13: the leader learns of a deletion only from the next list.
    a_missed_deletion_is_a_deletion, "tombstone-crashes", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.change("Pod", "a", |pod| pod["status"]["phase"] = json!("Succeeded"));
        let pod = scene.find_pod("a");
        scene.gone("a");
        !crashes(|| scene.event(&Event::Tombstone(&pod)).unwrap()) && {
            scene.fire_after(1);
            scene.records().is_empty()
        }
    };
    /// G §4.4: a crash left an endpoint that no record leads to.
    an_orphan_endpoint_goes, "orphan-endpoint-kept", |scene| {
        scene.endpoint("db-0", "u1", Owner::StatefulSet, &[]);
        scene.stateful_set(0);
        scene.scan();
        scene.endpoint_of("db-0").is_none()
    };
    a_scan_does_without_a_list_that_failed, "one-list-error-ends-scan", |scene| {
        scene.views.broken = true;
        scene.restart();
        // One with an endpoint that only the API server shows, and one without.
        scene.whole_pod("b", "u2", Owner::Nobody, "10.0.0.2");
        scene.gone("b");
        scene.record("p4", "10.0.0.1", "ns/a", "u1");
        scene.scan();
        scene.records().is_empty()
    };
    what_does_not_fit_into_the_database_is_left_to_a_scan, "full-database-drops-newest", |scene| {
        scene.config.settings.database = 0;
        scene.restart();
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 0, 30);
        scene.added("a").unwrap();
        let (sender, _receiver) = tokio::sync::mpsc::channel(1);
        let due = |scene: &Scene| scene.env.block_on(scene.reclaim.trace(&scene.leadership, &sender));
        let early = due(scene);
        scene.env.advance(Duration::from_secs(61));
        !early && due(scene) && !due(scene)
    };
    /// G R11: another pod of the name is deleted while the first entry is processed.
    the_entry_of_a_namesake_outlives_that_of_its_predecessor, "database-keyed-by-name", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 100, 30);
        scene.added("a").unwrap();
        let reclaim = scene.reclaim.clone();
        let leadership = scene.leadership.clone();
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        scene.env.block_on(scene.reclaim.trace(&scene.leadership, &sender));
        let fired = receiver.try_recv().unwrap();
        scene.pod("a", "u2", Owner::Nobody);
        scene.terminate("a", 0, 30);
        scene.added("a").unwrap();
        scene.env.block_on(async move { reclaim.see_to(&leadership, &fired).await });
        scene.traced().iter().any(|entry| &*entry.uid == "u2")
    };
    /// G R16: the records cannot be removed for some time.
    an_endpoint_outlives_its_records, "endpoint-removed-after-failed-release", |scene| {
        scaled_down(scene);
        scene.refuse("update SpiderIPPool/status", usize::MAX);
        scene.scan();
        let held = scene.endpoint_of("db-0").is_some_and(|endpoint| endpoint.metadata.finalizers.is_some());
        scene.world.serve_all();
        scene.scan();
        held && scene.records().is_empty() && scene.endpoint_of("db-0").is_none()
    };
    /// G R17: a release that is refused its tickets has none to return.
    a_refused_release_blocks_no_pool, "ticket-released-ungranted", |scene| {
        scene.config.settings.queue_length = 0;
        scene.restart();
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 100, 30);
        scene.added("a").unwrap();
        scene.fire();
        let pools: Vec<Arc<str>> = vec!["p4".into()];
        let limiter = scene.reclaim.limiter.clone().with_capacity(10);
        let env = scene.env.clone();
        scene.env.block_on(async move {
            matches!(race(limiter.take(&env, &pools, None), env.sleep(Duration::from_secs(60))).await, Either::Left(Ok(_)))
        })
    };
    /// G R19: the StatefulSet wants its pod again between the two families.
    a_pod_loses_both_families_or_none, "families-race-on-endpoint", |scene| {
        scene.stateful_set(0);
        scene.endpoint("db-0", "u1", Owner::StatefulSet, &[("p4", "10.0.0.1"), ("p6", "fd00::1")]);
        scene.before_first("update SpiderIPPool/status", |world| {
            world.change("StatefulSet", &ObjectKey::namespaced("ns", "db"), |set| set["spec"]["replicas"] = json!(1));
        });
        scene.scan();
        scene.records().len() != 1
    };
    absent_grace_periods_are_the_default, "nil-fields-crash", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 0, 30);
        scene.change("Pod", "a", |pod| pod["metadata"]["deletionGracePeriodSeconds"] = json!(null));
        !crashes(|| _ = scene.scan()) && scene.traced().first().is_some_and(|entry| entry.term.grace.as_secs() == 30)
    };
    a_static_pod_inherits_its_record, "static-uid-mismatch-frees", |scene| {
        scene.stateful_set(1);
        scene.endpoint("db-0", "u1", Owner::StatefulSet, &[("p4", "10.0.0.1")]);
        scene.pod("db-0", "u2", Owner::StatefulSet);
        scene.change("Pod", "db-0", |pod| (pod["status"]["phase"], pod["status"]["podIPs"]) = (json!("Pending"), json!(null)));
        scene.scan();
        scene.records() == ["u1"] && scene.is_served("db-0", "u1")
    };
    an_address_between_record_and_endpoint_stays, "half-written-endpoint-frees", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.record("p4", "10.0.0.2", "ns/a", "u1");
        scene.scan();
        scene.records().len() == 2
    };
    pods_that_have_ended_are_scanned, "terminal-pods-not-scanned", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        let finished = scene.time(-31);
        scene.change("Pod", "a", |pod| pod["status"] = json!({
            "phase": "Succeeded",
            "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                                   "state": {"terminated": {"exitCode": 0, "finishedAt": finished}}}],
        }));
        scene.scan();
        scene.records().is_empty()
    };
    pods_of_a_deleted_stateful_set_are_traced, "terminating-static-ignored", |scene| {
        scene.whole_pod("db-0", "u1", Owner::StatefulSet, "10.0.0.1");
        scene.terminate("db-0", 0, 30);
        scene.added("db-0").unwrap();
        scene.fire_after(61);
        scene.records().is_empty()
    };
    a_terminating_pod_has_its_grace_twice, "grace-counted-once", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 0, 30);
        scene.added("a").unwrap();
        scene.fire_after(45);
        scene.records() == ["u1"]
    };
    /// K §5.2: with a grace period of 1 s the containers have 2 s, and the margin is as long.
    a_grace_of_a_second_is_the_least_that_a_kubelet_leaves, "grace-floor-ignored", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 0, 1);
        scene.added("a").unwrap();
        scene.fire_after(3);
        scene.records() == ["u1"]
    };
    a_stuck_pod_that_its_stateful_set_wants_no_more_is_given_up, "stuck-static-kept", |scene| {
        scene.stateful_set(0);
        scene.whole_pod("db-0", "u1", Owner::StatefulSet, "10.0.0.1");
        scene.terminate("db-0", 61, 30);
        scene.scan();
        scene.records().is_empty()
    };
    a_stuck_pod_that_never_began_is_given_up, "pending-pods-not-scanned", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 61, 30);
        scene.change("Pod", "a", |pod| pod["status"]["phase"] = json!("Pending"));
        scene.scan();
        scene.records().is_empty()
    };
    a_pod_that_does_not_say_when_it_ended_is_traced, "ended-without-times-lost", |scene| {
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.change("Pod", "a", |pod| pod["status"] = json!({"phase": "Failed", "reason": "Evicted"}));
        let _ = scene.added("a");
        scene.fire_after(31);
        scene.records().is_empty()
    };
    the_controller_says_who_keeps_the_addresses, "static-by-first-owner", |scene| {
        scene.stateful_set(1);
        scene.endpoint("db-0", "u1", Owner::StatefulSet, &[("p4", "10.0.0.1")]);
        scene.pod("db-0", "u2", Owner::StatefulSet);
        scene.change("Pod", "db-0", |pod| {
            (pod["status"]["phase"], pod["status"]["podIPs"]) = (json!("Pending"), json!(null));
            let owners = pod["metadata"]["ownerReferences"].as_array_mut().unwrap();
            owners.insert(0, json!({"apiVersion": "example.io/v1", "kind": "Widget", "name": "w", "uid": "w"}));
        });
        scene.scan();
        scene.records() == ["u1"]
    };
    a_missing_node_does_not_shield_the_record_of_another_pod, "node-asked-first", |scene| {
        scene.record("p4", "10.0.0.1", "ns/a", "u1");
        scene.pod("a", "u2", Owner::Nobody);
        scene.change("Pod", "a", |pod| pod["spec"]["nodeName"] = json!("gone"));
        scene.scan();
        scene.records().is_empty()
    };
    an_address_on_which_a_pod_answers_stays, "address-in-use-freed", |scene| {
        scene.record("p4", "10.0.0.1", "ns/a", "u1");
        scene.pod("a", "u2", Owner::Nobody);
        scene.change("Pod", "a", |pod| pod["status"]["podIPs"] = json!([{"ip": "10.0.0.1"}]));
        scene.scan();
        scene.records() == ["u1"]
    };
    a_pod_that_has_the_name_of_a_vm_takes_nothing_from_it, "namesake-frees", |scene| {
        scene.vm("vm");
        scene.endpoint("vm", "u1", Owner::Vm("vm"), &[("p4", "10.0.0.1")]);
        scene.pod("vm", "u2", Owner::Nobody);
        scene.scan();
        scene.records() == ["u1"] && scene.is_served("vm", "u1")
    };
    what_an_orphan_had_is_not_kept_for_the_pod_of_a_set_that_has_its_name, "orphans-record-kept", |scene| {
        scene.stateful_set(1);
        scene.endpoint("db-0", "u1", Owner::Nobody, &[("p4", "10.0.0.1")]);
        scene.pod("db-0", "u2", Owner::StatefulSet);
        scene.change("Pod", "db-0", |pod| pod["status"] = json!({"phase": "Pending"}));
        scene.scan();
        scene.records().is_empty()
    };
    a_place_keeps_nothing_in_an_auto_pool_that_is_being_deleted, "ending-pool-keeps-places", |scene| {
        scene.stateful_set(2);
        scene.endpoint("db-0", "u0", Owner::StatefulSet, &[("p4", "10.0.0.1")]);
        scene.record("p4", "10.0.0.2", "ns/db-1", "u1");
        scene.scan();
        let held = scene.records() == ["u0", "u1"];
        scene.change("SpiderIPPool", "p4", |pool| {
            pool["metadata"]["labels"] = json!({"ipam.spidernet.io/owner-application-name": "db"});
            pool["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        });
        scene.scan();
        held && scene.records().is_empty() && scene.is_served("db-0", "u0")
    };
    the_place_of_an_orphan_is_kept_as_long_as_a_set_of_the_name_wants_it, "orphans-place-freed", |scene| {
        scene.stateful_set(1);
        scene.whole_pod("db-0", "u1", Owner::StatefulSet, "10.0.0.1");
        scene.change("Pod", "db-0", |pod| pod["metadata"]["ownerReferences"] = json!([]));
        scene.terminate("db-0", 100, 30);
        let _ = scene.added("db-0");
        scene.fire_after(1);
        scene.scan();
        let held = scene.records() == ["u1"] && scene.is_served("db-0", "u1");
        scene.stateful_set(0);
        scene.scan();
        held && scene.records().is_empty()
    };
    an_orphan_that_has_ended_keeps_its_place_too, "orphans-place-freed", |scene| {
        scene.stateful_set(1);
        scene.whole_pod("db-0", "u1", Owner::StatefulSet, "10.0.0.1");
        scene.change("Pod", "db-0", |pod| {
            pod["metadata"]["ownerReferences"] = json!([]);
            pod["status"] = json!({"phase": "Failed", "reason": "Evicted"});
        });
        let _ = scene.added("db-0");
        scene.fire_after(31);
        scene.records() == ["u1"]
    };
    a_vm_keeps_its_address_until_its_instance_is_gone, "ending-vm-frees", |scene| {
        scene.vm("vm");
        scene.endpoint("vm", "u1", Owner::Vm("vm"), &[("p4", "10.0.0.1")]);
        let now = scene.time(0);
        scene.change("VirtualMachineInstance", "vm", |vm| {
            vm["metadata"]["finalizers"] = json!(["foregroundDeleteVirtualMachine"]);
            vm["metadata"]["deletionTimestamp"] = json!(now);
        });
        scene.scan();
        let held = scene.records() == ["u1"];
        scene.world.vanish("VirtualMachineInstance", &ObjectKey::namespaced("ns", "vm"));
        scene.scan();
        held && scene.records().is_empty()
    };
    a_marked_endpoint_takes_nothing_from_a_pod_of_a_vm_that_lives, "vm-pod-sought-by-record", |scene| {
        scene.vm("vm");
        scene.pod("virt-launcher-vm-x", "u1", Owner::Vm("vm"));
        scene.endpoint("vm", "u1", Owner::Vm("vm"), &[("p4", "10.0.0.1")]);
        let now = scene.time(0);
        scene.change("SpiderEndpoint", "vm", |endpoint| endpoint["metadata"]["deletionTimestamp"] = json!(now));
        // While the instance exists, it alone keeps the addresses.
        scene.world.vanish("VirtualMachineInstance", &ObjectKey::namespaced("ns", "vm"));
        scene.scan();
        scene.records() == ["u1"]
    };
    a_pod_of_a_vm_that_is_stuck_is_given_up_when_the_vm_is, "vm-pod-sought-by-record", |scene| {
        scene.vm("vm");
        scene.pod("virt-launcher-vm-x", "u1", Owner::Vm("vm"));
        scene.endpoint("vm", "u1", Owner::Vm("vm"), &[("p4", "10.0.0.1")]);
        let now = scene.time(0);
        scene.change("VirtualMachineInstance", "vm", |vm| {
            vm["metadata"]["finalizers"] = json!(["foregroundDeleteVirtualMachine"]);
            vm["metadata"]["deletionTimestamp"] = json!(now);
            vm["status"] = json!({"activePods": {"u1": "n"}});
        });
        scene.terminate("virt-launcher-vm-x", 10, 30);
        scene.scan();
        let held = scene.records() == ["u1"];
        scene.terminate("virt-launcher-vm-x", 100, 30);
        scene.scan();
        held && scene.records().is_empty()
    };
    what_was_traced_is_released_without_an_endpoint_as_well, "trace-needs-endpoint", |scene| {
        scene.pod("a", "u1", Owner::Nobody);
        scene.record("p4", "10.0.0.1", "ns/a", "u1");
        scene.terminate("a", 61, 30);
        scene.added("a").unwrap();
        scene.fire();
        scene.records().is_empty()
    };
    a_stateful_set_that_is_scaled_up_again_keeps_the_address, "deadline-not-confirmed", |scene| {
        scene.stateful_set(0);
        scene.whole_pod("db-0", "u1", Owner::StatefulSet, "10.0.0.1");
        scene.terminate("db-0", 0, 30);
        scene.added("db-0").unwrap();
        scene.gone("db-0");
        scene.stateful_set(1);
        scene.fire_after(61);
        scene.records() == ["u1"] && scene.is_served("db-0", "u1")
    };
    /// D §1.3.6: the write after the loss is not sent.
    a_replica_that_lost_its_leadership_stops_before_the_next_write, "ex-leader-goes-on", |scene| {
        let (teller, leadership) = LeadershipTeller::new();
        teller.gained();
        scene.leadership = leadership;
        scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
        scene.terminate("a", 61, 30);
        scene.added("a").unwrap();
        scene.world.script(move |name, _| {
            if name == "delete SpiderEndpoint" {
                teller.lost();
            }
            Deed::Serve
        });
        scene.fire();
        scene.records() == ["u1"]
    };
    an_owner_that_cannot_be_read_loses_no_event_that_means_nothing, "owner-asked-for-every-event", |scene| {
        scene.stateful_set(1);
        scene.whole_pod("db-0", "u1", Owner::StatefulSet, "10.0.0.1");
        scene.refuse("get StatefulSet", usize::MAX);
        scene.added("db-0") == Ok(())
    };
    pools_without_a_version_are_looked_into, "pools-without-version-skipped", |scene| {
        scene.record("p4", "10.0.0.1", "ns/a", "u1");
        scene.change("SpiderIPPool", "p4", |pool| drop(pool["spec"].as_object_mut().unwrap().remove("ipVersion")));
        scene.scan();
        scene.records().is_empty()
    };
}

#[test]
fn a_kruise_stateful_set_keeps_nothing_and_its_pod_goes() {
    let story = |policy| {
        let scene = Scene::new(policy);
        scene.stateful_set(1);
        scene.endpoint("db-0", "u1", Owner::Nobody, &[("p4", "10.0.0.1")]);
        scene.change("SpiderEndpoint", "db-0", |endpoint| endpoint["status"]["ownerControllerType"] = json!("StatefulSet"));
        scene.scan();
        scene.records().is_empty()
    };
    assert!(story(Policy::hardened()));
    assert!(!story(Policy { static_by_kind_only: true, ..Policy::hardened() }));
}

#[test]
fn the_record_of_another_pod_goes_and_the_live_one_stays() {
    let scene = Scene::new(Policy::hardened());
    scene.whole_pod("a", "u2", Owner::Nobody, "10.0.0.2");
    record(&scene.world, "p4", "10.0.0.1", "ns/a", "u1");
    scene.scan();
    assert_eq!(scene.records(), ["u2"]);
    assert!(scene.is_served("a", "u2"));
}

#[test]
fn of_two_records_of_a_pod_that_is_gone_the_one_in_use_stays() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u2", Owner::Nobody);
    scene.change("Pod", "a", |pod| pod["status"]["podIPs"] = json!([{"ip": "10.0.0.1"}]));
    scene.record("p4", "10.0.0.1", "ns/a", "u1");
    scene.record("p4", "10.0.0.2", "ns/a", "u1");
    scene.scan();
    assert_eq!(scene.records().len(), 1);
}

#[test]
fn nothing_goes_of_a_place_that_is_back_when_the_last_of_its_records_is_looked_at() {
    for back_at in 1..=4 {
        let scene = Scene::new(Policy::hardened());
        scene.stateful_set(0);
        scene.endpoint("db-0", "u1", Owner::StatefulSet, &[("p4", "10.0.0.1"), ("p6", "fd00::1")]);
        let mut asked = 0;
        scene.world.script(move |name, world| {
            asked += u32::from(name == "get StatefulSet");
            if name == "get StatefulSet" && asked == back_at {
                world.change("StatefulSet", &ObjectKey::namespaced("ns", "db"), |set| set["spec"]["replicas"] = json!(1));
            }
            Deed::Serve
        });
        scene.scan();
        let stays = (scene.records() == ["u1", "u1"], scene.is_served("db-0", "u1"));
        assert_eq!(stays, (back_at <= 2, back_at <= 2), "back before request {back_at} for the set");
    }
}

#[test]
fn a_pod_whose_del_did_its_work_costs_no_request() {
    let scene = Scene::new(Policy::hardened());
    scene.pod("a", "u1", Owner::Nobody);
    scene.change("Pod", "a", |pod| pod["status"]["phase"] = json!("Succeeded"));
    scene.deleted("a").unwrap();
    scene.world.log();
    scene.fire_after(1);
    assert_eq!(scene.world.log(), [""; 0]);
    assert!(scene.traced().is_empty());
}

#[test]
fn an_entry_says_why_and_until_when() {
    let scene = Scene::new(Policy::hardened());
    scene.whole_pod("a", "u1", Owner::Nobody, "10.0.0.1");
    scene.terminate("a", 0, 30);
    scene.added("a").unwrap();
    let [entry] = &scene.traced()[..] else { panic!("{:?}", scene.traced()) };
    assert_eq!((entry.tracing, entry.term.grace.as_secs(), &*entry.uid), (Tracing::Terminating, 30, "u1"));
    assert_eq!(entry.term.stop.to_string(), scene.time(60));
    assert_eq!(Row::Terminating.code(), "I-11");
}
