//! StartVM: its order, its owner, and its clean-up when it fails.

use super::*;

#[test]
fn the_owner_is_written_and_the_record_seen_again_before_the_vm_is_used() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    let adaptor = cloud.adaptor();
    let (vms, world) = (cloud.vms.clone(), cloud.world.clone());
    cloud.world.script(move |_, _| {
        let owned = world.all::<PeerPod>().iter().any(|peer_pod| peer_pod.allocation_id() == Some("web-1"));
        assert!(owned || vms.with("10.0.0.1", |vm| vm.holder.is_none()), "used before it is owned");
        Deed::Serve
    });
    let instance = cloud.start(&adaptor, &sandbox("web", "u1", "1")).unwrap();
    assert_eq!((instance.address.text(), &*instance.allocation_id), ("10.0.0.1", "web-1"));
    assert_eq!(cloud.notes(), ["asked web-1", "told web-1", "written web-1 true", "ready web-1", "running web-1"]);
    assert_eq!(cloud.world.log(), ["get ConfigMap", "get ConfigMap", "update ConfigMap", "create PeerPod", "get ConfigMap"]);
    let peer_pod = cloud.peer_pod("web-1");
    assert_eq!((peer_pod.owner_uid(), peer_pod.has_finalizer(), &*peer_pod.spec.instance_id), (Some("u1"), true, "10.0.0.1"));
    let record = cloud.document().allocated.get("web-1").unwrap().clone();
    assert_eq!(peer_pod.allocation().as_ref(), Some(&*record), "it can be made anew");
}

#[test]
fn upstream_makes_the_requests_of_the_reference() {
    let cloud = Cloud::new(Policy::upstream(), &ONE);
    put_pod(&cloud, "web", "u1");
    let adaptor = cloud.adaptor();
    let started = cloud.env.block_on(async { adaptor.start().await });
    assert_eq!((started.recovered.unwrap().available, started.status.unwrap().available), (1, 1));
    let config_maps = |verbs: &[&str]| verbs.iter().map(|verb| format!("{verb} ConfigMap")).collect::<Vec<_>>();
    assert_eq!(cloud.world.log(), config_maps(&["get", "get", "get", "create", "get"]));
    cloud.start(&adaptor, &sandbox("web", "u1", "1")).unwrap();
    let mut expected = config_maps(&["get", "get", "update"]);
    expected.extend(["get Pod".to_owned(), "create PeerPod".to_owned()]);
    assert_eq!(cloud.world.log(), expected);
    cloud.stop(&adaptor, &sandbox("web", "u1", "1"));
    let mut expected = config_maps(&["get", "get", "get", "update"]);
    expected.extend(["get Pod".to_owned(), "patch PeerPod".to_owned()]);
    assert_eq!(cloud.world.log(), expected);
    assert_eq!((cloud.peer_pods(), cloud.holders().len()), (vec!["?-".to_owned()], 0));
}

#[test]
fn without_an_owner_nothing_starts() {
    // B W5, W6
    for (policy, hardened) in both("byom-owner-recorded-late") {
        let cloud = Cloud::recovered(policy, &ONE);
        let adaptor = cloud.adaptor();
        cloud.world.script(|what, _| if what == "create PeerPod" { Deed::Fail(forbidden()) } else { Deed::Serve });
        let started = cloud.start(&adaptor, &sandbox("web", "u1", "1"));
        if hardened {
            assert_eq!(started, Err(StartError::Instance(PoolError::NotOwned(NotOwned::Api(forbidden())))));
            assert_eq!(cloud.holders().len(), 0);
            let told = ["asked web-1", "told web-1", "written web-1 false"];
            let back = ["release web-1 RollBack", "released web-1 RollBack ok", "failed web-1 Instance"];
            assert_eq!(cloud.notes(), [told, back].concat());
        } else {
            assert!(started.is_ok());
            assert_eq!((cloud.holders().len(), cloud.peer_pods().len()), (1, 0), "nobody will release it");
        }
    }
}

#[test]
fn a_lost_answer_makes_no_second_peer_pod() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    let adaptor = cloud.adaptor();
    let mut once = true;
    cloud.world.script(move |what, _| if what == "create PeerPod" && std::mem::take(&mut once) { Deed::LoseReply } else { Deed::Serve });
    cloud.start(&adaptor, &sandbox("web", "u1", "1")).unwrap();
    assert_eq!(cloud.peer_pods(), ["web-1"]);
    cloud.stop(&adaptor, &sandbox("web", "u1", "1"));
    assert_eq!((cloud.peer_pods().len(), cloud.holders().len()), (0, 0));
}

