//! The PeerPod controller: the VMs that it releases, and those that it must not.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A pod whose adaptor died.
fn orphan(cloud: &Cloud, name: &str, sandbox_id: &str) -> Instance {
    cloud.start(&cloud.adaptor(), &sandbox(name, &format!("uid of {name}"), sandbox_id)).unwrap()
}

#[test]
fn the_vm_of_a_pod_that_is_gone_is_released() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    orphan(&cloud, "web", "1");
    let _controller = cloud.controller();
    cloud.env.advance(MINUTE);
    assert_eq!(cloud.peer_pods(), ["web-1"]);
    cloud.notes();
    cloud.delete_peer_pod("web-1");
    cloud.env.advance(MINUTE);
    assert_eq!((cloud.holders().len(), cloud.peer_pods().len(), cloud.boots("10.0.0.1")), (0, 0, 1));
    let recovered = ["recover", "recovered true"];
    let released = ["release web-1 Controller", "released web-1 Controller ok", "let go web-1"];
    assert_eq!(cloud.notes(), [&recovered[..], &released[..]].concat(), "the pool is made when it is needed");
}

#[test]
fn a_finalizer_that_comes_back_harms_nobody() {
    // B P2 again after a conflict (B W9)
    for (policy, hardened) in both("byom-release-by-address") {
        let cloud = Cloud::recovered(policy, &ONE);
        orphan(&cloud, "web", "1");
        let _controller = cloud.controller();
        let (adaptor, env) = (cloud.adaptor(), cloud.env.clone());
        let mut once = true;
        cloud.world.script(move |what, _| {
            if what != "update PeerPod" || !std::mem::take(&mut once) {
                return Deed::Serve;
            }
            // Meanwhile the address is allocated to another pod.
            let adaptor = adaptor.clone();
            env.spawn(async move { drop(adaptor.start_vm(&sandbox("shop", "u2", "2"), Context::BACKGROUND).await) });
            Deed::Fail(Status::new(Reason::Conflict, "").into())
        });
        cloud.delete_peer_pod("web-1");
        cloud.env.advance(MINUTE);
        assert!(cloud.notes().contains(&"running shop-2".to_owned()));
        if hardened {
            assert_eq!(
                (cloud.holders(), cloud.peer_pods(), cloud.boots("10.0.0.1")),
                (vec!["shop-2".to_owned()], vec!["shop-2".to_owned()], 1)
            );
        } else {
            assert_eq!((cloud.holders().len(), cloud.boots("10.0.0.1")), (0, 2));
        }
    }
}

#[test]
fn a_new_sandbox_of_a_pod_takes_the_place_of_the_old_one() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let cloud = Cloud::recovered(policy, &TWO);
        put_pod(&cloud, "web", "uid of web");
        let _controller = cloud.controller();
        orphan(&cloud, "web", "1");
        cloud.env.advance(Duration::from_secs(5));
        orphan(&cloud, "web", "2");
        cloud.env.advance(MINUTE);
        // Upstream's PeerPods name no allocation.
        let named = if policy.release_by_address { "?" } else { "web-2" };
        assert_eq!((cloud.holders(), cloud.peer_pods()), (vec!["web-2".to_owned()], vec![named.to_owned()]));
    }
}

#[test]
fn a_peer_pod_that_is_written_late_does_not_take_the_place_of_the_one_in_use() {
    for (policy, hardened) in both("byom-younger-peer-pod-wins") {
        let cloud = Cloud::recovered(policy, &TWO);
        let _controller = cloud.controller();
        orphan(&cloud, "web", "1");
        let mut late = cloud.peer_pod("web-1");
        cloud.world.vanish::<PeerPod>(&ObjectKey::of(&late));
        cloud.env.advance(Duration::from_secs(5));
        orphan(&cloud, "web", "2");
        cloud.env.advance(Duration::from_secs(5));
        // A request of the dead process arrives only now.
        late.metadata.resource_version = None;
        cloud.env.block_on(async { kube_machinery::client::ClientExt::create(&cloud.world, late).await }).unwrap();
        cloud.env.advance(MINUTE);
        assert_eq!(cloud.holders(), if hardened { vec!["web-1", "web-2"] } else { vec!["web-1"] });
    }
}

