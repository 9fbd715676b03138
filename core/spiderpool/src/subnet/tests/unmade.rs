//! Pre-allocations of pools that do not exist: who may still make the pool, and when they are given back (A W21).

use std::sync::Arc;

use super::model::{Model, application, demand};
use crate::Policy;
use crate::subnet::{Application, ApplicationName, Census, Fate, upkeep};

/// Whether `pool` keeps a pre-allocation after the subnet's upkeep; `left`: it has been unused for long.
fn stays(model: &Model, pool: &str, fate: &Fate, left: bool) -> bool {
    looked_after(model, fate, left).set_aside().contains_key(pool)
}

fn looked_after(model: &Model, fate: &Fate, left: bool) -> Model {
    let mut model = model.clone();
    let pools: Vec<_> = model.pools.values().cloned().collect();
    let fate = |_: &ApplicationName| fate.clone();
    // First the subnet gets its label.
    for _ in 0..2 {
        let writes = upkeep(&Census { subnet: &model.subnet, pools: &pools, fate: &fate, is_left: &|_, _| left }, &model.policy);
        model.carry_out_upkeep(&writes, 9).unwrap();
    }
    model
}

fn own_name(model: &Model, app: &Application) -> String {
    app.pool_name("eth0", crate::ranges::IpVersion::V4, &model.policy)
}

#[test]
fn what_a_workload_asked_for_and_does_not_any_more_goes_back_when_no_creation_can_be_on_its_way() {
    let mut model = Model::new(10, Policy::hardened()).with_app("a", 3);
    let plan = model.plan(0, None).unwrap();
    model.carry_out(&plan, 1).unwrap();
    let (app, pool) = (model.apps[0].application.clone(), own_name(&model, &model.apps[0].application));
    let there = |wants| Fate::There { uid: app.uid.clone(), wants };
    // By the fate of the workload: at once, and after a long time.
    for (fate, stays_for) in [
        (there(Some(vec![demand(3)])), [true, true]),
        (there(Some(Vec::new())), [true, false]),
        (there(None), [true, true]),
        (Fate::There { uid: "uid-00077".to_owned(), wants: Some(vec![demand(3)]) }, [false, false]),
        (Fate::Gone, [false, false]),
        (Fate::Unknown, [true, true]),
    ] {
        assert_eq!([false, true].map(|left| stays(&model, &pool, &fate, left)), stays_for, "{fate:?}");
    }
}

#[test]
fn what_a_pool_lacks_goes_back_when_its_workload_has_not_asked_for_the_pool_for_long() {
    let mut model = Model::new(10, Policy::hardened()).with_app("a", 3);
    let plan = model.plan(0, None).unwrap();
    model.carry_out(&plan, 9).unwrap();
    model.apps[0].demand = Some(demand(5));
    let plan = model.plan(0, None).unwrap();
    model.carry_out(&plan, 1).unwrap();
    let (app, pool) = (model.apps[0].application.clone(), own_name(&model, &model.apps[0].application));
    let there = |wants| Fate::There { uid: app.uid.clone(), wants };
    for (fate, counts) in [
        (there(Some(vec![demand(5)])), [5, 5]),
        (there(Some(Vec::new())), [5, 3]),
        (there(None), [5, 5]),
        (Fate::Unknown, [5, 5]),
        (Fate::Gone, [3, 3]),
    ] {
        assert_eq!([false, true].map(|left| looked_after(&model, &fate, left).set_aside()[&pool].len()), counts, "{fate:?}");
    }
}

#[test]
fn a_workload_that_has_another_pool_by_now_does_not_keep_what_is_set_aside_for_its_own() {
    let mut model = Model::new(10, Policy::hardened()).with_app("a", 3);
    model.apps[0].demand.as_mut().unwrap().reclaim = false;
    let plan = model.plan(0, None).unwrap();
    model.carry_out(&plan, 9).unwrap();
    // The next incarnation takes the pool that this one has left.
    model.apps[0].application = application("a", 7);
    let plan = model.plan(0, None).unwrap();
    model.carry_out(&plan, 9).unwrap();
    assert_eq!(model.pools.len(), 1, "{:?}", model.pools.keys());
    let app = model.apps[0].application.clone();
    let pool = own_name(&model, &app);
    let entries = model.subnet.status.as_mut().unwrap().controlled_ippools.make_mut().unwrap();
    let entry = crate::PoolIPPreAllocation { ips: vec!["10.0.0.9".to_owned()], application: Some(app.name.key()) };
    entries.insert(pool.clone(), entry);
    let fate = Fate::There { uid: app.uid.clone(), wants: Some(vec![demand(3)]) };
    assert_eq!([false, true].map(|left| stays(&model, &pool, &fate, left)), [true, false]);
    // A pool in deletion is not another pool.
    let mut ending = model.clone();
    let (name, mut other) = ending.pools.pop_first().map(|(name, pool)| (name, Arc::unwrap_or_clone(pool))).unwrap();
    other.metadata.deletion_timestamp = Some(serde_json::from_value(serde_json::json!("2026-01-05T09:00:00Z")).unwrap());
    ending.pools.insert(name, Arc::new(other));
    assert_eq!([false, true].map(|left| stays(&ending, &pool, &fate, left)), [true, true]);
}
