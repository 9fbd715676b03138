//! Adaptors, a controller and a kubelet under many faults at once, checked against a ledger of the addresses that each sandbox was given.

use super::*;

/// The allocations of the running sandboxes, by address; kept by observation.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<String, Arc<str>>>>);

impl Observer for Ledger {
    fn observe(&self, step: Step<'_>) {
        let mut running = self.0.lock().unwrap();
        match step {
            Step::Ready { id, address } => {
                let before = running.insert(address.to_string(), id.clone());
                assert!(before.is_none(), "{address} is told to {id} while {before:?} runs (B I1)");
            }
            Step::ReleaseBegun { id: Some(id), by, .. } if running.values().any(|running| running == id) => {
                assert!(matches!(by, Releaser::CleanUp | Releaser::RollBack), "{by:?} releases {id}, which runs (B I8)");
                running.retain(|_, running| running != id);
            }
            _ => {}
        }
    }
}

impl Ledger {
    /// The kubelet gives up a sandbox.
    fn give_up(&self, id: &str) {
        self.0.lock().unwrap().retain(|_, running| **running != *id);
    }
}

/// Faults by seed: requests fail, answers are lost, and now and then the document is lost.
fn faults(seed: u64) -> impl FnMut(&str, &World) -> Deed + Send + 'static {
    let mut state = seed;
    move |_, world| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        match (state >> 33) % 100 {
            0..5 => Deed::Fail(Status::new(Reason::InternalError, "").into()),
            5..10 => Deed::LoseReply,
            10 => {
                world.vanish::<PoolConfigMap>(&key());
                Deed::Serve
            }
            _ => Deed::Serve,
        }
    }
}

/// One node: Pods are created, started until they run, stopped and deleted; the node's adaptor dies once.
async fn node(env: TestEnv, world: World, ledger: Ledger, number: usize, adaptor: impl Fn() -> TestAdaptor<Ledger> + Send) {
    let mut process = adaptor();
    for round in 0..4 {
        let (name, uid) = (format!("pod-{number}"), format!("uid-{number}-{round}"));
        for attempt in 0..3 {
            let sandbox = sandbox(&name, &uid, &format!("{number}.{round}.{attempt}"));
            let context = Context { deadline: Some(env.monotonic() + Duration::from_secs(60)) };
            let started = process.start_vm(&sandbox, context).await;
            if started.is_ok() {
                env.sleep(Duration::from_secs(env.random() % 20)).await;
            }
            ledger.give_up(&sandbox.allocation_id());
            if env.random().is_multiple_of(5) {
                process = adaptor();
            } else {
                let context = Context { deadline: Some(env.monotonic() + Duration::from_secs(1)) };
                process.stop_vm(&sandbox.id, context).await.unwrap();
            }
            if started.is_ok() {
                break;
            }
        }
        // The Pod is deleted, and the garbage collector runs.
        for peer_pod in world.all::<PeerPod>().iter().filter(|peer_pod| peer_pod.owner_uid() == Some(&uid)) {
            world.delete::<PeerPod>(&ObjectKey::of(peer_pod));
        }
    }
}

#[test]
fn no_fault_tells_an_address_twice_and_in_the_end_all_of_them_are_free() {
    for seed in 0..12 {
        let cloud = Cloud::recovered(Policy::hardened(), &["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
        (0..seed).for_each(|_| _ = cloud.env.random());
        let ledger = Ledger::default();
        let _controller = cloud.controller();
        cloud.world.delay(Duration::from_millis(20));
        cloud.world.script(faults(seed));
        for number in 0..5 {
            let (world, env, vms, proxy) = (cloud.world.clone(), cloud.env.clone(), cloud.vms.clone(), cloud.proxy.clone());
            let (watched, node_name) = (ledger.clone(), Arc::from(format!("node-{number}")));
            let settings = PoolSettings { node: Some(node_name), ..cloud.settings.clone() };
            let adaptor = move || {
                let settings = AdaptorSettings::new(settings.clone());
                Adaptor::new(world.clone(), env.clone(), vms.clone(), proxy.clone(), watched.clone(), settings)
            };
            cloud.env.spawn(node(cloud.env.clone(), cloud.world.clone(), ledger.clone(), number, adaptor));
        }
        cloud.env.advance(Duration::from_secs(15 * 60));
        cloud.world.script(|_, _| Deed::Serve);
        // PeerPods that a dead process wrote after their Pod was gone are garbage, too.
        for peer_pod in cloud.world.all::<PeerPod>() {
            cloud.world.delete::<PeerPod>(&ObjectKey::of(&peer_pod));
        }
        cloud.env.advance(Duration::from_secs(60 * 60));
        assert_eq!((cloud.holders(), cloud.peer_pods(), cloud.document().available.len()), (vec![], vec![], 4), "seed {seed}");
    }
}
