//! Releases: the fence, the reboot, the roll-back, the predecessor and the leak.

use super::*;

fn started(bed: &Bed, pool: &TestPool, id: &str) -> Instance {
    let data: Arc<str> = "data".into();
    bed.env.block_on(async { pool.create_instance(&id.into(), &pod(id), &data, Context::BACKGROUND).await }).result.unwrap()
}

fn delete(bed: &Bed, pool: &TestPool, instance: Option<&Instance>) -> Result<Released, PoolError> {
    bed.env.block_on(async { pool.delete_instance(instance, Releaser::Stop, Context::BACKGROUND).await }).result
}

#[test]
fn an_address_is_available_only_after_its_vm_has_booted() {
    let bed = Bed::recovered(Policy::hardened(), &["10.0.0.1"]);
    let pool = bed.process();
    let instance = started(&bed, &pool, "a");
    let vms = bed.vms.clone();
    bed.script(move |letter, _| {
        assert!(letter != "P" || vms.with("10.0.0.1", |vm| vms.answers(vm).is_ok() && vm.holder.is_none()), "freed while the VM is down");
        Act::Serve
    });
    assert!(matches!(delete(&bed, &pool, Some(&instance)), Ok(Released::Freed(_))));
    assert!(bed.env.monotonic() >= BOOT);
    assert_eq!((bed.vms.with("10.0.0.1", |vm| vm.boots), bed.document().available.len()), (1, 1));
}

#[test]
fn upstream_frees_an_address_while_its_vm_goes_down() {
    let bed = Bed::recovered(Policy::upstream(), &["10.0.0.1"]);
    let pool = bed.process();
    let instance = started(&bed, &pool, "a");
    assert!(matches!(delete(&bed, &pool, Some(&instance)), Ok(Released::Freed(_))));
    assert!(bed.vms.with("10.0.0.1", |vm| bed.vms.answers(vm).is_err()));
    assert_eq!(bed.document().available.len(), 1);
}

#[test]
fn a_second_release_harms_the_next_holder_only_upstream() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let bed = Bed::recovered(policy, &["10.0.0.1"]);
        let pool = bed.process();
        let first = started(&bed, &pool, "a");
        delete(&bed, &pool, Some(&first)).unwrap();
        bed.env.advance(BOOT);
        let second = started(&bed, &pool, "b");
        assert_eq!(second.address, first.address);

        // StopVM after a failed StartVM, or the PeerPod controller once more (B W9).
        let again = delete(&bed, &pool, Some(&first));
        let (boots, holder) = bed.vms.with("10.0.0.1", |vm| (vm.boots, vm.holder.clone()));
        if policy == Policy::hardened() {
            assert!(matches!(again, Ok(Released::NotHeld)));
            assert_eq!((boots, holder.as_deref(), bed.holders().len()), (1, Some("b"), 1));
        } else {
            assert!(matches!(again, Ok(Released::Freed(_))));
            assert_eq!((boots, holder.as_deref(), bed.holders().len()), (2, None, 0));
        }
    }
}

#[test]
fn a_vm_that_serves_another_allocation_is_left_alone() {
    let bed = Bed::recovered(Policy::hardened(), &["10.0.0.1"]);
    let pool = bed.process();
    bed.allocate(&pool, "a").unwrap();
    bed.vms.with("10.0.0.1", |vm| vm.holder = Some("b".into()));
    let error = bed.release(&pool, "a").unwrap_err();
    assert_eq!(error, PoolError::HeldByAnother { address: Address::new("10.0.0.1"), holder: "b".into() });
    assert_eq!((bed.holders().len(), bed.vms.with("10.0.0.1", |vm| vm.boots)), (1, 0));
}

#[test]
fn the_record_of_a_vm_that_does_not_come_back_stays_and_the_release_ends_in_time() {
    let bed = Bed::recovered(Policy::hardened(), &["10.0.0.1"]);
    let pool = bed.process();
    started(&bed, &pool, "a");
    bed.vms.with("10.0.0.1", |vm| vm.dead = true);
    assert_eq!(bed.release(&pool, "a").unwrap_err(), PoolError::OutOfTime);
    assert_eq!((bed.env.monotonic().as_secs(), bed.holders().len()), (30, 1));
    // The VM comes back, rebooted by an operator; the release is repeated.
    bed.vms.with("10.0.0.1", |vm| *vm = Vm::default());
    assert!(matches!(bed.release(&pool, "a"), Ok(Released::Freed(_))));
}