#[test]
fn a_peer_pod_of_which_no_answer_came_goes_with_the_roll_back() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    let adaptor = cloud.adaptor();
    cloud.world.script(|what, _| if what == "create PeerPod" { Deed::LoseReply } else { Deed::Serve });
    let sandbox = sandbox("web", "u1", "1");
    assert!(matches!(cloud.start_within(&adaptor, &sandbox, Some(Duration::from_secs(3))), Err(StartError::Instance(_))));
    assert_eq!((cloud.peer_pods().len(), cloud.holders().len()), (0, 0));
}

#[test]
fn a_start_that_fails_on_its_callers_deadline_is_rolled_back() {
    // B W7
    for (policy, hardened) in both("byom-rollback-on-callers-deadline") {
        let cloud = Cloud::recovered(policy, &ONE);
        let adaptor = cloud.adaptor();
        *cloud.vms.refuse_user_data.lock().unwrap() = true;
        let started = cloud.start_within(&adaptor, &sandbox("web", "u1", "1"), Some(Duration::from_millis(500)));
        assert_eq!(started, Err(StartError::Instance(PoolError::UserData(VmError::Timeout))));
        if hardened {
            assert_eq!((cloud.holders().len(), cloud.peer_pods().len()), (0, 0));
        } else {
            assert_eq!((cloud.holders(), cloud.peer_pods()), (vec!["web-1".to_owned()], vec!["web-1!".to_owned()]));
        }
    }
}

#[test]
fn after_a_clean_up_a_stop_harms_nobody() {
    // B S5, then B X3 (B W9)
    for (policy, hardened) in both("byom-release-by-address") {
        let cloud = Cloud::recovered(policy, &ONE);
        let adaptor = cloud.adaptor();
        cloud.agent(Agent::Fails);
        let first = sandbox("web", "u1", "1");
        assert!(matches!(cloud.start(&adaptor, &first), Err(StartError::Agent(_))));
        assert_eq!((cloud.holders().len(), cloud.peer_pods().len()), (0, 0));
        cloud.agent(Agent::Answers);
        cloud.start(&adaptor, &sandbox("shop", "u2", "2")).unwrap();
        cloud.stop(&adaptor, &first);
        if hardened {
            assert_eq!((cloud.holders(), cloud.holder("10.0.0.1").as_deref()), (vec!["shop-2".to_owned()], Some("shop-2")));
        } else {
            assert_eq!((cloud.holders().len(), cloud.holder("10.0.0.1")), (0, None));
        }
    }
}

#[test]
fn an_agent_that_is_not_ready_in_time_costs_the_start() {
    let cloud = Cloud::recovered(Policy::hardened(), &TWO);
    let adaptor = cloud.adaptor();
    cloud.agent(Agent::Hangs);
    assert_eq!(cloud.start(&adaptor, &sandbox("web", "u1", "1")), Err(StartError::AgentTimeout));
    assert_eq!(cloud.env.monotonic(), Duration::from_secs(300) + BOOT);
    let started = cloud.start_within(&adaptor, &sandbox("web", "u1", "2"), Some(Duration::from_secs(60)));
    assert_eq!(started, Err(StartError::CallerGone));
    assert_eq!((cloud.holders().len(), cloud.peer_pods().len()), (0, 0));
}

#[test]
fn a_clean_up_that_fails_is_finished_by_the_controller() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    let adaptor = cloud.adaptor();
    let _controller = cloud.controller();
    cloud.agent(Agent::Hangs);
    let vms = cloud.vms.clone();
    let dies = cloud.env.sleep(Duration::from_secs(10));
    cloud.env.spawn(async move {
        dies.await;
        vms.with("10.0.0.1", |vm| vm.dead = true);
    });
    assert!(cloud.start_within(&adaptor, &sandbox("web", "u1", "1"), Some(Duration::from_secs(20))).is_err());
    assert_eq!((cloud.holders(), cloud.peer_pods()), (vec!["web-1".to_owned()], vec!["web-1!".to_owned()]));
    cloud.vms.with("10.0.0.1", |vm| vm.dead = false);
    cloud.env.advance(Duration::from_secs(120));
    assert_eq!((cloud.holders().len(), cloud.peer_pods().len(), cloud.boots("10.0.0.1")), (0, 0, 1));
}

