//! A document that is lost during a start.

use super::*;

#[test]
fn a_document_lost_between_record_and_peer_pod_costs_the_start_and_nobody_is_told_twice() {
    for (policy, hardened) in both("byom-owner-recorded-late") {
        let cloud = Cloud::recovered(policy, &ONE);
        let adaptor = cloud.adaptor();
        // The document vanishes while the PeerPod is being written, and another process has already listed the owners.
        let mut once = true;
        let fresh = PoolConfigMap::new(&key(), PoolDocument { available: cloud.document().available, ..fresh() }.into());
        cloud.world.script(move |what, world| {
            if what == "create PeerPod" && std::mem::take(&mut once) {
                world.vanish::<PoolConfigMap>(&key());
                world.put(fresh.clone());
            }
            Deed::Serve
        });
        let started = cloud.start(&adaptor, &sandbox("web", "u1", "1"));
        assert_eq!((cloud.holders().len(), cloud.document().available.len()), (0, 1), "the address is free");
        if hardened {
            assert_eq!(started, Err(StartError::Instance(PoolError::RecordLost)));
            assert_eq!((cloud.holder("10.0.0.1"), cloud.peer_pods().len()), (None, 0));
        } else {
            assert!(started.is_ok());
            assert_eq!(cloud.holder("10.0.0.1").as_deref(), Some("web-1"), "in use all the same");
        }
    }
}

fn fresh() -> PoolDocument {
    PoolDocument { allocated: [].into_iter().collect(), version: 1, ..PoolDocument::default() }
}

#[test]
fn a_document_lost_after_the_peer_pod_is_made_anew_with_its_record() {
    let cloud = Cloud::recovered(Policy::hardened(), &TWO);
    let adaptor = cloud.adaptor();
    let mut once = true;
    cloud.world.script(move |what, world| {
        // The check after the PeerPod was written.
        if what == "get ConfigMap" && !world.all::<PeerPod>().is_empty() && std::mem::take(&mut once) {
            world.vanish::<PoolConfigMap>(&key());
        }
        Deed::Serve
    });
    let started = cloud.start(&adaptor, &sandbox("web", "u1", "1"));
    assert_eq!(started, Err(StartError::Instance(PoolError::RecordLost)));
    assert_eq!((cloud.holders().len(), cloud.document().available.len(), cloud.peer_pods().len()), (0, 2, 0));
}

#[test]
fn a_document_lost_while_pods_run_is_made_anew_from_their_peer_pods() {
    let cloud = Cloud::recovered(Policy::hardened(), &TWO);
    cloud.start(&cloud.adaptor(), &sandbox("web", "u1", "1")).unwrap();
    let before = cloud.document().allocated.get("web-1").unwrap().clone();
    cloud.world.vanish::<PoolConfigMap>(&key());
    // By another node's adaptor, which does not know the first one.
    let second = cloud.start(&cloud.adaptor(), &sandbox("shop", "u2", "2")).unwrap();
    assert_ne!(second.address.text(), before.ip.text());
    assert_eq!(cloud.holders(), ["shop-2", "web-1"]);
    assert_eq!(cloud.document().allocated.get("web-1"), Some(&before));
}

#[test]
fn a_document_made_anew_has_what_its_maker_runs_also_if_no_list_shows_it() {
    for (by_itself, expected) in [(true, vec!["shop-2", "web-1"]), (false, vec!["shop-2"])] {
        let cloud = Cloud::recovered(Policy::hardened(), &TWO);
        let (first, second) = (cloud.adaptor(), cloud.adaptor());
        cloud.start(&first, &sandbox("web", "u1", "1")).unwrap();
        cloud.world.vanish::<PoolConfigMap>(&key());
        // A watch cache has lost it (K182): only the adaptor that wrote it knows it.
        let [peer_pod] = &cloud.world.all::<PeerPod>()[..] else { panic!("one PeerPod was written") };
        cloud.world.vanish::<PeerPod>(&ObjectKey::of(peer_pod));
        let maker = if by_itself { &first } else { &second };
        let _the_vm_may_be_taken = cloud.start(maker, &sandbox("shop", "u2", "2"));
        assert_eq!(cloud.holders(), expected);
    }
}
