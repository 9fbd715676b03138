//! Conservation: every address of a subnet is free, pre-allocated once, or in a pool that is being taken down, whoever crashes when.

use std::collections::BTreeSet;
use std::net::IpAddr;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::model::{App, Failed, Model, application, demand, recorded};
use crate::Policy;
use crate::subnet::{Plan, Refusal, Write};

const LAST: u8 = 24;

/// An event that concerns workloads, pools, or their writers.
#[derive(Clone, Debug)]
enum Event {
    /// A workload asks for a pool of another size.
    Scale {
        app: usize,
        size: u64,
    },
    /// A workload is deleted, and its pools with it.
    Remove {
        app: usize,
    },
    /// A workload of the same name is created.
    Recreate {
        app: usize,
        size: u64,
    },
    /// A writer reconciles the pool of a workload, and crashes after this many writes.
    Reconcile {
        app: usize,
        draw: Option<u64>,
        writes: usize,
    },
    /// A writer decides what to write, and is paused after this many writes.
    Decide {
        app: usize,
        writes: usize,
    },
    /// The paused writer resumes.
    Resume {
        writes: usize,
    },
    /// The subnet's upkeep runs; whatever pools lack, they have lacked it for long, or not.
    Upkeep {
        writes: usize,
        left: bool,
    },
    /// Pools that nobody needs are deleted.
    Reclaim,
    /// A pod gets an address.
    Record {
        pool: usize,
    },
    /// A pod gives its address back.
    Release {
        pool: usize,
        index: usize,
    },
    /// A user makes or deletes a pool by hand.
    UserMakes {
        first: u8,
        more: u8,
    },
    UserDeletes,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let (app, size, writes) = (0usize..3, 0u64..10, 0usize..3);
    let event = prop_oneof![
        2 => (app.clone(), size.clone()).prop_map(|(app, size)| Event::Scale { app, size }),
        1 => app.clone().prop_map(|app| Event::Remove { app }),
        1 => (app.clone(), size).prop_map(|(app, size)| Event::Recreate { app, size }),
        6 => (app.clone(), prop::option::of(any::<u64>()), writes.clone())
            .prop_map(|(app, draw, writes)| Event::Reconcile { app, draw, writes }),
        1 => (app, 0usize..2).prop_map(|(app, writes)| Event::Decide { app, writes }),
        1 => writes.clone().prop_map(|writes| Event::Resume { writes }),
        3 => (writes, any::<bool>()).prop_map(|(writes, left)| Event::Upkeep { writes, left }),
        2 => Just(Event::Reclaim),
        5 => (0usize..4).prop_map(|pool| Event::Record { pool }),
        3 => ((0usize..4), 0usize..8).prop_map(|(pool, index)| Event::Release { pool, index }),
        1 => (1u8..LAST, 0u8..5).prop_map(|(first, more)| Event::UserMakes { first, more: more.min(LAST - first) }),
        1 => Just(Event::UserDeletes),
    ];
    prop::collection::vec(event, 1..60)
}

/// Checks the invariants that hold at every moment.
fn check(model: &Model) -> Result<(), TestCaseError> {
    let (set_aside, held) = (model.set_aside(), model.held());
    let all: BTreeSet<IpAddr> = (1..=LAST).map(super::model::ip).collect();
    let once = |parts: &mut dyn Iterator<Item = &BTreeSet<IpAddr>>| {
        let mut seen = BTreeSet::new();
        parts.flatten().all(|ip| seen.insert(*ip) && all.contains(ip))
    };
    prop_assert!(once(&mut set_aside.values()), "an address is set aside twice: {set_aside:?}");
    prop_assert!(once(&mut held.values()), "two pools have an address: {held:?}");
    for (name, pool) in &model.pools {
        prop_assert!(recorded(pool).is_subset(&held[name]), "{name} has a record of an address that it has not");
        if crate::select::is_auto_pool(pool) {
            let own = set_aside.get(name).cloned().unwrap_or_default();
            prop_assert!(held[name].is_subset(&own), "{name} has {:?}, and {own:?} is set aside for it", held[name]);
        }
    }
    let counted = model.subnet.status.as_ref().and_then(|status| status.allocated_ip_count).unwrap_or(0);
    prop_assert_eq!(counted, set_aside.values().map(BTreeSet::len).sum::<usize>() as i64);
    Ok(())
}

