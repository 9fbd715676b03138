//! Documents that are lost, unreadable or edited by hand: the documented error, nothing written, nothing lost.

use super::*;

const POOL: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];

fn owner(id: &str, ip: &str) -> IpAllocation {
    IpAllocation { allocation_id: id.into(), ip: Address::new(ip), node_name: "node-b".into(), ..IpAllocation::default() }
}

#[test]
fn a_lost_document_is_rebuilt_from_live_owners_or_refused() {
    type Lose = fn(&mut Store);
    let lose: [(Lose, ReadError); 3] = [
        (Store::lose, ReadError::Missing),
        (|store| store.put(&PoolConfigMap { data: None, ..store.object().unwrap() }), ReadError::Missing),
        (|store| store.set_text("{\"availableIPs\":[\"10.0.0.3\"],\"version\":9}"), ReadError::NullMap),
    ];
    for (lose, kind) in lose {
        let bed = Bed::recovered(Policy::hardened(), &POOL);
        bed.allocate(&bed.process(), "a").unwrap();
        bed.store(lose);
        let lost = bed.store(|store| (store.object(), store.objects.revision()));
        bed.log();

        // The owners are unknown: nothing is written.
        *bed.owners.0.lock().unwrap() = None;
        let pool = bed.process();
        assert!(matches!(bed.allocate(&pool, "b"), Err(PoolError::Owners(_))));
        assert!(matches!(bed.release(&pool, "a"), Err(PoolError::Owners(_))));
        assert!(matches!(bed.recover(&pool), Err(PoolError::Owners(_))));
        let status = bed.env.block_on(async { pool.status(Context::BACKGROUND).await }).result;
        assert_eq!(status, Err(PoolError::Reading(kind)));
        assert_eq!(bed.store(|store| (store.object(), store.objects.revision())), lost);
        assert!(bed.log().chars().all(|request| request == 'G'));

        // Now they are known.
        bed.know(vec![owner("a", "10.0.0.1"), owner("c", "10.0.0.2")]);
        assert_eq!(bed.allocate(&pool, "b").unwrap(), "10.0.0.3");
        assert_eq!(bed.holders().into_iter().map(|(id, _)| id).collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}

#[test]
fn a_document_that_is_lost_between_read_and_write_is_rebuilt() {
    let bed = Bed::recovered(Policy::hardened(), &POOL);
    bed.know(vec![owner("a", "10.0.0.1")]);
    let mut once = true;
    bed.script(move |letter, store| {
        if letter == "P" && std::mem::take(&mut once) {
            store.lose();
        }
        Act::Serve
    });
    bed.allocate(&bed.process(), "b").unwrap();
    assert_eq!(bed.log(), "GGPGGCPGP");
    assert_eq!(bed.holders().into_iter().map(|(id, _)| id).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_create_that_is_held_up_brings_no_former_owners_back() {
    let bed = Bed::recovered(Policy::hardened(), &POOL);
    bed.store(Store::lose);
    // While the create is on its way, another process makes the document and uses it, and it is lost again.
    let owners = bed.owners.clone();
    bed.script(move |letter, _| {
        if letter == "C" {
            *owners.0.lock().unwrap() = Some(vec![owner("later", "10.0.0.2")]);
        }
        Act::Serve
    });
    bed.know(vec![owner("former", "10.0.0.1")]);
    bed.recover(&bed.process()).unwrap();
    assert_eq!(bed.holders().into_iter().map(|(id, _)| id).collect::<Vec<_>>(), ["later"]);
}

#[test]
fn a_lost_document_is_an_empty_pool_upstream() {
    let bed = Bed::recovered(Policy::upstream(), &POOL);
    bed.allocate(&bed.process(), "a").unwrap();
    bed.store(Store::lose);
    assert_eq!(bed.env.block_on(async { bed.process().status(Context::BACKGROUND).await }).result.unwrap().available, 3);
    bed.allocate(&bed.process(), "b").unwrap();
    assert_eq!(bed.holders().len(), 1);
}

#[test]
fn an_unreadable_document_is_never_written_over_but_by_upstreams_recovery() {
    for text in ["", "{", "{\"version\":\"x\"}", "[]"] {
        let bed = Bed::recovered(Policy::hardened(), &POOL);
        bed.allocate(&bed.process(), "a").unwrap();
        bed.store(|store| store.set_text(text));
        bed.log();
        let pool = bed.process();
        let unreadable = |error: PoolError| matches!(error, PoolError::Reading(ReadError::Unreadable(_)));
        assert!(unreadable(bed.allocate(&pool, "a").unwrap_err()));
        assert!(unreadable(bed.release(&pool, "a").unwrap_err()));
        assert!(unreadable(bed.recover(&pool).unwrap_err()));
        assert_eq!(bed.log(), "GGG");

        let bed = Bed::recovered(Policy::upstream(), &POOL);
        bed.allocate(&bed.process(), "a").unwrap();
        bed.store(|store| store.set_text(text));
        assert!(unreadable(bed.allocate(&bed.process(), "b").unwrap_err()));
        bed.recover(&bed.process()).unwrap();
        assert_eq!((bed.holders().len(), bed.document().available.len(), bed.document().version), (0, 3, 1));
    }
}

#[test]
fn a_failed_read_makes_upstreams_recovery_erase_the_pool_and_hardened_try_again() {
    for policy in [Policy::upstream(), Policy::hardened()] {
        let bed = Bed::recovered(policy, &POOL);
        bed.allocate(&bed.process(), "a").unwrap();
        bed.log();
        let mut once = true;
        let timeout = || ApiError::from(Status::new(Reason::Timeout, ""));
        bed.script(move |_, _| if std::mem::take(&mut once) { Act::Fail(timeout()) } else { Act::Serve });
        bed.recover(&bed.process()).unwrap();
        if policy == Policy::upstream() {
            assert_eq!((bed.log().as_str(), bed.holders().len(), bed.document().version), ("G!GP", 0, 1));
        } else {
            assert_eq!((bed.log().as_str(), bed.holders().len(), bed.document().version), ("G!G", 1, 3));
        }
    }
}

#[test]
fn a_null_map_makes_upstream_panic() {
    let bed = Bed::recovered(Policy::upstream(), &POOL);
    bed.store(|store| store.set_text("{\"availableIPs\":[\"10.0.0.3\"]}"));
    bed.recover(&bed.process()).unwrap();
    assert!(bed.document().to_text().starts_with("{\n  \"allocatedIPs\": null,"));
    assert_eq!(bed.allocate(&bed.process(), "a"), Err(PoolError::Panic));
}

#[test]
fn other_entries_and_metadata_survive_a_write() {
    for policy in [Policy::upstream(), Policy::hardened()] {
        let bed = Bed::recovered(policy, &POOL);
        bed.store(|store| {
            let mut object = store.object().unwrap();
            object.metadata.annotations.get_or_insert_default().insert("note".into(), "keep".into());
            object.data.as_mut().unwrap().others.insert("other".into(), "keep".into());
            store.put(&object);
        });
        bed.allocate(&bed.process(), "a").unwrap();
        let object = bed.store(|store| store.object().unwrap());
        assert_eq!(object.metadata.annotations.unwrap()["note"], "keep");
        assert_eq!(object.metadata.labels.unwrap()["app.kubernetes.io/component"], "byom-ip-pool-state");
        assert_eq!(object.data.unwrap().others["other"], "keep");
    }
}

#[test]
fn an_address_that_left_the_configuration_is_not_offered_again() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let mut bed = Bed::recovered(policy, &["10.0.0.1"]);
        let pool = bed.process();
        bed.allocate(&pool, "a").unwrap();
        bed.addresses = vec!["10.0.0.2".to_owned()];
        let pool = bed.process();
        bed.recover(&pool).unwrap();
        assert!(matches!(bed.release(&pool, "a"), Ok(Released::Freed(_))));
        let available: Vec<String> = bed.document().available.iter().map(Address::to_string).collect();
        if policy == Policy::hardened() {
            assert_eq!(available, ["10.0.0.2"]);
        } else {
            assert_eq!(available, ["10.0.0.2", "10.0.0.1"]);
        }
    }
}

#[test]
fn another_spelling_is_the_same_address_only_in_the_hardened_form() {
    let text = r#"{"allocatedIPs":{"a":{"allocationID":"a","ip":"::ffff:10.0.0.1","nodeName":"n","podName":"p","allocatedAt":null}},
        "availableIPs":[],"lastUpdated":null,"version":1}"#;
    for (policy, available, holder) in [(Policy::hardened(), 2, Some("a")), (Policy::upstream(), 3, None)] {
        let bed = Bed::recovered(policy, &POOL);
        bed.store(|store| store.set_text(text));
        let pool = bed.process();
        bed.recover(&pool).unwrap();
        assert_eq!(bed.document().available.len(), available);
        let found = bed.env.block_on(async { pool.holder_of(&Address::new("10.0.0.1"), Context::BACKGROUND).await });
        assert_eq!(found.result.unwrap().as_deref(), holder);
    }
}

#[test]
fn without_a_node_name_nothing_is_written() {
    for policy in [Policy::hardened(), Policy::upstream()] {
        let bed = Bed::recovered(policy, &POOL);
        let pool = bed.process_with(|settings| settings.node = None);
        assert_eq!(bed.allocate(&pool, "a"), Err(PoolError::NoNodeName));
        assert_eq!(bed.recover(&pool), Err(PoolError::NoNodeName));
        assert!(!bed.log().contains('P'));
    }
}
