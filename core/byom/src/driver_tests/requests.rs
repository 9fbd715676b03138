//! The number and kind of requests that an operation makes (B §1.6).

use super::*;

const POOL: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];

#[test]
fn upstream_makes_the_requests_of_the_reference() {
    let bed = Bed::new(Policy::upstream(), &POOL);
    let pool = bed.process();
    bed.recover(&pool).unwrap();
    assert_eq!(bed.log(), "GGGC", "recover on first start");
    assert_eq!(bed.document().version, 2);
    bed.recover(&pool).unwrap();
    assert_eq!(bed.log(), "GGGP", "recover");

    let address = bed.allocate(&pool, "a").unwrap();
    assert_eq!(bed.log(), "GGP", "allocate");
    assert_eq!(bed.allocate(&pool, "a").unwrap(), address);
    assert_eq!(bed.log(), "G", "allocate again");
    assert_eq!(bed.env.block_on(async { pool.status(Context::BACKGROUND).await }).result.unwrap(), PoolStatus { available: 2, in_use: 1 });
    assert_eq!(bed.log(), "G", "statistics");

    let instance = Instance { address: Address::new(address), allocation_id: "a".into() };
    let deleted = bed.env.block_on(async { pool.delete_instance(Some(&instance), Releaser::Stop, Context::BACKGROUND).await });
    assert!(matches!(deleted.result, Ok(Released::Freed(_))));
    assert_eq!(bed.log(), "GGGP", "release by address");
    bed.env.advance(BOOT);

    for id in ["b", "c", "d"] {
        bed.allocate(&pool, id).unwrap();
    }
    bed.log();
    assert_eq!(bed.allocate(&pool, "e"), Err(PoolError::NoAvailable));
    assert_eq!(bed.log(), "G", "no address left");
    let budget = pool.budget(Context::BACKGROUND);
    bed.env.block_on(async { pool.remove_record("b", budget, &mut Effort::default()).await }).unwrap();
    assert_eq!(bed.log(), "GGP", "deallocate by ID");
}

#[test]
fn hardened_makes_few_requests() {
    let bed = Bed::new(Policy::hardened(), &POOL);
    bed.know(Vec::new());
    let pool = bed.process();
    bed.recover(&pool).unwrap();
    assert_eq!((bed.log().as_str(), bed.document().version), ("GCP", 2), "recover on first start");
    bed.recover(&pool).unwrap();
    assert_eq!(bed.log(), "G", "nothing to recover");

    let address = bed.allocate(&pool, "a").unwrap();
    assert_eq!(bed.log(), "GGP", "allocate");
    assert_eq!(bed.allocate(&pool, "a").unwrap(), address);
    assert_eq!(bed.log(), "G", "allocate again");
    assert!(matches!(bed.release(&pool, "a"), Ok(Released::Freed(_))));
    assert_eq!(bed.log(), "GGP", "release");
    assert!(matches!(bed.release(&pool, "a"), Ok(Released::NotHeld)));
    assert_eq!(bed.log(), "G", "release again");

    let unprobed = bed.process_with(|settings| settings.probes = false);
    bed.allocate(&unprobed, "b").unwrap();
    assert_eq!(bed.log(), "GP", "allocate without a probe");
}

#[test]
fn records_name_node_pod_and_namespace_as_the_profile_says() {
    for (policy, namespace) in [(Policy::upstream(), None), (Policy::hardened(), Some("shop"))] {
        let bed = Bed::recovered(policy, &["10.0.0.1"]);
        bed.allocate(&bed.process(), "a").unwrap();
        let record = bed.document().allocated.get("a").unwrap().clone();
        assert_eq!((&*record.allocation_id, record.ip.text(), &*record.node_name, &*record.pod_name), ("a", "10.0.0.1", "node-a", "a"));
        assert_eq!(record.pod_namespace.as_deref(), namespace);
        assert_eq!(bed.document().to_text().contains("podNamespace"), namespace.is_some());
    }
}

#[test]
fn a_conflict_costs_a_get_and_a_put() {
    for policy in [Policy::upstream(), Policy::hardened()] {
        let bed = Bed::recovered(policy, &POOL);
        let mut once = true;
        bed.script(move |letter, store| {
            if letter == "P" && std::mem::take(&mut once) {
                // Another client updates the object.
                store.touch();
            }
            Act::Serve
        });
        let pool = bed.process();
        let outcome = bed.env.block_on(async { pool.allocate(&"a".into(), &pod("a"), Context::BACKGROUND).await });
        assert!(outcome.result.is_ok());
        assert_eq!(bed.log(), "GGP!GP");
        let Effort { reads, writes, conflicts, exhausted, probes, .. } = outcome.effort;
        assert_eq!((reads, writes, conflicts, exhausted, probes), (3, 2, 1, false, 1));
    }
}

#[test]
fn upstream_gives_up_after_four_conflicts_and_hardened_does_not() {
    let storm = |bed: &Bed, conflicts: usize| {
        let mut left = conflicts;
        bed.script(move |letter, store| {
            if letter == "P" && left > 0 {
                left -= 1;
                store.touch();
            }
            Act::Serve
        });
    };
    let bed = Bed::recovered(Policy::upstream(), &POOL);
    storm(&bed, 4);
    let before = bed.env.monotonic();
    let error = bed.allocate(&bed.process(), "a").unwrap_err();
    assert!(matches!(&error, PoolError::Allocating(cause) if cause.is_conflict()), "{error:?}");
    assert_eq!((error.sentinel(), bed.log().as_str()), (Some("ErrConflict"), "GGP!GP!GP!GP!"));
    let took = (bed.env.monotonic() - before).as_millis();
    assert!((310..=341).contains(&took), "{took} ms");

    let bed = Bed::recovered(Policy::hardened(), &POOL);
    storm(&bed, 30);
    bed.allocate(&bed.process(), "a").unwrap();
    assert_eq!(bed.holders().len(), 1);
}

#[test]
fn a_conflict_that_comes_when_the_time_is_up_is_not_the_reason() {
    let bed = Bed::recovered(Policy::hardened(), &POOL);
    let pool = bed.process();
    bed.allocate(&pool, "a").unwrap();
    let (env, mut slow) = (bed.env.clone(), true);
    bed.script(move |letter, store| {
        if letter == "P" && std::mem::take(&mut slow) {
            // The process is paused while another client updates the object.
            store.touch();
            env.advance(Duration::from_secs(30));
        }
        Act::Serve
    });
    assert_eq!(bed.release(&pool, "a").unwrap_err(), PoolError::OutOfTime);
    assert!(matches!(bed.release(&pool, "a"), Ok(Released::Freed(_))));
}

#[test]
fn a_verdict_of_the_server_is_not_argued_with() {
    for policy in [Policy::upstream(), Policy::hardened()] {
        let bed = Bed::recovered(policy, &POOL);
        bed.script(|letter, _| if letter == "P" { Act::Fail(forbidden()) } else { Act::Serve });
        let error = bed.allocate(&bed.process(), "a").unwrap_err();
        assert_eq!((error, bed.log().as_str()), (PoolError::Allocating(forbidden()), "GGP!"));
        bed.script(|_, _| Act::Fail(forbidden()));
        let error = bed.allocate(&bed.process(), "a").unwrap_err();
        assert_eq!((error, bed.log().as_str()), (PoolError::Reading(ReadError::Api(forbidden())), "G!"));
    }
}