fn happen(model: &mut Model, event: &Event, paused: &mut Option<Plan>) -> Result<(), TestCaseError> {
    let name = |model: &Model, index: usize| model.pools.keys().nth(index).cloned().unwrap_or_default();
    match event {
        Event::Scale { app, size } => {
            if let Some(of_app) = &mut model.apps[*app].demand {
                *of_app = demand(*size);
            }
        }
        Event::Remove { app } => model.apps[*app].demand = None,
        Event::Recreate { app, size } => {
            let App { application: old, .. } = &model.apps[*app];
            let incarnation = old.uid[4..].parse::<u32>().unwrap() + 10;
            model.apps[*app] = App { application: application(&old.name.name.clone(), incarnation), demand: Some(demand(*size)) };
        }
        Event::Reconcile { app, draw, writes } => {
            if let Ok(plan) = model.plan(*app, *draw) {
                match model.carry_out(&plan, *writes) {
                    Ok(()) => {}
                    Err(Failed::Conflict) => prop_assert!(false, "nobody else wrote"),
                    // A user's pool that the subnet does not know of yet may be in the way.
                    Err(Failed::Denied(denial)) => prop_assert!(false, "admission refuses a plan: {denial}"),
                }
            }
        }
        Event::Decide { app, writes } => {
            *paused = model.plan(*app, None).ok();
            // A write that creates a pool has no version to compare, so it cannot be fenced off.
            let resumable = |plan: &&mut Plan| !plan.writes.iter().any(|write| matches!(write, Write::Create(_)));
            if let Some(plan) = paused.as_mut().filter(resumable) {
                prop_assert_eq!(model.carry_out(plan, *writes), Ok(()));
                plan.writes.drain(..plan.writes.len().min(*writes));
            }
        }
        Event::Resume { writes } => {
            // It may conflict and may be refused: it was decided on an old state.
            let _ = paused.take().map(|plan| model.carry_out(&plan, *writes));
        }
        Event::Upkeep { writes, left } => {
            let upkeep = model.upkeep_of_left(*left);
            prop_assert_eq!(model.carry_out_upkeep(&upkeep, *writes), Ok(()));
        }
        Event::Reclaim => model.reclaim(),
        Event::Record { pool } => model.record(&name(model, *pool)),
        Event::Release { pool, index } => model.release(&name(model, *pool), *index),
        Event::UserMakes { first, more } => {
            let _ = model.user_makes("user", &format!("10.0.0.{first}-10.0.0.{}", first + more));
        }
        Event::UserDeletes => model.delete_pool("user"),
    }
    Ok(())
}

/// Runs all writers until nothing is left to write.
fn settle(model: &mut Model) -> Result<(), TestCaseError> {
    for _ in 0..100 {
        let before = (model.set_aside(), model.held());
        model.reclaim();
        let upkeep = model.upkeep();
        prop_assert_eq!(model.carry_out_upkeep(&upkeep, 9), Ok(()));
        for app in 0..model.apps.len() {
            if let Ok(plan) = model.plan(app, None) {
                prop_assert_eq!(model.carry_out(&plan, 9), Ok(()));
            }
        }
        check(model)?;
        if model.upkeep().is_empty() && before == (model.set_aside(), model.held()) {
            return Ok(());
        }
    }
    prop_assert!(false, "it never settles");
    Ok(())
}

