//! StopVM: its release, the caller's wait for it, and its duration.

use super::*;

#[test]
fn a_stop_releases_the_vm_and_then_the_peer_pod() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    let adaptor = cloud.adaptor();
    let web = sandbox("web", "u1", "1");
    cloud.start(&adaptor, &web).unwrap();
    let world = cloud.world.clone();
    cloud.world.script(move |what, _| {
        let document: PoolConfigMap = world.get(&key()).unwrap();
        let held = !document.document().unwrap().parse().unwrap().allocated.is_empty();
        assert!(!held || what.ends_with("ConfigMap"), "{what} while it is held");
        Deed::Serve
    });
    cloud.notes();
    cloud.stop(&adaptor, &web);
    assert_eq!(cloud.notes(), ["release web-1 Stop", "released web-1 Stop ok", "let go web-1"]);
    assert_eq!((cloud.holders().len(), cloud.peer_pods().len(), cloud.boots("10.0.0.1"), adaptor.sandboxes()), (0, 0, 1, 0));
    assert_eq!(cloud.stop_within(&adaptor, &web, None), Err(UnknownSandbox("1".into())));
}

#[test]
fn a_sandbox_of_an_earlier_process_is_unknown() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    cloud.start(&cloud.adaptor(), &sandbox("web", "u1", "1")).unwrap();
    assert!(cloud.stop_within(&cloud.adaptor(), &sandbox("web", "u1", "1"), None).is_err());
    assert_eq!((cloud.holders().len(), cloud.peer_pods().len()), (1, 1));
}

#[test]
fn one_second_is_enough_for_a_stop() {
    // B W26
    for (policy, hardened) in both("byom-stop-on-callers-deadline") {
        let cloud = Cloud::recovered(policy, &ONE);
        let adaptor = cloud.adaptor();
        let web = sandbox("web", "u1", "1");
        cloud.start(&adaptor, &web).unwrap();
        cloud.stop_within(&adaptor, &web, Some(Duration::from_secs(1))).unwrap();
        assert_eq!(cloud.env.monotonic(), Duration::from_secs(1));
        cloud.env.advance(Duration::from_secs(60));
        if hardened {
            assert_eq!((cloud.holders().len(), cloud.peer_pods().len(), adaptor.sandboxes()), (0, 0, 0));
        } else {
            assert_eq!((cloud.holders(), cloud.peer_pods()), (vec!["web-1".to_owned()], vec!["web-1!".to_owned()]));
        }
    }
}

#[test]
fn a_stop_of_a_pod_that_was_replaced_spares_its_successor() {
    // B W11
    for (policy, hardened) in both("byom-finalizer-by-pod-name") {
        let cloud = Cloud::recovered(policy, &TWO);
        let adaptor = cloud.adaptor();
        let old = sandbox("web", "u1", "1");
        put_pod(&cloud, "web", "u1");
        cloud.start(&adaptor, &old).unwrap();
        put_pod(&cloud, "web", "u2");
        cloud.start(&adaptor, &sandbox("web", "u2", "2")).unwrap();
        cloud.stop(&adaptor, &old);
        assert_eq!(cloud.holders(), ["web-2"]);
        assert_eq!(cloud.peer_pods(), if hardened { vec!["web-2"] } else { vec!["web-1", "web-2-"] });
    }
}

#[test]
fn a_sandbox_without_a_vm_does_not_let_its_predecessor_go() {
    // B W12
    for (policy, hardened) in both("byom-empty-id-counts-as-deleted") {
        let cloud = Cloud::recovered(policy, &ONE);
        let adaptor = cloud.adaptor();
        let first = sandbox("web", "u1", "1");
        cloud.start(&adaptor, &first).unwrap();
        cloud.vms.with("10.0.0.1", |vm| vm.dead = true);
        cloud.stop(&adaptor, &first);
        assert_eq!(cloud.peer_pods(), ["web-1!"], "left to the controller");
        let second = sandbox("web", "u1", "2");
        assert!(cloud.start_within(&adaptor, &second, Some(Duration::from_secs(5))).is_err());
        cloud.stop(&adaptor, &second);
        assert_eq!(cloud.holders(), ["web-1"]);
        assert_eq!(cloud.peer_pods().len(), usize::from(hardened), "somebody has to release it");
    }
}