#[test]
fn a_peer_pod_that_is_written_late_disowns_nobody_who_has_its_vm_by_then() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    let _controller = cloud.controller();
    orphan(&cloud, "web", "1");
    let mut late = cloud.peer_pod("web-1");
    cloud.env.advance(Duration::from_secs(5));
    cloud.delete_peer_pod("web-1");
    cloud.env.advance(MINUTE);
    assert_eq!((cloud.holders().len(), cloud.peer_pods().len()), (0, 0));
    orphan(&cloud, "web", "2");
    let boots = cloud.boots("10.0.0.1");
    cloud.env.advance(Duration::from_secs(5));
    late.metadata.resource_version = None;
    cloud.env.block_on(async { kube_machinery::client::ClientExt::create(&cloud.world, late).await }).unwrap();
    cloud.env.advance(60 * MINUTE);
    assert_eq!((cloud.holders(), cloud.boots("10.0.0.1")), (vec!["web-2".to_owned()], boots));
    cloud.world.vanish::<PoolConfigMap>(&key());
    cloud.env.advance(10 * MINUTE);
    assert_eq!(cloud.holders(), ["web-2"], "the document is made anew");
}

#[test]
fn a_cache_that_is_behind_makes_only_upstream_act_again() {
    for (policy, hardened) in both("byom-controller-trusts-cache") {
        let cloud = Cloud::recovered(policy, &ONE);
        orphan(&cloud, "web", "1");
        let _controller = cloud.controller();
        cloud.env.settle();
        // The update is carried out and its answer lost, and the watch is behind: the cache shows the PeerPod as it was.
        cloud.world.script(|what, world| {
            if what != "update PeerPod" {
                return Deed::Serve;
            }
            world.hold::<PeerPod>();
            Deed::LoseReply
        });
        cloud.notes();
        cloud.delete_peer_pod("web-1");
        cloud.env.advance(MINUTE);
        let begun = cloud.notes().iter().filter(|note| *note == "release web-1 Controller").count();
        assert_eq!(begun == 1, hardened, "{begun} releases");
    }
}

#[test]
fn a_vm_that_hangs_holds_the_others_up_only_upstream() {
    // B W25
    for (policy, hardened) in [(Policy::hardened(), true), (Policy::upstream(), false)] {
        let cloud = Cloud::recovered(policy, &TWO);
        put_pod(&cloud, "web", "uid of web");
        put_pod(&cloud, "shop", "uid of shop");
        let hangs = orphan(&cloud, "web", "1");
        orphan(&cloud, "shop", "2");
        cloud.vms.with(hangs.address.text(), |vm| vm.hung = true);
        let _controller = cloud.controller();
        cloud.env.settle();
        cloud.delete_peer_pod("web-1");
        cloud.env.settle();
        cloud.delete_peer_pod("shop-2");
        cloud.env.advance(2 * MINUTE);
        assert_eq!(cloud.holders(), if hardened { vec!["web-1"] } else { vec!["shop-2", "web-1"] });
    }
}

#[test]
fn a_peer_pod_without_a_fence_is_let_go_and_its_record_reclaimed() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    orphan(&cloud, "web", "1");
    let mut without = cloud.peer_pod("web-1");
    without.spec.allocation_id = None;
    cloud.world.put(without.clone());
    let _controller = cloud.controller();
    cloud.env.settle();
    cloud.world.delete::<PeerPod>(&ObjectKey::of(&without));
    cloud.env.advance(MINUTE);
    assert_eq!((cloud.holders(), cloud.peer_pods().len(), cloud.boots("10.0.0.1")), (vec!["web-1".to_owned()], 0, 0));
    cloud.env.advance(30 * MINUTE);
    assert_eq!((cloud.holders().len(), cloud.boots("10.0.0.1")), (0, 1));
}