#[test]
fn the_owner_is_the_pod_of_the_sandbox_also_when_another_has_its_name() {
    for (policy, owner) in [(Policy::hardened(), "u1"), (with("byom-owner-by-pod-name"), "u2")] {
        let cloud = Cloud::recovered(policy, &ONE);
        put_pod(&cloud, "web", "u2");
        cloud.start(&cloud.adaptor(), &sandbox("web", "u1", "1")).unwrap();
        assert_eq!(cloud.peer_pod("web-1").owner_uid(), Some(owner));
    }
}

#[test]
#[should_panic(expected = "assignment to entry in nil map")]
fn a_null_map_crashes_upstreams_process() {
    let cloud = Cloud::recovered(Policy::upstream(), &ONE);
    let object: PoolConfigMap = cloud.world.get(&key()).unwrap();
    cloud.world.put(object.with_document(JsonText::verbatim("{\"availableIPs\":[\"10.0.0.1\"]}")));
    let _ = cloud.start(&cloud.adaptor(), &sandbox("web", "u1", "1"));
}

#[test]
fn after_an_upgrade_a_predecessor_is_told_by_its_peer_pod() {
    // Upstream's PeerPods name no allocation, and neither version's records the namespace.
    for older in [Policy::upstream(), with("byom-namespace-not-written")] {
        for (name, namesake, kept) in [("web", "shop", "web-2"), ("web", "other", "web-1"), ("api", "shop", "web-1")] {
            let mut cloud = Cloud::recovered(older, &ONE);
            let first = Sandbox { pod: PodName { namespace: namesake.into(), ..pod("web") }, ..sandbox("web", "u1", "1") };
            let mut object = Pod::default();
            object.metadata.name = Some("web".to_owned());
            object.metadata.namespace = Some(namesake.to_owned());
            object.metadata.uid = Some("u1".to_owned());
            cloud.world.put(object);
            cloud.start(&cloud.adaptor(), &first).unwrap();
            cloud.settings.policy = Policy::hardened();
            let adaptor = cloud.adaptor();
            cloud.env.block_on(async { adaptor.start().await }).recovered.unwrap();
            let started = cloud.start_within(&adaptor, &sandbox(name, "u1", "2"), Some(Duration::from_secs(60)));
            assert_eq!((started.is_ok(), cloud.holders()), (kept == "web-2", vec![kept.to_owned()]), "{namesake}/web, then shop/{name}");
        }
    }
}

/// The only VM serves `web-1`, whose record was overwritten by an older version with a state that it had not read.
fn serving_without_a_record() -> Cloud {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    let before: PoolConfigMap = cloud.world.get(&key()).unwrap();
    cloud.start(&cloud.adaptor(), &sandbox("web", "u1", "1")).unwrap();
    cloud.world.put(before);
    cloud
}

#[test]
fn a_predecessor_whose_record_was_overwritten_is_told_by_its_peer_pod() {
    let cloud = serving_without_a_record();
    // The VM that serves the pod is recorded for another allocation, and refuses it.
    let adaptor = cloud.adaptor();
    let refused = StartError::Instance(PoolError::UserData(VmError::Held("web-1".into())));
    assert_eq!(cloud.start(&adaptor, &sandbox("shop", "u2", "1")), Err(refused));
    let full = Err(StartError::Instance(PoolError::NoAvailable));
    assert_eq!(cloud.start(&adaptor, &sandbox("api", "u3", "1")), full);
    assert_eq!((cloud.holder("10.0.0.1").as_deref(), cloud.holders()), (Some("web-1"), vec!["shop-1".to_owned()]), "it is not its own");
    assert_eq!(cloud.start(&adaptor, &sandbox("web", "u1", "2")), full);
    assert_eq!((cloud.holder("10.0.0.1"), cloud.boots("10.0.0.1")), (None, 1));
    let _controller = cloud.controller();
    cloud.env.advance(Duration::from_secs(60));
    cloud.start(&adaptor, &sandbox("web", "u1", "3")).unwrap();
    assert_eq!(cloud.holders(), ["web-3"]);
}

#[test]
fn a_predecessor_whose_record_was_overwritten_gives_way_also_where_its_vm_is_recorded_for_the_same_pod() {
    let cloud = serving_without_a_record();
    let adaptor = cloud.adaptor();
    let refused = StartError::Instance(PoolError::UserData(VmError::Held("web-1".into())));
    assert_eq!(cloud.start(&adaptor, &sandbox("web", "u1", "2")), Err(refused));
    assert_eq!(cloud.holders(), ["web-2"]);
    cloud.start(&adaptor, &sandbox("web", "u1", "3")).unwrap();
    assert_eq!((cloud.holders(), cloud.boots("10.0.0.1")), (vec!["web-3".to_owned()], 1));
}