#[test]
fn a_stop_overtakes_a_start() {
    for (policy, hardened) in both("byom-stop-overlooks-start") {
        let cloud = Cloud::recovered(policy, &ONE);
        let adaptor = cloud.adaptor();
        let web = sandbox("web", "u1", "1");
        // StopVM comes while the record is written.
        let (stopper, env, id) = (adaptor.clone(), cloud.env.clone(), web.id.clone());
        let mut once = true;
        cloud.world.script(move |what, _| {
            if what == "update ConfigMap" && std::mem::take(&mut once) {
                let (stopper, id) = (stopper.clone(), id.clone());
                env.spawn(async move { stopper.stop_vm(&id, Context::BACKGROUND).await.unwrap() });
            }
            Deed::Serve
        });
        cloud.proxy.clone().agent.lock().map(|mut agent| *agent = Agent::Hangs).unwrap();
        let started = cloud.start(&adaptor, &web);
        cloud.env.advance(Duration::from_secs(60));
        if hardened {
            assert_eq!(started, Err(StartError::Stopped));
        } else {
            assert_eq!(started, Err(StartError::AgentTimeout), "it went on for as long as it could");
        }
        assert_eq!((cloud.holders().len(), cloud.peer_pods().len(), adaptor.sandboxes()), (0, 0, 0));
    }
}

#[test]
fn a_start_that_was_stopped_brings_no_released_record_back() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    let adaptor = cloud.adaptor();
    let web = sandbox("web", "u1", "1");
    // The record is written and the answer lost; before StartVM retries, StopVM has released the record.
    let (stopper, env, id) = (adaptor.clone(), cloud.env.clone(), web.id.clone());
    let updates = Arc::new(Mutex::new(0));
    let counted = updates.clone();
    cloud.world.script(move |what, _| {
        if what != "update ConfigMap" {
            return Deed::Serve;
        }
        *counted.lock().unwrap() += 1;
        if *counted.lock().unwrap() > 1 {
            return Deed::Serve;
        }
        let (stopper, id, later) = (stopper.clone(), id.clone(), env.sleep(Duration::from_secs(1)));
        env.spawn(async move {
            later.await;
            stopper.stop_vm(&id, Context::BACKGROUND).await.unwrap();
        });
        Deed::LoseReply
    });
    assert_eq!(cloud.start(&adaptor, &web), Err(StartError::Stopped));
    cloud.env.advance(Duration::from_secs(60));
    assert_eq!((cloud.holders().len(), cloud.peer_pods().len(), adaptor.sandboxes()), (0, 0, 0));
    assert_eq!(*updates.lock().unwrap(), 2, "it is written once and released once");
}

#[test]
fn a_start_that_was_stopped_takes_nothing_from_the_sandbox_after_it() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    // There are two adaptors while a node's adaptor is replaced.
    let (before, after) = (cloud.adaptor(), cloud.adaptor());
    let (first, second) = (sandbox("web", "u1", "1"), sandbox("web", "u1", "2"));
    // The answer to the first read of the start is lost. Before the retry the sandbox is stopped, and the next sandbox gets the VM.
    let (stopper, env) = (before.clone(), cloud.env.clone());
    let (id, mut once) = (first.id.clone(), true);
    cloud.world.script(move |what, _| {
        if what != "get ConfigMap" || !std::mem::take(&mut once) {
            return Deed::Serve;
        }
        let (stopper, after, id, second) = (stopper.clone(), after.clone(), id.clone(), second.clone());
        env.spawn(async move {
            stopper.stop_vm(&id, Context::BACKGROUND).await.unwrap();
            after.start_vm(&second, Context::BACKGROUND).await.unwrap();
        });
        Deed::LoseReply
    });
    assert_eq!(cloud.start(&before, &first), Err(StartError::Stopped));
    cloud.env.advance(Duration::from_secs(60));
    assert_eq!((cloud.holders(), cloud.boots("10.0.0.1")), (vec!["web-2".to_owned()], 0));
}

#[test]
fn a_stop_while_the_agent_is_awaited_ends_the_start() {
    let cloud = Cloud::recovered(Policy::hardened(), &ONE);
    let adaptor = cloud.adaptor();
    let web = sandbox("web", "u1", "1");
    cloud.agent(Agent::Hangs);
    let (stopper, id, later) = (adaptor.clone(), web.id.clone(), cloud.env.sleep(Duration::from_secs(20)));
    cloud.env.spawn(async move {
        later.await;
        stopper.stop_vm(&id, Context::BACKGROUND).await.unwrap();
    });
    assert_eq!(cloud.start(&adaptor, &web), Err(StartError::Stopped));
    cloud.env.advance(Duration::from_secs(60));
    assert_eq!((cloud.holders().len(), cloud.peer_pods().len(), cloud.boots("10.0.0.1")), (0, 0, 1));
}