#[test]
fn a_start_that_fails_at_its_deadline_leaks_only_upstream() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let bed = Bed::recovered(policy, &["10.0.0.1"]);
        let pool = bed.process();
        *bed.vms.refuse_user_data.lock().unwrap() = true;
        let context = Context { deadline: Some(bed.env.monotonic() + Duration::from_millis(500)) };
        let (id, data): (Arc<str>, Arc<str>) = ("a".into(), "data".into());
        let outcome = bed.env.block_on(async { pool.create_instance(&id, &pod("a"), &data, context).await });
        assert_eq!(outcome.result.unwrap_err(), PoolError::UserData(VmError::Timeout));
        assert_eq!(bed.holders().len(), usize::from(policy == Policy::upstream()));
    }
}

#[test]
fn no_instance_is_not_a_release() {
    let bed = Bed::recovered(Policy::hardened(), &["10.0.0.1"]);
    assert!(matches!(delete(&bed, &bed.process(), None), Ok(Released::NoInstance)));
    assert_eq!(bed.log(), "");
}

#[test]
fn with_a_full_pool_the_predecessor_of_the_pod_gives_way() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let bed = Bed::recovered(policy, &["10.0.0.1", "10.0.0.2"]);
        let pool = bed.process();
        let data: Arc<str> = "data".into();
        for sandbox in ["web-1", "other-1"] {
            let name = pod(sandbox.split_once('-').unwrap().0);
            bed.env.block_on(async { pool.create_instance(&sandbox.into(), &name, &data, Context::BACKGROUND).await }).result.unwrap();
        }
        // After a restart the kubelet makes a new sandbox for the same pod.
        let pool = bed.process();
        let outcome = bed.env.block_on(async { pool.allocate(&"web-2".into(), &pod("web"), Context::BACKGROUND).await });
        let ids: Vec<String> = bed.holders().into_iter().map(|(id, _)| id).collect();
        if policy == Policy::hardened() {
            assert!(outcome.result.is_ok());
            assert_eq!(ids, ["other-1", "web-2"]);
        } else {
            assert_eq!(outcome.result.unwrap_err(), PoolError::NoAvailable);
            assert_eq!(ids, ["other-1", "web-1"]);
        }
    }
}

#[test]
fn a_predecessor_whose_vm_serves_another_does_not_keep_a_later_one_from_giving_way() {
    for (held, expected) in [(&["10.0.0.1"][..], true), (&["10.0.0.1", "10.0.0.2"], false)] {
        let bed = Bed::recovered(Policy::hardened(), &["10.0.0.1", "10.0.0.2"]);
        let pool = bed.process();
        let data: Arc<str> = "data".into();
        let mut given = Vec::new();
        for sandbox in ["web-1", "web-2"] {
            let made = bed.env.block_on(async { pool.create_instance(&sandbox.into(), &pod("web"), &data, Context::BACKGROUND).await });
            given.push(made.result.unwrap().address);
        }
        for address in held {
            bed.vms.with(address, |vm| vm.holder = Some("forgotten".into()));
        }
        let pool = bed.process();
        let outcome = bed.env.block_on(async { pool.allocate(&"web-3".into(), &pod("web"), Context::BACKGROUND).await });
        match outcome.result {
            Ok(address) => assert!(expected && address.text() == "10.0.0.2", "{address:?}"),
            Err(error) => assert!(!expected && matches!(error, PoolError::HeldByAnother { .. }), "{error}"),
        }
        assert_eq!(bed.holders().len(), 2);
    }
}

#[test]
fn records_without_an_owner_are_released_once_the_grace_is_over() {
    let bed = Bed::recovered(Policy::hardened(), &["10.0.0.1", "10.0.0.2"]);
    let pool = bed.process();
    started(&bed, &pool, "lives");
    started(&bed, &pool, "leaked");
    bed.know(vec![(**bed.document().allocated.get("lives").unwrap()).clone()]);
    let mut suspects = Suspects::default();
    let mut reclaim = || bed.env.block_on(async { pool.reclaim(&mut suspects).await }).result.unwrap();
    assert!(reclaim().is_empty());
    bed.env.advance(Duration::from_secs(19 * 60));
    assert!(reclaim().is_empty());
    bed.env.advance(Duration::from_secs(60));
    assert_eq!(reclaim().iter().map(|id| &**id).collect::<Vec<_>>(), ["leaked"]);
    assert_eq!(bed.holders().len(), 1);
    assert!(reclaim().is_empty());
}

#[test]
fn a_record_whose_owner_shows_up_in_between_is_no_suspect() {
    let records: Allocations = [(Arc::from("a"), IpAllocation::default())].into_iter().collect();
    let (mut suspects, nobody, somebody) = (Suspects::default(), Default::default(), [Arc::from("a")].into());
    let grace = Duration::from_secs(10);
    let mut at = |seconds, live| suspects.compare(&records, live, Duration::from_secs(seconds), grace).len();
    assert_eq!([at(0, &nobody), at(9, &somebody), at(10, &nobody), at(19, &nobody), at(20, &nobody)], [0, 0, 0, 0, 1]);
}