#[test]
fn what_is_being_given_back_is_held_before_its_pool_gets_it_again() {
    let mut model = Model::new(LAST, Policy::hardened()).with_app("a", 4);
    let carry_out = |model: &mut Model, size| {
        model.apps[0].demand = Some(demand(size));
        let plan = model.plan(0, None).unwrap();
        (plan.clone(), model.carry_out(&plan, if size == 3 { 1 } else { 9 }))
    };
    carry_out(&mut model, 4).1.unwrap();
    // The pool has lost an address, and the write of the subnet is under way.
    let (mut late, _) = carry_out(&mut model, 3);
    late.writes.remove(0);
    let mut in_time = model.clone();

    let (plan, done) = carry_out(&mut model, 4);
    assert!(matches!(plan.writes[..], [Write::Hold(_), Write::Update(_)]) && !plan.again, "{plan:?}");
    assert_eq!((done, model.carry_out(&late, 9)), (Ok(()), Err(Failed::Conflict)));
    check(&model).unwrap();

    // If it comes before, the other one is refused.
    assert_eq!((in_time.carry_out(&late, 9), in_time.carry_out(&plan, 9)), (Ok(()), Err(Failed::Conflict)));
    check(&in_time).unwrap();
    let (plan, done) = carry_out(&mut in_time, 4);
    assert!(matches!(plan.writes[..], [Write::Subnet(_), Write::Update(_)]) && done.is_ok(), "{plan:?}");
    check(&in_time).unwrap();
}

#[test]
fn what_is_set_aside_is_held_before_its_pool_is_made_and_the_rest_goes_back() {
    let mut model = Model::new(LAST, Policy::hardened()).with_app("a", 4);
    let begun = model.plan(0, None).unwrap();
    assert!(matches!(begun.writes[..], [Write::Subnet(_), Write::Create(_)]), "{begun:?}");
    model.carry_out(&begun, 1).unwrap();
    model.apps[0].demand = Some(demand(3));
    let plan = model.plan(0, None).unwrap();
    assert!(matches!(plan.writes[..], [Write::Hold(_), Write::Create(_)]) && plan.again, "{plan:?}");
    model.carry_out(&plan, 9).unwrap();
    settle(&mut model).unwrap();
    assert_eq!((model.set_aside(), model.held().values().map(BTreeSet::len).sum()), (model.held(), 3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_address_is_lost_or_set_aside_twice(events in events()) {
        let mut model = Model::new(LAST, Policy::hardened()).with_app("a", 3).with_app("b", 3).with_app("c", 3);
        let mut paused = None;
        for event in &events {
            happen(&mut model, event, &mut paused)?;
            check(&model)?;
        }
        // Pods are deleted, so nothing that should shrink is in use.
        for name in model.pools.keys().cloned().collect::<Vec<_>>() {
            for _ in 0..LAST {
                model.release(&name, 0);
            }
        }
        settle(&mut model)?;
        let (set_aside, held) = (model.set_aside(), model.held());
        prop_assert_eq!(&set_aside, &held, "what is set aside is what pools have");
        for (index, app) in model.apps.iter().enumerate() {
            let Some(demand) = &app.demand else { continue };
            let has = model.pool_of(app, demand).map(|pool| held[pool.metadata.name.as_ref().unwrap()].len() as u64);
            match model.plan(index, None) {
                Ok(_) => prop_assert_eq!(has, Some(demand.size)),
                Err(refusal) => prop_assert!(matches!(refusal, Refusal::Insufficient { .. }), "{}", refusal),
            }
        }
        let used: usize = held.values().map(BTreeSet::len).sum();
        let short = (0..model.apps.len()).any(|app| model.plan(app, None).is_err());
        let wanted: u64 = model.apps.iter().filter_map(|app| app.demand.as_ref()).map(|demand| demand.size).sum();
        let of_user = held.get("user").map_or(0, BTreeSet::len);
        prop_assert!(!short || wanted as usize + of_user > LAST as usize, "{} in use, {} wanted", used, wanted);
    }
}