#[test]
fn a_record_without_a_peer_pod_is_reclaimed() {
    for (policy, hardened) in both("byom-leaks-kept") {
        let cloud = Cloud::recovered(policy, &TWO);
        orphan(&cloud, "web", "1");
        orphan(&cloud, "shop", "2");
        cloud.world.vanish::<PeerPod>(&ObjectKey::of(&cloud.peer_pod("web-1")));
        let _controller = cloud.controller();
        cloud.notes();
        cloud.env.advance(40 * MINUTE);
        assert_eq!(cloud.holders(), if hardened { vec!["shop-2"] } else { vec!["shop-2", "web-1"] });
        assert_eq!(cloud.notes().contains(&"released web-1 Reclaim ok".to_owned()), hardened);
    }
}

#[test]
fn the_controller_follows_the_configuration() {
    // B W20
    for (policy, hardened) in both("byom-controller-configuration-frozen") {
        let cloud = Cloud::recovered(policy, &ONE);
        let current = Arc::new(Mutex::new(cloud.settings.clone()));
        let source = current.clone();
        let settings = ControllerSettings {
            pool: Arc::new(move || Some(source.lock().unwrap().clone())),
            ..ControllerSettings::new(cloud.settings.clone())
        };
        let _controller = cloud.controller_with(settings);
        cloud.env.advance(6 * MINUTE);
        current.lock().unwrap().config = PoolConfig::new([Address::new("10.0.0.7")]);
        cloud.env.advance(6 * MINUTE);
        let available: Vec<String> = cloud.document().available.iter().map(Address::to_string).collect();
        assert_eq!(available, [if hardened { "10.0.0.7" } else { "10.0.0.1" }]);
    }
}

#[test]
fn whoever_loses_the_election_does_nothing_more() {
    let cloud = Cloud::recovered(Policy::hardened(), &TWO);
    let lease = ObjectKey::namespaced("ns", "peerpod-ctrl");
    let election = Some(kube_machinery::leader::ElectionConfig::new(lease, "a"));
    orphan(&cloud, "web", "1");
    orphan(&cloud, "shop", "2");
    let _controller = cloud.controller_with(ControllerSettings { election, ..ControllerSettings::new(cloud.settings.clone()) });
    cloud.env.advance(Duration::from_secs(5));
    cloud.delete_peer_pod("web-1");
    cloud.env.advance(Duration::from_secs(20));
    assert_eq!(cloud.holders(), ["shop-2"], "it leads");
    cloud.world.script(|what, _| if what.ends_with("Lease") { Deed::Fail(forbidden()) } else { Deed::Serve });
    cloud.env.advance(MINUTE);
    assert!(cloud.notes().contains(&"controller Lost".to_owned()), "it ended");
    cloud.delete_peer_pod("shop-2");
    cloud.env.advance(10 * MINUTE);
    assert_eq!((cloud.holders(), cloud.peer_pods()), (vec!["shop-2".to_owned()], vec!["shop-2!".to_owned()]));
}

#[test]
fn a_vm_that_serves_whom_nobody_owns_boots_once_the_grace_is_over() {
    // The PeerPod is gone, names no allocation (an older version), or names it.
    for (owned, names_it) in [(false, false), (true, false), (true, true)] {
        let cloud = Cloud::recovered(Policy::hardened(), &ONE);
        let before: PoolConfigMap = cloud.world.get(&key()).unwrap();
        orphan(&cloud, "web", "1");
        // An older version overwrites a state that it has not read, and releases the PeerPod without rebooting the VM.
        cloud.world.put(before);
        let mut owner = cloud.peer_pod("web-1");
        if !owned {
            cloud.world.vanish::<PeerPod>(&ObjectKey::of(&owner));
        } else if !names_it {
            owner.spec.allocation_id = None;
            cloud.world.put(owner);
        }
        let _controller = cloud.controller();
        cloud.env.advance(MINUTE);
        assert!(cloud.start(&cloud.adaptor(), &sandbox("shop", "u2", "1")).is_err());
        cloud.env.advance(MINUTE * 19);
        assert_eq!((cloud.holder("10.0.0.1").as_deref(), cloud.holders()), (Some("web-1"), vec!["shop-1".to_owned()]));
        cloud.env.advance(MINUTE * 60);
        if owned {
            assert_eq!((cloud.holders().len(), cloud.boots("10.0.0.1")), (1, 0), "it may be in use");
        } else {
            assert_eq!((cloud.holders().len(), cloud.peer_pods().len(), cloud.boots("10.0.0.1")), (0, 0, 1));
        }
    }
}
